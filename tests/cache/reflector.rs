use std::sync::Arc;

use listwatch::cache::{Activity, Delta};
use listwatch::{ListMeta, ListMode, ListParams, WatchParams};

use crate::script::{Feed, Running};
use crate::script::{broken_frame, expired, next, object, refused, run, run_with, status, timers, too_long};

/// Each scenario runs in each mode of listing; what they share is said once, here.
pub(crate) const MODES: [ListMode; 3] = [ListMode::Paged(2), ListMode::WatchList, ListMode::Cached];

/// The parameters of a list in a mode, with the last version that was seen.
fn list_params(mode: ListMode, seen: &str) -> ListParams {
    match mode {
        ListMode::Paged(limit) => ListParams::default().limit(limit),
        _ => match seen {
            "latest" => ListParams::default(),
            "" => ListParams::default().resource_version("0"),
            seen => ListParams::default().resource_version(seen),
        },
    }
}

/// Answers a list of the mode with all there is, and the watch behind it, which the reflector then follows.
#[track_caller]
pub(crate) fn sync(run: &Running, mode: ListMode, seen: &str, items: &[&str], version: &str) -> Feed {
    let feed = present(run, mode, seen, items, version);
    feed.bookmark(version, false);
    run.expect(&[&format!("bookmark {version}")]);
    feed
}

/// The same without waiting until the watch is followed.
#[track_caller]
fn present(run: &Running, mode: ListMode, seen: &str, items: &[&str], version: &str) -> Feed {
    let feed = if mode == ListMode::WatchList {
        let from = if seen == "latest" { "" } else { seen };
        let params = WatchParams::default().initial_events().resource_version(from);
        let feed = run.server.watch(params).open();
        items.iter().for_each(|item| feed.added(item));
        feed.bookmark(version, true);
        feed
    } else {
        run.server.list(list_params(mode, seen)).all(items, version);
        run.server.watch_from(version).open()
    };
    assert_eq!(run.delta(), format!("replace [{}] at {version}", items.join(" ")));
    feed
}

/// Fails the next list of the mode.
#[track_caller]
fn fail_list(run: &Running, mode: ListMode, seen: &str, e: listwatch::Error) {
    if mode == ListMode::WatchList {
        let from = if seen == "latest" { "" } else { seen };
        run.server.watch(WatchParams::default().initial_events().resource_version(from)).fail(e);
    } else {
        run.server.list(list_params(mode, seen)).fail(e);
    }
}

#[test]
fn a_list_is_followed_by_its_changes() {
    for mode in MODES {
        let run = run(mode);
        let feed = sync(&run, mode, "", &["a/x@5", "a/y@7"], "10");
        feed.added("a/z@11");
        feed.modified("a/x@12");
        feed.deleted("a/y@13");
        feed.bookmark("20", false);
        run.expect(&["upsert a/z@11", "upsert a/x@12", "delete a/y@13", "bookmark 20"]);
        let health = run.reflector.health();
        assert_eq!(run.reflector.last_sync_resource_version(), "20");
        assert_eq!((health.resource_version.as_str(), health.lists, health.watches), ("20", 1, 1));
        assert_eq!((health.events, health.errors, health.activity), (5, 0, Activity::Watching));
        assert!(health.synced && health.last_progress == Some(run.clock.now()));
        // A watch that the server ends goes on from the last version, bookmarks among them, without a list.
        run.long_enough();
        drop(feed);
        let feed = run.server.watch_from("20").open();
        feed.added("a/q@21");
        run.expect(&["upsert a/q@21"]);
        assert_eq!(run.reflector.health().errors, 0);
    }
}

#[test]
fn a_selection_is_part_of_each_list_and_watch() {
    for mode in MODES {
        let run = run_with(|r| r.mode(mode).labels("app=web").fields("metadata.name=x"));
        let watch = || WatchParams::default().labels("app=web").fields("metadata.name=x");
        let list = |seen: &str| list_params(mode, seen).labels("app=web").fields("metadata.name=x");
        let answer = |seen: &str, version: &str| {
            if mode == ListMode::WatchList {
                let seen = if seen == "latest" { "" } else { seen };
                let feed = run.server.watch(watch().initial_events().resource_version(seen)).open();
                feed.bookmark(version, true);
                return feed;
            }
            run.server.list(list(seen)).all(&[], version);
            run.server.watch(watch().resource_version(version)).open()
        };
        let feed = answer("", "1");
        feed.bookmark("2", false);
        feed.fail(expired());
        let feed = answer("latest", "5");
        feed.bookmark("6", false);
        run.expect(&["replace [] at 1", "bookmark 2", "replace [] at 5", "bookmark 6"]);
        run.long_enough();
        drop(feed);
        run.server.watch(watch().resource_version("6"));
    }
}

#[test]
fn pages_are_asked_for_one_after_the_other() {
    let run = run(ListMode::Paged(2));
    let first = || ListParams::default().limit(2);
    run.server.list(first()).page(&["a/a@1", "a/b@2"], "9", "t1");
    run.server.list(first().continue_token("t1")).page(&["a/c@3", "a/d@4"], "9", "t2");
    run.server.list(first().continue_token("t2")).page(&["a/e@5"], "9", "");
    run.expect(&["replace [a/a@1 a/b@2 a/c@3 a/d@4 a/e@5] at 9"]);
    run.server.watch_from("9");
}

#[test]
fn a_long_first_list_tells_how_far_it_is() {
    let run = run(ListMode::Paged(2));
    let first = || ListParams::default().limit(2);
    let items = ["a/a@1", "a/b@2"].map(|text| Ok(object(text)));
    let (resource_version, continue_token) = ("9".into(), "t1".into());
    let meta =
        ListMeta { resource_version, continue_token, remaining_item_count: Some(3), ..ListMeta::default() };
    run.server.list(first()).answer(items.into(), Ok(meta));
    let second = run.server.list(first().continue_token("t1"));
    let activity = run.reflector.health().activity;
    assert!(matches!(activity, Activity::Listing { items: 2, remaining: Some(3), .. }), "{activity:?}");
    assert_eq!(run.reflector.health().last_list, None);
    second.page(&["a/c@3"], "9", "");
    run.expect(&["replace [a/a@1 a/b@2 a/c@3] at 9"]);
    let feed = run.server.watch_from("9").open();
    feed.bookmark("11", false);
    run.expect(&["bookmark 11"]);
    let health = run.reflector.health();
    assert!(health.last_list.is_some() && health.last_bookmark.is_some(), "{health:?}");
}

#[test]
fn a_page_that_has_expired_makes_it_list_once_in_one_piece() {
    let run = run(ListMode::Paged(2));
    let first = || ListParams::default().limit(2);
    run.server.list(first()).page(&["a/a@1", "a/b@2"], "9", "t1");
    run.server.list(first().continue_token("t1")).fail(expired());
    // This server pages all the same: no second time without a pause.
    run.server.list(ListParams::default()).page(&["a/a@1"], "12", "t2");
    run.server.list(ListParams::default().continue_token("t2")).fail(expired());
    run.wait_out();
    run.server.list(first()).page(&["a/a@1", "a/b@2"], "15", "t3");
    run.server.list(first().continue_token("t3")).fail(expired());
    run.server.list(ListParams::default()).all(&["a/b@2", "a/c@3"], "16");
    run.expect(&["replace [a/b@2 a/c@3] at 16"]);
}

#[test]
fn a_list_without_a_version_is_an_error() {
    for mode in MODES {
        let run = run(mode);
        if mode == ListMode::WatchList {
            let feed = run.server.watch(WatchParams::default().initial_events()).open();
            feed.bookmark("", true);
            // It is no such server then: pages.
            run.server.list(ListParams::default().limit(500)).all(&[], "");
        } else {
            run.server.list(list_params(mode, "")).all(&["a/x@1"], "");
        }
        assert!(next(&run.errors).contains("resourceVersion"));
        run.wait_out();
        assert!(run.deltas.is_empty());
    }
}

#[test]
fn an_expired_version_is_listed_anew_and_never_used_again() {
    for mode in MODES {
        for as_event in [true, false] {
            let run = run(mode);
            let feed = sync(&run, mode, "", &["a/x@5"], "10");
            run.long_enough();
            if as_event {
                feed.fail(expired());
            } else {
                drop(feed);
                run.server.watch_from("10").fail(status(410, "Gone", ""));
            }
            // The list fails too: the old version stays forgotten.
            fail_list(&run, mode, "latest", refused());
            run.wait_out();
            sync(&run, mode, "latest", &["a/x@5", "a/y@29"], "30");
        }
    }
}

#[test]
fn a_version_that_expires_right_after_its_list_is_waited_for() {
    for mode in MODES {
        let run = run(mode);
        let mut seen = "";
        let mut waits = Vec::new();
        // Pages are given up after that, which is tested elsewhere.
        let rounds = if matches!(mode, ListMode::Paged(_)) { 2 } else { 4 };
        for _ in 0..rounds {
            present(&run, mode, seen, &[], "10").fail(expired());
            waits.push(run.wait_out().as_secs_f64());
            seen = "latest";
        }
        assert!(waits[0] >= 0.8 && waits[rounds - 1] >= 0.4 * f64::from(1 << rounds), "{waits:?}");
    }
}

#[test]
fn a_version_that_expires_again_at_once_is_waited_for() {
    for mode in MODES {
        let run = run(mode);
        sync(&run, mode, "", &[], "10").fail(expired());
        // Once is nothing unusual; but each time it seems to go well until something has come.
        sync(&run, mode, "latest", &[], "20").fail(expired());
        assert!(run.wait_out().as_secs_f64() >= 0.8);
        sync(&run, mode, "latest", &[], "30");
    }
}

#[test]
fn a_version_from_the_future_is_listed_from_the_latest() {
    let cause = |reason: &str, message: &str| {
        let mut status = listwatch::Status { code: 504, reason: "Timeout".into(), ..Default::default() };
        status.details.causes.push(Default::default());
        status.details.causes[0].reason = reason.into();
        status.details.causes[0].message = message.into();
        listwatch::Error::from(status)
    };
    for mode in MODES {
        let shapes = [
            cause("ResourceVersionTooLarge", ""),
            cause("", "Too large resource version"),
            status(504, "Timeout", "Timeout: Too large resource version: 9, current: 1"),
        ];
        for too_large in shapes {
            let run = run(mode);
            let feed = sync(&run, mode, "", &[], "900");
            run.long_enough();
            drop(feed);
            run.server.watch_from("900").fail(too_large);
            run.wait_out();
            sync(&run, mode, "latest", &[], "1000");
        }
        // And if it is the list that asked for it.
        if mode != MODES[0] {
            let run = run(mode);
            let feed = sync(&run, mode, "", &[], "900");
            run.long_enough();
            feed.fail(status(404, "NotFound", ""));
            run.wait_out();
            fail_list(&run, mode, "900", status(504, "Timeout", "Too large resource version: 900"));
            run.wait_out();
            sync(&run, mode, "latest", &[], "1000");
        }
    }
}

#[test]
fn a_server_that_asks_for_time_gets_it() {
    for mode in MODES {
        let mut busy =
            listwatch::Status { code: 429, reason: "TooManyRequests".into(), ..Default::default() };
        busy.details.retry_after_seconds = Some(17);
        let run = run(mode);
        fail_list(&run, mode, "", busy.clone().into());
        assert!(run.wait_out().as_secs() >= 17);
        let feed = sync(&run, mode, "", &[], "10");
        run.long_enough();
        drop(feed);
        run.server.watch_from("10").fail(busy.into());
        assert!(run.wait_out().as_secs() >= 17);
        run.server.watch_from("10").open().added("a/x@11");
        run.expect(&["upsert a/x@11"]);
    }
}

#[test]
fn a_connection_that_fails_is_tried_again_from_the_same_version() {
    for mode in MODES {
        let run = run(mode);
        let feed = sync(&run, mode, "", &[], "10");
        feed.added("a/x@11");
        run.expect(&["upsert a/x@11"]);
        feed.fail(refused());
        for _ in 0..5 {
            run.wait_out();
            run.server.watch_from("11").fail(refused());
        }
        for e in [status(500, "InternalError", ""), status(503, "", ""), status(401, "Unauthorized", "")] {
            run.wait_out();
            run.server.watch_from("11").fail(e);
        }
        run.wait_out();
        let feed = run.server.watch_from("11").open();
        feed.added("a/y@12");
        run.expect(&["upsert a/y@12"]);
        let health = run.reflector.health();
        assert_eq!((health.lists, health.errors), (1, 9));
    }
}

#[test]
fn a_server_that_ends_each_watch_at_once_is_not_asked_without_pause() {
    let run = run(ListMode::Cached);
    sync(&run, ListMode::Cached, "", &[], "10");
    let mut passed = 0.0;
    for _ in 0..1000 {
        passed += run.wait_out().as_secs_f64();
        drop(run.server.watch_from("10").open());
    }
    assert!(passed > 29_000.0, "{passed} s for 1000 watches");
}

#[test]
fn a_watch_without_versions_is_never_begun_from_nothing() {
    let run = run(ListMode::Cached);
    let feed = sync(&run, ListMode::Cached, "", &[], "10");
    feed.send(Err(crate::script::unfit("MODIFIED", "a/x", "")));
    feed.bookmark("", false);
    feed.deleted("a/y@");
    run.expect(&["delete a/y@"]);
    run.long_enough();
    drop(feed);
    run.server.watch_from("10");
}

#[test]
fn a_list_keeps_the_objects_that_have_not_changed() {
    for mode in MODES {
        let run = run_with(|r| {
            r.mode(mode).transform(|mut map| {
                map.data.insert("seen", "yes");
                map
            })
        });
        let items = |run: &Running| match next(&run.deltas) {
            Delta::Replace { items, .. } => items,
            other => panic!("{other:?}"),
        };
        let answer = |seen: &str, objects: &[&str], version| {
            if mode == ListMode::WatchList {
                let feed = run.server.watch(WatchParams::default().initial_events()).open();
                objects.iter().for_each(|item| feed.added(item));
                feed.bookmark(version, true);
                return feed;
            }
            run.server.list(list_params(mode, seen)).all(objects, version);
            run.server.watch_from(version).open()
        };
        let feed = answer("", &["a/x@1", "a/y@2", "a/z@3"], "10");
        let before = items(&run);
        feed.bookmark("11", false);
        feed.fail(expired());
        answer("latest", &["a/x@1", "a/y@7", "a/z@3/other"], "20");
        run.expect(&["bookmark 11"]);
        let after = items(&run);
        let same: Vec<_> = before.iter().zip(&after).map(|(a, b)| Arc::ptr_eq(a, b)).collect();
        assert_eq!(same, [true, false, false]);
        assert!(after.iter().all(|map| map.data.get("seen") == Some("yes")));
    }
}

#[test]
fn stop_ends_it_whatever_it_waits_for() {
    for mode in MODES {
        // for the list
        let run1 = run(mode);
        let _request = run1.server.next();
        run1.stop.stop();
        run1.join();
        // for its next try
        let run2 = run(mode);
        fail_list(&run2, mode, "", refused());
        timers(&run2.clock, 1);
        run2.stop.stop();
        run2.join();
        // for events
        let run3 = run(mode);
        let feed = sync(&run3, mode, "", &[], "10");
        run3.stop.stop();
        let reflector = run3.reflector.clone();
        run3.join();
        assert_eq!(reflector.health().activity, Activity::Stopped);
        drop(feed);
        // for a watch to begin
        let run4 = run(mode);
        let feed = sync(&run4, mode, "", &[], "10");
        run4.long_enough();
        drop(feed);
        let _request = run4.server.watch_from("10");
        run4.stop.stop();
        run4.join();
    }
}

#[test]
fn a_sink_that_has_had_enough_ends_it() {
    for mode in MODES {
        for on_list in [true, false] {
            let mut run = run(mode);
            let (_, nothing) = crossbeam_channel::bounded(0);
            let feed = if on_list {
                run.deltas = nothing;
                match run.server.next() {
                    crate::script::Request::List(listing) => {
                        listing.all(&[], "10");
                        None
                    }
                    crate::script::Request::Watch(watching) => {
                        let feed = watching.open();
                        feed.bookmark("10", true);
                        Some(feed)
                    }
                }
            } else {
                let feed = sync(&run, mode, "", &[], "10");
                run.deltas = nothing;
                feed.added("a/x@11");
                Some(feed)
            };
            run.join();
            drop(feed);
        }
    }
}

#[test]
fn a_frame_that_cannot_be_read_twice_leads_to_a_list() {
    for mode in MODES {
        for frame in [broken_frame, too_long] {
            let run = run(mode);
            let feed = sync(&run, mode, "", &[], "10");
            feed.added("a/x@11");
            run.expect(&["upsert a/x@11"]);
            feed.fail(frame());
            run.wait_out();
            // Something came through: it is not the same place.
            let feed = run.server.watch_from("11").open();
            feed.added("a/x@12");
            run.expect(&["upsert a/x@12"]);
            feed.fail(frame());
            run.wait_out();
            run.server.watch_from("12").open().fail(frame());
            run.wait_out();
            let feed = sync(&run, mode, "12", &["a/x@12"], "15");
            // After the list it counts anew.
            feed.fail(frame());
            run.wait_out();
            run.server.watch_from("15");
        }
    }
}
