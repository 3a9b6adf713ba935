use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use listwatch::cache::{Events, ListWatch};
use listwatch::types::ConfigMap;
use listwatch::{
    Clock, Deleted, Handler, Informer, ListMeta, ListParams, ObjectMeta, Resource, Result, Stop, WatchEvent,
    WatchParams,
};

use crate::history::{History, State, state_of};
use crate::{MIB, PATIENCE, alone, resident};

const OBJECTS: usize = 100;
const UPDATES: usize = 1_000_000;
/// Updates until all buffers have the size that they keep.
const WARM: usize = 100_000;
/// These are deleted in the middle and come again, and a half of them is deleted at the end, too.
const RETURNING: usize = 10;
/// So many more are deleted at the end.
const LEAVING: usize = 10;

/// An object of about 1 KB. Its uid says how often it came.
fn object(number: usize, life: usize, version: u64) -> ConfigMap {
    let metadata = ObjectMeta {
        uid: format!("{number}-{life}"),
        resource_version: version.to_string(),
        ..ObjectMeta::named(format!("object-{number:03}")).in_namespace("default")
    };
    let mut object = ConfigMap { metadata, ..ConfigMap::default() };
    object.data.insert("text", &"x".repeat(900));
    object
}

/// The changes, one by one, made as they are asked for.
struct Changes {
    version: u64,
    lives: [usize; OBJECTS],
    updates: usize,
    /// What is to come before the next update.
    next: Vec<WatchEvent<ConfigMap>>,
    history: History,
    /// Told of every so many updates.
    progress: Sender<usize>,
    /// Told of what is there in the end.
    ended: Sender<(State, Vec<String>)>,
    there: Vec<Option<ConfigMap>>,
    deleted: Vec<String>,
    stop: Stop,
}

impl Changes {
    fn new_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn update(&mut self, number: usize) -> WatchEvent<ConfigMap> {
        let new = object(number, self.lives[number], self.new_version());
        self.there[number] = Some(new.clone());
        WatchEvent::Modified(new)
    }

    /// The deletion of an object that the handler knows: what comes and goes unseen need not be told.
    fn delete(&mut self, number: usize) {
        let mut gone = self.there[number].take().unwrap();
        let known = || {
            let state = self.history.state();
            state.get(&gone.key().to_string()).is_some_and(|(uid, _)| uid == gone.uid())
        };
        while !known() {
            self.history.news.recv_timeout(PATIENCE).unwrap();
        }
        gone.metadata.resource_version = self.new_version().to_string();
        self.deleted.push(gone.key().to_string());
        self.next.push(WatchEvent::Deleted(gone));
    }

    fn create(&mut self, number: usize) {
        self.lives[number] += 1;
        let new = object(number, self.lives[number], self.new_version());
        self.there[number] = Some(new.clone());
        self.next.push(WatchEvent::Added(new));
    }
}

impl Iterator for Changes {
    type Item = Result<WatchEvent<ConfigMap>>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(next) = self.next.pop() {
            return Some(Ok(next));
        }
        if self.updates == UPDATES {
            let there = self.there.iter().flatten();
            let _ = self.ended.send((state_of(there), std::mem::take(&mut self.deleted)));
            self.stop.wait();
            return None;
        }
        let number = self.updates % OBJECTS;
        self.updates += 1;
        if self.updates % 10_000 == 0 {
            let _ = self.progress.send(self.updates);
        }
        let update = self.update(number);
        if self.updates == UPDATES / 2 {
            for number in 0..RETURNING {
                self.delete(number);
                self.create(number);
            }
        }
        if self.updates == UPDATES {
            (0..RETURNING / 2).for_each(|number| self.delete(number));
            (RETURNING..RETURNING + LEAVING).for_each(|number| self.delete(number));
        }
        self.next.reverse(); // it is taken from its end
        Some(Ok(update))
    }
}

/// Lists the objects, and then changes them in one watch.
struct Source(Mutex<Option<Changes>>);

impl ListWatch<ConfigMap> for Source {
    fn list(
        &self,
        _: &ListParams,
        _: &Stop,
        sink: &mut dyn FnMut(Result<ConfigMap>) -> Result<()>,
    ) -> Result<ListMeta> {
        let mut changes = self.0.lock().unwrap();
        for number in 0..OBJECTS {
            let new = object(number, 0, 1);
            changes.as_mut().unwrap().there[number] = Some(new.clone());
            sink(Ok(new))?;
        }
        Ok(ListMeta { resource_version: "1".into(), ..ListMeta::default() })
    }

    fn watch(&self, _: &WatchParams, _: &Stop) -> Result<Events<ConfigMap>> {
        Ok(Box::new(self.0.lock().unwrap().take().unwrap()))
    }

    fn describe(&self) -> String {
        "configmaps".into()
    }
}

/// Takes a millisecond for each call.
struct Slow<H>(H, Stop);

impl<H: Handler<ConfigMap>> Slow<H> {
    fn work(&self) {
        self.1.sleep(Duration::from_millis(1));
    }
}

impl<H: Handler<ConfigMap>> Handler<ConfigMap> for Slow<H> {
    fn on_add(&mut self, object: &Arc<ConfigMap>, initial: bool) {
        self.work();
        self.0.on_add(object, initial);
    }

    fn on_update(&mut self, old: &Arc<ConfigMap>, new: &Arc<ConfigMap>) {
        self.work();
        self.0.on_update(old, new);
    }

    fn on_delete(&mut self, deleted: &Deleted<ConfigMap>) {
        self.work();
        self.0.on_delete(deleted);
    }
}

#[test]
fn a_handler_slower_than_a_million_updates_costs_no_memory_and_misses_no_end() {
    alone("slow::a_handler_slower_than_a_million_updates_costs_no_memory_and_misses_no_end", || {
        let (stop, history) = (Stop::new(), History::new());
        let (progress, progresses) = unbounded();
        let (ended, ends): (_, Receiver<(State, Vec<String>)>) = unbounded();
        let changes = Changes {
            version: 1,
            lives: [0; OBJECTS],
            updates: 0,
            next: Vec::new(),
            history: history.clone(),
            progress,
            ended,
            there: vec![None; OBJECTS],
            deleted: Vec::new(),
            stop: stop.clone(),
        };
        let start = Clock::system().now();
        let informer = Informer::builder(Source(Mutex::new(Some(changes)))).build().unwrap();
        let registration = informer.add_handler(Slow(history.handler(), stop.clone())).unwrap();
        informer.start(&stop).unwrap();

        let (mut warm, mut most, mut deepest) = (0.0, 0.0_f64, 0);
        loop {
            let updates = progresses.recv_timeout(PATIENCE).unwrap();
            deepest = deepest.max(registration.depth());
            if updates == WARM {
                warm = resident();
            }
            most = if updates > WARM { most.max(resident()) } else { 0.0 };
            if updates == UPDATES {
                break;
            }
        }
        let fed = Clock::system().now() - start;
        let (there, deleted) = ends.recv_timeout(PATIENCE).unwrap();
        while history.state() != there || history.deleted().len() < deleted.len() {
            history.news.recv_timeout(PATIENCE).unwrap();
        }
        crate::until(|| registration.depth() == 0);
        most = most.max(resident());

        history.assert_sound("slow");
        let sorted = |mut keys: Vec<String>| {
            keys.sort();
            keys
        };
        assert_eq!(sorted(history.deleted()), sorted(deleted));
        assert_eq!(there, state_of(informer.lister().store().list().iter().map(|object| &**object)));
        let (grown, calls, lasted) = (most - warm, history.calls(), Clock::system().now() - start);
        println!(
            "memory: slow handler: {UPDATES} updates of {OBJECTS} objects in {fed:.1?}, {calls} calls of 1 ms in \
             {lasted:.1?}, at most {deepest} waiting; {:.1} MiB after {WARM} updates, at most {:+.2} MiB from there",
            warm / MIB,
            grown / MIB,
        );
        assert!(deepest <= 1024 + 4 * OBJECTS, "{deepest} waited");
        assert!(calls < UPDATES / 2, "{calls} calls: it was not slow");
        assert!(grown < 4.0 * MIB, "it grew by {grown} bytes");
        stop.stop();
        informer.join();
    });
}
