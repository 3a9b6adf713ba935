//! Finalizers: to act before an object goes.
//!
//! An object with finalizers is not deleted but marked with a `deletionTimestamp`, and lives until the last finalizer
//! is taken away. A controller that has to tidy up what the garbage collector cannot (a bucket, a DNS record, a user
//! in another system) puts its name there first and takes it away last:
//!
//! ```no_run
//! use listwatch::finalizer::{Event, finalizer};
//! # use listwatch::{Action, Client, Controller, Error, ObjectMeta, Request, Stop, resource};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Clone, Debug, Default, Serialize, Deserialize)]
//! # struct Foo { metadata: ObjectMeta }
//! # resource!(Foo: "samplecontroller.k8s.io/v1alpha1", "Foo", "foos", namespaced);
//! # fn make_bucket(_: &Foo) -> Result<(), Error> { Ok(()) }
//! # fn remove_bucket(_: &Foo) -> Result<(), Error> { Ok(()) }
//!
//! fn reconcile(foo: &Request<Foo>) -> Result<Action, Error> {
//!     finalizer(&foo.api(), "samplecontroller.k8s.io/bucket", foo.object(), |event| {
//!         match event {
//!             Event::Apply(foo) => make_bucket(&foo)?,     // it has the finalizer by now
//!             Event::Cleanup(foo) => remove_bucket(&foo)?, // the finalizer goes if this succeeds
//!         }
//!         Ok(Action::await_change())
//!     })
//! }
//! ```
//!
//! A finalizer's name has a domain in front, as `example.com/bucket`: the server warns of others. The program needs the
//! right to `patch` its objects. While it does not run, or its cleanup fails, deletions wait: take the finalizer away by
//! hand when the program is gone for good.
//!
//! Both patches are guarded, so that a change by another controller in the meantime, also one that the cache does not
//! show yet, makes them fail with a [conflict](Error::is_conflict) in place of harm. A controller tries the object
//! again then, with what is there by that time.

use std::sync::Arc;

use serde_json::json;

use crate::client::{Api, Patch, PatchParams};
use crate::error::{Error, OptionalExt, Result};
use crate::object::{Resource, Status};
use crate::workqueue::Action;

/// What is to be done with an object that has the finalizer.
///
/// Both may be told any number of times, so doing what is done already must do no harm.
#[derive(Clone, Debug)]
pub enum Event<K> {
    /// Make the world as the object wants it.
    Apply(Arc<K>),
    /// The object is being deleted: remove what was made for it, which may be nothing or half of it.
    Cleanup(Arc<K>),
}

/// Calls `reconcile` with what is to be done with the object, which has the finalizer as long as that is not cleaned up.
///
/// - An object without the finalizer gets it, and is applied at once as the server returned it.
/// - One with it is applied.
/// - One that is being deleted is cleaned up, and loses the finalizer if that succeeds. If not, it stays, and the error
///   makes the controller try again.
/// - One that is being deleted without it is none of our business: nothing happens.
///
/// So what was applied, be it in part, is cleaned up before the object is gone. `reconcile` should use the object that it
/// is given: it may be newer than `object`. kube-rs's `finalizer` waits for the change that the finalizer makes before
/// it applies; this one does not, so that predicates that hide the change do no harm.
///
/// Blocks for one request, if the finalizer is to be added or taken away, as [`Client`](crate::Client) says; else only for
/// `reconcile`.
///
/// A predicate of a controller must let a change of `deletionTimestamp` through; it raises `metadata.generation`.
///
/// # Errors
/// Those of `reconcile`, of [`ensure`] and of [`remove`].
pub fn finalizer<K: Resource, E: From<Error>>(
    api: &Api<K>,
    name: &str,
    object: &Arc<K>,
    reconcile: impl FnOnce(Event<K>) -> Result<Action, E>,
) -> Result<Action, E> {
    match (object.is_deleting(), has(&**object, name)) {
        (false, true) => reconcile(Event::Apply(object.clone())),
        (false, false) => match ensure(api, &**object, name)? {
            Some(object) => reconcile(Event::Apply(Arc::new(object))),
            None => Ok(Action::await_change()),
        },
        (true, true) => {
            let action = reconcile(Event::Cleanup(object.clone()))?;
            remove(api, &**object, name)?;
            Ok(action)
        }
        (true, false) => Ok(Action::await_change()),
    }
}

/// Adds the finalizer behind the others, if the object does not have it and is not being deleted. Returns the object as
/// the server has it now, or `None` if nothing was to be done: it has it, or is being deleted, or is gone.
///
/// One request, or none: a JSON patch that holds for the version of the object that is given.
///
/// # Errors
/// If the object has changed since ([`is_conflict`](Error::is_conflict)), the name is none of a finalizer
/// ([`is_invalid`](Error::is_invalid)), the server refuses, or the connection fails: it may have been added then.
pub fn ensure<K: Resource>(api: &Api<K>, object: &K, name: &str) -> Result<Option<K>> {
    if object.is_deleting() || has(object, name) {
        return Ok(None);
    }
    // The version guards it all: the list of finalizers, that it is not being deleted, and that it is this object.
    let unchanged =
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": object.resource_version()});
    let add = match object.finalizers() {
        [] => json!({"op": "add", "path": "/metadata/finalizers", "value": [name]}),
        _ => json!({"op": "add", "path": "/metadata/finalizers/-", "value": name}),
    };
    patch(api, object, json!([unchanged, add]))
}

/// Takes the finalizer away, if the object has it, and leaves the others. Returns the object as the server answered (if
/// it was being deleted and this was its last finalizer, it is gone by then), or `None` if nothing was to be done: it
/// does not have it, or is gone.
///
/// One request, or none: a JSON patch that tests that the object is the same, and that the finalizer is where it was.
///
/// # Errors
/// If the finalizers have changed since ([`is_conflict`](Error::is_conflict)), the server refuses, or the connection
/// fails: it may have been taken away then.
pub fn remove<K: Resource>(api: &Api<K>, object: &K, name: &str) -> Result<Option<K>> {
    let Some(place) = object.finalizers().iter().position(|other| other == name) else { return Ok(None) };
    let path = format!("/metadata/finalizers/{place}");
    let guarded = json!([
        {"op": "test", "path": "/metadata/uid", "value": object.uid()},
        {"op": "test", "path": path, "value": name},
        {"op": "remove", "path": path},
    ]);
    patch(api, object, guarded)
}

fn has<K: Resource>(object: &K, name: &str) -> bool {
    object.finalizers().iter().any(|other| other == name)
}

/// Sends a patch with tests to where the object is.
fn patch<K: Resource>(api: &Api<K>, object: &K, operations: serde_json::Value) -> Result<Option<K>> {
    let within = object.namespace().map_or_else(|| api.clone(), |namespace| api.within(namespace));
    let patched = within.patch(object.name(), &PatchParams::default(), &Patch::Json(operations));
    patched.optional().map_err(|e| if is_failed_test(&e) { conflict(&within, object, e) } else { e })
}

/// A patch whose test fails is told as one that is not valid, but without saying why.
fn is_failed_test(e: &Error) -> bool {
    e.is_invalid() && e.status().is_some_and(|status| status.details.causes.is_empty())
}

fn conflict<K: Resource>(api: &Api<K>, object: &K, e: Error) -> Error {
    let status = Status {
        status: "Failure".into(),
        message: "the object has changed since it was read".into(),
        reason: "Conflict".into(),
        code: 409,
        ..Status::default()
    };
    let doing = format!("change the finalizers of {} {}", api.resource(), object.key());
    Error::from(status).context(doing).with_source(e)
}
