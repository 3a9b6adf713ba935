//! How objects are shown: whole, only their metadata, or as rows of a table; chosen by the Accept header.
//!
//! Written by hand where order matters to clients that stream: kind, apiVersion and metadata come first.

use std::sync::Arc;

use serde_json::Value;

use crate::object::Time;

use super::answer::{Failure, Outcome};
use super::events::shown;
use super::http::Request;
use super::kinds::Kind;
use super::store::Object;
use super::table;

/// What of each object is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Full,
    /// `PartialObjectMetadata`.
    Metadata,
    /// A row; with it the metadata, the whole object, or nothing.
    Table(Included),
}

/// What a row of a table brings with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Included {
    Metadata,
    Object,
    Nothing,
}

const META_VERSION: &str = "meta.k8s.io/v1";

/// The metadata of a list.
#[derive(Debug, Default)]
pub(super) struct ListMeta {
    pub(super) version: u64,
    pub(super) continue_token: String,
    pub(super) remaining: Option<usize>,
}

impl View {
    /// The first of the accepted types that the server can send.
    pub(super) fn of(request: &Request) -> Outcome<Self> {
        let included = match request.query.get("includeObject") {
            "Object" => Included::Object,
            "None" => Included::Nothing,
            _ => Included::Metadata,
        };
        let accept = if request.accept.is_empty() { "*/*" } else { &request.accept };
        for media in accept.split(',') {
            let mut parts = media.split(';').map(str::trim);
            if !matches!(parts.next(), Some("application/json" | "application/*" | "*/*")) {
                continue;
            }
            let wanted = parts.find_map(|p| p.strip_prefix("as="));
            match wanted {
                None => return Ok(Self::Full),
                Some("Table") => return Ok(Self::Table(included)),
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") => return Ok(Self::Metadata),
                Some(_) => {}
            }
        }
        Err(Failure::not_acceptable())
    }

    /// One object.
    pub(super) fn object(self, kind: &Kind, object: &Object, now: Time) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024);
        match self {
            Self::Full => write_typed(&mut out, &kind.kind, &kind.api_version(), &shown(kind, &object.body)),
            Self::Metadata => write_metadata(&mut out, &object.body),
            Self::Table(included) => {
                write_table(&mut out, kind, included, std::slice::from_ref(&object), &item_meta(object), now);
            }
        }
        out
    }

    /// A list in its envelope. Items of built-in kinds carry no kind and apiVersion, those of custom ones do.
    pub(super) fn list(self, kind: &Kind, meta: &ListMeta, items: &[Arc<Object>], now: Time) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024 * (items.len() + 1));
        let api_version = kind.api_version();
        let envelope = match self {
            Self::Full => (&*kind.list_kind, &*api_version),
            Self::Metadata => ("PartialObjectMetadataList", META_VERSION),
            Self::Table(included) => {
                let items: Vec<_> = items.iter().map(|item| &**item).collect();
                write_table(&mut out, kind, included, &items, &meta.to_json(false), now);
                return out;
            }
        };
        write_head(&mut out, envelope.0, envelope.1);
        out.extend_from_slice(b",\"metadata\":");
        let told = meta.to_json(kind.custom.is_some() && self == Self::Full);
        out.extend_from_slice(told.as_bytes());
        out.extend_from_slice(b",\"items\":[");
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            match self {
                Self::Full if kind.custom.is_none() => {
                    out.push(b'{');
                    write_fields(&mut out, &shown(kind, &item.body));
                }
                Self::Full => write_typed(&mut out, &kind.kind, &api_version, &item.body),
                _ => write_metadata(&mut out, &item.body),
            }
        }
        out.extend_from_slice(b"]}\n");
        out
    }

    /// A bookmark's object: nothing but the version, and the end of the initial events if this tells it.
    pub(super) fn bookmark(self, kind: &Kind, version: u64, initial_end: bool) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Full => write_head(&mut out, &kind.kind, &kind.api_version()),
            Self::Metadata => write_head(&mut out, "PartialObjectMetadata", META_VERSION),
            Self::Table(_) => write_head(&mut out, "Table", META_VERSION),
        }
        let end = r#","annotations":{"k8s.io/initial-events-end":"true"}"#;
        let end = if initial_end { end } else { "" };
        out.extend_from_slice(format!(r#","metadata":{{"resourceVersion":"{version}"{end}}}"#).as_bytes());
        if matches!(self, Self::Table(_)) {
            out.extend_from_slice(br#","columnDefinitions":[],"rows":[]"#);
        }
        out.push(b'}');
        out
    }
}

impl ListMeta {
    /// Lists of custom objects tell an empty continue token too.
    fn to_json(&self, always_continues: bool) -> String {
        let mut json = format!(r#"{{"resourceVersion":"{}""#, self.version);
        if always_continues || !self.continue_token.is_empty() {
            json += &format!(r#","continue":{}"#, Value::from(self.continue_token.as_str()));
        }
        if let Some(remaining) = self.remaining {
            json += &format!(r#","remainingItemCount":{remaining}"#);
        }
        json + "}"
    }
}

fn item_meta(object: &Object) -> String {
    let version = super::tree::text(&object.body, "/metadata/resourceVersion");
    format!(r#"{{"resourceVersion":"{version}"}}"#)
}

/// `{"kind":…,"apiVersion":…`, not closed.
fn write_head(out: &mut Vec<u8>, kind: &str, api_version: &str) {
    let head = format!(r#"{{"kind":{},"apiVersion":{}"#, Value::from(kind), Value::from(api_version));
    out.extend_from_slice(head.as_bytes());
}

fn write_json(out: &mut Vec<u8>, value: &Value) {
    let _ = serde_json::to_writer(out, value); // a tree of values into memory cannot fail
}

/// An object with its kind, apiVersion and metadata first.
pub(super) fn write_typed(out: &mut Vec<u8>, kind: &str, api_version: &str, body: &Value) {
    write_head(out, kind, api_version);
    out.push(b',');
    write_fields(out, body);
}

/// The fields of a body after what was written of it, metadata first, and the closing brace.
fn write_fields(out: &mut Vec<u8>, body: &Value) {
    out.extend_from_slice(b"\"metadata\":");
    write_meta(out, body.get("metadata").unwrap_or(&Value::Null));
    for (name, value) in body.as_object().into_iter().flatten().filter(|(name, _)| *name != "metadata") {
        out.push(b',');
        write_json(out, &Value::from(name.as_str()));
        out.push(b':');
        write_json(out, value);
    }
    out.push(b'}');
}

/// The metadata of a body, in which the fields of managers are kept as text.
fn write_meta(out: &mut Vec<u8>, metadata: &Value) {
    let Some(managers) = metadata.get("managedFields").and_then(Value::as_array) else {
        return write_json(out, metadata);
    };
    write_map(out, metadata, |out, name, value| {
        if name != "managedFields" {
            return write_json(out, value);
        }
        for (at, manager) in managers.iter().enumerate() {
            out.push(if at == 0 { b'[' } else { b',' });
            write_map(out, manager, |out, name, value| match value {
                Value::String(fields) if name == "fieldsV1" => out.extend_from_slice(fields.as_bytes()),
                value => write_json(out, value),
            });
        }
        out.extend_from_slice(if managers.is_empty() { b"[]" } else { b"]" });
    });
}

fn write_map(out: &mut Vec<u8>, map: &Value, write: impl Fn(&mut Vec<u8>, &str, &Value)) {
    out.push(b'{');
    for (at, (name, value)) in map.as_object().into_iter().flatten().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_json(out, &Value::from(name.as_str()));
        out.push(b':');
        write(out, name, value);
    }
    out.push(b'}');
}

fn write_metadata(out: &mut Vec<u8>, body: &Value) {
    write_head(out, "PartialObjectMetadata", META_VERSION);
    out.extend_from_slice(b",\"metadata\":");
    write_meta(out, body.get("metadata").unwrap_or(&Value::Null));
    out.push(b'}');
}

fn write_table(out: &mut Vec<u8>, kind: &Kind, included: Included, items: &[&Object], meta: &str, now: Time) {
    write_head(out, "Table", META_VERSION);
    out.extend_from_slice(b",\"metadata\":");
    out.extend_from_slice(meta.as_bytes());
    out.extend_from_slice(b",\"columnDefinitions\":");
    write_json(out, &table::columns(kind));
    out.extend_from_slice(b",\"rows\":[");
    for (at, item) in items.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b",{\"cells\":" } else { b"{\"cells\":" });
        write_json(out, &table::cells(kind, &item.body, now));
        out.extend_from_slice(b",\"object\":");
        match included {
            Included::Metadata => write_metadata(out, &item.body),
            Included::Object => write_typed(out, &kind.kind, &kind.api_version(), &shown(kind, &item.body)),
            Included::Nothing => out.extend_from_slice(b"null"),
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
}
