//! Requests that the server asks to send again later.

use std::time::Duration;

use log::debug;

use super::Client;
use crate::backoff::Jitter;
use crate::error::{Error, Result};
use crate::stop::Stop;

/// So often is a request sent again, as in client-go.
const MOST: u32 = 10;
/// The least wait before the first time; it doubles with each, up to the second.
const LEAST: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

impl Client {
    /// Makes an attempt, and more while the server refuses it with a time to wait (429, or 5xx with `Retry-After`;
    /// client-go's `rest/with_retry.go`), within the client's time limit for all together: each attempt is told how
    /// much is left. Waits end with `stop`.
    pub(super) fn patiently<T>(
        &self,
        stop: &Stop,
        mut attempt: impl FnMut(Duration) -> Result<T>,
    ) -> Result<T> {
        let clock = self.clock();
        let until = clock.deadline(self.timeout);
        let (mut jitter, mut least) = (Jitter::new(), LEAST[0]);
        for _ in 0..MOST {
            let e = match attempt(until.saturating_duration_since(clock.now())) {
                Err(e) => e,
                done => return done,
            };
            // Before any sum: a server can ask for more time than can be counted.
            let left = until.saturating_duration_since(clock.now());
            let Some(asked) = asked_to_wait(&e).filter(|asked| *asked < left) else { return Err(e) };
            let wait = asked.max(least);
            // Many clients were refused at once; they must not come back at once.
            let wait = jitter.between(wait, wait + wait / 4);
            if clock.deadline(wait) >= until {
                return Err(e);
            }
            debug!(target: "listwatch::client", "{e}; tried again in {wait:.1?}");
            if clock.sleep(wait, stop) {
                return Err(Error::stopped());
            }
            least = LEAST[1].min(least * 2);
        }
        attempt(until.saturating_duration_since(clock.now()))
    }
}

/// How long the server asks to wait before the same request. Of a version that it does not have yet it does so too, but
/// who asked for that is to ask for another; and of an eviction that a disruption budget forbids (`policy/v1`,
/// `DisruptionBudgetCause`), which may be so for hours.
fn asked_to_wait(e: &Error) -> Option<Duration> {
    let status = e.status()?;
    let again = (status.code == 429 || status.code >= 500)
        && !status.is_too_large_resource_version()
        && !status.details.causes.iter().any(|cause| cause.reason == "DisruptionBudget");
    status.retry_after().filter(|_| again)
}
