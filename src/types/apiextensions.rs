use super::Condition;
use crate::object::ObjectMeta;
use crate::resource;

fields! {
    /// `apiextensions.k8s.io/v1` CustomResourceDefinition: a projection without schemas, to see which kinds there are.
    /// To create definitions, which need a schema, send the whole document.
    pub struct CustomResourceDefinition {
        /// Name (`foos.example.com`), labels and so on.
        pub metadata: ObjectMeta,
        /// What is wanted.
        pub spec: CustomResourceDefinitionSpec,
        /// What is.
        pub status: CustomResourceDefinitionStatus,
    }

    /// What is wanted of a [`CustomResourceDefinition`].
    pub struct CustomResourceDefinitionSpec {
        /// The group: `example.com`.
        pub group: String,
        /// How its kind is called.
        pub names: CustomResourceDefinitionNames,
        /// `Namespaced` or `Cluster`.
        pub scope: String,
        /// Its versions.
        pub versions: Vec<CustomResourceDefinitionVersion>,
    }

    /// How the kind of a [`CustomResourceDefinition`] is called.
    pub struct CustomResourceDefinitionNames {
        /// `Foo`.
        pub kind: String,
        /// `FooList`.
        pub list_kind: String,
        /// `foos`, as in paths.
        pub plural: String,
        /// `foo`.
        pub singular: String,
        /// Abbreviations.
        pub short_names: Vec<String>,
        /// Groups of kinds that it belongs to: `all`.
        pub categories: Vec<String>,
    }

    /// A version of a [`CustomResourceDefinition`].
    pub struct CustomResourceDefinitionVersion {
        /// `v1alpha1`.
        pub name: String,
        /// Whether the server serves it.
        pub served: bool,
        /// Whether objects are stored in it; exactly one is.
        pub storage: bool,
        /// Whether its use brings a warning.
        pub deprecated: bool,
    }

    /// What is, for a [`CustomResourceDefinition`].
    pub struct CustomResourceDefinitionStatus {
        /// The names that were not taken by others.
        pub accepted_names: CustomResourceDefinitionNames,
        /// Versions that objects were ever stored in.
        pub stored_versions: Vec<String>,
        /// `Established`, `NamesAccepted`, …
        pub conditions: Vec<Condition>,
    }
}

resource!(CustomResourceDefinition: "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions",
    cluster);

impl CustomResourceDefinition {
    /// Whether its kind is served.
    #[must_use]
    pub fn is_established(&self) -> bool {
        Condition::holds(&self.status.conditions, "Established")
    }
}
