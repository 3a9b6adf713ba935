//! What servers, proxies and broken connections can send in a watch.

use std::error::Error as _;

use listwatch::wire::{Expect, WatchDecoder};
use listwatch::{Object, Resource, StaticResource, WatchEvent};

use crate::{Pod, tell_event, watch_all, watch_lines};

fn pod(event: &str, name: &str, version: u32, rest: &str) -> String {
    format!(
        r#"{{"type":"{event}","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"ns","uid":"uid-{name}","resourceVersion":"{version}"}},"spec":{{{rest}}},"status":{{}}}}}}"#
    ) + "\n"
}

/// The lines that come of `bytes` between two good events, which must come through.
fn between(bytes: &[u8]) -> Vec<String> {
    let all =
        [pod("ADDED", "before", 1, "").as_bytes(), bytes, b"\n", pod("ADDED", "after", 9, "").as_bytes()]
            .concat();
    let whole = watch_lines::<Pod>("v1 Pod", &[&all]);
    let single: Vec<_> = all.chunks(1).collect();
    assert_eq!(watch_lines::<Pod>("v1 Pod", &single), whole, "byte by byte");
    assert_eq!(whole.first().map(String::as_str), Some("ADDED ns/before 1"));
    assert_eq!(whole.last().map(String::as_str), Some("ADDED ns/after 9"));
    whole[1..whole.len() - 1].to_vec()
}

#[test]
fn what_is_no_event_is_one_error() {
    for (line, expected) in [
        (r#"{"type":"PATCHED","object":{"metadata":{"name":"a"}}}"#, "unknown type of watch event: PATCHED"),
        (r#"{"type":7,"object":{"metadata":{"name":"a"}}}"#, "unknown type of watch event: "),
        (r#"{"object":{"metadata":{"name":"a"}}}"#, "unknown type of watch event: "),
        (r#"{"type":"ADDED"}"#, "ADDED event without an object"),
        (r#"{"type":"DELETED","object":null}"#, "DELETED event without an object"),
        (r#"{"type":"ADDED","object":{}}"#, "ADDED event: Pod without a name"),
        (r#"{"type":"ADDED","object":{"metadata":null}}"#, "ADDED event: Pod without a name"),
        (r#"{"type":"ADDED","object":{"metadata":{}}}"#, "ADDED event: Pod without a name"),
        (
            r#"{"type":"ADDED","object":{"metadata":{"namespace":"ns"},"spec":{},"status":{}}}"#,
            "ADDED event: Pod without a name",
        ),
        (
            r#"{"type":"BOOKMARK","object":{"metadata":{}}}"#,
            "BOOKMARK event: metadata: missing field `resourceVersion`",
        ),
        (
            r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":""}}}"#,
            "BOOKMARK event: no resourceVersion",
        ),
        (
            r#"{"type":"ADDED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}}"#,
            "ADDED event: expected v1 Pod, found meta.k8s.io/v1 Table",
        ),
        (
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"},"apiVersion":"v1","kind":"Status"}}"#,
            "ADDED event: expected v1 Pod, found v1 Status",
        ),
        (
            r#"{"type":"ADDED","object":{"kind":"Service","apiVersion":"v1","metadata":{"name":"a"},"spec":{},"status":{}}}"#,
            "ADDED event: expected v1 Pod, found v1 Service",
        ),
        (
            r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v2","metadata":{"name":"a"},"spec":{},"status":{}}}"#,
            "ADDED event: expected v1 Pod, found v2 Pod",
        ),
        ("<html>", "a line of a watch is no event: expected value at byte 1"),
        (r#"{"kind":"Status","message":"no event"}"#, "unknown type of watch event: "),
        (
            r#"{"type":"ADDED","object":"text"}"#,
            "a line of a watch is no event: invalid type: string, expected an object",
        ),
        (
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":{"nodeName":"n}"#,
            "a line of a watch is no event: object.spec.nodeName: EOF while parsing a string at byte 72",
        ),
        (
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}} {}"#,
            "a line of a watch is no event: trailing characters at byte 53",
        ),
        ("[]", "a line of a watch is no event: invalid type: sequence, expected a watch event"),
    ] {
        let lines = between(line.as_bytes());
        assert_eq!(lines.len(), 1, "{line}: {lines:?}");
        let expected = format!("error: {expected}");
        assert!(lines[0].starts_with(&expected), "{line}\n  {}\n  {expected}", lines[0]);
        let whole = [line.as_bytes(), b"\n"].concat();
        let error = watch_all::<Pod>("v1 Pod", &[&whole]).remove(0).unwrap_err();
        assert!(error.is_decode() && error.unfit().is_none(), "{line}");
    }
}

#[test]
fn empty_lines_and_carriage_returns_do_not_matter() {
    assert!(between(b"\r\n\n  \n\r").is_empty());
    let line = pod("MODIFIED", "a", 2, "").replace('\n', "\r");
    assert_eq!(between(line.as_bytes()), ["MODIFIED ns/a 2"]);
}

#[test]
fn fields_come_in_any_order() {
    let line = r#"{"more":[1],"object":{"spec":{},"status":{},"metadata":{"resourceVersion":"3","name":"a"},"kind":"Pod"},"type":"DELETED"}"#;
    assert_eq!(between(line.as_bytes()), ["DELETED a 3"]);
    let line = r#"{"object":{"metadata":{"resourceVersion":"4"}},"type":"BOOKMARK"}"#;
    assert_eq!(between(line.as_bytes()), ["BOOKMARK 4"]);
    let line = r#"{"object":{"metadata":{"name":"a","resourceVersion":"5"},"spec":{"priority":"x"},"status":{}},"type":"ADDED"}"#;
    assert_eq!(
        between(line.as_bytes()),
        [
            "error: ADDED event: Pod a does not fit its type: spec.priority: invalid type: string, expected i32"
        ]
    );
}

#[test]
fn bookmarks_of_any_kind() {
    for (object, expected) in [
        (r#"{"metadata":{"resourceVersion":"5"}}"#, "BOOKMARK 5"),
        (
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"5","creationTimestamp":null}}"#,
            "BOOKMARK 5",
        ),
        (
            r#"{"spec":{"containers":null},"metadata":{"annotations":null,"resourceVersion":"6"}}"#,
            "BOOKMARK 6",
        ),
        (
            r#"{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"7"}}"#,
            "BOOKMARK 7 end",
        ),
        (
            r#"{"metadata":{"annotations":{"k8s.io/initial-events-end":"false"},"resourceVersion":"7"}}"#,
            "BOOKMARK 7",
        ),
    ] {
        let line = format!(r#"{{"type":"BOOKMARK","object":{object}}}"#);
        assert_eq!(between(line.as_bytes()), [expected], "{object}");
    }
}

#[test]
fn errors_of_the_server_in_any_shape() {
    for (object, expected) in [
        (
            r#","object":{"kind":"Status","status":"Failure","message":"too old","reason":"Gone","code":410}"#,
            "error 410 Gone [expired]",
        ),
        (r#","object":{"code":410}"#, "error 410  [expired]"),
        (r#","object":{"code":"410"}"#, "error 410  [expired]"),
        (r#","object":{"reason":"Expired","code":null,"details":"odd"}"#, "error 0 Expired [expired]"),
        (r#","object":{"message":"too old resource version: 1 (2)"}"#, "error 0  [expired]"),
        (r#","object":"too old resource version: 1 (2)""#, "error 0  [expired]"),
        (r#","object":{"code":500,"reason":"InternalError","message":"etcd"}"#, "error 500 InternalError"),
        (r#","object":{"kind":"Pod","metadata":{"name":"a"}}"#, "error 0 "),
        (r#","object":null"#, "error 0 "),
        ("", "error 0 "),
        (r#","object":[1]"#, "error 0 "),
    ] {
        let line = format!(r#"{{"type":"ERROR"{object}}}"#);
        assert_eq!(between(line.as_bytes()), [expected], "{object}");
    }
}

#[test]
fn an_object_that_does_not_fit_is_named_and_the_watch_goes_on() {
    let line = pod("MODIFIED", "odd", 5, r#""containers":[{"name":"a"},{"name":["secret"]}]"#);
    let events = watch_all::<Pod>(
        "v1 Pod",
        &[line.as_bytes(), pod("DELETED", "odd", 6, r#""priority":"secret""#).as_bytes()],
    );
    let [Err(modified), Err(deleted)] = &events[..] else { panic!("{events:?}") };

    assert_eq!(
        modified.to_string(),
        "MODIFIED event: Pod ns/odd does not fit its type: spec.containers[1].name: invalid type: sequence, expected a string"
    );
    let unfit = modified.unfit().unwrap();
    assert_eq!((unfit.kind.as_str(), unfit.key.as_str(), unfit.uid.as_str()), ("Pod", "ns/odd", "uid-odd"));
    assert_eq!((unfit.resource_version.as_str(), unfit.deleted), ("5", false));
    assert!(modified.is_decode());

    assert!(deleted.to_string().ends_with("spec.priority: invalid type: string, expected i32"), "{deleted}");
    assert!(deleted.unfit().unwrap().deleted);
}

#[test]
fn a_missing_field_is_told_with_its_place() {
    let line = pod("ADDED", "a", 5, r#""containers":[{}],"nodeName":"n""#);
    let lines = watch_lines::<Pod>("v1 Pod", &[line.as_bytes()]);
    assert_eq!(
        lines,
        ["error: ADDED event: Pod ns/a does not fit its type: spec.containers[0]: missing field `name`"]
    );
}

#[test]
fn bytes_that_are_no_text_spoil_one_event_only() {
    // In a field that is read, and in one that is skipped.
    for field in ["nodeName", "skipped"] {
        let line = pod("ADDED", "a", 5, &format!(r#""{field}":"x?y""#)).replace('?', "\u{0}").into_bytes();
        let line: Vec<u8> = line.into_iter().map(|b| if b == 0 { 0xff } else { b }).collect();
        let lines = between(&line);
        assert_eq!(lines.len(), 1);
        let expected =
            format!("error: ADDED event: Pod ns/a does not fit its type: spec.{field}: not UTF-8 at byte ");
        assert!(lines[0].starts_with(&expected), "{}", lines[0]);
        assert!(watch_all::<Object>("", &[&line])[0].as_ref().unwrap_err().unfit().is_some());
    }
    assert_eq!(between(b"\xff\xfe").len(), 1);
}

#[test]
fn deep_json_is_an_error_and_no_overflow() {
    let deep = format!(r#""nodeName":{}{}"#, "[".repeat(100_000), "]".repeat(100_000));
    let line = pod("ADDED", "deep", 5, &deep);
    let error = watch_all::<Pod>("v1 Pod", &[line.as_bytes()]).remove(0).unwrap_err();
    assert_eq!(error.unfit().unwrap().key.as_str(), "ns/deep");
    // Where nobody looks it does not matter.
    let line = pod("ADDED", "deep", 5, &deep.replace("nodeName", "skipped"));
    assert_eq!(watch_lines::<Pod>("v1 Pod", &[line.as_bytes()]), ["ADDED ns/deep 5"]);
    assert_eq!(watch_lines::<Object>("v1 Pod", &[line.as_bytes()]), ["ADDED ns/deep 5"]);
}

#[test]
fn messages_stay_short_and_on_one_line_whatever_is_sent() {
    let long = "k\\n\u{e9}".repeat(100_000);
    let deep = "[".repeat(120) + "{\"a\":7}" + &"]".repeat(120);
    for line in [
        pod("ADDED", &long, 5, r#""priority":"x""#),
        pod("ADDED", "a", 5, &format!(r#""containers":{deep}"#)),
        pod("ADDED", "a", 5, &format!(r#""containers":["{long}"]"#)),
        pod(&long, "a", 5, ""),
        pod("ADDED", "a", 5, "").replace("Pod", &long),
        format!("{{\"{long}\":[{deep}\n"),
    ] {
        let error = watch_all::<Pod>("v1 Pod", &[line.as_bytes()]).remove(0).unwrap_err().to_string();
        assert!(error.len() < 1000 && !error.contains('\n'), "{error}");
    }
}

#[test]
fn whether_a_line_is_there_is_known_before_it_is_decoded() {
    let (one, other) = (pod("ADDED", "a", 5, ""), pod("ADDED", "b", 6, ""));
    let mut decoder = WatchDecoder::<Pod>::new(Expect::any());
    assert!(!decoder.has_line());
    for byte in one.as_bytes() {
        assert!(!decoder.has_line() && decoder.next_event().is_none());
        decoder.feed(&[*byte]);
    }
    decoder.feed(&other.as_bytes()[..other.len() - 1]);
    assert!(decoder.has_line());
    assert!(matches!(decoder.next_event(), Some(Ok(WatchEvent::Added(_)))));
    assert!(!decoder.has_line() && decoder.next_event().is_none());
    decoder.feed(b"\n\r\n \n");
    assert!(decoder.has_line() && decoder.next_event().is_some());
    // Empty lines are none: a read is needed.
    assert!(!decoder.has_line() && decoder.next_event().is_none());
    decoder.feed(b"\n\n");
    assert!(!decoder.has_line());
}

#[test]
fn half_a_line_at_the_end_is_no_event() {
    let line = pod("ADDED", "a", 5, "");
    for end in 1..line.len() {
        let lines = watch_all::<Pod>("v1 Pod", &[line.as_bytes(), &line.as_bytes()[..end]]);
        let error = lines[1].as_ref().unwrap_err();
        assert_eq!(error.to_string(), "the watch ended within a line: unexpected end of file");
        let io = error.source().and_then(|e| e.downcast_ref::<std::io::Error>()).unwrap();
        assert_eq!(io.kind(), std::io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn a_line_of_twenty_megabytes() {
    let line = pod("ADDED", "big", 5, &format!(r#""nodeName":"{}""#, "é".repeat(10_000_000)));
    let pieces: Vec<_> =
        line.as_bytes().chunks(60_000).chain([pod("ADDED", "a", 6, "").leak().as_bytes()]).collect();
    let events = watch_all::<Pod>("v1 Pod", &pieces);
    let [Ok(WatchEvent::Added(big)), Ok(after)] = &events[..] else { panic!() };
    assert_eq!(big.spec.node_name.chars().count(), 10_000_000);
    let WatchEvent::Added(after) = after else { panic!() };
    assert_eq!(after.name(), "a");
}

#[test]
fn a_line_over_the_limit_is_one_error_in_any_pieces() {
    let long = format!(r#"{{"type":"ADDED","object":"{}"}}"#, "x".repeat(3000));
    let all = [pod("ADDED", "a", 1, ""), long, "\n".into(), pod("ADDED", "b", 2, "")].concat();
    for size in [1, 7, 999, 1000, 1001, 8192] {
        let mut decoder = WatchDecoder::<Pod>::new(Expect::from(&Pod::api_resource())).max_line(1000);
        let mut events = Vec::new();
        for piece in all.as_bytes().chunks(size) {
            decoder.feed(piece);
            events.extend(std::iter::from_fn(|| decoder.next_event()));
        }
        decoder.finish().unwrap();
        let lines: Vec<_> = events.iter().map(tell_event).collect();
        let limit = "error: a line of a watch is longer than the limit of 1000 bytes";
        assert_eq!(lines, ["ADDED ns/a 1", limit, "ADDED ns/b 2"], "{size} bytes a time");
        assert!(events[1].as_ref().unwrap_err().is_limit());
    }
}

#[test]
fn the_limit_itself_is_allowed() {
    let line = pod("ADDED", "a", 1, "");
    let mut decoder = WatchDecoder::<Pod>::new(Expect::any()).max_line(line.len() - 1);
    decoder.feed(line.as_bytes());
    assert!(decoder.next_event().unwrap().is_ok());
    let mut decoder = WatchDecoder::<Pod>::new(Expect::any()).max_line(line.len() - 2);
    decoder.feed(line.as_bytes());
    assert!(decoder.next_event().unwrap().unwrap_err().is_limit());
}

#[test]
fn the_end_within_a_line_that_is_too_long_is_told() {
    let mut decoder = WatchDecoder::<Pod>::new(Expect::any()).max_line(10);
    decoder.feed(&[b'x'; 20]);
    assert!(decoder.next_event().unwrap().unwrap_err().is_limit());
    assert!(decoder.next_event().is_none());
    assert!(decoder.finish().unwrap_err().is_decode());
}

#[test]
fn any_kind_is_taken_but_no_status_and_no_table() {
    let event = |types: &str| {
        let line = format!(
            r#"{{"type":"ADDED","object":{{"metadata":{{"name":"a","resourceVersion":"1"}},{types}}}}}"#
        );
        watch_lines::<Object>("", &[line.as_bytes(), b"\n"]).remove(0)
    };
    assert_eq!(event(r#""apiVersion":"x.io/v1","kind":"Foo""#), "ADDED a 1");
    assert_eq!(event(r#""apiVersion":"x.io/v1","kind":"Table""#), "ADDED a 1");
    assert!(event(r#""kind":"Table","apiVersion":"meta.k8s.io/v1""#).starts_with("error"));
    assert!(event(r#""apiVersion":"v1","kind":"Status""#).starts_with("error"));
    assert!(event(r#""kind":"Status""#).starts_with("error"));
    assert!(event(r#""spec":{}"#).starts_with("error"), "an object of no kind");
}

#[test]
fn a_whole_object_gets_the_kind_that_is_expected_if_it_came_without() {
    let line = r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"},"kind":null}}"#;
    let events = watch_all::<Object>("apps/v1 Deployment", &[line.as_bytes(), b"\n"]);
    let Some(Ok(WatchEvent::Added(object))) = events.first() else { panic!("{events:?}") };
    assert_eq!((object.api_version(), object.kind()), ("apps/v1", "Deployment"));
}

/// The cheap way to watch metadata alone: what the server sends beside it is skipped, and what is of another form there
/// does not matter.
#[test]
fn a_type_of_nothing_but_metadata_is_read_from_whole_objects() {
    #[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
    struct Meta {
        metadata: listwatch::ObjectMeta,
    }
    listwatch::resource!(Meta: "v1", "Pod", "pods", namespaced);
    let line = pod("MODIFIED", "a", 7, r#""containers":7,"nodeName":["x"]"#);
    assert_eq!(watch_lines::<Meta>("v1 Pod", &[line.as_bytes()]), ["MODIFIED ns/a 7"]);
    let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9"}}}"#;
    assert_eq!(watch_lines::<Meta>("v1 Pod", &[bookmark.as_bytes(), b"\n"]), ["BOOKMARK 9"]);
}
