use std::fmt;
use std::iter;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use log::debug;

use super::fifo::{Delta, Fifo};
use super::handler::Handler;
use super::health::{Activity, Health};
use super::latch::Latch;
use super::list_watch::ListWatch;
use super::listener::{Listener, Note, Registration, is_closing};
use super::lister::Lister;
use super::reflector::{FifoSink, ListMode, Reflector};
use super::store::{Store, StoreWriter};
use super::thread::Thread;
use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::object::Resource;
use crate::stop::Stop;
use crate::sync::{Mutex, MutexGuard, select};

/// So many deltas wait between the thread that reads and the one that applies. Their places are there from the start, in
/// each informer: 3 KB.
const FIFO_CAPACITY: usize = 128;
/// So many more are stored before handlers are woken for the first: a tenth of a millisecond.
const MOST_AT_ONCE: usize = 31;

/// A shared informer: a local copy of objects that follows the server, and tells handlers of each change.
///
/// # Contract
///
/// **The cache converges.** Once synced, it holds some state that the server had, and it moves on to later states as
/// they come. It may be behind, it never stays wrong: after any failure reading goes on from where it stood, or lists
/// anew and finds what was missed. Only the [`Stop`] given to [`start`](Self::start) ends it.
///
/// A server that was restored from an older state is found out by its version, which is compared after a broken
/// connection and after a watch that brought nothing, not even a bookmark; all objects are then told as changed. One
/// that has overtaken the known version by then cannot be told from one that was not restored: for that, as for events
/// that a broken server leaves out, there is [`relist_every`](InformerBuilder::relist_every).
///
/// **Handlers are told after the cache has changed**, each on a thread of its own, one call at a time. What a handler
/// reads from the cache is at least as new as what it is told.
///
/// **The calls about one object come in the order of its changes**; between objects there is no order. Changes may
/// be told as one: an object that changed twice may be told as changed once, `old` being what was last told and `new`
/// what came last. An object that comes back under its name with another uid is told as deleted and added, never as
/// changed. A deletion is told only of an object that was told of before.
///
/// **No deletion is lost.** One that was missed is found by the next list and told with the last known state
/// ([`final_state_known`](super::Deleted::final_state_known) is false). Only an object that came and went while a
/// handler was more than a thousand notifications behind is not told at all.
///
/// **A handler that comes late** is first told, as additions marked `initial`, of all that is there, then of changes,
/// with nothing between lost or told twice. It may be taken away at any time.
///
/// **A slow handler slows nobody** and makes no memory grow: behind a thousand notifications, those of one object
/// are merged. It is logged by name, and its [`depth`](Registration::depth) can be read.
///
/// **Objects that do not fit the type** change nothing: the last good version stays, no deletion is told;
/// [`health`](Self::health) counts them and the log names them.
///
/// # Threads
///
/// Started, it has two threads (one reads, one applies) and one for each handler. [`join`](Self::join) waits for
/// them to end, which they do within a moment once stopped, but for a handler's call that is running.
///
/// Clones are the same informer.
pub struct Informer<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    reflector: Reflector<K>,
    clock: Clock,
    store: Store<K>,
    fifo: Fifo<K>,
    /// Makes the thread that applies look at its listeners again.
    wake: (Sender<()>, Receiver<()>),
    resync: Option<Duration>,
    /// A store that holds a first list.
    synced: Latch,
    stop: Stop,
    /// First in the order distribute → store → queue of a listener. Held while a delta is stored and put into the
    /// queues, and while a handler joins, so that a handler finds each change either in the store or in its queue.
    /// Never held while code of the user runs.
    distribute: Mutex<Distribute<K>>,
}

struct Distribute<K> {
    /// Taken by the thread that applies.
    writer: Option<StoreWriter<K>>,
    listeners: Vec<Arc<Listener<K>>>,
    named: u64,
    /// The two that read and apply.
    threads: Vec<Arc<Thread>>,
    /// Those of handlers that were taken away and may still be in a call.
    left: Vec<Arc<Thread>>,
}

/// Makes an [`Informer`] that needs no factory.
pub struct InformerBuilder<K> {
    reflector: Reflector<K>,
    store: (Store<K>, StoreWriter<K>),
    resync: Option<Duration>,
    index_error: Option<Error>,
}

/// A handler's name and period of resync.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct HandlerOptions {
    name: Option<String>,
    resync: Option<Duration>,
}

impl HandlerOptions {
    /// The name in logs and threads; by default the resource and a number.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Tell all objects again, as changes without a difference, each time this long has passed, or never for zero; by
    /// default as often as the informer does, which is never.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }
}

impl<K: Resource> Informer<K> {
    /// An informer of what can be listed and watched here.
    pub fn builder(source: impl ListWatch<K>) -> InformerBuilder<K> {
        let reflector = Reflector::new(source);
        InformerBuilder { reflector, store: Store::new(), resync: None, index_error: None }
    }

    /// Starts reading and telling, until stopped. Does nothing if it was started already.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn start(&self, stop: &Stop) -> Result<()> {
        let shared = &self.shared;
        let name = self.short_name();
        let mut distribute = shared.lock();
        let Some(writer) = distribute.writer.take() else { return Ok(()) };
        let own = shared.stop.clone();
        let link = stop.on_stop(move || own.stop());
        let (applying, reading) = (shared.clone(), shared.clone());
        let roles: [(_, Box<dyn FnOnce() + Send>); 2] = [
            ("apply", Box::new(move || applying.apply(writer))),
            (
                "read",
                Box::new(move || {
                    let _link = link;
                    let Shared { fifo, store, stop, .. } = &*reading;
                    reading.reflector.run(stop, &mut FifoSink { fifo, store, stop });
                }),
            ),
        ];
        for (role, run) in roles {
            match Thread::spawn(&format!("lw-{role}-{name}"), run) {
                Ok(thread) => distribute.threads.push(Arc::new(thread)),
                Err(e) => {
                    // It cannot be started again.
                    shared.stop.stop();
                    return Err(e.context(format!("start the informer of {}", self.describe())));
                }
            }
        }
        Ok(())
    }

    /// `pods`, for names of threads.
    fn short_name(&self) -> &str {
        self.describe().split(' ').next().unwrap_or_default()
    }

    /// Adds a handler, at any time: see the contract for what it is told first.
    ///
    /// # Errors
    /// If the system has no thread left, or the informer has stopped.
    pub fn add_handler(&self, handler: impl Handler<K>) -> Result<Registration<K>> {
        self.add_handler_with(HandlerOptions::default(), handler)
    }

    /// Adds a handler with a name or a period of resync.
    ///
    /// # Errors
    /// As [`add_handler`](Self::add_handler).
    pub fn add_handler_with(
        &self,
        options: HandlerOptions,
        handler: impl Handler<K>,
    ) -> Result<Registration<K>> {
        let shared = &self.shared;
        let resource = self.short_name();
        let mut distribute = shared.lock();
        if shared.stop.is_stopped() {
            return Err(Error::stopped().context("add a handler to an informer"));
        }
        distribute.named += 1;
        let name = options.name.unwrap_or_else(|| format!("{resource}-{}", distribute.named));
        let resync = options.resync.or(shared.resync).filter(|period| !period.is_zero());
        let listener = Listener::new(name, resync, shared.clock.clone());
        listener.start(handler)?;
        if shared.synced.is_open() {
            let there = shared.store.list().into_iter().map(|object| Note::Add { object, initial: true });
            listener.push(there.chain([Note::InitialEnd]));
            listener.wake();
        }
        distribute.listeners.push(listener.clone());
        drop(distribute);
        // The thread that applies sets its timer by the listeners' periods.
        let _ = shared.wake.0.try_send(());
        let informer = Arc::downgrade(shared);
        let leave = Arc::new(move |listener: &Arc<Listener<K>>| {
            if let Some(shared) = informer.upgrade() {
                let mut distribute = shared.lock();
                distribute.listeners.retain(|other| !Arc::ptr_eq(other, listener));
                // Who takes itself away cannot wait for itself, nor may who is closing: `join` does.
                distribute.left.retain(|thread| !thread.has_ended());
                distribute.left.extend(listener.thread().cloned());
            }
        });
        Ok(Registration { listener, leave, clock: shared.clock.clone(), stop: shared.stop.clone() })
    }

    /// Adds an index, at any time; see [`Store::add_index`].
    ///
    /// # Errors
    /// If there is an index of that name.
    pub fn add_index(
        &self,
        name: &str,
        values_of: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<()> {
        self.shared.store.add_index(name, values_of)
    }

    /// Reads the cache.
    #[must_use]
    pub fn lister(&self) -> Lister<K> {
        Lister::new(self.shared.store.clone())
    }

    /// Whether the cache holds a first list. A handler may still be at it: see
    /// [`Registration::has_synced`].
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.shared.synced.is_open()
    }

    /// Waits until the cache holds a first list and the handlers that are there now have been told of it, for at most
    /// `timeout`; ends early when stopped.
    ///
    /// # Errors
    /// If that did not happen in time: the message says why, as far as is known.
    pub fn wait_for_sync(&self, timeout: Duration) -> Result<()> {
        self.wait_until(self.shared.clock.deadline(timeout), timeout)
    }

    pub(super) fn wait_until(&self, deadline: Instant, timeout: Duration) -> Result<()> {
        let Shared { clock, stop, synced, .. } = &*self.shared;
        if !synced.wait(clock, deadline, stop) {
            return Err(self.not_synced(timeout));
        }
        let listeners = self.shared.lock().listeners.clone();
        match listeners.iter().find(|l| !l.synced().wait(clock, deadline, stop)) {
            None => Ok(()),
            Some(_) if stop.is_stopped() => Err(self.not_synced(timeout)),
            Some(slow) => {
                let (name, depth) = (slow.name(), slow.depth());
                let message = format!("{}: handler {name} is not through the first list", self.describe());
                Err(Error::new(
                    Kind::Timeout,
                    format!("{message} after {timeout:?}: {depth} notifications wait"),
                ))
            }
        }
    }

    fn not_synced(&self, timeout: Duration) -> Error {
        let health = self.health();
        let why = match (&health.last_error, &health.activity) {
            _ if self.shared.stop.is_stopped() => return Error::stopped().context(self.describe()),
            (Some((_, error)), _) => format!("the last of {} failures: {error}", health.errors),
            (None, Activity::Idle) => "it was not started".into(),
            (None, Activity::Listing { items, remaining: Some(more) }) => {
                format!("it is listing, {items} objects so far and {more} to come")
            }
            (None, Activity::Listing { items, .. }) => format!("it is listing, {items} objects so far"),
            (None, other) => format!("it is {other:?}"),
        };
        Error::new(Kind::Timeout, format!("{} not synced after {timeout:?}: {why}", self.describe()))
    }

    /// How it fares: fit for a liveness probe.
    #[must_use]
    pub fn health(&self) -> Health {
        let listeners = self.shared.lock().listeners.clone();
        Health {
            synced: self.has_synced(),
            waiting: self.shared.fifo.len(),
            handlers: listeners.iter().map(|l| (l.name().to_owned(), l.depth())).collect(),
            ..self.shared.reflector.health()
        }
    }

    /// The version that the server's state has been read up to; empty before the first list.
    #[must_use]
    pub fn last_sync_resource_version(&self) -> String {
        self.shared.reflector.last_sync_resource_version()
    }

    /// Whether it has been stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.shared.stop.is_stopped()
    }

    /// What it is of: `pods in "default"`.
    #[must_use]
    pub fn describe(&self) -> &str {
        self.shared.reflector.describe()
    }

    /// Waits until all its threads have ended, which they do once stopped. Returns at once if it was never started.
    /// Called by a handler that ends as well, it does not wait for other handlers.
    pub fn join(&self) {
        let threads = self.shared.lock().threads.clone();
        threads.iter().for_each(|thread| thread.join());
        // Both at once, as a handler that is taken away goes from one to the other.
        let (mut listeners, left) = {
            let distribute = self.shared.lock();
            (distribute.listeners.clone(), distribute.left.clone())
        };
        if !self.shared.stop.is_stopped() {
            listeners.clear();
        }
        listeners.iter().for_each(|listener| listener.close());
        if !is_closing() {
            let handlers = listeners.iter().filter_map(|listener| listener.thread()).chain(&left);
            handlers.for_each(|thread| thread.join());
        }
    }
}

impl<K: Resource> Shared<K> {
    fn lock(&self) -> MutexGuard<'_, Distribute<K>> {
        self.distribute.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes deltas, stores them and tells the listeners, until stopped.
    fn apply(&self, mut writer: StoreWriter<K>) {
        let mut resyncs = Resyncs::default();
        'deltas: while !self.stop.is_stopped() {
            let timer = self.clock.timer(resyncs.next(&self.lock().listeners, &self.clock));
            let delta = select! {
                recv(self.fifo.receiver()) -> parcel => parcel.ok().map(Delta::from),
                recv(timer.channel()) -> _ => None,
                recv(self.wake.1) -> _ => continue 'deltas,
                recv(self.stop.signal()) -> _ => break 'deltas,
            };
            match delta {
                Some(delta) => {
                    let more = self.fifo.receiver().try_iter().take(MOST_AT_ONCE).map(Delta::from);
                    self.store(&mut writer, iter::once(delta).chain(more));
                }
                None => {
                    let due = resyncs.due(&self.clock);
                    self.resync(|period| due.contains(&period));
                    self.wake();
                }
            }
        }
        let listeners = self.lock().listeners.clone();
        listeners.iter().for_each(|listener| listener.close());
        debug!(target: "listwatch::cache", "{}: stopped", self.reflector.describe());
    }

    /// Stores what has come, tells the listeners and then wakes them, once for all of it.
    fn store(&self, writer: &mut StoreWriter<K>, deltas: impl Iterator<Item = Delta<K>>) {
        for delta in deltas {
            match delta {
                Delta::Resync => self.resync(|_| true),
                delta => self.store_one(writer, delta),
            }
        }
        self.wake();
    }

    fn wake(&self) {
        self.lock().listeners.iter().for_each(|listener| listener.wake());
    }

    fn store_one(&self, writer: &mut StoreWriter<K>, delta: Delta<K>) {
        let listed = matches!(delta, Delta::Replace { .. });
        let prepared = writer.prepare(delta);
        let distribute = self.lock();
        let changes = writer.commit(prepared);
        let first = listed && !self.synced.is_open();
        if first {
            // Within the lock, so that who joins after it finds the list in the store; before any handler has synced.
            self.synced.open();
        }
        let mut slow = Vec::new();
        for listener in &distribute.listeners {
            if !changes.is_empty() || first {
                let notes = changes.iter().map(|change| Note::of(change, first));
                let depth = listener.push(notes.chain(first.then_some(Note::InitialEnd)));
                slow.extend(depth.map(|depth| (listener.clone(), depth)));
            }
        }
        drop(distribute);
        slow.iter().for_each(|(listener, depth)| listener.tell_slow(*depth));
    }

    /// Tells all objects again to the listeners whose period is picked.
    fn resync(&self, pick: impl Fn(Duration) -> bool) {
        let distribute = self.lock();
        let picked = distribute.listeners.iter().filter(|l| l.resync.is_some_and(&pick));
        for listener in picked {
            listener.push(self.store.list().into_iter().map(Note::resync));
        }
    }
}

/// When which period of resync is over next.
#[derive(Default)]
struct Resyncs(Vec<(Duration, Instant)>);

impl Resyncs {
    /// Keeps the periods of these listeners, and says when the first is over.
    fn next<K>(&mut self, listeners: &[Arc<Listener<K>>], clock: &Clock) -> Option<Instant> {
        let periods: Vec<_> = listeners.iter().filter_map(|l| l.resync).collect();
        self.0.retain(|(period, _)| periods.contains(period));
        for period in periods {
            if !self.0.iter().any(|(other, _)| *other == period) {
                self.0.push((period, clock.deadline(period)));
            }
        }
        self.0.iter().map(|(_, at)| *at).min()
    }

    /// The periods that are over, and begin again.
    fn due(&mut self, clock: &Clock) -> Vec<Duration> {
        let now = clock.now();
        let due = self.0.iter_mut().filter(|(_, at)| *at <= now);
        due.map(|(period, at)| {
            *at = clock.deadline(*period);
            *period
        })
        .collect()
    }
}

impl<K: Resource> InformerBuilder<K> {
    /// Where its time comes from, if not from where its source's does.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.reflector = self.reflector.clock(clock);
        self
    }

    /// How the present state is had.
    #[must_use]
    pub fn mode(mut self, mode: ListMode) -> Self {
        self.reflector = self.reflector.mode(mode);
        self
    }

    /// Only objects whose labels match.
    #[must_use]
    pub fn labels(mut self, selector: impl ToString) -> Self {
        self.reflector = self.reflector.labels(selector);
        self
    }

    /// Only objects whose fields match: see [`Reflector::fields`].
    #[must_use]
    pub fn fields(mut self, selector: impl ToString) -> Self {
        self.reflector = self.reflector.fields(selector);
        self
    }

    /// Whether an object that does not fit the type keeps it from syncing; see [`Reflector::strict`].
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.reflector = self.reflector.strict(strict);
        self
    }

    /// Within which time a dead connection is found; see [`Reflector::silence`].
    #[must_use]
    pub fn silence(mut self, silence: Duration) -> Self {
        self.reflector = self.reflector.silence(silence);
        self
    }

    /// List anew each time this long has passed; see [`Reflector::relist_every`].
    #[must_use]
    pub fn relist_every(mut self, period: Duration) -> Self {
        self.reflector = self.reflector.relist_every(period);
        self
    }

    /// Tell handlers all objects again each time this long has passed. Off by default, and for zero: it finds nothing
    /// that was missed, as the server is not asked.
    #[must_use]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Called with each failure: see [`Reflector::on_error`].
    #[must_use]
    pub fn on_error(mut self, f: impl Fn(&Error) + Send + Sync + 'static) -> Self {
        self.reflector = self.reflector.on_error(f);
        self
    }

    /// Changes each object before it is kept: see [`Reflector::transform`].
    #[must_use]
    pub fn transform(mut self, f: impl Fn(K) -> K + Send + Sync + 'static) -> Self {
        self.reflector = self.reflector.transform(f);
        self
    }

    /// Adds an index; see [`Store::add_index`]. A name that is taken is an error of [`build`](Self::build).
    #[must_use]
    pub fn index(
        mut self,
        name: &str,
        values_of: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        if let Err(e) = self.store.0.add_index(name, values_of) {
            self.index_error.get_or_insert(e);
        }
        self
    }

    /// Makes the informer; [`Informer::start`] starts it.
    ///
    /// # Errors
    /// If two indexes have one name.
    pub fn build(mut self) -> Result<Informer<K>> {
        match self.index_error.take() {
            Some(e) => Err(e),
            None => Ok(self.into_informer()),
        }
    }

    pub(super) fn into_informer(self) -> Informer<K> {
        let Self { reflector, store: (store, writer), resync, .. } = self;
        let distribute = Distribute {
            writer: Some(writer),
            listeners: Vec::new(),
            named: 0,
            threads: Vec::new(),
            left: Vec::new(),
        };
        Informer {
            shared: Arc::new(Shared {
                clock: reflector.time().clone(),
                reflector,
                store,
                fifo: Fifo::bounded(FIFO_CAPACITY),
                wake: bounded(1),
                resync,
                synced: Latch::new(),
                stop: Stop::new(),
                distribute: Mutex::new(distribute),
            }),
        }
    }
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

/// Ends the threads of handlers of an informer that was never started.
impl<K> Drop for Shared<K> {
    fn drop(&mut self) {
        self.stop.stop();
        let distribute = self.distribute.get_mut().unwrap_or_else(PoisonError::into_inner);
        distribute.listeners.iter().for_each(|listener| listener.close());
    }
}

impl<K: Resource> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer")
            .field("of", &self.describe())
            .field("health", &self.health())
            .finish_non_exhaustive()
    }
}

impl<K: Resource> fmt::Debug for InformerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerBuilder").field("reflector", &self.reflector).finish_non_exhaustive()
    }
}

#[cfg(all(test, shuttle))]
mod model;
