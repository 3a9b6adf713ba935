use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// Labels or annotations: text to text, sorted by key, packed into two allocations whatever the number of entries.
///
/// Reading costs a short scan; each change builds the map anew, which suits what it is for: many objects in a cache,
/// seldom changed, with a dozen entries each.
///
/// ```
/// # use listwatch::Map;
/// let mut labels = Map::from([("app", "web"), ("tier", "front")]);
/// labels.insert("app", "shop");
/// assert_eq!(labels.get("app"), Some("shop"));
/// assert_eq!(labels.iter().map(|(k, _)| k).collect::<Vec<_>>(), ["app", "tier"]);
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Map {
    /// key, value, key, value, …
    text: Box<str>,
    /// Where each of them ends in `text`. 4 GiB of labels do not pass a line limit.
    ends: Box<[u32]>,
}

impl Map {
    /// An empty map; it allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len() / 2
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(k, _)| *k == key).map(|(_, value)| value)
    }

    /// Whether `key` is there, with any value.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets `key` to `value`, and returns what it was before.
    pub fn insert(&mut self, key: &str, value: &str) -> Option<String> {
        let old = self.get(key).map(str::to_owned);
        let mut entries: Vec<_> = self.iter().filter(|(k, _)| *k != key).collect();
        entries.push((key, value));
        *self = Self::pack(entries);
        old
    }

    /// Takes `key` out, and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<String> {
        let old = self.get(key)?.to_owned();
        *self = Self::pack(self.iter().filter(|(k, _)| *k != key).collect());
        Some(old)
    }

    /// All entries, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut start = 0;
        self.ends.chunks_exact(2).map(move |ends| {
            let (middle, end) = (ends[0] as usize, ends[1] as usize);
            let entry = (&self.text[start..middle], &self.text[middle..end]);
            start = end;
            entry
        })
    }

    /// Later entries win over earlier ones of the same key.
    fn pack(mut entries: Vec<(&str, &str)>) -> Self {
        if !entries.is_sorted_by(|a, b| a.0 < b.0) {
            entries.sort_by_key(|(key, _)| *key);
            entries.reverse();
            entries.dedup_by_key(|(key, _)| *key);
            entries.reverse();
        }
        let mut text = String::with_capacity(entries.iter().map(|(k, v)| k.len() + v.len()).sum());
        let mut ends = Vec::with_capacity(entries.len() * 2);
        for part in entries.iter().flat_map(|(key, value)| [key, value]) {
            text.push_str(part);
            ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
        }
        Self { text: text.into(), ends: ends.into() }
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries: Vec<_> = entries.into_iter().collect();
        Self::pack(entries.iter().map(|(k, v)| (k.as_ref(), v.as_ref())).collect())
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Map {
    fn from(entries: [(&str, &str); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Map {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// A null map is empty, a null value is the empty text: both are sent by some writers and taken by the API server.
impl<'de> Deserialize<'de> for Map {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor;

        impl<'de> Visitor<'de> for MapVisitor {
            type Value = Map;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of text to text")
            }

            fn visit_unit<E>(self) -> Result<Map, E> {
                Ok(Map::new())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Map, A::Error> {
                // The server sends keys sorted, so that the text can be put together as it comes.
                let (mut text, mut ends) = (String::new(), Vec::new());
                let mut last = 0..0;
                let mut sorted = true;
                while let Some((Part(key), Part(value))) = map.next_entry::<Part<'de>, Part<'de>>()? {
                    sorted &= ends.is_empty() || text[last.clone()] < *key;
                    last = text.len()..text.len() + key.len();
                    for part in [key, value] {
                        text.push_str(&part);
                        ends.push(u32::try_from(text.len()).map_err(|_| too_large())?);
                    }
                }
                let map = Map { text: text.into(), ends: ends.into() };
                Ok(if sorted { map } else { map.iter().collect() })
            }
        }

        deserializer.deserialize_option(NullOr(MapVisitor))
    }
}

fn too_large<E: serde::de::Error>() -> E {
    E::custom("a map of over 4 GiB")
}

/// Takes null as well as what the inner visitor takes.
struct NullOr<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for NullOr<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        deserializer.deserialize_map(self.0)
    }
}

/// Text that is borrowed where JSON allows.
struct Part<'de>(std::borrow::Cow<'de, str>);

impl<'de> Deserialize<'de> for Part<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PartVisitor;

        impl<'de> Visitor<'de> for PartVisitor {
            type Value = Part<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Part<'de>, E> {
                Ok(Part(text.into()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Part<'de>, E> {
                Ok(Part(text.to_owned().into()))
            }

            fn visit_unit<E>(self) -> Result<Part<'de>, E> {
                Ok(Part("".into()))
            }
        }

        // "any", as a value may be null; JSON tells which it is.
        deserializer.deserialize_any(PartVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Map {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn reads_what_servers_and_writers_send() {
        assert_eq!(read(r#"{"a":"1","b":"2"}"#), Map::from([("a", "1"), ("b", "2")]));
        assert_eq!(read(r#"{"b":"2","a":"1"}"#), Map::from([("a", "1"), ("b", "2")]));
        assert_eq!(read(r#"{"a":"1","a":"2"}"#), Map::from([("a", "2")]));
        assert_eq!(read(r#"{"a\n":"\u00e9","b":null}"#), Map::from([("a\n", "é"), ("b", "")]));
        assert_eq!(read("null"), Map::new());
        assert_eq!(read("{}"), Map::new());
    }

    #[test]
    fn refuses_other_values() {
        for json in [r#"{"a":1}"#, r#"{"a":{}}"#, "[]", "\"a\""] {
            assert!(serde_json::from_str::<Map>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn is_a_map() {
        let mut map = Map::new();
        assert_eq!(map.insert("b", "2"), None);
        assert_eq!(map.insert("a", "1"), None);
        assert_eq!(map.insert("b", "3"), Some("2".into()));
        assert_eq!(map.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "3")]);
        assert_eq!(map.remove("a"), Some("1".into()));
        assert_eq!(map.remove("a"), None);
        assert_eq!((map.len(), map.contains_key("b")), (1, true));
        assert_eq!(serde_json::to_string(&map).unwrap(), r#"{"b":"3"}"#);
    }
}
