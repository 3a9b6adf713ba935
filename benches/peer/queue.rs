//! What the workqueue costs, as `peers/client-go/queue.go` asks client-go's.
//!
//! ```text
//! single   one thread: a million times add, get, done over 10,000 keys; the queue is empty in between
//! fill     one thread: add 10,000 keys, then get and done them all, a hundred times over
//! mpmc     4 producers add a million keys (10,000 distinct, each producer a quarter of the adds over all keys), 4 workers
//!          get and done. Adds of a key that waits are merged, so that fewer are processed
//! after    10,000 keys by add_after, delays 10 ms to 2 s evenly: how late is each
//! backoff  1,000 keys, each added rate limited 8 times (5 ms doubling, so 5 .. 640 ms): how late is each
//! ```

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use listwatch::workqueue::ItemExponentialFailure;
use listwatch::{ObjectKey, Stop, WorkQueue};

use crate::proc::{cpu, quantiles};

const KEYS: usize = 10_000;
const OPS: usize = 1_000_000;

pub(crate) fn run(what: &str) {
    let key = |i| format!("ns-{}/app-{}-{i}", i % 20, i % 97).parse().unwrap();
    let keys: Vec<ObjectKey> = (0..KEYS).map(key).collect();
    // Only the exponential limiter: the default one adds a token bucket of 10 a second, which is policy and no accuracy.
    let limiter = ItemExponentialFailure::new(Duration::from_millis(5), Duration::from_secs(1000));
    let (queue, stop) = (WorkQueue::new(limiter), Stop::new());
    let (start, before) = (Instant::now(), cpu());
    match what {
        "single" => {
            for i in 0..OPS {
                queue.add(keys[i % KEYS].clone());
                take(&queue, &stop);
            }
            report(what, OPS, start, cpu() - before);
        }
        "fill" => {
            for _ in 0..OPS / KEYS {
                keys.iter().for_each(|key| queue.add(key.clone()));
                (0..KEYS).for_each(|_| take(&queue, &stop));
            }
            report(what, OPS, start, cpu() - before);
        }
        "mpmc" => mpmc(&keys, &queue, &stop),
        "after" => {
            let mut due = HashMap::with_capacity(KEYS);
            for (i, key) in keys.iter().enumerate() {
                let delay =
                    Duration::from_millis(10) + i as u32 * (Duration::from_millis(1990) / KEYS as u32);
                due.insert(key.clone(), Instant::now() + delay);
                queue.add_after(key.clone(), delay);
            }
            let mut late = Late::default();
            for _ in 0..KEYS {
                let key = queue.get(&stop).unwrap();
                late.came(due[&key]);
                queue.done(&key);
            }
            late.report(what, cpu() - before);
        }
        "backoff" => {
            const ITEMS: usize = 1000;
            const ROUNDS: u32 = 8;
            let mut due = HashMap::with_capacity(ITEMS);
            let retry = |key: &ObjectKey, due: &mut HashMap<ObjectKey, Instant>| {
                let delay = Duration::from_millis(5) * (1 << queue.num_requeues(key));
                due.insert(key.clone(), Instant::now() + delay);
                queue.add_rate_limited(key.clone());
            };
            keys[..ITEMS].iter().for_each(|key| retry(key, &mut due));
            let mut late = Late::default();
            for _ in 0..ITEMS * ROUNDS as usize {
                let key = queue.get(&stop).unwrap();
                late.came(due[&key]);
                if queue.num_requeues(&key) < ROUNDS {
                    retry(&key, &mut due);
                }
                queue.done(&key);
            }
            late.report(what, cpu() - before);
        }
        _ => panic!("queue single, fill, mpmc, after or backoff"),
    }
}

fn take(queue: &WorkQueue<ObjectKey>, stop: &Stop) {
    let key = queue.get(stop).unwrap();
    queue.done(&key);
}

fn mpmc(keys: &[ObjectKey], queue: &WorkQueue<ObjectKey>, stop: &Stop) {
    let (start, before) = (Instant::now(), cpu());
    let processed = thread::scope(|scope| {
        let work = || {
            let mut count = 0;
            while let Some(key) = queue.get(stop) {
                queue.done(&key);
                count += 1;
            }
            count
        };
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        let produce =
            |p: usize| move || (0..OPS / 4).for_each(|i| queue.add(keys[(i + p * KEYS / 4) % KEYS].clone()));
        let producers: Vec<_> = (0..4).map(|p| scope.spawn(produce(p))).collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        queue.shut_down(); // workers take what waits, then end
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    report("mpmc", processed, start, cpu() - before);
}

fn report(what: &str, processed: usize, start: Instant, cpu: f64) {
    let wall = start.elapsed().as_secs_f64();
    let (per_s, each) = (OPS as f64 / wall, cpu / OPS as f64 * 1e9);
    println!(
        "{what} adds={OPS} processed={processed} wall={wall:.3} cpu={cpu:.3} adds_per_s={per_s:.0} cpu_ns_per_add={each:.0}"
    );
}

/// How late each came, and how many were early.
#[derive(Default)]
struct Late {
    nanos: Vec<u64>,
    early: usize,
}

impl Late {
    fn came(&mut self, due: Instant) {
        let now = Instant::now();
        self.early += usize::from(now < due);
        self.nanos.push(now.saturating_duration_since(due).as_nanos() as u64);
    }

    fn report(mut self, what: &str, cpu: f64) {
        let n = self.nanos.len();
        println!("{what} n={n} early={} {} cpu={cpu:.3}", self.early, quantiles(&mut self.nanos));
    }
}
