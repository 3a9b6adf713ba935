use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select};

use crate::clock::Clock;
use crate::object::{ObjectKey, Resource};
use crate::stop::Stop;

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
        /// Objects that are there, but in a form that does not fit `K`: their last good version stays.
        unfit: Vec<ObjectKey>,
        /// The version of the list.
        resource_version: String,
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
pub struct Fifo<K> {
    sender: Sender<Delta<K>>,
    receiver: Receiver<Delta<K>>,
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
            send(self.sender, delta) -> sent => sent.is_ok(),
            recv(stop.signal()) -> _ => false,
        }
    }

    /// Takes the first delta. Blocks while the queue is empty; `None` once stopped.
    pub fn pop(&self, stop: &Stop) -> Option<Delta<K>> {
        select! {
            recv(self.receiver) -> delta => delta.ok(),
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
    pub(super) fn receiver(&self) -> &Receiver<Delta<K>> {
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
                recv(self.receiver) -> delta => delta.ok(),
                recv(timer.channel()) -> _ => None,
                recv(stop.signal()) -> _ => return,
            };
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
