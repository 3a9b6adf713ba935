//! Warnings that come with answers: deprecated APIs, fields that the server does not know, what admission has to say.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use log::{error, warn};

use crate::http::Response;
use crate::object::cut;

/// The longest text that is told, in bytes. kube-apiserver's are of at most 4 KiB, all of an answer together.
const LONGEST: usize = 4 << 10;
/// So many of one answer are told.
const MOST: usize = 64;
/// So many texts are known to have been logged.
const KNOWN: usize = 256;

type Hook = Box<dyn Fn(&str) + Send + Sync>;

/// Where the warnings of a client go.
#[derive(Default)]
pub(super) struct Warnings {
    /// `None` is the log.
    hook: Option<Hook>,
    /// Hashes of what was logged. Held for a moment, with no other lock.
    logged: Mutex<Vec<u64>>,
    hasher: RandomState,
}

impl Warnings {
    pub(super) fn to(hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { hook: Some(Box::new(hook)), ..Self::default() }
    }

    /// Tells those of an answer.
    pub(super) fn tell(&self, answer: &Response) {
        let texts = answer.headers("warning").flat_map(|header| parse(&String::from_utf8_lossy(header)));
        for text in texts.take(MOST) {
            match &self.hook {
                // It runs on threads of this crate, too, which must not end by it.
                Some(hook) => {
                    let told = catch_unwind(AssertUnwindSafe(|| hook(&text)));
                    if told.is_err() {
                        error!(target: "listwatch::client", "a hook for warnings panicked");
                    }
                }
                None if self.is_new(&text) => {
                    warn!(target: "listwatch::client", "the API server warns: {text}");
                }
                None => {}
            }
        }
    }

    /// Whether it was not logged before, as far as that is remembered.
    fn is_new(&self, text: &str) -> bool {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = self.hasher.hash_one(text);
        let is_new = !logged.contains(&hash);
        if is_new {
            if logged.len() >= KNOWN {
                logged.clear();
            }
            logged.push(hash);
        }
        is_new
    }
}

impl fmt::Debug for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.hook.is_some() { "told to a hook" } else { "logged" })
    }
}

/// The texts of the warnings of code 299 in one header (RFC 7234, section 5.5): `299 - "text", 299 - "text" "date"`. What
/// follows junk is not read, as in client-go's `ParseWarningHeaders`.
fn parse(header: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = Some(header);
    while let Some(header) = rest {
        let Some((code, text, more)) = parse_one(header) else { break };
        if code == "299" && !text.is_empty() {
            texts.push(printable(&text));
        }
        rest = more;
    }
    texts
}

/// Code and text of the first warning, and what is behind it.
fn parse_one(header: &str) -> Option<(&str, String, Option<&str>)> {
    let header = header.trim_start_matches([' ', '\t', ',']);
    let (code, rest) = header.split_once(' ')?;
    if code.len() != 3 || !code.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let (_agent, rest) = rest.split_once(' ')?;
    let (text, mut rest) = quoted(rest)?;
    if rest.starts_with('"') {
        (_, rest) = quoted(rest)?; // when
    }
    Some((code, text, rest.strip_prefix(',')))
}

/// What is between quotes, and what is behind them.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut inner, mut escaped) = (String::new(), false);
    let text = text.trim_start().strip_prefix('"')?;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !escaped => return Some((inner, text[at + 1..].trim_start())),
            '\\' if !escaped => escaped = true,
            c => {
                escaped = false;
                inner.push(c);
            }
        }
    }
    None
}

/// Not too much of it, and nothing that a terminal would obey.
fn printable(text: &str) -> String {
    let (start, more) = cut(text, LONGEST);
    let mut printable = String::with_capacity(start.len());
    for c in start.chars() {
        if c.is_control() { printable.extend(c.escape_default()) } else { printable.push(c) }
    }
    printable + more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_are_quoted() {
        let two = r#"299 - "one", 299 kube-apiserver:443 "t\"w\\o, \o"   "Sat, 25 Aug 2012 23:34:45 GMT" ,, 299 - "é €""#;
        assert_eq!(parse(two), ["one", r#"t"w\o, o"#, "é €"]);
        assert_eq!(parse(r#"199 - "other", 299 - "", 299 - "mine""#), ["mine"]);
        assert_eq!(parse("299 - \"\u{9b}2Ja\tb\u{7f}\""), ["\\u{9b}2Ja\\tb\\u{7f}"]);
    }

    #[test]
    fn junk_is_passed_over() {
        for junk in [
            "",
            " ",
            ",",
            "299",
            "299 ",
            "299 -",
            "299 - ",
            "299 - text",
            "299 - \"",
            "299 - \"open",
            "299 - \"open\\\"",
            "299 - \"open\\",
            "29 - \"a\"",
            "2999 - \"a\"",
            "abc - \"a\"",
            "²99 - \"a\"",
            "299\t- \"a\"",
            "299 - 'a'",
            "299 - \"a\" \"open",
        ] {
            assert_eq!(parse(junk), [""; 0], "{junk:?}");
        }
        assert_eq!(parse("299 - \"a\" junk, 299 - \"b\""), ["a"]);
        assert_eq!(parse("299 - \"a\", junk, 299 - \"b\""), ["a"]);
    }

    #[test]
    fn long_texts_are_cut() {
        let long = format!("299 - \"{}\"", "é".repeat(LONGEST));
        assert!(parse(&long)[0].len() <= LONGEST + 3);
        // Escaped, a byte becomes six.
        let long = format!("299 - \"{}\"", "\u{1}".repeat(LONGEST * 2));
        assert!(parse(&long)[0].len() <= LONGEST * 6);
    }

    #[test]
    fn a_text_is_logged_once_and_not_for_ever_remembered() {
        let warnings = Warnings::default();
        assert!(warnings.is_new("a") && !warnings.is_new("a") && warnings.is_new("b"));
        for n in 0..100_000 {
            warnings.is_new(&n.to_string());
        }
        assert!(warnings.logged.lock().unwrap().len() <= KNOWN);
    }
}
