//! YAML as client-go reads it (go-yaml v2, then JSON): the scalars of YAML 1.1, the last of a repeated key wins. Where
//! it would silently leave the rest of a file unread, that is an error. The syntax is granit-parser's; what scalars mean
//! is decided here.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value};

use crate::base64_text;

/// A value may be nested this deep; client-go allows 10,000, which would overflow a small stack.
const MAX_DEPTH: usize = 1000;
/// Anchors and aliases together may copy this many bytes of text and values.
const MAX_COPIED: usize = 16 << 20;

const TAG_PREFIX: &str = "tag:yaml.org,2002:";

/// Reads the only document as JSON; nothing at all is null. The error says what is wrong and in which line, never what is
/// written there.
pub(in crate::config) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let text = decode(bytes)?;
    let options = granit_parser::options! {
        bom_inside_document_as_content: true,
        block_scalar_eof_without_line_feed: true,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut builder = Builder::default();
    let mut value = None;
    for event in Parser::new_from_str_with_options(&text, options) {
        let (event, span) =
            event.map_err(|error| format!("line {}: {}", error.marker().line(), error.kind()))?;
        if value.is_some() {
            match event {
                Event::DocumentStart(..) | Event::DocumentEnd | Event::StreamEnd => continue,
                Event::Scalar(text, ScalarStyle::Plain, 0, None) if text == "~" => continue, // nothing
                _ => {
                    return Err(format!("line {}: nothing may follow the first document", span.start.line()));
                }
            }
        }
        value = builder.take(event).map_err(|why| format!("line {}: {why}", span.start.line()))?;
    }
    Ok(value.unwrap_or_default())
}

/// The text of a file: UTF-8, or UTF-16 with a byte order mark.
fn decode(bytes: &[u8]) -> Result<String, String> {
    let text = match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes)?,
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes)?,
        [0xef, 0xbb, 0xbf, rest @ ..] | rest => {
            std::str::from_utf8(rest).map_err(|_| "it is not UTF-8")?.to_owned()
        }
    };
    let printable = |c: char| {
        matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}') || c >= '\u{10000}'
    };
    if !text.chars().all(printable) {
        return Err("control characters are not allowed".into());
    }
    // A line break of YAML 1.1 that 1.2 no longer knows.
    Ok(if text.contains('\u{85}') { text.replace('\u{85}', "\n") } else { text })
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, String> {
    let pairs = bytes.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err("it is not UTF-16: the last character is cut off".into());
    }
    char::decode_utf16(pairs.map(|pair| unit([pair[0], pair[1]])))
        .collect::<Result<_, _>>()
        .map_err(|_| "it is not UTF-16".into())
}

/// Builds values from events, without recursion.
#[derive(Default)]
struct Builder {
    open: Vec<Frame>,
    /// Finished values by anchor, with their size.
    anchors: HashMap<usize, (Value, usize)>,
    copied: usize,
}

struct Frame {
    node: Open,
    anchor: usize,
    size: usize,
}

enum Open {
    List(Vec<Node>),
    Map { values: Map<String, Value>, key: Option<Key> },
}

enum Key {
    Name(String),
    /// `<<`: the value's entries become those of the mapping.
    Merge,
}

/// A finished value, and what a merge key needs to know of it.
struct Node {
    value: Value,
    size: usize,
    alias: bool,
    merge: bool,
}

impl Builder {
    /// Takes one event; gives the document's value once it is complete.
    fn take(&mut self, event: Event<'_>) -> Result<Option<Value>, String> {
        match event {
            Event::DocumentStart(_, Some(version)) if (version.major, version.minor) != (1, 1) => {
                Err("the document is not YAML 1.1".into())
            }
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(&text, style, tag.as_deref())?;
                let merge = style == ScalarStyle::Plain
                    && text == "<<"
                    && tag.as_deref().is_none_or(|tag| full(tag) == "tag:yaml.org,2002:merge");
                self.finished(Node { value, size: text.len() + 16, alias: false, merge }, anchor)
            }
            Event::SequenceStart(_, anchor, _) => self.opened(Open::List(Vec::new()), anchor),
            Event::MappingStart(_, anchor, _) => {
                self.opened(Open::Map { values: Map::new(), key: None }, anchor)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(frame) = self.open.pop() else { return Err("an end without a start".into()) };
                let value = match frame.node {
                    Open::List(nodes) => Value::Array(nodes.into_iter().map(|node| node.value).collect()),
                    Open::Map { values, .. } => Value::Object(values),
                };
                self.finished(Node { value, size: frame.size, alias: false, merge: false }, frame.anchor)
            }
            Event::Alias(id) => {
                if self.open.iter().any(|frame| frame.anchor == id) {
                    return Err("an anchor's value contains itself".into());
                }
                let Some((value, size)) = self.anchors.get(&id) else { return Err("unknown anchor".into()) };
                let (value, size) = (value.clone(), *size);
                self.spend(size)?;
                self.finished(Node { value, size, alias: true, merge: false }, 0)
            }
            Event::StreamEnd => Ok(Some(Value::Null)),
            _ => Ok(None),
        }
    }

    fn opened(&mut self, node: Open, anchor: usize) -> Result<Option<Value>, String> {
        if self.open.len() >= MAX_DEPTH {
            return Err("nested too deep".into());
        }
        self.open.push(Frame { node, anchor, size: 16 });
        Ok(None)
    }

    /// Anchors and aliases copy values; a few lines of them can stand for gigabytes.
    fn spend(&mut self, size: usize) -> Result<(), String> {
        self.copied += size;
        if self.copied > MAX_COPIED { Err("excessive aliasing".into()) } else { Ok(()) }
    }

    fn finished(&mut self, node: Node, anchor: usize) -> Result<Option<Value>, String> {
        if anchor != 0 {
            self.spend(node.size)?;
            self.anchors.insert(anchor, (node.value.clone(), node.size));
        }
        let Some(frame) = self.open.last_mut() else { return Ok(Some(node.value)) };
        frame.size += node.size;
        match &mut frame.node {
            Open::List(nodes) => nodes.push(node),
            Open::Map { values, key } => match key.take() {
                None => *key = Some(name(node)?),
                Some(Key::Name(name)) => drop(values.insert(name, node.value)),
                Some(Key::Merge) => merge(values, node)?,
            },
        }
        Ok(None)
    }
}

fn name(node: Node) -> Result<Key, String> {
    Ok(match node.value {
        Value::String(_) if node.merge => Key::Merge,
        Value::String(text) => Key::Name(text),
        Value::Bool(flag) => Key::Name(flag.to_string()),
        Value::Number(number) => Key::Name(number.to_string()),
        Value::Null => return Err("a key is null".into()),
        Value::Array(_) | Value::Object(_) => return Err("a key is a list or a mapping".into()),
    })
}

/// Later entries win over merged ones, as they would over any other; of a list of mappings the first wins.
fn merge(into: &mut Map<String, Value>, node: Node) -> Result<(), String> {
    let refused = || Err("<< needs a mapping or a list of mappings".into());
    match node.value {
        Value::Object(values) => into.extend(values),
        Value::Array(items) if !node.alias => {
            for item in items.into_iter().rev() {
                let Value::Object(values) = item else { return refused() };
                into.extend(values);
            }
        }
        _ => return refused(),
    }
    Ok(())
}

fn full(tag: &Tag) -> String {
    format!("{}{}", tag.handle(), tag.suffix())
}

/// What a scalar means.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let tag = tag.map(full);
    let kind = match tag.as_deref() {
        None if style == ScalarStyle::Plain => "",
        None => return Ok(text.into()),
        // Resolved as if it were plain, by a rule of YAML 1.1 that nobody remembers.
        Some("!") => "",
        Some(tag) => tag.strip_prefix(TAG_PREFIX).unwrap_or("of another schema"),
    };
    let value = match kind {
        "binary" => {
            let bytes = base64_text::decode(text).map_err(|_| "a !!binary value is not base64")?;
            return Ok(String::from_utf8_lossy(&bytes).into());
        }
        "" | "bool" | "int" | "float" | "null" | "timestamp" => resolve(text)?,
        _ => return Ok(text.into()),
    };
    let fits = match (kind, &value) {
        ("", _) | ("bool", Value::Bool(_)) | ("null", Value::Null) | ("float", Value::Number(_)) => true,
        ("int", Value::Number(number)) => !number.is_f64(),
        ("timestamp", Value::String(text)) => is_timestamp(text),
        _ => false,
    };
    if fits { Ok(value) } else { Err(format!("a value is not what its tag !!{kind} says")) }
}

/// What a plain scalar means in the YAML 1.1 of go-yaml v2.
fn resolve(text: &str) -> Result<Value, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Ok(true.into());
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Ok(false.into());
        }
        _ => {}
    }
    match text.as_bytes()[0] {
        b'.' | b'+' | b'-' if matches!(text.trim_start_matches(['+', '-']), ".inf" | ".Inf" | ".INF") => {
            Err("an infinite number has no place in JSON".into())
        }
        b'.' if matches!(text, ".nan" | ".NaN" | ".NAN") => Err("NaN has no place in JSON".into()),
        b'.' => Ok(float(&joined(text)).unwrap_or_else(|| text.into())),
        b'+' | b'-' | b'0'..=b'9' => {
            let plain = text.replace('_', "");
            Ok(integer(&plain).or_else(|| float(&plain)).unwrap_or_else(|| text.into()))
        }
        _ => Ok(text.into()),
    }
}

fn integer(text: &str) -> Option<Value> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None; // a second sign
    }
    i64::from_str_radix(&format!("{sign}{digits}"), radix)
        .map(Value::from)
        .or_else(|_| u64::from_str_radix(digits, radix).map(Value::from))
        .ok()
        .filter(|value| sign.is_empty() || value.is_i64())
}

/// The text without underscores, if each of them stands between two digits.
fn joined(text: &str) -> String {
    let digit = |part: Option<&u8>| part.is_some_and(u8::is_ascii_digit);
    let parts: Vec<&[u8]> = text.as_bytes().split(|byte| *byte == b'_').collect();
    let between = parts.windows(2).all(|pair| digit(pair[0].last()) && digit(pair[1].first()));
    if between { text.replace('_', "") } else { text.into() }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`; what is too big for a number stays text.
fn float(text: &str) -> Option<Value> {
    if !text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) {
        return None; // what Rust reads besides: inf, nan
    }
    Number::from_f64(text.parse().ok()?).map(Value::Number)
}

/// `2006-1-2`, alone or with a time of day, as far as a mistyped one would be told apart.
fn is_timestamp(text: &str) -> bool {
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let mut parts = date
        .split('-')
        .map(|part| part.parse::<u16>().ok().filter(|_| part.bytes().all(|byte| byte.is_ascii_digit())));
    let date = match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(Some(_)), Some(Some(month)), Some(Some(day)), None) => {
            (1..=12).contains(&month) && (1..=31).contains(&day)
        }
        _ => false,
    };
    date && time
        .is_none_or(|time| time.split(':').count() >= 3 && time.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn reads(yaml: &str, value: Value) {
        assert_eq!(parse(yaml.as_bytes()), Ok(value), "{yaml:?}");
    }

    #[track_caller]
    fn refuses(yaml: &str, why: &str) {
        let error = parse(yaml.as_bytes()).unwrap_err();
        assert!(error.contains(why), "{yaml:?}: {error}");
    }

    #[test]
    fn plain_scalars_are_those_of_yaml_1_1() {
        reads("[yes, Off, y, N, tRue]", json!([true, false, true, false, "tRue"]));
        reads("[~, null, NULL, !!null '', nUll]", json!([null, null, null, null, "nUll"]));
        reads("[1_000, 017, 0o17, 0x1F, 0b101, 089, -0x10]", json!([1000, 15, 15, 31, 5, 89.0, -16]));
        reads("[1.5, .5, 1e3, 1., 12e03, 1e999]", json!([1.5, 0.5, 1000.0, 1.0, 12000.0, "1e999"]));
        reads("[.5_0, ._5, 1_.5]", json!([0.5, "._5", 1.5]));
        reads("[18446744073709551615, 9007199254740993]", json!([u64::MAX, 9_007_199_254_740_993u64]));
        reads(
            "[1.2.3, 10.0.0.1, 2030-01-01, -a, '1', \"yes\"]",
            json!(["1.2.3", "10.0.0.1", "2030-01-01", "-a", "1", "yes"]),
        );
        reads("0x1p4", json!("0x1p4"));
        reads("+-5", json!("+-5"));
    }

    #[test]
    fn tags_decide_where_they_are_known() {
        reads("[!!str 5, !!int '5', !!binary dG9r, !custom 5, ! '5']", json!(["5", 5, "tok", "5", 5]));
        refuses("!!int abc", "!!int");
        refuses("!!timestamp soon", "!!timestamp");
        reads("!!timestamp 2030-01-01", json!("2030-01-01"));
    }

    #[test]
    fn the_last_of_a_repeated_key_wins() {
        reads("a: 1\na: 2", json!({"a": 2}));
    }

    #[test]
    fn merge_keys_add_what_comes_before() {
        reads(
            "p: &p {a: 1, b: 2}\nq:\n  <<: *p\n  b: 3",
            json!({"p": {"a": 1, "b": 2}, "q": {"a": 1, "b": 3}}),
        );
        reads("<<: [{a: 1}, {a: 2, b: 2}]", json!({"a": 1, "b": 2}));
        reads("'<<': {a: 1}", json!({"<<": {"a": 1}}));
        refuses("<<: 5", "<<");
    }

    #[test]
    fn what_follows_the_first_document_is_refused_unless_it_is_empty() {
        reads("a: 1\n---\n", json!({"a": 1}));
        reads("a: 1\n...\n# nothing\n", json!({"a": 1}));
        refuses("a: 1\n---\nb: 2", "line 3: nothing may follow the first document");
        refuses("---\n---\nb: 2", "line 3: nothing may follow the first document");
        refuses("a: 1\n---\n[]", "line 3: nothing may follow");
        refuses("a: 1\n...\n\"junk", "line 3");
        refuses("{a: 1}\n}", "line 2: misplaced bracket");
        refuses("a: 1\n%b: 2", "line 2");
        reads("", Value::Null);
        reads("# nothing", Value::Null);
    }

    #[test]
    fn aliases_repeat_a_value_within_bounds() {
        reads("[&a 1, *a, &a 2, *a]", json!([1, 1, 2, 2]));
        refuses("a: &a [*a]", "contains itself");
        refuses("[*nope]", "anchor");
        let mut laughs = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
        for n in 1..12 {
            let item = format!("*a{}, ", n - 1).repeat(9);
            laughs.push_str(&format!("a{n}: &a{n} [{item}]\n"));
        }
        refuses(&laughs, "excessive aliasing");
    }

    #[test]
    fn deep_nesting_is_an_error_not_an_overflow() {
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
        assert!(parse("{a: ".repeat(100_000).as_bytes()).is_err());
        let dashes = (0..2000).map(|n| format!("{}-\n", " ".repeat(n))).collect::<String>();
        assert!(parse(dashes.as_bytes()).is_err());
        assert!(parse(format!("{}{}", "[".repeat(300), "]".repeat(300)).as_bytes()).is_ok());
    }

    #[test]
    fn keys_are_text_or_can_be() {
        reads("1: a\ntrue: b", json!({"1": "a", "true": "b"}));
        refuses("~: a", "key");
        refuses("? {a: b}\n: c", "key");
    }

    #[test]
    fn encodings_of_editors_are_read() {
        let utf16: Vec<u8> = "\u{feff}a: ä😀".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(parse(&utf16), Ok(json!({"a": "ä😀"})));
        assert_eq!(parse(b"\xef\xbb\xbfa: 1\r\n"), Ok(json!({"a": 1})));
        assert!(parse(&utf16[..utf16.len() - 1]).is_err());
        assert!(parse(b"a: \xff").is_err());
        assert!(parse(b"a: \x1b[0m").is_err());
    }

    #[test]
    fn errors_name_the_line_and_not_its_text() {
        let error = parse(b"a: 1\ntoken: `hidden`\n").unwrap_err();
        assert!(error.starts_with("line 2: ") && !error.contains("hidden"), "{error}");
    }
}
