//! Convergence by random: an informer follows an embedded API server through random changes and random faults, while
//! handlers join, stall and leave. In the end, with the faults lifted:
//!
//! - the cache is what the server has, object by object, uid and version
//! - what each handler was told folds to the same, and no call contradicts those before it: no deletion is lost
//! - what a handler read from the cache was never older than what it was told
//! - it still follows: one more change arrives
//! - the requests it took are bounded by the time that passed on its clock
//! - once stopped it ends
//!
//! Rooms: `run` has the steps of a run, `faults` what goes wrong meanwhile, `handlers` those that are told, `outcome`
//! how time passes and what must be true in the end, `dice` what a seed decides.
//!
//! `LISTWATCH_RUNS=n` makes so many runs, `LISTWATCH_SEED=s` repeats the one of that seed. What fails prints its seed and
//! its steps. How the threads take turns is not in the seed: what does not show again is worth some more tries.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, unbounded};
use run::Run;

#[path = "convergence/dice.rs"]
mod dice;
#[path = "convergence/faults.rs"]
mod faults;
#[path = "convergence/handlers.rs"]
mod handlers;
#[path = "support/history.rs"]
#[allow(dead_code, reason = "other suites use the rest")]
mod history;
#[path = "convergence/outcome.rs"]
mod outcome;
#[path = "convergence/run.rs"]
mod run;

const RUNS: u64 = 10_000;
const THREADS: usize = 2;
/// After so long without the end of a run one hangs.
const HANGS: Duration = Duration::from_secs(300);

#[test]
fn whatever_happens_cache_and_handlers_end_up_with_what_the_server_has() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match number("LISTWATCH_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + number("LISTWATCH_RUNS").unwrap_or(RUNS),
    };
    let (next, failed) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let (done, dones) = unbounded();
    let work = |done: Sender<()>| {
        while !failed.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            Run::new(seed, &failed).go();
            let _ = done.send(());
        }
    };
    thread::scope(|scope| {
        for n in 0..THREADS {
            let (work, done) = (&work, done.clone());
            thread::Builder::new().name(format!("runs-{n}")).spawn_scoped(scope, || work(done)).unwrap();
        }
        drop(done);
        // A run that hangs would tell nobody which it is.
        loop {
            match dones.recv_timeout(HANGS) {
                Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    eprintln!("a run hangs, of the {THREADS} before seed {}", next.load(Ordering::Relaxed));
                    std::process::exit(1);
                }
            }
        }
    });
}
