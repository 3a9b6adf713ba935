use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::clock::Clock;
use crate::error::Unfit;
use crate::object::{ObjectKey, Resource};
use crate::shrink;
use crate::stop::Stop;
use crate::sync::select;

/// One step of a cache: what a [`Reflector`](super::Reflector) makes of lists and watches.
#[derive(Clone, Debug)]
pub enum Delta<K> {
    /// The object is there, new or changed.
    Upsert(Arc<K>),
    /// The object is gone.
    Delete {
        /// Which.
        key: ObjectKey,
        /// Its final state, unless that could not be decoded.
        object: Option<Arc<K>>,
    },
    /// A whole list: what is in it is there, all else is gone.
    Replace {
        /// The objects, in the order of the list.
        items: Vec<Arc<K>>,
        /// Objects that are there, but in a form that does not fit `K`: their last good version stays, unless that is
        /// another object of that name.
        unfit: Vec<Unfit>,
        /// The version of the list.
        resource_version: String,
        /// Whether the server may have gone back to an older state since the list before: then it gives versions out a
        /// second time, and an object may have another content at a version that is known.
        went_back: bool,
    },
    /// Nothing changed up to this version.
    Bookmark(String),
    /// Tell each object again to those who asked for it.
    Resync,
}

/// A bounded queue of [`Delta`]s between the thread that reads and the one that applies.
///
/// It keeps what client-go's DeltaFIFO promises: the deltas of one object come out in the order they went in; a list
/// is told as a list, so that the consumer finds what was deleted between; nothing is dropped. Unlike DeltaFIFO it
/// does not gather deltas by object: when it is full, the reader waits, and with it, through TCP, the server. Clones
/// are the same queue.
///
/// An [`Informer`](super::Informer) has all of this inside. By hand, with work that may fail and is tried again:
///
/// ```no_run
/// use listwatch::cache::{Delta, Fifo, Reflector};
/// use listwatch::types::Pod;
/// use listwatch::{Api, Client, Clock, Stop};
///
/// # fn save(delta: &Delta<Pod>) -> std::io::Result<()> { Ok(()) }
/// let (stop, fifo) = (Stop::new(), Fifo::<Pod>::bounded(256));
/// let reflector = Reflector::new(Api::<Pod>::all(&Client::try_default()?));
/// std::thread::scope(|scope| {
///     scope.spawn(|| reflector.run(&stop, &mut |delta| drop(fifo.push(delta, &stop))));
///     fifo.process(&Clock::system(), &stop, |delta| save(delta));
/// });
/// # Ok::<(), listwatch::Error>(())
/// ```
pub struct Fifo<K> {
    sender: Sender<Parcel<K>>,
    receiver: Receiver<Parcel<K>>,
}

/// A delta on its way. The channel has room for all it may hold from the start: two words for each are a quarter of
/// what deltas take, and most are of this kind.
pub(super) enum Parcel<K> {
    Upsert(Arc<K>),
    Other(Box<Delta<K>>),
}

impl<K> From<Delta<K>> for Parcel<K> {
    fn from(delta: Delta<K>) -> Self {
        match delta {
            Delta::Upsert(object) => Self::Upsert(object),
            other => Self::Other(Box::new(other)),
        }
    }
}

impl<K> From<Parcel<K>> for Delta<K> {
    fn from(parcel: Parcel<K>) -> Self {
        match parcel {
            Parcel::Upsert(object) => Self::Upsert(object),
            Parcel::Other(other) => *other,
        }
    }
}

impl<K> Fifo<K> {
    /// A queue that holds at most so many deltas.
    #[must_use]
    pub fn bounded(capacity: usize) -> Self {
        let (sender, receiver) = bounded(capacity);
        Self { sender, receiver }
    }

    /// Appends a delta. Blocks while the queue is full; returns `false`, without the delta, if stopped meanwhile.
    pub fn push(&self, delta: Delta<K>, stop: &Stop) -> bool {
        select! {
            send(self.sender, delta.into()) -> sent => sent.is_ok(),
            recv(stop.signal()) -> _ => false,
        }
    }

    /// Takes the first delta. Blocks while the queue is empty; `None` once stopped.
    pub fn pop(&self, stop: &Stop) -> Option<Delta<K>> {
        select! {
            recv(self.receiver) -> parcel => parcel.ok().map(Delta::from),
            recv(stop.signal()) -> _ => None,
        }
    }

    /// How many deltas wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.receiver.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.receiver.is_empty()
    }

    /// The end to take deltas from, for `select!`.
    pub(super) fn receiver(&self) -> &Receiver<Parcel<K>> {
        &self.receiver
    }
}

impl<K: Resource> Fifo<K> {
    /// How long a delta that failed waits at first, and at the most.
    const RETRY: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(10)];

    /// Takes deltas until stopped and gives each to `apply`.
    ///
    /// One that `apply` fails on is kept and tried again, after 5 ms doubled up to 10 s, unless a newer one of its
    /// object, or a list, has come by then. A list, a bookmark or a resync that fails holds up what is behind it.
    pub fn process<E>(&self, clock: &Clock, stop: &Stop, mut apply: impl FnMut(&Delta<K>) -> Result<(), E>) {
        let mut failed: Vec<Failed<K>> = Vec::new();
        loop {
            let timer = clock.timer(failed.iter().map(|f| f.due).min());
            let delta = select! {
                recv(self.receiver) -> parcel => parcel.ok().map(Delta::from),
                recv(timer.channel()) -> _ => None,
                recv(stop.signal()) -> _ => return,
            };
            drop(timer);
            if let Some(delta) = delta {
                match delta.key() {
                    Some(key) => failed.retain(|f| f.key != key),
                    None if matches!(delta, Delta::Replace { .. }) => failed.clear(),
                    None => {}
                }
                let mut wait = Self::RETRY[0];
                while apply(&delta).is_err() {
                    if let Some(key) = delta.key() {
                        failed.push(Failed { due: clock.now() + wait, wait, key, delta });
                        break;
                    }
                    if clock.sleep(wait, stop) {
                        return;
                    }
                    wait = (wait * 2).min(Self::RETRY[1]);
                }
            }
            let now = clock.now();
            failed.retain_mut(|f| {
                if f.due > now || apply(&f.delta).is_ok() {
                    return f.due > now;
                }
                f.wait = (f.wait * 2).min(Self::RETRY[1]);
                f.due = now + f.wait;
                true
            });
            if let Some(capacity) = shrink::target(failed.len(), failed.capacity()) {
                failed.shrink_to(capacity);
            }
        }
    }
}

/// A delta that waits to be tried again.
struct Failed<K> {
    due: Instant,
    wait: Duration,
    key: ObjectKey,
    delta: Delta<K>,
}

impl<K: Resource> Delta<K> {
    /// The object it is about, if it is about one.
    #[must_use]
    pub fn key(&self) -> Option<ObjectKey> {
        match self {
            Self::Upsert(object) => Some(object.key()),
            Self::Delete { key, .. } => Some(key.clone()),
            Self::Replace { .. } | Self::Bookmark(_) | Self::Resync => None,
        }
    }
}

impl<K> Clone for Fifo<K> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), receiver: self.receiver.clone() }
    }
}

impl<K> fmt::Debug for Fifo<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fifo").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};
    use std::sync::Mutex;
    use std::thread;

    use crossbeam_channel::unbounded;

    use super::super::testing::{Dice, object};
    use super::*;
    use crate::types::ConfigMap;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn upsert(text: &str) -> Delta<ConfigMap> {
        Delta::Upsert(object(text))
    }

    fn list(version: &str) -> Delta<ConfigMap> {
        let (items, unfit, resource_version) = (Vec::new(), Vec::new(), version.into());
        Delta::Replace { items, unfit, resource_version, went_back: false }
    }

    fn told(delta: &Delta<ConfigMap>) -> String {
        match delta {
            Delta::Upsert(object) => super::super::testing::text(object),
            Delta::Delete { key, .. } => format!("-{key}"),
            Delta::Replace { resource_version, .. } => format!("list {resource_version}"),
            Delta::Bookmark(version) => format!("bookmark {version}"),
            Delta::Resync => "resync".into(),
        }
    }

    /// Each informer has a channel with room for hundreds.
    #[test]
    fn a_delta_waits_in_two_words() {
        assert_eq!(size_of::<Parcel<ConfigMap>>(), 2 * size_of::<usize>());
    }

    #[test]
    fn what_goes_in_first_comes_out_first() {
        let (fifo, stop) = (Fifo::bounded(10), Stop::new());
        for delta in [upsert("a/x@1"), upsert("a/x@2"), list("3"), Delta::Bookmark("4".into()), Delta::Resync]
        {
            assert!(fifo.push(delta, &stop));
        }
        assert_eq!((fifo.len(), fifo.is_empty()), (5, false));
        let out: Vec<_> = (0..5).map(|_| told(&fifo.pop(&stop).unwrap())).collect();
        assert_eq!(out, ["a/x@1", "a/x@2", "list 3", "bookmark 4", "resync"]);
        assert!(fifo.is_empty());
    }

    #[test]
    fn a_full_queue_holds_the_reader_up() {
        let (fifo, stop) = (Fifo::bounded(2), Stop::new());
        let (pushed, pushes) = unbounded();
        let (filling, token) = (fifo.clone(), stop.clone());
        let fill = move || {
            for n in 0..5 {
                assert!(filling.push(upsert(&format!("a/x@{n}")), &token));
                pushed.send(n).unwrap();
            }
        };
        let thread = thread::Builder::new().spawn(fill).unwrap();
        for n in 0..5 {
            // Never more than the two that wait and the one that came out.
            assert!(fifo.len() <= 2 && pushes.len() <= n + 3);
            assert_eq!(told(&fifo.pop(&stop).unwrap()), format!("a/x@{n}"));
        }
        thread.join().unwrap();
    }

    #[test]
    fn stop_wakes_both_ends() {
        for full in [true, false] {
            let (fifo, stop) = (Fifo::bounded(1), Stop::new());
            if full {
                fifo.push(upsert("a/x@1"), &stop);
            }
            let (waiting, token) = (fifo.clone(), stop.clone());
            let wait = move || match full {
                true => !waiting.push(upsert("a/x@2"), &token),
                false => waiting.pop(&token).is_none(),
            };
            let thread = thread::Builder::new().spawn(wait).unwrap();
            stop.stop();
            assert!(thread.join().unwrap());
        }
    }

    /// `process` on a thread of its own, which fails on each delta until its name is allowed.
    struct Processing {
        fifo: Fifo<ConfigMap>,
        clock: Clock,
        stop: Stop,
        tries: crossbeam_channel::Receiver<String>,
        allow: crossbeam_channel::Sender<bool>,
        thread: thread::JoinHandle<()>,
    }

    fn process() -> Processing {
        let (fifo, clock, stop) = (Fifo::bounded(10), Clock::manual(), Stop::new());
        let (tried, tries) = unbounded();
        let (allow, allowed) = unbounded();
        let (taking, time, token) = (fifo.clone(), clock.clone(), stop.clone());
        let run = move || {
            taking.process(&time, &token, |delta| {
                tried.send(told(delta)).unwrap();
                if allowed.recv_timeout(PATIENCE).unwrap() { Ok(()) } else { Err(()) }
            });
        };
        let thread = thread::Builder::new().spawn(run).unwrap();
        Processing { fifo, clock, stop, tries, allow, thread }
    }

    impl Processing {
        /// The next delta must be this one, and succeeds or fails.
        #[track_caller]
        fn expect(&self, delta: &str, succeeds: bool) {
            assert_eq!(self.tries.recv_timeout(PATIENCE).unwrap(), delta);
            self.allow.send(succeeds).unwrap();
        }

        /// Lets the wait before the next try pass.
        fn wait_out(&self) -> Duration {
            self.clock.wait_for_timers(1);
            let wait = self.clock.next_timer().unwrap_or_default();
            self.clock.advance(wait);
            wait
        }

        fn push(&self, delta: Delta<ConfigMap>) {
            self.fifo.push(delta, &self.stop);
        }

        fn end(self) {
            self.stop.stop();
            self.thread.join().unwrap();
            assert!(self.tries.is_empty());
        }
    }

    #[test]
    fn a_delta_that_failed_is_tried_again_after_twice_the_time() {
        let run = process();
        run.push(upsert("a/x@1"));
        run.expect("a/x@1", false);
        let mut waits = Vec::new();
        for _ in 0..13 {
            waits.push(run.wait_out().as_millis());
            run.expect("a/x@1", false);
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10000, 10000]);
        run.wait_out();
        run.expect("a/x@1", true);
        run.push(upsert("a/y@2"));
        run.expect("a/y@2", true);
        assert_eq!(run.clock.next_timer(), None);
        run.end();
    }

    #[test]
    fn what_comes_later_is_not_held_up_by_an_object_that_failed() {
        let run = process();
        run.push(upsert("a/x@1"));
        run.expect("a/x@1", false);
        run.push(upsert("a/y@2"));
        run.expect("a/y@2", true);
        run.wait_out();
        run.expect("a/x@1", true);
        run.end();
    }

    #[test]
    fn a_newer_delta_takes_the_place_of_one_that_failed() {
        let run = process();
        run.push(upsert("a/x@1"));
        run.expect("a/x@1", false);
        run.push(upsert("a/x@2"));
        run.expect("a/x@2", false);
        run.push(Delta::Delete { key: "a/x".parse().unwrap(), object: None });
        run.expect("-a/x", true);
        run.push(upsert("a/y@3"));
        run.expect("a/y@3", true);
        run.clock.advance(Duration::from_secs(60));
        run.end();
    }

    #[test]
    fn a_list_takes_the_place_of_all_that_failed_and_a_bookmark_does_not() {
        let run = process();
        run.push(upsert("a/x@1"));
        run.expect("a/x@1", false);
        run.push(Delta::Bookmark("2".into()));
        run.expect("bookmark 2", true);
        run.wait_out();
        run.expect("a/x@1", false);
        run.push(list("3"));
        run.expect("list 3", false);
        // A list holds up what is behind it.
        run.push(upsert("a/y@4"));
        run.wait_out();
        run.expect("list 3", true);
        run.expect("a/y@4", true);
        run.clock.advance(Duration::from_secs(60));
        run.end();
    }

    /// Whatever fails and when, what was applied ends as if nothing had failed, and no object ever goes back.
    #[test]
    fn deltas_that_fail_at_random_end_as_a_naive_model_that_never_fails() {
        /// The last version applied of each object, 0 where it is gone, and of lists.
        #[derive(Clone, Default, PartialEq, Debug)]
        struct Model(BTreeMap<String, u64>);

        impl Model {
            fn apply(&mut self, delta: &Delta<ConfigMap>) -> Vec<(u64, u64)> {
                let mut steps = Vec::new();
                let mut set = |model: &mut Self, key: &str, version: u64| {
                    steps.push((model.0.insert(key.into(), version).unwrap_or(0), version));
                };
                match delta {
                    Delta::Upsert(o) => set(self, o.key().as_str(), o.resource_version().parse().unwrap()),
                    Delta::Delete { key, object: Some(o) } => {
                        set(self, key.as_str(), o.resource_version().parse().unwrap());
                    }
                    Delta::Replace { resource_version, .. } => {
                        let version = resource_version.parse().unwrap();
                        self.0.entry("list".into()).or_default();
                        for key in self.0.keys().cloned().collect::<Vec<_>>() {
                            set(self, &key, version);
                        }
                    }
                    _ => {}
                }
                steps
            }
        }

        for seed in 1..40 {
            let (fifo, clock, stop) = (Fifo::bounded(1000), Clock::manual(), Stop::new());
            let applied = Arc::new(Mutex::new(Model::default()));
            let (taking, time, token) = (fifo.clone(), clock.clone(), stop.clone());
            let (applying, mut chance, mut fails) = (applied.clone(), Dice(seed * 31), HashMap::new());
            let run = move || {
                taking.process(&time, &token, |delta| {
                    let left = fails.entry(format!("{delta:?}")).or_insert_with(|| chance.roll(4));
                    if *left > 0 {
                        *left -= 1;
                        return Err(());
                    }
                    for (before, now) in applying.lock().unwrap().apply(delta) {
                        assert!(before < now, "seed {seed}: {before} after {now}");
                    }
                    Ok(())
                });
            };
            let thread = thread::Builder::new().spawn(run).unwrap();
            let (mut dice, mut model) = (Dice(seed), Model::default());
            for version in 1..300 {
                let object = object(&format!("a/{}@{version}", dice.roll(5)));
                let delta = match dice.roll(12) {
                    0 => list(&version.to_string()),
                    1..4 => Delta::Delete { key: object.key(), object: Some(object) },
                    4 => Delta::Bookmark(version.to_string()),
                    _ => Delta::Upsert(object),
                };
                model.apply(&delta);
                assert!(fifo.push(delta, &stop));
                clock.advance(Duration::from_millis(dice.roll(8)));
            }
            let limit = Clock::system().deadline(PATIENCE);
            while *applied.lock().unwrap() != model {
                assert!(!thread.is_finished() && Clock::system().now() < limit, "seed {seed}");
                clock.advance(Duration::from_secs(10));
                thread::yield_now();
            }
            stop.stop();
            thread.join().unwrap();
        }
    }

    #[test]
    fn stop_ends_it_while_a_list_waits_to_be_tried_again() {
        let run = process();
        run.push(list("1"));
        run.expect("list 1", false);
        run.clock.wait_for_timers(1);
        run.end();
    }
}
