//! Events: the core group and events.k8s.io serve the same ones, each under its own names of the fields.
//!
//! They are kept as those of the core group (`Convert_v1_Event_To_core_Event` in kube-apiserver's `pkg/apis/events/v1`).
//! Bodies that are written or patched are as their group names the fields; objects of the state are as they are kept.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::object::Time;

use super::kinds::Kind;
use super::table::age;
use super::tree::{Tree, number, text};

/// The fields with two names: that of the core group, that of events.k8s.io.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Where the events of both groups are kept.
pub(super) const EVENTS: &str = "events";

/// Whether a kind is kept under other names than it is shown.
fn is_renamed(kind: &Kind) -> bool {
    &*kind.table == EVENTS && !kind.group.is_empty()
}

/// A kept body as its kind shows it.
pub(super) fn shown<'a>(kind: &Kind, body: &'a Value) -> Cow<'a, Value> {
    match body {
        Value::Object(fields) if is_renamed(kind) => Cow::Owned(rename(fields.clone(), |pair| pair)),
        body => Cow::Borrowed(body),
    }
}

/// A body as it is kept.
pub(super) fn kept(kind: &Kind, body: Value) -> Value {
    match body {
        Value::Object(fields) if is_renamed(kind) => rename(fields, |(core, new)| (new, core)),
        body => body,
    }
}

fn rename<'a>(mut fields: Tree, way: impl Fn((&'a str, &'a str)) -> (&'a str, &'a str)) -> Value {
    for (from, to) in NAMES.map(way) {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.into(), value);
        }
    }
    Value::Object(fields)
}

/// A field that a kind is selected by, as it is kept.
pub(super) fn kept_path<'a>(kind: &Kind, path: &'a str) -> Cow<'a, str> {
    let (first, rest) = path.split_at(path.find('.').unwrap_or(path.len()));
    match NAMES.iter().find(|(_, new)| *new == first) {
        Some((core, _)) if is_renamed(kind) => Cow::Owned(format!("{core}{rest}")),
        _ => Cow::Borrowed(path),
    }
}

/// The columns of their table: (column, type, shown only with `-o wide`), as in `pkg/printers/internalversion`.
pub(super) const COLUMNS: [(&str, &str, bool); 10] = [
    ("Last Seen", "string", false),
    ("Type", "string", false),
    ("Reason", "string", false),
    ("Object", "string", false),
    ("Subobject", "string", true),
    ("Source", "string", true),
    ("Message", "string", false),
    ("First Seen", "string", true),
    ("Count", "integer", true),
    ("Name", "string", true),
];

/// The cells of a kept body's row.
pub(super) fn cells(body: &Value, now: Time) -> Vec<Value> {
    let first_of = |pointers: &[&str]| -> &str {
        pointers.iter().map(|pointer| text(body, pointer)).find(|text| !text.is_empty()).unwrap_or_default()
    };
    let first = first_of(&["/firstTimestamp", "/eventTime"]);
    let last = first_of(&["/series/lastObservedTime", "/lastTimestamp", "/firstTimestamp", "/eventTime"]);
    let count = ["/series/count", "/count"].iter().find_map(|at| number(body, at).filter(|n| *n > 0));
    let kind = text(body, "/involvedObject/kind").to_lowercase();
    let object = match text(body, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = first_of(&["/source/component", "/reportingComponent"]);
    let source = match first_of(&["/source/host", "/reportingInstance"]) {
        "" => component.into(),
        instance => format!("{component}, {instance}"),
    };
    vec![
        age(last, now).into(),
        text(body, "/type").into(),
        text(body, "/reason").into(),
        object.into(),
        text(body, "/involvedObject/fieldPath").into(),
        source.into(),
        text(body, "/message").trim().into(),
        age(first, now).into(),
        json!(count.unwrap_or(1)),
        text(body, "/metadata/name").into(),
    ]
}
