//! What the server has, and look-ups by the names that people use.

mod names;
mod read;

pub use self::read::DiscoveryFailure;

use crate::error::Result;
use crate::object::ApiResource;

/// The groups, versions and kinds of an API server at one moment, from [`Client::discover`](crate::Client::discover).
///
/// It does not change: who waits for a definition of a custom resource discovers again. It is as large as the cluster
/// has kinds, some hundred KB; keep the [`ApiResource`]s that you need and let it go.
#[derive(Debug, Default)]
pub struct Discovery {
    pub(super) groups: Vec<ApiGroup>,
    pub(super) failures: Vec<DiscoveryFailure>,
}

/// A group of kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApiGroup {
    /// `apps`; empty for the core group.
    pub name: String,
    /// Its versions, the preferred one first.
    pub versions: Vec<ApiVersion>,
}

/// The kinds of one version of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApiVersion {
    /// `v1`.
    pub version: String,
    /// Its kinds, in the order of the server. None if it could not be asked: see [`Discovery::failures`].
    pub kinds: Vec<ApiKind>,
}

/// A kind, and what can be done with its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApiKind {
    /// Where it is found: for [`Api::all_with`](crate::Api::all_with) and its kin.
    pub resource: ApiResource,
    /// `deployment`.
    pub singular: String,
    /// `deploy`.
    pub short_names: Vec<String>,
    /// `all`.
    pub categories: Vec<String>,
    /// `get`, `list`, `watch`, …
    pub verbs: Vec<String>,
    /// What its objects have below them.
    pub subresources: Vec<ApiSubresource>,
}

/// A part of an object that is read and written by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApiSubresource {
    /// `status`, `scale`, `log`.
    pub name: String,
    /// What is read and written there, as `autoscaling/v1`.
    pub api_version: String,
    /// Its kind, as `Scale`.
    pub kind: String,
    /// `get`, `patch`, `update`, `create`.
    pub verbs: Vec<String>,
}

impl Discovery {
    /// The groups in the order of the server, the core group first.
    #[must_use]
    pub fn groups(&self) -> &[ApiGroup] {
        &self.groups
    }

    /// Versions of groups that could not be asked, as the server of an aggregated API is down. What they have is not
    /// known, and not found.
    #[must_use]
    pub fn failures(&self) -> &[DiscoveryFailure] {
        &self.failures
    }

    /// All kinds in all versions, the best first: the core group, then the others in the order of the server, the
    /// preferred version of each before its others.
    pub fn kinds(&self) -> impl Iterator<Item = &ApiKind> {
        self.groups.iter().flat_map(|group| &group.versions).flat_map(|version| &version.kinds)
    }

    /// The resource that a name means, as kubectl takes it; see [`find`](Self::find).
    ///
    /// ```no_run
    /// # fn main() -> listwatch::Result<()> {
    /// # let client = listwatch::Client::try_default()?;
    /// use listwatch::{Api, ListParams, Object};
    ///
    /// let deployments = client.discover()?.resolve("deploy")?;
    /// let list = Api::<Object>::all_with(&client, &deployments).list(&ListParams::default())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn resolve(&self, name: &str) -> Result<ApiResource> {
        self.find(name).map(|kind| kind.resource.clone())
    }

    /// The kind that a name means, as kubectl takes it: plural, singular, short name or kind, alone or with its group
    /// (`deploy.apps`) or version and group (`deployments.v1.apps`), in any case. The beginning of a group will do
    /// where no group has that name.
    ///
    /// Where several fit, the first of [`kinds`](Self::kinds) is meant, so `events` are those of the core group; but
    /// plurals and singulars go before short names, and those before kinds.
    ///
    /// # Errors
    /// If there is none ([`is_not_found`](crate::Error::is_not_found)); the message has similar names, and what could
    /// not be asked.
    pub fn find(&self, name: &str) -> Result<&ApiKind> {
        names::find(self, name)
    }

    /// The kind of this name in this version, as an object or an owner reference says it: `("apps/v1", "Deployment")`.
    #[must_use]
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<&ApiKind> {
        self.kinds().find(|found| found.resource.api_version == api_version && found.resource.kind == kind)
    }
}

impl ApiKind {
    /// Whether its objects can be listed and watched, so that there can be an [`Informer`](crate::Informer).
    #[must_use]
    pub fn is_watchable(&self) -> bool {
        self.has_verb("list") && self.has_verb("watch")
    }

    /// Whether it has a verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    #[must_use]
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|found| found == verb)
    }

    /// Its subresource of this name.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&ApiSubresource> {
        self.subresources.iter().find(|found| found.name == name)
    }
}
