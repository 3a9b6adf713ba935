use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use log::{debug, error, info, warn};

use super::fifo::{Delta, Fifo};
use super::health::{Activity, Health, Vitals};
use super::list_watch::{Events, ListWatch};
use super::store::{Store, is_same_version};
use crate::backoff::Backoff;
use crate::client::{ListParams, WatchParams};
use crate::clock::Clock;
use crate::error::{Error, Result, Unfit};
use crate::object::{ObjectKey, Resource};
use crate::stop::Stop;
use crate::wire::{Bookmark, WatchEvent};

/// How the present state is had, before changes to it are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListMode {
    /// A consistent list in pages of so many objects. Works everywhere, and needs the memory of little more than one
    /// object beside the cache.
    Paged(u32),
    /// As a stream of events (`sendInitialEvents`), from the server's watch cache but as fresh as a consistent list.
    /// Falls back to pages for good where the server does not know it.
    WatchList,
    /// The state of the server's watch cache in one answer (`resourceVersion=0`): the cheapest for the server, but
    /// it may be behind, after a restart even behind what this program has seen.
    Cached,
}

impl Default for ListMode {
    fn default() -> Self {
        Self::Paged(500)
    }
}

/// Where a [`Reflector`] puts what it reads.
pub trait Sink<K> {
    /// Takes a delta; may block, to slow the reader down. `false` ends the reflector.
    fn push(&mut self, delta: Delta<K>) -> bool;

    /// The object of this key as it is kept already. A list that finds the same version again keeps that one, so that
    /// listing anew does not need the memory of the cache once more.
    fn known(&self, key: &ObjectKey) -> Option<Arc<K>> {
        let _ = key;
        None
    }
}

/// Any function that takes deltas is a sink that never ends the reflector.
impl<K, F: FnMut(Delta<K>)> Sink<K> for F {
    fn push(&mut self, delta: Delta<K>) -> bool {
        self(delta);
        true
    }
}

/// A FIFO in front of a store.
pub(super) struct FifoSink<'a, K> {
    pub(super) fifo: &'a Fifo<K>,
    pub(super) store: &'a Store<K>,
    pub(super) stop: &'a Stop,
}

impl<K: Resource> Sink<K> for FifoSink<'_, K> {
    fn push(&mut self, delta: Delta<K>) -> bool {
        self.fifo.push(delta, self.stop)
    }

    fn known(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.store.get(key)
    }
}

/// A watch that ends sooner than this is a failure, or a server that ends each at once would be asked without pause.
const LONG_ENOUGH: Duration = Duration::from_secs(1);

/// So many lists whose version has expired before anything came, and pages are too slow for this server.
const MOST_STILLBORN: u32 = 2;
/// So long a stream of initial events may bring nothing but changes of what it has brought.
const LONGEST_WITHOUT_NEW: Duration = Duration::from_secs(60);

type OnError = Arc<dyn Fn(&Error) + Send + Sync>;
type Transform<K> = Arc<dyn Fn(K) -> K + Send + Sync>;

/// Lists and then watches, for ever, and makes [`Delta`]s of it: the part of an informer that speaks to the server.
///
/// What goes wrong is handled as client-go's reflector does (`tools/cache/reflector.go`): a version that is too old
/// is listed anew; one that lies in the server's future is listed from the latest; a connection that fails, or a
/// server that asks for time, is waited for and the watch goes on from where it stood. Waits are 0.8 s doubled up to
/// 30 s with jitter. Only a [`Stop`] or its sink ends it.
pub struct Reflector<K> {
    source: Arc<dyn ListWatch<K>>,
    /// What the source says it is of.
    name: String,
    clock: Clock,
    mode: ListMode,
    labels: String,
    fields: String,
    silence: Option<Duration>,
    on_error: Option<OnError>,
    transform: Option<Transform<K>>,
    vitals: Arc<Vitals>,
}

/// How a watch ended, and so what is next.
enum Next {
    /// Stopped, or the sink has had enough.
    End,
    /// Watch again from where it stood, at once.
    Watch,
    /// Watch again after a while.
    WatchLater(Error),
    /// The version is too old, or in doubt.
    List(Error),
}

/// What one run remembers.
struct Run<'a, K, S> {
    reflector: &'a Reflector<K>,
    sink: &'a mut S,
    stop: &'a Stop,
    backoff: Backoff,
    mode: ListMode,
    /// The version to go on from; empty is none.
    version: String,
    /// Whether nothing has come since the last list.
    fresh: bool,
    /// Whether a list must not ask for a version that was seen, as the server may not have it.
    from_latest: bool,
    /// How often in a row the server or what it sent ended a watch at this version: there it may never go on.
    stuck: u32,
    /// When a version was last found to be too old.
    expired: Option<Instant>,
    /// How many lists in a row had expired before anything came: pages that take too long.
    stillborn: u32,
    /// The sink has had enough.
    ended: bool,
}

impl<K: Resource> Reflector<K> {
    /// A reflector of what can be listed and watched here.
    pub fn new(source: impl ListWatch<K>) -> Self {
        Self::with_source(Arc::new(source))
    }

    pub(super) fn with_source(source: Arc<dyn ListWatch<K>>) -> Self {
        Self {
            name: source.describe(),
            clock: source.clock(),
            source,
            mode: ListMode::default(),
            labels: String::new(),
            fields: String::new(),
            silence: None,
            on_error: None,
            transform: None,
            vitals: Arc::new(Vitals::new()),
        }
    }

    /// Where its time comes from, if not from where its source's does.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// How the present state is had.
    #[must_use]
    pub fn mode(mut self, mode: ListMode) -> Self {
        self.mode = mode;
        self
    }

    /// Only objects whose labels match, in lists and watches.
    #[must_use]
    pub fn labels(mut self, selector: impl ToString) -> Self {
        self.labels = selector.to_string();
        self
    }

    /// Only objects whose fields match, in lists and watches. With `metadata.name=x` a role that is limited to that
    /// name is enough.
    #[must_use]
    pub fn fields(mut self, selector: impl ToString) -> Self {
        self.fields = selector.to_string();
        self
    }

    /// Within which time a dead connection is found: one that is not made, brings no answer, or goes silent in a list
    /// or a watch. Reading then goes on from where it stood, without a list. By default ten seconds for a connection,
    /// the client's [timeout](crate::Config::timeout) for an answer and in a list, and under four minutes in a watch.
    ///
    /// Watches of a quiet resource last no longer than that, so a short time costs the server a request each time.
    #[must_use]
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = Some(silence);
        self
    }

    /// Called with each failure, on the thread that reads; the reflector goes on all the same.
    #[must_use]
    pub fn on_error(mut self, f: impl Fn(&Error) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Arc::new(f));
        self
    }

    /// Changes each object before it is kept: to drop what the program does not need. Must keep the metadata. An
    /// object that it panics on counts as one that does not fit the type.
    #[must_use]
    pub fn transform(mut self, f: impl Fn(K) -> K + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(f));
        self
    }

    /// The version that reading has reached; empty before the first list.
    #[must_use]
    pub fn last_sync_resource_version(&self) -> String {
        self.vitals.edit().resource_version.clone()
    }

    /// How it fares.
    #[must_use]
    pub fn health(&self) -> Health {
        self.vitals.snapshot()
    }

    pub(super) fn time(&self) -> &Clock {
        &self.clock
    }

    pub(super) fn describe(&self) -> &str {
        &self.name
    }

    /// Lists and watches on this thread until stopped, or until the sink ends it. Returns within a moment once
    /// stopped, whatever it waits for.
    pub fn run(&self, stop: &Stop, sink: &mut impl Sink<K>) {
        let mut run = Run {
            reflector: self,
            sink,
            stop,
            backoff: Backoff::new(),
            mode: self.mode,
            version: String::new(),
            fresh: false,
            from_latest: false,
            stuck: 0,
            expired: None,
            stillborn: 0,
            ended: false,
        };
        loop {
            let goes_on = catch_unwind(AssertUnwindSafe(|| run.cycle())).unwrap_or_else(|_| {
                let panicked = Error::decode("code of the type or of the source panicked");
                !run.fail(&panicked, "lists anew")
            });
            if !goes_on {
                break;
            }
        }
        self.vitals.edit().activity = Activity::Stopped;
    }

    fn transformed(&self, object: K) -> Result<Arc<K>> {
        let Some(transform) = &self.transform else { return Ok(Arc::new(object)) };
        let unfit = Unfit {
            kind: "object".into(),
            key: object.key(),
            uid: object.uid().to_owned(),
            resource_version: object.resource_version().to_owned(),
            deleted: false,
        };
        let transformed = catch_unwind(AssertUnwindSafe(|| transform(object)));
        transformed.map(Arc::new).map_err(|_| Error::unfit_object(unfit, "the transform panicked on it"))
    }

    fn tell(&self, e: &Error) {
        self.vitals.failed(e, self.clock.now());
        let told = self.on_error.as_ref().map(|f| catch_unwind(AssertUnwindSafe(|| f(e))));
        if let Some(Err(_)) = told {
            error!(target: "listwatch::cache", "{}: on_error panicked", self.describe());
        }
    }

    fn list_params(&self) -> ListParams {
        ListParams { silence: self.silence, ..ListParams::default() }
            .labels(&self.labels)
            .fields(&self.fields)
    }

    fn watch_params(&self) -> WatchParams {
        WatchParams { silence: self.silence, ..WatchParams::default() }
            .labels(&self.labels)
            .fields(&self.fields)
    }
}

impl<K: Resource, S: Sink<K>> Run<'_, K, S> {
    /// One list with the watches behind it. `false` is the end.
    fn cycle(&mut self) -> bool {
        let mut events = match self.initial() {
            Ok(events) => events,
            Err(_) if self.ended || self.stop.is_stopped() => return false,
            Err(e) => return self.note_list_failure(e),
        };
        loop {
            let start = self.reflector.clock.now();
            let next = match events.take() {
                Some(events) => self.follow(events, start),
                None => match self.open(self.reflector.watch_params().resource_version(&self.version)) {
                    Ok(events) => self.follow(events, start),
                    Err(e) => self.classify(e),
                },
            };
            match next {
                _ if self.stop.is_stopped() => return false,
                Next::End => return false,
                Next::Watch => {}
                Next::WatchLater(e) => {
                    if self.fail(&e, "watches again from where it stood") {
                        return false;
                    }
                }
                Next::List(e) => {
                    self.from_latest = e.is_expired() || e.is_too_large_resource_version();
                    self.stillborn = if self.fresh && e.is_expired() { self.stillborn + 1 } else { 0 };
                    // A version that is too old is nothing unusual, unless it was that of the list, or comes again at
                    // once.
                    let now = self.reflector.clock.now();
                    let rare = self.expired.is_none_or(|last| now >= last + LONG_ENOUGH);
                    if e.is_expired() && !self.fresh && rare {
                        self.expired = Some(now);
                        info!(target: "listwatch::cache", "{}: lists anew: {e}", self.reflector.describe());
                        return true;
                    }
                    return !self.fail(&e, "lists anew");
                }
            }
        }
    }

    /// The present state, given to the sink; in the mode of a stream, also the rest of that stream.
    fn initial(&mut self) -> Result<Option<Events<K>>> {
        {
            let mut health = self.reflector.vitals.edit();
            (health.activity, health.mode) = (Activity::Listing { items: 0, remaining: None }, self.mode);
        }
        match self.mode {
            ListMode::WatchList => match self.watch_list() {
                Err(e) if self.mode != ListMode::WatchList => {
                    info!(target: "listwatch::cache", "{}: lists in pages from now on: {e}", self.reflector.describe());
                    self.initial()
                }
                listed => listed.map(Some),
            },
            // Pages that take longer than the server remembers are had in one piece.
            ListMode::Paged(_) if self.stillborn >= MOST_STILLBORN => self.list(0).map(|()| None),
            ListMode::Paged(limit) => self.list(limit).map(|()| None),
            ListMode::Cached => self.list(0).map(|()| None),
        }
    }

    /// Lists in pages of `limit` objects, 0 for all in one answer.
    fn list(&mut self, limit: u32) -> Result<()> {
        let reflector = self.reflector;
        let mut params = reflector.list_params().limit(limit);
        if self.mode == ListMode::Cached && !self.from_latest {
            params = params.resource_version(if self.version.is_empty() { "0" } else { &self.version });
        }
        let (mut items, mut unfit) = (Vec::new(), Vec::new());
        let (mut again, mut all) = (true, None::<u64>);
        loop {
            let sink = &*self.sink;
            let listed = reflector.source.list(&params, self.stop, &mut |item| {
                match item.and_then(|object| keep_known(reflector, sink, object)) {
                    Ok(object) => items.push(object),
                    Err(e) => unfit.push(note_unfit(reflector, &e).ok_or(e)?),
                }
                if items.len() % 1000 == 0 {
                    let items = items.len() as u64;
                    let remaining = all.map(|all| all.saturating_sub(items));
                    reflector.vitals.edit().activity = Activity::Listing { items, remaining };
                }
                Ok(())
            });
            match listed {
                Ok(meta) if !is_position(&meta.resource_version) => {
                    return Err(no_version());
                }
                Ok(meta) if meta.continue_token.is_empty() => {
                    return self.replace(items, unfit, meta.resource_version);
                }
                Ok(meta) if meta.continue_token == params.continue_token => {
                    return Err(Error::decode("the server gives the same page again"));
                }
                Ok(meta) => {
                    let so_far = items.len() as u64;
                    all = meta.remaining_item_count.map(|remaining| so_far.saturating_add(remaining));
                    let (items, remaining) = (so_far, meta.remaining_item_count);
                    reflector.vitals.edit().activity = Activity::Listing { items, remaining };
                    params = params.continue_token(meta.continue_token);
                }
                // The state that the pages are of is gone: once more, in one piece.
                Err(e) if e.is_expired() && !params.continue_token.is_empty() && again => {
                    debug!(target: "listwatch::cache", "{}: lists in one piece: {e}", reflector.describe());
                    params = reflector.list_params();
                    again = false;
                    items.clear();
                    unfit.clear();
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Lists as a stream. After a failure that does not pass by itself, a silent server's too, the mode is pages.
    fn watch_list(&mut self) -> Result<Events<K>> {
        let reflector = self.reflector;
        let from = if self.from_latest { "" } else { &self.version };
        let params = reflector.watch_params().initial_events().resource_version(from);
        let listed = self.open(params).and_then(|mut events| {
            let (mut items, mut unfit) = (BTreeMap::new(), BTreeMap::new());
            let mut grew = reflector.clock.now();
            for event in &mut events {
                // Changes keep coming where somebody swallows the bookmark at the end.
                if reflector.clock.now().saturating_duration_since(grew) > LONGEST_WITHOUT_NEW {
                    return Err(Error::decode(
                        "the stream brings nothing new and does not say that it was all",
                    ));
                }
                let upsert = match event {
                    Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                        keep_known(reflector, &*self.sink, object)
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
                        let object = note_unfit(reflector, &e).ok_or(e)?;
                        if object.deleted {
                            items.remove(&object.key);
                            unfit.remove(&object.key);
                        } else {
                            unfit.insert(object.key.clone(), object);
                        }
                    }
                }
            }
            Err(Error::decode("the stream ended before it said that it was all"))
        });
        listed.inspect_err(|e| {
            let passing = e.is_connect() || e.is_io() || e.is_too_many_requests() || e.is_expired();
            if !passing && !e.is_too_large_resource_version() && !self.ended && !self.stop.is_stopped() {
                self.mode = ListMode::default();
            }
        })
    }

    fn replace(&mut self, items: Vec<Arc<K>>, unfit: Vec<Unfit>, version: String) -> Result<()> {
        let count = items.len();
        debug!(target: "listwatch::cache", "{}: listed {count} at {version}", self.reflector.describe());
        self.version.clone_from(&version);
        (self.from_latest, self.stuck) = (false, 0);
        let now = self.reflector.clock.now();
        {
            let mut health = self.reflector.vitals.edit();
            health.lists += 1;
            (health.last_progress, health.last_list) = (Some(now), Some(now));
            health.resource_version.clone_from(&version);
        }
        self.ended = !self.sink.push(Delta::Replace { items, unfit, resource_version: version });
        if self.ended {
            return Err(Error::stopped());
        }
        self.fresh = true;
        self.reflector.vitals.edit().synced = true;
        Ok(())
    }

    fn open(&self, params: WatchParams) -> Result<Events<K>> {
        let events = self.reflector.source.watch(&params, self.stop)?;
        self.reflector.vitals.edit().watches += 1;
        Ok(events)
    }

    /// Takes the events of one watch to its end.
    fn follow(&mut self, events: Events<K>, start: Instant) -> Next {
        self.activity(Activity::Watching);
        for event in events {
            let reflector = self.reflector;
            let bookmark = matches!(event, Ok(WatchEvent::Bookmark(_)));
            let made = match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    let version = object.resource_version().to_owned();
                    reflector.transformed(object).map(|object| (version, Delta::Upsert(object)))
                }
                Ok(WatchEvent::Deleted(object)) => {
                    let (version, key) = (object.resource_version().to_owned(), object.key());
                    // Deleted it is, whatever the transform says.
                    let object = reflector.transformed(object);
                    let object = object.inspect_err(|e| drop(note_unfit(reflector, e))).ok();
                    Ok((version, Delta::Delete { key, object }))
                }
                Ok(WatchEvent::Bookmark(Bookmark { resource_version, .. })) => {
                    Ok((resource_version.clone(), Delta::Bookmark(resource_version)))
                }
                Err(e) => Err(e),
            };
            let (version, delta) = match made {
                Ok(made) => made,
                Err(e) => {
                    note_unfit(reflector, &e);
                    let Some(unfit) = e.unfit() else { return self.classify(e) };
                    let version = unfit.resource_version.clone();
                    let delta = match unfit.deleted {
                        true => Delta::Delete { key: unfit.key.clone(), object: None },
                        false => Delta::Bookmark(version.clone()),
                    };
                    (version, delta)
                }
            };
            // From no version, or any, a watch would begin anew, and miss what was deleted.
            if is_position(&version) {
                self.version = version;
            } else if matches!(delta, Delta::Bookmark(_)) {
                continue;
            }
            self.progress(bookmark);
            if !self.sink.push(delta) {
                self.ended = true;
                return Next::End;
            }
        }
        let lasted = self.reflector.clock.now().saturating_duration_since(start);
        if lasted < LONG_ENOUGH {
            return Next::WatchLater(Error::decode("the server ended the watch at once"));
        }
        Next::Watch
    }

    fn progress(&mut self, bookmark: bool) {
        (self.fresh, self.stuck, self.stillborn) = (false, 0, 0);
        let now = self.reflector.clock.now();
        let mut health = self.reflector.vitals.edit();
        health.events += 1;
        health.last_progress = Some(now);
        if bookmark {
            health.last_bookmark = Some(now);
        }
        health.resource_version.clone_from(&self.version);
    }

    /// What a watch that failed means.
    fn classify(&mut self, e: Error) -> Next {
        if e.is_expired() || e.is_too_large_resource_version() || e.is_not_found() || self.version.is_empty()
        {
            return Next::List(e);
        }
        // What cannot be read the second time will not be read the third; a server may mend itself for a while.
        let patience = match e.code() {
            Some(400 | 405 | 406 | 422) => 0,
            Some(401 | 403 | 429) => u32::MAX,
            Some(_) => 3,
            None if e.is_decode() || e.is_limit() => 1,
            None => u32::MAX,
        };
        let again = self.stuck < patience;
        self.stuck = self.stuck.saturating_add(u32::from(patience < u32::MAX));
        if again { Next::WatchLater(e) } else { Next::List(e) }
    }

    fn note_list_failure(&mut self, e: Error) -> bool {
        // A version that the server does not have is not asked for again.
        self.from_latest |= e.is_expired() || e.is_too_large_resource_version();
        !self.fail(&e, "lists again")
    }

    /// Writes a failure down and waits. Returns whether it was stopped meanwhile.
    fn fail(&mut self, e: &Error, next: &str) -> bool {
        let reflector = self.reflector;
        let now = reflector.clock.now();
        let wait = self.backoff.after_failure(now);
        warn!(target: "listwatch::cache", "{}: {e}; {next} in {wait:.1?}", reflector.describe());
        reflector.tell(e);
        self.activity(Activity::BackingOff);
        // A server that says how long is not asked before that.
        let asked = e.status().and_then(|status| status.retry_after()).unwrap_or_default();
        reflector.clock.sleep(wait.max(asked.min(Duration::from_secs(60))), self.stop)
    }

    fn activity(&self, activity: Activity) {
        self.reflector.vitals.edit().activity = activity;
    }
}

/// The object, or the same version of it where that is kept already.
fn keep_known<K: Resource>(reflector: &Reflector<K>, sink: &impl Sink<K>, object: K) -> Result<Arc<K>> {
    let known = sink.known(&object.key());
    known.filter(|known| is_same_version(&**known, &object)).map_or_else(|| reflector.transformed(object), Ok)
}

/// Writes down an object that does not fit its type; `None` if the error is about something else.
fn note_unfit<K: Resource>(reflector: &Reflector<K>, e: &Error) -> Option<Unfit> {
    let unfit = e.unfit()?.clone();
    warn!(target: "listwatch::cache", "{}: {e}; its last good version stays", reflector.describe());
    reflector.vitals.edit().unfit += 1;
    reflector.tell(e);
    Some(unfit)
}

/// Whether a watch can go on from this version: not from none, nor from `0`, which is any.
fn is_position(version: &str) -> bool {
    !matches!(version, "" | "0")
}

fn no_version() -> Error {
    Error::decode("the list has no resourceVersion, so it cannot be watched")
}

impl<K> fmt::Debug for Reflector<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector").field("mode", &self.mode).finish_non_exhaustive()
    }
}
