//! The informers, what their handlers are told, and what they must have.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use listwatch::types::ConfigMap;
use listwatch::{
    Api, ApiServer, Clock, Deleted, Error, Handler, HandlerOptions, Informer, ListMode, Resource, Stop,
};

use super::changes::{Ledger, State, Version, apply, version};
use super::client;

const SILENCE: Duration = Duration::from_secs(4);
/// An informer that has made no progress for so long stands still: the longest wait of its backoff is a minute.
pub(crate) const STANDSTILL: Duration = Duration::from_secs(180);

/// An informer, what its handler was told, and the state it must have.
pub(crate) struct Follower {
    pub(crate) mode: ListMode,
    pub(crate) informer: Informer<ConfigMap>,
    pub(crate) stop: Stop,
    /// When it was built.
    pub(crate) built: Instant,
    /// What its handlers were told: the second, if there is one, is slow.
    pub(crate) folds: Vec<Fold>,
    /// The state at the version that was last compared.
    pub(crate) at: u64,
    pub(crate) state: State,
    pub(crate) compared: u64,
    /// From when on it may be wrong, until it has listed.
    pub(crate) blind: Option<Instant>,
}

impl Follower {
    pub(crate) fn start(
        server: &ApiServer,
        clock: &Clock,
        mode: ListMode,
        slow: bool,
        stop: &Stop,
    ) -> Result<Self, Error> {
        let stop = stop.child();
        let informer = Informer::builder(Api::<ConfigMap>::all(&client(server)?))
            .mode(mode)
            .clock(clock.clone())
            .silence(SILENCE)
            .build()?;
        let mut folds = vec![Fold::default()];
        if slow {
            folds.push(Fold { nap: Some(Duration::from_millis(3)), stop: stop.clone(), ..Fold::default() });
        }
        for (fold, name) in folds.iter().zip(["prompt", "slow"]) {
            informer.add_handler_with(HandlerOptions::default().name(name), fold.clone())?;
        }
        informer.start(&stop)?;
        let (built, state) = (clock.now(), State::new());
        Ok(Self { mode, informer, stop, built, folds, at: 0, state, compared: 0, blind: None })
    }

    /// Another informer in the place of this one, as modes do not come back once they were given up.
    pub(crate) fn renew(&mut self, server: &ApiServer, clock: &Clock, stop: &Stop) -> Result<(), Error> {
        self.stop.stop();
        self.informer.join();
        let new = Self::start(server, clock, self.mode, self.folds.len() > 1, stop)?;
        let (state, blind) = (std::mem::take(&mut self.state), Some(new.built));
        *self = Self { at: self.at, state, compared: self.compared, blind, ..new };
        Ok(())
    }

    pub(crate) fn compare(&mut self, ledger: &Ledger, now: Instant, speed: u32) -> Result<(), String> {
        let health = self.informer.health();
        let progress = health.last_progress.unwrap_or(self.built);
        if now.saturating_duration_since(progress) > STANDSTILL * speed {
            return Err(format!("{:?} stands still: {health:?}", self.mode));
        }
        if let Some(since) = self.blind {
            // Two seconds are enough for what was listed to be stored.
            let seen =
                health.last_list.is_some_and(|at| at > since && now > at + Duration::from_secs(2) * speed);
            if !seen {
                return Ok(());
            }
            self.blind = None;
        }
        let store = self.informer.lister().store().clone();
        let (before, objects, after) = (store.resource_version(), store.list(), store.resource_version());
        let at: u64 = before.parse().unwrap_or(0);
        // It moved on meanwhile; another time.
        if before != after || at > ledger.version {
            return Ok(());
        }
        if at < self.at {
            return Err(format!("{:?} went back from {} to {at}", self.mode, self.at));
        }
        let from = ledger.changes.partition_point(|(version, ..)| *version <= self.at);
        for (version, key, uid) in ledger.changes.range(from..).take_while(|(version, ..)| *version <= at) {
            apply(&mut self.state, *version, key, uid.as_ref());
        }
        self.compared += u64::from(at > self.at);
        self.at = at;
        let cached: State = objects.iter().map(|object| (object.key(), version(object))).collect();
        match difference(&cached, &self.state) {
            Some(difference) => Err(format!("{:?} at {at} diverges: {difference}; {health:?}", self.mode)),
            None => Ok(()),
        }
    }
}

/// The first objects that one state has otherwise than the other.
pub(crate) fn difference(has: &State, wants: &State) -> Option<String> {
    if has == wants {
        return None;
    }
    let keys: BTreeSet<_> = has.keys().chain(wants.keys()).collect();
    let different: Vec<_> = keys.into_iter().filter(|key| has.get(*key) != wants.get(*key)).collect();
    let some = different.iter().take(5);
    let some: Vec<_> =
        some.map(|key| format!("{key} is {:?}, not {:?}", has.get(*key), wants.get(*key))).collect();
    Some(format!("{} objects differ: {}", different.len(), some.join("; ")))
}

/// Folds what a handler is told, and checks each call against those before it.
#[derive(Clone, Default)]
pub(crate) struct Fold {
    pub(crate) told: Arc<Mutex<Told>>,
    /// How long it sleeps in each call, unless in a hurry.
    pub(crate) nap: Option<Duration>,
    pub(crate) hurry: Arc<AtomicBool>,
    /// Versions may go back.
    pub(crate) restored: Arc<AtomicBool>,
    pub(crate) stop: Stop,
}

#[derive(Default)]
pub(crate) struct Told {
    pub(crate) state: State,
    pub(crate) deletes: u64,
    pub(crate) wrong: Option<String>,
}

impl Fold {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wrong(&self) -> Option<String> {
        self.lock().wrong.clone()
    }

    fn note(&self, object: &ConfigMap, fits: impl FnOnce(Option<Version>, Version) -> bool, gone: bool) {
        if let (Some(nap), false) = (self.nap, self.hurry.load(Ordering::Relaxed)) {
            self.stop.sleep(nap);
        }
        let (key, new) = (object.key(), version(object));
        let mut told = self.lock();
        let there = if gone { told.state.remove(&key) } else { told.state.insert(key.clone(), new.clone()) };
        told.deletes += u64::from(gone);
        if !fits(there.clone(), new.clone()) {
            let what = if gone { "deleted" } else { "told" };
            told.wrong.get_or_insert(format!("{key} was {there:?} and is {what} as {new:?}"));
        }
    }
}

impl Handler<ConfigMap> for Fold {
    fn on_add(&mut self, object: &Arc<ConfigMap>, _initial: bool) {
        self.note(object, |there, _| there.is_none(), false);
    }

    fn on_update(&mut self, old: &Arc<ConfigMap>, new: &Arc<ConfigMap>) {
        let (old, restored) = (version(old), self.restored.load(Ordering::Relaxed));
        self.note(
            new,
            |there, new| there.as_ref() == Some(&old) && old.0 == new.0 && (old.1 <= new.1 || restored),
            false,
        );
    }

    fn on_delete(&mut self, deleted: &Deleted<ConfigMap>) {
        self.note(&deleted.object, |there, gone| there.is_some_and(|there| there.0 == gone.0), true);
    }
}
