//! Leader election on the embedded API server.
//!
//! - `terms`: single electors and pairs, their clocks driven by hand
//! - `trouble`: requests that hang or are refused, callbacks that panic or do not return
//! - `processes`: real processes, killed and stopped
//! - `client_go`: a Lease shared with client-go's elector
//!
//! That two terms never overlap, whatever happens, is tried by random in `src/leader/simulation.rs`. Without Go the tests
//! with client-go pass and say so, unless `LISTWATCH_GO=required`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "leader/client_go.rs"]
mod client_go;
#[path = "leader/processes.rs"]
mod processes;
#[path = "leader/terms.rs"]
mod terms;
#[path = "leader/trouble.rs"]
mod trouble;

use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};
use listwatch::leader::Ended;
use listwatch::types::{Lease, LeaseSpec};
use listwatch::{
    Api, ApiServer, Client, Clock, Config, Error, LeaderElector, LeaseLock, Object, ObjectMeta, PostParams,
    StaticResource, Stop,
};

/// Longer than anything takes on a machine that is busy.
const LONG: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
/// The durations by default, in seconds; and the longest wait between tries to acquire.
const LEASE: u32 = 15;
const RENEW: u32 = 10;
const RETRY: u32 = 2;
const LONGEST_WAIT: Duration = Duration::from_millis(4400);
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

fn client(server: &ApiServer, clock: &Clock) -> Client {
    Client::new(Config::new(&server.url()).unwrap().with_clock(clock.clone())).unwrap()
}

fn elector(server: &ApiServer, clock: &Clock, identity: &str) -> LeaderElector {
    LeaderElector::new(&client(server, clock), LeaseLock::new("default", "it", identity))
}

fn leases(server: &ApiServer) -> Api<Lease> {
    Api::namespaced(&client(server, &Clock::system()), "default")
}

fn lease(server: &ApiServer) -> LeaseSpec {
    leases(server).get("it").unwrap().spec
}

fn holder(server: &ApiServer) -> String {
    lease(server).holder_identity.unwrap()
}

/// A run on a thread of its own, whose callback waits until its term is over or it is let go.
struct Running {
    stop: Stop,
    /// The term of each call.
    terms: Receiver<Stop>,
    let_go: Sender<()>,
    ended: Receiver<Result<Ended<()>, Error>>,
    thread: JoinHandle<()>,
}

impl Running {
    fn start(elector: &LeaderElector, forever: bool) -> Self {
        let (stop, (begun, terms), (let_go, go)) = (Stop::new(), unbounded(), unbounded::<()>());
        let (end, ended) = bounded(1);
        let (elector, token) = (elector.clone(), stop.clone());
        let work = move |term: &Stop| {
            begun.send(term.clone()).unwrap();
            select! {
                recv(term.signal()) -> _ => {}
                recv(go) -> _ => {}
            }
        };
        let run = move || {
            let ended = if forever { elector.run_forever(&token, work) } else { elector.run(&token, work) };
            end.send(ended).unwrap();
        };
        let thread = Builder::new().spawn(run).unwrap();
        Self { stop, terms, let_go, ended, thread }
    }

    fn once(elector: &LeaderElector) -> Self {
        Self::start(elector, false)
    }

    #[track_caller]
    fn term(&self) -> Stop {
        self.terms.recv_timeout(LONG).expect("no term begins")
    }

    #[track_caller]
    fn end(self) -> Ended<()> {
        let ended = self.ended.recv_timeout(LONG).expect("it does not end");
        self.thread.join().unwrap();
        ended.unwrap()
    }
}
