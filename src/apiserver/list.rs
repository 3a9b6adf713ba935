//! Get and list: at a version, in pages.

use std::ops::Bound;
use std::sync::Arc;

use super::answer::{Cause, Failure, Outcome, Response};
use super::http::Request;
use super::routes::Call;
use super::selector::Filter;
use super::store::{Key, Object, Objects};
use super::view::{ListMeta, View};

/// One object.
pub(super) fn get(call: &Call<'_>, request: &Request) -> Outcome<Response> {
    let view = View::of(request)?;
    let state = call.server.state();
    let object =
        state.get(&call.kind.table, &call.key()).ok_or_else(|| Failure::not_found(&call.kind, &call.name))?;
    let now = call.server.now();
    drop(state);
    Ok(Response::json(200, view.object(&call.kind, &object, now)))
}

/// Which version of the table a list shows.
#[derive(Debug, PartialEq, Eq)]
enum At {
    Now,
    Exactly(u64),
}

/// A page to go on with: after this object, at this version.
#[derive(Clone)]
struct Continue {
    /// `None` goes on with what there is now, at the price of consistency.
    version: Option<u64>,
    after: Key,
}

/// The objects that match, at one version, from where the last page ended.
pub(super) fn list(call: &Call<'_>, request: &Request) -> Outcome<Response> {
    let view = View::of(request)?;
    let query = &request.query;
    let filter = Filter::of(call, request)?;
    let page = match query.get("continue") {
        "" => None,
        token => Some(Continue::parse(token)?),
    };
    check_options(request, page.is_some())?;
    let limit = query.number("limit")?.unwrap_or(0) as usize;
    let asked = version_of(query.get("resourceVersion"))?;

    let state = call.server.state();
    let now = call.server.now();
    if let Some(asked) = asked.filter(|asked| *asked > state.version) {
        return Err(Failure::version_too_large(asked, state.version));
    }
    // resourceVersion=0 is served from the real server's watch cache, which knows no pages.
    let limit = if asked == Some(0) { 0 } else { limit };
    let at = match (&page, asked) {
        (Some(Continue { version, .. }), _) => version.map_or(At::Now, At::Exactly),
        (None, Some(asked)) if asked > 0 => match query.get("resourceVersionMatch") {
            "Exact" => At::Exactly(asked),
            "" if limit > 0 => At::Exactly(asked),
            _ => At::Now,
        },
        _ => At::Now,
    };
    let version = if let At::Exactly(version) = at { version } else { state.version };
    let Some(objects) = state.objects_at(&call.kind.table, version) else {
        return Err(match &page {
            Some(page) => {
                Failure::expired(CONTINUE_EXPIRED, Continue { version: None, ..page.clone() }.to_token())
            }
            None => Failure::expired("The resourceVersion for the provided list is too old.", String::new()),
        });
    };
    let (items, meta) = select(&objects, &filter, page.as_ref().map(|p| &p.after), limit, version);
    drop(objects);
    drop(state);
    Ok(Response::json(200, view.list(&call.kind, &meta, &items, now)))
}

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. \
    You can start a new list without the continue parameter, or use the continue token in this response to retrieve \
    the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that \
    were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

fn select(
    objects: &Objects,
    filter: &Filter,
    after: Option<&Key>,
    limit: usize,
    version: u64,
) -> (Vec<Arc<Object>>, ListMeta) {
    let from = match (after, &filter.namespace) {
        (Some(after), _) => Bound::Excluded(after.clone()),
        (None, Some(namespace)) => Bound::Included(Key { namespace: namespace.clone(), name: String::new() }),
        (None, None) => Bound::Unbounded,
    };
    let inside =
        |object: &&Arc<Object>| filter.namespace.as_ref().is_none_or(|ns| *ns == object.key.namespace);
    let mut rest = objects.range((from, Bound::Unbounded)).map(|(_, o)| o).take_while(inside);
    let mut matching = rest.by_ref().filter(|object| filter.matches(object));
    let mut meta = ListMeta { version, ..ListMeta::default() };
    if limit == 0 {
        return (matching.cloned().collect(), meta);
    }
    let items: Vec<_> = matching.by_ref().take(limit).cloned().collect();
    if let (Some(last), Some(_)) = (items.last(), matching.next()) {
        meta.continue_token = Continue { version: Some(version), after: last.key.clone() }.to_token();
        meta.remaining = (!filter.selects()).then(|| 1 + matching.count());
    }
    (items, meta)
}

/// A resourceVersion as a parameter: absent is not asked.
pub(super) fn version_of(text: &str) -> Outcome<Option<u64>> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| Failure::bad_list_version(text))
}

/// The rules of apimachinery's `ValidateListOptions`, for lists.
fn check_options(request: &Request, continues: bool) -> Outcome<()> {
    let query = &request.query;
    let (version, matching) = (query.get("resourceVersion"), query.get("resourceVersionMatch"));
    let why = match matching {
        _ if query.is_true("sendInitialEvents") => {
            let cause = Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
            return Err(Failure::invalid_options("ListOptions", vec![cause]));
        }
        "" if continues && !matches!(version, "" | "0") => {
            return Err(Failure::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        "" => return Ok(()),
        _ if continues => "resourceVersionMatch is forbidden when continue is provided",
        _ if version.is_empty() => "resourceVersionMatch is forbidden unless resourceVersion is provided",
        "Exact" if version == "0" => "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        "Exact" | "NotOlderThan" => return Ok(()),
        other => {
            let quoted = format!("\"{other}\"");
            let allowed = "\"Exact\", \"NotOlderThan\"";
            let cause = Cause::not_supported("resourceVersionMatch", &quoted, allowed);
            return Err(Failure::invalid_options("ListOptions", vec![cause]));
        }
    };
    Err(Failure::invalid_options("ListOptions", vec![Cause::forbidden("resourceVersionMatch", why)]))
}

/// A token is opaque to clients. This one is readable, and has characters that must be encoded in a URL.
impl Continue {
    fn to_token(&self) -> String {
        let version = self.version.map_or("now".into(), |v| v.to_string());
        format!("{version}/{}/{}", self.after.namespace, self.after.name)
    }

    fn parse(token: &str) -> Outcome<Self> {
        let bad = || Failure::bad_request("continue key is not valid");
        let (version, key) = token.split_once('/').ok_or_else(bad)?;
        let (namespace, name) = key.split_once('/').ok_or_else(bad)?;
        let version = match version {
            "now" => None,
            version => Some(version.parse().map_err(|_| bad())?),
        };
        Ok(Self { version, after: Key { namespace: namespace.into(), name: name.into() } })
    }
}
