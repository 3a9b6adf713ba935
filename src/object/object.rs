use std::borrow::Cow;
use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde::ser::{Error as _, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::pack::{Body, Packer};
use super::{BorrowedJson, BorrowedText, ObjectMeta, Resource, Text, Whole, tell};
use crate::error::{Error, Result};

/// An object of any kind, kept whole as JSON text but for `managedFields`; in a cache the text is packed (feature
/// `pack`), to about a tenth for a kind with many objects, and unpacked for each look into it.
///
/// What caches and selectors ask for is at hand in [`metadata`](Self::metadata); the rest is read by JSON pointer, as
/// text, or as a type. Who reads several fields of an object saves time with one [`parse`](Self::parse). `Debug` shows
/// kind and name only, as the object may be a secret.
///
/// ```
/// # use listwatch::Object;
/// let mut object = Object::from_json(
///     r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":3}}"#)?;
/// assert_eq!(object.metadata().name, "web");
/// assert_eq!(object.get("/spec/replicas"), Some(3));
/// object.set("/metadata/labels/app", "web")?;
/// assert_eq!(object.metadata().labels.get("app"), Some("web"));
/// # Ok::<(), listwatch::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    metadata: ObjectMeta,
    api_version: Text,
    kind: Text,
    /// `{"apiVersion":"…","kind":"…","metadata":{…}` and the other fields as they came.
    body: Body,
}

impl Object {
    /// An object with nothing but metadata.
    ///
    /// # Errors
    /// `api_version` or `kind` is empty or cannot be one.
    pub fn new(api_version: &str, kind: &str, metadata: ObjectMeta) -> Result<Self> {
        Self::from_value(serde_json::json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata }))
    }

    /// Reads JSON text.
    ///
    /// # Errors
    /// It is no JSON object with `apiVersion`, `kind` and `metadata`.
    pub fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text)
            .map_err(|error| Error::decode(format!("the text is no object: {}", tell(text, &error))))
    }

    /// Takes a JSON value, or whatever else serializes as an object with `apiVersion`, `kind` and `metadata`.
    ///
    /// # Errors
    /// It does not.
    pub fn from_value(value: impl Serialize) -> Result<Self> {
        let text = serde_json::to_string(&value)
            .map_err(|error| Error::invalid(format!("a value that is no JSON: {error}")))?;
        Self::from_json(&text)
    }

    /// Group and version, as `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// What every object carries. To change it, use [`set`](Self::set) or [`edit`](Self::edit).
    #[must_use]
    pub fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    /// The JSON of the whole object without `managedFields`; `apiVersion`, `kind` and `metadata` come first.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        self.body.text()
    }

    /// The value at a [JSON pointer](https://www.rfc-editor.org/rfc/rfc6901) (`/spec/containers/0/name`), if it is
    /// there and fits. It costs one look through the text up to there, and the unpacking of it in a cache.
    #[must_use]
    pub fn get<T: DeserializeOwned>(&self, pointer: &str) -> Option<T> {
        let (mut found, text) = (None, self.text());
        let mut json = serde_json::Deserializer::from_str(&text);
        // It stops in the middle of the text once it has found the value, which the parser calls an error.
        let _ = Pointer { path: pointer, found: &mut found }.deserialize(&mut json);
        found
    }

    /// The text at a JSON pointer; `None` if it is something else.
    #[must_use]
    pub fn get_str(&self, pointer: &str) -> Option<String> {
        self.get(pointer)
    }

    /// The object as a type.
    ///
    /// # Errors
    /// It does not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        let text = self.text();
        serde_json::from_str(&text).map_err(|error| {
            let (kind, key, target) = (self.kind(), self.key(), std::any::type_name::<T>());
            Error::decode(format!("{kind} {key} does not fit {target}: {}", tell(&text, &error)))
        })
    }

    /// Sets the value at a JSON pointer, and makes the objects that lead to it. `-` in a pointer is the end of an
    /// array.
    ///
    /// # Errors
    /// The pointer leads through something that is no object or array, or the result is no object of a kind any more.
    /// The object is as before.
    pub fn set(&mut self, pointer: &str, value: impl Serialize) -> Result<()> {
        let value = serde_json::to_value(value)
            .map_err(|error| Error::invalid(format!("a value that is no JSON: {error}")))?;
        let mut whole = self.parse::<Value>()?;
        let place = make(&mut whole, pointer)
            .ok_or_else(|| Error::invalid(format!("{} {}: no place {pointer:?}", self.kind(), self.key())))?;
        *place = value;
        *self = Self::from_value(whole)?;
        Ok(())
    }

    /// Changes the object as a tree of values.
    ///
    /// # Errors
    /// The result is no object of a kind any more; the object is as before.
    pub fn edit(&mut self, change: impl FnOnce(&mut Value)) -> Result<()> {
        let mut value = self.parse::<Value>()?;
        change(&mut value);
        *self = Self::from_value(value)?;
        Ok(())
    }
}

/// The place of a pointer, made where it is missing.
fn make<'v>(whole: &'v mut Value, pointer: &str) -> Option<&'v mut Value> {
    if pointer.is_empty() {
        return Some(whole);
    }
    pointer.strip_prefix('/')?.split('/').try_fold(whole, |value, step| {
        let step = unescape(step);
        if value.is_null() {
            *value = Value::Object(serde_json::Map::new());
        }
        match value {
            Value::Object(fields) => Some(fields.entry(step).or_insert(Value::Null)),
            Value::Array(items) => {
                let index = if step == "-" { items.len() } else { index(&step)? };
                if index == items.len() {
                    items.push(Value::Null);
                }
                items.get_mut(index)
            }
            _ => None,
        }
    })
}

/// As RFC 6901 writes it: digits, without a sign or more zeros than needed.
fn index(step: &str) -> Option<usize> {
    step.parse().ok().filter(|index: &usize| index.to_string() == step)
}

fn unescape(step: &str) -> Cow<'_, str> {
    if step.contains('~') {
        Cow::Owned(step.replace("~1", "/").replace("~0", "~"))
    } else {
        Cow::Borrowed(step)
    }
}

/// Walks along a pointer and leaves the value it finds.
struct Pointer<'p, T> {
    path: &'p str,
    found: &'p mut Option<T>,
}

impl<'de, T: DeserializeOwned> DeserializeSeed<'de> for Pointer<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.path.is_empty() {
            *self.found = Some(T::deserialize(deserializer)?);
            return Ok(());
        }
        deserializer.deserialize_any(self)
    }
}

impl<'p, T> Pointer<'p, T> {
    /// The first step of the path, and the rest of it.
    fn step<E: serde::de::Error>(&self) -> Result<(&'p str, &'p str), E> {
        let path = self.path.strip_prefix('/').ok_or_else(|| E::custom("a pointer begins with a slash"))?;
        let end = path.find('/').unwrap_or(path.len());
        Ok(path.split_at(end))
    }
}

impl<'de, T: DeserializeOwned> Visitor<'de> for Pointer<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (step, path) = self.step()?;
        let step = unescape(step);
        while let Some(BorrowedText(key)) = map.next_key()? {
            if key == step {
                return map.next_value_seed(Pointer { path, found: self.found });
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let (step, path) = self.step()?;
        let index = index(step).ok_or_else(|| A::Error::custom("no index"))?;
        for _ in 0..index {
            if seq.next_element::<IgnoredAny>()?.is_none() {
                return Ok(());
            }
        }
        seq.next_element_seed(Pointer { path, found: self.found }).map(|_| ())
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.api_version(), self.kind(), self.key())
    }
}

impl Resource for Object {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn pack(&mut self, packer: &mut Packer) {
        packer.pack(&mut self.body);
    }
}

/// It loses only `managedFields`, which the server keeps if a replace does not name them.
impl Whole for Object {}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(&self.text()).map_err(S::Error::custom)?.serialize(serializer)
    }
}

/// Only from JSON: text, or a [`Value`].
impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with apiVersion and kind")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let (mut api_version, mut kind) = (Text::default(), Text::default());
        let (mut metadata, mut rest) = (None, Vec::new());
        while let Some(BorrowedText(key)) = map.next_key()? {
            match &*key {
                "apiVersion" => api_version = map.next_value::<Type>()?.0,
                "kind" => kind = map.next_value::<Type>()?.0,
                "metadata" => metadata = Some(map.next_value::<Fields<'_>>()?.0),
                _ => rest.push((key, map.next_value()?)),
            }
        }
        if api_version.is_empty() || kind.is_empty() {
            let missing = if kind.is_empty() { "kind" } else { "apiVersion" };
            return Err(A::Error::missing_field(missing));
        }
        let Some(metadata) = metadata else { return Err(A::Error::missing_field("metadata")) };
        let size =
            |fields: &[Field<'_>]| fields.iter().map(|(k, json)| k.len() + json.0.len() + 4).sum::<usize>();
        let length = api_version.len() + kind.len() + size(&metadata) + size(&rest) + 50;
        let mut text = String::with_capacity(length);
        text.extend([r#"{"apiVersion":""#, &api_version, r#"","kind":""#, &kind, r#"","metadata":"#]);
        let start = text.len();
        text.push('{');
        push_fields(&mut text, &metadata);
        text.push('}');
        let json = &text[start..];
        let metadata = serde_json::from_str(json)
            .map_err(|error| A::Error::custom(format_args!("metadata.{}", tell(json, &error))))?;
        push_fields(&mut text, &rest);
        text.push('}');
        Ok(Object { metadata, api_version, kind, body: Body::new(text) })
    }
}

type Field<'de> = (Cow<'de, str>, BorrowedJson<'de>);

/// Appends fields to those of the JSON object that `text` ends in.
fn push_fields(text: &mut String, fields: &[Field<'_>]) {
    for (key, BorrowedJson(json)) in fields {
        if !text.ends_with('{') {
            text.push(',');
        }
        if key.bytes().all(|b| b >= b' ' && b != b'"' && b != b'\\') {
            text.extend(["\"", key, "\":", json]);
        } else {
            text.extend([&*Value::from(&**key).to_string(), ":", json]);
        }
    }
}

/// An apiVersion or kind: text that is the same inside JSON.
struct Type(Text);

impl<'de> Deserialize<'de> for Type {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text::deserialize(deserializer)?;
        if text.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\') {
            Ok(Self(text))
        } else {
            Err(D::Error::custom("no apiVersion or kind has such characters"))
        }
    }
}

/// The fields of an object's metadata without `managedFields`.
struct Fields<'de>(Vec<Field<'de>>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;

        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("metadata")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::with_capacity(16);
                while let Some(BorrowedText(key)) = map.next_key()? {
                    if key == "managedFields" {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        fields.push((key, map.next_value()?));
                    }
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(FieldsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const POD: &str = r#"{
        "kind": "Pod", "spec": {"a/b": [1, {"c~": "two"}], "big": 12345678901234567890, "precise": 1.10},
        "apiVersion": "v1",
        "metadata": {"name": "web-0", "namespace": "default", "uid": "u", "resourceVersion": "7",
            "managedFields": [{"manager": "kubelet"}], "selfLink": "kept", "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "o", "controller": true}]},
        "status": {"phase": "Run\u006eing\n"}
    }"#;

    fn pod() -> Object {
        Object::from_json(POD).unwrap()
    }

    #[test]
    fn keeps_all_but_managed_fields() {
        let mut expected: Value = serde_json::from_str(POD).unwrap();
        expected["metadata"].as_object_mut().unwrap().remove("managedFields");
        let pod = pod();
        assert_eq!(serde_json::from_str::<Value>(&pod.text()).unwrap(), expected);
        assert_eq!(serde_json::to_string(&pod).unwrap(), pod.text());
        assert_eq!(serde_json::to_value(&pod).unwrap(), expected);
        assert!(pod.text().starts_with(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","#));
        assert!(pod.text().contains("1.10"), "numbers stay as they were written");
    }

    #[test]
    fn is_a_resource() {
        let pod = pod();
        assert_eq!((pod.api_version(), pod.kind()), ("v1", "Pod"));
        assert_eq!(pod.key().to_string(), "default/web-0");
        assert_eq!((pod.uid(), pod.resource_version(), pod.label("app")), ("u", "7", Some("web")));
        assert_eq!(pod.controller().unwrap().name, "web");
        assert!(!pod.is_deleting());
        assert_eq!(format!("{pod:?}"), "v1 Pod default/web-0");
    }

    #[test]
    fn reads_by_pointer() {
        let pod = pod();
        assert_eq!(pod.get("/spec/a~1b/0"), Some(1));
        assert_eq!(pod.get_str("/spec/a~1b/1/c~0").as_deref(), Some("two"));
        assert_eq!(pod.get_str("/status/phase").as_deref(), Some("Running\n"));
        assert_eq!(pod.get("/spec/big"), Some(12_345_678_901_234_567_890_u64));
        assert_eq!(pod.get::<Value>("").unwrap()["metadata"]["selfLink"], "kept");
        let absent = ["/nope", "/spec/a~1b/2", "/spec/a~1b/x", "/spec/big/0", "spec", "/status/phase/"];
        for absent in absent.into_iter().chain(["/spec/a~1b/+1", "/spec/a~1b/00", "/spec/a~1b/-"]) {
            assert_eq!(pod.get::<Value>(absent), None, "{absent}");
        }
        assert_eq!(pod.get::<u8>("/status/phase"), None);
    }

    #[test]
    fn reads_from_a_value_as_from_text() {
        let value: Value = serde_json::from_str(POD).unwrap();
        let from_value: Object = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(from_value, Object::from_value(&value).unwrap());
        assert_eq!(from_value.metadata(), pod().metadata());
        assert_eq!(from_value.parse::<Value>().unwrap(), pod().parse::<Value>().unwrap());
    }

    #[test]
    fn set_changes_text_and_metadata() {
        let mut pod = pod();
        pod.set("/metadata/annotations/a~1b", "x").unwrap();
        pod.set("/spec/a~1b/-", json!({"new": true})).unwrap();
        pod.set("/spec/a~1b/0", 5).unwrap();
        assert_eq!(pod.annotation("a/b"), Some("x"));
        assert_eq!(pod.get("/spec/a~1b"), Some(json!([5, {"c~": "two"}, {"new": true}])));
        pod.edit(|value| value["metadata"]["name"] = json!("other")).unwrap();
        assert_eq!(pod.name(), "other");
    }

    #[test]
    fn set_leaves_other_numbers_as_they_are() {
        let numbers =
            "[31.245270191439438,0.00011499999999999999,2.2250738585072014e-308,1.7976931348623157e308]";
        let mut object = Object::from_json(&format!(
            r#"{{"apiVersion":"v1","kind":"A","metadata":{{}},"spec":{numbers}}}"#
        ))
        .unwrap();
        object.set("/metadata/name", "x").unwrap();
        assert!(object.text().replace("e+", "e").contains(numbers), "{}", object.text());
    }

    #[test]
    fn a_change_that_makes_it_no_object_changes_nothing() {
        let mut pod = pod();
        for (pointer, value) in
            [("/kind", json!(null)), ("/metadata", json!("x")), ("/apiVersion", json!("a\"b"))]
        {
            assert!(pod.set(pointer, value).unwrap_err().is_decode(), "{pointer}");
        }
        assert!(pod.set("/spec/big/x", 1).unwrap_err().is_invalid_argument());
        for place in ["/spec/a~1b/7", "/spec/a~1b/+1", "/spec/a~1b/00"] {
            assert!(pod.set(place, 1).unwrap_err().is_invalid_argument(), "{place}");
        }
        assert_eq!(pod, super::tests::pod());
    }

    #[test]
    fn a_packed_object_reads_and_changes_as_a_plain_one() {
        let mut packer = Packer::new();
        let kept: Vec<_> = (0..200)
            .map(|n| {
                let mut pod = pod();
                pod.set("/metadata/uid", n.to_string()).unwrap();
                pod.set("/spec/text", "escaped \"\n\u{1} and ünïcode 世界").unwrap();
                let plain = pod.clone();
                pod.pack(&mut packer);
                (plain, pod)
            })
            .collect();
        for (plain, packed) in &kept {
            assert_eq!(packed, plain);
            assert_eq!(packed.clone().text(), plain.text());
            assert_eq!(packed.metadata(), plain.metadata());
            assert_eq!(format!("{packed:?}"), "v1 Pod default/web-0");
            assert_eq!(serde_json::to_string(packed).unwrap(), plain.text());
            assert_eq!(serde_json::to_value(packed).unwrap(), plain.parse::<Value>().unwrap());
            assert_eq!(packed.get_str("/spec/text"), plain.get_str("/spec/text"));
        }
        assert_ne!(kept[0].1, kept[1].1);
        let (mut plain, mut packed) = kept[199].clone();
        #[cfg(feature = "pack")]
        assert!(matches!(packed.text(), Cow::Owned(_)), "it is packed");
        for object in [&mut plain, &mut packed] {
            object.set("/metadata/labels/app", "shop").unwrap();
            object.edit(|value| value["status"]["phase"] = json!("Failed")).unwrap();
            assert!(object.set("/kind", 1).is_err());
        }
        assert_eq!(packed, plain);
        assert_eq!(
            (packed.label("app"), packed.get_str("/status/phase").as_deref()),
            (Some("shop"), Some("Failed"))
        );
    }

    #[test]
    fn what_has_no_kind_is_no_object() {
        for json in
            ["[]", "{}", r#"{"kind":"Pod","metadata":{}}"#, r#"{"apiVersion":"v1","kind":"Pod"}"#, "1"]
        {
            assert!(Object::from_json(json).unwrap_err().is_decode(), "{json}");
        }
        let bare = Object::new("apps/v1", "Deployment", ObjectMeta::named("web")).unwrap();
        assert_eq!((bare.api_version(), bare.kind(), bare.name()), ("apps/v1", "Deployment", "web"));
        let empty = Object::from_json(r#"{"kind":"Pod","apiVersion":"v1","metadata":{}}"#).unwrap();
        assert_eq!(empty.text(), r#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#);
    }
}
