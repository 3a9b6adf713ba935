//! Any bytes as quantities, times and keys: see `properties::values`.
#![no_main]

#[path = "../properties/values.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::values(bytes));
