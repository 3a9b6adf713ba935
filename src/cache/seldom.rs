use std::time::{Duration, Instant};

/// Thins out messages that could come by the thousand: one a minute passes.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    last: Option<Instant>,
    unsaid: u64,
}

impl Seldom {
    const EVERY: Duration = Duration::from_secs(60);

    /// Whether a message is to be said now, and then how many were not since the last.
    pub(crate) fn pass(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now < last + Self::EVERY) {
            self.unsaid += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn one_a_minute_passes_and_says_how_many_did_not() {
        let (clock, mut seldom) = (Clock::manual(), Seldom::default());
        assert_eq!(seldom.pass(clock.now()), Some(0));
        for _ in 0..5 {
            clock.advance(Duration::from_secs(11));
            assert_eq!(seldom.pass(clock.now()), None);
        }
        clock.advance(Duration::from_secs(5));
        assert_eq!(seldom.pass(clock.now()), Some(5));
        clock.advance(Duration::from_secs(60));
        assert_eq!(seldom.pass(clock.now()), Some(0));
    }
}
