//! The embedded API server, seen over HTTP: its answers against those recorded from a kube-apiserver v1.36.
//!
//! - `objects`: create, get, replace, what is refused
//! - `lists`: selectors, pages, versions, views
//! - `watches`: events, bookmarks, streamed lists, expiry
//! - `patches`: JSON, merge, strategic merge, apply
//! - `deletion`: finalizers, owners, namespaces, preconditions
//! - `custom`: definitions and their objects, subresources
//! - `events`: those of two groups are the same
//! - `calls`: discovery, evictions and so on through our client
//! - `faults`: what goes wrong on purpose, as bytes; how informers come through it is in `tests/scenarios.rs`
//! - `tls`: certificates, and faults under TLS
//! - `connections`: HTTP itself, credentials, stop
//! - `kubectl`, `client_go`: the real ones, if kubectl and Go are installed

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests are outside of what clippy.toml lets off

#[path = "apiserver/calls.rs"]
mod calls;
#[path = "apiserver/client.rs"]
mod client;
#[path = "apiserver/client_go.rs"]
mod client_go;
#[path = "apiserver/connections.rs"]
mod connections;
#[path = "apiserver/custom.rs"]
mod custom;
#[path = "apiserver/deletion.rs"]
mod deletion;
#[path = "apiserver/events.rs"]
mod events;
#[path = "apiserver/faults.rs"]
mod faults;
#[allow(dead_code)] // other suites use the rest
#[path = "support/history.rs"]
mod history;
#[path = "apiserver/kubectl.rs"]
mod kubectl;
#[path = "apiserver/lists.rs"]
mod lists;
#[path = "apiserver/objects.rs"]
mod objects;
#[path = "apiserver/patches.rs"]
mod patches;
#[cfg(feature = "tls")]
#[path = "apiserver/tls.rs"]
mod tls;
#[path = "apiserver/watches.rs"]
mod watches;
