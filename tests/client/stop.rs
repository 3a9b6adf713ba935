//! A stop ends whatever blocks. All limits of time here are far longer than the tests may take.

use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use listwatch::cache::{Delta, Reflector};
use listwatch::types::ConfigMap;
use listwatch::{
    Api, Clock, Error, ListParams, PostParams, RateLimiter, Stop, WatchEvent, WatchParams, WorkQueue,
};

use super::server::{Connection, Server, connecting_to, hanging, refusing};
use super::{LONG, SOON, client, config_map, config_maps, event};

/// Stops `call` once `reached` has returned, and returns how it ended and how long that took.
pub(crate) fn stop_when<T: Send>(
    reached: impl FnOnce(),
    call: impl FnOnce(&Stop) -> T + Send,
) -> (T, Duration) {
    let (stop, clock) = (Stop::new(), Clock::system());
    thread::scope(|scope| {
        let run = || (call(&stop), clock.now());
        let running = thread::Builder::new().spawn_scoped(scope, run).unwrap();
        reached();
        let at = clock.now();
        stop.stop();
        let (result, ended) = running.join().unwrap();
        (result, ended.saturating_duration_since(at))
    })
}

/// That it ended because of the stop, and not at a limit of time.
pub(crate) fn assert_stopped<T: std::fmt::Debug>((result, took): (Result<T, Error>, Duration)) {
    let error = result.unwrap_err();
    assert!(error.is_stopped(), "{error:?}");
    assert!(took < SOON, "{took:?}");
}

/// A server that says when its script has done its part, and then waits for the client to go.
pub(crate) fn server(script: impl Fn(&mut Connection) + Send + Sync + 'static) -> (Server, impl FnOnce()) {
    let (here, arrived): (Sender<()>, Receiver<()>) = bounded(1);
    let server = Server::start(move |mut connection| {
        script(&mut connection);
        let _ = here.send(());
        connection.closed();
    });
    (server, move || arrived.recv_timeout(SOON).unwrap())
}

fn get(url: &str) -> impl FnOnce(&Stop) -> Result<ConfigMap, Error> + Send + use<> {
    let api = config_maps(&client(url));
    move |stop| api.with_stop(stop).get("a")
}

/// Watches until it ends; for how many events that were none of an error.
fn watch(api: Api<ConfigMap>) -> impl FnOnce(&Stop) -> usize + Send {
    move |stop| {
        let events = api.watch(&WatchParams::default().silence(LONG), stop).unwrap();
        events.map(|event| assert!(matches!(event, Ok(WatchEvent::Added(_))), "{event:?}")).count()
    }
}

#[test]
fn before_a_call() {
    let server = Server::start(|c| c.serve(|_, _| {}));
    let stop = Stop::new();
    stop.stop();
    let api = config_maps(&client(&server.url())).with_stop(&stop);
    assert!(api.get("a").unwrap_err().is_stopped());
    assert!(api.list(&ListParams::default()).unwrap_err().is_stopped());
    assert!(api.watch(&WatchParams::default(), &stop).unwrap_err().is_stopped());
    assert_eq!(server.accepted(), 0);
}

#[test]
fn in_a_connect_without_an_answer() {
    let (url, port, _sockets) = hanging();
    let before = connecting_to(port);
    let reached = || {
        while connecting_to(port) == before {
            thread::yield_now();
        }
    };
    assert_stopped(stop_when(reached, get(&url)));
    let reached = || {
        while connecting_to(port) == before {
            thread::yield_now();
        }
    };
    let api = config_maps(&client(&url));
    assert_stopped(stop_when(reached, |stop| api.watch(&WatchParams::default(), stop)));
}

#[test]
#[cfg(feature = "tls")]
fn in_a_tls_handshake_without_an_answer() {
    use listwatch::config::TlsOptions;

    let (server, reached) = server(Connection::first_byte);
    let url = server.url().replace("http:", "https:");
    let tls = TlsOptions { insecure_skip_verify: true, ..TlsOptions::default() };
    let api = config_maps(&listwatch::Client::new(super::config(&url).with_tls(tls)).unwrap());
    assert_stopped(stop_when(reached, |stop| api.with_stop(stop).get("a")));
}

#[test]
fn while_the_answer_does_not_come() {
    let (server, reached) = server(|c| drop(c.request()));
    assert_stopped(stop_when(reached, get(&server.url())));
}

#[test]
fn while_the_answer_to_a_watch_does_not_come() {
    let (server, reached) = server(|c| drop(c.request()));
    let api = config_maps(&client(&server.url()));
    assert_stopped(stop_when(reached, |stop| api.watch(&WatchParams::default(), stop)));
}

#[test]
fn within_a_head() {
    let (server, reached) = server(|c| {
        c.request();
        c.send("HTTP/1.1 200 OK\r\nContent-");
    });
    assert_stopped(stop_when(reached, get(&server.url())));
}

#[test]
fn within_an_answer() {
    for head in ["200 OK", "503 Busy", "401 Who"] {
        let (server, reached) = server(move |c| {
            c.request();
            c.send(format!("HTTP/1.1 {head}\r\nContent-Length: 100\r\n\r\n{{"));
        });
        assert_stopped(stop_when(reached, get(&server.url())));
    }
}

/// Such an answer ends with its connection, so that a cut looks like the proper end.
#[test]
fn within_an_answer_without_length() {
    let (server, reached) = server(|c| {
        c.request();
        c.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        c.send(config_map("a"));
    });
    assert_stopped(stop_when(reached, get(&server.url())));
}

#[test]
fn while_the_server_does_not_read() {
    let (here, arrived) = bounded(1);
    let (go, going) = bounded::<()>(0);
    let server = Server::start(move |mut c| {
        c.first_byte();
        here.send(()).unwrap();
        let _ = going.recv();
    });
    let api = config_maps(&client(&server.url()));
    let data = [("k".to_owned(), "x".repeat(32 << 20))].into_iter().collect();
    let object = ConfigMap { data, ..ConfigMap::default() };
    let reached = || arrived.recv_timeout(SOON).unwrap();
    assert_stopped(stop_when(reached, |stop| api.with_stop(stop).create(&PostParams::default(), &object)));
    drop(go);
}

#[test]
fn in_a_list_that_stalls() {
    let (server, reached) = server(|c| {
        c.request();
        c.stream();
        c.chunk(r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":["#);
        c.chunk(config_map("a"));
    });
    let api = config_maps(&client(&server.url()));
    assert_stopped(stop_when(reached, |stop| api.list_each(&ListParams::default(), stop, |_| Ok(()))));
}

#[test]
fn in_a_quiet_watch() {
    let (server, reached) = server(|c| {
        c.request();
        c.stream();
        c.chunk(event("ADDED", &config_map("a")));
    });
    let (events, took) = stop_when(reached, watch(config_maps(&client(&server.url()))));
    // None, if the stop came before it was read.
    assert!(events <= 1 && took < SOON);
}

#[test]
fn within_a_line_of_a_watch() {
    let (server, reached) = server(|c| {
        c.request();
        c.stream();
        c.chunk(&event("ADDED", &config_map("a"))[..30]);
    });
    let (events, took) = stop_when(reached, watch(config_maps(&client(&server.url()))));
    assert!(events == 0 && took < SOON);
}

#[test]
fn in_the_backoff_of_a_reflector() {
    let clock = Clock::manual();
    let reflector = Reflector::new(config_maps(&client(&refusing()))).clock(clock.clone());
    let ((), took) = stop_when(
        || clock.wait_for_timers(1),
        |stop| reflector.run(stop, &mut |delta: Delta<ConfigMap>| panic!("{delta:?}")),
    );
    assert!(took < SOON);
}

#[test]
fn while_a_worker_waits_for_a_key() {
    let queue = WorkQueue::<u32>::new(RateLimiter::default());
    queue.add_after(1, LONG);
    let (here, arrived) = bounded(1);
    let (key, took) = stop_when(
        || arrived.recv_timeout(SOON).unwrap(),
        |stop| {
            here.send(()).unwrap();
            queue.get(stop)
        },
    );
    assert!(key.is_none() && took < SOON);
}

/// A child's stop ends its own calls only.
#[test]
fn of_a_part_leaves_the_rest_alone() {
    let (here, arrived) = bounded(0);
    let (go, going) = bounded::<()>(0);
    let server = Server::start(move |c| {
        c.serve(|c, _| {
            here.send(()).unwrap();
            let _ = going.recv();
            c.json(200, config_map("a"));
        });
    });
    let (all, part) = (Stop::new(), Stop::new().child());
    let api = config_maps(&client(&server.url()));
    thread::scope(|scope| {
        let call = |stop: &Stop| {
            let api = api.with_stop(stop);
            thread::Builder::new().spawn_scoped(scope, move || api.get("a")).unwrap()
        };
        let (one, other) = (call(&all), call(&part));
        (0..2).for_each(|_| arrived.recv_timeout(SOON).unwrap());
        part.stop();
        assert!(other.join().unwrap().unwrap_err().is_stopped());
        drop(go);
        one.join().unwrap().unwrap();
    });
}

/// The promise of the documentation, measured in this one place: the best of a few, as machines are busy.
#[test]
fn takes_less_than_100_ms() {
    let in_watch = || {
        let (server, reached) = server(|c| {
            c.request();
            c.stream();
        });
        stop_when(reached, watch(config_maps(&client(&server.url())))).1
    };
    let in_connect = || {
        let (url, port, _sockets) = hanging();
        let before = connecting_to(port);
        let reached = || {
            while connecting_to(port) == before {
                thread::yield_now();
            }
        };
        stop_when(reached, get(&url)).1
    };
    let in_backoff = || {
        let clock = Clock::manual();
        let reflector = Reflector::new(config_maps(&client(&refusing()))).clock(clock.clone());
        stop_when(|| clock.wait_for_timers(1), |stop| reflector.run(stop, &mut |_: Delta<ConfigMap>| {})).1
    };
    let in_queue = || {
        let queue = WorkQueue::<u32>::new(RateLimiter::default());
        let (here, arrived) = bounded(1);
        let wait = |stop: &Stop| {
            here.send(()).unwrap();
            queue.get(stop)
        };
        stop_when(|| arrived.recv_timeout(SOON).unwrap(), wait).1
    };
    let states: [(&str, &dyn Fn() -> Duration); 4] = [
        ("a quiet watch", &in_watch),
        ("a hanging connect", &in_connect),
        ("a backoff", &in_backoff),
        ("a waiting worker", &in_queue),
    ];
    for (state, stop) in states {
        let best = (0..5).map(|_| stop()).min().unwrap();
        println!("a stop ends {state} within {best:?}");
        assert!(best < Duration::from_millis(100), "{state}: {best:?}");
    }
}
