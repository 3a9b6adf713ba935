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

use std::collections::{BTreeMap, VecDeque};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use listwatch::apiserver::faults::{Effect, Fault, Injected, Reply};
use listwatch::apiserver::{ApiServer, Snapshot};
use listwatch::types::ConfigMap;
use listwatch::{
    Api, Client, Clock, Config, DeleteParams, Deleted, Error, Handler, HandlerOptions, Informer, ListMode,
    ListParams, Map, ObjectKey, ObjectMeta, Patch, PatchParams, PostParams, Registration, Resource, Stop,
};
use serde_json::json;

/// So many changes the server remembers, 40 s of them: its memory is flat once it has seen as many.
const HISTORY: usize = 20_000;
/// So many changes are kept here, to compare with caches that are behind.
const LEDGER: usize = 200_000;
/// What the informers ask for, and the writer does not: the faults are theirs alone.
const THEIRS: &str = "/api/v1/configmaps";
const SILENCE: Duration = Duration::from_secs(4);
/// An informer that has made no progress for so long stands still: the longest wait of its backoff is a minute.
const STANDSTILL: Duration = Duration::from_secs(180);
/// Memory is judged from here on, or from when the server has forgotten the first changes.
const WARM: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    let options = match Options::parse() {
        Ok(options) => options,
        Err(what) => {
            eprintln!("{what}");
            return ExitCode::from(2);
        }
    };
    let threads = threads().len();
    let verdict = Soak::start(options).and_then(Soak::run);
    match verdict.map(|verdict| verdict.and_then(|told| all_ended(threads).map(|()| told))) {
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
/// An object as uid and version.
type Version = (String, u64);
type State = BTreeMap<ObjectKey, Version>;

fn version(object: &ConfigMap) -> Version {
    (object.uid().to_owned(), object.resource_version().parse().unwrap_or(0))
}

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
    slow: (Fold, Registration<ConfigMap>),
    /// What is set, and when it is lifted.
    faults: Vec<(Injected, Instant, bool)>,
    injected: u64,
    restores: u64,
    changes: u64,
    /// An older state to go back to, with what there was then.
    older: Option<(Snapshot, u64, State)>,
    /// Resident, at each line after the warm-up.
    memory: Vec<u64>,
}

/// An informer, what its handler was told, and the state it must have.
struct Follower {
    mode: ListMode,
    informer: Informer<ConfigMap>,
    fold: Fold,
    /// The state at the version that was last compared.
    at: u64,
    state: State,
    compared: u64,
    /// From when on it may be wrong, until it has listed.
    blind: Option<Instant>,
}

/// All changes that were made, by version, and the state behind them.
#[derive(Default)]
struct Ledger {
    version: u64,
    state: State,
    changes: VecDeque<(u64, ObjectKey, Option<String>)>,
}

impl Ledger {
    fn note(&mut self, version: u64, key: ObjectKey, uid: Option<String>) {
        self.version = version;
        apply(&mut self.state, version, &key, uid.as_ref());
        self.changes.push_back((version, key, uid));
        if self.changes.len() > LEDGER {
            self.changes.pop_front();
        }
    }

    /// What came after this version never was.
    fn go_back(&mut self, version: u64, state: State) {
        (self.version, self.state) = (version, state);
        let kept = self.changes.partition_point(|(at, ..)| *at <= version);
        self.changes.truncate(kept);
    }
}

fn apply(state: &mut State, version: u64, key: &ObjectKey, uid: Option<&String>) {
    match uid {
        Some(uid) => drop(state.insert(key.clone(), (uid.clone(), version))),
        None => drop(state.remove(key)),
    }
}

impl Soak {
    fn start(options: Options) -> Result<Self, Error> {
        let clock = Clock::system();
        let waits = if options.speed == 1 { Clock::system() } else { Clock::manual() };
        let server =
            ApiServer::builder().history(HISTORY).bookmark_interval(Duration::from_secs(5)).start()?;
        let stop = Stop::new();
        let follow = |mode| {
            let informer = Informer::builder(Api::<ConfigMap>::all(&client(&server)?))
                .mode(mode)
                .clock(waits.clone())
                .silence(SILENCE)
                .build()?;
            let fold = Fold::default();
            informer.add_handler(fold.clone())?;
            let (state, compared, blind) = (State::new(), 0, None);
            Ok(Follower { mode, informer, fold, at: 0, state, compared, blind })
        };
        let modes = [ListMode::Paged(500), ListMode::WatchList, ListMode::Cached];
        let followers = modes.into_iter().map(follow).collect::<Result<Vec<_>, Error>>()?;
        let slow = Fold { nap: Some(Duration::from_millis(3)), stop: stop.clone(), ..Fold::default() };
        let options_of_slow = HandlerOptions::default().name("slow");
        let registration = followers[0].informer.add_handler_with(options_of_slow, slow.clone())?;
        let mut soak = Self {
            start: clock.now(),
            moved: clock.now(),
            clock,
            waits: waits.clone(),
            stop,
            dice: Dice(options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            maps: Api::default_namespaced(&client(&server)?),
            options,
            server,
            ledger: Ledger::default(),
            followers,
            slow: (slow, registration),
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
        let first = soak.ledger.state.clone();
        for follower in &mut soak.followers {
            (follower.at, follower.state) = (soak.ledger.version, first.clone());
            follower.informer.start(&soak.stop)?;
            while !follower.informer.has_synced() {
                soak.stop.sleep(TICK);
            }
        }
        println!(
            "{} objects, {} changes a second, a fault a second; the server keeps {HISTORY} changes",
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
        let (mut next_fault, mut next_check, mut next_line) = (1.0, 0.5, 10.0);
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
            if now >= next_line {
                next_line += 10.0;
                self.line();
            }
            self.breathe();
        }
        Ok(Ok(()))
    }

    // ---- changes ----------------------------------------------------------------------------------------------

    fn change(&mut self) -> Result<(), Error> {
        self.changes += 1;
        // One in eleven names has no object, so that there are as many as asked for.
        let name = name(self.dice.roll(self.options.objects * 11 / 10 + 1));
        let key = ObjectKey::namespaced("default", &name);
        if !self.ledger.state.contains_key(&key) {
            return self.create(&name);
        }
        match self.dice.roll(10) {
            0 => self.delete(&name),
            1 => {
                self.delete(&name)?;
                self.create(&name)
            }
            _ => {
                let patch = Patch::Merge(json!({"data": {"text": self.text()}}));
                let changed = self.maps.patch(&name, &PatchParams::default(), &patch)?;
                self.note(&changed);
                Ok(())
            }
        }
    }

    /// About a kilobyte.
    fn text(&mut self) -> String {
        format!("{:01000}", self.dice.roll(1 << 30))
    }

    fn create(&mut self, name: &str) -> Result<(), Error> {
        let data = Map::from([("text", &*self.text())]);
        let metadata = ObjectMeta { labels: Map::from([("app", "soak")]), ..ObjectMeta::named(name) };
        let map = ConfigMap { metadata, data, ..ConfigMap::default() };
        let created = self.maps.create(&PostParams::default(), &map)?;
        self.note(&created);
        Ok(())
    }

    fn note(&mut self, object: &ConfigMap) {
        let (uid, version) = version(object);
        self.ledger.note(version, object.key(), Some(uid));
    }

    fn delete(&mut self, name: &str) -> Result<(), Error> {
        self.maps.delete(name, &DeleteParams::default())?;
        // Nobody else writes.
        let version = self.server.resource_version();
        self.ledger.note(version, ObjectKey::namespaced("default", name), None);
        Ok(())
    }

    // ---- faults -----------------------------------------------------------------------------------------------

    fn fault(&mut self) -> Result<(), Error> {
        self.injected += 1;
        match self.dice.roll(24) {
            0 => self.server.compact(),
            1 => self.restart(false)?,
            2 => match self.older.take() {
                Some(older) => {
                    self.older = Some(older);
                    self.restart(true)?;
                }
                None => {
                    let state = self.ledger.state.clone();
                    self.older = Some((self.server.snapshot(), self.ledger.version, state));
                }
            },
            _ => {
                let effect = self.effect();
                let blind = matches!(effect, Effect::Lose(_));
                // What does not hold a connection is over with the next: faults do not pile up for who comes late.
                let holds = matches!(
                    effect,
                    Effect::Silence
                        | Effect::HeadOnly
                        | Effect::Late
                        | Effect::SilenceAfter(_)
                        | Effect::HalfLineThenSilence(_)
                );
                let fault = Fault::new(effect).path(THEIRS).times(1 + self.dice.roll(3));
                let fault = if self.dice.roll(2) == 0 { fault.watches() } else { fault };
                let guard = self.server.inject(fault);
                let lasts = if holds { Duration::from_secs(1 + self.dice.roll(6) as u64) } else { TICK * 40 };
                if blind {
                    self.blind(Duration::ZERO);
                }
                self.faults.push((guard, self.clock.now() + lasts, blind));
            }
        }
        Ok(())
    }

    fn effect(&mut self) -> Effect {
        let n = self.dice.roll(1000);
        match self.dice.roll(18) {
            0 => Effect::Silence,
            1 => Effect::Close,
            2 => Effect::Reset,
            3 => Effect::HeadOnly,
            4 => Effect::Late,
            5 => Effect::Reply(self.reply()),
            6 => Effect::CutBody(1000 * n),
            7 => Effect::SilenceAfter(n),
            8 => Effect::HalfLineThenSilence(n),
            9 => Effect::HalfLineThenClose(n),
            10 => Effect::CutAfter(n),
            11 => Effect::EndAfter(n),
            12 => Effect::ErrorAfter(n, self.reply()),
            13 => Effect::LineAfter(n, "no JSON".into()),
            14 => Effect::Lose(1 + n),
            15 => Effect::Repeat,
            16 => Effect::OneByteChunks,
            _ => Effect::NoBookmarks,
        }
    }

    fn reply(&mut self) -> Reply {
        match self.dice.roll(8) {
            0 | 1 => Reply::expired(),
            2 => Reply::expired_by_reason(),
            3 => Reply::too_large_version(),
            4 => Reply::status(429, "TooManyRequests", "too many requests").retry_after(2),
            5 => Reply::status(500, "InternalError", "etcd is away").pretty(),
            6 => Reply::html_bad_gateway(),
            _ => Reply::plain_not_found(),
        }
    }

    /// Down for a moment, and perhaps back with an older state.
    fn restart(&mut self, restore: bool) -> Result<(), Error> {
        self.server.pause()?;
        self.stop.sleep(Duration::from_millis(100 * self.dice.roll(20) as u64));
        let older = if restore { self.older.take() } else { None };
        if let Some((snapshot, version, state)) = older {
            self.restores += 1;
            self.server.restore(&snapshot);
            self.folds().for_each(|(_, fold)| fold.restored.store(true, Ordering::Relaxed));
            for follower in &mut self.followers {
                if follower.at > version {
                    (follower.at, follower.state) = (version, state.clone());
                }
            }
            self.ledger.go_back(version, state);
            // Lists of the lost state may still be on their way through buffers.
            self.blind(Duration::from_secs(3));
            // At this rate the server is soon past the versions that are known: then only a list finds it.
            self.list_anew();
        }
        self.server.resume()?;
        // Without a connection that was cut.
        self.maps = Api::default_namespaced(&client(&self.server)?);
        Ok(())
    }

    fn lift(&mut self, all: bool) {
        let now = self.clock.now();
        let (over, still): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.faults).into_iter().partition(|(_, until, _)| all || *until <= now);
        self.faults = still;
        if over.iter().any(|(.., blind)| *blind) {
            drop(over);
            self.blind(Duration::ZERO);
            self.list_anew();
        }
    }

    /// The caches may be wrong until they have listed, later than in this time.
    fn blind(&mut self, after: Duration) {
        let since = self.waits.now() + after * self.options.speed;
        self.followers.iter_mut().for_each(|follower| follower.blind = Some(since));
    }

    /// Has each informer list, whatever it believes.
    fn list_anew(&mut self) {
        let expired = Fault::new(Effect::ErrorAfter(0, Reply::expired())).watches().path(THEIRS);
        let until = self.clock.now() + Duration::from_secs(3600);
        // One that watches twice before another does once takes its part, so there is one for each until all have listed.
        let guard = self.server.inject(expired.times(self.followers.len()));
        self.faults.push((guard, until, false));
    }

    // ---- outcome ----------------------------------------------------------------------------------------------

    /// Compares each cache with the state at its version, and looks at the handlers and the threads.
    fn compare(&mut self) -> Result<(), String> {
        let (now, speed) = (self.waits.now(), self.options.speed);
        let mut lagging = false;
        for follower in &mut self.followers {
            follower.compare(&self.ledger, now, speed)?;
            lagging |= follower.blind.is_some_and(|since| now > since + Duration::from_secs(10) * speed);
        }
        for (name, fold) in self.folds() {
            if let Some(wrong) = fold.wrong() {
                return Err(format!("{name}: {wrong}"));
            }
        }
        // Nothing that is blind for long goes on so: the expiry may have met another twice.
        if lagging && self.dice.roll(40) == 0 {
            self.list_anew();
        }
        Ok(())
    }

    fn folds(&self) -> impl Iterator<Item = (String, &Fold)> {
        let each = self.followers.iter().map(|f| (format!("the handler of {:?}", f.mode), &f.fold));
        each.chain([("the slow handler".to_owned(), &self.slow.0)])
    }

    /// With all faults lifted and nothing changing but once, all must become as the server.
    fn settle(&mut self) -> Result<Result<(), String>, Error> {
        self.slow.0.hurry.store(true, Ordering::Relaxed);
        self.lift(true);
        let last = name(self.options.objects * 2);
        self.create(&last)?;
        let there = self.maps.list(&ListParams::default())?;
        let there: State = there.items.iter().map(|object| (object.key(), version(object))).collect();
        if there != self.ledger.state {
            return Ok(Err("the server does not have what was written".into()));
        }
        let (now, since) = (self.clock.now(), self.waits.now());
        if self.followers.iter().any(|follower| follower.blind.is_some()) {
            let expired = Fault::new(Effect::ErrorAfter(0, Reply::expired())).watches().path(THEIRS);
            self.faults.push((self.server.inject(expired), now, false));
        }
        let until = now + STANDSTILL;
        loop {
            if self.followers.iter().all(|f| f.informer.health().last_list.is_some_and(|at| at > since)) {
                self.faults.clear();
            }
            let wrong = self.unsettled(&there);
            if wrong.is_none() || self.clock.now() > until {
                return Ok(wrong.map_or(Ok(()), Err));
            }
            if let Some(wrong) =
                self.folds().find_map(|(name, fold)| Some(format!("{name}: {}", fold.wrong()?)))
            {
                return Ok(Err(wrong));
            }
            self.breathe();
        }
    }

    fn unsettled(&self, there: &State) -> Option<String> {
        for follower in &self.followers {
            let objects = follower.informer.lister().store().list();
            let cached: State = objects.iter().map(|object| (object.key(), version(object))).collect();
            if let Some(difference) = difference(&cached, there) {
                let health = follower.informer.health();
                return Some(format!("{:?} does not converge: {difference}; {health:?}", follower.mode));
            }
        }
        self.folds().find_map(|(name, fold)| {
            Some(format!("{name} was told otherwise: {}", difference(&fold.lock().state, there)?))
        })
    }

    fn line(&mut self) {
        let (mut lists, mut watches, mut errors) = (0, 0, 0);
        let (mut behind, mut depths, mut modes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut compared, mut deletes) = (0, 0);
        for follower in &self.followers {
            let health = follower.informer.health();
            (lists, watches, errors) =
                (lists + health.lists, watches + health.watches, errors + health.errors);
            let at: u64 = follower.informer.lister().store().resource_version().parse().unwrap_or(0);
            behind.push(self.ledger.version.saturating_sub(at).to_string());
            modes.push(format!("{:?}", health.mode));
            depths.extend(health.handlers.iter().map(|(_, depth)| depth.to_string()));
            compared += follower.compared;
            deletes += follower.fold.lock().deletes;
        }
        let rss = rss();
        // Before that the server's history grows.
        if self.passed() > WARM && self.changes > HISTORY as u64 * 3 / 2 {
            self.memory.push(rss);
        }
        println!(
            "{:5} s: {} changes, {} faults, {lists} lists, {watches} watches, {errors} errors, compared {compared}, \
             deletes {deletes}, behind {}, depths {}, {} MB, {} threads, {}",
            self.passed().as_secs(),
            self.changes,
            self.injected,
            behind.join("/"),
            depths.join("/"),
            rss >> 10,
            threads().len(),
            modes.join(" "),
        );
    }

    /// The last third of the time after the warm-up may not take much more than the first.
    fn judge_memory(&self) -> Verdict {
        let told = format!(
            "{} changes, {} faults, {} restores, each cache compared at {:?} versions",
            self.changes,
            self.injected,
            self.restores,
            self.followers.iter().map(|follower| follower.compared).collect::<Vec<_>>()
        );
        let third = self.memory.len() / 3;
        if third < 3 {
            return Ok(format!("{told}; too short to judge memory"));
        }
        let before = self.memory[..third].iter().copied().max().unwrap_or(0);
        let after = self.memory[third * 2..].iter().sum::<u64>() / (self.memory.len() - third * 2) as u64;
        let told = format!("{told}; memory: {} MB early, {} MB late", before >> 10, after >> 10);
        // A fifth for the allocator's moods.
        if after > before + before / 5 + (16 << 10) { Err(format!("memory grows: {told}")) } else { Ok(told) }
    }
}

impl Follower {
    fn compare(&mut self, ledger: &Ledger, now: Instant, speed: u32) -> Result<(), String> {
        let health = self.informer.health();
        if health.last_progress.is_some_and(|last| now.saturating_duration_since(last) > STANDSTILL * speed) {
            return Err(format!("{:?} stands still: {health:?}", self.mode));
        }
        if let Some(since) = self.blind {
            // Two seconds are enough for what was listed to be stored.
            let seen =
                health.last_list.is_some_and(|at| at > since && now > at + Duration::from_secs(2) * speed);
            if !seen {
                return Ok(());
            }
            self.blind = None;
        }
        let store = self.informer.lister().store().clone();
        let (before, objects, after) = (store.resource_version(), store.list(), store.resource_version());
        let at: u64 = before.parse().unwrap_or(0);
        // It moved on meanwhile; another time.
        if before != after || at > ledger.version {
            return Ok(());
        }
        if at < self.at {
            return Err(format!("{:?} went back from {} to {at}", self.mode, self.at));
        }
        let from = ledger.changes.partition_point(|(version, ..)| *version <= self.at);
        for (version, key, uid) in ledger.changes.range(from..).take_while(|(version, ..)| *version <= at) {
            apply(&mut self.state, *version, key, uid.as_ref());
        }
        self.compared += u64::from(at > self.at);
        self.at = at;
        let cached: State = objects.iter().map(|object| (object.key(), version(object))).collect();
        match difference(&cached, &self.state) {
            Some(difference) => Err(format!("{:?} at {at} diverges: {difference}; {health:?}", self.mode)),
            None => Ok(()),
        }
    }
}

/// The first objects that one state has otherwise than the other.
fn difference(has: &State, wants: &State) -> Option<String> {
    if has == wants {
        return None;
    }
    let keys: std::collections::BTreeSet<_> = has.keys().chain(wants.keys()).collect();
    let different: Vec<_> = keys.into_iter().filter(|key| has.get(*key) != wants.get(*key)).collect();
    let some = different.iter().take(5);
    let some: Vec<_> =
        some.map(|key| format!("{key} is {:?}, not {:?}", has.get(*key), wants.get(*key))).collect();
    Some(format!("{} objects differ: {}", different.len(), some.join("; ")))
}

/// Folds what a handler is told, and checks each call against those before it.
#[derive(Clone, Default)]
struct Fold {
    told: Arc<Mutex<Told>>,
    /// How long it sleeps in each call, unless in a hurry.
    nap: Option<Duration>,
    hurry: Arc<AtomicBool>,
    /// Versions may go back.
    restored: Arc<AtomicBool>,
    stop: Stop,
}

#[derive(Default)]
struct Told {
    state: State,
    deletes: u64,
    wrong: Option<String>,
}

impl Fold {
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wrong(&self) -> Option<String> {
        self.lock().wrong.clone()
    }

    fn note(&self, object: &ConfigMap, fits: impl FnOnce(Option<Version>, Version) -> bool, gone: bool) {
        if let (Some(nap), false) = (self.nap, self.hurry.load(Ordering::Relaxed)) {
            self.stop.sleep(nap);
        }
        let (key, new) = (object.key(), version(object));
        let mut told = self.lock();
        let there = if gone { told.state.remove(&key) } else { told.state.insert(key.clone(), new.clone()) };
        told.deletes += u64::from(gone);
        if !fits(there.clone(), new.clone()) {
            let what = if gone { "deleted" } else { "told" };
            told.wrong.get_or_insert(format!("{key} was {there:?} and is {what} as {new:?}"));
        }
    }
}

impl Handler<ConfigMap> for Fold {
    fn on_add(&mut self, object: &Arc<ConfigMap>, _initial: bool) {
        self.note(object, |there, _| there.is_none(), false);
    }

    fn on_update(&mut self, old: &Arc<ConfigMap>, new: &Arc<ConfigMap>) {
        let (old, restored) = (version(old), self.restored.load(Ordering::Relaxed));
        self.note(
            new,
            |there, new| there.as_ref() == Some(&old) && old.0 == new.0 && (old.1 <= new.1 || restored),
            false,
        );
    }

    fn on_delete(&mut self, deleted: &Deleted<ConfigMap>) {
        self.note(&deleted.object, |there, gone| there.is_some_and(|there| there.0 == gone.0), true);
    }
}

fn name(n: usize) -> String {
    format!("map-{n}")
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

/// Resident memory in KiB; 0 where the system does not tell.
fn rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}

/// The names of this program's threads; none where the system does not tell.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok())
        .map(|name| name.trim().into())
        .collect()
}

/// Whether there are no more threads than before. The system takes a moment to forget one that was joined.
fn all_ended(before: usize) -> Result<(), String> {
    let stop = Stop::new();
    for _ in 0..50 {
        if threads().len() <= before {
            return Ok(());
        }
        stop.sleep(TICK);
    }
    Err(format!("threads stay: {}", threads().join(", ")))
}
