//! Events: what a controller did, or could not do, for `kubectl describe` and `kubectl events` to show.
//!
//! An [`EventRecorder`] writes Events of `events.k8s.io/v1` by the rules of client-go's `tools/events`:
//!
//! ```no_run
//! use listwatch::events::{EventRecorder, EventType};
//! use listwatch::types::{ObjectReference, Pod};
//! use listwatch::{Api, Client, Stop};
//!
//! let (client, stop) = (Client::try_default()?, Stop::new());
//! let recorder = EventRecorder::start(&client, "foo-controller", &stop)?;
//! let pod = Api::<Pod>::default_namespaced(&client).get("web-0")?;
//! recorder.event(&ObjectReference::of(&pod), EventType::Normal, "Evicted", "Evict", "its node is full");
//! stop.stop();
//! recorder.join(); // what was told is written by now
//! # Ok::<(), listwatch::Error>(())
//! ```
//!
//! **Repetitions.** An event with the same type, reason, action and objects as one of the last six minutes is no new
//! Event: the second makes a series of the first (`series.count`, `series.lastObservedTime`), those after it are counted,
//! and the server is told the count every 30 minutes, six minutes after the last one, and in the end. The note is that of
//! the first. As client-go has it, but that the object may have changed in between, and that the six minutes are
//! exact, where client-go looks every six minutes.
//!
//! **Limits.** Of one object, 25 new Events of a type may come at once, and then one in five minutes, as
//! `EventSourceObjectSpamFilter` of `tools/record` has it; what is above is left out
//! ([`limited`](EventRecorder::limited)). Repetitions cost nothing and are not limited. The server keeps Events for an
//! hour, unless it is told otherwise.
//!
//! **Failures.** Who tells an event never waits for it. Where the server cannot be reached, or fails (5xx, 429), it is
//! tried again every 10 s, up to twelve times; an Event that is refused otherwise is left out with a line in the log, and
//! so are those for which there is no room: 1000 may wait for the thread, and 4096 be remembered
//! ([`dropped`](EventRecorder::dropped)). client-go takes 5xx for refusals.
//!
//! The rights needed are `create` and `patch` of `events` in the group `events.k8s.io`, in the namespaces of the objects,
//! and in `default` for objects that have none: that is where their Events go.

mod book;
mod limits;

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, UNIX_EPOCH};

use crossbeam_channel::{Receiver, Sender, bounded, select};
use log::warn;
use serde_json::json;

use self::book::{Book, Key, Lost, Told};
use crate::backoff::Jitter;
use crate::client::{Api, Client, Patch, PatchParams, PostParams};
use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::object::{MicroTime, ObjectMeta, check_key, cut, is_dns_name};
use crate::stop::Stop;
use crate::types::{Event, ObjectReference};

/// So many events wait for the thread, `maxQueuedEvents` of client-go.
const MOST_QUEUED: usize = 1000;
/// The wait before an event is tried again, to which up to a quarter of it is added, as in client-go.
const AGAIN: Duration = Duration::from_secs(10);
/// Limits of the server, in bytes (`pkg/apis/core/validation/events.go`): of reason, action and instance, and of the note.
const LONGEST_WORD: usize = 128;
const LONGEST_NOTE: usize = 1024;

/// Whether something went as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// It did.
    Normal,
    /// It did not, or may not.
    Warning,
}

impl EventType {
    /// As it is written: `Normal`, `Warning`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Writes [events](self), by a thread of its own (`lw-events`). Clones are the same recorder.
///
/// The thread goes on until stopped, or until the last clone is dropped. Then it writes what was told and not written,
/// and the counts of series, each tried once more, for at most the [time](EventRecorderBuilder::flush_within) given for
/// that. [`join`](Self::join) waits for it, as does dropping the last clone. So the order of a shutdown is: stop what
/// tells events, wait for it, then stop the recorder and join it.
#[derive(Clone)]
pub struct EventRecorder(Arc<Inner>);

struct Inner {
    controller: String,
    instance: String,
    clock: Clock,
    /// `None` once the last clone is dropped.
    queue: Option<Sender<Box<Told>>>,
    lost: Arc<Lost>,
    /// In the name of the last event: names must differ though the time may not.
    last_name: AtomicU64,
    stop: Stop,
    flush_within: Duration,
    /// Ends the calls of the thread, in the end.
    calls: Stop,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
    /// Held for a moment.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// How an [`EventRecorder`] is started.
#[derive(Clone, Debug)]
#[must_use]
pub struct EventRecorderBuilder {
    client: Client,
    controller: String,
    instance: Option<String>,
    flush_within: Duration,
}

impl EventRecorderBuilder {
    /// Which of several replicas reports: the name of the pod. By default the controller's name and that of the host,
    /// which in a pod is the pod's, behind a dash. At most 128 bytes.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = Some(instance.into());
        self
    }

    /// How long writing may take once stopped; five seconds by default.
    pub fn flush_within(mut self, time: Duration) -> Self {
        self.flush_within = time;
        self
    }

    /// Starts the thread, which goes on until stopped. Calls end with the recorder, whatever stop the client has.
    ///
    /// # Errors
    /// If the controller's name or the instance is none, or the system has no thread left.
    pub fn start(self, stop: &Stop) -> Result<EventRecorder> {
        let Self { client, controller, instance, flush_within } = self;
        check_key(&controller)
            .map_err(|why| Error::invalid(format!("the name of a controller that reports events: {why}")))?;
        let instance = instance.unwrap_or_else(|| {
            let host = hostname();
            let dash = if host.is_empty() { "" } else { "-" };
            cut(&format!("{controller}{dash}{host}"), LONGEST_WORD).0.to_owned()
        });
        if instance.is_empty() || instance.len() > LONGEST_WORD {
            return Err(Error::invalid("the instance that reports events has a name of 1 to 128 bytes"));
        }
        let (queue, events) = bounded(MOST_QUEUED);
        let (alive, ended) = bounded(0);
        let (lost, calls) = (Arc::new(Lost::default()), Stop::new());
        let writer = Writer {
            client: client.with_stop(&calls),
            events,
            stop: stop.clone(),
            flush_within,
            lost: lost.clone(),
            book: Book::default(),
            jitter: Jitter::new(),
            unreachable: None,
            refused: None,
        };
        let run = move || {
            let _alive: Sender<()> = alive;
            writer.run();
        };
        let thread = thread::Builder::new().name("lw-events".into()).spawn(run);
        let thread =
            thread.map_err(|e| Error::new(Kind::Limit, "the system has no thread left").with_source(e))?;
        Ok(EventRecorder(Arc::new(Inner {
            controller,
            instance,
            clock: client.clock().clone(),
            queue: Some(queue),
            lost,
            last_name: AtomicU64::new(0),
            stop: stop.clone(),
            flush_within,
            calls,
            ended,
            thread: Mutex::new(Some(thread)),
        })))
    }
}

impl EventRecorder {
    /// A recorder with the usual options, until stopped. `controller` is the name of the program, as `foo-controller` or
    /// `example.com/foo-controller`: `reportingController` of its Events.
    ///
    /// # Errors
    /// As those of [`EventRecorderBuilder::start`].
    pub fn start(client: &Client, controller: impl Into<String>, stop: &Stop) -> Result<Self> {
        Self::builder(client, controller).start(stop)
    }

    /// A recorder with other options.
    pub fn builder(client: &Client, controller: impl Into<String>) -> EventRecorderBuilder {
        let flush_within = Duration::from_secs(5);
        EventRecorderBuilder {
            client: client.clone(),
            controller: controller.into(),
            instance: None,
            flush_within,
        }
    }

    /// Tells what happened to an object. Never blocks.
    ///
    /// `reason` is one word for programs, in camel case, why (`FailedMount`); `action` what was done or tried (`Mount`);
    /// `note` is for people. Reason and action are cut to 128 bytes, a note to 1024; the server refuses an Event without
    /// reason or action. See [`ObjectReference::of`] and [`Request::object_reference`](crate::Request::object_reference);
    /// a reference's `field_path` may name a part of the object: `spec.containers{main}`.
    pub fn event(
        &self,
        regarding: &ObjectReference,
        type_: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        self.tell(regarding, None, type_, reason, action, note);
    }

    /// The same where another object has part in it, as the node that a pod is bound to.
    pub fn event_with_related(
        &self,
        regarding: &ObjectReference,
        related: &ObjectReference,
        type_: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        self.tell(regarding, Some(related), type_, reason, action, note);
    }

    /// How many events were left out as there were too many of their object.
    #[must_use]
    pub fn limited(&self) -> u64 {
        self.0.lost.limited.load(Ordering::Relaxed)
    }

    /// How many events, repetitions included, no server has for any other reason: there was no room, they were refused,
    /// tried in vain, or told after the end.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.lost.dropped.load(Ordering::Relaxed)
    }

    /// Waits until the thread has ended: for the stop, and then for what is to be written, within the time for that.
    pub fn join(&self) {
        self.0.join();
    }

    fn tell(
        &self,
        regarding: &ObjectReference,
        related: Option<&ObjectReference>,
        type_: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        let inner = &*self.0;
        let wall = inner.clock.wall();
        let nanos = wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        // The server wants one also for an object that has none.
        let namespace = if regarding.namespace.is_empty() { "default" } else { &*regarding.namespace };
        let event = Event {
            metadata: ObjectMeta::named(inner.name_for(&regarding.name, nanos)).in_namespace(namespace),
            event_time: Some(MicroTime::from(wall)),
            reporting_controller: (&inner.controller).into(),
            reporting_instance: (&inner.instance).into(),
            action: cut(action, LONGEST_WORD).0.into(),
            reason: cut(reason, LONGEST_WORD).0.into(),
            regarding: regarding.clone(),
            related: related.cloned().map(Box::new),
            note: cut(note, LONGEST_NOTE).0.into(),
            type_: type_.as_str().into(),
            ..Event::default()
        };
        let told = Box::new(Told { event, at: inner.clock.now() });
        if inner.queue.as_ref().is_none_or(|queue| queue.try_send(told).is_err()) {
            inner.lost.add(1);
        }
    }
}

impl Inner {
    /// `GenerateEventName` of client-go: the object's name and the time; something unique where that is no name.
    fn name_for(&self, object: &str, nanos: u128) -> String {
        let nanos = u64::try_from(nanos).unwrap_or_default();
        let next = |last: u64| Some(nanos.max(last.saturating_add(1)));
        let last = self.last_name.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let unique = last.ok().and_then(next).unwrap_or(nanos);
        let name = format!("{object}.{unique:x}");
        if is_dns_name(&name) {
            return name;
        }
        let random = || RandomState::new().hash_one(unique);
        format!("{:016x}{:016x}", random(), random())
    }

    fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.as_ref().is_some_and(|thread| thread.thread().id() == thread::current().id()) {
            return; // a hook of its client holds the last clone
        }
        if self.queue.is_some() {
            select! {
                recv(self.stop.signal()) -> _ => {}
                recv(self.ended) -> _ => {}
            }
        }
        let over = self.clock.timer(Some(self.clock.deadline(self.flush_within)));
        select! {
            recv(self.ended) -> _ => {}
            recv(over.channel()) -> _ => self.calls.stop(),
        }
        match thread {
            Some(thread) => drop(thread.join()), // it runs no code of the user but hooks of the client
            None => drop(self.ended.recv()),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue = None;
        self.join();
    }
}

impl fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventRecorder")
            .field("controller", &self.0.controller)
            .field("instance", &self.0.instance)
            .finish_non_exhaustive()
    }
}

/// What the thread has.
struct Writer {
    client: Client,
    events: Receiver<Box<Told>>,
    stop: Stop,
    flush_within: Duration,
    lost: Arc<Lost>,
    book: Book,
    jitter: Jitter,
    /// Until when the server, which could not be reached, is left alone.
    unreachable: Option<Instant>,
    /// When a refusal was last logged.
    refused: Option<Instant>,
}

/// What came of an attempt.
enum Outcome {
    Written,
    /// May be tried again.
    Failed(Error),
    Refused(Error),
}

impl Writer {
    fn run(mut self) {
        while !self.stop.is_stopped() {
            // First, as repetitions spare a request.
            self.take_queued();
            let now = self.client.clock().now();
            if let Some(key) = self.book.due(now).filter(|_| self.is_reachable(now)) {
                self.write(&key);
                continue;
            }
            let next = self.book.next().map(|next| self.unreachable.map_or(next, |until| next.max(until)));
            let timer = self.client.clock().timer(next);
            select! {
                recv(self.stop.signal()) -> _ => {}
                recv(timer.channel()) -> _ => {}
                recv(self.events) -> told => match told {
                    Ok(told) => self.take(*told),
                    Err(_) => break,
                },
            }
        }
        self.flush();
    }

    fn take_queued(&mut self) {
        for _ in 0..MOST_QUEUED {
            match self.events.try_recv() {
                Ok(told) => self.take(*told),
                Err(_) => break,
            }
        }
    }

    fn take(&mut self, told: Told) {
        if let Some((over, pending)) = self.book.ended_by(&told) {
            if pending && self.is_reachable(told.at) {
                self.write(&over);
            }
            self.book.give_up(&over, &self.lost);
        }
        self.book.take(told, &self.lost);
    }

    fn is_reachable(&self, now: Instant) -> bool {
        self.unreachable.is_none_or(|until| now >= until)
    }

    /// Tries once to tell the server of an event.
    fn write(&mut self, key: &Key) {
        match self.attempt(key) {
            Outcome::Written => {
                self.unreachable = None;
                self.book.written(key, self.client.clock().now());
            }
            Outcome::Failed(e) => {
                let now = self.client.clock().now();
                let again = now + self.jitter.between(AGAIN, AGAIN + AGAIN / 4);
                if e.code().is_none() {
                    self.unreachable = Some(again);
                }
                self.warn(now, &e, "it is tried again");
                self.book.failed(key, again, &self.lost);
            }
            Outcome::Refused(e) => {
                self.warn(self.client.clock().now(), &e, "it is left out");
                self.book.give_up(key, &self.lost);
            }
        }
    }

    fn attempt(&self, key: &Key) -> Outcome {
        let Some((event, exists)) = self.book.get(key) else { return Outcome::Written };
        let events = Api::<Event>::namespaced(&self.client, &event.metadata.namespace);
        let create = || events.create(&PostParams::default(), event).map(drop);
        let patch = || {
            let series = Patch::Merge(json!({"series": event.series}));
            events.patch(&event.metadata.name, &PatchParams::default(), &series).map(drop)
        };
        let done = match (exists, &event.series) {
            (true, Some(_)) => match patch() {
                // The server forgets events after a while.
                Err(e) if e.is_not_found() => create(),
                done => done,
            },
            _ => match create() {
                // An answer was lost, and it is written but for what came since.
                Err(e) if e.is_already_exists() && event.series.is_some() => patch(),
                Err(e) if e.is_already_exists() => Ok(()),
                done => done,
            },
        };
        match done {
            Ok(()) => Outcome::Written,
            Err(e) if e.code().is_none_or(|code| code >= 500 || code == 429) && !e.is_invalid_argument() => {
                Outcome::Failed(e)
            }
            // Between two requests it came or went.
            Err(e) if e.is_already_exists() || (e.is_not_found() && event.series.is_some()) => {
                Outcome::Failed(e)
            }
            Err(e) => Outcome::Refused(e),
        }
    }

    /// Writes what is left, within the time for that.
    fn flush(&mut self) {
        let clock = self.client.clock().clone();
        let until = clock.deadline(self.flush_within);
        self.take_queued();
        let timeout = self.client.timeout();
        for key in self.book.pending() {
            let left = until.saturating_duration_since(clock.now());
            let given_up = left.is_zero() || self.client.stop().is_stopped();
            let outcome = if given_up {
                Outcome::Failed(Error::stopped())
            } else {
                self.client = self.client.with_timeout(left.min(timeout));
                self.attempt(&key)
            };
            match outcome {
                Outcome::Written => self.book.written(&key, clock.now()),
                Outcome::Failed(e) | Outcome::Refused(e) => {
                    self.warn(clock.now(), &e, "there is no time left");
                    self.book.give_up(&key, &self.lost);
                }
            }
        }
        self.lost.add(self.events.try_iter().count() as u64);
    }

    /// At most once a minute.
    fn warn(&mut self, now: Instant, e: &Error, next: &str) {
        if self.refused.is_none_or(|last| now >= last + Duration::from_secs(60)) {
            self.refused = Some(now);
            warn!(target: "listwatch::events", "write an event: {e}; {next}");
        }
    }
}

/// In a pod the pod's name; empty if it cannot be known.
fn hostname() -> String {
    let name = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let name = name.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    name.unwrap_or_default().trim().to_owned()
}
