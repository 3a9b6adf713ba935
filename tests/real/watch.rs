use std::time::Duration;

use listwatch::types::ConfigMap;
use listwatch::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Stop, WatchEvent, WatchParams,
};
use serde_json::json;

use crate::{config_map, create, server};

fn tell(event: listwatch::Result<WatchEvent<ConfigMap>>) -> String {
    match event.unwrap() {
        WatchEvent::Added(map) => format!("added {}", map.metadata.name),
        WatchEvent::Modified(map) => {
            format!("modified {} {}", map.metadata.name, map.data.get("key").unwrap_or("-"))
        }
        WatchEvent::Deleted(map) => format!("deleted {}", map.metadata.name),
        WatchEvent::Bookmark(bookmark) => {
            assert!(!bookmark.resource_version.is_empty());
            format!("bookmark, end: {}", bookmark.initial_events_end)
        }
    }
}

#[test]
fn changes_are_told_one_by_one_and_a_watch_ends_when_its_time_is_over() {
    let Some((server, _quiet)) = server::shared() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("watch"));
    let from = api.list(&ListParams::default()).unwrap().metadata.resource_version;
    create(&api, "a", "1");
    api.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"key": "2"}}))).unwrap();
    api.delete("a", &DeleteParams::default()).unwrap();

    let params = WatchParams::default().resource_version(from).timeout(Duration::from_secs(2));
    let events = api.watch(&params, &Stop::new()).unwrap().map(tell);
    let events: Vec<_> = events.filter(|event| !event.starts_with("bookmark")).collect();
    assert_eq!(events, ["added a", "modified a 2", "deleted a"]);
}

#[test]
fn an_object_that_no_longer_matches_is_told_as_deleted() {
    let Some((server, _quiet)) = server::shared() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("selected"));
    let mut map = config_map("a", "1");
    map.metadata.labels.insert("app", "web");
    let from = api.create(&PostParams::default(), &map).unwrap().metadata.resource_version;
    let labels = |app| Patch::Merge(json!({"metadata": {"labels": {"app": app}}}));
    api.patch("a", &PatchParams::default(), &labels("db")).unwrap();
    api.patch("a", &PatchParams::default(), &labels("web")).unwrap();

    let params = WatchParams::default().resource_version(from).labels("app=web");
    let events = api.watch(&params, &Stop::new()).unwrap().map(tell);
    let events = events.filter(|event| !event.starts_with("bookmark"));
    assert_eq!(events.take(2).collect::<Vec<_>>(), ["deleted a", "added a"]);
}

#[test]
fn the_state_comes_as_events_with_a_bookmark_at_its_end() {
    let Some((server, _quiet)) = server::shared() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("initial"));
    create(&api, "a", "1");
    create(&api, "b", "1");
    let mut watch = api.watch(&WatchParams::default().initial_events(), &Stop::new()).unwrap();
    let mut initial: Vec<_> = watch.by_ref().take(3).map(tell).collect();
    assert_eq!(initial.pop().as_deref(), Some("bookmark, end: true"));
    initial.sort();
    assert_eq!(initial, ["added a", "added b"]);
    create(&api, "c", "1");
    assert_eq!(watch.map(tell).find(|event| !event.starts_with("bookmark")).as_deref(), Some("added c"));
}

#[test]
fn a_stop_ends_a_watch_that_waits() {
    let Some((server, _quiet)) = server::shared() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("stopped"));
    let stop = Stop::new();
    let mut watch = api.watch(&WatchParams::default(), &stop).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| watch.find(|event| !matches!(event, Ok(WatchEvent::Bookmark(_)))));
        stop.stop();
        assert!(waits.join().unwrap().is_none());
    });
}
