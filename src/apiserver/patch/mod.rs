//! Patches: JSON (RFC 6902), merge (RFC 7386), strategic merge, and server-side apply.

mod apply;
mod json;
mod merge;
mod strategic;

use serde_json::Value;

use super::answer::{Cause, Failure, Outcome, Response};
use super::events::shown;
use super::fields::Operation;
use super::http::Request;
use super::routes::Call;
use super::tree::depth;
use super::view::View;
use super::write::{Options, strip_type, update};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Objects do not get deeper by patches than the parser would let them come in.
const DEEPEST: usize = 120;

/// Patches an object, or its status.
pub(super) fn patch(call: &Call<'_>, request: &Request) -> Outcome<Response> {
    let (view, options) = (View::of(request)?, Options::of(request)?);
    let media = media_of(call.kind.custom.is_some(), request)?;
    if media != APPLY && request.query.is_true("force") {
        let cause = Cause::forbidden("force", "may not be specified for non-apply patch");
        return Err(Failure::invalid_options("PatchOptions", vec![cause]));
    }
    let patch = body_of(media, request)?;
    let mut state = call.server.state();
    let (code, object) = if media == APPLY {
        apply::apply(&mut state, call, request, &options, patch)?
    } else {
        let old = state
            .get(&call.kind.table, &call.key())
            .ok_or_else(|| Failure::not_found(&call.kind, &call.name))?;
        let patched = patched(call, media, &shown(&call.kind, &old.body), patch)?;
        (200, update(&mut state, call, &options, &old, patched, Operation::Update)?)
    };
    let now = call.server.now();
    drop(state);
    Ok(Response::json(code, view.object(&call.kind, &object, now)))
}

/// Applies a patch of a whole document to a tree that is no object of its own, as a Scale.
pub(super) fn patch_tree(request: &Request, value: &Value) -> Outcome<Value> {
    let media = media_of(false, request)?;
    let patch = body_of(media, request)?;
    apply_to(media, value.clone(), patch)
}

fn media_of(custom: bool, request: &Request) -> Outcome<&'static str> {
    let media = request.content_type.split(';').next().unwrap_or_default().trim();
    match [JSON, MERGE, STRATEGIC, APPLY].into_iter().find(|known| *known == media) {
        Some(STRATEGIC) if custom => Err(Failure::unsupported_media(&[JSON, MERGE, APPLY].join(", "))),
        known => known.ok_or_else(Failure::unsupported_patch),
    }
}

fn body_of(media: &str, request: &Request) -> Outcome<Value> {
    serde_json::from_slice(&request.body).map_err(|e| {
        let hint = if media == APPLY { " (this server reads no YAML, send JSON)" } else { "" };
        Failure::bad_request(format!("error decoding patch: {e}{hint}"))
    })
}

/// What becomes of a body.
fn patched(call: &Call<'_>, media: &str, old: &Value, patch: Value) -> Outcome<Value> {
    let mut whole = old.clone();
    // Patches see the type too, and may test it.
    super::tree::tree(&mut whole).insert("apiVersion".into(), call.kind.api_version().into());
    super::tree::tree(&mut whole).insert("kind".into(), call.kind.kind.clone().into());
    let mut new = apply_to(media, whole, patch)?;
    strip_type(&call.kind, &mut new)?;
    Ok(new)
}

fn apply_to(media: &str, mut value: Value, patch: Value) -> Outcome<Value> {
    match media {
        JSON => json::apply(&mut value, &patch)?,
        STRATEGIC => strategic::merge(&mut value, patch)?,
        _ => merge::merge(&mut value, patch),
    }
    if depth(&value) > DEEPEST {
        return Err(Failure::bad_request("the patched object is too deep"));
    }
    Ok(value)
}
