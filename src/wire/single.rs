use std::marker::PhantomData;

use serde::de::DeserializeSeed;

use super::Expect;
use super::object::ObjectSeed;
use super::unfit::Probe;
use crate::error::{Error, Result};
use crate::object::{Resource, tell, tell_bytes};

/// Decodes one object, as the API server answers to get, create, replace and patch.
///
/// # Errors
/// If it is no JSON, no object, another kind than expected, has no name, or does not fit `K`
/// ([`unfit`](Error::unfit) then names it).
pub fn decode_object<K: Resource>(json: &[u8], expected: &Expect) -> Result<K> {
    let no_text = |error| Error::decode(format!("the answer is no object: {}", tell_bytes(json, error)));
    let text = std::str::from_utf8(json).map_err(no_text)?;
    let mut parser = serde_json::Deserializer::from_str(text);
    let seed = ObjectSeed { expected, fill: expected.types(), object: PhantomData };
    let object = seed.deserialize(&mut parser).and_then(|object| parser.end().map(|()| object));
    object.map_err(|error| {
        let why = tell(text, &error);
        match serde_json::from_str::<Probe>(text) {
            Ok(probe) => probe.explain(expected, expected.types(), false, &why),
            Err(_) => Error::decode(format!("the answer is no object: {why}")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;

    #[test]
    fn another_kind_is_never_taken_for_the_object() {
        let pod = Expect::from(&crate::ApiResource::new("v1", "Pod", "pods", crate::Scope::Namespaced));
        let decode = |json: &str| decode_object::<Object>(json.as_bytes(), &pod);
        let metadata = r#""metadata":{"name":"a","namespace":"b"}"#;
        assert!(decode(&format!(r#"{{"apiVersion":"v1","kind":"Pod",{metadata}}}"#)).is_ok());
        assert!(decode(&format!("{{{metadata}}}")).is_ok());
        for json in [
            format!(r#"{{"apiVersion":"v1","kind":"Status",{metadata}}}"#),
            format!(r#"{{"apiVersion":"v2","kind":"Pod",{metadata}}}"#),
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#.into(),
            "null".into(),
            "<html>".into(),
            String::new(),
        ] {
            assert!(decode(&json).unwrap_err().is_decode(), "{json}");
        }
    }
}
