use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::{Sender, bounded, unbounded};
use listwatch::cache::{Activity, Deleted};
use listwatch::types::ConfigMap;
use listwatch::{Handlers, ListParams, Resource, Stop};

use crate::informer::{Setup, expect, recorder, setup, setup_with};
use crate::script::{expired, next, refused, soon, timers, until};

/// An informer whose thread that applies stands still at `a/block`, until what is returned is dropped.
fn held_up() -> (Setup, Sender<()>) {
    let (go, gate) = bounded::<()>(0);
    let s = setup_with(|builder| {
        builder.index("gate", move |map: &ConfigMap| {
            if map.name() == "block" {
                let _ = gate.recv();
            }
            Vec::new()
        })
    });
    (s, go)
}

#[test]
fn issue_kubernetes_115658_what_a_list_finds_gone_while_its_addition_waits_is_told_as_deleted() {
    let (s, go) = held_up();
    let (handler, told) = recorder();
    s.informer.add_handler(handler).unwrap();
    let (lister, (seen, sees)) = (s.informer.lister(), unbounded());
    let looks = Handlers::new()
        .on_delete(move |gone: &Deleted<ConfigMap>| seen.send(lister.get_key(&gone.object.key())).unwrap());
    s.informer.add_handler(looks).unwrap();
    s.start();
    let feed = s.server.sync(&["a/x@1"], "10");
    s.synced();
    for object in ["a/block@11", "a/brief@12", "a/back@13/one"] {
        feed.added(object);
    }
    feed.fail(expired());
    s.server.list(ListParams::default().limit(500)).all(&["a/back@19/two", "a/block@11", "a/x@1"], "20");
    let _feed = s.server.watch_from("20").open();
    // All that is read by now; nothing of it is in the cache.
    assert_eq!((s.informer.health().lists, s.informer.lister().store().len()), (2, 1));
    drop(go);
    expect(&told, &["=a/x@1", "+a/block@11", "+a/brief@12", "+a/back@13"]);
    let mut rest: Vec<_> = (0..3).map(|_| next(&told)).collect();
    rest.sort();
    assert_eq!(rest, ["+a/back@19", "?a/back@13", "?a/brief@12"]);
    // A deletion is told when the cache no longer has that object.
    let after: Vec<_> = (0..2).filter_map(|_| next(&sees)).collect();
    assert!(after.iter().all(|object| object.uid() == "two"), "{after:?}");
}

#[test]
fn a_stop_ends_the_reader_though_its_queue_is_full() {
    let (s, go) = held_up();
    s.start();
    let feed = s.server.sync(&["a/block@1"], "10");
    (11..5000).for_each(|n| feed.added(&format!("a/x@{n}")));
    let mut last = (0, 0);
    until(|| {
        let health = s.informer.health();
        let full = (health.waiting, health.events) == last && health.waiting > 100;
        last = (health.waiting, health.events);
        full
    });
    assert!(last.1 < 4000, "the reader waits: {last:?}");
    s.stop.stop();
    until(|| s.informer.health().activity == Activity::Stopped);
    drop(go);
    s.end();
}

#[test]
fn nothing_is_told_again_unless_asked_for() {
    let s = setup();
    let (handler, told) = recorder();
    s.informer.add_handler(handler).unwrap();
    s.start();
    let feed = s.server.sync(&["a/x@1"], "10");
    s.synced();
    s.clock.advance(Duration::from_secs(365 * 24 * 3600));
    feed.added("a/y@11");
    expect(&told, &["=a/x@1", "+a/y@11"]);
    assert_eq!(s.clock.next_timer(), None);
}

#[test]
fn who_wants_to_give_up_stops_it_from_on_error() {
    let (stop, failures) = (Stop::new(), AtomicUsize::new(0));
    let token = stop.clone();
    let s = setup_with(|builder| {
        builder.on_error(move |e| {
            assert!(e.is_connect());
            if failures.fetch_add(1, Ordering::SeqCst) == 3 {
                token.stop();
            }
        })
    });
    s.informer.start(&stop).unwrap();
    for _ in 0..3 {
        s.server.list(ListParams::default().limit(500)).fail(refused());
        timers(&s.clock, 1);
        s.clock.advance(Duration::from_secs(60));
    }
    s.server.list(ListParams::default().limit(500)).fail(refused());
    let informer = s.informer.clone();
    let error = soon(move || {
        informer.join();
        informer.wait_for_sync(Duration::MAX).unwrap_err()
    });
    assert!(error.is_stopped(), "{error}");
    assert_eq!(s.informer.health().errors, 4);
}
