//! Leader election: of several programs one acts, by a Lease that all of them know.
//!
//! ```no_run
//! use listwatch::leader::Ended;
//! use listwatch::{Client, LeaderElector, LeaseLock, Stop};
//!
//! let (client, stop) = (Client::try_default()?, Stop::new());
//! let identity = std::env::var("POD_NAME").unwrap_or_else(|_| "me".into());
//! let elector = LeaderElector::new(&client, LeaseLock::new("default", "foo-controller", identity));
//! let ended = elector.run(&stop, |term: &Stop| {
//!     // A controller's `run(term, reconcile)`, or whatever only one may do.
//!     term.wait();
//! })?;
//! if let Ended::Lost(()) = ended {
//!     // Another one leads. `run_forever` would stand again.
//! }
//! # Ok::<(), listwatch::Error>(())
//! ```
//!
//! # The protocol
//!
//! It is client-go's (`tools/leaderelection/leaderelection.go`, `resourcelock/leaselock.go`), with a Lease of
//! `coordination.k8s.io/v1`; candidates of both kinds can share one. Who holds it writes its identity, and the time, again
//! and again. Others look, and take it when the record has not changed for `leaseDurationSeconds`, as the record says
//! them, of their own time: times in the record are never compared with a clock. Each write is of the version that was
//! read, so of two who take it one is refused. Who has done gives it up by an empty holder, which others take at once.
//! What else is in the Lease, labels or fields that we do not know, stays. A role needs `get`, `create` and `update`.
//!
//! We differ from client-go where it is stricter to do so:
//! - The term ends [`renew_deadline`](LeaderElector::renew_deadline) after the *start* of the last request that renewed it,
//!   by a thread that does nothing else, even if a request hangs. A renewal that comes through later renews nothing.
//! - A record with our identity that we have not written is another's: a program that crashed, and is started anew with
//!   the same identity, waits until its own Lease has run out.
//! - A Lease that was deleted while another one held it is not created before it would have run out.
//! - Once another one holds the Lease the term is over at once, and the Lease is never given up in its name.
//! - The callback may go on after a stop for as long as it needs: the Lease is renewed until it has returned, and given up
//!   only then.
//!
//! # What is guaranteed
//!
//! Two terms never overlap, whatever requests, the network and the clocks' times of day do, as long as
//! - no candidate's monotonic clock ([`Clock::now`](crate::Clock)) runs faster than another's by `lease_duration` /
//!   `renew_deadline` (1.5 by default) or more. Linux' does not run while the *machine* sleeps: one that is suspended, or a
//!   virtual machine that is paused without its clock being moved on, breaks this. A process that is stopped
//!   (SIGSTOP, a frozen cgroup) does not.
//! - nobody deletes or edits the Lease while it is held, and the server's state is not restored from an older one
//! - candidates that see times by the second do so within what is left: client-go compares records whose times have no
//!   fractions, so beside it `lease_duration` must exceed `renew_deadline` by more than a second (five by default).
//!
//! A *term* is what `term` and [`is_leader`](LeaderElector::is_leader) say: both ask the clock, so a process that was
//! stopped for a while knows at its first look that its term is over, even if no other thread of it has run yet.
//! Requests of a client [with `term` as its stop](crate::Client::with_stop), as a `Controller` that is run with it has
//! one, look before they are sent. What no candidate of any kind can know is whether its term ends between a look and the
//! act: a request that was on its way may arrive later, when another one leads. What must not happen twice then needs a
//! fence at the server: write with the `resourceVersion` that was read, as
//! [`replace`](crate::Api::replace) does, or under a name that can be created only once.
//!
//! # A callback that does not return
//!
//! When a term is lost the callback should return before others may lead: that is `lease_duration` - `renew_deadline`
//! later, five seconds by default. If it has not after half of that ([`grace`](LeaderElector::grace_period)), the process
//! **exits with code 1**, after an error in the log. For a library that is a hard thing to do, and there is nothing else
//! that keeps two leaders from being at work: code that runs cannot be ended from outside, and to let it go on would break
//! in silence what election is for. It is what programs with client-go do in `OnStoppedLeading`. A process that was
//! stopped for longer than the Lease exits as soon as it goes on. Who knows that the callback does no harm, or has
//! other means (aborting, an alarm), sets [`on_overrun`](LeaderElector::on_overrun) in its place; then two may be at
//! work for as long as the callback takes. The Lease is never given up before the callback has returned.
//!
//! Threads that the callback has started and not joined are its own affair: see that they end with `term`.
//!
//! # Threads, blocking, order
//!
//! The callback runs on the thread that called `run`, and need not be `Send`. While it runs, `lw-lease` renews and
//! `lw-term` ends the term in time; both have ended when `run` returns. A stop ends waits and requests within a moment;
//! only giving the Lease up, after the callback, may then take up to `retry_period`. The order at the end is: `term`
//! stops, the callback ends its work (drains queues, joins informers) and returns, the Lease is given up, `run` returns.
//!
//! If the callback panics the term ends, the Lease is given up, and `run` panics with the same payload.

mod election;
mod expiry;
mod lock;
mod run;
#[cfg(test)]
mod simulation;
mod status;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use log::error;

pub use self::lock::LeaseLock;
pub use self::status::LeaderStatus;

use self::election::Timing;
use self::run::Run;
use self::status::Board;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::metrics::Event;
use crate::stop::{OnStop, Stop};

/// Stands for election, and calls a function while it leads: see the [module](self) for what is guaranteed.
///
/// Clones are the same candidate, so that other threads can ask how it fares. It stands while [`run`](Self::run) or
/// [`run_forever`](Self::run_forever) does. What goes wrong meanwhile is tried again for ever; it is logged by the crate
/// `log`, at most once a minute, and told by [`status`](Self::status).
#[derive(Clone)]
pub struct LeaderElector {
    client: Client,
    lock: LeaseLock,
    timing: Timing,
    grace: Option<Duration>,
    release: bool,
    on_new_leader: Option<Told>,
    on_overrun: Option<Arc<dyn Fn() + Send + Sync>>,
    board: Arc<Board>,
}

/// Told of each new leader.
type Told = Arc<dyn Fn(&str) + Send + Sync>;

/// How a run of an elector ended. Holds what the callback returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the callback may have failed"]
pub enum Ended<T> {
    /// It was stopped: while it waited, with `None`, and the callback was not called; or in its term.
    Stopped(Option<T>),
    /// The term was lost: the Lease could not be renewed in time, or another one has taken it.
    Lost(T),
    /// The callback returned by itself.
    Returned(T),
}

impl<T> Ended<T> {
    /// What the callback returned, if it was called.
    pub fn into_inner(self) -> Option<T> {
        match self {
            Self::Stopped(value) => value,
            Self::Lost(value) | Self::Returned(value) => Some(value),
        }
    }
}

impl LeaderElector {
    /// A candidate for this Lease, with the durations of client-go's core components.
    #[must_use]
    pub fn new(client: &Client, lock: LeaseLock) -> Self {
        let [lease, renew, retry] = [15, 10, 2].map(Duration::from_secs);
        Self {
            client: client.clone(),
            lock,
            timing: Timing { lease, renew, retry },
            grace: None,
            release: true,
            on_new_leader: None,
            on_overrun: None,
            board: Arc::default(),
        }
    }

    /// After so long without a renewal others take the Lease: whole seconds, more than
    /// [`renew_deadline`](Self::renew_deadline); 15 s by default. So long it takes to replace a leader that has died.
    #[must_use]
    pub fn lease_duration(mut self, time: Duration) -> Self {
        self.timing.lease = time;
        self
    }

    /// So long after the last renewal was begun the term ends, if there is no other: more than 1.2 times the
    /// [`retry_period`](Self::retry_period); 10 s by default. A request may take half of it.
    #[must_use]
    pub fn renew_deadline(mut self, time: Duration) -> Self {
        self.timing.renew = time;
        self
    }

    /// The time between renewals, and between tries to acquire, which is lengthened by up to 1.2 times itself at random;
    /// 2 s by default.
    #[must_use]
    pub fn retry_period(mut self, time: Duration) -> Self {
        self.timing.retry = time;
        self
    }

    /// Whether to give the Lease up when the callback has returned, so that another one can lead at once; yes by default.
    /// Otherwise others wait until it has run out.
    #[must_use]
    pub fn release_on_stop(mut self, release: bool) -> Self {
        self.release = release;
        self
    }

    /// Calls `hook` with the identity of each new leader, this one too, once it is seen.
    ///
    /// On the thread that asks the server, which waits for it: a hook that takes long holds up renewals.
    #[must_use]
    pub fn on_new_leader(mut self, hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_new_leader = Some(Arc::new(hook));
        self
    }

    /// How long the callback may go on after the term was lost, before [`on_overrun`](Self::on_overrun); by default half
    /// of what `lease_duration` is longer than `renew_deadline`, 2.5 s. Longer than all of that, and others may lead
    /// meanwhile.
    #[must_use]
    pub fn grace_period(mut self, time: Duration) -> Self {
        self.grace = Some(time);
        self
    }

    /// What to do, in place of `std::process::exit(1)`, when the callback has not returned within the
    /// [`grace_period`](Self::grace_period) after the term was lost: see the [module](self). Called once, on a thread of
    /// the elector, which waits for it.
    #[must_use]
    pub fn on_overrun(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_overrun = Some(Arc::new(hook));
        self
    }

    /// Stands until it leads, and calls `work` once: its `term` stops when `stop` does, the client's stop, or the term is
    /// lost.
    ///
    /// Blocks until `work` has returned, or it is stopped before; then `work` is not called. See the [module](self) for
    /// what happens if `work` panics or does not return.
    ///
    /// # Errors
    /// The durations do not fit together, a name is none, the elector runs already, or the system has no thread left.
    pub fn run<T>(&self, stop: &Stop, work: impl FnOnce(&Stop) -> T) -> Result<Ended<T>> {
        self.check().map_err(|e| e.context(format!("election for {}", self.name())))?;
        let stop = stop.child();
        let both = stop.clone();
        let _client = self.client.stop().on_stop(move || both.stop());
        Run::new(self)?.run(&stop, work)
    }

    /// As [`run`](Self::run), and stands again each time that it has lost a term, whatever `work` returned then. Ends when
    /// stopped or when `work` returns by itself.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_forever<T>(&self, stop: &Stop, mut work: impl FnMut(&Stop) -> T) -> Result<Ended<T>> {
        loop {
            match self.run(stop, &mut work)? {
                Ended::Lost(_) => {}
                ended => return Ok(ended),
            }
        }
    }

    /// Whether it leads now: from before the callback is called until that has returned, or the term is over by the
    /// clock, whatever its threads are at.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.board.is_leader()
    }

    /// Whom the Lease named when it was last seen; `None` is nobody.
    #[must_use]
    pub fn leader(&self) -> Option<String> {
        self.board.leader()
    }

    /// How it fares.
    #[must_use]
    pub fn status(&self) -> LeaderStatus {
        self.board.status()
    }

    /// Which Lease, and who it is.
    #[must_use]
    pub fn lock(&self) -> &LeaseLock {
        &self.lock
    }

    fn check(&self) -> Result<()> {
        let Timing { lease, renew, retry } = self.timing;
        let wrong = if self.lock.identity.is_empty() {
            "a candidate needs an identity".into()
        } else if lease.as_secs() == 0 || lease.subsec_nanos() != 0 || i32::try_from(lease.as_secs()).is_err()
        {
            format!("lease_duration is {lease:?}, and must be whole seconds, as the Lease has no others")
        } else if retry.is_zero() {
            "retry_period is zero".into()
        } else if lease <= renew {
            format!("lease_duration ({lease:?}) must be longer than renew_deadline ({renew:?})")
        } else if renew <= retry.saturating_mul(6) / 5 {
            format!("renew_deadline ({renew:?}) must be longer than 1.2 times retry_period ({retry:?})")
        } else {
            return Ok(());
        };
        Err(Error::invalid(wrong))
    }

    /// Tells the client's recorder that it does not lead.
    fn stands(&self) {
        if let Some(recorder) = self.client.recorder() {
            recorder.record(&Event::Leader { name: &self.lock.name, leading: false });
        }
    }

    /// Tells it that it leads, and once the term has stopped that it does not.
    fn leads(&self, term: &Stop) -> Option<OnStop> {
        let (recorder, name) = (self.client.recorder()?, self.lock.name.clone());
        recorder.record(&Event::Leader { name: &name, leading: true });
        Some(term.on_stop(move || recorder.record(&Event::Leader { name: &name, leading: false })))
    }

    fn name(&self) -> String {
        format!("lease {}/{}", self.lock.namespace, self.lock.name)
    }

    /// One that hangs leaves time for another.
    fn request_limit(&self) -> Duration {
        self.timing.renew / 2
    }

    fn grace(&self) -> Duration {
        self.grace.unwrap_or(self.timing.lease.saturating_sub(self.timing.renew) / 2)
    }

    /// The callback has not returned in time.
    fn overrun(&self) {
        let (name, grace) = (self.name(), self.grace());
        let who = format!("{name}: the callback still runs {grace:?} after leadership was lost");
        match &self.on_overrun {
            Some(hook) => {
                error!(target: "listwatch::leader", "{who}");
                hook();
            }
            None => {
                error!(target: "listwatch::leader", "{who}; the process exits");
                std::process::exit(1);
            }
        }
    }
}

impl fmt::Debug for LeaderElector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderElector")
            .field("lock", &self.lock)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}
