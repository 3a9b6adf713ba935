use listwatch::apiserver::ApiServer;
use serde_json::json;

use crate::client::*;

#[test]
fn a_created_object_has_what_the_server_gives_it() {
    let server = ApiServer::start().unwrap();
    let answer = post(&server, CM, config_map("a", json!({"x": "y"})));
    assert!(
        answer.text.starts_with(r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"#),
        "{}",
        answer.text
    );
    let created = answer.expect(201);
    let meta = &created["metadata"];
    assert_eq!(meta["namespace"], "default");
    assert_eq!(meta["uid"].as_str().unwrap().len(), 36);
    assert_eq!(meta["resourceVersion"], server.resource_version().to_string());
    assert!(meta["creationTimestamp"].as_str().unwrap().ends_with('Z'));
    assert!(meta.get("generation").is_none());
    assert_eq!(
        meta["managedFields"],
        json!([{"manager": "test", "operation": "Update", "apiVersion": "v1", "time": meta["creationTimestamp"],
            "fieldsType": "FieldsV1", "fieldsV1": {
                "f:data": {".": {}, "f:a": {}}, "f:metadata": {"f:labels": {".": {}, "f:x": {}}}}}])
    );
    assert_eq!(get(&server, &format!("{CM}/a")).expect(200), created);
}

#[test]
fn refusals_have_the_recorded_shapes() {
    let server = ApiServer::start().unwrap();
    create_all(&server, &["cm-1"]);
    post(&server, CM, config_map("cm-1", json!({}))).is(
        409,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps \"cm-1\" already exists","reason":"AlreadyExists","details":{"name":"cm-1","kind":"configmaps"},"code":409}"#,
    );
    get(&server, &format!("{CM}/absent")).is(
        404,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps \"absent\" not found","reason":"NotFound","details":{"name":"absent","kind":"configmaps"},"code":404}"#,
    );
    post(&server, CM, config_map("Bad_Name", json!({}))).is(
        422,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"ConfigMap \"Bad_Name\" is invalid: metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')","reason":"Invalid","details":{"name":"Bad_Name","kind":"ConfigMap","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')","field":"metadata.name"}]},"code":422}"#,
    );
    let malformed = send(&server, "POST", CM, "Content-Type: application/json\r\n", "{not json").expect(400);
    assert_eq!(malformed["reason"], "BadRequest");
    let start = "the object provided is unrecognized (must be of type ConfigMap)";
    assert!(malformed["message"].as_str().unwrap().starts_with(start));
    let media = send(&server, "POST", CM, "Content-Type: application/x-protobuf\r\n", "{}").expect(415);
    assert_eq!(media["reason"], "UnsupportedMediaType");
    let protobuf = "Content-Type: application/vnd.kubernetes.protobuf\r\n";
    let media = send(&server, "POST", CM, protobuf, "k8s\0").expect(415);
    assert!(media["message"].as_str().unwrap().contains("--dry-run=client -o yaml"));
    let unknown = get(&server, "/apis/nope.example.com/v1/things");
    assert_eq!((unknown.code, &*unknown.text), (404, "404 page not found\n"));
    assert!(unknown.head.contains("Content-Type: text/plain; charset=utf-8"));
    assert_eq!(send(&server, "OPTIONS", CM, "", "").code, 405);
    let elsewhere =
        post(&server, "/api/v1/namespaces/nowhere/configmaps", config_map("a", json!({}))).expect(404);
    assert_eq!(elsewhere["details"], json!({"name": "nowhere", "kind": "namespaces"}));
    let wrong_kind = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
    assert_eq!(post(&server, CM, wrong_kind).code, 400);
    let moved = json!({"metadata": {"name": "a", "namespace": "kube-system"}});
    assert_eq!(post(&server, CM, moved).code, 400);
    assert_eq!(post(&server, CM, json!({"metadata": {}})).code, 422);
    assert_eq!(post(&server, CM, json!([1])).code, 400);
}

#[test]
fn names_are_generated() {
    let server = ApiServer::start().unwrap();
    let body = json!({"metadata": {"generateName": "job-"}});
    let one = post(&server, CM, body.clone()).expect(201);
    let other = post(&server, CM, body).expect(201);
    let name = one["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("job-") && name.len() == 9, "{name}");
    assert_ne!(one["metadata"]["name"], other["metadata"]["name"]);
}

#[test]
fn a_stale_replace_conflicts_and_an_equal_one_changes_nothing() {
    let server = ApiServer::start().unwrap();
    create_all(&server, &["cm-1"]);
    let path = format!("{CM}/cm-1");
    let first = get(&server, &path).json();
    assert_eq!(put(&server, &path, first.clone()).expect(200), first);
    let mut changed = first.clone();
    changed["data"]["a"] = "2".into();
    let second = put(&server, &path, changed).expect(200);
    assert_ne!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    put(&server, &path, first.clone()).is(
        409,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Operation cannot be fulfilled on configmaps \"cm-1\": the object has been modified; please apply your changes to the latest version and try again","reason":"Conflict","details":{"name":"cm-1","kind":"configmaps"},"code":409}"#,
    );
    let mut other_uid = second.clone();
    other_uid["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000".into();
    assert_eq!(put(&server, &path, other_uid).expect(409)["reason"], "Conflict");
    let mut other_name = second;
    other_name["metadata"]["name"] = "cm-2".into();
    assert_eq!(put(&server, &path, other_name).code, 400);
    assert_eq!(put(&server, &format!("{CM}/none"), json!({"metadata": {"name": "none"}})).code, 404);
}

#[test]
fn generation_counts_changes_of_the_spec_and_the_status_has_its_own_path() {
    let server = ApiServer::start().unwrap();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let created =
        post(&server, path, json!({"metadata": {"name": "d"}, "spec": {}, "status": {}})).expect(201);
    assert_eq!((&created["metadata"]["generation"], &created["spec"]["replicas"]), (&json!(1), &json!(1)));
    let object = format!("{path}/d");
    let mut changed = created.clone();
    changed["spec"]["replicas"] = 3.into();
    changed["status"] = json!({"replicas": 7});
    let changed = put(&server, &object, changed).expect(200);
    assert_eq!(changed["metadata"]["generation"], 2);
    assert!(changed["status"].get("replicas").is_none());
    let mut labelled = changed.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    let labelled = put(&server, &object, labelled).expect(200);
    assert_eq!(labelled["metadata"]["generation"], 2);
    let mut status = labelled;
    status["spec"]["replicas"] = 9.into();
    status["status"] = json!({"replicas": 7});
    let status = put(&server, &format!("{object}/status"), status).expect(200);
    assert_eq!((&status["spec"]["replicas"], &status["status"]["replicas"]), (&json!(3), &json!(7)));
    assert_eq!(status["metadata"]["generation"], 2);
}

#[test]
fn a_dry_run_changes_nothing() {
    let server = ApiServer::start().unwrap();
    create_all(&server, &["a"]);
    let before = server.resource_version();
    post(&server, &format!("{CM}?dryRun=All"), config_map("b", json!({}))).expect(201);
    patch(&server, &format!("{CM}/a?dryRun=All"), "merge-patch", json!({"data": {"a": "9"}})).expect(200);
    delete(&server, &format!("{CM}/a?dryRun=All")).expect(200);
    assert_eq!(server.resource_version(), before);
    assert_eq!(names(&get(&server, CM).json()), ["a"]);
}

#[test]
fn leases_are_checked_as_recorded() {
    let server = ApiServer::start().unwrap();
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = |spec| json!({"metadata": {"name": "l3"}, "spec": spec});
    post(&server, path, lease(json!({"renewTime": "2026-11-29T10:00:00Z"}))).is(
        400,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Lease in version \"v1\" cannot be handled as a Lease: parsing time \"2026-11-29T10:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\"","reason":"BadRequest","code":400}"#,
    );
    post(&server, path, lease(json!({"leaseDurationSeconds": 0}))).is(
        422,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Lease.coordination.k8s.io \"l3\" is invalid: spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0","reason":"Invalid","details":{"name":"l3","group":"coordination.k8s.io","kind":"Lease","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: 0: must be greater than 0","field":"spec.leaseDurationSeconds"}]},"code":422}"#,
    );
    post(&server, path, lease(json!({"renewTime": "2026-11-29T10:00:00.000001Z"}))).expect(201);
}

#[test]
fn defaults_that_clients_count_on() {
    let server = ApiServer::start().unwrap();
    let pod = post(&server, PODS, json!({"metadata": {"name": "p"}, "spec": {}})).expect(201);
    assert_eq!(pod["status"]["phase"], "Pending");
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "value"}});
    let secret = post(&server, "/api/v1/namespaces/default/secrets", secret).expect(201);
    assert_eq!((&secret["type"], &secret["data"]["k"]), (&json!("Opaque"), &json!("dmFsdWU=")));
    let namespace = get(&server, "/api/v1/namespaces/default").expect(200);
    assert_eq!(namespace["status"]["phase"], "Active");
}
