//! Scenes on the embedded server, and the ways in which its faults are met.

use std::fmt::Debug;
use std::ops::{Deref, DerefMut, RangeBounds};
use std::time::Duration;

use listwatch::apiserver::ApiServer;
use listwatch::apiserver::faults::{Effect, Fault, Injected, Reply};
use listwatch::types::Namespace;
use listwatch::{Api, Clock, ListMode, ObjectMeta, PostParams};

use crate::scene::{Scene, longest, most_requests, silence};

const SOON: Duration = Duration::from_secs(60);
/// What the informers ask for, and the tests do not.
const THEIRS: &str = "/api/v1/configmaps";

/// A scene with its server.
pub(crate) struct Run {
    // Before the server: it has to end first.
    scene: Scene,
    pub(crate) server: ApiServer,
    /// Of bookmarks.
    pub(crate) server_clock: Clock,
    faults: Vec<Injected>,
}

impl Deref for Run {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.scene
    }
}

impl DerefMut for Run {
    fn deref_mut(&mut self) -> &mut Scene {
        &mut self.scene
    }
}

/// Plays a scenario to its end; `within` so many seconds of backoff.
#[track_caller]
pub(crate) fn play(mode: ListMode, within: impl RangeBounds<f64> + Debug, act: impl FnOnce(&mut Run)) {
    play_run(Run::new(mode, None), false, within, act);
}

/// The same for an informer that finds dead connections by their silence.
#[track_caller]
pub(crate) fn play_impatient(
    mode: ListMode,
    within: impl RangeBounds<f64> + Debug,
    act: impl FnOnce(&mut Run),
) {
    play_run(Run::new(mode, silence()), true, within, act);
}

#[track_caller]
fn play_run(
    mut run: Run,
    impatient: bool,
    within: impl RangeBounds<f64> + Debug,
    act: impl FnOnce(&mut Run),
) {
    let mode = run.mode;
    act(&mut run);
    let real = run.scene.recovers(&within);
    assert!(!impatient || real < longest(), "{mode:?}: {real:?} of the system's time");
    for fault in &run.faults {
        assert!(fault.wait_for_hit(SOON), "{mode:?}: {fault:?} was met");
    }
    // Also as the server counts, which sees what the client sends again.
    let passed = run.passed();
    let (requests, most) = (run.asked(""), most_requests(passed));
    assert!(requests <= most, "{mode:?}: {requests} requests in {passed:?}, not {most}");
}

impl Run {
    pub(crate) fn new(mode: ListMode, silence: Option<Duration>) -> Self {
        let server_clock = Clock::manual();
        let server = ApiServer::builder().clock(server_clock.clone()).start().unwrap();
        // Time limits of the client are the kernel's.
        let config = listwatch::Config::new(&server.url()).unwrap();
        let client = listwatch::Client::new(config).unwrap();
        let scene = Scene::new(mode, Api::default_namespaced(&client), Api::all(&client), silence);
        Self { scene, server, server_clock, faults: Vec::new() }
    }

    /// How many requests of the informer hold this.
    pub(crate) fn asked(&self, part: &str) -> usize {
        let requests = self.server.requests();
        let theirs = |line: &&String| line[4..].starts_with(THEIRS) && line.contains(part);
        requests.iter().filter(theirs).count()
    }

    /// Sets a fault for the informer, which it has to meet.
    pub(crate) fn inject(&mut self, fault: Fault) {
        let fault = self.fault(fault);
        self.faults.push(fault);
    }

    /// Sets a fault for the informer, for as long as it is kept.
    pub(crate) fn fault(&self, fault: Fault) -> Injected {
        self.server.inject(fault.path(THEIRS))
    }

    /// Lets waits pass until the fault is met.
    #[track_caller]
    pub(crate) fn meets(&self, fault: &Injected) {
        self.until("the fault is met", || fault.wait_for_hit(Duration::from_millis(2)));
    }

    /// Changes an object that is not the informer's; returns its version.
    pub(crate) fn disturb(&self) -> String {
        let api = Api::<Namespace>::all(self.ours.client());
        let namespace = Namespace { metadata: ObjectMeta::named("other"), ..Namespace::default() };
        api.create(&PostParams::default(), &namespace).unwrap().metadata.resource_version
    }

    /// The version has expired: the informer lists anew.
    pub(crate) fn expire(&mut self) {
        self.inject(Fault::new(Effect::ErrorAfter(0, Reply::expired())).watches().once());
    }
}

/// The first list, or the first watch behind it, meets this.
pub(crate) fn first(fault: Fault) -> impl FnOnce(&mut Run) {
    move |run| {
        run.inject(fault);
        run.start();
    }
}

/// The first list waits for this to be over.
pub(crate) fn first_until_over(effect: Effect) -> impl FnOnce(&mut Run) {
    move |run| {
        let fault = run.fault(Fault::new(effect));
        run.start();
        run.meets(&fault);
        assert!(!run.informer.has_synced());
        drop(fault);
    }
}

/// Changes come while these are set, which end by themselves.
pub(crate) fn during(faults: impl IntoIterator<Item = Fault>) -> impl FnOnce(&mut Run) {
    move |run| {
        run.sync();
        faults.into_iter().for_each(|fault| run.inject(fault));
        run.change();
    }
}

/// A list anew meets this, behind one failure.
pub(crate) fn listing(fault: Fault) -> impl FnOnce(&mut Run) {
    move |run| {
        let streams = run.mode == ListMode::WatchList;
        listing_anew(if streams { fault.watches() } else { fault.lists() })(run);
    }
}

/// A request behind the expiry of a version meets this, behind one failure.
pub(crate) fn listing_anew(fault: Fault) -> impl FnOnce(&mut Run) {
    move |run| {
        run.sync();
        run.inject(Fault::new(Effect::EndAfter(0)).watches().once());
        run.waits();
        // After a failure it asks which version the server is at: not what this is about.
        let asks = run.fault(Fault::new(Effect::Late).lists().once());
        run.inject(Fault::new(Effect::Reply(Reply::expired())).watches().once());
        run.inject(fault);
        run.change();
        run.meets(&asks);
        drop(asks);
    }
}

/// Changes come while nothing gets through, and then this happens, and then it is over.
pub(crate) fn behind(effect: Effect, then: impl FnOnce(&mut Run)) -> impl FnOnce(&mut Run) {
    move |run| {
        run.sync();
        let fault = run.fault(Fault::new(effect));
        run.change();
        run.meets(&fault);
        then(run);
        assert_eq!(run.history.deleted(), [""; 0], "nothing gets through");
        run.begin();
        drop(fault);
    }
}
