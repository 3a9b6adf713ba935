use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use listwatch::cache::{Activity, Deleted, HandlerOptions, InformerBuilder};
use listwatch::types::ConfigMap;
use listwatch::{
    Clock, Error, Handler, Handlers, Informer, ListMeta, ListParams, ObjectKey, RateLimiter, Resource,
    Selector, Stop, WorkQueue, enqueue,
};

use crate::script::{Server, expired, next, object, script, soon, status, text, timers, unfit, until};

/// Tells each call as text: `=` initial, `+` added, `→` updated, `-` deleted, `?` deleted without the final state.
pub(crate) fn recorder() -> (impl Handler<ConfigMap>, Receiver<String>) {
    let (calls, told) = unbounded();
    let [added, updated, deleted]: [Sender<String>; 3] = [calls.clone(), calls.clone(), calls];
    let handlers = Handlers::new()
        .on_add(move |map: &Arc<ConfigMap>, initial| {
            let _ = added.send(format!("{}{}", if initial { "=" } else { "+" }, text(&**map)));
        })
        .on_update(move |old, new| {
            let _ = updated.send(format!("{}→{}", text(&**old), text(&**new)));
        })
        .on_delete(move |gone: &Deleted<ConfigMap>| {
            let _ = deleted.send(format!(
                "{}{}",
                if gone.final_state_known { "-" } else { "?" },
                text(&*gone.object)
            ));
        });
    (handlers, told)
}

#[track_caller]
pub(crate) fn expect(told: &Receiver<String>, calls: &[&str]) {
    for call in calls {
        assert_eq!(next(told), *call);
    }
}

pub(crate) struct Setup {
    pub(crate) informer: Informer<ConfigMap>,
    pub(crate) server: Server,
    pub(crate) clock: Clock,
    pub(crate) stop: Stop,
}

pub(crate) fn setup() -> Setup {
    setup_with(|builder| builder)
}

pub(crate) fn setup_with(
    with: impl FnOnce(InformerBuilder<ConfigMap>) -> InformerBuilder<ConfigMap>,
) -> Setup {
    let (script, server) = script();
    let (clock, stop) = (Clock::manual(), Stop::new());
    let informer = with(Informer::builder(script).clock(clock.clone())).build().unwrap();
    Setup { informer, server, clock, stop }
}

impl Setup {
    pub(crate) fn start(&self) {
        self.informer.start(&self.stop).unwrap();
    }

    #[track_caller]
    pub(crate) fn synced(&self) {
        let informer = self.informer.clone();
        soon(move || informer.wait_for_sync(Duration::from_secs(60))).unwrap();
    }

    #[track_caller]
    pub(crate) fn end(&self) {
        self.stop.stop();
        let informer = self.informer.clone();
        soon(move || informer.join());
    }

    fn there(&self) -> Vec<String> {
        self.informer.lister().store().list().iter().map(|map| text(&**map)).collect()
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

#[test]
fn a_handler_is_told_of_the_list_and_of_what_changes() {
    let s = setup();
    let (handler, told) = recorder();
    let registration = s.informer.add_handler(handler).unwrap();
    assert_eq!((s.informer.has_synced(), registration.has_synced()), (false, false));
    s.start();
    s.start();
    let feed = s.server.sync(&["a/x@1", "a/y@2"], "10");
    s.synced();
    assert!(registration.has_synced() && s.informer.health().synced);
    expect(&told, &["=a/x@1", "=a/y@2"]);
    feed.added("a/z@11");
    feed.modified("a/x@12");
    feed.deleted("a/y@13");
    feed.modified("a/z@14/other");
    expect(&told, &["+a/z@11", "a/x@1→a/x@12", "-a/y@13", "?a/z@11", "+a/z@14"]);
    assert_eq!(s.there(), ["a/x@12", "a/z@14"]);
    assert_eq!(s.informer.last_sync_resource_version(), "14");
    s.server.is_quiet();
    s.end();
    assert_eq!(s.informer.health().activity, Activity::Stopped);
    assert!(s.informer.is_stopped());
}

#[test]
fn what_was_missed_is_found_by_the_next_list() {
    let s = setup();
    let (handler, told) = recorder();
    s.informer.add_handler(handler).unwrap();
    s.start();
    let feed = s.server.sync(&["a/gone@1", "a/same@2", "a/changed@3", "a/other@4/u1", "a/unfit@5"], "10");
    s.synced();
    let before = s.informer.lister().get("a", "same").unwrap();
    feed.bookmark("11", false);
    feed.fail(expired());
    let listing = s.server.list(ListParams::default().limit(500));
    let items = ["a/same@2", "a/new@21", "a/changed@22", "a/other@23/u2"];
    let items = items.iter().map(|item| Ok(object(item))).chain([Err(unfit("ADDED", "a/unfit", "24"))]);
    listing.answer(items.collect(), Ok(ListMeta { resource_version: "30".into(), ..ListMeta::default() }));
    expect(&told, &["=a/gone@1", "=a/same@2", "=a/changed@3", "=a/other@4", "=a/unfit@5"]);
    expect(&told, &["?a/gone@1", "+a/new@21", "a/changed@3→a/changed@22", "?a/other@4", "+a/other@23"]);
    assert!(told.is_empty());
    assert_eq!(s.there(), ["a/changed@22", "a/new@21", "a/other@23", "a/same@2", "a/unfit@5"]);
    assert!(Arc::ptr_eq(&before, &s.informer.lister().get("a", "same").unwrap()));
    assert_eq!(s.informer.health().unfit, 1);
}

#[test]
fn a_handler_may_come_at_any_time_before_the_end() {
    let s = setup();
    s.start();
    let (handler, before_list) = recorder();
    let early = s.informer.add_handler(handler).unwrap();
    let feed = s.server.sync(&["a/x@1"], "10");
    s.synced();
    feed.added("a/y@11");
    expect(&before_list, &["=a/x@1", "+a/y@11"]);
    let (handler, after_list) = recorder();
    let late = s.informer.add_handler(handler).unwrap();
    soon(move || late.wait_for_sync(Duration::from_secs(60))).unwrap();
    feed.deleted("a/x@12");
    expect(&after_list, &["=a/x@1", "=a/y@11", "-a/x@12"]);
    expect(&before_list, &["-a/x@12"]);
    s.end();
    let error = s.informer.add_handler(recorder().0).unwrap_err();
    assert!(error.is_stopped(), "{error}");
    assert!(early.has_synced() && early.wait_for_sync(Duration::ZERO).is_ok());
    assert!(before_list.is_empty() && after_list.is_empty());
}

#[test]
fn a_wait_for_sync_that_fails_says_why() {
    let s = setup();
    let why = || s.informer.wait_for_sync(Duration::ZERO).unwrap_err();
    assert!(why().is_timeout() && why().to_string().contains("it was not started"), "{}", why());
    s.start();
    let answers =
        [status(404, "NotFound", "the server could not find it"), status(403, "Forbidden", "no list")];
    for e in answers {
        let message = e.to_string();
        s.server.list(ListParams::default().limit(500)).fail(e);
        timers(&s.clock, 1);
        let told = why().to_string();
        assert!(told.contains(&message) && told.contains("configmaps in \"a\""), "{told}");
        s.clock.advance(Duration::from_secs(60));
    }
    s.server.next();
    s.end();
    assert!(why().is_stopped(), "{}", why());

    let s = setup();
    let (go, gate) = bounded::<()>(0);
    let slow = Handlers::new().on_add(move |_: &Arc<ConfigMap>, _| {
        let _ = gate.recv();
    });
    let slow = s.informer.add_handler_with(HandlerOptions::default().name("sluggish"), slow).unwrap();
    s.start();
    let many: Vec<_> = (0..1000).map(|n| format!("a/{n}@1")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    s.server.list(ListParams::default().limit(500)).page(&many, "9", "more");
    let second = s.server.list(ListParams::default().limit(500).continue_token("more"));
    let told = s.informer.wait_for_sync(Duration::ZERO).unwrap_err().to_string();
    assert!(told.contains("1000 objects so far"), "{told}");
    second.all(&["a/last@1"], "9");
    let _feed = s.server.watch_from("9").open();
    until(|| s.informer.has_synced());
    let told = s.informer.wait_for_sync(Duration::ZERO).unwrap_err().to_string();
    assert!(told.contains("sluggish"), "{told}");
    assert!(told.contains("notifications wait"), "{told}");
    let error = slow.wait_for_sync(Duration::ZERO).unwrap_err();
    assert!(error.is_timeout() && error.to_string().contains("sluggish"), "{error}");
    assert!(slow.depth() >= 1000 && slow.name() == "sluggish");
    drop(go);
    s.synced();
    assert!(slow.wait_for_sync(Duration::MAX).is_ok());
}

#[test]
fn a_wait_ends_when_stopped() {
    let s = setup();
    let registration = s.informer.add_handler(recorder().0).unwrap();
    s.start();
    let informer = s.informer.clone();
    let stop = s.stop.clone();
    let (one, two) = soon(move || {
        let thread = std::thread::Builder::new()
            .spawn(move || registration.wait_for_sync(Duration::MAX).unwrap_err().is_stopped())
            .unwrap();
        stop.stop();
        (informer.wait_for_sync(Duration::MAX).unwrap_err().is_stopped(), thread.join().unwrap())
    });
    assert!(one && two);
}

#[test]
fn a_wait_for_all_does_not_wait_for_a_handler_that_was_removed() {
    let s = setup();
    let (started, starts) = bounded(1);
    let (go, gate) = bounded::<()>(0);
    let slow = Handlers::new().on_add(move |_: &Arc<ConfigMap>, _| {
        let _ = started.send(());
        let _ = gate.recv();
    });
    let slow = s.informer.add_handler(slow).unwrap();
    s.start();
    let _feed = s.server.sync(&["a/x@1"], "10");
    next(&starts);
    let informer = s.informer.clone();
    let (done, is_done) = bounded(1);
    let wait = move || done.send(informer.wait_for_sync(Duration::MAX)).unwrap();
    let waiting = std::thread::Builder::new().spawn(wait).unwrap();
    timers(&s.clock, 1);
    // It ends after the call that it is in; the wait for all ends at once.
    let remove = std::thread::Builder::new().spawn(move || slow.remove()).unwrap();
    next(&is_done).unwrap();
    waiting.join().unwrap();
    assert!(!remove.is_finished());
    drop(go);
    crate::script::ended(remove);
}

#[test]
fn a_removed_handler_is_called_no_more() {
    let s = setup();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let counting = Handlers::new().on_add(move |_: &Arc<ConfigMap>, _| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let registration = s.informer.add_handler(counting).unwrap();
    let (handler, told) = recorder();
    s.informer.add_handler(handler).unwrap();
    s.start();
    let feed = s.server.sync(&["a/x@1"], "10");
    s.synced();
    soon(move || registration.remove());
    feed.added("a/y@11");
    expect(&told, &["=a/x@1", "+a/y@11"]);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    s.end();
}

#[test]
fn a_handler_may_remove_itself() {
    let s = setup();
    let (send, own) = bounded(1);
    let (calls, told) = unbounded();
    let once = Handlers::new().on_add(move |map: &Arc<ConfigMap>, _| {
        let registration: listwatch::Registration<ConfigMap> = next(&own);
        registration.remove();
        calls.send(text(&**map)).unwrap();
    });
    send.send(s.informer.add_handler(once).unwrap()).unwrap();
    s.start();
    let _feed = s.server.sync(&["a/x@1", "a/y@2"], "10");
    assert_eq!(next(&told), "a/x@1");
    // Its thread ends, and with it the handler.
    assert!(told.recv_timeout(crate::script::PATIENCE).unwrap_err().is_disconnected());
    s.synced();
    s.end();
}

#[test]
fn what_a_handler_reads_is_at_least_as_new_as_what_it_is_told() {
    let s = setup();
    let version = |map: &ConfigMap| map.resource_version().parse::<u64>().unwrap();
    let (wrong, is_wrong) = unbounded();
    let (lister, wrong2) = (s.informer.lister(), wrong.clone());
    let (lister2, lister3, done) = (lister.clone(), lister.clone(), wrong.clone());
    let check = Handlers::new()
        .on_add(move |new: &Arc<ConfigMap>, _| {
            if lister.get_key(&new.key()).is_none_or(|now| version(&now) < version(new))
                && new.name() != "brief"
            {
                wrong.send(format!("add {}", text(&**new))).unwrap();
            }
        })
        .on_update(move |_, new| {
            if lister2.get_key(&new.key()).is_none_or(|now| version(&now) < version(new)) {
                wrong2.send(format!("update {}", text(&**new))).unwrap();
            }
        })
        .on_delete(move |gone| {
            if gone.object.name() == "end" {
                done.send("end".into()).unwrap();
            } else if lister3
                .get_key(&gone.object.key())
                .is_some_and(|now| version(&now) < version(&gone.object))
            {
                done.send(format!("delete {}", text(&*gone.object))).unwrap();
            }
        });
    s.informer.add_handler(check).unwrap();
    s.start();
    let feed = s.server.sync(&["a/x@1", "a/end@2"], "10");
    for n in (11..3000).step_by(3) {
        feed.modified(&format!("a/x@{n}"));
        feed.added(&format!("a/brief@{}", n + 1));
        feed.deleted(&format!("a/brief@{}", n + 2));
    }
    feed.deleted("a/end@4000");
    assert_eq!(next(&is_wrong), "end");
}

#[test]
fn each_handler_has_its_own_period_of_resync() {
    let s = setup_with(|builder| builder.resync(Duration::from_secs(100)));
    let add = |options| {
        let (handler, told) = recorder();
        s.informer.add_handler_with(options, handler).unwrap();
        told
    };
    let default = add(HandlerOptions::default());
    let fast = add(HandlerOptions::default().resync(Duration::from_secs(30)));
    let never = add(HandlerOptions::default().resync(Duration::ZERO));
    let forever = add(HandlerOptions::default().resync(Duration::MAX));
    s.start();
    let feed = s.server.sync(&["a/x@1", "a/y@2"], "10");
    s.synced();
    for told in [&default, &fast, &never, &forever] {
        expect(told, &["=a/x@1", "=a/y@2"]);
    }
    let mut counts = [0; 2];
    for _ in 0..30 {
        timers(&s.clock, 1);
        s.clock.advance(Duration::from_secs(10));
        // Something passes through, so that the resync before it has been told.
        let version = s.informer.last_sync_resource_version().parse::<u64>().unwrap() + 1;
        feed.added(&format!("b/{version}@{version}"));
        feed.deleted(&format!("b/{version}@{version}"));
        for (told, count) in [(&default, Some(0)), (&fast, Some(1)), (&never, None), (&forever, None)] {
            loop {
                match next(told).as_str() {
                    "a/x@1→a/x@1" => counts[count.unwrap()] += 1,
                    call if call.starts_with('-') => break,
                    _ => {}
                }
            }
        }
    }
    // 300 s; the last may be told a moment later.
    assert!((2..=3).contains(&counts[0]) && (9..=10).contains(&counts[1]), "{counts:?}");
}

#[test]
fn a_handler_with_a_filter_is_told_as_if_nothing_else_was_there() {
    let s = setup();
    let (calls, told) = unbounded();
    let [a, u, d] = [calls.clone(), calls.clone(), calls];
    let even = |map: &ConfigMap| map.resource_version().parse::<u64>().unwrap() % 2 == 0;
    let handler = Handlers::new()
        .on_add(move |map: &Arc<ConfigMap>, initial| a.send(format!("{initial} {}", text(&**map))).unwrap())
        .on_update(move |old, new| u.send(format!("{} {}", text(&**old), text(&**new))).unwrap())
        .on_delete(move |gone| d.send(format!("- {}", text(&*gone.object))).unwrap())
        .filter(even);
    s.informer.add_handler(handler).unwrap();
    s.start();
    let feed = s.server.sync(&["a/x@1", "a/y@2"], "10");
    for n in 11..14 {
        feed.modified(&format!("a/x@{n}"));
    }
    feed.modified("a/y@14");
    feed.deleted("a/y@16");
    feed.deleted("a/x@17");
    feed.added("a/z@18");
    expect(&told, &["true a/y@2", "false a/x@12", "- a/x@13", "a/y@2 a/y@14", "- a/y@16", "false a/z@18"]);
}

#[test]
fn a_blocked_handler_with_a_filter_misses_no_deletion() {
    let s = setup();
    let (go, gate) = bounded::<()>(0);
    let (deleted, told) = unbounded();
    let blocked = Handlers::new()
        .on_add(move |map: &Arc<ConfigMap>, _| {
            if map.name() == "block" {
                let _ = gate.recv();
            }
        })
        .on_delete(move |gone: &Deleted<ConfigMap>| deleted.send(text(&*gone.object)).unwrap())
        .filter(|map| map.resource_version() != "9999");
    let registration = s.informer.add_handler(blocked).unwrap();
    s.start();
    let feed = s.server.sync(&["a/x@1", "a/block@2"], "10");
    (0..2000).for_each(|n| feed.added(&format!("b/{n}@11")));
    // It is told of x; then x leaves the selection and is deleted, both while the handler is far behind.
    feed.modified("a/x@9999");
    feed.deleted("a/x@9999");
    feed.deleted("b/7@10000");
    feed.added("c/end@10001");
    until(|| s.informer.lister().store().resource_version() == "10001");
    assert!(registration.depth() > 1990);
    drop(go);
    // Of b/7 it was never told.
    assert_eq!(next(&told), "a/x@9999");
    s.end();
    assert!(told.is_empty());
}

#[test]
fn a_blocked_handler_slows_nobody() {
    let s = setup();
    let (go, gate) = bounded::<()>(0);
    let blocked = Handlers::new().on_add(move |_: &Arc<ConfigMap>, _| {
        let _ = gate.recv();
    });
    let registration = s.informer.add_handler(blocked).unwrap();
    let (handler, told) = recorder();
    s.informer.add_handler(handler).unwrap();
    s.start();
    let feed = s.server.sync(&["a/x@1"], "10");
    expect(&told, &["=a/x@1"]);
    for n in 11..20_000 {
        feed.modified(&format!("a/x@{n}"));
    }
    while !next(&told).ends_with("@19999") {}
    assert_eq!(s.there(), ["a/x@19999"]);
    assert!(registration.depth() <= 1100);
    // It is in a call for ever: all else ends.
    s.stop.stop();
    drop(go);
    s.end();
}

#[test]
fn a_handler_that_joins_under_churn_is_told_of_each_object_once() {
    struct Fold {
        known: BTreeMap<ObjectKey, String>,
        done: Sender<Result<Vec<String>, String>>,
    }
    impl Fold {
        fn check(&mut self, holds: bool, call: String) {
            if !holds {
                let _ = self.done.send(Err(call));
            }
        }
    }
    impl Handler<ConfigMap> for Fold {
        fn on_add(&mut self, object: &Arc<ConfigMap>, _: bool) {
            let before = self.known.insert(object.key(), text(&**object));
            self.check(before.is_none(), format!("{} twice", text(&**object)));
            if object.name() == "end" {
                let _ = self.done.send(Ok(self.known.values().cloned().collect()));
            }
        }
        fn on_update(&mut self, old: &Arc<ConfigMap>, new: &Arc<ConfigMap>) {
            let before = self.known.insert(new.key(), text(&**new));
            self.check(before == Some(text(&**old)), format!("{before:?} is not {}", text(&**old)));
        }
        fn on_delete(&mut self, gone: &Deleted<ConfigMap>) {
            let before = self.known.remove(&gone.object.key());
            self.check(before.is_some(), format!("{} was not there", text(&*gone.object)));
        }
    }
    let s = setup();
    s.start();
    let feed = s.server.sync(&["a/0@1"], "10");
    s.synced();
    let over = Arc::new(AtomicBool::new(false));
    let churns = over.clone();
    let churn = move || {
        let (mut there, mut seed) = ([false; 40], 4242_u64);
        for version in 11.. {
            if churns.load(Ordering::Relaxed) {
                feed.added(&format!("z/end@{version}"));
                return feed;
            }
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (name, delete) = ((seed >> 33) as usize % 40, (seed >> 60) % 3 == 0);
            let text = format!("b/{name}@{version}");
            match (there[name], delete) {
                (false, _) => feed.added(&text),
                (true, true) => feed.deleted(&text),
                (true, false) => feed.modified(&text),
            }
            there[name] = !(there[name] && delete);
            if version % 64 == 0 {
                std::thread::yield_now();
            }
        }
        unreachable!()
    };
    let thread = std::thread::Builder::new().name("test-churn".into()).spawn(churn).unwrap();
    let (done, results) = unbounded();
    for n in 0..60 {
        let registration =
            s.informer.add_handler(Fold { known: BTreeMap::new(), done: done.clone() }).unwrap();
        let waiting = s.informer.last_sync_resource_version();
        until(|| s.informer.last_sync_resource_version() != waiting);
        if n % 3 == 0 {
            soon(move || registration.remove());
        }
    }
    over.store(true, Ordering::Relaxed);
    let folded: Vec<_> = (0..40).map(|_| next(&results).unwrap()).collect();
    let there = s.there();
    assert!(folded.iter().all(|known| *known == there));
    drop(thread.join().unwrap());
    s.end();
}

#[test]
fn the_cache_is_read_by_key_namespace_label_and_index() {
    let s = setup_with(|builder| {
        builder.index("version", |map: &ConfigMap| vec![map.resource_version().to_owned()]).transform(
            |mut map| {
                let tier = if map.name().starts_with('w') { "web" } else { "db" };
                map.metadata.labels.insert("tier", tier);
                map
            },
        )
    });
    s.start();
    let feed = s.server.sync(&["a/w1@1", "a/w2@2", "a/d1@2", "b/w1@3"], "10");
    s.synced();
    s.informer.add_index("name", |map: &ConfigMap| vec![map.name().to_owned()]).unwrap();
    assert!(s.informer.add_index("version", |_| Vec::new()).is_err());
    let lister = s.informer.lister();
    let names = |maps: Vec<Arc<ConfigMap>>| maps.iter().map(|m| m.key().to_string()).collect::<Vec<_>>();
    let web = Selector::parse("tier=web").unwrap();
    assert_eq!(names(lister.list(&web)), ["a/w1", "a/w2", "b/w1"]);
    assert_eq!(names(lister.namespace("a").list(&web)), ["a/w1", "a/w2"]);
    assert_eq!(lister.namespace("b").get("w1").unwrap().resource_version(), "3");
    assert!(lister.namespace("b").get("w2").is_none() && lister.get("a", "w3").is_none());
    assert_eq!(names(lister.by_index("version", "2").unwrap()), ["a/d1", "a/w2"]);
    assert_eq!(names(lister.by_index("name", "w1").unwrap()), ["a/w1", "b/w1"]);
    assert!(lister.by_index("none", "").is_err());
    let queue = WorkQueue::<ObjectKey>::new(RateLimiter::default());
    s.informer.add_handler(enqueue(&queue)).unwrap();
    s.synced();
    feed.deleted("b/w1@11");
    let mut keys: Vec<_> = (0..4).map(|_| queue.get(&s.stop).unwrap().to_string()).collect();
    keys.sort();
    assert_eq!(keys, ["a/d1", "a/w1", "a/w2", "b/w1"]);
    let twice = Informer::builder(script().0).index("x", |_| Vec::new()).index("x", |_| Vec::new());
    let error: Error = twice.build().unwrap_err();
    assert!(error.to_string().contains("\"x\""));
}

#[test]
fn a_handler_may_stop_and_join_its_own_informer() {
    let s = setup();
    let (informer, stop, (done, is_done)) = (s.informer.clone(), s.stop.clone(), bounded(1));
    let handler = Handlers::new().on_add(move |_: &Arc<ConfigMap>, _| {
        stop.stop();
        informer.join();
        done.send(()).unwrap();
    });
    s.informer.add_handler(handler).unwrap();
    s.start();
    let _feed = s.server.sync(&["a/x@1"], "10");
    next(&is_done);
    s.end();
}

#[test]
fn a_wait_for_all_waits_for_a_handler_that_came_late() {
    let s = setup();
    s.start();
    let _feed = s.server.sync(&["a/x@1"], "10");
    s.synced();
    let (go, gate) = bounded::<()>(0);
    let late = Handlers::new().on_add(move |_: &Arc<ConfigMap>, _| {
        let _ = gate.recv();
    });
    s.informer.add_handler(late).unwrap();
    assert!(s.informer.has_synced());
    assert!(s.informer.wait_for_sync(Duration::ZERO).is_err());
    drop(go);
    s.synced();
}

#[test]
fn a_stop_that_came_first_ends_it_at_once() {
    let s = setup();
    let (handler, told) = recorder();
    s.informer.add_handler(handler).unwrap();
    s.stop.stop();
    s.start();
    s.end();
    assert!(told.recv_timeout(crate::script::PATIENCE).unwrap_err().is_disconnected());
}

#[test]
fn names_with_a_zero_byte_are_no_reason_to_panic() {
    let (script, _server) = crate::script::named("config\0maps");
    let informer = Informer::builder(script).build().unwrap();
    let stop = Stop::new();
    informer.add_handler_with(HandlerOptions::default().name("a\0b"), recorder().0).unwrap();
    informer.start(&stop).unwrap();
    stop.stop();
    soon(move || informer.join());
}
