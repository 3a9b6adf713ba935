//! `examples/config_sync` on the embedded API server: what is in the folder, and what is told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests are outside of what clippy.toml lets off

#[path = "../examples/config_sync/main.rs"]
mod config_sync;
#[path = "support/eventually.rs"]
mod eventually;
#[path = "config_sync/files.rs"]
mod files;
#[path = "config_sync/hooks.rs"]
mod hooks;
#[path = "config_sync/process.rs"]
mod process;
#[path = "config_sync/rig.rs"]
mod rig;
#[path = "config_sync/settings.rs"]
mod settings;
