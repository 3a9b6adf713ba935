use listwatch::apiserver::ApiServer;
use serde_json::{Value, json};

use crate::client::*;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const FOOS: &str = "/apis/example.com/v1/namespaces/default/foos";

pub(crate) fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo", "shortNames": ["fo"]},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "required": ["size"], "properties": {
                        "size": {"type": "integer", "minimum": 1},
                        "color": {"type": "string", "default": "red"},
                        "rules": {"type": "array", "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["id"], "items": {"type": "object", "properties": {
                                "id": {"type": "string"}, "a": {"type": "integer"}, "b": {"type": "integer"}}}}
                    }},
                    "status": {"type": "object", "properties": {"size": {"type": "integer"}}}
                }}}
            }]
        }
    })
}

pub(crate) fn foo(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": name}, "spec": spec})
}

#[test]
fn a_definition_makes_its_resource_and_its_end_takes_it_away() {
    let server = ApiServer::start().unwrap();
    assert_eq!(get(&server, FOOS).code, 404);
    let created = post(&server, CRDS, definition()).expect(201);
    let conditions = created["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True"));
    assert_eq!(created["spec"]["names"]["listKind"], "FooList");
    post(&server, FOOS, foo("f", json!({"size": 1}))).expect(201);
    let list = get(&server, FOOS).expect(200);
    // Items of custom resources do carry their type.
    assert_eq!((&list["kind"], &list["items"][0]["kind"]), (&json!("FooList"), &json!("Foo")));
    let mut watch =
        Watch::open(&server, &format!("{FOOS}?watch=1&resourceVersion={}", server.resource_version()));
    delete(&server, &format!("{CRDS}/foos.example.com")).expect(200);
    assert_eq!(watch.next(), "DELETED f");
    assert_eq!(watch.line(), None);
    assert_eq!(get(&server, FOOS).code, 404);
    assert_eq!(get(&server, &format!("{CRDS}/foos.example.com")).code, 404);
    let mut taken = definition();
    taken["metadata"]["name"] = "deployments.apps".into();
    taken["spec"]["group"] = "apps".into();
    taken["spec"]["names"]["plural"] = "deployments".into();
    assert_eq!(post(&server, CRDS, taken).code, 422);
    let mut bad = definition();
    bad["metadata"]["name"] = "bars.example.com".into();
    assert_eq!(post(&server, CRDS, bad).expect(422)["details"]["causes"][0]["field"], "metadata.name");
}

#[test]
fn a_version_that_is_no_longer_served_keeps_its_objects() {
    let server = ApiServer::start().unwrap();
    post(&server, CRDS, definition()).expect(201);
    post(&server, FOOS, foo("f", json!({"size": 1}))).expect(201);
    let path = format!("{CRDS}/foos.example.com");
    let serve = |served: bool| json!([{"op": "replace", "path": "/spec/versions/0/served", "value": served}]);
    patch(&server, &path, "json-patch", serve(false)).expect(200);
    assert_eq!(get(&server, FOOS).code, 404);
    patch(&server, &path, "json-patch", serve(true)).expect(200);
    assert_eq!(names(&get(&server, FOOS).expect(200)), ["f"]);
}

#[test]
fn a_second_version_shows_the_same_objects() {
    let server = ApiServer::start().unwrap();
    let mut two = definition();
    let mut beta = two["spec"]["versions"][0].clone();
    (beta["name"], beta["storage"]) = ("v1beta1".into(), false.into());
    two["spec"]["versions"].as_array_mut().unwrap().push(beta);
    post(&server, CRDS, two).expect(201);
    post(&server, FOOS, foo("f", json!({"size": 1}))).expect(201);
    let other = get(&server, &format!("{}/f", FOOS.replace("v1", "v1beta1"))).expect(200);
    assert_eq!(other["apiVersion"], "example.com/v1beta1");
    let group = get(&server, "/apis/example.com").expect(200);
    assert_eq!(group["preferredVersion"]["version"], "v1");
}

#[test]
fn the_schema_checks_prunes_and_fills_in() {
    let server = ApiServer::start().unwrap();
    post(&server, CRDS, definition()).expect(201);
    let created = post(&server, FOOS, foo("f", json!({"size": 1, "unknown": 1}))).expect(201);
    assert_eq!(created["spec"], json!({"size": 1, "color": "red"}));
    let small = post(&server, FOOS, foo("g", json!({"size": 0}))).expect(422);
    assert_eq!(small["details"]["group"], "example.com");
    assert_eq!(
        small["message"],
        "Foo.example.com \"g\" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
    );
    let missing = post(&server, FOOS, foo("g", json!({}))).expect(422);
    assert_eq!(
        missing["details"]["causes"][0],
        json!({"reason": "FieldValueRequired", "message": "Required value", "field": "spec.size"})
    );
    let strict =
        post(&server, &format!("{FOOS}?fieldValidation=Strict"), foo("g", json!({"size": 1, "nope": 1})));
    assert!(strict.expect(400)["message"].as_str().unwrap().contains("unknown field \"spec.nope\""));
    let untyped = json!({"metadata": {"name": "g"}, "spec": {"size": 1}});
    assert_eq!(post(&server, FOOS, untyped).code, 400);
    assert_eq!(patch(&server, &format!("{FOOS}/f"), "strategic-merge-patch", json!({})).code, 415);
    let mut without_version = created;
    without_version["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(put(&server, &format!("{FOOS}/f"), without_version).code, 422);
}

#[test]
fn status_and_scale_of_a_custom_resource() {
    let server = ApiServer::start().unwrap();
    post(&server, CRDS, definition()).expect(201);
    post(&server, FOOS, foo("f", json!({"size": 2}))).expect(201);
    let status = patch(
        &server,
        &format!("{FOOS}/f/status"),
        "merge-patch",
        json!({"status": {"size": 1}, "spec": {"size": 7}}),
    );
    let status = status.expect(200);
    assert_eq!((&status["status"]["size"], &status["spec"]["size"]), (&json!(1), &json!(2)));
    assert_eq!(status["metadata"]["generation"], 1);
    let scale = get(&server, &format!("{FOOS}/f/scale")).expect(200);
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(2), &json!(1)));
    patch(&server, &format!("{FOOS}/f/scale"), "merge-patch", json!({"spec": {"replicas": 5}})).expect(200);
    let scaled = get(&server, &format!("{FOOS}/f")).expect(200);
    assert_eq!((&scaled["spec"]["size"], &scaled["metadata"]["generation"]), (&json!(5), &json!(2)));
    assert_eq!(get(&server, &format!("{CM}/x/scale")).code, 404);
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = get_as(&server, FOOS, table).expect(200);
    assert_eq!(table["rows"][0]["cells"], json!(["f", 5]));
}

#[test]
fn apply_merges_lists_as_the_schema_says() {
    let server = ApiServer::start().unwrap();
    post(&server, CRDS, definition()).expect(201);
    let path = |manager: &str| format!("{FOOS}/f?fieldManager={manager}");
    let one = foo("f", json!({"size": 1, "rules": [{"id": "x", "a": 1}]}));
    patch(&server, &path("one"), "apply-patch", one).expect(201);
    let two = foo("f", json!({"rules": [{"id": "x", "b": 2}, {"id": "y", "b": 2}]}));
    let both = patch(&server, &path("two"), "apply-patch", two).expect(200);
    assert_eq!(both["spec"]["rules"], json!([{"id": "x", "a": 1, "b": 2}, {"id": "y", "b": 2}]));
}

#[test]
fn subresources_of_pods_and_workloads() {
    let server = ApiServer::start().unwrap();
    post(&server, PODS, json!({"metadata": {"name": "p"}, "spec": {}})).expect(201);
    let pod = format!("{PODS}/p");
    post(&server, &format!("{pod}/binding"), json!({"target": {"name": "n1"}})).expect(201);
    assert_eq!(get(&server, &pod).json()["spec"]["nodeName"], "n1");
    assert_eq!(post(&server, &format!("{pod}/binding"), json!({"target": {"name": "n2"}})).code, 409);
    let log = get(&server, &format!("{pod}/log"));
    assert_eq!((log.code, &*log.text), (200, ""));
    post(&server, &format!("{pod}/eviction"), json!({"metadata": {"name": "p"}})).expect(201);
    assert_eq!(get(&server, &pod).code, 404);
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}});
    post(&server, deployments, json!({"metadata": {"name": "d"}, "spec": spec})).expect(201);
    let path = format!("{deployments}/d/scale");
    let mut scale = get(&server, &path).expect(200);
    assert_eq!(scale["status"]["selector"], "app=web");
    scale["spec"]["replicas"] = 4.into();
    put(&server, &path, scale.clone()).expect(200);
    assert_eq!(put(&server, &path, scale).expect(409)["reason"], "Conflict");
    assert_eq!(get(&server, &format!("{deployments}/d")).json()["spec"]["replicas"], 4);
}
