//! Any bytes as a selector: see `properties::selectors`.
#![no_main]

#[path = "../properties/selectors.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::selectors(bytes));
