//! A controller: informers, a queue and the function that makes the world as an object wants it.

mod measure;
mod predicate;
mod request;
mod warm;

use std::any::Any;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use self::predicate::Predicate;
pub use self::request::Request;
pub use self::warm::Warm;
use self::warm::{Caches, Inbox};
use crate::cache::{Fitness, InformerFactory, ListMode};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::object::{ApiResource, ObjectKey, OwnerReference, Resource, Scope, StaticResource};
use crate::stop::Stop;
use crate::workqueue::{Action, RateLimit, WorkerOptions};

/// How long the first lists may take; controller-runtime waits as long.
const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

/// Watches objects of a kind, and calls a function with each that changed or whose helpers did.
///
/// Changes only mark an object's key; the function is called with the object as the cache has it then. So it should
/// not ask what happened but make the world as the object wants it (level, not edge). Keys that come in twice are
/// worked on once, a key is with one worker at a time, and one that changes meanwhile is worked on again.
///
/// What the function says decides what is next: `Ok(Action::await_change())`, `Ok(Action::requeue(…))` (controller-runtime's
/// `RequeueAfter`), or an error, which is logged and tried again after 5 ms, doubled up to 1000 s. A panic is an error of
/// that key. A failure that trying again does not mend is [`Error::terminal`], which waits for the object to change. What
/// follows an error of another type, or each kind of error, a policy decides: [`run_with`](Self::run_with).
///
/// An object that is gone is not given to the function: to act before one goes, put a finalizer on it.
///
/// # The end
/// In this order: no more work is taken; the calls that run end; the informers end. The calls' requests end at once, so
/// that a call is over in a moment, unless [`shutdown_timeout`](Self::shutdown_timeout) gives them time. Who leads releases
/// the Lease after [`run`](Self::run) has returned.
///
/// # Leaders
/// Reading needs no leadership. [`start`](Self::start) starts the informers, for the life of the process; what it gives
/// runs the workers, once a term: a new leader works with caches that are there.
///
/// With a client [that records](Client::with_metrics) it tells its metrics, and [`health`](Self::health) answers probes.
///
/// ```no_run
/// use listwatch::types::Deployment;
/// # use listwatch::{Action, Client, Controller, Error, Map, ObjectMeta, Request, Stop, resource};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Clone, Debug, Default, Serialize, Deserialize)]
/// # struct Foo { metadata: ObjectMeta }
/// # resource!(Foo: "samplecontroller.k8s.io/v1alpha1", "Foo", "foos", namespaced);
/// let client = Client::try_default()?;
/// Controller::<Foo>::all(&client).owns::<Deployment>().workers(4).run(&Stop::new(), |foo: &Request<Foo>| {
///     let deployments = foo.lister::<Deployment>()?;
///     // compare with what `foo` wants, and change it
///     Ok::<_, Error>(Action::await_change())
/// })?;
/// # Ok::<(), Error>(())
/// ```
pub struct Controller<K> {
    name: String,
    factory: InformerFactory,
    client: Client,
    resource: ApiResource,
    /// In place of the factory's; none are those.
    namespaces: Vec<String>,
    /// The one object to work on.
    only: Option<String>,
    predicate: Predicate<K>,
    sources: Vec<Source>,
    workers: usize,
    options: WorkerOptions,
    sync_timeout: Duration,
    shutdown_timeout: Option<Duration>,
    limiter: Option<Limiter>,
    /// Those of the start that was last, until its end. Held for a moment only.
    running: Arc<Mutex<Option<Caches>>>,
    kind: PhantomData<fn() -> K>,
}

/// Lets changes of another kind fill the queue.
type Source = Arc<dyn Fn(&Caches, &Inbox) -> Result<()> + Send + Sync>;
/// Makes the rate limiter of a run.
type Limiter = Arc<dyn Fn() -> Box<dyn RateLimit<ObjectKey>> + Send + Sync>;

impl<K: StaticResource> Controller<K> {
    /// Of all objects of a kind: in all namespaces, or of a kind that has none.
    #[must_use]
    pub fn all(client: &Client) -> Self {
        Self::all_with(client, &K::api_resource())
    }

    /// Of the objects in one namespace. What they own is watched there only.
    #[must_use]
    pub fn namespaced(client: &Client, namespace: &str) -> Self {
        Self::all(client).with_factory(InformerFactory::new(client).namespace(namespace))
    }
}

impl<K: Resource> Controller<K> {
    /// Of a resource known at run time.
    #[must_use]
    pub fn all_with(client: &Client, resource: &ApiResource) -> Self {
        Self {
            name: resource.to_string(),
            factory: InformerFactory::new(client),
            client: client.clone(),
            resource: resource.clone(),
            namespaces: Vec::new(),
            only: None,
            predicate: Predicate::all(),
            sources: Vec::new(),
            workers: 1,
            options: WorkerOptions::default(),
            sync_timeout: SYNC_TIMEOUT,
            shutdown_timeout: None,
            limiter: None,
            running: Arc::default(),
            kind: PhantomData,
        }
    }

    /// The name in logs and metrics; by default that of the resource: `deployments.apps`. Two controllers of one resource
    /// need two.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// With informers of this namespace, selection and [list mode](InformerFactory::mode). Each run makes its own
    /// informers with these options.
    #[must_use]
    pub fn with_factory(mut self, factory: InformerFactory) -> Self {
        self.factory = factory;
        self
    }

    /// Of the objects in these namespaces, and what they own or is watched there: for a role that does not allow all.
    /// The API has no list of several namespaces, so there is one informer for each kind and namespace. Of a kind that has
    /// no namespaces there is one. All are of one controller: one queue, one set of workers, one limit of retries.
    #[must_use]
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.namespaces = namespaces.into_iter().map(Into::into).collect();
        self.namespaces.sort();
        self.namespaces.dedup();
        self
    }

    /// Of the one object of this name, listed and watched by `metadata.name`; what it owns and what else is watched is
    /// not limited by it. A role that names the object (`resourceNames`) is enough.
    #[must_use]
    pub fn only(mut self, name: impl Into<String>) -> Self {
        self.only = Some(name.into());
        self
    }

    /// How the present state is had.
    #[must_use]
    pub fn mode(mut self, mode: ListMode) -> Self {
        self.factory = self.factory.mode(mode);
        self
    }

    /// Which changes of the objects themselves are worked on; all by default. What the ready-made ones hide is told at
    /// [`Predicate`].
    #[must_use]
    pub fn with_predicate(mut self, predicate: Predicate<K>) -> Self {
        self.predicate = predicate;
        self
    }

    /// A change of an object of this kind works on the object that manages it: the owner reference with `controller:
    /// true` of this controller's kind.
    #[must_use]
    pub fn owns<D: StaticResource>(self) -> Self {
        self.owns_with::<D>(&D::api_resource(), Predicate::all())
    }

    /// The same for a resource known at run time, as [`Object`](crate::Object)s, as a projection of yours, or as
    /// [`PartialObjectMetadata`](crate::PartialObjectMetadata), which is the cheapest; and for some changes only.
    #[must_use]
    pub fn owns_with<D: Resource>(self, resource: &ApiResource, predicate: Predicate<D>) -> Self {
        let owner = self.resource.clone();
        self.watches_with(resource, predicate, move |object: &D| {
            let reference = object.controller().filter(|reference| is_of(reference, &owner));
            let namespace = object.namespace().filter(|_| owner.scope == Scope::Namespaced);
            reference.map(|reference| ObjectKey::new(namespace, &reference.name)).into_iter().collect()
        })
    }

    /// A change of an object of this kind works on the objects that `keys` names, as it was and as it is.
    #[must_use]
    pub fn watches<W: StaticResource>(
        self,
        keys: impl Fn(&W) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        self.watches_with(&W::api_resource(), Predicate::all(), keys)
    }

    /// The same for a resource known at run time, as [`owns_with`](Self::owns_with); and for some changes only.
    #[must_use]
    pub fn watches_with<W: Resource>(
        mut self,
        resource: &ApiResource,
        predicate: Predicate<W>,
        keys: impl Fn(&W) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        let (keys, resource) = (Arc::new(keys), resource.clone());
        self.sources.push(Arc::new(move |caches, inbox| {
            caches.others(&resource).try_for_each(|factory| {
                let keys = keys.clone();
                let handler = predicate.clone().handler(inbox, move |object: &W| keys(object));
                factory.informer_with::<W>(&resource).add_handler(handler).map(drop)
            })
        }));
        self
    }

    /// So many threads call the function; 1 by default.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Give an object up after so many failures in a row, until it changes. By default it is tried for ever.
    #[must_use]
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.options = self.options.max_retries(retries);
        self
    }

    /// How failures are spaced; by default as [`RateLimiter`](crate::RateLimiter).
    #[must_use]
    pub fn rate_limit<L: RateLimit<ObjectKey>>(
        mut self,
        limiter: impl Fn() -> L + Send + Sync + 'static,
    ) -> Self {
        self.limiter = Some(Arc::new(move || Box::new(limiter())));
        self
    }

    /// How long the first lists may take, before [`run`](Self::run) gives up; two minutes by default.
    #[must_use]
    pub fn sync_timeout(mut self, timeout: Duration) -> Self {
        self.sync_timeout = timeout;
        self
    }

    /// At the end, how long the calls of `reconcile` that run may go on, with a [client](Request::client) that works. What
    /// has not ended by then is left behind, and the end is an error that names the keys. Without this, the calls' requests
    /// end at once, and the end waits for the calls however long they take.
    ///
    /// A leader that has lost its term may be followed by another at once: so give that controller none, or less than the
    /// time between the renew deadline and the end of the lease.
    #[must_use]
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.shutdown_timeout = Some(timeout);
        self
    }

    /// Runs until stopped, by this stop or that of its client: lists, then works on every object, then on what changes.
    ///
    /// `reconcile` is best a function, `fn reconcile(foo: &Request<Foo>) -> Result<Action, MyError>`; a closure must
    /// say what its error is. What goes wrong is logged, by the crate `log`.
    ///
    /// Blocks its thread. Once stopped it returns when the calls of `reconcile` that run have returned; all threads
    /// have ended then. May be called again, for example with each term of a leader, though
    /// [`start`](Self::start) spares its lists.
    ///
    /// # Errors
    /// If the first lists were not there in time (the message says why), the system has no thread left, or calls have not
    /// ended within the [`shutdown_timeout`](Self::shutdown_timeout).
    pub fn run<E: Display + 'static>(
        &self,
        stop: &Stop,
        reconcile: impl Fn(&Request<K>) -> Result<Action, E> + Send + Sync + 'static,
    ) -> Result<()> {
        self.run_with(stop, reconcile, by_default)
    }

    /// The same with a policy for failures, as kube-rs's `error_policy`: given the object, the error and which try in a row
    /// it was, from 1 on, it says what is next. [`Action::back_off`] is what happens without it, [`Action::requeue`] another
    /// time, [`Action::await_change`] makes the failure terminal. A panic does not come here.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use listwatch::{Action, Client, Controller, Error, Request, Stop, types::ConfigMap};
    /// # let client = Client::try_default()?;
    /// # fn reconcile(_: &Request<ConfigMap>) -> Result<Action, Error> { Ok(Action::await_change()) }
    /// Controller::<ConfigMap>::all(&client).run_with(&Stop::new(), reconcile, |_map, error, tries| match error {
    ///     e if e.is_forbidden() => Action::requeue(Duration::from_secs(600)), // until somebody mends the role
    ///     e if e.is_invalid() || tries > 20 => Action::await_change(),
    ///     _ => Action::back_off(),
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with<E: Display>(
        &self,
        stop: &Stop,
        reconcile: impl Fn(&Request<K>) -> Result<Action, E> + Send + Sync + 'static,
        policy: impl Fn(&Request<K>, &E, u32) -> Action + Send + Sync + 'static,
    ) -> Result<()> {
        match self.start(stop) {
            Ok(warm) => warm.run_with(stop, reconcile, policy),
            Err(e) if e.is_stopped() && (stop.is_stopped() || self.client.stop().is_stopped()) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Starts the informers and waits for their first lists, without working on anything: what it gives does, when and as
    /// often as it is told to. The informers end when that is dropped.
    ///
    /// ```no_run
    /// # use listwatch::{Action, Client, Controller, Error, Request, Stop, types::ConfigMap};
    /// # let (client, stop) = (Client::try_default()?, Stop::new());
    /// # fn reconcile(_: &Request<ConfigMap>) -> Result<Action, Error> { Ok(Action::await_change()) }
    /// # fn terms(_: &Stop) -> Vec<Stop> { Vec::new() }
    /// let warm = Controller::<ConfigMap>::all(&client).start(&stop)?;
    /// for term in terms(&stop) { // each time that this process leads
    ///     warm.run(&term, reconcile)?;
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// If it was stopped before, the first lists were not there in time (the message says why), or the system has no thread
    /// left.
    pub fn start(&self, stop: &Stop) -> Result<Warm<K>> {
        Warm::start(self, stop)
    }

    /// How its informers fare, in one piece, for liveness and readiness probes: of the start or run that was last and has
    /// not ended, or of none.
    #[must_use]
    pub fn health(&self) -> Fitness {
        let running = self.running().clone();
        running.map_or_else(|| self.factory.anew().health(), |caches| caches.health())
    }

    fn running(&self) -> MutexGuard<'_, Option<Caches>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What follows a failure where no policy says it.
fn by_default<K, E: 'static>(_: &Request<K>, error: &E, _: u32) -> Action {
    match (error as &dyn Any).downcast_ref::<Error>() {
        Some(error) if error.is_terminal() => Action::await_change(),
        _ => Action::back_off(),
    }
}

impl<K> Clone for Controller<K> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            factory: self.factory.clone(),
            client: self.client.clone(),
            resource: self.resource.clone(),
            namespaces: self.namespaces.clone(),
            only: self.only.clone(),
            predicate: self.predicate.clone(),
            sources: self.sources.clone(),
            options: self.options.clone(),
            limiter: self.limiter.clone(),
            running: self.running.clone(),
            ..*self
        }
    }
}

/// Whether an owner reference is to this kind, in any version of its group.
fn is_of(reference: &OwnerReference, resource: &ApiResource) -> bool {
    let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
    *reference.kind == *resource.kind && group == resource.group()
}

impl<K> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("resource", &self.resource).finish_non_exhaustive()
    }
}
