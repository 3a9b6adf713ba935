//! An informer and its handlers under many orders of their threads.

use std::collections::BTreeMap;
use std::sync::Mutex as Plain; // of the standard library: nothing of the model is used while it is held

use super::super::handler::Deleted;
use super::super::list_watch::Events;
use super::super::testing::{object, text};
use super::*;
use crate::client::{ListParams, WatchParams};
use crate::object::{ListMeta, ObjectKey};
use crate::sync::model::{explore, wait_until};
use crate::sync::thread::{self, JoinHandle};
use crate::types::ConfigMap;
use crate::wire::WatchEvent;

const LONG: Duration = Duration::from_secs(3600);

/// Lists [`FIRST`] and then watches what is scripted, until stopped.
struct Script(Clock);

const FIRST: [&str; 2] = ["a/keep@1", "a/goes@1"];
const THEN: [&str; 3] = ["a/keep@2", "a/keep@4", "a/new@7"];
const LAST: [&str; 2] = ["a/keep@4", "a/new@7"];

impl ListWatch<ConfigMap> for Script {
    fn list(
        &self,
        _: &ListParams,
        _: &Stop,
        sink: &mut dyn FnMut(Result<ConfigMap>) -> Result<()>,
    ) -> Result<ListMeta> {
        FIRST.iter().try_for_each(|text| sink(Ok((*object(text)).clone())))?;
        Ok(ListMeta { resource_version: "1".into(), ..ListMeta::default() })
    }

    fn watch(&self, _: &WatchParams, stop: &Stop) -> Result<Events<ConfigMap>> {
        let changed = THEN.iter().map(|text| Ok(WatchEvent::Modified((*object(text)).clone())));
        let gone = [Ok(WatchEvent::Deleted((*object("a/goes@8")).clone()))];
        let stop = stop.clone();
        let end = std::iter::from_fn(move || {
            stop.wait();
            None
        });
        Ok(Box::new(changed.chain(gone).chain(end)))
    }

    fn clock(&self) -> Clock {
        self.0.clone()
    }

    fn describe(&self) -> String {
        "configmaps".into()
    }
}

fn informer() -> Informer<ConfigMap> {
    Informer::builder(Script(Clock::manual())).build().unwrap()
}

/// What is given to the store of an informer that is not started: all kinds of change, and lists.
fn deltas() -> Vec<Delta<ConfigMap>> {
    let list = |objects: &[&str], version: &str| Delta::Replace {
        items: objects.iter().map(|text| object(text)).collect(),
        unfit: Vec::new(),
        resource_version: version.into(),
        went_back: false,
    };
    vec![
        list(&FIRST, "1"),
        Delta::Upsert(object("a/keep@2")),
        Delta::Upsert(object("a/keep@3")),
        Delta::Upsert(object("a/keep@4")),
        Delta::Delete { key: "a/goes".parse().unwrap(), object: None },
        Delta::Upsert(object("a/goes@5/other")),
        list(&["a/keep@4", "a/new@5"], "6"),
        Delta::Upsert(object("a/new@7")),
    ]
}

/// Stores all [`deltas`] on a thread, as the informer's own thread would: one alone, then some at once.
fn apply(informer: &Informer<ConfigMap>) -> JoinHandle<()> {
    let informer = informer.clone();
    let mut writer = informer.shared.lock().writer.take().unwrap();
    thread::spawn(move || {
        let mut deltas = deltas().into_iter().peekable();
        for count in 1.. {
            informer.shared.store(&mut writer, deltas.by_ref().take(count));
            if deltas.peek().is_none() {
                return;
            }
        }
    })
}

/// What a handler was told, folded together as it came.
#[derive(Clone, Default)]
struct History(Arc<Plain<Told>>);

#[derive(Default)]
struct Told {
    objects: BTreeMap<ObjectKey, Arc<ConfigMap>>,
    calls: usize,
    /// A call that is not of the first list has come.
    later: bool,
    in_call: bool,
    /// The handler was taken away.
    left: bool,
    wrong: Vec<String>,
}

/// What a handler does at its call of this number, besides taking note.
type During = Box<dyn FnMut(usize) + Send>;

struct Recorder {
    history: History,
    during: During,
}

impl History {
    /// The handler that this is the history of; there is one.
    fn handler(&self) -> Recorder {
        self.handler_that(|_| thread::yield_now())
    }

    fn handler_that(&self, during: impl FnMut(usize) + Send + 'static) -> Recorder {
        Recorder { history: self.clone(), during: Box::new(during) }
    }

    fn edit<T>(&self, f: impl FnOnce(&mut Told) -> T) -> T {
        f(&mut self.0.lock().unwrap())
    }

    fn state(&self) -> Vec<String> {
        self.edit(|told| told.objects.values().map(|o| text(o)).collect())
    }

    /// To be called when its removal has returned.
    fn has_left(&self) {
        self.edit(|told| {
            told.left = true;
            assert!(!told.in_call, "removed and still in a call");
        });
    }

    /// After the end of all: the handler and its thread are gone, and all calls were right.
    #[track_caller]
    fn check_ended(&self) {
        assert_eq!(Arc::strong_count(&self.0), 1, "a handler is left");
        self.edit(|told| assert_eq!(told.wrong, Vec::<String>::new()));
    }
}

impl Recorder {
    fn call(&mut self, what: &str, told: impl FnOnce(&mut Told) -> bool) {
        let number = self.history.edit(|history| {
            let alone = !history.in_call && !history.left;
            (history.in_call, history.calls) = (true, history.calls + 1);
            if !told(history) || !alone {
                history.wrong.push(format!("{what}, call {}", history.calls));
            }
            history.calls
        });
        (self.during)(number);
        self.history.edit(|history| history.in_call = false);
    }
}

impl Handler<ConfigMap> for Recorder {
    fn on_add(&mut self, object: &Arc<ConfigMap>, initial: bool) {
        self.call(&format!("+{}", text(object)), |told| {
            let in_order = !(initial && told.later);
            told.later |= !initial;
            told.objects.insert(object.key(), object.clone()).is_none() && in_order
        });
    }

    fn on_update(&mut self, old: &Arc<ConfigMap>, new: &Arc<ConfigMap>) {
        self.call(&format!("{}→{}", text(old), text(new)), |told| {
            told.later = true;
            let before = told.objects.insert(new.key(), new.clone());
            before.is_some_and(|before| Arc::ptr_eq(&before, old)) && old.uid() == new.uid()
        });
    }

    fn on_delete(&mut self, deleted: &Deleted<ConfigMap>) {
        self.call(&format!("-{}", text(&deleted.object)), |told| {
            told.later = true;
            let before = told.objects.remove(&deleted.object.key());
            before.is_some_and(|before| before.uid() == deleted.object.uid())
        });
    }
}

#[test]
fn a_handler_that_comes_at_any_moment_misses_nothing_and_is_told_nothing_twice() {
    explore(4000, || {
        let (informer, histories) = (informer(), [(); 2].map(|()| History::default()));
        let applying = apply(&informer);
        let joining = histories.each_ref().map(|history| {
            let (informer, history) = (informer.clone(), history.clone());
            thread::spawn(move || {
                let registration = informer.add_handler(history.handler()).unwrap();
                registration.wait_for_sync(LONG).unwrap();
                let told = history.edit(|told| told.objects.contains_key("a/keep"));
                assert!(told && registration.has_synced() && informer.has_synced());
            })
        });
        joining.into_iter().chain([applying]).for_each(|thread| thread.join().unwrap());
        wait_until(|| histories.iter().all(|history| history.state() == LAST));
        informer.shared.stop.stop();
        informer.join();
        histories.iter().for_each(History::check_ended);
    });
}

#[test]
fn a_handler_that_left_is_called_no_more() {
    explore(4000, || {
        let (informer, leaves, stays) = (informer(), History::default(), History::default());
        let applying = apply(&informer);
        informer.add_handler(stays.handler()).unwrap();
        let waits = informer.clone();
        let waiting = thread::spawn(move || waits.wait_for_sync(LONG).unwrap());
        let (other, history) = (informer.clone(), leaves.clone());
        let leaving = thread::spawn(move || {
            let registration = other.add_handler(history.handler()).unwrap();
            (0..4).for_each(|_| thread::yield_now());
            registration.remove();
            history.has_left();
        });
        applying.join().unwrap();
        leaving.join().unwrap();
        waiting.join().unwrap();
        leaves.check_ended();
        wait_until(|| stays.state() == LAST);
        assert_eq!(informer.shared.lock().listeners.len(), 1);
        informer.shared.stop.stop();
        informer.join();
        stays.check_ended();
    });
}

/// Where a handler finds its own registration, or another's.
type Slot = Arc<Plain<Option<Registration<ConfigMap>>>>;

fn take(slot: &Slot) -> Option<Registration<ConfigMap>> {
    slot.lock().unwrap().take()
}

#[test]
fn a_handler_that_takes_itself_away_is_called_no_more_and_waited_for() {
    explore(4000, || {
        let (informer, history, slot) = (informer(), History::default(), Slot::default());
        let applying = apply(&informer);
        let (own, leaving) = (slot.clone(), history.clone());
        let handler = history.handler_that(move |_| {
            thread::yield_now();
            if let Some(registration) = take(&own) {
                registration.remove();
                leaving.edit(|told| told.left = true); // this call is the last
                thread::yield_now();
            }
        });
        *slot.lock().unwrap() = Some(informer.add_handler(handler).unwrap());
        let other = informer.clone();
        let stopping = thread::spawn(move || {
            other.shared.stop.stop();
            other.join();
        });
        applying.join().unwrap();
        stopping.join().unwrap();
        history.check_ended();
        informer.join();
    });
}

#[test]
fn handlers_that_take_each_other_away_at_once_do_not_wait_for_each_other() {
    explore(4000, || {
        // They may be of two informers.
        let informers = [(); 2].map(|()| informer());
        let histories = [(); 3].map(|()| History::default());
        let slots = [(); 3].map(|()| Slot::default());
        for (at, history) in histories.iter().enumerate() {
            let next = slots[(at + 1) % 3].clone();
            let handler = history.handler_that(move |_| {
                thread::yield_now();
                if let Some(registration) = take(&next) {
                    registration.remove();
                }
            });
            *slots[at].lock().unwrap() = Some(informers[at % 2].add_handler(handler).unwrap());
        }
        let applying = informers.each_ref().map(apply);
        applying.into_iter().for_each(|thread| thread.join().unwrap());
        for informer in informers {
            informer.shared.stop.stop();
            informer.join();
        }
        drop(slots);
        histories.iter().for_each(History::check_ended);
    });
}

#[test]
fn handlers_that_join_their_informer_do_not_wait_for_each_other() {
    explore(4000, || {
        let (informer, slot) = (informer(), Slot::default());
        let histories = [(); 3].map(|()| History::default());
        for history in &histories {
            let (own, removed) = (informer.clone(), slot.clone());
            let handler = history.handler_that(move |_| {
                own.shared.stop.stop();
                thread::yield_now();
                match take(&removed) {
                    Some(registration) => registration.remove(),
                    None => own.join(),
                }
            });
            let registration = informer.add_handler(handler).unwrap();
            slot.lock().unwrap().get_or_insert(registration);
        }
        apply(&informer).join().unwrap();
        informer.shared.stop.stop();
        informer.join();
        slot.lock().unwrap().take();
        histories.iter().for_each(History::check_ended);
    });
}

#[test]
fn a_stop_at_any_moment_leaves_no_thread_to_who_joins() {
    explore(2000, || {
        let (informer, stop) = (informer(), Stop::new());
        let histories = [(); 3].map(|()| History::default());
        informer.add_handler(histories[0].handler()).unwrap();
        informer.start(&stop).unwrap();
        let other = informer.clone();
        let [_, stays, leaves] = histories.clone();
        let joining = thread::spawn(move || {
            // Refused, once stopped.
            drop(other.add_handler(stays.handler()));
            if let Ok(registration) = other.add_handler(leaves.handler()) {
                registration.remove();
                leaves.has_left();
            }
        });
        let stopping = thread::spawn(move || stop.stop());
        let waits = [(); 2].map(|()| {
            let (other, histories) = (informer.clone(), histories.clone());
            thread::spawn(move || {
                other.join();
                histories.iter().for_each(History::has_left);
            })
        });
        waits.into_iter().chain([joining, stopping]).for_each(|thread| thread.join().unwrap());
        informer.join();
        assert!(informer.shared.lock().left.iter().all(|thread| thread.has_ended()));
        histories.iter().for_each(History::check_ended);
        assert_eq!(Arc::strong_count(&informer.shared), 1, "a thread holds the informer");
    });
}

#[test]
fn who_waits_for_the_first_list_is_woken_by_it_and_finds_handlers_told() {
    explore(1500, || {
        let (informer, stop, history) = (informer(), Stop::new(), History::default());
        informer.add_handler(history.handler()).unwrap();
        let waiting = [(); 2].map(|()| {
            let (informer, history) = (informer.clone(), history.clone());
            thread::spawn(move || {
                informer.wait_for_sync(LONG).unwrap();
                assert!(informer.lister().store().len() >= 1 && !history.state().is_empty());
            })
        });
        informer.start(&stop).unwrap();
        waiting.into_iter().for_each(|thread| thread.join().unwrap());
        wait_until(|| history.state() == LAST);
        stop.stop();
        informer.join();
        history.check_ended();
    });
}

#[test]
fn who_waits_for_the_first_list_is_woken_by_a_stop() {
    explore(1500, || {
        let (informer, stop) = (informer(), Stop::new());
        let other = informer.clone();
        let waiting = thread::spawn(move || match other.wait_for_sync(LONG) {
            Ok(()) => assert!(other.has_synced()),
            Err(e) => assert!(e.is_stopped()),
        });
        informer.start(&stop).unwrap();
        stop.stop();
        waiting.join().unwrap();
        informer.join();
    });
}

#[test]
fn a_latch_wakes_all_who_wait_by_opening_by_time_or_by_a_stop() {
    explore(3000, || {
        let (latch, stop, clock) = (Latch::new(), Stop::new(), Clock::manual());
        let deadline = clock.deadline(LONG);
        let waiting = [(); 2].map(|()| {
            let (latch, stop, clock) = (latch.clone(), stop.clone(), clock.clone());
            thread::spawn(move || {
                let open = latch.wait(&clock, deadline, &stop);
                assert!(open || stop.is_stopped() || clock.now() >= deadline);
            })
        });
        let (opening, time) = (latch.clone(), clock.clone());
        let ends = [
            thread::spawn(move || opening.open()),
            thread::spawn(move || stop.stop()),
            thread::spawn(move || time.advance(LONG)),
        ];
        let for_ever = latch.clone();
        let for_ever = thread::spawn(move || for_ever.wait_for_ever());
        waiting.into_iter().chain(ends).chain([for_ever]).for_each(|thread| thread.join().unwrap());
        assert!(latch.is_open());
        assert_eq!(clock.next_timer(), None);
    });
}
