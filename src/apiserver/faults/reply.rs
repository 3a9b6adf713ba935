//! Answers that a fault gives.

use serde_json::{Value, json};

use crate::apiserver::answer::Response;

/// An answer in place of the right one: a failure as a `Status`, or what no API server would write.
#[derive(Clone, Debug)]
#[must_use]
pub struct Reply {
    code: u16,
    content_type: String,
    body: Body,
    retry_after: Option<u64>,
    pretty: bool,
}

#[derive(Clone, Debug)]
enum Body {
    Status(Value),
    Bytes(Vec<u8>),
}

impl Reply {
    /// Anything, with this code, content type and body. The content type must not hold line breaks.
    pub fn new(code: u16, content_type: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        let (content_type, body) = (content_type.into(), Body::Bytes(body.into()));
        Self { code, content_type, body, retry_after: None, pretty: false }
    }

    /// A failure as kube-apiserver tells it: `Reply::status(429, "TooManyRequests", "too many requests")`.
    pub fn status(code: u16, reason: &str, message: &str) -> Self {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": reason, "code": code,
        });
        if let (true, Some(fields)) = (reason.is_empty(), status.as_object_mut()) {
            fields.remove("reason"); // as the real one leaves it out
        }
        Self { body: Body::Status(status), ..Self::new(code, "application/json", "") }
    }

    /// 410: a version or a continue token that is too old. In a watch it comes as an ERROR event, see
    /// [`Effect::ErrorAfter`](super::Effect::ErrorAfter), but an HTTP status is possible, too.
    pub fn expired() -> Self {
        Self::status(410, "Expired", "too old resource version: 1 (2)")
    }

    /// The same with nothing but the reason to tell it: no code and no message in the `Status`, and HTTP's is 500.
    /// Aggregated API servers and old ones leave out what they like.
    pub fn expired_by_reason() -> Self {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired"});
        Self { body: Body::Status(status), ..Self::status(500, "", "") }
    }

    /// 504: a version in the server's future, told by the reason of a cause: what a server answers whose watch cache is
    /// behind, or that was restored. Kubernetes 1.17 and newer, which also ask for a second's patience.
    pub fn too_large_version() -> Self {
        Self::too_large(
            json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]),
        )
        .retry_after_in_status(1)
    }

    /// The same told by the message of a cause, as Kubernetes 1.16 did.
    pub fn too_large_version_by_cause_message() -> Self {
        Self::too_large(json!([{"message": "Too large resource version"}]))
    }

    /// The same told by nothing but the message, as servers before did.
    pub fn too_large_version_by_message() -> Self {
        Self::too_large(Value::Null)
    }

    fn too_large(causes: Value) -> Self {
        let mut reply =
            Self::status(504, "Timeout", "Timeout: Too large resource version: 1000000, current: 1");
        if let (Body::Status(status), true) = (&mut reply.body, causes.is_array()) {
            status["details"] = json!({ "causes": causes });
        }
        reply
    }

    /// 502 with a page of HTML, as proxies and load balancers answer without a backend.
    pub fn html_bad_gateway() -> Self {
        let page = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway\
            </h1></center>\r\n</body>\r\n</html>\r\n";
        Self::new(502, "text/html", page)
    }

    /// 404 in plain text, as a server answers a path that it does not serve: a group that is not, or not yet, there.
    pub fn plain_not_found() -> Self {
        Self::new(404, "text/plain; charset=utf-8", "404 page not found\n")
    }

    /// With the header `Retry-After`, in seconds, as priority and fairness sends it with 429.
    pub fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// With `details.retryAfterSeconds` in the `Status`; nothing else has a place for it.
    pub fn retry_after_in_status(mut self, seconds: u64) -> Self {
        if let Body::Status(status) = &mut self.body {
            status["details"]["retryAfterSeconds"] = seconds.into();
        }
        self
    }

    /// The `Status` over several lines with indents, as with `?pretty=true` and from some proxies. Not within watches.
    pub fn pretty(self) -> Self {
        Self { pretty: true, ..self }
    }

    pub(super) fn response(&self) -> Response {
        let body = match &self.body {
            Body::Status(status) if self.pretty => format!("{status:#}").into_bytes(),
            Body::Status(status) => status.to_string().into_bytes(),
            Body::Bytes(bytes) => bytes.clone(),
        };
        let content_type = self.content_type.clone().into();
        Response { code: self.code, content_type, body, retry_after: self.retry_after }
    }

    /// As the object of an ERROR event: what is no `Status` comes as a text.
    pub(super) fn event(&self) -> String {
        match &self.body {
            Body::Status(status) => status.to_string(),
            Body::Bytes(bytes) => Value::from(String::from_utf8_lossy(bytes)).to_string(),
        }
    }
}
