//! What holds for any object: a line with a JSON pointer, a line with the value to set there, and the object.

use listwatch::object::Packer;
use listwatch::{Object, ObjectMeta, Resource};
use serde_json::Value;

/// The object is what its text says, and only `managedFields` is lost; reading by pointer finds what a tree of values
/// holds there; setting a value sets that, and nothing else changes; a change that fails changes nothing. A packed object
/// is as a plain one.
pub(crate) fn object(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut parts = text.splitn(3, '\n');
    let (pointer, new) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let text = parts.next().unwrap_or_default();
    let Ok(object) = Object::from_json(text) else { return };
    assert_eq!(Object::from_json(&object.text()).unwrap(), object);
    assert_eq!(serde_json::to_string(&object).unwrap(), object.text());
    let _ = object.get::<Value>(pointer);

    // JSON that is nested too deeply for a tree, or has numbers that are too big.
    let Ok(mut value) = serde_json::from_str::<Value>(text) else { return };
    value["metadata"].as_object_mut().unwrap().remove("managedFields");
    assert_eq!(object.parse::<Value>().unwrap(), value);

    // Of a name that is there twice a tree has the last, and a look by pointer finds the first: now each is there once.
    let mut object = Object::from_value(&value).unwrap();
    is_told(&object, &value);
    let plain = object.clone();
    object.pack(&mut Packer::new());
    assert_eq!(object, plain);
    is_told(&object, &value);
    assert_eq!(object.get::<Value>(pointer).as_ref(), value.pointer(pointer), "{pointer:?}");
    object.edit(|_| {}).unwrap();
    is_told(&object, &value);
    object.pack(&mut Packer::new());

    let Ok(new) = serde_json::from_str::<Value>(new) else { return };
    let before = object.clone();
    match object.set(pointer, &new) {
        Err(error) => {
            assert!(error.is_decode() || error.is_invalid_argument(), "{error:?}");
            assert_eq!(object, before);
        }
        Ok(())
            if pointer.is_empty()
                || pointer == "/metadata"
                || pointer.starts_with("/metadata/managedFields") => {}
        Ok(()) => {
            let after = object.parse::<Value>().unwrap();
            is_told(&object, &after);
            match value.pointer_mut(pointer) {
                Some(place) => *place = new,
                None => {
                    assert!(
                        pointer.ends_with("/-")
                            || pointer.contains("/-/")
                            || after.pointer(pointer) == Some(&new)
                    );
                    let step = pointer[1..].split('/').next().unwrap().replace("~1", "/").replace("~0", "~");
                    value[&step] = after[&step].clone();
                }
            }
            assert_eq!(after, value);
        }
    }
}

/// Type, metadata and key are those of the tree.
fn is_told(object: &Object, value: &Value) {
    assert_eq!(&object.parse::<Value>().unwrap(), value);
    assert_eq!(value["apiVersion"], object.api_version());
    assert_eq!(value["kind"], object.kind());
    assert_eq!(object.get::<ObjectMeta>("/metadata").as_ref(), Some(object.metadata()));
    let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default();
    assert_eq!(object.key(), listwatch::ObjectKey::namespaced(text("namespace"), text("name")));
    assert_eq!(object.resource_version(), text("resourceVersion"));
}
