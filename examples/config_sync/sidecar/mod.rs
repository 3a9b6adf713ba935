//! The sidecar: informers tell a queue which objects have changed, one worker makes the files what they say, and a thread
//! of its own tells the program beside it.

mod claims;
mod folder;
mod hook;
mod mirror;
mod settings;
mod tally;

#[path = "../../support/probes.rs"]
mod probes;

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::time::Duration;

use listwatch::metrics::Metrics;
use listwatch::types::{ConfigMap, Secret};
use listwatch::workqueue::ItemExponentialFailure;
use listwatch::{
    Api, Client, Handlers, Informer, ListParams, Map, ObjectMeta, Resource, Selector, StaticResource, Stop,
    WorkQueue,
};
use log::{info, warn};

use claims::{Kind, Object, Source};
use folder::Folder;
use hook::{Round, Teller};
use mirror::Mirror;
use probes::{Endpoints, Probes};
use settings::Namespaces;
pub(crate) use settings::Settings;
use tally::Tally;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// How often it is said why nothing has come yet.
const REMIND: Duration = Duration::from_secs(30);
/// How often a hook is tried where the program ends after it.
const TRIES: u32 = 5;

/// What can be asked of a sidecar while it runs: counts, and whether the first mirror is complete.
#[derive(Clone, Default)]
pub(crate) struct Status {
    tally: Tally,
    /// What the client, its informers and the queue count.
    metrics: Metrics,
}

impl Status {
    /// Serves it until stopped or dropped.
    pub(crate) fn serve(&self, at: impl ToSocketAddrs, stop: &Stop) -> io::Result<Probes> {
        let (counts, metrics, ready) = (self.tally.clone(), self.metrics.clone(), self.tally.clone());
        let endpoints = Endpoints {
            metrics: Box::new(move || metrics.to_prometheus_text() + &counts.text()),
            // Whatever is away, the files that are there are as good as any that a restart would find.
            healthz: Box::new(|| (true, "ok\n".into())),
            readyz: Box::new(move || match ready.ready.get() {
                1 => (true, "ok\n".into()),
                _ => (false, "the first mirror is not complete\n".into()),
            }),
        };
        Probes::serve(at, endpoints, stop)
    }
}

/// Mirrors until stopped, or once.
pub(crate) fn run(settings: Settings, client: &Client, stop: &Stop, status: &Status) -> Result<(), Failure> {
    let tally = &status.tally;
    let folder = Folder::open(&settings).map_err(|e| format!("FOLDER {}: {e}", settings.folder.display()))?;
    let mirror = Mirror::new(folder, tally.clone());
    info!("{} into {}", settings.selector, settings.folder.display());
    if settings.once {
        return once(&settings, client, stop, mirror, tally);
    }
    // Ends the threads however this function does.
    let own = stop.child();
    let done = follow(settings, &client.with_metrics(status.metrics.clone()), &own, mirror, tally);
    own.stop();
    done
}

fn once(
    settings: &Settings,
    client: &Client,
    stop: &Stop,
    mut mirror: Mirror,
    tally: &Tally,
) -> Result<(), Failure> {
    let client = &client.with_stop(stop);
    let mut objects = Vec::new();
    for namespace in namespaces(settings, client) {
        let params = ListParams::default().labels(&settings.selector);
        if settings.configmaps {
            let list = api::<ConfigMap>(client, namespace.as_deref()).list(&params)?;
            objects.extend(list.items.into_iter().map(|object| Object::ConfigMap(Arc::new(object))));
        }
        if settings.secrets {
            let list = api::<Secret>(client, namespace.as_deref()).list(&params)?;
            objects.extend(list.items.into_iter().map(|object| Object::Secret(Arc::new(object))));
        }
    }
    let by_source: HashMap<_, _> = objects.iter().map(|object| (object.source(), object)).collect();
    let find = |source: &Source| by_source.get(source).copied().cloned();
    let mut done = Ok(());
    for source in mirror.first(&objects, &find)? {
        match mirror.failure(&source) {
            // The next try would fail as this one.
            Some(trouble) if trouble.lasting => warn!("{source}: {}", trouble.why),
            Some(trouble) => done = Err(format!("{source}: {}", trouble.why).into()),
            None => {}
        }
    }
    let mut round = Round::of(if settings.skip_init || done.is_err() { &[] } else { &settings.hooks });
    // Before the program is there, as in an init container, nobody can be told: no failure.
    for tried in 1..=TRIES {
        let again = Some(Duration::from_secs(1 << tried)).filter(|_| tried < TRIES);
        round.run(again, tally, stop);
        if !round.left() || again.is_none_or(|delay| client.clock().sleep(delay, stop)) {
            break;
        }
    }
    done
}

fn follow(
    settings: Settings,
    client: &Client,
    stop: &Stop,
    mut mirror: Mirror,
    tally: &Tally,
) -> Result<(), Failure> {
    let limiter = ItemExponentialFailure::new(Duration::from_millis(50), Duration::from_secs(60));
    let queue = WorkQueue::<Source>::with_clock(limiter, client.clock().clone());
    if let Some(recorder) = client.recorder() {
        queue.report_to("config_sync", recorder);
    }
    let cache = Cache::start(&settings, client, &queue, stop)?;
    let hooks = settings.hooks;
    let teller = match hooks.is_empty() {
        true => None,
        false => Some(Teller::start(hooks, client.clock().clone(), tally.clone(), stop)?),
    };
    let tell = || teller.iter().for_each(Teller::changed);
    if cache.wait_for_sync(stop) {
        let find = |source: &Source| cache.find(source);
        for source in mirror.first(&cache.objects(), &find)? {
            retry(&queue, &mirror, source);
        }
        if !settings.skip_init {
            tell();
        }
        info!(
            "the first mirror is complete: {} files of {} objects, {} failing",
            tally.files.get(),
            tally.objects.get(),
            tally.failing.get()
        );
        // Whatever failed: one object does not keep a pod from starting.
        tally.ready.set(1);
        // One worker: this thread. Each key comes once for all that happened to its object meanwhile.
        while let Some(source) = queue.next(stop) {
            let (changed, failed) = mirror.follow(&source, &find);
            if !failed.contains(&source) {
                queue.forget(&source);
            }
            failed.into_iter().for_each(|source| retry(&queue, &mirror, source));
            if changed {
                tell();
            }
        }
    }
    stop.stop();
    cache.join();
    teller.into_iter().for_each(Teller::join);
    Ok(())
}

fn retry(queue: &WorkQueue<Source>, mirror: &Mirror, source: Source) {
    let why = mirror.failure(&source).map(|trouble| &*trouble.why).unwrap_or_default();
    let delay = queue.add_rate_limited(source.clone());
    warn!("{source}: {why}; again in {delay:?}");
}

/// The namespaces to read, each by itself; `None` is all at once.
fn namespaces(settings: &Settings, client: &Client) -> Vec<Option<String>> {
    match &settings.namespaces {
        Namespaces::All => vec![None],
        Namespaces::Own => vec![Some(client.config().namespace().to_owned())],
        Namespaces::Named(names) => names.iter().cloned().map(Some).collect(),
    }
}

fn api<K: StaticResource>(client: &Client, namespace: Option<&str>) -> Api<K> {
    match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    }
}

/// An informer for each kind and namespace.
struct Cache {
    configmaps: Vec<Informer<ConfigMap>>,
    secrets: Vec<Informer<Secret>>,
}

impl Cache {
    fn start(
        settings: &Settings,
        client: &Client,
        queue: &WorkQueue<Source>,
        stop: &Stop,
    ) -> Result<Self, Failure> {
        let mut cache = Self { configmaps: Vec::new(), secrets: Vec::new() };
        for namespace in namespaces(settings, client) {
            let namespace = namespace.as_deref();
            if settings.configmaps {
                let api = api(client, namespace);
                cache.configmaps.push(informer(
                    settings,
                    api,
                    Kind::ConfigMap,
                    |o: &mut ConfigMap| &mut o.metadata,
                    queue,
                    stop,
                )?);
            }
            if settings.secrets {
                let api = api(client, namespace);
                cache.secrets.push(informer(
                    settings,
                    api,
                    Kind::Secret,
                    |o: &mut Secret| &mut o.metadata,
                    queue,
                    stop,
                )?);
            }
        }
        Ok(cache)
    }

    /// `false` if stopped before.
    fn wait_for_sync(&self, stop: &Stop) -> bool {
        let configmaps = self.configmaps.iter().all(|informer| synced(informer, stop));
        configmaps && self.secrets.iter().all(|informer| synced(informer, stop))
    }

    fn find(&self, source: &Source) -> Option<Object> {
        match source.kind {
            Kind::ConfigMap => {
                self.configmaps.iter().find_map(|i| i.lister().get_key(&source.key)).map(Object::ConfigMap)
            }
            Kind::Earlier => None,
            Kind::Secret => {
                self.secrets.iter().find_map(|i| i.lister().get_key(&source.key)).map(Object::Secret)
            }
        }
    }

    fn objects(&self) -> Vec<Object> {
        let all = Selector::everything();
        let configmaps = self.configmaps.iter().flat_map(|i| i.lister().list(&all)).map(Object::ConfigMap);
        configmaps
            .chain(self.secrets.iter().flat_map(|i| i.lister().list(&all)).map(Object::Secret))
            .collect()
    }

    fn join(&self) {
        self.configmaps.iter().for_each(Informer::join);
        self.secrets.iter().for_each(Informer::join);
    }
}

/// A running one.
fn informer<K: StaticResource>(
    settings: &Settings,
    api: Api<K>,
    kind: Kind,
    metadata: fn(&mut K) -> &mut ObjectMeta,
    queue: &WorkQueue<Source>,
    stop: &Stop,
) -> Result<Informer<K>, Failure> {
    let annotation = settings.folder_annotation.clone();
    // `kubectl apply` keeps a second copy of all data in an annotation.
    let slim = move |mut object: K| {
        let metadata = metadata(&mut object);
        let folder = metadata.annotations.get(&annotation).map(str::to_owned);
        metadata.annotations = Map::new();
        if let Some(folder) = folder {
            metadata.annotations.insert(&annotation, &folder);
        }
        object
    };
    let informer = Informer::builder(api).labels(&settings.selector).transform(slim).build()?;
    let [added, updated, deleted] = [queue.clone(), queue.clone(), queue.clone()];
    let source = move |object: &K| Source { kind, key: object.key() };
    let handlers = Handlers::<K>::new()
        .on_add(move |object, _| added.add(source(object)))
        .on_update(move |_, object| updated.add(source(object)))
        .on_delete(move |gone| deleted.add(source(&gone.object)));
    informer.add_handler(handlers)?;
    informer.start(stop)?;
    Ok(informer)
}

/// Waits until all objects are there, as long as it takes: without them nothing can be said of any file.
fn synced<K: Resource>(informer: &Informer<K>, stop: &Stop) -> bool {
    while let Err(e) = informer.wait_for_sync(REMIND) {
        if stop.is_stopped() {
            return false;
        }
        warn!("{e}");
    }
    true
}
