use super::{Condition, PodTemplateSpec};
use crate::object::{IntOrString, LabelSelector, ObjectMeta};
use crate::resource;

fields! {
    /// `apps/v1` Deployment: a projection.
    pub struct Deployment {
        /// Name, labels, owner and so on.
        pub metadata: ObjectMeta,
        /// What is wanted.
        pub spec: DeploymentSpec,
        /// What is.
        pub status: DeploymentStatus,
    }

    /// What is wanted of a [`Deployment`].
    pub struct DeploymentSpec {
        /// How many pods; 1 if absent.
        pub replicas: Option<i32>,
        /// Which pods are its own: must match the labels of the template. Cannot be changed.
        pub selector: LabelSelector,
        /// What its pods are made from.
        pub template: PodTemplateSpec,
        /// How old pods are replaced.
        pub strategy: DeploymentStrategy,
        /// Seconds that a pod must be ready to count as available.
        pub min_ready_seconds: i32,
        /// How many old ReplicaSets are kept; 10 if absent.
        pub revision_history_limit: Option<i32>,
        /// Seconds without progress after which it counts as failed; 600 if absent.
        pub progress_deadline_seconds: Option<i32>,
        /// Whether changes of the template wait.
        pub paused: bool,
    }

    /// How a [`Deployment`] replaces old pods.
    pub struct DeploymentStrategy {
        /// `RollingUpdate` (the default) or `Recreate`.
        pub type_: String,
        /// Bounds of a rolling update.
        pub rolling_update: Option<RollingUpdate>,
    }

    /// Bounds of a rolling update: numbers or percentages of the replicas.
    pub struct RollingUpdate {
        /// How many pods may be missing; `25%` if absent.
        pub max_unavailable: Option<IntOrString>,
        /// How many pods there may be beyond the replicas; `25%` if absent.
        pub max_surge: Option<IntOrString>,
    }

    /// What is, for a [`Deployment`].
    pub struct DeploymentStatus {
        /// The generation that was last acted on.
        pub observed_generation: i64,
        /// Pods there are, not counting those that end.
        pub replicas: i32,
        /// Those made from the current template.
        pub updated_replicas: i32,
        /// Those that are ready.
        pub ready_replicas: i32,
        /// Those that have been ready for `min_ready_seconds`.
        pub available_replicas: i32,
        /// Those that are missing.
        pub unavailable_replicas: i32,
        /// `Available`, `Progressing`, `ReplicaFailure`.
        pub conditions: Vec<Condition>,
    }

    /// `apps/v1` ReplicaSet: a projection.
    pub struct ReplicaSet {
        /// Name, labels, owner and so on.
        pub metadata: ObjectMeta,
        /// What is wanted.
        pub spec: ReplicaSetSpec,
        /// What is.
        pub status: ReplicaSetStatus,
    }

    /// What is wanted of a [`ReplicaSet`].
    pub struct ReplicaSetSpec {
        /// How many pods; 1 if absent.
        pub replicas: Option<i32>,
        /// Which pods are its own: must match the labels of the template. Cannot be changed.
        pub selector: LabelSelector,
        /// What its pods are made from.
        pub template: PodTemplateSpec,
        /// Seconds that a pod must be ready to count as available.
        pub min_ready_seconds: i32,
    }

    /// What is, for a [`ReplicaSet`].
    pub struct ReplicaSetStatus {
        /// The generation that was last acted on.
        pub observed_generation: i64,
        /// Pods there are.
        pub replicas: i32,
        /// Those that have the labels of the template.
        pub fully_labeled_replicas: i32,
        /// Those that are ready.
        pub ready_replicas: i32,
        /// Those that have been ready for `min_ready_seconds`.
        pub available_replicas: i32,
        /// `ReplicaFailure`.
        pub conditions: Vec<Condition>,
    }

    /// `apps/v1` StatefulSet: a projection.
    pub struct StatefulSet {
        /// Name, labels, owner and so on.
        pub metadata: ObjectMeta,
        /// What is wanted.
        pub spec: StatefulSetSpec,
        /// What is.
        pub status: StatefulSetStatus,
    }

    /// What is wanted of a [`StatefulSet`]. Volume claims are left out.
    pub struct StatefulSetSpec {
        /// How many pods; 1 if absent.
        pub replicas: Option<i32>,
        /// Which pods are its own: must match the labels of the template. Cannot be changed.
        pub selector: LabelSelector,
        /// The headless Service that names its pods.
        pub service_name: String,
        /// What its pods are made from.
        pub template: PodTemplateSpec,
        /// `OrderedReady` (the default) or `Parallel`.
        pub pod_management_policy: String,
        /// Seconds that a pod must be ready to count as available.
        pub min_ready_seconds: i32,
    }

    /// What is, for a [`StatefulSet`].
    pub struct StatefulSetStatus {
        /// The generation that was last acted on.
        pub observed_generation: i64,
        /// Pods there are.
        pub replicas: i32,
        /// Those that are ready.
        pub ready_replicas: i32,
        /// Those that have been ready for `min_ready_seconds`.
        pub available_replicas: i32,
        /// Those of `current_revision`.
        pub current_replicas: i32,
        /// Those of `update_revision`.
        pub updated_replicas: i32,
        /// The revision before the update that goes on.
        pub current_revision: String,
        /// The revision that is updated to.
        pub update_revision: String,
        /// What is true of it.
        pub conditions: Vec<Condition>,
    }

    /// `apps/v1` DaemonSet: a projection.
    pub struct DaemonSet {
        /// Name, labels, owner and so on.
        pub metadata: ObjectMeta,
        /// What is wanted.
        pub spec: DaemonSetSpec,
        /// What is.
        pub status: DaemonSetStatus,
    }

    /// What is wanted of a [`DaemonSet`].
    pub struct DaemonSetSpec {
        /// Which pods are its own: must match the labels of the template. Cannot be changed.
        pub selector: LabelSelector,
        /// What its pods are made from.
        pub template: PodTemplateSpec,
        /// Seconds that a pod must be ready to count as available.
        pub min_ready_seconds: i32,
    }

    /// What is, for a [`DaemonSet`]. Numbers are of nodes.
    pub struct DaemonSetStatus {
        /// The generation that was last acted on.
        pub observed_generation: i64,
        /// Nodes that should have its pod.
        pub desired_number_scheduled: i32,
        /// Those that should and do.
        pub current_number_scheduled: i32,
        /// Those that do and should not.
        pub number_misscheduled: i32,
        /// Those with a ready pod.
        pub number_ready: i32,
        /// Those with a pod of the current template.
        pub updated_number_scheduled: i32,
        /// Those with a pod that has been ready for `min_ready_seconds`.
        pub number_available: i32,
        /// Those that should have one and have none.
        pub number_unavailable: i32,
        /// What is true of it.
        pub conditions: Vec<Condition>,
    }
}

resource!(Deployment: "apps/v1", "Deployment", "deployments", namespaced);
resource!(ReplicaSet: "apps/v1", "ReplicaSet", "replicasets", namespaced);
resource!(StatefulSet: "apps/v1", "StatefulSet", "statefulsets", namespaced);
resource!(DaemonSet: "apps/v1", "DaemonSet", "daemonsets", namespaced);
