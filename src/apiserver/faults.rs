//! Faults on purpose: what programs meet in the field, made to happen in their tests.
//!
//! A [`Fault`] says which requests meet what; [`ApiServer::inject`](super::ApiServer::inject) sets it, and it is there
//! until it was met as often as asked for, or its guard is dropped. A program under a partition, without a sleep:
//!
//! ```
//! use std::time::Duration;
//!
//! use listwatch::apiserver::faults::{Effect, Fault};
//! use listwatch::types::ConfigMap;
//! use listwatch::{Api, ApiServer, Handlers, Informer, ObjectMeta, PostParams, Resource, Stop};
//!
//! let soon = Duration::from_secs(20);
//! let (server, stop) = (ApiServer::start()?, Stop::new());
//! let maps = Api::<ConfigMap>::default_namespaced(&server.client()?);
//! let create = |name| {
//!     let map = ConfigMap { metadata: ObjectMeta::named(name), ..ConfigMap::default() };
//!     maps.create(&PostParams::default(), &map)
//! };
//!
//! // The program under test: here an informer that tells what it sees.
//! let informer = Informer::builder(maps.clone()).build()?;
//! let (told, tells) = std::sync::mpsc::channel();
//! informer.add_handler(Handlers::<ConfigMap>::new().on_add(move |map, _| drop(told.send(map.name().to_owned()))))?;
//! informer.start(&stop)?;
//! informer.wait_for_sync(soon)?;
//! create("before")?;
//! assert_eq!(tells.recv_timeout(soon).as_deref(), Ok("before"));
//!
//! // The connection of its watch stays open and brings nothing. Only watches: the test itself still gets through.
//! let partition = server.inject(Fault::new(Effect::Silence).watches());
//! assert!(partition.wait_for_hit(soon));
//! create("meanwhile")?;
//! assert!(informer.lister().get("default", "meanwhile").is_none());
//!
//! // It is over: the silent connection is cut, and what was missed is found.
//! drop(partition);
//! assert_eq!(tells.recv_timeout(soon).as_deref(), Ok("meanwhile"));
//! stop.stop();
//! informer.join();
//! # Ok::<(), listwatch::Error>(())
//! ```
//!
//! Faults of the state are calls of the server: [`compact`](super::ApiServer::compact) loses the history,
//! [`snapshot`](super::ApiServer::snapshot) and [`restore`](super::ApiServer::restore) go back to an older state,
//! [`pause`](super::ApiServer::pause) and [`resume`](super::ApiServer::resume) restart it on the same port.
//!
//! Faults of [connections](Fault::connections) are met as they are accepted, before a byte is read. On a server with
//! TLS no handshake is answered then:
//!
//! ```
//! # use listwatch::ApiServer;
//! # use listwatch::apiserver::faults::{Effect, Fault};
//! # let server = ApiServer::start()?;
//! let unreachable = server.inject(Fault::new(Effect::Silence).connections());
//! # Ok::<(), listwatch::Error>(())
//! ```
//!
//! What is waited for by time, as the silence after which a client gives a watch up, is the client's matter: give the
//! program a short one, or a [`Clock::manual`](crate::Clock::manual) for its backoffs.
//!
//! # What it does not do
//! - Connections are accepted in any case: a silent server is one that accepts, and one that does not listen is
//!   [`pause`](super::ApiServer::pause). A SYN that is never answered cannot be imitated.
//! - TLS itself is never wrong, apart from its [certificates](super::Builder#method.tls): what is cut, held back or
//!   silent is so between records.
//! - A partition that is over does not let the old connections go on, as TCP would after a short one: they are cut.

mod frames;
mod reply;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, select, unbounded};

use crate::stop::Stop;

use super::answer::Response;
use super::http::{Connection, Request};

pub(super) use frames::Frames;
pub use reply::Reply;

/// What happens to a request, to a watch, or to a new [connection](Fault::connections). Numbers of events do not count
/// bookmarks.
///
/// Watches that are open when a fault is set meet it too, where it is about the connection or about watches: their
/// events are counted from then on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Effect {
    /// No answer, no byte; a watch that is open brings nothing more, and the connection stays. A partition, a node that
    /// hangs, a load balancer that forgot the connection: both ends think that it lives. With TLS the handshake was
    /// done, except for new connections.
    Silence,
    /// The connection is closed in place of an answer: a server that goes down, a proxy without a backend.
    Close,
    /// The connection is reset (RST): a server that was killed, a NAT that forgot the connection.
    Reset,
    /// The head of an answer comes, and never a body: a proxy in front of a server that hangs.
    HeadOnly,
    /// The answer comes when the guard is dropped: a server that is slow. The request is then served as of that time.
    Late,
    /// This in place of what would be answered, and nothing is done: see [`Reply`].
    Reply(Reply),
    /// The answer ends after so many bytes of its body, before its announced length, and the connection closes: a
    /// server that goes down while it sends. What was asked for is done. Not for watches.
    CutBody(usize),

    /// After so many events a watch brings nothing more, no bookmarks either, and the connection stays; 0 is from the
    /// start.
    SilenceAfter(usize),
    /// After so many events comes half the line of the next one, then nothing more: a partition in mid-packet.
    HalfLineThenSilence(usize),
    /// After so many events comes half the line of the next one, then the connection closes without the last chunk.
    HalfLineThenClose(usize),
    /// After so many events the connection closes without the last chunk, as when the server or a proxy is killed.
    CutAfter(usize),
    /// After so many events the watch ends as it should: 0 is at once, as from a server that is overloaded or about to
    /// stop.
    EndAfter(usize),
    /// After so many events comes an ERROR event with this [`Reply`]'s Status, and the watch ends, as after an expiry.
    ErrorAfter(usize, Reply),
    /// After so many events comes this line, and the watch goes on: what a broken proxy or a newer server may send.
    LineAfter(usize, String),
    /// The event of this number, from 1, is never told: a bug of a watch cache. Nothing but a list finds it.
    Lose(usize),
    /// Each event comes twice: what a watch that is resumed too early tells.
    Repeat,
    /// Each byte is a chunk of its own: a proxy that cuts where it likes.
    OneByteChunks,
    /// No bookmarks, not the one that ends the initial events either: servers and proxies that do not know them.
    NoBookmarks,
}

/// Which requests, or connections, meet which [`Effect`], and how often. By default all requests do, until the guard is
/// dropped.
#[derive(Clone, Debug)]
#[must_use]
pub struct Fault {
    effect: Effect,
    requests: Requests,
    /// Empty is any.
    method: String,
    path: String,
    /// `None` is without end.
    times: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Requests {
    All,
    Lists,
    NextPages,
    Watches,
    Others,
    /// None: it is about new connections.
    Connections,
}

impl Fault {
    /// This, for all requests that it can be done to.
    pub fn new(effect: Effect) -> Self {
        Self { effect, requests: Requests::All, method: String::new(), path: String::new(), times: None }
    }

    /// Only lists.
    pub fn lists(self) -> Self {
        Self { requests: Requests::Lists, ..self }
    }

    /// Only lists that go on behind a page.
    pub fn next_pages(self) -> Self {
        Self { requests: Requests::NextPages, ..self }
    }

    /// Only watches.
    pub fn watches(self) -> Self {
        Self { requests: Requests::Watches, ..self }
    }

    /// Only what is neither list nor watch.
    pub fn others(self) -> Self {
        Self { requests: Requests::Others, ..self }
    }

    /// New connections in place of requests, before their first byte, or handshake of TLS, is read: [`Silence`],
    /// [`Close`], [`Reset`] and [`Late`], no other effects. Those that are open are left alone, and clients keep some
    /// for their next requests. Method and path do not matter.
    ///
    /// [`Silence`]: Effect::Silence
    /// [`Close`]: Effect::Close
    /// [`Reset`]: Effect::Reset
    /// [`Late`]: Effect::Late
    pub fn connections(self) -> Self {
        Self { requests: Requests::Connections, ..self }
    }

    /// Only requests of this method: `POST`.
    pub fn method(self, method: impl Into<String>) -> Self {
        Self { method: method.into(), ..self }
    }

    /// Only requests whose path begins so: `/api/v1/namespaces/default/pods`. The path is compared as it was sent,
    /// without the query.
    pub fn path(self, prefix: impl Into<String>) -> Self {
        Self { path: prefix.into(), ..self }
    }

    /// Only for the first request, watch or connection that it fits.
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Only for so many requests, watches or connections. What has begun for a watch goes on until the guard is
    /// dropped.
    pub fn times(self, times: usize) -> Self {
        Self { times: Some(times), ..self }
    }

    /// Whether this is for a request, or for a new connection.
    fn fits(&self, request: Option<&Request>) -> bool {
        let Some(request) = request else {
            use Effect::{Close, Late, Reset, Silence};
            return matches!(self.requests, Requests::Connections)
                && matches!(self.effect, Silence | Close | Reset | Late);
        };
        let watch = request.method == "GET" && request.query.is_true("watch");
        let list = !watch && request.method == "GET" && is_collection(&request.path);
        let fits = match self.requests {
            Requests::All => true,
            Requests::Lists => list,
            Requests::NextPages => list && !request.query.get("continue").is_empty(),
            Requests::Watches => watch,
            Requests::Others => !watch && !list,
            Requests::Connections => false,
        };
        let method = self.method.is_empty() || self.method == request.method;
        let possible = !(watch && matches!(self.effect, Effect::CutBody(_)));
        fits && method && possible && request.path.starts_with(&self.path)
    }
}

fn is_collection(path: &str) -> bool {
    let segments: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
    let rest = match segments.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        _ => return false,
    };
    matches!(rest, [_] | ["namespaces", _, _])
}

impl Effect {
    /// Done in place of an answer, or to it.
    fn is_for_requests(&self) -> bool {
        use Effect::{Close, CutBody, HeadOnly, Late, Reply, Reset, Silence};
        matches!(self, Silence | Close | Reset | HeadOnly | Late | Reply(_) | CutBody(_))
    }

    /// Done to a watch that is open.
    fn is_for_watches(&self) -> bool {
        !self.is_for_requests() || matches!(self, Self::Silence | Self::Close | Self::Reset)
    }
}

/// A fault that is set. Dropping it ends the fault: connections that it keeps silent are cut, answers that it keeps
/// back are sent.
#[must_use = "dropping it ends the fault"]
pub struct Injected {
    faults: Arc<Faults>,
    active: Arc<Active>,
    hits: Receiver<()>,
}

impl Injected {
    /// Waits until another request, watch or connection has met the fault, for at most `timeout` of the system's time.
    /// Each is told once. Returns whether there was one.
    #[must_use]
    pub fn wait_for_hit(&self, timeout: Duration) -> bool {
        self.hits.recv_timeout(timeout).is_ok()
    }
}

impl Drop for Injected {
    fn drop(&mut self) {
        let mut table = self.faults.lock();
        table.retain(|entry| !Arc::ptr_eq(&entry.active, &self.active));
        self.faults.set.store(table.len(), Ordering::Release);
        drop(table);
        self.active.over.stop();
    }
}

impl fmt::Debug for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Injected").field("fault", &self.active.fault).finish_non_exhaustive()
    }
}

/// A fault that some requests have met and others may.
pub(super) struct Active {
    fault: Fault,
    /// Stops with the guard.
    over: Stop,
    hits: Sender<()>,
}

struct Entry {
    active: Arc<Active>,
    left: Option<usize>,
}

/// The table of faults, asked before each answer and each line of a watch.
#[derive(Default)]
pub(super) struct Faults {
    /// How many there are in the table: free to ask where there is none.
    set: AtomicUsize,
    table: Mutex<Vec<Entry>>,
    /// Stopped, and replaced, when a fault is set: wakes the watches that are open.
    changed: Mutex<Stop>,
}

/// What is left to do of a request after a fault.
pub(super) enum Instead {
    /// Answer it, or go on with the connection.
    Nothing,
    Send(Response),
    /// Answer it with so many bytes of the body, and end.
    Cut(usize),
    /// The connection is over.
    End,
}

impl Faults {
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn inject(self: &Arc<Self>, fault: Fault) -> Injected {
        let (sender, hits) = unbounded();
        let left = fault.times;
        let active = Arc::new(Active { fault, over: Stop::new(), hits: sender });
        let mut table = self.lock();
        if left != Some(0) {
            table.push(Entry { active: Arc::clone(&active), left });
        }
        self.set.store(table.len(), Ordering::Release);
        drop(table);
        let woken = std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner));
        woken.stop();
        Injected { faults: Arc::clone(self), active, hits }
    }

    /// Stops when the next fault is set.
    pub(super) fn changed(&self) -> Stop {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_empty(&self) -> bool {
        self.set.load(Ordering::Acquire) == 0
    }

    /// Takes the first fault that `wanted` holds for, and counts it.
    fn take(&self, wanted: impl Fn(&Arc<Active>) -> bool) -> Option<Arc<Active>> {
        let mut table = self.lock();
        let at = table.iter().position(|entry| wanted(&entry.active))?;
        let active = Arc::clone(&table[at].active);
        if let Some(left) = &mut table[at].left {
            *left -= 1;
            if *left == 0 {
                table.remove(at);
                self.set.store(table.len(), Ordering::Release);
            }
        }
        let _ = active.hits.send(()); // the guard may go at any time
        Some(active)
    }

    /// Does what a request meets before it is answered, or a new connection; blocks for as long as a fault is silent.
    pub(super) fn meet(&self, request: Option<&Request>, connection: &mut Connection) -> io::Result<Instead> {
        if self.is_empty() {
            return Ok(Instead::Nothing);
        }
        let meets =
            |active: &Arc<Active>| active.fault.effect.is_for_requests() && active.fault.fits(request);
        let Some(active) = self.take(meets) else { return Ok(Instead::Nothing) };
        match &active.fault.effect {
            Effect::Silence => connection.hold(&active.over)?,
            Effect::Reset => connection.reset()?,
            Effect::HeadOnly => {
                connection.begin_stream(true)?;
                connection.hold(&active.over)?;
            }
            Effect::Late => {
                select! {
                    recv(active.over.signal()) -> _ => return Ok(Instead::Nothing),
                    recv(connection.stop().signal()) -> _ => {}
                }
            }
            Effect::Reply(reply) => return Ok(Instead::Send(reply.response())),
            Effect::CutBody(bytes) => return Ok(Instead::Cut(*bytes)),
            _ => {} // `Close`: to end is all
        }
        Ok(Instead::End)
    }
}
