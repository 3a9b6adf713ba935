//! Which objects: by their labels, by their fields.

mod field;
mod label;
mod parse;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelSelector, LabelSelectorRequirement, Operator, Requirement, Selector};
pub(crate) use label::{check_key, is_dns_name};
