use crate::object::{MicroTime, ObjectMeta};
use crate::resource;

fields! {
    /// `coordination.k8s.io/v1` Lease: whole.
    pub struct Lease {
        /// Name, labels, owner and so on.
        pub metadata: ObjectMeta,
        /// Who holds it, and since when.
        pub spec: LeaseSpec,
    }

    /// Who holds a [`Lease`].
    pub struct LeaseSpec {
        /// Who holds it; absent or empty when nobody does.
        pub holder_identity: Option<String>,
        /// Seconds after `renew_time` until others may take it.
        pub lease_duration_seconds: Option<i32>,
        /// When its holder took it.
        pub acquire_time: Option<MicroTime>,
        /// When its holder last renewed it.
        pub renew_time: Option<MicroTime>,
        /// How often it went to another holder.
        pub lease_transitions: Option<i32>,
        /// How holders are chosen by the server, for coordinated leader election.
        pub strategy: Option<String>,
        /// Whom the holder should leave it to, for coordinated leader election.
        pub preferred_holder: Option<String>,
    }
}

resource!(Lease: "coordination.k8s.io/v1", "Lease", "leases", namespaced, whole);
