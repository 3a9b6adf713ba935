//! Large lists that come again, from a server that makes them as they are read and keeps none.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use listwatch::cache::{Delta, Store};
use listwatch::types::Pod;
use listwatch::{Api, Client, Clock, Config, Handlers, Informer, ListMode, ListParams, Resource, Stop};
use serde_json::json;

use crate::{MIB, PATIENCE, alone, forget_peak, peak, resident};

const OBJECTS: usize = 20_000;
const RELISTS: usize = 5;
/// So many are another version in each list: one in a hundred, and the first.
const CHANGED: usize = OBJECTS / 100 + 1;

/// The text of any pod, about 4 KB, with marks for what differs.
fn template() -> String {
    let named = |prefix: &str, count: usize, value: &str| -> serde_json::Map<String, serde_json::Value> {
        (0..count).map(|n| (format!("{prefix}{n}"), value.into())).collect()
    };
    let fields: serde_json::Map<_, _> = (0..60).map(|n| (format!("f:field-number-{n}"), json!({}))).collect();
    let env: Vec<_> =
        (0..12).map(|n| json!({"name": format!("SETTING_{n}"), "value": "a value of some length"})).collect();
    let container =
        |name: &str| json!({"name": name, "image": format!("registry.example/{name}:1.2.3"), "env": env});
    let condition =
        |name: &str| json!({"type": name, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = |name: &str| json!({"name": name, "ready": true, "restartCount": 0, "image": "x", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}});
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    let statuses = ["main", "sidecar"].map(status);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "pod-@N", "namespace": "default", "uid": "3c9a2f6e-0000-0000-0000-@N",
            "resourceVersion": "@V", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": named("example.com/label-", 6, "a-value"),
            "annotations": named("example.com/annotation-", 4, "some longer text that says something"),
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-1", "controller": true}],
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": fields}],
        },
        "spec": {"nodeName": "node-@N", "serviceAccountName": "default", "containers": [container("main"), container("sidecar")]},
        "status": {
            "phase": "Running", "podIP": "10.1.2.3", "hostIP": "10.0.0.1", "startTime": "2026-01-01T00:00:00Z",
            "conditions": conditions,
            "containerStatuses": statuses,
        },
    })
    .to_string()
}

/// The text, cut at its marks.
struct Template(Vec<String>);

impl Template {
    fn new() -> Self {
        Self(template().split('@').map(String::from).collect())
    }

    fn pod(&self, number: usize, version: usize) -> String {
        let (number, version) = (format!("{number:012}"), version.to_string());
        let (begin, parts) = self.0.split_first().unwrap();
        parts.iter().fold(begin.clone(), |text, part| {
            let (mark, rest) = part.split_at(1);
            text + if mark == "N" { &number } else { &version } + rest
        })
    }
}

/// The version that an object has in the list of this number.
fn version(number: usize, list: usize) -> usize {
    match number % 100 {
        _ if number == 0 => 1000 * list + 1,
        changed if (1..=list).contains(&changed) => 1000 * changed + 1,
        _ => 1,
    }
}

/// The version of that list.
fn list_version(list: usize) -> usize {
    1000 * list + 500
}

struct Server {
    port: u16,
    shared: Arc<Shared>,
    expire: Sender<()>,
}

struct Shared {
    template: Template,
    /// The number of the list that is given now.
    list: AtomicUsize,
    /// Told when the watch is to end, so that a list follows.
    expire: Receiver<()>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (expire, expires) = unbounded();
        let shared =
            Arc::new(Shared { template: Template::new(), list: AtomicUsize::new(0), expire: expires });
        let serving = shared.clone();
        let accept = move || {
            for stream in listener.incoming() {
                let (shared, stream) = (serving.clone(), stream.unwrap());
                let serve = move || drop(shared.serve(stream));
                Builder::new().name("test-connection".into()).spawn(serve).unwrap();
            }
        };
        Builder::new().name("test-server".into()).spawn(accept).unwrap();
        Self { port, shared, expire }
    }

    fn client(&self) -> Client {
        let config = Config::new(&format!("http://127.0.0.1:{}", self.port)).unwrap();
        Client::new(config.with_timeout(PATIENCE)).unwrap()
    }

    /// Tells one more change, and then that the history is gone.
    fn expire(&self) {
        self.expire.send(()).unwrap();
    }
}

/// An answer in chunks, none of them long.
struct Chunks<'a> {
    stream: &'a TcpStream,
    text: String,
}

impl<'a> Chunks<'a> {
    fn begin(mut stream: &'a TcpStream) -> io::Result<Self> {
        stream.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        )?;
        Ok(Self { stream, text: String::new() })
    }

    fn push(&mut self, text: &str) -> io::Result<()> {
        self.text.push_str(text);
        if self.text.len() > 32 * 1024 { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut stream = self.stream;
        write!(stream, "{:x}\r\n{}\r\n", self.text.len(), self.text)?;
        self.text.clear();
        Ok(())
    }

    fn end(mut self) -> io::Result<()> {
        self.flush()?;
        let mut stream = self.stream;
        stream.write_all(b"0\r\n\r\n")
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        loop {
            let mut first = String::new();
            if reader.read_line(&mut first)? == 0 {
                return Ok(());
            }
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                reader.read_line(&mut line)?;
            }
            let query = first.split_once('?').map_or("", |(_, rest)| rest.split(' ').next().unwrap());
            let get =
                |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            let out = Chunks::begin(&stream)?;
            match get("watch") {
                Some(_) => self.watch(get("sendInitialEvents").is_some(), out)?,
                None => {
                    let number = |name| get(name).map(|text| text.parse::<usize>().unwrap());
                    self.list(number("continue").unwrap_or(0), number("limit").unwrap_or(OBJECTS), out)?;
                }
            }
        }
    }

    fn pod(&self, number: usize) -> String {
        self.template.pod(number, version(number, self.list.load(Ordering::SeqCst)))
    }

    fn list(&self, from: usize, limit: usize, mut out: Chunks<'_>) -> io::Result<()> {
        let end = (from + limit).min(OBJECTS);
        let next = if end < OBJECTS { end.to_string() } else { String::new() };
        let version = list_version(self.list.load(Ordering::SeqCst));
        out.push(&format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":["#
        ))?;
        for number in from..end {
            out.push(if number == from { "" } else { "," })?;
            out.push(&self.pod(number))?;
        }
        out.push("]}")?;
        out.end()
    }

    fn watch(&self, initial: bool, mut out: Chunks<'_>) -> io::Result<()> {
        let list = self.list.load(Ordering::SeqCst);
        if initial {
            for number in 0..OBJECTS {
                out.push(&format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", self.pod(number)))?;
            }
            let version = list_version(list);
            out.push(&format!(
                "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{version}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n"
            ))?;
            out.flush()?;
        }
        if self.expire.recv().is_err() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let changed = self.template.pod(0, list_version(list) + 1);
        out.push(&format!("{{\"type\":\"MODIFIED\",\"object\":{changed}}}\n"))?;
        self.list.store(list + 1, Ordering::SeqCst);
        out.push("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"reason\":\"Expired\",\"code\":410}}\n")?;
        out.end()
    }
}

/// What the objects take alone, put into a store one by one. They are kept, so that what comes later finds no room
/// that was used before.
fn settled(template: &Template) -> (f64, Store<Pod>) {
    let (store, mut writer) = Store::new();
    let before = resident();
    for number in 0..OBJECTS {
        let object: Pod = serde_json::from_str(&template.pod(number, 1)).unwrap();
        writer.apply(Delta::Upsert(Arc::new(object)));
    }
    (resident() - before, store)
}

fn relists(mode: ListMode) {
    let server = Server::start();
    let (clock, stop) = (Clock::manual(), Stop::new());
    let (alone, kept) = settled(&server.shared.template);
    let before = resident();
    forget_peak();

    let informer = Informer::builder(Api::<Pod>::all(&server.client())).mode(mode).clock(clock.clone());
    let informer = informer.build().unwrap();
    let (tell, told) = unbounded();
    let tells = tell.clone();
    let handler = Handlers::<Pod>::new()
        .on_add(move |_, _| tell.send(()).unwrap())
        .on_update(move |_, _| tells.send(()).unwrap())
        .on_delete(|deleted| panic!("{} is deleted", deleted.object.key()));
    let registration = informer.add_handler(handler).unwrap();
    informer.start(&stop).unwrap();
    let expect = |calls: usize| (0..calls).for_each(|_| told.recv_timeout(PATIENCE).unwrap());
    expect(OBJECTS);
    let (first, first_peak) = (resident() - before, peak() - before);
    forget_peak();
    for list in 1..=RELISTS {
        // An expiry is nothing unusual if the last one is some time ago.
        clock.advance(Duration::from_secs(10));
        server.expire();
        expect(1 + CHANGED);
        assert_eq!(informer.lister().store().resource_version(), list_version(list).to_string());
    }
    let most = peak() - before;
    let objects = informer.lister().store().list();
    assert_eq!((objects.len(), kept.len()), (OBJECTS, OBJECTS));
    for (number, object) in objects.iter().enumerate() {
        assert_eq!(object.resource_version(), version(number, RELISTS).to_string());
    }
    assert_eq!((registration.depth(), informer.health().lists), (0, 1 + RELISTS as u64));
    println!(
        "memory: {mode:?}: {OBJECTS} pods of {} bytes take {:.1} MiB in a store; an informer {:.1} MiB after its \
         first list, at most {:.1} in it and {:.1} in {RELISTS} relists: {:.2} times the store",
        server.shared.template.pod(0, 1).len(),
        alone / MIB,
        first / MIB,
        first_peak / MIB,
        most / MIB,
        most / alone,
    );
    assert!(first_peak <= 1.2 * alone && most <= 1.2 * alone, "{first_peak} and {most} bytes for {alone}");
    stop.stop();
    informer.join();
}

#[test]
fn pages_relisted_take_little_more_than_the_cache() {
    alone("relist::pages_relisted_take_little_more_than_the_cache", || relists(ListMode::Paged(500)));
}

#[test]
fn streams_relisted_take_little_more_than_the_cache() {
    alone("relist::streams_relisted_take_little_more_than_the_cache", || relists(ListMode::WatchList));
}

#[test]
fn whole_lists_relisted_take_little_more_than_the_cache() {
    alone("relist::whole_lists_relisted_take_little_more_than_the_cache", || relists(ListMode::Cached));
}

#[test]
fn one_object_keeps_no_list_in_memory() {
    alone("relist::one_object_keeps_no_list_in_memory", || {
        const PAGE: u32 = 2_000;
        let pods = Api::<Pod>::all(&Server::start().client());
        let (mut kept, mut taken) = (Vec::new(), Vec::new());
        for number in 0..10 {
            let mut list = pods.list(&ListParams::default().limit(PAGE)).unwrap();
            kept.push(list.items.swap_remove(number * 100));
            taken.push(resident());
        }
        let more = taken[9] - taken[1];
        println!(
            "memory: {} pods of 10 lists of {PAGE} kept: {:.2} MiB more after the last",
            kept.len(),
            more / MIB
        );
        // A list takes over 4 MiB.
        assert!(more < 8.0 * MIB, "{taken:?}");
    });
}
