//! SKELETON: crate docs are written with the README.

#[cfg(feature = "apiserver")]
pub mod apiserver;
pub mod object;

mod clock;
mod error;
mod stop;

#[cfg(feature = "apiserver")]
pub use apiserver::ApiServer;
pub use clock::{Clock, Timer};
pub use error::{Error, OptionalExt, Result};
pub use object::{
    ApiResource, Map, ObjectKey, ObjectMeta, OwnerReference, Resource, Scope, StaticResource, Status, Whole,
    nullable,
};
pub use stop::{OnStop, Stop};
