//! What a watch may do, and what may come in its place.

use listwatch::apiserver::faults::{Effect, Fault, Reply};

use crate::embedded::{Run, during, play};
use crate::replies::{broken, sign_in, throttled, unavailable};

fn twice(effect: Effect) -> Vec<Fault> {
    vec![Fault::new(effect).watches().times(2)]
}

fn error(reply: Reply) -> Vec<Fault> {
    twice(Effect::ErrorAfter(0, reply))
}

/// In place of the watch that goes on behind one that ended.
fn refused(reply: Reply) -> Vec<Fault> {
    vec![
        Fault::new(Effect::Reply(reply)).watches().times(2),
        Fault::new(Effect::EndAfter(0)).watches().once(), // last: the next watch may come at once
    ]
}

scenarios! {
    // Connections.
    a_watch_is_closed: ..=4.8, during(twice(Effect::Close));
    a_watch_is_reset: ..=4.8, during(twice(Effect::Reset));
    a_watch_is_cut_before_any_event: ..=4.8, during(twice(Effect::CutAfter(0)));
    a_watch_is_cut_behind_an_event: ..=4.8, during(twice(Effect::CutAfter(1)));
    a_line_is_cut: ..=4.8, during(twice(Effect::HalfLineThenClose(0)));
    a_later_line_is_cut: ..=4.8, during(twice(Effect::HalfLineThenClose(1)));
    each_byte_is_a_chunk: ..=0.0, during(twice(Effect::OneByteChunks));
    // Ends and lines that are as they should be, or not.
    a_watch_ends_at_once: ..=4.8, during(twice(Effect::EndAfter(0)));
    a_watch_ends_behind_each_event: ..=4.8, during(twice(Effect::EndAfter(1)));
    a_line_is_no_json: ..=4.8, during(twice(Effect::LineAfter(0, "no JSON".into())));
    a_line_is_no_event: ..=4.8, during(twice(Effect::LineAfter(1, "{}".into())));
    a_line_is_of_an_unknown_type: ..=4.8, during(twice(Effect::LineAfter(1, r#"{"type":"NEW","object":{}}"#.into())));
    each_event_comes_twice: ..=0.0, during(twice(Effect::Repeat));
    there_are_no_bookmarks: ..=0.0, during(vec![Fault::new(Effect::NoBookmarks).watches().times(1)]);
    // ERROR events.
    an_event_says_expired: ..=4.8, during(error(Reply::expired()));
    an_event_says_expired_by_its_reason: ..=4.8, during(error(Reply::expired_by_reason()));
    an_event_says_too_large_version: ..=4.8, during(error(Reply::too_large_version()));
    an_event_says_too_large_version_by_a_cause: ..=4.8, during(error(Reply::too_large_version_by_cause_message()));
    an_event_says_too_large_version_by_its_message: ..=4.8, during(error(Reply::too_large_version_by_message()));
    an_event_says_internal_error: ..=4.8, during(error(broken()));
    an_event_says_too_many_requests: 14.0..=14.0, during(error(throttled().retry_after_in_status(7)));
    an_event_holds_html: ..=4.8, during(error(Reply::html_bad_gateway()));
    // Refusals.
    a_watch_is_refused_as_expired: ..=11.2, during(refused(Reply::expired()));
    a_watch_is_refused_as_expired_by_its_reason: ..=11.2, during(refused(Reply::expired_by_reason()));
    a_watch_is_refused_for_a_too_large_version: ..=11.2, during(refused(Reply::too_large_version()));
    a_watch_is_refused_for_a_too_large_version_by_a_cause: ..=11.2, during(refused(Reply::too_large_version_by_cause_message()));
    a_watch_is_refused_for_a_too_large_version_by_its_message: ..=11.2, during(refused(Reply::too_large_version_by_message()));
    a_watch_is_throttled: ..=11.2, during(refused(throttled()));
    a_watch_is_throttled_with_a_time: 40.8..=41.6, during(refused(throttled().retry_after(20)));
    a_watch_is_throttled_with_a_time_in_the_status: 40.8..=41.6, during(refused(throttled().retry_after_in_status(20)));
    a_watch_is_refused_as_unavailable: ..=11.2, during(refused(unavailable()));
    a_watch_is_refused_as_unavailable_with_a_time: 40.8..=41.6, during(refused(unavailable().retry_after(20)));
    a_watch_is_refused_in_pretty_print: ..=11.2, during(refused(broken().pretty()));
    a_watch_is_refused_as_expired_in_pretty_print: ..=11.2, during(refused(Reply::expired().pretty()));
    a_watch_is_refused_in_html: ..=11.2, during(refused(Reply::html_bad_gateway()));
    a_watch_is_not_found_in_plain_text: ..=11.2, during(refused(Reply::plain_not_found()));
    a_watch_is_unauthorized: ..=11.2, during(refused(Reply::status(401, "Unauthorized", "Unauthorized")));
    a_watch_is_forbidden: ..=11.2, during(refused(Reply::status(403, "Forbidden", "no")));
    a_watch_is_answered_in_html_with_200: ..=11.2, during(refused(sign_in()));
    // Events that never come.
    a_lost_change_is_found_by_the_next_list: ..=0.0, lost(1);
    a_lost_deletion_is_found_by_the_next_list: ..=0.0, lost(2);
    a_lost_creation_is_found_by_the_next_list: ..=0.0, lost(5);
    // Without end.
    a_watch_that_ends_a_thousand_times_at_once_asks_seldom: 30_000.0..=60_000.0, ends(1000);
    by_default_a_dead_watch_is_found_within_four_minutes: ..=6000.0, default_times;
}

/// A watch loses an event: nothing tells that, and nothing but a list finds it.
fn lost(number: usize) -> impl FnOnce(&mut Run) {
    move |run| {
        run.sync();
        run.inject(Fault::new(Effect::Lose(number)).watches().once());
        run.change();
        run.set("kept", "behind it");
        let behind = run.there()[&run.key("kept")].clone();
        run.until("what comes behind is told", || run.history.state().get(&run.key("kept")) == Some(&behind));
        assert_ne!(run.stored(), run.there());
        run.expire();
    }
}

fn ends(times: usize) -> impl FnOnce(&mut Run) {
    move |run| {
        run.sync();
        let (start, before, all) = (run.clock.now(), run.asked("watch="), run.asked(""));
        run.inject(Fault::new(Effect::EndAfter(0)).watches().times(times));
        run.until("each watch has ended", || run.asked("watch=") >= before + times);
        let (asked, seconds) = (run.asked("") - all, (run.clock.now() - start).as_secs_f64());
        assert!((asked as f64) < 20.0 * seconds, "{asked} requests in {seconds} s");
        run.change();
    }
}

/// What the server is asked for by default, what is added to it, and how late the system's timers are: Linux at 250
/// Hz rounds what is above two minutes up by 16.4 s. `LISTWATCH_SILENCE=default` tries it.
fn default_times(run: &mut Run) {
    ends(100)(run);
    let requests = run.server.requests();
    let times = requests.iter().filter_map(|line| line.split_once("timeoutSeconds="));
    let times: Vec<f64> = times.map(|(_, time)| time.split('&').next().unwrap().parse().unwrap()).collect();
    assert!(times.len() > 100, "{times:?}");
    let (grace, late, backoff) = (10.0, 16.4, 1.6);
    for time in times {
        assert!(time >= 180.0 && time + grace + late + backoff < 240.0, "{time}");
    }
}
