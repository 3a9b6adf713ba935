use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::delays::Delays;
use super::hash::KeyHash;
use super::meter::{Meter, Report};
use super::rate_limit::RateLimit;
use crate::clock::Clock;
use crate::metrics::Recorder;
use crate::shrink;
use crate::stop::Stop;
use crate::sync::{Condvar, Mutex, MutexGuard};

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
    /// Of a queue that reports.
    meter: Option<Box<Meter<T>>>,
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
                meter: None,
            };
            Shared { clock, state: Mutex::new(state), changed: Condvar::new(), _on_advance: on_advance }
        }))
    }

    /// Tells `recorder` from now on what comes and goes, how long it waits and is worked on: the metrics `workqueue_…` of
    /// [`metrics`](crate::metrics). Controllers do this by themselves. Costs some 100 ns for each item, and for each that
    /// is queued or worked on another copy of it.
    pub fn report_to(&self, name: &str, recorder: impl Recorder) {
        let report = Report { name: name.into(), recorder: Arc::new(recorder) };
        let before = self.0.lock().meter.replace(Box::new(Meter::new(report, self.0.clock.clone())));
        drop(before); // which tells its recorder, without the lock
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
            state.metered(|meter| meter.retried());
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
        state.metered(|meter| meter.retried());
        state.promote(now);
        let waits = match state.items.get(&item) {
            Some(Stage::Queued | Stage::WorkedOnAgain) => Duration::ZERO,
            _ => state.limit(item, now),
        };
        self.0.unlock(state);
        waits
    }

    /// As [`add_rate_limited`](Self::add_rate_limited), which counts the failure, but after a time of the caller's.
    pub(crate) fn add_failed(&self, item: T, delay: Duration) -> Duration {
        let now = self.0.clock.now();
        let mut state = self.0.lock();
        if !state.shut_down {
            let _ = state.limiter.when(&item, now);
        }
        drop(state);
        self.add_after(item, delay);
        delay
    }

    /// Once shut down: waits until nobody works on an item any more, or until `deadline`. Returns what is worked on.
    pub(crate) fn wait_for_work(&self, deadline: Instant) -> Vec<T> {
        let mut state = self.0.lock();
        while state.items.len() > state.ready.len() && self.0.clock.now() < deadline {
            state = self.0.clock.wait(&self.0.changed, state, Some(deadline));
        }
        let worked_on = state.items.iter().filter(|(_, stage)| **stage != Stage::Queued);
        worked_on.map(|(item, _)| item.clone()).collect()
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
        if state.shut_down && state.items.len() == state.ready.len() {
            self.0.unlock(state);
            self.0.changed.notify_all(); // those who wait for the drain, or for the end of what runs
        } else {
            self.0.unlock(state);
        }
    }

    /// How many items are queued: neither those that wait for their time, nor those that are worked on.
    #[must_use]
    pub fn len(&self) -> usize {
        let mut state = self.0.lock();
        state.promote_due(&self.0.clock);
        let count = state.ready.len();
        self.0.unlock(state);
        count
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
        if state.meter.is_some() {
            return self.unlock_and_tell(state, wake);
        }
        drop(state);
        if wake {
            self.changed.notify_one();
        }
    }

    /// Tells the recorder, too, once unlocked.
    #[cold]
    fn unlock_and_tell(&self, mut state: MutexGuard<'_, State<T>>, wake: bool) {
        let notes = state.meter.as_mut().and_then(|meter| meter.notes());
        drop(state);
        if wake {
            self.changed.notify_one();
        }
        if let Some((report, notes)) = notes {
            report.tell(&notes);
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
                if let Some(meter) = &mut self.meter {
                    meter.added(entry.key());
                }
                self.ready.push_back(entry.key().clone());
                entry.insert(Stage::Queued);
            }
            Entry::Occupied(mut entry) => {
                if *entry.get() == Stage::WorkedOn {
                    if let Some(meter) = &mut self.meter {
                        meter.added(entry.key());
                    }
                    entry.insert(Stage::WorkedOnAgain);
                }
            }
        }
    }

    fn metered(&mut self, note: impl FnOnce(&mut Meter<T>)) {
        if let Some(meter) = &mut self.meter {
            note(meter);
        }
    }

    fn pop(&mut self, clock: &Clock) -> Option<T> {
        self.promote_due(clock);
        let item = self.ready.pop_front()?;
        self.metered(|meter| meter.taken(&item));
        if let Some(stage) = self.items.get_mut(&item) {
            *stage = Stage::WorkedOn;
        }
        Some(item)
    }

    fn done(&mut self, item: &T) {
        self.metered(|meter| meter.done(item));
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
        if let Some(capacity) = shrink::target(self.items.len(), self.items.capacity()) {
            self.items.shrink_to(capacity);
        }
        if let Some(capacity) = shrink::target(self.ready.len(), self.ready.capacity()) {
            self.ready.shrink_to(capacity);
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

#[cfg(test)]
impl<T> WorkQueue<T> {
    /// Whether an item is queued or worked on.
    pub(super) fn in_use(&self) -> bool {
        !self.0.lock().items.is_empty()
    }

    /// Until none is.
    pub(super) fn wait_until_unused(&self) {
        while self.in_use() {
            std::thread::yield_now();
        }
    }

    /// How many threads wait for an item.
    #[cfg(shuttle)]
    pub(super) fn idle(&self) -> usize {
        self.0.lock().idle
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread;

    use super::super::rate_limit::{BucketRateLimiter, ItemExponentialFailure, MaxOf, RateLimiter};
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn queue() -> (WorkQueue<u32>, Clock) {
        let clock = Clock::manual();
        (WorkQueue::with_clock(RateLimiter::default(), clock.clone()), clock)
    }

    /// What is queued now, in order; each is marked as done.
    fn take_all(queue: &WorkQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.try_get().inspect(|item| queue.done(item))).collect()
    }

    /// Until `count` threads wait for an item.
    fn wait_for_idle(queue: &WorkQueue<u32>, count: usize) {
        while queue.0.lock().idle != count {
            thread::yield_now();
        }
    }

    #[test]
    fn a_burst_that_is_over_leaves_no_memory_behind() {
        let (queue, clock) = queue();
        (0..100_000).for_each(|item| queue.add(item));
        (100_000..200_000).for_each(|item| queue.add_after(item, MS));
        assert_eq!(take_all(&queue).len(), 100_000);
        clock.advance(MS);
        assert_eq!(take_all(&queue).len(), 100_000);
        let state = queue.0.lock();
        let capacities = [state.items.capacity(), state.ready.capacity(), state.delays.capacity()];
        assert!(capacities.iter().all(|capacity| *capacity <= 128), "{capacities:?}");
    }

    #[test]
    fn issue_kube_rs_318_an_item_added_many_times_is_handed_out_once_and_in_order() {
        let (queue, _) = queue();
        [3, 1, 3, 2, 1].into_iter().for_each(|item| queue.add(item));
        assert_eq!(queue.len(), 3);
        assert_eq!(take_all(&queue), [3, 1, 2]);
    }

    #[test]
    fn issue_kube_rs_318_an_item_added_while_worked_on_runs_exactly_once_more() {
        let (queue, _) = queue();
        queue.add(1);
        assert_eq!(queue.try_get(), Some(1));
        queue.add(1);
        queue.add(1);
        assert_eq!(queue.try_get(), None, "only one may work on it");
        queue.done(&1);
        assert_eq!(take_all(&queue), [1]);
        assert!(queue.is_empty());
    }

    #[test]
    fn issue_kubernetes_141079_done_of_what_nobody_works_on_does_nothing() {
        let (queue, _) = queue();
        queue.done(&1);
        queue.add(1);
        queue.done(&1);
        assert_eq!(take_all(&queue), [1]);
        queue.done(&1);
        assert!(queue.is_empty());
    }

    #[test]
    fn an_item_comes_after_its_delay_and_the_earliest_deadline_wins() {
        let (queue, clock) = queue();
        queue.add_after(1, 100 * MS);
        queue.add_after(2, 50 * MS);
        queue.add_after(1, 200 * MS);
        queue.add_after(2, 10 * MS);
        queue.add_after(3, Duration::ZERO);
        queue.add_after(4, Duration::MAX);
        assert_eq!(take_all(&queue), [3]);
        clock.advance(10 * MS);
        assert_eq!(take_all(&queue), [2]);
        clock.advance(89 * MS);
        assert!(take_all(&queue).is_empty());
        clock.advance(MS);
        assert_eq!(take_all(&queue), [1]);
        clock.advance(3600 * 1000 * MS);
        assert!(take_all(&queue).is_empty(), "a replaced deadline is gone");
    }

    #[test]
    fn a_delay_that_ends_while_the_item_is_worked_on_runs_it_again() {
        let (queue, clock) = queue();
        queue.add(1);
        queue.try_get().unwrap();
        queue.add_after(1, MS);
        clock.advance(MS);
        assert_eq!(queue.try_get(), None);
        queue.done(&1);
        assert_eq!(take_all(&queue), [1]);
    }

    #[test]
    fn issue_controller_runtime_1594_an_item_that_waits_or_is_queued_costs_no_token() {
        let clock = Clock::manual();
        let queue = WorkQueue::with_clock(BucketRateLimiter::new(100 * MS, 1), clock.clone());
        assert_eq!(queue.add_rate_limited(0), Duration::ZERO);
        assert_eq!(queue.add_rate_limited(0), Duration::ZERO); // queued
        assert_eq!(queue.add_rate_limited(1), 100 * MS);
        // Added at twice the rate of the bucket, the wait does not grow.
        for round in 0..20 {
            assert!(queue.add_rate_limited(1) <= 100 * MS, "round {round}");
            clock.advance(50 * MS);
            take_all(&queue);
        }
    }

    #[test]
    fn issue_controller_runtime_1594_an_item_that_will_run_again_at_once_costs_no_token() {
        let (queue, _) = queue();
        queue.add(1);
        queue.try_get().unwrap();
        queue.add(1);
        assert_eq!(queue.add_rate_limited(1), Duration::ZERO);
        assert_eq!(queue.num_requeues(&1), 0);
    }

    #[test]
    fn a_failure_does_not_wait_for_a_later_deadline_of_another_origin() {
        let (queue, clock) = queue();
        queue.add_after(1, 3600 * 1000 * MS); // a requeue of an earlier success
        assert_eq!(queue.add_rate_limited(1), 5 * MS);
        clock.advance(5 * MS);
        assert_eq!(take_all(&queue), [1]);

        for _ in 0..10 {
            clock.advance(queue.add_rate_limited(2));
            take_all(&queue);
        }
        assert!(queue.add_rate_limited(2) > 5000 * MS);
        queue.forget(&2); // an event came before that, and its work succeeded
        assert_eq!(queue.add_rate_limited(2), 5 * MS);
    }

    #[test]
    fn backoff_doubles_until_forgotten() {
        let (queue, clock) = queue();
        let fail = || {
            let wait = queue.add_rate_limited(1);
            clock.advance(wait - MS);
            assert!(queue.is_empty());
            clock.advance(MS);
            assert_eq!(take_all(&queue), [1]);
            wait.as_millis()
        };
        assert_eq!([(); 4].map(|()| fail()), [5, 10, 20, 40]);
        assert_eq!(queue.num_requeues(&1), 4);
        queue.forget(&1);
        assert_eq!((fail(), queue.num_requeues(&1)), (5, 1));
    }

    #[test]
    fn issue_kubernetes_131200_after_shut_down_what_is_queued_comes_out_and_nothing_goes_in() {
        let ((queue, clock), stop) = (queue(), Stop::new());
        queue.add(1);
        queue.add(2);
        queue.add_after(3, MS);
        queue.shut_down();
        queue.shut_down();
        assert!(queue.is_shut_down());
        queue.add(4);
        queue.add_after(5, MS);
        assert_eq!(queue.add_rate_limited(6), Duration::ZERO);
        clock.advance(1000 * MS);
        assert_eq!(queue.get(&stop), Some(1));
        assert_eq!(queue.get(&stop), Some(2));
        assert_eq!(queue.get(&stop), None);
    }

    #[test]
    fn issue_kubernetes_119554_shut_down_and_stop_wake_all_who_wait() {
        for end in [|queue: &WorkQueue<u32>, _: &Stop| queue.shut_down(), |_: &_, stop: &Stop| stop.stop()] {
            let ((queue, _), stop) = (queue(), Stop::new());
            thread::scope(|scope| {
                let waiting = [(); 3].map(|()| scope.spawn(|| queue.get(&stop)));
                wait_for_idle(&queue, 3);
                end(&queue, &stop);
                for thread in waiting {
                    assert_eq!(thread.join().unwrap(), None);
                }
            });
            assert_eq!(Arc::strong_count(&queue.0), 1, "no hook is left with the token");
        }
    }

    #[test]
    fn stop_is_not_missed_by_one_who_is_about_to_wait() {
        let ((queue, _), stop) = (queue(), Stop::new());
        let _wake = queue.0.wake_on(&stop);
        let state = queue.0.lock(); // as one who has looked in vain
        thread::scope(|scope| {
            let stopping = scope.spawn(|| stop.stop());
            while !stop.is_stopped() {
                thread::yield_now();
            }
            (0..100).for_each(|_| thread::yield_now());
            let (state, result) = queue.0.changed.wait_timeout(state, 10_000 * MS).unwrap();
            assert!(!result.timed_out());
            drop(state);
            stopping.join().unwrap();
        });
    }

    #[test]
    fn stop_wins_over_what_is_queued() {
        let ((queue, _), stop) = (queue(), Stop::new());
        queue.add(1);
        stop.stop();
        assert_eq!(queue.get(&stop), None);
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn a_waiting_thread_gets_what_is_added_and_what_becomes_due() {
        let ((queue, clock), stop) = (queue(), Stop::new());
        thread::scope(|scope| {
            for add in [
                |q: &WorkQueue<u32>, _: &Clock| q.add(1),
                |q: &WorkQueue<u32>, c: &Clock| {
                    q.add_after(1, MS);
                    c.advance(MS);
                },
            ] {
                let thread = scope.spawn(|| queue.next(&stop).map(|work| *work));
                wait_for_idle(&queue, 1);
                add(&queue, &clock);
                assert_eq!(thread.join().unwrap(), Some(1));
            }
        });
    }

    #[test]
    fn a_timed_get_ends_at_its_time() {
        let ((queue, clock), stop) = (queue(), Stop::new());
        thread::scope(|scope| {
            let thread = scope.spawn(|| queue.get_timeout(10 * MS, &stop));
            wait_for_idle(&queue, 1);
            clock.advance(10 * MS);
            assert_eq!(thread.join().unwrap(), None);
        });
        queue.add(1);
        assert_eq!(queue.get_timeout(Duration::ZERO, &stop), Some(1));
    }

    #[test]
    fn the_system_clock_wakes_one_who_waits_for_a_deadline() {
        let (queue, stop) = (WorkQueue::new(RateLimiter::default()), Stop::new());
        let start = Clock::system().now();
        queue.add_after(1, 3600 * 1000 * MS);
        thread::scope(|scope| {
            let thread = scope.spawn(|| queue.get(&stop));
            wait_for_idle(&queue, 1);
            queue.add_after(2, 20 * MS);
            assert_eq!(thread.join().unwrap(), Some(2));
        });
        assert!(Clock::system().now() - start >= 20 * MS);
    }

    #[test]
    fn another_thread_takes_over_the_earliest_deadline() {
        let (queue, leaves, stays) = (WorkQueue::new(RateLimiter::default()), Stop::new(), Stop::new());
        queue.add_after(1, 300 * MS);
        thread::scope(|scope| {
            let first = scope.spawn(|| queue.get(&leaves));
            wait_for_idle(&queue, 1);
            let second = scope.spawn(|| queue.get(&stays));
            wait_for_idle(&queue, 2);
            leaves.stop();
            assert_eq!(first.join().unwrap(), None);
            assert_eq!(second.join().unwrap(), Some(1));
        });
    }

    #[test]
    fn a_burst_wakes_every_waiting_thread() {
        let ((queue, _), stop) = (queue(), Stop::new());
        thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(|| queue.get(&stop))); // none marks its item as done
            wait_for_idle(&queue, 4);
            (0..4).for_each(|item| queue.add(item));
            let mut got = threads.map(|thread| thread.join().unwrap());
            got.sort_unstable();
            assert_eq!(got, [0, 1, 2, 3].map(Some));
        });
    }

    #[test]
    fn issue_kubernetes_141079_drain_waits_for_queued_and_for_work_in_progress() {
        let ((queue, _), stop) = (queue(), Stop::new());
        (0..3).for_each(|item| queue.add(item));
        let drained = AtomicBool::new(false);
        thread::scope(|scope| {
            let drain = || {
                let all = queue.shut_down_with_drain(&stop);
                drained.store(true, Ordering::SeqCst);
                all
            };
            let threads = [(); 2].map(|()| scope.spawn(drain));
            while !queue.is_shut_down() {
                thread::yield_now();
            }
            queue.add(9); // ignored
            let mut seen = Vec::new();
            while let Some(work) = queue.next(&stop) {
                seen.push(*work);
                assert!(!drained.load(Ordering::SeqCst));
            }
            assert_eq!(seen, [0, 1, 2]);
            assert!(threads.map(|thread| thread.join().unwrap()).iter().all(|all| *all));
        });
        assert!(queue.shut_down_with_drain(&stop), "nothing is left to wait for");
    }

    #[test]
    fn issue_kubernetes_141079_drain_waits_for_the_second_run_of_an_item() {
        let ((queue, _), stop) = (queue(), Stop::new());
        queue.add(1);
        let work = queue.next(&stop).unwrap();
        queue.add(1);
        thread::scope(|scope| {
            let drain = scope.spawn(|| queue.shut_down_with_drain(&stop));
            while !queue.is_shut_down() {
                thread::yield_now();
            }
            drop(work);
            assert!(!drain.is_finished());
            assert_eq!(queue.next(&stop).map(|work| *work), Some(1));
            assert!(drain.join().unwrap());
        });
    }

    #[test]
    fn stop_ends_a_drain_that_nobody_serves() {
        let ((queue, _), stop) = (queue(), Stop::new());
        queue.add(1);
        thread::scope(|scope| {
            let drain = scope.spawn(|| queue.shut_down_with_drain(&stop));
            while !queue.is_shut_down() {
                thread::yield_now();
            }
            stop.stop();
            assert!(!drain.join().unwrap());
        });
    }

    #[test]
    fn a_panic_marks_the_work_as_done() {
        let ((queue, _), stop) = (queue(), Stop::new());
        queue.add(1);
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _work = queue.next(&stop);
                panic!("in user code");
            });
            assert!(thread.join().is_err());
        });
        queue.add(1);
        assert_eq!(queue.try_get(), Some(1));
    }

    /// Each key's changes are counted; at the end the last count of each must have been seen by a run.
    #[test]
    fn under_load_no_change_is_missed_and_no_key_is_worked_on_twice_at_once() {
        const KEYS: usize = 50;
        let ((queue, clock), stop) = (queue(), Stop::new());
        let told = [(); KEYS].map(|()| AtomicUsize::new(0));
        let seen = [(); KEYS].map(|()| AtomicUsize::new(0));
        let working = [(); KEYS].map(|()| AtomicBool::new(false));
        let work = || {
            while let Some(key) = queue.next(&stop) {
                let key = *key as usize;
                assert!(!working[key].swap(true, Ordering::SeqCst));
                seen[key].store(told[key].load(Ordering::SeqCst), Ordering::SeqCst);
                if key % 7 == 0 {
                    queue.add_after(key as u32, MS);
                }
                working[key].store(false, Ordering::SeqCst);
            }
        };
        let tell = |seed: u64| {
            let mut random = Random(seed);
            for _ in 0..20_000 {
                let key = random.below(KEYS as u64) as usize;
                told[key].fetch_add(1, Ordering::SeqCst);
                queue.add(key as u32);
                if random.below(100) == 0 {
                    clock.advance(MS);
                }
            }
        };
        thread::scope(|scope| {
            let workers = [(); 4].map(|()| scope.spawn(work));
            let tellers = [1, 2, 3].map(|seed| scope.spawn(move || tell(seed)));
            tellers.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(queue.shut_down_with_drain(&stop));
            workers.into_iter().for_each(|thread| thread.join().unwrap());
        });
        for (told, seen) in told.iter().zip(&seen) {
            assert_eq!(told.load(Ordering::SeqCst), seen.load(Ordering::SeqCst));
        }
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut x = self.0;
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (x ^ (x >> 31)) % limit
        }
    }

    fn limiter() -> impl RateLimit<u32> {
        MaxOf(ItemExponentialFailure::new(4 * MS, 100 * MS), BucketRateLimiter::new(10 * MS, 3))
    }

    /// What the queue has to do, as plainly as it can be said: client-go's three sets, and the times.
    struct Model {
        dirty: Vec<u32>,
        processing: Vec<u32>,
        queue: Vec<u32>,
        /// Deadline, order of arrival, item.
        waiting: Vec<(u64, u64, u32)>,
        charged: Vec<u32>,
        limiter: Box<dyn RateLimit<u32>>,
        start: Instant,
        now: u64,
        count: u64,
        shut_down: bool,
    }

    impl Model {
        fn add(&mut self, item: u32) {
            if self.shut_down || self.dirty.contains(&item) {
                return;
            }
            self.dirty.push(item);
            if !self.processing.contains(&item) {
                self.queue.push(item);
            }
        }

        fn add_after(&mut self, item: u32, delay: u64) {
            self.count += 1;
            if self.shut_down {
            } else if delay == 0 {
                self.add(item);
            } else {
                let new = (self.now + delay, self.count, item);
                let old = self.waiting.iter().find(|(_, _, other)| *other == item).copied();
                self.waiting.retain(|(_, _, other)| *other != item);
                self.waiting.push(old.filter(|old| old.0 <= new.0).unwrap_or(new));
            }
        }

        fn add_rate_limited(&mut self, item: u32) {
            if self.shut_down || self.dirty.contains(&item) || self.charged.contains(&item) {
                return;
            }
            let delay = self.limiter.when(&item, self.start + self.now as u32 * MS);
            self.add_after(item, delay.as_millis() as u64);
            if !delay.is_zero() {
                self.charged.push(item);
            }
        }

        fn forget(&mut self, item: u32) {
            self.limiter.forget(&item);
            self.charged.retain(|other| *other != item);
        }

        fn get(&mut self) -> Option<u32> {
            if self.queue.is_empty() {
                return None;
            }
            let item = self.queue.remove(0);
            self.processing.push(item);
            self.dirty.retain(|other| *other != item);
            Some(item)
        }

        fn done(&mut self, item: u32) {
            if self.processing.contains(&item) {
                self.processing.retain(|other| *other != item);
                if self.dirty.contains(&item) {
                    self.queue.push(item);
                }
            }
        }

        fn advance(&mut self, time: u64) {
            self.now += time;
            self.waiting.sort_unstable();
            while self.waiting.first().is_some_and(|(at, ..)| *at <= self.now) {
                let (_, _, item) = self.waiting.remove(0);
                self.charged.retain(|other| *other != item);
                self.add(item);
            }
        }

        fn shut_down(&mut self) {
            self.shut_down = true;
            self.waiting.clear();
            self.charged.clear();
        }
    }

    #[test]
    fn behaves_as_a_naive_model() {
        for seed in 0..3000 {
            let clock = Clock::manual();
            let queue = WorkQueue::with_clock(limiter(), clock.clone());
            let mut model = Model {
                dirty: Vec::new(),
                processing: Vec::new(),
                queue: Vec::new(),
                waiting: Vec::new(),
                charged: Vec::new(),
                limiter: Box::new(limiter()),
                start: clock.now(),
                now: 0,
                count: 0,
                shut_down: false,
            };
            let mut random = Random(seed);
            for step in 0..200 {
                let at = format!("seed {seed}, step {step}");
                let item = random.below(6) as u32;
                match random.below(100) {
                    0..20 => (queue.add(item), model.add(item)).0,
                    20..35 => {
                        let delay = random.below(40);
                        queue.add_after(item, delay as u32 * MS);
                        model.add_after(item, delay);
                    }
                    35..50 => {
                        queue.add_rate_limited(item);
                        model.add_rate_limited(item);
                    }
                    50..65 => assert_eq!(queue.try_get(), model.get(), "{at}"),
                    65..80 => (queue.done(&item), model.done(item)).0,
                    80..87 => (queue.forget(&item), model.forget(item)).0,
                    87..99 => {
                        let time = random.below(30);
                        clock.advance(time as u32 * MS);
                        model.advance(time);
                    }
                    _ if random.below(4) == 0 => (queue.shut_down(), model.shut_down()).0,
                    _ => {}
                }
                assert_eq!(queue.len(), model.queue.len(), "{at}"); // also queues what is due
                assert_eq!(queue.num_requeues(&item), model.limiter.retries(&item), "{at}");
                let state = queue.0.lock();
                assert_eq!(state.delays.first().is_some(), !model.waiting.is_empty(), "{at}");
                assert_eq!(state.items.len(), model.queue.len() + model.processing.len(), "{at}");
            }
        }
    }
}
