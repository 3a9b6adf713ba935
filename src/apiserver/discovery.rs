//! What the server has: the paths that kubectl reads before it does anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::answer::Response;
use super::kinds::Kind;
use super::openapi;
use super::server::Server;

/// The version the server gives itself: that of the API it was made after.
const VERSION: (&str, &str) = ("1", "37");

/// Answers a GET of a path that names no resource.
pub(super) fn answer(server: &Server, path: &[&str]) -> Response {
    let kinds = server.state().kinds().to_vec();
    let found = match path {
        [] => Some(
            json!({"paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]}),
        ),
        ["version"] => Some(version()),
        ["healthz" | "livez" | "readyz", ..] => return Response::text(200, "ok"),
        ["api"] => {
            let address = server.address();
            return Response::json(
                200,
                format!(
                    r#"{{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{{"clientCIDR":"0.0.0.0/0","serverAddress":"{address}"}}]}}"#
                ) + "\n",
            );
        }
        ["apis"] => {
            let groups: Vec<Value> =
                groups(&kinds).into_iter().map(|(name, versions)| group(name, &versions)).collect();
            return typed("APIGroupList", json!({ "groups": groups }));
        }
        ["apis", name] => {
            let Some(versions) = groups(&kinds).remove(*name) else { return Response::no_page() };
            return typed("APIGroup", group(name, &versions));
        }
        ["api", version] => return resources(&kinds, "", version),
        ["apis", group, version] => return resources(&kinds, group, version),
        ["openapi", "v3"] => Some(openapi::index(&kinds)),
        ["openapi", "v3", "api", version] => openapi::document(&kinds, "", version),
        ["openapi", "v3", "apis", group, version] => openapi::document(&kinds, group, version),
        _ => None,
    };
    found.map_or_else(Response::no_page, |value| Response::json(200, value.to_string()))
}

fn version() -> Value {
    let (major, minor) = VERSION;
    json!({
        "major": major,
        "minor": minor,
        "gitVersion": format!("v{major}.{minor}.0-listwatch"),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    })
}

/// An object of the meta API with kind and apiVersion first.
fn typed(kind: &str, value: Value) -> Response {
    let mut out = Vec::new();
    super::view::write_typed(&mut out, kind, "v1", &value);
    out.push(b'\n');
    Response::json(200, out)
}

/// The groups beside the core one with their versions, as they came.
fn groups(kinds: &[Arc<Kind>]) -> BTreeMap<&str, Vec<&str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for kind in kinds.iter().filter(|kind| !kind.group.is_empty()) {
        let versions = groups.entry(&kind.group).or_default();
        if !versions.contains(&&*kind.version) {
            versions.push(&kind.version);
        }
    }
    for versions in groups.values_mut() {
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
    }
    groups
}

/// v2 before v1 before v1beta1 before v1alpha1 before anything else, as Kubernetes orders versions.
fn priority(version: &str) -> (u8, u64, u64) {
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    let digits = |text: &str| text.parse::<u64>().ok();
    for (word, stage) in [("beta", 2), ("alpha", 1)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return match (digits(major), digits(minor)) {
                (Some(major), Some(minor)) => (stage, major, minor),
                _ => (0, 0, 0),
            };
        }
    }
    digits(rest).map_or((0, 0, 0), |major| (3, major, 0))
}

fn group(name: &str, versions: &[&str]) -> Value {
    let all: Vec<Value> =
        versions.iter().map(|v| json!({"groupVersion": format!("{name}/{v}"), "version": v})).collect();
    let preferred = all.first().cloned();
    json!({ "name": name, "versions": all, "preferredVersion": preferred })
}

fn resources(kinds: &[Arc<Kind>], group: &str, version: &str) -> Response {
    let mut resources = Vec::new();
    let mut name = String::new();
    for kind in kinds.iter().filter(|kind| kind.group == group && kind.version == version) {
        name = kind.api_version();
        let mut verbs =
            vec!["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        if kind.is_core("namespaces") {
            verbs.retain(|verb| *verb != "deletecollection");
        }
        let mut resource = json!({
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": verbs,
        });
        if !kind.short_names.is_empty() {
            resource["shortNames"] = kind.short_names.clone().into();
        }
        if !kind.categories.is_empty() {
            resource["categories"] = kind.categories.clone().into();
        }
        resources.push(resource);
        let mut subresource = |sub: &str, of: Value, verbs: &[&str]| {
            let mut entry = json!({
                "name": format!("{}/{sub}", kind.plural),
                "singularName": "",
                "namespaced": kind.namespaced,
                "verbs": verbs,
            });
            for (field, value) in of.as_object().into_iter().flatten() {
                entry[field] = value.clone();
            }
            resources.push(entry);
        };
        if kind.is_core("pods") {
            subresource("binding", json!({"kind": "Binding"}), &["create"]);
            let eviction = json!({"group": "policy", "version": "v1", "kind": "Eviction"});
            subresource("eviction", eviction, &["create"]);
            subresource("log", json!({"kind": "Pod"}), &["get"]);
        }
        if kind.scale.is_some() {
            let scale = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
            subresource("scale", scale, &["get", "patch", "update"]);
        }
        if kind.status {
            subresource("status", json!({"kind": kind.kind}), &["get", "patch", "update"]);
        }
    }
    if resources.is_empty() {
        return Response::no_page();
    }
    typed("APIResourceList", json!({ "groupVersion": name, "resources": resources }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_maturity() {
        let mut versions = ["v1alpha1", "foo", "v1", "v1beta2", "v10", "v2", "v1beta1"];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]);
    }
}
