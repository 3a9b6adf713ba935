use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ObjectKey, ObjectMeta, OwnerReference, Packer};

/// Whether the objects of a kind live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// In namespaces.
    Namespaced,
    /// In the cluster as a whole.
    Cluster,
}

/// Where a kind of object is found on the API server.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ApiResource {
    /// Group and version, as `apps/v1`, or `v1` for the core group.
    pub api_version: Cow<'static, str>,
    /// The kind, as `Deployment`.
    pub kind: Cow<'static, str>,
    /// The name in paths, as `deployments`.
    pub plural: Cow<'static, str>,
    /// Whether its objects live in namespaces.
    pub scope: Scope,
}

impl ApiResource {
    /// A resource known at compile time; [`resource!`](crate::resource!) makes one.
    #[must_use]
    pub const fn new(
        api_version: &'static str,
        kind: &'static str,
        plural: &'static str,
        scope: Scope,
    ) -> Self {
        Self {
            api_version: Cow::Borrowed(api_version),
            kind: Cow::Borrowed(kind),
            plural: Cow::Borrowed(plural),
            scope,
        }
    }

    /// A resource known at run time.
    #[must_use]
    pub fn dynamic(
        api_version: impl Into<String>,
        kind: impl Into<String>,
        plural: impl Into<String>,
        scope: Scope,
    ) -> Self {
        Self {
            api_version: Cow::Owned(api_version.into()),
            kind: Cow::Owned(kind.into()),
            plural: Cow::Owned(plural.into()),
            scope,
        }
    }

    /// The group, empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The version within the group.
    #[must_use]
    pub fn version(&self) -> &str {
        self.api_version.split_once('/').map_or(&self.api_version, |(_, version)| version)
    }

    /// The path of all objects, in one namespace or in all: `/apis/apps/v1/namespaces/default/deployments`. The
    /// namespace is ignored for a kind that has none.
    #[must_use]
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        let (version, plural) = (&self.api_version, &self.plural);
        match namespace.filter(|_| self.scope == Scope::Namespaced) {
            Some(namespace) => format!("/{root}/{version}/namespaces/{namespace}/{plural}"),
            None => format!("/{root}/{version}/{plural}"),
        }
    }
}

/// `deployments.apps`, `pods`.
impl fmt::Display for ApiResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        match self.group() {
            "" => Ok(()),
            group => write!(f, ".{group}"),
        }
    }
}

impl fmt::Debug for ApiResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {}", self.api_version, self.plural, self.kind)
    }
}

/// An object of the API, or the part of it that a program needs.
///
/// [`resource!`](crate::resource!) implements it for a struct with a field `metadata` of type
/// [`ObjectMeta`](crate::ObjectMeta). Absent text is empty.
pub trait Resource: Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Whether the server is asked for the metadata of objects alone: of
    /// [`PartialObjectMetadata`](crate::PartialObjectMetadata), and of what wraps one.
    const METADATA_ONLY: bool = false;

    /// What every object carries.
    fn metadata(&self) -> &ObjectMeta;

    /// The name; empty before an object with `generateName` was created.
    fn name(&self) -> &str {
        &self.metadata().name
    }

    /// The namespace, `None` for kinds that have none.
    fn namespace(&self) -> Option<&str> {
        Some(&*self.metadata().namespace).filter(|namespace| !namespace.is_empty())
    }

    /// The uid that the server gave it.
    fn uid(&self) -> &str {
        &self.metadata().uid
    }

    /// The version that the server gave it.
    fn resource_version(&self) -> &str {
        &self.metadata().resource_version
    }

    /// The value of a label.
    fn label(&self, key: &str) -> Option<&str> {
        self.metadata().labels.get(key)
    }

    /// The value of an annotation.
    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata().annotations.get(key)
    }

    /// The object that manages this one: the owner reference with `controller: true`.
    fn controller(&self) -> Option<OwnerReference> {
        self.metadata().owner_references.iter().find(|owner| owner.controller == Some(true)).cloned()
    }

    /// Whether the object is being deleted and waits for its finalizers or a grace period.
    fn is_deleting(&self) -> bool {
        self.metadata().deletion_timestamp.is_some()
    }

    /// Who must act before the object can go.
    fn finalizers(&self) -> &[String] {
        &self.metadata().finalizers
    }

    /// Namespace and name. To be left as it is: caches put it together by themselves, too.
    fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace(), self.name())
    }

    /// Makes the object small before a cache keeps it, with what the cache has for all objects of the kind. It must
    /// read as before. By default nothing happens; an [`Object`](super::Object) packs its text.
    fn pack(&mut self, packer: &mut Packer) {
        let _ = packer;
    }
}

/// A resource whose place on the API server is known at compile time.
pub trait StaticResource: Resource {
    /// Its place.
    fn api_resource() -> ApiResource;
}

/// A type that holds every field of its kind, so that writing it back loses none. Only such a type can be given to
/// [`Api::replace`](crate::Api::replace).
///
/// To declare it for a projection would delete, on the server, every field the projection does not name:
///
/// ```compile_fail,E0277
/// # use listwatch::{Api, ObjectMeta, PostParams, Result, resource};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Clone, Debug, Serialize, Deserialize)]
/// # struct Foo { metadata: ObjectMeta }
/// resource!(Foo: "samplecontroller.k8s.io/v1alpha1", "Foo", "foos", namespaced); // a projection
///
/// fn write(foos: &Api<Foo>, foo: &Foo) -> Result<Foo> {
///     foos.replace("web", &PostParams::default(), foo) // the trait bound `Foo: Whole` is not satisfied
/// }
/// ```
///
/// ```
/// # use listwatch::{Api, ObjectMeta, PostParams, Result, resource};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Clone, Debug, Serialize, Deserialize)]
/// # struct Foo { metadata: ObjectMeta }
/// resource!(Foo: "samplecontroller.k8s.io/v1alpha1", "Foo", "foos", namespaced, whole);
///
/// fn write(foos: &Api<Foo>, foo: &Foo) -> Result<Foo> {
///     foos.replace("web", &PostParams::default(), foo)
/// }
/// ```
pub trait Whole: Resource {}

/// Gives a struct its place on the API server, and with it [`Api`](crate::Api), [`Informer`](crate::Informer),
/// [`Lister`](crate::Lister) and [`Controller`](crate::Controller).
///
/// The struct derives `Clone`, `Debug`, `Serialize` and `Deserialize`, and has a field `metadata` of type
/// [`ObjectMeta`](crate::ObjectMeta). It needs only the fields that the program uses: the rest is skipped while
/// decoding. `apiVersion` and `kind` are not fields: they are written and checked on the wire.
///
/// The last word, `whole`, says that the struct holds every field of its kind, so that
/// [`Api::replace`](crate::Api::replace) takes it; leave it away for a projection.
///
/// ```
/// use listwatch::{ObjectMeta, StaticResource, resource};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Debug, Default, Serialize, Deserialize)]
/// struct Foo { metadata: ObjectMeta, #[serde(default)] spec: FooSpec }
/// #[derive(Clone, Debug, Default, Serialize, Deserialize)]
/// struct FooSpec { replicas: i32 }
///
/// resource!(Foo: "samplecontroller.k8s.io/v1alpha1", "Foo", "foos", namespaced, whole);
///
/// assert_eq!(Foo::api_resource().path(Some("default")),
///     "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/default/foos");
/// ```
#[macro_export]
macro_rules! resource {
    ($type:ty: $api_version:expr, $kind:expr, $plural:expr, $scope:ident, whole) => {
        $crate::resource!($type: $api_version, $kind, $plural, $scope);
        impl $crate::Whole for $type {}
    };
    ($type:ty: $api_version:expr, $kind:expr, $plural:expr, namespaced) => {
        $crate::resource!(@impl $type, $api_version, $kind, $plural, $crate::Scope::Namespaced);
    };
    ($type:ty: $api_version:expr, $kind:expr, $plural:expr, cluster) => {
        $crate::resource!(@impl $type, $api_version, $kind, $plural, $crate::Scope::Cluster);
    };
    ($type:ty: $api_version:expr, $kind:expr, $plural:expr, $($scope:tt)*) => {
        ::core::compile_error!("the scope is `namespaced` or `cluster`, and `whole` may follow it");
    };
    (@impl $type:ty, $api_version:expr, $kind:expr, $plural:expr, $scope:expr) => {
        impl $crate::Resource for $type {
            fn metadata(&self) -> &$crate::ObjectMeta {
                &self.metadata
            }
        }
        impl $crate::StaticResource for $type {
            fn api_resource() -> $crate::ApiResource {
                $crate::ApiResource::new($api_version, $kind, $plural, $scope)
            }
        }
    };
}
