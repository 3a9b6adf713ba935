//! What programs tell of their work: metrics by the names of client-go, in the text format of Prometheus, and probes.

#![allow(clippy::unwrap_used, clippy::panic)] // as in tests, which these are

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{bounded, unbounded};
use listwatch::metrics::{Event, Metrics, PrometheusText, Recorder};
use listwatch::types::ConfigMap;
use listwatch::{
    Action, Api, ApiServer, Client, Clock, Config, Controller, InformerFactory, ObjectMeta, PostParams,
    RateLimiter, Request, Stop, WorkQueue,
};

#[path = "../examples/support/probes.rs"]
mod probes;
#[path = "metrics/text.rs"]
mod text;

const SOON: Duration = Duration::from_secs(20);
const SECOND: Duration = Duration::from_secs(1);

fn map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta::named(name), ..ConfigMap::default() }
}

/// Stops when dropped, also by a test that fails.
struct Ends(Stop);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[track_caller]
fn until(mut holds: impl FnMut() -> bool) {
    let over = Clock::system().now() + SOON;
    while !holds() {
        assert!(Clock::system().now() < over, "it does not come to hold");
        std::thread::yield_now();
    }
}

#[test]
fn a_queue_tells_how_long_keys_wait_and_are_worked_on() {
    let clock = Clock::manual();
    let metrics = Metrics::with_clock(clock.clone());
    let queue = WorkQueue::with_clock(RateLimiter::default(), clock.clone());
    queue.add(0); // before it reports
    queue.report_to("pods", metrics.clone());
    [1, 2, 1].into_iter().for_each(|key| queue.add(key));
    clock.advance(2 * SECOND);
    assert_eq!([queue.try_get(), queue.try_get()], [Some(0), Some(1)]);
    queue.done(&0);
    queue.add(1); // while it is worked on
    queue.add_after(3, 5 * SECOND);
    clock.advance(3 * SECOND);
    let told = || metrics.snapshot().queues.remove("pods").unwrap();
    let now = told();
    assert_eq!((now.depth, now.adds, now.retries), (2, 3, 1));
    assert_eq!((now.wait_seconds.count(), now.wait_seconds.sum()), (1, 2.0));
    assert_eq!((now.work_seconds.count(), now.unfinished, now.longest_running), (0, 3 * SECOND, 3 * SECOND));
    queue.done(&1);
    assert_eq!(queue.try_get(), Some(2));
    let _ = queue.add_rate_limited(4);
    clock.advance(4 * SECOND);
    assert_eq!(queue.len(), 3, "1 again, 3 and 4 whose time has come");
    let now = told();
    assert_eq!((now.depth, now.adds, now.retries), (3, 5, 2));
    assert_eq!((now.wait_seconds.sum(), now.work_seconds.sum()), (7.0, 3.0));
    assert_eq!((now.unfinished, now.longest_running), (4 * SECOND, 4 * SECOND));
    // Nothing stays behind of a queue that is gone.
    drop(queue);
    let now = told();
    assert_eq!((now.depth, now.unfinished, now.longest_running), (0, Duration::ZERO, Duration::ZERO));
}

#[test]
fn a_recorder_may_use_the_queue_that_it_is_told_of() {
    struct Looks(WorkQueue<u32>);
    impl Recorder for Looks {
        fn record(&self, event: &Event<'_>) {
            if let Event::QueueTaken { .. } = event {
                self.0.add(2);
            }
        }
    }
    let (looked, queue) = (WorkQueue::new(RateLimiter::default()), WorkQueue::new(RateLimiter::default()));
    queue.report_to("a", Arc::new(Looks(queue.clone())));
    queue.report_to("b", Looks(looked.clone()));
    queue.add(1);
    assert_eq!((queue.try_get(), looked.try_get()), (Some(1), Some(2)));
}

#[test]
fn a_controller_its_informer_queue_and_requests_are_in_the_text_of_prometheus() {
    let server = ApiServer::start().unwrap();
    let plain = server.client().unwrap();
    let maps = Api::<ConfigMap>::namespaced(&plain, "default");
    for name in ["good", "later", "bad", "worse"] {
        maps.create(&PostParams::default(), &map(name)).unwrap();
    }
    let (metrics, stop) = (Metrics::new(), Stop::new());
    let client = plain.with_metrics(metrics.clone());
    let controller = Controller::<ConfigMap>::all(&client).workers(3).max_retries(0);
    let (calls, told) = unbounded();
    let reconcile = move |map: &Request<ConfigMap>| {
        let name = map.metadata.name.clone();
        calls.send(name.clone()).unwrap();
        match name.as_str() {
            "later" => Ok(Action::requeue(Duration::from_secs(3600))),
            "bad" => Err("it is"),
            "worse" => panic!("as asked"),
            _ => Ok(Action::await_change()),
        }
    };
    std::thread::scope(|scope| {
        let _end = Ends(stop.clone());
        scope.spawn(|| controller.run(&stop, reconcile).unwrap());
        let mut names: Vec<_> = (0..4).map(|_| told.recv_timeout(SOON).unwrap()).collect();
        names.sort();
        assert_eq!(names, ["bad", "good", "later", "worse"]);
        until(|| metrics.snapshot().queues["configmaps"].work_seconds.count() == 4);
        until(|| metrics.snapshot().reflectors["configmaps"].watches == 1);
        assert_eq!(metrics.snapshot().controllers["configmaps"].max_workers, 3);
        assert!(controller.health().is_ready() && controller.health().is_live());
    });
    assert!(!controller.health().is_ready() && controller.health().is_live());
    assert!(Api::<ConfigMap>::namespaced(&client, "default").get("nobody").is_err());

    let samples = text::parse(&metrics.to_prometheus_text());
    let value = |sample: &str| *samples.get(sample).unwrap_or_else(|| panic!("no {sample} in {samples:#?}"));
    let total = |result| {
        value(&format!("controller_runtime_reconcile_total{{controller=\"configmaps\",result={result:?}}}"))
    };
    assert_eq!([total("success"), total("requeue_after"), total("error")], [1.0, 1.0, 2.0]);
    let of = |family: &str| value(&format!("controller_runtime_{family}{{controller=\"configmaps\"}}"));
    assert_eq!([of("reconcile_errors_total"), of("reconcile_panics_total")], [2.0, 1.0]);
    assert_eq!([of("active_workers"), of("max_concurrent_reconciles")], [0.0, 0.0]);
    assert_eq!(of("reconcile_time_seconds_count"), 4.0);
    let of = |family: &str| value(&format!("workqueue_{family}{{name=\"configmaps\"}}"));
    assert_eq!([of("adds_total"), of("depth"), of("unfinished_work_seconds")], [4.0, 0.0, 0.0]);
    assert_eq!([of("retries_total"), of("work_duration_seconds_count")], [1.0, 4.0]);
    let of = |family: &str| value(&format!("reflector_{family}{{name=\"configmaps\"}}"));
    assert_eq!([of("lists_total"), of("items_per_list_sum"), of("watches_total")], [1.0, 4.0, 1.0]);
    assert!(of("last_resource_version") >= 4.0 && of("list_duration_seconds_count") == 1.0);
    let host = server.url().trim_start_matches("http://").to_owned();
    let requests =
        |code| value(&format!("rest_client_requests_total{{code={code:?},host={host:?},method=\"GET\"}}"));
    assert_eq!([requests("200"), requests("404")], [2.0, 1.0], "a list, a watch, and one that is not there");
    let timed = format!("rest_client_request_duration_seconds_count{{host={host:?},verb=\"GET\"}}");
    assert_eq!(value(&timed), 3.0);
}

#[test]
fn a_request_without_an_answer_counts_as_an_error() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let metrics = Metrics::new();
    let client = Client::new(Config::new(&format!("http://{gone}/prefix")).unwrap()).unwrap();
    let client = client.with_metrics(metrics.clone());
    assert!(Api::<ConfigMap>::namespaced(&client, "default").get("one").is_err());
    let samples = text::parse(&metrics.to_prometheus_text());
    let error = |(name, _): &(&String, &f64)| {
        *name == &format!("rest_client_requests_total{{code=\"<error>\",host=\"{gone}\",method=\"GET\"}}")
    };
    assert!(samples.iter().any(|sample| error(&sample)), "{samples:?}");
}

#[test]
fn labels_with_quotes_and_newlines_come_through_and_own_metrics_stand_beside() {
    let metrics = Metrics::new();
    metrics.record(&Event::Leader { name: "a \"b\"\\\nc", leading: true });
    let mut out = PrometheusText::new();
    metrics.snapshot().write_to(&mut out);
    out.gauge("mine", "Mine.").sample(&[], -0.5);
    let samples = text::parse(out.as_str());
    assert_eq!(samples[&format!("leader_election_master_status{{name={:?}}}", "a \"b\"\\\nc")], 1.0);
    assert_eq!(samples["mine{}"], -0.5);
    assert_eq!(text::parse(&Metrics::new().to_prometheus_text()).len(), 0);
}

#[test]
fn informers_are_ready_once_synced_and_live_unless_silent() {
    let clock = Clock::manual();
    let server = ApiServer::start().unwrap();
    let config = Config::new(&server.url()).unwrap().with_clock(clock.clone());
    let factory = InformerFactory::new(&Client::new(config).unwrap());
    let stop = Stop::new();
    assert!(!factory.health().is_ready() && factory.health().is_live(), "without an informer");
    factory.informer::<ConfigMap>();
    assert!(!factory.health().is_ready() && factory.health().is_live(), "before the start");
    factory.start(&stop).unwrap();
    factory.wait_for_sync(SOON).unwrap();
    until(|| factory.informer::<ConfigMap>().health().watches == 1);
    assert!(factory.health().is_ready() && factory.health().is_live());
    assert_eq!(factory.health().to_string(), "configmaps: ok\n");
    // Nobody looks at the socket of a manual clock: as if the reading thread hung.
    clock.advance(Duration::from_secs(359));
    assert!(factory.health().is_live());
    clock.advance(Duration::from_secs(2));
    assert!(!factory.health().is_live());
    assert_eq!(factory.health().to_string(), "configmaps: silent for 361s\n");
    stop.stop();
    factory.join();
    assert!(!factory.health().is_ready() && factory.health().is_live(), "after its end");
}

fn get(address: SocketAddr, path: &str) -> String {
    let (mut stream, mut answer) = (TcpStream::connect(address).unwrap(), String::new());
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_probes_of_the_examples_limit_how_long_and_how_many() {
    let (entered, inside) = unbounded();
    let (release, released) = unbounded::<()>();
    let endpoints = probes::Endpoints {
        metrics: Box::new(|| "a 1\n".into()),
        healthz: Box::new(move || {
            entered.send(()).unwrap();
            (released.recv().is_ok(), "ok".into())
        }),
        readyz: Box::new(|| (true, "ok".into())),
    };
    let stop = Stop::new();
    let probes = probes::Probes::serve("127.0.0.1:0", endpoints, &stop).unwrap();
    let clients: Vec<_> = (0..20)
        .map(|_| {
            let mut client = TcpStream::connect(probes.address()).unwrap();
            client.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
            client
        })
        .collect();
    (0..16).for_each(|_| inside.recv_timeout(SOON).unwrap());
    assert!(inside.recv_timeout(Duration::from_millis(100)).is_err(), "the others wait");
    (0..20).for_each(|_| release.send(()).unwrap());
    (16..20).for_each(|_| inside.recv_timeout(SOON).unwrap());
    drop(clients);

    // Who sends a byte now and then is not waited for: neither for long, nor at the end.
    let dribbling = || {
        let mut client = TcpStream::connect(probes.address()).unwrap();
        let reader = client.try_clone().unwrap();
        let stop = Stop::new();
        let ending = stop.clone();
        let dribble =
            move || while !ending.sleep(Duration::from_millis(20)) && client.write_all(b"x").is_ok() {};
        std::thread::Builder::new().name("test-dribble".into()).spawn(dribble).unwrap();
        reader.set_read_timeout(Some(SOON)).unwrap();
        (reader, stop)
    };
    let (mut first, first_stop) = dribbling();
    let ended = first.read(&mut [0]);
    let is_wait = |e: &std::io::Error| e.kind() == std::io::ErrorKind::WouldBlock;
    assert!(!ended.is_err_and(|e| is_wait(&e)), "it is closed");
    first_stop.stop();
    let (_second, second_stop) = dribbling();
    let (ended, end) = bounded(1);
    let end_them = move || {
        drop(probes);
        ended.send(()).unwrap();
    };
    std::thread::Builder::new().name("test-drop".into()).spawn(end_them).unwrap();
    end.recv_timeout(SOON).unwrap();
    second_stop.stop();
}

#[test]
fn the_probes_of_the_examples_answer_while_another_client_says_nothing_and_end_when_stopped() {
    let endpoints = probes::Endpoints {
        metrics: Box::new(|| "a 1\n".into()),
        healthz: Box::new(|| (true, "ok".into())),
        readyz: Box::new(|| (false, "not yet".into())),
    };
    let stop = Stop::new();
    let probes = probes::Probes::serve("127.0.0.1:0", endpoints, &stop).unwrap();
    let silent = TcpStream::connect(probes.address()).unwrap();
    let metrics = get(probes.address(), "/metrics?x=y");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{metrics}");
    assert!(metrics.ends_with("\r\n\r\na 1\n"), "{metrics}");
    assert!(get(probes.address(), "/healthz").starts_with("HTTP/1.1 200 "));
    let ready = get(probes.address(), "/readyz");
    assert!(ready.starts_with("HTTP/1.1 503 ") && ready.ends_with("\r\n\r\nnot yet"), "{ready}");
    assert!(get(probes.address(), "/").starts_with("HTTP/1.1 404 "));
    drop(silent);
    let address = probes.address();
    let (ended, end) = bounded(1);
    stop.stop();
    let end_them = move || {
        drop(probes);
        ended.send(()).unwrap();
    };
    std::thread::Builder::new().name("test-drop".into()).spawn(end_them).unwrap();
    end.recv_timeout(SOON).unwrap();
    assert!(TcpStream::connect(address).is_err());
}
