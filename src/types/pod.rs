use super::Condition;
use crate::object::{ObjectMeta, Text, Time};
use crate::resource;

fields! {
    /// `v1` Pod: a projection.
    pub struct Pod {
        /// Name, labels, owner and so on.
        pub metadata: ObjectMeta,
        /// What is wanted.
        pub spec: PodSpec,
        /// What is.
        pub status: PodStatus,
    }

    /// What is wanted of a [`Pod`]. To create pods with more than this, use a type of your own.
    pub struct PodSpec {
        /// The node that it runs on; `None` until it is scheduled.
        pub node_name: Option<String>,
        /// As which service account it acts.
        pub service_account_name: Text,
        /// `Always` (the default), `OnFailure` or `Never`.
        pub restart_policy: Text,
        /// Whether it is in the node's network, without an address of its own.
        pub host_network: bool,
        /// Its containers, without init and ephemeral ones.
        pub containers: Vec<Container>,
    }

    /// A container of a [`Pod`]: its name and image only.
    pub struct Container {
        /// Unique in the pod.
        pub name: Text,
        /// The image.
        pub image: Text,
    }

    /// What is, for a [`Pod`].
    pub struct PodStatus {
        /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
        pub phase: Text,
        /// Why it is in this phase, in one word: `Evicted`.
        pub reason: Text,
        /// Why, for people.
        pub message: Text,
        /// Its address; empty until it has one.
        #[serde(rename = "podIP")]
        pub pod_ip: String,
        /// The address of its node.
        #[serde(rename = "hostIP")]
        pub host_ip: Text,
        /// When the node took it on.
        pub start_time: Option<Time>,
        /// `PodScheduled`, `Initialized`, `ContainersReady`, `Ready`, …
        pub conditions: Vec<Condition>,
        /// How each container is.
        pub container_statuses: Vec<ContainerStatus>,
    }

    /// How one container of a [`Pod`] is.
    pub struct ContainerStatus {
        /// The container's name.
        pub name: Text,
        /// Whether it passes its readiness probe.
        pub ready: bool,
        /// How often it was started again.
        pub restart_count: i32,
        /// Waiting, running or terminated.
        pub state: ContainerState,
    }

    /// Why a container is not running. Neither of the two: it runs, or nothing is known yet.
    pub struct ContainerState {
        /// It is about to be started.
        pub waiting: Option<Box<Waiting>>,
        /// It has ended.
        pub terminated: Option<Box<Terminated>>,
    }

    /// Why a container waits.
    pub struct Waiting {
        /// In one word: `CrashLoopBackOff`, `ImagePullBackOff`, `ContainerCreating`.
        pub reason: Text,
        /// For people.
        pub message: Text,
    }

    /// How a container has ended.
    pub struct Terminated {
        /// 0 is success.
        pub exit_code: i32,
        /// In one word: `Completed`, `Error`, `OOMKilled`.
        pub reason: Text,
        /// For people.
        pub message: Text,
        /// When it ended.
        pub finished_at: Option<Time>,
    }
}

resource!(Pod: "v1", "Pod", "pods", namespaced);

impl Pod {
    /// Whether it is ready to serve: its condition `Ready` is true.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        Condition::holds(&self.status.conditions, "Ready")
    }
}
