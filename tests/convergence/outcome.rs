//! How the time of a run passes, and what must be true in the end.

use std::thread;
use std::time::Duration;

use crossbeam_channel::bounded;
use listwatch::apiserver::faults::{Effect, Fault, Reply};
use listwatch::cache::Activity;
use listwatch::{Clock, ListParams};

use super::history::{State, state_of};
use super::run::{BOOKMARKS, News, Run, THEIRS};

/// After so long without any news a run has failed.
const SOON: Duration = Duration::from_secs(30);
/// A breath, for the other threads to get somewhere; the outcome does not depend on it.
pub(super) const BREATH: Duration = Duration::from_millis(2);

impl Run<'_> {
    /// Lets the others get on, for a moment.
    pub(super) fn breathe(&mut self) {
        self.note("breathe");
        match self.news.recv_timeout(BREATH) {
            Ok(news) => self.take(&news),
            Err(_) => _ = self.let_wait_pass(),
        }
        self.catch_up();
    }

    pub(super) fn catch_up(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            self.take(&news);
        }
    }

    /// Each failure is followed by a wait, which passes at once.
    pub(super) fn take(&mut self, news: &News) {
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
    pub(super) fn let_wait_pass(&mut self) -> bool {
        let Some(wait) = self.clock.next_timer() else { return false };
        self.note(format!("{wait:.1?} pass"));
        self.clock.advance(wait);
        true
    }

    /// Waits for news. Where none come, time passes: the informer's if it waits for that, or else the server's.
    pub(super) fn wait(&mut self) -> Option<News> {
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

    pub(super) fn truth(&self) -> State {
        state_of(&self.maps.list(&ListParams::default().labels(self.labels)).unwrap().items)
    }

    /// Until the cache, and all handlers that do not stall, are as the server.
    pub(super) fn converge(&mut self) {
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

    pub(super) fn check(mut self) {
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

    /// What the informer has asked for so far.
    pub(super) fn requests(&self) -> u64 {
        let asked = self.server.requests();
        asked.iter().filter(|request| request.contains(&format!("{THEIRS}?"))).count() as u64
    }
}
