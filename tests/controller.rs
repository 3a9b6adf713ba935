//! Controllers as they are run in production, on the embedded API server: what wakes them, what follows a failure, how
//! they start before they lead, and how they end. What a controller is at all: `tests/cache/controller.rs`.

#![allow(clippy::unwrap_used, clippy::panic)] // as in tests, which these are

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use listwatch::cache::Change;
use listwatch::client::{Method, RawRequest};
use listwatch::controller::Predicate;
use listwatch::metrics::Metrics;
use listwatch::types::{ConfigMap, Node, Secret};
use listwatch::workqueue::ItemExponentialFailure;
use listwatch::{
    Action, Api, ApiResource, ApiServer, Client, Clock, Config, Controller, DeleteParams, Error, ListMode,
    Object, ObjectKey, ObjectMeta, PartialObjectMetadata, Patch, PatchParams, PostParams, Request, Resource,
    Result, StaticResource, Stop, resource,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(20);
const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Site {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
}
resource!(Site: "example.com/v1", "Site", "sites", namespaced);

struct World {
    server: ApiServer,
    client: Client,
    sites: Api<Site>,
}

fn world() -> World {
    world_with(Clock::system())
}

fn world_with(clock: Clock) -> World {
    let server = ApiServer::start().unwrap();
    server.add_resource(&Site::api_resource());
    let client = Client::new(Config::new(&server.url()).unwrap().with_clock(clock)).unwrap();
    let sites = Api::namespaced(&client, "default");
    World { server, client, sites }
}

impl World {
    fn create(&self, name: &str) -> Site {
        let site = Site { metadata: ObjectMeta::named(name), spec: json!({"size": 1}) };
        self.sites.create(&PostParams::default(), &site).unwrap()
    }

    fn patch(&self, name: &str, patch: Value) {
        self.sites.patch(name, &PatchParams::default(), &Patch::Merge(patch)).unwrap();
    }

    fn lists(&self) -> usize {
        let lists = |request: &&String| request.starts_with("GET") && !request.contains("watch=");
        self.server.requests().iter().filter(lists).count()
    }
}

#[track_caller]
fn next<T>(channel: &Receiver<T>) -> T {
    channel.recv_timeout(SOON).unwrap()
}

/// What runs on a thread of its own, and is stopped at the end, also of a test that fails.
struct Running {
    stop: Stop,
    done: Receiver<Result<()>>,
}

fn spawn(run: impl FnOnce(&Stop) -> Result<()> + Send + 'static) -> Running {
    let (stop, (sender, done)) = (Stop::new(), bounded(1));
    let token = stop.clone();
    let run = move || drop(sender.send(run(&token)));
    std::thread::Builder::new().name("test-controller".into()).spawn(run).unwrap();
    Running { stop, done }
}

impl Running {
    #[track_caller]
    fn end(&self) -> Result<()> {
        self.stop.stop();
        next(&self.done)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

/// A function that tells with which objects it was called.
fn telling(calls: Sender<String>) -> impl Fn(&Request<Site>) -> Result<Action> + Send + Sync + 'static {
    move |site: &Request<Site>| {
        calls.send(site.name().to_owned()).unwrap();
        Ok(Action::await_change())
    }
}

fn told(controller: Controller<Site>) -> (Running, Receiver<String>) {
    let (calls, told) = unbounded();
    (spawn(move |stop| controller.run(stop, telling(calls))), told)
}

#[test]
fn a_predicate_hides_what_it_says_and_never_the_beginning_of_a_deletion() {
    let status = json!({"metadata": {"annotations": {"a": "1"}}});
    let label = json!({"metadata": {"labels": {"a": "1"}}});
    let spec = json!({"spec": {"size": 2}});
    let finalizer = json!({"metadata": {"finalizers": ["example.com/a", "example.com/b"]}});
    for (predicate, passing, hidden) in [
        (Predicate::generation_changed(), &spec, [&status, &label, &finalizer]),
        (Predicate::labels_changed(), &label, [&status, &spec, &finalizer]),
        (Predicate::annotations_changed(), &status, [&spec, &label, &finalizer]),
        (Predicate::finalizers_changed(), &finalizer, [&spec, &label, &status]),
    ] {
        let world = world();
        world.create("one");
        let (running, told) = told(Controller::all(&world.client).with_predicate(predicate));
        assert_eq!(next(&told), "one");
        hidden.iter().for_each(|patch| world.patch("one", (*patch).clone()));
        // One handler tells in order, and one worker works in it.
        world.create("two");
        assert_eq!(next(&told), "two");
        world.patch("one", passing.clone());
        assert_eq!(next(&told), "one");
        world.patch("one", finalizer.clone());
        world.create("three");
        assert!(std::iter::repeat_with(|| next(&told)).take(2).any(|name| name == "three"));
        while told.try_recv().is_ok() {}
        world.sites.delete("one", &DeleteParams::default()).unwrap();
        assert_eq!(next(&told), "one", "it begins to be deleted, and waits for its finalizers");
        running.end().unwrap();
    }
}

#[test]
fn predicates_join_and_a_resync_is_no_new_version() {
    let object = |version: &str, label: &str, generation| {
        Arc::new(ConfigMap {
            metadata: ObjectMeta {
                resource_version: version.into(),
                labels: listwatch::Map::from([("a", label)]),
                generation,
                ..ObjectMeta::named("x")
            },
            ..ConfigMap::default()
        })
    };
    let update = |new| Change::Updated { old: object("1", "x", 1), new };
    let (label, spec, neither) =
        (update(object("2", "y", 1)), update(object("2", "x", 2)), update(object("2", "x", 1)));
    let (labels, generations) = (Predicate::labels_changed, Predicate::<ConfigMap>::generation_changed);
    let either = labels().or(generations());
    assert_eq!([&label, &spec, &neither].map(|c| either.passes(c)), [true, true, false]);
    let both = labels().and(generations());
    assert_eq!([&label, &spec].map(|c| both.passes(c)), [false, false]);
    assert!(both.passes(&update(object("2", "y", 2))));
    let versions = Predicate::resource_version_changed();
    assert!(versions.passes(&neither) && !versions.passes(&update(object("1", "x", 1))));
    assert!(both.passes(&Change::Added(object("1", "x", 1))));
    assert!(both.passes(&Change::Deleted { object: object("1", "x", 1), final_state_known: false }));
    assert!(Predicate::all().passes(&neither));
}

#[test]
fn what_is_owned_may_be_known_at_run_time_alone_and_wake_for_some_changes_only() {
    let world = world();
    let site = world.create("one");
    let maps = Api::<ConfigMap>::namespaced(&world.client, "default");
    let owner = json!({"apiVersion": "example.com/v1", "kind": "Site", "name": "one",
        "uid": site.uid(), "controller": true});
    let owned = |name: &str| {
        let map = json!({"metadata": {"name": name, "ownerReferences": [owner]}});
        maps.create(&PostParams::default(), &serde_json::from_value::<ConfigMap>(map).unwrap()).unwrap()
    };
    owned("first");
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    let resource = ConfigMap::api_resource();
    let controller = Controller::<Site>::all(&world.client)
        .owns_with::<Object>(&resource, Predicate::labels_changed())
        .watches_with::<Secret>(&Secret::api_resource(), Predicate::all(), |secret| {
            vec![ObjectKey::namespaced("default", secret.name())]
        });
    let (calls, told) = unbounded();
    let running = spawn(move |stop| {
        controller.run(stop, move |site: &Request<Site>| {
            count.store(site.lister_with::<Object>(&resource)?.store().len(), Ordering::SeqCst);
            calls.send(site.name().to_owned()).unwrap();
            Ok::<_, Error>(Action::await_change())
        })
    });
    assert_eq!((next(&told), seen.load(Ordering::SeqCst)), ("one".into(), 1));
    let patch = |name: &str, patch: Value| {
        maps.patch(name, &PatchParams::default(), &Patch::Merge(patch)).unwrap();
    };
    patch("first", json!({"data": {"a": "b"}}));
    patch("first", json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!(next(&told), "one");
    owned("second");
    assert_eq!((next(&told), seen.load(Ordering::SeqCst)), ("one".into(), 2));
    let secret = Secret { metadata: ObjectMeta::named("one"), ..Secret::default() };
    Api::namespaced(&world.client, "default").create(&PostParams::default(), &secret).unwrap();
    assert_eq!(next(&told), "one");
    running.end().unwrap();
    assert!(told.is_empty());
}

#[test]
fn of_what_is_owned_the_metadata_may_be_enough() {
    for mode in [ListMode::Paged(1), ListMode::WatchList, ListMode::Cached] {
        let world = world();
        let site = world.create("one");
        let owner = json!({"apiVersion": "example.com/v1", "kind": "Site", "name": "one",
            "uid": site.uid(), "controller": true});
        let (resource, meta) = (Secret::api_resource(), Api::<PartialObjectMetadata>::namespaced_with);
        let secrets = meta(&world.client, "default", &resource);
        let create = |name: &str| {
            let secret = json!({"metadata": {"name": name, "labels": {"a": "b"}, "ownerReferences": [owner]},
                "stringData": {"password": "hunter2"}});
            let secret = Object::from_value(with_type(&resource, secret)).unwrap();
            let whole = Api::<Object>::namespaced_with(&world.client, "default", &resource);
            whole.create(&PostParams::default(), &secret).unwrap();
        };
        create("first");
        create("second");
        let controller = Controller::<Site>::all(&world.client)
            .mode(mode)
            .owns_with::<PartialObjectMetadata>(&resource, Predicate::all());
        let (calls, told) = unbounded();
        let kind = resource.clone();
        let running = spawn(move |stop| {
            controller.run(stop, move |site: &Request<Site>| {
                let secrets = site.lister_with::<PartialObjectMetadata>(&kind)?.store().list();
                let told = secrets.iter().map(|s| (s.name().to_owned(), s.label("a").map(str::to_owned)));
                calls.send(told.collect::<Vec<_>>()).unwrap();
                Ok::<_, Error>(Action::await_change())
            })
        });
        let is = |name: &str, label: &str| (name.to_owned(), Some(label.to_owned()));
        assert_eq!(next(&told), [is("first", "b"), is("second", "b")], "{mode:?}");
        let label = Patch::Merge(json!({"metadata": {"labels": {"a": "c"}}}));
        let patched = secrets.patch("second", &PatchParams::default(), &label).unwrap();
        assert_eq!(patched.metadata.labels.get("a"), Some("c"));
        assert_eq!(next(&told), [is("first", "b"), is("second", "c")]);
        create("third");
        assert_eq!(next(&told).len(), 3);
        secrets.delete("third", &DeleteParams::default()).unwrap();
        assert_eq!(next(&told).len(), 2);
        assert_eq!(secrets.get("first").unwrap().metadata.labels.get("a"), Some("b"));
        running.end().unwrap();
    }
}

fn with_type(resource: &ApiResource, mut object: Value) -> Value {
    object["apiVersion"] = resource.api_version.clone().into();
    object["kind"] = resource.kind.clone().into();
    object
}

#[test]
fn a_terminal_error_waits_for_a_change_and_others_are_tried_again() {
    let world = world();
    world.create("one");
    let metrics = Metrics::new();
    let (calls, told) = unbounded();
    let count = AtomicUsize::new(0);
    // Without a wait: what is tried again is there before what is made afterwards.
    let controller = Controller::<Site>::all(&world.client.with_metrics(metrics.clone()))
        .rate_limit(|| ItemExponentialFailure::new(Duration::ZERO, Duration::ZERO));
    let running = spawn(move |stop| {
        controller.run(stop, move |site: &Request<Site>| {
            calls.send(site.name().to_owned()).unwrap();
            match count.fetch_add(1, Ordering::SeqCst) {
                0 => site.api::<Site>().get("nobody").map(|_| Action::await_change()),
                1 => Ok(Action::back_off()),
                2 => Err(Error::terminal("the spec cannot be")),
                _ => Ok(Action::await_change()),
            }
        })
    });
    (0..3).for_each(|_| assert_eq!(next(&told), "one"));
    // Had it been queued again, it would come before the next.
    world.create("two");
    assert_eq!(next(&told), "two");
    world.patch("one", json!({"spec": {"size": 3}}));
    assert_eq!(next(&told), "one");
    running.end().unwrap();
    assert!(told.is_empty());
    let of = metrics.snapshot().controllers.remove("sites.example.com").unwrap();
    assert_eq!((of.errors, of.terminal_errors, of.back_offs, of.successes), (2, 1, 1, 2));
}

#[test]
fn a_policy_says_what_follows_each_error_and_is_told_how_often_in_a_row() {
    let clock = Clock::manual();
    let world = world_with(clock.clone());
    world.create("one");
    let (calls, told) = unbounded();
    let (tell, tries) = unbounded();
    let controller = Controller::<Site>::all(&world.client);
    let running = spawn(move |stop| {
        let reconcile = move |_: &Request<Site>| {
            calls.send(()).unwrap();
            Err::<Action, _>("no")
        };
        controller.run_with(stop, reconcile, move |site, error, attempt| {
            tell.send((site.name().to_owned(), *error, attempt)).unwrap();
            match attempt {
                1 => Action::requeue(60 * SECOND),
                2 => Action::back_off(),
                _ => Action::await_change(),
            }
        })
    });
    let attempt = |number| {
        next(&told);
        assert_eq!(next(&tries), ("one".to_owned(), "no", number));
    };
    // Waits for a time that is neither of the watch's, and lets it pass.
    let passes = |time: Duration| {
        while clock.next_timer().is_none_or(|left| left > time) {
            std::thread::yield_now();
        }
        assert_eq!(clock.next_timer(), Some(time));
        clock.advance(time);
    };
    attempt(1);
    passes(60 * SECOND);
    attempt(2);
    passes(Duration::from_millis(10)); // the first failure counted for 5
    attempt(3);
    world.patch("one", json!({"spec": {"size": 2}}));
    attempt(1);
    running.end().unwrap();
    assert!(told.is_empty());
}

#[test]
fn caches_are_warm_before_a_term_and_each_term_begins_with_every_object() {
    let world = world();
    world.create("one");
    world.create("two");
    let stop = Stop::new();
    let controller = Controller::<Site>::all(&world.client).with_predicate(Predicate::generation_changed());
    assert!(!controller.health().is_ready());
    let warm = controller.start(&stop).unwrap();
    assert!(controller.health().is_ready(), "{}", controller.health());
    let lists = world.lists();
    for term_number in 0..3 {
        let (term, (calls, told)) = (Stop::new(), unbounded());
        std::thread::scope(|scope| {
            let end = Running { stop: term.clone(), done: bounded(0).1 };
            let run = scope.spawn(|| warm.run(&term, telling(calls)));
            assert_eq!([next(&told), next(&told)], ["one", "two"]);
            let twice = warm.run(&term, telling(unbounded().0)).unwrap_err();
            assert!(twice.to_string().contains("runs already"), "{twice}");
            world.patch("two", json!({"spec": {"size": 10 + term_number}}));
            assert_eq!(next(&told), "two");
            drop(end);
            run.join().unwrap().unwrap();
        });
        assert!(told.is_empty() && controller.health().is_ready());
    }
    assert_eq!(world.lists(), lists, "no term lists");
    stop.stop();
    assert!(warm.run(&Stop::new(), telling(unbounded().0)).is_ok(), "stopped, so it ends at once");
    drop(warm);
    assert!(!controller.health().is_ready());
    assert!(controller.start(&stop).unwrap_err().is_stopped());
}

#[test]
fn one_object_is_listed_and_watched_by_its_name_and_what_it_owns_is_not() {
    let world = world();
    ["one", "two", "three"].into_iter().for_each(|name| drop(world.create(name)));
    let (running, told) = told(Controller::all(&world.client).only("two").owns::<ConfigMap>());
    assert_eq!(next(&told), "two");
    world.patch("one", json!({"spec": {"size": 2}}));
    world.patch("two", json!({"spec": {"size": 2}}));
    assert_eq!(next(&told), "two");
    running.end().unwrap();
    assert!(told.is_empty());
    let requests = world.server.requests();
    let selected = |request: &&String| request.contains("fieldSelector=metadata.name%3Dtwo");
    let (sites, others): (Vec<_>, Vec<_>) = requests
        .iter()
        .filter(|request| request.starts_with("GET"))
        .partition(|request| request.contains("/sites"));
    assert_eq!((sites.len(), sites.iter().filter(|r| selected(r)).count()), (2, 2), "{requests:?}");
    assert!(!others.is_empty() && !others.iter().any(selected), "{requests:?}");
}

#[test]
fn several_namespaces_are_one_controller_that_sees_no_other() {
    let world = world();
    for namespace in ["a", "b", "c"] {
        let site = Site { metadata: ObjectMeta::named("one").in_namespace(namespace), spec: json!({}) };
        let maps = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let create = RawRequest::new(Method::Post, "/api/v1/namespaces").json(&maps).unwrap();
        let _ = world.client.request::<Value>(&create);
        Api::<Site>::all(&world.client).create(&PostParams::default(), &site).unwrap();
    }
    let controller = Controller::<Site>::all(&world.client)
        .namespaces(["b", "a", "b"])
        .owns::<ConfigMap>()
        .watches::<Node>(|_| {
        ["a", "b", "c"].map(|namespace| ObjectKey::namespaced(namespace, "one")).into()
    });
    let fitness = controller.clone();
    let (calls, told) = unbounded();
    let running = spawn(move |stop| {
        controller.run(stop, move |site: &Request<Site>| {
            let maps = site.lister::<ConfigMap>()?.store().list();
            let inside = maps.iter().all(|map| map.namespace() == site.namespace());
            site.lister::<Node>()?;
            calls.send((site.key().to_string(), inside, maps.len())).unwrap();
            Ok::<_, Error>(Action::await_change())
        })
    });
    assert_eq!([next(&told), next(&told)], [("a/one".into(), true, 0), ("b/one".into(), true, 0)]);
    assert!(fitness.health().is_ready());
    let names: Vec<_> = fitness.health().informers.into_iter().map(|(name, _)| name).collect();
    let of = |what: &str| names.iter().filter(|name| name.starts_with(what)).count();
    assert_eq!([of("sites"), of("configmaps"), of("nodes")], [2, 2, 1], "{names:?}");
    for namespace in ["c", "b"] {
        let site = Api::<Site>::namespaced(&world.client, namespace).get("one").unwrap();
        let owner = json!({"apiVersion": "example.com/v1", "kind": "Site", "name": "one",
            "uid": site.uid(), "controller": true});
        let map = json!({"metadata": {"name": "m", "namespace": namespace, "ownerReferences": [owner]}});
        let map = serde_json::from_value::<ConfigMap>(map).unwrap();
        Api::<ConfigMap>::all(&world.client).create(&PostParams::default(), &map).unwrap();
    }
    assert_eq!(next(&told), ("b/one".into(), true, 1));
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let create = RawRequest::new(Method::Post, "/api/v1/nodes").json(&node).unwrap();
    world.client.request::<Value>(&create).unwrap();
    assert_eq!([next(&told).0, next(&told).0], ["a/one", "b/one"]);
    running.end().unwrap();
    assert!(told.is_empty());
}

#[test]
fn at_the_end_running_calls_may_finish_their_requests_and_no_other_begins() {
    let world = world();
    world.create("one");
    let (begun, begin) = bounded(1);
    let (go, gate) = bounded::<()>(0);
    let informer_lives = Arc::new(AtomicBool::new(false));
    let lives = informer_lives.clone();
    let controller = Controller::<Site>::all(&world.client).shutdown_timeout(SOON);
    let fitness = controller.clone();
    let running = spawn(move |stop| {
        controller.run(stop, move |site: &Request<Site>| {
            begun.send(site.name().to_owned()).unwrap();
            let _ = gate.recv();
            lives.store(fitness.health().is_ready(), Ordering::SeqCst);
            let patch = Patch::Merge(json!({"spec": {"size": 7}}));
            site.api::<Site>().patch(site.name(), &PatchParams::default(), &patch)?;
            Ok::<_, Error>(Action::await_change())
        })
    });
    assert_eq!(next(&begin), "one");
    running.stop.stop();
    world.create("two");
    assert!(running.done.is_empty());
    drop(go);
    next(&running.done).unwrap();
    assert_eq!(world.sites.get("one").unwrap().spec, json!({"size": 7}), "its request went through");
    assert!(informer_lives.load(Ordering::SeqCst), "informers end after the calls");
    assert!(begin.is_empty(), "no other call began");
}

#[test]
fn a_call_that_outlives_the_shutdown_timeout_is_named_and_left_behind() {
    let clock = Clock::manual();
    let world = world_with(clock.clone());
    world.create("one");
    world.create("stuck");
    let (begun, begin) = bounded(2);
    let (go, gate) = bounded::<()>(0);
    let (over, ended) = bounded(1);
    let controller = Controller::<Site>::all(&world.client).workers(2).shutdown_timeout(30 * SECOND);
    let running = spawn(move |stop| {
        controller.run(stop, move |site: &Request<Site>| {
            begun.send(()).unwrap();
            if site.name() == "stuck" {
                let _ = gate.recv();
                let late = site.api::<Site>().get("one").unwrap_err();
                over.send(late.is_stopped()).unwrap();
            }
            Ok::<_, Error>(Action::await_change())
        })
    });
    next(&begin);
    next(&begin);
    running.stop.stop();
    while clock.next_timer() != Some(30 * SECOND) {
        std::thread::yield_now();
    }
    clock.advance(29 * SECOND);
    assert!(running.done.is_empty());
    clock.advance(SECOND);
    let error = next(&running.done).unwrap_err();
    assert!(error.is_timeout(), "{error}");
    let message = "controller sites.example.com: still at work 30s after the end: default/stuck";
    assert!(error.to_string().contains(message), "{error}");
    drop(go);
    assert!(next(&ended), "the requests of what was left behind end at once");
}
