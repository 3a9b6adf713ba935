//! What the examples share: where they find an API server, and a log on stderr.
#![allow(dead_code)] // no example uses all of it

use listwatch::apiserver::ApiServer;
use listwatch::{Client, Result};

/// A client, and the embedded API server that it speaks to unless there is a cluster.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) server: Option<ApiServer>,
}

/// The cluster of the kubeconfig, or that the program runs in, with `--cluster`; else an API server in this process.
pub(crate) fn connect() -> Result<Session> {
    log::set_logger(&Stderr).expect("no other logger");
    log::set_max_level(log::LevelFilter::Warn);
    if has_flag("--cluster") {
        let client = Client::try_default()?;
        println!("using the cluster at {}", client.config().server());
        return Ok(Session { client, server: None });
    }
    let server = ApiServer::start()?;
    println!("using an embedded API server at {} (--cluster uses the kubeconfig's)", server.url());
    Ok(Session { client: server.client()?, server: Some(server) })
}

/// Whether the program was called with this argument.
pub(crate) fn has_flag(flag: &str) -> bool {
    std::env::args().skip(1).any(|arg| arg == flag)
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
