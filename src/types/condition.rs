use serde::{Deserialize, Serialize};

use crate::object::{Text, Time, nullable};

/// A condition in the status of an object, as `metav1.Condition` upstream; also for statuses of your own kinds.
///
/// The times that some kinds have besides (`lastHeartbeatTime`, `lastProbeTime`, `lastUpdateTime`) are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What is said to be so: `Ready`, `Available`.
    #[serde(deserialize_with = "nullable")]
    pub type_: Text,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "nullable")]
    pub status: Text,
    /// Why, in one word for programs.
    #[serde(deserialize_with = "nullable")]
    pub reason: Text,
    /// Why, for people.
    #[serde(deserialize_with = "nullable")]
    pub message: Text,
    /// When `status` last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// The `metadata.generation` that it was found for; 0 where it does not say.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "crate::types::field::is_absent")]
    pub observed_generation: i64,
}

impl Condition {
    /// Whether its status is `True`.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Whether the condition of this type is among `conditions`, with status `True`.
    #[must_use]
    pub fn holds(conditions: &[Self], type_: &str) -> bool {
        conditions.iter().any(|c| c.type_ == type_ && c.is_true())
    }
}
