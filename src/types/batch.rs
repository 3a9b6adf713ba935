use super::{Condition, PodTemplateSpec};
use crate::object::{ObjectMeta, Time};
use crate::resource;

fields! {
    /// `batch/v1` Job: a projection.
    pub struct Job {
        /// Name, labels, owner and so on.
        pub metadata: ObjectMeta,
        /// What is wanted.
        pub spec: JobSpec,
        /// What is.
        pub status: JobStatus,
    }

    /// What is wanted of a [`Job`]. Its selector is the server's to make.
    pub struct JobSpec {
        /// How many pods at one time; 1 if absent.
        pub parallelism: Option<i32>,
        /// How many pods must succeed; if absent, one success is enough.
        pub completions: Option<i32>,
        /// How many failures before the Job fails; 6 if absent.
        pub backoff_limit: Option<i32>,
        /// Seconds that it may run.
        pub active_deadline_seconds: Option<i64>,
        /// Seconds after its end until it is deleted; never if absent.
        pub ttl_seconds_after_finished: Option<i32>,
        /// Whether it makes no pods for now.
        pub suspend: bool,
        /// What its pods are made from; with a restart policy of `OnFailure` or `Never`.
        pub template: PodTemplateSpec,
    }

    /// What is, for a [`Job`]. Numbers are of pods.
    pub struct JobStatus {
        /// Those that run or wait to.
        pub active: i32,
        /// Those that are ready.
        pub ready: i32,
        /// Those that succeeded.
        pub succeeded: i32,
        /// Those that failed.
        pub failed: i32,
        /// When it was first acted on, or last resumed.
        pub start_time: Option<Time>,
        /// When it succeeded.
        pub completion_time: Option<Time>,
        /// `Complete`, `Failed`, `Suspended`, …
        pub conditions: Vec<Condition>,
    }
}

resource!(Job: "batch/v1", "Job", "jobs", namespaced);
