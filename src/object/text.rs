use std::borrow::Borrow;
use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// A text that many objects have in common: the image of a container, the type of a condition.
///
/// It is a `&str` to its users. Texts decoded one after the other by one thread share their memory when they are
/// equal, and so do their clones: a good part of the memory of a cached pod.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Arc<str>);

/// How many texts a decoding thread remembers (16 bytes each and the text itself, which mostly lives in a cache
/// anyway), and of what length at most: longer ones are messages, seldom equal.
const REMEMBERED: usize = 1024;
const LONGEST: usize = 128;

thread_local! {
    /// By hash; a newer text takes the place of an older one.
    static SEEN: RefCell<Vec<Text>> = const { RefCell::new(Vec::new()) };
}

impl Text {
    /// The text, in the memory of an equal one that this thread has decoded lately.
    fn shared(text: &str) -> Self {
        if text.is_empty() || text.len() > LONGEST {
            return text.into();
        }
        // FNV-1a: short, and good enough to find a place; who forces collisions only loses the sharing.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let place = ((hash ^ (hash >> 32)) % REMEMBERED as u64) as usize;
        SEEN.try_with(|seen| {
            let mut seen = seen.borrow_mut();
            if seen.is_empty() {
                seen.resize(REMEMBERED, Self::default());
            }
            if *seen[place] != *text {
                seen[place] = text.into();
            }
            seen[place].clone()
        })
        .unwrap_or_else(|_| text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        // The empty text takes no memory.
        if text.is_empty() { Self::default() } else { Self(text.into()) }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
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
        *self.0 == *other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

impl PartialEq<String> for Text {
    fn eq(&self, other: &String) -> bool {
        *self.0 == **other
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
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
        assert!(Arc::ptr_eq(&a.0, &b.0));
        assert!(!Arc::ptr_eq(&a.0, &read("registry.example.com/other").0));
    }

    #[test]
    fn any_number_of_texts_stays_itself() {
        let texts: Vec<_> = (0..20_000).map(|i| (i.to_string(), read(&i.to_string()))).collect();
        assert!(texts.iter().all(|(want, got)| got == want));
        let long = "x".repeat(100_000);
        assert_eq!(read(&long), long);
        assert_eq!(read(""), "");
        SEEN.with_borrow(|seen| assert_eq!(seen.len(), REMEMBERED));
    }
}
