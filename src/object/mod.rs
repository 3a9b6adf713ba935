//! What travels between the API server and a program: objects of any kind, what all of them share, and the server's
//! answers.

mod key;
mod list;
mod map;
mod meta;
#[allow(clippy::module_inception, reason = "it holds the type Object")]
mod object;
mod resource;
mod status;
mod tell;
mod text;
mod time;

pub use key::ObjectKey;
pub use list::{List, ListMeta};
pub use map::Map;
pub use meta::{ObjectMeta, OwnerReference};
pub use object::Object;
pub use resource::{ApiResource, Resource, Scope, StaticResource, Whole};
pub use status::{Status, StatusCause, StatusDetails, StatusMeta};
pub(crate) use tell::{short, tell, tell_bytes};
pub(crate) use text::Text;
pub use time::Time;

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
