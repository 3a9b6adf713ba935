//! The inputs of the fuzz targets in `fuzz/corpus`, replayed through the properties that they check.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[cfg(feature = "kubeconfig")]
#[path = "../fuzz/properties/exec_answer.rs"]
mod exec_answer;
#[cfg(feature = "kubeconfig")]
#[path = "../fuzz/properties/kubeconfig.rs"]
mod kubeconfig;
#[path = "../fuzz/properties/object.rs"]
mod object;
#[path = "../fuzz/properties/pack.rs"]
mod pack;
#[path = "../fuzz/properties/selectors.rs"]
mod selectors;
#[path = "../fuzz/properties/status.rs"]
mod status;
#[path = "../fuzz/properties/values.rs"]
mod values;
#[path = "../fuzz/properties/wire.rs"]
mod wire;

use std::path::Path;

fn replay(target: &str, property: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        property(&std::fs::read(&path).unwrap());
        count += 1;
    }
    assert!(count >= 10, "{} holds the corpus", directory.display());
}

#[test]
fn corpus_of_watch_decoder() {
    replay("watch_decoder", wire::watch);
}

#[test]
fn corpus_of_list_splitter() {
    replay("list_splitter", wire::list);
}

#[test]
fn corpus_of_status() {
    replay("status", status::status);
}

#[test]
#[cfg(feature = "kubeconfig")]
fn corpus_of_kubeconfig() {
    replay("kubeconfig", kubeconfig::kubeconfig);
}

#[test]
#[cfg(feature = "kubeconfig")]
fn corpus_of_exec_answer() {
    replay("exec_answer", exec_answer::exec_answer);
}

#[test]
fn corpus_of_selectors() {
    replay("selectors", selectors::selectors);
}

#[test]
fn corpus_of_values() {
    replay("values", values::values);
}

#[test]
fn corpus_of_object() {
    replay("object", object::object);
}

#[test]
fn corpus_of_pack() {
    replay("pack", pack::pack);
}
