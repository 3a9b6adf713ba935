use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use listwatch::Clock;
use listwatch::apiserver::ApiServer;
use serde_json::json;

use crate::client::*;

const SECONDS: Duration = Duration::from_secs(1);

fn with_clock() -> (ApiServer, Clock) {
    let clock = Clock::manual();
    (ApiServer::builder().clock(clock.clone()).start().unwrap(), clock)
}

#[test]
fn changes_after_a_version_are_told_as_the_selector_sees_them() {
    let server = ApiServer::start().unwrap();
    create_all(&server, &["before"]);
    let from = server.resource_version();
    let query = format!("{CM}?watch=true&labelSelector=set%3Ddemo&resourceVersion={from}");
    create_all(&server, &["a"]);
    let mut watch = Watch::open(&server, &query);
    let added = watch.line().unwrap();
    assert!(
        added.starts_with(r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"#),
        "{added}"
    );
    post(&server, CM, config_map("other", json!({"set": "other"}))).expect(201);
    patch(&server, &format!("{CM}/a"), "merge-patch", json!({"data": {"a": "2"}})).expect(200);
    assert_eq!(watch.next(), "MODIFIED a");
    patch(&server, &format!("{CM}/a"), "merge-patch", json!({"metadata": {"labels": null}})).expect(200);
    let gone = watch.event();
    assert_eq!((&gone["type"], &gone["object"]["metadata"]["name"]), (&json!("DELETED"), &json!("a")));
    // The last state that matched, under the version of the change.
    assert_eq!(gone["object"]["metadata"]["labels"]["set"], "demo");
    assert_eq!(gone["object"]["metadata"]["resourceVersion"], server.resource_version().to_string());
    patch(&server, &format!("{CM}/a"), "merge-patch", json!({"metadata": {"labels": {"set": "demo"}}}))
        .expect(200);
    assert_eq!(watch.next(), "ADDED a");
    delete(&server, &format!("{CM}/a")).expect(200);
    let deleted = watch.event();
    assert_eq!(deleted["type"], "DELETED");
    assert_eq!(deleted["object"]["metadata"]["resourceVersion"], server.resource_version().to_string());
}

#[test]
fn without_a_version_what_is_there_comes_first() {
    let (server, clock) = with_clock();
    create_all(&server, &["a", "b"]);
    let mut watch = Watch::open(&server, &format!("{CM}?watch=1&timeoutSeconds=5"));
    assert_eq!((watch.next(), watch.next()), ("ADDED a".into(), "ADDED b".into()));
    create_all(&server, &["c"]);
    assert_eq!(watch.next(), "ADDED c");
    clock.wait_for_timers(1);
    clock.advance(5 * SECONDS);
    assert_eq!(watch.line(), None);
}

#[test]
fn version_zero_tells_the_end_of_the_initial_events() {
    let (server, _clock) = with_clock();
    create_all(&server, &["a"]);
    let now = server.resource_version();
    let mut watch = Watch::open(&server, &format!("{CM}?watch=1&resourceVersion=0&allowWatchBookmarks=true"));
    assert_eq!(watch.next(), "ADDED a");
    assert_eq!(
        watch.line().unwrap(),
        format!(
            r#"{{"type":"BOOKMARK","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"resourceVersion":"{now}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#
        )
    );
}

#[test]
fn a_list_is_streamed() {
    let (server, clock) = with_clock();
    create_all(&server, &["a", "b"]);
    let query =
        format!("{CM}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=2");
    let mut watch = Watch::open(&server, &format!("{query}&allowWatchBookmarks=true"));
    assert_eq!((watch.next(), watch.next()), ("ADDED a".into(), "ADDED b".into()));
    let end = watch.event();
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    clock.wait_for_timers(1);
    clock.advance(2 * SECONDS);
    assert_eq!(watch.line(), None);
    // Without bookmarks there is no end to tell.
    let mut watch = Watch::open(&server, &query);
    assert_eq!((watch.next(), watch.next()), ("ADDED a".into(), "ADDED b".into()));
    create_all(&server, &["c"]);
    assert_eq!(watch.next(), "ADDED c");
    get(&server, &format!("{CM}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true")).is(
        422,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan","reason":"Invalid","details":{"group":"meta.k8s.io","kind":"ListOptions","causes":[{"reason":"FieldValueForbidden","message":"Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan","field":"resourceVersionMatch"}]},"code":422}"#,
    );
    let future = get(&server, &format!("{query}&resourceVersion=999999")).expect(200);
    assert_eq!((&future["type"], &future["object"]["code"]), (&json!("ERROR"), &json!(504)));
}

#[test]
fn bookmarks_come_when_it_is_quiet_and_at_the_end() {
    let (server, clock) = with_clock();
    let from = server.resource_version();
    let query = format!("{CM}?watch=1&allowWatchBookmarks=1&resourceVersion={from}&timeoutSeconds=75");
    let mut watch = Watch::open(&server, &query);
    clock.wait_for_timers(1);
    post(&server, PODS, json!({"metadata": {"name": "p"}})).expect(201);
    let now = server.resource_version();
    clock.advance(60 * SECONDS);
    assert_eq!(
        watch.line().unwrap(),
        format!(
            r#"{{"type":"BOOKMARK","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"resourceVersion":"{now}"}}}}}}"#
        )
    );
    create_all(&server, &["a"]);
    assert_eq!(watch.next(), "ADDED a");
    clock.wait_for_timers(1);
    clock.advance(15 * SECONDS);
    assert_eq!(watch.next(), format!("BOOKMARK {}", server.resource_version()));
    assert_eq!(watch.line(), None);
}

#[test]
fn an_old_version_is_told_as_an_event() {
    let server = ApiServer::start().unwrap();
    let old = server.resource_version();
    create_all(&server, &["a"]);
    server.compact();
    let now = server.resource_version();
    let mut watch = Watch::open(&server, &format!("{CM}?watch=1&resourceVersion={old}"));
    assert_eq!(
        watch.line().unwrap(),
        format!(
            r#"{{"type":"ERROR","object":{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"too old resource version: {old} ({now})","reason":"Expired","code":410}}}}"#
        )
    );
    assert_eq!(watch.line(), None);
}

#[test]
fn an_open_watch_survives_compaction() {
    let server = ApiServer::start().unwrap();
    let mut watch =
        Watch::open(&server, &format!("{CM}?watch=1&resourceVersion={}", server.resource_version()));
    create_all(&server, &["a"]);
    server.compact();
    create_all(&server, &["b"]);
    assert_eq!((watch.next(), watch.next()), ("ADDED a".into(), "ADDED b".into()));
}

#[test]
fn a_version_of_the_future_tells_nothing() {
    let (server, clock) = with_clock();
    let mut watch = Watch::open(&server, &format!("{CM}?watch=1&resourceVersion=999999999&timeoutSeconds=5"));
    create_all(&server, &["a"]);
    clock.wait_for_timers(1);
    clock.advance(5 * SECONDS);
    assert_eq!(watch.line(), None);
    get(&server, &format!("{CM}?watch=1&resourceVersion=abc")).is(
        500,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax","code":500}"#,
    );
}

#[test]
fn views_of_watches() {
    let server = ApiServer::start().unwrap();
    create_all(&server, &["a"]);
    let meta = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let query = format!("{CM}?watch=1&resourceVersion=0&allowWatchBookmarks=true");
    let mut watch = Watch::open_as(&server, &query, meta);
    let added = watch.event();
    assert_eq!(added["object"]["kind"], "PartialObjectMetadata");
    assert!(added["object"].get("data").is_none());
    assert_eq!(watch.event()["object"]["kind"], "PartialObjectMetadata");
    let mut watch = Watch::open_as(&server, &query, "application/json;as=Table;g=meta.k8s.io;v=v1");
    let added = watch.event();
    assert_eq!(
        (&added["object"]["kind"], &added["object"]["rows"][0]["cells"][0]),
        (&json!("Table"), &json!("a"))
    );
}

#[test]
fn one_object_and_one_namespace_are_watched_alone() {
    let server = ApiServer::start().unwrap();
    create_all(&server, &["a"]);
    let mut one = Watch::open(&server, &format!("{CM}/b?watch=true"));
    let mut system = Watch::open(&server, "/api/v1/namespaces/kube-system/configmaps?watch=true");
    create_all(&server, &["aa", "b"]);
    post(&server, "/api/v1/namespaces/kube-system/configmaps", config_map("s", json!({}))).expect(201);
    assert_eq!(one.next(), "ADDED b");
    assert_eq!(system.next(), "ADDED s");
}

#[test]
fn history_has_the_length_that_was_asked_for() {
    let server = ApiServer::builder().history(2).start().unwrap();
    let old = server.resource_version();
    create_all(&server, &["a", "b", "c"]);
    let mut expired = Watch::open(&server, &format!("{CM}?watch=1&resourceVersion={old}"));
    assert_eq!(expired.event()["object"]["code"], 410);
    let mut kept = Watch::open(&server, &format!("{CM}?watch=1&resourceVersion={}", old + 1));
    assert_eq!((kept.next(), kept.next()), ("ADDED b".into(), "ADDED c".into()));
}

#[test]
fn every_change_is_told_once_and_in_order() {
    let server = ApiServer::start().unwrap();
    let from = server.resource_version();
    let mut early = Watch::open(&server, &format!("{CM}?watch=1&resourceVersion={from}"));
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let server = &server;
            scope.spawn(move || {
                for n in 0..20 {
                    let name = format!("w{writer}-{n}");
                    post(server, CM, config_map(&name, json!({}))).expect(201);
                    patch(server, &format!("{CM}/{name}"), "merge-patch", json!({"data": {"a": "2"}}))
                        .expect(200);
                    if n % 2 == 0 {
                        delete(server, &format!("{CM}/{name}")).expect(200);
                    }
                }
            });
        }
    });
    let last = server.resource_version();
    assert_eq!(last, from + 4 * (20 + 20 + 10));
    let mut late = Watch::open(&server, &format!("{CM}?watch=1&resourceVersion={from}"));
    for watch in [&mut early, &mut late] {
        for version in from + 1..=last {
            assert_eq!(watch.event()["object"]["metadata"]["resourceVersion"], version.to_string());
        }
    }
}

#[test]
fn a_watch_whose_client_hung_up_ends_at_the_next_interval() {
    let (server, clock) = with_clock();
    let mut stream = connect(&server);
    write!(stream, "GET {CM}?watch=true&resourceVersion=1&timeoutSeconds=80000 HTTP/1.1\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    // The server may begin to wait after the clock was advanced, so more than once; far less than until the timeout.
    let ended = (0..1000).find_map(|_| {
        clock.advance(60 * SECONDS);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).ok().map(|_| rest)
    });
    assert_eq!(ended.as_deref(), Some(&b""[..]), "no last chunk: nobody reads it");
}
