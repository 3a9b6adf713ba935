//! A soak: objects churn on an embedded API server with a fault every second, three informers (one a list mode) follow,
//! and their caches are compared with the server's state at the very version that each has reached.
//!
//! `cargo run --release --example soak -- --minutes 30 --objects 5000 --rate 500`
//!
//! With a fault a second informers would do little but wait, up to a minute each time; so their waits pass 20 times as
//! fast as the system's time, unless `--speed 1` says otherwise. Dead connections are found in 4 s, of real time.
//!
//! Prints a line every ten seconds and a verdict. Ends with code 1 on a cache that is not what the server had at its
//! version, a call to a handler that contradicts those before it, a deletion that was never told, an informer that
//! stands still, a thread that stays, or memory that grows.
//!
//! How it compares: this program makes all changes itself, one after the other, so it knows the state of each version.
//! A cache that says it is at a version must hold that state, exactly, at any time and whatever happens. Only where a
//! fault keeps an event from an informer (`Lose`), or the server goes back to an older state, it may be wrong until it
//! has listed; those lists are made to come.
//!
//! Rooms: `changes` has what is written and the states behind it, `faults` what goes wrong, `follower` the informers
//! and their handlers, `outcome` what must be true.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use listwatch::apiserver::faults::Injected;
use listwatch::apiserver::{ApiServer, Snapshot};
use listwatch::types::ConfigMap;
use listwatch::{Api, Client, Clock, Config, Error, ListMode, Stop};

use changes::{Ledger, State, name};
use follower::Follower;

#[path = "soak/changes.rs"]
mod changes;
#[path = "soak/faults.rs"]
mod faults;
#[path = "soak/follower.rs"]
mod follower;
#[path = "soak/outcome.rs"]
mod outcome;

/// So many changes the server remembers at the most, 40 s of them.
const HISTORY: usize = 20_000;
/// How often an informer is replaced by a new one, at least three times: one that has given its mode up for pages tests
/// no other mode any more.
const RENEWAL: Duration = Duration::from_secs(60);
const MODES: [ListMode; 3] = [ListMode::Paged(500), ListMode::WatchList, ListMode::Cached];
/// What the informers ask for, and the writer does not: the faults are theirs alone.
const THEIRS: &str = "/api/v1/configmaps";
const TICK: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    let options = match Options::parse() {
        Ok(options) => options,
        Err(what) => {
            eprintln!("{what}");
            return ExitCode::from(2);
        }
    };
    if let Some(code) = with_one_heap() {
        return code;
    }
    let threads = outcome::threads().len();
    let verdict = Soak::start(options).and_then(Soak::run);
    match verdict.map(|verdict| verdict.and_then(|told| outcome::all_ended(threads).map(|()| told))) {
        Ok(Ok(told)) => {
            println!("PASSED: {told}");
            ExitCode::SUCCESS
        }
        Ok(Err(what)) => {
            println!("FAILED: {what}");
            ExitCode::FAILURE
        }
        Err(e) => {
            println!("FAILED: the soak itself: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Runs this program once more, with one heap for all threads, unless it is that already. By default glibc gives many
/// threads heaps of their own, and keeps what was freed in them: the server has a thread for each connection, and memory
/// would grow for that alone.
fn with_one_heap() -> Option<ExitCode> {
    const HEAPS: &str = "MALLOC_ARENA_MAX";
    if std::env::var_os(HEAPS).is_some() {
        return None;
    }
    let this = std::env::current_exe().ok()?;
    let status = Command::new(this).args(std::env::args_os().skip(1)).env(HEAPS, "1").status().ok()?;
    Some(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Options {
    time: Duration,
    objects: usize,
    rate: u32,
    /// How much faster than the system's the time is in which the informers wait after failures.
    speed: u32,
    seed: u64,
}

impl Options {
    fn parse() -> Result<Self, String> {
        let mut options =
            Self { time: Duration::from_secs(60), objects: 5000, rate: 500, speed: 20, seed: 1 };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().unwrap_or_default();
            let bad = || {
                format!(
                    "{name} {value}: takes --minutes, --objects, --rate, --speed and --seed, each with a number"
                )
            };
            match name.as_str() {
                "--minutes" => {
                    let minutes: f64 = value.parse().map_err(|_| bad())?;
                    options.time = Duration::try_from_secs_f64(minutes * 60.0).map_err(|_| bad())?;
                }
                "--objects" => options.objects = value.parse().map_err(|_| bad())?,
                "--rate" => options.rate = value.parse().map_err(|_| bad())?,
                "--speed" => options.speed = value.parse().map_err(|_| bad())?,
                "--seed" => options.seed = value.parse().map_err(|_| bad())?,
                _ => return Err(bad()),
            }
        }
        Ok(options)
    }
}

/// What is wrong.
type Verdict = Result<String, String>;

struct Soak {
    options: Options,
    clock: Clock,
    start: Instant,
    /// The informers' time for waits, and up to when it was moved.
    waits: Clock,
    moved: Instant,
    stop: Stop,
    dice: Dice,
    server: ApiServer,
    /// The writer's way, which no fault is on.
    maps: Api<ConfigMap>,
    ledger: Ledger,
    followers: Vec<Follower>,
    /// What is set, and when it is lifted.
    faults: Vec<(Injected, Instant, bool)>,
    injected: u64,
    restores: u64,
    changes: u64,
    /// An older state to go back to, with what there was then.
    older: Option<(Snapshot, u64, State)>,
    /// Resident, each second.
    memory: Vec<u64>,
}

impl Soak {
    fn start(options: Options) -> Result<Self, Error> {
        let clock = Clock::system();
        let waits = if options.speed == 1 { Clock::system() } else { Clock::manual() };
        // As many as are made in a tenth of the time, so that memory is flat for most of it.
        let history = (options.time.as_secs_f64() / 10.0 * f64::from(options.rate)) as usize;
        let history = history.clamp(1, HISTORY);
        let server =
            ApiServer::builder().history(history).bookmark_interval(Duration::from_secs(5)).start()?;
        let mut soak = Self {
            start: clock.now(),
            moved: clock.now(),
            clock,
            waits,
            stop: Stop::new(),
            dice: Dice(options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            maps: Api::default_namespaced(&client(&server)?),
            options,
            server,
            ledger: Ledger::default(),
            followers: Vec::new(),
            faults: Vec::new(),
            injected: 0,
            restores: 0,
            changes: 0,
            older: None,
            memory: Vec::new(),
        };
        for n in 0..soak.options.objects {
            soak.create(&name(n))?;
        }
        for (n, mode) in MODES.into_iter().enumerate() {
            let mut follower = Follower::start(&soak.server, &soak.waits, mode, n == 0, &soak.stop)?;
            (follower.at, follower.state) = (soak.ledger.version, soak.ledger.state.clone());
            while !follower.informer.has_synced() {
                soak.breathe();
            }
            soak.followers.push(follower);
        }
        println!(
            "{} objects, {} changes a second, a fault a second; the server keeps {history} changes",
            soak.options.objects, soak.options.rate
        );
        soak.start = soak.clock.now();
        Ok(soak)
    }

    /// A breath, in which the informers' time moves on.
    fn breathe(&mut self) {
        self.stop.sleep(TICK);
        let now = self.clock.now();
        self.waits.advance((now - self.moved) * self.options.speed);
        self.moved = now;
    }

    fn passed(&self) -> Duration {
        self.clock.now() - self.start
    }

    fn run(mut self) -> Result<Verdict, Error> {
        let outcome = self.churn().and_then(|churned| match churned {
            Ok(()) => self.settle(),
            wrong => Ok(wrong),
        });
        // However it went, all must end.
        self.stop.stop();
        self.faults.clear();
        for follower in &self.followers {
            follower.informer.join();
        }
        self.line();
        self.server.stop();
        Ok(outcome?.and_then(|()| self.judge_memory()))
    }

    /// Changes and faults, for as long as asked.
    fn churn(&mut self) -> Result<Result<(), String>, Error> {
        let (mut next_fault, mut next_check, mut next_line, mut next_sample) = (1.0, 0.5, 10.0, 0.0);
        let renewal = RENEWAL.min(self.options.time / 4).as_secs_f64();
        let mut renewals = 0;
        // Changes that could not be made at their time are not made up for beyond this.
        let (mut owed, mut last) = (0.0_f64, 0.0);
        while self.passed() < self.options.time {
            let now = self.passed().as_secs_f64();
            owed = (owed + (now - last) * f64::from(self.options.rate)).min(f64::from(self.options.rate));
            last = now;
            while owed >= 1.0 {
                owed -= 1.0;
                self.change()?;
            }
            if now >= next_fault {
                next_fault += 1.0;
                self.lift(false);
                self.fault()?;
            }
            if now >= next_check {
                next_check = now + 0.25;
                if let Err(wrong) = self.compare() {
                    return Ok(Err(wrong));
                }
            }
            if now >= renewal * (renewals + 1) as f64 {
                let next = renewals % self.followers.len();
                self.followers[next].renew(&self.server, &self.waits, &self.stop)?;
                renewals += 1;
            }
            if now >= next_sample {
                next_sample = now + 1.0;
                self.memory.push(outcome::rss());
            }
            if now >= next_line {
                next_line += 10.0;
                self.line();
            }
            self.breathe();
        }
        Ok(Ok(()))
    }
}

fn client(server: &ApiServer) -> Result<Client, Error> {
    Client::new(Config::new(&server.url())?)
}

/// The same choices for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        // xorshift64*, of which the upper bits are good
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as usize % sides
    }
}
