//! Connections that go dead within an answer, found by their silence, and streams of a list without an end.

use listwatch::apiserver::faults::{Effect, Fault};

use crate::embedded::{Run, during, first, play_impatient as play};

scenarios! {
    dead_watch: ..=24.8, dead(Effect::Silence);
    dead_behind_an_event: ..=24.8, dead(Effect::SilenceAfter(1));
    dead_within_a_line: ..=24.8, dead(Effect::HalfLineThenSilence(0));
    dead_within_a_later_line: ..=24.8, dead(Effect::HalfLineThenSilence(1));
    dead_first_head: ..=24.8, first(Fault::new(Effect::Silence).once());
    dead_first_body: ..=24.8, first(Fault::new(Effect::HeadOnly).once());
    dead_first_stream: ..=24.8, first(Fault::new(Effect::SilenceAfter(2)).once());
    dead_first_stream_within_a_line: ..=24.8, first(Fault::new(Effect::HalfLineThenSilence(2)).once());
    // Proxies that drop the bookmark at the end: pages do without.
    dead_without_the_end_of_the_initial_events: ..=24.8, first(Fault::new(Effect::NoBookmarks).times(2));
}

/// It is found without a list, as the version is still good.
fn dead(effect: Effect) -> impl FnOnce(&mut Run) {
    move |run| {
        during([Fault::new(effect).watches().once()])(run);
        let lists = run.lists();
        run.converges("a dead connection");
        assert_eq!(run.lists(), lists, "{:?}: the version is still good", run.mode);
    }
}
