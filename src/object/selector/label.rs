use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::parse;
use crate::error::Error;
use crate::object::{Map, Resource, excerpt, list, nullable};

/// Chooses objects by their labels, as the API server and kubectl do: every requirement must hold.
///
/// Grammar and meaning are those of apimachinery's `labels` package.
///
/// | text | holds for an object that |
/// |---|---|
/// | `app=web`, `app==web` | has the label with this value |
/// | `app!=web` | has not the label, or has it with another value |
/// | `tier in (a, b)` | has the label with one of the values |
/// | `tier notin (a, b)` | has not the label, or has it with another value |
/// | `app`, `!app` | has the label, has not the label |
/// | `n>5`, `n<5` | has the label, and its value is such an integer |
///
/// Requirements are separated by commas; none at all choose everything. Prints in a canonical form, sorted by key,
/// that parses back.
///
/// ```
/// # use listwatch::{Operator, Selector};
/// let selector = Selector::parse("tier in (front,back), app = web")?;
/// assert_eq!(selector.to_string(), "app=web,tier in (back,front)");
/// assert_eq!(selector, Selector::everything()
///     .and("app", Operator::Equals, ["web"])?
///     .and("tier", Operator::In, ["front", "back"])?);
/// assert!(selector.matches(|key| match key { "app" => Some("web"), "tier" => Some("back"), _ => None }));
/// # Ok::<(), listwatch::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Selector(Vec<Requirement>);

/// One requirement of a [`Selector`]: a key, an operator and its values.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    operator: Operator,
    /// Sorted, each once.
    values: Vec<String>,
}

/// How the label of an object must relate to the values of a [`Requirement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// It is the value.
    Equals,
    /// It is absent, or is not the value.
    NotEquals,
    /// It is one of the values.
    In,
    /// It is absent, or is none of the values.
    NotIn,
    /// It is there. Takes no value.
    Exists,
    /// It is absent. Takes no value.
    DoesNotExist,
    /// It is an integer greater than the value.
    GreaterThan,
    /// It is an integer less than the value.
    LessThan,
}

impl Selector {
    /// Chooses every object.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// The selector that a text stands for; an empty text chooses everything.
    ///
    /// # Errors
    /// Those of the grammar, of the keys and of the values, with the place in the text.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut requirements = parse::requirements(text)
            .map_err(|e| Error::invalid(format!("label selector {}: {e}", excerpt(text))))?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self(requirements))
    }

    /// Chooses the objects that have all these labels, with these values.
    ///
    /// # Errors
    /// A key or a value that no label can have.
    pub fn from_labels(labels: &Map) -> Result<Self, Error> {
        labels.iter().try_fold(Self::everything(), |s, (key, value)| s.and(key, Operator::Equals, [value]))
    }

    /// With one more requirement.
    ///
    /// # Errors
    /// A key or a value that no label can have; not one value where the operator takes one, or any where it takes
    /// none; a value that is no integer for an operator that compares integers.
    pub fn and<V: Into<String>>(
        mut self,
        key: &str,
        operator: Operator,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Self, Error> {
        let requirement = Requirement::new(key, operator, values.into_iter().map(Into::into).collect())
            .map_err(|e| Error::invalid(format!("label selector: {e}")))?;
        let at = self.0.partition_point(|r| r.key <= requirement.key);
        self.0.insert(at, requirement);
        Ok(self)
    }

    /// The requirements, sorted by key.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.0
    }

    /// Whether it chooses every object.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it chooses an object; the closure tells the value of each of its labels.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|r| r.matches(label(&r.key)))
    }

    /// Whether it chooses this object.
    pub fn matches_object(&self, object: &impl Resource) -> bool {
        self.matches(|key| object.label(key))
    }
}

impl Requirement {
    pub(super) fn new(key: &str, operator: Operator, mut values: Vec<String>) -> Result<Self, String> {
        check_key(key)?;
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                return Err(format!("key {key}: no values to be in or not"));
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                return Err(format!("key {key}: to exist or not takes no values"));
            }
            Operator::Equals | Operator::NotEquals | Operator::GreaterThan | Operator::LessThan
                if values.len() != 1 =>
            {
                return Err(format!("key {key}: {} values where one is wanted", values.len()));
            }
            _ => {}
        }
        for value in &values {
            check_value(value).map_err(|e| format!("key {key}: {e}"))?;
            if matches!(operator, Operator::GreaterThan | Operator::LessThan) && value.parse::<i64>().is_err()
            {
                return Err(format!("key {key}: value {} is not an integer of 64 bits", excerpt(value)));
            }
        }
        values.sort_unstable();
        values.dedup();
        Ok(Self { key: key.to_owned(), operator, values })
    }

    /// The label that it asks for.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How the label must relate to the values.
    #[must_use]
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values, sorted, each once.
    #[must_use]
    pub fn values(&self) -> &[String] {
        &self.values
    }

    fn matches(&self, label: Option<&str>) -> bool {
        let is_listed = |label: &str| self.values.iter().any(|value| value == label);
        let compares = |order: fn(&i64, &i64) -> bool| {
            let (label, value) = (label.map(str::parse), self.values.first().map(|v| v.parse()));
            matches!((label, value), (Some(Ok(label)), Some(Ok(value))) if order(&label, &value))
        };
        match self.operator {
            Operator::Equals | Operator::In => label.is_some_and(is_listed),
            Operator::NotEquals | Operator::NotIn => !label.is_some_and(is_listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => compares(i64::gt),
            Operator::LessThan => compares(i64::lt),
        }
    }
}

impl FromStr for Selector {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.0.iter().enumerate() {
            write!(f, "{}{requirement}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Selector({self})")
    }
}

impl fmt::Debug for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Requirement({self})")
    }
}

/// `[prefix/]name`: the prefix a DNS name, the name as a value but not empty. apimachinery's `IsLabelKey`.
pub(crate) fn check_key(key: &str) -> Result<(), String> {
    let name = match key.split_once('/') {
        Some((prefix, name)) if is_dns_name(prefix) => name,
        Some(_) => return Err(format!("the part of key {} before / is not a DNS name", excerpt(key))),
        None => key,
    };
    if name.is_empty() || !is_label(name) {
        return Err(format!("key {} is not {LABEL_SHAPE}, after an optional DNS name and /", excerpt(key)));
    }
    Ok(())
}

fn check_value(value: &str) -> Result<(), String> {
    if value.is_empty() || is_label(value) {
        return Ok(());
    }
    Err(format!("value {} is not {LABEL_SHAPE}", excerpt(value)))
}

const LABEL_SHAPE: &str = "1 to 63 letters, digits, '-', '_' or '.', a letter or digit first and last";

fn is_label(text: &str) -> bool {
    text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        && !text.starts_with(['-', '_', '.'])
        && !text.ends_with(['-', '_', '.'])
}

pub(crate) fn is_dns_name(text: &str) -> bool {
    text.len() <= 253
        && text.split('.').all(|part| {
            !part.is_empty()
                && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                && !part.starts_with('-')
                && !part.ends_with('-')
        })
}

/// A label selector as a field of an object (`spec.selector` of a Deployment), `metav1.LabelSelector` upstream.
///
/// Both parts must hold. [`to_selector`](LabelSelector::to_selector) makes a [`Selector`] of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that an object must have, with these values.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub match_labels: Map,
    /// More requirements.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One of the `matchExpressions` of a [`LabelSelector`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LabelSelectorRequirement {
    /// The label.
    #[serde(deserialize_with = "nullable")]
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    #[serde(deserialize_with = "nullable")]
    pub operator: String,
    /// At least one for `In` and `NotIn`, none for the others.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list")]
    pub values: Vec<String>,
}

impl LabelSelector {
    /// The selector to match objects with, or to list them. An empty one chooses everything; what an absent one
    /// chooses is for the field that it is absent from to say, mostly nothing.
    ///
    /// # Errors
    /// An operator that is none, and those of [`Selector::and`].
    pub fn to_selector(&self) -> Result<Selector, Error> {
        self.match_expressions.iter().try_fold(Selector::from_labels(&self.match_labels)?, |selector, r| {
            let operator = match &*r.operator {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(Error::invalid(format!(
                        "label selector: key {}: {} is no operator",
                        excerpt(&r.key),
                        excerpt(other)
                    )));
                }
            };
            selector.and(&r.key, operator, r.values.iter().map(String::as_str))
        })
    }
}

/// Objects that have these labels.
impl From<Map> for LabelSelector {
    fn from(match_labels: Map) -> Self {
        Self { match_labels, match_expressions: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chooses(selector: &str, labels: &[(&str, &str)]) -> bool {
        let map: Map = labels.iter().copied().collect();
        Selector::parse(selector).unwrap().matches(|key| map.get(key))
    }

    #[test]
    fn chooses_as_the_api_server_does() {
        for (selector, labels, want) in [
            ("", &[][..], true),
            (" \t", &[("a", "1")], true),
            ("a=1", &[("a", "1")], true),
            ("a==1", &[("a", "1"), ("b", "2")], true),
            ("a=1", &[("a", "2")], false),
            ("a=1", &[], false),
            ("a=", &[("a", "")], true),
            ("a=", &[], false),
            ("a!=1", &[("a", "2")], true),
            ("a!=1", &[("a", "1")], false),
            ("a!=1", &[], true),
            ("a!=", &[("a", "")], false),
            ("a in (1,2)", &[("a", "2")], true),
            ("a in (1,2)", &[("a", "3")], false),
            ("a in (1,2)", &[], false),
            ("a in (,1)", &[("a", "")], true),
            ("a in ()", &[("a", "")], true),
            ("a notin (1,2)", &[("a", "2")], false),
            ("a notin (1,2)", &[("a", "3")], true),
            ("a notin (1,2)", &[], true),
            ("a", &[("a", "")], true),
            ("a", &[("b", "")], false),
            ("!a", &[("b", "")], true),
            ("!a", &[("a", "")], false),
            ("a>5", &[("a", "6")], true),
            ("a>5", &[("a", "5")], false),
            ("a>5", &[], false),
            ("a>5", &[("a", "six")], false),
            ("a<5", &[("a", "4")], true),
            ("a<5", &[("a", "-4")], true),
            ("a<5", &[("a", "10")], false),
            ("a<5", &[("a", "99999999999999999999")], false),
            ("a=1,b=2", &[("a", "1"), ("b", "2")], true),
            ("a=1,b=2", &[("a", "1")], false),
            ("a=1,a!=1", &[("a", "1")], false),
            ("app=web,tier in (a,b),!x,env!=prod,y notin (c)", &[("app", "web"), ("tier", "b")], true),
            ("in in (in,notin)", &[("in", "notin")], true),
        ] {
            assert_eq!(chooses(selector, labels), want, "{selector:?} for {labels:?}");
        }
    }

    #[test]
    fn prints_a_canonical_text() {
        for (text, canonical) in [
            ("", ""),
            ("  b = 2 ,\ta==1", "a=1,b=2"),
            ("x in (c,a,,a)", "x in (,a,c)"),
            ("x in()", "x in ()"),
            ("x notin ( a )", "x notin (a)"),
            ("! x,y", "!x,y"),
            ("n>1,n<9", "n>1,n<9"),
            ("a!=", "a!="),
            ("a=,b", "a=,b"),
            ("example.com/Name_1.x=v-1.2_3", "example.com/Name_1.x=v-1.2_3"),
        ] {
            let selector = Selector::parse(text).unwrap();
            assert_eq!(selector.to_string(), canonical, "{text:?}");
            assert_eq!(Selector::parse(canonical).unwrap(), selector);
        }
    }

    #[test]
    fn refuses_bad_text_and_says_where() {
        for (text, complaint) in [
            ("!!bad", "found \"!\" at byte 1 where a key was expected"),
            ("a,", "found the end at byte 2 where a key was expected"),
            (",a", "found \",\" at byte 0 where a key was expected"),
            ("a b", "found \"b\" at byte 2 where one of"),
            ("a=1 b", "found \"b\" at byte 4 where ',' or the end was expected"),
            ("a===1", "found \"=\" at byte 3 where a value was expected"),
            ("a in 1", "found \"1\" at byte 5 where '(' was expected"),
            ("a in (1", "found the end at byte 7 where a value, ',' or ')' was expected"),
            ("a in (1 2)", "found \"2\" at byte 8 where a value, ',' or ')' was expected"),
            ("a in", "found the end at byte 4 where '(' was expected"),
            ("!a=1", "found \"=\" at byte 2 where ',' or the end was expected"),
            ("(a)", "found \"(\" at byte 0 where a key was expected"),
            ("a>x", "key a: value \"x\" is not an integer of 64 bits (at byte 0)"),
            ("a>", "value \"\" is not an integer"),
            ("a=1, -b", "key \"-b\" is not 1 to 63 letters"),
            ("a=-b", "key a: value \"-b\" is not 1 to 63 letters"),
            ("Example.com/a", "before / is not a DNS name"),
            ("/a", "before / is not a DNS name"),
            ("a/", "key \"a/\" is not"),
            ("a/b/c", "key \"a/b/c\" is not"),
            ("a=é", "value \"é\" is not"),
            ("a\0", "key \"a\\0\" is not"),
        ] {
            let error = Selector::parse(text).unwrap_err();
            assert!(error.is_invalid_argument());
            let message = error.to_string();
            assert!(message.starts_with(&format!("label selector {text:?}: ")), "{message}");
            assert!(message.contains(complaint), "{text:?}: {message}");
        }
    }

    #[test]
    fn keys_and_values_have_their_limits() {
        let (fits, too_long) = ("a".repeat(63), "a".repeat(64));
        assert!(Selector::parse(&format!("{fits}={fits}")).is_ok());
        assert!(Selector::parse(&too_long).is_err());
        assert!(Selector::parse(&format!("a={too_long}")).is_err());
        let dns = format!("{}.{}.{}.{}", &fits, &fits, &fits, "a".repeat(61));
        assert!(Selector::parse(&format!("{dns}/a")).is_ok());
        assert!(Selector::parse(&format!("{dns}a/a")).is_err());
    }

    #[test]
    fn is_built_from_requirements() {
        let built = Selector::everything()
            .and("z", Operator::Exists, [""; 0])
            .and_then(|s| s.and("b", Operator::NotIn, ["y", "x", "y"]))
            .and_then(|s| s.and("a", Operator::DoesNotExist, [""; 0]))
            .unwrap();
        assert_eq!(built.to_string(), "!a,b notin (x,y),z");
        let everything = Selector::everything;
        assert!(everything().and("a", Operator::In, [""; 0]).is_err());
        assert!(everything().and("a", Operator::Exists, ["x"]).is_err());
        assert!(everything().and("a", Operator::Equals, ["x", "y"]).is_err());
        assert!(everything().and("a", Operator::LessThan, ["x"]).is_err());
        assert!(everything().and("", Operator::Equals, ["x"]).is_err());
        let labels = Map::from([("b", "2"), ("a", "1")]);
        assert_eq!(Selector::from_labels(&labels).unwrap().to_string(), "a=1,b=2");
        assert!(Selector::from_labels(&Map::from([("a", "no spaces")])).is_err());
        assert!(everything().is_everything() && !built.is_everything());
    }

    /// Whatever is taken prints a text that stands for the same, and no text makes it fail otherwise.
    #[test]
    fn what_parses_prints_and_parses_back() {
        let parts = [
            "a", "b", "in", "notin", "x.y/z", "=", "==", "!=", "!", "(", ")", ",", ",", " ", ">", "<", "1",
            "-5", "é", "\0", " in (", " notin (", "=1,",
        ];
        let (mut seed, mut taken) = (88_172_645_463_325_252_u64, 0);
        let mut random = |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % below as u64) as usize
        };
        for _ in 0..50_000 {
            let text: String = (0..random(9)).map(|_| parts[random(parts.len())]).collect();
            if let Ok(selector) = Selector::parse(&text) {
                assert_eq!(Selector::parse(&selector.to_string()).unwrap(), selector, "{text:?}");
                taken += 1;
            }
        }
        assert!(taken > 5_000, "only {taken} were selectors");
    }

    #[test]
    fn label_selector_becomes_a_selector() {
        let json = r#"{"matchLabels":{"app":"web"},"matchExpressions":[
            {"key":"tier","operator":"In","values":["b","a"]},{"key":"x","operator":"DoesNotExist"},
            {"key":"env","operator":"NotIn","values":["prod"]},{"key":"y","operator":"Exists","values":null}]}"#;
        let selector: LabelSelector = serde_json::from_str(json).unwrap();
        assert_eq!(
            selector.to_selector().unwrap().to_string(),
            "app=web,env notin (prod),tier in (a,b),!x,y"
        );
        assert!(LabelSelector::default().to_selector().unwrap().is_everything());
        assert_eq!(serde_json::to_string(&LabelSelector::default()).unwrap(), "{}");
        let nulls = r#"{"matchLabels":null,"matchExpressions":null}"#;
        assert_eq!(serde_json::from_str::<LabelSelector>(nulls).unwrap(), LabelSelector::default());
        let labels = Map::from([("a", "b")]);
        assert_eq!(LabelSelector::from(labels).to_selector().unwrap().to_string(), "a=b");

        let bad = |operator: &str, values: &[&str]| LabelSelector {
            match_labels: Map::new(),
            match_expressions: vec![LabelSelectorRequirement {
                key: "a".into(),
                operator: operator.into(),
                values: values.iter().map(|v| (*v).to_owned()).collect(),
            }],
        };
        assert!(bad("in", &["x"]).to_selector().unwrap_err().to_string().contains("\"in\" is no operator"));
        assert!(bad("Gt", &["1"]).to_selector().is_err());
        assert!(bad("In", &[]).to_selector().is_err());
        assert!(bad("Exists", &["x"]).to_selector().is_err());
    }
}
