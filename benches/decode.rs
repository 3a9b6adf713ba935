//! What it costs to read a pod of 10.7 KB: a line of a watch, and one of a page of 500, as `Pod` and as `Object`.
//!
//! `skip` beside them is the floor: serde_json finds that the same bytes are JSON and keeps nothing. `Pod` should take at
//! most twice as long as that, `Object` at most four times.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod pods;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use listwatch::types::Pod;
use listwatch::wire::{Expect, ListDecoder, WatchDecoder};
use listwatch::{Object, Resource};
use serde::de::IgnoredAny;

const PAGE: usize = 500;

fn watch_line(c: &mut Criterion) {
    let line = format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", pods::text(7, 1000));
    let mut group = c.benchmark_group("watch line");
    group.throughput(Throughput::Bytes(line.len() as u64));
    group
        .bench_function("skip", |b| b.iter(|| serde_json::from_str::<IgnoredAny>(black_box(&line)).unwrap()));
    group.bench_function("Pod", |b| {
        let mut decoder = WatchDecoder::<Pod>::new(Expect::any());
        b.iter(|| event(&mut decoder, &line));
    });
    group.bench_function("Object", |b| {
        let mut decoder = WatchDecoder::<Object>::new(Expect::any());
        b.iter(|| event(&mut decoder, &line));
    });
    group.finish();
}

fn event<K: Resource>(decoder: &mut WatchDecoder<K>, line: &str) {
    decoder.feed(black_box(line).as_bytes());
    black_box(decoder.next_event().unwrap().unwrap());
}

fn list_page(c: &mut Criterion) {
    // The items of a list have no kind.
    let item = |i| pods::text(i, 1000).replacen("\"kind\":\"Pod\",\"apiVersion\":\"v1\",", "", 1);
    let items = (0..PAGE).map(item).collect::<Vec<_>>().join(",");
    let page = format!(
        "{{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"1\"}},\"items\":[{items}]}}\n"
    );
    let mut group = c.benchmark_group("page of 500");
    group.throughput(Throughput::Bytes(page.len() as u64)).sample_size(20);
    group
        .bench_function("skip", |b| b.iter(|| serde_json::from_str::<IgnoredAny>(black_box(&page)).unwrap()));
    group.bench_function("Pod", |b| b.iter(|| list::<Pod>(&page)));
    group.bench_function("Object", |b| b.iter(|| list::<Object>(&page)));
    group.finish();
}

/// As the client reads: into the decoder's own buffer, as much as it has space for.
fn list<K: Resource>(page: &str) {
    let mut decoder = ListDecoder::<K>::new(Expect::any());
    let (mut rest, mut count) = (black_box(page).as_bytes(), 0);
    while !rest.is_empty() {
        let space = decoder.space();
        let length = space.len().min(rest.len());
        space[..length].copy_from_slice(&rest[..length]);
        decoder.filled(length);
        rest = &rest[length..];
        while let Some(item) = decoder.next_item() {
            black_box(item.unwrap());
            count += 1;
        }
    }
    assert_eq!(count, PAGE);
    decoder.finish().unwrap();
}

criterion_group!(benches, watch_line, list_page);
criterion_main!(benches);
