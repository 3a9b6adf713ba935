//! The sample controller: for each Foo it keeps the Deployment that the Foo names, with as many replicas as the Foo
//! wants, and tells in the Foo's status how many of them are available.
//!
//! ```text
//! cargo run --example foo_controller                on an embedded API server: tells a Foo's life, and ends
//! cargo run --example foo_controller -- --serve     keeps the server up, for kubectl
//! cargo run --example foo_controller -- --cluster   tells the same on the cluster of the kubeconfig
//! ```

#![allow(clippy::expect_used, reason = "an example may end so")]

use listwatch::types::Deployment;
use listwatch::{
    Action, Controller, Error, EventRecorder, EventType, ObjectMeta, Patch, PatchParams, PostParams, Request,
    Resource, Stop, resource,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[path = "foo_controller/story.rs"]
mod story;
mod support;

/// A custom resource is a struct and a line.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Foo {
    metadata: ObjectMeta,
    spec: FooSpec,
    #[serde(default)]
    status: FooStatus,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FooSpec {
    deployment_name: String,
    #[serde(default)]
    replicas: Option<i32>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FooStatus {
    available_replicas: i32,
}

resource!(Foo: "samplecontroller.k8s.io/v1alpha1", "Foo", "foos", namespaced, whole);

fn main() -> Result<(), Error> {
    let session = support::connect()?;
    let stop = Stop::new();
    // What it tells last is written after the controller has ended.
    let last = Stop::new();
    let recorder = EventRecorder::start(&session.client, "sample-controller", &last)?;
    let events = recorder.clone();
    let installed = story::install(&session.client)?;
    let done = std::thread::scope(|scope| {
        let controller = scope.spawn(|| {
            let controller = Controller::<Foo>::all(&session.client).owns::<Deployment>().workers(2);
            controller
                .run(&stop, move |foo: &Request<Foo>| reconcile(foo, &events))
                .inspect_err(|_| stop.stop())
        });
        let told = story::tell(&session, &stop);
        stop.stop();
        controller.join().expect("the controller does not panic").and(told)
    });
    last.stop();
    recorder.join();
    if installed && session.server.is_none() {
        story::uninstall(&session.client)?;
    }
    done
}

/// Makes the world as this Foo wants it. Called when the Foo or its Deployment has changed.
fn reconcile(foo: &Request<Foo>, recorder: &EventRecorder) -> Result<Action, Error> {
    let (namespace, name) = (foo.namespace().unwrap_or_default(), &foo.spec.deployment_name);
    let deployments = foo.api::<Deployment>();
    let deployment = match foo.lister::<Deployment>()?.get(namespace, name) {
        // Should another one have been created meanwhile, this is an error, and the Foo is tried again.
        None => deployments.create(&PostParams::default(), &wanted(foo))?,
        Some(other) if !foo.controls(&*other) => {
            let message = format!("Resource {name:?} already exists and is not managed by Foo");
            let this = foo.object_reference();
            recorder.event(&this, EventType::Warning, "ErrResourceExists", "Sync", &message);
            return Ok(Action::await_change());
        }
        Some(mine) if foo.spec.replicas.is_some() && mine.spec.replicas != foo.spec.replicas => {
            let replicas = json!({"spec": {"replicas": foo.spec.replicas}});
            deployments.patch(name, &PatchParams::default(), &Patch::Merge(replicas))?
        }
        Some(mine) => (*mine).clone(),
    };
    let available = deployment.status.available_replicas;
    if foo.status.available_replicas != available {
        let status = json!({"status": {"availableReplicas": available}});
        foo.api::<Foo>().patch_status(foo.name(), &PatchParams::default(), &Patch::Merge(status))?;
        let this = foo.object_reference();
        recorder.event(&this, EventType::Normal, "Synced", "Sync", "Foo synced successfully");
    }
    Ok(Action::await_change())
}

/// The Deployment that a Foo wants: managed by it, and so deleted with it.
fn wanted(foo: &Request<Foo>) -> Deployment {
    let labels = json!({"app": "nginx", "controller": foo.name()});
    let deployment = json!({
        "metadata": {"name": foo.spec.deployment_name, "ownerReferences": [foo.owner_reference()]},
        "spec": {
            "replicas": foo.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]},
            },
        },
    });
    serde_json::from_value(deployment).expect("a Deployment")
}
