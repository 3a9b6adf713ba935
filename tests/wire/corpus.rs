//! The inputs of the fuzz targets, replayed through the properties that they check.

use std::path::Path;

#[path = "../../fuzz/properties.rs"]
mod properties;

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
    replay("watch_decoder", properties::watch);
}

#[test]
fn corpus_of_list_splitter() {
    replay("list_splitter", properties::list);
}
