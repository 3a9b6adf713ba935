//! A store under many orders of its writer, its readers and those who add indexes.

use super::super::testing::{object, text};
use super::*;
use crate::sync::model::explore;
use crate::sync::thread;
use crate::types::ConfigMap;

fn list(objects: &[&str], version: &str) -> Delta<ConfigMap> {
    let items = objects.iter().map(|text| object(text)).collect();
    Delta::Replace { items, unfit: Vec::new(), resource_version: version.into(), restored: false }
}

/// An index by version. Code of the user, which takes its time.
fn versions(map: &ConfigMap) -> Vec<String> {
    thread::yield_now();
    vec![map.metadata.resource_version.clone()]
}

fn found(store: &Store<ConfigMap>, index: &str, version: &str) -> Vec<String> {
    store.by_index(index, version).unwrap().iter().map(|object| text(object)).collect()
}

#[test]
fn an_index_added_at_any_moment_holds_what_the_store_holds() {
    explore(4000, || {
        let (store, mut writer) = Store::new();
        writer.apply(list(&["a/stays@1", "a/changes@1", "a/goes@1"], "1"));
        let adding = ["one", "two"].map(|index| {
            let store = store.clone();
            thread::spawn(move || {
                store.add_index(index, versions).unwrap();
                assert!(found(&store, index, "1").contains(&"a/stays@1".into()), "it was there before");
            })
        });
        let writing = thread::spawn(move || {
            writer.apply(list(&["a/stays@1", "a/changes@1", "a/goes@2", "a/new@3"], "4"));
            writer.apply(Delta::Upsert(object("a/changes@4")));
            writer.apply(Delta::Delete { key: "a/goes".parse().unwrap(), object: None });
            writer.apply(Delta::Upsert(object("a/new@5/other")));
        });
        adding.into_iter().chain([writing]).for_each(|thread| thread.join().unwrap());
        for index in ["one", "two"] {
            assert_eq!(store.index_values(index).unwrap(), ["1", "4", "5"]);
            assert_eq!(found(&store, index, "1"), ["a/stays@1"]);
            assert_eq!(found(&store, index, "4"), ["a/changes@4"]);
            assert_eq!(found(&store, index, "5"), ["a/new@5"]);
        }
    });
}

#[test]
fn readers_see_a_list_whole_or_not_at_all() {
    explore(2000, || {
        let (store, mut writer) = Store::new();
        store.add_index("version", versions).unwrap();
        writer.apply(list(&["a/x@1", "a/y@1"], "1"));
        let reading = [(); 2].map(|()| {
            let store = store.clone();
            thread::spawn(move || {
                for _ in 0..3 {
                    let there: Vec<_> =
                        store.list().iter().map(|o| o.metadata.resource_version.clone()).collect();
                    assert!(there.len() == 2 && there[0] == there[1]);
                    assert_eq!(store.index_values("version").unwrap().len(), 1);
                }
            })
        });
        for version in ["2", "3"] {
            writer.apply(list(&[&format!("a/x@{version}"), &format!("a/y@{version}")], version));
        }
        reading.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
