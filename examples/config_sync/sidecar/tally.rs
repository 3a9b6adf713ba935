//! What is counted, for `/metrics`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use listwatch::metrics::PrometheusText;

/// Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<Counts>);

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) files: Count,
    pub(crate) objects: Count,
    pub(crate) refused: Count,
    pub(crate) failing: Count,
    pub(crate) ready: Count,
    pub(crate) written: Count,
    pub(crate) removed: Count,
    pub(crate) hooks_done: Count,
    pub(crate) hooks_failed: Count,
}

#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: usize) {
        self.0.store(value as u64, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl std::ops::Deref for Tally {
    type Target = Counts;

    fn deref(&self) -> &Counts {
        &self.0
    }
}

impl Counts {
    /// In Prometheus' text format.
    pub(crate) fn text(&self) -> String {
        let mut text = PrometheusText::new();
        for (name, help, count) in [
            ("files", "Files that are ours.", &self.files),
            ("objects", "ConfigMaps and Secrets that are mirrored.", &self.objects),
            ("refused", "Files that may not be written where their object says.", &self.refused),
            ("failing", "Objects of which a file cannot be written or removed.", &self.failing),
            ("ready", "Whether the first mirror is complete: each object was tried.", &self.ready),
        ] {
            text.gauge(&format!("config_sync_{name}"), help).sample(&[], count.get() as f64);
        }
        for (name, help, count) in [
            ("files_written_total", "Files written, as their content was another.", &self.written),
            ("files_removed_total", "Files removed.", &self.removed),
        ] {
            text.counter(&format!("config_sync_{name}"), help).sample(&[], count.get() as f64);
        }
        text.counter("config_sync_hooks_total", "Requests and signals, each try.")
            .sample(&[("result", "done")], self.hooks_done.get() as f64)
            .sample(&[("result", "failed")], self.hooks_failed.get() as f64);
        text.as_str().to_owned()
    }
}
