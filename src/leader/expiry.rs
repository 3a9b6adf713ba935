//! Until when a term lasts.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use crate::clock::Clock;
use crate::sync::{Mutex, MutexGuard};

/// Until when something lasts, by the clock. What is over once, as somebody has seen, is over for good.
#[derive(Debug)]
pub(super) struct Expiry {
    clock: Clock,
    /// `None` once over. Held for a moment; the clock's lock is taken under it.
    until: Mutex<Option<Instant>>,
}

impl Expiry {
    pub(super) fn new(clock: &Clock, until: Instant) -> Arc<Self> {
        Arc::new(Self { clock: clock.clone(), until: Mutex::new(Some(until)) })
    }

    /// Until when it lasts; `None` once over.
    pub(super) fn until(&self) -> Option<Instant> {
        *self.look()
    }

    pub(super) fn is_over(&self) -> bool {
        self.until().is_none()
    }

    /// Makes it last longer, unless it is over. Returns whether it is not.
    pub(super) fn extend(&self, until: Instant) -> bool {
        let mut last = self.look();
        *last = last.map(|last| last.max(until));
        last.is_some()
    }

    /// Makes it be over.
    pub(super) fn end(&self) {
        *self.look() = None;
    }

    /// Under the lock, so that nobody sees it over before it is made to last longer.
    fn look(&self) -> MutexGuard<'_, Option<Instant>> {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if until.is_some_and(|until| self.clock.now() >= until) {
            *until = None;
        }
        until
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::stop::Stop;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_is_over_by_the_clock_stays_so() {
        let clock = Clock::manual();
        let expiry = Expiry::new(&clock, clock.now() + SECOND);
        assert!(expiry.extend(clock.now() + 2 * SECOND) && expiry.extend(clock.now()));
        clock.advance(2 * SECOND - Duration::from_nanos(1));
        assert!(!expiry.is_over());
        clock.advance(Duration::from_nanos(1));
        assert!(!expiry.extend(clock.now() + SECOND) && expiry.is_over());
    }

    #[test]
    fn a_token_and_its_children_count_as_stopped_at_once_though_nobody_has_stopped_them() {
        let (clock, stop) = (Clock::manual(), Stop::new());
        let expiry = Expiry::new(&clock, clock.now() + SECOND);
        let term = stop.child_until(move || expiry.is_over());
        let within = term.child_until(|| false);
        let (before, work) = (term.child(), stop.child());
        assert!(!term.is_stopped() && !before.is_stopped() && !within.is_stopped());
        clock.advance(SECOND);
        let after = term.child();
        for token in [&term, &before, &after, &after.child(), &within, &within.child()] {
            assert!(token.is_stopped() && token.sleep(Duration::ZERO));
        }
        assert!(!stop.is_stopped() && !work.is_stopped());
        term.stop();
        after.wait();
    }
}
