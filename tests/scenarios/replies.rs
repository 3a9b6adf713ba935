//! Refusals, and what a portal says.

use listwatch::apiserver::faults::Reply;

pub(crate) fn throttled() -> Reply {
    Reply::status(429, "TooManyRequests", "too many requests")
}

pub(crate) fn unavailable() -> Reply {
    Reply::status(503, "ServiceUnavailable", "starting")
}

pub(crate) fn broken() -> Reply {
    Reply::status(500, "InternalError", "etcd is away")
}

pub(crate) fn sign_in() -> Reply {
    Reply::new(200, "text/html", "<html>sign in</html>")
}
