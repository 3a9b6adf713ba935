use std::fmt;
use std::str::FromStr;

use crate::error::Error;
use crate::object::excerpt;

/// Chooses objects by the values of fields, as `spec.nodeName=node-1,status.phase!=Succeeded`.
///
/// Grammar and escapes are those of apimachinery's `fields` package: requirements separated by commas, each of them
/// `field=value`, `field==value` or `field!=value`, with `\\`, `\,` and `\=` in values standing for the second
/// character. Which fields a kind can be chosen by is for the API server to say; every kind has `metadata.name`, and
/// `metadata.namespace` if it has namespaces. Prints in a canonical form, sorted by
/// field, that parses back.
///
/// ```
/// # use listwatch::FieldSelector;
/// let selector = FieldSelector::everything().equals("spec.nodeName", "node-1")?.not_equals("status.phase", "a,b")?;
/// assert_eq!(selector.to_string(), r"spec.nodeName=node-1,status.phase!=a\,b");
/// assert_eq!(selector, FieldSelector::parse(r"spec.nodeName==node-1,status.phase!=a\,b")?);
/// # Ok::<(), listwatch::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector(Vec<FieldRequirement>);

/// One requirement of a [`FieldSelector`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct FieldRequirement {
    /// The path of the field.
    pub field: String,
    /// Whether the field must have the value, or must not.
    pub equal: bool,
    /// The value.
    pub value: String,
}

impl FieldSelector {
    /// Chooses every object.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// The selector that a text stands for; an empty text chooses everything.
    ///
    /// # Errors
    /// A part without an operator or a field, or a value with an escape that is none.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut requirements = Vec::new();
        for part in parts(text).into_iter().filter(|part| !part.is_empty()) {
            requirements.push(requirement(part).map_err(|e| {
                Error::invalid(format!("field selector {}: {e} in {}", excerpt(text), excerpt(part)))
            })?);
        }
        requirements.sort_unstable();
        Ok(Self(requirements))
    }

    /// And the field has this value.
    ///
    /// # Errors
    /// A field with a character that has a meaning in selectors, or without any.
    pub fn equals(self, field: &str, value: &str) -> Result<Self, Error> {
        self.and(field, true, value)
    }

    /// And the field has not this value.
    ///
    /// # Errors
    /// As [`equals`](FieldSelector::equals).
    pub fn not_equals(self, field: &str, value: &str) -> Result<Self, Error> {
        self.and(field, false, value)
    }

    /// The object of this name.
    pub(crate) fn of_name(name: &str) -> Self {
        Self(vec![FieldRequirement { field: "metadata.name".into(), equal: true, value: name.into() }])
    }

    fn and(mut self, field: &str, equal: bool, value: &str) -> Result<Self, Error> {
        if field.is_empty() || field.contains([',', '=', '!', '\\']) {
            return Err(Error::invalid(format!("field selector: {} is no field", excerpt(field))));
        }
        self.0.push(FieldRequirement { field: field.to_owned(), equal, value: value.to_owned() });
        self.0.sort_unstable();
        Ok(self)
    }

    /// The requirements, sorted by field.
    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.0
    }

    /// Whether it chooses every object.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it chooses an object; the closure tells the value of each of its fields. A field that is absent counts
    /// as empty, as upstream.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|r| (field(&r.field).unwrap_or_default() == r.value) == r.equal)
    }
}

/// Splits at commas that are not escaped; the escapes are left in.
fn parts(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(move |c| {
        let splits = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        splits
    })
    .collect()
}

fn requirement(part: &str) -> Result<FieldRequirement, String> {
    let Some(at) = part.find('=') else { return Err("no operator = == or !=".to_owned()) };
    // The first operator counts: "!=" and "==" before "=".
    let (field, equal, value) = match (part[..at].strip_suffix('!'), &part[at + 1..]) {
        (Some(field), value) => (field, false, value),
        (None, rest) => (&part[..at], true, rest.strip_prefix('=').unwrap_or(rest)),
    };
    if field.is_empty() {
        return Err("no field".to_owned());
    }
    Ok(FieldRequirement { field: field.to_owned(), equal, value: unescape(value)? })
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        plain.push(match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => c,
                Some(c) => return Err(format!("{:?} is no escape", format!("\\{c}"))),
                None => return Err("a \\ that escapes nothing".to_owned()),
            },
            ',' | '=' => return Err(format!("{c:?} without a \\ before it")),
            c => c,
        });
    }
    Ok(plain)
}

impl FromStr for FieldSelector {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let operator = if requirement.equal { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}", requirement.field)?;
            for c in requirement.value.chars() {
                if matches!(c, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FieldSelector({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_prints_as_upstream() {
        for (text, canonical) in [
            ("", ""),
            (",,", ""),
            ("metadata.name=a", "metadata.name=a"),
            ("b==1,a!=2,", "a!=2,b=1"),
            ("a=", "a="),
            (r"a=x\,y\=z\\", r"a=x\,y\=z\\"),
            (r"a!=\=", r"a!=\="),
            ("a= spaced ", "a= spaced "),
            ("a!b=c!", "a!b=c!"),
            (r"a\,b=c", r"a\,b=c"),
            (r"a\=b", r"a\=b"),
            ("a=é", "a=é"),
        ] {
            let selector = FieldSelector::parse(text).unwrap();
            assert_eq!(selector.to_string(), canonical, "{text:?}");
            assert_eq!(FieldSelector::parse(canonical).unwrap(), selector);
        }
        let escaped = FieldSelector::parse(r"a=x\,y\=z\\").unwrap();
        assert_eq!(escaped.requirements()[0].value, r"x,y=z\");
    }

    #[test]
    fn refuses_bad_text_and_shows_it() {
        for (text, complaint) in [
            ("a", "no operator"),
            ("a=1,b", "no operator = == or != in \"b\""),
            ("=1", "no field"),
            ("!=1", "no field"),
            ("a===1", "'=' without a \\ before it"),
            ("a=b=c", "'=' without a \\ before it"),
            (r"a=\x", "is no escape"),
            (r"a=\", "escapes nothing"),
        ] {
            let error = FieldSelector::parse(text).unwrap_err();
            assert!(error.is_invalid_argument());
            let message = error.to_string();
            assert!(message.contains(&format!("field selector {text:?}")), "{message}");
            assert!(message.contains(complaint), "{text:?}: {message}");
        }
        for field in ["", "a,b", "a=b", "a!", r"a\"] {
            assert!(FieldSelector::everything().equals(field, "").is_err(), "{field:?}");
        }
    }

    #[test]
    fn chooses_by_values_and_takes_absent_as_empty() {
        let pod = |field: &str| match field {
            "spec.nodeName" => Some("node-1"),
            "status.phase" => Some("Running"),
            _ => None,
        };
        for (text, want) in [
            ("", true),
            ("spec.nodeName=node-1", true),
            ("spec.nodeName=node-1,status.phase!=Failed", true),
            ("spec.nodeName=node-1,status.phase!=Running", false),
            ("spec.nodeName=node-2", false),
            ("metadata.name=", true),
            ("metadata.name!=", false),
            ("metadata.name!=x", true),
        ] {
            assert_eq!(FieldSelector::parse(text).unwrap().matches(pod), want, "{text:?}");
        }
    }

    #[test]
    fn any_value_prints_and_parses_back() {
        for value in ["", ",", "=", "\\", "\\,", "==", "a\\=b,c", "\\\\", "!", "é\n"] {
            let selector = FieldSelector::everything()
                .equals("a", value)
                .and_then(|s| s.not_equals("b", value))
                .unwrap();
            assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector, "{value:?}");
        }
    }
}
