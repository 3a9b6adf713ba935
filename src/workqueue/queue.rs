use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::delays::Delays;
use super::hash::KeyHash;
use super::rate_limit::RateLimit;
use crate::clock::Clock;
use crate::stop::Stop;

/// A queue of keys to work on, for any number of threads. Clones are the same queue.
///
/// - An item is queued once, however often it is [added](Self::add), and handed out in the order of arrival.
/// - An item is with one taker at a time. Added while it is worked on, it is queued again when that work is
///   [done](Self::done): it runs exactly once more, and nothing that was told meanwhile is missed.
/// - Put in *keys*, not objects, and read the object from a cache when its key comes out: what is queued cannot be
///   older than what is known.
///
/// There are three ways in. [`add`](Self::add): now. [`add_after`](Self::add_after): after a time that you choose,
/// with no limiter asked. [`add_rate_limited`](Self::add_rate_limited): after a time that the [`RateLimit`] chooses,
/// for what failed; [`forget`](Self::forget) when it succeeded at last. A [`WorkerPool`](super::WorkerPool) does the
/// last two for you.
///
/// The queue has no thread and no timer: who waits for an item also waits for the earliest deadline.
///
/// ```
/// # use listwatch::{ObjectKey, RateLimiter, Stop, WorkQueue};
/// let (stop, queue) = (Stop::new(), WorkQueue::<ObjectKey>::new(RateLimiter::default()));
/// queue.add(ObjectKey::namespaced("default", "web-0"));
/// queue.add(ObjectKey::namespaced("default", "web-0"));
/// queue.shut_down();
/// let mut seen = Vec::new();
/// while let Some(key) = queue.next(&stop) {
///     seen.push(key.to_string());
/// } // dropping `key` says that its work is done
/// assert_eq!(seen, ["default/web-0"]);
/// ```
pub struct WorkQueue<T>(Arc<Shared<T>>);

struct Shared<T> {
    clock: Clock,
    /// Locks of `Stop` and `Clock` may be taken while this one is held; their hooks run without those.
    state: Mutex<State<T>>,
    /// Waited on for an item while the queue is open, and for the end of all work once it is shut down.
    changed: Condvar,
    /// Keeps the hook in place that wakes waiters when a manual clock is advanced.
    _on_advance: Arc<dyn Fn() + Send + Sync>,
}

struct State<T> {
    /// Each item that is queued or worked on.
    items: HashMap<T, Stage, KeyHash>,
    /// Items in `Stage::Queued`, in order.
    ready: VecDeque<T>,
    delays: Delays<T>,
    limiter: Box<dyn RateLimit<T>>,
    shut_down: bool,
    /// Threads that wait for an item.
    idle: usize,
    /// One of those was notified and has not come back yet. It notifies the next if there is more to do, so that a
    /// burst of adds makes few system calls.
    waking: bool,
    /// The deadline for which one of the idle waits; the others wait without a limit.
    watched: Option<Instant>,
}

/// client-go's sets: "dirty" is `Queued` and `WorkedOnAgain`, "processing" is `WorkedOn` and `WorkedOnAgain`.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Queued,
    WorkedOn,
    /// Added while worked on: to be queued when done.
    WorkedOnAgain,
}

impl<T: Clone + Eq + Hash + Send + 'static> WorkQueue<T> {
    /// An empty queue. [`RateLimiter::default()`](super::RateLimiter) is what client-go uses.
    #[must_use]
    pub fn new(limiter: impl RateLimit<T>) -> Self {
        Self::with_clock(limiter, Clock::system())
    }

    /// An empty queue whose delays are driven by `clock`.
    #[must_use]
    pub fn with_clock(limiter: impl RateLimit<T>, clock: Clock) -> Self {
        Self(Arc::new_cyclic(|shared: &std::sync::Weak<Shared<T>>| {
            let shared = shared.clone();
            let on_advance: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
                if let Some(shared) = shared.upgrade() {
                    shared.wake_all();
                }
            });
            clock.on_advance(&on_advance);
            let state = State {
                items: HashMap::default(),
                ready: VecDeque::new(),
                delays: Delays::default(),
                limiter: Box::new(limiter),
                shut_down: false,
                idle: 0,
                waking: false,
                watched: None,
            };
            Shared { clock, state: Mutex::new(state), changed: Condvar::new(), _on_advance: on_advance }
        }))
    }

    /// Queues `item` now, unless it is queued already. If it is worked on, it is queued when that is done.
    ///
    /// Does nothing once the queue is shut down. Never blocks on work.
    pub fn add(&self, item: T) {
        let mut state = self.0.lock();
        if !state.shut_down {
            state.add(item);
            self.0.unlock(state);
        }
    }

    /// Queues `item` when `delay` has passed, if it is not queued by then. An item that waits already keeps the
    /// earlier of both deadlines. The rate limiter is not asked.
    ///
    /// An [`add`](Self::add) in between does not take the deadline away. Does nothing once the queue is shut down, or
    /// if the delay is longer than time is counted (500 years at least).
    pub fn add_after(&self, item: T, delay: Duration) {
        if delay.is_zero() {
            return self.add(item);
        }
        let Some(at) = self.0.clock.now().checked_add(delay) else { return };
        let mut state = self.0.lock();
        if !state.shut_down {
            state.delays.insert(item, at, false);
            self.0.unlock(state);
        }
    }

    /// Queues `item` when the rate limiter lets it pass: for what failed. Returns how long that is from now.
    ///
    /// The limiter is not asked, and the try not counted, for an item that is queued already, that will be queued as
    /// soon as its work is done, or that still waits for an earlier rate limited add (unless it was
    /// [forgotten](Self::forget) since). So duplicates cost no tokens and the first deadline holds. Does nothing once
    /// the queue is shut down.
    pub fn add_rate_limited(&self, item: T) -> Duration {
        let now = self.0.clock.now();
        let mut state = self.0.lock();
        if state.shut_down {
            return Duration::ZERO;
        }
        state.promote(now);
        let waits = match state.items.get(&item) {
            Some(Stage::Queued | Stage::WorkedOnAgain) => Duration::ZERO,
            _ => state.limit(item, now),
        };
        self.0.unlock(state);
        waits
    }

    /// Tells the rate limiter that `item` succeeded or was given up: its next failure counts as the first. Takes it
    /// from no queue, and does not mark it as done.
    pub fn forget(&self, item: &T) {
        let mut state = self.0.lock();
        state.limiter.forget(item);
        state.delays.uncharge(item);
    }

    /// How often `item` was added rate limited since it was last forgotten.
    #[must_use]
    pub fn num_requeues(&self, item: &T) -> u32 {
        self.0.lock().limiter.retries(item)
    }

    /// Waits for an item and takes it; dropping the [`Work`] marks it as done, even when a panic does so.
    ///
    /// `None` once `stop` is stopped, at once and whatever is queued; or once the queue is
    /// [shut down](Self::shut_down) and nothing is left in it. An item that is worked on just then and was added
    /// again comes to whoever asks after it is done: so ask until there is none.
    pub fn next(&self, stop: &Stop) -> Option<Work<'_, T>> {
        self.get(stop).map(|item| Work { queue: self, item })
    }

    /// As [`next`](Self::next), but the taker has to call [`done`](Self::done): until then the item is not handed
    /// out again.
    pub fn get(&self, stop: &Stop) -> Option<T> {
        self.0.take(stop, None)
    }

    /// As [`get`](Self::get), but waits for `timeout` at most.
    pub fn get_timeout(&self, timeout: Duration, stop: &Stop) -> Option<T> {
        self.0.take(stop, self.0.clock.now().checked_add(timeout))
    }

    /// As [`get`](Self::get), but does not wait: `None` if nothing is queued.
    pub fn try_get(&self) -> Option<T> {
        let mut state = self.0.lock();
        let item = state.pop(&self.0.clock);
        self.0.unlock(state);
        item
    }

    /// Marks `item`, which was taken, as done. If it was added meanwhile it is queued again now.
    ///
    /// Does nothing for an item that nobody works on.
    pub fn done(&self, item: &T) {
        let mut state = self.0.lock();
        state.done(item);
        if state.shut_down && state.items.is_empty() {
            drop(state);
            self.0.changed.notify_all(); // those who wait for the drain
        } else {
            self.0.unlock(state);
        }
    }

    /// How many items are queued: neither those that wait for their time, nor those that are worked on.
    #[must_use]
    pub fn len(&self) -> usize {
        let mut state = self.0.lock();
        state.promote_due(&self.0.clock);
        state.ready.len()
    }

    /// Whether no item is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether [`shut_down`](Self::shut_down) was called.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.0.lock().shut_down
    }

    /// Takes nothing in from now on. What is queued is still handed out, and then `None`; what waits for its time is
    /// dropped. Does nothing the second time, and does not wait.
    pub fn shut_down(&self) {
        let mut state = self.0.lock();
        state.shut_down = true;
        let dropped = std::mem::take(&mut state.delays);
        drop(state);
        self.0.changed.notify_all();
        drop(dropped);
    }

    /// [Shuts down](Self::shut_down) and waits until all that is queued or worked on is done, or until stopped.
    /// Returns whether all is done.
    ///
    /// Somebody has to take and finish the items: called by the only worker this would wait for itself, and without
    /// workers until `stop`.
    pub fn shut_down_with_drain(&self, stop: &Stop) -> bool {
        self.shut_down();
        let _wake = self.0.wake_on(stop);
        let mut state = self.0.lock();
        while !state.items.is_empty() && !stop.is_stopped() {
            state = self.0.clock.wait(&self.0.changed, state, None);
        }
        state.items.is_empty()
    }
}

impl<T: Clone + Eq + Hash + Send + 'static> Shared<T> {
    fn take(self: &Arc<Self>, stop: &Stop, until: Option<Instant>) -> Option<T> {
        let mut hook = None;
        let mut state = self.lock();
        let item = loop {
            if stop.is_stopped() {
                break None;
            }
            let item = state.pop(&self.clock);
            if item.is_some() || state.shut_down || until.is_some_and(|until| until <= self.clock.now()) {
                break item;
            }
            if hook.is_some() {
                state = self.wait(state, until);
            } else {
                // Only now that it has to wait; and without the lock, as a token that has stopped runs it at once.
                drop(state);
                hook = Some(self.wake_on(stop));
                state = self.lock();
            }
        };
        self.unlock(state);
        item
    }

    /// Waits for an item, for the earliest deadline if nobody else does so, and until `until`; may return early.
    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<T>>,
        until: Option<Instant>,
    ) -> MutexGuard<'a, State<T>> {
        let watch = state.unwatched();
        if watch.is_some() {
            state.watched = watch;
        }
        let deadline = watch.into_iter().chain(until).min();
        state.idle += 1;
        let mut state = self.clock.wait(&self.changed, state, deadline);
        state.idle -= 1;
        state.waking = false;
        if watch.is_some() && state.watched == watch {
            state.watched = None;
        }
        state
    }

    /// Unlocks and, if there is something to do for an idle thread, notifies one.
    fn unlock(&self, mut state: MutexGuard<'_, State<T>>) {
        let wake =
            state.idle > 0 && !state.waking && (!state.ready.is_empty() || state.unwatched().is_some());
        state.waking |= wake;
        drop(state);
        if wake {
            self.changed.notify_one();
        }
    }

    fn wake_on(self: &Arc<Self>, stop: &Stop) -> crate::stop::OnStop {
        let shared = self.clone();
        stop.on_stop(move || shared.wake_all())
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all who wait, also who has looked and is about to wait: that is why it takes the lock.
    fn wake_all(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }
}

impl<T: Clone + Eq + Hash + 'static> State<T> {
    fn add(&mut self, item: T) {
        match self.items.entry(item) {
            Entry::Vacant(entry) => {
                self.ready.push_back(entry.key().clone());
                entry.insert(Stage::Queued);
            }
            Entry::Occupied(mut entry) => {
                if *entry.get() == Stage::WorkedOn {
                    entry.insert(Stage::WorkedOnAgain);
                }
            }
        }
    }

    fn pop(&mut self, clock: &Clock) -> Option<T> {
        self.promote_due(clock);
        let item = self.ready.pop_front()?;
        if let Some(stage) = self.items.get_mut(&item) {
            *stage = Stage::WorkedOn;
        }
        Some(item)
    }

    fn done(&mut self, item: &T) {
        // Taken out at first, as this is how it ends nearly always.
        match self.items.remove_entry(item) {
            None | Some((_, Stage::WorkedOn)) => {}
            Some((item, stage)) => {
                if stage == Stage::WorkedOnAgain {
                    self.ready.push_back(item.clone());
                }
                self.items.insert(item, Stage::Queued);
            }
        }
    }

    /// Asks the limiter, unless that was done for the deadline that `item` waits for.
    fn limit(&mut self, item: T, now: Instant) -> Duration {
        if let Some(at) = self.delays.charged(&item) {
            return at.saturating_duration_since(now);
        }
        let delay = self.limiter.when(&item, now);
        if delay.is_zero() {
            self.add(item);
        } else if let Some(at) = now.checked_add(delay) {
            return self.delays.insert(item, at, true).saturating_duration_since(now);
        }
        delay
    }

    fn promote_due(&mut self, clock: &Clock) {
        if !self.delays.is_empty() {
            self.promote(clock.now());
        }
    }

    /// Queues what has waited long enough.
    fn promote(&mut self, now: Instant) {
        while let Some(item) = self.delays.pop_due(now) {
            self.add(item);
        }
    }

    /// The earliest deadline, if no idle thread waits for it.
    fn unwatched(&self) -> Option<Instant> {
        self.delays.first().filter(|first| self.watched.is_none_or(|watched| *first < watched))
    }
}

impl<T> Clone for WorkQueue<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for WorkQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.lock();
        let queued = state.ready.len();
        f.debug_struct("WorkQueue")
            .field("queued", &queued)
            .field("worked_on", &(state.items.len() - queued))
            .field("shut_down", &state.shut_down)
            .finish_non_exhaustive()
    }
}

/// An item taken from a [`WorkQueue`]; marked as done when dropped.
#[must_use = "dropping it says that its work is done"]
pub struct Work<'a, T: Clone + Eq + Hash + Send + 'static> {
    queue: &'a WorkQueue<T>,
    item: T,
}

impl<T: Clone + Eq + Hash + Send + 'static> Deref for Work<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

impl<T: Clone + Eq + Hash + Send + 'static> Drop for Work<'_, T> {
    fn drop(&mut self) {
        self.queue.done(&self.item);
    }
}

impl<T: Clone + Eq + Hash + Send + fmt::Debug + 'static> fmt::Debug for Work<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Work").field(&self.item).finish()
    }
}
