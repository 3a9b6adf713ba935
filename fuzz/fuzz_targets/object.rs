//! Any bytes as an object and a change of it: see `properties::object`.
#![no_main]

#[path = "../properties/object.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::object(bytes));
