//! Structural schemas of custom resources: checks, pruning, defaults.

use serde_json::Value;

use super::answer::Cause;
use super::tree::text;

/// The keywords that are checked. Not: pattern, format, multipleOf, oneOf, anyOf, allOf, not, uniqueItems, CEL rules.
pub(super) fn check(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.is_null() && (schema.get("nullable") == Some(&Value::Bool(true)) || path.is_empty()) {
        return;
    }
    let shown = shown(value);
    if !has_type(schema, value) {
        let wanted = text(schema, "/type");
        let why = format!("{path} in body must be of type {wanted}: \"{}\"", type_of(value));
        causes.push(Cause::type_invalid(path, &format!("\"{}\"", type_of(value)), &why));
        return;
    }
    let limit = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let is = |keyword: &str| schema.get(keyword) == Some(&Value::Bool(true));
    if let Some(number) = value.as_f64() {
        let mut out_of_range = |words: &str, limit: f64| {
            causes.push(Cause::invalid(path, &shown, format!("{path} in body should be {words} {limit}")));
        };
        match limit("minimum") {
            Some(least) if is("exclusiveMinimum") && number <= least => out_of_range("greater than", least),
            Some(least) if number < least => out_of_range("greater than or equal to", least),
            _ => {}
        }
        match limit("maximum") {
            Some(most) if is("exclusiveMaximum") && number >= most => out_of_range("less than", most),
            Some(most) if number > most => out_of_range("less than or equal to", most),
            _ => {}
        }
    }
    let (size, least, most) = match value {
        Value::String(text) => (text.chars().count(), "minLength", "maxLength"),
        Value::Array(items) => (items.len(), "minItems", "maxItems"),
        Value::Object(fields) => (fields.len(), "minProperties", "maxProperties"),
        _ => (0, "", ""),
    };
    if limit(least).is_some_and(|least| (size as f64) < least) {
        let why = format!("{path} in body should have at least {} ({least})", limit(least).unwrap_or(0.0));
        causes.push(Cause::invalid(path, &shown, why));
    }
    if let Some(most) = limit(most).filter(|most| size as f64 > *most) {
        causes.push(match value {
            Value::String(_) => Cause::too_much(
                path,
                "FieldValueTooLong",
                format!("Too long: may not be more than {most} bytes"),
            ),
            _ => {
                let message = format!("Too many: {size}: must have at most {most} items");
                Cause::too_much(path, "FieldValueTooMany", message)
            }
        });
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
        if !allowed.contains(value) {
            let allowed: Vec<_> = allowed.iter().map(self::shown).collect();
            causes.push(Cause::not_supported(path, &shown, &allowed.join(", ")));
        }
    }
    match value {
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            for (at, item) in items.iter().enumerate() {
                check(schema, item, &format!("{path}[{at}]"), causes);
            }
        }
        Value::Object(fields) => {
            for required in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
                if let Some(name) = required.as_str().filter(|name| !fields.contains_key(*name)) {
                    causes.push(Cause::required(join(path, name), ""));
                }
            }
            for (name, value) in fields {
                if path.is_empty() && matches!(name.as_str(), "metadata" | "apiVersion" | "kind") {
                    continue;
                }
                if let Some(schema) = field_schema(schema, name) {
                    check(schema, value, &join(path, name), causes);
                }
            }
        }
        _ => {}
    }
}

/// Takes away what the schema does not name; `unknown` gets the paths of that.
pub(super) fn prune(schema: &Value, body: &mut Value, unknown: &mut Vec<String>) {
    prune_at(schema, body, "", unknown);
}

fn prune_at(schema: &Value, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    let preserves = schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    match value {
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (at, item) in items.iter_mut().enumerate() {
                    prune_at(schema, item, &format!("{path}[{at}]"), unknown);
                }
            }
        }
        Value::Object(fields) => {
            let embedded =
                path.is_empty() || schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
            fields.retain(|name, value| {
                if embedded && matches!(name.as_str(), "metadata" | "apiVersion" | "kind") {
                    return true;
                }
                match field_schema(schema, name) {
                    Some(schema) => prune_at(schema, value, &join(path, name), unknown),
                    None if preserves || allows_any(schema) => {}
                    None => {
                        unknown.push(join(path, name));
                        return false;
                    }
                }
                true
            });
        }
        _ => {}
    }
}

/// Fills in the defaults of absent fields, and of those in what was filled in.
pub(super) fn fill_defaults(schema: &Value, value: &mut Value) {
    match value {
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| fill_defaults(schema, item));
            }
        }
        Value::Object(fields) => {
            let known = schema.get("properties").and_then(Value::as_object);
            for (name, schema) in known.into_iter().flatten() {
                if let Some(default) = schema.get("default") {
                    let nullable = schema.get("nullable") == Some(&Value::Bool(true));
                    let absent = fields.get(name).is_none_or(|value| value.is_null() && !nullable);
                    if absent {
                        fields.insert(name.clone(), default.clone());
                    }
                }
            }
            for (name, value) in fields {
                if let Some(schema) = field_schema(schema, name) {
                    fill_defaults(schema, value);
                }
            }
        }
        _ => {}
    }
}

fn field_schema<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let named = schema.get("properties").and_then(|properties| properties.get(name));
    named.or_else(|| schema.get("additionalProperties").filter(|schema| schema.is_object()))
}

fn allows_any(schema: &Value) -> bool {
    schema.get("additionalProperties") == Some(&Value::Bool(true))
}

fn has_type(schema: &Value, value: &Value) -> bool {
    if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        return value.is_string() || value.is_i64() || value.is_u64();
    }
    match text(schema, "/type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
        "number" => value.is_number(),
        _ => true,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A value as messages show it.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => format!("\"{}\"", type_of(value)),
        plain => plain.to_string(),
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.into() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({"type": "object", "required": ["spec"], "properties": {"spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10},
                "color": {"type": "string", "enum": ["red", "blue"], "default": "red", "maxLength": 4},
                "tags": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 2},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "port": {"x-kubernetes-int-or-string": true},
                "none": {"type": "string", "nullable": true}
            }
        }}})
    }

    fn wrong(body: Value) -> usize {
        let mut causes = Vec::new();
        check(&schema(), &body, "", &mut causes);
        causes.len()
    }

    #[test]
    fn each_keyword_is_checked() {
        let good = json!({"size": 3, "color": "blue", "tags": ["a"], "map": {"x": 1}, "any": {"z": [1]}, "port": "http",
            "none": null});
        assert_eq!(wrong(json!({ "spec": good })), 0);
        for bad in [
            json!({}),
            json!({"size": 0}),
            json!({"size": 11}),
            json!({"size": "3"}),
            json!({"size": 1.5}),
            json!({"size": 1, "color": "grey"}),
            json!({"size": 1, "tags": [""]}),
            json!({"size": 1, "tags": ["a", "b", "c"]}),
            json!({"size": 1, "map": {"x": "1"}}),
            json!({"size": 1, "port": true}),
            json!({"size": 1, "color": null}),
            json!("text"),
        ] {
            assert!(wrong(json!({ "spec": bad })) > 0, "{bad}");
        }
        assert_eq!(wrong(json!({})), 1);
    }

    #[test]
    fn unknown_fields_are_pruned_and_defaults_filled_in() {
        let mut body = json!({"metadata": {"name": "a"}, "extra": 1,
            "spec": {"size": 1, "nope": {"x": 1}, "any": {"kept": 1}, "map": {"x": 1}}});
        let mut unknown = Vec::new();
        prune(&schema(), &mut body, &mut unknown);
        fill_defaults(&schema(), &mut body);
        assert_eq!(unknown, ["extra", "spec.nope"]);
        assert_eq!(
            body,
            json!({"metadata": {"name": "a"},
                "spec": {"size": 1, "color": "red", "any": {"kept": 1}, "map": {"x": 1}}})
        );
    }
}
