//! Any bytes as the stream of a watch: see `properties::watch`.
#![no_main]

#[path = "../properties/wire.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::watch(bytes));
