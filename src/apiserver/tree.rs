//! Small readers and writers of JSON trees, and what is made up for objects: times, uids, name endings.
//!
//! A stored body is an object with an object `metadata`, and without `apiVersion` and `kind`.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

/// A JSON object.
pub(super) type Tree = Map<String, Value>;

/// The text at a JSON pointer, empty if there is none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The whole number at a JSON pointer.
pub(super) fn number(value: &Value, pointer: &str) -> Option<i64> {
    value.pointer(pointer).and_then(Value::as_i64)
}

/// The list at a JSON pointer, empty if there is none.
pub(super) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// `value` as an object, made one if it is something else.
pub(super) fn tree(value: &mut Value) -> &mut Tree {
    if !value.is_object() {
        *value = Value::Object(Tree::new());
    }
    match value {
        Value::Object(tree) => tree,
        _ => unreachable!("made an object above"),
    }
}

/// A field of an object as an object; both are made if they are something else.
pub(super) fn child<'a>(value: &'a mut Value, field: &str) -> &'a mut Tree {
    tree(tree(value).entry(field).or_insert(Value::Null))
}

/// The metadata of a body.
pub(super) fn metadata(body: &mut Value) -> &mut Tree {
    child(body, "metadata")
}

/// Sets a field, or removes it for `None`.
pub(super) fn put(tree: &mut Tree, field: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(tree.insert(field.into(), value)),
        None => drop(tree.remove(field)),
    }
}

/// Reads a place that is given by field names, as the JSON paths `.spec.replicas` of a CRD.
pub(super) fn at_path<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').filter(|part| !part.is_empty()).try_fold(value, |value, part| value.get(part))
}

/// Writes a place that is given by field names; objects on the way are made.
pub(super) fn set_path(value: &mut Value, path: &str, new: Value) {
    let mut place = value;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        place = tree(place).entry(part).or_insert(Value::Null);
    }
    *place = new;
}

/// How deep a tree is: patches must not make one that overflows the stack.
pub(super) fn depth(value: &Value) -> usize {
    match value {
        Value::Object(tree) => 1 + tree.values().map(depth).max().unwrap_or(0),
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// A Quantity-free scalar as people read it: text without quotes.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// RFC 3339 in seconds and UTC, as `metav1.Time` is written. To be replaced by `object::Time`.
pub(super) fn timestamp(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Civil date of a day number: eras of 400 years that begin on 1 March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The inverse of [`timestamp`], in seconds since 1970.
pub(super) fn seconds_of(text: &str) -> Option<u64> {
    let part = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (hour, minute, second) = (part(11, 13)?, part(14, 16)?, part(17, 19)?);
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let shifted_month = if month > 2 { month.checked_sub(3)? } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day.checked_sub(1)?;
    let year_of_era = year % 400;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (year / 400 * 146_097 + day_of_era).checked_sub(719_468)?;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// The keys of a new `RandomState` are random, which is all that is needed here.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A uid: random, in the form of a version 4 UUID.
pub(super) fn uid() -> String {
    let (high, low) = (random(), random());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        0x8000 | (low >> 48 & 0x3fff),
        low & 0xffff_ffff_ffff
    )
}

/// The five letters that end a generated name; no vowels, so that no words come up.
pub(super) fn name_suffix() -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut left = random();
    (0..5)
        .map(|_| {
            let letter = LETTERS[(left % LETTERS.len() as u64) as usize];
            left /= LETTERS.len() as u64;
            char::from(letter)
        })
        .collect()
}

/// Base64 with padding, for a Secret's `stringData`.
pub(super) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            out.push(if at > chunk.len() { '=' } else { char::from(letter) });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_written_and_read() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_827_696, "2000-02-29T12:34:56Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(timestamp(UNIX_EPOCH + Duration::from_secs(seconds)), text);
            assert_eq!(seconds_of(text), Some(seconds));
        }
        assert_eq!(seconds_of("yesterday"), None);
    }

    #[test]
    fn base64_pads() {
        assert_eq!(
            ["", "f", "fo", "foo", "foobar"].map(|t| base64(t.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYmFy"]
        );
    }

    #[test]
    fn uids_have_the_form_of_version_4() {
        let (one, other) = (uid(), uid());
        assert_ne!(one, other);
        assert_eq!((one.len(), &one[14..15]), (36, "4"));
        assert!("89ab".contains(&one[19..20]));
    }
}
