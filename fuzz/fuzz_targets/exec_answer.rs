//! Any bytes as what an exec plugin printed: see `properties::exec_answer`.
#![no_main]

#[path = "../properties/exec_answer.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::exec_answer(bytes));
