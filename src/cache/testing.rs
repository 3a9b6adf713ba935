//! Objects and random choices for the tests of this room.

use std::sync::Arc;

use crate::object::ObjectKey;
use crate::types::ConfigMap;

/// `namespace/name@version` or `namespace/name@version/uid`. The uid is the name unless given.
pub(super) fn object(text: &str) -> Arc<ConfigMap> {
    let (key, version) = text.split_once('@').unwrap();
    let (version, uid) = version.split_once('/').unwrap_or((version, key));
    Arc::new(build(&key.parse().unwrap(), version, uid))
}

pub(super) fn build(key: &ObjectKey, version: &str, uid: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.namespace = key.namespace().unwrap_or_default().into();
    object.metadata.name = key.name().to_owned();
    object.metadata.uid = uid.to_owned();
    object.metadata.resource_version = version.to_owned();
    object
}

pub(super) fn text(object: &ConfigMap) -> String {
    format!("{}@{}", object.metadata.key(), object.metadata.resource_version)
}

/// The same choices for the same seed.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}
