//! What goes wrong: a fault a second, restarts, and states that are restored.

use std::sync::atomic::Ordering;
use std::time::Duration;

use listwatch::apiserver::faults::{Effect, Fault, Reply};
use listwatch::{Api, Error};

use super::{Soak, THEIRS, TICK, client};

impl Soak {
    pub(crate) fn fault(&mut self) -> Result<(), Error> {
        self.injected += 1;
        // Soon after it was taken: it holds memory, which is to stay as it is.
        if self.older.is_some() {
            return self.restart();
        }
        match self.dice.roll(24) {
            0 => self.server.compact(),
            1 => self.restart()?,
            2 => {
                let state = self.ledger.state.clone();
                self.older = Some((self.server.snapshot(), self.ledger.version, state));
            }
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

    /// Down for a moment, and back with an older state if there is one.
    fn restart(&mut self) -> Result<(), Error> {
        self.server.pause()?;
        self.stop.sleep(Duration::from_millis(100 * self.dice.roll(20) as u64));
        if let Some((snapshot, version, state)) = self.older.take() {
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

    pub(crate) fn lift(&mut self, all: bool) {
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
    pub(crate) fn list_anew(&mut self) {
        let expired = Fault::new(Effect::ErrorAfter(0, Reply::expired())).watches().path(THEIRS);
        let until = self.clock.now() + Duration::from_secs(3600);
        // One that watches twice before another does once takes its part, so there is one for each until all have listed.
        let guard = self.server.inject(expired.times(self.followers.len()));
        self.faults.push((guard, until, false));
    }
}
