use std::sync::Arc;

use listwatch::events::{EventRecorder, EventType};
use listwatch::finalizer::{self, ensure, remove};
use listwatch::types::{
    Condition, ConfigMap, CustomResourceDefinition, Deployment, Event, Node, ObjectReference, set_condition,
};
use listwatch::{
    Action, Api, DeleteParams, Error, ListParams, Object, ObjectMeta, OwnerReference, Patch, PatchParams,
    PostParams, Resource as _, StaticResource as _, Stop, wait,
};
use serde_json::json;

use crate::{LONG, config_map, create, deployment, eventually, server};

const OURS: &str = "example.com/ours";

#[test]
fn events_are_taken_and_shown_as_those_of_client_go() {
    let Some((server, _quiet)) = server::shared() else { return };
    let (client, namespace, stop) = (server.client(), server.namespace("events"), Stop::new());
    let map = create(&Api::<ConfigMap>::namespaced(&client, &namespace), "a", "1");
    let object = ObjectReference::of(&map);
    let events = Api::<Event>::namespaced(&client, &namespace);
    let recorder = EventRecorder::builder(&client, "example.com/foo").instance("foo-0").start(&stop).unwrap();
    recorder.event(&object, EventType::Warning, "Failed", "Sync", &"ü".repeat(1000));
    let listed = || events.list(&ListParams::default()).unwrap().items;
    eventually("it is written", || listed().len() == 1);
    for _ in 0..4 {
        recorder.event(&object, EventType::Warning, "Failed", "Sync", "again");
    }
    let node = Node { metadata: ObjectMeta::named("event-node"), ..Node::default() };
    let node = ObjectReference::of(&node);
    recorder.event_with_related(&node, &object, EventType::Normal, &"Long".repeat(100), "Sync", "");
    recorder.event(&object, EventType::Normal, "NoAction", "", "refused");
    stop.stop();
    recorder.join();
    assert_eq!((recorder.dropped(), recorder.limited()), (1, 0), "the one without an action");

    let event = listed().remove(0);
    let series = event.series.unwrap();
    assert_eq!((series.count, event.regarding), (5, object.clone()));
    assert!(series.last_observed_time > event.event_time && event.note.len() == 1024);
    let default = Api::<Event>::namespaced(&client, "default");
    let of_node = ListParams::default().fields("regarding.name=event-node");
    assert_eq!(default.list(&of_node).unwrap().items[0].related.as_deref(), Some(&object));
    // What kubectl describe asks for.
    let core = listwatch::ApiResource::new("v1", "Event", "events", listwatch::Scope::Namespaced);
    let described = ListParams::default().fields(format!("involvedObject.uid={}", object.uid));
    let described =
        Api::<Object>::namespaced_with(&client, &namespace, &core).list(&described).unwrap().items;
    assert_eq!(described[0].get_str("/reportingComponent").as_deref(), Some("example.com/foo"));
}

#[test]
fn a_series_that_the_server_forgot_begins_again() {
    let Some((server, _quiet)) = server::shared() else { return };
    let (client, namespace, stop) = (server.client(), server.namespace("forgotten"), Stop::new());
    let object = ObjectReference::of(&create(&Api::<ConfigMap>::namespaced(&client, &namespace), "a", "1"));
    let events = Api::<Event>::namespaced(&client, &namespace);
    let recorder = EventRecorder::start(&client, "foo", &stop).unwrap();
    let tell = || recorder.event(&object, EventType::Normal, "Synced", "Sync", "");
    let listed = || events.list(&ListParams::default()).unwrap().items;
    tell();
    eventually("it is written", || listed().len() == 1);
    events.delete(&listed()[0].metadata.name, &DeleteParams::default()).unwrap();
    tell();
    eventually("it is written again", || listed().len() == 1);
    assert_eq!(listed()[0].series.as_ref().unwrap().count, 2);
    stop.stop();
    recorder.join();
    assert_eq!(recorder.dropped(), 0);
}

#[test]
fn finalizers_come_and_go_by_guarded_patches() {
    let Some((server, _quiet)) = server::shared() else { return };
    let maps = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("finalizers"));
    let bare = create(&maps, "a", "1");
    let round = || {
        let mut told = "nothing";
        let object = Arc::new(maps.get("a").unwrap());
        let action = finalizer::finalizer(&maps, OURS, &object, |event| {
            told = match event {
                finalizer::Event::Apply(_) => "apply",
                finalizer::Event::Cleanup(_) => "cleanup",
            };
            Ok::<_, Error>(Action::await_change())
        });
        assert_eq!(action.unwrap(), Action::await_change());
        told
    };
    assert_eq!(round(), "apply");
    assert!(ensure(&maps, &bare, "example.com/theirs").unwrap_err().is_conflict(), "it has changed");
    let one = maps.get("a").unwrap();
    let two = ensure(&maps, &one, "example.com/theirs").unwrap().unwrap();
    assert_eq!(two.metadata.finalizers, [OURS, "example.com/theirs"]);
    maps.delete("a", &DeleteParams::default()).unwrap();
    assert!(ensure(&maps, &two, "example.com/third").unwrap_err().is_conflict(), "it is being deleted");
    assert_eq!(round(), "cleanup");
    assert!(remove(&maps, &two, "example.com/theirs").unwrap_err().is_conflict(), "it is the first now");
    let left = maps.get("a").unwrap();
    assert_eq!(left.metadata.finalizers, ["example.com/theirs"]);
    remove(&maps, &left, "example.com/theirs").unwrap().unwrap();
    assert!(maps.get_opt("a").unwrap().is_none());
    // An invalid name is told as such, not as a conflict.
    let error = ensure(&maps, &create(&maps, "b", "1"), "not a name").unwrap_err();
    assert!(error.is_invalid() && !error.is_conflict(), "{error}");
}

#[test]
fn waits_follow_one_object() {
    let Some((server, _quiet)) = server::shared() else { return };
    let (client, namespace, stop) = (server.client(), server.namespace("wait"), Stop::new());
    let web = Api::<Deployment>::namespaced(&client, &namespace);
    let available = json!({"status": {"observedGeneration": 1, "conditions":
        [{"type": "Available", "status": "True", "reason": "Enough", "message": ""}]}});
    std::thread::scope(|scope| {
        let typed = scope.spawn(|| wait::until(&web, "web", wait::deployment_available(), LONG, &stop));
        let whole = Api::<Object>::namespaced_with(&client, &namespace, &Deployment::api_resource());
        let whole = scope
            .spawn(|| wait::until(&{ whole }, "web", wait::condition_is("available", "true"), LONG, &stop));
        web.create(&PostParams::default(), &deployment("web", 1)).unwrap();
        web.patch_status("web", &PatchParams::default(), &Patch::Merge(available)).unwrap();
        assert_eq!(typed.join().unwrap().unwrap().unwrap().name(), "web");
        assert_eq!(whole.join().unwrap().unwrap().unwrap().name(), "web");
    });

    let uid = web.get("web").unwrap().metadata.uid;
    std::thread::scope(|scope| {
        let deleted = scope.spawn(|| wait::until(&web, "web", wait::deleted(&uid), LONG, &stop));
        web.delete("web", &DeleteParams::default()).unwrap();
        deleted.join().unwrap().unwrap();
    });
    let second = std::time::Duration::from_secs(1);
    let error = wait::until(&web, "web", wait::deployment_available(), second, &stop).unwrap_err();
    assert!(error.is_timeout() && error.to_string().ends_with("it is not there"), "{error}");
}

#[test]
fn a_definition_is_waited_for_from_before_it_is_there() {
    let Some((server, _quiet)) = server::shared() else { return };
    let (client, stop) = (server.client(), Stop::new());
    let definitions = Api::<CustomResourceDefinition>::all(&client);
    let definition = json!({
        "spec": {
            "group": "wait.example.com", "scope": "Cluster",
            "names": {"kind": "Bar", "plural": "bars"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    std::thread::scope(|scope| {
        let name = "bars.wait.example.com";
        let waits = scope.spawn(|| wait::until(&definitions, name, wait::crd_established(), LONG, &stop));
        definitions.apply(name, &PatchParams::apply("test"), &definition).unwrap();
        assert!(waits.join().unwrap().unwrap().unwrap().is_established());
        definitions.delete(name, &DeleteParams::default()).unwrap();
        wait::until(&definitions, name, wait::deleted(""), LONG, &stop).unwrap();
    });
}

#[test]
fn applies_name_who_is_in_their_way() {
    let Some((server, _quiet)) = server::shared() else { return };
    let (client, namespace) = (server.client(), server.namespace("apply"));
    let maps = Api::<ConfigMap>::namespaced(&client, &namespace);
    maps.create(&PostParams::default().field_manager("kubectl-edit"), &config_map("a", "theirs")).unwrap();
    let both = json!({"data": {"key": "one", "other": "one"}});
    maps.apply("a", &PatchParams::apply("one").force(), &both).unwrap();
    let mine = json!({"data": {"key": "mine", "other": "mine"}});
    let error = maps.apply("a", &PatchParams::apply("me"), &mine).unwrap_err();
    let conflicts: Vec<_> = error.apply_conflicts().map(|c| (c.field, c.manager)).collect();
    assert_eq!(conflicts, [(".data.key", "one"), (".data.other", "one")]);
    assert!(!error.to_string().contains('\n'), "{error}");

    maps.create(&PostParams::default().field_manager("kubectl-edit"), &config_map("b", "theirs")).unwrap();
    let error = maps.apply("b", &PatchParams::apply("me"), &json!({"data": {"key": "mine"}})).unwrap_err();
    let conflicts: Vec<_> = error.apply_conflicts().map(|c| (c.field, c.manager)).collect();
    assert_eq!(conflicts, [(".data.key", "kubectl-edit")]);

    let web = Api::<Deployment>::namespaced(&client, &namespace);
    let me = PatchParams::apply("me");
    let mut conditions = Vec::new();
    let ready = Condition {
        type_: "Available".into(),
        status: "True".into(),
        reason: "Enough".into(),
        ..Condition::default()
    };
    set_condition(&mut conditions, ready);
    let status = json!({"status": {"conditions": conditions}});
    assert!(web.apply_status("web", &me, &status).unwrap_err().is_not_found());
    let mut wanted = serde_json::to_value(deployment("web", 3)).unwrap();
    wanted["status"] = json!({"readyReplicas": 5});
    web.apply("web", &me, &wanted).unwrap();
    // Each endpoint writes, and owns, its own part.
    let both = json!({"spec": {"replicas": 9}, "status": {"conditions": conditions, "replicas": 2, "readyReplicas": 2}});
    let applied = web.apply_status("web", &me, &both).unwrap();
    assert_eq!((applied.spec.replicas, applied.status.ready_replicas), (Some(3), 2));
    assert!(Condition::holds(&applied.status.conditions, "Available"));
}

#[test]
fn what_has_a_controller_goes_with_it_and_takes_no_second_one() {
    let Some((server, _quiet)) = server::shared() else { return };
    let (client, namespace) = (server.client(), server.namespace("owners"));
    let maps = Api::<ConfigMap>::namespaced(&client, &namespace);
    let (owner, other) = (create(&maps, "owner", "1"), create(&maps, "other", "1"));
    let mut child = config_map("child", "1");
    child.metadata.namespace = (&*namespace).into();
    child.metadata.set_controller_reference(&owner).unwrap();
    assert!(child.metadata.set_controller_reference(&other).unwrap_err().is_invalid_argument());
    let child = maps.create(&PostParams::default(), &child).unwrap();
    assert_eq!(child.controller().unwrap(), OwnerReference::controller_of(&owner));
    // What the rule is for: the server takes no second controller either.
    let second = Patch::Json(json!([{"op": "add", "path": "/metadata/ownerReferences/-",
        "value": OwnerReference::controller_of(&other)}]));
    assert!(maps.patch("child", &PatchParams::default(), &second).unwrap_err().is_invalid());
}
