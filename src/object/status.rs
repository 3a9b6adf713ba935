use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{cut, nullable};

/// The API server's answer to what it could not do, and to a delete.
///
/// As `Status` in apimachinery's `meta/v1`. Where the answer was no `Status` (HTML of a proxy, plain text), one is
/// made of the HTTP code and the beginning of the body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// `Success` or `Failure`.
    #[serde(deserialize_with = "nullable")]
    pub status: String,
    /// For people.
    #[serde(deserialize_with = "nullable")]
    pub message: String,
    /// For programs: `NotFound`, `Conflict`, `Expired`, …; may be empty.
    #[serde(deserialize_with = "nullable")]
    pub reason: String,
    /// The HTTP code; 0 where the server left it out of an event.
    #[serde(deserialize_with = "nullable")]
    pub code: u16,
    /// More about it.
    #[serde(deserialize_with = "nullable")]
    pub details: StatusDetails,
    /// Only `continue` is kept: with a 410 of a paged list it allows to go on, inconsistently.
    #[serde(deserialize_with = "nullable", skip_serializing)]
    pub metadata: StatusMeta,
}

/// What a [`Status`] is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    /// Name of the object.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// Group of the kind.
    #[serde(deserialize_with = "nullable")]
    pub group: String,
    /// The kind, or the plural where the server writes that.
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    /// Uid of the object.
    #[serde(deserialize_with = "nullable")]
    pub uid: String,
    /// Each thing that is wrong.
    #[serde(deserialize_with = "nullable")]
    pub causes: Vec<StatusCause>,
    /// When to try again, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusCause {
    /// For programs: `FieldValueInvalid`, `FieldManagerConflict`, …
    #[serde(deserialize_with = "nullable")]
    pub reason: String,
    /// For people.
    #[serde(deserialize_with = "nullable")]
    pub message: String,
    /// Which field: `spec.replicas`.
    #[serde(deserialize_with = "nullable")]
    pub field: String,
}

/// The metadata of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusMeta {
    /// With a 410: a token to go on with, at the price of consistency.
    #[serde(rename = "continue", deserialize_with = "nullable")]
    pub continue_token: String,
}

/// Reasons of apimachinery's `meta/v1` that decide over the code. Any other reason leaves the decision to the code.
const KNOWN_REASONS: [&str; 20] = [
    "Unauthorized",
    "Forbidden",
    "NotFound",
    "AlreadyExists",
    "Conflict",
    "Gone",
    "Invalid",
    "ServerTimeout",
    "StoreReadError",
    "Timeout",
    "TooManyRequests",
    "BadRequest",
    "MethodNotAllowed",
    "NotAcceptable",
    "RequestEntityTooLarge",
    "UnsupportedMediaType",
    "InternalError",
    "Expired",
    "ServiceUnavailable",
    "UnsupportedContentEncoding",
];

impl Status {
    /// The start of the message that old servers send for a resourceVersion that lies in their future.
    const TOO_LARGE: &str = "Too large resource version";

    /// A failure that the server did not put into words as a `Status`: code and the beginning of what it sent.
    #[must_use]
    pub fn from_code(code: u16, body: &str) -> Self {
        const LONGEST: usize = 512;
        let message = match cut(body.trim(), LONGEST) {
            ("", _) => format!("the server answered {code} without a message"),
            (text, more) => format!("the server answered {code}: {text}{more}"),
        };
        Self { status: "Failure".into(), message, code, ..Self::default() }
    }

    /// The failure that an answer with `code` and `body` tells: the body if it is a `Status`, else made of both.
    #[must_use]
    pub fn from_body(code: u16, body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) if value.get("kind").is_some_and(|kind| kind == "Status") => {
                let mut status = Self::from_damaged(value);
                if status.code == 0 {
                    status.code = code;
                }
                status
            }
            _ => Self::from_code(code, &String::from_utf8_lossy(body)),
        }
    }

    /// A status in whatever shape it came: the object of an `ERROR` event has no schema that all writers keep to.
    pub(crate) fn from_damaged(value: Value) -> Self {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let code = match value.get("code") {
            Some(Value::String(code)) => code.parse().unwrap_or(0),
            code => code.and_then(Value::as_u64).and_then(|code| code.try_into().ok()).unwrap_or(0),
        };
        let status = match &value {
            Value::String(message) => Self { message: message.clone(), ..Self::default() },
            _ => Self { message: text("message"), reason: text("reason"), code, ..Self::default() },
        };
        let mut status = Self::deserialize(&value).unwrap_or(status);
        if words(&status.message).is_empty() && words(&status.reason).is_empty() && status.code == 0 {
            status.message = "the server told an error without saying which".into();
        }
        if status.status.is_empty() {
            status.status = "Failure".into();
        }
        status
    }

    /// Whether this says that something went wrong.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.status != "Success"
    }

    /// A resourceVersion or continue token that is too old: by reason, code or message, as any of them may be missing;
    /// the first that says anything decides.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        match (self.reason.as_str(), self.code) {
            ("Expired" | "Gone", _) => true,
            _ if self.has_known_reason() => false,
            (_, 410) => true,
            // Other codes of failures have a meaning of their own.
            (_, 0..400 | 500) => self.message.starts_with("too old resource version"),
            _ => false,
        }
    }

    /// A resourceVersion that lies in the server's future: by cause, or by message as servers before 1.17 send it.
    #[must_use]
    pub fn is_too_large_resource_version(&self) -> bool {
        let timeout = self.reason == "Timeout" || (self.code == 504 && !self.has_known_reason());
        let cause =
            |c: &StatusCause| c.reason == "ResourceVersionTooLarge" || c.message.starts_with(Self::TOO_LARGE);
        timeout && (self.details.causes.iter().any(cause) || self.message.contains(Self::TOO_LARGE))
    }

    /// When the server asks to be tried again, if it does; zero is at once. What the body says goes before the header
    /// `Retry-After`, unless it is zero, which is none there.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.details.retry_after_seconds.map(Duration::from_secs)
    }

    pub(crate) fn has_known_reason(&self) -> bool {
        KNOWN_REASONS.contains(&self.reason.as_str())
    }
}

/// The part of a text that says anything.
fn words(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || c.is_control())
}

/// The message, and what class of failure it is if the message does not say so.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (words(&self.message), words(&self.reason), self.code) {
            ("", "", code) => write!(f, "the server answered {code}"),
            ("", reason, 0) => f.write_str(reason),
            ("", reason, code) => write!(f, "{reason} ({code})"),
            (message, _, 0) => f.write_str(message),
            (message, "", code) if message.contains(&code.to_string()) => f.write_str(message),
            (message, "", code) => write!(f, "{message} ({code})"),
            (message, reason, code) => write!(f, "{message} ({code} {reason})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Status {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn expired_in_each_shape() {
        for json in [
            r#"{"code":410}"#,
            r#"{"reason":"Gone"}"#,
            r#"{"reason":"Expired","code":null,"details":null}"#,
            r#"{"message":"too old resource version: 1 (2)"}"#,
        ] {
            assert!(read(json).is_expired(), "{json}");
        }
        assert!(
            !read(r#"{"code":403,"reason":"Forbidden","message":"too old resource version"}"#).is_expired()
        );
    }

    #[test]
    fn too_large_resource_version_in_each_shape() {
        for json in [
            r#"{"code":504,"reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#,
            r#"{"code":504,"reason":"Timeout","details":{"causes":[{"message":"Too large resource version"}]}}"#,
            r#"{"code":504,"reason":"Timeout","message":"Timeout: Too large resource version: 9, current: 1"}"#,
        ] {
            assert!(read(json).is_too_large_resource_version(), "{json}");
        }
        assert!(!read(r#"{"code":504,"reason":"Timeout"}"#).is_too_large_resource_version());
    }

    #[test]
    fn a_blank_message_is_none() {
        let told = |json: &str| Status::from_damaged(serde_json::from_str(json).unwrap()).to_string();
        let nothing = "the server told an error without saying which";
        assert_eq!(told(r#"{"message":" \n\u0000","reason":" "}"#), nothing);
        assert_eq!(told(r#"" ""#), nothing);
        assert_eq!(told(r#"{"message":"\t","reason":"Gone","code":410}"#), "Gone (410)");
        assert_eq!(told(r#"{"message":" ","code":502}"#), "the server answered 502");
    }

    #[test]
    fn a_body_that_is_no_status_is_kept_in_part() {
        let long = "é".repeat(2000);
        let status = Status::from_code(502, &long);
        assert!(status.message.len() < 600 && status.message.ends_with('…'));
        assert!(status.to_string().starts_with("the server answered 502: é"));
        assert_eq!(Status::from_code(404, "").to_string(), "the server answered 404 without a message");
    }
}
