//! SKELETON: crate docs are written with the README.

pub mod object;
pub mod types;

mod clock;
mod error;
mod stop;

pub use clock::{Clock, Timer};
pub use error::{Error, OptionalExt, Result};
pub use object::{
    ApiResource, FieldRequirement, FieldSelector, IntOrString, LabelSelector, LabelSelectorRequirement, Map,
    MicroTime, ObjectKey, ObjectMeta, Operator, OwnerReference, Quantity, Requirement, Resource, Scope,
    Selector, StaticResource, Status, Text, Time, Whole, nullable,
};
pub use stop::{OnStop, Stop};
