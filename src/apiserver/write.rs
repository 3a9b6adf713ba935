//! Create and replace, and the rules that every write obeys.

use std::sync::Arc;

use serde_json::Value;

use crate::object::cut;

use super::answer::{Cause, Failure, Outcome, Response};
use super::fields::{self, Operation};
use super::http::Request;
use super::kinds::{CRDS, Kind, NAMESPACES};
use super::routes::Call;
use super::store::{Key, Object, State};
use super::tree::{Tree, metadata, name_suffix, put as put_field, text, uid};
use super::view::View;
use super::{crd, defaults, events, schema};

/// What the query of a write says.
pub(super) struct Options {
    pub(super) manager: String,
    pub(super) dry_run: bool,
    /// Unknown fields are an error, not pruned.
    strict: bool,
}

impl Options {
    pub(super) fn of(request: &Request) -> Outcome<Self> {
        let query = &request.query;
        let dry_run = match query.get("dryRun") {
            "" => false,
            "All" => true,
            other => {
                let cause = Cause::not_supported("dryRun", &format!("\"{other}\""), "\"All\"");
                return Err(Failure::invalid_options("CreateOptions", vec![cause]));
            }
        };
        // Without a fieldManager the program's name stands for it, as in kube-apiserver.
        let program = request.user_agent.split('/').next().unwrap_or_default();
        let manager = match (query.get("fieldManager"), program) {
            ("", "") => "unknown",
            ("", program) => program,
            (manager, _) => manager,
        };
        Ok(Self { manager: manager.into(), dry_run, strict: query.get("fieldValidation") == "Strict" })
    }
}

/// Creates an object.
pub(super) fn post(call: &Call<'_>, request: &Request) -> Outcome<Response> {
    let (view, options) = (View::of(request)?, Options::of(request)?);
    let body = decode(&call.kind, request)?;
    let mut state = call.server.state();
    let object = create(&mut state, &call.kind, &call.namespace, &options, body, Operation::Update)?;
    let now = call.server.now();
    drop(state);
    Ok(Response::json(201, view.object(&call.kind, &object, now)))
}

/// Replaces an object.
pub(super) fn put(call: &Call<'_>, request: &Request) -> Outcome<Response> {
    let (view, options) = (View::of(request)?, Options::of(request)?);
    let body = decode(&call.kind, request)?;
    check_url_name(call, &body)?;
    let mut state = call.server.state();
    let old =
        state.get(&call.kind.table, &call.key()).ok_or_else(|| Failure::not_found(&call.kind, &call.name))?;
    let unconditional = call.kind.custom.is_none() && &*call.kind.table != "leases.coordination.k8s.io";
    if text(&body, "/metadata/resourceVersion").is_empty() && !unconditional {
        let cause = Cause::invalid("metadata.resourceVersion", "0", "must be specified for an update");
        // As the real one: this names the plural where others name the kind.
        return Err(Failure::invalid_named(&call.kind.plural, &call.kind.group, &call.name, vec![cause]));
    }
    let object = update(&mut state, call, &options, &old, body, Operation::Update)?;
    let now = call.server.now();
    drop(state);
    Ok(Response::json(200, view.object(&call.kind, &object, now)))
}

/// A body that is put under a name must say so.
pub(super) fn check_url_name(call: &Call<'_>, body: &Value) -> Outcome<()> {
    let (said, asked) = (text(body, "/metadata/name"), &call.name);
    if said == *asked {
        return Ok(());
    }
    Err(Failure::bad_request(match said.is_empty() {
        true => {
            format!("the name of the object ({asked} based on URL) was undeterminable: name must be provided")
        }
        false => format!("the name of the object ({said}) does not match the name on the URL ({asked})"),
    }))
}

/// The object in a request's body, without apiVersion and kind, which are checked.
pub(super) fn decode(kind: &Kind, request: &Request) -> Outcome<Value> {
    let media = request.content_type.split(';').next().unwrap_or_default().trim();
    match media {
        "" | "application/json" => {}
        "application/vnd.kubernetes.protobuf" => return Err(Failure::protobuf()),
        _ => return Err(Failure::unsupported_media("application/json")),
    }
    let mut body: Value = serde_json::from_slice(&request.body).map_err(|e| {
        let start: String = String::from_utf8_lossy(&request.body).chars().take(100).collect();
        Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: \
             {e} ({start})",
            kind.kind
        ))
    })?;
    strip_type(kind, &mut body)?;
    Ok(body)
}

/// Takes apiVersion and kind off, and checks them. Built-in kinds may leave them out.
pub(super) fn strip_type(kind: &Kind, body: &mut Value) -> Outcome<()> {
    let expected = kind.api_version();
    let Value::Object(tree) = body else {
        return Err(Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): it is no object",
            kind.kind
        )));
    };
    for (field, wanted) in [("apiVersion", &*expected), ("kind", &*kind.kind)] {
        match tree.remove(field) {
            None if kind.custom.is_none() => {}
            Some(Value::String(found)) if found == wanted => {}
            Some(Value::String(found)) if field == "kind" && !found.is_empty() => {
                return Err(Failure::bad_request(format!(
                    "{found} in version \"{expected}\" cannot be handled as a {wanted}: the kinds differ"
                )));
            }
            Some(Value::String(found)) if !found.is_empty() => {
                return Err(Failure::bad_request(format!(
                    "the API version in the data ({found}) does not match the expected API version ({expected})"
                )));
            }
            _ => return Err(Failure::bad_request(format!("Object '{field}' is missing"))),
        }
    }
    if !tree.get("metadata").is_none_or(|m| m.is_object() || m.is_null()) {
        return Err(Failure::bad_request(format!(
            "{} in version \"{expected}\" cannot be handled as a {}: metadata is no object",
            kind.kind, kind.kind
        )));
    }
    metadata(body);
    Ok(())
}

/// Creates an object in a namespace, empty for kinds that live in none.
pub(super) fn create(
    state: &mut State,
    kind: &Kind,
    namespace: &str,
    options: &Options,
    mut body: Value,
    operation: Operation,
) -> Outcome<Arc<Object>> {
    place(kind, namespace, &mut body)?;
    if text(&body, "/metadata/name").is_empty() {
        let prefix = text(&body, "/metadata/generateName");
        if prefix.is_empty() {
            let cause = Cause::required("metadata.name", "name or generateName is required");
            return Err(Failure::invalid(kind, "", vec![cause]));
        }
        // 63 is the longest name of a label; the suffix has 5 letters.
        let name = format!("{}{}", cut(prefix, 58).0, name_suffix());
        metadata(&mut body).insert("name".into(), name.into());
    }
    let name = text(&body, "/metadata/name").to_string();
    check_namespace(state, kind, namespace, &name)?;
    if !matches!(text(&body, "/metadata/resourceVersion"), "" | "0") {
        return Err(Failure::internal("resourceVersion should not be set on objects to be created"));
    }
    let now = state.now();
    let meta = metadata(&mut body);
    for field in
        ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"]
    {
        meta.remove(field);
    }
    meta.insert("uid".into(), uid().into());
    meta.insert("creationTimestamp".into(), now.clone().into());
    put_field(meta, "generation", kind.generation.then(|| 1.into()));
    drop_nulls(&mut body);
    if kind.status && kind.custom.is_some() {
        if let Value::Object(tree) = &mut body {
            tree.remove("status");
        }
    }
    let key = Key { namespace: namespace.into(), name };
    prune(kind, options, &mut body)?;
    defaults::fill(kind, &mut body);
    validate(kind, &key.name, &body)?;
    let new_kinds = if &*kind.table == CRDS { Some(crd::accept(&mut body, &now)?) } else { None };
    if new_kinds.is_some() && state.kind_of(&key.name).is_some_and(|kind| kind.custom.is_none()) {
        let why = "the server has a resource of this name";
        let cause = Cause::invalid("metadata.name", &format!("\"{}\"", key.name), why);
        return Err(Failure::invalid(kind, &key.name, vec![cause]));
    }
    fields::track(kind, None, &mut body, &options.manager, operation, "", &now);
    if state.get(&kind.table, &key).is_some() {
        return Err(Failure::already_exists(kind, &key.name));
    }
    let body = events::kept(kind, body);
    if options.dry_run {
        return Ok(Arc::new(Object { key, body }));
    }
    if let Some(kinds) = new_kinds {
        state.set_kinds(&key.name, kinds);
    }
    let object = state.store(&kind.table, key, body);
    state.collect_if_orphaned(&kind.table, &object);
    Ok(object)
}

/// Replaces `old` by `new` as far as the subresource of the call may; writes nothing if that changes nothing.
///
/// An object that is being deleted and has no finalizer left is removed.
pub(super) fn update(
    state: &mut State,
    call: &Call<'_>,
    options: &Options,
    old: &Arc<Object>,
    mut new: Value,
    operation: Operation,
) -> Outcome<Arc<Object>> {
    let (kind, name) = (&*call.kind, &*old.key.name);
    place(kind, &old.key.namespace, &mut new)?;
    let sent_name = text(&new, "/metadata/name");
    if !sent_name.is_empty() && sent_name != name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({sent_name}) does not match the name on the URL ({name})"
        )));
    }
    let sent_uid = text(&new, "/metadata/uid");
    if !sent_uid.is_empty() && sent_uid != text(&old.body, "/metadata/uid") {
        let record = text(&old.body, "/metadata/uid");
        return Err(Failure::other_uid(kind, name, sent_uid, record));
    }
    let sent_version = text(&new, "/metadata/resourceVersion");
    if !matches!(sent_version, "" | "0") && sent_version != text(&old.body, "/metadata/resourceVersion") {
        return Err(Failure::conflict(kind, name));
    }
    keep_what_is_the_servers(kind, &call.subresource, &old.body, &mut new);
    drop_nulls(&mut new);
    prune(kind, options, &mut new)?;
    defaults::fill(kind, &mut new);
    if !text(&old.body, "/metadata/deletionTimestamp").is_empty() {
        forbid_new_finalizers(kind, name, &old.body, &new)?;
    }
    validate(kind, name, &new)?;
    let now = state.now();
    let new_kinds = if &*kind.table == CRDS { Some(crd::accept(&mut new, &now)?) } else { None };
    if kind.generation && spec_changed(kind, &old.body, &new) {
        let generation = old.body.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
        metadata(&mut new).insert("generation".into(), (generation + 1).into());
    }
    let before = events::shown(kind, &old.body);
    fields::track(kind, Some(&before), &mut new, &options.manager, operation, &call.subresource, &now);
    if new == *before {
        return Ok(Arc::clone(old));
    }
    let new = events::kept(kind, new);
    if options.dry_run {
        return Ok(Arc::new(Object { key: old.key.clone(), body: new }));
    }
    if let Some(kinds) = new_kinds {
        state.set_kinds(name, kinds);
    }
    if state.is_released(&kind.table, &new) {
        // As the real one: answers the object as it was left, under its last version.
        let object = Arc::new(Object { key: old.key.clone(), body: new });
        state.remove(&kind.table, &old.key);
        state.settle();
        return Ok(object);
    }
    let object = state.store(&kind.table, old.key.clone(), new);
    state.collect_if_orphaned(&kind.table, &object);
    state.settle();
    Ok(object)
}

/// Checks the namespace that a body names, or fills it in.
fn place(kind: &Kind, namespace: &str, body: &mut Value) -> Outcome<()> {
    let meta = metadata(body);
    if !kind.namespaced {
        meta.remove("namespace");
        return Ok(());
    }
    match meta.get("namespace").and_then(Value::as_str) {
        None | Some("") => drop(meta.insert("namespace".into(), namespace.into())),
        Some(found) if found == namespace => {}
        Some(_) => {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    }
    Ok(())
}

fn check_namespace(state: &State, kind: &Kind, namespace: &str, name: &str) -> Outcome<()> {
    if !kind.namespaced {
        return Ok(());
    }
    let key = Key { namespace: String::new(), name: namespace.into() };
    let Some(found) = state.get(NAMESPACES, &key) else {
        return Err(match state.kind_of(NAMESPACES) {
            Some(namespaces) => Failure::not_found(&namespaces, namespace),
            None => Failure::no_resource(),
        });
    };
    if !text(&found.body, "/metadata/deletionTimestamp").is_empty() {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        return Err(Failure::forbidden(kind, name, &why).terminating(namespace));
    }
    Ok(())
}

/// Puts back what a client cannot change: the server's part of the metadata, and the spec or the status.
fn keep_what_is_the_servers(kind: &Kind, subresource: &str, old: &Value, new: &mut Value) {
    let status_only = subresource == "status";
    if status_only {
        let status = new.get("status").cloned();
        *new = old.clone();
        put_field(super::tree::tree(new), "status", status);
    } else if kind.status {
        put_field(super::tree::tree(new), "status", old.get("status").cloned());
    }
    let meta = metadata(new);
    const KEPT: [&str; 9] = [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
    ];
    for field in KEPT {
        put_field(meta, field, old.get("metadata").and_then(|m| m.get(field)).cloned());
    }
    meta.remove("selfLink");
}

/// A null is the same as an absent field, at the top of an object and in its metadata.
fn drop_nulls(body: &mut Value) {
    fn within(tree: &mut Tree) {
        tree.retain(|_, value| !value.is_null());
    }
    within(metadata(body));
    if let Value::Object(tree) = body {
        within(tree);
    }
}

fn prune(kind: &Kind, options: &Options, body: &mut Value) -> Outcome<()> {
    let Some(custom) = &kind.custom else { return Ok(()) };
    let mut unknown = Vec::new();
    schema::prune(&custom.schema, body, &mut unknown);
    if options.strict && !unknown.is_empty() {
        let texts: Vec<_> = unknown.iter().map(|field| format!("unknown field \"{field}\"")).collect();
        return Err(Failure::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
            kind.kind,
            kind.version,
            kind.kind,
            texts.join(", ")
        )));
    }
    schema::fill_defaults(&custom.schema, body);
    Ok(())
}

fn forbid_new_finalizers(kind: &Kind, name: &str, old: &Value, new: &Value) -> Outcome<()> {
    let of = |body: &Value| -> Vec<Value> { super::tree::list(body, "/metadata/finalizers").to_vec() };
    let before = of(old);
    if of(new).iter().all(|finalizer| before.contains(finalizer)) {
        return Ok(());
    }
    let why = "no new finalizers can be added if the object is being deleted";
    Err(Failure::invalid(kind, name, vec![Cause::forbidden("metadata.finalizers", why)]))
}

fn spec_changed(kind: &Kind, old: &Value, new: &Value) -> bool {
    let counted = |body: &Value| -> Tree {
        let fields = body.as_object().into_iter().flatten();
        let counts = |name: &str| name != "metadata" && !(kind.status && name == "status");
        fields.filter(|(name, _)| counts(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    counted(old) != counted(new)
}

fn validate(kind: &Kind, name: &str, body: &Value) -> Outcome<()> {
    let mut causes: Vec<Cause> = check_name(kind, name).into_iter().collect();
    if &*kind.table == "leases.coordination.k8s.io" {
        defaults::check_lease(body, &mut causes)?;
    }
    if let Some(custom) = &kind.custom {
        schema::check(&custom.schema, body, "", &mut causes);
    }
    for (field, what) in [("labels", "metadata.labels"), ("annotations", "metadata.annotations")] {
        let entries = body.get("metadata").and_then(|m| m.get(field)?.as_object()).into_iter().flatten();
        if let Some((key, value)) = entries.into_iter().find(|(_, value)| !value.is_string()) {
            return Err(Failure::bad_request(format!(
                "{} in version \"{}\" cannot be handled as a {}: json: cannot unmarshal {value} into Go struct field \
                 ObjectMeta.{what} of type string ({key})",
                kind.kind, kind.version, kind.kind
            )));
        }
    }
    if causes.is_empty() { Ok(()) } else { Err(Failure::invalid(kind, name, causes)) }
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

fn check_name(kind: &Kind, name: &str) -> Option<Cause> {
    let is_label = |text: &str| {
        let bytes = text.as_bytes();
        let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
        bytes.iter().all(inner) && !matches!(bytes, [] | [b'-', ..] | [.., b'-'])
    };
    let why = if kind.group.starts_with("rbac.") {
        (matches!(name, "." | "..") || name.contains(['/', '%']))
            .then_some("may not be '.' or '..' or contain '/' or '%'")
    } else if kind.is_core("namespaces") || kind.is_core("services") {
        if name.len() > 63 {
            Some("must be no more than 63 characters")
        } else {
            (!is_label(name)).then_some(LABEL)
        }
    } else if name.len() > 253 {
        Some("must be no more than 253 characters")
    } else {
        (!name.split('.').all(is_label)).then_some(SUBDOMAIN)
    };
    why.map(|why| Cause::invalid("metadata.name", &format!("\"{name}\""), why))
}
