use std::cell::RefCell;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::{BorrowedText, Text};

/// Labels or annotations: text to text, sorted by key. Whatever the number of entries, the values are one allocation, and
/// the keys one that maps with the same keys share, as they do when one thread decodes them one after the other.
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
    /// Strung together by `push`.
    keys: Text,
    /// In the order of the keys.
    values: Box<str>,
}

/// Keys that take more bytes than this are not shared. A thousand of them may be remembered by a thread that decodes.
const LONGEST_KEYS: usize = 512;
/// A decoding thread keeps no more room than this for putting a map together.
const ROOM: usize = 4096;

impl Map {
    /// An empty map; it allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        parts(&self.keys).count()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
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
        parts(&self.keys).zip(parts(&self.values))
    }

    /// Later entries win over earlier ones of the same key.
    fn pack(mut entries: Vec<(&str, &str)>) -> Self {
        if !entries.is_sorted_by(|a, b| a.0 < b.0) {
            entries.sort_by_key(|(key, _)| *key);
            entries.reverse();
            entries.dedup_by_key(|(key, _)| *key);
            entries.reverse();
        }
        let mut strung = Strung::default();
        entries.iter().for_each(|(key, value)| strung.push(key, value));
        strung.map()
    }
}

/// A map that is put together: keys come in order.
#[derive(Default)]
struct Strung {
    keys: String,
    values: String,
}

impl Strung {
    fn push(&mut self, key: &str, value: &str) {
        push(&mut self.keys, key);
        push(&mut self.values, value);
    }

    fn map(&self) -> Map {
        let keys = &*self.keys;
        let keys = if keys.len() > LONGEST_KEYS { keys.into() } else { Text::remembered(keys) };
        Map { keys, values: (&*self.values).into() }
    }

    fn clear(&mut self) {
        for text in [&mut self.keys, &mut self.values] {
            text.clear();
            text.shrink_to(ROOM);
        }
    }
}

/// Appends a part with its length before it: six bits a byte, the lowest first, with the seventh set if more follow. So
/// what is put together is text, too.
fn push(text: &mut String, part: &str) {
    let mut length = part.len();
    while length >= 0x40 {
        text.push(char::from(0x40 | (length & 0x3f) as u8));
        length >>= 6;
    }
    text.push(char::from(length as u8));
    text.push_str(part);
}

/// The parts that were pushed.
fn parts(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (mut length, mut digits) = (0, 0);
        for byte in text.bytes() {
            length |= usize::from(byte & 0x3f) << (6 * digits);
            digits += 1;
            if byte < 0x40 {
                break;
            }
        }
        if digits == 0 {
            return None;
        }
        let (part, rest) = text[digits..].split_at(length);
        text = rest;
        Some(part)
    })
}

thread_local! {
    /// Where maps are put together while they are decoded.
    static STRUNG: RefCell<Strung> = RefCell::default();
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
        Ok(Option::<Entries>::deserialize(deserializer)?.map_or_else(Self::new, |Entries(map)| map))
    }
}

/// A map that is not null.
struct Entries(Map);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor;

        impl<'de> Visitor<'de> for MapVisitor {
            type Value = Map;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of text to text")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Map, A::Error> {
                // Taken for the while, as a value may be read by code that reads maps.
                let mut strung = STRUNG.try_with(RefCell::take).unwrap_or_default();
                // The server sends keys sorted, so that the map can be put together as it comes.
                let (mut last, mut sorted) = (0..0, true);
                while let Some((BorrowedText(key), value)) =
                    map.next_entry::<_, Option<BorrowedText<'de>>>()?
                {
                    sorted &= strung.keys.is_empty() || strung.keys[last.clone()] < *key;
                    strung.push(&key, value.as_ref().map_or("", |BorrowedText(value)| value));
                    last = strung.keys.len() - key.len()..strung.keys.len();
                }
                let map = strung.map();
                strung.clear();
                let _ = STRUNG.try_with(|kept| kept.replace(strung));
                Ok(if sorted { map } else { map.iter().collect() })
            }
        }

        deserializer.deserialize_map(MapVisitor).map(Self)
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
    fn null_is_empty_in_a_flattened_struct_too() {
        #[derive(serde::Deserialize)]
        struct Flat {
            #[serde(flatten)]
            metadata: crate::ObjectMeta,
        }
        let flat: Flat =
            serde_json::from_str(r#"{"name":"a","labels":null,"annotations":{"b":null}}"#).unwrap();
        assert_eq!((flat.metadata.labels.len(), flat.metadata.annotations.get("b")), (0, Some("")));
    }

    #[test]
    fn any_length_of_texts_comes_back() {
        for length in [0, 1, 63, 64, 65, 127, 128, 4095, 4096, 4097, 300_000] {
            let (key, value) = (format!("k{}", "é".repeat(length / 2)), "v".repeat(length));
            let map = read(&serde_json::json!({ "a": "first", &*key: &*value, "z": "last" }).to_string());
            assert_eq!(map.get(&key), Some(&*value), "{length}");
            assert_eq!(map.iter().map(|(_, v)| v.len()).collect::<Vec<_>>(), [5, length, 4], "{length}");
        }
        STRUNG.with_borrow(|strung| assert!(strung.keys.capacity() + strung.values.capacity() <= 2 * ROOM));
    }

    #[test]
    fn maps_with_the_same_keys_share_them() {
        let (a, b) = (read(r#"{"app":"web","tier":"x"}"#), read(r#"{"app":"shop","tier":""}"#));
        assert_eq!(a.keys.as_ptr(), b.keys.as_ptr());
        assert_eq!((a.get("app"), b.get("app"), b.get("tier")), (Some("web"), Some("shop"), Some("")));
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
