//! SKELETON: crate docs are written with the README.

pub mod object;
pub mod wire;

mod clock;
mod error;
mod stop;

pub use clock::{Clock, Timer};
pub use error::{Error, OptionalExt, Result, Unfit};
pub use object::{
    ApiResource, List, ListMeta, Map, Object, ObjectKey, ObjectMeta, OwnerReference, Resource, Scope,
    StaticResource, Status, Whole, nullable,
};
pub use stop::{OnStop, Stop};
pub use wire::{Bookmark, WatchEvent};
