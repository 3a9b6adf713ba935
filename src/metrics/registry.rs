use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::histogram::Histogram;
use super::text::PrometheusText;
use super::{Event, Outcome, Recorder};
use crate::client::Method;
use crate::clock::Clock;

/// As in `component-base/metrics/prometheus/restclient`.
const REQUEST_SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// As in `component-base/metrics/prometheus/workqueue`, from ten nanoseconds on.
const QUEUE_SECONDS: &[f64] = &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0];
/// Those of controller-runtime, but for some that lie close together.
const RECONCILE_SECONDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
];
const LIST_SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
const WATCH_SECONDS: &[f64] = &[1.0, 10.0, 60.0, 120.0, 180.0, 240.0, 300.0, 480.0, 600.0, 3600.0];
const ITEMS: &[f64] = &[0.0, 1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0, 1_000_000.0];
/// A watch of less than this without an event is a short one.
const SHORT: Duration = Duration::from_secs(1);

/// A [`Recorder`] that counts. Clones are the same one; see [the room](super) for the names.
///
/// What it holds grows with the number of names alone. An event takes about a tenth of a microsecond.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Shared>);

#[derive(Default)]
struct Shared {
    clock: Clock,
    /// Held for a moment, and with no other lock.
    state: Mutex<Snapshot>,
}

/// What was counted up to a moment. Prints as the text format of Prometheus.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// Requests by the server's host.
    pub hosts: BTreeMap<String, HostMetrics>,
    /// Reflectors and informers by what they are of: `pods in "default"`.
    pub reflectors: BTreeMap<String, ReflectorMetrics>,
    /// Queues by name.
    pub queues: BTreeMap<String, QueueMetrics>,
    /// Controllers by name.
    pub controllers: BTreeMap<String, ControllerMetrics>,
    /// Elections by name, and whether this candidate leads.
    pub leaders: BTreeMap<String, bool>,
}

/// Requests to one server.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HostMetrics {
    /// How many by verb and code of the answer; `None` is no answer.
    pub requests: BTreeMap<(Method, Option<u16>), u64>,
    /// Seconds to the head of the answer.
    pub seconds: BTreeMap<Method, Histogram>,
}

/// How a reflector reads. Several informers of the same are one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReflectorMetrics {
    /// Lists that were begun.
    pub lists: u64,
    /// Seconds that whole lists took.
    pub list_seconds: Histogram,
    /// Objects of each.
    pub list_items: Histogram,
    /// Watches that were opened.
    pub watches: u64,
    /// Those that ended within a second without an event.
    pub short_watches: u64,
    /// Seconds they were open.
    pub watch_seconds: Histogram,
    /// Events of each.
    pub watch_items: Histogram,
    /// The version that was reached, where it is a number.
    pub last_resource_version: u64,
}

/// How a queue fares. Queues of one name are one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueMetrics {
    /// Items that wait to be taken: those that wait for their time are not among them, those that were added while they
    /// are worked on are.
    pub depth: i64,
    /// Items that were put in.
    pub adds: u64,
    /// Items that were added after a delay.
    pub retries: u64,
    /// Seconds in the queue.
    pub wait_seconds: Histogram,
    /// Seconds of work.
    pub work_seconds: Histogram,
    /// Of the items that are worked on, the time since they were taken, in all.
    pub unfinished: Duration,
    /// The same of the one that was taken first.
    pub longest_running: Duration,
    /// When the items that are worked on were taken.
    taken: BTreeMap<Instant, u32>,
}

/// How a controller fares.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ControllerMetrics {
    /// Calls that succeeded.
    pub successes: u64,
    /// Calls that returned [`Action::back_off`](crate::Action::back_off).
    pub back_offs: u64,
    /// Calls that succeeded and asked for another.
    pub requeues: u64,
    /// Calls that failed, among them the next two.
    pub errors: u64,
    /// Failures that are not tried again.
    pub terminal_errors: u64,
    /// Panics.
    pub panics: u64,
    /// Seconds of each call.
    pub seconds: Histogram,
    /// Calls that run now.
    pub active_workers: u64,
    /// How many may.
    pub max_workers: u64,
}

impl Metrics {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With the clock of the client and queues, if that is not the system's: tells how long unfinished work runs.
    #[must_use]
    pub fn with_clock(clock: Clock) -> Self {
        Self(Arc::new(Shared { clock, state: Mutex::default() }))
    }

    /// What was counted so far.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.lock().clone();
        let now = self.0.clock.now();
        for queue in snapshot.queues.values_mut() {
            let since = |taken: &Instant| now.saturating_duration_since(*taken);
            queue.unfinished =
                queue.taken.iter().map(|(taken, count)| since(taken).saturating_mul(*count)).sum();
            queue.depth = queue.depth.max(0); // where the taking was told before the adding
            queue.longest_running = queue.taken.keys().next().map(since).unwrap_or_default();
        }
        snapshot
    }

    /// The same in the text format of Prometheus, version 0.0.4: an answer to `GET /metrics`, with
    /// `Content-Type: text/plain; version=0.0.4`.
    #[must_use]
    pub fn to_prometheus_text(&self) -> String {
        self.snapshot().to_string()
    }

    fn lock(&self) -> MutexGuard<'_, Snapshot> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Metrics").field(&*self.lock()).finish()
    }
}

impl Recorder for Metrics {
    fn record(&self, event: &Event<'_>) {
        let state = &mut *self.lock();
        match *event {
            Event::Request { method, host, code, took } => {
                let host = entry(&mut state.hosts, host);
                *host.requests.entry((method, code)).or_default() += 1;
                let seconds = host.seconds.entry(method);
                seconds.or_insert_with(|| Histogram::new(REQUEST_SECONDS)).observe_time(took);
            }
            Event::ListBegins { reflector } => entry(&mut state.reflectors, reflector).lists += 1,
            Event::Listed { reflector, items, took, resource_version } => {
                let reflector = entry(&mut state.reflectors, reflector);
                reflector.list_seconds.observe_time(took);
                reflector.list_items.observe(items as f64);
                reflector.reached(resource_version);
            }
            Event::WatchBegins { reflector } => entry(&mut state.reflectors, reflector).watches += 1,
            Event::WatchEnded { reflector, events, took } => {
                let reflector = entry(&mut state.reflectors, reflector);
                reflector.short_watches += u64::from(events == 0 && took < SHORT);
                reflector.watch_seconds.observe_time(took);
                reflector.watch_items.observe(events as f64);
            }
            Event::Progress { reflector, resource_version } => {
                entry(&mut state.reflectors, reflector).reached(resource_version);
            }
            Event::QueueAdded { queue } => {
                let queue = entry(&mut state.queues, queue);
                queue.adds += 1;
                queue.depth += 1;
            }
            Event::QueueRetried { queue } => entry(&mut state.queues, queue).retries += 1,
            Event::QueueTaken { queue, waited, taken } => {
                let queue = entry(&mut state.queues, queue);
                queue.depth -= 1;
                queue.wait_seconds.observe_time(waited);
                *queue.taken.entry(taken).or_default() += 1;
            }
            Event::QueueDone { queue, taken, worked } => {
                let queue = entry(&mut state.queues, queue);
                queue.work_seconds.observe_time(worked);
                queue.done(taken);
            }
            Event::QueueDropped { queue, items } => {
                entry(&mut state.queues, queue).depth -= i64::try_from(items).unwrap_or(i64::MAX);
            }
            Event::Workers { controller, workers } => {
                entry(&mut state.controllers, controller).max_workers = workers as u64;
            }
            Event::ReconcileBegins { controller } => {
                entry(&mut state.controllers, controller).active_workers += 1;
            }
            Event::Reconciled { controller, outcome, took } => {
                let controller = entry(&mut state.controllers, controller);
                controller.active_workers = controller.active_workers.saturating_sub(1);
                controller.seconds.observe_time(took);
                controller.count(outcome);
            }
            Event::Leader { name, leading } => {
                *entry(&mut state.leaders, name) = leading;
            }
        }
    }
}

fn entry<'a, V: Default>(map: &'a mut BTreeMap<String, V>, name: &str) -> &'a mut V {
    map.entry(name.to_owned()).or_default()
}

impl ReflectorMetrics {
    fn reached(&mut self, version: &str) {
        self.last_resource_version = version.parse().unwrap_or(self.last_resource_version);
    }
}

impl QueueMetrics {
    fn done(&mut self, taken: Instant) {
        if let Some(count) = self.taken.get_mut(&taken) {
            *count -= 1;
            if *count == 0 {
                self.taken.remove(&taken);
            }
        }
    }
}

impl ControllerMetrics {
    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Success => self.successes += 1,
            Outcome::RequeueAfter => self.requeues += 1,
            Outcome::BackOff => self.back_offs += 1,
            Outcome::Error => {}
            Outcome::TerminalError => self.terminal_errors += 1,
            Outcome::Panic => self.panics += 1,
        }
        let failed = matches!(outcome, Outcome::Error | Outcome::TerminalError | Outcome::Panic);
        self.errors += u64::from(failed);
    }
}

impl Default for ReflectorMetrics {
    fn default() -> Self {
        Self {
            lists: 0,
            list_seconds: Histogram::new(LIST_SECONDS),
            list_items: Histogram::new(ITEMS),
            watches: 0,
            short_watches: 0,
            watch_seconds: Histogram::new(WATCH_SECONDS),
            watch_items: Histogram::new(ITEMS),
            last_resource_version: 0,
        }
    }
}

impl Default for QueueMetrics {
    fn default() -> Self {
        Self {
            depth: 0,
            adds: 0,
            retries: 0,
            wait_seconds: Histogram::new(QUEUE_SECONDS),
            work_seconds: Histogram::new(QUEUE_SECONDS),
            unfinished: Duration::ZERO,
            longest_running: Duration::ZERO,
            taken: BTreeMap::new(),
        }
    }
}

impl Default for ControllerMetrics {
    fn default() -> Self {
        Self {
            successes: 0,
            back_offs: 0,
            requeues: 0,
            errors: 0,
            terminal_errors: 0,
            panics: 0,
            seconds: Histogram::new(RECONCILE_SECONDS),
            active_workers: 0,
            max_workers: 0,
        }
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = PrometheusText::new();
        self.write_to(&mut text);
        f.write_str(text.as_str())
    }
}

/// Which number of a thing, and what it is called and means.
type Number<T> = (&'static str, &'static str, fn(&T) -> f64);
type Spread<T> = (&'static str, &'static str, fn(&T) -> &Histogram);

impl Snapshot {
    /// Writes all families, before or after those of the program itself.
    pub fn write_to(&self, text: &mut PrometheusText) {
        self.write_hosts(text);
        write(
            text,
            (&self.reflectors, "name"),
            &[
                ("reflector_lists_total", "Lists that were begun.", |r| r.lists as f64),
                ("reflector_watches_total", "Watches that were opened.", |r| r.watches as f64),
                (
                    "reflector_short_watches_total",
                    "Watches that ended within a second without an event.",
                    |r| r.short_watches as f64,
                ),
            ],
            &[("reflector_last_resource_version", "The version that was reached.", |r| {
                r.last_resource_version as f64
            })],
            &[
                ("reflector_list_duration_seconds", "How long whole lists took.", |r| &r.list_seconds),
                ("reflector_items_per_list", "Objects of each list.", |r| &r.list_items),
                ("reflector_watch_duration_seconds", "How long watches were open.", |r| &r.watch_seconds),
                ("reflector_items_per_watch", "Events of each watch.", |r| &r.watch_items),
            ],
        );
        write(
            text,
            (&self.queues, "name"),
            &[
                ("workqueue_adds_total", "Items that were put in.", |q| q.adds as f64),
                ("workqueue_retries_total", "Items that were added after a delay.", |q| q.retries as f64),
            ],
            &[
                ("workqueue_depth", "Items that wait to be taken.", |q| q.depth as f64),
                (
                    "workqueue_unfinished_work_seconds",
                    "Time since the items that are worked on were taken, in all.",
                    |q| q.unfinished.as_secs_f64(),
                ),
                (
                    "workqueue_longest_running_processor_seconds",
                    "Time since the item that is worked on longest was taken.",
                    |q| q.longest_running.as_secs_f64(),
                ),
            ],
            &[
                ("workqueue_queue_duration_seconds", "How long items wait.", |q| &q.wait_seconds),
                ("workqueue_work_duration_seconds", "How long the work on items takes.", |q| &q.work_seconds),
            ],
        );
        self.write_controllers(text);
        let mut leaders = text
            .gauge("leader_election_master_status", "Whether this process leads: 1, or 0 if it does not.");
        for (name, leading) in &self.leaders {
            leaders.sample(&[("name", name)], f64::from(u8::from(*leading)));
        }
    }

    fn write_hosts(&self, text: &mut PrometheusText) {
        let mut total = text.counter("rest_client_requests_total", "Requests to the API server.");
        for (host, of) in &self.hosts {
            for ((method, code), count) in &of.requests {
                let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
                let labels = [("code", code.as_str()), ("method", method.as_str()), ("host", host)];
                total.sample(&labels, *count as f64);
            }
        }
        let help = "Time of requests to the API server, to the head of the answer.";
        let mut seconds = text.histogram("rest_client_request_duration_seconds", help);
        for (host, of) in &self.hosts {
            for (method, histogram) in &of.seconds {
                seconds.histogram(&[("verb", method.as_str()), ("host", host)], histogram);
            }
        }
    }

    fn write_controllers(&self, text: &mut PrometheusText) {
        let mut total =
            text.counter("controller_runtime_reconcile_total", "Calls of reconcile by their result.");
        for (name, of) in &self.controllers {
            let results = [
                ("success", of.successes),
                ("requeue", of.back_offs),
                ("requeue_after", of.requeues),
                ("error", of.errors),
            ];
            for (result, count) in results {
                total.sample(&[("controller", name), ("result", result)], count as f64);
            }
        }
        write(
            text,
            (&self.controllers, "controller"),
            &[
                ("controller_runtime_reconcile_errors_total", "Calls of reconcile that failed.", |c| {
                    c.errors as f64
                }),
                (
                    "controller_runtime_terminal_reconcile_errors_total",
                    "Failures that are not tried again.",
                    |c| c.terminal_errors as f64,
                ),
                ("controller_runtime_reconcile_panics_total", "Calls of reconcile that panicked.", |c| {
                    c.panics as f64
                }),
            ],
            &[
                ("controller_runtime_active_workers", "Calls of reconcile that run now.", |c| {
                    c.active_workers as f64
                }),
                ("controller_runtime_max_concurrent_reconciles", "How many may run at once.", |c| {
                    c.max_workers as f64
                }),
            ],
            &[("controller_runtime_reconcile_time_seconds", "How long calls of reconcile take.", |c| {
                &c.seconds
            })],
        );
    }
}

/// The families of things that have a name.
fn write<T>(
    text: &mut PrometheusText,
    (things, label): (&BTreeMap<String, T>, &str),
    counters: &[Number<T>],
    gauges: &[Number<T>],
    histograms: &[Spread<T>],
) {
    for (name, help, value) in counters {
        let mut family = text.counter(name, help);
        for (of, thing) in things {
            family.sample(&[(label, of)], value(thing));
        }
    }
    for (name, help, value) in gauges {
        let mut family = text.gauge(name, help);
        for (of, thing) in things {
            family.sample(&[(label, of)], value(thing));
        }
    }
    for (name, help, value) in histograms {
        let mut family = text.histogram(name, help);
        for (of, thing) in things {
            family.histogram(&[(label, of)], value(thing));
        }
    }
}
