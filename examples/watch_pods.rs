//! The protocol itself: one watch, one event a line.
//!
//! `cargo run --example watch_pods` plays a few changes on an embedded API server; with `--cluster` it watches the
//! pods of the kubeconfig's cluster until the server ends the watch, after some minutes.

#![allow(clippy::expect_used, reason = "an example may end so")]

use std::time::Duration;

use listwatch::types::Pod;
use listwatch::{
    Api, Client, Error, ListParams, Patch, PatchParams, PostParams, Resource, Stop, WatchEvent, WatchParams,
};
use serde_json::json;

mod support;

fn main() -> Result<(), Error> {
    let session = support::connect()?;
    let (pods, stop) = (Api::<Pod>::all(&session.client), Stop::new());
    let mut params = WatchParams::default();
    if session.server.is_some() {
        // A watch from a version tells all that has changed since.
        let before = pods.list(&ListParams::default())?.metadata.resource_version;
        play(&session.client)?;
        params = params.resource_version(before).timeout(Duration::from_secs(1));
    }
    for event in pods.watch(&params, &stop)? {
        match event? {
            WatchEvent::Added(pod) => println!("ADDED    {} {}", pod.key(), pod.status.phase),
            WatchEvent::Modified(pod) => println!("MODIFIED {} {}", pod.key(), pod.status.phase),
            WatchEvent::Deleted(pod) => println!("DELETED  {}", pod.key()),
            WatchEvent::Bookmark(bookmark) => println!("BOOKMARK up to {bookmark}"),
        }
    }
    println!("the server has ended the watch");
    Ok(())
}

/// Three pods, one of which starts and one of which goes.
fn play(client: &Client) -> Result<(), Error> {
    let pods = Api::<Pod>::default_namespaced(client);
    for name in ["web-0", "web-1", "web-2"] {
        let pod =
            json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod).expect("a pod"))?;
    }
    pods.patch_status(
        "web-1",
        &PatchParams::default(),
        &Patch::Merge(json!({"status": {"phase": "Running"}})),
    )?;
    pods.delete("web-2", &Default::default())?;
    Ok(())
}
