use std::fmt;
use std::ops::Deref;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::base64_text;

/// Bytes, which JSON holds as base64: the values of a Secret. `Debug` tells only how many there are.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct ByteString(pub Vec<u8>);

impl ByteString {
    /// The bytes as text, if they are such.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl Deref for ByteString {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for ByteString {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<Vec<u8>> for ByteString {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for ByteString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ByteString({} bytes)", self.len())
    }
}

impl Serialize for ByteString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base64_text::encode(&self.0))
    }
}

/// Null is no bytes, as upstream.
impl<'de> Deserialize<'de> for ByteString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Base64Visitor;

        impl Visitor<'_> for Base64Visitor {
            type Value = ByteString;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("base64")
            }

            fn visit_unit<E>(self) -> Result<ByteString, E> {
                Ok(ByteString::default())
            }

            // The message must not show the value: it may be a secret.
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteString, E> {
                base64_text::decode(text).map(ByteString).map_err(|_| E::custom("a value that is not base64"))
            }
        }

        deserializer.deserialize_any(Base64Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_base64_in_json() {
        // RFC 4648, 10.
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let json = format!("{text:?}");
            assert_eq!(serde_json::to_string(&ByteString::from(bytes)).unwrap(), json);
            assert_eq!(serde_json::from_str::<ByteString>(&json).unwrap().as_str(), Some(bytes));
        }
        let all: Vec<u8> = (0..=255).collect();
        let text = base64_text::encode(&all);
        assert!(text.contains('+') && text.contains('/'));
        for length in 0..=256 {
            assert_eq!(base64_text::decode(&base64_text::encode(&all[..length])).unwrap(), all[..length]);
        }
        assert_eq!(base64_text::decode("Zm9v\r\nYmFy\n").unwrap(), b"foobar");
    }

    #[test]
    fn refuses_what_is_none_without_showing_it() {
        for text in ["Z", "Zg", "Zg=", "Zm9v=", "Zm9vZ===", "Zm9*", "Zm 9", "=", "====", "Zg==Zg==", "Zm9é"]
        {
            let error = serde_json::from_str::<ByteString>(&format!("{text:?}")).unwrap_err().to_string();
            assert!(error.contains("not base64") && !error.contains(text), "{error}");
        }
        assert_eq!(format!("{:?}", ByteString::from("hunter2")), "ByteString(7 bytes)");
    }
}
