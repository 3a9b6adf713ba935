use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ObjectMeta, OwnerReference, Resource, Whole};
use crate::error::Result;

/// An object of any kind, kept whole as JSON text.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    metadata: ObjectMeta,
    text: Box<str>,
}

impl Object {
    /// An object with nothing but metadata.
    #[must_use]
    pub fn new(api_version: &str, kind: &str, metadata: ObjectMeta) -> Self {
        let _ = (api_version, kind);
        Self { metadata, text: "".into() }
    }

    /// Reads JSON text.
    ///
    /// # Errors
    /// It is no JSON object with `apiVersion` and `kind`.
    pub fn from_json(text: &str) -> Result<Self> {
        let _ = text;
        Err(crate::Error::decode("not written yet"))
    }

    /// Takes a JSON value, or whatever else serializes as an object with `apiVersion` and `kind`.
    ///
    /// # Errors
    /// It does not.
    pub fn from_value(value: impl Serialize) -> Result<Self> {
        let _ = value;
        Err(crate::Error::decode("not written yet"))
    }

    /// Group and version, as `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> &str {
        ""
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        ""
    }

    /// What every object carries.
    #[must_use]
    pub fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    /// The JSON of the whole object, with `apiVersion`, `kind` and `metadata` first.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.text)
    }

    /// The value at a JSON pointer, if it is there and fits.
    #[must_use]
    pub fn get<T: DeserializeOwned>(&self, pointer: &str) -> Option<T> {
        let _ = pointer;
        None
    }

    /// The text at a JSON pointer.
    #[must_use]
    pub fn get_str(&self, pointer: &str) -> Option<String> {
        self.get(pointer)
    }

    /// The object as a type.
    ///
    /// # Errors
    /// It does not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        Err(crate::Error::decode("not written yet"))
    }

    /// Sets the value at a JSON pointer.
    ///
    /// # Errors
    /// The result is no object of a kind any more.
    pub fn set(&mut self, pointer: &str, value: impl Serialize) -> Result<()> {
        let _ = (pointer, value);
        Ok(())
    }

    /// Changes the object as a tree of values.
    ///
    /// # Errors
    /// The result is no object of a kind any more.
    pub fn edit(&mut self, change: impl FnOnce(&mut Value)) -> Result<()> {
        let _ = change;
        Ok(())
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.key())
    }
}

impl Resource for Object {
    fn name(&self) -> &str {
        &self.metadata.name
    }

    fn namespace(&self) -> Option<&str> {
        Some(&*self.metadata.namespace).filter(|ns| !ns.is_empty())
    }

    fn uid(&self) -> &str {
        &self.metadata.uid
    }

    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.get(key)
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.get(key)
    }

    fn controller(&self) -> Option<OwnerReference> {
        self.metadata.owner_references.iter().find(|o| o.controller == Some(true)).cloned()
    }

    fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

impl Whole for Object {}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom("not written yet"))
    }
}
