use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::ByteString;
use super::field::{is_absent, read};
use crate::object::{Map, ObjectMeta};
use crate::resource;

fields! {
    /// `v1` ConfigMap: whole.
    pub struct ConfigMap {
        /// Name, labels, owner and so on.
        pub metadata: ObjectMeta,
        /// Text by key.
        pub data: Map,
        /// Bytes by key; a key is here or in `data`, not in both.
        pub binary_data: BTreeMap<String, ByteString>,
        /// Whether its data cannot be changed any more.
        pub immutable: Option<bool>,
    }
}

/// `v1` Secret: whole. `Debug` shows its keys, never a value.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Secret {
    /// Name, labels, owner and so on.
    #[serde(deserialize_with = "read", skip_serializing_if = "is_absent")]
    pub metadata: ObjectMeta,
    /// Bytes by key.
    #[serde(deserialize_with = "read", skip_serializing_if = "is_absent")]
    pub data: BTreeMap<String, ByteString>,
    /// Text by key, which the server puts into `data`; it never sends any.
    #[serde(deserialize_with = "read", skip_serializing_if = "is_absent")]
    pub string_data: Map,
    /// What it is for: `Opaque`, `kubernetes.io/tls`, …
    #[serde(deserialize_with = "read", skip_serializing_if = "is_absent")]
    pub type_: String,
    /// Whether its data cannot be changed any more.
    #[serde(deserialize_with = "read", skip_serializing_if = "is_absent")]
    pub immutable: Option<bool>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // kubectl apply leaves all that it sent in an annotation.
        f.debug_struct("Secret")
            .field("name", &self.metadata.name)
            .field("namespace", &self.metadata.namespace)
            .field("resource_version", &self.metadata.resource_version)
            .field("type_", &self.type_)
            .field("data", &self.data)
            .field("string_data", &self.string_data.iter().map(|(key, _)| key).collect::<Vec<_>>())
            .field("immutable", &self.immutable)
            .finish_non_exhaustive()
    }
}

resource!(ConfigMap: "v1", "ConfigMap", "configmaps", namespaced, whole);
resource!(Secret: "v1", "Secret", "secrets", namespaced, whole);
