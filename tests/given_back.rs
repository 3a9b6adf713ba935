//! What is given back: memory, sockets and threads, as the kernel counts them for this process.
//!
//! One test runs at a time, or they would count each other's.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::bounded;
use listwatch::cache::{Events, ListWatch};
use listwatch::types::ConfigMap;
use listwatch::{
    Api, Client, Clock, Config, Handlers, Informer, ListMeta, ListMode, ListParams, Resource, Result, Stop,
    WatchEvent, WatchParams,
};

const SOON: Duration = Duration::from_secs(60);

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of `VmRSS`, or of `VmHWM`, which is the most since [`forget_peak`].
fn memory(what: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<usize>().unwrap() << 10
}

fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").unwrap();
}

fn entries(path: &str) -> usize {
    fs::read_dir(path).unwrap().count()
}

#[track_caller]
fn until(mut holds: impl FnMut() -> bool) {
    let clock = Clock::system();
    let end = clock.now() + SOON;
    while !holds() {
        assert!(clock.now() < end, "it did not come to hold");
        thread::yield_now();
    }
}

/// A server of so many config maps that never change, which forgets at once what it has listed: each watch is expired
/// behind its first event. It holds nothing itself.
fn serve(count: usize, bytes: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serve = move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::Builder::new().spawn(move || drop(answer(&stream, count, bytes))).unwrap();
        }
    };
    thread::Builder::new().spawn(serve).unwrap();
    url
}

fn answer(stream: &TcpStream, count: usize, bytes: usize) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let filler = "x".repeat(bytes);
    loop {
        let Some(first) = lines.next() else { return Ok(()) };
        let first = first?;
        while !lines.next().unwrap()?.is_empty() {}
        let query = first.split(' ').nth(1).unwrap();
        let number = |name: &str| -> usize {
            query
                .split([name, "&"].concat().trim_end_matches('&'))
                .nth(1)
                .map_or(0, |rest| rest.split('&').next().unwrap().parse().unwrap())
        };
        let item = |n: usize| {
            format!(
                r#"{{"metadata":{{"name":"c-{n}","namespace":"ns","uid":"u-{n}","resourceVersion":"{}"}},"data":{{"k":"{filler}"}}}}"#,
                n + 1
            )
        };
        let mut out = BufWriter::new(stream);
        write!(
            out,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )?;
        let mut chunk = |text: &str| write!(out, "{:x}\r\n{text}\r\n", text.len());
        if query.contains("watch=true") {
            if query.contains("sendInitialEvents") {
                for n in 0..count {
                    chunk(&format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", item(n)))?;
                }
                chunk(
                    "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"900000\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n",
                )?;
            }
            chunk("{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"900001\"}}}\n")?;
            chunk(
                "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}}\n",
            )?;
        } else {
            let (limit, from) = (number("limit="), number("continue="));
            let end = if limit == 0 { count } else { count.min(from + limit) };
            let more = if end < count { end.to_string() } else { String::new() };
            chunk(&format!(
                r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"900000","continue":"{more}"}},"items":["#
            ))?;
            for n in from..end {
                chunk(&(item(n) + if n + 1 < end { "," } else { "" }))?;
            }
            chunk("]}")?;
        }
        chunk("")?;
        out.flush()?;
    }
}

fn informer(url: &str, mode: ListMode, clock: &Clock) -> Informer<ConfigMap> {
    let client = Client::new(Config::new(url).unwrap()).unwrap();
    Informer::builder(Api::<ConfigMap>::all(&client)).mode(mode).clock(clock.clone()).build().unwrap()
}

/// Each mode in a process of its own: what an allocator keeps of one would hide what the next takes.
#[test]
fn a_list_takes_little_more_than_the_cache_the_first_time_and_again() {
    const SELF: &str = "a_list_takes_little_more_than_the_cache_the_first_time_and_again";
    let modes = [ListMode::Cached, ListMode::Paged(500), ListMode::WatchList];
    if let Ok(number) = std::env::var("LISTWATCH_TEST_MODE") {
        return lists_within_the_memory_of_its_cache(modes[number.parse::<usize>().unwrap()]);
    }
    let _alone = alone();
    for (number, mode) in modes.iter().enumerate() {
        let mut itself = std::process::Command::new(std::env::current_exe().unwrap());
        itself.args(["--exact", SELF, "--nocapture"]).env("LISTWATCH_TEST_MODE", number.to_string());
        assert!(itself.status().unwrap().success(), "{mode:?}");
    }
}

fn lists_within_the_memory_of_its_cache(mode: ListMode) {
    const COUNT: usize = 20_000;
    let (clock, stop) = (Clock::manual(), Stop::new());
    let informer = informer(&serve(COUNT, 1_000), mode, &clock);
    informer.start(&stop).unwrap();
    let listed = |times: u64| {
        until(|| {
            if let (Some(wait), true) = (clock.next_timer(), informer.health().lists < times) {
                clock.advance(wait);
            }
            informer.health().lists >= times && informer.lister().store().len() == COUNT
        });
    };
    listed(1);
    let (first, settled) = (memory("VmHWM"), memory("VmRSS"));
    forget_peak();
    listed(6);
    let again = memory("VmHWM");
    stop.stop();
    informer.join();
    println!("{mode:?}: {} KiB settled, {} first, {} again", settled >> 10, first >> 10, again >> 10);
    // One object of a thousand bytes takes little more, and no answer is kept beside them.
    assert!(settled < COUNT * 2_500, "{mode:?}: {settled} settled");
    assert!(first * 5 <= settled * 6, "{mode:?}: {settled} settled, {first} at first");
    assert!(again * 5 <= settled * 6, "{mode:?}: {settled} settled, {again} again");
}

#[test]
fn one_object_keeps_no_list_in_memory() {
    let _alone = alone();
    let client = Client::new(Config::new(&serve(5_000, 4_000)).unwrap()).unwrap();
    let (mut kept, mut taken) = (Vec::new(), Vec::new());
    for n in 0..10 {
        let mut list = Api::<ConfigMap>::all(&client).list(&ListParams::default()).unwrap();
        kept.push(list.items.swap_remove(n * 100));
        taken.push(memory("VmRSS"));
    }
    println!("{kept} kept: {taken:?}", kept = kept.len());
    assert!(taken[9] < taken[1] + (taken[1] - taken[0]).max(20 << 20), "{taken:?}");
}

/// A watch of a hundred objects that change all the time.
struct Churn(u32);

impl ListWatch<ConfigMap> for Churn {
    fn list(
        &self,
        _: &ListParams,
        _: &Stop,
        _: &mut dyn FnMut(Result<ConfigMap>) -> Result<()>,
    ) -> Result<ListMeta> {
        Ok(ListMeta { resource_version: "1".into(), ..ListMeta::default() })
    }

    fn watch(&self, _: &WatchParams, stop: &Stop) -> Result<Events<ConfigMap>> {
        let stop = stop.clone();
        let events = (10..self.0).map(|version| {
            let mut map = ConfigMap::default();
            map.metadata.name = format!("c-{}", version % 100);
            map.metadata.namespace = "ns".into();
            map.metadata.uid.clone_from(&map.metadata.name);
            map.metadata.resource_version = version.to_string();
            Ok(WatchEvent::Added(map))
        });
        Ok(Box::new(events.chain(std::iter::from_fn(move || {
            stop.wait();
            None
        }))))
    }

    fn describe(&self) -> String {
        "configmaps".into()
    }
}

#[test]
fn a_blocked_handler_makes_no_memory_grow() {
    let _alone = alone();
    const LAST: u32 = 300_000;
    let (go, gate) = bounded::<()>(0);
    let (stop, blocked) = (Stop::new(), Mutex::new(0));
    let informer = Informer::builder(Churn(LAST + 1)).build().unwrap();
    let (done, is_done) = bounded(1);
    let handler = Handlers::<ConfigMap>::new()
        .on_add(move |_, _| {
            let _ = gate.recv();
        })
        .on_update(move |_, new| {
            let mut last = blocked.lock().unwrap();
            *last = (*last).max(new.resource_version().parse().unwrap());
            if *last == LAST {
                let _ = done.try_send(());
            }
        });
    let registration = informer.add_handler(handler).unwrap();
    informer.start(&stop).unwrap();
    until(|| informer.health().events > 10_000);
    let before = memory("VmRSS");
    until(|| informer.last_sync_resource_version() == LAST.to_string() && informer.health().waiting == 0);
    let after = memory("VmRSS");
    assert!(after < before + (4 << 20), "{before} bytes, then {after}");
    assert!(registration.depth() < 1_200, "{}", registration.depth());
    drop(go);
    is_done.recv_timeout(SOON).unwrap();
    stop.stop();
    informer.join();
}

#[test]
fn a_thousand_clients_leave_nothing() {
    let _alone = alone();
    let url = serve(1, 10);
    let mut before = (0, 0, 0);
    for n in 0..1_100 {
        if n == 100 {
            before = (entries("/proc/self/fd"), entries("/proc/self/task"), memory("VmRSS"));
        }
        let client = Client::new(Config::new(&url).unwrap()).unwrap();
        assert_eq!(Api::<ConfigMap>::all(&client).list(&ListParams::default()).unwrap().items.len(), 1);
    }
    // The server's side ends a moment later.
    until(|| entries("/proc/self/fd") <= before.0 + 2 && entries("/proc/self/task") <= before.1 + 2);
    let after = memory("VmRSS");
    assert!(after < before.2 + (4 << 20), "{} bytes, then {after}", before.2);
}
