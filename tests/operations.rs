//! What controllers have beside caches and queues, on the embedded API server; on a real one in `tests/real/operations.rs`.
//!
//! - `apply`: server-side apply and its conflicts
//! - `events`: the recorder of events
//! - `finalizer`: finalizers, with races
//! - `wait`: waiting for a condition of one object
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests are outside of what clippy.toml lets off

#[path = "operations/apply.rs"]
mod apply;
#[path = "operations/events.rs"]
mod events;
#[path = "support/eventually.rs"]
mod eventually;
#[path = "operations/finalizer.rs"]
mod finalizer;
#[path = "operations/wait.rs"]
mod wait;

use std::time::Duration;

use eventually::eventually;
use listwatch::types::ConfigMap;
use listwatch::{Api, ApiServer, Map, ObjectMeta, PostParams, Stop};

/// Longer than anything takes on a machine that is busy.
const LONG: Duration = Duration::from_secs(60);

fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta::named(name), data: Map::from([("key", value)]), ..ConfigMap::default() }
}

fn create(api: &Api<ConfigMap>, name: &str) -> ConfigMap {
    api.create(&PostParams::default(), &config_map(name, "value")).unwrap()
}

fn config_maps(server: &ApiServer) -> Api<ConfigMap> {
    Api::default_namespaced(&server.client().unwrap())
}

/// Ends what a scope would wait for, also when the test fails.
struct StopAtEnd<'a>(&'a Stop);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
