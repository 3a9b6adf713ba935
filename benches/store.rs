//! What it costs to keep 10,000 pods: a change of one, a whole list, and reading.
//!
//! With one index a change should take two or three microseconds and a list one or two for each object, whether it brings
//! anything new or not, as the index is made anew; `get` some hundred nanoseconds; reading a list as long as it takes to
//! clone that many `Arc`s.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod pods;

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use listwatch::cache::{Delta, Store, StoreWriter};
use listwatch::types::Pod;
use listwatch::{ObjectKey, Resource};

const PODS: usize = 10_000;

/// All pods, at a version that is told in thousands.
fn all(version: usize) -> Vec<Arc<Pod>> {
    (0..PODS).map(|i| Arc::new(serde_json::from_str(&pods::text(i, version * 1000)).unwrap())).collect()
}

fn list_of(items: Vec<Arc<Pod>>) -> Delta<Pod> {
    Delta::Replace { items, unfit: Vec::new(), resource_version: "1".into(), went_back: false }
}

fn empty() -> (Store<Pod>, StoreWriter<Pod>) {
    let (store, writer) = Store::new();
    let app = |pod: &Pod| pod.label("app.kubernetes.io/name").map(str::to_owned).into_iter().collect();
    store.add_index("app", app).unwrap();
    (store, writer)
}

fn filled(items: &[Arc<Pod>]) -> (Store<Pod>, StoreWriter<Pod>) {
    let (store, mut writer) = empty();
    writer.apply(list_of(items.to_vec()));
    (store, writer)
}

fn benches(c: &mut Criterion) {
    let (old, new) = (all(1), all(2));
    let mut group = c.benchmark_group("store of 10,000");
    group.sample_size(20);

    let (_, mut writer) = filled(&old);
    let mut changes = new.iter().chain(&old).cycle();
    group.bench_function("change of one", |b| {
        b.iter(|| writer.apply(Delta::Upsert(changes.next().unwrap().clone())));
    });
    group.bench_function("fill", |b| {
        b.iter_batched(
            || (empty(), list_of(old.clone())),
            |((store, mut writer), list)| (writer.apply(list), store, writer),
            BatchSize::PerIteration,
        );
    });
    let (store, mut writer) = filled(&old);
    group.bench_function("list with nothing new", |b| {
        b.iter_batched(|| list_of(old.clone()), |list| writer.apply(list), BatchSize::PerIteration);
    });
    let mut lists = [&new, &old].into_iter().cycle();
    group.bench_function("list with all changed", |b| {
        b.iter_batched(
            || list_of(lists.next().unwrap().clone()),
            |list| writer.apply(list),
            BatchSize::PerIteration,
        );
    });

    let keys: Vec<ObjectKey> = old.iter().map(|pod| pod.key()).collect();
    let mut next = keys.iter().step_by(7).cycle();
    group.bench_function("get", |b| b.iter(|| black_box(store.get(next.next().unwrap()).unwrap())));
    group.bench_function("list of all", |b| b.iter(|| black_box(store.list())));
    group.bench_function("list of a namespace (500)", |b| b.iter(|| black_box(store.list_namespace("ns-3"))));
    group.bench_function("list by index (104)", |b| {
        b.iter(|| black_box(store.by_index("app", "app-3").unwrap()))
    });
    group.finish();
}

criterion_group!(store, benches);
criterion_main!(store);
