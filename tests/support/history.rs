//! What a handler is told, checked as it comes: folded together it must be a state that can be, at every moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Receiver, Sender, unbounded};
use listwatch::types::ConfigMap;
use listwatch::{Deleted, Handler, Resource};

/// Objects by `namespace/name`, each as its uid and version.
pub(crate) type State = BTreeMap<String, (String, u64)>;

/// The state that these objects make.
pub(crate) fn state_of<'a>(objects: impl IntoIterator<Item = &'a ConfigMap>) -> State {
    objects.into_iter().map(|object| (object.key().to_string(), version(object))).collect()
}

fn version(object: &ConfigMap) -> (String, u64) {
    (object.uid().to_owned(), object.resource_version().parse().unwrap())
}

/// The calls of one handler. Clones are the same history.
#[derive(Clone)]
pub(crate) struct History {
    told: Arc<Mutex<Told>>,
    tells: Sender<()>,
    /// Gets a message with each call.
    pub(crate) news: Receiver<()>,
}

#[derive(Default)]
struct Told {
    state: State,
    deleted: Vec<String>,
    calls: usize,
    wrong: Vec<String>,
    /// Versions may go back: the server was restored from an older state.
    restored: bool,
}

impl History {
    pub(crate) fn new() -> Self {
        let (tells, news) = unbounded();
        Self { told: Arc::default(), tells, news }
    }

    /// The handler that this is the history of.
    pub(crate) fn handler(&self) -> impl Handler<ConfigMap> {
        Recorder(self.clone())
    }

    /// All calls folded together.
    pub(crate) fn state(&self) -> State {
        self.lock().state.clone()
    }

    /// The keys that were told as deleted, in that order.
    pub(crate) fn deleted(&self) -> Vec<String> {
        self.lock().deleted.clone()
    }

    pub(crate) fn calls(&self) -> usize {
        self.lock().calls
    }

    /// From here on versions may go back.
    pub(crate) fn restored(&self) {
        self.lock().restored = true;
    }

    /// Panics if a call could not follow those before it.
    #[track_caller]
    pub(crate) fn assert_sound(&self, context: &str) {
        let wrong = self.lock().wrong.clone();
        assert!(wrong.is_empty(), "{context}: {wrong:#?}");
    }

    /// The handler found the cache older than what it was told.
    #[allow(dead_code)] // not all suites look
    pub(crate) fn note_older(&self, what: String) {
        let mut told = self.lock();
        if !told.restored {
            told.wrong.push(what);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, change: impl FnOnce(&mut Told)) {
        {
            let mut told = self.lock();
            told.calls += 1;
            change(&mut told);
        }
        let _ = self.tells.send(()); // nobody may listen
    }
}

struct Recorder(History);

impl Handler<ConfigMap> for Recorder {
    fn on_add(&mut self, object: &Arc<ConfigMap>, _initial: bool) {
        self.0.note(|told| {
            if let Some(there) = told.state.insert(object.key().to_string(), version(object)) {
                told.wrong.push(format!("added {:?} over {there:?}", version(object)));
            }
        });
    }

    fn on_update(&mut self, old: &Arc<ConfigMap>, new: &Arc<ConfigMap>) {
        self.0.note(|told| {
            let (before, after) = (version(old), version(new));
            let there = told.state.insert(new.key().to_string(), after.clone());
            // `old` is what was last told, the object is the same, and time goes forward.
            let forward = before.1 < after.1 || before == after || told.restored;
            if there.as_ref() != Some(&before) || before.0 != after.0 || !forward {
                told.wrong.push(format!("{} had {there:?}: updated {before:?} to {after:?}", new.key()));
            }
        });
    }

    fn on_delete(&mut self, deleted: &Deleted<ConfigMap>) {
        self.0.note(|told| {
            let key = deleted.object.key().to_string();
            let there = told.state.remove(&key);
            if there.as_ref().is_none_or(|(uid, _)| uid != deleted.object.uid()) {
                told.wrong.push(format!("{key} had {there:?}: deleted {:?}", version(&deleted.object)));
            }
            told.deleted.push(key);
        });
    }
}
