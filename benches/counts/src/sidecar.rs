//! The smallest program that is of use: it follows the pods, and says what comes and goes.
#![forbid(unsafe_code)]

use listwatch::config::Config;
use listwatch::types::Pod;
use listwatch::{Client, Error, Handlers, InformerFactory, Resource, Stop};

fn main() -> Result<(), Error> {
    let config =
        if cfg!(feature = "tls") { Config::in_cluster()? } else { Config::new("http://127.0.0.1:8001")? };
    let factory = InformerFactory::new(&Client::new(config)?);
    factory.informer::<Pod>().add_handler(
        Handlers::<Pod>::new()
            .on_add(|pod, _| println!("+ {}", pod.key()))
            .on_delete(|gone| println!("- {}", gone.object.key())),
    )?;
    let stop = Stop::new();
    factory.start(&stop)?;
    stop.wait();
    Ok(())
}
