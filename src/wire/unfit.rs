//! The second, slow look at what could not be decoded: which object it is, and which of its fields does not fit.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::Expect;
use crate::error::{Error, Unfit};
use crate::object::{ObjectKey, short, tell};

/// What one can know of any object.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Probe {
    #[serde(deserialize_with = "text")]
    api_version: String,
    #[serde(deserialize_with = "text")]
    kind: String,
    metadata: Option<MetadataProbe>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetadataProbe {
    #[serde(deserialize_with = "text")]
    name: String,
    #[serde(deserialize_with = "text")]
    namespace: String,
    #[serde(deserialize_with = "text")]
    uid: String,
    #[serde(deserialize_with = "text")]
    resource_version: String,
}

/// Whatever is no text is as good as absent.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => Ok(text),
        _ => Ok(String::new()),
    }
}

/// Reads what can be known of `json`, or says why that is nothing: it is no JSON, or else `why`.
pub(super) fn probe<'de, T: Deserialize<'de>>(json: &'de str, why: &str) -> Result<T, String> {
    let found = serde_json::from_str(json);
    found.map_err(|error| if error.is_data() { why.to_owned() } else { tell(json, &error) })
}

impl Probe {
    /// Why this object could not be decoded: the wrong kind, no name, or `why`.
    pub(super) fn explain(
        self,
        expected: &Expect,
        fill: Option<(&str, &str)>,
        deleted: bool,
        why: &str,
    ) -> Error {
        let Self { api_version, mut kind, metadata } = self;
        if !expected.takes(&api_version, &kind) {
            let found = format!("{api_version} {kind}");
            return Error::decode(format!("expected {expected}, found {}", short(found.trim())));
        }
        if kind.is_empty() {
            kind = fill.map_or("object", |(_, kind)| kind).to_owned();
        }
        let meta = metadata.unwrap_or_default();
        if meta.name.is_empty() {
            return Error::decode(format!("{} without a name", short(&kind)));
        }
        let key = ObjectKey::namespaced(&meta.namespace, &meta.name);
        let unfit = Unfit { kind, key, uid: meta.uid, resource_version: meta.resource_version, deleted };
        Error::unfit_object(unfit, why)
    }
}
