//! Waiting until one object is as a program wants it: what `kubectl wait` does, and kube-rs's `await_condition`.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use listwatch::types::{CustomResourceDefinition, Pod};
//! use listwatch::{Api, Client, Resource, Stop, wait};
//!
//! let (client, stop, minute) = (Client::try_default()?, Stop::new(), Duration::from_secs(60));
//! let definitions = Api::<CustomResourceDefinition>::all(&client);
//! wait::until(&definitions, "foos.example.com", wait::crd_established(), minute, &stop)?;
//!
//! let pods = Api::<Pod>::namespaced(&client, "default");
//! let ready = wait::until(&pods, "web-0", wait::pod_ready(), minute, &stop)?;
//! // A condition of one's own; `None` is an object that is not there.
//! wait::until(&pods, "web-0", |pod: Option<&Pod>| pod.is_some_and(|pod| !pod.status.pod_ip.is_empty()), minute, &stop)?;
//! # let pod = ready.unwrap();
//! wait::until(&pods, pod.name(), wait::deleted(pod.uid()), minute, &stop)?;
//! # Ok::<(), listwatch::Error>(())
//! ```

use std::borrow::Cow;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select};
use serde_json::Value;

use crate::cache::{Delta, Reflector, Sink};
use crate::client::Api;
use crate::error::{Error, Kind, Result};
use crate::object::{FieldSelector, Object, Resource, Status, short};
use crate::stop::Stop;
use crate::types::{self, CustomResourceDefinition, Deployment, Job, Pod};

/// Waits until `condition` is so of the object of this name: lists it, then watches it, and asks the condition about each
/// state that the server tells, in order, beginning with the present one. Returns the object as it was then; `None` if
/// it was not there.
///
/// An object that is not there is waited for, and one that is deleted and made again is followed under its name. Breaks
/// of the connection are got over as an informer does. The rights needed are `list` and `watch`, which a role may limit
/// to the name.
///
/// Blocks for at most `timeout`, by the client's clock. While it waits, a thread (`lw-wait`) reads; it has ended when
/// this returns.
///
/// # Errors
/// - If the time is over ([`is_timeout`](Error::is_timeout)): the message says what was last seen and what went wrong.
/// - If stopped, by `stop` or that of the client ([`is_stopped`](Error::is_stopped)).
/// - If the condition cannot become true any more, as [`job_complete`] of a Job that failed
///   ([`is_unmet`](Error::is_unmet)).
/// - If the first list is refused: there is no such resource, or no right to it. A refusal after that is tried again.
pub fn until<K: Resource>(
    api: &Api<K>,
    name: &str,
    mut condition: impl Condition<K>,
    timeout: Duration,
    stop: &Stop,
) -> Result<Option<Arc<K>>> {
    let clock = api.client().clock();
    let over = clock.timer(Some(clock.deadline(timeout)));
    let term = stop.child();
    let both = term.clone();
    let _client = api.client().stop().on_stop(move || both.stop());
    let waited = follow(api, name, &term, |tells| {
        let mut seen = Seen { object: None, failure: None };
        loop {
            let told = select! {
                recv(term.signal()) -> _ => return Err(Error::stopped()),
                recv(over.channel()) -> _ => {
                    let seen = seen.in_words(&condition);
                    return Err(Error::new(Kind::Timeout, format!("it is not so within {timeout:?}: {seen}")));
                }
                recv(tells) -> told => told.map_err(|_| Error::stopped())?,
            };
            if seen.takes(told, name)? && condition.check(seen.present())? {
                return Ok(seen.object.flatten());
            }
        }
    });
    waited.map_err(|e| {
        let place = api.namespace().map_or_else(String::new, |namespace| format!("{namespace}/"));
        let condition = condition.name();
        e.context(format!("wait until {} {place}{} {condition}", api.resource(), short(name)))
    })
}

/// What is waited for: any function of the object, which is `None` where there is none, or one of the conditions here.
pub trait Condition<K> {
    /// Whether it is so.
    ///
    /// # Errors
    /// If it cannot become so any more ([`Error::unmet`]): that ends the wait.
    fn check(&mut self, object: Option<&K>) -> Result<bool>;

    /// What it is called in messages, behind the name of the object: `is ready`.
    fn name(&self) -> Cow<'_, str> {
        "is as wanted".into()
    }

    /// What a message says of an object that is not so yet, beside its version: `Ready=False (ContainersNotReady)`.
    fn describe(&self, object: &K) -> String {
        let _ = object;
        String::new()
    }
}

impl<K, F: FnMut(Option<&K>) -> bool> Condition<K> for F {
    fn check(&mut self, object: Option<&K>) -> Result<bool> {
        Ok(self(object))
    }
}

/// The object with this uid is gone, be there another one of its name or not; with an empty uid, none of that name is
/// there. `kubectl wait --for=delete`, `conditions::is_deleted` of kube-rs.
#[doc(alias = "is_deleted")]
pub fn deleted<K: Resource>(uid: &str) -> impl Condition<K> + use<K> {
    Deleted(uid.to_owned())
}

/// The pod's condition `Ready` is true: its containers are, and its readiness gates. `kubectl wait
/// --for=condition=Ready`.
pub fn pod_ready() -> impl Condition<Pod> {
    Known { name: "is ready", is: |pod: &Pod| Ok(pod.is_ready()), conditions: |pod| &pod.status.conditions }
}

/// The Deployment's condition `Available` is true, and of its present generation: as many pods as it may do with are
/// available, perhaps old ones.
pub fn deployment_available() -> impl Condition<Deployment> {
    Known {
        name: "is available",
        is: |web: &Deployment| {
            let current = web.status.observed_generation >= web.metadata.generation;
            Ok(current && types::Condition::holds(&web.status.conditions, "Available"))
        },
        conditions: |web| &web.status.conditions,
    }
}

/// The definition's condition `Established` is true: its objects can be created. Discovery may take a moment more.
#[doc(alias = "is_crd_established")]
pub fn crd_established() -> impl Condition<CustomResourceDefinition> {
    Known {
        name: "is established",
        is: |definition: &CustomResourceDefinition| Ok(definition.is_established()),
        conditions: |definition| &definition.status.conditions,
    }
}

/// The Job has succeeded: its condition `Complete` is true. One that has failed ends the wait with an error that
/// [is unmet](Error::is_unmet) and says why.
#[doc(alias = "is_job_completed")]
pub fn job_complete() -> impl Condition<Job> {
    Known {
        name: "is complete",
        is: |job: &Job| {
            let conditions = &job.status.conditions;
            match types::find_condition(conditions, "Failed").filter(|failed| failed.is_true()) {
                Some(failed) => {
                    Err(Error::unmet(format!("it has failed: {}: {}", failed.reason, failed.message)))
                }
                None => Ok(types::Condition::holds(conditions, "Complete")),
            }
        },
        conditions: |job| &job.status.conditions,
    }
}

/// The condition `type_` of a whole object has this status, of any kind that has `status.conditions`, as
/// `kubectl wait --for=condition=type=status`: case does not count, and a condition that was found for an older
/// `metadata.generation` than the object's (by its own `observedGeneration`, else that of the status) is not taken.
pub fn condition_is(type_: &str, status: &str) -> impl Condition<Object> + use<> {
    ConditionIs { type_: type_.to_owned(), status: status.to_owned() }
}

struct Deleted(String);

impl<K: Resource> Condition<K> for Deleted {
    fn check(&mut self, object: Option<&K>) -> Result<bool> {
        Ok(object.is_none_or(|object| !self.0.is_empty() && object.uid() != self.0))
    }

    fn name(&self) -> Cow<'_, str> {
        "is deleted".into()
    }

    fn describe(&self, object: &K) -> String {
        object.finalizers().join(", ")
    }
}

/// A condition of a kind that has conditions.
struct Known<K> {
    name: &'static str,
    is: fn(&K) -> Result<bool>,
    conditions: fn(&K) -> &[types::Condition],
}

impl<K> Condition<K> for Known<K> {
    fn check(&mut self, object: Option<&K>) -> Result<bool> {
        object.map_or(Ok(false), self.is)
    }

    fn name(&self) -> Cow<'_, str> {
        self.name.into()
    }

    fn describe(&self, object: &K) -> String {
        in_words((self.conditions)(object))
    }
}

struct ConditionIs {
    type_: String,
    status: String,
}

impl ConditionIs {
    /// Those that can be read: other kinds than the usual may have others beside them.
    fn conditions(object: &Object) -> Vec<types::Condition> {
        let conditions = object.get::<Vec<Value>>("/status/conditions").unwrap_or_default();
        conditions.into_iter().filter_map(|condition| serde_json::from_value(condition).ok()).collect()
    }
}

impl Condition<Object> for ConditionIs {
    fn check(&mut self, object: Option<&Object>) -> Result<bool> {
        let Some(object) = object else { return Ok(false) };
        let conditions = Self::conditions(object);
        let found = conditions.iter().find(|condition| condition.type_.eq_ignore_ascii_case(&self.type_));
        Ok(found.is_some_and(|condition| {
            let observed = Some(condition.observed_generation).filter(|generation| *generation != 0);
            let observed = observed.or_else(|| object.get("/status/observedGeneration"));
            let current = observed.is_none_or(|generation| generation >= object.metadata().generation);
            current && condition.status.eq_ignore_ascii_case(&self.status)
        }))
    }

    fn name(&self) -> Cow<'_, str> {
        format!("has {}={}", short(&self.type_), short(&self.status)).into()
    }

    fn describe(&self, object: &Object) -> String {
        in_words(&Self::conditions(object))
    }
}

/// `Ready=False (ContainersNotReady), PodScheduled=True`.
fn in_words(conditions: &[types::Condition]) -> String {
    let mut words = String::new();
    for types::Condition { type_, status, reason, .. } in conditions {
        let comma = if words.is_empty() { "" } else { ", " };
        let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        words.extend([comma, type_.as_str(), "=", status.as_str(), &reason]);
    }
    words
}

/// What the thread that reads tells.
enum Told<K> {
    Delta(Delta<K>),
    Failed(Failure),
}

/// What can be kept of an error that is lent.
struct Failure {
    text: String,
    status: Option<Status>,
    is_argument: bool,
}

/// Reads the object of this name on a thread of its own while `run` takes what it tells.
fn follow<K: Resource, T>(
    api: &Api<K>,
    name: &str,
    term: &Stop,
    run: impl FnOnce(&Receiver<Told<K>>) -> Result<T>,
) -> Result<T> {
    /// Ends the thread however the wait ends: the condition may panic.
    struct End<'a>(&'a Stop);

    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.stop();
        }
    }

    if name.is_empty() {
        return Err(Error::invalid("an object without a name"));
    }
    let fields = FieldSelector::everything().equals("metadata.name", name)?;
    let (sender, tells) = bounded(16);
    let failures = sender.clone();
    let reflector = Reflector::new(api.clone()).fields(fields).on_error(move |e| {
        let failure = Failure {
            text: e.to_string(),
            status: e.status().cloned(),
            is_argument: e.is_invalid_argument() || e.is_config(),
        };
        // Whoever waited may have gone.
        let _ = failures.send(Told::Failed(failure));
    });
    thread::scope(|scope| {
        let (tells, _end) = (tells, End(term));
        let read = || reflector.run(term, &mut Teller(sender));
        thread::Builder::new()
            .name("lw-wait".into())
            .spawn_scoped(scope, read)
            .map_err(|e| Error::new(Kind::Limit, "the system has no thread left").with_source(e))?;
        run(&tells)
    })
}

struct Teller<K>(Sender<Told<K>>);

impl<K> Sink<K> for Teller<K> {
    fn push(&mut self, delta: Delta<K>) -> bool {
        self.0.send(Told::Delta(delta)).is_ok()
    }
}

/// What was seen so far.
struct Seen<K> {
    /// `None` before the first list; then the object, or that there is none.
    object: Option<Option<Arc<K>>>,
    /// What has gone wrong since.
    failure: Option<String>,
}

impl<K: Resource> Seen<K> {
    fn present(&self) -> Option<&K> {
        self.object.as_ref().and_then(Option::as_deref)
    }

    /// Takes what the thread tells. Whether it is a state of the object.
    fn takes(&mut self, told: Told<K>, name: &str) -> Result<bool> {
        let state = match told {
            Told::Failed(failure) => {
                if self.object.is_none() {
                    failure.check()?;
                }
                self.failure = Some(failure.text);
                return Ok(false);
            }
            // What was told of the one that does not fit was an error.
            Told::Delta(Delta::Replace { unfit, .. }) if !unfit.is_empty() => return Ok(false),
            Told::Delta(Delta::Replace { items, .. }) => {
                items.into_iter().find(|object| object.name() == name)
            }
            Told::Delta(Delta::Upsert(object)) if object.name() == name => Some(object),
            Told::Delta(Delta::Delete { key, .. }) if key.name() == name => None,
            Told::Delta(_) => return Ok(false),
        };
        (self.object, self.failure) = (Some(state), None);
        Ok(true)
    }

    fn in_words(&self, condition: &impl Condition<K>) -> String {
        let mut words = match &self.object {
            None => "nothing was seen of it".to_owned(),
            Some(None) => "it is not there".to_owned(),
            Some(Some(object)) => {
                let deleting = if object.is_deleting() { ", which is being deleted" } else { "" };
                let described = condition.describe(object);
                let colon = if described.is_empty() { "" } else { ": " };
                let version = short(object.resource_version());
                format!("last seen was version {version}{deleting}{colon}{described}")
            }
        };
        if let Some(failure) = &self.failure {
            words.extend(["; then ", failure]);
        }
        words
    }
}

impl Failure {
    /// Whether it is no use to ask again.
    fn check(&self) -> Result<()> {
        match &self.status {
            _ if self.is_argument => Err(Error::invalid(self.text.clone())),
            Some(status)
                if matches!(status.code, 400..=499)
                    && !matches!(status.code, 408..=410 | 429)
                    && !status.is_expired() =>
            {
                Err(status.clone().into())
            }
            _ => Ok(()),
        }
    }
}
