//! What the soak writes, and the state behind each of its changes.

use std::collections::{BTreeMap, VecDeque};

use listwatch::types::ConfigMap;
use listwatch::{DeleteParams, Error, Map, ObjectKey, ObjectMeta, Patch, PatchParams, PostParams, Resource};
use serde_json::json;

use super::Soak;

impl Soak {
    pub(crate) fn change(&mut self) -> Result<(), Error> {
        self.changes += 1;
        // One in eleven names has no object, so that there are as many as asked for.
        let name = name(self.dice.roll(self.options.objects * 11 / 10 + 1));
        let key = ObjectKey::namespaced("default", &name);
        if !self.ledger.state.contains_key(&key) {
            return self.create(&name);
        }
        match self.dice.roll(10) {
            0 => self.delete(&name),
            1 => {
                self.delete(&name)?;
                self.create(&name)
            }
            _ => {
                let patch = Patch::Merge(json!({"data": {"text": self.text()}}));
                let changed = self.maps.patch(&name, &PatchParams::default(), &patch)?;
                self.note(&changed);
                Ok(())
            }
        }
    }

    /// About a kilobyte.
    fn text(&mut self) -> String {
        format!("{:01000}", self.dice.roll(1 << 30))
    }

    pub(crate) fn create(&mut self, name: &str) -> Result<(), Error> {
        let data = Map::from([("text", &*self.text())]);
        let metadata = ObjectMeta { labels: Map::from([("app", "soak")]), ..ObjectMeta::named(name) };
        let map = ConfigMap { metadata, data, ..ConfigMap::default() };
        let created = self.maps.create(&PostParams::default(), &map)?;
        self.note(&created);
        Ok(())
    }

    fn note(&mut self, object: &ConfigMap) {
        let (uid, version) = version(object);
        self.ledger.note(version, object.key(), Some(uid));
    }

    fn delete(&mut self, name: &str) -> Result<(), Error> {
        self.maps.delete(name, &DeleteParams::default())?;
        // Nobody else writes.
        let version = self.server.resource_version();
        self.ledger.note(version, ObjectKey::namespaced("default", name), None);
        Ok(())
    }
}

/// An object as uid and version.
pub(crate) type Version = (String, u64);
pub(crate) type State = BTreeMap<ObjectKey, Version>;

pub(crate) fn version(object: &ConfigMap) -> Version {
    (object.uid().to_owned(), object.resource_version().parse().unwrap_or(0))
}

pub(crate) fn name(n: usize) -> String {
    format!("map-{n}")
}

/// The changes that were made, by version, but for those that all have seen, and the state behind them.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) version: u64,
    pub(crate) state: State,
    pub(crate) changes: VecDeque<(u64, ObjectKey, Option<String>)>,
}

impl Ledger {
    pub(crate) fn note(&mut self, version: u64, key: ObjectKey, uid: Option<String>) {
        self.version = version;
        apply(&mut self.state, version, &key, uid.as_ref());
        self.changes.push_back((version, key, uid));
    }

    /// Nobody asks any more for changes up to this version.
    pub(crate) fn forget(&mut self, version: u64) {
        let known = self.changes.partition_point(|(at, ..)| *at <= version);
        self.changes.drain(..known);
    }

    /// What came after this version never was.
    pub(crate) fn go_back(&mut self, version: u64, state: State) {
        (self.version, self.state) = (version, state);
        let kept = self.changes.partition_point(|(at, ..)| *at <= version);
        self.changes.truncate(kept);
    }
}

pub(crate) fn apply(state: &mut State, version: u64, key: &ObjectKey, uid: Option<&String>) {
    match uid {
        Some(uid) => drop(state.insert(key.clone(), (uid.clone(), version))),
        None => drop(state.remove(key)),
    }
}
