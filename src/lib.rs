//! SKELETON: crate docs are written with the README.

pub mod object;

mod clock;
mod error;
mod stop;
mod workqueue;

pub use clock::{Clock, Timer};
pub use error::{Error, OptionalExt, Result};
pub use object::{
    ApiResource, Map, ObjectKey, ObjectMeta, OwnerReference, Resource, Scope, StaticResource, Status, Whole,
    nullable,
};
pub use stop::{OnStop, Stop};
pub use workqueue::{
    Action, BucketRateLimiter, ItemExponentialFailure, ItemFastSlow, MaxOf, RateLimit, RateLimiter, Work,
    WorkQueue, WorkerOptions, WorkerPool,
};
