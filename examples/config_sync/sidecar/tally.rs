//! What is counted, for `/metrics`.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
        let rows = [
            ("files", "gauge", "Files that are ours.", "", &self.files),
            ("objects", "gauge", "ConfigMaps and Secrets that are mirrored.", "", &self.objects),
            ("refused", "gauge", "Files that may not be written where their object says.", "", &self.refused),
            ("failing", "gauge", "Objects of which a file cannot be written or removed.", "", &self.failing),
            ("ready", "gauge", "Whether the first mirror is complete.", "", &self.ready),
            (
                "files_written_total",
                "counter",
                "Files written, as their content was another.",
                "",
                &self.written,
            ),
            ("files_removed_total", "counter", "Files removed.", "", &self.removed),
            (
                "hooks_total",
                "counter",
                "Requests and signals, each try.",
                r#"{result="done"}"#,
                &self.hooks_done,
            ),
            ("hooks_total", "", "", r#"{result="failed"}"#, &self.hooks_failed),
        ];
        let mut text = String::new();
        for (name, kind, help, labels, count) in rows {
            if !kind.is_empty() {
                let _ = writeln!(text, "# HELP config_sync_{name} {help}\n# TYPE config_sync_{name} {kind}");
            }
            let _ = writeln!(text, "config_sync_{name}{labels} {}", count.get());
        }
        text
    }
}
