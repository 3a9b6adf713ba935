//! Events: those of the core group and those of events.k8s.io are the same.

use listwatch::apiserver::ApiServer;
use listwatch::types::Event;
use listwatch::{
    Api, ApiResource, Client, DeleteParams, ListParams, Object, Patch, PatchParams, PostParams, Scope, Stop,
    WatchEvent, WatchParams,
};
use serde_json::{Value, json};

use crate::client::{get, get_as, patch};

const CORE: &str = "/api/v1/namespaces/default/events";
const NEW: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn core(client: &Client) -> Api<Object> {
    Api::namespaced_with(client, "default", &ApiResource::new("v1", "Event", "events", Scope::Namespaced))
}

/// The same event as the core group writes it, and as events.k8s.io does: all fields.
fn both() -> (Value, Value) {
    let object =
        json!({"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "web-0", "uid": "u"});
    let same = json!({
        "metadata": {"name": "e", "namespace": "default"},
        "eventTime": "2026-11-30T12:00:00.000001Z",
        "series": {"count": 3, "lastObservedTime": "2026-11-30T12:01:00.000001Z"},
        "reportingInstance": "foo-0",
        "action": "Evict",
        "reason": "Evicted",
        "type": "Warning",
        "related": {"kind": "Node", "name": "n"},
    });
    let with = |api_version: &str, fields: Value| {
        let mut event = same.clone();
        event["apiVersion"] = api_version.into();
        event["kind"] = "Event".into();
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        event
    };
    let (source, first, last) =
        (json!({"component": "foo", "host": "n"}), "2026-11-30T12:00:00Z", "2026-11-30T12:02:00Z");
    let core = json!({
        "involvedObject": object, "message": "its node is full", "reportingComponent": "example.com/foo",
        "source": source, "firstTimestamp": first, "lastTimestamp": last, "count": 4,
    });
    let new = json!({
        "regarding": object, "note": "its node is full", "reportingController": "example.com/foo",
        "deprecatedSource": source, "deprecatedFirstTimestamp": first, "deprecatedLastTimestamp": last,
        "deprecatedCount": 4,
    });
    (with("v1", core), with("events.k8s.io/v1", new))
}

/// Without what the server sets.
fn bare(mut event: Value) -> Value {
    event["metadata"] =
        json!({"name": event["metadata"]["name"], "namespace": event["metadata"]["namespace"]});
    event
}

#[test]
fn an_event_of_one_group_is_one_of_the_other() {
    let server = ApiServer::start().unwrap();
    let client = server.client().unwrap();
    let (news, cores) = (Api::<Event>::namespaced(&client, "default"), core(&client));
    let (old, new) = both();
    let typed: Event = serde_json::from_value(new.clone()).unwrap();
    let create = PostParams::default();
    for by_core in [true, false] {
        if by_core {
            cores.create(&create, &serde_json::from_value(old.clone()).unwrap()).unwrap();
        } else {
            news.create(&create, &typed).unwrap();
        }
        assert_eq!(bare(get(&server, &format!("{CORE}/e")).expect(200)), old);
        assert_eq!(bare(get(&server, &format!("{NEW}/e")).expect(200)), new);
        let mut found = news.list(&ListParams::default()).unwrap().items.remove(0);
        found.metadata = typed.metadata.clone();
        assert_eq!(found, typed);
        let other = json!({"metadata": {"name": "e"}, "reason": "Other"});
        let again = news.create(&create, &serde_json::from_value(other).unwrap()).unwrap_err();
        assert!(
            again.is_already_exists() && again.to_string().contains("events.events.k8s.io \"e\""),
            "{again}"
        );

        for (fields, matches) in
            [("involvedObject.uid=u", 1), ("involvedObject.kind!=Pod", 0), ("source=foo,type=Warning", 1)]
        {
            let params = ListParams::default().fields(fields);
            assert_eq!(cores.list(&params).unwrap().items.len(), matches, "{fields}");
        }
        for (fields, matches) in [
            ("regarding.name=web-0", 1),
            ("regarding.kind!=Pod", 0),
            ("reportingController=example.com/foo", 1),
        ] {
            let params = ListParams::default().fields(fields);
            assert_eq!(news.list(&params).unwrap().items.len(), matches, "{fields}");
        }
        if by_core {
            news.delete("e", &DeleteParams::default()).unwrap();
        } else {
            cores.delete("e", &DeleteParams::default()).unwrap();
        }
        assert!(news.get("e").unwrap_err().is_not_found() && cores.get("e").unwrap_err().is_not_found());
    }
}

#[test]
fn changes_by_one_group_are_watched_by_the_other() {
    let server = ApiServer::start().unwrap();
    let client = server.client().unwrap();
    let (news, cores) = (Api::<Event>::namespaced(&client, "default"), core(&client));
    let from = server.resource_version().to_string();
    let params = WatchParams::default().resource_version(&*from);
    let mut of_news = news.watch(&params, &Stop::new()).unwrap();
    let mut of_cores = cores.watch(&params, &Stop::new()).unwrap();
    let mut told = || {
        let (new, core) = (of_news.next().unwrap().unwrap(), of_cores.next().unwrap().unwrap());
        match (new, core) {
            (WatchEvent::Added(new), WatchEvent::Added(core)) => ("added", new, core),
            (WatchEvent::Modified(new), WatchEvent::Modified(core)) => ("modified", new, core),
            (WatchEvent::Deleted(new), WatchEvent::Deleted(core)) => ("deleted", new, core),
            other => panic!("{other:?}"),
        }
    };
    let mut shows = |what: &str, note: &str| {
        let (told, new, core) = told();
        let message = core.get_str("/message");
        assert_eq!((told, &*new.note, message.as_deref()), (what, note, Some(note)));
    };
    let mut event: Event = serde_json::from_value(both().1).unwrap();
    news.create(&PostParams::default(), &event).unwrap();
    shows("added", "its node is full");
    let merge = |fields: Value| Patch::Merge(fields);
    let patched = cores.patch("e", &PatchParams::default(), &merge(json!({"message": "one"}))).unwrap();
    assert_eq!(patched.get_str("/message").as_deref(), Some("one"));
    shows("modified", "one");
    let strategic = Patch::Strategic(json!({"note": "two"}));
    assert_eq!(news.patch("e", &PatchParams::default(), &strategic).unwrap().note, "two");
    shows("modified", "two");
    let test = json!([
        {"op": "test", "path": "/regarding/name", "value": "web-0"},
        {"op": "replace", "path": "/note", "value": "three"},
    ]);
    patch(&server, &format!("{NEW}/e"), "json-patch", test).expect(200);
    shows("modified", "three");
    event.note = "four".into();
    assert_eq!(news.replace("e", &PostParams::default(), &event).unwrap().note, "four");
    shows("modified", "four");
    let apply =
        json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "note": "five"});
    let path = format!("{NEW}/e?fieldManager=x&force=true");
    patch(&server, &path, "apply-patch", apply).expect(200);
    shows("modified", "five");
    // What changes nothing is no change.
    news.patch("e", &PatchParams::default(), &Patch::Merge(json!({"note": "five"}))).unwrap();
    cores.delete("e", &DeleteParams::default()).unwrap();
    shows("deleted", "five");
    assert_eq!(news.list(&ListParams::default()).unwrap().items, []);
}

#[test]
fn a_table_of_events_has_the_same_rows_for_both() {
    let server = ApiServer::start().unwrap();
    let client = server.client().unwrap();
    core(&client).create(&PostParams::default(), &serde_json::from_value(both().0).unwrap()).unwrap();
    for path in [CORE, NEW] {
        let table = get_as(&server, path, "application/json;as=Table;v=v1;g=meta.k8s.io").expect(200);
        let columns: Vec<_> =
            table["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
        assert_eq!(columns[..5], ["Last Seen", "Type", "Reason", "Object", "Subobject"], "{path}");
        let cells = table["rows"][0]["cells"].as_array().unwrap();
        assert_eq!(cells.len(), columns.len());
        assert_eq!(
            cells[1..7],
            ["Warning", "Evicted", "pod/web-0", "", "foo, n", "its node is full"],
            "{path}"
        );
        assert_eq!(cells[8..], [json!(3), json!("e")], "{path}");
    }
}
