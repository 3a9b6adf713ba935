//! How an elector fares, for other threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use log::{debug, warn};

use super::election::Election;
use super::expiry::Expiry;
use crate::cache::seldom::Seldom;
use crate::error::Error;

/// How an elector fares: a snapshot.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LeaderStatus {
    /// Whether it leads: from before its callback is called until that has returned, or the term is over by the clock.
    pub leading: bool,
    /// Whom the Lease named when it was last seen; `None` is nobody.
    pub leader: Option<String>,
    /// How often the Lease went to another holder, as it says itself.
    pub transitions: i32,
    /// How many terms of this elector have begun.
    pub terms: u64,
    /// How many times it has written the Lease to hold it.
    pub renewals: u64,
    /// When the request was sent that last did.
    pub last_renewal: Option<Instant>,
    /// Requests that failed, conflicts among them.
    pub errors: u64,
    /// The last of these, and when it was: a role that is missing, a namespace that does not exist.
    pub last_error: Option<(Instant, String)>,
}

/// What the threads of an elector and those that ask share.
#[derive(Debug, Default)]
pub(super) struct Board {
    /// Locks held for a moment; of these two never both.
    posted: Mutex<Posted>,
    /// Taken for a run, of which there is one at a time.
    seat: Mutex<Seat>,
}

#[derive(Debug, Default)]
struct Posted {
    status: LeaderStatus,
    term: Option<Arc<Expiry>>,
    warned: Seldom,
}

/// What is kept from one run to the next.
#[derive(Debug, Default)]
pub(super) struct Seat {
    pub(super) taken: bool,
    pub(super) election: Option<Election>,
}

impl Board {
    fn edit(&self) -> MutexGuard<'_, Posted> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn seat(&self) -> MutexGuard<'_, Seat> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn status(&self) -> LeaderStatus {
        let (mut status, term) = {
            let posted = self.edit();
            (posted.status.clone(), posted.term.clone())
        };
        status.leading = term.is_some_and(|term| !term.is_over());
        status
    }

    pub(super) fn is_leader(&self) -> bool {
        let term = self.edit().term.clone();
        term.is_some_and(|term| !term.is_over())
    }

    pub(super) fn leader(&self) -> Option<String> {
        self.edit().status.leader.clone()
    }

    pub(super) fn begins(&self, term: &Arc<Expiry>) {
        let mut posted = self.edit();
        posted.status.terms += 1;
        posted.term = Some(term.clone());
    }

    pub(super) fn ended(&self) {
        self.edit().term = None;
    }

    /// Notes whom the Lease names. Returns who that is, if it is another one than before.
    pub(super) fn saw(&self, election: &Election) -> Option<String> {
        let mut posted = self.edit();
        posted.status.transitions = election.transitions();
        if posted.status.leader.as_deref() == election.holder() {
            return None;
        }
        posted.status.leader = election.holder().map(Into::into);
        posted.status.leader.clone()
    }

    pub(super) fn renewed(&self, started: Instant) {
        let mut posted = self.edit();
        posted.status.renewals += 1;
        posted.status.last_renewal = Some(started);
    }

    /// Notes an error, and logs one a minute; that another candidate was faster is nothing to warn of.
    pub(super) fn failed(&self, error: &Error, now: Instant) {
        let passed = {
            let mut posted = self.edit();
            posted.status.errors += 1;
            posted.status.last_error = Some((now, error.to_string()));
            if posted.term.is_none() && (error.is_already_exists() || error.is_conflict()) {
                drop(posted);
                debug!(target: "listwatch::leader", "another one was faster: {error}");
                return;
            }
            posted.warned.pass(now)
        };
        match passed {
            Some(0) => warn!(target: "listwatch::leader", "{error}"),
            Some(more) => {
                warn!(target: "listwatch::leader", "{error} (and {more} other errors in the last minutes)")
            }
            None => {}
        }
    }
}
