use std::fmt;
use std::io;
use std::marker::PhantomData;

use memchr::memchr;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Expect;
use super::object::ObjectSeed;
use super::unfit::{self, Probe, probe};
use crate::buffer::Buffer;
use crate::error::{Error, Kind, Result};
use crate::object::{BorrowedText, Map, Resource, Status, nullable, short, tell, tell_bytes};

/// One event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent<K> {
    /// The object is new, or new to this watch: it may have existed before and come to match the selector.
    Added(K),
    /// The object changed; this is its new state.
    Modified(K),
    /// The object is gone, or no longer matches the selector; this is its last state.
    Deleted(K),
    /// No object: the watch has come to this resourceVersion.
    Bookmark(Bookmark),
}

/// How far a watch has come, told on its own.
///
/// Prints as its resourceVersion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark {
    /// All changes up to here were told; a watch can go on from it.
    pub resource_version: String,
    /// With it ends the initial list of a watch that was opened with `sendInitialEvents` (annotation
    /// `k8s.io/initial-events-end`). A watch from resourceVersion `0` ends its synthetic events in the same way.
    pub initial_events_end: bool,
}

impl fmt::Display for Bookmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.resource_version)
    }
}

/// Decodes the bytes of a watch: one JSON document a line, read in one pass straight into the object.
///
/// Each line is judged alone. What cannot be decoded is one error, and the next line goes on:
/// - the server's own error (an `ERROR` event), with its [`status`](Error::status);
/// - JSON that does not fit `K`: [`unfit`](Error::unfit) names the object, so that the watch can go on behind it;
/// - anything else is no event that a watch may lose: end it and take it up from the last good resourceVersion. That
///   is no JSON, an unknown type, no object, no name, another kind, or a line that is [too long](Error::is_limit).
///
/// Empty lines are skipped, a carriage return before the newline does not matter.
#[derive(Debug)]
pub struct WatchDecoder<K> {
    expected: Expect,
    max_line: usize,
    buffer: Buffer,
    /// How many bytes of the buffer are known to hold no newline.
    searched: usize,
    /// The line is too long: drop it to its end.
    skips: bool,
    kind: PhantomData<fn() -> K>,
}

impl<K: Resource> WatchDecoder<K> {
    /// A decoder at the start of a stream.
    #[must_use]
    pub fn new(expected: Expect) -> Self {
        Self {
            expected,
            max_line: 64 << 20,
            buffer: Buffer::new(64 * 1024),
            searched: 0,
            skips: false,
            kind: PhantomData,
        }
    }

    /// The longest line in bytes that is taken; 64 MiB unless set.
    #[must_use]
    pub fn max_line(mut self, bytes: usize) -> Self {
        self.max_line = bytes;
        self
    }

    /// Where a reader writes the next bytes of the stream: at least 2 KiB. Tell how many it wrote with
    /// [`filled`](Self::filled), then take all events before the next read.
    pub fn space(&mut self) -> &mut [u8] {
        self.buffer.space()
    }

    /// The first `count` bytes of [`space`](Self::space) were written.
    pub fn filled(&mut self, count: usize) {
        self.buffer.filled(count);
    }

    /// Takes bytes that are elsewhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.feed(bytes);
    }

    /// Whether [`next_event`](Self::next_event) has an event, or an error: the end of a line that is not empty is there.
    #[must_use]
    pub fn has_line(&self) -> bool {
        let bytes = self.buffer.bytes();
        let Some(start) = bytes.iter().position(|byte| !byte.is_ascii_whitespace()) else { return false };
        // The rest of a line that is dropped is no event.
        !self.skips && memchr(b'\n', &bytes[start.max(self.searched)..]).is_some()
    }

    /// The next event, or `None` if it takes more bytes.
    pub fn next_event(&mut self) -> Option<Result<WatchEvent<K>>> {
        loop {
            let bytes = self.buffer.bytes();
            let Some(length) = memchr(b'\n', &bytes[self.searched..]).map(|found| self.searched + found)
            else {
                self.searched = bytes.len();
                let too_long = self.searched > self.max_line && !self.skips;
                self.skips |= too_long;
                if self.skips {
                    self.buffer.consume(self.searched);
                    self.searched = 0;
                }
                return too_long.then(|| Err(self.too_long()));
            };
            let event = if std::mem::take(&mut self.skips) {
                None
            } else if length > self.max_line {
                Some(Err(self.too_long()))
            } else {
                self.decode(bytes[..length].trim_ascii())
            };
            self.buffer.consume(length + 1);
            self.searched = 0;
            if event.is_some() {
                return event;
            }
        }
    }

    /// The stream ended. Take all events first: lines that were not taken are told as an error, too.
    ///
    /// # Errors
    /// It ended within a line, as when a connection breaks. The line is not decoded, even if it looks complete.
    pub fn finish(&mut self) -> Result<()> {
        let rest = self.buffer.bytes().trim_ascii().len();
        if rest == 0 && !self.skips {
            return Ok(());
        }
        self.buffer.consume(usize::MAX);
        (self.searched, self.skips) = (0, false);
        let eof = io::Error::from(io::ErrorKind::UnexpectedEof);
        Err(Error::decode("the watch ended within a line").with_source(eof))
    }

    fn too_long(&self) -> Error {
        let limit = self.max_line;
        Error::new(Kind::Limit, format!("a line of a watch is longer than the limit of {limit} bytes"))
    }

    /// Decodes a line; an empty one is no event.
    fn decode(&self, line: &[u8]) -> Option<Result<WatchEvent<K>>> {
        if line.is_empty() {
            return None;
        }
        let text = match std::str::from_utf8(line) {
            Ok(text) => text,
            Err(error) => {
                return Some(Err(self.explain(&String::from_utf8_lossy(line), &tell_bytes(line, error))));
            }
        };
        let mut json = serde_json::Deserializer::from_str(text);
        let envelope = json.deserialize_map(EnvelopeVisitor { expected: &self.expected, kind: PhantomData });
        let told = match envelope.and_then(|envelope| json.end().map(|()| envelope)) {
            Ok(Envelope::Told(told)) => Ok(told),
            // The object came before the type.
            Ok(Envelope::Raw(kind, raw)) => {
                let mut json = serde_json::Deserializer::from_str(raw);
                let seed = ToldSeed { kind, expected: &self.expected, object: PhantomData };
                seed.deserialize(&mut json).map_err(|error| (raw, error))
            }
            Err(error) => Err((text, error)),
        };
        Some(match told {
            Ok(told) => told,
            Err((json, error)) => Err(self.explain(text, &tell(json, &error))),
        })
    }

    /// Why `text` is no event of an object that fits; `why` is what the first pass found.
    #[cold]
    fn explain(&self, text: &str, why: &str) -> Error {
        #[derive(Deserialize)]
        struct Line {
            #[serde(rename = "type", default, deserialize_with = "unfit::text")]
            kind: String,
            object: Option<Probe>,
        }

        let why = why.strip_prefix("object.").or(why.strip_prefix("object: ")).unwrap_or(why);
        let Line { kind, object } = match probe(text, why) {
            Ok(line) => line,
            Err(why) => return Error::decode(format!("a line of a watch is no event: {why}")),
        };
        match (EventType::parse(&kind), object) {
            (None, _) => Error::decode(format!("unknown type of watch event: {}", short(&kind))),
            (Some(_), None) => Error::decode(format!("{kind} event without an object")),
            (Some(EventType::Bookmark | EventType::Error), _) => {
                Error::decode(format!("{kind} event: {why}"))
            }
            (Some(event), Some(probe)) => {
                let deleted = event == EventType::Deleted;
                let error = probe.explain(&self.expected, self.expected.types(), deleted, why);
                error.context(format!("{kind} event"))
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

impl EventType {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "ADDED" => Self::Added,
            "MODIFIED" => Self::Modified,
            "DELETED" => Self::Deleted,
            "BOOKMARK" => Self::Bookmark,
            "ERROR" => Self::Error,
            _ => return None,
        })
    }
}

/// An event, or the error that the server told in its place.
type Told<K> = Result<WatchEvent<K>>;

enum Envelope<'de, K> {
    Told(Told<K>),
    Raw(EventType, &'de str),
}

struct EnvelopeVisitor<'x, K> {
    expected: &'x Expect,
    kind: PhantomData<K>,
}

impl<'de, K: Resource> Visitor<'de> for EnvelopeVisitor<'_, K> {
    type Value = Envelope<'de, K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a watch event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope<'de, K>, A::Error> {
        let (mut kind, mut raw, mut told) = (None, None::<&RawValue>, None);
        while let Some(BorrowedText(key)) = map.next_key()? {
            match (&*key, kind) {
                ("type", None) => {
                    let BorrowedText(text) = map.next_value()?;
                    kind = Some(EventType::parse(&text).ok_or_else(|| A::Error::custom("unknown type"))?);
                }
                ("object", None) if raw.is_none() => raw = Some(map.next_value()?),
                ("object", Some(kind)) if raw.is_none() && told.is_none() => {
                    let seed = ToldSeed { kind, expected: self.expected, object: PhantomData };
                    told = Some(map.next_value_seed(seed)?);
                }
                ("type" | "object", _) => return Err(A::Error::custom(format_args!("two fields {key}"))),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        match (kind, raw, told) {
            (_, _, Some(told)) => Ok(Envelope::Told(told)),
            (Some(kind), Some(raw), None) => Ok(Envelope::Raw(kind, raw.get())),
            (Some(EventType::Error), None, None) => Ok(Envelope::Told(Err(server_error(Value::Null)))),
            _ => Err(A::Error::custom("no type or no object")),
        }
    }
}

/// Reads the object of an event according to the event's type.
struct ToldSeed<'x, K> {
    kind: EventType,
    expected: &'x Expect,
    object: PhantomData<K>,
}

impl<'de, K: Resource> DeserializeSeed<'de> for ToldSeed<'_, K> {
    type Value = Told<K>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Told<K>, D::Error> {
        let Self { kind, expected, object } = self;
        let wrap = match kind {
            EventType::Bookmark => return Bookmark::read(deserializer).map(|b| Ok(WatchEvent::Bookmark(b))),
            EventType::Error => {
                return Value::deserialize(deserializer).map(|v| Err(server_error(v)));
            }
            EventType::Added => WatchEvent::Added,
            EventType::Modified => WatchEvent::Modified,
            EventType::Deleted => WatchEvent::Deleted,
        };
        ObjectSeed { expected, fill: expected.types(), object }.deserialize(deserializer).map(|k| Ok(wrap(k)))
    }
}

fn server_error(object: Value) -> Error {
    Status::from_damaged(object).into()
}

impl Bookmark {
    /// Reads the object of a bookmark: any kind, with little more than a resourceVersion.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Shell {
            metadata: Metadata,
        }

        #[derive(Deserialize)]
        struct Metadata {
            #[serde(rename = "resourceVersion")]
            resource_version: String,
            #[serde(default, deserialize_with = "nullable")]
            annotations: Map,
        }

        let Shell { metadata } = Shell::deserialize(deserializer)?;
        if metadata.resource_version.is_empty() {
            return Err(D::Error::custom("no resourceVersion"));
        }
        let initial_events_end = metadata.annotations.get("k8s.io/initial-events-end") == Some("true");
        Ok(Self { resource_version: metadata.resource_version, initial_events_end })
    }
}
