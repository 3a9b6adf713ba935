use std::fmt;
use std::sync::Arc;

use crate::object::{ObjectKey, Resource};
use crate::workqueue::WorkQueue;

/// An object that is gone.
#[derive(Clone, Debug)]
pub struct Deleted<K> {
    /// Its last known state.
    pub object: Arc<K>,
    /// Whether that is the state it was deleted in. It is not if the deletion itself was missed (a broken
    /// connection), and found by a later list.
    pub final_state_known: bool,
}

/// Is told what changes in an [`Informer`](super::Informer)'s cache: on a thread of its own, one call after the other,
/// after the cache has changed.
///
/// The calls about one object come in the order of its changes. A handler that is slow is told less, never wrong:
/// see [`Informer`](super::Informer). A panic is caught and logged.
pub trait Handler<K>: Send + 'static {
    /// An object is there. `initial` says that it belongs to the state that the handler found when it came.
    fn on_add(&mut self, object: &Arc<K>, initial: bool) {
        let _ = (object, initial);
    }

    /// An object changed; or `old` and `new` are the same, which is a resync.
    fn on_update(&mut self, old: &Arc<K>, new: &Arc<K>) {
        let _ = (old, new);
    }

    /// An object is gone.
    fn on_delete(&mut self, deleted: &Deleted<K>) {
        let _ = deleted;
    }
}

type OnAdd<K> = Box<dyn FnMut(&Arc<K>, bool) + Send>;
type OnUpdate<K> = Box<dyn FnMut(&Arc<K>, &Arc<K>) + Send>;
type OnDelete<K> = Box<dyn FnMut(&Deleted<K>) + Send>;
type Filter<K> = Box<dyn FnMut(&K) -> bool + Send>;

/// A [`Handler`] made of closures.
///
/// ```
/// # use listwatch::cache::Handlers;
/// # use listwatch::types::Pod;
/// let handlers = Handlers::<Pod>::new()
///     .on_add(|pod, _initial| println!("{} is there", pod.metadata.name))
///     .on_delete(|deleted| println!("{} is gone", deleted.object.metadata.name));
/// ```
pub struct Handlers<K> {
    on_add: Option<OnAdd<K>>,
    on_update: Option<OnUpdate<K>>,
    on_delete: Option<OnDelete<K>>,
    filter: Option<Filter<K>>,
}

impl<K> Handlers<K> {
    /// A handler that does nothing. Name the type, `Handlers::<Pod>::new()`, so that the closures' arguments are known.
    #[must_use]
    pub fn new() -> Self {
        Self { on_add: None, on_update: None, on_delete: None, filter: None }
    }

    /// What to do with an object that is there.
    #[must_use]
    pub fn on_add(mut self, f: impl FnMut(&Arc<K>, bool) + Send + 'static) -> Self {
        self.on_add = Some(Box::new(f));
        self
    }

    /// What to do with an object that changed, given as it was and as it is.
    #[must_use]
    pub fn on_update(mut self, f: impl FnMut(&Arc<K>, &Arc<K>) + Send + 'static) -> Self {
        self.on_update = Some(Box::new(f));
        self
    }

    /// What to do with an object that is gone.
    #[must_use]
    pub fn on_delete(mut self, f: impl FnMut(&Deleted<K>) + Send + 'static) -> Self {
        self.on_delete = Some(Box::new(f));
        self
    }

    /// Only objects that pass. One that changes so that it passes is told as there, one that no longer does as gone.
    #[must_use]
    pub fn filter(mut self, f: impl FnMut(&K) -> bool + Send + 'static) -> Self {
        self.filter = Some(Box::new(f));
        self
    }

    fn passes(&mut self, object: &K) -> bool {
        self.filter.as_mut().is_none_or(|filter| filter(object))
    }
}

impl<K: Send + Sync + 'static> Handler<K> for Handlers<K> {
    fn on_add(&mut self, object: &Arc<K>, initial: bool) {
        if self.passes(object) {
            if let Some(f) = &mut self.on_add {
                f(object, initial);
            }
        }
    }

    fn on_update(&mut self, old: &Arc<K>, new: &Arc<K>) {
        match (self.passes(old), self.passes(new)) {
            (true, true) => {
                if let Some(f) = &mut self.on_update {
                    f(old, new);
                }
            }
            (false, true) => {
                if let Some(f) = &mut self.on_add {
                    f(new, false);
                }
            }
            (true, false) => {
                if let Some(f) = &mut self.on_delete {
                    f(&Deleted { object: new.clone(), final_state_known: true });
                }
            }
            (false, false) => {}
        }
    }

    fn on_delete(&mut self, deleted: &Deleted<K>) {
        if self.passes(&deleted.object) {
            if let Some(f) = &mut self.on_delete {
                f(deleted);
            }
        }
    }
}

impl<K> Default for Handlers<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> fmt::Debug for Handlers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").field("filter", &self.filter.is_some()).finish_non_exhaustive()
    }
}

/// A handler that puts the key of whatever changes into a queue.
#[must_use]
pub fn enqueue<K: Resource>(queue: &WorkQueue<ObjectKey>) -> Handlers<K> {
    let [added, updated, deleted] = [queue.clone(), queue.clone(), queue.clone()];
    Handlers::new()
        .on_add(move |object: &Arc<K>, _| added.add(object.key()))
        .on_update(move |_, new| updated.add(new.key()))
        .on_delete(move |gone| deleted.add(gone.object.key()))
}
