//! Small readers and writers of JSON trees, and what is made up for objects: uids, name endings.
//!
//! A stored body is an object with an object `metadata`, and without `apiVersion` and `kind`.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

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

/// A scalar as people read it: text without quotes.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_have_the_form_of_version_4() {
        let (one, other) = (uid(), uid());
        assert_ne!(one, other);
        assert_eq!((one.len(), &one[14..15]), (36, "4"));
        assert!("89ab".contains(&one[19..20]));
    }
}
