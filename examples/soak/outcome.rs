//! What must be true, all the time and in the end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use listwatch::apiserver::faults::{Effect, Fault, Reply};
use listwatch::{Error, ListParams, Resource, Stop};

use super::changes::{State, name, version};
use super::follower::{Fold, STANDSTILL, difference};
use super::{Soak, THEIRS, TICK, Verdict};

/// In less time queues and the allocator still settle, and memory says nothing.
const LONG_ENOUGH: Duration = Duration::from_secs(180);

impl Soak {
    /// Compares each cache with the state at its version, and looks at the handlers and the threads.
    pub(crate) fn compare(&mut self) -> Result<(), String> {
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
        if let Some(seen) = self.followers.iter().map(|follower| follower.at).min() {
            self.ledger.forget(seen);
        }
        // Nothing that is blind for long goes on so: the expiry may have met another twice.
        if lagging && self.dice.roll(40) == 0 {
            self.list_anew();
        }
        Ok(())
    }

    pub(crate) fn folds(&self) -> impl Iterator<Item = (String, &Fold)> {
        self.followers.iter().flat_map(|follower| {
            let names = ["the handler", "the slow handler"].into_iter().zip(&follower.folds);
            names.map(|(name, fold)| (format!("{name} of {:?}", follower.mode), fold))
        })
    }

    /// With all faults lifted and nothing changing but once, all must become as the server.
    pub(crate) fn settle(&mut self) -> Result<Result<(), String>, Error> {
        self.folds().for_each(|(_, fold)| fold.hurry.store(true, Ordering::Relaxed));
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

    /// How it goes; counts are those of the informers that are there now.
    pub(crate) fn line(&self) {
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
            deletes += follower.folds[0].lock().deletes;
        }
        println!(
            "{:5} s: {} changes, {} faults, {lists} lists, {watches} watches, {errors} errors, compared {compared}, \
             deletes {deletes}, behind {}, depths {}, {} MB, {} threads, {}",
            self.passed().as_secs(),
            self.changes,
            self.injected,
            behind.join("/"),
            depths.join("/"),
            rss() >> 10,
            threads().len(),
            modes.join(" "),
        );
    }

    /// The last third of the time may not take more than the second. By then all that is to grow has grown: the server
    /// keeps no more changes than are made in a tenth of the time.
    pub(crate) fn judge_memory(&self) -> Verdict {
        let third = self.memory.len() / 3;
        let mean = |of: &[u64]| of.iter().sum::<u64>() / (of.len() as u64).max(1);
        let (before, after) = (mean(&self.memory[third..third * 2]), mean(&self.memory[third * 2..]));
        let told = format!(
            "{} changes, {} faults, {} restores, each cache compared at {:?} versions; memory: {} MB, then {} MB",
            self.changes,
            self.injected,
            self.restores,
            self.followers.iter().map(|follower| follower.compared).collect::<Vec<_>>(),
            before >> 10,
            after >> 10
        );
        if self.options.time < LONG_ENOUGH {
            return Ok(format!("{told}, too short to judge it"));
        }
        // For the allocator's moods.
        if after > before + before / 20 + (4 << 10) { Err(format!("memory grows: {told}")) } else { Ok(told) }
    }
}

/// Resident memory in KiB; 0 where the system does not tell.
pub(crate) fn rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}

/// The names of this program's threads; none where the system does not tell.
pub(crate) fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok())
        .map(|name| name.trim().into())
        .collect()
}

/// Whether there are no more threads than before. The system takes a moment to forget one that was joined.
pub(crate) fn all_ended(before: usize) -> Result<(), String> {
    let stop = Stop::new();
    for _ in 0..50 {
        if threads().len() <= before {
            return Ok(());
        }
        stop.sleep(TICK);
    }
    Err(format!("threads stay: {}", threads().join(", ")))
}
