//! Informers under faults, in each list mode: in the end the store and what the handlers were told are what the server
//! has, and the deletion was told. The waits between are those of a manual clock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};
use listwatch::apiserver::ApiServer;
use listwatch::apiserver::faults::{Effect, Fault, Reply};
use listwatch::cache::{Events, ListWatch};
use listwatch::types::ConfigMap;
use listwatch::{
    Api, Clock, DeleteParams, Handlers, Informer, ListMeta, ListMode, ListParams, ObjectMeta, Patch,
    PatchParams, PostParams, Resource, Result, Stop, WatchParams,
};
use serde_json::json;

const SOON: Duration = Duration::from_secs(20);
const MODES: [ListMode; 3] = [ListMode::Paged(2), ListMode::WatchList, ListMode::Cached];
/// What the informers ask for, and the tests do not.
const THEIRS: &str = "/api/v1/configmaps";

type State = BTreeMap<String, String>;

struct Run {
    mode: ListMode,
    server: ApiServer,
    maps: Api<ConfigMap>,
    informer: Informer<ConfigMap>,
    clock: Clock,
    stop: Stop,
    told: Arc<Mutex<State>>,
    deleted: Arc<Mutex<Vec<String>>>,
    news: Receiver<()>,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stop.stop();
        self.informer.join();
    }
}

impl Run {
    /// An informer of `kept`, `changed` and `gone`, not started.
    fn new(mode: ListMode) -> Self {
        Self::with(mode, |api| api)
    }

    fn with<S: ListWatch<ConfigMap>>(mode: ListMode, source: impl Fn(Api<ConfigMap>) -> S) -> Self {
        let server = ApiServer::start().unwrap();
        let client = server.client().unwrap();
        let maps = Api::<ConfigMap>::default_namespaced(&client);
        let clock = Clock::manual();
        let source = source(Api::all(&client));
        let informer = Informer::builder(source).mode(mode).clock(clock.clone()).build().unwrap();
        let (told, deleted) = (Arc::<Mutex<State>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let (tells, news) = unbounded();
        let (added, updated, gone) = (told.clone(), told.clone(), (told.clone(), deleted.clone()));
        let (on_add, on_update, on_delete) = (tells.clone(), tells.clone(), tells);
        let handler = Handlers::<ConfigMap>::new()
            .on_add(move |new, _| {
                added.lock().unwrap().insert(new.name().into(), new.resource_version().into());
                on_add.send(()).unwrap();
            })
            .on_update(move |_, new| {
                updated.lock().unwrap().insert(new.name().into(), new.resource_version().into());
                on_update.send(()).unwrap();
            })
            .on_delete(move |old| {
                gone.0.lock().unwrap().remove(old.object.name());
                gone.1.lock().unwrap().push(old.object.name().into());
                on_delete.send(()).unwrap();
            });
        informer.add_handler(handler).unwrap();
        let run = Self { mode, server, maps, informer, clock, stop: Stop::new(), told, deleted, news };
        for name in ["kept", "changed", "gone"] {
            run.create(name);
        }
        run
    }

    /// The same, in sync.
    fn synced(mode: ListMode) -> Self {
        let run = Self::new(mode);
        run.informer.start(&run.stop).unwrap();
        run.informer.wait_for_sync(SOON).unwrap();
        run.create("first");
        run.converges("nothing");
        run
    }

    fn create(&self, name: &str) {
        let map = ConfigMap { metadata: ObjectMeta::named(name), ..ConfigMap::default() };
        self.maps.create(&PostParams::default(), &map).unwrap();
    }

    fn change(&self) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"value": "second"}}}));
        self.maps.patch("changed", &PatchParams::default(), &patch).unwrap();
        self.maps.delete("gone", &DeleteParams::default()).unwrap();
        self.create("new");
    }

    /// Lets each wait pass until all is as on the server.
    #[track_caller]
    fn converges(&self, fault: &str) {
        let versions = |objects: &mut dyn Iterator<Item = &ConfigMap>| -> State {
            objects.map(|object| (object.name().to_owned(), object.resource_version().to_owned())).collect()
        };
        let there = self.maps.list(&ListParams::default()).unwrap();
        let there = versions(&mut there.iter());
        let (mut told, mut stored) = (State::new(), State::new());
        for _ in 0..1000 {
            stored = versions(&mut self.informer.lister().store().list().iter().map(|object| &**object));
            told = self.told.lock().unwrap().clone();
            if stored == there && told == there {
                return;
            }
            if let Some(wait) = self.clock.next_timer() {
                self.clock.advance(wait);
            }
            let _ = self.news.recv_timeout(Duration::from_millis(20));
        }
        panic!(
            "{fault} in {:?}: the server has {there:?}, the store {stored:?}, told was {told:?}; {:?}; {:?}",
            self.mode,
            self.informer.health(),
            self.server.requests()
        );
    }

    #[track_caller]
    fn recovers(&self, fault: &str) {
        self.converges(fault);
        assert_eq!(*self.deleted.lock().unwrap(), ["gone"], "{fault} in {:?}", self.mode);
        // It still follows.
        self.create("last");
        self.converges(fault);
    }
}

/// Changes come while these are set, which end by themselves.
#[track_caller]
fn recovers_from(faults: &[Fault]) {
    for mode in MODES {
        let run = Run::synced(mode);
        let guards: Vec<_> =
            faults.iter().map(|fault| run.server.inject(fault.clone().path(THEIRS))).collect();
        run.change();
        run.recovers(&format!("{guards:?}"));
        for guard in &guards {
            assert!(guard.wait_for_hit(SOON), "{guard:?} in {mode:?} was met");
        }
    }
}

/// Changes come while this is set, and then something else, before it is taken away.
#[track_caller]
fn recovers_after(effect: &Effect, then: impl Fn(&ApiServer)) {
    for mode in MODES {
        let run = Run::synced(mode);
        let guard = run.server.inject(Fault::new(effect.clone()).path(THEIRS));
        run.change();
        assert!(guard.wait_for_hit(SOON));
        then(&run.server);
        assert_eq!(*run.deleted.lock().unwrap(), [""; 0], "{effect:?} in {mode:?}: nothing gets through");
        drop(guard);
        run.recovers(&format!("{effect:?}"));
    }
}

#[test]
fn a_partition_is_survived() {
    recovers_after(&Effect::Silence, |_| ());
    recovers_after(&Effect::SilenceAfter(0), |_| ());
    recovers_after(&Effect::HalfLineThenSilence(0), |_| ());
}

#[test]
fn a_partition_longer_than_the_history_is_survived() {
    recovers_after(&Effect::Silence, ApiServer::compact);
}

#[test]
fn spoiled_watches_are_survived() {
    for effect in [
        Effect::Close,
        Effect::Reset,
        Effect::CutAfter(1),
        Effect::HalfLineThenClose(0),
        Effect::EndAfter(0),
        Effect::EndAfter(1),
        Effect::LineAfter(0, "no JSON".into()),
        Effect::Repeat,
        Effect::OneByteChunks,
    ] {
        recovers_from(&[Fault::new(effect).times(2)]);
    }
}

#[test]
fn errors_within_watches_are_survived() {
    for reply in [
        Reply::expired(),
        Reply::expired_by_reason(),
        Reply::too_large_version(),
        Reply::too_large_version_by_cause_message(),
        Reply::too_large_version_by_message(),
        Reply::status(500, "InternalError", "etcd is away"),
        Reply::html_bad_gateway(),
    ] {
        recovers_from(&[Fault::new(Effect::ErrorAfter(0, reply)).watches().times(2)]);
    }
}

#[test]
fn refusals_are_survived() {
    for reply in [
        Reply::status(429, "TooManyRequests", "too many requests").retry_after(1),
        Reply::status(429, "TooManyRequests", "too many requests").retry_after_in_status(1),
        Reply::status(500, "InternalError", "etcd is away").pretty(),
        Reply::status(503, "ServiceUnavailable", "starting"),
        Reply::expired(),
        Reply::too_large_version(),
        Reply::html_bad_gateway(),
        Reply::plain_not_found(),
    ] {
        // Once of the watch that goes on, and once of the list after an expiry.
        for end in [Effect::EndAfter(0), Effect::ErrorAfter(0, Reply::expired())] {
            recovers_from(&[
                Fault::new(Effect::Reply(reply.clone())).times(3),
                Fault::new(end).watches().once(), // last: the next request may come at once
            ]);
        }
    }
}

#[test]
fn pages_that_expire_or_are_cut_are_survived() {
    for effect in [Effect::Reply(Reply::expired()), Effect::CutBody(300), Effect::Close] {
        let run = Run::synced(ListMode::Paged(2));
        let page = run.server.inject(Fault::new(effect.clone()).next_pages().once().path(THEIRS));
        let expired = Fault::new(Effect::ErrorAfter(0, Reply::expired())).watches().once();
        let _expired = run.server.inject(expired.path(THEIRS));
        run.change();
        run.recovers(&format!("{effect:?}"));
        assert!(page.wait_for_hit(SOON));
    }
}

#[test]
fn a_restart_is_survived() {
    for mode in MODES {
        let mut run = Run::synced(mode);
        run.server.pause().unwrap();
        run.clock.wait_for_timers(1);
        run.server.resume().unwrap();
        run.change();
        run.recovers("a restart");
    }
}

#[test]
fn a_slow_start_is_waited_for() {
    for mode in MODES {
        for effect in [Effect::Late, Effect::HeadOnly] {
            let run = Run::new(mode);
            let slow = run.server.inject(Fault::new(effect).path(THEIRS));
            run.informer.start(&run.stop).unwrap();
            assert!(slow.wait_for_hit(SOON));
            assert!(!run.informer.has_synced());
            drop(slow);
            run.converges("a slow start");
            run.informer.wait_for_sync(SOON).unwrap();
        }
    }
}

/// Watches that count as dead after a moment without a byte.
struct Impatient(Api<ConfigMap>);

impl ListWatch<ConfigMap> for Impatient {
    fn list(
        &self,
        params: &ListParams,
        stop: &Stop,
        sink: &mut dyn FnMut(Result<ConfigMap>) -> Result<()>,
    ) -> Result<ListMeta> {
        self.0.list_each(params, stop, sink)
    }

    fn watch(&self, params: &WatchParams, stop: &Stop) -> Result<Events<ConfigMap>> {
        let params = params.clone().silence(Duration::from_millis(200));
        Ok(Box::new(self.0.watch(&params, stop)?))
    }

    fn describe(&self) -> String {
        "configmaps".into()
    }
}

#[test]
fn a_silent_watch_is_given_up_without_a_list() {
    for effect in [Effect::Silence, Effect::SilenceAfter(1), Effect::HalfLineThenSilence(1)] {
        for mode in MODES {
            let run = Run::with(mode, Impatient);
            run.informer.start(&run.stop).unwrap();
            run.informer.wait_for_sync(SOON).unwrap();
            run.converges("nothing");
            let lists = run.informer.health().lists;
            let partition = run.server.inject(Fault::new(effect.clone()).watches().path(THEIRS).times(2));
            run.change();
            run.recovers(&format!("{effect:?}"));
            assert!(partition.wait_for_hit(SOON) && partition.wait_for_hit(SOON));
            assert_eq!(
                run.informer.health().lists,
                lists,
                "{effect:?} in {mode:?}: the version is still good"
            );
        }
    }
}
