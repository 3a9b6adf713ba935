//! From a request to what serves it.

use std::sync::Arc;

use super::answer::{Failure, Outcome, Response};
use super::http::{Request, decode};
use super::kinds::{Kind, NAMESPACES};
use super::server::Server;
use super::store::Key;
use super::watch::{Watch, watch};
use super::{delete, discovery, list, patch, subresource, write};

/// An answer: whole, or a stream.
pub(super) enum Answer {
    Whole(Response),
    Watch(Box<Watch>),
}

/// A request to a resource, as its path says.
pub(super) struct Call<'a> {
    pub(super) server: &'a Server,
    pub(super) kind: Arc<Kind>,
    /// Empty for all namespaces, and for kinds that live in none.
    pub(super) namespace: String,
    /// Empty for a collection.
    pub(super) name: String,
    /// Empty for the object itself.
    pub(super) subresource: String,
}

impl Call<'_> {
    pub(super) fn key(&self) -> Key {
        Key { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        Some(&*self.namespace).filter(|ns| !ns.is_empty())
    }
}

/// Answers a request. Every request comes through here, and nothing else does: the place for what should happen to
/// all or some of them.
pub(super) fn answer(server: &Server, request: &Request) -> Answer {
    let answer = if server.admits(request) { route(server, request) } else { Err(Failure::unauthorized()) };
    answer.unwrap_or_else(|failure| Answer::Whole(failure.into()))
}

fn route(server: &Server, request: &Request) -> Outcome<Answer> {
    let segments: Vec<String> =
        request.path.split('/').filter(|part| !part.is_empty()).map(|part| decode(part, false)).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let no_page = Ok(Answer::Whole(Response::no_page()));
    let (group, version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        path if request.method == "GET" => return Ok(Answer::Whole(discovery::answer(server, path))),
        ["api" | "apis" | "version" | "healthz" | "livez" | "readyz" | "openapi", ..] => {
            return Err(Failure::method_not_allowed());
        }
        _ => return no_page,
    };
    let (namespace, plural, name, subresource) = match *rest {
        ["namespaces", namespace, plural, ref more @ ..]
            if !(more.is_empty() && matches!(plural, "status" | "finalize")) =>
        {
            match *more {
                [] => (namespace, plural, "", ""),
                [name] => (namespace, plural, name, ""),
                [name, subresource] => (namespace, plural, name, subresource),
                _ => return no_page,
            }
        }
        [plural] => ("", plural, "", ""),
        [plural, name] => ("", plural, name, ""),
        [plural, name, subresource] => ("", plural, name, subresource),
        _ => return no_page,
    };
    let Some(kind) = server.state().kind(group, version, plural) else {
        let known = server.state().kinds().iter().any(|kind| kind.group == group && kind.version == version);
        return if known { Err(Failure::no_resource()) } else { no_page };
    };
    // Only the collection of a namespaced kind is there without a namespace.
    if kind.namespaced == namespace.is_empty() && (!kind.namespaced || !name.is_empty()) {
        return Err(Failure::no_resource());
    }
    let call = Call {
        server,
        kind,
        namespace: namespace.into(),
        name: name.into(),
        subresource: subresource.into(),
    };
    serve(&call, request)
}

fn serve(call: &Call<'_>, request: &Request) -> Outcome<Answer> {
    let whole = |response: Outcome<Response>| response.map(Answer::Whole);
    match (&*request.method, &*call.name, &*call.subresource) {
        ("GET", _, "") if request.query.is_true("watch") => {
            Ok(Answer::Watch(Box::new(watch(call, request)?)))
        }
        ("GET", "", _) => whole(list::list(call, request)),
        ("GET", _, "") => whole(list::get(call, request)),
        ("POST", "", _) if call.kind.namespaced && call.namespace.is_empty() => {
            Err(Failure::method_not_allowed())
        }
        ("POST", "", _) => whole(write::post(call, request)),
        ("PUT", name, "") if !name.is_empty() => whole(write::put(call, request)),
        ("PATCH", name, "") if !name.is_empty() => whole(patch::patch(call, request)),
        ("DELETE", "", _) if &*call.kind.table == NAMESPACES => Err(Failure::method_not_allowed()),
        ("DELETE", "", _) => whole(delete::collection(call, request)),
        ("DELETE", _, "") => whole(delete::delete(call, request)),
        ("GET" | "POST" | "PUT" | "PATCH", _, subresource) if !subresource.is_empty() => {
            whole(subresource::serve(call, request))
        }
        _ => Err(Failure::method_not_allowed()),
    }
}
