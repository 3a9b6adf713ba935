//! What holds for any bytes at all. The fuzz targets and the tests (which replay the corpus) share this file.
#![allow(dead_code, reason = "each fuzz target uses one half")]

use listwatch::wire::{Expect, ListDecoder, WatchDecoder};
use listwatch::{Error, Object, ObjectMeta, Resource, WatchEvent, resource};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// Short enough for a fuzzer to pass it.
const LIMIT: usize = 4096;

/// A projection: most fields are skipped, some do not fit.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Lean {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
}
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Spec {
    replicas: Option<i32>,
    #[serde(rename = "nodeName")]
    node_name: String,
}
resource!(Lean: "v1", "ConfigMap", "configmaps", namespaced);

/// A watch: the same events and errors in any pieces; one for each line, so none is lost and none comes of nothing;
/// and what was decoded, written and decoded again, is the same.
pub(crate) fn watch(bytes: &[u8]) {
    watch_of::<Object>(bytes);
    watch_of::<Lean>(bytes);
}

fn watch_of<K: Resource>(bytes: &[u8]) {
    let decode = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut decoder = WatchDecoder::<K>::new(Expect::any()).max_line(LIMIT);
        let mut events = Vec::new();
        for piece in pieces {
            decoder.feed(piece);
            events.extend(std::iter::from_fn(|| decoder.next_event()));
        }
        let end = decoder.finish();
        (events, end)
    };
    let (events, end) = decode(&mut [bytes].into_iter());
    let told = (events.iter().map(tell_event).collect::<Vec<_>>(), end.as_ref().err().map(tell_error));
    for size in sizes(bytes) {
        let (events, end) = decode(&mut bytes.chunks(size));
        let again = (events.iter().map(tell_event).collect::<Vec<_>>(), end.err().as_ref().map(tell_error));
        assert_eq!(again, told, "in pieces of {size}");
    }

    let mut lines: Vec<_> = bytes.split(|b| *b == b'\n').collect();
    let rest = lines.pop().unwrap_or_default();
    let counts = |line: &&[u8]| line.len() > LIMIT || !line.trim_ascii().is_empty();
    let expected = lines.into_iter().filter(counts).count() + usize::from(rest.len() > LIMIT);
    assert_eq!(events.len(), expected, "one event or error for each line");
    assert_eq!(end.is_err(), counts(&rest), "half a line at the end");

    for event in events.iter().flatten() {
        let (kind, object) = match event {
            WatchEvent::Added(k) => ("ADDED", k),
            WatchEvent::Modified(k) => ("MODIFIED", k),
            WatchEvent::Deleted(k) => ("DELETED", k),
            WatchEvent::Bookmark(_) => continue,
        };
        let line = format!("{{\"type\":\"{kind}\",\"object\":{}}}\n", json(object));
        let mut decoder = WatchDecoder::<K>::new(Expect::any());
        decoder.feed(line.as_bytes());
        assert_eq!(decoder.next_event().as_ref().map(tell_event), Some(tell_event(&Ok(event.clone()))));
    }
}

/// A list: the same items and errors in any pieces; bytes that are no JSON never pass without an error; no item is
/// lost; and what was decoded, written and decoded again, is the same.
pub(crate) fn list(bytes: &[u8]) {
    list_of::<Object>(bytes);
    list_of::<Lean>(bytes);
}

fn list_of<K: Resource>(bytes: &[u8]) {
    let decode = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut decoder = ListDecoder::<K>::new(Expect::any()).max_item(LIMIT);
        let mut items = Vec::new();
        for piece in pieces {
            decoder.feed(piece);
            items.extend(std::iter::from_fn(|| decoder.next_item()));
        }
        let end = decoder.finish();
        (items, end)
    };
    let tell = |(items, end): &(Vec<Result<K, Error>>, Result<_, _>)| {
        let items: Vec<_> = items.iter().map(|item| item.as_ref().map_or_else(tell_error, json)).collect();
        (items, end.as_ref().map(|meta| format!("{meta:?}")).map_err(tell_error))
    };
    let all = decode(&mut [bytes].into_iter());
    for size in sizes(bytes) {
        assert_eq!(tell(&decode(&mut bytes.chunks(size))), tell(&all), "in pieces of {size}");
    }

    let good = all.1.is_ok() && all.0.iter().all(Result::is_ok);
    let text = std::str::from_utf8(bytes).ok();
    let is_json = text.is_some_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    assert!(is_json || !good, "no JSON, and no error");
    let value = serde_json::from_slice::<serde_json::Value>(bytes).unwrap_or_default();
    if let (true, Some(fields)) = (good, value.as_object()) {
        let items = fields.get("items").and_then(|items| items.as_array()).map_or(0, Vec::len);
        assert_eq!(all.0.len(), items, "each item is there");
    }

    let items: Vec<_> = all.0.iter().flatten().map(json).collect();
    let mut decoder = ListDecoder::<K>::new(Expect::any());
    decoder.feed(format!("{{\"items\":[{}]}}", items.join(",")).as_bytes());
    let again: Vec<_> = std::iter::from_fn(|| decoder.next_item()).map(|item| json(&item.unwrap())).collect();
    assert_eq!(again, items);
    decoder.finish().unwrap();
}

/// Byte by byte, in small pieces, and in pieces that differ from input to input.
fn sizes(bytes: &[u8]) -> [usize; 3] {
    let mixed = bytes.iter().fold(bytes.len(), |mix, b| mix.wrapping_mul(31).wrapping_add(usize::from(*b)));
    [1, 13, 1 + mixed % bytes.len().max(1)]
}

fn json(object: &impl Serialize) -> String {
    serde_json::to_string(object).unwrap()
}

fn tell_event<K: Resource>(event: &Result<WatchEvent<K>, Error>) -> String {
    match event {
        Ok(WatchEvent::Added(k)) => format!("added {}", json(k)),
        Ok(WatchEvent::Modified(k)) => format!("modified {}", json(k)),
        Ok(WatchEvent::Deleted(k)) => format!("deleted {}", json(k)),
        Ok(WatchEvent::Bookmark(b)) => format!("{b:?}"),
        Err(error) => tell_error(error),
    }
}

fn tell_error(error: &Error) -> String {
    format!("{error:?} {:?} {:?}", error.unfit(), error.status())
}
