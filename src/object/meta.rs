use serde::{Deserialize, Serialize};

use super::{Map, ObjectKey, Text, Time, list, nullable};

/// What every object carries. Absent text is empty; `managedFields` is not kept.
///
/// The fields are those of `ObjectMeta` in apimachinery's `meta/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// Unique within a namespace and kind at one time.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub name: String,
    /// For create without a name: the server appends five random characters.
    #[serde(skip_serializing_if = "Text::is_empty", deserialize_with = "nullable")]
    pub generate_name: Text,
    /// Empty for kinds without namespaces.
    #[serde(skip_serializing_if = "Text::is_empty", deserialize_with = "nullable")]
    pub namespace: Text,
    /// Set by the server; an object re-created under the same name has another.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub uid: String,
    /// Set by the server, anew on each change; opaque. Sent with a replace, it makes the server refuse if the object
    /// has changed since.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub resource_version: String,
    /// Counts changes of what is wanted (not of the status).
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "nullable")]
    pub generation: i64,
    /// Set by the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// Set by the server when the object is to be deleted but still has finalizers or a grace period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    /// For selecting.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub labels: Map,
    /// For anything else.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub annotations: Map,
    /// The objects without which this one is deleted.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list")]
    pub owner_references: Vec<OwnerReference>,
    /// Who must act before the object can go.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list")]
    pub finalizers: Vec<String>,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl ObjectMeta {
    /// Metadata with a name, for an object that is to be created.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The same in a namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<Text>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::namespaced(&self.namespace, &self.name)
    }
}

/// An object without which another one is to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Group and version of the owner, as `apps/v1`.
    #[serde(deserialize_with = "nullable")]
    pub api_version: Text,
    /// The owner's kind.
    #[serde(deserialize_with = "nullable")]
    pub kind: Text,
    /// The owner's name, in the same namespace or without one.
    #[serde(deserialize_with = "nullable")]
    pub name: Text,
    /// The owner's uid: a later object of the same name is not the owner.
    #[serde(deserialize_with = "nullable")]
    pub uid: Text,
    /// Whether the owner manages the object; at most one owner does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether a foreground deletion of the owner waits for the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}
