//! A queue of keys for controllers, limits on how often a key is retried, and a pool of threads that works it off.
//!
//! Handlers put the *keys* of what changed into a [`WorkQueue`]; a [`WorkerPool`] takes each key, reads the newest
//! object of that key from a cache and acts. A key is queued once however often it was added, is worked on by one
//! thread at a time, and is run once more if it was added meanwhile.

mod delays;
mod hash;
mod meter;
#[cfg(all(test, shuttle))]
mod model;
mod pool;
mod queue;
mod rate_limit;

pub(crate) use pool::Verdict;
pub use pool::{Action, WorkerOptions, WorkerPool};
pub use queue::{Work, WorkQueue};
pub use rate_limit::{
    BucketRateLimiter, ItemExponentialFailure, ItemFastSlow, MaxOf, RateLimit, RateLimiter,
};
