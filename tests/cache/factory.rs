use std::time::Duration;

use listwatch::types::{ConfigMap, Node, Secret};
use listwatch::{
    Clock, InformerFactory, ListMode, ObjectKey, RateLimiter, Resource, StaticResource, Stop, WorkQueue,
    enqueue,
};

use crate::informer::{expect, recorder};
use crate::script::{PATIENCE, next, soon, timers, until};
use crate::server::{CONFIG_MAPS, SECRETS, serve};

fn lists(requests: &[String]) -> Vec<&str> {
    requests.iter().map(String::as_str).filter(|r| !r.contains("watch=true")).collect()
}

#[test]
fn all_who_ask_for_a_type_share_one_informer() {
    let server = serve();
    server.put(CONFIG_MAPS, "a/x", None);
    let (factory, stop) = (InformerFactory::new(&server.client()), Stop::new());
    let (handler, told) = recorder();
    factory.informer::<ConfigMap>().add_handler(handler).unwrap();
    factory.clone().start(&stop).unwrap();
    factory.start(&stop).unwrap();
    factory.wait_for_sync(PATIENCE).unwrap();
    expect(&told, &["=a/x@1"]);
    let other = factory.clone().informer::<ConfigMap>();
    assert!(other.has_synced() && other.lister().get("a", "x").is_some());
    assert_eq!(lists(&server.seen()), ["/api/v1/configmaps?limit=500"]);
    // As objects of any kind it is another one, and one that comes later is started by the next start.
    let objects = factory.informer_for(&ConfigMap::api_resource());
    assert!(!objects.has_synced());
    factory.start(&stop).unwrap();
    factory.wait_for_sync(PATIENCE).unwrap();
    assert_eq!(objects.lister().get("a", "x").unwrap().uid(), "uid-x");
    assert_eq!(lists(&server.seen()), ["/api/v1/configmaps?limit=500"]);
    stop.stop();
    soon(move || factory.join());
}

#[test]
fn another_selection_has_other_informers() {
    let server = serve();
    server.put(CONFIG_MAPS, "a/x", None);
    server.put(CONFIG_MAPS, "b/x", None);
    let stop = Stop::new();
    let all = InformerFactory::new(&server.client()).mode(ListMode::Cached);
    let some = all.clone().namespace("a").labels("app=web").fields("metadata.name=x");
    let [everything, selected] = [&all, &some].map(|factory| factory.informer::<ConfigMap>());
    let nodes = some.informer::<Node>();
    all.start(&stop).unwrap();
    soon({
        let all = all.clone();
        move || all.wait_for_sync(PATIENCE)
    })
    .unwrap();
    assert!(!selected.has_synced() && !nodes.has_synced());
    assert_eq!(lists(&server.seen()), ["/api/v1/configmaps?resourceVersion=0"]);
    some.start(&stop).unwrap();
    some.wait_for_sync(PATIENCE).unwrap();
    assert_eq!((everything.lister().store().len(), selected.lister().store().len()), (2, 1));
    let requests = server.seen();
    let mut lists = lists(&requests);
    lists.sort_unstable();
    // A kind without namespaces is not limited to one.
    assert_eq!(
        lists,
        ["/api/v1/namespaces/a/configmaps", "/api/v1/nodes"].map(|path| format!(
            "{path}?labelSelector=app%3Dweb&fieldSelector=metadata.name%3Dx&resourceVersion=0"
        ))
    );
    stop.stop();
    soon(move || [all, some].iter().for_each(InformerFactory::join));
}

/// Where a role allows some namespaces only.
#[test]
fn several_namespaces_are_as_many_factories_with_one_queue_and_nothing_else_is_asked_for() {
    let server = serve();
    for key in ["a/x", "b/x", "secret/x"] {
        server.put(CONFIG_MAPS, key, None);
    }
    let (client, stop) = (server.client(), Stop::new());
    let queue = WorkQueue::<ObjectKey>::new(RateLimiter::default());
    let factories = ["a", "b"].map(|namespace| InformerFactory::new(&client).namespace(namespace));
    for factory in &factories {
        factory.informer::<ConfigMap>().add_handler(enqueue(&queue)).unwrap();
        factory.start(&stop).unwrap();
        factory.wait_for_sync(PATIENCE).unwrap();
    }
    server.put(CONFIG_MAPS, "b/y", None);
    let mut keys: Vec<_> = (0..3)
        .map(|_| {
            let key = queue.get_timeout(PATIENCE, &stop).unwrap();
            queue.done(&key);
            key.to_string()
        })
        .collect();
    keys.sort();
    assert_eq!(keys, ["a/x", "b/x", "b/y"]);
    let requests = server.seen();
    for namespace in ["a", "b"] {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps?");
        let (watches, lists): (Vec<_>, Vec<_>) =
            requests.iter().filter(|r| r.starts_with(&path)).partition(|r| r.contains("watch=true"));
        assert_eq!((lists.len(), watches.len()), (1, 1), "{requests:?}");
    }
    assert_eq!(requests.len(), 4, "{requests:?}");
    stop.stop();
    soon(move || factories.iter().for_each(InformerFactory::join));
}

#[test]
fn one_that_fails_does_not_hold_up_the_others_and_is_named() {
    let server = serve();
    server.refuse(SECRETS, 403);
    let clock = Clock::manual();
    let (factory, stop) = (InformerFactory::new(&server.client_with(clock.clone())), Stop::new());
    let (maps, secrets) = (factory.informer::<ConfigMap>(), factory.informer::<Secret>());
    factory.start(&stop).unwrap();
    let good = maps.clone();
    soon(move || good.wait_for_sync(PATIENCE)).unwrap();
    until(|| secrets.health().errors > 0);
    let told = factory.wait_for_sync(Duration::ZERO).unwrap_err().to_string();
    assert!(told.contains("secrets") && told.contains("/api/v1/secrets is refused"), "{told}");
    assert!(!told.contains("configmaps"), "{told}");
    // Two that fail are both named.
    let _nodes = factory.informer::<Node>();
    let told = factory.wait_for_sync(Duration::ZERO).unwrap_err().to_string();
    assert!(told.contains("secrets") && told.contains("nodes not synced"), "{told}");
    // What is allowed later is had later.
    server.allow(SECRETS);
    factory.start(&stop).unwrap();
    let waiting = factory.clone();
    let (done, is_done) = crossbeam_channel::bounded(1);
    let wait = move || done.send(waiting.wait_for_sync(Duration::MAX)).unwrap();
    let thread = std::thread::Builder::new().spawn(wait).unwrap();
    until(|| {
        clock.advance(Duration::from_secs(1));
        secrets.has_synced()
    });
    next(&is_done).unwrap();
    thread.join().unwrap();
    stop.stop();
    soon(move || factory.join());
}

#[test]
fn a_stopped_factory_says_so() {
    let server = serve();
    let (factory, stop) = (InformerFactory::new(&server.client()), Stop::new());
    let _ = (factory.informer::<ConfigMap>(), factory.informer::<Secret>());
    stop.stop();
    factory.start(&stop).unwrap();
    assert!(factory.wait_for_sync(PATIENCE).unwrap_err().is_stopped());
    soon(move || factory.join());
}

#[test]
fn a_type_may_have_a_period_of_resync_of_its_own() {
    let server = serve();
    server.put(CONFIG_MAPS, "a/x", None);
    let clock = Clock::manual();
    let factory = InformerFactory::new(&server.client_with(clock.clone()));
    let factory = factory.resync_for::<ConfigMap>(Duration::from_secs(10)).resync(Duration::from_secs(1000));
    let stop = Stop::new();
    let (handler, told) = recorder();
    factory.informer::<ConfigMap>().add_handler(handler).unwrap();
    factory.start(&stop).unwrap();
    expect(&told, &["=a/x@1"]);
    timers(&clock, 1);
    clock.advance(Duration::from_secs(10));
    expect(&told, &["a/x@1→a/x@1"]);
    stop.stop();
    soon(move || factory.join());
}
