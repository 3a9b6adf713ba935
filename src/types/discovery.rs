use super::ObjectReference;
use crate::object::{ObjectMeta, Text};
use crate::resource;

fields! {
    /// `v1` Endpoints: whole. Kubernetes recommends [`EndpointSlice`] in its place.
    pub struct Endpoints {
        /// Name (that of the Service), labels and so on.
        pub metadata: ObjectMeta,
        /// Each address of a subset serves each port of the subset.
        pub subsets: Vec<EndpointSubset>,
    }

    /// Addresses and ports of [`Endpoints`].
    pub struct EndpointSubset {
        /// Those that are ready.
        pub addresses: Vec<EndpointAddress>,
        /// Those that are not.
        pub not_ready_addresses: Vec<EndpointAddress>,
        /// The ports.
        pub ports: Vec<EndpointPort>,
    }

    /// An address of [`Endpoints`].
    pub struct EndpointAddress {
        /// IPv4 or IPv6.
        pub ip: String,
        /// The name of the pod in the Service's DNS domain.
        pub hostname: String,
        /// The node that it is on.
        pub node_name: Option<String>,
        /// The pod.
        pub target_ref: Option<Box<ObjectReference>>,
    }

    /// A port of [`Endpoints`].
    pub struct EndpointPort {
        /// The name of the Service's port.
        pub name: String,
        /// 1 to 65535.
        pub port: i32,
        /// `TCP` (the default), `UDP` or `SCTP`.
        pub protocol: String,
        /// What is spoken: `http`, `kubernetes.io/h2c`, …
        pub app_protocol: Option<String>,
    }

    /// `discovery.k8s.io/v1` EndpointSlice: a projection, without hints of zones and the deprecated topology.
    pub struct EndpointSlice {
        /// Name, labels (`kubernetes.io/service-name`), owner and so on.
        pub metadata: ObjectMeta,
        /// `IPv4`, `IPv6` or `FQDN`.
        pub address_type: Text,
        /// What serves; at most 1000.
        pub endpoints: Vec<Endpoint>,
        /// The ports that each of them serves.
        pub ports: Vec<EndpointSlicePort>,
    }

    /// One that serves, in an [`EndpointSlice`].
    pub struct Endpoint {
        /// Its addresses, all of the slice's type; clients use the first.
        pub addresses: Vec<String>,
        /// Whether it can be used.
        pub conditions: EndpointConditions,
        /// The name of the pod in the Service's DNS domain.
        pub hostname: Option<String>,
        /// The node that it is on.
        pub node_name: Option<Text>,
        /// The zone that it is in.
        pub zone: Option<Text>,
        /// The pod.
        pub target_ref: Option<Box<ObjectReference>>,
    }

    /// Whether an [`Endpoint`] can be used. Absent means unknown, which counts as ready, serving and not terminating.
    pub struct EndpointConditions {
        /// Whether it is serving and not terminating, or the Service publishes also others.
        pub ready: Option<bool>,
        /// Whether it passes its readiness probe, terminating or not.
        pub serving: Option<bool>,
        /// Whether it is about to end.
        pub terminating: Option<bool>,
    }

    /// A port of an [`EndpointSlice`].
    pub struct EndpointSlicePort {
        /// The name of the Service's port.
        pub name: Text,
        /// 1 to 65535; absent means all.
        pub port: Option<i32>,
        /// `TCP` (the default), `UDP` or `SCTP`.
        pub protocol: Text,
        /// What is spoken: `http`, `kubernetes.io/h2c`, …
        pub app_protocol: Option<Text>,
    }
}

resource!(Endpoints: "v1", "Endpoints", "endpoints", namespaced, whole);
resource!(EndpointSlice: "discovery.k8s.io/v1", "EndpointSlice", "endpointslices", namespaced);
