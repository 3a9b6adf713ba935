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
//! `LISTWATCH_RUNS=n` makes so many runs, `LISTWATCH_SEED=s` repeats the one of that seed. What fails prints its seed and
//! its steps. How the threads take turns is not in the seed: what does not show again is worth some more tries.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use history::{History, State, state_of};
use listwatch::apiserver::faults::{Effect, Fault, Injected, Reply};
use listwatch::apiserver::{ApiServer, Snapshot};
use listwatch::cache::Activity;
use listwatch::types::ConfigMap;
use listwatch::{
    Api, Client, Clock, Config, DeleteParams, Deleted, Handler, Informer, ListMode, ListParams, Lister, Map,
    ObjectMeta, Patch, PatchParams, PostParams, Registration, Resource, Stop,
};
use serde_json::json;

#[path = "support/history.rs"]
#[allow(dead_code, reason = "other suites use the rest")]
mod history;

const RUNS: u64 = 10_000;
const THREADS: usize = 2;
/// After so long without any news a run has failed.
const SOON: Duration = Duration::from_secs(30);
/// After so long without the end of a run one hangs.
const HANGS: Duration = Duration::from_secs(300);
/// A breath, for the other threads to get somewhere; the outcome does not depend on it.
const BREATH: Duration = Duration::from_millis(2);
/// Longer than the server waits before it sends a bookmark.
const BOOKMARKS: Duration = Duration::from_secs(61);
/// What the informers ask for, and the writer does not: the faults are theirs alone.
const THEIRS: &str = "/api/v1/configmaps";
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// So many calls while a handler stalls make its queue merge.
const BURST: usize = 1200;
/// One in so many runs has a burst.
const BURSTS: u64 = 250;

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

/// The same choices for the same seed.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn roll(&mut self, sides: u64) -> u64 {
        // xorshift64*, of which the upper bits are good
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % sides
    }

    fn small(&mut self, sides: u64) -> usize {
        usize::try_from(self.roll(sides)).unwrap()
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.small(of.len() as u64)].clone()
    }
}

/// What was done, told if it ends in a panic.
struct Log<'a> {
    seed: u64,
    steps: Vec<String>,
    failed: &'a AtomicBool,
}

impl Drop for Log<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.failed.store(true, Ordering::Relaxed);
            if self.steps.len() > 300 {
                self.steps.splice(100..self.steps.len() - 200, ["…".to_owned()]);
            }
            eprintln!("LISTWATCH_SEED={} fails after\n  {}", self.seed, self.steps.join("\n  "));
        }
    }
}

/// What the informer's threads say to the one that plays.
enum News {
    Told,
    /// The reader has failed, and begins to wait.
    Failed,
}

struct Run<'a> {
    log: Log<'a>,
    dice: Dice,
    server: ApiServer,
    server_clock: Clock,
    /// The writer's way, which no fault is on.
    maps: Api<ConfigMap>,
    labels: &'static str,
    /// How many requests a list and the watch behind it may take.
    cycle: u64,
    informer: Informer<ConfigMap>,
    started: bool,
    clock: Clock,
    start: Instant,
    stop: Stop,
    tell: Sender<News>,
    news: Receiver<News>,
    members: Vec<Member>,
    /// The histories of handlers that have left, and how many calls they had then.
    left: Vec<(History, usize)>,
    faults: Vec<(Injected, bool)>,
    snapshot: Option<Snapshot>,
    restored: bool,
    /// Events were lost, or their end was: nothing but a list finds it.
    blind: bool,
}

/// A handler at the informer.
struct Member {
    name: String,
    history: History,
    gate: Arc<Gate>,
    registration: Registration<ConfigMap>,
}

/// Stalls a handler while it is shut.
#[derive(Default)]
struct Gate {
    shut: Mutex<bool>,
    moved: Condvar,
}

impl Gate {
    fn set(&self, shut: bool) {
        *self.shut.lock().unwrap() = shut;
        self.moved.notify_all();
    }

    fn is_shut(&self) -> bool {
        *self.shut.lock().unwrap()
    }

    fn pass(&self) {
        drop(self.moved.wait_while(self.shut.lock().unwrap(), |shut| *shut).unwrap());
    }
}

/// Passes what it is told on to a history, and compares it with the cache.
struct Watcher<H> {
    inner: H,
    history: History,
    gate: Arc<Gate>,
    lister: Lister<ConfigMap>,
    tell: Sender<News>,
}

impl<H> Watcher<H> {
    fn enter(&self, object: &ConfigMap, gone: bool) {
        self.gate.pass();
        let there = self.lister.get_key(&object.key());
        // Of an object that is not there any more a deletion is to come.
        if let Some(there) = there {
            let [cached, told] = [&*there, object].map(|o| o.resource_version().parse::<u64>().unwrap());
            if cached < told + u64::from(gone) {
                self.history.note_older(format!("{} is told at {told}, cached at {cached}", object.key()));
            }
        }
    }

    fn leave(&self) {
        let _ = self.tell.send(News::Told); // nobody listens to who was late
    }
}

impl<H: Handler<ConfigMap>> Handler<ConfigMap> for Watcher<H> {
    fn on_add(&mut self, object: &Arc<ConfigMap>, initial: bool) {
        self.enter(object, false);
        self.inner.on_add(object, initial);
        self.leave();
    }

    fn on_update(&mut self, old: &Arc<ConfigMap>, new: &Arc<ConfigMap>) {
        self.enter(new, false);
        self.inner.on_update(old, new);
        self.leave();
    }

    fn on_delete(&mut self, deleted: &Deleted<ConfigMap>) {
        self.enter(&deleted.object, true);
        self.inner.on_delete(deleted);
        self.leave();
    }
}

impl<'a> Run<'a> {
    fn new(seed: u64, failed: &'a AtomicBool) -> Self {
        let mut dice = Dice::new(seed);
        let (clock, server_clock) = (Clock::manual(), Clock::manual());
        let history = dice.pick(&[4, 10, 10_000]);
        let server = ApiServer::builder().clock(server_clock.clone()).history(history).start().unwrap();
        let mode = match dice.roll(6) {
            0 => ListMode::Paged(500),
            n @ 1..=2 => ListMode::Paged(u32::try_from(n).unwrap()),
            3..=4 => ListMode::WatchList,
            _ => ListMode::Cached,
        };
        let labels = if dice.one_in(3) { "in=yes" } else { "" };
        let pages = if let ListMode::Paged(limit) = mode { NAMES.len() as u64 / u64::from(limit) } else { 0 };
        let (tell, news) = unbounded();
        let failing = tell.clone();
        let informer = Informer::builder(Api::<ConfigMap>::all(&client(&server, &clock)))
            .mode(mode)
            .labels(labels)
            .clock(clock.clone())
            .on_error(move |e| {
                // What does not fit the type is told, and not waited for.
                if e.unfit().is_none() {
                    let _ = failing.send(News::Failed); // the run may be over
                }
            })
            .build()
            .unwrap();
        let told = format!("{mode:?}, labels {labels:?}, a history of {history}");
        let maps = Api::default_namespaced(&client(&server, &Clock::system()));
        Self {
            log: Log { seed, steps: vec![told], failed },
            dice,
            server,
            server_clock,
            maps,
            labels,
            // A broken GET is sent twice; an expired page begins a list in one piece; before a watch goes on, the server
            // may be asked for its version.
            cycle: 2 * (pages + 4),
            informer,
            started: false,
            start: clock.now(),
            clock,
            stop: Stop::new(),
            tell,
            news,
            members: Vec::new(),
            left: Vec::new(),
            faults: Vec::new(),
            snapshot: None,
            restored: false,
            blind: false,
        }
    }

    fn note(&mut self, step: impl Into<String>) {
        self.log.steps.push(step.into());
    }

    fn go(mut self) {
        for _ in 0..self.dice.roll(6) {
            self.change();
        }
        self.join();
        let start = self.dice.roll(4);
        for at in 0..5 + self.dice.roll(15) {
            if at == start {
                self.note("start");
                self.informer.start(&self.stop).unwrap();
                self.started = true;
            }
            self.step();
        }
        if self.log.seed % BURSTS == 0 && self.started {
            self.burst();
            for _ in 0..5 {
                self.step();
            }
        }
        self.note("the end");
        self.lift();
        self.members.iter().for_each(|member| member.gate.set(false));
        self.converge();
        self.note("one more");
        self.put("last");
        self.converge();
        self.check();
    }

    fn step(&mut self) {
        match self.dice.roll(100) {
            0..40 => {
                for _ in 0..=self.dice.roll(3) {
                    self.change();
                }
            }
            40..56 => self.inject(),
            56..58 => self.storm(),
            58..70 => self.breathe(),
            70..76 => self.lift(),
            76..80 => {
                self.note("compact");
                self.server.compact();
            }
            80..83 => self.restart(),
            83..86 => self.join(),
            86..88 => self.stall(),
            88..90 => self.leave(),
            90..92 => self.restore(false),
            92..96 => {
                self.note("settle");
                self.lift();
                self.converge();
            }
            96..98 => {
                self.note("bookmarks");
                self.server_clock.advance(BOOKMARKS);
            }
            _ => {
                // For the informer too, or it takes them for failures.
                self.note("watches end after their time");
                self.clock.advance(Duration::from_secs(2));
                self.server_clock.advance(BOOKMARKS * 12);
            }
        }
    }

    // ---- changes ----------------------------------------------------------------------------------------------

    fn change(&mut self) {
        let name = self.dice.pick(&NAMES);
        match self.dice.roll(10) {
            0..5 => self.put(name),
            5..8 => self.delete(name),
            _ => {
                self.delete(name);
                self.put(name);
            }
        }
    }

    /// Changes an object, or creates it; it may begin or end to match.
    fn put(&mut self, name: &'static str) {
        let label = if self.dice.one_in(3) && name != "last" { "no" } else { "yes" };
        let value = self.dice.roll(1 << 20).to_string();
        let there = self.maps.get(name).is_ok();
        let version = if there {
            let patch = json!({"metadata": {"labels": {"in": label}, "annotations": {"value": value}}});
            self.maps.patch(name, &PatchParams::default(), &Patch::Merge(patch)).unwrap()
        } else {
            let metadata = ObjectMeta { labels: Map::from([("in", label)]), ..ObjectMeta::named(name) };
            let map = ConfigMap { metadata, ..ConfigMap::default() };
            self.maps.create(&PostParams::default(), &map).unwrap()
        };
        let done = if there { "change" } else { "create" };
        self.note(format!("{done} {name} at {}, in={label}", version.resource_version()));
    }

    fn delete(&mut self, name: &'static str) {
        let gone = self.maps.delete(name, &DeleteParams::default()).is_ok();
        self.note(format!("delete {name}{}", if gone { "" } else { ", which is not there" }));
    }

    // ---- faults -----------------------------------------------------------------------------------------------

    fn inject(&mut self) {
        let effect = self.effect();
        let blind = matches!(effect, Effect::Lose(_) | Effect::NoBookmarks);
        // What ends by itself may stay set to the end.
        let holds = blind
            || matches!(
                effect,
                Effect::Silence
                    | Effect::HeadOnly
                    | Effect::Late
                    | Effect::SilenceAfter(_)
                    | Effect::HalfLineThenSilence(_)
            );
        let mut fault = Fault::new(effect).path(THEIRS);
        fault = match self.dice.roll(5) {
            0 => fault.lists(),
            1 => fault.next_pages(),
            2 => fault.watches(),
            _ => fault,
        };
        let endless = self.dice.one_in(4);
        if !endless {
            fault = fault.times(1 + self.dice.small(3));
        }
        self.note(format!("inject {fault:?}"));
        let guard = self.server.inject(fault);
        self.blind |= blind;
        if self.dice.one_in(2) {
            for _ in 0..3 {
                self.catch_up();
                if guard.wait_for_hit(BREATH) {
                    break;
                }
            }
        }
        self.faults.push((guard, holds || endless));
    }

    fn effect(&mut self) -> Effect {
        let n = self.dice.small(3);
        match self.dice.roll(18) {
            0 => Effect::Silence,
            1 => Effect::Close,
            2 => Effect::Reset,
            3 => Effect::HeadOnly,
            4 => Effect::Late,
            5 => Effect::Reply(self.reply()),
            6 => Effect::CutBody(100 * n),
            7 => Effect::SilenceAfter(n),
            8 => Effect::HalfLineThenSilence(n),
            9 => Effect::HalfLineThenClose(n),
            10 => Effect::CutAfter(n),
            11 => Effect::EndAfter(n),
            12 => Effect::ErrorAfter(n, self.reply()),
            13 => {
                let lines = ["no JSON", "", "{}", r#"{"type":"BOOKMARK","object":{}}"#, r#"{"type":"NEW"}"#];
                Effect::LineAfter(n, self.dice.pick(&lines).into())
            }
            14 => Effect::Lose(1 + n),
            15 => Effect::Repeat,
            16 => Effect::OneByteChunks,
            _ => Effect::NoBookmarks,
        }
    }

    fn reply(&mut self) -> Reply {
        let busy = Reply::status(429, "TooManyRequests", "too many requests");
        match self.dice.roll(14) {
            0..4 => Reply::expired(),
            4 => Reply::expired_by_reason(),
            5 => Reply::too_large_version(),
            6 => Reply::too_large_version_by_cause_message(),
            7 => Reply::too_large_version_by_message(),
            8 => busy.retry_after(7),
            9 => busy.retry_after_in_status(1),
            10 => Reply::status(500, "InternalError", "etcd is away").pretty(),
            11 => Reply::status(403, "Forbidden", "not yours"),
            12 => Reply::html_bad_gateway(),
            _ => Reply::plain_not_found(),
        }
    }

    /// Each watch ends at once, for some waits: what follows may not come in a tight loop.
    fn storm(&mut self) {
        self.lift_all();
        if !self.started {
            return;
        }
        let effects = [
            Effect::Close,
            Effect::Reset,
            Effect::CutAfter(0),
            Effect::EndAfter(0),
            Effect::ErrorAfter(0, Reply::expired()),
            Effect::ErrorAfter(0, Reply::too_large_version()),
            Effect::ErrorAfter(0, Reply::status(500, "InternalError", "etcd is away")),
        ];
        let fault = Fault::new(self.dice.pick(&effects)).watches().path(THEIRS);
        let waits = 1 + self.dice.roll(4);
        self.note(format!("for {waits} waits {fault:?}"));
        self.catch_up();
        let (before, start) = (self.requests(), self.clock.now());
        let guard = self.server.inject(fault);
        let mut left = waits;
        while left > 0 {
            let Some(news) = self.wait() else {
                panic!("no failure, but {} requests: {:?}", self.requests() - before, self.informer.health());
            };
            left -= u64::from(matches!(news, News::Failed));
            let made = self.requests() - before;
            // A failure that was on its way takes a wait, and one expiry after a while of peace takes none.
            assert!(made <= self.cycle * (waits + 2), "{made} requests in {waits} waits");
            self.take(&news);
        }
        let passed = self.clock.now() - start;
        let least = Duration::from_millis(800) * u32::try_from(waits - 1).unwrap();
        assert!(passed >= least, "{waits} failures in {passed:?}");
        drop(guard);
    }

    /// What the informer has asked for so far.
    fn requests(&self) -> u64 {
        let asked = self.server.requests();
        asked.iter().filter(|request| request.contains(&format!("{THEIRS}?"))).count() as u64
    }

    fn restart(&mut self) {
        self.note("pause");
        self.server.pause().unwrap();
        for _ in 0..self.dice.roll(3) {
            self.breathe();
        }
        match self.dice.roll(4) {
            0 => {
                self.note("compact");
                self.server.compact();
            }
            1 => self.restore(true),
            _ => {}
        }
        self.note("resume");
        self.server.resume().unwrap();
        // Without a connection that was cut.
        self.maps = Api::default_namespaced(&client(&self.server, &Clock::system()));
    }

    /// Goes back to an older state, if there is one to go back to.
    fn restore(&mut self, paused: bool) {
        let Some(snapshot) = self.snapshot.take() else {
            self.note(format!("snapshot at {}", self.server.resource_version()));
            self.snapshot = Some(self.server.snapshot());
            return;
        };
        let mut sees = !paused && self.started && self.dice.one_in(2);
        if sees {
            self.lift_all();
            self.converge();
            sees = !self.blind;
        }
        self.restored = true;
        self.members.iter().for_each(|member| member.history.restored());
        let before = sees.then(|| self.truth());
        self.server.restore(&snapshot);
        self.note(format!("restore {}", self.server.resource_version()));
        if before.is_some_and(|before| before != self.truth()) {
            self.converge();
        } else {
            // Nothing tells it once the server has got to the version that the informer knows, or where it knows none of
            // what is undone: then it must list to find out.
            self.blind = true;
        }
    }

    /// Ends the faults that do not end by themselves, or all.
    fn lift(&mut self) {
        if self.dice.one_in(2) {
            return self.lift_all();
        }
        self.note("lift what holds");
        self.faults.retain(|(_, holds)| !holds);
    }

    fn lift_all(&mut self) {
        self.note("lift all");
        self.faults.clear();
    }

    // ---- handlers ---------------------------------------------------------------------------------------------

    fn join(&mut self) {
        let history = History::new();
        if self.restored {
            history.restored();
        }
        let gate = Arc::new(Gate::default());
        let watcher = Watcher {
            inner: history.handler(),
            history: history.clone(),
            gate: gate.clone(),
            lister: self.informer.lister(),
            tell: self.tell.clone(),
        };
        let registration = self.informer.add_handler(watcher).unwrap();
        let name = registration.name().to_owned();
        self.note(format!("{name} joins"));
        self.members.push(Member { name, history, gate, registration });
    }

    /// The first stays, and does not stall: there is always one that tells how far the informer is.
    fn stall(&mut self) {
        let Some(at) = self.any_but_the_first() else { return };
        let member = &self.members[at];
        let shut = !member.gate.is_shut();
        member.gate.set(shut);
        let what = format!("{} {}", member.name, if shut { "stalls" } else { "goes on" });
        self.note(what);
    }

    fn leave(&mut self) {
        let Some(at) = self.any_but_the_first() else { return };
        let member = self.members.remove(at);
        self.note(format!("{} leaves", member.name));
        member.gate.set(false);
        member.registration.remove();
        self.left.push((member.history.clone(), member.history.calls()));
    }

    fn any_but_the_first(&mut self) -> Option<usize> {
        let others = self.members.len().checked_sub(1).filter(|others| *others > 0)?;
        Some(1 + self.dice.small(others as u64))
    }

    /// More changes than a stalled handler lets wait as they are.
    fn burst(&mut self) {
        self.note("a burst");
        self.lift();
        self.converge();
        self.join();
        self.members.last().unwrap().gate.set(true);
        let first = self.members[0].history.clone();
        let before = first.calls();
        while first.calls() < before + BURST {
            self.change();
            self.catch_up();
            self.let_wait_pass();
        }
        self.converge();
        let depth = self.members.last().unwrap().registration.depth();
        assert!(depth < 1024 + 100, "{depth} wait, so nothing was merged");
    }

    // ---- outcome ----------------------------------------------------------------------------------------------

    /// Lets the others get on, for a moment.
    fn breathe(&mut self) {
        self.note("breathe");
        match self.news.recv_timeout(BREATH) {
            Ok(news) => self.take(&news),
            Err(_) => _ = self.let_wait_pass(),
        }
        self.catch_up();
    }

    fn catch_up(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            self.take(&news);
        }
    }

    /// Each failure is followed by a wait, which passes at once.
    fn take(&mut self, news: &News) {
        if let News::Failed = news {
            let why = self.informer.health().last_error.map(|(_, why)| why);
            self.note(format!("fails: {}", why.unwrap_or_default()));
            // It is about to wait; if it takes longer to get there, `wait` finds it.
            for _ in 0..1000 {
                if self.let_wait_pass() {
                    break;
                }
                thread::yield_now();
            }
        }
    }

    /// Moves the informer's time to what it waits for, if it does.
    fn let_wait_pass(&mut self) -> bool {
        let Some(wait) = self.clock.next_timer() else { return false };
        self.note(format!("{wait:.1?} pass"));
        self.clock.advance(wait);
        true
    }

    /// Waits for news. Where none come, time passes: the informer's if it waits for that, or else the server's.
    fn wait(&mut self) -> Option<News> {
        let real = Clock::system();
        let (start, mut asked) = (real.now(), 0);
        while real.now() < start + SOON {
            if let Ok(news) = self.news.recv_timeout(BREATH) {
                return Some(news);
            }
            asked += 1;
            if !self.let_wait_pass() && asked % 50 == 0 {
                self.server_clock.advance(BOOKMARKS);
            }
        }
        None
    }

    fn truth(&self) -> State {
        state_of(&self.maps.list(&ListParams::default().labels(self.labels)).unwrap().items)
    }

    /// Until the cache, and all handlers that do not stall, are as the server.
    fn converge(&mut self) {
        if !self.started {
            return;
        }
        let expired = Fault::new(Effect::ErrorAfter(0, Reply::expired())).watches().once().path(THEIRS);
        let lists = self.informer.health().lists;
        let _list = self.blind.then(|| {
            // Another fault would end the watch before it is told.
            self.faults.clear();
            self.server.inject(expired)
        });
        let there = self.truth();
        let real = Clock::system();
        let late = real.now() + SOON;
        while !self.is(&there) {
            // There may be news without end, of watches that end and come again.
            if real.now() > late {
                self.give_up(&there);
            }
            match self.wait() {
                Some(news) => self.take(&news),
                None => self.give_up(&there),
            }
            self.catch_up();
        }
        // It may be as it should by chance, and go on to wait for what was lost.
        self.blind &= self.informer.health().lists == lists;
    }

    fn stored(&self) -> State {
        state_of(self.informer.lister().store().list().iter().map(|object| &**object))
    }

    fn is(&self, there: &State) -> bool {
        let mut told = self.members.iter().filter(|member| !member.gate.is_shut());
        told.all(|member| member.history.state() == *there) && self.stored() == *there
    }

    fn give_up(&self, there: &State) -> ! {
        for member in &self.members {
            eprintln!("{} was told {:?}", member.name, member.history.state());
        }
        panic!(
            "it does not converge; the server has {there:?}, the store {:?}; {:?}; {:#?}",
            self.stored(),
            self.informer.health(),
            self.server.requests()
        );
    }

    fn check(mut self) {
        let there = self.truth();
        // No handler is told more than it was, and those that left nothing after.
        for (history, calls) in &self.left {
            assert_eq!(history.calls(), *calls, "calls after the handler had left");
            history.assert_sound("a handler that left");
        }
        for member in &self.members {
            member.history.assert_sound(&member.name);
            assert_eq!(member.history.state(), there, "what {} was told, and the server", member.name);
        }
        let passed = (self.clock.now() - self.start).as_secs();
        let requests = self.requests();
        // In a second at most three cycles: one after the least wait, one after a watch that lasted, one after an expiry.
        let most = self.cycle * (4 + 3 * passed);
        assert!(requests <= most, "{requests} requests in {passed} s, {most} at most");
        self.note("stop");
        self.stop.stop();
        let (done, joined) = bounded(1);
        let informer = self.informer.clone();
        let joins = move || {
            informer.join();
            let _ = done.send(());
        };
        let thread = thread::Builder::new().name("joins".into()).spawn(joins).unwrap();
        assert!(joined.recv_timeout(SOON).is_ok(), "its threads do not end");
        thread.join().unwrap();
        assert_eq!(self.informer.health().activity, Activity::Stopped);
    }
}

fn client(server: &ApiServer, clock: &Clock) -> Client {
    Client::new(Config::new(&server.url()).unwrap().with_clock(clock.clone())).unwrap()
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        // After a failure too, or the handlers' threads wait for ever.
        self.members.iter().for_each(|member| member.gate.set(false));
        self.stop.stop();
    }
}
