//! Any lines as objects that a cache packs: see `properties::pack`.
#![no_main]

#[path = "../properties/pack.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::pack(bytes));
