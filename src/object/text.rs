use std::borrow::Borrow;
use std::cell::RefCell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// A text that many objects have in common: the image of a container, the type of a condition.
///
/// It is a `&str` to its users. Texts decoded one after the other by one thread share their memory when they are
/// equal, and so do their clones: a good part of the memory of a cached pod.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(
    /// The empty text is none. Of two steps, as an object has many of these and they have few owners of their own.
    Option<Arc<Box<str>>>,
);

/// How many texts a decoding thread remembers, at first and at most (8 bytes each and the text itself, which mostly lives in
/// a cache anyway), and of what length at most: longer ones are messages, seldom equal.
const REMEMBERED: [usize; 2] = [32, 1024];
const LONGEST: usize = 128;

/// Texts by hash; a newer one takes the place of an older one.
struct Seen {
    texts: Vec<Text>,
    /// How many were driven out since the table last grew.
    driven_out: usize,
}

thread_local! {
    static SEEN: RefCell<Seen> = const { RefCell::new(Seen { texts: Vec::new(), driven_out: 0 }) };
}

impl Seen {
    fn share(&mut self, text: &str) -> Text {
        if self.driven_out >= self.texts.len() && self.texts.len() < REMEMBERED[1] {
            self.grow();
        }
        let at = place(text, self.texts.len());
        let place = &mut self.texts[at];
        if **place != *text {
            self.driven_out += usize::from(!place.is_empty());
            *place = text.into();
        }
        place.clone()
    }

    fn grow(&mut self) {
        let length = (self.texts.len() * 2).max(REMEMBERED[0]);
        let texts = std::mem::replace(&mut self.texts, vec![Text::default(); length]);
        self.driven_out = 0;
        for text in texts.into_iter().filter(|text| !text.is_empty()) {
            let at = place(&text, length);
            self.texts[at] = text;
        }
    }
}

impl Text {
    /// The text, in the memory of an equal one that this thread has decoded lately.
    fn shared(text: &str) -> Self {
        if text.len() > LONGEST { text.into() } else { Self::remembered(text) }
    }

    /// The same, however long it is.
    pub(super) fn remembered(text: &str) -> Self {
        if text.is_empty() {
            return Self::default();
        }
        SEEN.try_with(|seen| seen.borrow_mut().share(text)).unwrap_or_else(|_| text.into())
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_deref().map_or("", |text| text)
    }
}

/// Where a text is remembered among so many: by a hash that is quick and good enough to find a place. Who forces
/// collisions only loses the sharing.
fn place(text: &str, places: usize) -> usize {
    let hash = text.as_bytes().chunks(8).fold(text.len() as u64, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (hash.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    // The upper bits depend on all of the text.
    (((hash >> 32) * places as u64) >> 32) as usize
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self
    }
}

/// As `str`, so that a map can be asked with one.
impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self((!text.is_empty()).then(|| Arc::new(text.into())))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.as_str().to_owned()
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for Text {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl Visitor<'_> for TextVisitor {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text::shared(text))
            }
        }

        deserializer.deserialize_str(TextVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Text {
        serde_json::from_str(&format!("{text:?}")).unwrap()
    }

    #[test]
    fn equal_texts_share_their_memory() {
        let (a, b) = (read("registry.example.com/shop"), read("registry.example.com/shop"));
        let memory = |text: &Text| text.as_str().as_ptr();
        assert_eq!(memory(&a), memory(&b));
        assert_eq!(memory(&a), memory(&a.clone()));
        assert_ne!(memory(&a), memory(&read("registry.example.com/other")));
    }

    #[test]
    fn any_number_of_texts_stays_itself() {
        let texts: Vec<_> = (0..20_000).map(|i| (i.to_string(), read(&i.to_string()))).collect();
        assert!(texts.iter().all(|(want, got)| got == want));
        let long = "x".repeat(100_000);
        assert_eq!(read(&long), long);
        assert_eq!(read(""), "");
        SEEN.with_borrow(|seen| assert_eq!(seen.texts.len(), REMEMBERED[1]));
    }

    #[test]
    fn few_texts_take_little_and_are_all_remembered_when_there_are_more() {
        let once = |n: usize| (0..n).map(|i| read(&format!("node-{i}"))).collect::<Vec<_>>();
        once(8);
        SEEN.with_borrow(|seen| assert_eq!(seen.texts.len(), REMEMBERED[0]));
        let (a, b) = (0..20).map(|_| once(200)).fold((once(200), Vec::new()), |(_, b), c| (b, c));
        let shared = a.iter().zip(&b).filter(|(a, b)| a.as_ptr() == b.as_ptr()).count();
        assert!(shared > 120, "{shared}");
    }

    #[test]
    fn is_found_in_a_map_by_its_text() {
        let texts = std::collections::HashMap::from([(read("a"), 1), (read(""), 2)]);
        assert_eq!((texts.get("a"), texts.get(""), texts.get("b")), (Some(&1), Some(&2), None));
        assert!(read("") < read("a") && read("a") < read("b"));
    }
}
