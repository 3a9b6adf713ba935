use std::time::SystemTime;

use listwatch::types::{CustomResourceDefinition, Deployment, Lease, LeaseSpec};
use listwatch::{
    Action, Api, Clock, Controller, DeleteParams, Error, Informer, ListParams, MicroTime, Object, ObjectMeta,
    Patch, PatchParams, PostParams, Request, Resource as _, Selector, StaticResource as _, Stop, resource,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::server::Server;
use crate::{LONG, deployment, eventually, server};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Foo {
    metadata: ObjectMeta,
    spec: FooSpec,
    #[serde(default)]
    status: FooStatus,
}
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct FooSpec {
    replicas: i32,
}
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FooStatus {
    available_replicas: i32,
}
resource!(Foo: "example.com/v1", "Foo", "foos", namespaced, whole);

fn foo(name: &str, replicas: i32) -> Foo {
    Foo { metadata: ObjectMeta::named(name), spec: FooSpec { replicas }, ..Foo::default() }
}

/// Makes the server know the kind, whichever test is first, and waits until it does.
fn define(server: &Server) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Foo", "plural": "foos", "singular": "foo", "listKind": "FooList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "replicas": {"type": "integer", "minimum": 1, "maximum": 10}}},
                    "status": {"type": "object", "properties": {"availableReplicas": {"type": "integer"}}},
                }}},
            }],
        },
    });
    let client = server.client();
    let resource = CustomResourceDefinition::api_resource();
    let whole = Api::<Object>::all_with(&client, &resource);
    match whole.create(&PostParams::default(), &Object::from_value(definition).unwrap()) {
        Err(error) if error.is_already_exists() => {}
        created => assert_eq!(created.unwrap().name(), "foos.example.com"),
    }
    let definitions = Api::<CustomResourceDefinition>::all(&client);
    eventually("it is established", || definitions.get("foos.example.com").unwrap().is_established());
    eventually("it is served", || Api::<Foo>::all(&client).list(&ListParams::default()).is_ok());
}

#[test]
fn a_custom_resource_is_read_and_written_as_a_type_and_whole() {
    let Some((server, _quiet)) = server::shared() else { return };
    define(server);
    let (client, namespace) = (server.client(), server.namespace("custom"));
    let typed = Api::<Foo>::namespaced(&client, &namespace);
    let created = typed.create(&PostParams::default(), &foo("a", 3)).unwrap();
    assert_eq!((created.spec.replicas, created.metadata.generation), (3, 1));
    let error = typed.create(&PostParams::default(), &foo("b", 11)).unwrap_err();
    assert!(
        error.is_invalid() && error.status().unwrap().details.causes[0].field == "spec.replicas",
        "{error}"
    );

    let whole = Api::<Object>::namespaced_with(&client, &namespace, &Foo::api_resource());
    let mut object = whole.get("a").unwrap();
    assert_eq!((object.api_version(), object.kind()), ("example.com/v1", "Foo"));
    object.set("/spec/replicas", 4).unwrap();
    let object = whole.replace("a", &PostParams::default(), &object).unwrap();
    assert_eq!(object.metadata().generation, 2);
    assert_eq!(object.parse::<Foo>().unwrap(), typed.get("a").unwrap());

    let patch = Patch::Merge(json!({"status": {"availableReplicas": 2}}));
    let patched = typed.patch_status("a", &PatchParams::default(), &patch).unwrap();
    assert_eq!((patched.status.available_replicas, patched.metadata.generation), (2, 2));

    let stop = Stop::new();
    let informer = Informer::builder(whole).build().unwrap();
    informer.start(&stop).unwrap();
    informer.wait_for_sync(LONG).unwrap();
    let held = informer.lister().list(&Selector::everything());
    assert_eq!(held.iter().map(|object| object.get("/spec/replicas")).collect::<Vec<_>>(), [Some(4)]);
    stop.stop();
    informer.join();
}

/// Makes the Deployment of a Foo as large as it should be, and writes down how large it is.
fn reconcile(this: &Request<Foo>) -> Result<Action, Error> {
    let deployments = this.api::<Deployment>();
    let Some(found) = this.lister::<Deployment>()?.get(&this.metadata.namespace, this.name()) else {
        let mut deployment = deployment(this.name(), this.spec.replicas);
        deployment.metadata.owner_references.push(this.owner_reference());
        deployments.create(&PostParams::default(), &deployment)?;
        return Ok(Action::await_change());
    };
    if found.spec.replicas != Some(this.spec.replicas) {
        let patch = Patch::Merge(json!({"spec": {"replicas": this.spec.replicas}}));
        deployments.patch(this.name(), &PatchParams::default(), &patch)?;
    }
    if this.status.available_replicas != found.status.available_replicas {
        let mut new = Foo::clone(this);
        new.status.available_replicas = found.status.available_replicas;
        this.api::<Foo>().replace_status(this.name(), &PostParams::default(), &new)?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_controller_keeps_what_its_objects_own_as_they_want_it() {
    let Some((server, _quiet)) = server::shared() else { return };
    define(server);
    let (client, namespace) = (server.client(), server.namespace("controller"));
    let foos = Api::<Foo>::namespaced(&client, &namespace);
    let deployments = Api::<Deployment>::namespaced(&client, &namespace);
    let owner = foos.create(&PostParams::default(), &foo("web", 2)).unwrap();
    let stop = Stop::new();
    std::thread::scope(|scope| {
        let controller = Controller::<Foo>::namespaced(&client, &namespace).owns::<Deployment>().workers(2);
        let running = scope.spawn({
            let stop = stop.clone();
            move || controller.run(&stop, reconcile)
        });
        let replicas = |name: &str| deployments.get_opt(name).unwrap().and_then(|d| d.spec.replicas);
        // However a check below ends, the controller does too.
        let checks = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually("one that was there gets its deployment", || replicas("web") == Some(2));
            let owned = deployments.get("web").unwrap().controller().unwrap();
            assert_eq!((&*owned.kind, &*owned.uid), ("Foo", &*owner.metadata.uid));

            foos.create(&PostParams::default(), &foo("late", 1)).unwrap();
            eventually("one that comes gets its deployment", || replicas("late") == Some(1));

            foos.patch("web", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 5}})))
                .unwrap();
            eventually("the deployment follows", || replicas("web") == Some(5));

            let drift = Patch::Merge(json!({"spec": {"replicas": 1}}));
            deployments.patch("web", &PatchParams::default(), &drift).unwrap();
            eventually("a change of the deployment is undone", || replicas("web") == Some(5));

            let status =
                Patch::Merge(json!({"status": {"replicas": 5, "readyReplicas": 4, "availableReplicas": 4}}));
            deployments.patch_status("web", &PatchParams::default(), &status).unwrap();
            eventually("its status is told", || foos.get("web").unwrap().status.available_replicas == 4);

            deployments.delete("web", &DeleteParams::default()).unwrap();
            eventually("one that was deleted is made anew", || replicas("web") == Some(5));
        }));
        stop.stop();
        running.join().unwrap().unwrap();
        if let Err(panic) = checks {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn a_lease_takes_times_to_the_microsecond() {
    let Some((server, _quiet)) = server::shared() else { return };
    let api = Api::<Lease>::namespaced(&server.client(), &server.namespace("lease"));
    let now: SystemTime = Clock::system().wall();
    for (name, time) in
        [("now", now.into()), ("whole-second", MicroTime::from_unix_micros(1_700_000_000_000_000))]
    {
        let spec = LeaseSpec {
            holder_identity: Some("me".to_owned()),
            lease_duration_seconds: Some(15),
            acquire_time: Some(time),
            renew_time: Some(time),
            ..LeaseSpec::default()
        };
        let lease = Lease { metadata: ObjectMeta::named(name), spec };
        let created = api.create(&PostParams::default(), &lease).unwrap();
        assert_eq!(created.spec, lease.spec);
        assert_eq!(api.replace(name, &PostParams::default(), &created).unwrap().spec, lease.spec);
    }
}

/// What predicates rely on: the server counts changes of the spec and the beginning of a deletion, and nothing else.
#[test]
fn generations_count_specs_and_the_beginning_of_a_deletion() {
    let Some((server, _quiet)) = server::shared() else { return };
    define(server);
    let foos = Api::<Foo>::namespaced(&server.client(), &server.namespace("generations"));
    let mut made = foo("a", 1);
    made.metadata.finalizers = vec!["example.com/a".into(), "example.com/b".into()];
    let generation = |foo: Foo| foo.metadata.generation;
    assert_eq!(generation(foos.create(&PostParams::default(), &made).unwrap()), 1);
    let patch = |patch| foos.patch("a", &PatchParams::default(), &Patch::Merge(patch)).unwrap();
    assert_eq!(generation(patch(json!({"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}}))), 1);
    let status = Patch::Merge(json!({"status": {"availableReplicas": 1}}));
    assert_eq!(generation(foos.patch_status("a", &PatchParams::default(), &status).unwrap()), 1);
    assert_eq!(generation(patch(json!({"spec": {"replicas": 2}}))), 2);
    foos.delete("a", &DeleteParams::default()).unwrap();
    assert_eq!(generation(foos.get("a").unwrap()), 3);
    assert_eq!(generation(patch(json!({"metadata": {"finalizers": ["example.com/b"]}}))), 3);
    patch(json!({"metadata": {"finalizers": []}}));
    assert!(foos.get_opt("a").unwrap().is_none());
}
