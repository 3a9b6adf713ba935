//! What holds for any text as a label selector and as a field selector.

use listwatch::{FieldSelector, Operator, Selector};

/// What parses prints a text that parses to the same; each requirement means the opposite of its opposite.
pub(crate) fn selectors(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Selector::parse(text) {
        Ok(selector) => labels(&selector),
        Err(error) => refused(&error, "label selector"),
    }
    match FieldSelector::parse(text) {
        Ok(selector) => fields(&selector),
        Err(error) => refused(&error, "field selector"),
    }
}

fn labels(selector: &Selector) {
    let printed = selector.to_string();
    assert_eq!(&Selector::parse(&printed).unwrap(), selector, "{printed:?}");
    assert_eq!(Selector::parse(&printed).unwrap().to_string(), printed);

    for requirement in selector.requirements() {
        let (key, values) = (requirement.key(), requirement.values());
        let alone = |operator| Selector::everything().and(key, operator, values.iter().cloned()).unwrap();
        let one = alone(requirement.operator());
        let (opposite, absent) = match requirement.operator() {
            Operator::Equals => (alone(Operator::NotEquals), false),
            Operator::NotEquals => (alone(Operator::Equals), true),
            Operator::In => (alone(Operator::NotIn), false),
            Operator::NotIn => (alone(Operator::In), true),
            Operator::Exists => (alone(Operator::DoesNotExist), false),
            Operator::DoesNotExist => (alone(Operator::Exists), true),
            // Neither of them holds for its own value.
            Operator::GreaterThan | Operator::LessThan => (one.clone(), false),
        };
        let is_order = one == opposite;
        let read = Selector::parse(&one.to_string()).unwrap();
        assert_eq!(one.matches(|_| None), absent, "{one}");
        for value in values.iter().map(String::as_str).chain(["", "x", "7"]) {
            let label = |asked: &str| (asked == key).then_some(value);
            assert_eq!(one.matches(label), read.matches(label), "{one} for {value:?}");
            assert!(is_order || one.matches(label) != opposite.matches(label), "{one} for {value:?}");
            assert!(!selector.matches(label) || one.matches(label), "{selector} for {value:?}");
        }
        for value in values {
            let label = |asked: &str| (asked == key).then_some(&**value);
            let holds = matches!(requirement.operator(), Operator::Equals | Operator::In);
            assert_eq!(one.matches(label), holds, "{one} for {value:?}");
        }
    }
}

fn fields(selector: &FieldSelector) {
    let printed = selector.to_string();
    let read = FieldSelector::parse(&printed).unwrap();
    assert_eq!(&read, selector, "{printed:?}");
    assert_eq!(read.to_string(), printed);

    for one in selector.requirements() {
        for value in [&*one.value, "", "x"] {
            let field = |asked: &str| (asked == one.field).then_some(value);
            assert_eq!(selector.matches(field), read.matches(field), "{selector} for {value:?}");
            let (is, wanted) = (value == one.value, one.equal);
            assert!(!selector.matches(field) || is == wanted, "{selector} for {value:?}");
        }
    }
}

fn refused(error: &listwatch::Error, what: &str) {
    let text = error.to_string();
    assert!(error.is_invalid_argument() && text.starts_with(what), "{text}");
    assert!(!text.contains(char::is_control) && text.len() < 8000, "{text:?}");
}
