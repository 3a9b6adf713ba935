//! What holds for any answer that tells a failure: a line with the HTTP code, and the body.

use listwatch::wire::{Expect, WatchDecoder};
use listwatch::{Error, Object, Status};
use serde_json::{Value, json};

type Predicate = fn(&Error) -> bool;

/// What the API server can say, by reason and by code: an error is at most one of them.
const CLASSES: [(&str, u16, Predicate); 9] = [
    ("Unauthorized", 401, Error::is_unauthorized),
    ("Forbidden", 403, Error::is_forbidden),
    ("NotFound", 404, Error::is_not_found),
    ("Conflict", 409, Error::is_conflict),
    ("AlreadyExists", 0, Error::is_already_exists),
    ("Expired", 410, Error::is_expired),
    ("Invalid", 422, Error::is_invalid),
    ("TooManyRequests", 429, Error::is_too_many_requests),
    ("Timeout", 504, Error::is_timeout),
];

/// What only this side can say.
const OURS: [Predicate; 7] = [
    Error::is_connect,
    Error::is_io,
    Error::is_stopped,
    Error::is_decode,
    Error::is_limit,
    Error::is_config,
    Error::is_invalid_argument,
];

/// The error is of one class: that of its reason, else that of its code. It is told on one line. As an `ERROR` event
/// it is the same error, and never an object.
pub(crate) fn status(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |b| *b == b'\n');
    let code = parts.next().and_then(|line| std::str::from_utf8(line).ok()?.parse().ok()).unwrap_or(500);
    let body = parts.next().unwrap_or_default();

    let status = Status::from_body(code, body);
    let value = serde_json::from_slice::<Value>(body).ok();
    let is_status = value.as_ref().is_some_and(|value| value["kind"] == "Status");
    if !is_status {
        assert!(status.code == code && status.is_failure() && status.message.len() < 600, "{status:?}");
    }
    let error = Error::from(status.clone());
    assert_eq!(error.status(), Some(&status));
    one_class(&error, &status);

    if let Some(value) = value {
        let mut decoder = WatchDecoder::<Object>::new(Expect::any());
        decoder.feed(format!("{}\n", json!({"type": "ERROR", "object": value})).as_bytes());
        let error = decoder.next_event().unwrap().unwrap_err();
        if let (Some(told), true) = (error.status(), is_status) {
            let code = if told.code == 0 { code } else { told.code };
            assert_eq!(Status { code, ..told.clone() }, status);
        }
        if let Some(told) = error.status() {
            one_class(&error, told);
        }
    }
}

fn one_class(error: &Error, status: &Status) {
    assert!(OURS.iter().all(|is| !is(error)), "{error:?} is the server's");
    let classes: Vec<_> = CLASSES.iter().filter(|(.., is)| is(error)).map(|(reason, ..)| *reason).collect();
    assert!(classes.len() <= 1, "{error:?} is {classes:?}");
    let by_reason = CLASSES.iter().find(|(reason, ..)| *reason == status.reason);
    let by_code = CLASSES.iter().find(|(_, code, _)| status.reason.is_empty() && *code == status.code);
    if let (Some((reason, ..)), _) | (None, Some((reason, 1.., _))) = (by_reason, by_code) {
        assert_eq!(classes, [*reason], "{error:?}");
    }
    assert!(!error.is_too_large_resource_version() || error.is_timeout(), "{error:?}");
    for text in [error.to_string(), format!("{error:?}")] {
        assert!(!text.trim().is_empty() && !text.contains(char::is_control), "{text:?}");
    }
}
