//! Discovery on the wire: apimachinery's `apidiscovery/v2`, and the form before it of `meta/v1`.

use log::debug;
use serde::Deserialize;

use super::{ApiGroup, ApiKind, ApiSubresource, ApiVersion, Discovery};
use crate::client::{Client, Method, RawRequest};
use crate::error::{Error, Result};
use crate::object::{ApiResource, Scope, nullable, short};

/// All groups, versions and kinds in one answer if the server can (Kubernetes 1.26; by default since 1.27), else the
/// groups alone.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// A version of a group that could not be asked.
#[derive(Debug)]
#[non_exhaustive]
pub struct DiscoveryFailure {
    /// `metrics.k8s.io/v1beta1`.
    pub api_version: String,
    /// Why: mostly a 503, as the server of this aggregated API is down.
    pub error: Error,
}

impl Client {
    /// Asks the server what it has: groups, versions, kinds and their names, so that [`Object`](crate::Object)s can be
    /// used by a name known at run time.
    ///
    /// Two requests, to servers before Kubernetes 1.26 one more for each version of a group; each blocks as
    /// [`Client`] says. Nothing is kept for the next time.
    ///
    /// A version of a group that cannot be asked, or whose answer the server says is stale, is told in
    /// [`Discovery::failures`] and does not fail the rest (client-go's `ErrGroupDiscoveryFailed`).
    ///
    /// # Errors
    /// If the groups cannot be read, there is no connection, or the client is stopped.
    pub fn discover(&self) -> Result<Discovery> {
        let mut discovery = Discovery::default();
        let core = self.groups_of("/api", &mut discovery);
        let found = match core {
            Err(e) if !e.is_not_found() => Err(e),
            // A server of nothing but aggregated APIs has no core group, as others have nothing else.
            core => match self.groups_of("/apis", &mut discovery) {
                Err(e) if e.is_not_found() && core.is_ok() => Ok(()),
                others => others,
            },
        };
        found.map(|()| discovery).map_err(|e| e.context("discover what the server has"))
    }

    fn groups_of(&self, root: &str, discovery: &mut Discovery) -> Result<()> {
        let mut request = RawRequest::new(Method::Get, root);
        request.accept = AGGREGATED;
        let answer: Root = match self.request(&request) {
            // What lies between may not take such a header.
            Err(e) if e.code() == Some(406) => self.request(&RawRequest::new(Method::Get, root))?,
            answer => answer?,
        };
        match &*answer.kind {
            "APIGroupDiscoveryList" => {}
            "" if !answer.items.is_empty() => {}
            "" | "APIVersions" | "APIGroupList" => return self.each_version(root, answer, discovery),
            other => {
                return Err(Error::decode(format!("{root} is of kind {}", short(other))));
            }
        }
        for group in answer.items {
            let name = group.metadata.name;
            let version = |found: Version| {
                let api_version = api_version(&name, &found.version);
                let is_stale = found.freshness == "Stale";
                let kinds = if is_stale { Vec::new() } else { kinds(&api_version, found.resources) };
                if is_stale {
                    let why = "the server cannot ask for it anew, and says that what it has is stale";
                    discovery.failures.push(DiscoveryFailure { api_version, error: Error::decode(why) });
                }
                ApiVersion { kinds, version: found.version }
            };
            let versions = group.versions.into_iter().map(version).collect();
            discovery.groups.push(ApiGroup { versions, name });
        }
        Ok(())
    }

    /// The form before: one request for each version of a group.
    fn each_version(&self, root: &str, answer: Root, discovery: &mut Discovery) -> Result<()> {
        let core = PlainGroup {
            versions: answer.versions.into_iter().map(|version| PlainVersion { version }).collect(),
            ..PlainGroup::default()
        };
        let groups = if root == "/api" { vec![core] } else { answer.groups };
        for PlainGroup { name, mut versions, preferred_version } in groups {
            versions.sort_by_key(|version| *version != preferred_version); // which keeps the order of the others
            let mut group = ApiGroup { name, versions: Vec::new() };
            for PlainVersion { version } in versions {
                let api_version = api_version(&group.name, &version);
                let asked = self.request(&RawRequest::new(Method::Get, format!("{root}/{api_version}")));
                let kinds = match asked {
                    Ok(PlainList { resources }) => plain_kinds(&api_version, resources),
                    // The others would end no better.
                    Err(e) if e.is_stopped() || e.is_connect() => return Err(e),
                    Err(error) => {
                        debug!(target: "listwatch::client", "discovery of {api_version} failed: {error}");
                        discovery.failures.push(DiscoveryFailure { api_version, error });
                        Vec::new()
                    }
                };
                group.versions.push(ApiVersion { version, kinds });
            }
            discovery.groups.push(group);
        }
        Ok(())
    }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Those that have a kind: what has none is there for its subresources alone.
fn kinds(api_version: &str, resources: Vec<Resource>) -> Vec<ApiKind> {
    let read = |found: Resource| {
        let scope = if found.scope == "Namespaced" { Scope::Namespaced } else { Scope::Cluster };
        let subresource = |sub: Subresource| {
            let Kind { group, version, kind } = sub.response_kind;
            let api_version = kind_version(api_version, &group, &version);
            ApiSubresource { name: sub.subresource, api_version, kind, verbs: sub.verbs }
        };
        ApiKind {
            singular: singular(found.singular_resource, &found.response_kind.kind),
            resource: ApiResource::dynamic(api_version, found.response_kind.kind, found.resource, scope),
            short_names: found.short_names,
            categories: found.categories,
            verbs: found.verbs,
            subresources: found.subresources.into_iter().map(subresource).collect(),
        }
    };
    let is_whole = |found: &Resource| !found.resource.is_empty() && !found.response_kind.kind.is_empty();
    resources.into_iter().filter(is_whole).map(read).collect()
}

fn plain_kinds(api_version: &str, resources: Vec<PlainResource>) -> Vec<ApiKind> {
    let (subresources, resources): (Vec<_>, Vec<_>) =
        resources.into_iter().partition(|r| r.name.contains('/'));
    let read = |found: PlainResource| ApiKind {
        singular: singular(found.singular_name, &found.kind),
        subresources: Vec::new(),
        resource: ApiResource::dynamic(
            api_version,
            found.kind,
            found.name,
            if found.namespaced { Scope::Namespaced } else { Scope::Cluster },
        ),
        short_names: found.short_names,
        categories: found.categories,
        verbs: found.verbs,
    };
    let is_whole = |found: &PlainResource| !found.name.is_empty() && !found.kind.is_empty();
    let mut kinds: Vec<_> = resources.into_iter().filter(is_whole).map(read).collect();
    for found in subresources {
        let Some((of, name)) = found.name.split_once('/') else { continue };
        if let Some(kind) = kinds.iter_mut().find(|kind| kind.resource.plural == of) {
            let api_version = kind_version(api_version, &found.group, &found.version);
            let (name, kind_name, verbs) = (name.to_owned(), found.kind, found.verbs);
            kind.subresources.push(ApiSubresource { name, api_version, kind: kind_name, verbs });
        }
    }
    kinds
}

/// Servers of old leave it out.
fn singular(name: String, kind: &str) -> String {
    if name.is_empty() { kind.to_lowercase() } else { name }
}

/// Of what kind something is that may not say its group and version, as they are those of the list.
fn kind_version(list: &str, group: &str, version: &str) -> String {
    if version.is_empty() { list.to_owned() } else { api_version(group, version) }
}

/// The answer of `/api` or `/apis` in any of its forms.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Root {
    #[serde(deserialize_with = "nullable")]
    kind: String,
    /// Of `APIGroupDiscoveryList`.
    #[serde(deserialize_with = "nullable")]
    items: Vec<Group>,
    /// Of `APIVersions`.
    #[serde(deserialize_with = "nullable")]
    versions: Vec<String>,
    /// Of `APIGroupList`.
    #[serde(deserialize_with = "nullable")]
    groups: Vec<PlainGroup>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Group {
    #[serde(deserialize_with = "nullable")]
    metadata: Named,
    #[serde(deserialize_with = "nullable")]
    versions: Vec<Version>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    /// The core group has none.
    #[serde(deserialize_with = "nullable")]
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Version {
    #[serde(deserialize_with = "nullable")]
    version: String,
    #[serde(deserialize_with = "nullable")]
    resources: Vec<Resource>,
    /// `Current` or `Stale`.
    #[serde(deserialize_with = "nullable")]
    freshness: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Resource {
    #[serde(deserialize_with = "nullable")]
    resource: String,
    #[serde(deserialize_with = "nullable")]
    response_kind: Kind,
    /// `Namespaced` or `Cluster`.
    #[serde(deserialize_with = "nullable")]
    scope: String,
    #[serde(deserialize_with = "nullable")]
    singular_resource: String,
    #[serde(deserialize_with = "nullable")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    short_names: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    categories: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    subresources: Vec<Subresource>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Subresource {
    #[serde(deserialize_with = "nullable")]
    subresource: String,
    #[serde(deserialize_with = "nullable")]
    response_kind: Kind,
    #[serde(deserialize_with = "nullable")]
    verbs: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Kind {
    #[serde(deserialize_with = "nullable")]
    group: String,
    #[serde(deserialize_with = "nullable")]
    version: String,
    #[serde(deserialize_with = "nullable")]
    kind: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct PlainGroup {
    #[serde(deserialize_with = "nullable")]
    name: String,
    #[serde(deserialize_with = "nullable")]
    versions: Vec<PlainVersion>,
    #[serde(deserialize_with = "nullable")]
    preferred_version: PlainVersion,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(default)]
struct PlainVersion {
    #[serde(deserialize_with = "nullable")]
    version: String,
}

/// `APIResourceList`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct PlainList {
    #[serde(deserialize_with = "nullable")]
    resources: Vec<PlainResource>,
}

/// A resource, or a subresource as `pods/log`.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct PlainResource {
    #[serde(deserialize_with = "nullable")]
    name: String,
    #[serde(deserialize_with = "nullable")]
    singular_name: String,
    #[serde(deserialize_with = "nullable")]
    namespaced: bool,
    #[serde(deserialize_with = "nullable")]
    kind: String,
    /// Where its kind is from, if that is another group.
    #[serde(deserialize_with = "nullable")]
    group: String,
    #[serde(deserialize_with = "nullable")]
    version: String,
    #[serde(deserialize_with = "nullable")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    short_names: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    categories: Vec<String>,
}
