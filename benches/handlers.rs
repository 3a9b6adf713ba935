//! What it costs to bring an event from a watch to a handler: reading thread, FIFO, store, handler's thread; without
//! decoding and without a server.
//!
//! One event in a full stream should take one or two microseconds; one alone as long as it takes to wake three threads,
//! some tens.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};
use listwatch::cache::{Events, ListWatch};
use listwatch::types::ConfigMap;
use listwatch::{Handlers, Informer, ListMeta, ListParams, Resource, Result, Stop, WatchEvent, WatchParams};

/// A server with nothing in it, whose only watch tells what comes through a channel.
struct Script(Receiver<WatchEvent<ConfigMap>>);

impl ListWatch<ConfigMap> for Script {
    fn list(
        &self,
        _: &ListParams,
        _: &Stop,
        _: &mut dyn FnMut(Result<ConfigMap>) -> Result<()>,
    ) -> Result<ListMeta> {
        Ok(ListMeta { resource_version: "1".into(), ..ListMeta::default() })
    }

    fn watch(&self, _: &WatchParams, stop: &Stop) -> Result<Events<ConfigMap>> {
        let (events, stop) = (self.0.clone(), stop.clone());
        Ok(Box::new(std::iter::from_fn(move || {
            select! {
                recv(events) -> event => event.ok().map(Ok),
                recv(stop.signal()) -> _ => None,
            }
        })))
    }

    fn describe(&self) -> String {
        "configmaps".into()
    }
}

/// An informer whose handler tells when an object of the version that is waited for has come.
struct Running {
    events: Sender<WatchEvent<ConfigMap>>,
    awaited: Arc<AtomicU64>,
    came: Receiver<()>,
    version: u64,
    stop: Stop,
    informer: Informer<ConfigMap>,
}

impl Running {
    fn new() -> Self {
        let (events, script) = unbounded();
        let (tell, came) = bounded(1);
        let (awaited, stop) = (Arc::new(AtomicU64::new(0)), Stop::new());
        let informer = Informer::builder(Script(script)).build().unwrap();
        let last = awaited.clone();
        let told = move |object: &Arc<ConfigMap>| {
            if object.resource_version().parse() == Ok(last.load(Ordering::Acquire)) {
                tell.send(()).unwrap();
            }
        };
        let added = told.clone();
        let handler = Handlers::new().on_add(move |new, _| added(new)).on_update(move |_, new| told(new));
        informer.add_handler(handler).unwrap();
        informer.start(&stop).unwrap();
        informer.wait_for_sync(Duration::from_secs(20)).unwrap();
        Self { events, awaited, came, version: 1, stop, informer }
    }

    /// How long it takes from the first of so many events to the handler's call for the last. They are of a thousand
    /// objects in turn.
    fn bring(&mut self, count: u64) -> Duration {
        let event = |version: u64| {
            let text = format!(
                r#"{{"metadata":{{"namespace":"a","name":"cm-{n}","uid":"{n}","resourceVersion":"{version}"}},"data":{{"key":"value"}}}}"#,
                n = version % 1000
            );
            WatchEvent::Modified(serde_json::from_str(&text).unwrap())
        };
        let events: Vec<_> = (self.version + 1..=self.version + count).map(event).collect();
        self.version += count;
        self.awaited.store(self.version, Ordering::Release);
        let start = Instant::now();
        events.into_iter().for_each(|event| self.events.send(event).unwrap());
        self.came.recv_timeout(Duration::from_secs(20)).unwrap();
        start.elapsed()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        self.informer.join();
    }
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("event to handler");
    let mut running = Running::new();
    group.bench_function("in a stream", |b| {
        b.iter_custom(|count| {
            let whole = (0..count / 10_000).map(|_| running.bring(10_000)).sum::<Duration>();
            let rest = count % 10_000;
            whole + if rest == 0 { Duration::ZERO } else { running.bring(rest) }
        });
    });
    group.bench_function("alone", |b| b.iter_custom(|count| (0..count).map(|_| running.bring(1)).sum()));
    group.finish();
}

criterion_group!(handlers, benches);
criterion_main!(handlers);
