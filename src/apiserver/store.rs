//! The objects in memory, one counter of versions over all of them, and the history of changes that watches and
//! consistent lists are served from.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, Sender, unbounded};
use serde_json::Value;

use crate::clock::Clock;
use crate::object::Time;

use super::kinds::{Kind, built_in};
use super::tree::{list, metadata, text};

/// Where an object is within its table. The namespace is empty for objects that live in none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// An object of one version; never changed, only replaced.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) key: Key,
    /// Without `apiVersion` and `kind`.
    pub(super) body: Value,
}

/// A change: created (no `old`), replaced, or removed (no `new`).
#[derive(Debug)]
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) table: Arc<str>,
    pub(super) old: Option<Arc<Object>>,
    pub(super) new: Option<Arc<Object>>,
}

/// The objects of one table in their order.
pub(super) type Objects = BTreeMap<Key, Arc<Object>>;

/// An object anywhere: (table, key).
pub(super) type Place = (Arc<str>, Key);

/// Everything the server knows. It is behind one lock: no I/O is done with it.
pub(super) struct State {
    pub(super) clock: Clock,
    /// The version of the last change.
    pub(super) version: u64,
    /// Changes up to this version are forgotten.
    pub(super) compacted: u64,
    history: VecDeque<Arc<Change>>,
    history_length: usize,
    kinds: Vec<Arc<Kind>>,
    tables: HashMap<Arc<str>, Objects>,
    uids: HashMap<String, Place>,
    /// By the uid of an owner, the objects that name it.
    owned: HashMap<String, BTreeSet<Place>>,
    watchers: Vec<Watcher>,
    /// How often an older state was restored.
    pub(super) restored: u64,
    /// Removed objects whose consequences are not drawn yet: see gc.rs.
    pub(super) gone: VecDeque<Gone>,
}

/// The objects of one moment with their history.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) version: u64,
    compacted: u64,
    history: VecDeque<Arc<Change>>,
    kinds: Vec<Arc<Kind>>,
    tables: HashMap<Arc<str>, Objects>,
    uids: HashMap<String, Place>,
    owned: HashMap<String, BTreeSet<Place>>,
}

struct Watcher {
    table: Arc<str>,
    sender: Sender<Arc<Change>>,
    /// Whether its [`Changes`] are still there.
    alive: Weak<()>,
}

/// The changes of a table, as they come.
pub(super) struct Changes {
    pub(super) receiver: Receiver<Arc<Change>>,
    _alive: Arc<()>,
}

/// A removed object: its table and what it was.
pub(super) type Gone = (Arc<str>, Arc<Object>);

/// A watcher that lets this many changes wait is dropped, as the real server does with one that reads too slowly.
const WATCHER_BACKLOG: usize = 100_000;

impl State {
    pub(super) fn new(clock: Clock, history_length: usize) -> Self {
        Self {
            clock,
            version: 1,
            compacted: 1,
            history: VecDeque::new(),
            history_length,
            kinds: built_in(),
            tables: HashMap::new(),
            uids: HashMap::new(),
            owned: HashMap::new(),
            watchers: Vec::new(),
            restored: 0,
            gone: VecDeque::new(),
        }
    }

    /// Now, as it is written into objects.
    pub(super) fn now(&self) -> String {
        Time::from(self.clock.wall()).to_string()
    }

    pub(super) fn kinds(&self) -> &[Arc<Kind>] {
        &self.kinds
    }

    pub(super) fn kind(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        self.kinds.iter().find(|k| k.group == group && k.version == version && k.plural == plural).cloned()
    }

    /// Any version of a kind.
    pub(super) fn kind_of(&self, id: &str) -> Option<Arc<Kind>> {
        self.kinds.iter().find(|k| k.id() == id).cloned()
    }

    /// Takes a resource away, and ends its watches.
    pub(super) fn forget_kind(&mut self, table: &str) {
        self.watchers.retain(|watcher| &*watcher.table != table);
        self.tables.remove(table);
        self.set_kinds(table, Vec::new());
    }

    /// Replaces all versions of a kind by these.
    pub(super) fn set_kinds(&mut self, id: &str, kinds: Vec<Arc<Kind>>) {
        self.kinds.retain(|k| k.id() != id);
        self.kinds.extend(kinds);
    }

    pub(super) fn objects(&self, table: &str) -> &Objects {
        static NONE: Objects = Objects::new();
        self.tables.get(table).unwrap_or(&NONE)
    }

    pub(super) fn get(&self, table: &str, key: &Key) -> Option<Arc<Object>> {
        self.tables.get(table)?.get(key).cloned()
    }

    pub(super) fn by_uid(&self, uid: &str) -> Option<&Place> {
        self.uids.get(uid)
    }

    /// The objects that name this uid as an owner.
    pub(super) fn owned_by(&self, uid: &str) -> Vec<Place> {
        self.owned.get(uid).map(|places| places.iter().cloned().collect()).unwrap_or_default()
    }

    /// The objects in a namespace, over all tables.
    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Place> {
        let from = Key { namespace: namespace.into(), name: String::new() };
        let mut places = Vec::new();
        for (table, objects) in &self.tables {
            let inside = objects.range(&from..).take_while(|(key, _)| key.namespace == namespace);
            places.extend(inside.map(|(key, _)| (Arc::clone(table), key.clone())));
        }
        places
    }

    /// The state of a table at a version that is not forgotten: what changed since is undone.
    pub(super) fn objects_at(&self, table: &str, version: u64) -> Option<std::borrow::Cow<'_, Objects>> {
        if version < self.compacted || version > self.version {
            return None;
        }
        let mut objects = std::borrow::Cow::Borrowed(self.objects(table));
        for change in self.history.iter().rev().take_while(|c| c.version > version) {
            if &*change.table != table {
                continue;
            }
            let past = objects.to_mut();
            match (&change.old, &change.new) {
                (Some(old), _) => drop(past.insert(old.key.clone(), Arc::clone(old))),
                (None, Some(new)) => drop(past.remove(&new.key)),
                (None, None) => {}
            }
        }
        Some(objects)
    }

    /// The changes of a table after a version; `None` if some are forgotten.
    pub(super) fn changes_since(&self, table: &str, version: u64) -> Option<Vec<Arc<Change>>> {
        if version < self.compacted {
            return None;
        }
        let from = self.history.partition_point(|c| c.version <= version);
        Some(self.history.range(from..).filter(|c| &*c.table == table).cloned().collect())
    }

    /// All changes of a table from now on. The channel is disconnected when the reader is too slow or the resource
    /// goes away.
    pub(super) fn watch(&mut self, table: &Arc<str>) -> Changes {
        self.watchers.retain(|watcher| watcher.alive.strong_count() > 0);
        let (sender, receiver) = unbounded();
        let alive = Arc::new(());
        let watcher = Watcher { table: Arc::clone(table), sender, alive: Arc::downgrade(&alive) };
        self.watchers.push(watcher);
        Changes { receiver, _alive: alive }
    }

    /// Forgets all history.
    pub(super) fn compact(&mut self) {
        self.history.clear();
        self.compacted = self.version;
    }

    pub(super) fn snapshot(&self) -> Kept {
        Kept {
            version: self.version,
            compacted: self.compacted,
            history: self.history.clone(),
            kinds: self.kinds.clone(),
            tables: self.tables.clone(),
            uids: self.uids.clone(),
            owned: self.owned.clone(),
        }
    }

    /// Goes back to an older state; all watches are cut.
    pub(super) fn restore(&mut self, kept: Kept) {
        self.watchers.clear();
        self.restored += 1;
        self.gone.clear();
        let Kept { version, compacted, history, kinds, tables, uids, owned } = kept;
        (self.version, self.compacted, self.history, self.kinds) = (version, compacted, history, kinds);
        (self.tables, self.uids, self.owned) = (tables, uids, owned);
    }

    /// Creates or replaces an object under the next version, which is written into it.
    pub(super) fn store(&mut self, table: &Arc<str>, key: Key, mut body: Value) -> Arc<Object> {
        self.version += 1;
        metadata(&mut body).insert("resourceVersion".into(), self.version.to_string().into());
        let new = Arc::new(Object { key: key.clone(), body });
        let old = self.tables.entry(Arc::clone(table)).or_default().insert(key, Arc::clone(&new));
        self.unlink(table, old.as_deref());
        let uid = text(&new.body, "/metadata/uid").to_string();
        self.uids.insert(uid, (Arc::clone(table), new.key.clone()));
        for owner in owner_uids(&new.body) {
            self.owned.entry(owner.into()).or_default().insert((Arc::clone(table), new.key.clone()));
        }
        self.record(table, old, Some(Arc::clone(&new)));
        new
    }

    /// Removes an object, which takes a version too; its consequences are drawn by `settle`.
    pub(super) fn remove(&mut self, table: &Arc<str>, key: &Key) {
        let Some(old) = self.tables.get_mut(table).and_then(|objects| objects.remove(key)) else { return };
        self.version += 1;
        self.unlink(table, Some(&old));
        self.gone.push_back((Arc::clone(table), Arc::clone(&old)));
        self.record(table, Some(old), None);
    }

    fn unlink(&mut self, table: &Arc<str>, old: Option<&Object>) {
        let Some(old) = old else { return };
        self.uids.remove(text(&old.body, "/metadata/uid"));
        for owner in owner_uids(&old.body) {
            if let Some(places) = self.owned.get_mut(owner) {
                places.remove(&(Arc::clone(table), old.key.clone()));
                if places.is_empty() {
                    self.owned.remove(owner);
                }
            }
        }
    }

    fn record(&mut self, table: &Arc<str>, old: Option<Arc<Object>>, new: Option<Arc<Object>>) {
        let change = Arc::new(Change { version: self.version, table: Arc::clone(table), old, new });
        self.watchers.retain(|Watcher { table: watched, sender, .. }| {
            watched != table || (sender.len() < WATCHER_BACKLOG && sender.send(Arc::clone(&change)).is_ok())
        });
        self.history.push_back(change);
        while self.history.len() > self.history_length {
            if let Some(forgotten) = self.history.pop_front() {
                self.compacted = forgotten.version;
            }
        }
    }
}

/// The uids of an object's owners.
pub(super) fn owner_uids(body: &Value) -> impl Iterator<Item = &str> {
    list(body, "/metadata/ownerReferences").iter().map(|owner| text(owner, "/uid"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(history: usize) -> (State, Arc<str>) {
        (State::new(Clock::manual(), history), "configmaps".into())
    }

    fn key(name: &str) -> Key {
        Key { namespace: "default".into(), name: name.into() }
    }

    fn put(state: &mut State, table: &Arc<str>, name: &str, value: i32) -> u64 {
        state.store(table, key(name), json!({"metadata": {"name": name, "uid": name}, "data": value}));
        state.version
    }

    #[test]
    fn the_past_is_rebuilt_from_history() {
        let (mut state, table) = state(100);
        let created = put(&mut state, &table, "a", 1);
        put(&mut state, &table, "a", 2);
        put(&mut state, &table, "b", 1);
        state.remove(&table, &key("a"));
        let past = state.objects_at(&table, created).unwrap();
        assert_eq!(past.len(), 1);
        assert_eq!(past[&key("a")].body["data"], 1);
        assert_eq!(state.objects(&table).keys().map(|k| &*k.name).collect::<Vec<_>>(), ["b"]);
        assert!(state.objects_at(&table, state.version + 1).is_none());
    }

    #[test]
    fn history_is_bounded_and_what_is_forgotten_is_known() {
        let (mut state, table) = state(2);
        let first = put(&mut state, &table, "a", 1);
        for value in 2..5 {
            put(&mut state, &table, "a", value);
        }
        assert!(state.changes_since(&table, first).is_none());
        assert_eq!(state.changes_since(&table, first + 1).unwrap().len(), 2);
        state.compact();
        assert!(state.changes_since(&table, first + 1).is_none());
        assert_eq!(state.changes_since(&table, state.version).unwrap().len(), 0);
    }
}
