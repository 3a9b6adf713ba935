//! A shared informer: a local copy of all pods, found by node, with a handler that is told of each change.
//!
//! `cargo run --example pod_informer` plays on an embedded API server; with `--cluster` it follows the pods of the
//! kubeconfig's cluster for ten seconds.

#![allow(clippy::expect_used, reason = "an example may end so")]

use std::time::Duration;

use listwatch::types::Pod;
use listwatch::{Api, Client, Error, Handlers, InformerFactory, PostParams, Resource, Selector, Stop};
use serde_json::json;

mod support;

fn main() -> Result<(), Error> {
    let session = support::connect()?;
    let stop = Stop::new();

    // One list/watch and one cache, however often the factory is asked.
    let factory = InformerFactory::new(&session.client);
    let pods = factory.informer::<Pod>();
    pods.add_index("node", |pod: &Pod| pod.spec.node_name.iter().cloned().collect())?;
    pods.add_handler(
        Handlers::<Pod>::new()
            .on_add(|pod, initial| println!("+ {}{}", pod.key(), if initial { " (was there)" } else { "" }))
            .on_update(|old, new| println!("~ {} {} -> {}", new.key(), old.status.phase, new.status.phase))
            .on_delete(|gone| println!("- {}", gone.object.key())),
    )?;
    factory.start(&stop)?;
    factory.wait_for_sync(Duration::from_secs(30))?;

    if session.server.is_some() {
        play(&session.client)?;
    }
    stop.sleep(Duration::from_secs(if session.server.is_some() { 1 } else { 10 }));

    // Reading asks nobody: the cache is here.
    let lister = pods.lister();
    println!("{} pods, {} with app=web in default", lister.store().len(), {
        lister.namespace("default").list(&Selector::parse("app=web")?).len()
    });
    for node in lister.store().index_values("node")? {
        let names: Vec<_> = lister.by_index("node", &node)?.iter().map(|pod| pod.key().to_string()).collect();
        println!("on {node}: {}", names.join(", "));
    }

    stop.stop();
    factory.join(); // every thread has ended
    Ok(())
}

/// Four pods on two nodes, one of which goes.
fn play(client: &Client) -> Result<(), Error> {
    let pods = Api::<Pod>::default_namespaced(client);
    for (name, app, node) in
        [("web-0", "web", "n1"), ("web-1", "web", "n2"), ("db-0", "db", "n1"), ("tmp", "tmp", "n2")]
    {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": app}},
            "spec": {"nodeName": node, "containers": [{"name": app, "image": app}]},
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod).expect("a pod"))?;
    }
    pods.delete("tmp", &Default::default())?;
    Ok(())
}
