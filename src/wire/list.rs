use std::io;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, IgnoredAny};
use serde_json::{Map, Value};

use super::Expect;
use super::object::ObjectSeed;
use super::scan::Scan;
use super::unfit::{Probe, probe};
use crate::buffer::Buffer;
use crate::error::{Error, Kind, Result};
use crate::object::{BorrowedText, ListMeta, Resource, Status, short, tell, tell_bytes};

/// Decodes a list while it comes in: one object after the other, each in one pass straight from the bytes.
///
/// `items` that are null or missing are none, `metadata` that is null or missing is empty, fields may come in any order
/// and white space does not matter. The items of a list carry no `apiVersion` and `kind`: they are given those that
/// are expected, else those of the list.
///
/// An item that cannot be decoded is one error, [`unfit`](Error::unfit) if it is a named object that does not fit `K`,
/// and the next item goes on. Any other error is the last thing that comes: what the server told in place of a list
/// (with its [`status`](Error::status)), a `Table` or another kind of list, what is no JSON, an item that is
/// [too long](Error::is_limit).
#[derive(Debug)]
pub struct ListDecoder<K> {
    expected: Expect,
    max_item: usize,
    buffer: Buffer,
    at: At,
    /// Looks for the end of a value that was not whole yet.
    scan: Scan,
    /// So many bytes of an item were parsed in vain; it is tried again when there are twice as many.
    tried: usize,
    /// So many bytes are made text of to parse an item from: half as many again as the last ones had.
    usual: usize,
    has_items: bool,
    meta: ListMeta,
    /// What a `Status` in place of the list says.
    status: Map<String, Value>,
    kind: PhantomData<fn() -> K>,
}

/// Of fewer bytes it makes no difference.
const LEAST: usize = 1024;

/// What comes next.
#[derive(Debug)]
enum At {
    Start,
    FirstKey,
    Key,
    Colon(Key),
    Value(Key),
    AfterValue,
    FirstItem,
    Item,
    AfterItem,
    /// Nothing but white space.
    End,
    Failed,
}

#[derive(Clone, Debug)]
enum Key {
    ApiVersion,
    Kind,
    Metadata,
    Items,
    /// A field that a `Status` has and a list has not.
    Status(String),
    Other,
}

impl<K: Resource> ListDecoder<K> {
    /// A decoder at the start of a response's body.
    #[must_use]
    pub fn new(expected: Expect) -> Self {
        Self {
            expected,
            max_item: 64 << 20,
            buffer: Buffer::new(256 * 1024),
            at: At::Start,
            scan: Scan::default(),
            tried: 0,
            usual: LEAST,
            has_items: false,
            meta: ListMeta::default(),
            status: Map::new(),
            kind: PhantomData,
        }
    }

    /// The longest object in bytes that is taken; 64 MiB unless set.
    #[must_use]
    pub fn max_item(mut self, bytes: usize) -> Self {
        self.max_item = bytes;
        self
    }

    /// Where a reader writes the next bytes of the body: at least 2 KiB. Tell how many it wrote with
    /// [`filled`](Self::filled), then take all items before the next read.
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

    /// The next object, or `None` if it takes more bytes or there are no more.
    pub fn next_item(&mut self) -> Option<Result<K>> {
        match self.advance() {
            Ok(item) => item,
            Err(error) => {
                self.at = At::Failed;
                Some(Err(error))
            }
        }
    }

    /// The body ended: what the list says about itself. Take all items first.
    ///
    /// # Errors
    /// The body ended early, or was no list, or items were left.
    pub fn finish(mut self) -> Result<ListMeta> {
        match (self.next_item(), self.at) {
            (None, At::End) => Ok(self.meta),
            (Some(Err(error)), _) => Err(error),
            (Some(Ok(_)), _) => Err(Error::decode("not all items of the list were taken")),
            (None, At::Failed) => Err(Error::decode("the list could not be decoded to its end")),
            (None, _) => {
                let eof = io::Error::from(io::ErrorKind::UnexpectedEof);
                Err(Error::decode("the list ended early").with_source(eof))
            }
        }
    }

    /// Goes on to the next item. An error here is the end of the list.
    fn advance(&mut self) -> Result<Option<Result<K>>> {
        loop {
            if matches!(self.at, At::Failed) {
                return Ok(None);
            }
            let Some(byte) = self.peek() else { return Ok(None) };
            let (taken, next) = match (&self.at, byte) {
                (At::Start, b'{') => (1, At::FirstKey),
                (At::FirstKey | At::AfterValue, b'}') => {
                    self.check_end()?;
                    (1, At::End)
                }
                (At::FirstKey | At::Key, b'"') => match self.key()? {
                    Some((length, key)) => (length, At::Colon(key)),
                    None => return Ok(None),
                },
                (At::Colon(key), b':') => (1, At::Value(key.clone())),
                (At::Value(Key::Items), b'[') if !self.has_items => {
                    self.check_kind()?;
                    self.has_items = true;
                    (1, At::FirstItem)
                }
                (At::Value(key), _) => match self.value(key.clone())? {
                    Some(length) => (length, At::AfterValue),
                    None => return Ok(None),
                },
                (At::AfterValue, b',') => (1, At::Key),
                (At::FirstItem | At::AfterItem, b']') => (1, At::AfterValue),
                (At::AfterItem, b',') => (1, At::Item),
                (At::FirstItem | At::Item, _) => return self.item(),
                _ => return Err(self.no_list()),
            };
            self.buffer.consume(taken);
            self.scan = Scan::default();
            self.at = next;
        }
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.buffer.bytes();
        let space = bytes.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n')).count();
        let byte = bytes.get(space).copied();
        self.buffer.consume(space);
        byte
    }

    /// The length of the value that is next, once it is whole.
    fn whole(&mut self) -> Result<Option<usize>> {
        let bytes = self.buffer.bytes();
        let end = self.scan.end(bytes);
        if end.unwrap_or(bytes.len()) > self.max_item { Err(self.too_long()) } else { Ok(end) }
    }

    fn key(&mut self) -> Result<Option<(usize, Key)>> {
        let Some(length) = self.whole()? else { return Ok(None) };
        let BorrowedText(text) = parse(&self.buffer.bytes()[..length])?;
        let key = match &*text {
            "apiVersion" => Key::ApiVersion,
            "kind" => Key::Kind,
            "metadata" => Key::Metadata,
            "items" => Key::Items,
            "status" | "message" | "reason" | "details" | "code" => Key::Status(text.into_owned()),
            _ => Key::Other,
        };
        Ok(Some((length, key)))
    }

    fn value(&mut self, key: Key) -> Result<Option<usize>> {
        let Some(length) = self.whole()? else { return Ok(None) };
        let json = &self.buffer.bytes()[..length];
        match key {
            Key::ApiVersion => self.meta.api_version = parse::<Option<String>>(json)?.unwrap_or_default(),
            Key::Kind => self.meta.kind = parse::<Option<String>>(json)?.unwrap_or_default(),
            Key::Metadata => {
                let meta = parse::<Option<ListMeta>>(json)?.unwrap_or_default();
                let ListMeta { api_version, kind, .. } = std::mem::take(&mut self.meta);
                self.meta = ListMeta { api_version, kind, ..meta };
            }
            Key::Items if self.has_items => return Err(Error::decode("a list with two fields items")),
            Key::Items => parse::<()>(json)?,
            Key::Status(field) => {
                let value = parse(json)?;
                self.status.insert(field, value);
            }
            Key::Other => {
                parse::<IgnoredAny>(json)?;
            }
        }
        Ok(Some(length))
    }

    fn item(&mut self) -> Result<Option<Result<K>>> {
        while self.buffer.bytes().len() >= self.tried * 2 {
            let bytes = self.buffer.bytes();
            let piece = &bytes[..bytes.len().min(self.usual)];
            let (text, broken) = text_of(piece);
            let mut json = serde_json::Deserializer::from_str(text);
            match self.seed().deserialize(&mut json) {
                Ok(item) => {
                    let length = json.into_iter::<IgnoredAny>().byte_offset();
                    if length > self.max_item {
                        return Err(self.too_long());
                    }
                    self.item_taken(length);
                    return Ok(Some(Ok(item)));
                }
                Err(error) if error.is_eof() && !broken && piece.len() < bytes.len() => {
                    self.usual = piece.len() * 2;
                    continue;
                }
                Err(error) if error.is_eof() && !broken => {
                    self.tried = bytes.len();
                    if self.tried > self.max_item {
                        return Err(self.too_long());
                    }
                    return Ok(None);
                }
                // It may be wrong only because it is cut off.
                Err(_) => self.tried = bytes.len(),
            }
        }
        let Some(length) = self.whole()? else { return Ok(None) };
        let bytes = &self.buffer.bytes()[..length];
        let item = match std::str::from_utf8(bytes) {
            Err(error) => Err(self.explain(&String::from_utf8_lossy(bytes), &tell_bytes(bytes, error))),
            Ok(text) => {
                let mut json = serde_json::Deserializer::from_str(text);
                let item = self.seed().deserialize(&mut json).and_then(|item| json.end().map(|()| item));
                item.map_err(|error| self.explain(text, &tell(text, &error)))
            }
        };
        self.item_taken(length);
        Ok(Some(item))
    }

    fn item_taken(&mut self, length: usize) {
        self.usual = (length + length / 2).max(self.usual - self.usual / 16).max(LEAST);
        self.buffer.consume(length);
        self.scan = Scan::default();
        self.tried = 0;
        self.at = At::AfterItem;
    }

    fn seed(&self) -> ObjectSeed<'_, K> {
        ObjectSeed { expected: &self.expected, fill: self.types(), object: PhantomData }
    }

    /// What the items are, if that can be known.
    fn types(&self) -> Option<(&str, &str)> {
        let list = self.meta.kind.strip_suffix("List").filter(|kind| !kind.is_empty());
        self.expected.types().or(list.map(|kind| (&*self.meta.api_version, kind)))
    }

    /// Why `text` is no object that fits; `why` is what the parser found.
    #[cold]
    fn explain(&self, text: &str, why: &str) -> Error {
        match probe::<Option<Probe>>(text, why) {
            Ok(Some(probe)) => probe.explain(&self.expected, self.types(), false, why),
            Ok(None) => Error::decode("an item of the list is null"),
            Err(why) => Error::decode(format!("an item of the list is no object: {why}")),
        }
    }

    fn check_kind(&self) -> Result<()> {
        let ListMeta { api_version, kind, .. } = &self.meta;
        if self.expected.takes_list(api_version, kind) {
            return Ok(());
        }
        let found = format!("{api_version} {kind}");
        Err(Error::decode(format!("expected a list of {}, found {}", self.expected, short(found.trim()))))
    }

    /// The response was read to its end: is it a list?
    fn check_end(&mut self) -> Result<()> {
        if self.meta.kind == "Status" {
            let mut fields = std::mem::take(&mut self.status);
            fields.insert("metadata".into(), serde_json::json!({ "continue": self.meta.continue_token }));
            let status = Status::from_damaged(Value::Object(fields));
            if status.is_failure() {
                return Err(status.into());
            }
        }
        self.check_kind()?;
        // What has no items may be anything; taken for an empty list it would empty a cache.
        if self.has_items || self.meta.kind.ends_with("List") { Ok(()) } else { Err(self.no_list()) }
    }

    fn no_list(&self) -> Error {
        Error::decode(match self.at {
            At::Start => "the response is no list: no JSON object",
            At::FirstKey | At::AfterValue if self.buffer.bytes().starts_with(b"}") => {
                "the response is no list: it has neither items nor the kind of a list"
            }
            At::End => "the list is followed by other bytes",
            _ => "the list is no JSON",
        })
    }

    fn too_long(&self) -> Error {
        let limit = self.max_item;
        Error::new(Kind::Limit, format!("an item of the list is longer than the limit of {limit} bytes"))
    }
}

/// The text that bytes begin with, and whether what follows can never be text.
fn text_of(bytes: &[u8]) -> (&str, bool) {
    std::str::from_utf8(bytes).map_or_else(
        |error| {
            let text = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            (text, error.error_len().is_some())
        },
        |text| (text, false),
    )
}

fn parse<'de, T: Deserialize<'de>>(json: &'de [u8]) -> Result<T> {
    let text = std::str::from_utf8(json).map_err(|error| tell_bytes(json, error));
    text.and_then(|text| serde_json::from_str(text).map_err(|error| tell(text, &error)))
        .map_err(|why| Error::decode(format!("the list cannot be read: {why}")))
}
