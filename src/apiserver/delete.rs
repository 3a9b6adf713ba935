//! Delete of one object and of a collection.

use std::sync::Arc;

use serde_json::Value;

use super::answer::{Failure, Outcome, Response, success};
use super::gc::Propagation;
use super::http::Request;
use super::kinds::Kind;
use super::list::version_of;
use super::routes::Call;
use super::selector::Filter;
use super::store::{Object, Place};
use super::tree::{metadata, text};
use super::view::{ListMeta, View};

/// `DeleteOptions`: from the body, else from the query.
struct Options {
    propagation: Propagation,
    uid: String,
    version: String,
    dry_run: bool,
}

impl Options {
    fn of(request: &Request) -> Outcome<Self> {
        let body: Value = if request.body.trim_ascii().is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&request.body)
                .map_err(|e| Failure::bad_request(format!("the delete options are no JSON: {e}")))?
        };
        let query = &request.query;
        let policy = match text(&body, "/propagationPolicy") {
            "" => query.get("propagationPolicy"),
            policy => policy,
        };
        let orphans =
            body.get("orphanDependents") == Some(&Value::Bool(true)) || query.is_true("orphanDependents");
        let propagation = match policy {
            "" if orphans => Propagation::Orphan,
            "" | "Background" => Propagation::Background,
            "Foreground" => Propagation::Foreground,
            "Orphan" => Propagation::Orphan,
            other => {
                return Err(Failure::bad_request(format!("propagationPolicy: invalid value \"{other}\"")));
            }
        };
        Ok(Self {
            propagation,
            uid: text(&body, "/preconditions/uid").into(),
            version: text(&body, "/preconditions/resourceVersion").into(),
            dry_run: query.get("dryRun") == "All" || body.pointer("/dryRun/0") == Some(&"All".into()),
        })
    }

    fn check(&self, kind: &Kind, object: &Object) -> Outcome<()> {
        for (what, wanted, found) in [
            ("UID", &self.uid, text(&object.body, "/metadata/uid")),
            ("ResourceVersion", &self.version, text(&object.body, "/metadata/resourceVersion")),
        ] {
            if !wanted.is_empty() && wanted != found {
                return Err(Failure::precondition(kind, &object.key.name, what, wanted, found));
            }
        }
        Ok(())
    }
}

/// Deletes an object: answers it if it has to wait for finalizers, else that it succeeded.
pub(super) fn delete(call: &Call<'_>, request: &Request) -> Outcome<Response> {
    let (view, options) = (View::of(request)?, Options::of(request)?);
    let kind = &call.kind;
    let mut state = call.server.state();
    let object = state.get(&kind.table, &call.key()).ok_or_else(|| Failure::not_found(kind, &call.name))?;
    options.check(kind, &object)?;
    if kind.is_core("namespaces") && matches!(&*call.name, "default" | "kube-system") {
        return Err(Failure::forbidden(kind, &call.name, "this namespace may not be deleted"));
    }
    let place: Place = (Arc::clone(&kind.table), call.key());
    let waiting = if options.dry_run { None } else { state.delete(&place, options.propagation) };
    let (now, timestamp) = (call.server.now(), state.now());
    drop(state);
    Ok(match waiting.or_else(|| deleted(kind, &object, timestamp)) {
        Some(object) => Response::json(200, view.object(kind, &object, now)),
        None => Response::json(200, success(kind, &call.name, text(&object.body, "/metadata/uid"))),
    })
}

/// The few kinds of which a delete answers the object that it deleted.
fn deleted(kind: &Kind, object: &Object, now: String) -> Option<Arc<Object>> {
    let mut body = object.body.clone();
    match kind.id() {
        "services" | "serviceaccounts" => {}
        "pods" => {
            let meta = metadata(&mut body);
            meta.insert("deletionTimestamp".into(), now.into());
            meta.insert("deletionGracePeriodSeconds".into(), 0.into());
        }
        _ => return None,
    }
    Some(Arc::new(Object { key: object.key.clone(), body }))
}

/// Deletes all objects that match, and answers the list of them.
pub(super) fn collection(call: &Call<'_>, request: &Request) -> Outcome<Response> {
    let (view, options) = (View::of(request)?, Options::of(request)?);
    let kind = &call.kind;
    let filter = Filter::of(call, request)?;
    let asked = version_of(request.query.get("resourceVersion"))?;
    let mut state = call.server.state();
    if let Some(asked) = asked.filter(|asked| *asked > state.version) {
        return Err(Failure::version_too_large(asked, state.version));
    }
    let matching: Vec<_> =
        state.objects(&kind.table).values().filter(|o| filter.matches(o)).cloned().collect();
    for object in matching.iter().filter(|_| !options.dry_run) {
        state.delete(&(Arc::clone(&kind.table), object.key.clone()), options.propagation);
    }
    let meta = ListMeta { version: state.version, ..ListMeta::default() };
    let now = call.server.now();
    drop(state);
    Ok(Response::json(200, view.list(kind, &meta, &matching, now)))
}
