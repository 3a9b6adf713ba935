//! The Lease that is fought for, and the requests about it.

use std::time::Duration;

use serde_json::{Value, json};

use super::election::{Answer, Request};
use crate::client::{Api, Client, PostParams};
use crate::error::{Error, OptionalExt, Result};
use crate::object::{Object, ObjectMeta, StaticResource};
use crate::stop::Stop;
use crate::types::{Lease, LeaseSpec};

/// Which Lease candidates share, and who this one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseLock {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) identity: String,
}

impl LeaseLock {
    /// The Lease `namespace/name`, which is created if there is none, and the `identity` of this candidate.
    ///
    /// Each process must have an identity of its own, such as the pod's name: it is written into the Lease. Two that
    /// have the same do not lead at once, but neither do they take over from each other before the Lease has run out.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into(), identity: identity.into() }
    }

    /// The namespace of the Lease.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name of the Lease.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Who this candidate is.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }
}

/// Reads and writes the Lease as a whole object, so that what others wrote into it stays.
pub(super) struct Desk {
    api: Api<Object>,
    lock: LeaseLock,
    /// As it was last read or written.
    last: Option<Object>,
}

impl Desk {
    pub(super) fn new(client: &Client, lock: &LeaseLock) -> Self {
        let api = Api::namespaced_with(client, &lock.namespace, &Lease::api_resource());
        Self { api, lock: lock.clone(), last: None }
    }

    /// Blocks for at most `limit`, or until stopped.
    pub(super) fn send(
        &mut self,
        request: &Request,
        limit: Duration,
        stop: &Stop,
    ) -> (Answer, Option<Error>) {
        let api = self.api.with_stop(stop).with_timeout(limit);
        let done = match request {
            Request::Read => api.get(&self.lock.name).optional(),
            Request::Create(record) => {
                self.created(record).and_then(|lease| api.create(&PostParams::default(), &lease).map(Some))
            }
            Request::Write(record) => self
                .written(record)
                .and_then(|lease| api.replace(&self.lock.name, &PostParams::default(), &lease).map(Some)),
        };
        // One that cannot be read is not one without a holder.
        let read = |object: Option<Object>| match object {
            Some(object) => object.parse::<Lease>().map(|lease| Some((object, lease.spec))),
            None => Ok(None),
        };
        match done.and_then(read) {
            Ok(Some((object, record))) => {
                self.last = Some(object);
                (Answer::Lease(record), None)
            }
            Ok(None) => (Answer::Missing, None),
            Err(e) => (Answer::Failed, Some(e)),
        }
    }

    fn created(&self, record: &LeaseSpec) -> Result<Object> {
        let resource = Lease::api_resource();
        let metadata = ObjectMeta::named(&*self.lock.name).in_namespace(&*self.lock.namespace);
        with(Object::new(&resource.api_version, &resource.kind, metadata)?, record)
    }

    /// With the version that it had, which makes the server refuse if it has changed.
    fn written(&self, record: &LeaseSpec) -> Result<Object> {
        let last = self.last.clone();
        with(last.ok_or_else(|| Error::invalid("a Lease that was never read"))?, record)
    }
}

/// Sets what an elector writes, and leaves the rest.
fn with(mut lease: Object, record: &LeaseSpec) -> Result<Object> {
    let ours = json!({
        "holderIdentity": record.holder_identity,
        "leaseDurationSeconds": record.lease_duration_seconds,
        "acquireTime": record.acquire_time,
        "renewTime": record.renew_time,
        "leaseTransitions": record.lease_transitions,
    });
    lease.edit(|whole| {
        let Value::Object(fields) = whole else { return };
        match (fields.entry("spec").or_insert_with(|| json!({})), ours) {
            (Value::Object(spec), Value::Object(ours)) => spec.extend(ours),
            (spec, ours) => *spec = ours,
        }
    })?;
    Ok(lease)
}
