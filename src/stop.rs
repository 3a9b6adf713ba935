//! One token that ends whatever blocks.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use log::error;

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard, select};

/// A token that ends whatever blocks: every call of this crate that can wait takes one.
///
/// Clones are the same token. [`stop`](Stop::stop) may be called from any thread, any number of times, and wakes at
/// once all that wait on it: sleeping backoffs, queues, channels, and threads blocked in connect, in a TLS handshake
/// or in reading a socket (those are shut down). It cannot be undone. Dropping a `Stop` stops nothing.
///
/// ```
/// # use listwatch::Stop;
/// # use std::time::Duration;
/// let stop = Stop::new();
/// let term = stop.child();                  // ends with `stop`, or on its own
/// assert!(!term.sleep(Duration::from_millis(1)));
/// stop.stop();
/// assert!(term.sleep(Duration::from_secs(3600))); // returns at once
/// ```
#[derive(Clone)]
pub struct Stop(Arc<Inner>);

struct Inner {
    /// Disconnected by `stop`, which makes every `select!` on it ready.
    signal: Receiver<()>,
    /// The same as no sender being left, but free to ask.
    stopped: AtomicBool,
    state: Mutex<State>,
    /// Says whether it counts as stopped though nobody has stopped it yet. Children have that of their parent.
    over: Option<Over>,
    /// Keeps this token registered with its parent.
    _parent: Option<OnStop>,
}

#[derive(Default)]
struct State {
    /// `None` once stopped.
    sender: Option<Sender<()>>,
    next_id: u64,
    hooks: Vec<Hook>,
}

type Over = Arc<dyn Fn() -> bool + Send + Sync>;
type Hook = (u64, Box<dyn FnOnce() + Send>);

impl Stop {
    /// A token that has not stopped.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Inner::new(None, None)))
    }

    /// A token that stops when this one does, and can be stopped without it.
    #[must_use]
    pub fn child(&self) -> Self {
        self.child_with(self.0.over.clone())
    }

    /// A child that counts as stopped from when `over` says so, which is asked often and must not change its mind. Who
    /// wants those to wake that wait on it must stop it then.
    pub(crate) fn child_until(&self, over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let parent = self.clone();
        self.child_with(Some(Arc::new(move || over() || parent.is_stopped())))
    }

    fn child_with(&self, over: Option<Over>) -> Self {
        let child = Self(Arc::new_cyclic(|child: &Weak<Inner>| {
            let child = child.clone();
            let parent = self.on_stop(move || {
                if let Some(inner) = child.upgrade() {
                    inner.stop();
                }
            });
            Inner::new(Some(parent), over)
        }));
        // A hook that ran before the child was there has done nothing.
        if self.0.stopped.load(Ordering::Acquire) {
            child.stop();
        }
        child
    }

    /// Stops: wakes all that wait, and returns when the hooks have run. Does nothing the second time.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Whether [`stop`](Stop::stop) was called, on this token or a parent. The token of a leader's
    /// [term](crate::leader), and its children, say so from the moment on when the term is over by the clock, though
    /// those who wait may be woken a little later.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire) || self.0.over.as_ref().is_some_and(|over| over())
    }

    /// Waits for `time` or until stopped. Returns `true` if stopped.
    pub fn sleep(&self, time: Duration) -> bool {
        self.0.signal.recv_timeout(time) == Err(RecvTimeoutError::Disconnected) || self.is_stopped()
    }

    /// Waits until stopped.
    pub fn wait(&self) {
        select! { recv(self.0.signal) -> _ => {} }
    }

    /// A channel that never carries a message and is disconnected by [`stop`](Stop::stop): for `select!`. So
    /// crossbeam-channel 0.5 is part of this API.
    pub fn signal(&self) -> &Receiver<()> {
        &self.0.signal
    }

    /// Runs `hook` once when stopped, on the thread that stops (at once if that was before). Dropping the returned
    /// guard takes the hook away; a hook that already runs is not waited for.
    #[must_use = "dropping the guard takes the hook away"]
    pub fn on_stop(&self, hook: impl FnOnce() + Send + 'static) -> OnStop {
        let mut state = self.0.lock();
        let id = state.next_id;
        if state.sender.is_some() {
            state.next_id += 1;
            state.hooks.push((id, Box::new(hook)));
        } else {
            drop(state);
            hook();
        }
        OnStop { stop: Arc::downgrade(&self.0), id }
    }
}

impl Inner {
    fn new(parent: Option<OnStop>, over: Option<Over>) -> Self {
        let (sender, signal) = bounded(0);
        let state = State { sender: Some(sender), ..State::default() };
        Self { signal, stopped: AtomicBool::new(false), state: Mutex::new(state), over, _parent: parent }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        let sender = {
            let mut state = self.lock();
            self.stopped.store(true, Ordering::Release);
            state.sender.take()
        };
        if sender.is_none() {
            return;
        }
        drop(sender);
        // One by one, so that a guard can take its hook away until that begins.
        while let Some((_, hook)) = self.next_hook() {
            // One that panics must not keep the others from being told.
            if catch_unwind(AssertUnwindSafe(hook)).is_err() {
                error!(target: "listwatch", "a hook of a Stop panicked");
            }
        }
    }

    fn next_hook(&self) -> Option<Hook> {
        self.lock().hooks.pop()
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop").field("stopped", &self.is_stopped()).finish()
    }
}

/// Keeps a hook of [`Stop::on_stop`] in place; dropping it takes the hook away.
pub struct OnStop {
    stop: Weak<Inner>,
    id: u64,
}

impl Drop for OnStop {
    fn drop(&mut self) {
        if let Some(inner) = self.stop.upgrade() {
            // The hook is dropped after the lock: it may own anything.
            let _hook = {
                let mut state = inner.lock();
                let at = state.hooks.iter().position(|(id, _)| *id == self.id);
                at.map(|at| state.hooks.swap_remove(at))
            };
        }
    }
}

impl fmt::Debug for OnStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnStop")
    }
}

#[cfg(all(test, shuttle))]
mod model;

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;

    #[test]
    fn wakes_a_waiting_thread() {
        let stop = Stop::new();
        let waiting = stop.clone();
        let thread = thread::Builder::new().spawn(move || waiting.sleep(Duration::from_secs(3600))).unwrap();
        stop.stop();
        assert!(thread.join().unwrap());
    }

    #[test]
    fn child_follows_parent_and_not_the_other_way() {
        let parent = Stop::new();
        let (a, b) = (parent.child(), parent.child());
        a.stop();
        assert!(a.is_stopped() && !parent.is_stopped() && !b.is_stopped());
        let grandchild = b.child();
        parent.stop();
        assert!(b.is_stopped() && grandchild.is_stopped());
        assert!(parent.child().is_stopped());
    }

    #[test]
    fn what_joins_while_the_parent_stops_is_stopped_too() {
        for _ in 0..500 {
            let parent = Stop::new();
            let joining = parent.clone();
            let run = move || {
                let child = joining.child();
                let (called, was_called) = bounded(1);
                let hook = joining.on_stop(move || called.send(()).unwrap());
                joining.wait();
                // Either the one that stops or the one that joins runs the hook.
                was_called.recv_timeout(Duration::from_secs(60)).unwrap();
                child.wait();
                drop(hook);
            };
            let thread = thread::Builder::new().spawn(run).unwrap();
            parent.stop();
            thread.join().unwrap();
        }
    }

    #[test]
    fn hooks_run_once_and_can_be_taken_away() {
        let count = Arc::new(AtomicUsize::new(0));
        let hook = |count: &Arc<AtomicUsize>| {
            let count = count.clone();
            move || {
                count.fetch_add(1, Ordering::SeqCst);
            }
        };
        let stop = Stop::new();
        let kept = stop.on_stop(hook(&count));
        drop(stop.on_stop(hook(&count)));
        stop.stop();
        stop.stop();
        assert_eq!(count.load(Ordering::SeqCst), 1);
        let _late = stop.on_stop(hook(&count));
        assert_eq!(count.load(Ordering::SeqCst), 2);
        drop(kept);
    }

    #[test]
    fn a_dropped_child_leaves_nothing_with_its_parent() {
        let parent = Stop::new();
        for _ in 0..100 {
            drop(parent.child());
        }
        assert_eq!(parent.0.lock().hooks.len(), 0);
    }
}
