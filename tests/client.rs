//! The client over real sockets, against a scripted server.
//!
//! - `server`: the server: what a test says, byte by byte
//! - `verbs`: what each verb puts on the wire
//! - `answers`: refusals, redirects, broken and long answers, 401
//! - `credentials`: those that are asked for: exec plugins, a program's own source
//! - `discovery`, `server_state`: what the server has, which it is, whether it is well
//! - `logs`, `subresources`: logs of pods, evictions, scales
//! - `warnings`: warnings that come with answers
//! - `retries`: refusals that say when to come back
//! - `pool`: which call uses which connection
//! - `limits`: limits of time
//! - `proxies`: what goes through proxies of HTTP and SOCKS, and what they may do to it
//! - `turns`: a limit of requests per second
//! - `stop`: a stop ends whatever blocks
//! - `tls`: certificates, keys and names, and that no secret is logged
//! - `reload`: certificates and keys that change while the client lives

// Clippy lets tests off, but not what they call.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "client/answers.rs"]
mod answers;
#[path = "client/credentials.rs"]
mod credentials;
#[path = "client/discovery.rs"]
mod discovery;
#[allow(dead_code)] // whether a recording is whole is of no use here
#[path = "wire/http.rs"]
mod http;
#[path = "client/limits.rs"]
mod limits;
#[path = "client/logs.rs"]
mod logs;
#[path = "client/pool.rs"]
mod pool;
#[path = "client/proxies.rs"]
mod proxies;
#[cfg(feature = "tls")]
#[path = "client/reload.rs"]
mod reload;
#[path = "client/retries.rs"]
mod retries;
#[path = "client/server.rs"]
mod server;
#[path = "client/server_state.rs"]
mod server_state;
#[path = "client/stop.rs"]
mod stop;
#[path = "client/subresources.rs"]
mod subresources;
#[cfg(feature = "tls")]
#[path = "client/tls.rs"]
mod tls;
#[path = "support/trace.rs"]
mod trace;
#[path = "client/turns.rs"]
mod turns;
#[path = "client/verbs.rs"]
mod verbs;
#[path = "client/warnings.rs"]
mod warnings;

use std::time::Duration;

use listwatch::types::ConfigMap;
use listwatch::{Api, Client, Config};

/// Longer than any test: a limit that must not be what ends it.
const LONG: Duration = Duration::from_secs(120);
/// Within this time must come what comes at once.
const SOON: Duration = Duration::from_secs(20);

fn config(url: &str) -> Config {
    Config::new(url).unwrap().with_timeout(LONG).with_connect_timeout(LONG)
}

fn client(url: &str) -> Client {
    Client::new(config(url)).unwrap()
}

fn config_maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client, "ns")
}

/// A ConfigMap as the server writes it.
fn config_map(name: &str) -> String {
    format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"ns","uid":"u-{name}","resourceVersion":"1"}}}}"#
    )
}

/// A line of a watch.
fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}
