//! Keys of pods through a rate-limited queue to a worker, which fails on one of them until it is given up:
//! client-go's workqueue example.
//!
//! `cargo run --example pod_workqueue` plays on an embedded API server; with `--cluster` it works on the pods of the
//! kubeconfig's cluster for ten seconds.

#![allow(clippy::expect_used, reason = "an example may end so")]

use std::time::Duration;

use listwatch::types::Pod;
use listwatch::{
    Action, Api, Client, Error, InformerFactory, ObjectKey, PostParams, RateLimiter, Stop, WorkQueue,
    WorkerOptions, enqueue,
};
use serde_json::json;

mod support;

fn main() -> Result<(), Error> {
    let session = support::connect()?;
    let stop = Stop::new();

    // The handler queues keys, never objects: what is worked on is read from the cache when its turn comes.
    let queue = WorkQueue::<ObjectKey>::new(RateLimiter::default());
    let factory = InformerFactory::new(&session.client);
    let pods = factory.informer::<Pod>();
    pods.add_handler(enqueue(&queue))?;
    factory.start(&stop)?;
    factory.wait_for_sync(Duration::from_secs(30))?;

    // A key that fails comes back after 5, 10, 20, … ms; after five retries it is given up until its pod changes.
    let lister = pods.lister();
    let workers =
        WorkerOptions::default().max_retries(5).start(2, &queue, &stop, move |key: &ObjectKey| {
            match lister.get_key(key) {
                None => println!("{key}: gone"),
                Some(_) if key.name() == "mypod" => return Err("simulated failure"),
                Some(pod) => println!("{key}: {}", pod.status.phase),
            }
            Ok(Action::await_change())
        })?;

    if session.server.is_some() {
        play(&session.client)?;
    }
    stop.sleep(Duration::from_secs(if session.server.is_some() { 1 } else { 10 }));
    queue.shut_down(); // what is queued is still done
    workers.join();
    stop.stop();
    factory.join();
    Ok(())
}

/// Three pods, one of which goes at once.
fn play(client: &Client) -> Result<(), Error> {
    let pods = Api::<Pod>::default_namespaced(client);
    for name in ["web-0", "mypod", "tmp"] {
        let pod =
            json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod).expect("a pod"))?;
    }
    pods.delete("tmp", &Default::default())?;
    Ok(())
}
