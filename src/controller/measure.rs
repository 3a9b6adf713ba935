use std::sync::Arc;
use std::time::Instant;

use crate::clock::Clock;
use crate::metrics::{Event, Outcome, Recorder};

/// What a controller tells of its calls, to a recorder if there is one.
#[derive(Clone)]
pub(super) struct Measure {
    /// The controller's name, the recorder, and where time comes from.
    to: Option<(Arc<str>, Arc<dyn Recorder>, Clock)>,
}

/// A call that runs. Dropped without an outcome it has panicked.
pub(super) struct Call<'a> {
    measure: &'a Measure,
    began: Option<Instant>,
}

impl Measure {
    pub(super) fn new(name: &str, recorder: Option<Arc<dyn Recorder>>, clock: &Clock) -> Self {
        Self { to: recorder.map(|recorder| (name.into(), recorder, clock.clone())) }
    }

    pub(super) fn workers(&self, workers: usize) {
        if let Some((controller, recorder, _)) = &self.to {
            recorder.record(&Event::Workers { controller, workers });
        }
    }

    pub(super) fn begin(&self) -> Call<'_> {
        let began = self.to.as_ref().map(|(controller, recorder, clock)| {
            recorder.record(&Event::ReconcileBegins { controller });
            clock.now()
        });
        Call { measure: self, began }
    }
}

impl Call<'_> {
    pub(super) fn end(mut self, outcome: Outcome) {
        self.tell(outcome);
    }

    fn tell(&mut self, outcome: Outcome) {
        if let (Some((controller, recorder, clock)), Some(began)) = (&self.measure.to, self.began.take()) {
            let took = clock.now().saturating_duration_since(began);
            recorder.record(&Event::Reconciled { controller, outcome, took });
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.tell(Outcome::Panic);
    }
}
