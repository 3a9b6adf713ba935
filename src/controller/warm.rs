use std::fmt::{self, Display};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use log::{error, info};

use super::measure::Measure;
use super::request::Request;
use super::{Controller, by_default};
use crate::cache::{Change, Fitness, Informer, InformerFactory};
use crate::error::{Error, Kind, Result};
use crate::metrics::Outcome;
use crate::object::{ApiResource, ObjectKey, Resource, Scope};
use crate::stop::{OnStop, Stop};
use crate::workqueue::{Action, RateLimiter, Verdict, WorkQueue};

const TARGET: &str = "listwatch::controller";

/// A [`Controller`] whose caches are there, from [`Controller::start`]. Dropping it ends its informers, and waits for
/// their threads.
#[must_use = "dropping it ends the informers"]
pub struct Warm<K: Resource> {
    controller: Controller<K>,
    caches: Caches,
    /// Those of its own kind.
    informers: Vec<Informer<K>>,
    inbox: Inbox,
    /// Stops with what it was started with, or with the client.
    stop: Stop,
    /// Ends the informers, after all else.
    reading: Stop,
    _client: OnStop,
}

/// The informers of a controller. Clones are the same.
#[derive(Clone)]
pub(super) struct Caches(Arc<Vec<Part>>);

/// Those of one namespace, or of all.
struct Part {
    namespace: Option<String>,
    /// Of the controller's own kind, and of the others; often one factory.
    own: InformerFactory,
    others: InformerFactory,
}

/// Where changes go: the queue of the term that runs. Between terms nobody needs to know, as each begins with every object.
#[derive(Clone, Default)]
pub(super) struct Inbox(Arc<Mutex<Option<WorkQueue<ObjectKey>>>>);

impl<K: Resource> Warm<K> {
    pub(super) fn start(controller: &Controller<K>, stop: &Stop) -> Result<Self> {
        let (controller, stop, reading) = (controller.clone(), stop.child(), Stop::new());
        let both = stop.clone();
        let client = controller.client.stop().on_stop(move || both.stop());
        let caches = Caches::of(&controller);
        let informers = caches.each(&controller.resource, |part| &part.own);
        let informers = informers.map(|own| own.informer_with::<K>(&controller.resource)).collect();
        let inbox = Inbox::default();
        // From here on its drop ends what was begun.
        let warm = Self { controller, caches, informers, inbox, stop, reading, _client: client };
        warm.begin()?;
        Ok(warm)
    }

    fn begin(&self) -> Result<()> {
        let Self { controller, caches, inbox, .. } = self;
        let before = controller.running().replace(caches.clone());
        drop(before); // without the lock, as it may be the last who holds those informers
        let reading = self.reading.clone();
        // Until the lists are there a stop ends them; later they go on until calls have ended.
        let _early = self.stop.on_stop(move || reading.stop());
        for informer in &self.informers {
            let predicate = controller.predicate.clone();
            informer.add_handler(predicate.handler(inbox, |object: &K| vec![object.key()]))?;
        }
        for source in &controller.sources {
            source(caches, inbox)?;
        }
        let clock = controller.client.clock();
        let deadline = clock.deadline(controller.sync_timeout);
        caches.factories().try_for_each(|factory| factory.start(&self.reading))?;
        caches
            .factories()
            .try_for_each(|factory| factory.wait_for_sync(deadline.saturating_duration_since(clock.now())))
    }

    /// Works on every object, then on what changes, until `term` is stopped, or what the informers were started with. See
    /// [`Controller::run`]. May be called again, with another term, but not while it runs.
    ///
    /// # Errors
    /// If the system has no thread left, it runs already, or calls have not ended within the
    /// [`shutdown_timeout`](Controller::shutdown_timeout).
    pub fn run<E: Display + 'static>(
        &self,
        term: &Stop,
        reconcile: impl Fn(&Request<K>) -> Result<Action, E> + Send + Sync + 'static,
    ) -> Result<()> {
        self.run_with(term, reconcile, by_default)
    }

    /// The same with a policy for failures: see [`Controller::run_with`].
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with<E: Display>(
        &self,
        term: &Stop,
        reconcile: impl Fn(&Request<K>) -> Result<Action, E> + Send + Sync + 'static,
        policy: impl Fn(&Request<K>, &E, u32) -> Action + Send + Sync + 'static,
    ) -> Result<()> {
        let Controller { name, client, resource, predicate, workers, options, limiter, .. } =
            &self.controller;
        let end = term.child();
        let (also, clock) = (end.clone(), client.clock().clone());
        let _stop = self.stop.on_stop(move || also.stop());
        let limiter = limiter.as_ref().map_or_else(|| Box::new(RateLimiter::default()) as _, |make| make());
        let queue = WorkQueue::with_clock(limiter, clock.clone());
        let measure = Measure::new(name, client.recorder(), &clock);
        if let Some(recorder) = client.recorder() {
            queue.report_to(name, recorder);
        }
        let _open = self.inbox.open(&queue, resource)?;
        for object in self.informers.iter().flat_map(|informer| informer.lister().store().list()) {
            let key = object.key();
            if predicate.passes(&Change::Added(object)) {
                queue.add(key);
            }
        }
        info!(target: TARGET, "controller {name}: {workers} workers");
        // What the calls' requests end with.
        let patience = self.controller.shutdown_timeout;
        let late = if patience.is_some() { Stop::new() } else { end.child() };
        let (calls, caches) = (measure.clone(), self.caches.clone());
        let listers: Vec<_> = self.informers.iter().map(Informer::lister).collect();
        let (requests, tries) = (client.with_stop(&late), queue.clone());
        let work = move |key: &ObjectKey| {
            let Some(object) = listers.iter().find_map(|lister| lister.get_key(key)) else {
                return Verdict::Done(Action::await_change());
            };
            let request = Request::new(object, &requests, &caches);
            let call = calls.begin();
            match reconcile(&request) {
                Ok(action) => {
                    call.end(match action {
                        action if action.requeue_after().is_some() => Outcome::RequeueAfter,
                        action if action == Action::back_off() => Outcome::BackOff,
                        _ => Outcome::Success,
                    });
                    Verdict::Done(action)
                }
                Err(error) => {
                    let action = policy(&request, &error, tries.num_requeues(key).saturating_add(1));
                    let terminal = action == Action::await_change();
                    call.end(if terminal { Outcome::TerminalError } else { Outcome::Error });
                    Verdict::Failed(format!("{error:#}"), action)
                }
            }
        };
        let pool = options.clone().start_judged(*workers, &queue, &end, work)?;
        measure.workers((*workers).max(1));
        end.wait();
        queue.shut_down();
        let unfinished = match patience {
            Some(patience) => queue.wait_for_work(clock.deadline(patience)),
            None => Vec::new(),
        };
        late.stop();
        measure.workers(0);
        if unfinished.is_empty() {
            pool.join();
            return Ok(());
        }
        pool.abandon();
        let keys: Vec<_> = unfinished.iter().map(ObjectKey::to_string).collect();
        let patience = patience.unwrap_or_default();
        let message =
            format!("controller {name}: still at work {patience:?} after the end: {}", keys.join(", "));
        error!(target: TARGET, "{message}");
        Err(Error::new(Kind::Timeout, message))
    }
}

impl<K: Resource> Drop for Warm<K> {
    fn drop(&mut self) {
        self.reading.stop();
        self.caches.factories().for_each(InformerFactory::join);
        // Unless it was started once more meanwhile.
        let own = self.controller.running().take_if(|running| Arc::ptr_eq(&running.0, &self.caches.0));
        drop(own);
    }
}

impl<K: Resource> fmt::Debug for Warm<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Warm").field(&self.controller).finish()
    }
}

impl Caches {
    fn of<K>(controller: &Controller<K>) -> Self {
        let part = |namespace: Option<&String>| {
            let others = match namespace {
                Some(namespace) => controller.factory.clone().namespace(namespace),
                None => controller.factory.anew(),
            };
            let own =
                controller.only.as_ref().map_or_else(|| others.clone(), |name| others.clone().only(name));
            Part { namespace: namespace.cloned(), own, others }
        };
        Self(Arc::new(match &*controller.namespaces {
            [] => vec![part(None)],
            namespaces => namespaces.iter().map(|namespace| part(Some(namespace))).collect(),
        }))
    }

    /// The factories that a kind needs: one for each namespace, but of a kind that has none.
    fn each<'a>(
        &'a self,
        resource: &ApiResource,
        which: fn(&'a Part) -> &'a InformerFactory,
    ) -> impl Iterator<Item = &'a InformerFactory> {
        let most = if resource.scope == Scope::Cluster { 1 } else { usize::MAX };
        self.0.iter().take(most).map(which)
    }

    /// The same for a kind that is not the controller's own.
    pub(super) fn others(&self, resource: &ApiResource) -> impl Iterator<Item = &InformerFactory> {
        self.each(resource, |part| &part.others)
    }

    /// The informer of a kind in a namespace, if the controller has one: its own where it is of that kind.
    pub(super) fn known<D: Resource>(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
    ) -> Option<Informer<D>> {
        let all = resource.scope == Scope::Cluster;
        let holds = |part: &&Part| all || part.namespace.as_deref().is_none_or(|own| namespace == Some(own));
        let find = |part: &Part| part.own.known(resource).or_else(|| part.others.known(resource));
        self.0.iter().filter(holds).find_map(find)
    }

    pub(super) fn health(&self) -> Fitness {
        let mut all = self.0[0].own.health(); // there is one part at least
        let others = self.factories().skip(1);
        others.for_each(|factory| all.informers.extend(factory.health().informers));
        all
    }

    /// Each once.
    fn factories(&self) -> impl Iterator<Item = &InformerFactory> {
        let others = |part: &'_ Part| !part.own.is(&part.others);
        self.0.iter().flat_map(move |part| [Some(&part.own), others(part).then_some(&part.others)]).flatten()
    }
}

impl Inbox {
    pub(super) fn add(&self, key: ObjectKey) {
        let queue = self.lock().clone();
        if let Some(queue) = queue {
            queue.add(key);
        }
    }

    /// Lets changes into this queue until the guard is dropped.
    fn open(&self, queue: &WorkQueue<ObjectKey>, resource: &ApiResource) -> Result<Open<'_>> {
        let mut inbox = self.lock();
        if inbox.is_some() {
            return Err(Error::invalid(format!("the controller of {resource} runs already")));
        }
        *inbox = Some(queue.clone());
        Ok(Open(self))
    }

    /// Held for a moment, and with no other lock.
    fn lock(&self) -> MutexGuard<'_, Option<WorkQueue<ObjectKey>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Open<'a>(&'a Inbox);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let queue = self.0.lock().take();
        drop(queue);
    }
}
