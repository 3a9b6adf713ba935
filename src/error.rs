//! One error type for the whole crate: opaque, one word wide, asked by predicates.

use std::error::Error as StdError;
use std::fmt::{self, Write as _};

use crate::object::{ObjectKey, Status, short};

/// What went wrong, in one word of memory.
///
/// Ask with the predicates ([`is_not_found`](Error::is_not_found), [`is_conflict`](Error::is_conflict), …), read
/// what the API server answered with [`status`](Error::status), follow the causes with
/// [`source`](std::error::Error::source). `Display` is one line that says what failed, and the causes behind it
/// after colons. No credential is ever part of an error.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    /// What was being done, outermost first: `list pods in "default"`.
    context: Vec<String>,
    message: String,
    status: Option<Box<Status>>,
    unfit: Option<Box<Unfit>>,
    source: Option<Box<dyn StdError + Send + Sync>>,
    terminal: bool,
}

/// The class of an error, as the crate sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The API server answered with a failure; `status` holds it.
    Api,
    /// No connection: name lookup, TCP, TLS or proxy. The request was never sent.
    Connect,
    /// The connection broke after the request, or part of it, was sent.
    Io,
    /// A limit of time was reached.
    Timeout,
    /// The caller's [`Stop`](crate::Stop) ended it.
    Stopped,
    /// Configuration that cannot be used: kubeconfig, certificates, credentials.
    Config,
    /// Bytes that are not what the protocol promises, or do not fit the type.
    Decode,
    /// An argument that cannot be sent: an empty name, a bad selector.
    Invalid,
    /// What is waited for cannot come any more.
    Unmet,
    /// A limit of size: a line, a list, a body, a header.
    Limit,
}

/// The object that an error of decoding is about: JSON that does not fit the type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfit {
    /// Its kind.
    pub kind: String,
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Its uid; empty if it had none.
    pub uid: String,
    /// Its version: a watch can go on from here. Empty if it had none.
    pub resource_version: String,
    /// Whether it came with a `DELETED` event.
    pub deleted: bool,
}

/// A field that another manager has another value in, from [`Error::apply_conflicts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApplyConflict<'a> {
    /// Which: `.spec.replicas`, `.spec.containers[name="web"].image`.
    pub field: &'a str,
    /// Who has it: the field manager of another apply, or the program that wrote it.
    pub manager: &'a str,
}

/// The result of whatever can fail in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            context: Vec::new(),
            message: message.into(),
            status: None,
            unfit: None,
            source: None,
            terminal: false,
        }))
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(Kind::Config, message)
    }

    pub(crate) fn decode(message: impl Into<String>) -> Self {
        Self::new(Kind::Decode, message)
    }

    /// JSON that does not fit the type; `why` says which field, and how.
    pub(crate) fn unfit_object(unfit: Unfit, why: impl fmt::Display) -> Self {
        let (kind, key) = (short(&unfit.kind), short(unfit.key.as_str()));
        let mut error = Self::decode(format!("{kind} {key} does not fit its type: {why}"));
        error.0.unfit = Some(Box::new(unfit));
        error
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    /// An error that [is a timeout](Error::is_timeout), for programs that wait for something of their own.
    #[must_use]
    pub fn timed_out(doing: impl Into<String>) -> Self {
        Self::new(Kind::Timeout, "timed out").context(doing)
    }

    /// An error that [is unmet](Error::is_unmet), for [conditions](crate::wait::Condition) of one's own.
    #[must_use]
    pub fn unmet(why: impl Into<String>) -> Self {
        Self::new(Kind::Unmet, why)
    }

    /// A failure that trying again does not mend, for what a [`Controller`](crate::Controller) calls: the object is not
    /// tried again until it changes. Of a text, or of an error, which stays what it was. controller-runtime's
    /// `reconcile.TerminalError`.
    ///
    /// ```
    /// # use listwatch::Error;
    /// fn replicas(text: &str) -> Result<u32, Error> {
    ///     text.parse().map_err(Error::terminal)
    /// }
    /// assert!(replicas("many").unwrap_err().is_terminal());
    /// ```
    #[must_use]
    pub fn terminal(why: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let mut error = match why.into().downcast::<Self>() {
            Ok(error) => *error,
            Err(other) => Self::invalid(other.to_string()),
        };
        error.0.terminal = true;
        error
    }

    /// Whether it was made by [`terminal`](Error::terminal).
    pub fn is_terminal(&self) -> bool {
        self.0.terminal
    }

    pub(crate) fn stopped() -> Self {
        Self::new(Kind::Stopped, "stopped")
    }

    pub(crate) fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Says what was being done when this happened; the outermost call comes first in the message.
    pub(crate) fn context(mut self, doing: impl Into<String>) -> Self {
        self.0.context.push(doing.into());
        self
    }

    /// Whether the message tells already that this was being read or written.
    pub(crate) fn names(&self, what: &str) -> bool {
        self.0.context.iter().any(|doing| doing.ends_with(what))
    }

    /// What the API server answered, if it was the API server that refused.
    pub fn status(&self) -> Option<&Status> {
        self.0.status.as_deref()
    }

    /// The object that does not fit its type, if that is what went wrong and its name could be read. A watch can go on
    /// behind it.
    pub fn unfit(&self) -> Option<&Unfit> {
        self.0.unfit.as_deref()
    }

    /// The HTTP status code of the answer, if there was one.
    pub fn code(&self) -> Option<u16> {
        self.status().map(|s| s.code)
    }

    /// 404: no such object, or no such resource on this server.
    pub fn is_not_found(&self) -> bool {
        self.has(404, "NotFound")
    }

    /// 409 `AlreadyExists`: create found an object of that name.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|s| s.reason == "AlreadyExists")
    }

    /// 409 `Conflict`: the object changed since it was read. Read it again and repeat.
    pub fn is_conflict(&self) -> bool {
        !self.is_already_exists() && self.has(409, "Conflict")
    }

    /// Why a server-side apply was refused: the field, as `.spec.replicas`, and the manager that has another value there,
    /// which may be several for one field. Empty for any other error. Who would have its own value all the same sends
    /// the apply again with [`force`](crate::PatchParams::force).
    pub fn apply_conflicts(&self) -> impl Iterator<Item = ApplyConflict<'_>> {
        let causes = self.status().map_or(&[][..], |status| &status.details.causes);
        causes.iter().filter(|cause| cause.reason == "FieldManagerConflict").map(|cause| {
            // `conflict with "kubectl" using apps/v1 at 2026-11-29T13:11:04Z`: with more than the name for an update.
            let manager = cause.message.split('"').nth(1).unwrap_or(&cause.message);
            ApplyConflict { field: &cause.field, manager }
        })
    }

    /// 410, `Expired` or `Gone`: the resourceVersion or continue token is too old. List again.
    pub fn is_expired(&self) -> bool {
        self.status().is_some_and(Status::is_expired)
    }

    /// 422: the object is not valid; [`Status::details`] names the fields.
    pub fn is_invalid(&self) -> bool {
        self.has(422, "Invalid")
    }

    /// 403: RBAC or admission forbids it.
    pub fn is_forbidden(&self) -> bool {
        self.has(403, "Forbidden")
    }

    /// 401: the credentials are missing or not accepted.
    pub fn is_unauthorized(&self) -> bool {
        self.has(401, "Unauthorized")
    }

    /// 429: the API server asks to slow down.
    pub fn is_too_many_requests(&self) -> bool {
        self.has(429, "TooManyRequests")
    }

    /// The resourceVersion asked for lies in the server's future (its watch cache lags, or it was restored).
    pub fn is_too_large_resource_version(&self) -> bool {
        self.status().is_some_and(Status::is_too_large_resource_version)
    }

    /// A limit of time was reached, here or at the server (504 `Timeout`). A connection that was not made in time is
    /// [`is_connect`](Self::is_connect), as the request was never sent.
    pub fn is_timeout(&self) -> bool {
        self.0.kind == Kind::Timeout || self.has(504, "Timeout")
    }

    /// The caller's [`Stop`](crate::Stop) ended the call.
    pub fn is_stopped(&self) -> bool {
        self.0.kind == Kind::Stopped
    }

    /// There was no connection, so the request was never sent: refused, no route, name lookup, TLS, proxy.
    pub fn is_connect(&self) -> bool {
        self.0.kind == Kind::Connect
    }

    /// The connection broke, so it is unknown whether the server acted on the request.
    pub fn is_io(&self) -> bool {
        self.0.kind == Kind::Io
    }

    /// Bytes that are not what the protocol promises, or JSON that does not fit the type.
    pub fn is_decode(&self) -> bool {
        self.0.kind == Kind::Decode
    }

    /// A limit of size was reached: a line, a list, a body, an address.
    pub fn is_limit(&self) -> bool {
        self.0.kind == Kind::Limit
    }

    /// The configuration cannot be used: kubeconfig, certificates, credentials.
    pub fn is_config(&self) -> bool {
        self.0.kind == Kind::Config
    }

    /// What was [waited](crate::wait) for cannot come any more: a Job has failed.
    pub fn is_unmet(&self) -> bool {
        self.0.kind == Kind::Unmet
    }

    /// An argument that cannot be sent.
    pub fn is_invalid_argument(&self) -> bool {
        self.0.kind == Kind::Invalid
    }

    /// By the reason where the server gives one that we know, else by the code.
    fn has(&self, code: u16, reason: &str) -> bool {
        self.status().is_some_and(|s| s.reason == reason || (s.code == code && !s.has_known_reason()))
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        let mut error = Self::new(Kind::Api, status.to_string());
        error.0.status = Some(Box::new(status));
        error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Line(f);
        for doing in self.0.context.iter().rev() {
            write!(line, "{doing}: ")?;
        }
        line.write_str(&self.0.message)?;
        let mut source = self.source();
        while let Some(s) = source {
            write!(line, ": {s}")?;
            source = s.source();
        }
        Ok(())
    }
}

/// Keeps a message on one line: texts from outside (what a server answers, paths) may hold line breaks, and escape
/// sequences, which may reach no terminal.
struct Line<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl fmt::Write for Line<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for (n, part) in text.split(char::is_control).enumerate() {
            if n > 0 {
                self.0.write_str(" ")?;
            }
            self.0.write_str(part)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.0.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|s| s as _)
    }
}

/// Turns "there is none" into `None`.
pub trait OptionalExt<T> {
    /// `Ok(None)` for an error that [is not found](Error::is_not_found).
    fn optional(self) -> Result<Option<T>>;
}

impl<T> OptionalExt<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, reason: &str) -> Error {
        Status { code, reason: reason.into(), ..Status::default() }.into()
    }

    #[test]
    fn is_one_word() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }

    #[test]
    fn reason_wins_over_code() {
        assert!(status(409, "AlreadyExists").is_already_exists());
        assert!(!status(409, "AlreadyExists").is_conflict());
        assert!(status(409, "Conflict").is_conflict());
        assert!(status(409, "").is_conflict());
        assert!(status(0, "NotFound").is_not_found());
        assert!(status(404, "SomethingNew").is_not_found());
        assert!(!status(404, "Forbidden").is_not_found());
    }

    #[test]
    fn is_of_one_class_whatever_the_server_mixes() {
        assert!(status(410, "NotFound").is_not_found() && !status(410, "NotFound").is_expired());
        let old = |code| {
            Error::from(Status {
                code,
                message: "too old resource version: 1 (2)".into(),
                ..Status::default()
            })
        };
        assert!(old(404).is_not_found() && !old(404).is_expired());
        assert!(old(0).is_expired() && old(200).is_expired() && old(500).is_expired());
    }

    #[test]
    fn message_is_one_line_whatever_it_quotes() {
        let told = Status { message: "a\r\nb\u{1b}[2Jc\n".into(), ..Status::default() };
        let error = Error::config("in /tmp/x\ny").with_source(Error::from(told)).context("read\tit");
        assert_eq!(error.to_string(), "read it: in /tmp/x y: a  b [2Jc");
        assert_eq!(format!("{error:?}"), "Config(read it: in /tmp/x y: a  b [2Jc)");
    }

    #[test]
    fn message_tells_context_and_causes() {
        let io = std::io::Error::other("no route");
        let e = Error::new(Kind::Connect, "connect to 10.0.0.1:443").with_source(io).context("list pods");
        assert_eq!(e.to_string(), "list pods: connect to 10.0.0.1:443: no route");
        assert!(e.is_connect() && !e.is_timeout());
    }
}
