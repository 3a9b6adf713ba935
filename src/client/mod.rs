//! One call, one answer: a typed client for the API server.

mod api;
mod discovery;
mod list;
mod logs;
mod params;
mod request;
mod retry;
mod server;
mod subresources;
mod warnings;
mod watch;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

pub use self::api::{Api, Deletion};
pub use self::discovery::{ApiGroup, ApiKind, ApiSubresource, ApiVersion, Discovery, DiscoveryFailure};
pub use self::list::Pages;
pub use self::logs::{LogLines, LogParams};
pub use self::params::{
    DeleteParams, FieldValidation, ListParams, Patch, PatchParams, PostParams, PropagationPolicy,
    VersionMatch, WatchParams,
};
pub use self::server::Version;
pub use self::watch::Watch;
pub use crate::http::{Method, RawRequest};

pub(crate) use self::request::Collection;

use self::warnings::Warnings;
use crate::clock::Clock;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::http::{Http, Limits, Response};
use crate::metrics::{Event, Hook, Recorder};
use crate::object::Status;
use crate::stop::Stop;

/// The largest answer that is not a list or a watch: etcd stores objects of 1.5 MiB, and JSON is longer than that.
const LARGEST_ANSWER: usize = 64 << 20;
/// How much of a refusal is read.
const LARGEST_REFUSAL: usize = 1 << 20;

/// Speaks to one API server, from any number of threads. Clones share its connections.
///
/// A call blocks its thread for at most [`timeout`](Config::timeout), 30 s by default, its answer read to the end;
/// lists and watches, which may be long, have limits of silence instead. Within that time a request is sent again, up
/// to ten times, where the server refuses it for now and says for how long (429, or 5xx with `Retry-After`, or seconds in
/// the body, which go before the header), and once where the connection of a GET broke before any answer, or where
/// certificates or credentials are read or asked for anew after a 401 or a handshake that a certificate failed. A client
/// made by [`with_stop`](Self::with_stop) ends all its calls within a moment once stopped.
///
/// A redirect is not followed: it is an error that says where to.
///
/// What the server warns of (deprecated APIs, unknown fields) is logged once for each text, at level `warn`, or told to a
/// [hook](Self::with_warnings).
///
/// It has no threads but for the time of a call: lists, watches and logs are asked for on one (`lw-send`), a source of
/// credentials on another (`lw-credential`, and `lw-plugin` for what a plugin prints). Each name lookup runs on one
/// (`lw-dns`): the system cannot end a lookup, so the thread may outlive the call that gave up on it, until the system does.
#[derive(Clone, Debug)]
pub struct Client {
    http: Arc<Http>,
    timeout: Duration,
    stop: Stop,
    warnings: Arc<Warnings>,
    recorder: Hook,
}

impl Client {
    /// A client for this server. Opens no connection yet.
    ///
    /// # Errors
    /// If certificates or keys cannot be read or used, or the proxy, which is set or the environment's.
    pub fn new(config: Config) -> Result<Self> {
        let timeout = config.timeout();
        Ok(Self {
            http: Arc::new(Http::new(config)?),
            timeout,
            stop: Stop::new(),
            warnings: Arc::default(),
            recorder: None,
        })
    }

    /// A client for the cluster that kubectl would speak to here: `$KUBECONFIG`, else `~/.kube/config`, else the
    /// cluster that the program runs in.
    ///
    /// # Errors
    /// As [`Config::infer`] and [`new`](Self::new).
    pub fn try_default() -> Result<Self> {
        Self::new(Config::infer()?)
    }

    /// The same client, whose calls end once stopped, with an error that [is stopped](Error::is_stopped).
    #[must_use]
    pub fn with_stop(&self, stop: &Stop) -> Self {
        Self { stop: stop.clone(), ..self.clone() }
    }

    /// The same client, whose calls take at most this long.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout, ..self.clone() }
    }

    /// The same client, which tells the warnings that come with answers, those of refusals, lists and watches, too, to
    /// `hook` in place of the log: each time, on the thread of the call, which waits for it.
    ///
    /// A warning is a text for people: `unknown field "spec.replica"`. It is of one line, control characters escaped,
    /// and of at most 4 KiB. Upstream they are headers, `Warning: 299 - "text"`; other codes are not told.
    #[must_use]
    pub fn with_warnings(&self, hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { warnings: Arc::new(Warnings::to(hook)), ..self.clone() }
    }

    /// The same client, which tells this recorder of its requests; and so do informers and controllers that are made of
    /// it of what they do: see [`metrics`](crate::metrics). A request counts again where a refusal told when to come back,
    /// but not where it was sent once more after a broken connection or with other credentials.
    #[must_use]
    pub fn with_metrics(&self, recorder: impl Recorder) -> Self {
        Self { recorder: Some(Arc::new(recorder)), ..self.clone() }
    }

    /// What [`with_metrics`](Self::with_metrics) was given.
    #[must_use]
    pub fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        self.recorder.clone()
    }

    /// Where it speaks to, and as whom.
    #[must_use]
    pub fn config(&self) -> &Config {
        self.http.config()
    }

    /// Where its time comes from.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        self.config().clock()
    }

    /// Sends any request and reads its answer as JSON: for what [`Api`] has no method for.
    ///
    /// # Errors
    /// If there is no answer, it is a refusal, or it does not fit `T`.
    pub fn request<T: DeserializeOwned>(&self, request: &RawRequest) -> Result<T> {
        let bytes = self.call(request)?;
        serde_json::from_slice(&bytes).map_err(|e| {
            Error::decode(format!("{} {}: unexpected answer", request.method, request.path)).with_source(e)
        })
    }

    /// Sends any request and reads its answer as it is.
    ///
    /// # Errors
    /// If there is no answer, or it is a refusal.
    pub fn request_bytes(&self, request: &RawRequest) -> Result<Vec<u8>> {
        self.call(request)
    }

    /// Sends any request and reads its answer as text.
    ///
    /// # Errors
    /// If there is no answer, it is a refusal, or it is not UTF-8.
    pub fn request_text(&self, request: &RawRequest) -> Result<String> {
        String::from_utf8(self.call(request)?).map_err(|e| {
            Error::decode(format!("{} {}: the answer is no text", request.method, request.path))
                .with_source(e)
        })
    }

    /// Sends a request and reads its answer.
    pub(crate) fn call(&self, request: &RawRequest) -> Result<Vec<u8>> {
        let attempt = |left| {
            let mut answer = self.accept(self.send(request, Limits::Total(left), &self.stop, false)?)?;
            let mut bytes = Vec::new();
            answer.body.read_to_end(LARGEST_ANSWER, self.until(), &mut bytes)?;
            Ok(bytes)
        };
        self.patiently(&self.stop, attempt).map_err(|e| {
            if e.status().is_some() { e } else { e.context(format!("{} {}", request.method, request.path)) }
        })
    }

    /// Sends a request whose answer may be long, and is read as it comes.
    pub(crate) fn stream(
        &self,
        request: &RawRequest,
        head: Option<Duration>,
        silence: Option<Duration>,
        stop: &Stop,
    ) -> Result<Response> {
        let silence = silence.unwrap_or(self.timeout);
        let limits = Limits::Stream { head: head.map_or(silence, |head| head.min(silence)), silence };
        self.send(request, limits, stop, false).and_then(|answer| self.accept(answer))
    }

    /// The same on a connection of its own.
    pub(crate) fn stream_alone(
        &self,
        request: &RawRequest,
        silence: Duration,
        stop: &Stop,
    ) -> Result<Response> {
        let head = self.timeout.min(silence);
        self.send(request, Limits::Stream { head, silence }, stop, true)
            .and_then(|answer| self.accept(answer))
    }

    /// Sends a request, on a connection of its own if `alone`.
    fn send(&self, request: &RawRequest, limits: Limits, stop: &Stop, alone: bool) -> Result<Response> {
        let send = || match alone {
            true => self.http.send_alone(request, limits, stop),
            false => self.http.send(request, limits, stop),
        };
        let Some(recorder) = &self.recorder else { return send() };
        let start = self.clock().now();
        let answer = send();
        let took = self.clock().now().saturating_duration_since(start);
        let (method, host) = (request.method, host(self.config().server()));
        let code = answer.as_ref().ok().map(Response::code);
        recorder.record(&Event::Request { method, host, code, took });
        answer
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Turns a refusal into an error. Its body is read, so that the connection can be used again.
    fn accept(&self, mut answer: Response) -> Result<Response> {
        self.warnings.tell(&answer);
        let code = answer.code();
        match code {
            200..=299 => Ok(answer),
            300..=399 => {
                let to = answer.header("location").unwrap_or("an unknown place");
                Err(Status::from_code(code, &format!("redirects to {to}, which is not followed")).into())
            }
            _ => {
                let mut body = Vec::new();
                match answer.body.read_to_end(LARGEST_REFUSAL, self.until(), &mut body) {
                    Err(e) if e.is_stopped() => return Err(e),
                    // Half a refusal is one.
                    _ => {}
                }
                let mut status = Status::from_body(code, &body);
                let asked = &mut status.details.retry_after_seconds;
                if asked.unwrap_or(0) == 0 {
                    // As client-go any number, of which none is too small.
                    let header = answer.header("retry-after").and_then(|seconds| seconds.trim().parse().ok());
                    *asked = header.map(|seconds: i64| seconds.max(0).unsigned_abs());
                }
                let refused = Error::from(status);
                // A kube-apiserver says no more of a certificate that is over than "Unauthorized".
                let over = if code == 401 { self.http.expired_certificate() } else { None };
                Err(over.into_iter().fold(refused, Error::context))
            }
        }
    }

    /// When a call that begins now is to be over.
    fn until(&self) -> (&Clock, Instant) {
        (self.clock(), self.clock().deadline(self.timeout))
    }
}

/// Of an address its name, and its port if there is one.
fn host(server: &str) -> &str {
    let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}
