use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::health::{Fitness, Health};
use super::informer::{Informer, InformerBuilder};
use super::reflector::ListMode;
use crate::client::{Api, Client, ListParams};
use crate::error::{Error, Kind, Result};
use crate::object::{ApiResource, FieldSelector, Object, Resource, StaticResource};
use crate::stop::Stop;

/// That of a watch by default, rounded up.
const SILENCE: Duration = Duration::from_secs(4 * 60);
/// For an answer, and for the longest time that a reflector or a server asks to be let alone.
const SLACK: Duration = Duration::from_secs(2 * 60);

/// Makes each informer once: whoever asks for a type gets the same one, with one list/watch and one cache.
///
/// A factory is of one namespace or all, and of one selection. For several namespaces, where a role does not allow all,
/// make a factory of each, with the same handlers or the same queue: there is a watch for each namespace then, as the
/// API has none of several; a controller does so by itself ([`Controller::namespaces`](crate::Controller::namespaces)).
/// Clones are the same factory.
///
/// Each informer holds one connection, for its watch.
#[derive(Clone)]
pub struct InformerFactory {
    client: Client,
    options: Options,
    shared: Arc<Mutex<State>>,
}

#[derive(Clone, Debug, Default)]
struct Options {
    namespace: Option<String>,
    labels: String,
    fields: String,
    mode: ListMode,
    silence: Duration,
    relist_every: Duration,
    resync: Option<Duration>,
    resyncs: HashMap<TypeId, Duration>,
}

#[derive(Default)]
struct State {
    informers: Vec<Entry>,
}

impl State {
    fn known<K: Resource>(&self, of: &(TypeId, ApiResource)) -> Option<Informer<K>> {
        let entry = self.informers.iter().find(|entry| entry.of == *of)?;
        entry.informer.downcast_ref().cloned()
    }
}

/// One informer, as what it is and as what all are.
struct Entry {
    of: (TypeId, ApiResource),
    informer: Box<dyn Any + Send>,
    shared: Arc<dyn Running>,
}

/// What the factory does with informers of any type.
trait Running: Send + Sync {
    fn start(&self, stop: &Stop) -> Result<()>;
    fn wait_until(&self, deadline: Instant, timeout: Duration) -> Result<()>;
    fn join(&self);
    fn fitness(&self) -> (String, Health);
}

impl<K: Resource> Running for Informer<K> {
    fn start(&self, stop: &Stop) -> Result<()> {
        Informer::start(self, stop)
    }

    fn wait_until(&self, deadline: Instant, timeout: Duration) -> Result<()> {
        Informer::wait_until(self, deadline, timeout)
    }

    fn join(&self) {
        Informer::join(self);
    }

    fn fitness(&self) -> (String, Health) {
        (self.describe().to_owned(), self.health())
    }
}

impl InformerFactory {
    /// A factory of all namespaces.
    #[must_use]
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone(), options: Options::default(), shared: Arc::default() }
    }

    /// Only objects in this namespace. Kinds without namespaces are not limited.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.options.namespace = Some(namespace.into());
        self.afresh()
    }

    /// Only objects whose labels match.
    #[must_use]
    pub fn labels(mut self, selector: impl ToString) -> Self {
        self.options.labels = selector.to_string();
        self.afresh()
    }

    /// Only objects whose fields match.
    #[must_use]
    pub fn fields(mut self, selector: impl ToString) -> Self {
        self.options.fields = selector.to_string();
        self.afresh()
    }

    /// Only the object of this name, by the field selector `metadata.name` on list and watch: a role that names it
    /// (`resourceNames`) is enough. Beside what [`fields`](Self::fields) says.
    #[must_use]
    pub fn only(mut self, name: &str) -> Self {
        let fields = std::mem::take(&mut self.options.fields);
        let comma = if fields.is_empty() { "" } else { "," };
        self.options.fields = format!("{fields}{comma}{}", FieldSelector::of_name(name));
        self.afresh()
    }

    /// Takes the selectors, and the size of a page if there is one, from parameters of a list:
    /// `tweak(|list| list.labels("app=web"))`.
    #[must_use]
    pub fn tweak(mut self, f: impl FnOnce(ListParams) -> ListParams) -> Self {
        let Options { labels, fields, .. } = &self.options;
        let ListParams { labels, fields, limit, .. } = f(ListParams::default().labels(labels).fields(fields));
        (self.options.labels, self.options.fields) = (labels, fields);
        if limit > 0 {
            self.options.mode = ListMode::Paged(limit);
        }
        self.afresh()
    }

    /// How the present state is had.
    #[must_use]
    pub fn mode(mut self, mode: ListMode) -> Self {
        self.options.mode = mode;
        self.afresh()
    }

    /// Within which time a dead connection is found: under four minutes by default; see
    /// [`Reflector::silence`](super::Reflector::silence).
    #[must_use]
    pub fn silence(mut self, silence: Duration) -> Self {
        self.options.silence = silence;
        self.afresh()
    }

    /// List anew each time this long has passed; see [`Reflector::relist_every`](super::Reflector::relist_every).
    #[must_use]
    pub fn relist_every(mut self, period: Duration) -> Self {
        self.options.relist_every = period;
        self.afresh()
    }

    /// Tell handlers all objects again each time this long has passed; see [`InformerBuilder::resync`].
    #[must_use]
    pub fn resync(mut self, period: Duration) -> Self {
        self.options.resync = Some(period);
        self.afresh()
    }

    /// As [`resync`](Self::resync) for the informer of one type, in place of that; zero is never.
    #[must_use]
    pub fn resync_for<K: Resource>(mut self, period: Duration) -> Self {
        self.options.resyncs.insert(TypeId::of::<K>(), period);
        self.afresh()
    }

    /// A factory of the same options, with no informers yet.
    pub(crate) fn anew(&self) -> Self {
        self.clone().afresh()
    }

    /// Informers made before with other options stay with the factory that made them.
    fn afresh(mut self) -> Self {
        self.shared = Arc::default();
        self
    }

    /// The informer of a type.
    pub fn informer<K: StaticResource>(&self) -> Informer<K> {
        self.informer_with(&K::api_resource())
    }

    /// The informer of a kind known at run time, of whole objects.
    #[inline] // else the cache of whole objects is compiled for programs that have none
    pub fn informer_for(&self, resource: &ApiResource) -> Informer<Object> {
        self.informer_with(resource)
    }

    /// The informer of a type that is not bound to one kind.
    pub fn informer_with<K: Resource>(&self, resource: &ApiResource) -> Informer<K> {
        let of = (TypeId::of::<K>(), resource.clone());
        let mut state = self.lock();
        if let Some(informer) = state.known(&of) {
            return informer;
        }
        let resync = self.options.resyncs.get(&of.0).copied().or(self.options.resync);
        let informer = self.builder::<K>(resource, resync).into_informer();
        let shared = Arc::new(informer.clone());
        state.informers.push(Entry { of, informer: Box::new(informer.clone()), shared });
        informer
    }

    /// Whether both are the same factory.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The informer of a type, if it was asked for before.
    pub(crate) fn known<K: Resource>(&self, resource: &ApiResource) -> Option<Informer<K>> {
        self.lock().known(&(TypeId::of::<K>(), resource.clone()))
    }

    fn builder<K: Resource>(&self, resource: &ApiResource, resync: Option<Duration>) -> InformerBuilder<K> {
        let Options { namespace, labels, fields, mode, silence, relist_every, .. } = &self.options;
        let api = match namespace {
            Some(namespace) => Api::<K>::namespaced_with(&self.client, namespace, resource),
            None => Api::<K>::all_with(&self.client, resource),
        };
        let builder = Informer::builder(api);
        let builder = builder.mode(*mode).labels(labels).fields(fields);
        // Zero is the default of both.
        let builder = builder.silence(*silence).relist_every(*relist_every);
        match resync {
            Some(period) => builder.resync(period),
            None => builder,
        }
    }

    /// Starts each informer that was asked for and is not started yet. May be called again for later ones.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn start(&self, stop: &Stop) -> Result<()> {
        self.each().iter().try_for_each(|informer| informer.start(stop))
    }

    /// Waits until each informer that was asked for has [synced](Informer::wait_for_sync), for at most `timeout` in
    /// all.
    ///
    /// # Errors
    /// If some have not: the message names each of them, and says why.
    pub fn wait_for_sync(&self, timeout: Duration) -> Result<()> {
        let deadline = self.client.clock().deadline(timeout);
        let failed: Vec<_> =
            self.each().iter().filter_map(|informer| informer.wait_until(deadline, timeout).err()).collect();
        match failed.len() {
            0 => Ok(()),
            1 => failed.into_iter().next().map_or(Ok(()), Err),
            _ if failed.iter().all(Error::is_stopped) => Err(Error::stopped()),
            _ => {
                let all: Vec<_> = failed.iter().map(ToString::to_string).collect();
                Err(Error::new(Kind::Timeout, all.join("; ")))
            }
        }
    }

    /// How its informers fare, in one piece: fit for liveness and readiness probes.
    ///
    /// ```no_run
    /// # let factory = listwatch::InformerFactory::new(&listwatch::Client::try_default()?);
    /// let fitness = factory.health();
    /// let (healthz, readyz) = (fitness.is_live(), fitness.is_ready());
    /// # Ok::<(), listwatch::Error>(())
    /// ```
    #[must_use]
    pub fn health(&self) -> Fitness {
        let informers = self.each().iter().map(|informer| informer.fitness()).collect();
        let silence = Some(self.options.silence).filter(|silence| !silence.is_zero());
        let limit = silence.unwrap_or(SILENCE).saturating_add(SLACK);
        Fitness { informers, at: self.client.clock().now(), limit }
    }

    /// Waits until the threads of all its informers have ended, which they do once stopped.
    pub fn join(&self) {
        self.each().iter().for_each(|informer| informer.join());
    }

    /// Without the lock, as what is done with them may wait.
    fn each(&self) -> Vec<Arc<dyn Running>> {
        self.lock().informers.iter().map(|entry| entry.shared.clone()).collect()
    }

    /// Held for a moment only, with no other lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for InformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerFactory").field("options", &self.options).finish_non_exhaustive()
    }
}
