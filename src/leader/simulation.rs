//! Elections by random: candidates whose clocks run at rates of their own and whose times of day jump, on a network that
//! loses, delays and holds back whatever it likes, in processes that are paused, killed, started anew and stopped, two of
//! which may have the same identity. Never do two of them have a term at once; once all is well one leads.
//!
//! What the threads do around the state machine is done here by events in a simulated time, in microseconds. The clocks, the
//! terms and the server's rule for writes are real or as simple as they are there.
//!
//! `LISTWATCH_SEED=s` repeats one election, `LISTWATCH_RUNS=n` makes so many.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::election::{Answer, Election, Request, Timing};
use super::expiry::Expiry;
use crate::clock::Clock;
use crate::object::MicroTime;
use crate::types::LeaseSpec;

const RUNS: u64 = 10_000;
/// Until when things go wrong, and how long it goes on behind that.
const TROUBLE: u64 = 80 * SECOND;
const QUIET: u64 = 40 * SECOND;
const SECOND: u64 = 1_000_000;

/// The same choices for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    /// A share of one.
    fn part(&mut self) -> f64 {
        self.roll(1 << 20) as f64 / f64::from(1 << 20)
    }
}

/// What happens next, to which candidate. A number that is not the candidate's any more belongs to what was given up.
#[derive(Clone, Debug)]
enum Event {
    /// A try is due.
    Try { who: usize, life: u64 },
    /// A request gets to the server.
    Arrives { who: usize, asked: u64, request: Request, version: u64 },
    /// Its answer gets back.
    Answered { who: usize, asked: u64, answer: Answer, version: u64 },
    /// It has taken too long.
    TimedOut { who: usize, asked: u64 },
    /// The watchdog looks.
    Deadline { who: usize, life: u64 },
    /// The callback has returned.
    Done { who: usize, life: u64 },
    /// Something goes wrong.
    Trouble,
}

struct Candidate {
    identity: String,
    timing: Timing,
    clock: Clock,
    /// Its time for one of ours.
    rate: f64,
    /// How much of our time its clock knows of.
    known: u64,
    /// What its time of day is wrong by.
    wall: i64,
    election: Election,
    /// The version of the Lease that it read or wrote last.
    version: u64,
    /// Another one for each campaign.
    life: u64,
    /// The request under way.
    asked: Option<(u64, Request, Instant)>,
    releasing: bool,
    term: Option<Arc<Expiry>>,
    /// Whether that was seen to be over.
    over: bool,
    /// Told to end its term, or stopped while it stood.
    stopped: bool,
    paused: u64,
    /// Nothing gets through until then.
    cut: u64,
}

impl Candidate {
    fn know(&mut self, now: u64) {
        let passed = Duration::from_micros(now - self.known).mul_f64(self.rate);
        self.known = now;
        self.clock.advance(passed);
    }

    /// When, in our time, so much of its own has passed.
    fn after(&self, now: u64, time: Duration) -> u64 {
        now + (time.as_micros() as f64 / self.rate).ceil() as u64 + 1
    }

    fn wall(&self, now: u64) -> MicroTime {
        MicroTime::from_unix_micros(1_800_000_000_000_000 + self.wall + now as i64)
    }
}

struct World {
    seed: u64,
    dice: Dice,
    now: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: Vec<Option<Event>>,
    asked: u64,
    lease: Option<(LeaseSpec, u64)>,
    version: u64,
    candidates: Vec<Candidate>,
    terms: usize,
    /// For who looks into a run that failed.
    log: Vec<String>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let twins = dice.one_in(4);
        let mut candidates = Vec::new();
        let mut tolerated = f64::MAX;
        for n in 0..2 + dice.roll(2) {
            let lease = Duration::from_secs(2 + dice.roll(9));
            let renew = lease.mul_f64(0.5 + 0.45 * dice.part());
            let retry = renew.div_f64(1.3 + 4.0 * dice.part());
            let timing = Timing { lease, renew, retry };
            tolerated = lease.as_secs_f64().min(tolerated * renew.as_secs_f64()) / renew.as_secs_f64();
            let (clock, identity) = (Clock::manual(), format!("c{}", if twins { n / 2 } else { n }));
            candidates.push(Candidate {
                election: Election::new(&identity, timing, &clock),
                identity,
                timing,
                clock,
                rate: 1.0,
                known: 0,
                wall: 0,
                version: 0,
                life: 0,
                asked: None,
                releasing: false,
                term: None,
                over: false,
                stopped: false,
                paused: 0,
                cut: 0,
            });
        }
        for candidate in &mut candidates {
            candidate.rate = 1.0 + 0.99 * (tolerated - 1.0) * dice.part();
            candidate.wall = dice.roll(7200 * SECOND) as i64 - 3600 * SECOND as i64;
        }
        let mut world = Self {
            seed,
            dice,
            now: 0,
            queue: BinaryHeap::new(),
            events: Vec::new(),
            asked: 0,
            lease: None,
            version: 0,
            candidates,
            terms: 0,
            log: Vec::new(),
        };
        for who in 0..world.candidates.len() {
            let at = world.dice.roll(2 * SECOND);
            world.at(at, Event::Try { who, life: 0 });
        }
        world.at(SECOND, Event::Trouble);
        world
    }

    fn at(&mut self, time: u64, event: Event) {
        self.queue.push(Reverse((time.max(self.now), self.events.len() as u64)));
        self.events.push(Some(event));
    }

    /// Runs to the end. Returns how many terms there were.
    fn run(mut self) -> usize {
        while let Some(Reverse((time, number))) = self.queue.pop() {
            if time > TROUBLE + QUIET {
                break;
            }
            self.now = time;
            let Some(event) = self.events[number as usize].take() else { continue };
            self.happens(event);
        }
        self.now = TROUBLE + QUIET;
        let leaders = self.leaders();
        self.check(leaders.len() == 1, &format!("{leaders:?} lead in the end"));
        self.terms
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrives { who, asked, request, version } => {
                let (answer, version) = self.serve(&request, version);
                if let Some(time) = self.travel(who) {
                    self.at(time, Event::Answered { who, asked, answer, version });
                }
                return;
            }
            Event::Trouble => return self.trouble(),
            _ => {}
        }
        let (Event::Try { who, .. }
        | Event::Answered { who, .. }
        | Event::TimedOut { who, .. }
        | Event::Deadline { who, .. }
        | Event::Done { who, .. }) = event
        else {
            return;
        };
        let (now, candidate) = (self.now, &mut self.candidates[who]);
        if candidate.paused > now {
            // A process that does not run finds it all when it goes on, in any order.
            let later = candidate.paused + self.dice.roll(1000);
            return self.at(later, event);
        }
        candidate.know(now);
        let current = candidate.asked.as_ref().map(|(asked, ..)| *asked);
        match event {
            Event::Try { life, .. } if life == candidate.life && candidate.asked.is_none() => {
                self.attempt(who)
            }
            Event::Answered { asked, answer, version, .. } if current == Some(asked) => {
                if matches!(answer, Answer::Lease(_)) {
                    candidate.version = version;
                }
                self.answered(who, answer);
            }
            Event::TimedOut { asked, .. } if current == Some(asked) => self.answered(who, Answer::Failed),
            Event::Deadline { life, .. } if life == candidate.life => self.watch(who),
            Event::Done { life, .. } if life == candidate.life => self.done(who),
            _ => {}
        }
        let candidate = &mut self.candidates[who];
        let before = candidate.over;
        candidate.over = candidate.term.as_ref().is_some_and(|term| term.is_over());
        let again = before && candidate.term.is_some() && !candidate.over;
        self.check(!again, &format!("{who} leads again after its term"));
    }

    fn attempt(&mut self, who: usize) {
        let (now, candidate) = (self.now, &mut self.candidates[who]);
        if candidate.term.is_none() {
            if candidate.stopped {
                return self.release(who);
            }
            candidate.election.stand();
        }
        let wall = candidate.wall(now);
        let request = candidate.election.begin(wall);
        self.send(who, request);
    }

    fn send(&mut self, who: usize, request: Request) {
        let (now, candidate) = (self.now, &mut self.candidates[who]);
        let limit = if candidate.releasing { candidate.timing.retry } else { candidate.timing.renew / 2 };
        self.asked += 1;
        let (asked, version) = (self.asked, candidate.version);
        candidate.asked = Some((asked, request.clone(), candidate.clock.now()));
        let limit = candidate.after(now, limit);
        self.at(limit, Event::TimedOut { who, asked });
        if let Some(time) = self.travel(who) {
            self.at(time, Event::Arrives { who, asked, request, version });
        }
    }

    /// When what is sent now gets there; `None` is never.
    fn travel(&mut self, who: usize) -> Option<u64> {
        let (now, cut) = (self.now, self.candidates[who].cut);
        let well = self.now > TROUBLE;
        let soon = 1000 + self.dice.roll(50_000);
        if cut > now {
            // Lost, or kept by the network until it is well again.
            return self.dice.one_in(2).then_some(cut + soon);
        }
        match self.dice.roll(40) {
            _ if well => Some(now + soon),
            0 => None,
            1 | 2 => Some(now + self.dice.roll(20 * SECOND)),
            _ => Some(now + soon),
        }
    }

    fn serve(&mut self, request: &Request, version: u64) -> (Answer, u64) {
        if self.now < TROUBLE && self.dice.one_in(50) {
            return (Answer::Failed, 0); // overloaded
        }
        let record = match (request, &self.lease) {
            (Request::Read, None) => return (Answer::Missing, 0),
            (Request::Read, Some((record, version))) => return (Answer::Lease(record.clone()), *version),
            (Request::Create(record), None) => record,
            (Request::Write(record), Some((_, now))) if *now == version => record,
            _ => return (Answer::Failed, 0),
        };
        self.version += 1;
        self.lease = Some((record.clone(), self.version));
        (Answer::Lease(record.clone()), self.version)
    }

    fn answered(&mut self, who: usize, answer: Answer) {
        let (now, candidate) = (self.now, &mut self.candidates[who]);
        let Some((_, request, started)) = candidate.asked.take() else { return };
        let wall = candidate.wall(now);
        if candidate.releasing {
            let next = candidate.election.release(Some((&request, answer)), wall);
            return self.go_on_releasing(who, next);
        }
        let next = candidate.election.answered(&request, started, answer, wall);
        let term = candidate.election.term().cloned();
        match (candidate.term.is_some(), term) {
            (false, Some(term)) => self.begins(who, term),
            (true, None) => self.watch(who),
            _ => {}
        }
        // The thread that renews ends with the term, sooner or later.
        let over = self.candidates[who].term.as_ref().is_some_and(|term| term.is_over());
        if over && self.dice.one_in(2) {
            return;
        }
        if let Some(next) = next {
            return self.send(who, next);
        }
        let (life, candidate) = (self.candidates[who].life, &self.candidates[who]);
        let mut wait = candidate.timing.retry;
        if candidate.term.is_none() {
            wait += wait.mul_f64(1.2 * self.dice.part());
        }
        let time = self.candidates[who].after(now, wait);
        self.at(time, Event::Try { who, life });
    }

    fn begins(&mut self, who: usize, term: Arc<Expiry>) {
        let others: Vec<_> = self.leaders().into_iter().filter(|other| *other != who).collect();
        self.check(others.is_empty(), &format!("{who} leads as well as {others:?}"));
        self.terms += 1;
        let candidate = &mut self.candidates[who];
        (candidate.term, candidate.over) = (Some(term), false);
        let (life, stopped) = (candidate.life, candidate.stopped);
        self.note(who, "leads");
        self.at(self.now, Event::Deadline { who, life });
        if stopped {
            return self.done(who);
        }
        // Some callbacks return by themselves.
        if self.dice.one_in(4) && self.now < TROUBLE {
            let time = self.now + self.dice.roll(30 * SECOND);
            self.at(time, Event::Done { who, life });
        }
    }

    /// What the watchdog does: looks until the term is over, then waits for the callback.
    fn watch(&mut self, who: usize) {
        let candidate = &mut self.candidates[who];
        let life = candidate.life;
        let Some(term) = &candidate.term else { return };
        if let Some(until) = term.until() {
            let time = candidate.after(self.now, until - candidate.clock.now());
            return self.at(time, Event::Deadline { who, life });
        }
        self.note(who, "has lost");
        let time = self.now + self.dice.roll(5 * SECOND);
        self.at(time, Event::Done { who, life });
    }

    /// The callback has returned.
    fn done(&mut self, who: usize) {
        let (now, candidate) = (self.now, &mut self.candidates[who]);
        if candidate.term.is_none() {
            return;
        }
        if let Some((_, request, started)) = candidate.asked.take() {
            let wall = candidate.wall(now);
            candidate.election.answered(&request, started, Answer::Failed, wall);
        }
        self.note(who, "is done");
        self.release(who);
    }

    fn release(&mut self, who: usize) {
        let (now, candidate) = (self.now, &mut self.candidates[who]);
        candidate.life += 1;
        candidate.term = None;
        candidate.releasing = true;
        candidate.stopped = false;
        let wall = candidate.wall(now);
        let next = candidate.election.release(None, wall);
        let next = next.filter(|_| !self.dice.one_in(4));
        self.go_on_releasing(who, next);
    }

    fn go_on_releasing(&mut self, who: usize, next: Option<Request>) {
        match next {
            Some(next) if !self.dice.one_in(10) => self.send(who, next),
            _ => self.stand_again(who),
        }
    }

    fn stand_again(&mut self, who: usize) {
        let candidate = &mut self.candidates[who];
        candidate.releasing = false;
        let life = candidate.life;
        let time = self.now + self.dice.roll(3 * SECOND);
        self.at(time, Event::Try { who, life });
    }

    fn trouble(&mut self) {
        if self.now > TROUBLE {
            return;
        }
        let who = self.dice.roll(self.candidates.len() as u64) as usize;
        let (now, length) = (self.now, self.dice.roll(25 * SECOND));
        match self.dice.roll(7) {
            0 => {
                self.note(who, "is cut off");
                self.candidates[who].cut = now + length;
            }
            1 => {
                self.note(who, "is paused");
                self.candidates[who].paused = now + length;
            }
            2 => self.kill(who, length),
            3 => {
                self.note(who, "is stopped");
                let (life, length) = (self.candidates[who].life, self.dice.roll(8 * SECOND));
                self.candidates[who].stopped = true;
                if self.candidates[who].term.is_some() {
                    self.at(now + length, Event::Done { who, life });
                }
            }
            4 => self.candidates[who].wall += self.dice.roll(7200 * SECOND) as i64 - 3600 * SECOND as i64,
            5 => {
                for candidate in &mut self.candidates {
                    candidate.cut = now + length;
                }
            }
            _ => {
                // A label is set.
                self.version += 1;
                let version = self.version;
                self.lease.as_mut().into_iter().for_each(|lease| lease.1 = version);
            }
        }
        let next = self.now + self.dice.roll(6 * SECOND);
        self.at(next, Event::Trouble);
    }

    /// The process is gone at once, and comes back without memory.
    fn kill(&mut self, who: usize, length: u64) {
        self.note(who, "is killed");
        let (now, candidate) = (self.now, &mut self.candidates[who]);
        candidate.election = Election::new(&candidate.identity, candidate.timing, &candidate.clock);
        (candidate.term, candidate.asked, candidate.version) = (None, None, 0);
        (candidate.releasing, candidate.stopped, candidate.paused) = (false, false, 0);
        candidate.life += 1;
        let life = candidate.life;
        self.at(now + length, Event::Try { who, life });
    }

    /// Who has a term now, each by his own clock.
    fn leaders(&mut self) -> Vec<usize> {
        let now = self.now;
        let mut leaders = Vec::new();
        for (who, candidate) in self.candidates.iter_mut().enumerate() {
            candidate.know(now);
            if candidate.term.as_ref().is_some_and(|term| !term.is_over()) {
                leaders.push(who);
            }
        }
        leaders
    }

    fn note(&mut self, who: usize, what: &str) {
        self.log.push(format!("{:>10.6} {who} {what}", self.now as f64 / SECOND as f64));
    }

    #[track_caller]
    fn check(&self, so: bool, what: &str) {
        assert!(so, "seed {} at {} µs: {what}\n{}", self.seed, self.now, self.log.join("\n"));
    }
}

#[test]
fn issue_kubernetes_23731_never_do_two_terms_overlap_whatever_happens() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match number("LISTWATCH_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + number("LISTWATCH_RUNS").unwrap_or(RUNS),
    };
    let runs = seeds.end - seeds.start;
    let terms: usize = seeds.map(|seed| World::new(seed).run()).sum();
    // Otherwise nothing was tried.
    assert!(terms as u64 >= 4 * runs, "{terms} terms in {runs} elections");
}
