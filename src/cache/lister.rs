use std::fmt;
use std::sync::Arc;

use super::store::Store;
use crate::error::Result;
use crate::object::{ObjectKey, Resource, Selector};

/// Reads an informer's cache: never waits, copies nothing, and may be behind the server by what is on its way.
///
/// Clones read the same cache.
pub struct Lister<K> {
    store: Store<K>,
}

impl<K: Resource> Lister<K> {
    pub(super) fn new(store: Store<K>) -> Self {
        Self { store }
    }

    /// The object of this name in this namespace; for kinds without namespaces, see [`get_key`](Self::get_key).
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.store.get(&ObjectKey::namespaced(namespace, name))
    }

    /// The object of this key.
    #[must_use]
    pub fn get_key(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.store.get(key)
    }

    /// All objects whose labels match, sorted by key.
    #[must_use]
    pub fn list(&self, selector: &Selector) -> Vec<Arc<K>> {
        matching(self.store.list(), selector)
    }

    /// Limits to one namespace.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> NamespaceLister<K> {
        NamespaceLister { store: self.store.clone(), namespace: namespace.into() }
    }

    /// The objects that an index has under a value, sorted by key.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<K>>> {
        self.store.by_index(index, value)
    }

    /// The cache itself.
    #[must_use]
    pub fn store(&self) -> &Store<K> {
        &self.store
    }
}

/// Reads one namespace of an informer's cache.
pub struct NamespaceLister<K> {
    store: Store<K>,
    namespace: String,
}

impl<K: Resource> NamespaceLister<K> {
    /// The object of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<K>> {
        self.store.get(&ObjectKey::namespaced(&self.namespace, name))
    }

    /// All objects in the namespace whose labels match, sorted by name.
    #[must_use]
    pub fn list(&self, selector: &Selector) -> Vec<Arc<K>> {
        matching(self.store.list_namespace(&self.namespace), selector)
    }
}

fn matching<K: Resource>(mut objects: Vec<Arc<K>>, selector: &Selector) -> Vec<Arc<K>> {
    objects.retain(|object| selector.matches(|key| object.label(key)));
    objects
}

impl<K> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone() }
    }
}

impl<K> Clone for NamespaceLister<K> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), namespace: self.namespace.clone() }
    }
}

impl<K: Resource> fmt::Debug for Lister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister").field("store", &self.store).finish()
    }
}

impl<K: Resource> fmt::Debug for NamespaceLister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamespaceLister").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}
