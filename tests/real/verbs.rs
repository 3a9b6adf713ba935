use std::collections::BTreeSet;

use listwatch::client::VersionMatch;
use listwatch::types::{ConfigMap, Deployment};
use listwatch::{
    Api, ApiResource, DeleteParams, Deletion, ListParams, Object, ObjectMeta, Patch, PatchParams, PostParams,
    Resource, Scope,
};
use serde_json::{Value, json};

use crate::{config_map, create, deployment, server};

fn names<K: Resource>(objects: impl IntoIterator<Item = K>) -> Vec<String> {
    objects.into_iter().map(|object| object.name().to_owned()).collect()
}

#[test]
fn what_was_created_is_read_until_it_is_deleted() {
    let Some((server, _quiet)) = server::shared() else { return };
    let namespace = server.namespace("verbs");
    let api = Api::<ConfigMap>::namespaced(&server.client(), &namespace);
    let created = create(&api, "a", "1");
    assert_eq!(created.metadata.namespace, namespace);
    assert!(!created.metadata.uid.is_empty() && created.metadata.creation_timestamp.is_some());
    assert_eq!(api.get("a").unwrap(), created);
    assert_eq!(Api::<ConfigMap>::all(&server.client()).get_key(&created.key()).unwrap(), created);

    let error = api.create(&PostParams::default(), &config_map("a", "2")).unwrap_err();
    assert!(error.is_already_exists() && !error.is_conflict(), "{error}");

    assert!(matches!(api.delete("a", &DeleteParams::default()).unwrap(), Deletion::Done(_)));
    assert!(api.get("a").unwrap_err().is_not_found());
    assert_eq!(api.get_opt("a").unwrap(), None);
    assert!(api.delete("a", &DeleteParams::default()).unwrap_err().is_not_found());
}

#[test]
fn a_name_can_be_left_to_the_server() {
    let Some((server, _quiet)) = server::shared() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("names"));
    let metadata = ObjectMeta { generate_name: "some-".into(), ..ObjectMeta::default() };
    let map = ConfigMap { metadata, ..ConfigMap::default() };
    let [one, two] = [(); 2].map(|()| api.create(&PostParams::default(), &map).unwrap().metadata.name);
    assert!(one.starts_with("some-") && one != two, "{one} {two}");
}

#[test]
fn a_dry_run_stores_nothing() {
    let Some((server, _quiet)) = server::shared() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("dry"));
    api.create(&PostParams::default().dry_run(), &config_map("a", "1")).unwrap();
    assert_eq!(api.get_opt("a").unwrap(), None);
    create(&api, "a", "1");
    api.delete("a", &DeleteParams::default().dry_run()).unwrap();
    assert!(api.get("a").is_ok());
}

#[test]
fn an_object_that_is_not_valid_is_refused_with_its_fields_named() {
    let Some((server, _quiet)) = server::shared() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("invalid"));
    let error = api.create(&PostParams::default(), &config_map("Not A Name", "1")).unwrap_err();
    assert!(error.is_invalid(), "{error}");
    assert_eq!(error.status().unwrap().details.causes[0].field, "metadata.name");
}

#[test]
fn a_replace_of_an_old_version_is_a_conflict() {
    let Some((server, _quiet)) = server::shared() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("replace"));
    let old = create(&api, "a", "1");
    let mut new = old.clone();
    new.data.insert("key", "2");
    let new = api.replace("a", &PostParams::default(), &new).unwrap();
    assert_ne!(new.metadata.resource_version, old.metadata.resource_version);
    let error = api.replace("a", &PostParams::default(), &old).unwrap_err();
    assert!(error.is_conflict() && !error.is_already_exists(), "{error}");
    assert_eq!(api.get("a").unwrap(), new);
}

#[test]
fn each_kind_of_patch_changes_what_it_says() {
    let Some((server, _quiet)) = server::shared() else { return };
    let namespace = server.namespace("patch");
    let api = Api::<ConfigMap>::namespaced(&server.client(), &namespace);
    create(&api, "a", "1");
    let params = PatchParams::default();
    let data = |map: ConfigMap| {
        map.data.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };

    let json = Patch::Json(json!([
        {"op": "test", "path": "/data/key", "value": "1"},
        {"op": "add", "path": "/data/more", "value": "x"},
    ]));
    assert_eq!(data(api.patch("a", &params, &json).unwrap()), "key=1 more=x");
    let merge = Patch::Merge(json!({"data": {"key": "2", "more": null}}));
    assert_eq!(data(api.patch("a", &params, &merge).unwrap()), "key=2");
    let error = api.patch("a", &params, &json).unwrap_err();
    assert!(error.is_invalid(), "the test of the first patch no longer holds: {error}");

    let deployments = Api::<Deployment>::namespaced(&server.client(), &namespace);
    deployments.create(&PostParams::default(), &deployment("web", 1)).unwrap();
    let containers = json!([{"name": "side", "image": "three"}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let images = |deployment: Deployment| {
        let containers = deployment.spec.template.spec.containers.into_iter();
        containers.map(|container| container.image).collect::<BTreeSet<_>>()
    };
    let strategic = deployments.patch("web", &params, &Patch::Strategic(&patch)).unwrap();
    assert_eq!(images(strategic), BTreeSet::from(["one".to_owned(), "three".to_owned()]));
    let merge = deployments.patch("web", &params, &Patch::Merge(&patch)).unwrap();
    assert_eq!(images(merge), BTreeSet::from(["three".to_owned()]));
}

#[test]
fn an_applied_field_belongs_to_its_manager_until_another_takes_it_by_force() {
    let Some((server, _quiet)) = server::shared() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("apply"));
    let apply = |manager: &str, value: &str| {
        api.patch("a", &PatchParams::apply(manager), &Patch::Apply(config_map("a", value)))
    };
    assert_eq!(apply("one", "1").unwrap().data.get("key"), Some("1"));
    assert_eq!(apply("one", "2").unwrap().data.get("key"), Some("2"));
    let error = apply("two", "3").unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert!(error.status().unwrap().details.causes.iter().any(|cause| cause.field == ".data.key"));
    let params = PatchParams::apply("two").force();
    let forced = api.patch("a", &params, &Patch::Apply(config_map("a", "3"))).unwrap();
    assert_eq!(forced.data.get("key"), Some("3"));
}

#[test]
fn a_status_is_written_through_its_own_path_only() {
    let Some((server, _quiet)) = server::shared() else { return };
    let api = Api::<Deployment>::namespaced(&server.client(), &server.namespace("status"));
    api.create(&PostParams::default(), &deployment("web", 2)).unwrap();
    let patch = Patch::Merge(json!({"spec": {"replicas": 5}, "status": {"replicas": 2, "readyReplicas": 2}}));
    let patched = api.patch_status("web", &PatchParams::default(), &patch).unwrap();
    assert_eq!((patched.spec.replicas, patched.status.ready_replicas), (Some(2), 2));
    assert_eq!(api.get_status("web").unwrap(), patched);
    let patched =
        api.patch("web", &PatchParams::default(), &Patch::Merge(json!({"status": {"readyReplicas": 1}})));
    assert_eq!(patched.unwrap().status.ready_replicas, 2);

    let resource = ApiResource::new("apps/v1", "Deployment", "deployments", Scope::Namespaced);
    let whole = Api::<Object>::namespaced_with(api.client(), api.namespace().unwrap(), &resource);
    let mut object = whole.get("web").unwrap();
    object.set("/status/readyReplicas", 1).unwrap();
    object.set("/spec/replicas", 7).unwrap();
    let object = whole.replace_status("web", &PostParams::default(), &object).unwrap();
    assert_eq!((object.get("/status/readyReplicas"), object.get("/spec/replicas")), (Some(1), Some(2)));
}

#[test]
fn a_deployment_is_scaled() {
    let Some((server, _quiet)) = server::shared() else { return };
    let api = Api::<Deployment>::namespaced(&server.client(), &server.namespace("scale"));
    api.create(&PostParams::default(), &deployment("web", 1)).unwrap();
    let mut scale: Value = api.get_subresource("web", "scale").unwrap();
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(1)));
    scale["spec"]["replicas"] = json!(3);
    let scale: Value = api.replace_subresource("web", "scale", &PostParams::default(), &scale).unwrap();
    assert_eq!(scale["spec"]["replicas"], 3);
    let patch = Patch::Merge(json!({"spec": {"replicas": 4}}));
    let scale: Value = api.patch_subresource("web", "scale", &PatchParams::default(), &patch).unwrap();
    assert_eq!(scale["spec"]["replicas"], 4);
    assert_eq!(api.get("web").unwrap().spec.replicas, Some(4));
}

#[test]
fn a_delete_may_have_conditions() {
    let Some((server, _quiet)) = server::shared() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("conditions"));
    let old = create(&api, "a", "1");
    let patch = Patch::Merge(json!({"data": {"key": "2"}}));
    let new = api.patch("a", &PatchParams::default(), &patch).unwrap();
    let version = |map: &ConfigMap| DeleteParams::default().resource_version(&map.metadata.resource_version);
    for params in [version(&old), DeleteParams::default().uid("another")] {
        let error = api.delete("a", &params).unwrap_err();
        assert!(error.is_conflict(), "{error}");
    }
    api.delete("a", &version(&new).uid(new.metadata.uid.clone())).unwrap();
    assert_eq!(api.get_opt("a").unwrap(), None);
}

#[test]
fn an_object_with_a_finalizer_lives_on_until_it_is_taken_away() {
    let Some((server, _quiet)) = server::shared() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("finalizer"));
    let mut map = config_map("a", "1");
    map.metadata.finalizers.push("example.com/hold".to_owned());
    api.create(&PostParams::default(), &map).unwrap();
    match api.delete("a", &DeleteParams::default()).unwrap() {
        Deletion::Pending(map) => assert!(map.is_deleting()),
        done @ Deletion::Done(_) => panic!("{done:?}"),
    }
    assert!(api.get("a").unwrap().is_deleting());
    let patch = Patch::Json(json!([{"op": "remove", "path": "/metadata/finalizers"}]));
    api.patch("a", &PatchParams::default(), &patch).unwrap();
    assert_eq!(api.get_opt("a").unwrap(), None);
}

#[test]
fn selectors_limit_lists_and_what_is_deleted_together() {
    let Some((server, _quiet)) = server::shared() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("select"));
    for (name, app) in [("a", "web"), ("b", "db"), ("c", "web"), ("d", "cache")] {
        let mut map = config_map(name, "1");
        map.metadata.labels.insert("app", app);
        api.create(&PostParams::default(), &map).unwrap();
    }
    let list = |params: &ListParams| names(api.list(params).unwrap());
    assert_eq!(list(&ListParams::default()), ["a", "b", "c", "d"]);
    assert_eq!(list(&ListParams::default().labels("app in (web, db)")), ["a", "b", "c"]);
    assert_eq!(list(&ListParams::default().labels("app!=web").fields("metadata.name!=b")), ["d"]);
    let error = api.list(&ListParams::default().labels("app in web")).unwrap_err();
    assert_eq!(error.code(), Some(400), "{error}");
    let error = api.list(&ListParams::default().fields("data.key=1")).unwrap_err();
    assert_eq!(error.code(), Some(400), "{error}");

    let web = ListParams::default().labels("app=web");
    api.delete_collection(&DeleteParams::default().dry_run(), &web).unwrap();
    assert_eq!(list(&ListParams::default()), ["a", "b", "c", "d"]);
    api.delete_collection(&DeleteParams::default(), &web).unwrap();
    assert_eq!(list(&ListParams::default()), ["b", "d"]);
}

#[test]
fn pages_are_of_one_state() {
    let Some((server, _quiet)) = server::shared() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("pages"));
    for number in 0..7 {
        create(&api, &format!("m{number}"), "1");
    }
    let mut pages = api.pages(&ListParams::default().limit(3));
    let first = pages.next().unwrap().unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(4));
    api.delete("m5", &DeleteParams::default()).unwrap();
    create(&api, "m9", "1");
    let rest: Vec<_> = pages.map(Result::unwrap).collect();
    assert_eq!(rest.iter().map(|page| page.items.len()).collect::<Vec<_>>(), [3, 1]);
    let version = first.metadata.resource_version.clone();
    assert!(rest.iter().all(|page| page.metadata.resource_version == version));
    let all = names(first.into_iter().chain(rest.into_iter().flatten()));
    assert_eq!(all, ["m0", "m1", "m2", "m3", "m4", "m5", "m6"]);

    let then = ListParams::default().resource_version(version).version_match(VersionMatch::Exact);
    assert_eq!(names(api.list(&then).unwrap()), all);
    let error = api.list(&ListParams::default().resource_version("9999999999")).unwrap_err();
    assert!(error.is_too_large_resource_version(), "{error}");
}

#[test]
fn a_kind_that_the_server_does_not_have_is_not_found() {
    let Some((server, _quiet)) = server::shared() else { return };
    let resource = ApiResource::dynamic("example.com/v1", "Nothing", "nothings", Scope::Cluster);
    let error =
        Api::<Object>::all_with(&server.client(), &resource).list(&ListParams::default()).unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains("nothings"), "{error}");
}
