use listwatch::apiserver::ApiServer;
use serde_json::{Value, json};

use crate::client::*;

fn cm(server: &ApiServer) -> String {
    create_all(server, &["a"]);
    format!("{CM}/a")
}

#[test]
fn json_patches_are_all_or_nothing() {
    let server = ApiServer::start().unwrap();
    let path = cm(&server);
    let good = json!([{"op": "test", "path": "/data/a", "value": "1"}, {"op": "add", "path": "/data/b", "value": "2"}]);
    let patched = patch(&server, &path, "json-patch", good).expect(200);
    assert_eq!(patched["data"], json!({"a": "1", "b": "2"}));
    let bad = json!([{"op": "remove", "path": "/data/a"}, {"op": "test", "path": "/data/b", "value": "0"}]);
    patch(&server, &path, "json-patch", bad).is(
        422,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server rejected our request due to an error in our request","reason":"Invalid","details":{},"code":422}"#,
    );
    assert_eq!(get(&server, &path).json(), patched);
    assert_eq!(patch(&server, &path, "json-patch", json!({})).code, 400);
}

#[test]
fn merge_patches_obey_the_version_they_carry() {
    let server = ApiServer::start().unwrap();
    let path = cm(&server);
    let old = get(&server, &path).json()["metadata"]["resourceVersion"].clone();
    let patched = patch(&server, &path, "merge-patch", json!({"data": {"a": null, "b": "2"}})).expect(200);
    assert_eq!(patched["data"], json!({"b": "2"}));
    let stale = json!({"metadata": {"resourceVersion": old}, "data": {"b": "3"}});
    assert_eq!(patch(&server, &path, "merge-patch", stale).expect(409)["reason"], "Conflict");
    let same = patch(&server, &path, "merge-patch", json!({"data": {"b": "2"}})).expect(200);
    assert_eq!(same, patched);
    assert_eq!(patch(&server, &format!("{CM}/none"), "merge-patch", json!({})).code, 404);
    let refused = send(&server, "PATCH", &path, "Content-Type: application/json\r\n", "{}").expect(415);
    assert_eq!(refused["reason"], "UnsupportedMediaType");
    assert_eq!(patch(&server, &path, "merge-patch", json!({"kind": "Pod"})).code, 400);
}

#[test]
fn strategic_patches_merge_containers_by_name() {
    let server = ApiServer::start().unwrap();
    let spec = json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]});
    post(&server, PODS, json!({"metadata": {"name": "p"}, "spec": spec})).expect(201);
    let change =
        json!({"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "a", "$patch": "delete"}]}});
    let patched = patch(&server, &format!("{PODS}/p"), "strategic-merge-patch", change).expect(200);
    assert_eq!(patched["spec"]["containers"], json!([{"name": "b", "image": "2"}]));
    let bad = json!({"spec": {"$patch": "explode"}});
    assert_eq!(patch(&server, &format!("{PODS}/p"), "strategic-merge-patch", bad).code, 400);
}

fn applied(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ssa"}, "data": data})
}

#[test]
fn apply_creates_owns_and_takes_away() {
    let server = ApiServer::start().unwrap();
    let path = format!("{CM}/ssa?fieldManager=one");
    let created = patch(&server, &path, "apply-patch", applied(json!({"a": "1", "b": "1"}))).expect(201);
    let meta = &created["metadata"];
    assert_eq!(
        meta["managedFields"],
        json!([{"manager": "one", "operation": "Apply", "apiVersion": "v1", "time": meta["creationTimestamp"],
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}}}])
    );
    patch(&server, &format!("{CM}/ssa"), "merge-patch", json!({"data": {"c": "1"}})).expect(200);
    let second = patch(&server, &path, "apply-patch", applied(json!({"a": "2"}))).expect(200);
    assert_eq!(second["data"], json!({"a": "2", "c": "1"}));
    let same = patch(&server, &path, "apply-patch", applied(json!({"a": "2"}))).expect(200);
    assert_eq!(same, second);
}

#[test]
fn apply_finds_conflicts_and_force_ends_them() {
    let server = ApiServer::start().unwrap();
    patch(&server, &format!("{CM}/ssa?fieldManager=one"), "apply-patch", applied(json!({"a": "1"})))
        .expect(201);
    let path = format!("{CM}/ssa?fieldManager=two");
    patch(&server, &path, "apply-patch", applied(json!({"a": "2"}))).is(
        409,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Apply failed with 1 conflict: conflict with \"one\": .data.a","reason":"Conflict","details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"one\"","field":".data.a"}]},"code":409}"#,
    );
    // The same value is shared.
    patch(&server, &path, "apply-patch", applied(json!({"a": "1"}))).expect(200);
    let forced =
        patch(&server, &format!("{path}&force=true"), "apply-patch", applied(json!({"a": "2"}))).expect(200);
    assert_eq!(forced["data"], json!({"a": "2"}));
    let managers = forced["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managers.iter().map(|m| &m["manager"]).collect::<Vec<_>>(), ["two"]);
    let nobody = patch(&server, &format!("{CM}/ssa"), "apply-patch", applied(json!({}))).expect(422);
    assert_eq!(nobody["details"]["causes"][0]["field"], "fieldManager");
}

#[test]
fn apply_merges_keyed_lists() {
    let server = ApiServer::start().unwrap();
    let pod = |containers: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}});
    let path = |manager: &str| format!("{PODS}/p?fieldManager={manager}");
    patch(
        &server,
        &path("one"),
        "apply-patch",
        pod(json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}])),
    )
    .expect(201);
    patch(
        &server,
        &path("two"),
        "apply-patch",
        pod(json!([{"name": "a", "tty": true}, {"name": "c", "image": "1"}])),
    )
    .expect(200);
    // What `one` no longer names goes, but an item that another manager has a part of stays.
    let last =
        patch(&server, &path("one"), "apply-patch", pod(json!([{"name": "b", "image": "2"}]))).expect(200);
    assert_eq!(
        last["spec"]["containers"],
        json!([{"name": "a", "tty": true}, {"name": "b", "image": "2"}, {"name": "c", "image": "1"}])
    );
}

#[test]
fn updates_of_others_are_conflicts_of_apply() {
    let server = ApiServer::start().unwrap();
    patch(&server, &format!("{CM}/ssa?fieldManager=one"), "apply-patch", applied(json!({"a": "1"})))
        .expect(201);
    patch(&server, &format!("{CM}/ssa?fieldManager=hand"), "merge-patch", json!({"data": {"a": "2"}}))
        .expect(200);
    let conflict =
        patch(&server, &format!("{CM}/ssa?fieldManager=one"), "apply-patch", applied(json!({"a": "1"})));
    assert_eq!(conflict.expect(409)["details"]["causes"][0]["message"], "conflict with \"hand\" using v1");
}

#[test]
fn what_is_put_under_a_name_must_say_it() {
    let server = ApiServer::start().unwrap();
    let map = |name: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": name});
    let path = "/api/v1/namespaces/default/configmaps/a?fieldManager=one";
    let nameless = patch(&server, path, "apply-patch", map(json!({}))).expect(400);
    assert!(nameless["message"].as_str().unwrap().contains("name must be provided"), "{nameless}");
    let other = patch(&server, path, "apply-patch", map(json!({"name": "b"}))).expect(400);
    assert!(other["message"].as_str().unwrap().contains("does not match the name on the URL (a)"), "{other}");
    let forced = patch(&server, &format!("{path}&force=true"), "merge-patch", json!({})).expect(422);
    assert!(forced["message"].as_str().unwrap().contains("may not be specified for non-apply"), "{forced}");
}
