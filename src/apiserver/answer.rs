//! What the server answers: a whole response, and each failure as the `Status` that kube-apiserver sends.
//!
//! This `Status` is for writing, with the fields that kube-apiserver leaves out left out; `object::Status` is for
//! reading whatever came.

use std::borrow::Cow;

use serde::Serialize;

use super::kinds::Kind;

/// A whole answer.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) code: u16,
    pub(super) content_type: Cow<'static, str>,
    pub(super) body: Vec<u8>,
    pub(super) retry_after: Option<u64>,
}

impl Response {
    pub(super) fn json(code: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { code, content_type: "application/json".into(), body: body.into(), retry_after: None }
    }

    pub(super) fn text(code: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { content_type: "text/plain; charset=utf-8".into(), ..Self::json(code, body) }
    }

    /// A path that nothing serves.
    pub(super) fn no_page() -> Self {
        Self::text(404, "404 page not found\n")
    }
}

impl From<Failure> for Response {
    fn from(failure: Failure) -> Self {
        let body = serde_json::to_vec(&failure.0).unwrap_or_default();
        let retry_after = failure.0.details.as_ref().map(|d| d.retry_after_seconds).filter(|s| *s > 0);
        Self { retry_after, ..Self::json(failure.0.code, body) }
    }
}

/// A request that cannot be done.
#[derive(Debug)]
pub(super) struct Failure(Box<Status>);

pub(super) type Outcome<T> = Result<T, Failure>;

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    kind: &'static str,
    api_version: &'static str,
    metadata: Meta,
    status: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    #[serde(skip_serializing_if = "is_zero")]
    code: u16,
}

#[derive(Debug, Default, Serialize)]
struct Meta {
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    continue_token: String,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<Cause>,
    #[serde(skip_serializing_if = "is_zero64")]
    retry_after_seconds: u64,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Cause {
    reason: &'static str,
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    field: String,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the form that serde asks for
fn is_zero(number: &u16) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero64(number: &u64) -> bool {
    *number == 0
}

impl Cause {
    /// A value that is not allowed: `value` is as people write it, texts in quotes.
    pub(super) fn invalid(field: impl Into<String>, value: &str, why: impl AsRef<str>) -> Self {
        let message = format!("Invalid value: {value}: {}", why.as_ref());
        Self { reason: "FieldValueInvalid", message, field: field.into() }
    }

    pub(super) fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() { "Required value".into() } else { format!("Required value: {why}") };
        Self { reason: "FieldValueRequired", message, field: field.into() }
    }

    pub(super) fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self { reason: "FieldValueForbidden", message: format!("Forbidden: {why}"), field: field.into() }
    }

    pub(super) fn type_invalid(field: impl Into<String>, value: &str, why: &str) -> Self {
        Self { reason: "FieldValueTypeInvalid", ..Self::invalid(field, value, why) }
    }

    pub(super) fn not_supported(field: impl Into<String>, value: &str, allowed: &str) -> Self {
        let message = format!("Unsupported value: {value}: supported values: {allowed}");
        Self { reason: "FieldValueNotSupported", message, field: field.into() }
    }

    /// A text that is too long, or a list that is.
    pub(super) fn too_much(field: impl Into<String>, reason: &'static str, message: String) -> Self {
        Self { reason, message, field: field.into() }
    }

    fn manager_conflict(manager: &str, field: String) -> Self {
        Self { reason: "FieldManagerConflict", message: format!("conflict with {manager}"), field }
    }
}

impl Failure {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let (kind, api_version, status) = ("Status", "v1", "Failure");
        let message = message.into();
        Self(Box::new(Status { kind, api_version, status, message, reason, code, ..Status::default() }))
    }

    fn details(mut self, details: Details) -> Self {
        self.0.details = Some(details);
        self
    }

    /// About one object; `kind` is the plural.
    fn about(self, kind: &Kind, name: &str) -> Self {
        let (name, group, kind) = (name.into(), kind.group.clone(), kind.plural.clone());
        self.details(Details { name, group, kind, ..Details::default() })
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(super) fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        Self::new(403, "Forbidden", format!("{} \"{name}\" is forbidden: {why}", kind.id())).about(kind, name)
    }

    /// Tells programs why it is forbidden: client-go's `NamespaceTerminatingCause`.
    pub(super) fn terminating(mut self, namespace: &str) -> Self {
        if let Some(details) = &mut self.0.details {
            details.causes.push(Cause {
                reason: "NamespaceTerminating",
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".into(),
            });
        }
        self
    }

    pub(super) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", kind.id())).about(kind, name)
    }

    /// A subresource or verb that the resource has not.
    pub(super) fn no_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .details(Details::default())
    }

    pub(super) fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
            .details(Details::default())
    }

    pub(super) fn not_acceptable() -> Self {
        let message = "406: Not Acceptable\n\nAvailable representations: application/json, \
            application/json;stream=watch";
        Self::new(406, "NotAcceptable", message).details(Details::default())
    }

    pub(super) fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", kind.id())).about(kind, name)
    }

    pub(super) fn conflict(kind: &Kind, name: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": the object has been modified; \
             please apply your changes to the latest version and try again",
            kind.id()
        );
        Self::new(409, "Conflict", message).about(kind, name)
    }

    /// A precondition on a uid or a resourceVersion; names the kind where others name the plural, as the real one.
    pub(super) fn precondition(kind: &Kind, name: &str, what: &str, wanted: &str, found: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": the {what} in the precondition ({wanted}) does not \
             match the {what} in record ({found}). The object might have been {}",
            kind.kind_id(),
            if what == "UID" { "deleted and then recreated" } else { "modified" }
        );
        Self::new(409, "Conflict", message).details(Details {
            name: name.into(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            ..Details::default()
        })
    }

    /// A replace of an object that is another one by now.
    pub(super) fn other_uid(kind: &Kind, name: &str, wanted: &str, found: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": Precondition failed: UID in precondition: {wanted}, \
             UID in object meta: {found}",
            kind.id()
        );
        Self::new(409, "Conflict", message).about(kind, name)
    }

    /// Server-side apply found fields of others: (`"manager"`, field as `.data.a`).
    pub(super) fn apply_conflict(conflicts: Vec<(String, String)>) -> Self {
        let count = conflicts.len();
        let texts: Vec<_> =
            conflicts.iter().map(|(who, field)| format!("conflict with {who}: {field}")).collect();
        let plural = if count == 1 { "conflict" } else { "conflicts" };
        let message = format!("Apply failed with {count} {plural}: {}", texts.join("\n"));
        let causes = conflicts.into_iter().map(|(who, field)| Cause::manager_conflict(&who, field)).collect();
        Self::new(409, "Conflict", message).details(Details { causes, ..Details::default() })
    }

    /// 410 for a list; with a token to go on with, inconsistently, where a continue token was too old.
    pub(super) fn expired(message: &str, continue_token: String) -> Self {
        let mut failure = Self::new(410, "Expired", message);
        failure.0.metadata.continue_token = continue_token;
        failure
    }

    /// 410 for a watch: sent as an event.
    pub(super) fn too_old(asked: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {asked} ({oldest})"))
    }

    pub(super) fn body_too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub(super) fn unsupported_media(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// A body as kubectl's own generators send it, with what to do instead: kubectl shows the message.
    pub(super) fn protobuf() -> Self {
        let Self(mut status) = Self::unsupported_media("application/json");
        status.message += "; the embedded server reads no protobuf: pipe the command with --dry-run=client -o yaml into \
            kubectl apply -f -; in Go, set rest.Config.ContentType to application/json";
        Self(status)
    }

    /// A patch of a kind that the resource does not take.
    pub(super) fn unsupported_patch() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").details(Details::default())
    }

    pub(super) fn invalid(kind: &Kind, name: &str, causes: Vec<Cause>) -> Self {
        Self::invalid_named(&kind.kind, &kind.group, name, causes)
    }

    /// Query parameters that do not go together.
    pub(super) fn invalid_options(kind: &str, causes: Vec<Cause>) -> Self {
        Self::invalid_named(kind, "meta.k8s.io", "", causes)
    }

    pub(super) fn invalid_named(kind: &str, group: &str, name: &str, causes: Vec<Cause>) -> Self {
        let texts: Vec<_> = causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
        let list = if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) };
        let dot = if group.is_empty() { "" } else { "." };
        let message = format!("{kind}{dot}{group} \"{name}\" is invalid: {list}");
        let (name, group, kind) = (name.into(), group.into(), kind.into());
        Self::new(422, "Invalid", message).details(Details {
            name,
            group,
            kind,
            causes,
            ..Details::default()
        })
    }

    /// A JSON patch that cannot be applied.
    pub(super) fn patch_failed() -> Self {
        Self::new(422, "Invalid", "the server rejected our request due to an error in our request")
            .details(Details::default())
    }

    /// A resourceVersion of a list that is no number.
    pub(super) fn bad_list_version(text: &str) -> Self {
        let Status { message, .. } = *Self::bad_version(text).0;
        Self::bad_request(format!("invalid resource version: {message}"))
    }

    /// What the real server answers 500 to, without a reason.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// kube-apiserver answers 500 to a resourceVersion of a watch that is no number.
    pub(super) fn bad_version(text: &str) -> Self {
        let message = format!(
            "resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
        );
        Self::new(500, "", message)
    }

    pub(super) fn version_too_large(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let cause = Cause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".into(),
            field: String::new(),
        };
        Self::new(504, "Timeout", message).details(Details {
            causes: vec![cause],
            retry_after_seconds: 1,
            ..Details::default()
        })
    }

    /// A request that is no HTTP.
    pub(super) fn bad_http(code: u16, message: &str) -> Self {
        Self::new(code, "BadRequest", message)
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(&self.0).unwrap_or_default()
    }
}

/// The `Status` that a delete answers with.
pub(super) fn success(kind: &Kind, name: &str, uid: &str) -> String {
    let status = Status {
        kind: "Status",
        api_version: "v1",
        status: "Success",
        details: Some(Details {
            name: name.into(),
            group: kind.group.clone(),
            kind: kind.plural.clone(),
            uid: uid.into(),
            ..Details::default()
        }),
        ..Status::default()
    };
    serde_json::to_string(&status).unwrap_or_default()
}
