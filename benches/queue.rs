//! What the workqueue costs for each item: added, taken and done.
//!
//! client-go takes 170 ns on one thread and 300 with four that add and four that take, in CPU time; this should be at
//! most half. Delays and limits run on a clock by hand, so that nothing waits.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

use std::thread;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use listwatch::workqueue::ItemExponentialFailure;
use listwatch::{Clock, ObjectKey, Stop, WorkQueue};

const KEYS: usize = 10_000;

fn keys() -> Vec<ObjectKey> {
    (0..KEYS).map(|i| format!("ns-{}/app-{}-{i}", i % 20, i % 97).parse().unwrap()).collect()
}

fn queue(clock: &Clock) -> WorkQueue<ObjectKey> {
    let limiter = ItemExponentialFailure::new(Duration::from_millis(5), Duration::from_secs(1000));
    WorkQueue::with_clock(limiter, clock.clone())
}

fn benches(c: &mut Criterion) {
    let (keys, stop) = (keys(), Stop::new());
    let mut group = c.benchmark_group("queue");

    let idle = queue(&Clock::system());
    let mut next = keys.iter().cycle();
    group.bench_function("1 thread", |b| {
        b.iter(|| {
            idle.add(next.next().unwrap().clone());
            let key = idle.get(&stop).unwrap();
            idle.done(&key);
        });
    });

    // Wall time of an add, with 8 threads on however many cores there are; adds of keys that wait are merged.
    group.bench_function("4 threads add, 4 take", |b| b.iter_custom(|adds| crowd(&keys, adds as usize)));

    let (clock, mut next) = (Clock::manual(), keys.iter().cycle());
    let delayed = queue(&clock);
    group.bench_function("after a delay", |b| {
        b.iter(|| {
            delayed.add_after(next.next().unwrap().clone(), Duration::from_millis(1));
            clock.advance(Duration::from_millis(1));
            let key = delayed.get(&stop).unwrap();
            delayed.done(&key);
        });
    });

    let (clock, mut next) = (Clock::manual(), keys.iter().cycle());
    let limited = queue(&clock);
    group.bench_function("rate limited", |b| {
        b.iter(|| {
            clock.advance(limited.add_rate_limited(next.next().unwrap().clone()));
            let key = limited.get(&stop).unwrap();
            limited.forget(&key);
            limited.done(&key);
        });
    });
    group.finish();
}

fn crowd(keys: &[ObjectKey], adds: usize) -> Duration {
    let (queue, stop) = (queue(&Clock::system()), Stop::new());
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(key) = queue.get(&stop) {
                    queue.done(&key);
                }
            });
        }
        let add = |first: usize| (first..adds).step_by(4).for_each(|i| queue.add(keys[i % KEYS].clone()));
        let producers: Vec<_> = (0..4).map(|first| scope.spawn(move || add(first))).collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        queue.shut_down(); // what waits is still taken
    });
    start.elapsed()
}

criterion_group!(workqueue, benches);
criterion_main!(workqueue);
