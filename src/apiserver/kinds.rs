//! The resources that the server has from the start, and what is known of each.

use std::sync::Arc;

use crate::object::{ApiResource, Scope};

use super::crd::Custom;
use super::events::EVENTS;

/// A resource in one version.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) plural: String,
    pub(super) singular: String,
    pub(super) kind: String,
    pub(super) list_kind: String,
    pub(super) namespaced: bool,
    pub(super) short_names: Vec<String>,
    pub(super) categories: Vec<String>,
    /// Has a `/status` that alone writes the status.
    pub(super) status: bool,
    /// Counts changes of the spec in `metadata.generation`.
    pub(super) generation: bool,
    pub(super) scale: Option<Scale>,
    /// Defined by a CustomResourceDefinition.
    pub(super) custom: Option<Custom>,
    /// `pods`, `deployments.apps`.
    pub(super) id: Arc<str>,
    /// Where its objects are kept: the id, but of events, which two groups share.
    pub(super) table: Arc<str>,
}

/// Where the scale subresource finds its numbers, as paths of a CRD.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub(super) spec: String,
    pub(super) status: String,
    pub(super) selector: String,
}

impl Scale {
    fn built_in() -> Self {
        Self { spec: ".spec.replicas".into(), status: ".status.replicas".into(), selector: String::new() }
    }
}

impl Kind {
    /// A resource that a program adds: everything its name tells.
    pub(super) fn of(resource: &ApiResource) -> Self {
        Self {
            group: resource.group().into(),
            version: resource.version().into(),
            plural: resource.plural.to_string(),
            singular: resource.kind.to_lowercase(),
            kind: resource.kind.to_string(),
            list_kind: format!("{}List", resource.kind),
            namespaced: resource.scope == Scope::Namespaced,
            short_names: Vec::new(),
            categories: Vec::new(),
            status: true,
            generation: true,
            scale: None,
            custom: None,
            id: id_of(resource.group(), &resource.plural),
            table: id_of(resource.group(), &resource.plural),
        }
    }

    /// `v1` or `apps/v1`.
    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `pods`, `deployments.apps`.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// `Pod`, `Deployment.apps`.
    pub(super) fn kind_id(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }

    pub(super) fn is_core(&self, plural: &str) -> bool {
        self.group.is_empty() && self.plural == plural
    }
}

/// The id of a kind: `deployments.apps`.
pub(super) fn id_of(group: &str, plural: &str) -> Arc<str> {
    if group.is_empty() { plural.into() } else { format!("{plural}.{group}").into() }
}

pub(super) const NAMESPACES: &str = "namespaces";
pub(super) const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";

// What a row says beside its names.
const N: u8 = 1; // namespaced
const S: u8 = 2; // has /status
const G: u8 = 4; // has a generation
const C: u8 = 8; // has /scale
const A: u8 = 16; // in category "all"

/// (group, version, kind, plural, short names, flags)
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str, u8);

const TABLE: &[Row] = &[
    ("", "v1", "ConfigMap", "configmaps", "cm", N),
    ("", "v1", "Endpoints", "endpoints", "ep", N),
    ("", "v1", "Event", "events", "ev", N),
    ("", "v1", "Namespace", "namespaces", "ns", S),
    ("", "v1", "Node", "nodes", "no", S),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", N | S),
    ("", "v1", "PersistentVolume", "persistentvolumes", "pv", S),
    ("", "v1", "Pod", "pods", "po", N | S | G | A),
    ("", "v1", "Secret", "secrets", "", N),
    ("", "v1", "Service", "services", "svc", N | S | A),
    ("", "v1", "ServiceAccount", "serviceaccounts", "sa", N),
    ("apps", "v1", "DaemonSet", "daemonsets", "ds", N | S | G | A),
    ("apps", "v1", "Deployment", "deployments", "deploy", N | S | G | C | A),
    ("apps", "v1", "ReplicaSet", "replicasets", "rs", N | S | G | C | A),
    ("apps", "v1", "StatefulSet", "statefulsets", "sts", N | S | G | C | A),
    ("batch", "v1", "CronJob", "cronjobs", "cj", N | S | G | A),
    ("batch", "v1", "Job", "jobs", "", N | S | G | A),
    ("coordination.k8s.io", "v1", "Lease", "leases", "", N),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", "", N | G),
    ("events.k8s.io", "v1", "Event", "events", "ev", N),
    ("networking.k8s.io", "v1", "Ingress", "ingresses", "ing", N | S | G),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", N | S | G),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", "", 0),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", "", 0),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", "", N),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", "", N),
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "crd,crds",
        S | G,
    ),
];

/// The resources that the server has from the start.
pub(super) fn built_in() -> Vec<Arc<Kind>> {
    let kind = |&(group, version, kind, plural, short, flags): &Row| {
        Arc::new(Kind {
            group: group.into(),
            version: version.into(),
            plural: plural.into(),
            singular: kind.to_lowercase(),
            kind: kind.into(),
            list_kind: format!("{kind}List"),
            namespaced: flags & N != 0,
            short_names: short.split(',').filter(|s| !s.is_empty()).map(Into::into).collect(),
            categories: if flags & A != 0 { vec!["all".into()] } else { Vec::new() },
            status: flags & S != 0,
            generation: flags & G != 0,
            scale: (flags & C != 0).then(Scale::built_in),
            custom: None,
            id: id_of(group, plural),
            // Both are the same events.
            table: if kind == "Event" { EVENTS.into() } else { id_of(group, plural) },
        })
    };
    TABLE.iter().map(kind).collect()
}
