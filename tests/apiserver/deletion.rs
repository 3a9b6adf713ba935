use listwatch::apiserver::ApiServer;
use serde_json::{Value, json};

use crate::client::*;

fn owned(name: &str, owner: &Value, blocks: bool) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap",
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks}]}})
}

fn all(server: &ApiServer) -> String {
    names(&get(server, CM).json()).join(",")
}

#[test]
fn a_delete_answers_a_status() {
    let server = ApiServer::start().unwrap();
    create_all(&server, &["cm-5"]);
    let uid = get(&server, &format!("{CM}/cm-5")).json()["metadata"]["uid"].clone();
    let wrong = json!({"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}).to_string();
    let uid = uid.as_str().unwrap();
    send(&server, "DELETE", &format!("{CM}/cm-5"), "", &wrong).is(
        409,
        &format!(r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"Operation cannot be fulfilled on ConfigMap \"cm-5\": the UID in the precondition (00000000-0000-0000-0000-000000000000) does not match the UID in record ({uid}). The object might have been deleted and then recreated","reason":"Conflict","details":{{"name":"cm-5","kind":"ConfigMap"}},"code":409}}"#),
    );
    let stale = json!({"preconditions": {"resourceVersion": "1"}}).to_string();
    assert_eq!(send(&server, "DELETE", &format!("{CM}/cm-5"), "", &stale).code, 409);
    delete(&server, &format!("{CM}/cm-5")).is(
        200,
        &format!(r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Success","details":{{"name":"cm-5","kind":"configmaps","uid":"{uid}"}}}}"#),
    );
    assert_eq!(delete(&server, &format!("{CM}/cm-5")).code, 404);
}

#[test]
fn a_delete_of_a_pod_answers_the_pod() {
    let server = ApiServer::start().unwrap();
    post(&server, PODS, json!({"metadata": {"name": "p"}})).expect(201);
    let deleted = delete(&server, &format!("{PODS}/p")).expect(200);
    assert_eq!(deleted["kind"], "Pod");
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(get(&server, &format!("{PODS}/p")).code, 404);
}

#[test]
fn finalizers_hold_an_object_until_the_last_is_gone() {
    let server = ApiServer::start().unwrap();
    post(&server, CM, json!({"metadata": {"name": "f", "finalizers": ["example.com/hold"]}})).expect(201);
    let path = format!("{CM}/f");
    let held = delete(&server, &path).expect(200);
    assert_eq!(held["kind"], "ConfigMap");
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(delete(&server, &path).expect(200), held);
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    assert_eq!(patch(&server, &path, "merge-patch", more).code, 422);
    let remove = json!([{"op": "remove", "path": "/metadata/finalizers/0"}]);
    let last = patch(&server, &path, "json-patch", remove).expect(200);
    // As recorded: the answer carries the version from before.
    assert_eq!(last["metadata"]["resourceVersion"], held["metadata"]["resourceVersion"]);
    assert_eq!(get(&server, &path).code, 404);
}

#[test]
fn dependents_follow_their_last_owner() {
    let server = ApiServer::start().unwrap();
    let owner = post(&server, CM, config_map("owner", json!({}))).expect(201);
    let other = post(&server, CM, config_map("other", json!({}))).expect(201);
    let child = post(&server, CM, owned("child", &owner, false)).expect(201);
    post(&server, CM, owned("grandchild", &child, false)).expect(201);
    let mut shared = owned("shared", &owner, false);
    let reference = owned("", &other, false)["metadata"]["ownerReferences"][0].clone();
    shared["metadata"]["ownerReferences"].as_array_mut().unwrap().push(reference);
    post(&server, CM, shared).expect(201);
    delete(&server, &format!("{CM}/owner")).expect(200);
    assert_eq!(all(&server), "other,shared");
    delete(&server, &format!("{CM}/other")).expect(200);
    assert_eq!(all(&server), "");
    post(&server, CM, owned("orphan", &owner, false)).expect(201);
    assert_eq!(all(&server), "");
    create_all(&server, &["later"]);
    let refs =
        json!({"metadata": {"ownerReferences": owned("", &owner, false)["metadata"]["ownerReferences"]}});
    patch(&server, &format!("{CM}/later"), "merge-patch", refs).expect(200);
    assert_eq!(all(&server), "");
}

#[test]
fn foreground_waits_for_dependents_and_orphan_leaves_them() {
    let server = ApiServer::start().unwrap();
    let owner = post(&server, CM, config_map("owner", json!({}))).expect(201);
    let mut child = owned("child", &owner, true);
    child["metadata"]["finalizers"] = json!(["example.com/hold"]);
    post(&server, CM, child).expect(201);
    let waits = delete(&server, &format!("{CM}/owner?propagationPolicy=Foreground")).expect(200);
    assert_eq!(waits["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert_eq!(all(&server), "child,owner");
    patch(&server, &format!("{CM}/child"), "merge-patch", json!({"metadata": {"finalizers": null}}))
        .expect(200);
    assert_eq!(all(&server), "");

    let owner = post(&server, CM, config_map("owner", json!({}))).expect(201);
    post(&server, CM, owned("child", &owner, true)).expect(201);
    let options =
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"}).to_string();
    let leaving = send(&server, "DELETE", &format!("{CM}/owner"), "", &options).expect(200);
    assert_eq!(leaving["metadata"]["finalizers"], json!(["orphan"]));
    assert_eq!(all(&server), "child");
    let child = get(&server, &format!("{CM}/child")).expect(200);
    assert!(child["metadata"].get("ownerReferences").is_none());
}

#[test]
fn a_namespace_takes_its_contents_along() {
    let server = ApiServer::start().unwrap();
    post(&server, "/api/v1/namespaces", json!({"metadata": {"name": "team"}})).expect(201);
    let inside = "/api/v1/namespaces/team/configmaps";
    post(&server, inside, json!({"metadata": {"name": "a"}})).expect(201);
    post(&server, inside, json!({"metadata": {"name": "b", "finalizers": ["example.com/hold"]}})).expect(201);
    let ending = delete(&server, "/api/v1/namespaces/team").expect(200);
    assert_eq!(ending["status"]["phase"], "Terminating");
    assert_eq!(names(&get(&server, inside).json()), ["b"]);
    let refused = post(&server, inside, json!({"metadata": {"name": "c"}})).expect(403);
    assert_eq!(refused["details"]["causes"][0]["reason"], "NamespaceTerminating");
    patch(&server, &format!("{inside}/b"), "merge-patch", json!({"metadata": {"finalizers": []}}))
        .expect(200);
    assert_eq!(get(&server, "/api/v1/namespaces/team").code, 404);
    assert_eq!(delete(&server, "/api/v1/namespaces/default").code, 403);
}

#[test]
fn a_collection_is_deleted_by_selector() {
    let server = ApiServer::start().unwrap();
    create_all(&server, &["a", "b"]);
    post(&server, CM, config_map("c", json!({}))).expect(201);
    let deleted = delete(&server, &format!("{CM}?labelSelector=set=demo")).expect(200);
    assert_eq!(names(&deleted), ["a", "b"]);
    assert_eq!(all(&server), "c");
    assert_eq!(delete(&server, "/api/v1/namespaces").code, 405);
}
