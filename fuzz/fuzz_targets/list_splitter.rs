//! Any bytes as the body of a list: see `properties::list`.
#![no_main]

#[path = "../properties/wire.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::list(bytes));
