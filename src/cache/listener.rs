//! One handler with its thread and its bounded queue.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use log::{error, warn};

use super::handler::{Deleted, Handler};
use super::latch::Latch;
use super::seldom::Seldom;
use super::store::Change;
use super::thread::Thread;
use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::object::{ObjectKey, Resource};
use crate::shrink;
use crate::stop::Stop;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, thread_local};

/// So many notifications wait as they are; from there on those of one object are merged.
const BOUND: usize = if cfg!(all(test, shuttle)) { 2 } else { 1024 };

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
    /// Set under the lock of the queue.
    closed: Arc<AtomicBool>,
    thread: OnceLock<Arc<Thread>>,
}

thread_local! {
    /// On the thread of a handler: whether that is closed.
    static CLOSED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
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
    /// Whether the handler's thread waits for notes.
    waits: bool,
    /// What the log is told of its being slow, and of its panics.
    slow: Seldom,
    panics: Seldom,
}

impl<K: Resource> Listener<K> {
    pub(super) fn new(name: String, resync: Option<Duration>, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            name,
            resync,
            clock,
            queue: Mutex::new(Queue::new()),
            filled: Condvar::new(),
            synced: Latch::new(),
            closed: Arc::default(),
            thread: OnceLock::new(),
        })
    }

    /// Starts the thread that calls the handler, until [`close`](Self::close).
    pub(super) fn start(self: &Arc<Self>, mut handler: impl Handler<K>) -> Result<()> {
        let listener = self.clone();
        let run = move || {
            CLOSED.with(|closed| *closed.borrow_mut() = Some(listener.closed.clone()));
            while let Some(note) = listener.next() {
                listener.tell(&mut handler, note);
            }
        };
        let thread = Thread::spawn(&format!("lw-{}", self.name), run)?;
        let _ = self.thread.set(Arc::new(thread)); // it is started once
        Ok(())
    }

    /// Its thread, once started.
    pub(super) fn thread(&self) -> Option<&Arc<Thread>> {
        self.thread.get()
    }

    /// Appends what changed, for when the handler's thread is [woken](Self::wake). Never blocks for long. Says how many
    /// wait, if it is time to [tell](Self::tell_slow) that the handler is slow.
    pub(super) fn push(&self, notes: impl Iterator<Item = Note<K>>) -> Option<usize> {
        let mut queue = self.lock();
        if self.is_closed() {
            return None;
        }
        queue.extend(notes);
        queue.last.is_some().then(|| queue.slow(self.clock.now())).flatten()
    }

    /// Wakes the handler's thread if it waits in vain.
    pub(super) fn wake(&self) {
        let mut queue = self.lock();
        if queue.waits && !queue.notes.is_empty() {
            queue.waits = false;
            drop(queue);
            self.filled.notify_all();
        }
    }

    /// Logs, which is code of the user and so not done under the informer's lock.
    pub(super) fn tell_slow(&self, depth: usize) {
        warn!(
            target: "listwatch::cache",
            "handler {} is slow: {depth} notifications wait, and those of one object are merged",
            self.name
        );
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
            if self.is_closed() {
                return None;
            }
            match queue.pop() {
                Some(note) => return Some(note),
                None => {
                    queue.waits = true;
                    queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
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
            let Some(unsaid) = self.lock().panics.pass(self.clock.now()) else { return };
            let key = note.object().map(|o| o.key().to_string()).unwrap_or_default();
            let more = if unsaid > 0 { format!(", after {unsaid} more panics") } else { String::new() };
            error!(
                target: "listwatch::cache",
                "handler {} panicked on {key}{more}; it goes on with the next", self.name
            );
        }
    }
}

impl<K> Listener<K> {
    /// Ends the thread after the call that it is in; what waits is dropped.
    pub(super) fn close(&self) {
        let notes = {
            let mut queue = self.lock();
            self.closed.store(true, Ordering::SeqCst);
            (queue.holes, queue.last) = (0, None);
            std::mem::take(&mut queue.notes)
        };
        self.filled.notify_all();
        drop(notes);
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
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
    fn new() -> Self {
        Self {
            notes: VecDeque::new(),
            gone: 0,
            holes: 0,
            limit: BOUND,
            last: None,
            waits: false,
            slow: Seldom::default(),
            panics: Seldom::default(),
        }
    }

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
        self.slow.pass(now)?;
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
        if let Some(capacity) = shrink::target(self.notes.len(), self.notes.capacity()) {
            self.notes.shrink_to(capacity);
        }
    }
}

/// Whether this is the thread of a handler that is closed.
pub(super) fn is_closing() -> bool {
    CLOSED.with(|closed| closed.borrow().as_ref().is_some_and(|closed| closed.load(Ordering::SeqCst)))
}

/// Takes a listener out of its informer.
type Leave<K> = Arc<dyn Fn(&Arc<Listener<K>>) + Send + Sync>;

/// A handler's place at an informer, from [`Informer::add_handler`](super::Informer::add_handler). Dropping it changes
/// nothing; the handler stays.
pub struct Registration<K> {
    pub(super) listener: Arc<Listener<K>>,
    pub(super) leave: Leave<K>,
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
    /// Nor does it wait when called by a handler that is being taken away, or whose informer has stopped, as that may
    /// be waited for by the other.
    pub fn remove(self) {
        (self.leave)(&self.listener);
        self.listener.close();
        // Whoever waits for all handlers no longer waits for this one.
        self.listener.synced().open();
        // The other is closed before this is asked: so in any ring of handlers one does not wait.
        if let Some(thread) = self.listener.thread().filter(|_| !is_closing()) {
            thread.join();
        }
    }
}

impl<K: Resource> fmt::Debug for Registration<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("name", &self.name()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crossbeam_channel::{Receiver, Sender, unbounded};

    use super::super::testing::{Dice, build, object, text};
    use super::*;
    use crate::types::ConfigMap;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// Tells what it is told, and waits in its first call until it is let go.
    struct Recorder {
        calls: Sender<String>,
        gate: Option<Receiver<()>>,
    }

    impl Recorder {
        fn call(&mut self, call: String) {
            self.calls.send(call).unwrap();
            if let Some(gate) = self.gate.take() {
                gate.recv_timeout(PATIENCE).unwrap();
            }
        }
    }

    impl Handler<ConfigMap> for Recorder {
        fn on_add(&mut self, object: &Arc<ConfigMap>, initial: bool) {
            self.call(format!("{}{}", if initial { "=" } else { "+" }, text(object)));
        }
        fn on_update(&mut self, old: &Arc<ConfigMap>, new: &Arc<ConfigMap>) {
            self.call(format!("{}→{}", text(old), text(new)));
        }
        fn on_delete(&mut self, deleted: &Deleted<ConfigMap>) {
            self.call(format!(
                "{}{}",
                if deleted.final_state_known { "-" } else { "?" },
                text(&deleted.object)
            ));
        }
    }

    fn add(at: &str) -> Note<ConfigMap> {
        Note::Add { object: object(at), initial: false }
    }

    fn update(old: &str, new: &str) -> Note<ConfigMap> {
        Note::Update { old: object(old), new: object(new) }
    }

    fn delete(at: &str) -> Note<ConfigMap> {
        Note::Delete(Deleted { object: object(at), final_state_known: true })
    }

    /// A listener whose handler waits in its first call, which is about `a/first`.
    fn blocked() -> (Arc<Listener<ConfigMap>>, Receiver<String>, Sender<()>) {
        let listener = Listener::new("test".into(), None, Clock::manual());
        let (calls, told) = unbounded();
        let (go, gate) = unbounded();
        listener.start(Recorder { calls, gate: Some(gate) }).unwrap();
        listener.push([add("a/first@0")].into_iter());
        listener.wake();
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), "+a/first@0");
        (listener, told, go)
    }

    fn push(listener: &Listener<ConfigMap>, note: Note<ConfigMap>) {
        listener.push([note].into_iter());
        listener.wake();
    }

    /// Fills the queue up to where merging begins.
    fn fill(listener: &Listener<ConfigMap>) {
        for n in 0..BOUND {
            push(listener, add(&format!("fill/{n}@1")));
        }
    }

    /// Lets the handler go on, ends it behind all that waits, and gives what it was told after the filling.
    fn told_after(
        listener: &Arc<Listener<ConfigMap>>,
        told: &Receiver<String>,
        go: &Sender<()>,
    ) -> Vec<String> {
        push(listener, Note::InitialEnd);
        go.send(()).unwrap();
        assert!(listener.synced().wait(&Clock::system(), Clock::system().deadline(PATIENCE), &Stop::new()));
        listener.close();
        listener.thread().unwrap().join();
        told.try_iter().filter(|call| !call.contains("fill/")).collect()
    }

    #[test]
    fn notes_are_told_as_they_come_while_few_wait() {
        let (listener, told, go) = blocked();
        let notes =
            [add("a/x@1"), update("a/x@1", "a/x@2"), update("a/x@2", "a/x@3"), delete("a/x@4"), add("a/x@5")];
        listener.push(notes.into_iter());
        assert_eq!(listener.depth(), 5);
        let calls = told_after(&listener, &told, &go);
        assert_eq!(calls, ["+a/x@1", "a/x@1→a/x@2", "a/x@2→a/x@3", "-a/x@4", "+a/x@5"]);
    }

    #[test]
    fn notes_of_one_object_are_merged_while_many_wait() {
        let (listener, told, go) = blocked();
        fill(&listener);
        let depth = listener.depth();
        for (note, more) in [
            (update("a/two@1", "a/two@2"), 1),
            (update("a/two@2", "a/two@3"), 1),
            (add("a/new@4"), 2),
            (update("a/new@4", "a/new@5"), 2),
            (add("a/brief@6"), 3),
            (update("a/brief@6", "a/brief@7"), 3),
            (delete("a/brief@8"), 2),
            (update("a/gone@1", "a/gone@9"), 3),
            (update("a/gone@9", "a/gone@10"), 3),
            (delete("a/gone@11"), 4),
            (delete("a/back@12"), 5),
            (add("a/back@13"), 6),
            (update("a/back@13", "a/back@14"), 6),
            (delete("a/twice@15"), 7),
            (add("a/twice@16"), 8),
            (delete("a/twice@17"), 7),
            (add("a/twice@18"), 8),
        ] {
            push(&listener, note);
            assert_eq!(listener.depth(), depth + more);
        }
        assert_eq!(
            told_after(&listener, &told, &go),
            [
                "a/two@1→a/two@3",
                "+a/new@5",
                "a/gone@1→a/gone@10",
                "-a/gone@11",
                "-a/back@12",
                "+a/back@14",
                "-a/twice@15",
                "+a/twice@18"
            ]
        );
    }

    #[test]
    fn a_slow_handler_is_told_of_once_a_minute() {
        let clock = Clock::manual();
        let listener = Listener::<ConfigMap>::new("test".into(), None, clock.clone());
        let tells =
            |n: usize| listener.push([update(&format!("a/x@{n}"), &format!("a/x@{}", n + 1))].into_iter());
        assert!((0..BOUND).all(|n| tells(n).is_none()));
        assert!(tells(BOUND).is_some_and(|depth| depth >= BOUND));
        assert!((0..5000).all(|n| tells(BOUND + n).is_none()));
        clock.advance(Duration::from_secs(60));
        assert!(tells(1).is_some() && tells(2).is_none());
    }

    #[test]
    fn a_merged_addition_keeps_its_initial_flag() {
        let (listener, told, go) = blocked();
        fill(&listener);
        push(&listener, Note::Add { object: object("a/x@1"), initial: true });
        push(&listener, update("a/x@1", "a/x@2"));
        assert_eq!(told_after(&listener, &told, &go), ["=a/x@2"]);
    }

    #[test]
    fn a_million_updates_wait_as_one_for_each_object() {
        let (listener, told, go) = blocked();
        let keys: Vec<_> = (0..100).map(|n| ObjectKey::namespaced("a", &n.to_string())).collect();
        let mut last: Vec<_> = keys.iter().map(|key| Arc::new(build(key, "0", "u"))).collect();
        for n in 1..=1_000_000_u32 {
            let at = n as usize % 100;
            let new = Arc::new(build(&keys[at], &n.to_string(), "u"));
            let old = std::mem::replace(&mut last[at], new.clone());
            push(&listener, Note::Update { old, new });
        }
        assert!(listener.depth() <= BOUND + 100, "{}", listener.depth());
        let mut states = BTreeMap::new();
        for call in told_after(&listener, &told, &go) {
            let (old, new) = call.split_once('→').unwrap();
            let key = old.split_once('@').unwrap().0.to_owned();
            assert_eq!(states.insert(key, new.to_owned()).as_deref().unwrap_or(old), old);
        }
        assert_eq!(
            states.into_values().collect::<std::collections::BTreeSet<_>>(),
            last.iter().map(|o| text(o)).collect()
        );
    }

    #[test]
    fn objects_that_come_and_go_take_no_room() {
        let (listener, told, go) = blocked();
        fill(&listener);
        for n in 0..100_000 {
            push(&listener, add(&format!("a/{n}@1")));
            push(&listener, delete(&format!("a/{n}@2")));
            let queue = listener.lock();
            assert!(queue.notes.len() <= 3 * BOUND && queue.last.as_ref().unwrap().len() <= 2 * BOUND);
        }
        assert_eq!(listener.depth(), BOUND);
        assert_eq!(told_after(&listener, &told, &go), Vec::<String>::new());
    }

    #[test]
    fn a_queue_that_never_gets_short_remembers_only_what_waits() {
        let mut queue = Queue::<ConfigMap>::new();
        queue.extend((0..BOUND as u64).map(|n| add(&format!("fill/{n}@1"))));
        for n in 0..100_000 {
            queue.extend([add(&format!("a/{n}@1"))].into_iter());
            assert!(queue.pop().is_some());
        }
        assert!(queue.last.as_ref().unwrap().len() <= BOUND);
    }

    #[test]
    fn lists_that_come_again_and_again_are_merged() {
        let (listener, told, go) = blocked();
        let all: Vec<_> = (0..5000).map(|n| object(&format!("a/{n}@1"))).collect();
        for _ in 0..50 {
            listener.push(all.iter().cloned().map(Note::resync));
        }
        assert!(listener.depth() <= all.len() + 2 * BOUND, "{}", listener.depth());
        assert!(told_after(&listener, &told, &go).len() >= all.len());
    }

    #[test]
    fn a_whole_list_is_taken_as_it_comes_without_a_look_at_each_object() {
        let mut queue = Queue::<ConfigMap>::new();
        queue.extend((0..5000).map(|n| add(&format!("a/{n}@1"))));
        queue.extend([update("a/1@1", "a/1@2")].into_iter());
        assert!(queue.last.is_none());
        assert_eq!(queue.notes.len(), 5001);
    }

    #[test]
    fn a_burst_leaves_no_room_taken() {
        let mut queue = Queue::<ConfigMap>::new();
        queue.extend((0..100_000).map(|n| add(&format!("a/{n}@1"))));
        while queue.pop().is_some() {}
        assert!(queue.notes.capacity() <= 128 && queue.limit == BOUND && queue.last.is_none());
    }

    #[test]
    fn a_handler_that_panics_is_called_with_the_next() {
        struct Panics(Sender<String>);
        impl Handler<ConfigMap> for Panics {
            fn on_add(&mut self, object: &Arc<ConfigMap>, _: bool) {
                self.0.send(text(object)).unwrap();
                panic!("in on_add");
            }
            fn on_delete(&mut self, deleted: &Deleted<ConfigMap>) {
                self.0.send(text(&deleted.object)).unwrap();
                panic!("in on_delete");
            }
        }
        let listener = Listener::new("test".into(), None, Clock::manual());
        let (calls, told) = unbounded();
        listener.start(Panics(calls)).unwrap();
        listener.push([add("a/x@1"), delete("a/x@2"), add("a/y@3")].into_iter());
        listener.wake();
        let calls: Vec<_> = (0..3).map(|_| told.recv_timeout(PATIENCE).unwrap()).collect();
        assert_eq!(calls, ["a/x@1", "a/x@2", "a/y@3"]);
        listener.close();
        listener.thread().unwrap().join();
    }

    #[test]
    fn a_closed_listener_is_empty_and_takes_nothing() {
        let (listener, told, go) = blocked();
        fill(&listener);
        push(&listener, add("a/x@1"));
        push(&listener, delete("a/x@2"));
        listener.close();
        assert_eq!(listener.depth(), 0);
        push(&listener, add("a/y@1"));
        assert_eq!(listener.depth(), 0);
        go.send(()).unwrap();
        listener.thread().unwrap().join();
        assert!(told.is_empty());
    }

    /// What a handler and the store know of each object, by what each was told.
    #[derive(Default)]
    struct Model(BTreeMap<ObjectKey, Arc<ConfigMap>>);

    impl Model {
        fn tell(&mut self, note: &Note<ConfigMap>, seed: u64) {
            match note {
                Note::Add { object, .. } => {
                    let before = self.0.insert(object.key(), object.clone());
                    assert!(before.is_none(), "seed {seed}: {} is added twice", object.key());
                }
                Note::Update { old, new } => {
                    let before = self.0.insert(new.key(), new.clone()).unwrap();
                    assert_eq!(text(&before), text(old), "seed {seed}: not what was told last");
                    assert_eq!(old.uid(), new.uid(), "seed {seed}");
                }
                Note::Delete(deleted) => {
                    let before = self.0.remove(&deleted.object.key()).unwrap();
                    assert_eq!(before.uid(), deleted.object.uid(), "seed {seed}: another one is deleted");
                }
                Note::InitialEnd => {}
            }
        }
    }

    #[test]
    fn a_handler_knows_in_the_end_what_the_store_holds_however_slow_it_was() {
        for seed in 1..60 {
            let mut dice = Dice(seed * 7919);
            let (mut queue, mut store, mut handler) =
                (Queue::<ConfigMap>::new(), Model::default(), Model::default());
            let objects = [30, 600, 3000][seed as usize % 3];
            let mut version = 0;
            for _ in 0..4000 {
                version += 1;
                let notes: Vec<_> = match dice.roll(400) {
                    // all at once, as a list or a resync does
                    0 => store.0.values().cloned().map(Note::resync).collect(),
                    _ => {
                        let key = ObjectKey::namespaced("a", &dice.roll(objects).to_string());
                        let (version, uid) = (version.to_string(), version.to_string());
                        match (store.0.get(&key).cloned(), dice.roll(4)) {
                            (None, _) => {
                                vec![Note::Add {
                                    object: Arc::new(build(&key, &version, &uid)),
                                    initial: false,
                                }]
                            }
                            (Some(old), 0) => {
                                vec![Note::Delete(Deleted { object: old, final_state_known: false })]
                            }
                            (Some(old), 1) => vec![
                                Note::Delete(Deleted { object: old, final_state_known: false }),
                                Note::Add { object: Arc::new(build(&key, &version, &uid)), initial: false },
                            ],
                            (Some(old), _) => {
                                let new = Arc::new(build(&key, &version, old.uid()));
                                vec![Note::Update { old, new }]
                            }
                        }
                    }
                };
                notes.iter().for_each(|note| store.tell(note, seed));
                queue.extend(notes.into_iter());
                // Fast, slow or asleep, in turns.
                let pops = match (version / 700) % 3 {
                    0 => dice.roll(2),
                    1 => 0,
                    _ => dice.roll(5),
                };
                for _ in 0..pops {
                    queue.pop().iter().for_each(|note| handler.tell(note, seed));
                }
                let waiting = queue.notes.iter().flatten().count();
                assert_eq!(waiting, queue.notes.len() - queue.holes, "seed {seed}");
                assert!(waiting <= 2 * BOUND + 3 * objects as usize, "seed {seed}: {waiting}");
            }
            while let Some(note) = queue.pop() {
                handler.tell(&note, seed);
            }
            let [knows, holds] =
                [handler, store].map(|model| model.0.values().map(|o| text(o)).collect::<Vec<_>>());
            assert_eq!(knows, holds, "seed {seed}");
        }
    }
}
