use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use log::error;

use super::fifo::{Delta, Fifo};
use super::health::{Activity, Health, Vitals};
use super::list_watch::ListWatch;
use super::run::Run;
use super::store::Store;
use crate::client::{ListParams, WatchParams};
use crate::clock::Clock;
use crate::error::{Error, Result, Unfit};
use crate::metrics::{Event, Hook};
use crate::object::{Packer, Resource};
use crate::stop::Stop;

/// Objects in a page.
pub(super) const PAGE: u32 = 500;

/// How the present state is had, before changes to it are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListMode {
    /// A consistent list in pages of so many objects. Works everywhere, and needs the memory of little more than one
    /// object beside the cache.
    Paged(u32),
    /// As a stream of events (`sendInitialEvents`), from the server's watch cache but as fresh as a consistent list.
    /// Falls back to pages: for good where the server does not know it, for this once where it fails.
    WatchList,
    /// The state of the server's watch cache in one answer (`resourceVersion=0`): the cheapest for the server, but
    /// it may be behind, after a restart even behind what this program has seen.
    Cached,
}

impl Default for ListMode {
    fn default() -> Self {
        Self::Paged(PAGE)
    }
}

/// Where a [`Reflector`] puts what it reads.
pub trait Sink<K> {
    /// Takes a delta; may block, to slow the reader down. `false` ends the reflector.
    fn push(&mut self, delta: Delta<K>) -> bool;

    /// The object of the same key that is kept already. A list that finds the same version again keeps that one, so
    /// that listing anew does not need the memory of the cache once more.
    fn known(&self, object: &K) -> Option<Arc<K>> {
        let _ = object;
        None
    }
}

/// Any function that takes deltas is a sink that never ends the reflector.
impl<K, F: FnMut(Delta<K>)> Sink<K> for F {
    fn push(&mut self, delta: Delta<K>) -> bool {
        self(delta);
        true
    }
}

/// A FIFO in front of a store.
pub(super) struct FifoSink<'a, K> {
    pub(super) fifo: &'a Fifo<K>,
    pub(super) store: &'a Store<K>,
    pub(super) stop: &'a Stop,
}

impl<K: Resource> Sink<K> for FifoSink<'_, K> {
    fn push(&mut self, delta: Delta<K>) -> bool {
        self.fifo.push(delta, self.stop)
    }

    fn known(&self, object: &K) -> Option<Arc<K>> {
        self.store.namesake(object)
    }
}

type OnError = Arc<dyn Fn(&Error) + Send + Sync>;
type Transform<K> = Arc<dyn Fn(K) -> K + Send + Sync>;

/// Lists and then watches, for ever, and makes [`Delta`]s of it: the part of an informer that speaks to the server.
///
/// What goes wrong is handled as client-go's reflector does (`tools/cache/reflector.go`): a version that is too old
/// is listed anew; one that lies in the server's future is listed from the latest; a connection that fails, or a
/// server that asks for time, is waited for and the watch goes on from where it stood. Waits are 0.8 s doubled up to
/// 30 s with jitter. Only a [`Stop`] or its sink ends it.
pub struct Reflector<K> {
    pub(super) source: Arc<dyn ListWatch<K>>,
    /// What the source says it is of.
    name: String,
    pub(super) clock: Clock,
    pub(super) mode: ListMode,
    labels: String,
    fields: String,
    silence: Option<Duration>,
    pub(super) relist_every: Option<Duration>,
    pub(super) strict: bool,
    on_error: Option<OnError>,
    transform: Option<Transform<K>>,
    pub(super) vitals: Arc<Vitals>,
    pub(super) recorder: Hook,
}

impl<K: Resource> Reflector<K> {
    /// A reflector of what can be listed and watched here.
    pub fn new(source: impl ListWatch<K>) -> Self {
        Self::with_source(Arc::new(source))
    }

    pub(super) fn with_source(source: Arc<dyn ListWatch<K>>) -> Self {
        Self {
            name: source.describe(),
            clock: source.clock(),
            recorder: source.recorder(),
            source,
            mode: ListMode::default(),
            labels: String::new(),
            fields: String::new(),
            silence: None,
            relist_every: None,
            strict: false,
            on_error: None,
            transform: None,
            vitals: Arc::new(Vitals::new()),
        }
    }

    /// Where its time comes from, if not from where its source's does.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// How the present state is had.
    #[must_use]
    pub fn mode(mut self, mode: ListMode) -> Self {
        self.mode = mode;
        self
    }

    /// Only objects whose labels match, in lists and watches.
    #[must_use]
    pub fn labels(mut self, selector: impl ToString) -> Self {
        self.labels = selector.to_string();
        self
    }

    /// Only objects whose fields match, in lists and watches. With `metadata.name=x` a role that is limited to that
    /// name is enough.
    #[must_use]
    pub fn fields(mut self, selector: impl ToString) -> Self {
        self.fields = selector.to_string();
        self
    }

    /// Within which time a dead connection is found: one that is not made, brings no answer, or goes silent in a list
    /// or a watch. Reading then goes on from where it stood, without a list. By default ten seconds for a connection,
    /// the client's [timeout](crate::Config::timeout) for an answer and in a list, and under four minutes in a watch.
    /// The system's timers are coarse: Linux may let it take an eighth longer.
    ///
    /// Watches of a quiet resource last no longer than that, so a short time costs the server a request each time. Zero
    /// is the default.
    #[must_use]
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = Some(silence).filter(|silence| !silence.is_zero());
        self
    }

    /// List anew each time this long has passed since the last list, with the end of the watch that is open then, so up
    /// to [`silence`](Self::silence) later. Off by default, and for zero: a watch misses nothing. It finds what no client
    /// can notice by itself: events that a broken server left out, and a server restored from an older state that has
    /// overtaken the version known here before it was asked (but no object that has got the very version again that is
    /// known of it).
    #[must_use]
    pub fn relist_every(mut self, period: Duration) -> Self {
        self.relist_every = Some(period).filter(|period| !period.is_zero());
        self
    }

    /// Whether a list with an object that does not fit `K` is a failure, so that there is no sync without it. By default
    /// such an object is left out, or stays as it last was, and is told to [`on_error`](Self::on_error), the log and
    /// [`health`](Self::health). In a watch it always is so.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Called with each failure, on the thread that reads; the reflector goes on all the same, for ever. Who would give
    /// up after a long outage stops it from here, with the [`Stop`] that it runs with:
    /// [`health`](Self::health) and [`Informer::health`](super::Informer::health) tell since when nothing has come.
    #[must_use]
    pub fn on_error(mut self, f: impl Fn(&Error) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Arc::new(f));
        self
    }

    /// Changes each object before it is kept: to drop what the program does not need. Must keep the metadata. An
    /// object that it panics on counts as one that does not fit the type.
    #[must_use]
    pub fn transform(mut self, f: impl Fn(K) -> K + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(f));
        self
    }

    /// The version that reading has reached; empty before the first list.
    #[must_use]
    pub fn last_sync_resource_version(&self) -> String {
        self.vitals.edit().resource_version.clone()
    }

    /// How it fares.
    #[must_use]
    pub fn health(&self) -> Health {
        self.vitals.snapshot()
    }

    pub(super) fn time(&self) -> &Clock {
        &self.clock
    }

    pub(super) fn describe(&self) -> &str {
        &self.name
    }

    /// An error for the log: what was read is told once.
    pub(super) fn named(&self, e: &Error) -> String {
        if e.names(&self.name) { e.to_string() } else { format!("{}: {e}", self.name) }
    }

    /// Lists and watches on this thread until stopped, or until the sink ends it. Returns within a moment once
    /// stopped, whatever it waits for.
    pub fn run(&self, stop: &Stop, sink: &mut impl Sink<K>) {
        Run::new(self, sink, stop).until_stopped();
        self.vitals.edit().activity = Activity::Stopped;
    }

    /// The object as it is to be kept: transformed, then packed.
    pub(super) fn made_to_keep(&self, object: K, packer: &mut Packer) -> Result<Arc<K>> {
        let mut object = self.transformed(object)?;
        object.pack(packer);
        Ok(Arc::new(object))
    }

    pub(super) fn transformed(&self, object: K) -> Result<K> {
        let Some(transform) = &self.transform else { return Ok(object) };
        let unfit = Unfit {
            kind: "object".into(),
            key: object.key(),
            uid: object.uid().to_owned(),
            resource_version: object.resource_version().to_owned(),
            deleted: false,
        };
        let transformed = catch_unwind(AssertUnwindSafe(|| transform(object)));
        transformed.map_err(|_| Error::unfit_object(unfit, "the transform panicked on it"))
    }

    /// Tells the recorder, if there is one.
    pub(super) fn record<'a>(&'a self, event: impl FnOnce(&'a str) -> Event<'a>) {
        if let Some(recorder) = &self.recorder {
            recorder.record(&event(self.describe()));
        }
    }

    pub(super) fn tell(&self, e: &Error) {
        self.vitals.failed(e, self.clock.now());
        let told = self.on_error.as_ref().map(|f| catch_unwind(AssertUnwindSafe(|| f(e))));
        if let Some(Err(_)) = told {
            error!(target: "listwatch::cache", "{}: on_error panicked", self.describe());
        }
    }

    pub(super) fn list_params(&self) -> ListParams {
        ListParams { silence: self.silence, ..ListParams::default() }
            .labels(&self.labels)
            .fields(&self.fields)
    }

    pub(super) fn watch_params(&self) -> WatchParams {
        WatchParams { silence: self.silence, ..WatchParams::default() }
            .labels(&self.labels)
            .fields(&self.fields)
    }
}

impl<K> fmt::Debug for Reflector<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector").field("mode", &self.mode).finish_non_exhaustive()
    }
}
