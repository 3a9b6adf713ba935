//! Where time comes from: the system's clock, or one that a test drives by hand.

use std::fmt;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, Sender, at, bounded, never};

use crate::stop::Stop;
use crate::sync::{Condvar, Mutex, MutexGuard, select};

/// Where time comes from.
///
/// [`Clock::system`] is the default everywhere. [`Clock::manual`] stands still until [`advance`](Clock::advance) moves
/// it: with it backoffs, resyncs, delayed keys and leases are tested without waiting. Clones are the same clock.
#[derive(Clone, Default)]
pub struct Clock(Option<Arc<Manual>>);

struct Manual {
    start: Instant,
    wall: SystemTime,
    /// Never held while hooks run or timers fire.
    state: Mutex<State>,
    /// Notified when a timer is added or removed.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    passed: Duration,
    next_id: u64,
    timers: Vec<(u64, Instant, Sender<Instant>)>,
    hooks: Vec<Weak<dyn Fn() + Send + Sync>>,
}

impl Clock {
    /// The system's clock.
    #[must_use]
    pub fn system() -> Self {
        Self(None)
    }

    /// A clock that stands still until it is [advanced](Clock::advance).
    #[must_use]
    pub fn manual() -> Self {
        #[allow(clippy::disallowed_methods)] // the one place that asks the system
        let (start, wall) = (Instant::now(), SystemTime::now());
        let (state, changed) = (Mutex::new(State::default()), Condvar::new());
        Self(Some(Arc::new(Manual { start, wall, state, changed })))
    }

    /// The time that only moves forward: for every wait and deadline.
    #[must_use]
    pub fn now(&self) -> Instant {
        match &self.0 {
            #[allow(clippy::disallowed_methods)]
            None => Instant::now(),
            Some(manual) => manual.start + manual.lock().passed,
        }
    }

    /// The time of day: for what is written into objects, never for waiting.
    #[must_use]
    pub fn wall(&self) -> SystemTime {
        match &self.0 {
            #[allow(clippy::disallowed_methods)]
            None => SystemTime::now(),
            Some(manual) => manual.wall + manual.lock().passed,
        }
    }

    /// Waits for `time` of this clock or until stopped. Returns `true` if stopped.
    pub fn sleep(&self, time: Duration, stop: &Stop) -> bool {
        match &self.0 {
            None => stop.sleep(time),
            Some(_) => {
                let timer = self.timer(Some(self.deadline(time)));
                select! {
                    recv(stop.signal()) -> _ => true,
                    recv(timer.channel()) -> _ => stop.is_stopped(),
                }
            }
        }
    }

    /// When `time` will have passed; one that no clock can tell is a century away.
    pub(crate) fn deadline(&self, time: Duration) -> Instant {
        const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        self.now() + time.min(CENTURY)
    }

    /// A channel that gets ready at `deadline`, for `select!`; with `None` it never does.
    pub(crate) fn timer(&self, deadline: Option<Instant>) -> Timer {
        let Some(deadline) = deadline else { return Timer { channel: never(), pending: None } };
        let Some(manual) = &self.0 else { return Timer { channel: at(deadline), pending: None } };
        let (sender, channel) = bounded(1);
        let mut state = manual.lock();
        if manual.start + state.passed >= deadline {
            let _ = sender.send(deadline); // it has room for one
            return Timer { channel, pending: None };
        }
        let id = state.next_id;
        state.next_id += 1;
        state.timers.push((id, deadline, sender));
        manual.changed.notify_all();
        Timer { channel, pending: Some((Arc::downgrade(manual), id)) }
    }

    /// Waits on `condvar` until notified or, if there is a deadline, until then; may wake early. A manual clock wakes
    /// it only through a hook of [`on_advance`](Self::on_advance).
    pub(crate) fn wait<'a, T>(
        &self,
        condvar: &Condvar,
        guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
    ) -> MutexGuard<'a, T> {
        match (deadline, &self.0) {
            (Some(deadline), None) => {
                let left = deadline.saturating_duration_since(self.now());
                condvar.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0
            }
            // With a manual clock the deadline counts among those that `wait_for_timers` waits for.
            _ => {
                let _timer = self.timer(deadline);
                condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    /// Calls `hook` after each advance of a manual clock, for as long as the caller keeps it.
    pub(crate) fn on_advance(&self, hook: &Arc<dyn Fn() + Send + Sync>) {
        if let Some(manual) = &self.0 {
            manual.lock().hooks.push(Arc::downgrade(hook));
        }
    }

    /// Moves a manual clock forward, which wakes what waits for a time up to then. Does nothing on the system's clock.
    pub fn advance(&self, time: Duration) {
        let Some(manual) = &self.0 else { return };
        let (due, hooks) = {
            let mut state = manual.lock();
            state.passed += time;
            let now = manual.start + state.passed;
            let (due, later): (Vec<_>, _) =
                std::mem::take(&mut state.timers).into_iter().partition(|(_, at, _)| *at <= now);
            state.timers = later;
            state.hooks.retain(|hook| hook.strong_count() > 0);
            (due, state.hooks.clone())
        };
        for (_, at, sender) in due {
            let _ = sender.send(at); // whoever waited may have gone
        }
        for hook in hooks.iter().filter_map(Weak::upgrade) {
            hook();
        }
        manual.changed.notify_all();
    }

    /// Blocks until at least `count` sleeps and other timers wait on this manual clock, so that a test can advance it
    /// knowing that the other thread has got there. Returns at once on the system's clock.
    pub fn wait_for_timers(&self, count: usize) {
        let Some(manual) = &self.0 else { return };
        let mut state = manual.lock();
        while state.timers.len() < count {
            state = manual.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// How long until the first sleep or other timer of this manual clock ends; `None` if none waits.
    #[must_use]
    pub fn next_timer(&self) -> Option<Duration> {
        let manual = self.0.as_ref()?;
        let state = manual.lock();
        let now = manual.start + state.passed;
        state.timers.iter().map(|(_, at, _)| at.saturating_duration_since(now)).min()
    }
}

impl Manual {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Clock::manual" } else { "Clock::system" })
    }
}

/// What [`Clock::timer`] gives.
#[derive(Debug)]
pub(crate) struct Timer {
    channel: Receiver<Instant>,
    pending: Option<(Weak<Manual>, u64)>,
}

impl Timer {
    /// Gets a message at the deadline.
    pub(crate) fn channel(&self) -> &Receiver<Instant> {
        &self.channel
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some((manual, id)) = self.pending.take().and_then(|(m, id)| Some((m.upgrade()?, id))) {
            manual.lock().timers.retain(|(other, ..)| *other != id);
            manual.changed.notify_all();
        }
    }
}

impl fmt::Debug for Manual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Manual")
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn manual_time_moves_only_by_hand() {
        let clock = Clock::manual();
        let (now, wall) = (clock.now(), clock.wall());
        assert_eq!(clock.now(), now);
        clock.advance(Duration::from_secs(5));
        assert_eq!(clock.now() - now, Duration::from_secs(5));
        assert_eq!(clock.wall().duration_since(wall).unwrap(), Duration::from_secs(5));
    }

    #[test]
    fn a_sleeper_wakes_when_its_time_has_come() {
        let (clock, stop) = (Clock::manual(), Stop::new());
        let (sleeping, token) = (clock.clone(), stop.clone());
        let thread =
            thread::Builder::new().spawn(move || sleeping.sleep(Duration::from_secs(10), &token)).unwrap();
        clock.wait_for_timers(1);
        clock.advance(Duration::from_secs(9));
        assert_eq!(clock.next_timer(), Some(Duration::from_secs(1)));
        clock.advance(Duration::from_secs(1));
        assert!(!thread.join().unwrap());
        assert_eq!(clock.next_timer(), None);
    }

    #[test]
    fn a_time_that_no_clock_can_tell_is_far_away() {
        for clock in [Clock::system(), Clock::manual()] {
            assert!(clock.deadline(Duration::MAX) - clock.now() > Duration::from_secs(1 << 31));
            let stop = Stop::new();
            stop.stop();
            assert!(clock.sleep(Duration::MAX, &stop));
        }
    }

    #[test]
    fn stop_ends_a_sleep_of_a_manual_clock() {
        let (clock, stop) = (Clock::manual(), Stop::new());
        let (sleeping, token) = (clock.clone(), stop.clone());
        let thread =
            thread::Builder::new().spawn(move || sleeping.sleep(Duration::from_secs(10), &token)).unwrap();
        clock.wait_for_timers(1);
        stop.stop();
        assert!(thread.join().unwrap());
    }
}
