use super::ObjectReference;
use crate::object::{MicroTime, ObjectMeta, Text, Time};
use crate::resource;

fields! {
    /// `events.k8s.io/v1` Event: whole. The server serves the same events as `v1` Events too, with other names for
    /// the fields.
    pub struct Event {
        /// Name, namespace and so on.
        pub metadata: ObjectMeta,
        /// When it was first seen.
        pub event_time: Option<MicroTime>,
        /// If it was seen again.
        pub series: Option<EventSeries>,
        /// Which controller reports it: `kubernetes.io/kubelet`.
        pub reporting_controller: Text,
        /// Which instance of it: `kubelet-node-1`.
        pub reporting_instance: Text,
        /// What was done: at most 128 characters.
        pub action: Text,
        /// Why, in one word for programs: at most 128 characters.
        pub reason: Text,
        /// The object that it is about.
        pub regarding: ObjectReference,
        /// Another object that has part in it.
        pub related: Option<Box<ObjectReference>>,
        /// What happened, for people: at most 1 kB.
        pub note: String,
        /// `Normal` or `Warning`.
        pub type_: Text,
        /// Of `v1` Events: who reports it.
        pub deprecated_source: EventSource,
        /// Of `v1` Events: when it was first seen.
        pub deprecated_first_timestamp: Option<Time>,
        /// Of `v1` Events: when it was last seen.
        pub deprecated_last_timestamp: Option<Time>,
        /// Of `v1` Events: how often it was seen.
        pub deprecated_count: i32,
    }

    /// Repetitions of an [`Event`].
    pub struct EventSeries {
        /// How often it was seen up to the last one.
        pub count: i32,
        /// When it was last seen.
        pub last_observed_time: Option<MicroTime>,
    }

    /// Who reports a `v1` Event.
    pub struct EventSource {
        /// The program.
        pub component: Text,
        /// The node.
        pub host: Text,
    }
}

resource!(Event: "events.k8s.io/v1", "Event", "events", namespaced, whole);
