//! What happens in a Foo's life, told as it happens.

use std::sync::Arc;
use std::time::Duration;

use listwatch::types::{CustomResourceDefinition, Deployment, Event};
use listwatch::{
    Api, Client, Clock, DeleteParams, Error, Handlers, InformerFactory, ListParams, Object, Patch,
    PatchParams, PostParams, StaticResource, Stop,
};
use serde_json::{Value, json};

use super::Foo;
use super::support::{Session, has_flag};

const CRD: &str = "foos.samplecontroller.k8s.io";
const DEPLOYMENT: &str = "example-foo";
/// For a user of `--serve` to paste.
const FOO: &str = r#"{"apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "metadata": {"name": "mine"}, "spec": {"deploymentName": "mine", "replicas": 2}}"#;

/// Creates the custom resource's definition if it is not there, and waits until the server serves it. Says whether it
/// was created.
pub(crate) fn install(client: &Client) -> Result<bool, Error> {
    let definitions = Api::<Object>::all_with(client, &CustomResourceDefinition::api_resource());
    let definition = Object::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD, "annotations": {"api-approved.kubernetes.io": "unapproved, an example"}},
        "spec": {
            "group": "samplecontroller.k8s.io",
            "names": {"kind": "Foo", "plural": "foos", "singular": "foo", "listKind": "FooList"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "required": ["deploymentName"], "properties": {
                        "deploymentName": {"type": "string"},
                        "replicas": {"type": "integer", "minimum": 1, "maximum": 10},
                    }},
                    "status": {"type": "object", "properties": {"availableReplicas": {"type": "integer"}}},
                }}},
            }],
        },
    }))?;
    let created = match definitions.create(&PostParams::default(), &definition) {
        Err(e) if e.is_already_exists() => false,
        created => created.map(|_| true)?,
    };
    let established = || {
        let definition = Api::<CustomResourceDefinition>::all(client).get(CRD)?;
        Ok(definition.is_established() && Api::<Foo>::all(client).list(&ListParams::default()).is_ok())
    };
    until("the definition is established", Duration::from_secs(10), &Stop::new(), established)?;
    Ok(created)
}

/// Takes the definition away again, and with it every Foo.
pub(crate) fn uninstall(client: &Client) -> Result<(), Error> {
    Api::<CustomResourceDefinition>::all(client).delete(CRD, &DeleteParams::default()).map(drop)
}

/// Tells the story, or keeps the server up.
pub(crate) fn tell(session: &Session, stop: &Stop) -> Result<(), Error> {
    let client = &session.client;
    let cluster = InformerFactory::new(client);
    if session.server.is_some() {
        run_deployments(client, &cluster, stop)?;
    }
    let told = match &session.server {
        Some(server) if has_flag("--serve") => {
            println!("the definition of Foo is installed and its controller runs; try, until Ctrl-C:\n");
            println!("  export KUBECONFIG={}", server.kubeconfig()?.display());
            println!("  echo '{FOO}' | kubectl apply -f -");
            println!("  kubectl get foos,deployments");
            println!("  kubectl scale deployment mine --replicas=9   # and it is repaired");
            stop.wait();
            Ok(())
        }
        _ => life(client, session.server.is_some(), stop),
    };
    stop.stop();
    cluster.join();
    told
}

fn life(client: &Client, embedded: bool, stop: &Stop) -> Result<(), Error> {
    let foos = Api::<Foo>::default_namespaced(client);
    let deployments = Api::<Deployment>::default_namespaced(client);
    let soon = Duration::from_secs(5);
    let replicas_are = |wanted| {
        move |deployments: &Api<Deployment>| {
            Ok(deployments.get_opt(DEPLOYMENT)?.is_some_and(|d| d.spec.replicas == Some(wanted)))
        }
    };

    println!("1. example-foo is created and wants 5 replicas");
    foos.create(&PostParams::default(), &foo("example-foo", DEPLOYMENT, 5))?;
    until("its Deployment is there with 5 replicas", soon, stop, || replicas_are(5)(&deployments))?;
    let run = available(&foos, 5, embedded, stop)?;

    println!("2. it is changed to want 3 replicas");
    foos.patch("example-foo", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 3}})))?;
    until("its Deployment follows", soon, stop, || replicas_are(3)(&deployments))?;
    if run {
        available(&foos, 3, embedded, stop)?;
    }

    println!("3. somebody edits the Deployment by hand to 7 replicas");
    deployments.patch(
        DEPLOYMENT,
        &PatchParams::default(),
        &Patch::Merge(json!({"spec": {"replicas": 7}})),
    )?;
    until("it is repaired to 3", soon, stop, || replicas_are(3)(&deployments))?;

    println!("4. a Foo that wants 99 replicas is created");
    match foos.create(&PostParams::default(), &foo("greedy-foo", "greedy", 99)) {
        Err(e) if e.is_invalid() => println!("   - refused: {e}"),
        Err(e) => return Err(e),
        Ok(_) => println!("   ! the server took it, though the schema allows 10 at most"),
    }

    println!("5. a Foo names a Deployment that is not its own");
    deployments.create(&PostParams::default(), &strangers("not-mine"))?;
    foos.create(&PostParams::default(), &foo("envious-foo", "not-mine", 1))?;
    let events = Api::<Event>::default_namespaced(client);
    until("it is left alone, and an event says why", soon, stop, || {
        let refused = |e: &Event| e.reason == "ErrResourceExists" && e.regarding.name == "envious-foo";
        Ok(events.list(&ListParams::default())?.items.iter().any(refused))
    })?;
    foos.delete("envious-foo", &DeleteParams::default())?;
    deployments.delete("not-mine", &DeleteParams::default())?;

    println!("6. example-foo is deleted");
    foos.delete("example-foo", &DeleteParams::background())?;
    let gone = || Ok(deployments.get_opt(DEPLOYMENT)?.is_none());
    match until("its Deployment goes with it, by its owner reference", soon, stop, gone) {
        Err(e) if !embedded && e.is_timeout() => {
            println!("   ! this cluster runs no garbage collector; the Deployment is deleted by hand");
            deployments.delete(DEPLOYMENT, &DeleteParams::default()).map(drop)
        }
        done => done,
    }
}

/// Waits for the Foo's status, which needs somebody who runs Deployments; says whether there is one.
fn available(foos: &Api<Foo>, replicas: i32, embedded: bool, stop: &Stop) -> Result<bool, Error> {
    let what = format!("its status tells {replicas} available replicas");
    let soon = Duration::from_secs(if embedded { 5 } else { 30 });
    match until(&what, soon, stop, || Ok(foos.get("example-foo")?.status.available_replicas == replicas)) {
        Err(e) if !embedded && e.is_timeout() => {
            println!("   ! it seems that nobody runs Deployments in this cluster");
            Ok(false)
        }
        done => done.map(|()| true),
    }
}

/// Asks every 20 ms until something holds, and says that it does.
fn until(
    what: &str,
    limit: Duration,
    stop: &Stop,
    holds: impl Fn() -> Result<bool, Error>,
) -> Result<(), Error> {
    let (clock, start) = (Clock::system(), Clock::system().now());
    while !holds()? {
        if clock.now() - start > limit || stop.sleep(Duration::from_millis(20)) {
            println!("   ! not within {limit:?}: {what}");
            return Err(Error::timed_out(format!("waiting until {what}")));
        }
    }
    println!("   - {what} ({:.0?})", clock.now() - start);
    Ok(())
}

fn foo(name: &str, deployment: &str, replicas: i32) -> Foo {
    from(json!({"metadata": {"name": name}, "spec": {"deploymentName": deployment, "replicas": replicas}}))
}

fn strangers(name: &str) -> Deployment {
    let labels = json!({"app": name});
    from(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
        },
    }))
}

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("it fits the type")
}

/// Plays the controller that runs Deployments, which an API server alone does not have: all replicas are available
/// at once.
fn run_deployments(client: &Client, factory: &InformerFactory, stop: &Stop) -> Result<(), Error> {
    let client = client.with_stop(stop);
    let run = move |deployment: &Arc<Deployment>| {
        let wanted = deployment.spec.replicas.unwrap_or(1);
        if deployment.status.available_replicas != wanted {
            let (namespace, name) = (&deployment.metadata.namespace, &deployment.metadata.name);
            let counts = json!({"replicas": wanted, "readyReplicas": wanted, "availableReplicas": wanted});
            let status = Patch::Merge(json!({"status": counts}));
            // It may be gone by now.
            let _ = Api::<Deployment>::namespaced(&client, namespace).patch_status(
                name,
                &PatchParams::default(),
                &status,
            );
        }
    };
    let added = run.clone();
    let handler = Handlers::new().on_add(move |new, _| added(new)).on_update(move |_, new| run(new));
    factory.informer::<Deployment>().add_handler(handler)?;
    factory.start(stop)
}
