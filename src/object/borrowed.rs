use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Text that is borrowed from the JSON it is read from wherever nothing in it is escaped.
pub(crate) struct BorrowedText<'de>(pub(crate) Cow<'de, str>);

impl<'de> Deserialize<'de> for BorrowedText<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = BorrowedText<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<BorrowedText<'de>, E> {
                Ok(BorrowedText(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<BorrowedText<'de>, E> {
                Ok(BorrowedText(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(TextVisitor)
    }
}

/// A JSON value as it is written, borrowed from the text it is read from. From a tree of values it is written anew.
pub(super) struct BorrowedJson<'de>(pub(super) Cow<'de, str>);

impl<'de> Deserialize<'de> for BorrowedJson<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JsonVisitor;

        impl<'de> Visitor<'de> for JsonVisitor {
            type Value = BorrowedJson<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<BorrowedJson<'de>, A::Error> {
                map.next_key::<IgnoredAny>()?;
                let BorrowedText(json) = map.next_value()?;
                Ok(BorrowedJson(json))
            }

            // A serde_json that calls it by another name: the same with a copy more.
            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                value: D,
            ) -> Result<BorrowedJson<'de>, D::Error> {
                let json = Box::<RawValue>::deserialize(value)?;
                Ok(BorrowedJson(Cow::Owned(Box::<str>::from(json).into())))
            }
        }

        // What RawValue does; but `&RawValue` cannot be had from a tree of values, and `Box<RawValue>` always copies.
        deserializer.deserialize_newtype_struct("$serde_json::private::RawValue", JsonVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_borrowed_from_text_and_written_from_a_tree() {
        let text = r#" {"a": [1.10, "\u0041", null]} "#;
        let BorrowedJson(json) = serde_json::from_str(text).unwrap();
        assert!(matches!(json, Cow::Borrowed(json) if json == text.trim()));
        let BorrowedJson(json) = serde_json::from_slice(text.as_bytes()).unwrap();
        assert!(matches!(json, Cow::Borrowed(json) if json == text.trim()));
        let mut reader = serde_json::Deserializer::from_reader(text.as_bytes());
        let BorrowedJson(json) = BorrowedJson::deserialize(&mut reader).unwrap();
        assert_eq!(json, text.trim());
        let tree: serde_json::Value = serde_json::from_str(text).unwrap();
        let written = r#"{"a":[1.1,"A",null]}"#;
        assert_eq!(BorrowedJson::deserialize(&tree).unwrap().0, written);
        assert_eq!(BorrowedJson::deserialize(tree).unwrap().0, written);
        assert!(serde_json::from_str::<BorrowedJson<'_>>("[1").is_err());
    }
}
