use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use log::error;

use super::fifo::Delta;
use super::version::is_behind;
use crate::error::{Error, Result, Unfit};
use crate::object::{ObjectKey, Resource};
use crate::shrink;
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Gives the values under which an object is found in an index. Pure: the same for the same object, each time.
pub(super) type IndexFn<K> = Arc<dyn Fn(&K) -> Vec<String> + Send + Sync>;

/// An indexed set of objects by key, read by any number of threads while one [`StoreWriter`] changes it.
///
/// Objects are handed out as `Arc`s of what is stored: reading copies nothing and never waits for the network or for
/// a handler. Keys are sorted, so that lists come in a fixed order. Clones are the same store.
pub struct Store<K> {
    /// The only lock here. Never held while an index function or any other code of the user runs.
    state: Arc<RwLock<State<K>>>,
}

struct State<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    indexes: Vec<Index<K>>,
    resource_version: String,
}

struct Index<K> {
    name: String,
    values_of: IndexFn<K>,
    keys: HashMap<String, BTreeSet<ObjectKey>>,
}

/// The one that may change a [`Store`].
pub struct StoreWriter<K> {
    store: Store<K>,
}

/// What a [`Delta`] changed in a store.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// An object is there that was not.
    Added(Arc<K>),
    /// An object has another version.
    Updated {
        /// As it was in the store.
        old: Arc<K>,
        /// As it is now.
        new: Arc<K>,
    },
    /// An object is no longer there.
    Deleted {
        /// Its last known state.
        object: Arc<K>,
        /// Whether that is the state it was deleted in.
        final_state_known: bool,
    },
}

/// A delta with all that index functions say of it, ready to be stored without calling them.
pub(super) struct Prepared<K> {
    delta: Delta<K>,
    /// For each index, the values to take out and to put in, by object.
    values: Vec<Values>,
}

#[derive(Default)]
struct Values {
    out: Vec<(ObjectKey, Vec<String>)>,
    put: Vec<(ObjectKey, Vec<String>)>,
}

impl<K: Resource> Store<K> {
    /// An empty store, and the one who may fill it.
    #[must_use]
    #[allow(clippy::new_ret_no_self)]
    pub fn new() -> (Self, StoreWriter<K>) {
        let state = State { objects: BTreeMap::new(), indexes: Vec::new(), resource_version: String::new() };
        let store = Self { state: Arc::new(RwLock::new(state)) };
        (store.clone(), StoreWriter { store })
    }

    /// The object of this key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.read().objects.get(key).cloned()
    }

    /// The object that has the key of this one.
    pub(super) fn namesake(&self, object: &K) -> Option<Arc<K>> {
        with_key(object, |key| self.read().objects.get(key).cloned())
    }

    /// All objects, sorted by key.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<K>> {
        self.read().objects.values().cloned().collect()
    }

    /// All objects in a namespace, sorted by name.
    #[must_use]
    pub fn list_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let prefix = format!("{namespace}/");
        let state = self.read();
        let range = state.objects.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        range
            .take_while(|(key, _)| key.as_str().starts_with(&prefix))
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// All keys, sorted.
    #[must_use]
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.read().objects.keys().cloned().collect()
    }

    /// The objects that an index has under a value, sorted by key.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<K>>> {
        let state = self.read();
        let keys = state.index(index)?.keys.get(value).into_iter().flatten();
        Ok(keys.filter_map(|key| state.objects.get(key).cloned()).collect())
    }

    /// The values that an index has objects under, sorted.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn index_values(&self, index: &str) -> Result<Vec<String>> {
        let mut values: Vec<_> = self.read().index(index)?.keys.keys().cloned().collect();
        values.sort();
        Ok(values)
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read().objects.is_empty()
    }

    /// The version that the store has reached; empty before the first list.
    #[must_use]
    pub fn resource_version(&self) -> String {
        self.read().resource_version.clone()
    }

    /// Adds an index, at any time; objects that are there already are in it when this returns.
    ///
    /// `values_of` is called by the thread that fills the store, and here; it must always say the same of the same
    /// object. One that panics counts as giving no values.
    ///
    /// # Errors
    /// If there is an index of that name.
    pub fn add_index(
        &self,
        name: &str,
        values_of: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<()> {
        let values_of: IndexFn<K> = Arc::new(values_of);
        // From here on the writer keeps the index for what changes …
        let there: Vec<_> = {
            let mut state = self.write();
            if state.index(name).is_ok() {
                return Err(Error::invalid(format!("there is an index {name:?} already")));
            }
            state.indexes.push(Index {
                name: name.into(),
                values_of: values_of.clone(),
                keys: HashMap::new(),
            });
            state.objects.iter().map(|(key, object)| (key.clone(), object.clone())).collect()
        };
        let values: Vec<_> = there.iter().map(|(_, object)| call(&values_of, object)).collect();
        // … and here what has not changed meanwhile is put in.
        let mut state = self.write();
        let State { objects, indexes, .. } = &mut *state;
        if let Some(index) = indexes.iter_mut().find(|index| index.name == name) {
            for ((key, object), values) in there.into_iter().zip(values) {
                if objects.get(&key).is_some_and(|now| Arc::ptr_eq(now, &object)) {
                    index.put(&key, values);
                }
            }
        }
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, State<K>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<K>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> State<K> {
    fn index(&self, name: &str) -> Result<&Index<K>> {
        let found = self.indexes.iter().find(|index| index.name == name);
        found.ok_or_else(|| Error::invalid(format!("there is no index {name:?}")))
    }
}

impl<K: Resource> State<K> {
    /// Stores an object, and gives back the one in whose place it is.
    fn put(&mut self, object: Arc<K>) -> Option<Arc<K>> {
        match with_key(&*object, |key| {
            self.objects.get_mut(key).map(|there| std::mem::replace(there, object.clone()))
        }) {
            None => self.objects.insert(object.key(), object),
            old => old,
        }
    }
}

/// Lends the key of an object as text, so that no key is made for one that is there.
fn with_key<K: Resource, T>(object: &K, f: impl FnOnce(&str) -> T) -> T {
    ObjectKey::with_text(object.namespace().unwrap_or_default(), object.name(), f)
}

impl<K> Index<K> {
    fn put(&mut self, key: &ObjectKey, values: Vec<String>) {
        for value in values {
            self.keys.entry(value).or_default().insert(key.clone());
        }
    }

    fn take_out(&mut self, key: &ObjectKey, values: &[String]) {
        for value in values {
            if let Some(keys) = self.keys.get_mut(value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(value);
                }
            }
        }
        if let Some(capacity) = shrink::target(self.keys.len(), self.keys.capacity()) {
            self.keys.shrink_to(capacity);
        }
    }
}

fn call<K>(values_of: &IndexFn<K>, object: &K) -> Vec<String> {
    catch_unwind(AssertUnwindSafe(|| values_of(object))).unwrap_or_else(|_| {
        error!(target: "listwatch::cache", "an index function panicked; the object is not in its index");
        Vec::new()
    })
}

impl<K: Resource> StoreWriter<K> {
    /// Applies a delta, all or nothing to readers, and says what it changed: deletes first, then the others in the
    /// order of the list. An object that came back under its name with another uid is told as deleted and added; one
    /// with the uid and version that it had is no change, unless it comes with a list whose server went back.
    pub fn apply(&mut self, delta: Delta<K>) -> Vec<Change<K>> {
        let prepared = self.prepare(delta);
        self.commit(prepared)
    }

    /// Calls the index functions, with no lock held. The store changes by this writer only, so what is found here
    /// holds until [`commit`](Self::commit).
    pub(super) fn prepare(&self, delta: Delta<K>) -> Prepared<K> {
        let values = (0..).map_while(|at| self.values(at, &delta)).collect();
        Prepared { delta, values }
    }

    /// What the index at a place says of a delta; `None` behind the last one.
    fn values(&self, at: usize, delta: &Delta<K>) -> Option<Values> {
        let values_of = self.store.read().indexes.get(at)?.values_of.clone();
        let put = |object: &Arc<K>| (object.key(), call(&values_of, object));
        let out = |key: &ObjectKey| {
            let old = self.store.get(key);
            old.map(|old| (key.clone(), call(&values_of, &old)))
        };
        Some(match delta {
            Delta::Upsert(object) => {
                Values { out: out(&object.key()).into_iter().collect(), put: vec![put(object)] }
            }
            Delta::Delete { key, .. } => Values { out: out(key).into_iter().collect(), put: Vec::new() },
            Delta::Replace { items, unfit, .. } => {
                let kept = unfit
                    .iter()
                    .filter(|unfit| self.store.get(&unfit.key).is_some_and(|old| keeps(unfit, &*old)));
                let kept = kept.filter_map(|unfit| out(&unfit.key));
                Values { out: Vec::new(), put: kept.chain(items.iter().map(put)).collect() }
            }
            Delta::Bookmark(_) | Delta::Resync => Values::default(),
        })
    }

    /// Stores what was prepared, under the store's lock.
    pub(super) fn commit(&mut self, prepared: Prepared<K>) -> Vec<Change<K>> {
        let Prepared { delta, mut values } = prepared;
        let mut state = loop {
            let state = self.store.write();
            if state.indexes.len() == values.len() {
                break state;
            }
            // An index was added meanwhile.
            drop(state);
            values.extend(self.values(values.len(), &delta));
        };
        let mut changes = Vec::new();
        let mut twice = false;
        let state = &mut *state;
        let indexed = match delta {
            Delta::Upsert(object) => {
                state.resource_version = object.resource_version().to_owned();
                let old = state.put(object.clone());
                compare(old, object, false, &mut changes);
                true
            }
            Delta::Delete { key, object } => {
                if let Some(object) = &object {
                    state.resource_version = object.resource_version().to_owned();
                }
                let other = |old: &Arc<K>| object.as_ref().is_some_and(|o| o.uid() != old.uid());
                match state.objects.get(&key) {
                    Some(old) if !other(old) => {
                        let last = state.objects.remove(&key);
                        let final_state_known = object.is_some();
                        changes.extend(
                            object.or(last).map(|object| Change::Deleted { object, final_state_known }),
                        );
                        true
                    }
                    // Another one that came and went after what is kept, which so is gone, too.
                    Some(old) if object.as_ref().is_some_and(|o| is_older(&**old, &**o)) => {
                        let last = state.objects.remove(&key);
                        changes
                            .extend(last.map(|object| Change::Deleted { object, final_state_known: false }));
                        true
                    }
                    // Not there, or another one of that name that came later: nothing is deleted.
                    _ => false,
                }
            }
            Delta::Replace { items, unfit, resource_version, went_back } => {
                state.resource_version = resource_version;
                let mut before = std::mem::take(&mut state.objects);
                for unfit in unfit {
                    if before.get(&unfit.key).is_some_and(|old| keeps(&unfit, &**old)) {
                        state.objects.extend(before.remove_entry(&unfit.key));
                    }
                }
                let mut later = Vec::new();
                for object in items {
                    let old = match with_key(&*object, |key| before.remove_entry(key)) {
                        Some((key, old)) => {
                            state.objects.insert(key, object.clone());
                            Some(old)
                        }
                        None => {
                            // An object that is twice in a list counts as it came last.
                            let earlier = state.put(object.clone());
                            twice |= earlier.is_some();
                            earlier
                        }
                    };
                    compare(old, object, went_back, &mut later);
                }
                let gone = before.into_values();
                changes.extend(gone.map(|object| Change::Deleted { object, final_state_known: false }));
                changes.append(&mut later);
                state.indexes.iter_mut().for_each(|index| index.keys = HashMap::new());
                true
            }
            Delta::Bookmark(version) => {
                state.resource_version = version;
                false
            }
            Delta::Resync => false,
        };
        if indexed {
            for (index, mut values) in state.indexes.iter_mut().zip(values) {
                if twice {
                    values.put = HashMap::<_, _>::from_iter(values.put).into_iter().collect();
                }
                values.out.iter().for_each(|(key, values)| index.take_out(key, values));
                values.put.into_iter().for_each(|(key, values)| index.put(&key, values));
            }
        }
        changes
    }

    /// For reading.
    #[must_use]
    pub fn store(&self) -> &Store<K> {
        &self.store
    }
}

/// Whether these are one object in one version. Objects without a version are never known to be.
pub(super) fn is_same_version<K: Resource>(one: &K, other: &K) -> bool {
    let version = one.resource_version();
    one.uid() == other.uid() && !version.is_empty() && version == other.resource_version()
}

fn is_older<K: Resource>(one: &K, other: &K) -> bool {
    is_behind(one.resource_version(), other.resource_version())
}

/// Whether an object that does not fit its type is the one that is kept, or a later one of its name.
fn keeps<K: Resource>(unfit: &Unfit, old: &K) -> bool {
    unfit.uid.is_empty() || unfit.uid == old.uid()
}

/// What it means that `new` stands where `old` stood.
fn compare<K: Resource>(old: Option<Arc<K>>, new: Arc<K>, went_back: bool, changes: &mut Vec<Change<K>>) {
    match old {
        None => changes.push(Change::Added(new)),
        Some(old) if old.uid() != new.uid() => {
            changes.push(Change::Deleted { object: old, final_state_known: false });
            changes.push(Change::Added(new));
        }
        Some(old) if is_same_version(&*old, &*new) && (!went_back || Arc::ptr_eq(&old, &new)) => {}
        Some(old) => changes.push(Change::Updated { old, new }),
    }
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone() }
    }
}

impl<K: Resource> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<K: Resource> fmt::Debug for StoreWriter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreWriter").field("store", &self.store).finish()
    }
}

#[cfg(all(test, shuttle))]
mod model;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::super::testing::{Dice, build, object, text};
    use super::*;
    use crate::types::ConfigMap;

    fn upsert(text: &str) -> Delta<ConfigMap> {
        Delta::Upsert(object(text))
    }

    fn delete(text: &str) -> Delta<ConfigMap> {
        let object = object(text);
        Delta::Delete { key: object.key(), object: Some(object) }
    }

    fn unfit_of(key: ObjectKey) -> Unfit {
        let (kind, uid, resource_version) = ("ConfigMap".into(), String::new(), String::new());
        Unfit { kind, key, uid, resource_version, deleted: false }
    }

    fn replace(items: &[&str], unfit: &[&str], version: &str) -> Delta<ConfigMap> {
        Delta::Replace {
            items: items.iter().map(|item| object(item)).collect(),
            unfit: unfit.iter().map(|key| unfit_of(key.parse().unwrap())).collect(),
            resource_version: version.into(),
            went_back: false,
        }
    }

    fn told(changes: &[Change<ConfigMap>]) -> Vec<String> {
        let tell = |change: &Change<ConfigMap>| match change {
            Change::Added(new) => format!("+{}", text(new)),
            Change::Updated { old, new } => format!("{}→{}", text(old), text(new)),
            Change::Deleted { object, final_state_known: true } => format!("-{}", text(object)),
            Change::Deleted { object, .. } => format!("?{}", text(object)),
        };
        changes.iter().map(tell).collect()
    }

    fn there(store: &Store<ConfigMap>) -> Vec<String> {
        store.list().iter().map(|object| text(object)).collect()
    }

    /// Applies deltas one after the other and checks what each changes.
    fn check(steps: &[(Delta<ConfigMap>, &[&str])]) -> (Store<ConfigMap>, StoreWriter<ConfigMap>) {
        let (store, mut writer) = Store::new();
        for (delta, changes) in steps {
            assert_eq!(told(&writer.apply(delta.clone())), *changes, "{delta:?}");
        }
        (store, writer)
    }

    #[test]
    fn an_object_is_added_then_updated_then_deleted() {
        let (store, _) = check(&[
            (upsert("a/x@1"), &["+a/x@1"]),
            (upsert("a/x@2"), &["a/x@1→a/x@2"]),
            (upsert("a/x@2"), &[]),
            (delete("a/x@3"), &["-a/x@3"]),
            (delete("a/x@3"), &[]),
            (delete("a/y@4"), &[]),
        ]);
        assert!(store.is_empty());
        assert_eq!(store.resource_version(), "4");
    }

    #[test]
    fn another_uid_is_another_object() {
        check(&[
            (upsert("a/x@1/u1"), &["+a/x@1"]),
            (upsert("a/x@5/u2"), &["?a/x@1", "+a/x@5"]),
            // Of the one before: it is not there any more.
            (delete("a/x@4/u1"), &[]),
            // A list of the same version, but of another object.
            (replace(&["a/x@5/u3"], &[], "6"), &["?a/x@5", "+a/x@5"]),
            (delete("a/x@9/u3"), &["-a/x@9"]),
        ]);
    }

    #[test]
    fn a_list_of_an_earlier_version_may_have_other_content_under_a_known_version() {
        let first = replace(&["a/x@5", "a/y@6"], &[], "10");
        let (store, mut writer) = check(&[(first, &["+a/x@5", "+a/y@6"])]);
        let kept = store.get(&"a/x".parse().unwrap()).unwrap();
        let items = vec![kept, object("a/y@6")];
        let back = Delta::Replace { items, unfit: Vec::new(), resource_version: "9".into(), went_back: true };
        assert_eq!(told(&writer.apply(back)), ["a/y@6→a/y@6"]);
        assert!(writer.apply(replace(&["a/x@5", "a/y@6"], &[], "9")).is_empty());
    }

    #[test]
    fn a_deletion_without_an_object_tells_the_last_state() {
        let gone = |key: &str| Delta::Delete { key: key.parse().unwrap(), object: None };
        check(&[(upsert("a/x@1"), &["+a/x@1"]), (gone("a/x"), &["?a/x@1"]), (gone("a/x"), &[])]);
    }

    #[test]
    fn a_list_tells_deletions_first_then_its_items_in_order() {
        let (store, _) = check(&[
            (
                replace(&["a/z@1", "a/x@2", "a/y@3", "a/w@4"], &[], "4"),
                &["+a/z@1", "+a/x@2", "+a/y@3", "+a/w@4"],
            ),
            (
                replace(&["b/new@9", "a/y@3", "a/x@8", "a/a@7"], &["a/w", "a/unknown"], "10"),
                &["?a/z@1", "+b/new@9", "a/x@2→a/x@8", "+a/a@7"],
            ),
            (Delta::Bookmark("12".into()), &[]),
            (Delta::Resync, &[]),
        ]);
        // What does not fit stays in its last good version.
        assert_eq!(there(&store), ["a/a@7", "a/w@4", "a/x@8", "a/y@3", "b/new@9"]);
        assert_eq!((store.resource_version().as_str(), store.len()), ("12", 5));
    }

    #[test]
    fn an_object_that_is_twice_in_a_list_counts_as_it_came_last() {
        let (store, mut writer) = Store::new();
        store.add_index("version", |map: &ConfigMap| vec![map.metadata.resource_version.clone()]).unwrap();
        let changes = writer.apply(replace(&["a/x@1", "a/y@2", "a/x@3"], &[], "5"));
        assert_eq!(told(&changes), ["+a/x@1", "+a/y@2", "a/x@1→a/x@3"]);
        assert_eq!(store.index_values("version").unwrap(), ["2", "3"]);
        // In a list both as fitting and not: it fits.
        writer.apply(replace(&["a/x@7"], &["a/x", "a/y"], "8"));
        assert_eq!(store.index_values("version").unwrap(), ["2", "7"]);
        assert_eq!(there(&store), ["a/x@7", "a/y@2"]);
    }

    #[test]
    fn values_of_an_index_that_are_gone_leave_no_memory_behind() {
        let (store, mut writer) = Store::new();
        store.add_index("version", |map: &ConfigMap| vec![map.metadata.resource_version.clone()]).unwrap();
        let names: Vec<_> = (0..10_000).map(|n| format!("a/{n}@{n}")).collect();
        let all: Vec<_> = names.iter().map(String::as_str).collect();
        writer.apply(replace(&all, &[], "10000"));
        for name in &all {
            let gone = object(name);
            writer.apply(Delta::Delete { key: gone.key(), object: Some(gone) });
        }
        let keys = &store.read().indexes[0].keys;
        assert!(keys.is_empty() && keys.capacity() <= 128, "{}", keys.capacity());
    }

    #[test]
    fn a_namespace_is_listed_exactly() {
        let (store, mut writer) = Store::new();
        writer.apply(replace(&["a/x@1", "a-b/x@1", "ab/x@1", "a/y@1", "a.b/x@1", "a@1", "b@1"], &[], "1"));
        let names = |ns: &str| store.list_namespace(ns).iter().map(|o| text(o)).collect::<Vec<_>>();
        assert_eq!(names("a"), ["a/x@1", "a/y@1"]);
        assert_eq!(names("ab"), ["ab/x@1"]);
        assert_eq!(names("a-b"), ["a-b/x@1"]);
        assert!(names("").is_empty() && names("b").is_empty());
        assert_eq!(store.get(&"a".parse().unwrap()).map(|o| text(&o)), Some("a@1".into()));
        assert_eq!(store.keys().len(), 7);
    }

    #[test]
    fn an_index_function_that_panics_gives_no_values() {
        let (store, mut writer) = Store::new();
        writer.apply(replace(&["a/good@1", "a/bad@1"], &[], "1"));
        store
            .add_index("all", |map: &ConfigMap| {
                assert!(map.metadata.name != "bad");
                vec!["all".into()]
            })
            .unwrap();
        writer.apply(upsert("a/bad@2"));
        writer.apply(upsert("a/fine@3"));
        let found = store.by_index("all", "all").unwrap();
        assert_eq!(found.iter().map(|o| text(o)).collect::<Vec<_>>(), ["a/fine@3", "a/good@1"]);
        assert_eq!(store.len(), 3);
    }

    #[test]
    fn indexes_are_asked_by_name() {
        let (store, _writer) = Store::<ConfigMap>::new();
        store.add_index("one", |_| Vec::new()).unwrap();
        assert!(store.add_index("one", |_| Vec::new()).unwrap_err().to_string().contains("\"one\""));
        assert!(store.by_index("two", "x").unwrap_err().to_string().contains("\"two\""));
        assert!(store.by_index("one", "x").unwrap().is_empty());
        assert!(store.index_values("two").is_err());
    }

    /// Two of five values for each version of an object.
    fn values(map: &ConfigMap) -> Vec<String> {
        let version: u64 = map.metadata.resource_version.parse().unwrap();
        vec![format!("v{}", version % 5), format!("v{}", version / 5 % 5)]
    }

    fn random_delta(dice: &mut Dice, version: u64) -> Delta<ConfigMap> {
        let key = |dice: &mut Dice| ObjectKey::namespaced("a", &dice.roll(12).to_string());
        let make = |dice: &mut Dice, version: u64| {
            let (key, uid) = (key(dice), dice.roll(2).to_string());
            // Also versions that came before.
            let version = version.saturating_sub(dice.roll(3));
            Arc::new(build(&key, &version.to_string(), &uid))
        };
        let unfit = |dice: &mut Dice| {
            let uid = [String::new(), dice.roll(2).to_string()][dice.roll(2) as usize].clone();
            Unfit { uid, ..unfit_of(key(dice)) }
        };
        match dice.roll(10) {
            0 => Delta::Replace {
                items: (0..dice.roll(16)).map(|_| make(dice, version)).collect(),
                unfit: (0..dice.roll(3)).map(|_| unfit(dice)).collect(),
                resource_version: version.to_string(),
                went_back: false,
            },
            1..4 => {
                let object = make(dice, version);
                Delta::Delete { key: object.key(), object: Some(object).filter(|_| dice.roll(3) > 0) }
            }
            _ => Delta::Upsert(make(dice, version)),
        }
    }

    fn check_index(store: &Store<ConfigMap>, name: &str) {
        let state = store.read();
        let mut expected: HashMap<String, BTreeSet<ObjectKey>> = HashMap::new();
        for (key, object) in &state.objects {
            for value in values(object) {
                expected.entry(value).or_default().insert(key.clone());
            }
        }
        assert_eq!(state.index(name).unwrap().keys, expected, "index {name}");
    }

    /// What a store has to do, as plainly as it can be said.
    #[derive(Default)]
    struct Model(BTreeMap<ObjectKey, Arc<ConfigMap>>);

    impl Model {
        /// Gives the keys of what is deleted, and whether in a known state.
        fn apply(&mut self, delta: &Delta<ConfigMap>) -> Vec<(ObjectKey, bool)> {
            let before = self.0.clone();
            let mut known = false;
            match delta {
                Delta::Upsert(object) => drop(self.0.insert(object.key(), object.clone())),
                Delta::Delete { key, object: None } => drop(self.0.remove(key)),
                Delta::Delete { key, object: Some(object) } => {
                    let number = |map: &ConfigMap| map.resource_version().parse::<u64>().unwrap();
                    known = before.get(key).is_some_and(|there| there.uid() == object.uid());
                    let later = before
                        .get(key)
                        .is_some_and(|there| number(there) > 0 && number(there) < number(object));
                    self.0.retain(|other, _| other != key || !(known || later));
                }
                Delta::Replace { items, unfit, .. } => {
                    let stays = |key: &ObjectKey, old: &Arc<ConfigMap>| {
                        unfit.iter().any(|u| u.key == *key && (u.uid.is_empty() || u.uid == old.uid()))
                    };
                    self.0.retain(|key, old| stays(key, old));
                    self.0.extend(items.iter().map(|object| (object.key(), object.clone())));
                }
                Delta::Bookmark(_) | Delta::Resync => {}
            }
            let same = |key: &ObjectKey, old: &Arc<ConfigMap>| {
                self.0.get(key).is_some_and(|new| new.uid() == old.uid())
            };
            before.iter().filter(|(key, old)| !same(key, old)).map(|(key, _)| (key.clone(), known)).collect()
        }
    }

    #[test]
    fn behaves_as_a_naive_model_and_indexes_and_changes_agree_with_it() {
        for seed in 1..200 {
            let mut dice = Dice(seed);
            let (store, mut writer) = Store::new();
            store.add_index("first", values).unwrap();
            let (mut folded, mut model) = (BTreeMap::new(), Model::default());
            for version in 1..60 {
                let delta = random_delta(&mut dice, version);
                let changes = writer.apply(delta.clone());
                let gone = model.apply(&delta);
                for key_and_state in &gone {
                    let deleted = |change: &Change<ConfigMap>| match change {
                        Change::Deleted { object, final_state_known } => {
                            (object.key(), *final_state_known) == *key_and_state
                        }
                        _ => false,
                    };
                    assert!(changes.iter().any(deleted), "seed {seed}, {delta:?}: {key_and_state:?}");
                }
                for change in changes {
                    match change {
                        Change::Added(new) => {
                            assert!(folded.insert(new.key(), new).is_none(), "seed {seed}: added twice");
                        }
                        Change::Updated { old, new } => {
                            assert_eq!(old.uid(), new.uid());
                            assert_ne!(text(&old), text(&new), "seed {seed}: no change");
                            let before = folded.insert(new.key(), new);
                            assert_eq!(text(&before.unwrap()), text(&old), "seed {seed}");
                        }
                        Change::Deleted { object, .. } => {
                            let before = folded.remove(&object.key()).unwrap();
                            assert_eq!(before.uid(), object.uid(), "seed {seed}");
                        }
                    }
                }
                let told: Vec<_> = folded.values().map(|o| text(o)).collect();
                assert_eq!(told, there(&store), "seed {seed}, {delta:?}");
                let uids = |objects: &mut dyn Iterator<Item = &Arc<ConfigMap>>| -> Vec<_> {
                    objects.map(|o| (text(o), o.uid().to_owned())).collect()
                };
                let [holds, has_to] =
                    [&mut store.list().iter() as &mut dyn Iterator<Item = _>, &mut model.0.values()]
                        .map(uids);
                assert_eq!(holds, has_to, "seed {seed}, {delta:?}");
                check_index(&store, "first");
            }
        }
    }

    #[test]
    fn an_index_added_while_the_store_changes_misses_nothing() {
        for seed in 1..30 {
            let (store, mut writer) = Store::new();
            for version in 1..100 {
                writer.apply(random_delta(&mut Dice(seed), version));
            }
            let adding = store.clone();
            let add = move || (0..20).for_each(|n| adding.add_index(&n.to_string(), values).unwrap());
            let thread = thread::Builder::new().spawn(add).unwrap();
            let (mut dice, mut version) = (Dice(seed), 100);
            while !thread.is_finished() {
                version += 1;
                writer.apply(random_delta(&mut dice, version));
            }
            thread.join().unwrap();
            (0..20).for_each(|n| check_index(&store, &n.to_string()));
            writer.apply(random_delta(&mut dice, version + 1));
            (0..20).for_each(|n| check_index(&store, &n.to_string()));
        }
    }

    #[test]
    fn readers_see_a_list_whole_or_not_at_all() {
        let (store, mut writer) = Store::new();
        let names: Vec<_> = (0..50).map(|n| ObjectKey::namespaced("a", &n.to_string())).collect();
        let list = |version: u64| Delta::Replace {
            items: names.iter().map(|key| Arc::new(build(key, &version.to_string(), "u"))).collect(),
            unfit: Vec::new(),
            resource_version: version.to_string(),
            went_back: false,
        };
        store.add_index("version", |map: &ConfigMap| vec![map.metadata.resource_version.clone()]).unwrap();
        writer.apply(list(0));
        let done = Arc::new(AtomicBool::new(false));
        let (reading, end) = (store.clone(), done.clone());
        let read = move || {
            while !end.load(Ordering::Relaxed) {
                let versions: BTreeSet<_> =
                    reading.list().iter().map(|o| o.metadata.resource_version.clone()).collect();
                assert_eq!((versions.len(), reading.index_values("version").unwrap().len()), (1, 1));
            }
        };
        let thread = thread::Builder::new().spawn(read).unwrap();
        for version in 1..300 {
            writer.apply(list(version));
        }
        done.store(true, Ordering::Relaxed);
        thread.join().unwrap();
    }
}
