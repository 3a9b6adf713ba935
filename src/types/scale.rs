use serde::{Deserialize, Serialize};

use super::field::{is_absent, read};
use crate::object::ObjectMeta;

/// `autoscaling/v1` Scale: whole. How many replicas an object has and should have, whatever its kind; from
/// [`Api::get_scale`](crate::Api::get_scale).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scale {
    /// Name, namespace, uid and version of the object.
    #[serde(deserialize_with = "read", skip_serializing_if = "is_absent")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(deserialize_with = "read")]
    pub spec: ScaleSpec,
    /// What is.
    #[serde(deserialize_with = "read", skip_serializing_if = "is_absent")]
    pub status: ScaleStatus,
}

/// What is wanted of a [`Scale`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScaleSpec {
    /// How many there should be. Written even if zero: who applies a scale wants just that.
    #[serde(deserialize_with = "read")]
    pub replicas: i32,
}

plain_fields!(ScaleSpec);

fields! {
    /// What is, for a [`Scale`].
    pub struct ScaleStatus {
        /// How many there are.
        pub replicas: i32,
        /// Which pods are counted, as the text of a [`Selector`](crate::Selector).
        pub selector: String,
    }
}
