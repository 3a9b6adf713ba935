use std::collections::BTreeMap;

use super::Condition;
use crate::object::{IntOrString, Kinded, Map, ObjectMeta, Quantity, Text};
use crate::resource;

fields! {
    /// Points at another object, or a part of it: `v1` ObjectReference.
    pub struct ObjectReference {
        /// Group and version, as `apps/v1`.
        pub api_version: Text,
        /// The kind.
        pub kind: Text,
        /// The namespace.
        pub namespace: Text,
        /// The name.
        pub name: String,
        /// The uid.
        pub uid: String,
        /// The version that is meant.
        pub resource_version: String,
        /// The part of it: `spec.containers{main}`.
        pub field_path: String,
    }

    /// Points at an object of the same namespace: `v1` LocalObjectReference.
    pub struct LocalObjectReference {
        /// The name.
        pub name: String,
    }

    /// `v1` Namespace: whole.
    pub struct Namespace {
        /// Name, labels and so on.
        pub metadata: ObjectMeta,
        /// What is wanted.
        pub spec: NamespaceSpec,
        /// What is.
        pub status: NamespaceStatus,
    }

    /// What is wanted of a [`Namespace`].
    pub struct NamespaceSpec {
        /// Who must act before it can go, beside those in its metadata.
        pub finalizers: Vec<String>,
    }

    /// What is, for a [`Namespace`].
    pub struct NamespaceStatus {
        /// `Active` or `Terminating`.
        pub phase: String,
        /// Why it does not go.
        pub conditions: Vec<Condition>,
    }

    /// `v1` ServiceAccount: whole.
    pub struct ServiceAccount {
        /// Name, labels, owner and so on.
        pub metadata: ObjectMeta,
        /// Secrets that its pods may use.
        pub secrets: Vec<ObjectReference>,
        /// Secrets that its pods pull images with.
        pub image_pull_secrets: Vec<LocalObjectReference>,
        /// Whether its pods get a token; they do if absent.
        pub automount_service_account_token: Option<bool>,
    }

    /// `v1` Service: a projection.
    pub struct Service {
        /// Name, labels, owner and so on.
        pub metadata: ObjectMeta,
        /// What is wanted.
        pub spec: ServiceSpec,
        /// What is.
        pub status: ServiceStatus,
    }

    /// What is wanted of a [`Service`].
    pub struct ServiceSpec {
        /// `ClusterIP` (the default), `NodePort`, `LoadBalancer` or `ExternalName`.
        pub type_: String,
        /// Labels of the pods that serve it.
        pub selector: Map,
        /// The ports that it offers.
        pub ports: Vec<ServicePort>,
        /// Its address in the cluster; `None` (the word) for one without; empty until it has one.
        #[serde(rename = "clusterIP")]
        pub cluster_ip: String,
        /// All its addresses in the cluster, the first of them the same.
        #[serde(rename = "clusterIPs")]
        pub cluster_ips: Vec<String>,
        /// Addresses from outside that nodes accept traffic for.
        #[serde(rename = "externalIPs")]
        pub external_ips: Vec<String>,
        /// The DNS name that it stands for, for type `ExternalName`.
        pub external_name: String,
        /// Whether addresses that are not ready are published.
        pub publish_not_ready_addresses: bool,
    }

    /// A port of a [`Service`].
    pub struct ServicePort {
        /// Unique in the Service; may be empty if there is only one.
        pub name: String,
        /// `TCP` (the default), `UDP` or `SCTP`.
        pub protocol: String,
        /// What is spoken: `http`, `kubernetes.io/h2c`, …
        pub app_protocol: String,
        /// 1 to 65535.
        pub port: i32,
        /// Number or name of the port at the pods; the same number if absent.
        pub target_port: Option<IntOrString>,
        /// The port at each node; 0 for none.
        pub node_port: i32,
    }

    /// What is, for a [`Service`].
    pub struct ServiceStatus {
        /// Where a load balancer takes its traffic.
        pub load_balancer: LoadBalancerStatus,
        /// What is true of it.
        pub conditions: Vec<Condition>,
    }

    /// Where a load balancer takes the traffic of a [`Service`].
    pub struct LoadBalancerStatus {
        /// Its entrances.
        pub ingress: Vec<LoadBalancerIngress>,
    }

    /// An entrance of a load balancer.
    pub struct LoadBalancerIngress {
        /// Its address, or empty.
        pub ip: String,
        /// Its name, or empty.
        pub hostname: String,
    }

    /// `v1` Node: a projection.
    pub struct Node {
        /// Name, labels and so on.
        pub metadata: ObjectMeta,
        /// What is wanted.
        pub spec: NodeSpec,
        /// What is.
        pub status: NodeStatus,
    }

    /// What is wanted of a [`Node`].
    pub struct NodeSpec {
        /// Whether no new pods come to it.
        pub unschedulable: bool,
        /// Which pods it keeps away.
        pub taints: Vec<Taint>,
        /// Its name at the cloud provider: `aws:///eu-1a/i-0123`.
        #[serde(rename = "providerID")]
        pub provider_id: String,
        /// The addresses of its pods.
        #[serde(rename = "podCIDR")]
        pub pod_cidr: String,
    }

    /// Keeps pods that do not tolerate it away from a [`Node`].
    pub struct Taint {
        /// Its name.
        pub key: Text,
        /// Its value.
        pub value: Text,
        /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
        pub effect: Text,
    }

    /// What is, for a [`Node`].
    pub struct NodeStatus {
        /// Where it is reached.
        pub addresses: Vec<NodeAddress>,
        /// What it has, by resource.
        pub capacity: BTreeMap<String, Quantity>,
        /// What pods can have of that.
        pub allocatable: BTreeMap<String, Quantity>,
        /// `Ready`, `MemoryPressure`, `DiskPressure`, `PIDPressure`, …
        pub conditions: Vec<Condition>,
        /// Its system and versions.
        pub node_info: NodeInfo,
    }

    /// Where a [`Node`] is reached.
    pub struct NodeAddress {
        /// `InternalIP`, `ExternalIP`, `Hostname`, `InternalDNS` or `ExternalDNS`.
        pub type_: Text,
        /// The address or name.
        pub address: String,
    }

    /// System and versions of a [`Node`].
    pub struct NodeInfo {
        /// `amd64`, `arm64`, …
        pub architecture: Text,
        /// `linux` or `windows`.
        pub operating_system: Text,
        /// The system's release.
        pub os_image: Text,
        /// The kernel's version.
        pub kernel_version: Text,
        /// `containerd://2.0.1`.
        pub container_runtime_version: Text,
        /// `v1.36.3`.
        pub kubelet_version: Text,
    }
}

resource!(Namespace: "v1", "Namespace", "namespaces", cluster, whole);
resource!(ServiceAccount: "v1", "ServiceAccount", "serviceaccounts", namespaced, whole);
resource!(Service: "v1", "Service", "services", namespaced);
resource!(Node: "v1", "Node", "nodes", cluster);

impl ObjectReference {
    /// Points at an object, in the version that it has here.
    #[doc(alias = "object_ref")]
    #[must_use]
    pub fn of(object: &impl Kinded) -> Self {
        let (api_version, kind) = object.api_version_and_kind();
        Self {
            api_version,
            kind,
            namespace: object.namespace().unwrap_or_default().into(),
            name: object.name().into(),
            uid: object.uid().into(),
            resource_version: object.resource_version().into(),
            field_path: String::new(),
        }
    }
}

impl Node {
    /// Whether it can run pods: its condition `Ready` is true.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        Condition::holds(&self.status.conditions, "Ready")
    }
}
