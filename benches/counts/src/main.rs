//! Work to be counted under valgrind by `benches/counts/check`, the same in each run: `counts WORKLOAD [prepare]`. With
//! `prepare` it ends when the work would begin, so that the difference of two runs is the work alone.
//!
//! It ends without dropping what it has, so that what is in use at the end is what the work keeps.
#![forbid(unsafe_code)]

use std::io::Read;
use std::process::exit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use listwatch::cache::{Delta, Events, ListWatch, Store, StoreWriter};
use listwatch::types::Pod;
use listwatch::wire::{Expect, ListDecoder, WatchDecoder};
use listwatch::{
    Handlers, Informer, ListMeta, ListMode, ListParams, Object, ObjectKey, RateLimiter, Resource, Result,
    Stop, WatchEvent, WatchParams, WorkQueue,
};

mod pods;

/// Objects in each workload, and items in a queue.
const N: usize = 2_000;
/// What a socket gives at once.
const READ: usize = 16 << 10;

fn main() {
    let mut args = std::env::args().skip(1);
    let workload = args.next().unwrap_or_default();
    let go = Go { stops_here: args.next().as_deref() == Some("prepare") };
    match workload.as_str() {
        "ignored" => ignored(&go),
        "watch-pod" => watch::<Pod>(&go),
        "watch-object" => watch::<Object>(&go),
        "list-pod" => list::<Pod>(&go),
        "list-object" => list::<Object>(&go),
        "keep-pod" => keep::<Pod>(&go),
        "keep-object" => keep::<Object>(&go),
        "update" => update(&go),
        "queue" => queue(&go),
        "informer-pod" => informer::<Pod>(&go),
        "informer-object" => informer::<Object>(&go),
        other => {
            eprintln!("no workload {other:?}");
            exit(2);
        }
    }
    exit(0);
}

struct Go {
    stops_here: bool,
}

impl Go {
    /// All is prepared.
    fn go(&self) {
        if self.stops_here {
            exit(0);
        }
    }
}

/// The floor: what serde_json takes to skip the lines of a watch.
fn ignored(go: &Go) {
    let lines = lines(1);
    let lines: Vec<_> = lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), N);
    go.go();
    for line in lines {
        serde_json::from_slice::<serde::de::IgnoredAny>(line).unwrap();
    }
}

/// Decode the lines of a watch, and drop the objects.
fn watch<K: Resource>(go: &Go) {
    let lines = lines(1);
    go.go();
    let mut count = 0;
    for event in WatchLines::<K>::new(lines) {
        drop(event.unwrap());
        count += 1;
    }
    assert_eq!(count, N);
}

/// Decode a list, and drop the objects.
fn list<K: Resource>(go: &Go) {
    let text = list_text();
    go.go();
    let mut count = 0;
    decode_list::<K>(text, &mut |object| {
        count += 1;
        object.map(drop)
    })
    .unwrap();
    assert_eq!(count, N);
}

/// Decode a list and keep it in a store: what is in use at the end is what the objects take.
fn keep<K: Resource>(go: &Go) {
    let text = list_text();
    go.go();
    std::mem::forget(filled::<K>(text));
}

/// A new state of each object in a store with an index.
fn update(go: &Go) {
    let (store, mut writer) = filled::<Pod>(list_text());
    store.add_index("node", |pod| pod.spec.node_name.iter().cloned().collect()).unwrap();
    let mut new = Vec::new();
    for event in WatchLines::<Pod>::new(lines(2)) {
        if let WatchEvent::Modified(pod) = event.unwrap() {
            new.push(Arc::new(pod));
        }
    }
    assert_eq!((store.len(), new.len()), (N, N));
    go.go();
    for pod in new {
        assert_eq!(writer.apply(Delta::Upsert(pod)).len(), 1);
    }
    std::mem::forget((store, writer));
}

/// A key through a queue, many times.
fn queue(go: &Go) {
    let keys: Vec<_> = (0..N).map(|i| ObjectKey::namespaced("default", &format!("web-{i}"))).collect();
    let (queue, stop) = (WorkQueue::<ObjectKey>::new(RateLimiter::default()), Stop::new());
    go.go();
    // Batches of a hundred: no more are queued at a time.
    for batch in keys.chunks(100) {
        batch.iter().for_each(|key| queue.add(key.clone()));
        for _ in batch {
            let key = queue.get(&stop).unwrap();
            queue.forget(&key);
            queue.done(&key);
        }
    }
    assert_eq!(queue.len(), 0);
}

/// All of it: an informer lists, then takes a new state of each object; a handler hears of each.
fn informer<K: Resource>(go: &Go) {
    let stop = Stop::new();
    let script = Script { list: list_text(), watch: Mutex::new(Some(lines(2))) };
    go.go();
    let informer = Informer::<K>::builder(script).mode(ListMode::Cached).build().unwrap();
    let (done, all_updated) = sync_channel(1);
    let adds = Arc::new(AtomicUsize::new(0));
    let (counted, mut updates) = (adds.clone(), 0);
    let handler = Handlers::new()
        .on_add(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
        })
        .on_update(move |_, _| {
            updates += 1;
            if updates == N {
                done.send(()).unwrap();
            }
        });
    informer.add_handler(handler).unwrap();
    informer.start(&stop).unwrap();
    all_updated.recv_timeout(Duration::from_secs(300)).unwrap();
    assert_eq!(adds.load(Ordering::Relaxed), N);
    std::mem::forget(informer);
}

/// A server without a network: a list, then the lines of a watch, then silence.
struct Script {
    list: &'static [u8],
    watch: Mutex<Option<&'static [u8]>>,
}

impl<K: Resource> ListWatch<K> for Script {
    fn list(
        &self,
        _: &ListParams,
        _: &Stop,
        sink: &mut dyn FnMut(Result<K>) -> Result<()>,
    ) -> Result<ListMeta> {
        decode_list(self.list, sink)
    }

    fn watch(&self, _: &WatchParams, stop: &Stop) -> Result<Events<K>> {
        let lines = self.watch.lock().unwrap().take().unwrap_or_default();
        let stop = stop.clone();
        let silence = std::iter::from_fn(move || {
            stop.wait();
            None
        });
        Ok(Box::new(WatchLines::new(lines).chain(silence)))
    }

    fn describe(&self) -> String {
        "pods of a script".into()
    }
}

fn filled<K: Resource>(list: &[u8]) -> (Store<K>, StoreWriter<K>) {
    let (store, mut writer) = Store::new();
    let mut items = Vec::new();
    let meta = decode_list::<K>(list, &mut |object| {
        items.push(Arc::new(object?));
        Ok(())
    })
    .unwrap();
    let resource_version = meta.resource_version;
    writer.apply(Delta::Replace { items, unfit: Vec::new(), resource_version, went_back: false });
    assert_eq!(store.len(), N);
    (store, writer)
}

/// As the client does it, the socket being `text`.
fn decode_list<K: Resource>(
    mut text: &[u8],
    sink: &mut dyn FnMut(Result<K>) -> Result<()>,
) -> Result<ListMeta> {
    let mut decoder = ListDecoder::<K>::new(Expect::any());
    let mut gathered = 0;
    loop {
        let space = decoder.space();
        let amount = space.len().min(READ);
        let amount = text.read(&mut space[..amount]).unwrap();
        decoder.filled(amount);
        gathered += amount;
        if amount == 0 || gathered >= 128 << 10 {
            while let Some(item) = decoder.next_item() {
                sink(item)?;
            }
            gathered = 0;
        }
        if amount == 0 {
            return decoder.finish();
        }
    }
}

/// The events in the lines of a watch, read as from a socket.
struct WatchLines<K> {
    lines: &'static [u8],
    decoder: WatchDecoder<K>,
}

impl<K: Resource> WatchLines<K> {
    fn new(lines: &'static [u8]) -> Self {
        Self { lines, decoder: WatchDecoder::new(Expect::any()) }
    }
}

impl<K: Resource> Iterator for WatchLines<K> {
    type Item = Result<WatchEvent<K>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.decoder.next_event() {
                return Some(event);
            }
            let space = self.decoder.space();
            let amount = space.len().min(READ);
            let amount = self.lines.read(&mut space[..amount]).unwrap();
            if amount == 0 {
                return None;
            }
            self.decoder.filled(amount);
        }
    }
}

/// The lines of a watch in which each object has a new state, for the `round`th time. Never freed: that would be told as
/// memory that the work gives back.
fn lines(round: u64) -> &'static [u8] {
    let mut lines = Vec::with_capacity(N * 12 * 1024);
    for i in 0..N as u64 {
        lines.extend_from_slice(br#"{"type":"MODIFIED","object":"#);
        lines.extend_from_slice(pods::pod(i, round * 1_000_000 + i, true).as_bytes());
        lines.extend_from_slice(b"}\n");
    }
    lines.leak()
}

/// All objects in a list, sorted by name as a server does it. Never freed either.
fn list_text() -> &'static [u8] {
    let mut items: Vec<_> = (0..N as u64).map(|i| pods::pod(i, 1_000_000 + i, false)).collect();
    items.sort_by(|a, b| a[..200].cmp(&b[..200]));
    let mut text =
        br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1500000"},"items":["#.to_vec();
    text.extend_from_slice(items.join(",").as_bytes());
    text.extend_from_slice(b"]}");
    text.leak()
}
