//! Each recorded answer, and what must come of it.

use std::collections::BTreeSet;
use std::path::Path;

use listwatch::object::Packer;
use listwatch::{Error, Object, Resource, Status, WatchEvent};

use crate::{ConfigMap, Pod, http, list_lines, tell_error, tell_object, watch_lines};

const CM: &str = "v1 ConfigMap";

/// File, expected kind, and a line for each event.
const WATCHES: &[(&str, &str, &str)] = &[
    ("watch_bookmark", CM, "BOOKMARK 416"),
    (
        "watch_changes",
        CM,
        "ADDED default/cm-90 276
         MODIFIED default/cm-90 277
         DELETED default/cm-90 278
         DELETED default/cm-6 280
         BOOKMARK 280",
    ),
    ("watch_expired", CM, "error 410 Expired [expired]"),
    (
        "watch_from_empty",
        CM,
        "ADDED default/cm-0 268
         ADDED default/cm-1 269
         ADDED default/cm-2 270
         ADDED default/cm-3 271
         ADDED default/cm-4 272
         ADDED default/cm-5 273",
    ),
    (
        "watch_from_zero",
        CM,
        "ADDED default/cm-0 268
         ADDED default/cm-1 269
         ADDED default/cm-2 270
         ADDED default/cm-3 271
         ADDED default/cm-4 272
         ADDED default/ssa 296
         BOOKMARK 325 end",
    ),
    (
        "watch_list",
        CM,
        "ADDED default/cm-0 268
         ADDED default/cm-1 269
         ADDED default/cm-2 270
         ADDED default/cm-3 271
         ADDED default/cm-4 272
         ADDED default/cm-5 273
         BOOKMARK 283 end",
    ),
    (
        "watch_list_gzip_v1_37",
        CM,
        "ADDED default/big 214
         ADDED default/cm-0 219
         ADDED default/cm-1 220
         ADDED default/cm-2 221
         ADDED default/small 215
         BOOKMARK 221 end
         MODIFIED default/cm-1 222
         BOOKMARK 222",
    ),
    (
        "watch_list_without_bookmarks",
        CM,
        "ADDED default/cm-0 268
         ADDED default/cm-1 269
         ADDED default/cm-2 270
         ADDED default/cm-3 271
         ADDED default/cm-4 272
         ADDED default/cm-5 273",
    ),
    (
        "watch_metadata_only",
        "meta.k8s.io/v1 PartialObjectMetadata",
        "ADDED default/cm-0 268
         ADDED default/cm-1 269
         ADDED default/cm-2 270
         ADDED default/cm-3 271
         ADDED default/cm-4 272
         BOOKMARK 296 end",
    ),
    (
        "watch_metadata_only",
        CM,
        "error: ADDED event: expected v1 ConfigMap, found meta.k8s.io/v1 PartialObjectMetadata
         error: ADDED event: expected v1 ConfigMap, found meta.k8s.io/v1 PartialObjectMetadata
         error: ADDED event: expected v1 ConfigMap, found meta.k8s.io/v1 PartialObjectMetadata
         error: ADDED event: expected v1 ConfigMap, found meta.k8s.io/v1 PartialObjectMetadata
         error: ADDED event: expected v1 ConfigMap, found meta.k8s.io/v1 PartialObjectMetadata
         BOOKMARK 296 end",
    ),
    (
        "watch_pods",
        "v1 Pod",
        "MODIFIED ns-0/app-0-0000000000-00000 20590
         MODIFIED ns-0/app-0-0000000000-00000 20593",
    ),
    ("watch_rv_too_large", CM, ""),
];

/// File, expected kind, and a line for each item and for the list.
const LISTS: &[(&str, &str, &str)] = &[
    (
        "list_configmaps",
        CM,
        "default/cm-0 268
         default/cm-1 269
         default/cm-2 270
         default/cm-3 271
         default/cm-4 272
         default/cm-5 273
         default/cm-6 274
         v1 ConfigMapList 274",
    ),
    (
        "list_rv0",
        CM,
        "default/cm-0 268
         default/cm-1 269
         default/cm-2 270
         default/cm-3 271
         default/cm-4 272
         default/cm-5 273
         default/cm-6 274
         v1 ConfigMapList 274",
    ),
    ("list_empty", CM, "v1 ConfigMapList 274"),
    (
        "list_gzip",
        CM,
        "default/cm-0 268
         default/cm-1 269
         default/cm-2 270
         default/cm-3 271
         default/cm-4 272
         default/cm-big 299
         default/ssa 296
         v1 ConfigMapList 299",
    ),
    (
        "list_metadata_only",
        "meta.k8s.io/v1 PartialObjectMetadata",
        "default/cm-0 268
         default/cm-1 269
         default/cm-2 270
         default/cm-3 271
         default/cm-4 272
         meta.k8s.io/v1 PartialObjectMetadataList 296",
    ),
    (
        "list_metadata_only",
        CM,
        "error: expected a list of v1 ConfigMap, found meta.k8s.io/v1 PartialObjectMetadataList
         error: the list could not be decoded to its end",
    ),
    (
        "list_page_1",
        CM,
        "default/cm-0 268
         default/cm-1 269
         default/cm-2 270
         v1 ConfigMapList 274 continue \
         eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Mjc0LCJzdGFydCI6Ii9jbS0yXHUwMDAwIn0",
    ),
    (
        "list_page_1_no_selector",
        CM,
        "default/cm-0 268
         default/cm-1 269
         v1 ConfigMapList 274 continue \
         eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Mjc0LCJzdGFydCI6Ii9jbS0xXHUwMDAwIn0 remaining 5",
    ),
    (
        "list_page_2",
        CM,
        "default/cm-3 271
         default/cm-4 272
         default/cm-5 273
         v1 ConfigMapList 274 continue \
         eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Mjc0LCJzdGFydCI6Ii9jbS01XHUwMDAwIn0",
    ),
    (
        "list_pods",
        "v1 Pod",
        "ns-0/app-0-0000000000-00000 352
         ns-0/app-0-0000ea6b2c-01940 4232
         ns-0/app-0-0001d4d658-03880 8121
         v1 PodList 20589 continue \
         eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MjA1ODksInN0YXJ0IjoiL25zLTAvYXBwLTAtMDAwMWQ0ZDY1OC0wMzg4MFx1MDAwMCJ9 \
         remaining 9997",
    ),
    (
        "list_table",
        CM,
        "error: expected a list of v1 ConfigMap, found meta.k8s.io/v1 Table
         error: the list could not be decoded to its end",
    ),
    (
        "version",
        CM,
        "error: the response is no list: it has neither items nor the kind of a list
         error: the list could not be decoded to its end",
    ),
    (
        "discovery_api",
        CM,
        "error: expected a list of v1 ConfigMap, found APIVersions
         error: the list could not be decoded to its end",
    ),
    (
        "discovery_core_v1",
        CM,
        "error: expected a list of v1 ConfigMap, found APIResourceList
         error: the list could not be decoded to its end",
    ),
    (
        "discovery_apps_v1",
        CM,
        "error: expected a list of v1 ConfigMap, found v1 APIResourceList
         error: the list could not be decoded to its end",
    ),
    (
        "readyz_verbose",
        CM,
        "error: the response is no list: no JSON object
         error: the list could not be decoded to its end",
    ),
    // A Status in place of the list, if nobody looked at the code.
    (
        "list_forbidden_anonymous",
        CM,
        "error 403 Forbidden [forbidden]
         error: the list could not be decoded to its end",
    ),
    (
        "list_not_acceptable",
        CM,
        "error 406 NotAcceptable
         error: the list could not be decoded to its end",
    ),
];

/// Answers that are a `Status`, or become one.
const STATUSES: &[(&str, &str, &str)] = &[
    (
        "apply_conflict",
        "error 409 Conflict [conflict]",
        "Apply failed with 1 conflict: conflict with \"one\"",
    ),
    (
        "create_already_exists",
        "error 409 AlreadyExists [already_exists]",
        "configmaps \"cm-1\" already exists",
    ),
    ("create_invalid", "error 422 Invalid [invalid]", "ConfigMap \"Bad_Name\" is invalid"),
    ("create_malformed", "error 400 BadRequest", "the object provided is unrecognized"),
    (
        "create_unsupported_media",
        "error 415 UnsupportedMediaType",
        "the body of the request was in an unknown",
    ),
    (
        "delete_precondition_failed",
        "error 409 Conflict [conflict]",
        "Operation cannot be fulfilled on ConfigMap",
    ),
    ("delete_status", "error 200 ", ""),
    ("get_not_found", "error 404 NotFound [not_found]", "configmaps \"absent\" not found"),
    ("json_patch_test_failed", "error 422 Invalid [invalid]", "the server rejected our request"),
    ("lease_bad_microtime", "error 400 BadRequest", "Lease in version \"v1\" cannot be handled"),
    ("lease_zero_duration", "error 422 Invalid [invalid]", "Lease.coordination.k8s.io \"l3\" is invalid"),
    ("list_bad_field_selector", "error 400 BadRequest", "\"spec.nope\" is not a known field selector"),
    ("list_bad_selector", "error 400 BadRequest", "unable to parse requirement"),
    ("list_continue_expired", "error 410 Expired [expired]", "The provided continue parameter is too old"),
    (
        "list_exact_expired",
        "error 410 Expired [expired]",
        "The resourceVersion for the provided list is too old",
    ),
    ("list_forbidden_anonymous", "error 403 Forbidden [forbidden]", "configmaps is forbidden"),
    ("list_not_acceptable", "error 406 NotAcceptable", "406: Not Acceptable"),
    ("list_rv_too_large", "error 504 Timeout [too_large_resource_version] [timeout]", "Timeout: Too large"),
    ("list_unauthorized", "error 401 Unauthorized [unauthorized]", "Unauthorized"),
    ("list_unknown_resource", "error 404  [not_found]", "the server answered 404: 404 page not found"),
    (
        "replace_conflict",
        "error 409 Conflict [conflict]",
        "Operation cannot be fulfilled on configmaps \"cm-1\"",
    ),
    ("watch_list_invalid", "error 422 Invalid [invalid]", "ListOptions.meta.k8s.io \"\" is invalid"),
    ("watch_rv_invalid", "error 500 ", "resourceVersion: Invalid value: \"abc\""),
];

/// Answers that are one object.
const OBJECTS: &[(&str, &str)] = &[
    ("apply_create", "v1 ConfigMap default/ssa 296"),
    ("delete_with_finalizer", "v1 ConfigMap default/cm-fin 294"),
    ("json_patch_last_finalizer", "v1 ConfigMap default/cm-fin 294"),
    ("lease_create", "coordination.k8s.io/v1 Lease default/l 301"),
];

fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// The body in one piece, byte by byte, and in two pieces, cut at every byte or, if it is long, here and there.
fn cuts(body: &[u8]) -> Vec<Vec<&[u8]>> {
    let step = if body.len() < 50_000 { 1 } else { 101 };
    let two = (1..body.len()).step_by(step).map(|at| vec![&body[..at], &body[at..]]);
    [vec![body], body.chunks(1).collect()].into_iter().chain(two).collect()
}

#[test]
fn recorded_watches_in_any_pieces() {
    for (name, types, expected) in WATCHES {
        let response = http::read(name);
        assert_eq!(response.code, 200, "{name}");
        assert_eq!(response.whole, *name != "watch_bookmark", "{name}");
        for pieces in cuts(&response.body) {
            let what = format!(
                "{name} in {} pieces, the first of {:?}",
                pieces.len(),
                pieces.first().map(|p| p.len())
            );
            assert_eq!(watch_lines::<Object>(types, &pieces), lines(expected), "{what}");
            match *types {
                "v1 Pod" => assert_eq!(watch_lines::<Pod>(types, &pieces), lines(expected), "{what}"),
                _ => assert_eq!(watch_lines::<ConfigMap>(types, &pieces), lines(expected), "{what}"),
            }
        }
    }
}

#[test]
fn recorded_lists_in_any_pieces() {
    for (name, types, expected) in LISTS {
        let response = http::read(name);
        assert!(response.whole, "{name}");
        for pieces in cuts(&response.body) {
            let what = format!("{name} in {} pieces, the first of {}", pieces.len(), pieces[0].len());
            assert_eq!(list_lines::<Object>(types, &pieces), lines(expected), "{what}");
            match *types {
                "v1 Pod" => assert_eq!(list_lines::<Pod>(types, &pieces), lines(expected), "{what}"),
                _ => assert_eq!(list_lines::<ConfigMap>(types, &pieces), lines(expected), "{what}"),
            }
        }
    }
}

#[test]
fn recorded_statuses() {
    for (name, expected, message) in STATUSES {
        let response = http::read(name);
        let status = Status::from_body(response.code, &response.body);
        assert!(status.message.starts_with(message), "{name}: {}", status.message);
        assert_eq!(status.is_failure(), *name != "delete_status", "{name}");
        assert_eq!(tell_error(&Error::from(status)), *expected, "{name}");
    }
}

#[test]
fn recorded_details_of_statuses() {
    let status = |name| {
        let response = http::read(name);
        Status::from_body(response.code, &response.body)
    };
    let continues = status("list_continue_expired").metadata.continue_token;
    assert_eq!(continues, "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiY20tMVx1MDAwMCJ9");
    let causes = status("apply_conflict").details.causes;
    assert_eq!((causes[0].reason.as_str(), causes[0].field.as_str()), ("FieldManagerConflict", ".data.a"));
    assert_eq!(status("list_rv_too_large").details.retry_after_seconds, Some(1));
}

#[test]
fn recorded_objects() {
    for (name, expected) in OBJECTS {
        let response = http::read(name);
        let object: Object = serde_json::from_slice(&response.body).unwrap();
        let types = format!("{} {}", object.api_version(), object.kind());
        assert_eq!(format!("{types} {}", tell_object(&object)), *expected, "{name}");
    }
}

#[test]
fn recorded_objects_are_the_same_when_a_cache_packs_them() {
    let mut plain = Vec::new();
    for (name, types, _) in LISTS {
        plain.extend(crate::list_all::<Object>(types, &[&http::read(name).body]).0.into_iter().flatten());
    }
    for (name, types, _) in WATCHES {
        for event in crate::watch_all::<Object>(types, &[&http::read(name).body]).into_iter().flatten() {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                    plain.push(object);
                }
                WatchEvent::Bookmark(_) => {}
            }
        }
    }
    for (name, _) in OBJECTS {
        plain.push(serde_json::from_slice(&http::read(name).body).unwrap());
    }
    // One packer for all of them, often enough to bring it to a dictionary.
    let mut packer = Packer::new();
    let mut pack = |object: &Object| {
        let mut packed = object.clone();
        packed.pack(&mut packer);
        packed
    };
    let kept: Vec<_> = plain.iter().cycle().take(500).map(&mut pack).collect();
    assert!(plain.len() > 50, "{} objects", plain.len());
    for (packed, plain) in kept.iter().zip(plain.iter().cycle()) {
        assert_eq!(packed.text(), plain.text());
        assert_eq!(packed, plain);
        assert_eq!(packed.parse::<serde_json::Value>().unwrap(), plain.parse::<serde_json::Value>().unwrap());
    }
}

#[test]
fn recorded_values_arrive() {
    let text = |body: &[u8]| {
        crate::list_all::<ConfigMap>(CM, &[body]).0.remove(0).unwrap().data.get("text").map(str::to_owned)
    };
    assert_eq!(text(&http::read("list_configmaps").body).as_deref(), Some("line one\nline two — ünïcode ✓"));

    let body = http::read("list_pods").body;
    let pod = crate::list_all::<Pod>("v1 Pod", &[&body]).0.remove(0).unwrap();
    let whole = crate::list_all::<Object>("", &[&body]).0.remove(0).unwrap();
    assert_eq!((whole.api_version(), whole.kind()), ("v1", "Pod"));
    assert_eq!(pod.status.phase, "Running");
    assert_eq!(whole.get_str("/status/phase").as_deref(), Some("Running"));
    assert_eq!(whole.get_str("/spec/nodeName"), Some(pod.spec.node_name));
    assert_eq!(pod.spec.containers.len(), 2);
    assert!(!whole.text().contains("managedFields"));

    // Nothing else is lost: as an independent reader sees it.
    let list: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let mut expected = list["items"][0].clone();
    expected["metadata"].as_object_mut().unwrap().remove("managedFields");
    expected["apiVersion"] = "v1".into();
    expected["kind"] = "Pod".into();
    assert_eq!(whole.parse::<serde_json::Value>().unwrap(), expected);
}

#[test]
fn every_recorded_file_is_looked_at() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire");
    let files: BTreeSet<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".http").map(str::to_owned))
        .collect();
    let known: BTreeSet<_> = (WATCHES.iter().chain(LISTS).chain(STATUSES).map(|case| case.0))
        .chain(OBJECTS.iter().map(|case| case.0))
        .map(str::to_owned)
        .collect();
    assert_eq!(files, known);
}
