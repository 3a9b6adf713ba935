//! The pipeline from end to end, on the embedded API server over real HTTP.
//!
//! - informers follow the server in each list mode, and their handlers' histories fold to its state
//! - controllers make the world as objects want it
//! - the examples end well, and say what they should

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};
use listwatch::apiserver::faults::{Effect, Fault, Reply};
use listwatch::types::{ConfigMap, Deployment};
use listwatch::{
    Action, Api, ApiResource, ApiServer, Client, Clock, Controller, DeleteParams, Error, Handlers, Informer,
    InformerFactory, ListMode, ListParams, Map, Object, ObjectKey, ObjectMeta, PartialObjectMetadata, Patch,
    PatchParams, PostParams, Request, Resource, Scope, Selector, StaticResource, Stop, resource,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

const SOON: Duration = Duration::from_secs(20);
const MODES: [ListMode; 4] =
    [ListMode::Paged(500), ListMode::Paged(2), ListMode::WatchList, ListMode::Cached];

fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            labels: Map::from([("app", "web")]),
            annotations: Map::from([("value", value)]),
            ..ObjectMeta::named(name)
        },
        ..ConfigMap::default()
    }
}

/// What the handlers of an informer have told, as the state that it folds to.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<BTreeMap<ObjectKey, String>>>);

impl Told {
    /// A handler that checks on the way that each step fits the one before, and sends each object's version.
    fn handler(&self) -> (Handlers<ConfigMap>, Receiver<String>) {
        let (seen, versions) = unbounded();
        let (added, updated, deleted) = (self.0.clone(), self.0.clone(), self.0.clone());
        let (send_added, send_updated, send_deleted) = (seen.clone(), seen.clone(), seen);
        let handler = Handlers::<ConfigMap>::new()
            .on_add(move |new, _| {
                let before = added.lock().unwrap().insert(new.key(), new.resource_version().into());
                assert_eq!(before, None, "{} was added twice", new.key());
                send_added.send(new.resource_version().into()).unwrap();
            })
            .on_update(move |old, new| {
                let before = updated.lock().unwrap().insert(new.key(), new.resource_version().into());
                assert_eq!(before.as_deref(), Some(old.resource_version()), "{}", new.key());
                send_updated.send(new.resource_version().into()).unwrap();
            })
            .on_delete(move |gone| {
                let before = deleted.lock().unwrap().remove(&gone.object.key());
                assert!(before.is_some(), "{} was not there", gone.object.key());
                send_deleted.send(gone.object.resource_version().into()).unwrap();
            });
        (handler, versions)
    }

    fn state(&self) -> BTreeMap<ObjectKey, String> {
        self.0.lock().unwrap().clone()
    }
}

fn versions<'a>(objects: impl IntoIterator<Item = &'a ConfigMap>) -> BTreeMap<ObjectKey, String> {
    objects.into_iter().map(|object| (object.key(), object.resource_version().to_owned())).collect()
}

#[test]
fn informers_follow_the_server_in_each_mode() {
    for mode in MODES {
        let server = ApiServer::start().unwrap();
        let client = server.client().unwrap();
        let maps = Api::<ConfigMap>::default_namespaced(&client);
        for n in 0..5 {
            maps.create(&PostParams::default(), &config_map(&format!("cm-{n}"), "first")).unwrap();
        }
        let (stop, told) = (Stop::new(), Told::default());
        let informer = Informer::builder(Api::<ConfigMap>::all(&client)).mode(mode).build().unwrap();
        let (handler, seen) = told.handler();
        informer.add_handler(handler).unwrap();
        informer.start(&stop).unwrap();
        informer.wait_for_sync(SOON).unwrap();

        maps.create(&PostParams::default(), &config_map("late", "first")).unwrap();
        let patch = json!({"metadata": {"annotations": {"value": "second"}}});
        maps.patch("cm-1", &PatchParams::default(), &Patch::Merge(patch)).unwrap();
        maps.delete("cm-2", &DeleteParams::default()).unwrap();
        maps.create(&PostParams::default(), &config_map("last", "")).unwrap();
        let last = maps.get("last").unwrap();
        while seen.recv_timeout(SOON).unwrap() != last.resource_version() {}

        let there = versions(&maps.list(&ListParams::default()).unwrap());
        let store = informer.lister().store().list();
        assert_eq!(versions(store.iter().map(|object| &**object)), there, "{mode:?}");
        assert_eq!(told.state(), there, "{mode:?}");
        let health = informer.health();
        assert!(health.synced && health.errors == 0 && health.lists == 1, "{mode:?}: {health:?}");
        stop.stop();
        informer.join();
    }
}

/// As many as bring the cache to pack against a dictionary, which without the feature `pack` it does not.
#[test]
fn whole_objects_read_in_handlers_and_caches_as_the_server_has_them() {
    const COUNT: usize = 150;
    let data =
        |n: usize, text: &str| json!({"name": format!("grüße-{n}"), "text": format!("{text} \"{n}\"\n")});
    for mode in MODES {
        let server = ApiServer::start().unwrap();
        let client = server.client().unwrap();
        let api = Api::<Object>::namespaced_with(&client, "default", &ConfigMap::api_resource());
        let map = |n: usize, text: &str| {
            let name = format!("cm-{n:03}");
            let labels = json!({"half": (n % 2).to_string()});
            let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels},
                "data": data(n, text)});
            Object::from_value(value).unwrap()
        };
        for n in 0..COUNT {
            api.create(&PostParams::default(), &map(n, "first")).unwrap();
        }
        let (stop, (told, tells)) = (Stop::new(), unbounded());
        let informer = Informer::builder(api.clone()).mode(mode).build().unwrap();
        let more = told.clone();
        let handler = Handlers::<Object>::new()
            .on_add(move |new, _| told.send((new.key(), new.get("/data"))).unwrap())
            .on_update(move |old, new| {
                assert_ne!(old, new);
                more.send((new.key(), new.get("/data"))).unwrap();
            });
        informer.add_handler(handler).unwrap();
        informer.start(&stop).unwrap();
        informer.wait_for_sync(SOON).unwrap();
        let key = |n: usize| ObjectKey::namespaced("default", &format!("cm-{n:03}"));
        let mut first: BTreeMap<_, Option<serde_json::Value>> = BTreeMap::new();
        for _ in 0..COUNT {
            let (key, data) = tells.recv_timeout(SOON).unwrap();
            first.insert(key, data);
        }
        assert_eq!(first, (0..COUNT).map(|n| (key(n), Some(data(n, "first")))).collect(), "{mode:?}");
        for n in 0..COUNT {
            let patch = json!({"data": data(n, "second")});
            api.patch(key(n).name(), &PatchParams::default(), &Patch::Merge(patch)).unwrap();
            assert_eq!(tells.recv_timeout(SOON).unwrap(), (key(n), Some(data(n, "second"))), "{mode:?}");
        }

        #[derive(Deserialize)]
        struct Whole {
            metadata: ObjectMeta,
            data: BTreeMap<String, String>,
        }
        let lister = informer.lister();
        let there = api.list(&ListParams::default()).unwrap();
        let cached = lister.list(&Selector::everything());
        assert!(cached.iter().map(|object| &**object).eq(&there), "{mode:?}");
        let typed = lister.typed::<Whole>();
        let one = typed.get("default", "cm-007").unwrap().unwrap();
        assert_eq!((&*one.metadata.name, json!(one.data)), ("cm-007", data(7, "second")));
        let half = typed.namespace("default").list(&Selector::parse("half=1").unwrap());
        let half: Vec<_> = half.map(|map| map.unwrap().metadata.name).collect();
        assert!(half.len() == COUNT / 2 && half[0] == "cm-001", "{half:?}");
        assert!(typed.get("default", "nope").unwrap().is_none());
        assert_eq!(
            lister.typed::<Vec<u8>>().list(&Selector::everything()).filter(Result::is_err).count(),
            COUNT
        );
        let error = lister.namespace("default").typed::<Vec<u8>>().get("cm-007").unwrap_err();
        assert!(error.is_decode() && error.to_string().contains("default/cm-007"), "{error}");
        stop.stop();
        informer.join();
    }
}

#[test]
fn what_was_missed_is_found_and_unchanged_objects_are_kept() {
    for mode in MODES {
        let server = ApiServer::builder().history(3).start().unwrap();
        let client = server.client().unwrap();
        let maps = Api::<ConfigMap>::default_namespaced(&client);
        for name in ["kept", "changed", "deleted"] {
            maps.create(&PostParams::default(), &config_map(name, "first")).unwrap();
        }
        let (stop, told) = (Stop::new(), Told::default());
        let source = Gate::new(Api::<ConfigMap>::default_namespaced(&client));
        let clock = Clock::manual();
        let informer = Informer::builder(source.clone()).mode(mode).clock(clock.clone()).build().unwrap();
        let (handler, seen) = told.handler();
        informer.add_handler(handler).unwrap();
        informer.start(&stop).unwrap();
        informer.wait_for_sync(SOON).unwrap();
        let kept = informer.lister().get("default", "kept").unwrap();

        let followed = maps.create(&PostParams::default(), &config_map("followed", "first")).unwrap();
        while seen.recv_timeout(SOON).unwrap() != followed.resource_version() {}

        // Cut off, and more happens than the server remembers.
        source.cut();
        clock.wait_for_timers(1);
        let patch = json!({"metadata": {"annotations": {"value": "second"}}});
        maps.patch("changed", &PatchParams::default(), &Patch::Merge(patch)).unwrap();
        maps.delete("deleted", &DeleteParams::default()).unwrap();
        for n in 0..5 {
            maps.create(&PostParams::default(), &config_map(&format!("new-{n}"), "")).unwrap();
        }
        source.mend();
        clock.advance(Duration::from_secs(60));

        let last = maps.get("new-4").unwrap();
        while seen.recv_timeout(SOON).unwrap() != last.resource_version() {}
        let there = versions(&maps.list(&ListParams::default()).unwrap());
        assert_eq!(told.state(), there, "{mode:?}");
        assert!(informer.health().lists >= 2, "{mode:?}");
        assert!(Arc::ptr_eq(&kept, &informer.lister().get("default", "kept").unwrap()), "{mode:?}");
        stop.stop();
        informer.join();
    }
}

/// Lets a test cut an informer off: watches that are open end, new ones wait.
#[derive(Clone)]
struct Gate {
    api: Api<ConfigMap>,
    cut: Arc<Mutex<Stop>>,
    open: Arc<(Mutex<bool>, std::sync::Condvar)>,
}

impl Gate {
    fn new(api: Api<ConfigMap>) -> Self {
        Self { api, cut: Arc::default(), open: Arc::new((Mutex::new(true), std::sync::Condvar::new())) }
    }

    fn cut(&self) {
        *self.open.0.lock().unwrap() = false;
        std::mem::take(&mut *self.cut.lock().unwrap()).stop();
    }

    fn mend(&self) {
        *self.open.0.lock().unwrap() = true;
        self.open.1.notify_all();
    }
}

impl listwatch::cache::ListWatch<ConfigMap> for Gate {
    fn list(
        &self,
        params: &ListParams,
        stop: &Stop,
        sink: &mut dyn FnMut(listwatch::Result<ConfigMap>) -> listwatch::Result<()>,
    ) -> listwatch::Result<listwatch::ListMeta> {
        self.api.list_each(params, stop, sink)
    }

    fn watch(
        &self,
        params: &listwatch::WatchParams,
        stop: &Stop,
    ) -> listwatch::Result<listwatch::cache::Events<ConfigMap>> {
        let open = self.open.1.wait_while(self.open.0.lock().unwrap(), |open| !*open).unwrap();
        let cut = stop.child();
        *self.cut.lock().unwrap() = cut.clone();
        drop(open);
        Ok(Box::new(self.api.watch(params, &cut)?))
    }

    fn describe(&self) -> String {
        "configmaps behind a gate".into()
    }
}

#[test]
fn a_factory_has_one_list_and_watch_for_all_who_ask() {
    let server = ApiServer::start().unwrap();
    let client = server.client().unwrap();
    let stop = Stop::new();
    let factory = InformerFactory::new(&client).namespace("default").labels("app=web");
    let (one, other) = (factory.informer::<ConfigMap>(), factory.informer::<ConfigMap>());
    factory.start(&stop).unwrap();
    factory.start(&stop).unwrap();
    factory.wait_for_sync(SOON).unwrap();
    Api::<ConfigMap>::default_namespaced(&client)
        .create(&PostParams::default(), &config_map("a", ""))
        .unwrap();
    let (handler, seen) = Told::default().handler();
    other.add_handler(handler).unwrap();
    seen.recv_timeout(SOON).unwrap();
    assert_eq!(one.lister().list(&Selector::parse("app=web").unwrap()).len(), 1);
    stop.stop();
    factory.join();
    let lists =
        server.requests().into_iter().filter(|r| r.starts_with("GET") && !r.contains("watch=")).count();
    assert_eq!(lists, 1, "{:?}", server.requests());
    let asked = server.requests();
    let selected = |r: &&String| r.contains("labelSelector=app%3Dweb") && r.contains("/namespaces/default/");
    assert_eq!(asked.iter().filter(selected).count(), 2, "{asked:?}");
}

#[test]
fn an_informer_that_cannot_sync_says_why() {
    let server = ApiServer::start().unwrap();
    let stop = Stop::new();
    let factory = InformerFactory::new(&server.client().unwrap());
    let missing = ApiResource::new("nope.example.com/v1", "Thing", "things", Scope::Namespaced);
    let things = factory.informer_for(&missing);
    let maps = factory.informer::<ConfigMap>();
    factory.start(&stop).unwrap();
    let error = factory.wait_for_sync(Duration::from_secs(1)).unwrap_err();
    let text = error.to_string();
    assert!(error.is_timeout() && text.contains("404"), "{text}");
    assert!(text.contains("list things.nope.example.com"), "what was asked for: {text}");
    assert!(!text.contains("configmaps") && maps.has_synced() && !things.has_synced(), "{text}");
    stop.stop();
    factory.join();
}

/// What was logged as a warning.
static WARNED: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, of: &log::Metadata<'_>) -> bool {
        of.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            WARNED.lock().unwrap().push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

#[test]
fn a_failure_in_the_log_names_once_what_was_read() {
    fn logs<K: Resource>(server: &ApiServer, maps: Api<K>, answer: Reply, line: &str) {
        let path = format!("/api/v1/namespaces/{}/configmaps", maps.namespace().unwrap());
        let _fault = server.inject(Fault::new(Effect::Reply(answer)).path(path));
        let ((failed, failures), stop) = (unbounded(), Stop::new());
        let informer = Informer::builder(maps).on_error(move |_| failed.send(()).unwrap());
        let informer = informer.build().unwrap();
        informer.start(&stop).unwrap();
        failures.recv_timeout(SOON).unwrap();
        let warned = WARNED.lock().unwrap().clone();
        assert!(warned.iter().any(|warned| warned.starts_with(line)), "{line}: {warned:#?}");
        stop.stop();
        informer.join();
    }

    log::set_logger(&Logger).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    let server = ApiServer::builder().clock(Clock::manual()).start().unwrap();
    let client = server.client().unwrap();
    let of = |namespace: &str| Api::<ConfigMap>::namespaced(&client, namespace);
    let forbidden = || Reply::status(403, "Forbidden", "no role");
    logs(&server, of("a"), forbidden(), "list configmaps in \"a\": no role (403 Forbidden); lists again in ");
    let metadata = Api::<PartialObjectMetadata>::namespaced_with(&client, "b", &ConfigMap::api_resource());
    let line = "list configmaps (metadata) in \"b\": no role (403 Forbidden); lists again in ";
    logs(&server, metadata, forbidden(), line);
    let empty = r#"{"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {}, "items": []}"#;
    let line =
        "configmaps in \"c\": the list has no resourceVersion, so it cannot be watched; lists again in ";
    logs(&server, of("c"), Reply::new(200, "application/json", empty), line);
}

/// A program may start before its network does: beside a proxy of a service mesh, on a node that boots.
#[test]
fn a_server_that_starts_later_is_waited_for() {
    for mode in MODES {
        let mut server = ApiServer::start().unwrap();
        let client = server.client().unwrap();
        server.pause().unwrap();
        let (clock, stop) = (Clock::manual(), Stop::new());
        let informer = Informer::builder(Api::<ConfigMap>::all(&client))
            .mode(mode)
            .clock(clock.clone())
            .build()
            .unwrap();
        informer.start(&stop).unwrap();
        for _ in 0..5 {
            clock.wait_for_timers(1);
            assert_eq!(informer.health().lists, 0);
            clock.advance(clock.next_timer().unwrap_or_default());
        }
        clock.wait_for_timers(1);
        let why = informer.wait_for_sync(Duration::ZERO).unwrap_err().to_string();
        assert!(why.contains("configmaps") && why.contains("connect to 127.0.0.1"), "{why}");
        server.resume().unwrap();
        Api::<ConfigMap>::default_namespaced(&client)
            .create(&PostParams::default(), &config_map("late", ""))
            .unwrap();
        clock.advance(clock.next_timer().unwrap_or_default());
        let (done, is_done) = unbounded();
        let waiting = informer.clone();
        let wait = move || done.send(waiting.wait_for_sync(Duration::MAX)).unwrap();
        std::thread::Builder::new().spawn(wait).unwrap();
        is_done.recv_timeout(SOON).unwrap().unwrap();
        assert!(informer.lister().get("default", "late").is_some());
        stop.stop();
        informer.join();
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Site {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: SiteSpec,
    #[serde(default)]
    status: SiteStatus,
}
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct SiteSpec {
    replicas: i32,
}
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct SiteStatus {
    replicas: i32,
}
resource!(Site: "example.com/v1", "Site", "sites", namespaced, whole);

fn with_sites() -> (ApiServer, Client) {
    let server = ApiServer::start().unwrap();
    server.add_resource(&Site::api_resource());
    let client = server.client().unwrap();
    (server, client)
}

fn site(name: &str, replicas: i32) -> Site {
    Site { metadata: ObjectMeta::named(name), spec: SiteSpec { replicas }, ..Site::default() }
}

/// Keeps a Deployment for each Site, and its replicas in the Site's status.
fn reconcile(site: &Request<Site>) -> Result<Action, Error> {
    let name = site.name();
    let wanted = site.spec.replicas;
    match site.lister::<Deployment>()?.get("default", name) {
        None => {
            let labels = json!({"app": name});
            let deployment = json!({
                "metadata": {"name": name, "ownerReferences": [site.owner_reference()]},
                "spec": {"replicas": wanted, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}},
            });
            let deployment = serde_json::from_value(deployment).unwrap();
            site.api::<Deployment>().create(&PostParams::default(), &deployment)?;
        }
        Some(deployment) if deployment.spec.replicas != Some(wanted) => {
            let patch = Patch::Merge(json!({"spec": {"replicas": wanted}}));
            site.api::<Deployment>().patch(name, &PatchParams::default(), &patch)?;
        }
        Some(_) if site.status.replicas != wanted => {
            let status = Patch::Merge(json!({"status": {"replicas": wanted}}));
            site.api::<Site>().patch_status(name, &PatchParams::default(), &status)?;
        }
        Some(_) => {}
    }
    Ok(Action::await_change())
}

/// Follows Sites until one has this many replicas in its status.
fn wait_for(client: &Client, name: &str, replicas: i32) {
    let stop = Stop::new();
    let events = Api::<Site>::default_namespaced(client).watch(&Default::default(), &stop).unwrap();
    let mut sites = events.filter_map(|event| match event.unwrap() {
        listwatch::WatchEvent::Added(site) | listwatch::WatchEvent::Modified(site) => Some(site),
        _ => None,
    });
    sites
        .find(|site| site.name() == name && site.status.replicas == replicas)
        .expect("the watch has not ended");
}

#[test]
fn a_controller_creates_repairs_and_ends_with_all_its_threads() {
    let (_server, client) = with_sites();
    let (sites, deployments) =
        (Api::<Site>::default_namespaced(&client), Api::<Deployment>::default_namespaced(&client));
    sites.create(&PostParams::default(), &site("early", 1)).unwrap();
    let stop = Stop::new();
    std::thread::scope(|scope| {
        let controller = scope
            .spawn(|| Controller::<Site>::all(&client).owns::<Deployment>().workers(3).run(&stop, reconcile));
        wait_for(&client, "early", 1);
        sites.create(&PostParams::default(), &site("late", 2)).unwrap();
        wait_for(&client, "late", 2);
        // Edited by hand, and repaired.
        let (repaired, watching) = (deployments.get("late").unwrap(), Stop::new());
        let params = listwatch::WatchParams::default().resource_version(repaired.resource_version());
        let mut events = deployments.watch(&params, &watching).unwrap();
        let by_hand = Patch::Merge(json!({"spec": {"replicas": 9}}));
        deployments.patch("late", &PatchParams::default(), &by_hand).unwrap();
        let replicas = events.by_ref().filter_map(|event| match event.unwrap() {
            listwatch::WatchEvent::Modified(d) => d.spec.replicas,
            _ => None,
        });
        assert_eq!(replicas.take(2).collect::<Vec<_>>(), [9, 2]);
        stop.stop();
        controller.join().unwrap().unwrap();
    });
}

#[test]
fn a_controller_that_cannot_list_says_why() {
    let server = ApiServer::start().unwrap(); // knows no Sites
    let controller =
        Controller::<Site>::all(&server.client().unwrap()).sync_timeout(Duration::from_millis(300));
    let error = controller.run(&Stop::new(), reconcile).unwrap_err();
    assert!(error.is_timeout() && error.to_string().contains("sites.example.com"), "{error}");
}

#[test]
fn an_object_of_any_kind_goes_round_whole() {
    let (_server, client) = with_sites();
    let sites = Api::<Object>::namespaced_with(&client, "default", &Site::api_resource());
    let mut made = Object::from_value(json!({
        "apiVersion": "example.com/v1", "kind": "Site",
        "metadata": {"name": "a"}, "spec": {"replicas": 1, "unknown": {"kept": [1, 2]}},
    }))
    .unwrap();
    made = sites.create(&PostParams::default(), &made).unwrap();
    made.set("/spec/replicas", 2).unwrap();
    let written = sites.replace("a", &PostParams::default(), &made).unwrap();
    assert_eq!(written.get::<i32>("/spec/replicas"), Some(2));
    assert_eq!(written.get::<Vec<i32>>("/spec/unknown/kept"), Some(vec![1, 2]));
    assert_eq!(written.parse::<Site>().unwrap().spec.replicas, 2);
    let stale = sites.replace("a", &PostParams::default(), &made).unwrap_err();
    assert!(stale.is_conflict(), "{stale}");
}

/// An example's program, which `cargo test` has built beside this one.
fn example(name: &str) -> Option<PathBuf> {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples");
    path.push(name);
    let path = path.with_extension(std::env::consts::EXE_EXTENSION);
    if !path.exists() {
        eprintln!("SKIPPED: example {name} is not built; `cargo test` without --test builds it");
        return None;
    }
    Some(path)
}

#[test]
fn the_examples_end_well_and_say_what_they_should() {
    let expected = [
        ("watch_pods", "MODIFIED default/web-1 Running\nDELETED  default/web-2"),
        ("pod_informer", "on n1: default/db-0, default/web-0\non n2: default/web-1"),
        ("pod_workqueue", "default/web-0: Pending"),
        ("metrics", "controller_runtime_max_concurrent_reconciles{controller=\"configmaps\"} 2"),
        ("foo_controller", "spec.replicas in body should be less than or equal to 10"),
    ];
    for (name, says) in expected {
        let Some(program) = example(name) else { continue };
        // No example touches a cluster by accident.
        let run = Command::new(program).env("KUBECONFIG", "/nowhere").output().unwrap();
        let (out, log) = (String::from_utf8(run.stdout).unwrap(), String::from_utf8(run.stderr).unwrap());
        assert!(run.status.success(), "{name}: {out}{log}");
        assert!(out.contains(says), "{name}: {out}{log}");
        assert!(!out.contains(" ! "), "{name}: {out}{log}");
    }
}
