use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::hash::KeyHash;
use crate::clock::Clock;
use crate::metrics::{Event, Recorder};

/// Notes when items come and go (cold, so that a queue without one is as fast as it was), as client-go's `util/workqueue/metrics.go`, for a queue that reports.
pub(super) struct Meter<T> {
    pub(super) report: Report,
    clock: Clock,
    /// When items were added that nobody has taken since.
    added: HashMap<T, Instant, KeyHash>,
    /// When items were taken that are worked on.
    taken: HashMap<T, Instant, KeyHash>,
    /// What is to be told once the queue's lock is free.
    notes: Vec<Note>,
}

/// Whom to tell.
#[derive(Clone)]
pub(super) struct Report {
    pub(super) name: Arc<str>,
    pub(super) recorder: Arc<dyn Recorder>,
}

#[derive(Clone, Copy)]
pub(super) enum Note {
    Added,
    Retried,
    Taken { waited: Duration, taken: Instant },
    Done { taken: Instant, worked: Duration },
}

impl<T: Clone + Eq + Hash> Meter<T> {
    pub(super) fn new(report: Report, clock: Clock) -> Self {
        let (added, taken) = (HashMap::default(), HashMap::default());
        Self { report, clock, added, taken, notes: Vec::new() }
    }

    #[cold]
    pub(super) fn added(&mut self, item: &T) {
        self.added.insert(item.clone(), self.clock.now());
        self.notes.push(Note::Added);
    }

    #[cold]
    pub(super) fn retried(&mut self) {
        self.notes.push(Note::Retried);
    }

    #[cold]
    pub(super) fn taken(&mut self, item: &T) {
        let taken = self.clock.now();
        // One that was there before the queue reported was never told as added.
        let Some(added) = self.added.remove(item) else { return };
        self.taken.insert(item.clone(), taken);
        self.notes.push(Note::Taken { waited: taken.saturating_duration_since(added), taken });
    }

    #[cold]
    pub(super) fn done(&mut self, item: &T) {
        if let Some(taken) = self.taken.remove(item) {
            let worked = self.clock.now().saturating_duration_since(taken);
            self.notes.push(Note::Done { taken, worked });
        }
    }

    /// What is to be told.
    pub(super) fn notes(&mut self) -> Option<(Report, Vec<Note>)> {
        (!self.notes.is_empty()).then(|| (self.report.clone(), std::mem::take(&mut self.notes)))
    }
}

impl Report {
    pub(super) fn tell(&self, notes: &[Note]) {
        let queue = &*self.name;
        for note in notes {
            self.recorder.record(&match *note {
                Note::Added => Event::QueueAdded { queue },
                Note::Retried => Event::QueueRetried { queue },
                Note::Taken { waited, taken } => Event::QueueTaken { queue, waited, taken },
                Note::Done { taken, worked } => Event::QueueDone { queue, taken, worked },
            });
        }
    }
}

/// What is in the queue is no more.
impl<T> Drop for Meter<T> {
    fn drop(&mut self) {
        let (queue, now) = (&*self.report.name, self.clock.now());
        self.report.recorder.record(&Event::QueueDropped { queue, items: self.added.len() });
        for taken in self.taken.values() {
            let worked = now.saturating_duration_since(*taken);
            self.report.recorder.record(&Event::QueueDone { queue, taken: *taken, worked });
        }
    }
}
