//! Attacks on the promises of the cache, the queue and `Stop`: each test is a way in which one was broken.

#![allow(clippy::unwrap_used, clippy::panic, dead_code)]

#[path = "cache/script.rs"]
mod script;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{bounded, never, unbounded};
use listwatch::cache::{Delta, Events, Handlers, ListWatch, Reflector};
use listwatch::types::ConfigMap;
use listwatch::wire::{Expect, WatchDecoder};
use listwatch::{
    Action, Api, Bookmark, Client, Clock, Config, Error, Informer, ListMeta, ListMode, ListParams,
    RateLimiter, Registration, Resource, Result, StaticResource, Stop, WatchEvent, WatchParams, WorkQueue,
    WorkerPool,
};

use listwatch::workqueue::RateLimit;
use script::{Event, expired, next, object, script, soon, status, until};

type Answer = (Vec<Result<ConfigMap>>, Result<ListMeta>);
type Lists = Box<dyn Fn(usize, &ListParams) -> Answer + Send + Sync>;
type Watches =
    Box<dyn Fn(usize, &WatchParams) -> Result<Box<dyn Iterator<Item = Event> + Send>> + Send + Sync>;

/// Answers by itself, and counts. A watch whose events are over stays silent until stopped.
struct Auto {
    lists: Lists,
    watches: Watches,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    lists: AtomicUsize,
    watches: AtomicUsize,
}

/// No test lets it get further: it would fill the memory.
const TOO_MANY: usize = 200;

impl ListWatch<ConfigMap> for Auto {
    fn list(
        &self,
        params: &ListParams,
        stop: &Stop,
        sink: &mut dyn FnMut(Result<ConfigMap>) -> Result<()>,
    ) -> Result<ListMeta> {
        let number = self.counts.lists.fetch_add(1, SeqCst);
        if number >= TOO_MANY {
            stop.wait();
        }
        let (items, end) = (self.lists)(number, params);
        items.into_iter().try_for_each(sink)?;
        end
    }

    fn watch(&self, params: &WatchParams, stop: &Stop) -> Result<Events<ConfigMap>> {
        let number = self.counts.watches.fetch_add(1, SeqCst);
        if number >= TOO_MANY {
            stop.wait();
        }
        let (events, stop) = ((self.watches)(number, params)?, stop.clone());
        Ok(Box::new(events.chain(std::iter::from_fn(move || {
            stop.wait();
            None
        }))))
    }

    fn describe(&self) -> String {
        "configmaps".into()
    }
}

/// A reflector on its own thread; ends with its `Stop`.
struct Attack {
    counts: Arc<Counts>,
    clock: Clock,
    stop: Stop,
    deltas: Arc<Mutex<Vec<Delta<ConfigMap>>>>,
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

fn attack(
    mode: ListMode,
    clock: Clock,
    lists: impl Fn(usize, &ListParams) -> Answer + Send + Sync + 'static,
    watches: impl Fn(usize, &WatchParams) -> Result<Box<dyn Iterator<Item = Event> + Send>>
    + Send
    + Sync
    + 'static,
) -> Attack {
    let counts = Arc::new(Counts::default());
    let auto = Auto { lists: Box::new(lists), watches: Box::new(watches), counts: counts.clone() };
    let stop = Stop::new();
    let deltas = Arc::new(Mutex::new(Vec::new()));
    let reflector = Reflector::new(auto).mode(mode).clock(clock.clone());
    let (token, put) = (stop.clone(), deltas.clone());
    let run = move || reflector.run(&token, &mut |delta| put.lock().unwrap().push(delta));
    thread::Builder::new().spawn(run).unwrap();
    Attack { counts, clock, stop, deltas }
}

impl Attack {
    fn lists(&self) -> usize {
        self.counts.lists.load(SeqCst)
    }

    fn watches(&self) -> usize {
        self.counts.watches.load(SeqCst)
    }

    /// Lets each wait pass until `holds` or nothing more is to be seen.
    #[track_caller]
    fn waits_until(&self, mut holds: impl FnMut(&Self) -> bool) {
        until(|| {
            if let Some(wait) = self.clock.next_timer() {
                self.clock.advance(wait);
            }
            holds(self)
        });
    }
}

fn meta(version: &str) -> ListMeta {
    ListMeta { resource_version: version.into(), ..ListMeta::default() }
}

fn all(items: &[&str], version: &str) -> Answer {
    (items.iter().map(|item| Ok(object(item))).collect(), Ok(meta(version)))
}

fn events(events: Vec<Event>) -> Result<Box<dyn Iterator<Item = Event> + Send>> {
    Ok(Box::new(events.into_iter()))
}

fn bookmark(version: &str) -> Event {
    Ok(WatchEvent::Bookmark(Bookmark { resource_version: version.into(), initial_events_end: false }))
}

/// The fields of parameters cannot be read by who implements `ListWatch`.
fn one_piece(params: &ListParams) -> bool {
    format!("{params:?}").contains("limit: 0")
}

fn pause(time: Duration) {
    let _ = never::<()>().recv_timeout(time);
}

// ---- reflector ------------------------------------------------------------------------------------------------

#[test]
fn a_watch_that_expires_behind_each_first_event_does_not_list_without_pause() {
    let run = attack(
        ListMode::default(),
        Clock::manual(),
        |n, _| all(&[], &(n * 10 + 10).to_string()),
        |n, _| events(vec![bookmark(&(n * 10 + 15).to_string()), Err(expired())]),
    );
    until(|| run.lists() >= TOO_MANY || run.clock.next_timer().is_some());
    assert!(run.lists() < 5, "{} lists at once, no time has passed", run.lists());
}

#[test]
fn a_watch_that_always_fails_at_a_version_is_listed_anew_in_the_end() {
    let run = attack(
        ListMode::default(),
        Clock::manual(),
        |_, _| all(&[], "10"),
        |_, _| {
            let message = "etcdserver: mvcc: required revision has been compacted";
            events(vec![Err(status(500, "InternalError", message))])
        },
    );
    run.waits_until(|run| run.lists() > 1 || run.watches() > 100);
    assert!(run.lists() > 1, "{} watches from one version failed and no list was tried", run.watches());
}

#[test]
fn too_old_by_its_message_alone_is_listed_anew() {
    let run = attack(
        ListMode::default(),
        Clock::manual(),
        |_, _| all(&[], "10"),
        |_, _| events(vec![Err(status(500, "InternalError", "too old resource version: 10 (900)"))]),
    );
    run.waits_until(|run| run.lists() > 1 || run.watches() > 100);
    assert!(run.lists() > 1, "{} watches and no list", run.watches());
}

#[test]
fn a_continue_token_that_never_moves_is_an_error() {
    let run = attack(
        ListMode::Paged(1),
        Clock::manual(),
        |_, _| {
            let meta = ListMeta { continue_token: "same".into(), ..meta("10") };
            (vec![Ok(object("a/x@1"))], Ok(meta))
        },
        |_, _| events(vec![]),
    );
    until(|| run.lists() >= TOO_MANY || run.clock.next_timer().is_some());
    assert!(run.lists() < TOO_MANY, "the same page was taken {TOO_MANY} times, each kept in memory");
}

#[test]
fn version_zero_in_a_bookmark_does_not_make_the_watch_begin_anew() {
    let run = script::run(ListMode::default());
    let feed = run.server.sync(&["a/x@1"], "10");
    feed.bookmark("0", false);
    run.long_enough();
    drop(feed);
    run.server.watch_from("10");
}

#[test]
fn version_zero_in_an_object_does_not_make_the_watch_begin_anew() {
    let run = script::run(ListMode::default());
    let feed = run.server.sync(&["a/x@1"], "10");
    feed.modified("a/x@0");
    run.expect(&["replace [a/x@1] at 10", "upsert a/x@0"]);
    run.long_enough();
    drop(feed);
    run.server.watch_from("10");
}

#[test]
fn a_stream_of_initial_events_without_end_is_given_up() {
    let clock = Clock::manual();
    let time = clock.clone();
    let run = attack(
        ListMode::WatchList,
        clock,
        |_, _| all(&["a/x@1"], "10"),
        move |_, params| {
            if !format!("{params:?}").contains("initial_events: true") {
                return events(vec![]);
            }
            // A proxy has swallowed the bookmark, and the cluster is busy: an event every 10 s for a day.
            let time = time.clone();
            let churn = (0..8640).map(move |n| {
                time.advance(Duration::from_secs(10));
                Ok(WatchEvent::Modified(object(&format!("a/x@{n}"))))
            });
            Ok(Box::new(churn) as Box<_>)
        },
    );
    // The end of this wait is that the whole day has passed.
    let start = run.clock.now();
    until(|| run.lists() > 0 || run.clock.now() - start >= Duration::from_secs(86_400));
    assert!(run.lists() > 0, "a day has passed without a first list");
}

#[test]
fn issue_kube_1748_pages_whose_version_is_always_expired_are_given_up_for_one_piece() {
    let in_one_piece = Arc::new(AtomicBool::new(false));
    let seen = in_one_piece.clone();
    let run = attack(
        ListMode::default(),
        Clock::manual(),
        move |_, params| {
            seen.fetch_or(one_piece(params), SeqCst);
            all(&[], if one_piece(params) { "20" } else { "10" })
        },
        |_, params| match *params == WatchParams::default().resource_version("10") {
            true => Err(expired()),
            false => events(vec![]),
        },
    );
    run.waits_until(|run| run.lists() > 50 || in_one_piece.load(SeqCst));
    assert!(in_one_piece.load(SeqCst), "{} lists in pages, each expired", run.lists());
}

#[test]
fn an_object_without_a_version_is_not_taken_for_the_one_that_is_known() {
    let run = script::run(ListMode::default());
    let with = |value: &str| {
        let mut object = object("a/x@");
        object.data.insert("k", value);
        object
    };
    run.server.list(ListParams::default().limit(500)).answer(vec![Ok(with("old"))], Ok(meta("10")));
    run.server.watch_from("10").fail(expired());
    run.wait_out();
    run.server.list(ListParams::default().limit(500)).answer(vec![Ok(with("new"))], Ok(meta("20")));
    next(&run.deltas);
    let last = next(&run.deltas);
    let Delta::Replace { items, .. } = last else { panic!("no list") };
    assert_eq!(format!("{:?}", items[0].data), format!("{:?}", with("new").data));
}

// ---- informer -------------------------------------------------------------------------------------------------

fn unfit_with_uid(key: &str, uid: &str, version: &str) -> Error {
    let mut decoder = WatchDecoder::<ConfigMap>::new(Expect::from(&ConfigMap::api_resource()));
    let line = format!(
        r#"{{"type":"ADDED","object":{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"namespace":"a","name":"{key}","uid":"{uid}","resourceVersion":"{version}"}},"data":7}}}}"#
    );
    decoder.feed(format!("{line}\n").as_bytes());
    decoder.next_event().unwrap().unwrap_err()
}

#[test]
fn an_object_that_came_back_as_another_is_deleted_even_if_the_new_one_does_not_fit() {
    let (script, server) = script();
    let clock = Clock::manual();
    let informer = Informer::builder(script).clock(clock.clone()).build().unwrap();
    let stop = Stop::new();
    informer.start(&stop).unwrap();
    server.sync(&["a/x@1/one"], "10").fail(expired());
    script::timers(&clock, 1);
    clock.advance(clock.next_timer().unwrap());
    let unfit = unfit_with_uid("x", "two", "15");
    server.list(ListParams::default().limit(500)).answer(vec![Err(unfit)], Ok(meta("20")));
    let feed = server.watch_from("20").open();
    feed.added("a/y@21");
    let lister = informer.lister();
    until(|| lister.get("a", "y").is_some());
    let x = lister.get("a", "x").map(|x| x.uid().to_owned());
    stop.stop();
    assert_eq!(x, None, "the object of uid `one` is gone from the server");
}

#[test]
fn join_waits_for_the_threads_also_when_another_joins() {
    let (script, server) = script();
    let informer = Informer::builder(script).build().unwrap();
    let stop = Stop::new();
    informer.start(&stop).unwrap();
    let _feed = server.sync(&[], "1");
    let (joined, joins) = unbounded();
    for _ in 0..2 {
        let (informer, joined) = (informer.clone(), joined.clone());
        let run = move || {
            informer.join();
            let _ = joined.send(());
        };
        thread::Builder::new().spawn(run).unwrap();
    }
    let early = joins.recv_timeout(Duration::from_secs(2)).is_ok();
    stop.stop();
    assert!(!early, "join returned from an informer that runs");
}

#[test]
fn join_waits_for_a_handler_that_took_itself_away() {
    let (script, server) = script();
    let informer = Informer::builder(script).build().unwrap();
    let (give, registrations) = bounded::<Registration<ConfigMap>>(1);
    let (removed, is_removed) = bounded(1);
    let (open, gate) = bounded::<()>(1);
    let handler = Handlers::new().on_add(move |_, _| {
        next(&registrations).remove();
        removed.send(()).unwrap();
        let _ = gate.recv();
    });
    give.send(informer.add_handler(handler).unwrap()).unwrap();
    let stop = Stop::new();
    informer.start(&stop).unwrap();
    let _feed = server.sync(&["a/x@1"], "1");
    next(&is_removed);
    stop.stop();
    let (joined, joins) = bounded(1);
    let run = move || {
        informer.join();
        joined.send(()).unwrap();
    };
    thread::Builder::new().spawn(run).unwrap();
    let early = joins.recv_timeout(Duration::from_secs(2)).is_ok();
    drop(open);
    assert!(!early, "join returned while the handler's thread runs");
}

// ---- stop -----------------------------------------------------------------------------------------------------

#[test]
fn a_hook_that_panics_keeps_no_other_from_running() {
    let stop = Stop::new();
    let _bad = stop.on_stop(|| panic!("in a hook"));
    let child = stop.child();
    let stopped = catch_unwind(AssertUnwindSafe(|| stop.stop()));
    drop(stopped);
    assert!(child.is_stopped(), "an informer of this token would run on for ever, as stop() works once only");
}

// ---- workqueue ------------------------------------------------------------------------------------------------

struct Panics;

impl RateLimit<u32> for Panics {
    fn when(&mut self, _: &u32, _: Instant) -> Duration {
        panic!("in the limiter")
    }
    fn forget(&mut self, _: &u32) {}
    fn retries(&self, _: &u32) -> u32 {
        0
    }
}

#[test]
fn a_rate_limiter_that_panics_ends_no_worker() {
    let (stop, queue) = (Stop::new(), WorkQueue::new(Panics));
    let (ran, runs) = unbounded();
    let pool = WorkerPool::start(1, &queue, &stop, move |key: &u32| {
        ran.send(*key).unwrap();
        Err::<Action, _>("fails")
    });
    let pool = pool.unwrap();
    queue.add(1);
    assert_eq!(next(&runs), 1);
    queue.add(2);
    let second = runs.recv_timeout(Duration::from_secs(3));
    stop.stop();
    soon(move || pool.join());
    assert_eq!(second, Ok(2), "the only worker has died, and nobody knows");
}

#[test]
fn drain_ends_when_the_pool_was_stopped() {
    let (stop, queue) = (Stop::new(), WorkQueue::<u32>::new(RateLimiter::default()));
    queue.add(1);
    stop.stop();
    let drained = soon(move || queue.shut_down_with_drain(&stop));
    assert!(!drained);
}

// ---- http -----------------------------------------------------------------------------------------------------

#[test]
fn a_refusal_that_drips_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serve = move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let run = move || {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(b"HTTP/1.1 500 Oops\r\nContent-Length: 1000000\r\n\r\n");
                while stream.write_all(b"x").is_ok() {
                    pause(Duration::from_millis(100));
                }
            };
            thread::Builder::new().spawn(run).unwrap();
        }
    };
    thread::Builder::new().spawn(serve).unwrap();
    let config = Config::new(&url).unwrap();
    let client = Client::new(config).unwrap().with_timeout(Duration::from_millis(400));
    let (done, is_done) = bounded(1);
    let run = move || {
        let _ = done.send(Api::<ConfigMap>::namespaced(&client, "a").list(&ListParams::default()).is_err());
    };
    thread::Builder::new().spawn(run).unwrap();
    let ended = is_done.recv_timeout(Duration::from_secs(10));
    assert_eq!(ended, Ok(true), "25 times the limit has passed; it would take a day");
}

// ---- secrets --------------------------------------------------------------------------------------------------

#[test]
fn debug_of_a_secret_shows_no_value_in_kubectls_annotation_either() {
    let json = r#"{"metadata":{"name":"x","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"password\":\"aHVudGVyMg==\"}}"}},"data":{"password":"aHVudGVyMg=="}}"#;
    let secret: listwatch::types::Secret = serde_json::from_str(json).unwrap();
    let shown = format!("{secret:?}");
    assert!(!shown.contains("aHVudGVyMg"), "{shown}");
}

#[cfg(feature = "kubeconfig")]
#[test]
fn errors_of_a_kubeconfig_show_no_credential() {
    for (user, what) in [
        ("{token: [hunter2secret]}", "a list"),
        (
            "{token: hunter2secret, client-key-data: hunter2secret, client-certificate-data: hunter2secret}",
            "keys",
        ),
        ("{token: {hunter2secret: 1}}", "a map"),
        ("{username: hunter2secret, password: [hunter2secret]}", "a password"),
        ("{token: hunter2secret, client-key-data: 'hunter2secret", "no end"),
        ("{client-key-data: '!!hunter2secret', client-certificate-data: '!!hunter2secret'}", "no base64"),
    ] {
        let yaml = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: 'https://h'}}}}]\nusers:\n- name: u\n  user: {user}\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
        );
        let config = Config::from_kubeconfig_text(&yaml, &listwatch::KubeconfigOptions::new());
        let shown = match config.map(|config| (format!("{config:?}"), Client::new(config))) {
            Ok((shown, client)) => format!("{shown} {client:?}"),
            Err(e) => format!("{e} {e:?}"),
        };
        let shown = shown.replace("Basic(\"hunter2secret\"", "");
        assert!(!shown.contains("hunter2"), "{what}: {shown}");
    }
}

#[test]
fn an_address_with_a_password_is_not_shown() {
    let shown = format!("{:?}", Config::new("https://user:hunter2@host:6443/?token=hunter2"));
    assert!(!shown.contains("hunter2"), "{shown}");
}

// ---- what holds: a handler, index function or on_error may do anything ---------------------------------------

#[test]
fn a_handler_may_use_the_informer_in_every_way() {
    let (script, server) = script();
    let stop = Stop::new();
    let token = stop.clone();
    let informer =
        Informer::builder(script).clock(Clock::manual()).on_error(move |_| token.stop()).build().unwrap();
    informer.add_index("all", move |_| vec![0.to_string()]).unwrap();
    let (done, is_done) = unbounded();
    let (inner, token) = (informer.clone(), stop.clone());
    informer
        .add_handler(Handlers::new().on_add(move |_, _| {
            inner.start(&token).unwrap();
            let (told, tells) = unbounded();
            let late =
                inner.add_handler(Handlers::new().on_add(move |_, initial| told.send(initial).unwrap()));
            assert!(next(&tells));
            late.unwrap().remove();
            inner.add_index("late", |_| vec!["v".into()]).unwrap();
            assert_eq!(inner.lister().by_index("late", "v").unwrap().len(), 1);
            done.send(()).unwrap();
            token.wait();
            inner.join();
            done.send(()).unwrap();
        }))
        .unwrap();
    informer.start(&stop).unwrap();
    let feed = server.sync(&["a/x@1"], "10");
    next(&is_done);
    feed.fail(expired());
    next(&is_done);
    soon(move || informer.join());
}

#[test]
fn start_with_a_stop_that_has_stopped_ends_at_once() {
    let (script, _server) = script();
    let informer = Informer::builder(script).build().unwrap();
    let (seen, _) = unbounded::<()>();
    let registration =
        informer.add_handler(Handlers::new().on_add(move |_, _| seen.send(()).unwrap())).unwrap();
    let stop = Stop::new();
    stop.stop();
    informer.start(&stop).unwrap();
    let waiting = informer.clone();
    assert!(soon(move || waiting.wait_for_sync(Duration::from_secs(3600))).unwrap_err().is_stopped());
    soon(move || registration.wait_for_sync(Duration::from_secs(3600)).unwrap_err());
    soon(move || informer.join());
}

#[test]
fn a_controller_runs_again_and_twice_at_once() {
    let server = listwatch::ApiServer::start().unwrap();
    let client = server.client().unwrap();
    let maps = Api::<ConfigMap>::namespaced(&client, "default");
    maps.create(&Default::default(), &object("default/x@")).unwrap_or_else(|_| {
        let mut x = ConfigMap::default();
        x.metadata.name = "x".into();
        maps.create(&Default::default(), &x).unwrap()
    });
    let controller = Arc::new(listwatch::Controller::<ConfigMap>::namespaced(&client, "default"));
    for _ in 0..2 {
        let stop = Stop::new();
        let (ran, runs) = unbounded();
        let threads: Vec<_> = (0..2)
            .map(|number| {
                let (controller, stop, ran) = (controller.clone(), stop.clone(), ran.clone());
                let run = move || {
                    controller
                        .run(&stop, move |_: &listwatch::Request<ConfigMap>| {
                            ran.send(number).unwrap();
                            Ok::<_, Error>(Action::await_change())
                        })
                        .unwrap();
                };
                thread::Builder::new().spawn(run).unwrap()
            })
            .collect();
        let mut who = [next(&runs), next(&runs)];
        who.sort_unstable();
        assert_eq!(who, [0, 1]);
        stop.stop();
        threads.into_iter().for_each(script::ended);
    }
}
