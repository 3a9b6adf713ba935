//! How the fields of all types here are read and written.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::ByteString;
use crate::object::{IntOrString, LabelSelector, Map, ObjectMeta, Quantity, Text, list, nullable};

/// A field that is absent or null when it is its default, and then not written.
pub(super) trait Field: Sized {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
    fn is_absent(&self) -> bool;
}

pub(super) fn read<'de, D: Deserializer<'de>, T: Field>(deserializer: D) -> Result<T, D::Error> {
    T::read(deserializer)
}

pub(super) fn is_absent<T: Field>(field: &T) -> bool {
    field.is_absent()
}

impl<T: DeserializeOwned> Field for Option<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: DeserializeOwned> Field for Vec<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        list(deserializer)
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<T: DeserializeOwned> Field for BTreeMap<String, T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        nullable(deserializer)
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

macro_rules! plain_fields {
    ($($type:ty),*) => {
        $(
            impl $crate::types::field::Field for $type {
                fn read<'de, D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    $crate::object::nullable(deserializer)
                }

                fn is_absent(&self) -> bool {
                    *self == Self::default()
                }
            }
        )*
    };
}

plain_fields!(
    bool,
    i32,
    i64,
    String,
    Text,
    Map,
    ObjectMeta,
    LabelSelector,
    Quantity,
    IntOrString,
    ByteString
);

/// Structs of an object: camel case, and each field a [`Field`].
macro_rules! fields {
    ($(
        $(#[$about:meta])*
        pub struct $name:ident {
            $($(#[$about_field:meta])* pub $field:ident: $type:ty,)*
        }
    )*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Debug, Default, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize)]
            #[serde(rename_all = "camelCase", default)]
            pub struct $name {
                $(
                    $(#[$about_field])*
                    #[serde(
                        deserialize_with = "crate::types::field::read",
                        skip_serializing_if = "crate::types::field::is_absent"
                    )]
                    pub $field: $type,
                )*
            }

            plain_fields!($name);
        )*
    };
}
