use listwatch::types::Deployment;
use listwatch::{Api, ApiServer, PatchParams};
use serde_json::json;

use crate::{config_maps, create};

#[test]
fn an_apply_creates_and_changes_and_leaves_what_others_have() {
    let server = ApiServer::start().unwrap();
    let maps = config_maps(&server);
    let me = PatchParams::apply("me");
    let created = maps.apply("a", &me, &json!({"data": {"mine": "1", "too": "1"}})).unwrap();
    assert_eq!(created.data.get("mine"), Some("1"));
    maps.apply("a", &PatchParams::apply("other"), &json!({"data": {"other": "1"}})).unwrap();
    let changed = maps.apply("a", &me, &json!({"data": {"mine": "2"}})).unwrap();
    assert_eq!(changed.data.iter().collect::<Vec<_>>(), [("mine", "2"), ("other", "1")]);
    let unnamed = maps.apply("a", &PatchParams::default(), &json!({})).unwrap_err();
    assert!(unnamed.is_invalid_argument(), "{unnamed}");
}

#[test]
fn a_conflict_names_fields_and_managers_and_force_takes_them() {
    let server = ApiServer::start().unwrap();
    let maps = config_maps(&server);
    maps.apply("a", &PatchParams::apply("one"), &json!({"data": {"x": "1", "y": "1"}})).unwrap();
    let mine = json!({"data": {"x": "2", "y": "2", "z": "2"}});
    let error = maps.apply("a", &PatchParams::apply("me"), &mine).unwrap_err();
    let conflicts: Vec<_> = error.apply_conflicts().map(|c| (c.field, c.manager)).collect();
    assert_eq!(conflicts, [(".data.x", "one"), (".data.y", "one")]);
    let told = error.to_string();
    assert!(error.is_conflict() && !told.contains('\n'), "{told}");
    for part in ["apply configmaps default/a", "\"one\"", ".data.x", ".data.y"] {
        assert!(told.contains(part), "{part} in {told}");
    }
    let forced = maps.apply("a", &PatchParams::apply("me").force(), &mine).unwrap();
    assert_eq!(forced.data.get("y"), Some("2"));

    // Another error is no conflict of an apply.
    create(&maps, "b");
    let twice = maps.create(&Default::default(), &crate::config_map("b", "value")).unwrap_err();
    assert_eq!(twice.apply_conflicts().count(), 0);
}

#[test]
fn who_updated_a_field_without_apply_is_named_too() {
    let server = ApiServer::start().unwrap();
    let maps = config_maps(&server);
    let params = listwatch::PostParams::default().field_manager("kubectl-edit");
    maps.create(&params, &crate::config_map("a", "theirs")).unwrap();
    let error = maps.apply("a", &PatchParams::apply("me"), &json!({"data": {"key": "mine"}})).unwrap_err();
    let conflicts: Vec<_> = error.apply_conflicts().map(|c| (c.field, c.manager)).collect();
    assert_eq!(conflicts, [(".data.key", "kubectl-edit")]);
}

#[test]
fn a_status_is_applied_alone_and_creates_nothing() {
    let server = ApiServer::start().unwrap();
    let deployments = Api::<Deployment>::default_namespaced(&server.client().unwrap());
    let me = PatchParams::apply("me");
    let status = json!({"spec": {"replicas": 9}, "status": {"readyReplicas": 2}});
    assert!(deployments.apply_status("web", &me, &status).unwrap_err().is_not_found());
    deployments.apply("web", &me, &json!({"spec": {"replicas": 3}, "status": {"readyReplicas": 5}})).unwrap();
    let web = deployments.apply_status("web", &me, &status).unwrap();
    assert_eq!((web.spec.replicas, web.status.ready_replicas), (Some(3), 2));
}
