//! How a [`Run`] gets the present state: pages, or a stream of initial events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use log::{debug, info, warn};

use super::super::fifo::Delta;
use super::super::list_watch::Events;
use super::super::reflector::{ListMode, PAGE, Reflector, Sink};
use super::super::store::is_same_version;
use super::super::version::{is_behind, is_position};
use super::{MOST_STILLBORN, Run, is_unusable, note_unfit};
use crate::error::{Error, Result, Unfit};
use crate::metrics::Event;
use crate::object::{Packer, Resource};
use crate::wire::{Bookmark, WatchEvent};

/// So long a stream of initial events may bring nothing but changes of what it has brought.
const LONGEST_WITHOUT_NEW: Duration = Duration::from_secs(60);

impl<K: Resource, S: Sink<K>> Run<'_, K, S> {
    /// The present state, given to the sink; in the mode of a stream, also the rest of that stream.
    #[inline(never)]
    pub(super) fn initial(&mut self) -> Result<Option<Events<K>>> {
        self.listing(0, None);
        self.reflector.vitals.edit().mode = self.mode;
        match self.mode {
            ListMode::WatchList => match self.watch_list() {
                Ok(events) => Ok(Some(events)),
                Err(e) if self.ended || self.stop.is_stopped() || self.restored => Err(e),
                Err(e) if !self.from_latest && is_unusable(&e) => Err(e),
                // A server that fails may know streams, and is asked for one again with the next list. So may one that
                // finds a version unusable where none was asked for.
                Err(e) if is_unusable(&e) || e.code().is_some_and(|code| code >= 500) => {
                    info!(target: "listwatch::cache", "lists in pages this time: {}", self.reflector.named(&e));
                    self.list(PAGE).map(|()| None)
                }
                Err(e) if is_passing(&e) => Err(e),
                Err(e) => {
                    info!(target: "listwatch::cache", "lists in pages from now on: {}", self.reflector.named(&e));
                    self.mode = ListMode::default();
                    self.initial()
                }
            },
            // Pages that take longer than the server remembers are had in one piece.
            ListMode::Paged(_) if self.stillborn >= MOST_STILLBORN => self.list(0).map(|()| None),
            ListMode::Paged(limit) => self.list(limit).map(|()| None),
            ListMode::Cached => self.list(0).map(|()| None),
        }
    }

    /// Lists in pages of `limit` objects, 0 for all in one answer.
    #[inline(never)]
    fn list(&mut self, limit: u32) -> Result<()> {
        let reflector = self.reflector;
        let mut params = reflector.list_params().limit(limit);
        if self.mode == ListMode::Cached && !self.from_latest {
            params = params.resource_version(if self.version.is_empty() { "0" } else { &self.version });
        }
        let (mut items, mut unfit, restored) = (Vec::new(), Vec::new(), self.restored);
        let (mut again, mut all) = (true, None::<u64>);
        // Pages are of one state, whose version each bears. Where they are not, the first misses nothing.
        let mut version = None;
        loop {
            self.asks();
            let (sink, packer) = (&*self.sink, &mut self.packer);
            let listed = reflector.source.list(&params, self.stop, &mut |item| {
                match item.and_then(|object| keep_known(reflector, sink, object, restored, packer)) {
                    Ok(object) => items.push(object),
                    Err(e) => unfit.push(note_listed(reflector, e)?),
                }
                let items = items.len() as u64;
                let remaining = all.map(|all| all.saturating_sub(items));
                reflector.vitals.listing(items, remaining, reflector.clock.now());
                Ok(())
            });
            match listed {
                Ok(meta) if !is_position(&meta.resource_version) => {
                    return Err(no_version());
                }
                Ok(meta) if meta.continue_token.is_empty() => {
                    return self.replace(items, unfit, version.unwrap_or(meta.resource_version));
                }
                Ok(meta) if meta.continue_token == params.continue_token => {
                    return Err(Error::decode("the server gives the same page again"));
                }
                Ok(meta) => {
                    let so_far = items.len() as u64;
                    all = meta.remaining_item_count.map(|remaining| so_far.saturating_add(remaining));
                    self.listing(so_far, meta.remaining_item_count);
                    params = params.continue_token(meta.continue_token);
                    version.get_or_insert(meta.resource_version);
                }
                // The state that the pages are of is gone: once more, in one piece.
                Err(e) if e.is_expired() && !params.continue_token.is_empty() && again => {
                    debug!(target: "listwatch::cache", "lists in one piece: {}", reflector.named(&e));
                    params = reflector.list_params();
                    (again, all, version) = (false, None, None);
                    items.clear();
                    unfit.clear();
                    self.listing(0, None);
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Lists as a stream.
    #[inline(never)]
    fn watch_list(&mut self) -> Result<Events<K>> {
        let reflector = self.reflector;
        let from = if self.from_latest { "" } else { &self.version };
        let params = reflector.watch_params().initial_events().resource_version(from);
        let mut events = self.open(params)?;
        let (mut items, mut unfit) = (BTreeMap::new(), BTreeMap::new());
        let mut grew = reflector.clock.now();
        for event in &mut events {
            // Changes keep coming where somebody swallows the bookmark at the end.
            if reflector.clock.now().saturating_duration_since(grew) > LONGEST_WITHOUT_NEW {
                return Err(Error::decode("the stream brings nothing new and does not say that it was all"));
            }
            let upsert = match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    keep_known(reflector, &*self.sink, object, self.restored, &mut self.packer)
                }
                Ok(WatchEvent::Deleted(object)) => {
                    items.remove(&object.key());
                    unfit.remove(&object.key());
                    continue;
                }
                Ok(WatchEvent::Bookmark(Bookmark { resource_version, initial_events_end: true })) => {
                    if !is_position(&resource_version) {
                        return Err(no_version());
                    }
                    let (items, unfit) = (items.into_values().collect(), unfit.into_values().collect());
                    self.replace(items, unfit, resource_version)?;
                    return Ok(events);
                }
                Ok(WatchEvent::Bookmark(_)) => continue,
                Err(e) => Err(e),
            };
            match upsert {
                Ok(object) => {
                    unfit.remove(&object.key());
                    if items.insert(object.key(), object).is_none() {
                        grew = reflector.clock.now();
                    }
                }
                Err(e) => {
                    let object = note_listed(reflector, e)?;
                    if object.deleted {
                        items.remove(&object.key);
                        unfit.remove(&object.key);
                    } else {
                        unfit.insert(object.key.clone(), object);
                    }
                }
            }
            self.listing(items.len() as u64, None);
        }
        Err(Error::decode("the stream ended before it said that it was all"))
    }

    fn replace(&mut self, items: Vec<Arc<K>>, unfit: Vec<Unfit>, version: String) -> Result<()> {
        if !self.restored && self.is_ordered() && is_behind(&version, &self.version) {
            // What was kept in it for its version may have another content in this history: listed again without trust.
            return Err(self.restored_to(&version));
        }
        let count = items.len();
        let name = self.reflector.describe();
        debug!(target: "listwatch::cache", "{name}: listed {count} at {version}");
        if !unfit.is_empty() {
            let unfit = unfit.len();
            warn!(
                target: "listwatch::cache",
                "{name}: {unfit} objects of a list do not fit the type and are as they last were, or not there; {count} do"
            );
        }
        let went_back = self.restored;
        self.version.clone_from(&version);
        (self.from_latest, self.stuck, self.doubt, self.restored) = (false, 0, false, false);
        let now = self.reflector.clock.now();
        self.listed = Some(now);
        let took = self.began.map_or(Duration::ZERO, |began| now.saturating_duration_since(began));
        let resource_version = &*self.version;
        self.reflector.record(|reflector| Event::Listed { reflector, items: count, took, resource_version });
        {
            let mut health = self.reflector.vitals.edit();
            health.lists += 1;
            (health.last_progress, health.last_list) = (Some(now), Some(now));
            health.resource_version.clone_from(&version);
        }
        self.ended = !self.sink.push(Delta::Replace { items, unfit, resource_version: version, went_back });
        if self.ended {
            return Err(Error::stopped());
        }
        self.fresh = true;
        self.reflector.vitals.edit().synced = true;
        Ok(())
    }
}

/// The object, or the same version of it where that is kept already and versions can be trusted.
fn keep_known<K: Resource>(
    reflector: &Reflector<K>,
    sink: &impl Sink<K>,
    object: K,
    restored: bool,
    packer: &mut Packer,
) -> Result<Arc<K>> {
    let known = if restored { None } else { sink.known(&object) };
    let known = known.filter(|known| is_same_version(&**known, &object));
    known.map_or_else(|| reflector.made_to_keep(object, packer), Ok)
}

/// The same for an object of a list, which may be a failure of the list.
fn note_listed<K: Resource>(reflector: &Reflector<K>, e: Error) -> Result<Unfit> {
    if reflector.strict {
        return Err(e);
    }
    note_unfit(reflector, &e).ok_or(e)
}

/// Whether a stream of initial events that failed so may be had by asking again.
fn is_passing(e: &Error) -> bool {
    e.is_connect() || e.is_io() || e.is_too_many_requests()
}

fn no_version() -> Error {
    Error::decode("the list has no resourceVersion, so it cannot be watched")
}
