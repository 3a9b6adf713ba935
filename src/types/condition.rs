use serde::{Deserialize, Serialize};

use crate::clock::Clock;
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
    #[doc(alias = "is_condition_true")]
    #[doc(alias = "IsStatusConditionTrue")]
    #[must_use]
    pub fn holds(conditions: &[Self], type_: &str) -> bool {
        conditions.iter().any(|c| c.type_ == type_ && c.is_true())
    }
}

/// The condition of this type.
#[doc(alias = "FindStatusCondition")]
#[must_use]
pub fn find_condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// Sets the condition of this type, as `SetStatusCondition` of apimachinery's `api/meta` does by the conventions of the
/// API. Returns whether anything changed: if not, the status need not be written.
///
/// One that is new comes behind the others. `last_transition_time` changes when the status does, and only then: to the
/// one given, else to the system's time.
///
/// ```
/// use listwatch::types::{Condition, set_condition};
///
/// let mut conditions = Vec::new();
/// let ready = Condition {
///     type_: "Ready".into(),
///     status: "False".into(),
///     reason: "PodsMissing".into(),
///     message: "2 of 3 pods are ready".into(),
///     observed_generation: 7,
///     ..Condition::default()
/// };
/// assert!(set_condition(&mut conditions, ready.clone()));
/// assert!(!set_condition(&mut conditions, ready));
/// ```
#[doc(alias = "SetStatusCondition")]
pub fn set_condition(conditions: &mut Vec<Condition>, condition: Condition) -> bool {
    let transition = |condition: &Condition| {
        condition.last_transition_time.or_else(|| Some(Clock::system().wall().into()))
    };
    let Some(old) = conditions.iter_mut().find(|c| c.type_ == condition.type_) else {
        let last_transition_time = transition(&condition);
        conditions.push(Condition { last_transition_time, ..condition });
        return true;
    };
    let last_transition_time =
        if old.status == condition.status { old.last_transition_time } else { transition(&condition) };
    let new = Condition { last_transition_time, ..condition };
    let changed = *old != new;
    *old = new;
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(status: &str, reason: &str) -> Condition {
        Condition {
            type_: "Ready".into(),
            status: status.into(),
            reason: reason.into(),
            ..Condition::default()
        }
    }

    #[test]
    fn the_time_of_a_condition_changes_with_its_status_alone() {
        let at = |seconds| Some(Time::from_unix(seconds));
        let mut conditions = vec![Condition { type_: "Other".into(), ..Condition::default() }];
        let first = Condition { last_transition_time: at(10), ..ready("False", "Starting") };
        assert!(set_condition(&mut conditions, first.clone()));
        assert_eq!(conditions[1], first);

        let later = Condition { last_transition_time: at(20), ..first.clone() };
        assert!(!set_condition(&mut conditions, later.clone()), "nothing changed but the time given");
        let detail = Condition { message: "2 of 3".into(), observed_generation: 2, ..later };
        assert!(set_condition(&mut conditions, detail.clone()));
        assert_eq!(conditions[1], Condition { last_transition_time: at(10), ..detail });

        let up = Condition { last_transition_time: at(30), ..ready("True", "Up") };
        assert!(set_condition(&mut conditions, up.clone()));
        assert_eq!(conditions.len(), 2);
        assert_eq!(find_condition(&conditions, "Ready"), Some(&up));
        assert_eq!(find_condition(&conditions, "Absent"), None);
        assert!(Condition::holds(&conditions, "Ready") && !Condition::holds(&conditions, "Other"));
    }

    #[test]
    fn a_change_without_a_time_is_of_now() {
        let (mut conditions, before) = (Vec::new(), Time::from(Clock::system().wall()));
        assert!(set_condition(&mut conditions, ready("False", "Starting")));
        assert!(conditions[0].last_transition_time >= Some(before));
        conditions[0].last_transition_time = Some(Time::from_unix(10));
        assert!(set_condition(&mut conditions, ready("Unknown", "Lost")));
        assert!(conditions[0].last_transition_time >= Some(before));
    }
}
