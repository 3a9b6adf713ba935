//! What a program tells of its work, under the names of client-go and controller-runtime.
//!
//! A [`Recorder`] is told [events](Event) as they happen. It is given to a [`Client`](crate::Client) with
//! [`with_metrics`](crate::Client::with_metrics); whatever is made of that client tells it too: informers, and
//! controllers with their queues. A queue of one's own is given one by
//! [`WorkQueue::report_to`](crate::WorkQueue::report_to). Without a recorder nothing is measured: it costs a look at
//! an empty `Option`.
//!
//! [`Metrics`] is a ready-made recorder. It counts, and gives what it has counted as a [`Snapshot`] or in the text
//! format of Prometheus:
//!
//! ```
//! # use listwatch::{Client, Config};
//! use listwatch::metrics::Metrics;
//! # fn start(_: &Client) {}
//! let metrics = Metrics::new();
//! let client = Client::new(Config::new("http://127.0.0.1:8001")?)?.with_metrics(metrics.clone());
//! start(&client); // informers and controllers
//! let answer_to_get_metrics = metrics.to_prometheus_text();
//! # Ok::<(), listwatch::Error>(())
//! ```
//!
//! `examples/metrics.rs` serves it over HTTP, with the probes of [`InformerFactory::health`](crate::InformerFactory::health).
//!
//! | name | kind | labels |
//! |---|---|---|
//! | `rest_client_requests_total` | counter | `code` (`<error>` without an answer), `method`, `host` |
//! | `rest_client_request_duration_seconds` | histogram, to the head of the answer | `verb` (the method), `host` |
//! | `reflector_lists_total`, `reflector_watches_total`, `reflector_short_watches_total` | counter | `name` |
//! | `reflector_list_duration_seconds`, `reflector_items_per_list` | histogram | `name` |
//! | `reflector_watch_duration_seconds`, `reflector_items_per_watch` | histogram | `name` |
//! | `reflector_last_resource_version` | gauge | `name` |
//! | `workqueue_depth`, `workqueue_unfinished_work_seconds`, `workqueue_longest_running_processor_seconds` | gauge | `name` |
//! | `workqueue_adds_total`, `workqueue_retries_total` | counter | `name` |
//! | `workqueue_queue_duration_seconds`, `workqueue_work_duration_seconds` | histogram | `name` |
//! | `controller_runtime_reconcile_total` | counter | `controller`, `result` (`success`, `requeue`, `requeue_after`, `error`) |
//! | `controller_runtime_reconcile_errors_total`, `controller_runtime_terminal_reconcile_errors_total`, `controller_runtime_reconcile_panics_total` | counter | `controller` |
//! | `controller_runtime_reconcile_time_seconds` | histogram | `controller` |
//! | `controller_runtime_active_workers`, `controller_runtime_max_concurrent_reconciles` | gauge | `controller` |
//! | `leader_election_master_status` | gauge | `name` |
//!
//! Upstream: `client-go/tools/metrics`, `client-go/util/workqueue/metrics.go`, `client-go/tools/cache/reflector_metrics.go`
//! (its summaries are histograms here), `controller-runtime/pkg/internal/controller/metrics`.

mod histogram;
mod registry;
mod text;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::histogram::Histogram;
pub use self::registry::{ControllerMetrics, HostMetrics, Metrics, QueueMetrics, ReflectorMetrics, Snapshot};
pub use self::text::{Family, PrometheusText};
use crate::client::Method;

/// What a [`Recorder`] is told. Names say of which queue, reflector or controller.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A request was answered, or failed.
    Request {
        /// Its verb.
        method: Method,
        /// The server's name, and port if the configuration gives one.
        host: &'a str,
        /// The answer's code; `None` if there is none.
        code: Option<u16>,
        /// Until the head of the answer was there.
        took: Duration,
    },
    /// A list begins, or a stream of initial events.
    ListBegins {
        /// What is listed: `pods in "default"`.
        reflector: &'a str,
    },
    /// A list was had whole.
    Listed {
        /// What is listed.
        reflector: &'a str,
        /// So many objects, those that do not fit the type not among them.
        items: usize,
        /// All its pages.
        took: Duration,
        /// The version it is of.
        resource_version: &'a str,
    },
    /// A watch was opened.
    WatchBegins {
        /// What is watched.
        reflector: &'a str,
    },
    /// A watch has ended.
    WatchEnded {
        /// What is watched.
        reflector: &'a str,
        /// So many events came, bookmarks among them.
        events: u64,
        /// How long it was open.
        took: Duration,
    },
    /// A watch has reached a version.
    Progress {
        /// What is watched.
        reflector: &'a str,
        /// The version.
        resource_version: &'a str,
    },
    /// An item was put into a queue that did not hold it.
    QueueAdded {
        /// The queue.
        queue: &'a str,
    },
    /// An item was added after a delay.
    QueueRetried {
        /// The queue.
        queue: &'a str,
    },
    /// An item was taken to be worked on.
    QueueTaken {
        /// The queue.
        queue: &'a str,
        /// How long it was in the queue.
        waited: Duration,
        /// When it was taken.
        taken: Instant,
    },
    /// The work on an item is done.
    QueueDone {
        /// The queue.
        queue: &'a str,
        /// When it was taken.
        taken: Instant,
        /// How long the work took.
        worked: Duration,
    },
    /// A queue is gone with what was in it.
    QueueDropped {
        /// The queue.
        queue: &'a str,
        /// So many items nobody had taken.
        items: usize,
    },
    /// A controller has started its threads; 0 is its end.
    Workers {
        /// The controller.
        controller: &'a str,
        /// So many.
        workers: usize,
    },
    /// A controller calls its function.
    ReconcileBegins {
        /// The controller.
        controller: &'a str,
    },
    /// The function has returned, or panicked.
    Reconciled {
        /// The controller.
        controller: &'a str,
        /// What came of it.
        outcome: Outcome,
        /// How long it took.
        took: Duration,
    },
    /// A candidate has become the leader, or is it no longer.
    Leader {
        /// The name of the election.
        name: &'a str,
        /// Whether it leads.
        leading: bool,
    },
}

/// What came of a call of a controller's function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is as it should be.
    Success,
    /// The same, and the object is looked at again after a time.
    RequeueAfter,
    /// Not yet: the object is tried again after longer with each time.
    BackOff,
    /// A failure, which is tried again.
    Error,
    /// A failure that is not tried again until the object changes.
    TerminalError,
    /// A panic, which is tried again as a failure.
    Panic,
}

/// Is told what happens.
///
/// It is called on the thread that something happens on, which waits for it: so it should count and return. No lock of
/// this crate is held, so the order in which events of several threads come is not quite that in which they happened.
/// It must not panic.
pub trait Recorder: Send + Sync + 'static {
    /// Takes an event.
    fn record(&self, event: &Event<'_>);
}

impl<R: Recorder + ?Sized> Recorder for Arc<R> {
    fn record(&self, event: &Event<'_>) {
        (**self).record(event);
    }
}

impl fmt::Debug for dyn Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}

/// A recorder that several share, or none.
pub(crate) type Hook = Option<Arc<dyn Recorder>>;
