//! Ready-made kinds: the fields that programs mostly read, and no more, so that a cache of them is small.
//!
//! Most of them are projections: the decoder skips what they do not name, so they must never be written back whole,
//! and [`Api::replace`](crate::Api::replace) does not take them. They have what it takes to create simple objects; to
//! change existing ones, send a patch. [`ConfigMap`], [`Secret`], [`Namespace`], [`ServiceAccount`], [`Endpoints`],
//! [`Lease`] and [`Event`] hold every field that their kind has in Kubernetes 1.37 and can be replaced.
//!
//! A program that needs another field declares its own type with [`resource!`](crate::resource!), or reads the whole
//! object. In all types here, absent text, numbers and lists are empty or zero; an `Option` is there where absence
//! means something else. Null is read as absent, and what is absent is not written.

#[macro_use]
mod field;

mod apiextensions;
mod apps;
mod batch;
mod byte_string;
mod condition;
mod config;
mod coordination;
mod core;
mod discovery;
mod event;
mod pod;
mod scale;
mod template;

pub use apiextensions::{
    CustomResourceDefinition, CustomResourceDefinitionNames, CustomResourceDefinitionSpec,
    CustomResourceDefinitionStatus, CustomResourceDefinitionVersion,
};
pub use apps::{
    DaemonSet, DaemonSetSpec, DaemonSetStatus, Deployment, DeploymentSpec, DeploymentStatus,
    DeploymentStrategy, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus, RollingUpdate, StatefulSet,
    StatefulSetSpec, StatefulSetStatus,
};
pub use batch::{Job, JobSpec, JobStatus};
pub use byte_string::ByteString;
pub use condition::{Condition, find_condition, set_condition};
pub use config::{ConfigMap, Secret};
pub use coordination::{Lease, LeaseSpec};
pub use core::{
    LoadBalancerIngress, LoadBalancerStatus, LocalObjectReference, Namespace, NamespaceSpec, NamespaceStatus,
    Node, NodeAddress, NodeInfo, NodeSpec, NodeStatus, ObjectReference, Service, ServiceAccount, ServicePort,
    ServiceSpec, ServiceStatus, Taint,
};
pub use discovery::{
    Endpoint, EndpointAddress, EndpointConditions, EndpointPort, EndpointSlice, EndpointSlicePort,
    EndpointSubset, Endpoints,
};
pub use event::{Event, EventSeries, EventSource};
pub use pod::{Container, ContainerState, ContainerStatus, Pod, PodSpec, PodStatus, Terminated, Waiting};
pub use scale::{Scale, ScaleSpec, ScaleStatus};
pub use template::{
    ContainerPort, EnvVar, PodTemplateSpec, ResourceRequirements, TemplateContainer, TemplatePodSpec,
};

#[cfg(test)]
mod tests;
