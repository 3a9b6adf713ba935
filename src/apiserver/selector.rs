//! Label and field selectors. The parser is to be replaced by the one of the object room.

use serde_json::Value;

use super::answer::{Failure, Outcome};
use super::kinds::Kind;
use super::store::Object;
use super::tree::{at_path, plain, text};

/// Which objects a list or watch is about.
#[derive(Debug, Default)]
pub(super) struct Filter {
    /// `None` for all.
    pub(super) namespace: Option<String>,
    labels: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Debug)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

#[derive(Debug)]
struct FieldRequirement {
    path: String,
    value: String,
    equal: bool,
}

impl Filter {
    pub(super) fn parse(kind: &Kind, namespace: Option<&str>, labels: &str, fields: &str) -> Outcome<Self> {
        let labels = parse_labels(labels)?;
        let fields = parse_fields(kind, fields)?;
        Ok(Self { namespace: namespace.map(Into::into), labels, fields })
    }

    /// Whether there is a selector, so that how many objects remain is not known.
    pub(super) fn selects(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    pub(super) fn matches(&self, object: &Object) -> bool {
        self.namespace.as_ref().is_none_or(|ns| *ns == object.key.namespace)
            && self.labels.iter().all(|requirement| requirement.matches(&object.body))
            && self.fields.iter().all(|requirement| requirement.matches(&object.body))
    }
}

impl Requirement {
    fn matches(&self, body: &Value) -> bool {
        let value = body.get("metadata").and_then(|m| m.get("labels")?.get(&self.key)?.as_str());
        match &self.test {
            Test::In(values) => value.is_some_and(|v| values.iter().any(|other| other == v)),
            Test::NotIn(values) => value.is_none_or(|v| values.iter().all(|other| other != v)),
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::Greater(than) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v > *than),
            Test::Less(than) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v < *than),
        }
    }
}

impl FieldRequirement {
    fn matches(&self, body: &Value) -> bool {
        let value = at_path(body, &self.path).map(plain).unwrap_or_default();
        (value == self.value) == self.equal
    }
}

/// The fields that objects of a kind can be selected by, beside name and namespace.
fn selectable(kind: &Kind) -> &'static [&'static str] {
    match kind.id() {
        "pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        "events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        "events.events.k8s.io" => {
            &["regarding.kind", "regarding.name", "regarding.namespace", "regarding.uid", "reason", "type"]
        }
        "secrets" => &["type"],
        "namespaces" => &["status.phase"],
        "nodes" => &["spec.unschedulable"],
        "services" => &["spec.clusterIP", "spec.type"],
        "replicasets.apps" => &["status.replicas"],
        "jobs.batch" => &["status.successful"],
        _ => &[],
    }
}

fn parse_fields(kind: &Kind, selector: &str) -> Outcome<Vec<FieldRequirement>> {
    let mut requirements = Vec::new();
    for part in selector.split(',').filter(|part| !part.is_empty()) {
        let (path, value, equal) = if let Some((path, value)) = part.split_once("!=") {
            (path, value, false)
        } else if let Some((path, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            (path, value, true)
        } else {
            let message = format!("invalid selector: '{selector}'; can't understand '{part}'");
            return Err(Failure::bad_request(message));
        };
        let own = kind.custom.as_ref().is_some_and(|custom| custom.selectable.iter().any(|p| p == path));
        let known = matches!(path, "metadata.name" | "metadata.namespace") || own;
        if !known && !selectable(kind).contains(&path) {
            let message = if selectable(kind).is_empty() && kind.custom.is_none() {
                format!(
                    "\"{path}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                )
            } else {
                format!("field label not supported: {path}")
            };
            return Err(Failure::bad_request(message));
        }
        requirements.push(FieldRequirement { path: path.into(), value: value.replace('\\', ""), equal });
    }
    Ok(requirements)
}

/// A word or a sign of a label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(&'static str),
}

fn tokens(selector: &str) -> Vec<Token> {
    const SIGNS: [&str; 9] = ["==", "!=", "=", "!", ",", "(", ")", "<", ">"];
    let mut found = Vec::new();
    let mut rest = selector.trim_start();
    while !rest.is_empty() {
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            found.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            let ends = |c: char| c.is_whitespace() || "=!,()<>".contains(c);
            let (word, after) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
            found.push(Token::Word(word.into()));
            rest = after;
        }
        rest = rest.trim_start();
    }
    found
}

fn parse_labels(selector: &str) -> Outcome<Vec<Requirement>> {
    let tokens = tokens(selector);
    let mut left = tokens.as_slice();
    let mut requirements = Vec::new();
    while !left.is_empty() {
        requirements.push(requirement(&mut left)?);
        match left {
            [] => {}
            [Token::Sign(","), Token::Word(_) | Token::Sign("!"), ..] => left = &left[1..],
            [Token::Sign(","), rest @ ..] => return Err(unexpected(rest.first(), "identifier after ','")),
            [other, ..] => return Err(unexpected(Some(other), "',' or 'end of string'")),
        }
    }
    Ok(requirements)
}

fn unexpected(found: Option<&Token>, expected: &str) -> Failure {
    let found = match found {
        Some(Token::Word(word)) => word,
        Some(Token::Sign(sign)) => *sign,
        None => "",
    };
    Failure::bad_request(format!("unable to parse requirement: found '{found}', expected: {expected}"))
}

fn requirement(left: &mut &[Token]) -> Outcome<Requirement> {
    let absent = next_is(left, "!");
    let key = word(left, "identifier")?;
    check_key(&key)?;
    if absent {
        return Ok(Requirement { key, test: Test::Absent });
    }
    let test = match left {
        [] | [Token::Sign(","), ..] => Test::Exists,
        [Token::Sign("=" | "=="), rest @ ..] => {
            *left = rest;
            Test::In(vec![value(left)])
        }
        [Token::Sign("!="), rest @ ..] => {
            *left = rest;
            Test::NotIn(vec![value(left)])
        }
        [Token::Sign(sign @ (">" | "<")), rest @ ..] => {
            *left = rest;
            let number = value(left);
            let Ok(number) = number.parse() else {
                return Err(unexpected(Some(&Token::Word(number)), "an integer"));
            };
            if *sign == ">" { Test::Greater(number) } else { Test::Less(number) }
        }
        [Token::Word(operator), rest @ ..] if operator == "in" || operator == "notin" => {
            *left = rest;
            let values = values(left)?;
            if operator == "in" { Test::In(values) } else { Test::NotIn(values) }
        }
        [other, ..] => {
            return Err(unexpected(Some(other), "in, notin, =, ==, !=, gt, lt"));
        }
    };
    if let Test::In(values) | Test::NotIn(values) = &test {
        values.iter().try_for_each(|value| check_value(value))?;
    }
    Ok(Requirement { key, test })
}

fn next_is(left: &mut &[Token], sign: &str) -> bool {
    let is = matches!(left, [Token::Sign(s), ..] if *s == sign);
    if is {
        *left = &left[1..];
    }
    is
}

fn word(left: &mut &[Token], expected: &str) -> Outcome<String> {
    match left {
        [Token::Word(word), rest @ ..] => {
            *left = rest;
            Ok(word.clone())
        }
        other => Err(unexpected(other.first(), expected)),
    }
}

/// A value may be empty.
fn value(left: &mut &[Token]) -> String {
    word(left, "").unwrap_or_default()
}

fn values(left: &mut &[Token]) -> Outcome<Vec<String>> {
    if !next_is(left, "(") {
        return Err(unexpected(left.first(), "'('"));
    }
    let mut values = vec![value(left)];
    while next_is(left, ",") {
        values.push(value(left));
    }
    if !next_is(left, ")") {
        return Err(unexpected(left.first(), "',' or ')'"));
    }
    Ok(values)
}

fn is_name(text: &str) -> bool {
    let alphanumeric = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && alphanumeric(text.chars().next())
        && alphanumeric(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

fn check_key(key: &str) -> Outcome<()> {
    let name = key.split_once('/').map_or(key, |(_, name)| name);
    if is_name(name) {
        return Ok(());
    }
    Err(Failure::bad_request(format!(
        "unable to parse requirement: <nil>: Invalid value: \"{key}\": name part must consist of alphanumeric \
         characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    )))
}

fn check_value(value: &str) -> Outcome<()> {
    if value.is_empty() || is_name(value) {
        return Ok(());
    }
    Err(Failure::bad_request(format!(
        "unable to parse requirement: values[0]: Invalid value: \"{value}\": a valid label must be an empty string \
         or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    )))
}

/// A workload's `spec.selector` as the text that the scale subresource tells.
pub(super) fn selector_text(selector: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(labels) = selector.get("matchLabels").and_then(Value::as_object) {
        parts.extend(labels.iter().map(|(key, value)| format!("{key}={}", plain(value))));
    }
    for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let key = text(expression, "/key");
        let values: Vec<_> =
            expression.get("values").and_then(Value::as_array).into_iter().flatten().map(plain).collect();
        parts.push(match text(expression, "/operator") {
            "Exists" => key.into(),
            "DoesNotExist" => format!("!{key}"),
            operator => format!("{key} {} ({})", operator.to_lowercase(), values.join(",")),
        });
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selects(selector: &str, labels: Value) -> bool {
        let body = json!({ "metadata": { "labels": labels } });
        parse_labels(selector).unwrap().iter().all(|r| r.matches(&body))
    }

    #[test]
    fn each_operator_of_a_label_selector() {
        let labels = json!({"app": "web", "tier": "front", "n": "5"});
        for selector in [
            "",
            "app",
            "!x",
            "app=web",
            "app == web",
            "app!=db",
            "x!=y",
            "app in (db, web)",
            "app notin (db)",
            "x notin (a)",
            "n>4",
            "n<6",
            "app=web,tier=front",
            " app , !x ",
        ] {
            assert!(selects(selector, labels.clone()), "{selector}");
        }
        for selector in
            ["x", "!app", "app=db", "app=", "app!=web", "app in (db)", "n>5", "n<5", "x in (a)", "app>1"]
        {
            assert!(!selects(selector, labels.clone()), "{selector}");
        }
    }

    #[test]
    fn bad_label_selectors_are_refused() {
        for selector in
            ["!!bad", "a=b,", "a b", "a in b", "a in (b", "a=b c", "=a", "a>b", "-a", "a=-", ",", "a,,b"]
        {
            assert!(parse_labels(selector).is_err(), "{selector}");
        }
    }
}
