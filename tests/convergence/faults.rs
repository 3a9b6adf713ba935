//! What goes wrong in a run: faults on the way, storms of them, restarts, and states that are restored.

use std::time::Duration;

use listwatch::apiserver::faults::{Effect, Fault, Reply};
use listwatch::{Api, Clock};

use super::outcome::BREATH;
use super::run::{News, Run, THEIRS, client};

impl Run<'_> {
    pub(super) fn inject(&mut self) {
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
    pub(super) fn storm(&mut self) {
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

    pub(super) fn restart(&mut self) {
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
    pub(super) fn restore(&mut self, paused: bool) {
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
    pub(super) fn lift(&mut self) {
        if self.dice.one_in(2) {
            return self.lift_all();
        }
        self.note("lift what holds");
        self.faults.retain(|(_, holds)| !holds);
    }

    pub(super) fn lift_all(&mut self) {
        self.note("lift all");
        self.faults.clear();
    }
}
