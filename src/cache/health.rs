use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::reflector::ListMode;
use super::seldom::Seldom;
use crate::error::Error;

/// What an informer does at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activity {
    /// It has not been started.
    Idle,
    /// It lists, and has got so many objects.
    Listing {
        /// Objects so far.
        items: u64,
        /// How many are to come, as the server has said with the last page; it does not with selectors.
        remaining: Option<u64>,
    },
    /// It watches from the version it has reached.
    Watching,
    /// It waits before it tries again; see [`Health::last_error`].
    BackingOff,
    /// It has ended.
    Stopped,
}

/// How an informer fares: a snapshot.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// What it does now.
    pub activity: Activity,
    /// How it lists: as it was told, or in pages where the server cannot stream.
    pub mode: ListMode,
    /// Whether a first list has been applied.
    pub synced: bool,
    /// The version that reading has reached; empty before the first list.
    pub resource_version: String,
    /// Lists that were finished.
    pub lists: u64,
    /// Watches that were opened.
    pub watches: u64,
    /// Watches among them that went on from where one before had ended or failed, without a list.
    pub reconnects: u64,
    /// Events that were read, bookmarks among them.
    pub events: u64,
    /// When the last event or bookmark came, or the last list was finished.
    pub last_progress: Option<Instant>,
    /// When an object of a list last came, or the server was last asked for anything: a page of a list, a watch, its version.
    pub last_attempt: Option<Instant>,
    /// When the last event came that was no bookmark.
    pub last_event: Option<Instant>,
    /// When the last list was finished.
    pub last_list: Option<Instant>,
    /// When the last bookmark came.
    pub last_bookmark: Option<Instant>,
    /// Failures so far.
    pub errors: u64,
    /// The last failure, and when it was.
    pub last_error: Option<(Instant, String)>,
    /// Objects that came in a form that does not fit the type.
    pub unfit: u64,
    /// Deltas that wait to be applied; 0 of a bare reflector.
    pub waiting: usize,
    /// The handlers by name, and how many notifications wait for each; none of a bare reflector.
    pub handlers: Vec<(String, usize)>,
}

impl Health {
    /// How long ago the server was last asked or last said something; zero before the start. While reading lives that
    /// is less than [`silence`](super::Reflector::silence) (four minutes by default) and a minute of backing off, for a
    /// server that is down too, where a restart of the program would not help: so compare it with, say, six minutes in
    /// a liveness probe. Whether the cache is fresh, [`last_progress`](Self::last_progress) tells.
    #[must_use]
    pub fn quiet(&self, now: Instant) -> Duration {
        let last = self.last_attempt.max(self.last_progress);
        last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last))
    }
}

/// Where a reflector writes down how it fares.
#[derive(Debug)]
pub(super) struct Vitals {
    health: Mutex<Health>,
    /// Whether the log was told of objects that do not fit, of which there may be thousands.
    unfit: Mutex<Seldom>,
}

impl Vitals {
    pub(super) fn new() -> Self {
        let health = Health {
            activity: Activity::Idle,
            mode: ListMode::default(),
            synced: false,
            resource_version: String::new(),
            lists: 0,
            watches: 0,
            reconnects: 0,
            events: 0,
            last_progress: None,
            last_attempt: None,
            last_event: None,
            last_list: None,
            last_bookmark: None,
            errors: 0,
            last_error: None,
            unfit: 0,
            waiting: 0,
            handlers: Vec::new(),
        };
        Self { health: Mutex::new(health), unfit: Mutex::default() }
    }

    pub(super) fn snapshot(&self) -> Health {
        self.edit().clone()
    }

    /// Notes that a list has come so far, or is asked for.
    pub(super) fn listing(&self, items: u64, remaining: Option<u64>, now: Instant) {
        let mut health = self.edit();
        health.activity = Activity::Listing { items, remaining };
        health.last_attempt = Some(now);
    }

    /// Held for a moment only, and with no other lock.
    pub(super) fn edit(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an object that does not fit; says whether to log it, and how many were not since the last.
    pub(super) fn unfit(&self, now: Instant) -> Option<u64> {
        self.edit().unfit += 1;
        self.unfit.lock().unwrap_or_else(PoisonError::into_inner).pass(now)
    }

    pub(super) fn failed(&self, error: &Error, now: Instant) {
        let mut health = self.edit();
        health.errors += 1;
        health.last_error = Some((now, error.to_string()));
    }
}
