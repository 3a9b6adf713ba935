use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use crate::object::{ApiResource, BorrowedText, Resource};

/// Which kind of object a decoder is to find.
///
/// A `Table`, a `Status` or another kind than the expected one is never taken for the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    types: Option<(String, String)>,
}

impl Expect {
    /// Any kind of object but a `Status` or a `Table`.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// The metadata of objects of any kind.
    pub(crate) fn metadata() -> Self {
        Self { types: Some(("meta.k8s.io/v1".into(), "PartialObjectMetadata".into())) }
    }

    pub(super) fn types(&self) -> Option<(&str, &str)> {
        self.types.as_ref().map(|(api_version, kind)| (&**api_version, &**kind))
    }

    /// Whether an object of these types, empty if not told, is one that is expected.
    pub(super) fn takes(&self, api_version: &str, kind: &str) -> bool {
        match self.types() {
            Some(expected) => {
                (api_version.is_empty() || api_version == expected.0)
                    && (kind.is_empty() || kind == expected.1)
            }
            None => !(matches!(kind, "Status" | "Table") && Self::is_meta(api_version)),
        }
    }

    /// Whether a list that says to be of these types, empty if not told, is one of what is expected.
    ///
    /// A custom resource may call its list as it likes (`listKind`), but its group always holds a dot.
    pub(super) fn takes_list(&self, api_version: &str, kind: &str) -> bool {
        let Some(expected) = self.types() else { return !matches!(kind, "Status" | "Table") };
        let regular = kind.strip_suffix("List") == Some(expected.1);
        let custom = expected.0.split_once('/').is_some_and(|(group, _)| group.contains('.'));
        let other = custom && !matches!(kind, "Status" | "Table") && kind != expected.1;
        (api_version.is_empty() || api_version == expected.0) && (kind.is_empty() || regular || other)
    }

    fn is_meta(api_version: &str) -> bool {
        matches!(api_version, "" | "v1") || api_version.starts_with("meta.k8s.io/")
    }
}

/// The kind of a resource.
impl From<&ApiResource> for Expect {
    fn from(resource: &ApiResource) -> Self {
        Self { types: Some((resource.api_version.to_string(), resource.kind.to_string())) }
    }
}

/// `v1 Pod`, or `an object`.
impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.types {
            Some((api_version, kind)) => write!(f, "{api_version} {kind}"),
            None => f.write_str("an object"),
        }
    }
}

/// Reads one object, and checks on the way that it is of the right kind and has a name. What its errors say is not
/// told to anyone: [`unfit`](super::unfit) finds out from the bytes.
pub(super) struct ObjectSeed<'x, K> {
    pub(super) expected: &'x Expect,
    /// `apiVersion` and `kind` for an object that comes without them, as the items of a list do.
    pub(super) fill: Option<(&'x str, &'x str)>,
    pub(super) object: PhantomData<K>,
}

impl<'de, K: Resource> DeserializeSeed<'de> for ObjectSeed<'_, K> {
    type Value = K;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<K, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, K: Resource> Visitor<'de> for ObjectSeed<'_, K> {
    type Value = K;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<K, A::Error> {
        let checked = Checked {
            map,
            expected: self.expected,
            fill: self.fill,
            has_api_version: false,
            has_kind: false,
            odd_api_version: true,
            odd_kind: false,
            value: None,
        };
        let object = K::deserialize(MapAccessDeserializer::new(checked))?;
        if object.name().is_empty() {
            return Err(A::Error::custom("no name"));
        }
        Ok(object)
    }
}

/// The fields of an object: looks at `apiVersion` and `kind` in passing, and adds them behind the others if they are
/// missing.
struct Checked<'x, A> {
    map: A,
    expected: &'x Expect,
    fill: Option<(&'x str, &'x str)>,
    has_api_version: bool,
    has_kind: bool,
    odd_api_version: bool,
    odd_kind: bool,
    /// The value of the key that was handed out last, where it was read ahead.
    value: Option<Cow<'x, str>>,
}

impl<'de: 'x, 'x, A: MapAccess<'de>> Checked<'x, A> {
    fn check_api_version(&mut self, api_version: &str) -> Result<(), A::Error> {
        self.has_api_version = true;
        self.odd_api_version = Expect::is_meta(api_version);
        if self.expected.takes(api_version, "") {
            Ok(())
        } else {
            Err(A::Error::custom("another apiVersion"))
        }
    }

    fn check_kind(&mut self, kind: &str) -> Result<(), A::Error> {
        self.has_kind = true;
        self.odd_kind = matches!(kind, "Status" | "Table");
        // Without an expected kind it takes both to tell; that is done at the end.
        if self.expected.types.is_none() || self.expected.takes("", kind) {
            Ok(())
        } else {
            Err(A::Error::custom("another kind"))
        }
    }

    /// The next of the fields that were missing.
    fn missing(&mut self) -> Option<&'static str> {
        let (api_version, kind) = self.fill?;
        let (key, value) = if !std::mem::replace(&mut self.has_api_version, true) {
            ("apiVersion", api_version)
        } else if !std::mem::replace(&mut self.has_kind, true) {
            ("kind", kind)
        } else {
            return None;
        };
        self.value = Some(Cow::Borrowed(value));
        Some(key)
    }
}

impl<'de: 'x, 'x, A: MapAccess<'de>> MapAccess<'de> for Checked<'x, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        while let Some(BorrowedText(key)) = self.map.next_key()? {
            if matches!(&*key, "apiVersion" | "kind") {
                // Null is absent.
                let Some(BorrowedText(value)) = self.map.next_value::<Option<BorrowedText<'de>>>()? else {
                    continue;
                };
                if key == "kind" {
                    self.check_kind(&value)?;
                } else {
                    self.check_api_version(&value)?;
                }
                self.value = Some(value);
            }
            return seed.deserialize(StrDeserializer::new(&key)).map(Some);
        }
        if self.expected.types.is_none() && self.odd_kind && self.odd_api_version {
            return Err(A::Error::custom("no object"));
        }
        self.missing().map(|key| seed.deserialize(StrDeserializer::new(key))).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        match self.value.take() {
            Some(value) => seed.deserialize(StrDeserializer::new(&value)),
            None => self.map.next_value_seed(seed),
        }
    }
}
