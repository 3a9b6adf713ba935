//! How long a key waits before it is tried again.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::shrink;

/// Decides how long an item waits when it is added by [`add_rate_limited`](super::WorkQueue::add_rate_limited).
///
/// All methods are called with the queue's lock held: they must be quick, and must not touch the queue.
pub trait RateLimit<T>: Send + 'static {
    /// How long `item` has to wait from `now` on; counts one more try of it. `now` never goes back.
    fn when(&mut self, item: &T, now: Instant) -> Duration;

    /// Forgets the tries of `item`: it has succeeded, or was given up. Must free what is kept for it.
    fn forget(&mut self, item: &T);

    /// How often [`when`](Self::when) was asked for `item` since it was last forgotten.
    fn retries(&self, item: &T) -> u32;
}

impl<T: 'static> RateLimit<T> for Box<dyn RateLimit<T>> {
    fn when(&mut self, item: &T, now: Instant) -> Duration {
        (**self).when(item, now)
    }

    fn forget(&mut self, item: &T) {
        (**self).forget(item);
    }

    fn retries(&self, item: &T) -> u32 {
        (**self).retries(item)
    }
}

/// The default of client-go: the longer of 5 ms·2ⁿ (at most 1000 s) for each item's n-th failure, and a bucket of 10
/// per second with a burst of 100 over all items.
pub type RateLimiter<T> = MaxOf<ItemExponentialFailure<T>, BucketRateLimiter>;

impl<T> Default for RateLimiter<T> {
    fn default() -> Self {
        Self(ItemExponentialFailure::default(), BucketRateLimiter::default())
    }
}

/// The longer of what two limiters say; nest it for more than two.
#[derive(Clone, Debug)]
pub struct MaxOf<A, B>(pub A, pub B);

impl<T, A: RateLimit<T>, B: RateLimit<T>> RateLimit<T> for MaxOf<A, B> {
    fn when(&mut self, item: &T, now: Instant) -> Duration {
        self.0.when(item, now).max(self.1.when(item, now))
    }

    fn forget(&mut self, item: &T) {
        self.0.forget(item);
        self.1.forget(item);
    }

    fn retries(&self, item: &T) -> u32 {
        self.0.retries(item).max(self.1.retries(item))
    }
}

/// Doubles the wait with each failure of an item: `base`·2ⁿ, at most `max`.
#[derive(Clone, Debug)]
pub struct ItemExponentialFailure<T> {
    base: Duration,
    max: Duration,
    tries: Tries<T>,
}

impl<T> ItemExponentialFailure<T> {
    /// The wait after the first failure, and the longest. Upstream 5 ms and 1000 s, which are the default.
    #[must_use]
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, tries: Tries::default() }
    }
}

impl<T> Default for ItemExponentialFailure<T> {
    /// 5 ms, doubling up to 1000 s.
    fn default() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

impl<T: Clone + Eq + Hash + Send + 'static> RateLimit<T> for ItemExponentialFailure<T> {
    fn when(&mut self, item: &T, _: Instant) -> Duration {
        let factor = 1_u128 << self.tries.count(item).min(127);
        let nanos = self.base.as_nanos().saturating_mul(factor).min(self.max.as_nanos());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn forget(&mut self, item: &T) {
        self.tries.forget(item);
    }

    fn retries(&self, item: &T) -> u32 {
        self.tries.of(item)
    }
}

/// A token bucket over all items: a token comes in regular intervals, and up to `burst` of them may be kept.
///
/// Tokens are reserved: an item that finds none waits until its own comes, so items pass at the given rate and in
/// order however many wait.
#[derive(Clone, Debug)]
pub struct BucketRateLimiter {
    every: Duration,
    burst: u32,
    /// Time that the tokens taken and not yet replaced need to come; falls as time passes.
    debt: Duration,
    last: Option<Instant>,
}

impl BucketRateLimiter {
    /// One token each `every`, and `burst` tokens at the start. With a burst of 0 the first item waits too.
    #[must_use]
    pub fn new(every: Duration, burst: u32) -> Self {
        Self { every, burst, debt: Duration::ZERO, last: None }
    }
}

impl Default for BucketRateLimiter {
    /// 10 per second with a burst of 100.
    fn default() -> Self {
        Self::new(Duration::from_millis(100), 100)
    }
}

impl<T> RateLimit<T> for BucketRateLimiter {
    fn when(&mut self, _: &T, now: Instant) -> Duration {
        let passed = self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        self.last = Some(now);
        self.debt = self.debt.saturating_sub(passed).saturating_add(self.every);
        self.debt.saturating_sub(self.every.saturating_mul(self.burst))
    }

    fn forget(&mut self, _: &T) {}

    fn retries(&self, _: &T) -> u32 {
        0
    }
}

/// A short wait for the first failures of an item, a long one for those after.
#[derive(Clone, Debug)]
pub struct ItemFastSlow<T> {
    fast: Duration,
    slow: Duration,
    fast_tries: u32,
    tries: Tries<T>,
}

impl<T> ItemFastSlow<T> {
    /// Waits `fast` for the first `fast_tries` failures, `slow` from then on.
    #[must_use]
    pub fn new(fast: Duration, slow: Duration, fast_tries: u32) -> Self {
        Self { fast, slow, fast_tries, tries: Tries::default() }
    }
}

impl<T: Clone + Eq + Hash + Send + 'static> RateLimit<T> for ItemFastSlow<T> {
    fn when(&mut self, item: &T, _: Instant) -> Duration {
        if self.tries.count(item) < self.fast_tries { self.fast } else { self.slow }
    }

    fn forget(&mut self, item: &T) {
        self.tries.forget(item);
    }

    fn retries(&self, item: &T) -> u32 {
        self.tries.of(item)
    }
}

/// Tries per item; holds only items that were tried and not forgotten.
#[derive(Clone, Debug)]
struct Tries<T>(HashMap<T, u32>);

impl<T> Default for Tries<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Clone + Eq + Hash> Tries<T> {
    /// Counts one more and returns how many there were before.
    fn count(&mut self, item: &T) -> u32 {
        if let Some(tries) = self.0.get_mut(item) {
            let before = *tries;
            *tries = before.saturating_add(1);
            return before;
        }
        self.0.insert(item.clone(), 1);
        0
    }

    fn of(&self, item: &T) -> u32 {
        self.0.get(item).copied().unwrap_or(0)
    }

    fn forget(&mut self, item: &T) {
        if !self.0.is_empty() {
            self.0.remove(item);
            if let Some(capacity) = shrink::target(self.0.len(), self.0.capacity()) {
                self.0.shrink_to(capacity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;

    const MS: Duration = Duration::from_millis(1);

    fn waits<T>(limiter: &mut impl RateLimit<T>, item: &T, count: usize) -> Vec<u128> {
        let now = Clock::system().now();
        (0..count).map(|_| limiter.when(item, now).as_millis()).collect()
    }

    #[test]
    fn items_that_are_forgotten_leave_no_memory_behind() {
        let mut limiter = ItemExponentialFailure::default();
        let now = Clock::system().now();
        (0..100_000).for_each(|item| assert!(limiter.when(&item, now) > Duration::ZERO));
        (0..100_000).for_each(|item| limiter.forget(&item));
        assert!(limiter.tries.0.capacity() <= 128, "{}", limiter.tries.0.capacity());
    }

    #[test]
    fn exponential_doubles_to_its_maximum_and_starts_anew_when_forgotten() {
        let mut limiter = ItemExponentialFailure::default();
        assert_eq!(waits(&mut limiter, &"a", 5), [5, 10, 20, 40, 80]);
        assert_eq!(waits(&mut limiter, &"b", 1), [5]);
        assert_eq!((limiter.retries(&"a"), limiter.retries(&"c")), (5, 0));
        assert_eq!(waits(&mut limiter, &"a", 14)[12..], [655_360, 1_000_000]);
        limiter.forget(&"a");
        assert_eq!(waits(&mut limiter, &"a", 1), [5]);
    }

    #[test]
    fn exponential_does_not_overflow() {
        for (base, max) in [(Duration::MAX, Duration::MAX), (Duration::ZERO, Duration::MAX), (5 * MS, 7 * MS)]
        {
            let mut limiter = ItemExponentialFailure::new(base, max);
            let last = (0..300).map(|_| limiter.when(&1, Clock::system().now())).last().unwrap();
            let far = Duration::from_nanos(u64::MAX);
            assert_eq!(last, if base.is_zero() { base } else { max.min(far) });
            limiter.tries.0.insert(1, u32::MAX);
            limiter.when(&1, Clock::system().now());
            assert_eq!(limiter.retries(&1), u32::MAX);
        }
    }

    #[test]
    fn bucket_passes_a_burst_and_then_its_rate() {
        let (mut limiter, mut now) = (BucketRateLimiter::new(100 * MS, 3), Clock::system().now());
        let mut take = |now| RateLimit::<u8>::when(&mut limiter, &0, now).as_millis();
        assert_eq!([(); 5].map(|()| take(now)), [0, 0, 0, 100, 200]);
        now += 250 * MS; // both reserved tokens have come, and half of the next
        assert_eq!([(); 2].map(|()| take(now)), [50, 150]);
        now += 3600 * 1000 * MS; // the bucket is full, and no fuller
        assert_eq!([(); 4].map(|()| take(now)), [0, 0, 0, 100]);
    }

    #[test]
    fn bucket_survives_extremes() {
        let now = Clock::system().now();
        let mut none = BucketRateLimiter::new(Duration::MAX, u32::MAX);
        assert_eq!([(); 3].map(|()| RateLimit::<u8>::when(&mut none, &0, now)), [Duration::ZERO; 3]);
        let mut strict = BucketRateLimiter::new(100 * MS, 0);
        assert_eq!(RateLimit::<u8>::when(&mut strict, &0, now), 100 * MS);
    }

    #[test]
    fn fast_then_slow() {
        let mut limiter = ItemFastSlow::new(5 * MS, 10_000 * MS, 2);
        assert_eq!(waits(&mut limiter, &"a", 4), [5, 5, 10_000, 10_000]);
        limiter.forget(&"a");
        assert_eq!(waits(&mut limiter, &"a", 1), [5]);
    }

    #[test]
    fn default_is_the_longer_of_backoff_and_bucket() {
        let (mut limiter, now) = (RateLimiter::default(), Clock::system().now());
        assert_eq!(limiter.when(&0, now), 5 * MS); // the bucket would let it pass
        for item in 1..100 {
            limiter.when(&item, now);
        }
        assert_eq!(limiter.when(&100, now), 100 * MS); // the bucket is empty
        assert_eq!(limiter.retries(&0), 1);
    }

    #[test]
    fn forgotten_items_leave_nothing_behind() {
        let mut limiter = RateLimiter::default();
        for item in 0..1000 {
            limiter.when(&item, Clock::system().now());
            limiter.forget(&item);
        }
        assert_eq!(limiter.0.tries.0.len(), 0);
    }
}
