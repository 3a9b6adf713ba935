//! Locks, threads and `select!`: those of the standard library and crossbeam. In tests built with `--cfg shuttle` they
//! are shuttle's, which runs the `model` tests under many orders of their threads; see CONTRIBUTING.md.
//!
//! Whatever a model thread may wait for comes from here. A lock of the standard library is right where nothing of
//! here is used while it is held.

#[cfg(not(all(test, shuttle)))]
pub(crate) use crossbeam_channel::select;
#[cfg(not(all(test, shuttle)))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};
#[cfg(not(all(test, shuttle)))]
pub(crate) use std::{thread, thread_local};

#[cfg(all(test, shuttle))]
pub(crate) use model::select;
#[cfg(all(test, shuttle))]
pub(crate) use shuttle::sync::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic,
};
#[cfg(all(test, shuttle))]
pub(crate) use shuttle::{thread, thread_local};

#[cfg(all(test, shuttle))]
pub(crate) mod model {
    use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
    use shuttle::{Config, MaxSteps, Runner};

    /// Crossbeam's channels are as they are; only waiting for them is turned into asking again and again. So a thread
    /// that waits for a channel in vain shows as a run of too many steps.
    macro_rules! select {
        ($($arms:tt)*) => {
            loop {
                break crossbeam_channel::select! {
                    $($arms)*
                    default => {
                        shuttle::thread::yield_now();
                        continue;
                    }
                };
            }
        };
    }
    pub(crate) use select;

    /// Runs `model` under so many orders of its threads: half of them by chance, half with few changes of threads at
    /// the worst places. The same ones each time, and others with `SHUTTLE_RANDOM_SEED` set.
    pub(crate) fn explore(runs: usize, model: impl Fn() + Send + Sync + Clone + 'static) {
        let seed = 4;
        run(RandomScheduler::new_from_seed(seed, runs / 2), model.clone());
        run(PctScheduler::new_from_seed(seed, 3, runs / 2), model);
    }

    fn run(scheduler: impl Scheduler + 'static, model: impl Fn() + Send + Sync + 'static) {
        let mut config = Config::new();
        config.max_steps = MaxSteps::FailAfter(200_000);
        config.silence_warnings = true;
        Runner::new(scheduler, config).run(model);
    }

    /// Lets the others run until `is_so`.
    pub(crate) fn wait_until(is_so: impl Fn() -> bool) {
        while !is_so() {
            shuttle::thread::yield_now();
        }
    }
}
