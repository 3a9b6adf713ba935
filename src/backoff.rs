//! How long to wait before trying again.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

/// Random numbers to spread load with; not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    /// Seeded by the standard library's random state.
    pub(crate) fn new() -> Self {
        Self(RandomState::new().hash_one(0) | 1)
    }

    /// A duration from `least` up to `most`.
    pub(crate) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        // xorshift64*, of which the upper bits are good
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let part = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        least + most.saturating_sub(least).mul_f64(part as f64 / f64::from(u32::MAX))
    }
}

/// Exponential waits with jitter, as client-go's reflector has them: 0.8 s, doubled up to 30 s, each lengthened by up
/// to its own length at random, and back to the start after two minutes without a failure.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    next: Duration,
    last: Option<Instant>,
    jitter: Jitter,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(800);
    const LONGEST: Duration = Duration::from_secs(30);
    const RESET: Duration = Duration::from_secs(120);

    pub(crate) fn new() -> Self {
        Self { next: Self::FIRST, last: None, jitter: Jitter::new() }
    }

    /// How long to wait after a failure at `now`.
    pub(crate) fn after_failure(&mut self, now: Instant) -> Duration {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) >= Self::RESET + self.next) {
            self.next = Self::FIRST;
        }
        let wait = self.jitter.between(self.next, self.next * 2);
        self.next = (self.next * 2).min(Self::LONGEST);
        self.last = Some(now);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn waits_double_up_to_half_a_minute_and_start_again_after_quiet() {
        let clock = Clock::manual();
        let mut backoff = Backoff::new();
        let mut base = 0.8;
        for _ in 0..10 {
            let wait = backoff.after_failure(clock.now()).as_secs_f64();
            assert!((base..=2.0 * base + 1e-6).contains(&wait), "{wait} for {base}");
            base = f64::min(base * 2.0, 30.0);
        }
        clock.advance(Duration::from_secs(150));
        assert!(backoff.after_failure(clock.now()) <= Duration::from_millis(1600));
    }

    #[test]
    fn jitter_spreads_over_its_range() {
        let (least, most) = (Duration::from_secs(180), Duration::from_secs(230));
        let mut jitter = Jitter::new();
        let drawn: Vec<_> = (0..1000).map(|_| jitter.between(least, most)).collect();
        assert!(drawn.iter().all(|d| (least..=most).contains(d)));
        assert!(
            drawn.iter().any(|d| *d < Duration::from_secs(190))
                && drawn.iter().any(|d| *d > Duration::from_secs(220))
        );
    }
}
