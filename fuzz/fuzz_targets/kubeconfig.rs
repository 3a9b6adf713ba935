//! Any bytes as a kubeconfig: see `properties::kubeconfig`.
#![no_main]

#[path = "../properties/kubeconfig.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::kubeconfig(bytes));
