//! A run of an elector: acquire, hold while the callback runs, release.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use log::{error, info, warn};

use super::election::{Answer, Election, Request};
use super::expiry::Expiry;
use super::lock::Desk;
use super::{Ended, LeaderElector};
use crate::backoff::Jitter;
use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::object::MicroTime;
use crate::stop::Stop;
use crate::sync::select;

/// Waits between tries to acquire are longer by up to so many times their length, as client-go's `JitterFactor` says.
const JITTER: f64 = 1.2;

/// So often it is tried to give the Lease up: it runs out by itself.
const MOST_RELEASES: usize = 3;

/// One run. While it lives no other run of the elector begins.
pub(super) struct Run<'a> {
    elector: &'a LeaderElector,
    clock: Clock,
    desk: Desk,
    election: Election,
}

impl<'a> Run<'a> {
    pub(super) fn new(elector: &'a LeaderElector) -> Result<Self> {
        let (lock, timing) = (&elector.lock, elector.timing);
        let clock = elector.client.clock().clone();
        let mut seat = elector.board.seat();
        if seat.taken {
            return Err(Error::invalid(format!("the elector of {} runs already", elector.name())));
        }
        seat.taken = true;
        let mut election =
            seat.election.take().unwrap_or_else(|| Election::new(&lock.identity, timing, &clock));
        election.set_timing(timing);
        drop(seat);
        Ok(Self { elector, clock, desk: Desk::new(&elector.client, lock), election })
    }

    /// Acquires, calls `work`, gives the Lease up.
    pub(super) fn run<T>(&mut self, stop: &Stop, work: impl FnOnce(&Stop) -> T) -> Result<Ended<T>> {
        let mut work = Some(work);
        loop {
            let Some(term) = self.acquire(stop)? else {
                self.release();
                return Ok(Ended::Stopped(None));
            };
            let led = self.lead(stop, &term, &mut work);
            self.release();
            let Some((result, lost)) = led? else { continue };
            return Ok(match result {
                Err(panic) => resume_unwind(panic),
                Ok(value) if lost => Ended::Lost(value),
                Ok(value) if stop.is_stopped() => Ended::Stopped(Some(value)),
                Ok(value) => Ended::Returned(value),
            });
        }
    }

    /// Tries until it leads. `None` if stopped.
    fn acquire(&mut self, stop: &Stop) -> Result<Option<Arc<Expiry>>> {
        let (retry, mut jitter) = (self.elector.timing.retry, Jitter::new());
        info!(target: "listwatch::leader", "{} stands for {}", self.elector.lock.identity, self.elector.name());
        self.elector.stands();
        while !stop.is_stopped() {
            self.election.stand();
            self.attempt(stop)?;
            if let Some(term) = self.election.term() {
                return Ok(Some(term.clone()));
            }
            self.clock.sleep(jitter.between(retry, retry + retry.mul_f64(JITTER)), stop);
        }
        Ok(None)
    }

    /// Calls `work`, and holds the Lease meanwhile. Returns what it returned, and whether the term was lost before that;
    /// `None` if it was not called, as the term was over, or stopped, before.
    #[allow(clippy::type_complexity)]
    fn lead<T, W: FnOnce(&Stop) -> T>(
        &mut self,
        stop: &Stop,
        expiry: &Arc<Expiry>,
        work: &mut Option<W>,
    ) -> Result<Option<(thread::Result<T>, bool)>> {
        // `renewing` stops when the term is lost, too; `done` only when the callback has returned.
        let (renewing, done) = (Stop::new(), Stop::new());
        let over = expiry.clone();
        let term = stop.child_until(move || over.is_over());
        let (elector, clock) = (self.elector, self.clock.clone());
        let watch = Watch { elector, clock, expiry, term: &term, renewing: &renewing, done: &done };
        elector.board.begins(expiry);
        let _told = elector.leads(&term);
        let led = thread::scope(|scope| {
            let no_thread = |e| Error::new(Kind::Limit, "the system has no thread left").with_source(e);
            let watching = thread::Builder::new()
                .name("lw-term".into())
                .spawn_scoped(scope, || watch.run(scope))
                .map_err(no_thread)?;
            let renewing_too = thread::Builder::new()
                .name("lw-lease".into())
                .spawn_scoped(scope, || self.renew(&renewing))
                .map_err(no_thread);
            let result = match renewing_too {
                Ok(_) if term.is_stopped() => Ok(None),
                Ok(_) => {
                    info!(target: "listwatch::leader", "{} leads by {}", elector.lock.identity, elector.name());
                    Ok(work.take().map(|work| catch_unwind(AssertUnwindSafe(|| work(&term)))))
                }
                Err(e) => Err(e),
            };
            done.stop();
            renewing.stop();
            // The scope waits for the other one.
            let lost = watching.join().unwrap_or(true);
            result.map(|result| result.map(|result| (result, lost)))
        });
        term.stop();
        elector.board.ended();
        led
    }

    /// Renews until stopped, or the term is over.
    fn renew(&mut self, renewing: &Stop) {
        while !self.clock.sleep(self.elector.timing.retry, renewing) {
            // Not after the term: what is written then others would wait for.
            let is_over = self.election.term().is_none();
            if is_over || self.attempt(renewing).is_err() || self.election.term().is_none() {
                renewing.stop();
            }
        }
    }

    /// One try to acquire or to renew. What fails is noted, and tried again; an error is what cannot be sent at all.
    fn attempt(&mut self, stop: &Stop) -> Result<()> {
        let mut next = Some(self.election.begin(self.wall()));
        while let Some(request) = next.filter(|_| !stop.is_stopped()) {
            let started = self.clock.now();
            let answer = self.send(&request, self.elector.request_limit(), stop)?;
            let written = request != Request::Read && matches!(answer, Answer::Lease(_));
            next = self.election.answered(&request, started, answer, self.wall());
            if written {
                self.elector.board.renewed(started);
            }
            self.tell();
        }
        Ok(())
    }

    /// Gives the Lease up if it is ours, or may be. Takes `retry_period` at most.
    fn release(&mut self) {
        if !self.elector.release {
            return;
        }
        let until = self.clock.deadline(self.elector.timing.retry);
        let (mut next, mut tries) = (self.election.release(None, self.wall()), 0);
        while let Some(request) = next {
            tries += usize::from(matches!(request, Request::Write(_)));
            if tries > MOST_RELEASES {
                return;
            }
            let left = until.saturating_duration_since(self.clock.now());
            if left.is_zero() {
                return;
            }
            let Ok(answer) = self.send(&request, left, &Stop::new()) else { return };
            next = self.election.release(Some((&request, answer)), self.wall());
            self.tell();
        }
    }

    fn send(&mut self, request: &Request, limit: Duration, stop: &Stop) -> Result<Answer> {
        let (answer, error) = self.desk.send(request, limit, stop);
        match error {
            Some(e) if e.is_invalid_argument() => return Err(e),
            Some(e) if !e.is_stopped() => self.elector.board.failed(&e, self.clock.now()),
            _ => {}
        }
        Ok(answer)
    }

    /// Tells of another leader.
    fn tell(&self) {
        let Some(leader) = self.elector.board.saw(&self.election) else { return };
        info!(target: "listwatch::leader", "{} is led by {leader}", self.elector.name());
        let Some(hook) = &self.elector.on_new_leader else { return };
        if catch_unwind(AssertUnwindSafe(|| hook(&leader))).is_err() {
            error!(target: "listwatch::leader", "the hook for a new leader panicked");
        }
    }

    /// For what is written: others never compare it with their time.
    fn wall(&self) -> MicroTime {
        self.clock.wall().into()
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let clock = &self.clock;
        let idle = Election::new("", self.elector.timing, clock);
        let election = std::mem::replace(&mut self.election, idle);
        let mut seat = self.elector.board.seat();
        (seat.taken, seat.election) = (false, Some(election));
    }
}

/// Ends a term in time, whatever its other threads are at.
struct Watch<'a> {
    elector: &'a LeaderElector,
    clock: Clock,
    expiry: &'a Expiry,
    term: &'a Stop,
    renewing: &'a Stop,
    done: &'a Stop,
}

impl Watch<'_> {
    /// Returns whether the term was over before the callback had returned.
    fn run<'scope>(&'scope self, scope: &'scope thread::Scope<'scope, '_>) -> bool {
        let mut last = self.clock.now();
        while let Some(until) = self.expiry.until() {
            last = until;
            let timer = self.clock.timer(Some(until));
            select! {
                recv(timer.channel()) -> _ => {}
                recv(self.renewing.signal()) -> _ => break,
            }
        }
        if self.done.is_stopped() {
            return false;
        }
        let lost = last.min(self.clock.now());
        self.expiry.end();
        self.renewing.stop();
        // Hooks of the user's and the logger may block, and this thread must not.
        let told = thread::Builder::new().name("lw-lost".into()).spawn_scoped(scope, || {
            self.term.stop();
            let (identity, name) = (&self.elector.lock.identity, self.elector.name());
            warn!(target: "listwatch::leader", "{identity} leads no more by {name}");
        });
        if told.is_err() {
            self.term.stop();
        }
        self.wait_for_callback(lost);
        true
    }

    /// Others may lead soon: two would be at work.
    fn wait_for_callback(&self, lost: Instant) {
        let timer = self.clock.timer(lost.checked_add(self.elector.grace()));
        select! {
            recv(self.done.signal()) -> _ => {}
            recv(timer.channel()) -> _ => {
                if !self.done.is_stopped() {
                    self.elector.overrun();
                }
            }
        }
    }
}
