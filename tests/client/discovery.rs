//! What the server has, in each form that servers tell it.

use listwatch::client::ApiKind;
use listwatch::{Api, Discovery, ListParams, Object, Scope, Stop};
use serde_json::{Value, json};

use super::client;
use super::http;
use super::server::{Connection, Seen, Server};

/// A server that answers a GET of each path so; else there is no such page.
fn server(pages: impl Fn(&str) -> Option<(u16, String)> + Send + Sync + 'static) -> Server {
    Server::start(move |connection| {
        connection.serve(|connection: &mut Connection, seen: &Seen| {
            match pages(seen.line.strip_prefix("GET ").unwrap()) {
                Some((code, body)) => connection.json(code, body),
                None => connection.answer(404, "Content-Type: text/plain\r\n", "404 page not found\n"),
            }
        });
    })
}

fn json_pages(pages: Value) -> Server {
    server(move |path| pages.get(path).map(|page| (200, page.to_string())))
}

/// What a kube-apiserver v1.37.2 said.
fn recorded(name: &str) -> Option<(u16, String)> {
    let answer = http::read(&format!("../client/discovery/{name}"));
    Some((answer.code, String::from_utf8(answer.body).unwrap()))
}

/// A server that knows the older form alone.
fn plain() -> Server {
    server(|path| match path {
        "/api" => recorded("api"),
        "/api/v1" => recorded("core_v1"),
        "/apis" => recorded("apis"),
        "/apis/apps/v1" => recorded("apps_v1"),
        path => {
            Some((200, json!({"kind": "APIResourceList", "groupVersion": path, "resources": []}).to_string()))
        }
    })
}

fn kind<'a>(discovery: &'a Discovery, name: &str) -> &'a ApiKind {
    discovery.find(name).unwrap()
}

/// What must be known of some kinds, whatever the form.
fn check(discovery: &Discovery) {
    let deployments = kind(discovery, "deploy");
    assert_eq!(format!("{:?}", deployments.resource), "apps/v1/deployments Deployment");
    assert_eq!((&*deployments.singular, deployments.resource.scope), ("deployment", Scope::Namespaced));
    assert_eq!(
        (&deployments.short_names[..], &deployments.categories[..]),
        (&["deploy".into()][..], &["all".into()][..])
    );
    assert!(
        deployments.is_watchable()
            && deployments.has_verb("deletecollection")
            && !deployments.has_verb("get/list")
    );
    let scale = deployments.subresource("scale").unwrap();
    assert_eq!((&*scale.api_version, &*scale.kind), ("autoscaling/v1", "Scale"));
    assert!(scale.verbs.iter().any(|verb| verb == "patch"));
    let status = deployments.subresource("status").unwrap();
    assert_eq!((&*status.api_version, &*status.kind), ("apps/v1", "Deployment"));

    let nodes = kind(discovery, "Node");
    assert_eq!((&*nodes.resource.api_version, nodes.resource.scope), ("v1", Scope::Cluster));
    let pods = kind(discovery, "po");
    assert!(
        pods.subresource("log").is_some() && pods.subresource("eviction").unwrap().api_version == "policy/v1"
    );
    assert!(!kind(discovery, "bindings").is_watchable());
    assert_eq!(discovery.groups()[0].name, "");
    assert_eq!(discovery.kind("apps/v1", "Deployment"), Some(deployments));
}

#[test]
fn the_older_form_is_asked_for_version_by_version() {
    let server = plain();
    let discovery = client(&server.url()).discover().unwrap();
    check(&discovery);
    assert!(discovery.failures().is_empty(), "{:?}", discovery.failures());
    let first = server.next();
    assert_eq!(first.line, "GET /api");
    let accept = first.header("accept");
    assert!(
        accept.starts_with("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"),
        "{accept}"
    );
    assert!(accept.ends_with(",application/json"), "{accept}");
    // autoscaling is preferred as v2.
    let autoscaling = discovery.groups().iter().find(|group| group.name == "autoscaling").unwrap();
    assert_eq!(autoscaling.versions[0].version, "v2");
}

#[test]
fn what_is_found_can_be_listed() {
    let server = server(|path| {
        match path {
        "/apis/apps/v1/namespaces/ns/deployments" => {
            Some((200, r#"{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{},"items":[{"metadata":{"name":"a"}}]}"#.into()))
        }
        "/api" => recorded("api_aggregated"),
        "/apis" => recorded("apis_aggregated"),
        _ => None,
    }
    });
    let client = client(&server.url());
    let deployments = client.discover().unwrap().resolve("deploy").unwrap();
    let list =
        Api::<Object>::namespaced_with(&client, "ns", &deployments).list(&ListParams::default()).unwrap();
    assert_eq!(list.items[0].metadata().name, "a");
    assert_eq!(server.seen.try_iter().count(), 3);
}

#[test]
fn both_forms_of_one_server_say_the_same() {
    let aggregated = server(|path| match path {
        "/api" => recorded("api_aggregated"),
        "/apis" => recorded("apis_aggregated"),
        _ => None,
    });
    let aggregated = client(&aggregated.url()).discover().unwrap();
    check(&aggregated);
    let older = plain();
    let older = client(&older.url()).discover().unwrap();
    let of = |discovery: &Discovery, name: &str| -> Vec<(String, Vec<String>)> {
        let group = discovery.groups().iter().find(|group| group.name == name).unwrap();
        let names = |kind: &ApiKind| {
            let mut subresources: Vec<_> = kind.subresources.iter().map(|s| format!("{s:?}")).collect();
            subresources.sort();
            (
                format!(
                    "{:?} {:?} {:?} {:?} {}",
                    kind.resource, kind.resource.scope, kind.short_names, kind.verbs, kind.singular
                ),
                subresources,
            )
        };
        let mut all: Vec<_> = group.versions.iter().flat_map(|version| &version.kinds).map(names).collect();
        all.sort();
        all
    };
    for group in ["", "apps"] {
        assert_eq!(of(&aggregated, group), of(&older, group));
    }
    let order = |discovery: &Discovery| -> Vec<String> {
        discovery
            .groups()
            .iter()
            .map(|group| format!("{} {}", group.name, group.versions[0].version))
            .collect()
    };
    assert_eq!(order(&aggregated), order(&older));
}

/// Two groups, of which one has an aggregated API.
fn groups(versions: [Value; 2]) -> Value {
    let group = |(name, version): (&str, Value)| json!({"name": name, "versions": [version.clone()], "preferredVersion": version});
    let groups: Vec<_> = ["metrics.k8s.io", "apps"].into_iter().zip(versions).map(group).collect();
    json!({"kind": "APIGroupList", "groups": groups})
}

#[test]
fn a_version_that_cannot_be_asked_is_told_and_does_not_fail_the_rest() {
    for (code, body) in [(503, "service unavailable"), (404, ""), (403, "{}"), (200, "<html>"), (200, "[]x")]
    {
        let server = server(move |path| match path {
            "/api" => recorded("api"),
            "/api/v1" => recorded("core_v1"),
            "/apis" => {
                let groups = groups([json!({"version": "v1beta1"}), json!({"version": "v1"})]);
                Some((200, groups.to_string()))
            }
            "/apis/apps/v1" => recorded("apps_v1"),
            _ => Some((code, body.into())),
        });
        let discovery = client(&server.url()).discover().unwrap();
        check(&discovery);
        let [failure] = discovery.failures() else { panic!("{:?}", discovery.failures()) };
        assert_eq!(failure.api_version, "metrics.k8s.io/v1beta1");
        assert_eq!(failure.error.code(), Some(code).filter(|code| *code != 200), "{:?}", failure.error);
        let told = discovery.resolve("podmetrics").unwrap_err().to_string();
        assert!(told.contains("what metrics.k8s.io/v1beta1 has is not known: "), "{told}");
    }
}

#[test]
fn a_stale_version_is_told_and_the_next_one_is_preferred() {
    let pods = json!({"resource": "pods", "responseKind": {"kind": "PodMetrics"}, "scope": "Namespaced"});
    let server = json_pages(json!({
        "/api": {"kind": "APIGroupDiscoveryList"},
        "/apis": {"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "metrics.k8s.io"}, "versions": [
            {"version": "v2", "resources": [pods], "freshness": "Stale"},
            {"version": "v1", "resources": [pods], "freshness": "Current"},
        ]}]},
    }));
    let discovery = client(&server.url()).discover().unwrap();
    assert_eq!(discovery.failures()[0].api_version, "metrics.k8s.io/v2");
    assert_eq!(discovery.resolve("pods").unwrap().api_version, "metrics.k8s.io/v1");
}

#[test]
fn nulls_and_what_is_left_out_do_not_matter() {
    let server = json_pages(json!({
        "/api": {"kind": "APIGroupDiscoveryList", "metadata": null, "items": [{"metadata": null, "versions": [
            {"version": "v1", "freshness": null, "resources": [
                {"resource": "pods", "responseKind": {"group": null, "version": null, "kind": "Pod"}, "scope": "Namespaced",
                 "verbs": null, "shortNames": null, "categories": null, "singularResource": null,
                 "subresources": [{"subresource": "log", "responseKind": null, "verbs": null}]},
                {"resource": "nodes", "responseKind": {"kind": "Node"}},
                {"resource": "only-for-its-subresources", "responseKind": null, "subresources": [{"subresource": "a"}]},
                {"responseKind": {"kind": "Nameless"}},
                {},
            ]},
            {"version": "v0", "resources": null},
        ]}]},
        "/apis": {"kind": null, "groups": [
            {"name": "a.b", "versions": [{"groupVersion": "a.b/v1", "version": "v1"}], "preferredVersion": null},
            {"name": "empty", "versions": null},
        ]},
        "/apis/a.b/v1": {"resources": [
            {"name": "foos", "kind": "Foo", "namespaced": null, "verbs": null},
            {"name": "foos/status", "kind": null},
            {"name": "bars/status", "kind": "Bar"},
            {"name": "nothing"},
        ]},
    }));
    let discovery = client(&server.url()).discover().unwrap();
    let found: Vec<_> =
        discovery.kinds().map(|kind| format!("{:?} {}", kind.resource, kind.singular)).collect();
    assert_eq!(found, ["v1/pods Pod pod", "v1/nodes Node node", "a.b/v1/foos Foo foo"]);
    assert_eq!(kind(&discovery, "nodes").resource.scope, Scope::Cluster);
    assert_eq!(kind(&discovery, "pods").subresource("log").unwrap().api_version, "v1");
    assert_eq!(kind(&discovery, "foos").subresources.len(), 1);
    assert!(discovery.failures().is_empty());
}

#[test]
fn a_server_may_have_no_core_group_or_nothing_else_but_not_neither() {
    let core = json!({"kind": "APIVersions", "versions": ["v1"]});
    let pods = json!({"resources": [{"name": "pods", "kind": "Pod", "namespaced": true}]});
    let server = json_pages(json!({"/api": core, "/api/v1": pods}));
    assert!(client(&server.url()).discover().unwrap().resolve("pods").is_ok());
    let server = json_pages(
        json!({"/apis": groups([json!({"version": "v1"}), json!({"version": "v1"})]), "/apis/metrics.k8s.io/v1": pods}),
    );
    assert_eq!(
        client(&server.url()).discover().unwrap().resolve("pods").unwrap().api_version,
        "metrics.k8s.io/v1"
    );
    let error = client(&json_pages(json!({})).url()).discover().unwrap_err();
    assert!(
        error.is_not_found() && error.to_string().starts_with("discover what the server has: "),
        "{error}"
    );
}

#[test]
fn what_is_no_answer_to_discovery_is_an_error() {
    for page in [json!({"kind": "Status", "status": "Success"}), json!("text"), json!({"groups": 5})] {
        let server = json_pages(json!({"/api": {"kind": "APIVersions"}, "/apis": page}));
        let error = client(&server.url()).discover().unwrap_err();
        assert!(error.is_decode() && error.to_string().contains("/apis"), "{error}");
    }
}

#[test]
fn where_the_header_is_not_acceptable_the_plain_form_is_asked_for() {
    let server = Server::start(|connection| {
        connection.serve(|connection: &mut Connection, seen: &Seen| match &*seen.line {
            _ if seen.header("accept").contains(';') => connection.answer(406, "", ""),
            "GET /api" => connection.json(200, r#"{"versions":["v1"]}"#),
            "GET /api/v1" => connection.json(200, r#"{"resources":[{"name":"pods","kind":"Pod"}]}"#),
            _ => connection.json(200, r#"{"groups":[]}"#),
        });
    });
    assert!(client(&server.url()).discover().unwrap().resolve("pods").is_ok());
}

#[test]
fn a_stop_and_a_server_that_goes_away_end_it() {
    let stop = Stop::new();
    let stopping = stop.clone();
    let server = server(move |path| match path {
        "/api" => Some((200, "{}".into())),
        "/apis" => Some((200, groups([json!({"version": "v1"}), json!({"version": "v2"})]).to_string())),
        _ => {
            stopping.stop();
            Some((200, "{}".into()))
        }
    });
    // Not what was found by then, the rest told as failed.
    let error = client(&server.url()).with_stop(&stop).discover().unwrap_err();
    assert!(error.is_stopped(), "{error}");
    assert!(client(&super::server::refusing()).discover().unwrap_err().is_connect());
}
