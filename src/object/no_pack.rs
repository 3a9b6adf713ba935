//! Without the feature `pack`: objects keep their text plain.

use std::borrow::Cow;

/// What one cache packs [`Object`](super::Object)s of one kind with, by [`Resource::pack`](super::Resource::pack).
///
/// Without the feature `pack`, as here, it does nothing.
#[derive(Debug, Default)]
pub struct Packer(());

impl Packer {
    /// A packer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn pack(&mut self, _: &mut Body) {}
}

/// The JSON text of an object.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Body(Box<str>);

impl Body {
    pub(super) fn new(text: String) -> Self {
        Self(text.into())
    }

    pub(super) fn text(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}
