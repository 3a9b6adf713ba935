//! JSON patch, RFC 6902. Written here: it is a hundred lines, and the crate for it brings four more.

use serde_json::Value;

use super::super::answer::{Failure, Outcome};
use super::super::http::BODY_LIMIT;
use super::super::tree::text;

/// More operations than kube-apiserver accepts.
const MOST: usize = 10_000;

/// Applies all operations; on a failure `target` is left half patched.
pub(super) fn apply(target: &mut Value, patch: &Value) -> Outcome<()> {
    let Some(operations) = patch.as_array() else {
        return Err(Failure::bad_request("error decoding patch: a JSON patch is a list of operations"));
    };
    if operations.len() > MOST {
        return Err(Failure::body_too_large(MOST));
    }
    let mut copied = 0;
    for operation in operations {
        step(target, operation, &mut copied).ok_or_else(Failure::patch_failed)?;
        if super::depth(target) > super::DEEPEST {
            return Err(Failure::patch_failed());
        }
    }
    Ok(())
}

/// `copied` counts the bytes of all copies: each may double the object, so that kube-apiserver limits them too.
fn step(target: &mut Value, operation: &Value, copied: &mut usize) -> Option<()> {
    let path = operation.get("path")?.as_str()?;
    let from = text(operation, "/from");
    let value = operation.get("value");
    match text(operation, "/op") {
        "add" => add(target, path, value?.clone()),
        "remove" => remove(target, path).map(drop),
        "replace" => {
            *target.pointer_mut(checked(path)?)? = value?.clone();
            Some(())
        }
        "move" if path.starts_with(&format!("{from}/")) => None, // into itself
        "move" => {
            let moved = remove(target, from)?;
            add(target, path, moved)
        }
        "copy" => {
            let copy = target.pointer(checked(from)?)?.clone();
            *copied += copy.to_string().len();
            (*copied <= BODY_LIMIT).then(|| add(target, path, copy))?
        }
        "test" => (same(target.pointer(checked(path)?)?, value?)).then_some(()),
        _ => None,
    }
}

/// Numbers are the same by value: 1 and 1.0.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// A pointer is empty or begins with a slash.
fn checked(path: &str) -> Option<&str> {
    (path.is_empty() || path.starts_with('/')).then_some(path)
}

/// The parent of a place, and the last step to it.
fn parent<'a>(target: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (parent, last) = checked(path)?.rsplit_once('/')?;
    Some((target.pointer_mut(parent)?, last.replace("~1", "/").replace("~0", "~")))
}

/// An index has no leading zero and no sign.
fn index(text: &str) -> Option<usize> {
    let canonical = text == "0" || !text.starts_with(['0', '+']);
    text.parse().ok().filter(|_| canonical)
}

fn add(target: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        *target = value;
        return Some(());
    }
    match parent(target, path)? {
        (Value::Object(fields), name) => drop(fields.insert(name, value)),
        (Value::Array(items), last) if last == "-" => items.push(value),
        (Value::Array(items), last) => {
            let at = index(&last).filter(|at| *at <= items.len())?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(target: &mut Value, path: &str) -> Option<Value> {
    match parent(target, path)? {
        (Value::Object(fields), name) => fields.remove(&name),
        (Value::Array(items), last) => {
            let at = index(&last).filter(|at| *at < items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(mut target: Value, patch: Value) -> Option<Value> {
        apply(&mut target, &patch).ok().map(|()| target)
    }

    /// After RFC 6902, appendix A.
    #[test]
    fn each_operation() {
        for (target, patch, result) in [
            (json!({"a":1}), json!([{"op":"add","path":"/b","value":2}]), json!({"a":1,"b":2})),
            (json!({"a":[1,3]}), json!([{"op":"add","path":"/a/1","value":2}]), json!({"a":[1,2,3]})),
            (json!({"a":[1]}), json!([{"op":"add","path":"/a/-","value":[2]}]), json!({"a":[1,[2]]})),
            (json!({"a":[1,2]}), json!([{"op":"remove","path":"/a/0"}]), json!({"a":[2]})),
            (json!({"a":1}), json!([{"op":"replace","path":"/a","value":null}]), json!({"a":null})),
            (json!({"a":{"b":1}}), json!([{"op":"move","from":"/a/b","path":"/c"}]), json!({"a":{},"c":1})),
            (json!({"a":1}), json!([{"op":"copy","from":"/a","path":"/c"}]), json!({"a":1,"c":1})),
            (json!({"a/b":1}), json!([{"op":"test","path":"/a~1b","value":1.0}]), json!({"a/b":1})),
            (json!({"~":1}), json!([{"op":"remove","path":"/~0"}]), json!({})),
            (json!({"a":1}), json!([{"op":"replace","path":"","value":{"b":2}}]), json!({"b":2})),
        ] {
            assert_eq!(patched(target, patch.clone()), Some(result), "{patch}");
        }
    }

    #[test]
    fn what_cannot_be_done_fails() {
        for patch in [
            json!([{"op":"test","path":"/a","value":2}]),
            json!([{"op":"add","path":"/x/y","value":1}]),
            json!([{"op":"remove","path":"/x"}]),
            json!([{"op":"replace","path":"/x","value":1}]),
            json!([{"op":"add","path":"/l/7","value":1}]),
            json!([{"op":"add","path":"/l/01","value":1}]),
            json!([{"op":"move","from":"/o","path":"/o/p"}]),
            json!([{"op":"remove","path":""}]),
            json!([{"op":"add","path":"a","value":1}]),
            json!([{"op":"nothing","path":"/a"}]),
            json!([1]),
            json!({}),
        ] {
            assert_eq!(patched(json!({"a":1,"l":[1],"o":{"p":1}}), patch.clone()), None, "{patch}");
        }
    }

    #[test]
    fn copies_of_copies_do_not_fill_the_memory() {
        let bomb: Vec<_> = (0..60).map(|i| json!({"op":"copy","from":"","path":format!("/{i}")})).collect();
        assert_eq!(patched(json!({"a": "text"}), bomb.into()), None);
    }
}
