//! What a candidate does next: a state machine without I/O and threads, tried in `simulation`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::expiry::Expiry;
use crate::clock::Clock;
use crate::object::MicroTime;
use crate::types::LeaseSpec;

/// The three durations of an election.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub(super) lease: Duration,
    pub(super) renew: Duration,
    pub(super) retry: Duration,
}

/// What is asked of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Read,
    /// Only if there is none.
    Create(LeaseSpec),
    /// Only if the Lease is as it was when it was last read or written.
    Write(LeaseSpec),
}

/// What became of it.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// The Lease as it is, or as it was written.
    Lease(LeaseSpec),
    /// There is none.
    Missing,
    /// A refusal, or it is not known: a write may have been done, or may be yet.
    Failed,
}

/// A candidate. One request is under way at a time.
#[derive(Debug)]
pub(super) struct Election {
    identity: String,
    timing: Timing,
    clock: Clock,
    /// What the Lease said last, and when that was first seen here.
    seen: Option<(LeaseSpec, Instant)>,
    /// The `acquireTime` that this candidate wrote last. A record with its identity and another time is that of somebody
    /// else who took the same identity, or of this program before it was started anew.
    claim: Option<MicroTime>,
    /// Whether a write that would take the Lease may have been done without our knowledge.
    unsure: bool,
    /// Whether the request under way is a renewal without a look before.
    fast: bool,
    /// The last term. It is over when it says so, and does not begin again.
    term: Option<Arc<Expiry>>,
}

impl Election {
    pub(super) fn new(identity: &str, timing: Timing, clock: &Clock) -> Self {
        let (identity, clock) = (identity.to_owned(), clock.clone());
        Self { identity, timing, clock, seen: None, claim: None, unsure: false, fast: false, term: None }
    }

    pub(super) fn set_timing(&mut self, timing: Timing) {
        self.timing = timing;
    }

    /// Who holds the Lease, as far as it is known; `None` is nobody.
    pub(super) fn holder(&self) -> Option<&str> {
        self.seen.as_ref().and_then(|(record, _)| holder(record))
    }

    /// How often the Lease went to another holder.
    pub(super) fn transitions(&self) -> i32 {
        self.seen.as_ref().and_then(|(record, _)| record.lease_transitions).unwrap_or(0)
    }

    /// The term, while it lasts.
    pub(super) fn term(&self) -> Option<&Arc<Expiry>> {
        self.term.as_ref().filter(|term| !term.is_over())
    }

    /// Begins a try: to acquire, or to renew within a term. `wall` is what is written into the Lease.
    pub(super) fn begin(&mut self, wall: MicroTime) -> Request {
        self.fast = self.term().is_some();
        if self.fast { self.write(wall) } else { Request::Read }
    }

    /// Takes the answer to a request that was sent at `started`. Returns what to ask next in this try.
    ///
    /// A write that was done within a term makes it longer; outside, it begins a term.
    pub(super) fn answered(
        &mut self,
        request: &Request,
        started: Instant,
        answer: Answer,
        wall: MicroTime,
    ) -> Option<Request> {
        let fast = std::mem::take(&mut self.fast);
        match (request, answer) {
            (Request::Read, Answer::Lease(record)) => {
                self.observe(record);
                self.may_take().then(|| self.write(wall))
            }
            (Request::Read, Answer::Missing) => {
                self.unsure = false;
                self.may_take().then(|| Request::Create(self.record(wall, 0)))
            }
            (Request::Read, Answer::Failed) => None,
            (_, Answer::Lease(record)) => {
                self.observe(record);
                self.hold(started + self.timing.renew);
                None
            }
            (_, _) => {
                self.unsure = true;
                fast.then_some(Request::Read)
            }
        }
    }

    /// Begins to give the Lease up, with `None`, or goes on with the answer to what was asked for that. The term is over.
    /// Returns what to ask next.
    pub(super) fn release(&mut self, last: Option<(&Request, Answer)>, wall: MicroTime) -> Option<Request> {
        if let Some(term) = &self.term {
            term.end();
        }
        let ask = match last {
            None => self.unsure,
            Some((_, Answer::Lease(record))) => {
                self.observe(record);
                false
            }
            Some((Request::Write(_), Answer::Failed)) => true,
            Some(_) => return None,
        };
        if ask {
            return Some(Request::Read);
        }
        let (record, _) = self.seen.as_ref().filter(|(record, _)| self.is_ours(record))?;
        Some(Request::Write(LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            acquire_time: Some(wall),
            renew_time: Some(wall),
            ..record.clone()
        }))
    }

    /// Notes what the Lease says. Only a change counts: what times it names are of another's clock.
    fn observe(&mut self, record: LeaseSpec) {
        self.unsure = false;
        if self.seen.as_ref().is_none_or(|(last, _)| *last != record) {
            self.seen = Some((record, self.clock.now()));
        }
        let lost = self.seen.as_ref().is_some_and(|(record, _)| !self.is_ours(record));
        if let Some(term) = self.term.as_ref().filter(|_| lost) {
            term.end();
        }
    }

    /// Whether the Lease may be ours: it is, it is nobody's, or its holder has not renewed it for as long as it says.
    fn may_take(&self) -> bool {
        let Some((record, at)) = &self.seen else { return true };
        let valid = record
            .lease_duration_seconds
            .map_or(self.timing.lease, |seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
        holder(record).is_none() || self.is_ours(record) || self.clock.now() >= *at + valid
    }

    fn is_ours(&self, record: &LeaseSpec) -> bool {
        holder(record) == Some(&*self.identity) && self.claim.is_some() && record.acquire_time == self.claim
    }

    fn write(&mut self, wall: MicroTime) -> Request {
        let transitions = self.transitions().saturating_add(1);
        Request::Write(self.record(wall, transitions))
    }

    /// A record of ours: a renewed one, or one that takes the Lease.
    fn record(&mut self, mut wall: MicroTime, transitions: i32) -> LeaseSpec {
        let last = self.seen.as_ref().map(|(record, _)| record);
        // Others must see a change even if our wall clock stands still.
        if last.is_some_and(|last| last.renew_time == Some(wall)) {
            wall = MicroTime::from_unix_micros(wall.unix_micros().saturating_add(1));
        }
        let ours = last.filter(|last| self.is_ours(last)).cloned();
        let (acquired, transitions) = match ours {
            Some(ours) => (ours.acquire_time, ours.lease_transitions),
            None => (Some(wall), Some(transitions)),
        };
        self.claim = acquired;
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(self.timing.lease.as_secs()).unwrap_or(i32::MAX)),
            acquire_time: acquired,
            renew_time: Some(wall),
            lease_transitions: transitions,
            ..LeaseSpec::default()
        }
    }

    /// The Lease is ours since before a request was sent: so until then nobody else may take it, by his own clock.
    fn hold(&mut self, until: Instant) {
        // Something between us and the server may have written another holder.
        if !self.seen.as_ref().is_some_and(|(record, _)| self.is_ours(record)) {
            return;
        }
        match &self.term {
            Some(term) => drop(term.extend(until)),
            None => self.term = Some(Expiry::new(&self.clock, until)),
        }
    }

    /// Makes room for another term.
    pub(super) fn stand(&mut self) {
        self.term = None;
    }
}

fn holder(record: &LeaseSpec) -> Option<&str> {
    record.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_names_another_holder_begins_no_term() {
        let [lease, renew, retry] = [15, 10, 2].map(Duration::from_secs);
        let clock = Clock::manual();
        let mut election = Election::new("a", Timing { lease, renew, retry }, &clock);
        let wall = MicroTime::from_unix_micros(1);
        let read = election.begin(wall);
        let Some(create) = election.answered(&read, clock.now(), Answer::Missing, wall) else {
            panic!("nothing to do");
        };
        let Request::Create(mut record) = create.clone() else { panic!("{create:?}") };
        record.holder_identity = Some("b".into());
        assert_eq!(election.answered(&create, clock.now(), Answer::Lease(record), wall), None);
        assert!(election.term().is_none());
        assert_eq!(election.holder(), Some("b"));
    }
}
