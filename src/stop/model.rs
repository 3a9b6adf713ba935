//! A `Stop` under many orders of its threads.

use std::sync::Arc;

use super::*;
use crate::sync::atomic::AtomicUsize;
use crate::sync::model::explore;
use crate::sync::thread;

/// Counts calls.
#[derive(Clone, Default)]
struct Calls(Arc<AtomicUsize>);

impl Calls {
    fn call(&self) -> impl FnOnce() + Send + use<> {
        let count = self.0.clone();
        move || {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[test]
fn who_joins_while_others_stop_is_stopped_and_each_hook_runs_once() {
    explore(6000, || {
        let stop = Stop::new();
        let before = Calls::default();
        let guard = stop.on_stop(before.call());
        let stopping = [(); 2].map(|()| {
            let stop = stop.clone();
            thread::spawn(move || stop.stop())
        });
        let joining = [(); 2].map(|()| {
            let stop = stop.clone();
            thread::spawn(move || {
                let (child, hook) = (stop.child(), Calls::default());
                let grandchild = child.child();
                let guards = [stop.on_stop(hook.call()), grandchild.on_stop(hook.call())];
                grandchild.wait();
                stop.wait();
                (child, grandchild, hook, guards)
            })
        });
        for thread in stopping {
            thread.join().unwrap();
            assert!(stop.is_stopped());
        }
        for thread in joining {
            let (child, grandchild, hook, _guards) = thread.join().unwrap();
            assert!(child.is_stopped() && grandchild.is_stopped());
            assert_eq!(hook.count(), 2);
        }
        assert_eq!(before.count(), 1);
        drop(guard);
        assert_eq!(stop.0.lock().hooks.len(), 0);
    });
}

#[test]
fn stop_returns_when_the_hooks_have_run() {
    explore(2000, || {
        let (stop, hook) = (Stop::new(), Calls::default());
        let child = stop.child();
        let _guards = [stop.on_stop(hook.call()), child.on_stop(hook.call())];
        let other = child.clone();
        let waiting = thread::spawn(move || other.wait());
        stop.stop();
        assert_eq!(hook.count(), 2);
        waiting.join().unwrap();
    });
}

#[test]
fn a_child_that_goes_while_its_parent_stops_leaves_nothing() {
    explore(4000, || {
        let parent = Stop::new();
        let hook = Calls::default();
        let stopping = parent.clone();
        let stopping = thread::spawn(move || stopping.stop());
        let (leaving, call) = (parent.clone(), hook.call());
        let leaving = thread::spawn(move || {
            let child = leaving.child();
            let guard = child.on_stop(call);
            drop(child);
            drop(guard);
        });
        stopping.join().unwrap();
        leaving.join().unwrap();
        assert!(hook.count() <= 1);
        assert_eq!(parent.0.lock().hooks.len(), 0);
    });
}

#[test]
fn no_hook_begins_after_its_guard_went() {
    explore(4000, || {
        let (stop, others) = (Stop::new(), Calls::default());
        let (running, ran) = (Arc::new(AtomicUsize::new(0)), Calls::default());
        let (run, end) = (running.clone(), ran.call());
        // A hook that takes long, among others whose guards go meanwhile.
        let first = stop.on_stop(others.call());
        let _slow = stop.on_stop(move || {
            run.store(1, Ordering::SeqCst);
            (0..3).for_each(|_| thread::yield_now());
            end();
        });
        let last = stop.on_stop(others.call());
        let stopping = stop.clone();
        let stopping = thread::spawn(move || stopping.stop());
        let is_running = || running.load(Ordering::SeqCst) == 1 && ran.count() == 0;
        let begins_in = is_running();
        let before = others.count();
        drop((first, last));
        let within = begins_in && is_running();
        stopping.join().unwrap();
        // Hooks run one after the other, so none had begun that has not ended before the slow one.
        assert!(!within || others.count() == before, "a hook began after its guard went");
    });
}
