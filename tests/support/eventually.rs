//! Waiting for what other programs and threads do, of which nobody tells.

use std::time::Duration;

use listwatch::{Clock, Stop};

/// Longer than anything takes on a machine that is busy.
const LONG: Duration = Duration::from_secs(60);

/// Asks again and again until it is so.
#[track_caller]
pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let (clock, stop) = (Clock::system(), Stop::new());
    let deadline = clock.now() + LONG;
    while !so() {
        assert!(clock.now() < deadline, "not within {LONG:?}: {what}");
        stop.sleep(Duration::from_millis(20));
    }
}
