use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::lister::{Lister, NamespaceLister};
use crate::error::Result;
use crate::object::{Object, ObjectKey, Selector};

impl Lister<Object> {
    /// The same cache read as a type, such as a full one of k8s-openapi: each value is made when it is read, and not
    /// kept.
    ///
    /// ```no_run
    /// # use listwatch::{Lister, Object, Result, Selector};
    /// # use serde::Deserialize;
    /// #[derive(Deserialize)]
    /// struct Job { spec: JobSpec }
    /// #[derive(Deserialize)]
    /// struct JobSpec { #[serde(default)] suspend: bool }
    ///
    /// # fn f(lister: Lister<Object>) -> Result<()> {
    /// let jobs = lister.typed::<Job>();
    /// let suspended = jobs.get("default", "nightly")?.is_some_and(|job| job.spec.suspend);
    /// let all: Vec<Job> = jobs.list(&Selector::everything()).collect::<Result<_>>()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn typed<T: DeserializeOwned>(&self) -> TypedLister<T> {
        TypedLister { objects: self.clone(), value: PhantomData }
    }
}

impl NamespaceLister<Object> {
    /// The same namespace read as a type; see [`Lister::typed`].
    #[must_use]
    pub fn typed<T: DeserializeOwned>(&self) -> TypedNamespaceLister<T> {
        TypedNamespaceLister { objects: self.clone(), value: PhantomData }
    }
}

/// Reads a cache of [`Object`]s as values of a type; made by [`Lister::typed`]. Each read parses: a value that is
/// needed often is best kept by who needs it.
///
/// Never waits. A value that cannot be made is the error of [`Object::parse`], which names the object.
pub struct TypedLister<T> {
    objects: Lister<Object>,
    value: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> TypedLister<T> {
    /// The object of this name in this namespace.
    ///
    /// # Errors
    /// It does not fit the type.
    pub fn get(&self, namespace: &str, name: &str) -> Result<Option<T>> {
        self.get_key(&ObjectKey::namespaced(namespace, name))
    }

    /// The object of this key.
    ///
    /// # Errors
    /// It does not fit the type.
    pub fn get_key(&self, key: &ObjectKey) -> Result<Option<T>> {
        self.objects.get_key(key).map(|object| object.parse()).transpose()
    }

    /// All objects whose labels match, sorted by key, as they are now; each is parsed when the iterator comes to it.
    pub fn list(&self, selector: &Selector) -> impl Iterator<Item = Result<T>> + use<T> {
        parsed(self.objects.list(selector))
    }

    /// Limits to one namespace.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> TypedNamespaceLister<T> {
        self.objects.namespace(namespace).typed()
    }

    /// The objects that an index has under a value, sorted by key; each is parsed when the iterator comes to it.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn by_index(&self, index: &str, value: &str) -> Result<impl Iterator<Item = Result<T>> + use<T>> {
        Ok(parsed(self.objects.by_index(index, value)?))
    }

    /// The objects themselves.
    #[must_use]
    pub fn objects(&self) -> &Lister<Object> {
        &self.objects
    }
}

/// Reads one namespace of a cache of [`Object`]s as values of a type.
pub struct TypedNamespaceLister<T> {
    objects: NamespaceLister<Object>,
    value: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> TypedNamespaceLister<T> {
    /// The object of this name.
    ///
    /// # Errors
    /// It does not fit the type.
    pub fn get(&self, name: &str) -> Result<Option<T>> {
        self.objects.get(name).map(|object| object.parse()).transpose()
    }

    /// All objects in the namespace whose labels match, sorted by name; each is parsed when the iterator comes to it.
    pub fn list(&self, selector: &Selector) -> impl Iterator<Item = Result<T>> + use<T> {
        parsed(self.objects.list(selector))
    }
}

fn parsed<T: DeserializeOwned>(objects: Vec<Arc<Object>>) -> impl Iterator<Item = Result<T>> {
    objects.into_iter().map(|object| object.parse())
}

impl<T> Clone for TypedLister<T> {
    fn clone(&self) -> Self {
        Self { objects: self.objects.clone(), value: PhantomData }
    }
}

impl<T> Clone for TypedNamespaceLister<T> {
    fn clone(&self) -> Self {
        Self { objects: self.objects.clone(), value: PhantomData }
    }
}

impl<T> fmt::Debug for TypedLister<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedLister").field(&self.objects).finish()
    }
}

impl<T> fmt::Debug for TypedNamespaceLister<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedNamespaceLister").field(&self.objects).finish()
    }
}
