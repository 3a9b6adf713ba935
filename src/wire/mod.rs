//! From bytes to events and objects: the decoders of watches and lists. They do no I/O of their own: a reader writes
//! into their buffer, and they hand out what is complete.

mod buffer;
mod list;
mod watch;

pub use list::ListDecoder;
pub use watch::{Bookmark, WatchDecoder, WatchEvent};

pub use crate::object::ListMeta;

use crate::object::ApiResource;

/// Which kind of object a decoder is to find.
///
/// A `Table`, a `Status` or another kind than the expected one is never taken for the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    types: Option<(String, String)>,
}

impl Expect {
    /// Any kind of object but a `Status` or a `Table`.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }
}

impl From<&ApiResource> for Expect {
    fn from(resource: &ApiResource) -> Self {
        Self { types: Some((resource.api_version.to_string(), resource.kind.to_string())) }
    }
}
