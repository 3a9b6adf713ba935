//! One run: its parts, its steps and its changes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use listwatch::apiserver::faults::Injected;
use listwatch::apiserver::{ApiServer, Snapshot};
use listwatch::types::ConfigMap;
use listwatch::{
    Api, Client, Clock, Config, DeleteParams, Informer, ListMode, Map, ObjectMeta, Patch, PatchParams,
    PostParams, Resource, Stop,
};
use serde_json::json;

use super::dice::Dice;
use super::handlers::Member;
use super::history::History;

/// Longer than the server waits before it sends a bookmark.
pub(super) const BOOKMARKS: Duration = Duration::from_secs(61);
/// What the informers ask for, and the writer does not: the faults are theirs alone.
pub(super) const THEIRS: &str = "/api/v1/configmaps";
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// One in so many runs has a burst.
const BURSTS: u64 = 250;

pub(super) struct Run<'a> {
    pub(super) log: Log<'a>,
    pub(super) dice: Dice,
    pub(super) server: ApiServer,
    pub(super) server_clock: Clock,
    /// The writer's way, which no fault is on.
    pub(super) maps: Api<ConfigMap>,
    pub(super) labels: &'static str,
    /// How many requests a list and the watch behind it may take.
    pub(super) cycle: u64,
    pub(super) informer: Informer<ConfigMap>,
    pub(super) started: bool,
    pub(super) clock: Clock,
    pub(super) start: Instant,
    pub(super) stop: Stop,
    pub(super) tell: Sender<News>,
    pub(super) news: Receiver<News>,
    pub(super) members: Vec<Member>,
    /// The histories of handlers that have left, and how many calls they had then.
    pub(super) left: Vec<(History, usize)>,
    pub(super) faults: Vec<(Injected, bool)>,
    pub(super) snapshot: Option<Snapshot>,
    pub(super) restored: bool,
    /// Events were lost, or their end was: nothing but a list finds it.
    pub(super) blind: bool,
}

/// What the informer's threads say to the one that plays.
pub(super) enum News {
    Told,
    /// The reader has failed, and begins to wait.
    Failed,
}
/// What was done, told if it ends in a panic.
pub(super) struct Log<'a> {
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

impl<'a> Run<'a> {
    pub(super) fn new(seed: u64, failed: &'a AtomicBool) -> Self {
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

    pub(super) fn note(&mut self, step: impl Into<String>) {
        self.log.steps.push(step.into());
    }

    pub(super) fn go(mut self) {
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

    pub(super) fn change(&mut self) {
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
}

pub(super) fn client(server: &ApiServer, clock: &Clock) -> Client {
    Client::new(Config::new(&server.url()).unwrap().with_clock(clock.clone())).unwrap()
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        // After a failure too, or the handlers' threads wait for ever.
        self.members.iter().for_each(|member| member.gate.set(false));
        self.stop.stop();
    }
}
