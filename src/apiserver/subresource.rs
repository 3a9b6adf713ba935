//! status, scale, and what pods and namespaces have beside.

use std::sync::Arc;

use serde_json::{Value, json};

use super::answer::{Failure, Outcome, Response};
use super::fields::Operation;
use super::gc::Propagation;
use super::http::Request;
use super::kinds::Scale;
use super::list;
use super::patch;
use super::routes::Call;
use super::selector::selector_text;
use super::store::Object;
use super::tree::{at_path, child, plain, set_path, text};
use super::view::write_typed;
use super::write::{self, Options, update};

/// Answers a request to a subresource.
pub(super) fn serve(call: &Call<'_>, request: &Request) -> Outcome<Response> {
    let kind = &*call.kind;
    match (&*call.subresource, &*request.method) {
        ("status", method) if kind.status => match method {
            "GET" => list::get(call, request),
            "PUT" => write::put(call, request),
            "PATCH" => patch::patch(call, request),
            _ => Err(Failure::method_not_allowed()),
        },
        ("scale", method) => {
            let Some(paths) = &kind.scale else { return Err(Failure::no_resource()) };
            scale(call, request, paths, method)
        }
        ("finalize", "PUT") if kind.is_core("namespaces") => write::put(call, request),
        ("log", "GET") if kind.is_core("pods") => {
            existing(call)?;
            log(call, request)
        }
        ("binding", "POST") if kind.is_core("pods") => bind(call, request),
        ("eviction", "POST") if kind.is_core("pods") => evict(call),
        ("log" | "binding" | "eviction", _) if kind.is_core("pods") => Err(Failure::method_not_allowed()),
        _ => Err(Failure::no_resource()),
    }
}

fn existing(call: &Call<'_>) -> Outcome<Arc<Object>> {
    let found = call.server.state().get(&call.kind.table, &call.key());
    found.ok_or_else(|| Failure::not_found(&call.kind, &call.name))
}

fn log(call: &Call<'_>, request: &Request) -> Outcome<Response> {
    let text = call.server.log_of(&call.key());
    let number =
        |name| request.query.number(name).map(|n| n.map(|n| usize::try_from(n).unwrap_or(usize::MAX)));
    let (tail, limit) = (number("tailLines")?, number("limitBytes")?);
    let lines = || text.split_inclusive('\n');
    let skipped = tail.map_or(0, |tail| lines().count().saturating_sub(tail));
    let from = lines().take(skipped).map(str::len).sum();
    let log = &text.as_bytes()[from..];
    Ok(Response::text(200, &log[..limit.unwrap_or(log.len()).min(log.len())]))
}

/// `autoscaling/v1` Scale: the replicas of an object, whatever its kind.
fn scale(call: &Call<'_>, request: &Request, paths: &Scale, method: &str) -> Outcome<Response> {
    let (kind, options) = (&*call.kind, Options::of(request)?);
    let answer = |object: &Object| {
        let mut out = Vec::new();
        write_typed(&mut out, "Scale", "autoscaling/v1", &scale_of(object, paths));
        Response::json(200, out)
    };
    // One lock over reading and writing.
    let mut state = call.server.state();
    let old = state.get(&kind.table, &call.key()).ok_or_else(|| Failure::not_found(kind, &call.name))?;
    let wanted = match method {
        "GET" => return Ok(answer(&old)),
        "PUT" => serde_json::from_slice(&request.body)
            .map_err(|e| Failure::bad_request(format!("the Scale is no JSON: {e}")))?,
        "PATCH" => patch::patch_tree(request, &scale_of(&old, paths))?,
        _ => return Err(Failure::method_not_allowed()),
    };
    let replicas = wanted.pointer("/spec/replicas").cloned().unwrap_or(json!(0));
    if !replicas.as_i64().is_some_and(|n| (0..=i64::from(i32::MAX)).contains(&n)) {
        let why = "must be greater than or equal to 0";
        let cause = super::answer::Cause::invalid("spec.replicas", &plain(&replicas), why);
        return Err(Failure::invalid_named("Scale", "autoscaling", &call.name, vec![cause]));
    }
    let version = text(&wanted, "/metadata/resourceVersion");
    if !version.is_empty() && version != text(&old.body, "/metadata/resourceVersion") {
        return Err(Failure::conflict(kind, &call.name));
    }
    let mut new = old.body.clone();
    set_path(&mut new, &paths.spec, replicas);
    let main = Call {
        server: call.server,
        kind: Arc::clone(&call.kind),
        namespace: call.namespace.clone(),
        name: call.name.clone(),
        subresource: String::new(),
    };
    let object = update(&mut state, &main, &options, &old, new, Operation::Update)?;
    Ok(answer(&object))
}

fn scale_of(object: &Object, paths: &Scale) -> Value {
    let count = |path: &str| at_path(&object.body, path).and_then(Value::as_i64).unwrap_or(0);
    let selector = if paths.selector.is_empty() {
        object.body.pointer("/spec/selector").map(selector_text).unwrap_or_default()
    } else {
        at_path(&object.body, &paths.selector).map(plain).unwrap_or_default()
    };
    let meta = |field: &str| object.body.get("metadata").and_then(|m| m.get(field)).cloned();
    let mut scale = json!({
        "metadata": {},
        "spec": {"replicas": count(&paths.spec)},
        "status": {"replicas": count(&paths.status)},
    });
    if !selector.is_empty() {
        scale["status"]["selector"] = selector.into();
    }
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = meta(field) {
            child(&mut scale, "metadata").insert(field.into(), value);
        }
    }
    scale
}

/// Sets the node of a pod, once.
fn bind(call: &Call<'_>, request: &Request) -> Outcome<Response> {
    let (kind, options) = (&*call.kind, Options::of(request)?);
    let binding: Value = serde_json::from_slice(&request.body)
        .map_err(|e| Failure::bad_request(format!("the Binding is no JSON: {e}")))?;
    let node = text(&binding, "/target/name");
    if node.is_empty() {
        return Err(Failure::bad_request("target.name: Required value"));
    }
    let mut state = call.server.state();
    let old = state.get(&kind.table, &call.key()).ok_or_else(|| Failure::not_found(kind, &call.name))?;
    if !text(&old.body, "/spec/nodeName").is_empty() {
        return Err(Failure::conflict(kind, &call.name));
    }
    let mut new = old.body.clone();
    child(&mut new, "spec").insert("nodeName".into(), node.into());
    update(&mut state, call, &options, &old, new, Operation::Update)?;
    Ok(created())
}

/// Deletes a pod; disruption budgets are not asked.
fn evict(call: &Call<'_>) -> Outcome<Response> {
    existing(call)?;
    let place = (Arc::clone(&call.kind.table), call.key());
    call.server.state().delete(&place, Propagation::Background);
    Ok(created())
}

fn created() -> Response {
    let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}"#;
    Response::json(201, status)
}
