use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::limits::Limits;
use crate::object::Text;
use crate::shrink;
use crate::types::{Event, EventSeries, ObjectReference};

/// So long after the last repetition a series, or an event without any, is over: `finishTime` of client-go.
const FINISH: Duration = Duration::from_secs(6 * 60);
/// So often the server is told how long a series is by now: `refreshTime` of client-go.
const REFRESH: Duration = Duration::from_secs(30 * 60);
/// So often is an event tried, as in client-go.
const MOST_TRIES: u32 = 12;
/// So many events are remembered. client-go has no bound here.
const MOST: usize = 4096;

/// An event that happened, on its way to the thread.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) event: Event,
    pub(super) at: Instant,
}

/// What became of events that no server has.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// Those above the limit of their object.
    pub(super) limited: AtomicU64,
    /// All others.
    pub(super) dropped: AtomicU64,
}

impl Lost {
    pub(super) fn add(&self, amount: u64) {
        self.dropped.fetch_add(amount, Ordering::Relaxed);
    }
}

/// The events of the last minutes: which are repetitions, and what of it the server is to be told, and when. Knows of no
/// server and no thread.
#[derive(Debug, Default)]
pub(super) struct Book {
    entries: HashMap<Key, Entry>,
    limits: Limits,
    /// How many entries there were so far.
    count: u64,
}

/// What makes two events the same: `eventKey` of client-go, but without the object's resourceVersion: one that changes
/// all the time would have no series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    type_: Text,
    reason: Text,
    action: Text,
    regarding: Reference,
    related: Option<Reference>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reference {
    api_version: Text,
    kind: Text,
    namespace: Text,
    name: String,
    uid: String,
    field_path: String,
}

/// An event with its repetitions.
#[derive(Debug)]
struct Entry {
    /// Which one it is, in the order of their coming.
    number: u64,
    /// With its series, once it was repeated.
    event: Event,
    seen: Instant,
    /// What the server knows: 0 nothing, else how often it happened.
    written: i32,
    /// When the server is to be told, if it is to be told something.
    due: Instant,
    /// How often that was tried in vain.
    tries: u32,
}

impl Book {
    /// Takes an event. The one before it that it would repeat must have been [ended](Self::ended_by).
    pub(super) fn take(&mut self, told: Told, lost: &Lost) {
        let Told { event, at } = told;
        if self.entries.len() >= MOST {
            self.make_room();
        }
        let full = self.entries.len() >= MOST;
        match self.entries.entry(Key::of(&event)) {
            Place::Occupied(mut known) => known.get_mut().repeat(&event, at),
            Place::Vacant(_) if full => lost.add(1),
            Place::Vacant(_) if !self.limits.pass(&event, at) => {
                lost.limited.fetch_add(1, Ordering::Relaxed);
            }
            Place::Vacant(place) => {
                self.count += 1;
                place.insert(Entry { number: self.count, event, seen: at, written: 0, due: at, tries: 0 });
            }
        }
    }

    /// The event that this one would repeat if it were not over by then, and whether the server is to be told more of it.
    pub(super) fn ended_by(&self, told: &Told) -> Option<(Key, bool)> {
        let key = Key::of(&told.event);
        let entry = self.entries.get(&key).filter(|entry| entry.is_over(told.at))?;
        Some((key, entry.is_pending()))
    }

    /// When there is something to do next.
    pub(super) fn next(&self) -> Option<Instant> {
        self.entries.values().map(Entry::when).min()
    }

    /// What the server is to be told now, the oldest first. Forgets what is over and told.
    pub(super) fn due(&mut self, now: Instant) -> Option<Key> {
        self.entries.retain(|_, entry| entry.is_pending() || !entry.is_over(now));
        self.shrink();
        let due = self.entries.iter().filter(|(_, entry)| entry.is_pending() && entry.when() <= now);
        due.min_by_key(|(_, entry)| (entry.when(), entry.number)).map(|(key, _)| key.clone())
    }

    /// What the server was not told yet, the oldest first.
    pub(super) fn pending(&self) -> Vec<Key> {
        let mut pending: Vec<_> = self.entries.iter().filter(|(_, entry)| entry.is_pending()).collect();
        pending.sort_by_key(|(_, entry)| entry.number);
        pending.into_iter().map(|(key, _)| key.clone()).collect()
    }

    /// The event, and whether the server has it.
    pub(super) fn get(&self, key: &Key) -> Option<(&Event, bool)> {
        self.entries.get(key).map(|entry| (&entry.event, entry.written > 0))
    }

    /// The server has it as it is.
    pub(super) fn written(&mut self, key: &Key, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        (entry.written, entry.due, entry.tries) = (entry.count(), now + REFRESH, 0);
        if entry.is_over(now) {
            self.entries.remove(key);
        }
    }

    /// The server could not be told; to be tried again after this time.
    pub(super) fn failed(&mut self, key: &Key, again: Instant, lost: &Lost) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.tries += 1;
        entry.due = again;
        if entry.tries >= MOST_TRIES {
            self.give_up(key, lost);
        }
    }

    /// Forgets an event, which the server then does not get.
    pub(super) fn give_up(&mut self, key: &Key, lost: &Lost) {
        if let Some(entry) = self.entries.remove(key) {
            lost.add(u64::try_from(entry.count() - entry.written).unwrap_or_default());
        }
        self.shrink();
    }

    /// Forgets the one that was told longest ago.
    fn make_room(&mut self) {
        let told = self.entries.iter().filter(|(_, entry)| !entry.is_pending());
        if let Some(key) =
            told.min_by_key(|(_, entry)| (entry.seen, entry.number)).map(|(key, _)| key.clone())
        {
            self.entries.remove(&key);
        }
    }

    fn shrink(&mut self) {
        if let Some(capacity) = shrink::target(self.entries.len(), self.entries.capacity()) {
            self.entries.shrink_to(capacity);
        }
    }
}

impl Entry {
    fn repeat(&mut self, event: &Event, at: Instant) {
        let count = self.count().saturating_add(1);
        if count == 2 && self.written == 1 {
            self.due = at;
        }
        self.event.series = Some(EventSeries { count, last_observed_time: event.event_time });
        self.seen = at;
    }

    fn count(&self) -> i32 {
        self.event.series.as_ref().map_or(1, |series| series.count)
    }

    fn is_pending(&self) -> bool {
        self.written < self.count()
    }

    fn is_over(&self, now: Instant) -> bool {
        now >= self.seen + FINISH
    }

    /// When it is to be told or forgotten.
    fn when(&self) -> Instant {
        let over = self.seen + FINISH;
        match (self.is_pending(), self.tries) {
            (false, _) => over,
            (true, 0) => self.due.min(over),
            (true, _) => self.due,
        }
    }
}

impl Key {
    fn of(event: &Event) -> Self {
        Self {
            type_: event.type_.clone(),
            reason: event.reason.clone(),
            action: event.action.clone(),
            regarding: Reference::of(&event.regarding),
            related: event.related.as_deref().map(Reference::of),
        }
    }
}

impl Reference {
    fn of(reference: &ObjectReference) -> Self {
        let ObjectReference { api_version, kind, namespace, name, uid, resource_version: _, field_path } =
            reference.clone();
        Self { api_version, kind, namespace, name, uid, field_path }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::object::ObjectMeta;

    fn told(object: usize, at: Instant) -> Told {
        let regarding = ObjectReference { name: object.to_string(), ..ObjectReference::default() };
        Told { event: Event { metadata: ObjectMeta::named("x"), regarding, ..Event::default() }, at }
    }

    fn dropped(lost: &Lost) -> u64 {
        lost.dropped.load(Ordering::Relaxed)
    }

    #[test]
    fn what_the_server_has_makes_room_and_what_it_has_not_does_not() {
        let (mut book, lost, now) = (Book::default(), Lost::default(), Clock::system().now());
        (0..MOST + 10).for_each(|object| book.take(told(object, now), &lost));
        assert_eq!((book.entries.len(), dropped(&lost)), (MOST, 10));
        let first = book.due(now).unwrap();
        assert_eq!(book.get(&first).unwrap().0.regarding.name, "0", "the oldest is written first");
        book.written(&first, now);
        book.take(told(MOST + 20, now), &lost);
        assert_eq!((book.entries.len(), dropped(&lost)), (MOST, 10));
        assert!(book.get(&first).is_none());
    }

    #[test]
    fn an_event_is_given_up_after_twelve_tries() {
        let (mut book, lost, now) = (Book::default(), Lost::default(), Clock::system().now());
        book.take(told(0, now), &lost);
        book.take(told(0, now), &lost);
        let again = |tries: u32| now + Duration::from_secs(600) * tries;
        for tries in 0..12 {
            assert_eq!(dropped(&lost), 0);
            assert!(book.due(again(tries) - Duration::from_nanos(1)).is_none() || tries == 0);
            let key = book.due(again(tries)).unwrap();
            book.failed(&key, again(tries + 1), &lost);
        }
        assert_eq!((book.next(), dropped(&lost)), (None, 2));
    }

    #[test]
    fn what_is_over_is_forgotten_with_its_memory() {
        let (mut book, lost, now) = (Book::default(), Lost::default(), Clock::system().now());
        (0..MOST).for_each(|object| book.take(told(object, now), &lost));
        for key in book.pending() {
            book.written(&key, now);
        }
        assert_eq!(book.next(), Some(now + FINISH));
        assert!(book.due(now + FINISH).is_none());
        assert!(book.entries.is_empty() && book.entries.capacity() < MOST / 8);
    }
}
