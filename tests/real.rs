//! The crate against a real kube-apiserver, started for this test binary alone on free ports.
//!
//! - `access`: who the client is, and what it is refused
//! - `calls`: what it has, evictions, scales, warnings, logs
//! - `certificates`: client certificates that a test server can only be told to take
//! - `verbs`: every verb of `Api`, and what the server refuses
//! - `watch`: single watches
//! - `informer`: each list mode, selections, many objects
//! - `leader`: an elector
//! - `outage`: the server killed, stopped for a while, its history gone
//! - `scenarios`: those of connections, as in `tests/scenarios.rs`, each list mode through a proxy with faults
//! - `manifests`: those of `examples/config_sync`, and its rights
//! - `custom`: custom resources, controllers, leases
//! - `operations`: events, finalizers, waiting, applies, owners: as in `tests/operations.rs`
//!
//! `server` starts it. Without its binaries the tests pass and say so, unless `LISTWATCH_REAL=required`.
#![cfg(all(feature = "tls", feature = "kubeconfig"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests are outside of what clippy.toml lets off

#[macro_use]
#[path = "scenarios/table.rs"]
mod table;

#[path = "real/access.rs"]
mod access;
#[path = "real/calls.rs"]
mod calls;
#[path = "real/certificates.rs"]
mod certificates;
#[path = "../examples/config_sync/main.rs"]
#[allow(dead_code)] // its `main`
mod config_sync;
#[path = "real/custom.rs"]
mod custom;
#[path = "support/eventually.rs"]
mod eventually;
#[path = "real/informer.rs"]
mod informer;
#[path = "real/leader.rs"]
mod leader;
#[path = "real/manifests.rs"]
mod manifests;
#[path = "real/operations.rs"]
mod operations;
#[path = "real/outage.rs"]
mod outage;
#[path = "real/scenarios.rs"]
mod scenarios;
#[path = "real/server.rs"]
mod server;
#[path = "support/trace.rs"]
mod trace;
#[path = "real/verbs.rs"]
mod verbs;
#[path = "real/watch.rs"]
mod watch;

use std::time::Duration;

use eventually::eventually;
use listwatch::types::{ConfigMap, Deployment};
use listwatch::{Api, Map, ObjectMeta, PostParams};

/// Longer than anything takes on a machine that is busy.
const LONG: Duration = Duration::from_secs(60);

fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta::named(name), data: Map::from([("key", value)]), ..ConfigMap::default() }
}

fn create(api: &Api<ConfigMap>, name: &str, value: &str) -> ConfigMap {
    api.create(&PostParams::default(), &config_map(name, value)).unwrap()
}

/// Creates `PREFIX0000` and so on, which hold their number.
fn create_many(api: &Api<ConfigMap>, prefix: &str, amount: usize) {
    const THREADS: usize = 8;
    std::thread::scope(|scope| {
        for first in 0..THREADS {
            scope.spawn(move || {
                for number in (first..amount).step_by(THREADS) {
                    create(api, &format!("{prefix}{number:04}"), &number.to_string());
                }
            });
        }
    });
}

/// A Deployment that nothing acts on.
fn deployment(name: &str, replicas: i32) -> Deployment {
    serde_json::from_value(serde_json::json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "one"}, {"name": "side", "image": "two"}]},
            },
        },
    }))
    .unwrap()
}
