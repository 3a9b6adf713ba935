//! What a [`Reflector`] does: lists, then watches, then what follows each failure. A state machine with its waits.

mod initial;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use log::{info, warn};

use super::fifo::Delta;
use super::health::Activity;
use super::list_watch::Events;
use super::reflector::{ListMode, Reflector, Sink};
use super::version::{is_behind, is_position};
use crate::backoff::Backoff;
use crate::client::WatchParams;
use crate::error::{Error, Result, Unfit};
use crate::metrics::Event;
use crate::object::{Packer, Resource};
use crate::stop::Stop;
use crate::wire::{Bookmark, WatchEvent};

/// A watch that ends sooner than this is a failure, or a server that ends each at once would be asked without pause.
const LONG_ENOUGH: Duration = Duration::from_secs(1);

/// So many lists whose version has expired before anything came, and pages are too slow for this server.
const MOST_STILLBORN: u32 = 2;
/// A server that was restored goes back once. Versions that do so twice in this time are in no order …
const ONCE_IN: Duration = Duration::from_secs(10 * 60);
/// … and are not compared for so long: it may have been two restores.
const NOT_COMPARED: Duration = Duration::from_secs(60 * 60);
/// So many events of one read are told at once.
const MOST_HELD: usize = 32;

/// What one run remembers.
pub(super) struct Run<'a, K, S> {
    reflector: &'a Reflector<K>,
    sink: &'a mut S,
    stop: &'a Stop,
    packer: Packer,
    backoff: Backoff,
    mode: ListMode,
    /// The version to go on from; empty is none.
    version: String,
    /// Whether nothing has come since the last list.
    fresh: bool,
    /// Whether a list must not ask for a version that was seen, as the server may not have it.
    from_latest: bool,
    /// Whether the server may have been restored from an older state, which a version does not tell by itself.
    doubt: bool,
    /// Whether it was, or seems to have been: then an object may have another content at a version that is known.
    restored: bool,
    /// When the version of an event was last behind the one before.
    went_back: Option<Instant>,
    /// Until when versions are taken to be in no order.
    unordered: Option<Instant>,
    /// When the list that is made now was begun.
    began: Option<Instant>,
    /// When the last list was finished.
    listed: Option<Instant>,
    /// Whether the next list is for its own sake: nothing is known to be missed.
    due: bool,
    /// Whether the server was asked for its version in vain: the next watch does not wait for that.
    unanswered: bool,
    /// How often in a row the server or what it sent ended a watch at this version: there it may never go on.
    stuck: u32,
    /// When a version was last found to be too old.
    expired: Option<Instant>,
    /// How many lists in a row had expired before anything came: pages that take too long.
    stillborn: u32,
    /// The sink has had enough.
    ended: bool,
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

/// What is called seldom or runs for long is not inlined: frames of all of it at once would lie on the stack of each
/// idle informer.
impl<'a, K: Resource, S: Sink<K>> Run<'a, K, S> {
    pub(super) fn new(reflector: &'a Reflector<K>, sink: &'a mut S, stop: &'a Stop) -> Self {
        Self {
            reflector,
            sink,
            stop,
            packer: Packer::new(),
            backoff: Backoff::new(),
            mode: reflector.mode,
            version: String::new(),
            fresh: false,
            from_latest: false,
            doubt: false,
            restored: false,
            went_back: None,
            unordered: None,
            began: None,
            listed: None,
            due: false,
            unanswered: false,
            stuck: 0,
            expired: None,
            stillborn: 0,
            ended: false,
        }
    }

    /// Goes on until stopped, or until the sink has had enough.
    pub(super) fn until_stopped(mut self) {
        loop {
            let goes_on = catch_unwind(AssertUnwindSafe(|| self.cycle())).unwrap_or_else(|_| {
                let panicked = Error::decode("code of the type or of the source panicked");
                !self.fail(&panicked, "lists anew")
            });
            if !goes_on {
                break;
            }
        }
    }

    /// One list with the watches behind it. `false` is the end.
    fn cycle(&mut self) -> bool {
        let due = std::mem::take(&mut self.due);
        self.began = Some(self.reflector.clock.now());
        self.reflector.record(|reflector| Event::ListBegins { reflector });
        let (mut events, mut again, mut overdue) = match self.initial() {
            Ok(events) => (events, false, false),
            Err(_) if self.ended || self.stop.is_stopped() => return false,
            // What is kept may be right, and is not to fall behind for want of a list. That is tried again with the end
            // of the next watch.
            Err(e) if due && !self.restored && !is_unusable(&e) => {
                if self.fail(&e, "watches again from where it stood") {
                    return false;
                }
                self.doubt = true;
                (None, true, true)
            }
            Err(e) => return self.note_list_failure(e),
        };
        loop {
            if again && !std::mem::take(&mut overdue) && self.is_list_due() {
                self.due = true;
                return true;
            }
            let start = self.reflector.clock.now();
            let next = match events.take() {
                Some(events) => self.follow(events, start),
                None => match self.resume(again) {
                    Ok(events) => self.follow(events, start),
                    Err(e) => self.classify(e),
                },
            };
            again = true;
            match next {
                _ if self.stop.is_stopped() => return false,
                Next::End => return false,
                Next::Watch => {}
                Next::WatchLater(e) => {
                    self.doubt = true;
                    if self.fail(&e, "watches again from where it stood") {
                        return false;
                    }
                }
                Next::List(e) => {
                    self.from_latest = is_unusable(&e) || self.restored;
                    self.stillborn = if self.fresh && e.is_expired() { self.stillborn + 1 } else { 0 };
                    // A version that is too old is nothing unusual, unless it was that of the list, or comes again at
                    // once.
                    let now = self.reflector.clock.now();
                    let rare = self.expired.is_none_or(|last| now >= last + LONG_ENOUGH);
                    if e.is_expired() && !self.fresh && rare {
                        self.expired = Some(now);
                        info!(target: "listwatch::cache", "lists anew: {}", self.reflector.named(&e));
                        return true;
                    }
                    return !self.fail(&e, "lists anew");
                }
            }
        }
    }

    /// Whether it is time to list anew though nothing was missed.
    fn is_list_due(&self) -> bool {
        let (every, listed) = (self.reflector.relist_every, self.listed);
        let now = self.reflector.clock.now();
        every.zip(listed).is_some_and(|(every, listed)| now.saturating_duration_since(listed) >= every)
    }

    /// Watches from the version that was reached; `again` if a watch before it has ended.
    #[inline(never)]
    fn resume(&mut self, again: bool) -> Result<Events<K>> {
        if self.doubt && self.is_ordered() {
            match self.compare_with_server() {
                Ok(()) => (self.unanswered, self.doubt) = (false, false),
                // A server that watches but does not list now must not keep the watch away for long.
                Err(_) if self.unanswered && !self.restored => {}
                Err(e) => {
                    self.unanswered = true;
                    return Err(e);
                }
            }
        }
        let events = self.open(self.reflector.watch_params().resource_version(&self.version))?;
        self.reflector.vitals.edit().reconnects += u64::from(again);
        Ok(events)
    }

    /// A server that was restored from an older state would take a watch from a version in its future, and tell
    /// nothing until it gets there.
    fn compare_with_server(&mut self) -> Result<()> {
        self.asks();
        let current = self.reflector.source.current_version(&self.reflector.list_params(), self.stop);
        match current {
            Ok(Some(current)) if is_behind(&current, &self.version) => Err(self.restored_to(&current)),
            // Who may not ask, watches.
            Err(e) if e.code().is_none_or(|code| code == 429 || code >= 500) => {
                Err(e.context("asks for its version"))
            }
            _ => Ok(()),
        }
    }

    fn restored_to(&mut self, version: &str) -> Error {
        self.restored = true;
        let from = &self.version;
        Error::decode(format!(
            "the server went back from version {from} to {version}, as one that was restored from a backup"
        ))
    }

    fn is_ordered(&self) -> bool {
        self.unordered.is_none_or(|until| self.reflector.clock.now() >= until)
    }

    /// What it means that an event is older than the one before it. The second time a list is made, too: there may have
    /// been two restores.
    fn went_back_to(&mut self, version: &str) -> Error {
        let now = self.reflector.clock.now();
        let twice = self.went_back.is_some_and(|last| now < last + ONCE_IN);
        self.went_back = Some(now);
        if twice {
            self.unordered = Some(now + NOT_COMPARED);
            let name = self.reflector.describe();
            warn!(target: "listwatch::cache", "{name}: versions go back and forth, and are not compared for an hour");
        }
        self.restored_to(version)
    }

    fn open(&self, params: WatchParams) -> Result<Events<K>> {
        self.asks();
        let events = self.reflector.source.watch(&params, self.stop)?;
        self.reflector.vitals.edit().watches += 1;
        Ok(events)
    }

    fn follow(&mut self, events: Events<K>, start: Instant) -> Next {
        let reflector = self.reflector;
        if reflector.recorder.is_none() {
            return self.take(events, start);
        }
        let before = reflector.vitals.edit().events;
        reflector.record(|reflector| Event::WatchBegins { reflector });
        let next = self.take(events, start);
        let events = reflector.vitals.edit().events - before;
        let took = reflector.clock.now().saturating_duration_since(start);
        reflector.record(|reflector| Event::WatchEnded { reflector, events, took });
        next
    }

    /// Takes the events of one watch to its end.
    #[inline(never)]
    fn take(&mut self, mut events: Events<K>, start: Instant) -> Next {
        self.activity(Activity::Watching);
        let mut quiet = true;
        let mut held = Vec::new();
        let end = loop {
            // Told before a read that may wait. Those that came in one read go on with one waking of the thread that
            // applies, which costs as much as decoding one.
            if (events.size_hint().0 == 0 || held.len() >= MOST_HELD) && !self.tell(&mut held) {
                return Next::End;
            }
            let Some(event) = events.next() else { break None };
            quiet = false;
            let reflector = self.reflector;
            let bookmark = matches!(event, Ok(WatchEvent::Bookmark(_)));
            let made = match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    let version = object.resource_version().to_owned();
                    reflector
                        .made_to_keep(object, &mut self.packer)
                        .map(|object| (version, Delta::Upsert(object)))
                }
                Ok(WatchEvent::Deleted(object)) => {
                    let (version, key) = (object.resource_version().to_owned(), object.key());
                    // Deleted it is, whatever the transform says. Not packed, as nobody keeps it.
                    let object = reflector.transformed(object).map(Arc::new);
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
                    let Some(unfit) = e.unfit() else { break Some(self.classify(e)) };
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
                if is_behind(&version, &self.version) && self.is_ordered() {
                    break Some(Next::List(self.went_back_to(&version)));
                }
                self.version = version;
            } else if matches!(delta, Delta::Bookmark(_)) {
                continue;
            }
            self.progress(bookmark);
            held.push(delta);
        };
        if !self.tell(&mut held) {
            return Next::End;
        }
        if let Some(next) = end {
            return next;
        }
        // With bookmarks a watch brings something, however quiet its objects are.
        self.doubt |= quiet;
        let lasted = self.reflector.clock.now().saturating_duration_since(start);
        if lasted < LONG_ENOUGH {
            return Next::WatchLater(Error::decode("the server ended the watch at once"));
        }
        Next::Watch
    }

    /// Gives what is held to the sink. Whether that takes more.
    fn tell(&mut self, held: &mut Vec<Delta<K>>) -> bool {
        if !held.is_empty() {
            let resource_version = &*self.version;
            self.reflector.record(|reflector| Event::Progress { reflector, resource_version });
        }
        self.ended = !held.drain(..).all(|delta| self.sink.push(delta));
        !self.ended
    }

    fn progress(&mut self, bookmark: bool) {
        (self.fresh, self.stuck, self.stillborn) = (false, 0, 0);
        let now = self.reflector.clock.now();
        let mut health = self.reflector.vitals.edit();
        health.events += 1;
        health.last_progress = Some(now);
        let kind = if bookmark { &mut health.last_bookmark } else { &mut health.last_event };
        *kind = Some(now);
        health.resource_version.clone_from(&self.version);
    }

    /// What a watch that failed means.
    fn classify(&mut self, e: Error) -> Next {
        if is_unusable(&e) || e.is_not_found() || self.restored || self.version.is_empty() {
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
        self.from_latest |= is_unusable(&e) || self.restored;
        !self.fail(&e, "lists again")
    }

    /// Writes a failure down and waits. Returns whether it was stopped meanwhile.
    #[inline(never)]
    fn fail(&mut self, e: &Error, next: &str) -> bool {
        let reflector = self.reflector;
        let now = reflector.clock.now();
        let wait = self.backoff.after_failure(now);
        warn!(target: "listwatch::cache", "{}; {next} in {wait:.1?}", reflector.named(e));
        reflector.tell(e);
        self.activity(Activity::BackingOff);
        // A server that says how long is not asked before that, if it is no more than a minute.
        let asked = e.status().and_then(|status| status.retry_after()).unwrap_or_default();
        reflector.clock.sleep(wait.max(asked.min(Duration::from_secs(60))), self.stop)
    }

    /// Notes that the server is asked for something now.
    fn asks(&self) {
        self.reflector.vitals.edit().last_attempt = Some(self.reflector.clock.now());
    }

    fn listing(&self, items: u64, remaining: Option<u64>) {
        self.reflector.vitals.listing(items, remaining, self.reflector.clock.now());
    }

    fn activity(&self, activity: Activity) {
        self.reflector.vitals.edit().activity = activity;
    }
}

/// Writes down an object that does not fit its type; `None` if the error is about something else.
fn note_unfit<K: Resource>(reflector: &Reflector<K>, e: &Error) -> Option<Unfit> {
    let unfit = e.unfit()?.clone();
    if let Some(unsaid) = reflector.vitals.unfit(reflector.clock.now()) {
        let more = if unsaid > 0 {
            format!(", as with {unsaid} more since this was last said")
        } else {
            String::new()
        };
        warn!(target: "listwatch::cache", "{}: {e}; the cache keeps what it had of it{more}", reflector.describe());
    }
    reflector.tell(e);
    Some(unfit)
}

/// Whether a version is too old or too new for the server: it is not asked for again.
fn is_unusable(e: &Error) -> bool {
    e.is_expired() || e.is_too_large_resource_version()
}
