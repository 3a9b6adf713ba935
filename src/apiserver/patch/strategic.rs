//! Strategic merge patch: a merge patch that knows how lists of built-in kinds are merged, with directives.

use serde_json::Value;

use super::super::answer::{Failure, Outcome};
use super::super::shape::{ListShape, Shape};
use super::super::tree::{Tree, text, tree};

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DROP: &str = "$deleteFromPrimitiveList/";

/// Merges a patch into an object.
pub(super) fn merge(target: &mut Value, patch: Value) -> Outcome<()> {
    let Value::Object(mut patch) = patch else {
        return Err(Failure::bad_request("error decoding patch: a strategic merge patch is an object"));
    };
    match patch.remove(DIRECTIVE).as_ref().map(|d| d.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("replace") => {
            *target = Value::Object(patch);
            return Ok(());
        }
        Some("delete") => {
            *target = Value::Object(Tree::new());
            return Ok(());
        }
        Some(other) => return Err(unknown(other)),
    }
    let target = tree(target);
    if let Some(Value::Array(retained)) = patch.remove(RETAIN) {
        target.retain(|name, _| retained.iter().any(|r| r == name));
    }
    let (directives, fields): (Vec<_>, Vec<_>) =
        patch.into_iter().partition(|(name, _)| name.starts_with('$'));
    for (name, dropped) in &directives {
        let list = name.strip_prefix(DROP).and_then(|field| target.get_mut(field)?.as_array_mut());
        if let (Some(list), Some(dropped)) = (list, dropped.as_array()) {
            list.retain(|item| !dropped.contains(item));
        }
    }
    for (name, value) in fields {
        match value {
            Value::Null => drop(target.remove(&name)),
            Value::Object(fields) if fields.get(DIRECTIVE).and_then(Value::as_str) == Some("delete") => {
                target.remove(&name);
            }
            Value::Object(_) => merge(target.entry(name).or_insert(Value::Null), value)?,
            Value::Array(items) => {
                let merged = merge_list(&name, target.remove(&name), items)?;
                target.insert(name, merged.into());
            }
            value => drop(target.insert(name, value)),
        }
    }
    for (name, order) in &directives {
        let Some(field) = name.strip_prefix(ORDER) else { continue };
        let list = target.get_mut(field).and_then(Value::as_array_mut);
        if let (Some(list), Some(order)) = (list, order.as_array()) {
            set_order(field, list, order);
        }
    }
    Ok(())
}

fn unknown(directive: &str) -> Failure {
    Failure::bad_request(format!("error decoding patch: unknown $patch directive \"{directive}\""))
}

/// The field that tells the items of a list apart, if they are merged by one.
fn key_field(name: &str, items: &[Value]) -> Option<String> {
    match Shape::BuiltIn.list(name, items) {
        ListShape::Map(keys) => keys.into_iter().next(),
        _ => None,
    }
}

fn merge_list(name: &str, target: Option<Value>, patch: Vec<Value>) -> Outcome<Vec<Value>> {
    let mut target = match target {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    // An item that is only a directive replaces the whole list.
    let replaces = |item: &Value| text(item, "/$patch") == "replace";
    if patch.iter().any(replaces) {
        return Ok(patch.into_iter().filter(|item| !replaces(item)).collect());
    }
    let both: Vec<Value> = target.iter().chain(&patch).cloned().collect();
    if Shape::BuiltIn.list(name, &both) == ListShape::Set {
        for item in patch {
            if !target.contains(&item) {
                target.push(item);
            }
        }
        return Ok(target);
    }
    let Some(key) = key_field(name, &both) else { return Ok(patch) };
    for mut item in patch {
        let same = |other: &Value| other.get(&key) == item.get(&key);
        let at = target.iter().position(same);
        match text(&item, "/$patch") {
            "delete" => target.retain(|other| !same(other)),
            "" | "merge" => {
                if let Some(at) = at {
                    merge(&mut target[at], item)?;
                } else {
                    let mut new = Value::Object(Tree::new());
                    tree(&mut item).remove(DIRECTIVE);
                    merge(&mut new, item)?;
                    target.push(new);
                }
            }
            other => return Err(unknown(other)),
        }
    }
    Ok(target)
}

/// Brings the items that are named into that order; others keep their place after the one they followed.
fn set_order(name: &str, list: &mut Vec<Value>, order: &[Value]) {
    let key = key_field(name, list);
    let rank = |item: &Value| {
        order.iter().position(|named| match &key {
            Some(key) => named.get(key) == item.get(key),
            None => named == item,
        })
    };
    let mut last = 0;
    let mut ranked: Vec<(usize, Value)> = Vec::with_capacity(list.len());
    for item in list.drain(..) {
        last = rank(&item).unwrap_or(last);
        ranked.push((last, item));
    }
    ranked.sort_by_key(|(rank, _)| *rank); // stable
    list.extend(ranked.into_iter().map(|(_, item)| item));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(mut target: Value, patch: Value) -> Value {
        merge(&mut target, patch).unwrap();
        target
    }

    #[test]
    fn keyed_lists_are_merged_and_plain_ones_replaced() {
        let target = json!({"containers": [{"name":"a","image":"1","env":[{"name":"X","value":"1"}]}, {"name":"b"}],
            "args": [1, 2], "finalizers": ["one"]});
        let patch = json!({"containers": [{"name":"a","image":"2","env":[{"name":"Y","value":"2"}]}, {"name":"c"}],
            "args": [3], "finalizers": ["two"]});
        assert_eq!(
            merged(target, patch),
            json!({"containers": [
                {"name":"a","image":"2","env":[{"name":"X","value":"1"},{"name":"Y","value":"2"}]},
                {"name":"b"}, {"name":"c"}], "args": [3], "finalizers": ["one", "two"]})
        );
    }

    #[test]
    fn directives_delete_replace_retain_and_order() {
        let volumes = || json!({"volumes": [{"name":"a","emptyDir":{}}, {"name":"b"}]});
        let delete = json!({"volumes": [{"name":"a","$patch":"delete"}]});
        assert_eq!(merged(volumes(), delete), json!({"volumes": [{"name":"b"}]}));
        let replace = json!({"volumes": [{"$patch":"replace"}, {"name":"z"}]});
        assert_eq!(merged(volumes(), replace), json!({"volumes": [{"name":"z"}]}));
        let retain = json!({"volumes": [{"name":"a","$retainKeys":["name","hostPath"],"hostPath":{}}]});
        assert_eq!(merged(volumes(), retain), json!({"volumes": [{"name":"a","hostPath":{}}, {"name":"b"}]}));
        let order = json!({"$setElementOrder/volumes": [{"name":"c"},{"name":"b"},{"name":"a"}],
            "volumes": [{"name":"c"}]});
        assert_eq!(
            merged(volumes(), order),
            json!({"volumes": [{"name":"c"}, {"name":"b"}, {"name":"a","emptyDir":{}}]})
        );
        let map = json!({"a": {"x": 1}, "b": {"x": 1}});
        let patch = json!({"a": {"$patch":"replace","y":2}, "b": {"$patch":"delete"}});
        assert_eq!(merged(map, patch), json!({"a": {"y": 2}}));
        let drop = json!({"$deleteFromPrimitiveList/finalizers": ["one"]});
        assert_eq!(merged(json!({"finalizers": ["one", "two"]}), drop), json!({"finalizers": ["two"]}));
    }

    #[test]
    fn an_unknown_directive_is_refused() {
        assert!(merge(&mut json!({}), json!({"$patch": "explode"})).is_err());
        assert!(merge(&mut json!({}), json!([])).is_err());
    }
}
