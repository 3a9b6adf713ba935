//! The least useful program with an informer of pods, for a pod in a cluster: it says what embedding listwatch costs.
use listwatch::config::Config;
use listwatch::types::Pod;
use listwatch::{Api, Client, Handlers, Informer, Stop};

fn main() -> listwatch::Result<()> {
    let client = Client::new(Config::in_cluster()?)?;
    let pods = Informer::builder(Api::<Pod>::all(&client)).build()?;
    pods.add_handler(
        Handlers::new()
            .on_add(|pod: &std::sync::Arc<Pod>, _| println!("added {}", pod.metadata.name))
            .on_update(|_, pod| println!("updated {}", pod.metadata.name)),
    )?;
    pods.start(&Stop::new())?;
    pods.join();
    Ok(())
}
