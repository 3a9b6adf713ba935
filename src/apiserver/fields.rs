//! Who set which field: `metadata.managedFields`.
//!
//! A simplification of structured-merge-diff: fields are kept as sets of leaf paths. A path is written as in FieldsV1
//! with NUL between its steps: `f:spec`, `f:replicas`.
//!
//! In the stored body `fieldsV1` is a text that holds the JSON: as a tree of values it would take several times the
//! memory of the object itself. It is written out as JSON by view.rs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::kinds::Kind;
use super::shape::{ListShape, Shape, key_of};
use super::tree::{Tree, list, metadata, text, tree};

pub(super) type Paths = BTreeSet<String>;
/// The leaves of an object with their values; Null where only the presence counts.
pub(super) type Leaves<'a> = BTreeMap<String, &'a Value>;

/// Between the steps of a path.
pub(super) const STEP: char = '\0';

/// How a write came about.
pub(super) enum Operation {
    Update,
    /// By server-side apply, which works out the owners itself.
    Apply(Vec<Entry>),
}

/// The fields of one manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) manager: String,
    /// `Update` or `Apply`.
    pub(super) operation: String,
    pub(super) api_version: String,
    pub(super) time: String,
    pub(super) subresource: String,
    pub(super) paths: Paths,
}

/// Notes in `new` who set what differs from `old`.
pub(super) fn track(
    kind: &Kind,
    old: Option<&Value>,
    new: &mut Value,
    manager: &str,
    operation: Operation,
    subresource: &str,
    now: &str,
) {
    let entries = match operation {
        Operation::Apply(entries) => entries,
        Operation::Update => {
            let shape = Shape::of(kind);
            let mut before = old.map(|old| leaves(shape, old, true)).unwrap_or_default();
            let mut after = leaves(shape, new, true);
            if kind.status && subresource != "status" {
                // What of the status changes here, the server itself has set.
                before.retain(|path, _| !path.starts_with("f:status"));
                after.retain(|path, _| !path.starts_with("f:status"));
            }
            let changed: Paths = after
                .iter()
                .filter(|(path, value)| before.get(*path) != Some(value))
                .map(|(p, _)| p.clone())
                .collect();
            let removed: Paths = before.keys().filter(|path| !after.contains_key(*path)).cloned().collect();
            if changed.is_empty() && removed.is_empty() {
                return;
            }
            let mut entries = entries_of(new);
            let own =
                |e: &Entry| e.manager == manager && e.operation == "Update" && e.subresource == subresource;
            if !entries.iter().any(own) {
                entries.push(Entry {
                    manager: manager.into(),
                    operation: "Update".into(),
                    api_version: kind.api_version(),
                    time: String::new(),
                    subresource: subresource.into(),
                    paths: Paths::new(),
                });
            }
            for entry in &mut entries {
                let own = own(entry);
                entry.paths.retain(|path| !removed.contains(path) && (own || !changed.contains(path)));
                if own {
                    entry.paths.extend(changed.iter().cloned());
                    entry.time = now.into();
                }
            }
            entries
        }
    };
    write_entries(new, &entries);
}

/// The managers of a body.
pub(super) fn entries_of(body: &Value) -> Vec<Entry> {
    let entry = |value: &Value| Entry {
        manager: text(value, "/manager").into(),
        operation: text(value, "/operation").into(),
        api_version: text(value, "/apiVersion").into(),
        time: text(value, "/time").into(),
        subresource: text(value, "/subresource").into(),
        paths: {
            let mut paths = Paths::new();
            let fields: Value = serde_json::from_str(text(value, "/fieldsV1")).unwrap_or_default();
            read_tree(&fields, &mut String::new(), &mut paths);
            paths
        },
    };
    list(body, "/metadata/managedFields").iter().map(entry).collect()
}

fn write_entries(body: &mut Value, entries: &[Entry]) {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by_key(|entry| (&entry.operation, &entry.time, &entry.manager));
    let written: Vec<Value> = sorted
        .into_iter()
        .filter(|entry| !entry.paths.is_empty())
        .map(|entry| {
            let mut fields = json!({});
            for path in &entry.paths {
                let mut place = &mut fields;
                for step in path.split(STEP) {
                    place = tree(place).entry(step).or_insert_with(|| json!({}));
                }
            }
            let mut value = json!({
                "manager": entry.manager,
                "operation": entry.operation,
                "apiVersion": entry.api_version,
                "time": entry.time,
                "fieldsType": "FieldsV1",
                "fieldsV1": fields.to_string(),
            });
            if !entry.subresource.is_empty() {
                value["subresource"] = entry.subresource.as_str().into();
            }
            value
        })
        .collect();
    let meta = metadata(body);
    if written.is_empty() {
        meta.remove("managedFields");
    } else {
        meta.insert("managedFields".into(), written.into());
    }
}

fn read_tree(fields: &Value, path: &mut String, paths: &mut Paths) {
    let children = fields.as_object().into_iter().flatten();
    let before = path.len();
    let mut leaf = true;
    for (step, below) in children {
        leaf = false;
        push(path, step);
        read_tree(below, path, paths);
        path.truncate(before);
    }
    if leaf && !path.is_empty() {
        paths.insert(path.clone());
    }
}

fn push(path: &mut String, step: &str) {
    if !path.is_empty() {
        path.push(STEP);
    }
    path.push_str(step);
}

/// The leaves of a body, but those that the server sets. With `dots` each map that holds something is told too.
pub(super) fn leaves<'a>(shape: Shape<'_>, body: &'a Value, dots: bool) -> Leaves<'a> {
    let mut found = Leaves::new();
    for (name, value) in body.as_object().into_iter().flatten() {
        match name.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => {
                let mut path = String::from("f:metadata");
                let settable =
                    |name: &str| matches!(name, "labels" | "annotations" | "finalizers" | "ownerReferences");
                for (name, value) in
                    value.as_object().into_iter().flatten().filter(|(name, _)| settable(name))
                {
                    walk(shape.field("metadata").field(name), name, value, &mut path, dots, &mut found);
                }
            }
            name => {
                walk(shape.field(name), name, value, &mut String::new(), dots, &mut found);
            }
        }
    }
    found
}

fn walk<'a>(
    shape: Shape<'_>,
    name: &str,
    value: &'a Value,
    path: &mut String,
    dots: bool,
    found: &mut Leaves<'a>,
) {
    let before = path.len();
    push(path, &format!("f:{name}"));
    inside(shape, name, value, path, dots, found);
    path.truncate(before);
}

fn inside<'a>(
    shape: Shape<'_>,
    name: &str,
    value: &'a Value,
    path: &mut String,
    dots: bool,
    found: &mut Leaves<'a>,
) {
    match value {
        Value::Null => {}
        Value::Object(fields) if !fields.is_empty() && !shape.is_atomic_map(name) => {
            if dots && shape.is_map(name) {
                found.insert(format!("{path}{STEP}."), &Value::Null);
            }
            for (name, value) in fields {
                walk(shape.field(name), name, value, path, dots, found);
            }
        }
        Value::Array(items) if !items.is_empty() => match shape.list(name, items) {
            ListShape::Atomic => drop(found.insert(path.clone(), value)),
            ListShape::Set => {
                if dots {
                    found.insert(format!("{path}{STEP}."), &Value::Null);
                }
                for item in items {
                    found.insert(format!("{path}{STEP}v:{item}"), &Value::Null);
                }
            }
            ListShape::Map(keys) => {
                let before = path.len();
                for item in items {
                    push(path, &item_step(item, &keys));
                    found.insert(format!("{path}{STEP}."), &Value::Null);
                    for (name, value) in item.as_object().into_iter().flatten() {
                        walk(shape.item().field(name), name, value, path, dots, found);
                    }
                    path.truncate(before);
                }
            }
        },
        _ => drop(found.insert(path.clone(), value)),
    }
}

/// The step to an item of a keyed list: `k:{"name":"a"}`.
fn item_step(item: &Value, keys: &[String]) -> String {
    let fields: Tree = keys.iter().cloned().zip(key_of(item, keys)).collect();
    format!("k:{}", Value::Object(fields))
}

/// Takes the field at a path away, and what is empty after that.
pub(super) fn remove(value: &mut Value, path: &str) {
    let (step, rest) = path.split_once(STEP).map_or((path, None), |(step, rest)| (step, Some(rest)));
    match (value, step.split_at_checked(2)) {
        (Value::Object(fields), Some(("f:", name))) => match rest {
            None => drop(fields.remove(name)),
            Some(rest) => {
                let Some(below) = fields.get_mut(name) else { return };
                remove(below, rest);
                let empty = below.as_object().is_some_and(Tree::is_empty)
                    || below.as_array().is_some_and(Vec::is_empty);
                if empty {
                    fields.remove(name);
                }
            }
        },
        (Value::Array(items), Some(("k:", key))) => {
            let Ok(Value::Object(key)) = serde_json::from_str(key) else { return };
            let (names, values): (Vec<_>, Vec<_>) = key.into_iter().unzip();
            let Some(at) = items.iter().position(|item| key_of(item, &names) == values) else { return };
            match rest {
                None | Some(".") => drop(items.remove(at)),
                Some(rest) => remove(&mut items[at], rest),
            }
        }
        (Value::Array(items), Some(("v:", text))) => {
            if let Ok(value) = serde_json::from_str::<Value>(text) {
                items.retain(|item| *item != value);
            }
        }
        _ => {}
    }
}

/// A path as people read it: `.spec.containers[name="a"].image`.
pub(super) fn readable(path: &str) -> String {
    let mut out = String::new();
    for step in path.split(STEP) {
        match step.split_at_checked(2) {
            Some(("f:", name)) => out.push_str(&format!(".{name}")),
            Some(("k:", key)) => {
                let key: Tree = serde_json::from_str(key).unwrap_or_default();
                let parts: Vec<_> = key.iter().map(|(name, value)| format!("{name}={value}")).collect();
                out.push_str(&format!("[{}]", parts.join(",")));
            }
            Some(("v:", value)) => out.push_str(&format!("[={value}]")),
            _ => {}
        }
    }
    out
}
