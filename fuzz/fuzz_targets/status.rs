//! Any bytes as an answer that tells a failure: see `properties::status`.
#![no_main]

#[path = "../properties/status.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::status(bytes));
