//! Every fault that the field has met, one line a scenario, and an informer that comes through it in each list mode.
//! What must hold behind each is `Scene::recovers`: the store, the handler's history and who comes late have what the
//! server has, each deletion was told once, nothing went backwards, all threads live, the server was not flooded, and
//! the backoff took no longer than the table says.
//!
//! - `scenarios/watches.rs`: what a watch, or what comes in its place, may do
//! - `scenarios/lists.rs`: the first list, lists anew, pages
//! - `scenarios/server.rs`: outages, partitions, history lost, restarts, restores
//! - `scenarios/dead.rs`: answers that end in silence
//! - `scenarios/connections.rs`: what the network does, through a proxy (`proxy.rs`): here in front of the embedded
//!   server, in `real.rs` in front of a kube-apiserver, TLS and all
//!
//! Backoffs pass on a manual clock: one failure costs up to 1.6 s, two 4.8 s, three 11.2 s, four 24 s, five 49.6 s. Dead
//! connections are found by the kernel's timers: those scenarios have a short silence, or that of `LISTWATCH_SILENCE`,
//! in seconds. With the default of the crate they take four minutes, if all run at once:
//! `LISTWATCH_SILENCE=default cargo test --test scenarios dead -- --test-threads 96`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests are outside of what clippy.toml lets off

#[macro_use]
#[path = "scenarios/table.rs"]
mod table;

#[path = "scenarios/connections.rs"]
mod connections;
#[path = "scenarios/dead.rs"]
mod dead;
#[path = "scenarios/embedded.rs"]
mod embedded;
#[path = "support/history.rs"]
mod history;
#[path = "scenarios/lists.rs"]
mod lists;
#[path = "scenarios/proxy.rs"]
mod proxy;
#[path = "scenarios/replies.rs"]
mod replies;
#[path = "scenarios/scene.rs"]
mod scene;
#[path = "scenarios/server.rs"]
mod server;
#[path = "scenarios/stage.rs"]
mod stage;
#[path = "scenarios/watches.rs"]
mod watches;
