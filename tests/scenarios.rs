//! Every fault that the field has met, one line a scenario: an informer comes through it in each list mode. What must
//! hold behind each is [`Scene::recovers`](scene::Scene::recovers): the store, the handler's history and who comes late
//! have what the server has, each deletion was told once, nothing went backwards, all threads live, the server was not
//! flooded, and the backoff took as long as the table says.
//!
//! - `tests/scenarios/watches.rs`: what a watch, or what comes in place of it, may do
//! - `tests/scenarios/lists.rs`: the first list, lists anew, pages
//! - `tests/scenarios/server.rs`: outages, partitions, history lost, restarts
//! - `tests/scenarios/connections.rs`: what the network does, through a proxy (`proxy.rs`): here in front of the embedded
//!   server, in `tests/real.rs` in front of a kube-apiserver, TLS and all
//!
//! Backoffs pass on a manual clock; one failure costs up to 1.6 s, two 4.8 s, three 11.2 s. Dead
//! connections are found by the kernel's timers: those scenarios have a short silence, or what `LISTWATCH_SILENCE` says
//! (seconds, or `default`: `LISTWATCH_SILENCE=default cargo test --test scenarios dead -- --test-threads 64` takes four
//! minutes).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests are outside of what clippy.toml lets off

/// A table of scenarios: `NAME: BACKOFF, SILENCE, WHAT HAPPENS;`, each a test in each list mode.
macro_rules! scenarios {
    ($($(#[$meta:meta])* $name:ident: $within:expr, $act:expr;)*) => {$(
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            scenarios!(@ $(#[$meta])* paged, listwatch::ListMode::Paged(2), $within, $act);
            scenarios!(@ $(#[$meta])* watch_list, listwatch::ListMode::WatchList, $within, $act);
            scenarios!(@ $(#[$meta])* cached, listwatch::ListMode::Cached, $within, $act);
        }
    )*};
    (@ $(#[$meta:meta])* $mode:ident, $value:expr, $within:expr, $act:expr) => {
        #[test]
        $(#[$meta])*
        fn $mode() {
            play($value, $within, $act);
        }
    };
}

#[path = "scenarios/embedded.rs"]
mod embedded;
#[path = "support/history.rs"]
mod history;
#[path = "scenarios/lists.rs"]
mod lists;
#[path = "scenarios/scene.rs"]
mod scene;
#[path = "scenarios/server.rs"]
mod server;
#[path = "scenarios/watches.rs"]
mod watches;
