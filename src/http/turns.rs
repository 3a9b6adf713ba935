//! How many requests a second a client sends, if its configuration limits that.

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Limits;
use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::stop::Stop;
use crate::workqueue::{BucketRateLimiter, RateLimit};

/// Whose turn it is. The lock is held for a moment only, with no other.
pub(super) struct Turns(Option<Mutex<BucketRateLimiter>>);

impl Turns {
    /// So many a second, and so many at once after a pause.
    pub(super) fn new(limit: Option<(u32, u32)>) -> Self {
        Self(limit.and_then(|(per_second, burst)| {
            let every = Duration::from_secs(1) / NonZeroU32::new(per_second)?.get();
            Some(Mutex::new(BucketRateLimiter::new(every, burst)))
        }))
    }

    /// Waits for the turn of a request, and returns what is left of its limits.
    pub(super) fn wait(&self, limits: Limits, clock: &Clock, stop: &Stop) -> Result<Limits> {
        let Some(bucket) = &self.0 else { return Ok(limits) };
        let left = limits.head();
        let wait = {
            let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
            let mut taken = bucket.clone();
            let wait = taken.when(&(), clock.now());
            if !wait.is_zero() && wait >= left {
                // A turn that nobody waits for is not taken.
                let why =
                    format!("the client's own rate limit has it wait {wait:.1?}, and {left:.1?} are left");
                return Err(Error::new(Kind::Timeout, why));
            }
            *bucket = taken;
            wait
        };
        if !wait.is_zero() && clock.sleep(wait, stop) {
            return Err(Error::stopped());
        }
        Ok(limits.with_head(left - wait))
    }
}
