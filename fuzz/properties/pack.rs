//! What holds for objects that one cache packs: each line is an object, or text in one.

use listwatch::object::Packer;
use listwatch::{Object, Resource};
use serde_json::json;

/// So many objects bring a packer to its first dictionary and one beyond.
const OBJECTS: usize = 300;

/// A packed object is as it was: equal, with the same text, and so are one packed by another packer and one that is
/// packed again; two objects are equal packed if they are plain.
pub(crate) fn pack(bytes: &[u8]) {
    let lines = String::from_utf8_lossy(bytes);
    let plain: Vec<_> = lines.split('\n').take(20).map(object).collect();
    let mut packer = Packer::new();
    let mut kept = Vec::new();
    for plain in plain.iter().cycle().take(OBJECTS) {
        let mut packed = plain.clone();
        packed.pack(&mut packer);
        kept.push(packed);
    }
    for (packed, plain) in kept.iter().zip(plain.iter().cycle()) {
        assert_eq!(packed.text(), plain.text());
        assert_eq!(packed, plain);
        assert_eq!(serde_json::to_string(packed).unwrap(), plain.text());
    }
    let (last, first) = (&kept[OBJECTS - 1], &kept[OBJECTS - plain.len()]);
    assert_eq!(last == first, last.text() == first.text());
    let mut again = last.clone();
    again.pack(&mut Packer::new());
    assert_eq!(&again, last);
}

fn object(line: &str) -> Object {
    Object::from_json(line).unwrap_or_else(|_| {
        let value =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"line": line}});
        Object::from_value(value).unwrap()
    })
}
