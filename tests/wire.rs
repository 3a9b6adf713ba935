//! The decoders of `listwatch::wire`, seen from outside.
//!
//! - `recorded`: every answer of a real kube-apiserver in `tests/wire/*.http`, whole and cut at each byte
//! - `watch`: what servers and broken connections can send in a watch
//! - `list`: the shapes of lists
//!
//! `http` reads the recorded files, on its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "wire/http.rs"]
mod http;
#[path = "wire/list.rs"]
mod list;
#[path = "wire/recorded.rs"]
mod recorded;
#[path = "wire/watch.rs"]
mod watch;

use listwatch::wire::{Expect, ListDecoder, WatchDecoder};
use listwatch::{ApiResource, Error, Map, ObjectMeta, Resource, Scope, WatchEvent, resource};
use serde::{Deserialize, Serialize};

/// The part of a ConfigMap that a program may want.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ConfigMap {
    metadata: ObjectMeta,
    #[serde(default)]
    data: Map,
}
resource!(ConfigMap: "v1", "ConfigMap", "configmaps", namespaced);

/// The part of a Pod that a program may want.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Pod {
    metadata: ObjectMeta,
    spec: PodSpec,
    status: PodStatus,
}
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: String,
    priority: i32,
    containers: Vec<Container>,
}
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Container {
    name: String,
}
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: String,
}
resource!(Pod: "v1", "Pod", "pods", namespaced);

/// `v1 ConfigMap`, or nothing for any kind.
fn expect(types: &str) -> Expect {
    types.split_once(' ').map_or_else(Expect::any, |(api_version, kind)| {
        Expect::from(&ApiResource::dynamic(api_version, kind, "", Scope::Namespaced))
    })
}

/// All that comes of a watch, one line for each event and error.
fn watch_lines<K: Resource>(types: &str, pieces: &[&[u8]]) -> Vec<String> {
    watch_all::<K>(types, pieces).iter().map(tell_event).collect()
}

fn watch_all<K: Resource>(types: &str, pieces: &[&[u8]]) -> Vec<Result<WatchEvent<K>, Error>> {
    let mut decoder = WatchDecoder::new(expect(types));
    let mut all = Vec::new();
    for piece in pieces {
        decoder.feed(piece);
        all.extend(std::iter::from_fn(|| decoder.next_event()));
    }
    all.extend(decoder.finish().err().map(Err));
    all
}

fn tell_event<K: Resource>(event: &Result<WatchEvent<K>, Error>) -> String {
    match event {
        Ok(WatchEvent::Added(k)) => format!("ADDED {}", tell_object(k)),
        Ok(WatchEvent::Modified(k)) => format!("MODIFIED {}", tell_object(k)),
        Ok(WatchEvent::Deleted(k)) => format!("DELETED {}", tell_object(k)),
        Ok(WatchEvent::Bookmark(b)) if b.initial_events_end => format!("BOOKMARK {b} end"),
        Ok(WatchEvent::Bookmark(b)) => format!("BOOKMARK {b}"),
        Err(error) => tell_error(error),
    }
}

fn tell_object<K: Resource>(object: &K) -> String {
    format!("{} {}", object.key(), object.resource_version())
}

/// All that comes of a list: a line for each item and error, and for its metadata.
fn list_lines<K: Resource>(types: &str, pieces: &[&[u8]]) -> Vec<String> {
    let (items, end) = list_all::<K>(types, pieces);
    let mut lines: Vec<_> =
        items.iter().map(|item| item.as_ref().map_or_else(tell_error, |item| tell_object(item))).collect();
    lines.push(end.map_or_else(
        |error| tell_error(&error),
        |meta| {
            let remaining = meta.remaining_item_count.map(|n| format!(" remaining {n}")).unwrap_or_default();
            let more = if meta.continue_token.is_empty() { "" } else { " continue " };
            let listwatch::ListMeta { api_version, kind, resource_version, continue_token, .. } = meta;
            format!("{api_version} {kind} {resource_version}{more}{continue_token}{remaining}")
        },
    ));
    lines
}

type Items<K> = Vec<Result<K, Error>>;

fn list_all<K: Resource>(types: &str, pieces: &[&[u8]]) -> (Items<K>, Result<listwatch::ListMeta, Error>) {
    let mut decoder = ListDecoder::new(expect(types));
    let mut all = Vec::new();
    for piece in pieces {
        decoder.feed(piece);
        all.extend(std::iter::from_fn(|| decoder.next_item()));
    }
    (all, decoder.finish())
}

/// The code and reason of the server's answer and the predicates that hold, or the message of our own error.
fn tell_error(error: &Error) -> String {
    let Some(status) = error.status() else { return format!("error: {error}") };
    let mut line = format!("error {} {}", status.code, status.reason);
    for (holds, name) in [
        (error.is_not_found(), "not_found"),
        (error.is_already_exists(), "already_exists"),
        (error.is_conflict(), "conflict"),
        (error.is_expired(), "expired"),
        (error.is_invalid(), "invalid"),
        (error.is_forbidden(), "forbidden"),
        (error.is_unauthorized(), "unauthorized"),
        (error.is_too_large_resource_version(), "too_large_resource_version"),
        (error.is_timeout(), "timeout"),
    ] {
        if holds {
            line = format!("{line} [{name}]");
        }
    }
    line
}
