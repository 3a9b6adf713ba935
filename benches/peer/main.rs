//! What listwatch costs, in the form that `benches/peers/run` takes: it prints one line a phase, `phase key=value …`.
//!
//! ```text
//! peer [-variant V] [-mode M] sync N          sync N pods, then settle
//!                             events N M      sync, then take M updates sent at once
//!                             latency N M     sync, then take M updates at 500/s: bench/sent to handler
//!                             controller N M  the same to a worker that takes the key from a queue and reads the cache
//!                             relist N K      sync, then K forced relists: peaks over settled memory
//!                             many I [P]      I informers on namespaces P0 .. P(I-1); P is "ns-"
//!                             idle            one informer on namespace ns-0, idle for 20 s
//! peer queue single|fill|mpmc|after|backoff   see queue.rs
//! peer download N | fill N                    see cluster.rs
//! ```
//!
//! V: pod (default: the projection `types::Pod`), object (whole objects). M: list (default: pages of 500), cached,
//! watchlist. `BENCH_SERVER` names the load server; without it the kubeconfig names one, over TLS.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)] // a measuring program may end so
#![allow(missing_docs)]

mod cluster;
#[path = "../pods/mod.rs"]
mod pods;
mod proc;
mod queue;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::bounded;
use listwatch::client::{Method, RawRequest};
use listwatch::config::Config;
use listwatch::types::Pod;
use listwatch::{
    Api, ApiResource, Client, Handlers, Informer, ListMode, Object, ObjectKey, RateLimiter, Resource, Scope,
    Stop, WorkQueue, enqueue,
};
use proc::{cpu, memory, quantiles, switches};

fn main() {
    let (mut variant, mut mode) = ("pod".to_owned(), "list".to_owned());
    let mut words = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-variant" => variant = args.next().expect("a variant"),
            "-mode" => mode = args.next().expect("a mode"),
            _ => words.push(arg),
        }
    }
    let mode = match mode.as_str() {
        "list" => ListMode::Paged(500),
        "cached" => ListMode::Cached,
        "watchlist" => ListMode::WatchList,
        other => panic!("no mode {other}"),
    };
    let number = || words.get(1).and_then(|word| word.parse().ok()).expect("usage: see the top of main.rs");
    match words.first().map(String::as_str) {
        Some("queue") => return queue::run(words.get(1).map_or("", String::as_str)),
        Some("download") => return cluster::download(&client(), number()),
        Some("fill") => return cluster::fill(&client(), number()),
        _ => {}
    }
    let bench = Bench { client: client(), mode, stop: Stop::new(), start: Instant::now() };
    match variant.as_str() {
        "pod" => bench.run::<Pod>(&words),
        "object" => bench.run::<Object>(&words),
        other => panic!("no variant {other}"),
    }
}

fn client() -> Client {
    match std::env::var("BENCH_SERVER") {
        Ok(url) => Client::new(Config::new(&url).unwrap()).unwrap(),
        Err(_) => Client::try_default().unwrap(),
    }
}

struct Bench {
    client: Client,
    mode: ListMode,
    stop: Stop,
    start: Instant,
}

const PODS: ApiResource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);

impl Bench {
    fn run<K: Resource>(&self, words: &[String]) {
        let number =
            |at: usize| words.get(at).and_then(|w| w.parse().ok()).expect("usage: see the top of main.rs");
        match words.first().map(String::as_str) {
            Some("sync") => {
                let _informer = self.sync::<K>(number(1), |_| {});
                sleep(Duration::from_secs(3));
                println!("settled cpu={:.3} {}", cpu(), memory());
            }
            Some("events") => self.events::<K>(number(1), number(2)),
            Some("latency") => self.latency::<K>(number(1), number(2)),
            Some("controller") => self.controller::<K>(number(1), number(2)),
            Some("relist") => self.relist::<K>(number(1), number(2)),
            Some("many") => self.many::<K>(number(1), words.get(2).map_or("ns-", String::as_str)),
            Some("idle") => self.idle::<K>(),
            _ => panic!("usage: see the top of main.rs"),
        }
        self.stop.stop();
    }

    fn informer<K: Resource>(&self, namespace: Option<&str>) -> Informer<K> {
        let api = match namespace {
            Some(namespace) => Api::<K>::namespaced_with(&self.client, namespace, &PODS),
            None => Api::<K>::all_with(&self.client, &PODS),
        };
        Informer::builder(api).mode(self.mode).build().unwrap()
    }

    /// An informer whose handler has seen `want` pods.
    fn sync<K: Resource>(
        &self,
        want: usize,
        mut update: impl FnMut(&Arc<K>) + Send + 'static,
    ) -> Informer<K> {
        let informer = self.informer::<K>(None);
        let (done, all) = bounded(1);
        let mut adds = 0;
        let handler = Handlers::new()
            .on_add(move |_, _| {
                adds += 1;
                if adds == want {
                    done.send(Instant::now()).unwrap();
                }
            })
            .on_update(move |_, new| update(new));
        informer.add_handler(handler).unwrap();
        informer.start(&self.stop).unwrap();
        let wall = all.recv().unwrap() - self.start;
        informer.wait_for_sync(Duration::from_secs(60)).unwrap();
        let n = informer.lister().store().len();
        println!("synced n={n} wall={:.3} cpu={:.3} {}", wall.as_secs_f64(), cpu(), memory());
        informer
    }

    fn control(&self, path: &str) -> String {
        self.client
            .with_timeout(Duration::from_secs(300))
            .request_text(&RawRequest::new(Method::Get, format!("/bench/{path}")))
            .unwrap()
    }

    fn stat(&self, key: &str) -> usize {
        let stats = self.control("stats");
        let value = stats.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
        value.unwrap_or(0)
    }

    fn events<K: Resource>(&self, n: usize, m: usize) {
        let (done, end) = bounded(1);
        let (mut count, mut first) = (0, None);
        let _informer = self.sync::<K>(n, move |_| {
            count += 1;
            first.get_or_insert_with(Instant::now);
            if count == m {
                done.send((first.unwrap(), Instant::now())).unwrap();
            }
        });
        let before = cpu();
        self.control(&format!("burst?n={m}"));
        let (first, last) = end.recv().unwrap();
        let (wall, spent) = ((last - first).as_secs_f64(), cpu() - before);
        println!(
            "events n={m} wall={wall:.3} cpu={spent:.3} per_s={:.0} cpu_us_per_event={:.1} {}",
            m as f64 / wall,
            spent / m as f64 * 1e6,
            memory()
        );
    }

    fn latency<K: Resource>(&self, n: usize, m: usize) {
        let (lag, lags) = bounded(m);
        let _informer = self.sync::<K>(n, move |pod| {
            if let Some(lagged) = lag_of(&**pod) {
                let _ = lag.try_send(lagged);
            }
        });
        self.paced("latency", m, || lags.iter().take(m).collect());
    }

    fn controller<K: Resource>(&self, n: usize, m: usize) {
        let queue = WorkQueue::<ObjectKey>::new(RateLimiter::default());
        let informer = self.sync::<K>(n, |_| {});
        let lister = informer.lister();
        informer.add_handler(enqueue(&queue)).unwrap().wait_for_sync(Duration::from_secs(60)).unwrap();
        let reconcile = || {
            let key = queue.get(&self.stop).unwrap();
            let lag = lister.get_key(&key).and_then(|pod| lag_of(&*pod));
            queue.forget(&key);
            queue.done(&key);
            lag
        };
        (0..n).for_each(|_| _ = reconcile()); // each pod is reconciled once first, as with the peers
        self.paced("controller", m, || std::iter::repeat_with(reconcile).flatten().take(m).collect());
    }

    fn paced(&self, phase: &str, m: usize, take: impl FnOnce() -> Vec<u64>) {
        sleep(Duration::from_secs(1));
        let before = cpu();
        let path = format!("burst?n={m}&rate=500");
        let mut lags = std::thread::scope(|scope| {
            scope.spawn(|| self.control(&path));
            take()
        });
        let spent = cpu() - before;
        println!(
            "{phase} n={m} {} cpu={spent:.3} cpu_us_per_event={:.1}",
            quantiles(&mut lags),
            spent / m as f64 * 1e6
        );
    }

    fn relist<K: Resource>(&self, n: usize, k: usize) {
        let _informer = self.sync::<K>(n, |_| {});
        sleep(Duration::from_secs(3));
        let (settled, first) = (proc::resident_mb(), proc::peak_mb());
        println!("settled over_first_mb={:.1} {}", first - settled, memory());
        proc::forget_peak();
        let (start, before, base) = (Instant::now(), cpu(), self.stat("syncs"));
        for round in 1..=k {
            while self.stat("ready") == 0 {
                sleep(Duration::from_millis(50));
            }
            sleep(Duration::from_secs(1));
            self.control("expire");
            while self.stat("syncs") < base + round {
                sleep(Duration::from_millis(50));
            }
        }
        sleep(Duration::from_secs(3));
        let (wall, each) = (start.elapsed().as_secs_f64(), (cpu() - before) / k as f64);
        let over = proc::peak_mb() - settled;
        println!(
            "relisted k={k} wall={wall:.1} cpu_per_relist={each:.3} over_relists_mb={over:.1} {}",
            memory()
        );
    }

    fn many<K: Resource>(&self, n: usize, prefix: &str) {
        let informers: Vec<_> = (0..n).map(|at| self.informer::<K>(Some(&format!("{prefix}{at}")))).collect();
        informers.iter().for_each(|informer| informer.start(&self.stop).unwrap());
        informers.iter().for_each(|informer| informer.wait_for_sync(Duration::from_secs(60)).unwrap());
        println!("synced n={n} wall={:.3} cpu={:.3} {}", self.start.elapsed().as_secs_f64(), cpu(), memory());
        sleep(Duration::from_secs(3));
        println!("settled cpu={:.3} {}", cpu(), memory());
    }

    fn idle<K: Resource>(&self) {
        let informer = self.informer::<K>(Some("ns-0"));
        let events = Arc::new(AtomicUsize::new(0));
        let counted = events.clone();
        let handler = Handlers::new().on_update(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        informer.add_handler(handler).unwrap();
        informer.start(&self.stop).unwrap();
        informer.wait_for_sync(Duration::from_secs(60)).unwrap();
        sleep(Duration::from_secs(2));
        let before = (switches(), cpu());
        sleep(Duration::from_secs(20));
        let (n, ms) = (informer.lister().store().len(), (cpu() - before.1) * 1e3);
        println!("idle objects={n} switches={} cpu_ms={ms:.1} {}", switches() - before.0, memory());
    }
}

/// Nanoseconds since the server sent this object; `None` if it is no part of the burst.
fn lag_of(object: &impl Resource) -> Option<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    Some(now.saturating_sub(object.annotation("bench/sent")?.parse().ok()?))
}
