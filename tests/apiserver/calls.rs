//! The client's calls beside the verbs, against this server.

use listwatch::apiserver::ApiServer;
use listwatch::types::{Deployment, Pod};
use listwatch::{Api, DeleteParams, ListParams, LogParams, Object, Patch, PatchParams, PostParams, Stop};
use serde_json::json;

use crate::client::post;
use crate::custom::{FOOS, definition, foo};

#[test]
fn what_it_has_is_discovered_with_custom_resources_by_any_name() {
    let server = ApiServer::start().unwrap();
    let client = server.client().unwrap();
    assert!(client.discover().unwrap().resolve("fo").unwrap_err().is_not_found());
    post(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition()).expect(201);
    post(&server, FOOS, foo("f", json!({"size": 1}))).expect(201);
    let discovery = client.discover().unwrap();
    assert!(discovery.failures().is_empty());
    for name in ["fo", "foos", "Foo", "foos.example.com", "fo.v1.example.com"] {
        let foos = Api::<Object>::all_with(&client, &discovery.resolve(name).unwrap());
        assert_eq!(foos.list(&ListParams::default()).unwrap().items.len(), 1, "{name}");
    }
    for kind in discovery.kinds().filter(|kind| kind.is_watchable()) {
        Api::<Object>::all_with(&client, &kind.resource).list(&ListParams::default()).unwrap();
    }
    assert_eq!(discovery.find("po").unwrap().subresource("eviction").unwrap().api_version, "policy/v1");
}

#[test]
fn it_has_a_version_and_is_well() {
    let server = ApiServer::start().unwrap();
    let client = server.client().unwrap();
    assert!(client.version().unwrap().number().unwrap() > (1, 30));
    client.readyz().unwrap();
    client.livez().unwrap();
}

#[test]
fn a_pod_logs_what_the_test_says() {
    let server = ApiServer::start().unwrap();
    let pods = Api::<Pod>::namespaced(&server.client().unwrap(), "default");
    let pod = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    pods.create(&PostParams::default(), &pod).unwrap();
    let log = |params: LogParams| -> Vec<String> {
        pods.logs("a", &params, &Stop::new()).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(log(LogParams::default()), [""; 0]);
    server.set_log("default", "a", "one\ntwo\nthree");
    assert_eq!(log(LogParams::default().follow()), ["one", "two", "three"]);
    assert_eq!(log(LogParams::default().tail_lines(2)), ["two", "three"]);
    assert_eq!(log(LogParams::default().tail_lines(0)), [""; 0]);
    assert_eq!(log(LogParams::default().tail_lines(9).limit_bytes(5)), ["one", "t"]);
}

#[test]
fn pods_are_evicted_and_deployments_scaled() {
    let server = ApiServer::start().unwrap();
    let client = server.client().unwrap();
    let pods = Api::<Pod>::namespaced(&client, "default");
    let pod = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    pods.create(&PostParams::default(), &pod).unwrap();
    pods.evict("a", &DeleteParams::default()).unwrap();
    assert!(pods.evict("a", &DeleteParams::default()).unwrap_err().is_not_found());
    assert!(pods.logs("a", &LogParams::default(), &Stop::new()).unwrap_err().is_not_found());

    let deployments = Api::<Deployment>::namespaced(&client, "default");
    let deployment =
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {"replicas": 3}})).unwrap();
    deployments.create(&PostParams::default(), &deployment).unwrap();
    let mut scale = deployments.get_scale("web").unwrap();
    assert_eq!(scale.spec.replicas, 3);
    scale.spec.replicas = 0;
    assert_eq!(deployments.replace_scale("web", &PostParams::default(), &scale).unwrap().spec.replicas, 0);
    let patch = Patch::Merge(json!({"spec": {"replicas": 2}}));
    deployments.patch_scale("web", &PatchParams::default(), &patch).unwrap();
    assert_eq!(deployments.get("web").unwrap().spec.replicas, Some(2));
}
