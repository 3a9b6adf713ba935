//! One informer that is to come through a fault, and what must hold behind it, whatever the fault was.

use std::fmt::Debug;
use std::ops::RangeBounds;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use listwatch::cache::{Events, ListWatch};
use listwatch::types::ConfigMap;
use listwatch::{
    Api, Clock, DeleteParams, Informer, ListMeta, ListMode, ListParams, ObjectMeta, Patch, PatchParams,
    PostParams, Result, Stop, WatchParams,
};
use serde_json::json;

use super::history::{History, State, state_of};

/// Longer than anything takes on a machine that is busy, but for what waits for a silence.
const LONG: Duration = Duration::from_secs(60);
/// So many requests may follow upon a wait: three pages, the same in one piece, the version, a watch, and
/// those sent again whose connection was broken.
const REQUESTS_A_TRY: usize = 10;

/// The silence of the informers that meet dead connections; `None` is the default of the crate. The environment
/// variable `LISTWATCH_SILENCE` (seconds, or `default`) takes the place of a short one.
pub(crate) fn silence() -> Option<Duration> {
    match std::env::var("LISTWATCH_SILENCE").as_deref() {
        Ok("default") => None,
        Ok(seconds) => Some(Duration::from_secs_f64(seconds.parse().unwrap())),
        Err(_) => Some(Duration::from_millis(500)),
    }
}

/// How long a dead connection may hold a recovery up, of the system's time: a silence or two, and what a busy machine
/// takes. By default under four minutes.
pub(crate) fn longest() -> Duration {
    silence().map_or(Duration::from_secs(240), |silence| silence * 2 + Duration::from_secs(30))
}

/// An informer of config maps under a manual clock, with a handler whose history is kept.
pub(crate) struct Scene {
    pub(crate) mode: ListMode,
    /// Past the fault.
    pub(crate) ours: Api<ConfigMap>,
    pub(crate) informer: Informer<ConfigMap>,
    /// The informer's.
    pub(crate) clock: Clock,
    pub(crate) stop: Stop,
    pub(crate) history: History,
    /// The keys whose deletion must be told.
    deleted: Vec<String>,
    requests: Arc<AtomicUsize>,
    born: Instant,
    /// When the time to recover begins: on the informer's clock, and on the system's.
    began: (Instant, Instant),
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop.stop();
        self.informer.join();
    }
}

impl Scene {
    /// An informer of `theirs`, not started, and the objects that it is to find.
    pub(crate) fn new(
        mode: ListMode,
        ours: Api<ConfigMap>,
        theirs: Api<ConfigMap>,
        silence: Option<Duration>,
    ) -> Self {
        watch_for_panics();
        let (clock, requests) = (Clock::manual(), Arc::<AtomicUsize>::default());
        let source = Counted { api: theirs, requests: requests.clone() };
        let builder = Informer::builder(source).mode(mode).clock(clock.clone());
        let builder = match silence {
            Some(silence) => builder.silence(silence),
            None => builder,
        };
        let (informer, history) = (builder.build().unwrap(), History::new());
        informer.add_handler(history.handler()).unwrap();
        let (born, began) = (clock.now(), (clock.now(), Clock::system().now()));
        let (stop, deleted) = (Stop::new(), Vec::new());
        let scene = Self { mode, ours, informer, clock, stop, history, deleted, requests, born, began };
        ["kept", "changed", "gone", "anew"].iter().for_each(|name| scene.create(name));
        scene
    }

    pub(crate) fn start(&mut self) {
        self.begin();
        self.informer.start(&self.stop).unwrap();
    }

    /// Starts it, and waits until it follows the server.
    pub(crate) fn sync(&mut self) {
        self.start();
        self.until("it syncs", || self.informer.has_synced());
        self.create("first");
        self.converges("before the fault");
        self.begin();
    }

    /// The time to recover begins now.
    pub(crate) fn begin(&mut self) {
        self.began = (self.clock.now(), Clock::system().now());
    }

    pub(crate) fn create(&self, name: &str) {
        let map = ConfigMap { metadata: ObjectMeta::named(name), ..ConfigMap::default() };
        self.ours.create(&PostParams::default(), &map).unwrap();
    }

    pub(crate) fn set(&self, name: &str, value: &str) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"value": value}}}));
        self.ours.patch(name, &PatchParams::default(), &patch).unwrap();
    }

    pub(crate) fn delete(&mut self, name: &str) {
        self.ours.delete(name, &DeleteParams::default()).unwrap();
        self.must_tell_deletion(name);
    }

    pub(crate) fn must_tell_deletion(&mut self, name: &str) {
        self.deleted.push(self.key(name));
    }

    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.ours.namespace().unwrap())
    }

    /// A change, a deletion, another object under an old name, a new object.
    pub(crate) fn change(&mut self) {
        self.set("changed", "second");
        self.delete("gone");
        self.delete("anew");
        self.create("anew");
        self.create("new");
    }

    /// What the server has.
    pub(crate) fn there(&self) -> State {
        state_of(&self.ours.list(&ListParams::default()).unwrap().items)
    }

    /// What the store has.
    pub(crate) fn stored(&self) -> State {
        state_of(self.informer.lister().store().list().iter().map(|object| &**object))
    }

    /// Lets the wait that there may be on the informer's clock pass.
    pub(crate) fn pass(&self) {
        if let Some(wait) = self.clock.next_timer() {
            self.clock.advance(wait);
        }
    }

    /// Blocks until it is so while each wait passes.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut so: impl FnMut() -> bool) {
        self.stands_until(what, || {
            let now = so();
            if !now {
                self.pass();
            }
            now
        });
    }

    /// Blocks until the informer waits before it tries again.
    #[track_caller]
    pub(crate) fn waits(&self) {
        self.stands_until("it waits", || self.clock.next_timer().is_some());
    }

    /// Blocks until it is so while its clock stands still.
    #[track_caller]
    fn stands_until(&self, what: &str, mut so: impl FnMut() -> bool) {
        let system = Clock::system();
        let deadline = system.now() + LONG + silence().unwrap_or(Duration::from_secs(240));
        while !so() {
            if system.now() > deadline {
                let (there, stored, told) = (self.there(), self.stored(), self.history.state());
                panic!(
                    "{:?}, {what}: never; the server has {there:#?}, the store {stored:#?}, told was {told:#?}; {:#?}",
                    self.mode,
                    self.informer.health()
                );
            }
            let _ = self.history.news.recv_timeout(Duration::from_millis(1)); // or a wait has begun
        }
    }

    #[track_caller]
    pub(crate) fn converges(&self, when: &str) {
        let there = self.there();
        self.until(when, || self.stored() == there && self.history.state() == there);
    }

    /// How many lists there were so far.
    pub(crate) fn lists(&self) -> u64 {
        self.informer.health().lists
    }

    /// What must hold behind every fault. `within` is how long the recovery takes on the informer's clock, in seconds.
    /// Returns how long it took on the system's, most of which is the silence after which a connection counts as dead.
    #[track_caller]
    pub(crate) fn recovers(&mut self, within: &(impl RangeBounds<f64> + Debug)) -> Duration {
        let mode = self.mode;
        self.converges("after the fault");
        let took = (self.clock.now() - self.began.0).as_secs_f64();
        let real = Clock::system().now() - self.began.1;
        println!("{mode:?}: healed after {took:.1} s of backoff, {real:.1?} of the system's time");
        let tenths = (took * 10.0).round() / 10.0;
        assert!(within.contains(&tenths), "{mode:?}: {took} s, not {within:?}; {:?}", self.informer.health());

        // It still follows: each thread is alive.
        self.set("kept", "last");
        self.delete("changed");
        self.create("last");
        self.converges("a later change");

        self.history.assert_sound(&format!("{mode:?}"));
        let (mut deleted, mut told) = (self.deleted.clone(), self.history.deleted());
        deleted.sort();
        told.sort();
        assert_eq!(told, deleted, "{mode:?}: each deletion is told once");

        // Who comes late is told the same.
        let (late, there) = (History::new(), self.there());
        let registration = self.informer.add_handler(late.handler()).unwrap();
        while late.calls() < there.len() {
            late.news.recv_timeout(LONG).unwrap();
        }
        assert_eq!((late.state(), late.calls()), (there.clone(), there.len()), "{mode:?}: told late");
        late.assert_sound(&format!("{mode:?}: told late"));
        registration.remove();

        let passed = self.passed();
        let (requests, most) = (self.requests(), most_requests(passed));
        assert!(requests <= most, "{mode:?}: {requests} requests in {passed:.1?}, not {most}");
        let panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(panics.is_empty(), "{panics:#?}");
        real
    }

    /// The time since the beginning, on the informer's clock.
    pub(crate) fn passed(&self) -> Duration {
        self.clock.now() - self.born
    }

    /// The requests of the informer: lists, each page of them, and watches.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// How many requests the backoff lets through in this time: it waits 0.8 s at the least, then twice as long each time
/// up to 30 s.
pub(crate) fn most_requests(passed: Duration) -> usize {
    let (mut tries, mut wait, mut left) = (2, 0.8, passed.as_secs_f64());
    while left >= wait {
        left -= wait;
        wait = f64::min(wait * 2.0, 30.0);
        tries += 1;
    }
    tries * REQUESTS_A_TRY
}

/// An API whose requests are counted.
struct Counted {
    api: Api<ConfigMap>,
    requests: Arc<AtomicUsize>,
}

impl ListWatch<ConfigMap> for Counted {
    fn list(
        &self,
        params: &ListParams,
        stop: &Stop,
        sink: &mut dyn FnMut(Result<ConfigMap>) -> Result<()>,
    ) -> Result<ListMeta> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        ListWatch::list(&self.api, params, stop, sink)
    }

    fn watch(&self, params: &WatchParams, stop: &Stop) -> Result<Events<ConfigMap>> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        ListWatch::watch(&self.api, params, stop)
    }

    fn current_version(&self, params: &ListParams, stop: &Stop) -> Result<Option<String>> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.api.current_version(params, stop)
    }

    fn describe(&self) -> String {
        ListWatch::describe(&self.api)
    }
}

/// Panics of threads that are no tests'.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn watch_for_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or_default();
            if ["lw-", "apiserver-", "proxy-"].iter().any(|ours| name.starts_with(ours)) {
                PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{name}: {panic}"));
            }
            others(panic);
        }));
    });
}
