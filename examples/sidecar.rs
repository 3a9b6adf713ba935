//! The least that is worth deploying: prints the pods that come and go, for ever.
//!
//! ```text
//! sidecar                          in a pod whose service account may list and watch pods
//! sidecar http://127.0.0.1:8001    beside `kubectl proxy`, which does TLS and credentials: built without TLS
//! ```
//!
//! README, "A small sidecar", says how it is built, and how small it gets.

use std::sync::Arc;

use listwatch::types::Pod;
use listwatch::{Api, Client, Config, Error, Handlers, Informer, Resource, Stop};

fn main() -> Result<(), Error> {
    // What an informer cannot do (forbidden, no connection) stands in the log alone, as it goes on trying.
    if log::set_logger(&Stderr).is_ok() {
        log::set_max_level(log::LevelFilter::Warn);
    }
    let config = match std::env::args().nth(1) {
        Some(server) => Config::new(&server)?,
        None => Config::in_cluster()?,
    };
    let pods = Informer::builder(Api::<Pod>::all(&Client::new(config)?)).build()?;
    let handler = Handlers::new()
        .on_add(|pod: &Arc<Pod>, _| println!("+ {}", pod.key()))
        .on_delete(|gone| println!("- {}", gone.object.key()));
    pods.add_handler(handler)?;
    pods.start(&Stop::new())?;
    pods.join(); // for ever, as nobody stops it
    Ok(())
}

struct Stderr;

impl log::Log for Stderr {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        eprintln!("{:5} {}: {}", record.level(), record.target(), record.args());
    }

    fn flush(&self) {}
}
