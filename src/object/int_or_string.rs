use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// A number or a text, as the API has it for ports (`8080`, `"http"`) and shares (`1`, `"25%"`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IntOrString {
    /// A number.
    Int(i32),
    /// A text.
    String(String),
}

/// Zero, as upstream.
impl Default for IntOrString {
    fn default() -> Self {
        Self::Int(0)
    }
}

impl From<i32> for IntOrString {
    fn from(number: i32) -> Self {
        Self::Int(number)
    }
}

impl From<&str> for IntOrString {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for IntOrString {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => fmt::Display::fmt(number, f),
            Self::String(text) => f.pad(text),
        }
    }
}

impl Serialize for IntOrString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(number) => serializer.serialize_i32(*number),
            Self::String(text) => serializer.serialize_str(text),
        }
    }
}

/// Takes a whole number also where it is written as `8080.0`, and null as zero, as upstream.
impl<'de> Deserialize<'de> for IntOrString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IntOrStringVisitor;

        impl Visitor<'_> for IntOrStringVisitor {
            type Value = IntOrString;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a whole number of 32 bits")
            }

            fn visit_unit<E>(self) -> Result<IntOrString, E> {
                Ok(IntOrString::default())
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<IntOrString, E> {
                i32::try_from(number)
                    .map(IntOrString::Int)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<IntOrString, E> {
                i32::try_from(number)
                    .map(IntOrString::Int)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &self))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<IntOrString, E> {
                if number.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number) {
                    Ok(IntOrString::Int(number as i32))
                } else {
                    Err(E::invalid_value(de::Unexpected::Float(number), &self))
                }
            }

            fn visit_str<E>(self, text: &str) -> Result<IntOrString, E> {
                Ok(text.into())
            }

            fn visit_string<E>(self, text: String) -> Result<IntOrString, E> {
                Ok(text.into())
            }
        }

        deserializer.deserialize_any(IntOrStringVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numbers_and_text() {
        for (json, want, printed, written) in [
            ("80", IntOrString::Int(80), "80", "80"),
            ("-1", IntOrString::Int(-1), "-1", "-1"),
            ("80.0", IntOrString::Int(80), "80", "80"),
            ("8e1", IntOrString::Int(80), "80", "80"),
            ("-2147483648", IntOrString::Int(i32::MIN), "-2147483648", "-2147483648"),
            ("\"http\"", "http".into(), "http", "\"http\""),
            ("\"80\"", "80".into(), "80", "\"80\""),
            ("\"25%\"", "25%".into(), "25%", "\"25%\""),
            ("null", IntOrString::Int(0), "0", "0"),
        ] {
            let got: IntOrString = serde_json::from_str(json).unwrap();
            assert_eq!(got, want, "{json}");
            assert_eq!(got.to_string(), printed);
            assert_eq!(serde_json::to_string(&got).unwrap(), written);
        }
    }

    #[test]
    fn refuses_the_rest_and_shows_it() {
        for json in ["80.5", "2147483648", "-2147483649", "1e300", "true", "[]", "{}"] {
            assert!(serde_json::from_str::<IntOrString>(json).is_err(), "{json}");
        }
        let error = serde_json::from_str::<IntOrString>("80.5").unwrap_err();
        assert!(error.to_string().contains("80.5"), "{error}");
    }
}
