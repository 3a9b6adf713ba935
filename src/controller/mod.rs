//! A controller: informers, a queue and the function that makes the world as an object wants it.

mod measure;
mod request;

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use log::info;

use self::measure::Measure;
pub use self::request::Request;
use crate::cache::{Fitness, Handlers, InformerFactory, ListMode, enqueue};
use crate::client::Client;
use crate::error::Result;
use crate::metrics::Outcome;
use crate::object::{ApiResource, ObjectKey, OwnerReference, Resource, Scope, StaticResource};
use crate::stop::Stop;
use crate::workqueue::{Action, RateLimit, RateLimiter, WorkQueue, WorkerOptions};

/// How long the first lists may take; controller-runtime waits as long.
const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

/// Watches objects of a kind, and calls a function with each that changed or whose helpers did.
///
/// Changes only mark an object's key; the function is called with the object as the cache has it then. So it should
/// not ask what happened but make the world as the object wants it (level, not edge). Keys that come in twice are
/// worked on once, a key is with one worker at a time, and one that changes meanwhile is worked on again.
///
/// What the function says decides what is next: `Ok(Action::await_change())`, `Ok(Action::requeue(…))`, or an error,
/// which is logged and tried again after 5 ms, doubled up to 1000 s. A panic is an error of that key.
///
/// An object that is gone is not given to the function: to act before one goes, put a finalizer on it.
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
    factory: InformerFactory,
    client: Client,
    resource: ApiResource,
    sources: Vec<Source>,
    workers: usize,
    options: WorkerOptions,
    sync_timeout: Duration,
    limiter: Option<Limiter>,
    /// Of the run that began last. Held for a moment only.
    running: Mutex<Option<InformerFactory>>,
    kind: PhantomData<fn() -> K>,
}

/// Lets changes of another kind fill the queue.
type Source = Arc<dyn Fn(&InformerFactory, &WorkQueue<ObjectKey>) -> Result<()> + Send + Sync>;
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
            factory: InformerFactory::new(client),
            client: client.clone(),
            resource: resource.clone(),
            sources: Vec::new(),
            workers: 1,
            options: WorkerOptions::default(),
            sync_timeout: SYNC_TIMEOUT,
            limiter: None,
            running: Mutex::default(),
            kind: PhantomData,
        }
    }

    /// With informers of this namespace, selection and [list mode](InformerFactory::mode). Each run makes its own
    /// informers with these options.
    #[must_use]
    pub fn with_factory(mut self, factory: InformerFactory) -> Self {
        self.factory = factory;
        self
    }

    /// How the present state is had.
    #[must_use]
    pub fn mode(mut self, mode: ListMode) -> Self {
        self.factory = self.factory.mode(mode);
        self
    }

    /// A change of an object of this kind works on the object that manages it: the owner reference with `controller:
    /// true` of this controller's kind.
    #[must_use]
    pub fn owns<D: StaticResource>(self) -> Self {
        let owner = self.resource.clone();
        self.watches(move |object: &D| {
            let reference = object.controller().filter(|reference| is_of(reference, &owner));
            let namespace = object.namespace().filter(|_| owner.scope == Scope::Namespaced);
            reference.map(|reference| ObjectKey::new(namespace, &reference.name)).into_iter().collect()
        })
    }

    /// A change of an object of this kind works on the objects that `keys` names, as it was and as it is.
    #[must_use]
    pub fn watches<W: StaticResource>(
        mut self,
        keys: impl Fn(&W) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        let keys = Arc::new(keys);
        self.sources.push(Arc::new(move |factory, queue| {
            let add = |queue: &WorkQueue<ObjectKey>| {
                let (queue, keys) = (queue.clone(), keys.clone());
                move |object: &W| keys(object).into_iter().for_each(|key| queue.add(key))
            };
            let (added, updated, deleted) = (add(queue), add(queue), add(queue));
            let handler = Handlers::new()
                .on_add(move |object, _| added(object))
                .on_update(move |old, new| {
                    updated(old);
                    updated(new);
                })
                .on_delete(move |gone| deleted(&gone.object));
            factory.informer::<W>().add_handler(handler).map(drop)
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

    /// How failures are spaced; by default as [`RateLimiter`].
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

    /// Runs until stopped, by this stop or that of its client: lists, then works on every object, then on what changes.
    ///
    /// `reconcile` is best a function, `fn reconcile(foo: &Request<Foo>) -> Result<Action, MyError>`; a closure must
    /// say what its error is. What goes wrong is logged, by the crate `log`.
    ///
    /// Blocks its thread. Once stopped it returns when the calls of `reconcile` that run have returned; all threads
    /// have ended then. May be called again, for example with each term of a leader.
    ///
    /// # Errors
    /// If the first lists were not there in time (the message says why), or the system has no thread left.
    pub fn run<E: Display>(
        &self,
        stop: &Stop,
        reconcile: impl Fn(&Request<K>) -> Result<Action, E> + Send + Sync + 'static,
    ) -> Result<()> {
        let term = stop.child();
        let both = term.clone();
        let _client = self.client.stop().on_stop(move || both.stop());
        let factory = self.factory.anew();
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(factory.clone());
        let limiter =
            self.limiter.as_ref().map_or_else(|| Box::new(RateLimiter::default()) as _, |make| make());
        let queue = WorkQueue::with_clock(limiter, self.client.clock().clone());
        if let Some(recorder) = self.client.recorder() {
            queue.report_to(&self.resource.to_string(), recorder);
        }
        let done = self.work(&term, &factory, &queue, reconcile);
        term.stop();
        factory.join();
        match done {
            Err(e) if e.is_stopped() && (stop.is_stopped() || self.client.stop().is_stopped()) => Ok(()),
            done => done,
        }
    }

    /// How its informers fare, in one piece, for liveness and readiness probes; of the run that began last, or none.
    #[must_use]
    pub fn health(&self) -> Fitness {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).clone();
        running.unwrap_or_else(|| self.factory.anew()).health()
    }

    fn work<E: Display>(
        &self,
        term: &Stop,
        factory: &InformerFactory,
        queue: &WorkQueue<ObjectKey>,
        reconcile: impl Fn(&Request<K>) -> Result<Action, E> + Send + Sync + 'static,
    ) -> Result<()> {
        let informer = factory.informer_with::<K>(&self.resource);
        informer.add_handler(enqueue(queue))?;
        for source in &self.sources {
            source(factory, queue)?;
        }
        factory.start(term)?;
        factory.wait_for_sync(self.sync_timeout)?;
        info!(target: "listwatch::controller", "controller of {}: {} workers", self.resource, self.workers);
        let measure = Measure::new(&self.resource.to_string(), self.client.recorder(), self.client.clock());
        measure.workers(self.workers);
        let (calls, ends) = (measure.clone(), measure);
        let (lister, client, factory) = (informer.lister(), self.client.with_stop(term), factory.clone());
        let workers = self.options.clone().start(self.workers, queue, term, move |key: &ObjectKey| {
            match lister.get_key(key) {
                Some(object) => {
                    let call = calls.begin();
                    let done = reconcile(&Request::new(object, &client, &factory));
                    call.end(match &done {
                        Ok(action) if action.requeue_after().is_some() => Outcome::RequeueAfter,
                        Ok(_) => Outcome::Success,
                        Err(_) => Outcome::Error,
                    });
                    done
                }
                None => Ok(Action::await_change()),
            }
        })?;
        term.wait();
        workers.join();
        ends.workers(0);
        Ok(())
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
