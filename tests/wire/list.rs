//! The shapes of lists.

use listwatch::wire::{Expect, ListDecoder};
use listwatch::{Object, Resource};

use crate::{Pod, list_all, list_lines};

const BROKEN: &str = "error: the list could not be decoded to its end";

/// What comes of a list, the same in one piece, byte by byte and for any cut in two.
fn lines(json: &str) -> Vec<String> {
    let bytes = json.as_bytes();
    let whole = list_lines::<Object>("v1 Pod", &[bytes]);
    let single: Vec<_> = bytes.chunks(1).collect();
    assert_eq!(list_lines::<Object>("v1 Pod", &single), whole, "byte by byte: {json}");
    for at in 1..bytes.len() {
        assert_eq!(
            list_lines::<Object>("v1 Pod", &[&bytes[..at], &bytes[at..]]),
            whole,
            "cut at {at}: {json}"
        );
    }
    whole
}

#[test]
fn lists_in_all_shapes() {
    for (json, expected) in [
        (r#"{"kind":"PodList","items":[{"metadata":{"name":"a","resourceVersion":"1"}}]}"#, "a 1, PodList"),
        (
            r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"3"},"items":null}"#,
            "v1 PodList 3",
        ),
        (r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"3"}}"#, "v1 PodList 3"),
        (r#"{"kind":"PodList","apiVersion":"v1","metadata":null,"items":[]}"#, "v1 PodList "),
        (r#"{"kind":"PodList","apiVersion":"v1","items":[]}"#, "v1 PodList "),
        (r#"{"items":[]}"#, "  "),
        (
            r#"{"items":[{"metadata":{"name":"a","resourceVersion":"1"}}],"metadata":{"resourceVersion":"3","continue":"c","remainingItemCount":2},"kind":"PodList"}"#,
            "a 1, PodList 3 continue c remaining 2",
        ),
        (
            r#"{"extra":{"items":[{"a":"]}"}],"n":-1.5e3},"n":12,"t":true,"s":"\"","kind":"PodList","items":[{"metadata":{"name":"a","resourceVersion":"1"}},{"metadata":{"name":"b","resourceVersion":"2"}}],"more":[]}"#,
            "a 1,b 2, PodList",
        ),
        (
            r#"{"kind":"PodList","metadata":{"resourceVersion":"3","selfLink":"x","remainingItemCount":null},"items":[]}"#,
            "PodList 3",
        ),
        (
            "{\r\n\t\"kind\" : \"PodList\" ,\n \"items\" : [ { \"metadata\" : { \"name\" : \"a\" } } , { \"metadata\" : { \"name\" : \"b\" } } ] , \"apiVersion\" : \"v1\" }\n\n",
            "a ,b ,v1 PodList ",
        ),
        (r#"{"\u006bind":"Pod\u004cist","it\u0065ms":[]}"#, "PodList"),
    ] {
        let found: Vec<_> = lines(json).iter().map(|line| line.trim().to_owned()).collect();
        let expected: Vec<_> = expected.split(',').map(str::trim).collect();
        assert_eq!(found, expected, "{json}");
    }
}

#[test]
fn what_is_no_list_is_the_last_error() {
    for (json, expected) in [
        (r#"{"kind":"PodList","items":[]} x"#, "the list is followed by other bytes"),
        (r#"{"kind":"PodList","items":[]}{}"#, "the list is followed by other bytes"),
        (r#"[]"#, "the response is no list: no JSON object"),
        (r#"{}"#, "the response is no list: it has neither items nor the kind of a list"),
        (
            r#"{"error":"login first"}"#,
            "the response is no list: it has neither items nor the kind of a list",
        ),
        (r#"{"kind":"PodList","items":[{"metadata":{"name":"a"}}}"#, "the list is no JSON"),
        (r#"{"kind":"PodList","items":{}}"#, "the list cannot be read: invalid type: map, expected unit"),
        (r#"{"kind":"PodList","items":[],"items":[]}"#, "a list with two fields items"),
        (r#"{"kind":"PodList",}"#, "the list is no JSON"),
        (r#"{"kind":"PodList" "items":[]}"#, "the list is no JSON"),
        (r#"{"kind":["PodList"]}"#, "the list cannot be read: "),
        (
            r#"{"kind":"ServiceList","apiVersion":"v1","items":[]}"#,
            "expected a list of v1 Pod, found v1 ServiceList",
        ),
        (r#"{"items":[],"kind":"ServiceList"}"#, "expected a list of v1 Pod, found ServiceList"),
        (
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#,
            "expected a list of v1 Pod, found v1 Pod",
        ),
        (r#"{"kind":"PodList","apiVersion":"v2","items":[]}"#, "expected a list of v1 Pod, found v2 PodList"),
        (r#"{"kind":"PodList","x":tru e,"items":[]}"#, "the list cannot be read: "),
        ("{\"kind\":\"PodList\",\"x\":\"\u{1}\",\"items\":[]}", "the list cannot be read: "),
    ] {
        let found = lines(json);
        let (last, error) = (found.last().unwrap(), &found[found.len() - 2.min(found.len())]);
        let error = if last == BROKEN { error } else { last };
        assert!(error.starts_with(&format!("error: {expected}")), "{json}: {found:?}");
    }
}

#[test]
fn a_list_that_ends_early_is_an_error_wherever_it_ends() {
    let json = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"3"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}"#;
    for end in 0..json.len() {
        let found = lines(&json[..end]);
        assert_eq!(found.last().unwrap(), "error: the list ended early: unexpected end of file", "at {end}");
        assert!(
            found[..found.len() - 1].iter().all(|line| !line.starts_with("error")),
            "at {end}: {found:?}"
        );
    }
}

#[test]
fn a_status_in_place_of_a_list_is_the_servers_error() {
    for json in [
        r#"{"kind":"Status","apiVersion":"v1","metadata":{"continue":"fresh"},"status":"Failure","message":"too old","reason":"Expired","code":410}"#,
        "{\n \"code\": 410, \"reason\": \"Expired\", \"metadata\": {\"continue\": \"fresh\"}, \"kind\": \"Status\"\n}",
    ] {
        assert_eq!(lines(json), ["error 410 Expired [expired]", BROKEN], "{json}");
        let (items, _) = list_all::<Object>("", &[json.as_bytes()]);
        let error = items[0].as_ref().unwrap_err();
        assert_eq!(error.status().unwrap().metadata.continue_token, "fresh");
    }
    let success = r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#;
    assert_eq!(lines(success)[0], "error: expected a list of v1 Pod, found v1 Status");
}

#[test]
fn an_item_that_cannot_be_decoded_is_one_error() {
    for (item, expected) in [
        ("null", "an item of the list is null"),
        ("7", "an item of the list is no object: invalid type: integer `7`, expected an object"),
        (r#""x""#, "an item of the list is no object: invalid type: string, expected an object"),
        ("{}", "Pod without a name"),
        (r#"{"metadata":null}"#, "Pod without a name"),
        (r#"{"kind":"Service","metadata":{"name":"x"}}"#, "expected v1 Pod, found Service"),
        (
            r#"{"metadata":{"name":"x"},"a":tru}"#,
            "an item of the list is no object: a: expected ident at byte 33",
        ),
        (
            r#"{"metadata":{"name":"x"]}"#,
            "an item of the list is no object: metadata.name: expected `,` or `}` at byte 24",
        ),
        ("", "an item of the list is no object: EOF while parsing a value at byte 0"),
        (
            r#"{"metadata":{"name":"x","labels":7}}"#,
            "Pod x does not fit its type: metadata.labels: invalid type",
        ),
    ] {
        let json = format!(
            r#"{{"kind":"PodList","items":[{{"metadata":{{"name":"a"}}}},{item},{{"metadata":{{"name":"b"}}}}]}}"#
        );
        let found = lines(&json);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[1].starts_with(&format!("error: {expected}")), "{item}: {}", found[1]);
        assert_eq!((found[0].trim(), found[2].trim(), found[3].trim()), ("a", "b", "PodList"));
    }
}

#[test]
fn an_item_that_does_not_fit_is_named_and_the_list_goes_on() {
    let odd = r#"{"metadata":{"name":"odd","namespace":"ns","uid":"u","resourceVersion":"5"},"spec":{"priority":"secret"},"status":{}}"#;
    let json = format!("{{\"kind\":\"PodList\",\"items\":[{odd},\n{}]}}", odd.replace("\"secret\"", "4"));
    for at in 1..json.len() {
        let (items, end) = list_all::<Pod>("v1 Pod", &[&json.as_bytes()[..at], &json.as_bytes()[at..]]);
        let [Err(error), Ok(pod)] = &items[..] else { panic!("{items:?}") };
        assert_eq!(
            error.to_string(),
            "Pod ns/odd does not fit its type: spec.priority: invalid type: string, expected i32"
        );
        let unfit = error.unfit().unwrap();
        assert_eq!((unfit.kind.as_str(), unfit.key.as_str()), ("Pod", "ns/odd"));
        assert_eq!((unfit.uid.as_str(), unfit.resource_version.as_str(), unfit.deleted), ("u", "5", false));
        assert_eq!(pod.spec.priority, 4);
        end.unwrap();
    }
}

#[test]
fn bytes_that_are_no_text_spoil_one_item_only() {
    for field in ["nodeName", "skipped"] {
        let json = format!(
            r#"{{"items":[{{"metadata":{{"name":"a"}},"spec":{{"{field}":"?"}},"status":{{}}}},{{"metadata":{{"name":"b"}},"spec":{{}},"status":{{}}}}]}}"#
        );
        let bytes: Vec<u8> = json.bytes().map(|b| if b == b'?' { 0xff } else { b }).collect();
        for at in 1..bytes.len() {
            let (items, end) = list_all::<Pod>("v1 Pod", &[&bytes[..at], &bytes[at..]]);
            let [Err(error), Ok(b)] = &items[..] else { panic!("{items:?}") };
            assert!(error.to_string().contains(&format!("spec.{field}: not UTF-8 at byte")), "{error}");
            assert_eq!((error.unfit().unwrap().key.as_str(), b.name()), ("a", "b"));
            end.unwrap();
        }
    }
}

#[test]
fn whole_items_get_the_kind_of_the_list() {
    let item = |types: &str, json: &str| {
        let (items, _) = list_all::<Object>(types, &[json.as_bytes()]);
        items.into_iter().next().unwrap().map(|o| format!("{} {}", o.api_version(), o.kind()))
    };
    let first = r#"{"kind":"FooList","apiVersion":"x.io/v1","items":[{"metadata":{"name":"a"}}]}"#;
    let last = r#"{"items":[{"metadata":{"name":"a"}}],"kind":"FooList","apiVersion":"x.io/v1"}"#;
    let own = r#"{"kind":"FooList","apiVersion":"x.io/v1","items":[{"metadata":{"name":"a"},"kind":"Bar","apiVersion":"y/v2"}]}"#;
    let named = r#"{"kind":"Fooses","apiVersion":"x.io/v1","items":[{"metadata":{"name":"a"}}]}"#;
    assert_eq!(item("", first).unwrap(), "x.io/v1 Foo");
    assert_eq!(item("", own).unwrap(), "y/v2 Bar");
    assert_eq!(item("x.io/v1 Foo", first).unwrap(), "x.io/v1 Foo");
    assert_eq!(item("x.io/v1 Foo", last).unwrap(), "x.io/v1 Foo");
    assert_eq!(
        item("x.io/v1 Foo", named).unwrap(),
        "x.io/v1 Foo",
        "a custom resource names its list as it likes"
    );
    assert!(item("", last).unwrap_err().unfit().is_some(), "nobody knows what it is");
}

#[test]
fn an_item_over_the_limit_ends_the_list_in_any_pieces() {
    let json = format!(
        r#"{{"items":[{{"metadata":{{"name":"a"}}}},{{"metadata":{{"name":"{}"}}}},{{"metadata":{{"name":"b"}}}}]}}"#,
        "x".repeat(3000)
    );
    for size in [1, 7, 999, 1000, 1001, 8192] {
        let mut decoder = ListDecoder::<Object>::new(crate::expect("v1 Pod")).max_item(1000);
        let mut items = Vec::new();
        for piece in json.as_bytes().chunks(size) {
            decoder.feed(piece);
            items.extend(std::iter::from_fn(|| decoder.next_item()));
        }
        let [Ok(a), Err(error)] = &items[..] else { panic!("{items:?}") };
        assert_eq!(a.name(), "a");
        assert_eq!(error.to_string(), "an item of the list is longer than the limit of 1000 bytes");
        assert!(error.is_limit());
        assert!(decoder.finish().is_err());
    }
}

#[test]
fn items_that_were_not_taken_are_told() {
    let mut decoder = ListDecoder::<Object>::new(Expect::any());
    decoder.feed(br#"{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}]}"#);
    assert_eq!(decoder.finish().unwrap_err().to_string(), "not all items of the list were taken");
}

#[test]
fn a_long_item_in_small_pieces_is_not_parsed_again_and_again() {
    // 20 MB in 1 KB pieces would be 200 GB if each piece began anew.
    let json = format!(r#"{{"items":[{{"metadata":{{"name":"a"}},"x":"{}"}}]}}"#, "y".repeat(20_000_000));
    let pieces: Vec<_> = json.as_bytes().chunks(1000).collect();
    let (items, end) = list_all::<Object>("v1 Pod", &pieces);
    assert_eq!(items[0].as_ref().unwrap().text().len(), json.len() - 12 + 31);
    end.unwrap();
}
