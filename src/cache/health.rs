use std::fmt;
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

/// How all informers of a factory or a controller fare: a snapshot, fit for the probes of a pod.
///
/// Prints a line for each informer: what is amiss, or that it is well.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fitness {
    /// What each informer is of, `pods in "default"`, and how it fares.
    pub informers: Vec<(String, Health)>,
    /// When this was.
    pub at: Instant,
    /// How long an informer may be [quiet](Health::quiet) before its thread is taken to hang: two minutes more than
    /// [`InformerFactory::silence`](super::InformerFactory::silence), six by default.
    pub limit: Duration,
}

impl Fitness {
    /// For a readiness probe: whether each informer has a first list and has not ended. Not of a factory without
    /// informers, nor of a controller that does not run: what is to be ready without leading
    /// [starts its informers](crate::Controller::start) before that.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.informers.is_empty() && self.informers.iter().all(|(_, health)| unready(health).is_none())
    }

    /// For a liveness probe: whether none has been silent beyond its limit, so that a restart would help. A server that
    /// is down does no harm here, nor does an informer that was not started or has been stopped.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.informers.iter().all(|(_, health)| self.hangs(health).is_none())
    }

    fn hangs(&self, health: &Health) -> Option<Duration> {
        let ended = matches!(health.activity, Activity::Stopped | Activity::Idle);
        Some(health.quiet(self.at)).filter(|quiet| !ended && *quiet > self.limit)
    }
}

/// What keeps it from being ready.
fn unready(health: &Health) -> Option<&'static str> {
    match health.activity {
        Activity::Stopped => Some("has ended"),
        Activity::Idle => Some("was not started"),
        _ if !health.synced => Some("has no first list yet"),
        _ => None,
    }
}

impl fmt::Display for Fitness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.informers.is_empty() {
            return f.write_str("no informer runs\n");
        }
        for (name, health) in &self.informers {
            match (self.hangs(health), unready(health), &health.last_error) {
                (Some(quiet), ..) => writeln!(f, "{name}: silent for {quiet:.0?}")?,
                (None, Some(why), Some((_, error))) => writeln!(f, "{name}: {why}: {error}")?,
                (None, Some(why), None) => writeln!(f, "{name}: {why}")?,
                (None, None, _) => writeln!(f, "{name}: ok")?,
            }
        }
        Ok(())
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
