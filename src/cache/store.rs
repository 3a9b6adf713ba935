use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use log::error;

use super::fifo::Delta;
use crate::error::{Error, Result};
use crate::object::{ObjectKey, Resource};

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
    /// with the uid and version that it had is no change.
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
                let kept = unfit.iter().filter_map(out);
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
                let old = state.objects.insert(object.key(), object.clone());
                compare(old, object, &mut changes);
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
                    // Not there, or another one of that name: nothing is deleted.
                    _ => false,
                }
            }
            Delta::Replace { items, unfit, resource_version } => {
                state.resource_version = resource_version;
                let mut before = std::mem::take(&mut state.objects);
                for key in unfit {
                    state.objects.extend(before.remove_entry(&key));
                }
                let mut later = Vec::new();
                for object in items {
                    let key = object.key();
                    let old = before.remove(&key);
                    // An object that is twice in a list counts as it came last.
                    let earlier = state.objects.insert(key, object.clone());
                    twice |= earlier.is_some();
                    compare(old.or(earlier), object, &mut later);
                }
                let gone = before.into_values();
                changes.extend(gone.map(|object| Change::Deleted { object, final_state_known: false }));
                changes.append(&mut later);
                state.indexes.iter_mut().for_each(|index| index.keys.clear());
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

/// What it means that `new` stands where `old` stood.
fn compare<K: Resource>(old: Option<Arc<K>>, new: Arc<K>, changes: &mut Vec<Change<K>>) {
    match old {
        None => changes.push(Change::Added(new)),
        Some(old) if old.uid() != new.uid() => {
            changes.push(Change::Deleted { object: old, final_state_known: false });
            changes.push(Change::Added(new));
        }
        Some(old) if old.resource_version() == new.resource_version() => {}
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
