use listwatch::apiserver::ApiServer;
use serde_json::json;

use crate::client::*;

#[test]
fn the_envelope_comes_first_and_items_carry_no_type() {
    let server = ApiServer::start().unwrap();
    let version = server.resource_version();
    get(&server, CM).is(
        200,
        &format!(r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":[]}}"#),
    );
    create_all(&server, &["a"]);
    let answer = get(&server, CM);
    assert!(answer.text.contains(r#""items":[{"data":"#) || answer.text.contains(r#""items":[{"metadata":"#));
    let list = answer.expect(200);
    assert_eq!(names(&list), ["a"]);
    assert!(list["items"][0].get("kind").is_none());
}

#[test]
fn selectors_choose() {
    let server = ApiServer::start().unwrap();
    create_all(&server, &["a", "b"]);
    post(&server, CM, config_map("c", json!({"set": "other"}))).expect(201);
    let list = |query: &str| {
        let list = get(&server, &format!("{CM}?{query}")).expect(200);
        names(&list).join(",")
    };
    assert_eq!(list("labelSelector=set%3Ddemo"), "a,b");
    assert_eq!(list("labelSelector=set+notin+(demo)"), "c");
    assert_eq!(list("fieldSelector=metadata.name%3Db"), "b");
    assert_eq!(list("fieldSelector=metadata.name!=b,metadata.namespace=default"), "a,c");
    for (name, node) in [("p", "n1"), ("q", "n2")] {
        post(&server, PODS, json!({"metadata": {"name": name}, "spec": {"nodeName": node}})).expect(201);
    }
    let pods = get(&server, "/api/v1/pods?fieldSelector=spec.nodeName=n1,status.phase=Pending").expect(200);
    assert_eq!(names(&pods), ["p"]);
    // What is absent has its default.
    let pods = get(&server, &format!("{PODS}?fieldSelector=spec.hostNetwork=false")).expect(200);
    assert_eq!(names(&pods), ["p", "q"]);
    // The server's own words on what is wrong differ from kube-apiserver's.
    let mut bad = get(&server, &format!("{CM}?labelSelector=%21%21bad")).expect(400);
    let message = bad["message"].take();
    assert!(message.as_str().unwrap().starts_with("unable to parse requirement: "), "{message}");
    let shape = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": null, "reason": "BadRequest", "code": 400});
    assert_eq!(bad, shape);
    get(&server, &format!("{CM}?fieldSelector=metadata.name")).expect(400);
    get(&server, &format!("{CM}?fieldSelector=spec.nope%3D1")).is(
        400,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"\"spec.nope\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"","reason":"BadRequest","code":400}"#,
    );
}

fn token(list: &serde_json::Value) -> String {
    list["metadata"]["continue"].as_str().unwrap_or_default().replace('/', "%2F")
}

#[test]
fn pages_show_one_version_whatever_happens_meanwhile() {
    let server = ApiServer::start().unwrap();
    create_all(&server, &["a", "b", "c", "d", "e"]);
    let first = get(&server, &format!("{CM}?limit=2")).expect(200);
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["a", "b"], &json!(3)));
    delete(&server, &format!("{CM}/c")).expect(200);
    create_all(&server, &["bb"]);
    let second = get(&server, &format!("{CM}?limit=2&continue={}", token(&first))).expect(200);
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let last = get(&server, &format!("{CM}?limit=2&continue={}", token(&second))).expect(200);
    assert_eq!(names(&last), ["e"]);
    assert!(last["metadata"].get("continue").is_none());
    let selected = get(&server, &format!("{CM}?limit=2&labelSelector=set")).expect(200);
    assert!(selected["metadata"].get("remainingItemCount").is_none());
    assert_eq!(get(&server, &format!("{CM}?limit=2&continue=nonsense")).code, 400);
}

#[test]
fn an_expired_page_can_go_on_inconsistently() {
    let server = ApiServer::start().unwrap();
    create_all(&server, &["a", "b", "c"]);
    let first = get(&server, &format!("{CM}?limit=1")).expect(200);
    create_all(&server, &["aa"]);
    server.compact();
    let expired = get(&server, &format!("{CM}?limit=1&continue={}", token(&first))).expect(410);
    assert_eq!((&expired["reason"], &expired["code"]), (&json!("Expired"), &json!(410)));
    let start = "The provided continue parameter is too old to display a consistent list result.";
    assert!(expired["message"].as_str().unwrap().starts_with(start));
    let rest = get(&server, &format!("{CM}?continue={}", token(&expired))).expect(200);
    assert_eq!(names(&rest), ["aa", "b", "c"]);
}

#[test]
fn versions_of_lists() {
    let server = ApiServer::start().unwrap();
    create_all(&server, &["a"]);
    let then = server.resource_version();
    create_all(&server, &["b"]);
    let list = |query: String| get(&server, &format!("{CM}?{query}"));
    assert_eq!(names(&list("resourceVersion=0&limit=1".into()).expect(200)), ["a", "b"]);
    assert_eq!(names(&list(format!("resourceVersion={then}")).expect(200)), ["a", "b"]);
    let exact = list(format!("resourceVersion={then}&resourceVersionMatch=Exact")).expect(200);
    assert_eq!(names(&exact), ["a"]);
    assert_eq!(exact["metadata"]["resourceVersion"], then.to_string());
    let newer = list(format!("resourceVersion={then}&resourceVersionMatch=NotOlderThan")).expect(200);
    assert_eq!(names(&newer), ["a", "b"]);
    server.compact();
    list(format!("resourceVersion={then}&resourceVersionMatch=Exact&limit=2")).is(
        410,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"The resourceVersion for the provided list is too old.","reason":"Expired","code":410}"#,
    );
    let now = server.resource_version();
    let future = list("resourceVersion=999999999".into());
    assert!(future.head.contains("Retry-After: 1"));
    future.is(
        504,
        &format!(r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"Timeout: Too large resource version: 999999999, current: {now}","reason":"Timeout","details":{{"causes":[{{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}}],"retryAfterSeconds":1}},"code":504}}"#),
    );
    assert_eq!(list("resourceVersionMatch=Exact".into()).code, 422);
    assert_eq!(list("resourceVersion=1&resourceVersionMatch=Older".into()).code, 422);
    assert_eq!(list("sendInitialEvents=true".into()).code, 422);
    assert_eq!(list("limit=x".into()).code, 400);
    assert_eq!(list("resourceVersion=x".into()).code, 400);
}

#[test]
fn views_by_accept() {
    let server = ApiServer::start().unwrap();
    create_all(&server, &["a"]);
    let meta = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    let list = get_as(&server, CM, meta).expect(200);
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
    assert!(list["items"][0].get("data").is_none());
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let list = get_as(&server, CM, table).expect(200);
    assert_eq!(list["kind"], "Table");
    assert_eq!(list["columnDefinitions"][0]["format"], "name");
    assert_eq!(list["rows"][0]["cells"][0], "a");
    assert_eq!(list["rows"][0]["cells"][1], 1);
    assert_eq!(list["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let one = get_as(&server, &format!("{CM}/a?includeObject=Object"), table).expect(200);
    assert_eq!(one["rows"][0]["object"]["kind"], "ConfigMap");
    let refused = get_as(&server, CM, "application/vnd.kubernetes.protobuf").expect(406);
    assert_eq!(refused["reason"], "NotAcceptable");
    let both = "application/vnd.kubernetes.protobuf,application/json";
    assert_eq!(get_as(&server, CM, both).expect(200)["kind"], "ConfigMapList");
}

#[test]
fn discovery_names_every_resource() {
    let server = ApiServer::start().unwrap();
    let core = get(&server, "/api/v1").expect(200);
    assert_eq!((&core["kind"], &core["groupVersion"]), (&json!("APIResourceList"), &json!("v1")));
    let pods = core["resources"].as_array().unwrap().iter().find(|r| r["name"] == "pods").unwrap();
    assert_eq!(
        (&pods["kind"], &pods["shortNames"], &pods["namespaced"]),
        (&json!("Pod"), &json!(["po"]), &json!(true))
    );
    let groups = get(&server, "/apis").expect(200);
    for group in groups["groups"].as_array().unwrap() {
        let version = group["preferredVersion"]["groupVersion"].as_str().unwrap();
        let list = get(&server, &format!("/apis/{version}")).expect(200);
        for resource in list["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            if !name.contains('/') {
                assert_eq!(get(&server, &format!("/apis/{version}/{name}")).code, 200, "{version} {name}");
            }
        }
        get(&server, &format!("/openapi/v3/apis/{version}")).expect(200);
    }
    assert_eq!(get(&server, "/version").expect(200)["gitVersion"], "v1.37.0-listwatch");
    assert_eq!(get(&server, "/readyz").text, "ok");
    assert_eq!(get(&server, "/api").expect(200)["versions"], json!(["v1"]));
}

#[test]
fn a_resource_that_is_added_is_served() {
    let server = ApiServer::start().unwrap();
    let path = "/apis/x.example.com/v2/things";
    assert_eq!(get(&server, path).code, 404);
    let thing = listwatch::ApiResource::new("x.example.com/v2", "Thing", "things", listwatch::Scope::Cluster);
    server.add_resource(&thing);
    post(&server, path, json!({"metadata": {"name": "t"}, "spec": {"any": [1]}})).expect(201);
    let list = get(&server, path).expect(200);
    assert_eq!((&list["kind"], names(&list)), (&json!("ThingList"), vec!["t"]));
}
