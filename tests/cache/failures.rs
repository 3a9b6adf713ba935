use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use listwatch::cache::{Activity, Delta, Events, ListWatch, Reflector};
use listwatch::types::ConfigMap;
use listwatch::{Clock, ListMeta, ListMode, ListParams, Resource, Result, Stop, WatchEvent, WatchParams};

use crate::informer::{Setup, expect, recorder, setup};
use crate::reflector::{MODES, sync};
use crate::script::{
    Feed, Request, Running, broken_frame, ended, expired, named, next, object, refused, run, run_with,
    status, text, timed_out, timers, unfit,
};

#[test]
fn an_object_that_does_not_fit_is_passed_by_and_named() {
    for mode in MODES {
        let run = run(mode);
        let feed = sync(&run, mode, "", &["a/x@5"], "10");
        feed.send(Err(unfit("MODIFIED", "a/x", "11")));
        // Its last good version stays, the watch goes on behind it.
        run.expect(&["bookmark 11"]);
        assert!(next(&run.errors).contains("a/x"));
        feed.added("a/y@12");
        run.expect(&["upsert a/y@12"]);
        // One that is gone is gone, whatever it looked like.
        feed.send(Err(unfit("DELETED", "a/x", "13")));
        run.expect(&["delete a/x"]);
        let health = run.reflector.health();
        assert_eq!((health.unfit, health.errors, health.resource_version.as_str()), (2, 2, "13"));
        assert!(health.last_error.unwrap().1.contains("ConfigMap a/x does not fit"));
        run.long_enough();
        drop(feed);
        run.server.watch_from("13");
    }
}

#[test]
fn a_strict_list_fails_on_an_object_that_does_not_fit() {
    let run = run_with(|reflector| reflector.mode(ListMode::Cached).strict(true));
    let items = || vec![Ok(object("a/x@1")), Err(unfit("ADDED", "a/y", "2"))];
    run.server
        .list(ListParams::default().resource_version("0"))
        .answer(items(), Ok(ListMeta { resource_version: "9".into(), ..ListMeta::default() }));
    run.wait_out();
    let health = run.reflector.health();
    assert!(health.lists == 0 && health.last_error.unwrap().1.contains("a/y"));
    run.server.list(ListParams::default().resource_version("0")).all(&["a/x@1", "a/y@3"], "10");
    run.expect(&["replace [a/x@1 a/y@3] at 10"]);
}

#[test]
fn an_object_of_a_list_that_does_not_fit_is_told_with_the_list() {
    let run = run(ListMode::Cached);
    let listing = run.server.list(ListParams::default().resource_version("0"));
    let items = vec![Ok(object("a/x@1")), Err(unfit("ADDED", "a/y", "2")), Ok(object("a/z@3"))];
    listing.answer(items, Ok(ListMeta { resource_version: "9".into(), ..ListMeta::default() }));
    run.expect(&["replace [a/x@1 a/z@3] unfit a/y at 9"]);
    assert!(next(&run.errors).contains("a/y"));
}

#[test]
fn what_is_deleted_while_a_list_is_streamed_is_not_in_it() {
    let run = run(ListMode::WatchList);
    let feed = run.server.watch(WatchParams::default().initial_events()).open();
    for item in ["a/gone@1", "a/same@2", "a/changed@3", "a/worse@4", "a/bad@5"] {
        feed.added(item);
    }
    feed.deleted("a/gone@6");
    feed.modified("a/changed@7");
    feed.send(Err(unfit("MODIFIED", "a/worse", "8")));
    feed.send(Err(unfit("ADDED", "a/better", "9")));
    feed.modified("a/better@10");
    feed.send(Err(unfit("ADDED", "a/left", "11")));
    feed.deleted("a/left@12");
    feed.send(Err(unfit("DELETED", "a/bad", "13")));
    feed.send(Err(unfit("ADDED", "a/unfit", "14")));
    feed.bookmark("15", false);
    feed.bookmark("20", true);
    run.expect(&["replace [a/better@10 a/changed@7 a/same@2 a/worse@4] unfit a/unfit unfit a/worse at 20"]);
    // The same stream goes on.
    feed.added("a/new@21");
    run.expect(&["upsert a/new@21"]);
    run.server.is_quiet();
}

#[test]
fn a_server_that_cannot_stream_a_list_is_asked_for_pages_from_then_on() {
    let first = || WatchParams::default().initial_events();
    let refusals = [
        status(400, "BadRequest", ""),
        status(403, "Forbidden", ""),
        status(404, "NotFound", ""),
        status(422, "Invalid", "sendInitialEvents: Forbidden"),
        timed_out(), // says nothing
    ];
    for refusal in refusals.into_iter().map(Some).chain([None]) {
        let run = run(ListMode::WatchList);
        let watching = run.server.watch(first());
        match refusal {
            Some(e) => watching.fail(e),
            None => drop(watching.open()), // ends without the marker
        }
        // At once: nobody waits longer for an old server.
        let feed = run.server.sync(&["a/x@1"], "10");
        feed.bookmark("11", false);
        run.expect(&["replace [a/x@1] at 10", "bookmark 11"]);
        assert_eq!(run.reflector.health().errors, 0);
        feed.fail(expired());
        run.server.list(ListParams::default().limit(500));
    }
}

#[test]
fn a_server_that_cannot_be_reached_may_stream_the_list_later() {
    let run = run(ListMode::WatchList);
    for e in [refused(), status(429, "TooManyRequests", ""), expired()] {
        run.server.watch(WatchParams::default().initial_events()).fail(e);
        run.wait_out();
    }
    sync(&run, ListMode::WatchList, "", &["a/x@1"], "10");
}

#[test]
fn a_watch_that_is_refused_for_what_it_asks_is_listed_anew() {
    for mode in MODES {
        for code in [400, 404, 405, 406, 422] {
            let run = run(mode);
            let feed = sync(&run, mode, "", &[], "10");
            run.long_enough();
            drop(feed);
            run.server.watch_from("10").fail(status(code, "", ""));
            run.wait_out();
            sync(&run, mode, "10", &[], "12");
        }
    }
}

#[test]
fn a_list_that_is_refused_is_tried_for_ever_and_says_why() {
    for mode in [ListMode::Paged(500), ListMode::Cached] {
        let run = run(mode);
        let mut waits = Vec::new();
        for _ in 0..8 {
            match run.server.next() {
                crate::script::Request::List(listing) => {
                    listing.fail(status(403, "Forbidden", "configmaps is forbidden"));
                }
                crate::script::Request::Watch(_) => panic!("nothing to watch"),
            }
            assert!(next(&run.errors).contains("configmaps is forbidden"));
            waits.push(run.wait_out().as_secs_f64());
        }
        for (wait, base) in waits.iter().zip([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]) {
            assert!((base..=base * 2.0 + 0.001).contains(wait), "{waits:?}");
        }
        assert_eq!(run.reflector.health().errors, 8);
        sync(&run, mode, "", &[], "10");
    }
}

#[test]
fn a_transform_or_on_error_that_panics_loses_nothing_else() {
    for mode in MODES {
        let run = run_with(|r| {
            r.mode(mode).on_error(|_| panic!("in on_error")).transform(|map| {
                assert!(map.name() != "bad", "in transform");
                map
            })
        });
        let feed = if mode == ListMode::WatchList {
            let feed = run.server.watch(WatchParams::default().initial_events()).open();
            feed.added("a/bad@1");
            feed.added("a/x@2");
            feed.bookmark("10", true);
            feed
        } else {
            match run.server.next() {
                crate::script::Request::List(listing) => listing.all(&["a/bad@1", "a/x@2"], "10"),
                crate::script::Request::Watch(_) => panic!("nothing to watch"),
            }
            run.server.watch_from("10").open()
        };
        feed.modified("a/bad@11");
        feed.modified("a/x@12");
        feed.deleted("a/bad@13");
        run.expect(&["replace [a/x@2] unfit a/bad at 10", "bookmark 11", "upsert a/x@12", "delete a/bad"]);
        assert_eq!(run.reflector.health().unfit, 3);
    }
}

#[test]
fn a_source_that_panics_is_asked_again() {
    use listwatch::cache::{Events, ListWatch, Reflector};
    use listwatch::types::ConfigMap;
    use listwatch::{Clock, Result, Stop};
    use std::sync::atomic::{AtomicBool, Ordering};

    struct Once(crate::script::Script, AtomicBool);
    impl ListWatch<ConfigMap> for Once {
        fn list(
            &self,
            params: &ListParams,
            stop: &Stop,
            sink: &mut dyn FnMut(Result<ConfigMap>) -> Result<()>,
        ) -> Result<ListMeta> {
            assert!(self.1.swap(true, Ordering::SeqCst), "the first time");
            self.0.list(params, stop, sink)
        }
        fn watch(&self, params: &WatchParams, stop: &Stop) -> Result<Events<ConfigMap>> {
            self.0.watch(params, stop)
        }
        fn describe(&self) -> String {
            self.0.describe()
        }
    }
    let (script, server) = named("configmaps");
    let (clock, stop) = (Clock::manual(), Stop::new());
    let reflector = Reflector::new(Once(script, AtomicBool::new(false))).clock(clock.clone());
    let token = stop.clone();
    let thread = std::thread::Builder::new()
        .spawn(move || reflector.run(&token, &mut |_: listwatch::cache::Delta<ConfigMap>| ()))
        .unwrap();
    crate::script::timers(&clock, 1);
    clock.advance(std::time::Duration::from_secs(2));
    let _feed = server.sync(&[], "10");
    stop.stop();
    crate::script::ended(thread);
}

#[test]
fn a_server_that_fails_to_stream_a_list_is_asked_for_pages_that_once() {
    let first = || WatchParams::default().initial_events();
    for half in [false, true] {
        let run = run(ListMode::WatchList);
        let watching = run.server.watch(first());
        if half {
            let feed = watching.open();
            feed.added("a/half@1");
            feed.fail(status(500, "", ""));
        } else {
            watching.fail(status(500, "InternalError", ""));
        }
        let feed = run.server.sync(&["a/x@1"], "10");
        feed.bookmark("11", false);
        run.expect(&["replace [a/x@1] at 10", "bookmark 11"]);
        assert_eq!((run.reflector.health().errors, run.reflector.health().mode), (0, ListMode::WatchList));
        feed.fail(expired());
        run.server.watch(first());
    }
}

#[test]
fn a_stream_from_no_version_that_expires_is_replaced_by_pages() {
    let run = run(ListMode::WatchList);
    let feed = sync(&run, ListMode::WatchList, "", &["a/x@1"], "10");
    feed.fail(expired());
    run.server.watch(WatchParams::default().initial_events()).fail(expired());
    // No version was asked for, so none can be too old: what answers so does not stream.
    let _feed = run.server.sync(&["a/x@1", "a/y@12"], "12");
    run.expect(&["replace [a/x@1 a/y@12] at 12"]);
    assert_eq!(run.reflector.health().mode, ListMode::WatchList);
}

/// A run, and the objects that were not kept as they were known.
fn transformed(mode: ListMode) -> (Running, Receiver<String>) {
    let (taken, takes) = crossbeam_channel::unbounded();
    let run = run_with(move |reflector| {
        reflector.mode(mode).transform(move |object| {
            taken.send(text(&object)).unwrap();
            object
        })
    });
    (run, takes)
}

#[test]
fn issue_kubernetes_107457_an_event_that_is_older_than_the_one_before_means_another_history() {
    for mode in MODES {
        let (run, takes) = transformed(mode);
        let feed = sync(&run, mode, "", &["a/x@5", "a/y@6"], "10");
        feed.bookmark("9", false);
        run.wait_out();
        // Nothing that is known counts: neither the version, nor an object because it has one that is kept.
        let feed = sync(&run, mode, "latest", &["a/x@5"], "9");
        assert_eq!(takes.try_iter().collect::<Vec<_>>(), ["a/x@5", "a/y@6", "a/x@5"]);
        assert!(next(&run.errors).contains("went back from version 10 to 9"));
        feed.added("a/z@11");
        run.expect(&["upsert a/z@11"]);
    }
}

#[test]
fn versions_that_go_back_and_forth_are_not_compared_for_long() {
    let run = run(ListMode::Cached);
    let feed = sync(&run, ListMode::Cached, "", &["a/x@5"], "10");
    feed.added("a/y@9");
    run.wait_out();
    run.server.list(ListParams::default()).all(&["a/x@5", "a/y@9"], "12");
    let feed = run.server.watch_from("12").open();
    feed.added("a/z@11");
    run.wait_out();
    // There may have been two restores, but not more.
    run.server.list(ListParams::default()).all(&["a/x@5", "a/z@11"], "14");
    let feed = run.server.watch_from("14").open();
    feed.added("a/q@13");
    feed.modified("a/y@8");
    run.expect(&[
        "replace [a/x@5 a/y@9] at 12",
        "replace [a/x@5 a/z@11] at 14",
        "upsert a/q@13",
        "upsert a/y@8",
    ]);
    // After a while they are tried again.
    run.clock.advance(Duration::from_secs(3600));
    feed.modified("a/y@7");
    run.wait_out();
    run.server.list(ListParams::default());
}

#[test]
fn a_server_that_is_behind_after_a_broken_connection_is_listed_anew() {
    for (now, behind) in
        [(Some("9"), true), (Some("10"), false), (Some("11"), false), (Some("v9"), false), (None, false)]
    {
        let run = run(ListMode::Cached);
        let feed = sync(&run, ListMode::Cached, "", &["a/x@5"], "10");
        run.server.is_at(now);
        feed.fail(broken_frame());
        run.wait_out();
        if behind {
            run.wait_out();
            run.server.list(ListParams::default()).all(&["a/x@5"], "9");
            run.server.watch_from("9");
        } else {
            run.server.watch_from("10");
        }
    }
}

/// An informer that has `a/x@5` at version 10, and what its handler is told from there on.
fn synced() -> (Setup, Feed, Receiver<String>) {
    let s = setup();
    let (handler, told) = recorder();
    s.informer.add_handler(handler).unwrap();
    s.start();
    let feed = s.server.sync(&["a/x@5"], "10");
    expect(&told, &["=a/x@5"]);
    (s, feed, told)
}

/// What came after the backup may bear versions that were known before, of another content.
#[test]
fn issue_kubernetes_107457_all_is_told_again_by_a_restored_server_that_is_ahead_by_then() {
    for by_then in ["9", "12"] {
        let (s, feed, told) = synced();
        s.server.is_at(Some("9"));
        feed.fail(broken_frame());
        for _ in 0..2 {
            timers(&s.clock, 1);
            s.clock.advance(Duration::from_secs(60));
        }
        s.server.list(ListParams::default().limit(500)).all(&["a/x@5"], by_then);
        expect(&told, &["a/x@5→a/x@5"]);
    }
}

#[test]
fn issue_kubernetes_107457_a_list_behind_what_is_known_is_made_again_without_trust() {
    for mode in MODES {
        let (run, takes) = transformed(mode);
        let feed = sync(&run, mode, "", &["a/x@5"], "10");
        run.long_enough();
        feed.fail(expired());
        let behind = |version| match mode {
            ListMode::WatchList => {
                let feed = run.server.watch(WatchParams::default().initial_events()).open();
                feed.added("a/x@5");
                feed.bookmark(version, true);
            }
            ListMode::Paged(limit) => {
                run.server.list(ListParams::default().limit(limit)).all(&["a/x@5"], version)
            }
            _ => run.server.list(ListParams::default()).all(&["a/x@5"], version),
        };
        behind("9");
        run.wait_out();
        behind("9");
        run.expect(&["replace [a/x@5] at 9"]);
        // The first time it was kept as it was, the second time it was not.
        assert_eq!(takes.try_iter().collect::<Vec<_>>(), ["a/x@5", "a/x@5"], "{mode:?}");
    }
}

#[test]
fn a_server_that_only_lags_makes_nobody_hear_of_all_again() {
    let (s, feed, told) = synced();
    feed.fail(status(504, "Timeout", "Timeout: Too large resource version: 10, current: 9"));
    timers(&s.clock, 1);
    s.clock.advance(Duration::from_secs(60));
    s.server.list(ListParams::default().limit(500)).all(&["a/x@5", "a/y@11"], "12");
    expect(&told, &["+a/y@11"]);
}

#[test]
fn a_watch_that_brought_nothing_makes_the_version_doubtful() {
    let run = run(ListMode::Cached);
    let feed = sync(&run, ListMode::Cached, "", &["a/x@5"], "10");
    run.server.is_at(Some("9"));
    run.long_enough();
    drop(feed);
    // That one was alive, and is believed.
    let quiet = run.server.watch_from("10").open();
    run.long_enough();
    drop(quiet);
    run.wait_out();
    run.server.list(ListParams::default());
    assert!(run.reflector.health().reconnects == 1);
}

#[test]
fn a_list_is_made_anew_as_often_as_asked_for() {
    let run = run_with(|reflector| reflector.mode(ListMode::Cached).relist_every(Duration::from_secs(500)));
    let mut feed = sync(&run, ListMode::Cached, "", &["a/x@5"], "10");
    for _ in 0..2 {
        feed.bookmark("10", false);
        run.delta();
        run.long_enough();
        drop(feed);
        feed = run.server.watch_from("10").open();
    }
    feed.bookmark("10", false);
    run.long_enough();
    drop(feed);
    run.server.list(ListParams::default().resource_version("10"));
    // A time that never comes is none.
    let run = run_with(|reflector| reflector.mode(ListMode::Cached).relist_every(Duration::MAX));
    let feed = sync(&run, ListMode::Cached, "", &["a/x@5"], "10");
    run.long_enough();
    drop(feed);
    run.server.watch_from("10");
}

#[test]
fn issue_fabric8_4781_health_says_whether_reading_lives() {
    let run = run(ListMode::Cached);
    let quiet = || run.reflector.health().quiet(run.clock.now());
    let listing = run.server.list(ListParams::default().resource_version("0"));
    run.clock.advance(Duration::from_secs(7));
    assert_eq!(quiet(), Duration::from_secs(7));
    listing.all(&["a/x@5"], "10");
    let feed = run.server.watch_from("10").open();
    run.clock.advance(Duration::from_secs(100));
    feed.added("a/y@11");
    run.expect(&["replace [a/x@5] at 10", "upsert a/y@11"]);
    assert_eq!(quiet(), Duration::ZERO);
    feed.bookmark("12", false);
    run.expect(&["bookmark 12"]);
    let health = run.reflector.health();
    assert_eq!(health.last_event, Some(run.clock.now()));
    assert_eq!(health.last_bookmark, Some(run.clock.now()));
    drop(feed);
    // A server that is away is asked again and again, which is life, too.
    for _ in 0..5 {
        let watching = run.server.watch_from("12");
        assert!(quiet() < Duration::from_secs(1), "{:?}", quiet());
        watching.fail(refused());
        run.wait_out();
    }
}

#[test]
fn health_tells_life_while_the_server_is_only_asked_for_its_version() {
    let run = run(ListMode::Cached);
    let feed = sync(&run, ListMode::Cached, "", &["a/x@5"], "10");
    run.server.does_not_say_where_it_is(refused);
    feed.fail(refused());
    let quiet = || run.reflector.health().quiet(run.clock.now());
    run.wait_out();
    timers(&run.clock, 1); // the next wait, for having asked in vain
    let mut asked = vec![quiet()];
    for _ in 1..10 {
        run.wait_out();
        let watching = run.server.watch_from("10");
        asked.push(quiet());
        watching.fail(refused());
    }
    assert_eq!(asked, [Duration::ZERO; 10]);
    run.server.is_at(Some("10"));
    run.wait_out();
    run.server.watch_from("10");
}

/// A list that brings an object every hundred seconds; what health says before each.
struct Slow {
    clock: Clock,
    health: Arc<OnceLock<Arc<Reflector<ConfigMap>>>>,
    told: Sender<(Duration, Activity)>,
}

impl ListWatch<ConfigMap> for Slow {
    fn list(
        &self,
        params: &ListParams,
        _: &Stop,
        sink: &mut dyn FnMut(Result<ConfigMap>) -> Result<()>,
    ) -> Result<ListMeta> {
        for n in 0..5 {
            self.clock.advance(Duration::from_secs(100));
            let health = self.health.get().unwrap().health();
            self.told.send((health.quiet(self.clock.now()), health.activity)).unwrap();
            sink(Ok(object(&format!("a/{n}@{}", n + 1))))?;
        }
        let last = !params.continue_token.is_empty();
        let continue_token = if last { "" } else { "more" }.to_owned();
        Ok(ListMeta { resource_version: "9".into(), continue_token, ..ListMeta::default() })
    }

    fn watch(&self, params: &WatchParams, stop: &Stop) -> Result<Events<ConfigMap>> {
        let (clock, told, health) = (self.clock.clone(), self.told.clone(), self.health.clone());
        let initial = params.clone() == WatchParams::default().initial_events();
        let mut events = (0..5).filter(move |_| initial);
        let stop = stop.clone();
        Ok(Box::new(std::iter::from_fn(move || match events.next() {
            Some(n) => {
                clock.advance(Duration::from_secs(50));
                let health = health.get().unwrap().health();
                told.send((health.quiet(clock.now()), health.activity)).unwrap();
                Some(Ok(WatchEvent::Added(object(&format!("a/{n}@{}", n + 1)))))
            }
            None => {
                stop.wait();
                None
            }
        })))
    }

    fn describe(&self) -> String {
        "slow".into()
    }
}

#[test]
fn health_tells_life_and_progress_while_a_long_list_comes() {
    for (mode, step, count) in [(ListMode::Paged(5), 100, 10), (ListMode::WatchList, 50, 5)] {
        let (clock, stop, (told, tells)) = (Clock::manual(), Stop::new(), crossbeam_channel::unbounded());
        let health = Arc::new(OnceLock::new());
        let slow = Slow { clock: clock.clone(), health: health.clone(), told };
        let reflector = Arc::new(Reflector::new(slow).clock(clock).mode(mode));
        health.set(reflector.clone()).unwrap();
        let token = stop.clone();
        let thread = std::thread::Builder::new()
            .spawn(move || reflector.run(&token, &mut |_: Delta<ConfigMap>| {}))
            .unwrap();
        for n in 0..count {
            let (quiet, activity) = next(&tells);
            assert_eq!(quiet, Duration::from_secs(step), "{mode:?} {n}");
            assert!(matches!(activity, Activity::Listing { items, .. } if items == n), "{activity:?}");
        }
        stop.stop();
        ended(thread);
    }
}

#[test]
fn pages_of_different_states_are_watched_from_the_first() {
    let run = run(ListMode::Paged(1));
    let page = || ListParams::default().limit(1);
    run.server.list(page()).page(&["a/x@5"], "10", "more");
    // What happened to a/x meanwhile is not in this.
    run.server.list(page().continue_token("more")).page(&["a/y@12"], "13", "");
    let feed = run.server.watch_from("10").open();
    feed.modified("a/x@11");
    run.expect(&["replace [a/x@5 a/y@12] at 10", "upsert a/x@11"]);
}

#[test]
fn a_list_that_is_never_due_is_never_made() {
    let run = run_with(|reflector| reflector.mode(ListMode::Cached).relist_every(Duration::MAX));
    let feed = sync(&run, ListMode::Cached, "", &["a/x@5"], "10");
    run.long_enough();
    drop(feed);
    let _unanswered = run.server.watch_from("10");
    assert_eq!(run.reflector.health().errors, 0);
}

#[test]
fn a_list_that_is_due_and_fails_keeps_nobody_from_watching() {
    for mode in MODES {
        let run = run_with(|reflector| reflector.mode(mode).relist_every(Duration::from_secs(100)));
        let feed = sync(&run, mode, "", &["a/x@5"], "10");
        run.long_enough();
        drop(feed);
        for version in ["10", "11"] {
            match run.server.next() {
                Request::List(list) => list.fail(status(429, "TooManyRequests", "")),
                Request::Watch(watch) => watch.fail(status(429, "TooManyRequests", "")),
            }
            run.wait_out();
            let feed = run.server.watch_from(version).open();
            feed.bookmark("11", false);
            run.expect(&["bookmark 11"]);
            run.long_enough();
            drop(feed);
        }
        sync(&run, mode, "11", &["a/x@5"], "12");
    }
}

#[test]
fn a_server_that_does_not_list_now_is_watched_all_the_same() {
    let run = run(ListMode::Cached);
    let feed = sync(&run, ListMode::Cached, "", &["a/x@5"], "10");
    run.server.does_not_say_where_it_is(refused);
    feed.fail(broken_frame());
    run.wait_out();
    // Asked once more, and then no longer waited for.
    run.wait_out();
    let feed = run.server.watch_from("10").open();
    feed.added("a/y@11");
    run.expect(&["upsert a/y@11"]);
    // It still is to say it.
    run.server.is_at(Some("9"));
    feed.fail(broken_frame());
    run.wait_out();
    run.wait_out();
    run.server.list(ListParams::default());
}
