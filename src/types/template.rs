use std::collections::BTreeMap;

use crate::object::{Map, ObjectMeta, Quantity};

fields! {
    /// What a Deployment, StatefulSet, DaemonSet, ReplicaSet or Job makes its pods from: a projection of `v1`
    /// PodTemplateSpec with what simple pods need.
    pub struct PodTemplateSpec {
        /// Labels and annotations of the pods. The labels must match the selector beside the template.
        pub metadata: ObjectMeta,
        /// What is wanted of the pods.
        pub spec: TemplatePodSpec,
    }

    /// What is wanted of the pods of a [`PodTemplateSpec`]: a projection of `v1` PodSpec.
    pub struct TemplatePodSpec {
        /// Run one after the other before the others.
        pub init_containers: Vec<TemplateContainer>,
        /// At least one.
        pub containers: Vec<TemplateContainer>,
        /// As which service account they act.
        pub service_account_name: String,
        /// Labels that their node must have.
        pub node_selector: Map,
        /// `Always` (the default), `OnFailure` or `Never`. A Job needs one of the latter.
        pub restart_policy: String,
        /// Seconds between the request to end and the kill; 30 if absent.
        pub termination_grace_period_seconds: Option<i64>,
    }

    /// A container of a [`PodTemplateSpec`]: a projection of `v1` Container.
    pub struct TemplateContainer {
        /// Unique in the pod.
        pub name: String,
        /// The image.
        pub image: String,
        /// `Always`, `IfNotPresent` or `Never`.
        pub image_pull_policy: String,
        /// In place of the image's entry point.
        pub command: Vec<String>,
        /// Arguments of the command.
        pub args: Vec<String>,
        /// Ports that it listens on.
        pub ports: Vec<ContainerPort>,
        /// Environment variables.
        pub env: Vec<EnvVar>,
        /// What it gets at least and at most.
        pub resources: ResourceRequirements,
    }

    /// A port that a container listens on.
    pub struct ContainerPort {
        /// For Services to name it by.
        pub name: String,
        /// 1 to 65535.
        pub container_port: i32,
        /// `TCP` (the default), `UDP` or `SCTP`.
        pub protocol: String,
    }

    /// An environment variable with a value; one that is taken from elsewhere reads as empty.
    pub struct EnvVar {
        /// Its name.
        pub name: String,
        /// Its value.
        pub value: String,
    }

    /// Resources of a container, by name: `cpu`, `memory`.
    pub struct ResourceRequirements {
        /// At least.
        pub requests: BTreeMap<String, Quantity>,
        /// At most.
        pub limits: BTreeMap<String, Quantity>,
    }
}
