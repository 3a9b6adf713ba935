use std::any::Any;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use log::{Level, error, log};

use super::queue::WorkQueue;
use crate::error::{Error, Kind, Result};
use crate::stop::Stop;
use crate::sync::thread::{self, JoinHandle};

const TARGET: &str = "listwatch::workqueue";

/// What to do next with a key that was worked on. The names are those of kube-rs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Action(Next);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Await,
    After(Duration),
    BackOff,
}

impl Action {
    /// Run again after `delay`, even if nothing changes: controller-runtime's `Result{RequeueAfter: delay}`. The earliest
    /// wins if the key waits already.
    pub fn requeue(delay: Duration) -> Self {
        Self(Next::After(delay))
    }

    /// Do nothing until the key is added again: controller-runtime's `Result{}`; after a failure, its `TerminalError`.
    pub fn await_change() -> Self {
        Self(Next::Await)
    }

    /// Run again when the rate limiter says so, after longer with each time: what follows a failure by default. Returned
    /// without one it is controller-runtime's `Result{Requeue: true}`, for "not yet" that is no error.
    pub fn back_off() -> Self {
        Self(Next::BackOff)
    }

    /// The delay of [`requeue`](Self::requeue).
    #[must_use]
    pub fn requeue_after(self) -> Option<Duration> {
        match self.0 {
            Next::After(delay) => Some(delay),
            Next::Await | Next::BackOff => None,
        }
    }
}

/// What came of the work on a key.
pub(crate) enum Verdict {
    Done(Action),
    /// A failure as it is to be logged, and what is next.
    Failed(String, Action),
}

/// Threads that take keys from a [`WorkQueue`] and call a function with each.
///
/// A key is with one thread at a time. The function should read the object of its key from a cache: it gets the newest
/// state, and learns of a deletion by finding none. What happens after the function has returned:
///
/// - `Ok` [forgets](WorkQueue::forget) earlier failures of the key (not with [`Action::back_off`]), and for
///   [`Action::requeue`] [adds it after](WorkQueue::add_after) the delay.
/// - `Err` is logged as a warning with the key, the number of the try and when the next comes, and the key is
///   [added rate limited](WorkQueue::add_rate_limited).
/// - A panic is caught, logged as an error and counts as a failure of that key. (Not with `panic = "abort"`, which
///   ends the process.)
///
/// The threads end when `stop` is stopped, after the calls that run; or when the queue is shut down, after all that
/// is queued. [`join`](Self::join) waits for that. Dropping the pool stops it and waits for the calls that run.
///
/// The threads are named `lw-worker-0` and so on. Each has the stack of any thread of the standard library: 2
/// MiB of address space, of which only what is used takes memory; `RUST_MIN_STACK` sets another size.
///
/// ```
/// # use listwatch::{Action, ObjectKey, RateLimiter, Stop, WorkQueue, WorkerPool};
/// let (stop, queue) = (Stop::new(), WorkQueue::<ObjectKey>::new(RateLimiter::default()));
/// let workers = WorkerPool::start(4, &queue, &stop, |key| -> Result<Action, std::io::Error> {
///     println!("{key} changed");
///     Ok(Action::await_change())
/// })?;
/// queue.add(ObjectKey::namespaced("default", "web-0"));
/// queue.shut_down(); // or stop.stop()
/// workers.join();
/// # Ok::<(), listwatch::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping the pool stops it"]
pub struct WorkerPool {
    /// The pool's own: ends it when dropped.
    stop: Stop,
    threads: Vec<JoinHandle<()>>,
}

impl WorkerPool {
    /// Starts `threads` threads (at least one) with the default [`WorkerOptions`].
    ///
    /// The error of `work` is only logged, so anything that prints will do: `listwatch::Error`, `anyhow::Error`,
    /// `String`. It is printed with `{:#}`.
    ///
    /// # Errors
    /// If the system gives no more threads; then none is left running.
    pub fn start<T, E, F>(threads: usize, queue: &WorkQueue<T>, stop: &Stop, work: F) -> Result<Self>
    where
        T: Clone + Eq + Hash + Debug + Send + 'static,
        E: Display,
        F: Fn(&T) -> Result<Action, E> + Send + Sync + 'static,
    {
        WorkerOptions::default().start(threads, queue, stop, work)
    }

    /// Waits until all threads have ended: until the pool's `stop` is stopped or its queue is shut down, and the work
    /// that this lets finish is done.
    pub fn join(mut self) {
        self.join_threads();
    }

    /// Leaves the threads to end by themselves.
    pub(crate) fn abandon(mut self) {
        self.threads.clear();
    }

    fn join_threads(&mut self) {
        for thread in self.threads.drain(..) {
            // A worker that drops its own pool cannot wait for itself.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join(); // panics are caught inside
            }
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.stop.stop();
            self.join_threads();
        }
    }
}

/// How a [`WorkerPool`] works.
///
/// ```
/// # use listwatch::{Action, RateLimiter, Stop, WorkQueue, WorkerOptions};
/// # let (stop, queue) = (Stop::new(), WorkQueue::<u32>::new(RateLimiter::default()));
/// let workers = WorkerOptions::default().max_retries(5).start(2, &queue, &stop, |number| {
///     if *number < 10 { Ok(Action::await_change()) } else { Err("too big") }
/// })?;
/// # Ok::<(), listwatch::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct WorkerOptions {
    max_retries: Option<u32>,
}

impl WorkerOptions {
    /// Give a key up after its first failure and `retries` more in a row: logged as an error, and the key is
    /// forgotten until it is added again. Without this, a key is retried for ever.
    ///
    /// Failures are counted by the queue's [`RateLimit`](super::RateLimit) (a [`BucketRateLimiter`] alone counts none),
    /// and not for a key that was added again meanwhile: its next run is another attempt, not a retry.
    ///
    /// [`BucketRateLimiter`]: super::BucketRateLimiter
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = Some(retries);
        self
    }

    /// As [`WorkerPool::start`], with these options.
    ///
    /// # Errors
    /// If the system gives no more threads; then none is left running.
    pub fn start<T, E, F>(
        self,
        threads: usize,
        queue: &WorkQueue<T>,
        stop: &Stop,
        work: F,
    ) -> Result<WorkerPool>
    where
        T: Clone + Eq + Hash + Debug + Send + 'static,
        E: Display,
        F: Fn(&T) -> Result<Action, E> + Send + Sync + 'static,
    {
        self.start_judged(threads, queue, stop, move |key| match work(key) {
            Ok(action) => Verdict::Done(action),
            // A panic while the error is printed is one of the work.
            Err(error) => Verdict::Failed(format!("{error:#}"), Action::back_off()),
        })
    }

    /// The same with work that says what follows a failure.
    pub(crate) fn start_judged<T, F>(
        self,
        threads: usize,
        queue: &WorkQueue<T>,
        stop: &Stop,
        work: F,
    ) -> Result<WorkerPool>
    where
        T: Clone + Eq + Hash + Debug + Send + 'static,
        F: Fn(&T) -> Verdict + Send + Sync + 'static,
    {
        let mut pool = WorkerPool { stop: stop.child(), threads: Vec::new() };
        let work = Arc::new(work);
        for number in 0..threads.max(1) {
            let worker = Worker { queue: queue.clone(), work: work.clone(), max_retries: self.max_retries };
            let stop = pool.stop.clone();
            let name = format!("lw-worker-{number}");
            let thread = thread::Builder::new().name(name).spawn(move || worker.run(&stop));
            pool.threads
                .push(thread.map_err(|e| Error::new(Kind::Limit, "start a worker thread").with_source(e))?);
        }
        Ok(pool)
    }
}

struct Worker<T, F> {
    queue: WorkQueue<T>,
    work: Arc<F>,
    max_retries: Option<u32>,
}

impl<T, F> Worker<T, F>
where
    T: Clone + Eq + Hash + Debug + Send + 'static,
    F: Fn(&T) -> Verdict,
{
    fn run(&self, stop: &Stop) {
        while let Some(key) = self.queue.next(stop) {
            // A rate limiter, and how a key is printed and cloned, are code of the user as well.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.work_on(&key))) {
                let panic = message(&*panic);
                error!(target: TARGET, "a key or its rate limiter panicked, and the key is not retried: {panic}");
            }
        }
    }

    fn work_on(&self, key: &T) {
        match catch_unwind(AssertUnwindSafe(|| (self.work)(key))) {
            Ok(Verdict::Done(Action(Next::BackOff))) => {
                let _ = self.queue.add_rate_limited(key.clone());
            }
            Ok(Verdict::Done(action)) => {
                self.queue.forget(key);
                if let Next::After(delay) = action.0 {
                    self.queue.add_after(key.clone(), delay);
                }
            }
            Ok(Verdict::Failed(error, action)) => self.failed(key, Level::Warn, &error, action),
            Err(panic) => {
                let error = format!("panicked: {}", message(&*panic));
                self.failed(key, Level::Error, &error, Action::back_off());
            }
        }
    }

    fn failed(&self, key: &T, level: Level, error: &str, action: Action) {
        let tries = self.queue.num_requeues(key).saturating_add(1);
        let (level, next) = if action.0 == Next::Await {
            self.queue.forget(key);
            (Level::Error, "not again until it changes".to_owned())
        } else if self.max_retries.is_some_and(|max| tries > max) {
            self.queue.forget(key);
            (Level::Error, "given up".to_owned())
        } else if self.queue.is_shut_down() {
            (level, "not again as the queue is shut down".to_owned())
        } else {
            let wait = match action.0 {
                Next::After(delay) => self.queue.add_failed(key.clone(), delay),
                Next::Await | Next::BackOff => self.queue.add_rate_limited(key.clone()),
            };
            (level, format!("next in {wait:?}"))
        };
        log!(target: TARGET, level, "work on {key:?} failed, try {tries}, {next}: {error}");
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no message)")
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use crossbeam_channel::{Receiver, bounded, unbounded};

    use super::super::rate_limit::RateLimiter;
    use super::*;
    use crate::clock::Clock;

    const MS: Duration = Duration::from_millis(1);

    fn queue() -> (WorkQueue<u32>, Clock, Stop) {
        let clock = Clock::manual();
        (WorkQueue::with_clock(RateLimiter::default(), clock.clone()), clock, Stop::new())
    }

    /// A pool of one thread that answers what `results` says, for each key in its order; then `Ok`.
    fn scripted(
        options: WorkerOptions,
        queue: &WorkQueue<u32>,
        stop: &Stop,
        results: Vec<Result<Action, &'static str>>,
    ) -> (WorkerPool, Receiver<u32>) {
        let (sender, runs) = unbounded();
        let results = Mutex::new(results.into_iter());
        let pool = options.start(1, queue, stop, move |key| {
            sender.send(*key).unwrap();
            let result = results.lock().unwrap().next(); // a panic must not poison it
            match result {
                Some(Err("panic")) => panic!("as asked"),
                Some(result) => result,
                None => Ok(Action::await_change()),
            }
        });
        (pool.unwrap(), runs)
    }

    /// Lets time pass until `key` runs next, and says how long that was; needs the one worker to have ended its run.
    fn next_run(queue: &WorkQueue<u32>, clock: &Clock, runs: &Receiver<u32>) -> Duration {
        queue.wait_until_unused();
        let start = clock.now();
        loop {
            clock.advance(MS);
            if !queue.is_empty() || queue.in_use() || !runs.is_empty() {
                runs.recv().unwrap();
                return clock.now() - start;
            }
        }
    }

    #[test]
    fn failures_and_panics_are_retried_with_backoff_and_success_forgets() {
        let (queue, clock, stop) = queue();
        let results = vec![Err("no"), Err("panic"), Err("no"), Ok(Action::requeue(50 * MS)), Err("no")];
        let (pool, runs) = scripted(WorkerOptions::default(), &queue, &stop, results);
        queue.add(7);
        assert_eq!(runs.recv().unwrap(), 7);
        let wait = || next_run(&queue, &clock, &runs).as_millis();
        assert_eq!([wait(), wait(), wait()], [5, 10, 20]);
        assert_eq!(wait(), 50, "the requeue of the success");
        assert_eq!(wait(), 5, "failures count from the start again");
        queue.shut_down();
        pool.join();
        assert_eq!(queue.num_requeues(&7), 0);
    }

    #[test]
    fn a_key_is_given_up_after_its_retries_and_starts_anew_when_added() {
        let (queue, clock, stop) = queue();
        let (pool, runs) =
            scripted(WorkerOptions::default().max_retries(2), &queue, &stop, vec![Err("no"); 4]);
        queue.add(7);
        runs.recv().unwrap();
        next_run(&queue, &clock, &runs);
        next_run(&queue, &clock, &runs);
        queue.wait_until_unused();
        clock.advance(3_600_000 * MS);
        assert!(queue.is_empty() && !queue.in_use() && runs.is_empty());
        assert_eq!(queue.num_requeues(&7), 0);
        queue.add(7);
        runs.recv().unwrap();
        assert_eq!(next_run(&queue, &clock, &runs), 5 * MS);
        drop(pool);
    }

    #[test]
    fn a_panic_ends_neither_the_thread_nor_other_keys() {
        let (queue, _, stop) = queue();
        let (pool, runs) = scripted(WorkerOptions::default(), &queue, &stop, vec![Err("panic"); 3]);
        (0..5).for_each(|key| queue.add(key));
        queue.shut_down();
        pool.join();
        assert_eq!(runs.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn issue_kubernetes_135072_no_thread_is_left_after_join() {
        for end in [|queue: &WorkQueue<u32>, _: &Stop| queue.shut_down(), |_: &_, stop: &Stop| stop.stop()] {
            let ((queue, _, stop), alive) = (queue(), Arc::new(()));
            let held = alive.clone();
            let pool = WorkerPool::start(4, &queue, &stop, move |_| {
                let _held = &held;
                Ok::<_, Error>(Action::await_change())
            });
            end(&queue, &stop);
            pool.unwrap().join();
            assert_eq!(Arc::strong_count(&alive), 1);
        }
    }

    #[test]
    fn stop_and_drop_let_the_running_call_finish_and_start_no_other() {
        for dropped in [false, true] {
            let (queue, _, stop) = queue();
            let ((started, start), (release, go)) = (bounded::<()>(1), bounded::<()>(0));
            let finished = Arc::new(AtomicUsize::new(0));
            let count = finished.clone();
            let pool = WorkerPool::start(1, &queue, &stop, move |_| -> Result<Action, String> {
                started.send(()).unwrap();
                go.recv().unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                Ok(Action::await_change())
            })
            .unwrap();
            queue.add(1);
            queue.add(2);
            start.recv().unwrap();
            let pool_stop = pool.stop.clone();
            thread::scope(|scope| {
                if !dropped {
                    stop.stop();
                }
                let end = scope.spawn(|| if dropped { drop(pool) } else { pool.join() });
                pool_stop.wait();
                release.send(()).unwrap();
                end.join().unwrap();
            });
            assert_eq!(finished.load(Ordering::SeqCst), 1);
            assert_eq!((queue.len(), stop.is_stopped()), (1, !dropped));
        }
    }

    #[test]
    fn keys_run_side_by_side_and_one_key_never_does() {
        let (queue, _, stop) = queue();
        let (entered, both) = bounded::<u32>(0);
        let busy = [(); 2].map(|()| AtomicBool::new(false));
        let pool = WorkerPool::start(4, &queue, &stop, move |key| -> Result<Action, String> {
            assert!(!busy[*key as usize].swap(true, Ordering::SeqCst));
            entered.send(*key).unwrap(); // until the test has seen it
            busy[*key as usize].store(false, Ordering::SeqCst);
            Ok(Action::await_change())
        })
        .unwrap();
        queue.add(0);
        queue.add(1);
        // Both have to be taken before either is let go on.
        while !queue.is_empty() {
            thread::yield_now();
        }
        queue.add(0);
        queue.add(0);
        let mut seen = [(); 3].map(|()| both.recv().unwrap());
        seen.sort_unstable();
        assert_eq!(seen, [0, 0, 1]);
        queue.shut_down();
        pool.join();
        assert_eq!(queue.num_requeues(&0), 0, "no call has panicked");
    }

    #[test]
    fn a_worker_may_drop_its_own_pool() {
        let (queue, _, stop) = queue();
        let slot = Arc::new(Mutex::new(None::<WorkerPool>));
        let (ended, end) = bounded(1);
        let own = slot.clone();
        let pool = WorkerPool::start(2, &queue, &stop, move |_| -> Result<Action, String> {
            drop(own.lock().unwrap().take());
            ended.send(()).unwrap();
            Ok(Action::await_change())
        });
        *slot.lock().unwrap() = Some(pool.unwrap());
        queue.add(1);
        end.recv().unwrap();
    }
}
