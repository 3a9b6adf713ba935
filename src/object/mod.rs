//! What travels between the API server and a program: objects of any kind, what all of them share, and the server's
//! answers.

mod borrowed;
mod int_or_string;
mod key;
mod list;
mod map;
mod meta;
#[allow(clippy::module_inception, reason = "it holds the type Object")]
mod object;
#[cfg(feature = "pack")]
mod pack;
#[cfg(not(feature = "pack"))]
#[path = "no_pack.rs"]
mod pack;
mod partial;
mod quantity;
mod resource;
mod selector;
mod status;
mod tell;
mod text;
mod time;

use borrowed::BorrowedJson;
pub(crate) use borrowed::BorrowedText;
pub use int_or_string::IntOrString;
pub use key::ObjectKey;
pub use list::{List, ListMeta};
pub use map::Map;
pub use meta::{ObjectMeta, OwnerReference};
pub use object::Object;
pub use pack::Packer;
pub use partial::PartialObjectMetadata;
pub use quantity::Quantity;
pub use resource::{ApiResource, Resource, Scope, StaticResource, Whole};
pub use selector::{
    FieldRequirement, FieldSelector, LabelSelector, LabelSelectorRequirement, Operator, Requirement, Selector,
};
pub use status::{Status, StatusCause, StatusDetails, StatusMeta};
use tell::excerpt;
pub(crate) use tell::{cut, short, tell, tell_bytes};
pub use text::Text;
pub use time::{MicroTime, Time};

/// Reads null as the default value: `#[serde(default, deserialize_with = "listwatch::nullable")]`.
///
/// The API server takes a null for any field to mean that it is absent, and some clients write them.
///
/// # Errors
/// As those of the value.
pub fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de> + Default,
{
    Ok(<Option<T> as serde::Deserialize>::deserialize(deserializer)?.unwrap_or_default())
}

/// As [`nullable`], for lists: without the spare room that decoding leaves, which for one owner reference would be
/// three more.
pub(crate) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de>,
{
    let mut list = nullable::<D, Vec<T>>(deserializer)?;
    list.shrink_to_fit();
    Ok(list)
}
