use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::warm::Caches;
use crate::cache::Lister;
use crate::client::{Api, Client};
use crate::error::{Error, Result};
use crate::object::{ApiResource, Kinded, OwnerReference, Resource, StaticResource};
use crate::types::ObjectReference;

/// An object to be worked on, and what a controller needs for it. Reads like the object itself.
pub struct Request<K> {
    object: Arc<K>,
    client: Client,
    caches: Caches,
}

impl<K: Resource> Request<K> {
    pub(super) fn new(object: Arc<K>, client: &Client, caches: &Caches) -> Self {
        Self { object, client: client.clone(), caches: caches.clone() }
    }

    /// The object as it was in the cache when the call began.
    #[must_use]
    pub fn object(&self) -> &Arc<K> {
        &self.object
    }

    /// A client whose calls end when the controller stops; later, with a
    /// [`shutdown_timeout`](crate::Controller::shutdown_timeout).
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The objects of a kind in the namespace of this one.
    #[must_use]
    pub fn api<D: StaticResource>(&self) -> Api<D> {
        match self.object.namespace() {
            Some(namespace) => Api::namespaced(&self.client, namespace),
            None => Api::all(&self.client),
        }
    }

    /// The cache of a kind that the controller owns, watches, or is of. Of one of several
    /// [namespaces](crate::Controller::namespaces), that of the namespace of this object.
    ///
    /// # Errors
    /// If it is none of these, so that there is no cache.
    pub fn lister<D: StaticResource>(&self) -> Result<Lister<D>> {
        self.lister_with(&D::api_resource())
    }

    /// The same for a resource known at run time, read as it is [watched](crate::Controller::watches_with).
    ///
    /// # Errors
    /// As [`lister`](Self::lister).
    pub fn lister_with<D: Resource>(&self, resource: &ApiResource) -> Result<Lister<D>> {
        let informer = self.caches.known::<D>(resource, self.object.namespace());
        informer.map(|informer| informer.lister()).ok_or_else(|| {
            Error::invalid(format!("the controller has no cache of {resource} for {}: add .owns or .watches (and an object without a namespace has none of several namespaces')", self.object.key()))
        })
    }

    /// The owner reference that makes an object be managed by this one, and be deleted with it.
    #[must_use]
    pub fn owner_reference(&self) -> OwnerReference
    where
        K: Kinded,
    {
        OwnerReference::controller_of(&*self.object)
    }

    /// Points at the object: what an [`EventRecorder`](crate::EventRecorder) tells of.
    #[must_use]
    pub fn object_reference(&self) -> ObjectReference
    where
        K: Kinded,
    {
        ObjectReference::of(&*self.object)
    }

    /// Whether an object is managed by this one: by its uid, so not by an earlier one of its name.
    #[must_use]
    pub fn controls(&self, other: &impl Resource) -> bool {
        other.controller().is_some_and(|owner| owner.uid == self.object.uid())
    }
}

impl<K> Deref for Request<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.object
    }
}

impl<K: Resource> fmt::Debug for Request<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Request").field(&self.object.key()).finish()
    }
}
