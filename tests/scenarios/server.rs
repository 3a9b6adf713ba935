//! What a server goes through, and what follows for who watches it.

use std::time::Duration;

use listwatch::apiserver::faults::{Effect, Fault, Reply};

use crate::embedded::{Run, behind, during, listing, play};
use crate::replies::throttled;

scenarios! {
    // Nothing gets through for a while, though both ends think that the connection lives.
    a_partition: ..=1.6, behind(Effect::Silence, |_| ());
    a_partition_behind_an_event: ..=1.6, behind(Effect::SilenceAfter(0), |_| ());
    a_partition_within_a_line: ..=1.6, behind(Effect::HalfLineThenSilence(0), |_| ());
    a_partition_longer_than_the_history: ..=1.6, behind(Effect::Silence, |run| run.server.compact());
    // Outages.
    a_restart: ..=4.8, restart(|_| ());
    a_restart_without_history: ..=4.8, restart(|run| run.server.compact());
    a_long_outage: 90.0..=200.0, |run| outage(run, Duration::from_secs(90));
    a_late_start: 30.0..=100.0, late_start;
    // History.
    a_compaction_under_an_open_watch_costs_no_list: ..=0.0, compaction;
    a_compaction_between_two_watches: ..=4.8, compacted_between;
    bookmarks_keep_the_version_of_a_quiet_watch_good: ..=1.6, |run| quiet(run, true);
    a_quiet_watch_without_bookmarks_lists_anew: ..=1.6, |run| quiet(run, false);
    a_restore_of_an_older_state: ..=11.2, restore(|_| ());
    a_restore_that_has_gone_on: ..=11.2, restore(|run| run.create("later"));
    a_restart_with_an_older_state: ..=24.8, restored_offline;
    // Two, one after the other.
    a_reset_and_then_an_expiry: ..=4.8, during([once(Effect::Reset), once(Effect::ErrorAfter(1, Reply::expired()))]);
    a_cut_and_then_a_refusal: ..=4.8, during([once(Effect::Reply(throttled())), once(Effect::HalfLineThenClose(1))]);
    a_partition_and_then_a_restart: ..=4.8, partition_and_restart;
    an_expiry_and_then_a_throttled_list: 10.8..=11.6, listing(Fault::new(Effect::Reply(throttled().retry_after(10))).once());
}

fn once(effect: Effect) -> Fault {
    Fault::new(effect).watches().once()
}

/// The server goes away, everything changes, and it is there again on the same port.
fn restart(then: impl FnOnce(&mut Run)) -> impl FnOnce(&mut Run) {
    move |run| {
        run.sync();
        run.server.pause().unwrap();
        run.waits();
        run.server.resume().unwrap();
        run.change();
        then(run);
    }
}

fn outage(run: &mut Run, time: Duration) {
    run.sync();
    run.server.pause().unwrap();
    fails_for(run, time);
    run.server.resume().unwrap();
    run.change();
}

/// Lets each wait pass that ends within this time, and goes to its very end: a wait that is longer must not end before
/// the server is there.
fn fails_for(run: &Run, time: Duration) {
    let end = run.clock.now() + time;
    loop {
        run.waits();
        let left = end.saturating_duration_since(run.clock.now());
        if run.clock.next_timer().is_some_and(|wait| wait > left) {
            return run.clock.advance(left);
        }
        run.pass();
    }
}

/// Nobody listens when the informer starts.
fn late_start(run: &mut Run) {
    run.server.pause().unwrap();
    run.start();
    fails_for(run, Duration::from_secs(30));
    assert!(!run.informer.has_synced() && run.informer.health().last_error.is_some());
    run.server.resume().unwrap();
}

fn partition_and_restart(run: &mut Run) {
    run.sync();
    let fault = run.fault(Fault::new(Effect::Silence));
    run.meets(&fault);
    run.change();
    run.server.pause().unwrap();
    drop(fault);
    run.waits();
    run.server.resume().unwrap();
}

fn compaction(run: &mut Run) {
    run.sync();
    let lists = run.lists();
    run.server.compact();
    run.change();
    run.server.compact();
    run.converges("a compaction");
    assert_eq!(run.lists(), lists);
}

/// A watch ends, and its version is gone before the next.
fn compacted_between(run: &mut Run) {
    run.sync();
    let lists = run.lists();
    run.inject(Fault::new(Effect::EndAfter(0)).watches().once());
    run.waits();
    run.change();
    run.server.compact();
    run.converges("a compaction");
    assert!(run.lists() > lists);
}

/// Others change, nobody tells, and the history of before is lost.
fn quiet(run: &mut Run, bookmarks: bool) {
    run.sync();
    let lists = run.lists();
    if !bookmarks {
        run.inject(Fault::new(Effect::NoBookmarks).watches().once());
    }
    let version = run.disturb();
    run.server_clock.advance(Duration::from_secs(61));
    if bookmarks {
        run.until("the bookmark comes", || run.informer.last_sync_resource_version() == version);
        assert!(run.informer.health().last_bookmark.is_some());
    }
    run.server.compact();
    run.inject(Fault::new(Effect::Close).watches().once());
    run.waits();
    run.change();
    run.converges("the watch goes on");
    assert_eq!(run.lists() > lists, !bookmarks);
}

/// A backup is restored: what came since never was.
fn restore(then: impl FnOnce(&mut Run)) -> impl FnOnce(&mut Run) {
    move |run| {
        run.sync();
        let snapshot = run.server.snapshot();
        run.change();
        run.converges("before the restore");
        run.history.restored();
        run.server.restore(&snapshot);
        then(run);
        run.begin();
        ["anew", "new"].iter().for_each(|name| run.must_tell_deletion(name));
    }
}

fn restored_offline(run: &mut Run) {
    run.sync();
    let snapshot = run.server.snapshot();
    run.change();
    run.converges("before the restore");
    run.server.pause().unwrap();
    run.waits();
    run.history.restored();
    run.server.restore(&snapshot);
    run.server.resume().unwrap();
    run.begin();
    ["anew", "new"].iter().for_each(|name| run.must_tell_deletion(name));
}
