//! What to say of JSON that cannot be read: where, and what is wrong with it.

use std::fmt::Write;
use std::str::Utf8Error;

/// What `error` says of `json`, and which field it is about. Never the text that was found there: it may be a secret.
pub(crate) fn tell(json: &str, error: &serde_json::Error) -> String {
    let lines = json.split_inclusive('\n').take(error.line().saturating_sub(1));
    let at = lines.map(str::len).sum::<usize>() + error.column();
    // Bad syntax is told behind the byte that is wrong.
    let place = place(json.as_bytes(), at.saturating_sub(usize::from(!error.is_data())));
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&position).unwrap_or(&message);
    let message = match (message.split_once(": string \""), message.rfind("\", expected ")) {
        (Some((what, _)), Some(end)) => format!("{what}: string{}", &message[end + 1..]),
        _ => message.to_owned(),
    };
    let at = if error.is_data() { String::new() } else { format!(" at byte {at}") };
    let place = if place.is_empty() { place } else { format!("{place}: ") };
    place + cut(&message, LONGEST).0 + &at
}

/// The same for bytes that are no text.
pub(crate) fn tell_bytes(json: &[u8], error: Utf8Error) -> String {
    let at = error.valid_up_to();
    let place = place(json, at);
    let colon = if place.is_empty() { "" } else { ": " };
    format!("{place}{colon}not UTF-8 at byte {at}")
}

/// The longest piece of a text from outside that belongs into a message, in bytes.
const LONGEST: usize = 200;

/// The start of a text, at most `longest` bytes of it, and the sign that there is more.
pub(crate) fn cut(text: &str, longest: usize) -> (&str, &'static str) {
    let end = (0..=longest.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    (&text[..end], if end < text.len() { "…" } else { "" })
}

/// Text from outside, for a message: not too much of it, in quotes.
pub(super) fn excerpt(text: &str) -> String {
    let (start, more) = cut(text, LONGEST);
    format!("{start:?}{more}")
}

/// The same without quotes where they are not needed to see what is there.
pub(crate) fn short(text: &str) -> String {
    let (start, more) = cut(text, LONGEST);
    if start.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
        format!("{start}{more}")
    } else {
        excerpt(text)
    }
}

/// The path of what the first `end` bytes of JSON lead to: `spec.containers[0].name`.
fn place(json: &[u8], end: usize) -> String {
    enum Step {
        Key(String),
        Index(usize),
    }

    let end = end.min(json.len());
    let (mut steps, mut at, mut key_follows) = (Vec::new(), 0, false);
    while at < end {
        match json[at] {
            b'{' => {
                steps.push(Step::Key(String::new()));
                key_follows = true;
            }
            b'[' => steps.push(Step::Index(0)),
            b'}' | b']' => {
                steps.pop();
            }
            b',' => match steps.last_mut() {
                Some(Step::Index(index)) => *index += 1,
                _ => key_follows = true,
            },
            b'"' => {
                let start = at + 1;
                at = start;
                while at < json.len() && json[at] != b'"' {
                    at += if json[at] == b'\\' { 2 } else { 1 };
                }
                if let (Some(Step::Key(key)), true) = (steps.last_mut(), key_follows) {
                    *key = String::from_utf8_lossy(&json[start..at.min(json.len())]).into_owned();
                    key_follows = false;
                }
            }
            _ => {}
        }
        at += 1;
    }
    let mut path = String::new();
    for step in &steps {
        let plain = |key: &str| key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        let written = match step {
            Step::Key(key) if key.is_empty() => Ok(()),
            Step::Key(key) if !plain(key) => write!(path, "[{:?}]", cut(key, LONGEST).0),
            Step::Key(key) if path.is_empty() => write!(path, "{key}"),
            Step::Key(key) => write!(path, ".{key}"),
            Step::Index(index) => write!(path, "[{index}]"),
        };
        debug_assert!(written.is_ok(), "a string takes all");
    }
    // JSON that is nested deeply is told by its outer part.
    cut(&path, LONGEST).0.to_owned()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[test]
    fn the_place_of_a_byte() {
        let json = br#"{"a":{"b,\"]":[1,{"c":"}"},{"d":[[],[2]]}]},"e":3}"#;
        for (until, path) in [
            ("{\"a\":", "a"),
            ("[1", "a[\"b,\\\\\\\"]\"][0]"),
            ("\"c\":\"}\"", "a[\"b,\\\\\\\"]\"][1].c"),
            ("[2", "a[\"b,\\\\\\\"]\"][2].d[1][0]"),
            (":3", "e"),
            (":3}", ""),
        ] {
            let at = json.windows(until.len()).position(|w| w == until.as_bytes()).unwrap() + until.len();
            assert_eq!(place(json, at), path, "after {until}");
        }
    }

    #[test]
    fn found_text_is_not_told() {
        #[derive(Debug, Deserialize)]
        #[allow(dead_code)]
        struct Secret {
            data: u8,
        }
        let json = r#"{"data":"hun\", expected ter2"}"#;
        let error = serde_json::from_str::<Secret>(json).unwrap_err();
        assert_eq!(tell(json, &error), "data: invalid type: string, expected u8");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!((short("a b"), short(""), short("a\nb")), ("a b".into(), "".into(), r#""a\nb""#.into()));
        let long = format!("{}é", "a".repeat(LONGEST - 1));
        assert_eq!(short(&long), format!("{}…", "a".repeat(LONGEST - 1)));
        assert_eq!(excerpt(&long[..LONGEST - 1]), format!("{:?}", "a".repeat(LONGEST - 1)));
    }
}
