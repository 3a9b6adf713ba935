//! The cache and controller rooms, seen from outside.
//!
//! - `reflector`: lists and watches against a scripted server, in each list mode
//! - `failures`: what a reflector does when the server, the connection or an object is not as it should be
//! - `informer`: handlers, sync, resync, joining late, ending
//! - `waits`: what waits between the threads of an informer, and who gives up
//! - `threads`: how many threads there are, and that none stays
//! - `factory`: one informer for each type, over HTTP
//! - `controller`: keys to reconcile, over HTTP
//!
//! `script` is a `ListWatch` that the test answers request by request; `server` an API server of few words. Both are
//! synchronised by channels: nothing here sleeps.

#![allow(clippy::unwrap_used, clippy::panic)] // as in tests, which these are

#[path = "cache/controller.rs"]
mod controller;
#[path = "cache/factory.rs"]
mod factory;
#[path = "cache/failures.rs"]
mod failures;
#[path = "cache/informer.rs"]
mod informer;
#[path = "cache/reflector.rs"]
mod reflector;
#[path = "cache/script.rs"]
mod script;
#[path = "cache/server.rs"]
mod server;
#[path = "cache/threads.rs"]
mod threads;
#[path = "cache/waits.rs"]
mod waits;
