//! What the first list, and a list anew, may meet. In the mode of a stream, lists are watches.

use listwatch::ListMode;
use listwatch::apiserver::faults::{Effect, Fault, Reply};

use crate::embedded::{Run, first, first_until_over, listing, listing_anew, play};
use crate::replies::{broken, sign_in, throttled, unavailable};

/// For whichever requests list.
fn twice(effect: Effect) -> Fault {
    Fault::new(effect).times(2)
}

fn reply(reply: Reply) -> Fault {
    twice(Effect::Reply(reply))
}

scenarios! {
    // The first one, with the watch behind it.
    a_start_is_closed: ..=4.8, first(twice(Effect::Close));
    a_start_is_reset: ..=4.8, first(twice(Effect::Reset));
    a_start_is_cut: ..=4.8, first(twice(Effect::CutAfter(1)));
    a_start_meets_a_line_that_is_cut: ..=4.8, first(twice(Effect::HalfLineThenClose(1)));
    a_start_meets_a_watch_that_ends_too_soon: ..=4.8, first(twice(Effect::EndAfter(1)));
    a_start_meets_no_json: ..=4.8, first(twice(Effect::LineAfter(1, "no JSON".into())));
    a_start_meets_an_error_event: ..=4.8, first(twice(Effect::ErrorAfter(1, broken())));
    a_start_meets_an_expiry: ..=4.8, first(twice(Effect::ErrorAfter(1, Reply::expired())));
    a_start_meets_repeated_events: ..=0.0, first(twice(Effect::Repeat));
    a_start_meets_chunks_of_a_byte: ..=0.0, first(twice(Effect::OneByteChunks));
    a_start_is_late: ..=0.0, first_until_over(Effect::Late);
    a_start_is_a_head_without_a_body: ..=1.6, first_until_over(Effect::HeadOnly);
    a_start_is_silent: ..=1.6, first_until_over(Effect::Silence);
    a_start_is_refused: ..=4.8, first(reply(unavailable()));
    a_start_is_throttled_with_a_time: 40.0..=40.0, first(reply(throttled().retry_after(20)));
    a_start_finds_no_such_resource: ..=4.8, first(reply(Reply::plain_not_found()));
    a_start_is_answered_in_html: ..=4.8, first(reply(Reply::html_bad_gateway()));
    // A list anew.
    a_list_is_closed: ..=11.2, listing(twice(Effect::Close));
    a_list_is_reset: ..=11.2, listing(twice(Effect::Reset));
    a_list_is_cut: ..=11.2, cut;
    a_list_is_refused_as_expired: ..=11.2, listing(reply(Reply::expired()));
    a_list_is_refused_as_expired_by_its_reason: ..=11.2, listing(reply(Reply::expired_by_reason()));
    a_list_is_refused_for_a_too_large_version: ..=11.2, listing(reply(Reply::too_large_version()));
    a_list_is_refused_for_a_too_large_version_by_a_cause: ..=11.2, listing(reply(Reply::too_large_version_by_cause_message()));
    a_list_is_refused_for_a_too_large_version_by_its_message: ..=11.2, listing(reply(Reply::too_large_version_by_message()));
    a_list_is_throttled: ..=11.2, listing(reply(throttled()));
    a_list_is_throttled_with_a_time: 40.8..=41.6, listing(reply(throttled().retry_after(20)));
    a_list_is_refused_as_unavailable: ..=11.2, listing(reply(unavailable()));
    a_list_is_refused_in_pretty_print: ..=11.2, listing(reply(broken().pretty()));
    a_list_is_answered_in_html: ..=11.2, listing(reply(Reply::html_bad_gateway()));
    a_list_is_answered_in_html_with_200: ..=11.2, listing(reply(sign_in()));
    a_list_is_not_found_in_plain_text: ..=11.2, listing(reply(Reply::plain_not_found()));
    // Pages.
    a_page_is_expired: ..=4.8, in_pages(Effect::Reply(Reply::expired()));
    a_page_is_expired_by_its_reason: ..=4.8, in_pages(Effect::Reply(Reply::expired_by_reason()));
    a_page_is_throttled: ..=4.8, in_pages(Effect::Reply(throttled()));
    a_page_is_cut: ..=11.2, cut_page;
    a_page_is_closed: ..=4.8, in_pages(Effect::Close);
    history_is_lost_between_pages: ..=0.0, history_lost_between_pages;
}

/// Pages are had in one mode only: in others the whole list meets it.
fn in_pages(effect: Effect) -> impl FnOnce(&mut Run) {
    move |run| {
        let fault = Fault::new(effect).once();
        if pages(run) { listing_anew(fault.next_pages())(run) } else { listing(fault)(run) }
    }
}

fn pages(run: &Run) -> bool {
    matches!(run.mode, ListMode::Paged(_))
}

/// The answer of a list is cut in its middle.
fn cut(run: &mut Run) {
    let effect = if run.mode == ListMode::WatchList { Effect::CutAfter(1) } else { Effect::CutBody(300) };
    listing(twice(effect))(run);
}

fn cut_page(run: &mut Run) {
    if pages(run) { in_pages(Effect::CutBody(300))(run) } else { cut(run) }
}

/// The history is gone when the list is in its middle.
fn history_lost_between_pages(run: &mut Run) {
    run.sync();
    let late = Fault::new(Effect::Late).once();
    let late = run.fault(if pages(run) { late.next_pages() } else { late });
    run.expire();
    run.meets(&late);
    run.change();
    run.server.compact();
    run.begin();
    drop(late);
}
