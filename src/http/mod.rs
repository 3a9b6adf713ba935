//! Bytes to and from the API server. The only room that names ureq or rustls.
//!
//! A request goes out with credentials, on a connection that its [`Stop`] can end; the answer comes back as a code,
//! a few headers and a body to be read. What they mean is the business of `client`.

mod agents;
mod buffers;
mod call;
mod connector;
mod headers;
mod proxy;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;
mod turns;

#[cfg(all(feature = "tls", feature = "apiserver"))]
pub(crate) use tls::provider as tls_provider;

use std::fmt;
use std::io::{self, Read};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use log::debug;
use ureq::http;

use self::agents::{Agents, Current};
use self::buffers::OUTPUT;
use self::call::{Call, Running};
use self::turns::Turns;
use crate::clock::Clock;
use crate::config::{Config, Identity};
use crate::error::{Error, Kind, Result};
use crate::stop::Stop;

/// Idle connections of one client kept for its next calls: about one for each worker thread of a busy controller.
const IDLE_CONNECTIONS: usize = 16;
/// Below what load balancers and the API server allow an idle connection.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// How much of a refusal is read so that its connection can be used again.
const REFUSAL: usize = 64 << 10;
/// ureq must write the first line of a request into the buffer in one piece.
const LONGEST_URI: usize = OUTPUT - 64;

/// A longer limit of time is as good as this one; clocks overflow when they add it, and panic.
const LONGEST_TIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// A request, without what belongs to the connection: server, credentials, `User-Agent`.
#[derive(Clone, PartialEq, Eq)]
pub struct RawRequest {
    pub(crate) method: Method,
    /// Path and query, percent-encoded.
    pub(crate) path: String,
    pub(crate) accept: &'static str,
    pub(crate) content_type: &'static str,
    /// Empty is none.
    pub(crate) body: Vec<u8>,
}

/// Without the body, which may hold secrets.
impl fmt::Debug for RawRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} with {} bytes", self.method, self.path, self.body.len())
    }
}

/// The verbs of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "their names say it")]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

/// How long what may take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limits {
    /// The whole call, its answer read to the end.
    Total(Duration),
    /// A long answer: so much to the head of the answer, and so much without a byte.
    Stream { head: Duration, silence: Duration },
}

/// Speaks to one API server.
pub(crate) struct Http {
    config: Config,
    turns: Turns,
    /// What every request says beside its own headers and the credentials.
    headers: Vec<(http::HeaderName, http::HeaderValue)>,
    current: Current,
}

impl Http {
    pub(crate) fn new(config: Config) -> Result<Self> {
        let headers = headers::common(&config)?;
        let current = Current::new(&config)?;
        let turns = Turns::new(config.rate_limit());
        Ok(Self { config, turns, headers, current })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Which client certificate requests are sent with, and since when it is no longer valid, if that is so.
    pub(crate) fn expired_certificate(&self) -> Option<String> {
        self.current.expired_certificate(&self.config)
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// It is sent once more in three cases: a GET on a connection that broke before any answer, as an idle connection
    /// may have been closed by the server; and any request that never got through, as one side did not accept the
    /// certificate of the other, or was refused as unauthorized, if certificates or credentials can be read anew, as the
    /// server has not acted on it.
    ///
    /// A stop ends it within a moment, as do the limits.
    pub(crate) fn send(&self, request: &RawRequest, limits: Limits, stop: &Stop) -> Result<Response> {
        self.sending(request, limits, stop, false).run()
    }

    /// The same on a connection of its own, never compressed, and not again for a connection that broke.
    pub(crate) fn send_alone(&self, request: &RawRequest, limits: Limits, stop: &Stop) -> Result<Response> {
        self.sending(request, limits, stop, true).run()
    }

    fn sending<'a>(
        &'a self,
        request: &'a RawRequest,
        limits: Limits,
        stop: &'a Stop,
        alone: bool,
    ) -> Sending<'a> {
        let until = limits.until(self.config.clock());
        Sending { http: self, request, limits, until, stop, alone, identity: None, agents: None }
    }

    /// The address that a GET of this path goes to, and its headers. Of credentials that have to be asked for none.
    #[cfg(all(test, feature = "kubeconfig", feature = "tls"))]
    #[allow(clippy::type_complexity)]
    pub(crate) fn would_send(&self, path: &str) -> Result<(String, Vec<(String, Vec<u8>)>)> {
        let (request, limits) = (RawRequest::new(Method::Get, path), Limits::Total(LONGEST_TIME));
        let agents = self.current.agents(&self.config, None)?;
        let Prepared::Bare(request) = self.prepare(&agents.calls, &request, limits, false)? else {
            return Err(Error::invalid("a GET without a body"));
        };
        let headers =
            request.headers().iter().map(|(name, value)| (name.to_string(), value.as_bytes().into()));
        let clock = self.config.clock();
        let identity = self.config.credentials().identity(clock, clock.now(), &Stop::new());
        let authorization =
            identity?.authorization.map(|value| ("authorization".into(), value.expose().into()));
        Ok((request.uri().to_string(), headers.chain(authorization).collect()))
    }

    fn prepare(
        &self,
        agent: &ureq::Agent,
        request: &RawRequest,
        limits: Limits,
        alone: bool,
    ) -> Result<Prepared> {
        // Without it the path would become part of the server's name, and the credentials would go to another.
        if !request.path.starts_with('/') {
            return Err(Error::invalid(format!("the path {:?} does not start with a slash", request.path)));
        }
        let uri = format!("{}{}", self.config.server(), request.path);
        if uri.len() > LONGEST_URI {
            let length = uri.len();
            return Err(Error::new(
                Kind::Limit,
                format!("an address of {length} bytes, {LONGEST_URI} at most"),
            ));
        }
        let mut builder = http::Request::builder()
            .method(request.method.http())
            .uri(uri)
            .header(http::header::ACCEPT, request.accept);
        for (name, value) in &self.headers {
            builder = builder.header(name, value);
        }
        if !request.body.is_empty() {
            builder = builder.header(http::header::CONTENT_TYPE, request.content_type);
        }
        if alone && self.config.compression() {
            builder = builder.header(http::header::ACCEPT_ENCODING, "identity");
        }
        let bad = |e| Error::invalid(format!("cannot ask for {}", request.path)).with_source(e);
        // A change without a body has one of no length, or ureq would send it in no chunks.
        let bare = request.body.is_empty() && matches!(request.method, Method::Get | Method::Delete);
        Ok(if bare {
            Prepared::Bare(limits.set(agent, builder.body(()).map_err(bad)?))
        } else {
            Prepared::WithBody(limits.set(agent, builder.body(request.body.clone()).map_err(bad)?))
        })
    }
}

/// A request, and what its attempts have in common.
struct Sending<'a> {
    http: &'a Http,
    request: &'a RawRequest,
    limits: Limits,
    /// When all of it is to be over.
    until: Option<Instant>,
    stop: &'a Stop,
    /// On a connection of its own.
    alone: bool,
    /// What the last attempt was sent with.
    identity: Option<Identity>,
    agents: Option<Arc<Agents>>,
}

impl Sending<'_> {
    fn run(mut self) -> Result<Response> {
        // A query may hold what is nobody's business.
        let path = self.request.path.split('?').next().unwrap_or_default();
        let mut answer = self.once();
        if let (Err(e), Method::Get, false) = (&answer, self.request.method, self.alone) {
            if e.is_io() {
                debug!(target: "listwatch::http", "GET {path} is sent again: {e}");
                answer = self.once();
            }
        }
        if let Err(e) = &answer {
            // A certificate that came with the credentials, and cannot be used or is not accepted, is asked for anew.
            let asked = (e.is_config() || tls::is_refusal_of_ours(e)) && self.refresh_certificate();
            if asked | (tls::is_refusal(e) && self.renew()) {
                debug!(target: "listwatch::http", "{path}: {e}; tried again with other certificates");
                answer = self.once();
            }
        }
        match answer {
            Ok(mut answer) if answer.code() == 401 => {
                let config = &self.http.config;
                // The API server says so, too, if it does not accept our certificate.
                let refresh = |used| config.credentials().refresh(used);
                if !(self.identity.as_ref().is_some_and(refresh) | self.renew()) {
                    return Ok(answer);
                }
                // Its body is of no use, but the connection is, once the body is read.
                let until = config.clock().deadline(config.timeout());
                let _ = answer.body.read_to_end(REFUSAL, (config.clock(), until), &mut Vec::new());
                drop(answer);
                debug!(target: "listwatch::http", "unauthorized: the credentials are read anew");
                self.once()
            }
            answer => answer,
        }
    }

    /// Whether there may be another certificate of the credentials than that of the last attempt.
    fn refresh_certificate(&self) -> bool {
        let used = self.identity.as_ref().filter(|used| used.certificate.is_some());
        used.is_some_and(|used| self.http.config.credentials().refresh(used))
    }

    /// Whether there are now other certificates than those of the last attempt.
    fn renew(&self) -> bool {
        self.agents.as_ref().is_some_and(|used| self.http.current.renew(&self.http.config, used))
    }

    fn once(&mut self) -> Result<Response> {
        if self.stop.is_stopped() {
            return Err(Error::stopped());
        }
        let clock = self.http.config.clock();
        let limits = self.http.turns.wait(self.limits.left(clock, self.until), clock, self.stop)?;
        let (answer, running) = match limits {
            Limits::Total(_) => self.ask(limits)?,
            Limits::Stream { .. } => apart(|| self.ask(limits))??,
        };
        match answer {
            Ok((head, reader)) => {
                if let (Limits::Stream { head: limit, .. }, false) = (limits, head.status.is_success()) {
                    // A refusal is no stream, and has no right to its silence.
                    running.call.set_silence(Some(limit.min(self.http.config.timeout())));
                }
                Ok(Response { head, body: Body { reader, running } })
            }
            Err(e) => Err(translate(e, &running.call)),
        }
    }

    /// Up to the head of the answer.
    fn ask(&mut self, limits: Limits) -> Result<(Answered, Running)> {
        let (http, clock) = (self.http, self.http.config.clock());
        let asked = clock.deadline(limits.head());
        let identity = self.identity.insert(http.config.credentials().identity(clock, asked, self.stop)?);
        let limits = limits.with_head(asked.saturating_duration_since(clock.now()));
        let agents = self.agents.insert(http.current.agents(&http.config, identity.certificate.clone())?);
        let agent = if self.alone { &agents.watches } else { &agents.calls };
        let request = http.prepare(agent, self.request, limits, self.alone)?;
        let running = Running::new(self.stop, identity.authorization.clone());
        let answer = running.enter(|| request.run(agent));
        Ok((answer, running))
    }
}

type Answered = Result<(http::response::Parts, Reader), ureq::Error>;

/// Runs `f` on a thread of its own and waits for it. A handshake of TLS, and ureq up to the head of an answer, write over
/// 30 KB of stack, which a thread that then reads a watch for years would keep.
fn apart<T: Send>(f: impl FnOnce() -> T + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("lw-send".into()).spawn_scoped(scope, f);
        let thread =
            thread.map_err(|e| Error::new(Kind::Connect, "the system has no thread left").with_source(e))?;
        thread.join().map_err(|panic| resume_unwind(panic))
    })
}

type Reader = Box<ureq::BodyReader<'static>>;

/// ureq tells a request with a body from one without by its type.
enum Prepared {
    Bare(http::Request<()>),
    WithBody(http::Request<Vec<u8>>),
}

impl Prepared {
    /// Not inlined, or its frame would lie on the stack of who sends [apart], too: some 15 KB, and 50 of `into_reader`.
    #[inline(never)]
    fn run(self, agent: &ureq::Agent) -> Answered {
        let answer = match self {
            Self::Bare(request) => agent.run(request),
            Self::WithBody(request) => agent.run(request),
        };
        answer.map(|answer| {
            let (head, body) = answer.into_parts();
            (head, Box::new(body.into_reader()))
        })
    }
}

impl Limits {
    /// When a call that begins now is to be over.
    fn until(self, clock: &Clock) -> Option<Instant> {
        match self {
            Self::Total(total) => Some(clock.deadline(total)),
            Self::Stream { .. } => None,
        }
    }

    /// Until the head of the answer, or until all of it.
    fn head(self) -> Duration {
        let (Self::Total(time) | Self::Stream { head: time, .. }) = self;
        time
    }

    fn with_head(self, head: Duration) -> Self {
        match self {
            Self::Total(_) => Self::Total(head),
            Self::Stream { silence, .. } => Self::Stream { head, silence },
        }
    }

    /// What is left of them.
    fn left(self, clock: &Clock, until: Option<Instant>) -> Self {
        until.map_or(self, |until| Self::Total(until.saturating_duration_since(clock.now())))
    }

    fn set<S: ureq::AsSendBody>(self, agent: &ureq::Agent, request: http::Request<S>) -> http::Request<S> {
        let settings = agent.configure_request(request);
        match self {
            Self::Total(total) => settings.timeout_global(Some(total.min(LONGEST_TIME))).build(),
            Self::Stream { head, silence } => {
                let silence = Some(silence.min(LONGEST_TIME));
                let head = Some(head.min(LONGEST_TIME));
                settings
                    .timeout_connect(head)
                    .timeout_recv_response(head)
                    .timeout_per_read(silence)
                    .timeout_per_write(silence)
                    .build()
            }
        }
    }
}

impl Method {
    /// `GET`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    fn http(self) -> http::Method {
        match self {
            Self::Get => http::Method::GET,
            Self::Post => http::Method::POST,
            Self::Put => http::Method::PUT,
            Self::Patch => http::Method::PATCH,
            Self::Delete => http::Method::DELETE,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The head of an answer, and its body to be read.
#[derive(Debug)]
pub(crate) struct Response {
    head: http::response::Parts,
    pub(crate) body: Body,
}

impl Response {
    pub(crate) fn code(&self) -> u16 {
        self.head.status.as_u16()
    }

    /// The value of a header, if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }

    /// All values of a header.
    pub(crate) fn headers(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.head.headers.get_all(name).iter().map(http::HeaderValue::as_bytes)
    }
}

/// The body of an answer. Dropping it before its end closes the connection.
pub(crate) struct Body {
    reader: Reader,
    running: Running,
}

impl Body {
    /// Waits for more bytes; 0 is the proper end. A stop ends the wait within a moment.
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let call = &self.running.call;
        match self.reader.read(buf) {
            // A socket that was shut down may look like a body that ended.
            Ok(0) if call.stop.is_stopped() => Err(Error::stopped()),
            Ok(amount) => Ok(amount),
            Err(e) => Err(translate(e.into(), call)),
        }
    }

    /// Limits the silence of each read from here on, below what the request was sent with; `None` ends that.
    pub(crate) fn set_silence(&self, limit: Option<Duration>) {
        self.running.call.set_silence(limit);
    }

    /// Reads to the end, if that comes before `limit` bytes, and before a moment though each read is in time. After an
    /// error `bytes` holds what came before it.
    pub(crate) fn read_to_end(
        &mut self,
        limit: usize,
        (clock, until): (&Clock, Instant),
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let mut piece = [0; 8 << 10];
        loop {
            match self.read(&mut piece)? {
                0 => return Ok(()),
                _ if clock.now() >= until => {
                    return Err(Error::new(Kind::Timeout, "the answer took too long"));
                }
                amount if bytes.len() + amount > limit => {
                    return Err(Error::new(Kind::Limit, format!("an answer of over {limit} bytes")));
                }
                amount => bytes.extend_from_slice(&piece[..amount]),
            }
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}

/// What ureq says, in our words. Errors of our own connector come through it whole.
fn translate(error: ureq::Error, call: &Arc<Call>) -> Error {
    if call.stop.is_stopped() {
        return Error::stopped();
    }
    match error {
        ureq::Error::Io(e) if e.get_ref().is_some_and(|inner| inner.is::<Error>()) => e
            .downcast::<Error>()
            .unwrap_or_else(|e| Error::new(Kind::Io, "the connection failed").with_source(e)),
        ureq::Error::Io(e) => {
            let what = match e.kind() {
                io::ErrorKind::UnexpectedEof => {
                    "the server closed the connection in the middle of its answer"
                }
                _ => "the connection broke",
            };
            Error::new(Kind::Io, what).with_source(e)
        }
        ureq::Error::Timeout(phase) => Error::new(
            Kind::Timeout,
            match phase {
                ureq::Timeout::RecvResponse => "timed out waiting for the answer".to_owned(),
                ureq::Timeout::PerRead => "the server went silent".to_owned(),
                ureq::Timeout::Global => "timed out".to_owned(),
                phase => format!("timed out ({phase})"),
            },
        ),
        ureq::Error::Protocol(e) => Error::new(Kind::Io, "the server does not speak HTTP/1.1").with_source(e),
        ureq::Error::BadUri(uri) => Error::invalid(format!("{uri:?} is no address of a server")),
        e @ ureq::Error::LargeResponseHeader(..) => Error::new(Kind::Limit, e.to_string()),
        e => Error::new(Kind::Io, "the request failed").with_source(e),
    }
}
