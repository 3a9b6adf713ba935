//! The queue and its pool under many orders of their threads.

use std::sync::Arc;
use std::time::Duration;

use super::{Action, RateLimiter, WorkQueue, WorkerPool};
use crate::clock::Clock;
use crate::error::Error;
use crate::stop::Stop;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::model::{explore, wait_until};
use crate::sync::thread::{self, JoinHandle};

const MS: Duration = Duration::from_millis(1);
const KEYS: usize = 2;

/// A queue, and for each key how often it was told, how often it ran, and what of it was seen.
#[derive(Clone)]
struct World {
    queue: WorkQueue<usize>,
    clock: Clock,
    stop: Stop,
    keys: Arc<[Key; KEYS]>,
}

#[derive(Default)]
struct Key {
    told: AtomicUsize,
    seen: AtomicUsize,
    runs: AtomicUsize,
    working: AtomicBool,
}

fn world() -> World {
    let (clock, stop) = (Clock::manual(), Stop::new());
    let queue = WorkQueue::with_clock(RateLimiter::default(), clock.clone());
    World { queue, clock, stop, keys: Arc::default() }
}

impl World {
    fn spawn<T: Send + 'static>(&self, run: impl FnOnce(&Self) -> T + Send + 'static) -> JoinHandle<T> {
        let world = self.clone();
        thread::spawn(move || run(&world))
    }

    /// Says that `key` changed. What is told before the queue takes it must be seen by a run that begins after it.
    fn tell(&self, key: usize) {
        self.keys[key].told.fetch_add(1, Ordering::SeqCst);
        self.queue.add(key);
    }

    /// One run for a key, which must be alone.
    fn run(&self, key: usize) {
        let key = &self.keys[key];
        assert!(!key.working.swap(true, Ordering::SeqCst), "two work on one key");
        key.runs.fetch_add(1, Ordering::SeqCst);
        let told = key.told.load(Ordering::SeqCst);
        key.seen.store(told, Ordering::SeqCst);
        assert!(key.working.swap(false, Ordering::SeqCst));
    }

    /// Works until there is no more.
    fn work(&self) {
        while let Some(key) = self.queue.get(&self.stop) {
            self.run(key);
            self.queue.done(&key);
        }
    }

    fn workers<const N: usize>(&self) -> [JoinHandle<()>; N] {
        [(); N].map(|()| self.spawn(Self::work))
    }

    fn all_is_seen(&self) -> bool {
        self.keys.iter().all(|key| key.told.load(Ordering::SeqCst) == key.seen.load(Ordering::SeqCst))
    }

    /// After all ended: no item, no hook, nobody who waits.
    fn check_empty(&self) {
        assert!(self.queue.is_empty() && !self.queue.in_use());
        assert_eq!(self.queue.idle(), 0);
    }
}

fn join<T>(threads: impl IntoIterator<Item = JoinHandle<T>>) {
    threads.into_iter().for_each(|thread| drop(thread.join().unwrap()));
}

#[test]
fn no_change_is_missed_and_no_key_is_with_two() {
    explore(3000, || {
        let world = world();
        let workers = world.workers::<2>();
        let tellers = [[0, 1, 0], [1, 0, 1]].map(|keys| {
            world.spawn(move |world| {
                for key in keys {
                    world.tell(key);
                    world.queue.done(&9); // of a key that nobody works on
                }
            })
        });
        join(tellers);
        assert!(world.queue.shut_down_with_drain(&world.stop));
        assert!(world.all_is_seen());
        join(workers);
        world.check_empty();
    });
}

#[test]
fn nobody_sleeps_while_there_is_work() {
    explore(3000, || {
        let world = world();
        let workers = world.workers::<3>();
        let tellers = [[0, 1], [1, 0]]
            .map(|keys| world.spawn(move |world| keys.into_iter().for_each(|key| world.tell(key))));
        join(tellers);
        // No shut down, which would wake all, before all is worked on.
        wait_until(|| world.all_is_seen() && !world.queue.in_use());
        world.queue.shut_down();
        join(workers);
        world.check_empty();
    });
}

#[test]
fn a_burst_reaches_every_waiting_thread() {
    explore(3000, || {
        let world = world();
        // None marks its item as done, so that each item needs a thread of its own.
        let takers = [(); 3].map(|()| world.spawn(|world| world.queue.get(&world.stop).unwrap()));
        let adders = [[0, 1], [2, 2]]
            .map(|keys| world.spawn(move |world| keys.into_iter().for_each(|key| world.queue.add(key))));
        join(adders);
        let mut got = takers.map(|thread| thread.join().unwrap());
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2]);
    });
}

#[test]
fn a_key_added_while_it_is_worked_on_runs_exactly_once_more() {
    explore(3000, || {
        let world = world();
        world.queue.add(0);
        assert_eq!(world.queue.try_get(), Some(0));
        let workers = world.workers::<2>();
        let adders = [(); 2].map(|()| world.spawn(|world| world.tell(0)));
        join(adders);
        assert_eq!(world.keys[0].runs.load(Ordering::SeqCst), 0, "it is worked on already");
        world.queue.done(&0);
        assert!(world.queue.shut_down_with_drain(&world.stop));
        join(workers);
        world.check_empty();
        assert_eq!(world.keys[0].runs.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_drain_at_any_moment_ends_when_all_work_has_and_not_before() {
    explore(4000, || {
        let world = world();
        world.tell(0);
        let workers = world.workers::<2>();
        let teller = world.spawn(|world| {
            for key in [1, 0] {
                // What comes after the shut down is not taken in, and not owed.
                world.keys[key].told.fetch_add(1, Ordering::SeqCst);
                world.queue.add(key);
            }
        });
        let drains = [(); 2].map(|()| {
            world.spawn(|world| {
                assert!(world.queue.shut_down_with_drain(&world.stop));
                assert!(!world.queue.in_use());
                assert!(world.keys.iter().all(|key| !key.working.load(Ordering::SeqCst)));
                world.keys.each_ref().map(|key| key.runs.load(Ordering::SeqCst))
            })
        });
        let [first, second] = drains.map(|thread| thread.join().unwrap());
        assert_eq!(first, second, "no run began after a drain");
        assert!(first[0] >= 1);
        join([teller]);
        join(workers);
        world.check_empty();
    });
}

#[test]
fn a_stop_at_any_moment_ends_all_who_wait() {
    explore(4000, || {
        let world = world();
        let workers = world.workers::<2>();
        let teller = world.spawn(|world| (0..KEYS).for_each(|key| world.tell(key)));
        let drain = world.spawn(|world| world.queue.shut_down_with_drain(&world.stop));
        let stops = [(); 2].map(|()| world.spawn(|world| world.stop.stop()));
        join(stops);
        join([teller]);
        join(workers);
        assert!(!drain.join().unwrap() || !world.queue.in_use());
        assert_eq!(world.queue.idle(), 0);
    });
}

#[test]
fn a_deadline_is_met_whoever_watches_it_leaves() {
    explore(4000, || {
        let world = world();
        let leaves = Stop::new();
        let token = leaves.clone();
        let leaver = world.spawn(move |world| match world.queue.get(&token) {
            Some(key) => {
                world.run(key);
                world.queue.done(&key);
            }
            None => assert!(token.is_stopped()),
        });
        let workers = world.workers::<1>();
        let adder = world.spawn(|world| {
            for (key, delay) in [(0, 3), (1, 2), (0, 1)] {
                world.keys[key].told.store(1, Ordering::SeqCst);
                world.queue.add_after(key, delay * MS);
                world.queue.forget(&key);
            }
        });
        let time = world.spawn(|world| (0..2).for_each(|_| world.clock.advance(MS)));
        leaves.stop();
        join([leaver, adder, time]);
        // Nobody has to be told again: who waits has to be awake for this.
        world.clock.advance(3 * MS);
        wait_until(|| world.all_is_seen() && !world.queue.in_use());
        world.queue.shut_down();
        join(workers);
        world.check_empty();
    });
}

#[test]
fn someone_always_waits_for_the_earliest_deadline() {
    explore(4000, || {
        let (world, leaves) = (world(), Stop::new());
        let token = leaves.clone();
        let leaver = world.spawn(move |world| assert_eq!(world.queue.get(&token), None));
        let workers = world.workers::<2>();
        let adder = world.spawn(|world| {
            [3, 2, 1].into_iter().for_each(|delay| world.queue.add_after(1, delay * MS));
        });
        // On the system's clock nothing else would wake them.
        wait_until(|| world.clock.next_timer() == Some(MS));
        leaves.stop();
        join([leaver, adder]);
        wait_until(|| world.clock.next_timer() == Some(MS));
        world.clock.advance(MS);
        wait_until(|| world.keys[1].runs.load(Ordering::SeqCst) == 1);
        world.queue.shut_down();
        join(workers);
        world.check_empty();
    });
}

#[test]
fn a_timed_get_ends_at_its_time() {
    explore(3000, || {
        let world = world();
        let getters = [1, 2].map(|time| {
            world.spawn(move |world| {
                let start = world.clock.now();
                let got = world.queue.get_timeout(time * MS, &world.stop);
                assert!(got.is_some() || world.clock.now() - start >= time * MS);
                got
            })
        });
        let adder = world.spawn(|world| world.queue.add(0));
        let time = world.spawn(|world| (0..4).for_each(|_| world.clock.advance(MS)));
        join([adder, time]);
        // Whoever began late has a later deadline.
        world.clock.advance(4 * MS);
        let clock = world.clock.clone();
        let ended = Arc::new(AtomicBool::new(false));
        let end = ended.clone();
        let ticks = thread::spawn(move || {
            while !end.load(Ordering::SeqCst) {
                clock.advance(MS);
                thread::yield_now();
            }
        });
        let got = getters.map(|thread| thread.join().unwrap()).into_iter().flatten().count();
        ended.store(true, Ordering::SeqCst);
        join([ticks]);
        assert_eq!(got + world.queue.len(), 1);
    });
}

#[test]
fn a_pool_that_is_dropped_at_any_moment_has_ended() {
    explore(3000, || {
        let world = world();
        let running = Arc::new(AtomicUsize::new(0));
        let (busy, own) = (running.clone(), world.clone());
        let pool = WorkerPool::start(2, &world.queue, &world.stop, move |key| {
            busy.fetch_add(1, Ordering::SeqCst);
            own.run(*key);
            busy.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, Error>(Action::await_change())
        });
        let teller = world.spawn(|world| [0, 1, 0].into_iter().for_each(|key| world.tell(key)));
        drop(pool.unwrap());
        assert_eq!(running.load(Ordering::SeqCst), 0);
        join([teller]);
        let told = world.queue.len();
        assert!(told <= KEYS && !world.stop.is_stopped());
        assert_eq!(world.queue.idle(), 0);
    });
}
