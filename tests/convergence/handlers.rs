//! The handlers at an informer, and how they come and go.

use std::sync::{Arc, Condvar, Mutex};

use crossbeam_channel::Sender;
use listwatch::types::ConfigMap;
use listwatch::{Deleted, Handler, Lister, Registration, Resource};

use super::history::History;
use super::run::{News, Run};

/// So many calls while a handler stalls make its queue merge.
const BURST: usize = 1200;

/// A handler at the informer.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) history: History,
    pub(super) gate: Arc<Gate>,
    pub(super) registration: Registration<ConfigMap>,
}

impl Run<'_> {
    pub(super) fn join(&mut self) {
        let history = History::new();
        if self.restored {
            history.restored();
        }
        let gate = Arc::new(Gate::default());
        let watcher = Watcher {
            inner: history.handler(),
            history: history.clone(),
            gate: gate.clone(),
            lister: self.informer.lister(),
            tell: self.tell.clone(),
        };
        let registration = self.informer.add_handler(watcher).unwrap();
        let name = registration.name().to_owned();
        self.note(format!("{name} joins"));
        self.members.push(Member { name, history, gate, registration });
    }

    /// The first stays, and does not stall: there is always one that tells how far the informer is.
    pub(super) fn stall(&mut self) {
        let Some(at) = self.any_but_the_first() else { return };
        let member = &self.members[at];
        let shut = !member.gate.is_shut();
        member.gate.set(shut);
        let what = format!("{} {}", member.name, if shut { "stalls" } else { "goes on" });
        self.note(what);
    }

    pub(super) fn leave(&mut self) {
        let Some(at) = self.any_but_the_first() else { return };
        let member = self.members.remove(at);
        self.note(format!("{} leaves", member.name));
        member.gate.set(false);
        member.registration.remove();
        self.left.push((member.history.clone(), member.history.calls()));
    }

    fn any_but_the_first(&mut self) -> Option<usize> {
        let others = self.members.len().checked_sub(1).filter(|others| *others > 0)?;
        Some(1 + self.dice.small(others as u64))
    }

    /// More changes than a stalled handler lets wait as they are.
    pub(super) fn burst(&mut self) {
        self.note("a burst");
        self.lift();
        self.converge();
        self.join();
        self.members.last().unwrap().gate.set(true);
        let first = self.members[0].history.clone();
        let before = first.calls();
        while first.calls() < before + BURST {
            self.change();
            self.catch_up();
            self.let_wait_pass();
        }
        self.converge();
        let depth = self.members.last().unwrap().registration.depth();
        assert!(depth < 1024 + 100, "{depth} wait, so nothing was merged");
    }
}

/// Stalls a handler while it is shut.
#[derive(Default)]
pub(super) struct Gate {
    shut: Mutex<bool>,
    moved: Condvar,
}

impl Gate {
    pub(super) fn set(&self, shut: bool) {
        *self.shut.lock().unwrap() = shut;
        self.moved.notify_all();
    }

    pub(super) fn is_shut(&self) -> bool {
        *self.shut.lock().unwrap()
    }

    fn pass(&self) {
        drop(self.moved.wait_while(self.shut.lock().unwrap(), |shut| *shut).unwrap());
    }
}

/// Passes what it is told on to a history, and compares it with the cache.
struct Watcher<H> {
    inner: H,
    history: History,
    gate: Arc<Gate>,
    lister: Lister<ConfigMap>,
    tell: Sender<News>,
}

impl<H> Watcher<H> {
    fn enter(&self, object: &ConfigMap, gone: bool) {
        self.gate.pass();
        let there = self.lister.get_key(&object.key());
        // Of an object that is not there any more a deletion is to come.
        if let Some(there) = there {
            let [cached, told] = [&*there, object].map(|o| o.resource_version().parse::<u64>().unwrap());
            if cached < told + u64::from(gone) {
                self.history.note_older(format!("{} is told at {told}, cached at {cached}", object.key()));
            }
        }
    }

    pub(super) fn leave(&self) {
        let _ = self.tell.send(News::Told); // nobody listens to who was late
    }
}

impl<H: Handler<ConfigMap>> Handler<ConfigMap> for Watcher<H> {
    fn on_add(&mut self, object: &Arc<ConfigMap>, initial: bool) {
        self.enter(object, false);
        self.inner.on_add(object, initial);
        self.leave();
    }

    fn on_update(&mut self, old: &Arc<ConfigMap>, new: &Arc<ConfigMap>) {
        self.enter(new, false);
        self.inner.on_update(old, new);
        self.leave();
    }

    fn on_delete(&mut self, deleted: &Deleted<ConfigMap>) {
        self.enter(&deleted.object, true);
        self.inner.on_delete(deleted);
        self.leave();
    }
}
