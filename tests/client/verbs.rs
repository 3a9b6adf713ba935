//! What each verb puts on the wire.

use std::time::Duration;

use listwatch::client::{FieldValidation, Method, RawRequest};
use listwatch::config::Impersonate;
use listwatch::types::{ConfigMap, Lease};
use listwatch::{
    Api, Client, Credentials, DeleteParams, ListParams, Object, Patch, PatchParams, PostParams, Stop,
    WatchParams,
};
use serde_json::{Value, json};

use super::server::{Connection, Seen, Server};
use super::{client, config, config_map, config_maps};

fn server() -> Server {
    Server::start(|connection| {
        connection.serve(|connection: &mut Connection, seen: &Seen| {
            if seen.line.contains("watch=true") {
                connection.stream();
                connection.last_chunk();
            } else if seen.line.contains('?') && seen.line.starts_with("GET") {
                connection
                    .json(200, r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[]}"#);
            } else {
                connection.json(200, config_map("a"));
            }
        });
    })
}

fn object() -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).unwrap()
}

/// Each call, and the request line, content type and body that it makes.
type Row = (&'static str, fn(&Api<ConfigMap>), &'static str, &'static str, &'static str);

const ROWS: [Row; 21] = [
    ("get", |a| drop(a.get("a").unwrap()), "GET /configmaps/a", "", ""),
    ("get_status", |a| drop(a.get_status("a").unwrap()), "GET /configmaps/a/status", "", ""),
    (
        "list",
        |a| {
            drop(
                a.list(&ListParams::default().labels("app in (a, b)").fields("metadata.name!=x").limit(5))
                    .unwrap(),
            )
        },
        "GET /configmaps?labelSelector=app%20in%20%28a%2C%20b%29&fieldSelector=metadata.name%21%3Dx&limit=5",
        "",
        "",
    ),
    (
        "pages",
        |a| {
            assert_eq!(
                a.pages(&ListParams::default()).map(|page| page.unwrap().items.len()).sum::<usize>(),
                0
            )
        },
        "GET /configmaps?limit=500",
        "",
        "",
    ),
    (
        "list from a token",
        |a| drop(a.list(&ListParams::default().resource_version("7").continue_token("a+/=")).unwrap()),
        "GET /configmaps?continue=a%2B%2F%3D",
        "",
        "",
    ),
    (
        "watch",
        |a| {
            let params = WatchParams::default().resource_version("7").timeout(Duration::from_secs(60));
            assert!(a.watch(&params, &Stop::new()).unwrap().next().is_none());
        },
        "GET /configmaps?watch=true&resourceVersion=7&allowWatchBookmarks=true&timeoutSeconds=60",
        "",
        "",
    ),
    (
        "watch-list",
        |a| {
            let params = WatchParams::default().initial_events().timeout(Duration::from_secs(60));
            assert!(a.watch(&params, &Stop::new()).unwrap().next().is_none());
        },
        "GET /configmaps?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=60",
        "",
        "",
    ),
    (
        "create",
        |a| drop(a.create(&PostParams::default().dry_run().field_manager("me"), &object()).unwrap()),
        "POST /configmaps?fieldManager=me&dryRun=All",
        "application/json",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}"#,
    ),
    (
        "replace",
        |a| {
            let params = PostParams::default().field_validation(FieldValidation::Strict);
            drop(a.replace("a", &params, &object()).unwrap());
        },
        "PUT /configmaps/a?fieldValidation=Strict",
        "application/json",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}"#,
    ),
    (
        "replace_status",
        |a| drop(a.replace_status("a", &PostParams::default(), &object()).unwrap()),
        "PUT /configmaps/a/status",
        "application/json",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}"#,
    ),
    (
        "json patch",
        |a| {
            let patch = Patch::Json(json!([{"op": "remove", "path": "/data"}]));
            drop(a.patch("a", &PatchParams::default(), &patch).unwrap());
        },
        "PATCH /configmaps/a",
        "application/json-patch+json",
        r#"[{"op":"remove","path":"/data"}]"#,
    ),
    (
        "merge patch",
        |a| drop(a.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": null}))).unwrap()),
        "PATCH /configmaps/a",
        "application/merge-patch+json",
        r#"{"data":null}"#,
    ),
    (
        "strategic patch of the status",
        |a| {
            drop(
                a.patch_status("a", &PatchParams::default(), &Patch::Strategic(json!({"status": {}})))
                    .unwrap(),
            )
        },
        "PATCH /configmaps/a/status",
        "application/strategic-merge-patch+json",
        r#"{"status":{}}"#,
    ),
    (
        "apply",
        |a| {
            drop(a.patch("a", &PatchParams::apply("me").force(), &Patch::Apply(json!({"data": {}}))).unwrap())
        },
        "PATCH /configmaps/a?fieldManager=me&force=true",
        "application/apply-patch+yaml",
        r#"{"apiVersion":"v1","kind":"ConfigMap","data":{}}"#,
    ),
    (
        "delete",
        |a| {
            let params = DeleteParams::background().uid("u").resource_version("7").dry_run();
            drop(a.delete("a", &params).unwrap());
        },
        "DELETE /configmaps/a",
        "application/json",
        r#"{"apiVersion":"v1","kind":"DeleteOptions","dryRun":["All"],"propagationPolicy":"Background","preconditions":{"uid":"u","resourceVersion":"7"}}"#,
    ),
    (
        "delete_collection",
        |a| a.delete_collection(&DeleteParams::default(), &ListParams::default().labels("a=b")).unwrap(),
        "DELETE /configmaps?labelSelector=a%3Db",
        "application/json",
        r#"{"apiVersion":"v1","kind":"DeleteOptions"}"#,
    ),
    (
        "get_subresource",
        |a| drop(a.get_subresource::<Value>("a", "scale").unwrap()),
        "GET /configmaps/a/scale",
        "",
        "",
    ),
    (
        "create_subresource",
        |a| {
            let body = json!({"kind": "Eviction"});
            drop(a.create_subresource::<_, Value>("a", "eviction", &PostParams::default(), &body).unwrap());
        },
        "POST /configmaps/a/eviction",
        "application/json",
        r#"{"kind":"Eviction"}"#,
    ),
    (
        "replace_subresource",
        |a| {
            let body = json!({"spec": {"replicas": 2}});
            drop(a.replace_subresource::<_, Value>("a", "scale", &PostParams::default(), &body).unwrap());
        },
        "PUT /configmaps/a/scale",
        "application/json",
        r#"{"apiVersion":"autoscaling/v1","kind":"Scale","spec":{"replicas":2}}"#,
    ),
    (
        "patch_subresource",
        |a| {
            let patch = Patch::Merge(json!({"spec": {"replicas": 2}}));
            drop(a.patch_subresource::<_, Value>("a", "scale", &PatchParams::default(), &patch).unwrap());
        },
        "PATCH /configmaps/a/scale",
        "application/merge-patch+json",
        r#"{"spec":{"replicas":2}}"#,
    ),
    ("escaped name", |a| drop(a.get("a:b c").unwrap()), "GET /configmaps/a%3Ab%20c", "", ""),
];

/// Under which URL the server is, and what stands before each path then.
#[test]
fn every_verb_sends_what_the_api_asks_for_under_any_prefix() {
    let server = server();
    for (suffix, prefix) in [("", ""), ("/", ""), ("/k8s/clusters/c-1", "/k8s/clusters/c-1"), ("/p/", "/p")] {
        let url = server.url() + suffix;
        let api = config_maps(&client(&url));
        for (what, call, line, content_type, body) in ROWS {
            call(&api);
            let seen = server.next();
            let (method, path) = line.split_once(' ').unwrap();
            let expected = format!("{method} {prefix}/api/v1/namespaces/ns{path}");
            assert_eq!(seen.line, expected, "{what} at {url}");
            assert_eq!(seen.header("content-type"), content_type, "{what}");
            assert_eq!(seen.body, body, "{what}");
            assert_eq!(seen.header("host"), server.url().strip_prefix("http://").unwrap(), "{what}");
            assert_eq!(seen.header("accept"), "application/json", "{what}");
            assert!(seen.header("user-agent").starts_with("listwatch/"), "{what}");
            assert!(seen.headers("authorization").is_empty(), "{what}");
        }
    }
    assert!(server.seen.is_empty());
}

#[test]
fn groups_and_cluster_scoped_kinds_have_their_paths() {
    let server = server();
    let client = client(&server.url());
    let _ = Api::<Lease>::all(&client).list(&ListParams::default().limit(1));
    assert_eq!(server.next().line, "GET /apis/coordination.k8s.io/v1/leases?limit=1");
    let _ = Api::<listwatch::types::Node>::namespaced(&client, "ignored").get("n");
    assert_eq!(server.next().line, "GET /api/v1/nodes/n");
}

#[test]
fn an_object_is_created_in_its_own_namespace() {
    let server = server();
    let object: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "other"}})).unwrap();
    Api::all(&client(&server.url())).create(&PostParams::default(), &object).unwrap();
    assert_eq!(server.next().line, "POST /api/v1/namespaces/other/configmaps");
}

#[test]
fn any_request_can_be_sent() {
    let server = server();
    let client = client(&server.url());
    let request = RawRequest::new(Method::Post, "/apis/x?y=z").json(&json!({"a": 1})).unwrap();
    assert!(client.request_text(&request).unwrap().contains("ConfigMap"));
    let seen = server.next();
    assert_eq!((&*seen.line, &*seen.body), ("POST /apis/x?y=z", r#"{"a":1}"#));
    // A POST without a body still says how long it is.
    let _: Object = client.request(&RawRequest::new(Method::Post, "/apis/x")).unwrap();
    let seen = server.next();
    assert_eq!((seen.header("content-length"), seen.header("content-type")), ("0", ""));
}

#[test]
fn a_token_may_be_long_and_a_query_that_is_too_long_is_told_so() {
    let server = server();
    let token = "t".repeat(20_000);
    let config = config(&server.url()).with_credentials(Credentials::token(&token).unwrap());
    let api = config_maps(&Client::new(config).unwrap());
    let list = |length| api.list(&ListParams::default().labels("x".repeat(length)));
    list(8_000).unwrap();
    assert_eq!(server.next().headers("authorization"), [format!("Bearer {token}")]);
    let error = list(8_192).unwrap_err();
    assert!(error.is_limit() && error.to_string().contains("address"), "{error}");
    // In between lies the limit, and nothing else.
    for length in 8_001..8_192 {
        assert!(list(length).err().is_none_or(|e| e.is_limit()));
    }
}

#[test]
fn a_client_says_as_whom_it_acts() {
    let server = server();
    let whom = Impersonate {
        user: "jane".into(),
        uid: Some("u-1".into()),
        groups: vec!["dev".into(), "ops".into()],
        extra: [("example.com/scope:a b".to_owned(), vec!["x".to_owned(), "y".to_owned()])].into(),
    };
    let config = config(&server.url())
        .with_impersonate(whom)
        .with_credentials(Credentials::basic("bob", "pw"))
        .with_user_agent("mine/1");
    let api = config_maps(&Client::new(config).unwrap());
    api.get("a").unwrap();
    drop(api.watch(&WatchParams::default(), &Stop::new()).unwrap());
    for seen in [server.next(), server.next()] {
        assert_eq!(seen.headers("impersonate-user"), ["jane"]);
        assert_eq!(seen.headers("impersonate-uid"), ["u-1"]);
        assert_eq!(seen.headers("impersonate-group"), ["dev", "ops"]);
        assert_eq!(seen.headers("impersonate-extra-example.com%2fscope%3aa%20b"), ["x", "y"]);
        assert_eq!(seen.headers("authorization"), ["Basic Ym9iOnB3"]);
        assert_eq!(seen.headers("user-agent"), ["mine/1"]);
    }
}

#[test]
fn what_cannot_be_asked_for_is_told_and_goes_nowhere() {
    let (server, other) = (server(), server());
    let client = client(&server.url());
    let elsewhere = format!("@{}/", other.url().strip_prefix("http://").unwrap());
    for path in ["", "api/v1", ".example.com/", &elsewhere, "/a b", "/a\r\nX-Evil: 1", "/\u{fc}\0"] {
        let error = client.request_text(&RawRequest::new(Method::Get, path)).unwrap_err();
        assert!(error.is_invalid_argument(), "{path:?}: {error:?}");
    }
    assert_eq!((server.accepted(), other.accepted()), (0, 0));
}

#[test]
fn a_user_agent_that_fits_in_no_header_is_an_error() {
    let config = config("http://127.0.0.1:1").with_user_agent("a\r\nX-Evil: 1");
    let error = Client::new(config).and_then(|client| config_maps(&client).get("a")).unwrap_err();
    assert!(error.is_config(), "{error:?}");
}

#[test]
fn compression_is_asked_for_where_it_is_allowed_and_never_for_a_watch() {
    let server = server();
    for allowed in [true, false] {
        let client = Client::new(config(&server.url()).with_compression(allowed)).unwrap();
        let api = config_maps(&client);
        api.get("a").unwrap();
        let asked = server.next();
        let gzip = allowed && cfg!(feature = "gzip");
        assert_eq!(asked.headers("accept-encoding").contains(&"gzip"), gzip, "{asked:?}");
        drop(api.watch(&WatchParams::default(), &Stop::new()).unwrap());
        assert_eq!(server.next().headers("accept-encoding"), ["identity"]);
    }
}
