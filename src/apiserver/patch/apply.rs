//! Server-side apply: what a manager says of an object is merged into it, what it no longer says is taken away, and
//! what another manager says differently is a conflict.

use std::sync::Arc;

use serde_json::Value;

use super::super::answer::{Cause, Failure, Outcome};
use super::super::events::shown;
use super::super::fields::{self, Entry, Operation, Paths, STEP, entries_of, leaves, readable};
use super::super::http::Request;
use super::super::routes::Call;
use super::super::shape::{ListShape, Shape, key_of};
use super::super::store::{Object, State};
use super::super::tree::{Tree, metadata};
use super::super::write::{Options, check_url_name, create, strip_type, update};

/// Applies a configuration; creates the object if there is none.
pub(super) fn apply(
    state: &mut State,
    call: &Call<'_>,
    request: &Request,
    options: &Options,
    mut config: Value,
) -> Outcome<(u16, Arc<Object>)> {
    let kind = &*call.kind;
    let manager = request.query.get("fieldManager");
    if manager.is_empty() {
        let cause = Cause::required("fieldManager", "is required for apply patch");
        return Err(Failure::invalid_options("PatchOptions", vec![cause]));
    }
    if config.get("apiVersion").is_none() || config.get("kind").is_none() {
        return Err(Failure::bad_request(
            "invalid object type: apiVersion and kind must be set in an apply patch",
        ));
    }
    strip_type(kind, &mut config)?;
    if config.pointer("/metadata/managedFields").is_some_and(|m| m.as_array().is_none_or(|m| !m.is_empty())) {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    check_url_name(call, &config)?;
    let meta = metadata(&mut config);
    meta.insert("name".into(), call.name.clone().into());
    without_nulls(&mut config);
    // What this endpoint does not write becomes nobody's: `GetResetFields` of kube-apiserver's strategies.
    if let Some(fields) = config.as_object_mut() {
        match &*call.subresource {
            "" if kind.status => drop(fields.remove("status")),
            "status" => fields.retain(|name, _| name == "metadata" || name == "status"),
            _ => {}
        }
    }

    let shape = Shape::of(kind);
    let said = leaves(shape, &config, false);
    let own_paths: Paths = said.keys().cloned().collect();
    let now = state.now();
    let own = |e: &Entry| e.manager == manager && e.operation == "Apply" && e.subresource == call.subresource;
    let entry = Entry {
        manager: manager.into(),
        operation: "Apply".into(),
        api_version: kind.api_version(),
        time: now.clone(),
        subresource: call.subresource.clone(),
        paths: own_paths.clone(),
    };
    let Some(old) = state.get(&kind.table, &call.key()) else {
        if !call.subresource.is_empty() {
            return Err(Failure::not_found(kind, &call.name));
        }
        let operation = Operation::Apply(vec![entry]);
        return Ok((201, create(state, kind, &call.namespace, options, config, operation)?));
    };

    let mut entries = entries_of(&old.body);
    let before = shown(kind, &old.body);
    let live = leaves(shape, &before, false);
    let differs = |path: &String| live.get(path) != said.get(path) && live.contains_key(path);
    let forced = request.query.is_true("force");
    let mut conflicts = Vec::new();
    for other in entries.iter_mut().filter(|e| !own(e)) {
        let contested: Vec<String> =
            other.paths.intersection(&own_paths).filter(|p| differs(p)).cloned().collect();
        if forced {
            other.paths.retain(|path| !contested.contains(path));
        } else {
            let who = if other.operation == "Update" {
                format!("\"{}\" using {}", other.manager, other.api_version)
            } else {
                format!("\"{}\"", other.manager)
            };
            conflicts.extend(contested.iter().map(|path| (who.clone(), readable(path))));
        }
    }
    if !conflicts.is_empty() {
        return Err(Failure::apply_conflict(conflicts));
    }

    let mut new = before.clone().into_owned();
    merge(shape, "", &mut new, &config);
    let dropped = entries.iter().find(|e| own(e)).map(|e| e.paths.clone()).unwrap_or_default();
    let kept_by_others = |path: &str| {
        // Of an item of a list, any field keeps the item.
        let prefix = path.strip_suffix(&format!("{STEP}.")).map(|item| format!("{item}{STEP}"));
        entries.iter().filter(|e| !own(e)).any(|e| match &prefix {
            Some(prefix) => e.paths.iter().any(|p| p.starts_with(prefix)),
            None => e.paths.contains(path),
        })
    };
    // From the end: what is within an item before the item.
    for path in dropped.difference(&own_paths).collect::<Vec<_>>().into_iter().rev() {
        if !kept_by_others(path) {
            fields::remove(&mut new, path);
        }
    }
    match entries.iter_mut().find(|e| own(e)) {
        Some(before) if before.paths == own_paths => {}
        Some(before) => *before = entry,
        None => entries.push(entry),
    }
    Ok((200, update(state, call, options, &old, new, Operation::Apply(entries))?))
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// Merges what is said into what is there.
fn merge(shape: Shape<'_>, name: &str, live: &mut Value, said: &Value) {
    match (live, said) {
        (Value::Object(live), Value::Object(said)) if !shape.is_atomic_map(name) => {
            merge_map(shape, live, said)
        }
        (Value::Array(live), Value::Array(said)) => {
            let both: Vec<Value> = live.iter().chain(said).cloned().collect();
            match shape.list(name, &both) {
                ListShape::Atomic => live.clone_from(said),
                ListShape::Set => {
                    let new: Vec<_> = said.iter().filter(|item| !live.contains(item)).cloned().collect();
                    live.extend(new);
                }
                ListShape::Map(keys) => {
                    for item in said {
                        let key = key_of(item, &keys);
                        match live.iter_mut().find(|other| key_of(other, &keys) == key) {
                            Some(other) => merge(shape.item(), "", other, item),
                            None => live.push(item.clone()),
                        }
                    }
                }
            }
        }
        (live, said) => live.clone_from(said),
    }
}

fn merge_map(shape: Shape<'_>, live: &mut Tree, said: &Tree) {
    for (name, value) in said {
        match live.get_mut(name) {
            Some(live) => merge(shape.field(name), name, live, value),
            None => drop(live.insert(name.clone(), value.clone())),
        }
    }
}
