//! One handler with its thread and its bounded queue.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use log::{error, warn};

use super::handler::{Deleted, Handler};
use super::latch::Latch;
use super::store::Change;
use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::object::{ObjectKey, Resource};
use crate::stop::Stop;

/// So many notifications wait as they are; from there on those of one object are merged.
const BOUND: usize = 1024;
/// How often a slow handler is logged.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// What is to be told.
pub(super) enum Note<K> {
    Add {
        object: Arc<K>,
        initial: bool,
    },
    Update {
        old: Arc<K>,
        new: Arc<K>,
    },
    Delete(Deleted<K>),
    /// All that was there when the handler came has been told.
    InitialEnd,
}

/// The side of a handler that the informer sees.
pub(super) struct Listener<K> {
    name: String,
    /// Its own period of resync.
    pub(super) resync: Option<Duration>,
    clock: Clock,
    /// The last lock in the order distribute → store → queue. Never held while the handler runs.
    queue: Mutex<Queue<K>>,
    filled: Condvar,
    synced: Latch,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Queue<K> {
    /// `None` where a note was merged away.
    notes: VecDeque<Option<Note<K>>>,
    /// How many notes have left: note number `n` lies at `n - gone`.
    gone: usize,
    holes: usize,
    /// Beyond this length merging begins: [`BOUND`], and more where a whole list was taken as it came.
    limit: usize,
    /// The number of the last note of each object that waits, while merging.
    last: Option<HashMap<ObjectKey, usize>>,
    closed: bool,
    warned: Option<Instant>,
}

impl<K: Resource> Listener<K> {
    pub(super) fn new(name: String, resync: Option<Duration>, clock: Clock) -> Arc<Self> {
        let queue = Queue {
            notes: VecDeque::new(),
            gone: 0,
            holes: 0,
            limit: BOUND,
            last: None,
            closed: false,
            warned: None,
        };
        let (queue, thread) = (Mutex::new(queue), Mutex::new(None));
        Arc::new(Self { name, resync, clock, queue, filled: Condvar::new(), synced: Latch::new(), thread })
    }

    /// Starts the thread that calls the handler, until [`close`](Self::close).
    pub(super) fn start(self: &Arc<Self>, mut handler: impl Handler<K>) -> Result<()> {
        let listener = self.clone();
        let run = move || {
            while let Some(note) = listener.next() {
                listener.tell(&mut handler, note);
            }
        };
        // A name with a zero byte would panic.
        let name = format!("lw-{}", self.name).replace('\0', "");
        let thread = thread::Builder::new().name(name).spawn(run);
        let thread = thread.map_err(|e| Error::new(Kind::Limit, "no thread for a handler").with_source(e))?;
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// Waits for the thread to end, unless it is the one that asks.
    pub(super) fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread.filter(|t| t.thread().id() != thread::current().id()) {
            let _ = thread.join(); // it catches the handler's panics
        }
    }

    /// Appends what changed. Never blocks for long.
    pub(super) fn push(&self, notes: impl Iterator<Item = Note<K>>) {
        let mut queue = self.lock();
        if queue.closed {
            return;
        }
        let idle = queue.notes.is_empty();
        queue.extend(notes);
        let slow = queue.last.is_some().then(|| queue.slow(self.clock.now())).flatten();
        drop(queue);
        if idle {
            self.filled.notify_all();
        }
        if let Some(depth) = slow {
            warn!(
                target: "listwatch::cache",
                "handler {} is slow: {depth} notifications wait, and those of one object are merged",
                self.name
            );
        }
    }

    /// How many notifications wait.
    pub(super) fn depth(&self) -> usize {
        let queue = self.lock();
        queue.notes.len() - queue.holes
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn synced(&self) -> &Latch {
        &self.synced
    }

    fn next(&self) -> Option<Note<K>> {
        let mut queue = self.lock();
        loop {
            if queue.closed {
                return None;
            }
            match queue.pop() {
                Some(note) => return Some(note),
                None => queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn tell(&self, handler: &mut impl Handler<K>, note: Note<K>) {
        let told = catch_unwind(AssertUnwindSafe(|| match &note {
            Note::Add { object, initial } => handler.on_add(object, *initial),
            Note::Update { old, new } => handler.on_update(old, new),
            Note::Delete(deleted) => handler.on_delete(deleted),
            Note::InitialEnd => self.synced.open(),
        }));
        if told.is_err() {
            let key = note.object().map(|o| o.key().to_string()).unwrap_or_default();
            error!(target: "listwatch::cache", "handler {} panicked on {key}; it goes on with the next", self.name);
        }
    }
}

impl<K> Listener<K> {
    /// Ends the thread after the call that it is in; what waits is dropped.
    pub(super) fn close(&self) {
        let notes = {
            let mut queue = self.lock();
            queue.closed = true;
            (queue.holes, queue.last) = (0, None);
            std::mem::take(&mut queue.notes)
        };
        self.filled.notify_all();
        drop(notes);
    }

    fn lock(&self) -> MutexGuard<'_, Queue<K>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Resource> Note<K> {
    pub(super) fn of(change: &Change<K>, initial: bool) -> Self {
        match change {
            Change::Added(object) => Self::Add { object: object.clone(), initial },
            Change::Updated { old, new } => Self::Update { old: old.clone(), new: new.clone() },
            Change::Deleted { object, final_state_known } => {
                Self::Delete(Deleted { object: object.clone(), final_state_known: *final_state_known })
            }
        }
    }

    pub(super) fn resync(object: Arc<K>) -> Self {
        Self::Update { old: object.clone(), new: object }
    }

    fn object(&self) -> Option<&Arc<K>> {
        match self {
            Self::Add { object, .. } | Self::Update { new: object, .. } => Some(object),
            Self::Delete(deleted) => Some(&deleted.object),
            Self::InitialEnd => None,
        }
    }
}

impl<K: Resource> Queue<K> {
    /// Takes a whole list as it comes, as it is no longer than the store; merges where more than that waits, until
    /// little waits.
    fn extend(&mut self, notes: impl Iterator<Item = Note<K>>) {
        let there = self.notes.len();
        let few = there < BOUND || there + notes.size_hint().0 <= self.limit;
        if few && self.last.is_none() {
            self.notes.extend(notes.map(Some));
            if self.notes.len() > self.limit {
                self.limit = self.notes.len() + BOUND;
            }
        } else {
            notes.for_each(|note| self.merge(note));
        }
    }

    /// How many wait, if it is time to say so.
    fn slow(&mut self, now: Instant) -> Option<usize> {
        if self.warned.is_some_and(|last| now < last + WARN_EVERY) {
            return None;
        }
        self.warned = Some(now);
        Some(self.notes.len() - self.holes)
    }

    fn merge(&mut self, note: Note<K>) {
        let Some(key) = note.object().map(|object| object.key()) else {
            self.notes.push_back(Some(note));
            return;
        };
        let gone = self.gone;
        let mut last = self.last.take().unwrap_or_else(|| self.numbers());
        let at = last.get(&key).and_then(|number| number.checked_sub(gone));
        let slot = at.and_then(|at| self.notes.get_mut(at)).filter(|slot| slot.is_some());
        let merged = match slot {
            Some(slot) => match (slot.take(), note) {
                // It has not been told of yet, so its end need not be.
                (Some(Note::Add { .. }), Note::Delete(_)) => {
                    last.remove(&key);
                    self.holes += 1;
                    Ok(())
                }
                (Some(Note::Add { initial, .. }), Note::Update { new: object, .. }) => {
                    *slot = Some(Note::Add { object, initial });
                    Ok(())
                }
                (Some(Note::Update { old, .. }), Note::Update { new, .. }) => {
                    *slot = Some(Note::Update { old, new });
                    Ok(())
                }
                // Behind a delete comes another object of that name. An update before a delete is told, as a handler
                // with a filter must know whether the object passed it in its last state.
                (before, note) => {
                    *slot = before;
                    Err(note)
                }
            },
            None => Err(note),
        };
        if let Err(note) = merged {
            last.insert(key, gone + self.notes.len());
            self.notes.push_back(Some(note));
        }
        self.last = Some(last);
        // Objects that come and go while the handler sleeps must not fill the queue with holes.
        if self.holes > BOUND && self.holes > self.notes.len() / 2 {
            self.notes.retain(Option::is_some);
            self.holes = 0;
            self.last = Some(self.numbers());
        }
    }

    /// The number of the last note of each object.
    fn numbers(&self) -> HashMap<ObjectKey, usize> {
        let key =
            |(at, note): (usize, &Option<Note<K>>)| Some((note.as_ref()?.object()?.key(), self.gone + at));
        self.notes.iter().enumerate().filter_map(key).collect()
    }

    fn pop(&mut self) -> Option<Note<K>> {
        while let Some(note) = self.notes.pop_front() {
            self.gone += 1;
            match note {
                Some(note) => {
                    if self.notes.len() < BOUND / 2 {
                        self.calm_down();
                    } else if let (Some(last), Some(object)) = (&mut self.last, note.object()) {
                        let key = object.key();
                        if last.get(&key) == Some(&(self.gone - 1)) {
                            last.remove(&key);
                        }
                    }
                    return Some(note);
                }
                None => self.holes -= 1,
            }
        }
        None
    }

    /// Ends merging, and gives back the room that a burst took.
    fn calm_down(&mut self) {
        self.last = None;
        self.limit = BOUND;
        if self.notes.capacity() > 4 * BOUND {
            self.notes.shrink_to(BOUND);
        }
    }
}

/// A handler's place at an informer, from [`Informer::add_handler`](super::Informer::add_handler). Dropping it changes
/// nothing; the handler stays.
pub struct Registration<K> {
    pub(super) listener: Arc<Listener<K>>,
    pub(super) leave: Arc<dyn Fn(&Arc<Listener<K>>) + Send + Sync>,
    pub(super) clock: Clock,
    pub(super) stop: Stop,
}

impl<K: Resource> Registration<K> {
    /// The handler's name in logs and threads.
    #[must_use]
    pub fn name(&self) -> &str {
        self.listener.name()
    }

    /// Whether the handler has been told of all that was there when it came.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.listener.synced().is_open()
    }

    /// Waits until [`has_synced`](Self::has_synced), for at most `timeout`; ends early when the informer stops.
    ///
    /// # Errors
    /// If that did not happen in time.
    pub fn wait_for_sync(&self, timeout: Duration) -> Result<()> {
        let deadline = self.clock.deadline(timeout);
        if self.listener.synced().wait(&self.clock, deadline, &self.stop) {
            return Ok(());
        }
        if self.stop.is_stopped() {
            return Err(Error::stopped().context(format!("wait for handler {}", self.name())));
        }
        let depth = self.depth();
        let message =
            format!("handler {} has not seen the first list after {timeout:?}: {depth} wait", self.name());
        Err(Error::new(Kind::Timeout, message))
    }

    /// How many notifications wait for the handler.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.listener.depth()
    }

    /// Takes the handler away. Returns when it runs no more; called by the handler itself, it ends after that call.
    pub fn remove(self) {
        (self.leave)(&self.listener);
        self.listener.close();
        // Whoever waits for all handlers no longer waits for this one.
        self.listener.synced().open();
        self.listener.join();
    }
}

impl<K: Resource> fmt::Debug for Registration<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("name", &self.name()).finish_non_exhaustive()
    }
}
