use std::time::Instant;

use crate::clock::Clock;
use crate::stop::Stop;
use crate::sync::select;

/// A gate that opens once, for any number of waiting threads.
#[derive(Clone, Debug)]
pub(super) struct Latch(Stop);

impl Latch {
    pub(super) fn new() -> Self {
        Self(Stop::new())
    }

    pub(super) fn open(&self) {
        self.0.stop();
    }

    pub(super) fn is_open(&self) -> bool {
        self.0.is_stopped()
    }

    pub(super) fn wait_for_ever(&self) {
        self.0.wait();
    }

    /// Waits until open, until the deadline or until stopped; says whether it is open.
    pub(super) fn wait(&self, clock: &Clock, deadline: Instant, stop: &Stop) -> bool {
        let timer = clock.timer(Some(deadline));
        select! {
            recv(self.0.signal()) -> _ => {}
            recv(timer.channel()) -> _ => {}
            recv(stop.signal()) -> _ => {}
        }
        self.is_open()
    }
}
