//! A limit of requests per second, by a clock that is driven by hand.

use std::thread;
use std::time::Duration;

use listwatch::{Client, Clock, Stop, WatchParams};

use super::server::{Server, hang_up};
use super::stop::{assert_stopped, stop_when};
use super::{config, config_map, config_maps, event};

const SECOND: Duration = Duration::from_secs(1);

fn server() -> Server {
    Server::start(|c| {
        c.serve(|c, seen| {
            if seen.line.contains("watch=true") {
                c.stream();
                c.chunk(event("ADDED", &config_map("a")));
                c.last_chunk();
            } else {
                c.json(200, config_map("a"));
            }
        });
    })
}

/// So many requests a second, `burst` at once.
fn limited(url: &str, clock: &Clock, per_second: u32, burst: u32) -> Client {
    Client::new(config(url).with_clock(clock.clone()).with_rate_limit(per_second, burst)).unwrap()
}

#[test]
fn requests_wait_for_their_turn() {
    let (server, clock) = (server(), Clock::manual());
    let api = config_maps(&limited(&server.url(), &clock, 2, 3));
    (0..3).for_each(|_| drop(api.get("a").unwrap()));
    // Of a clone, and a watch: all have one limit.
    let api = config_maps(&api.client().clone());
    for before in [3, 2] {
        thread::scope(|scope| {
            let get = thread::Builder::new().spawn_scoped(scope, || api.get("a").map(drop)).unwrap();
            clock.wait_for_timers(1);
            assert_eq!(clock.next_timer(), Some(SECOND / 2));
            let watch = || api.watch(&WatchParams::default(), &Stop::new()).map(drop);
            let watch = thread::Builder::new().spawn_scoped(scope, watch).unwrap();
            clock.wait_for_timers(2);
            assert_eq!(server.seen.try_iter().count(), before, "and none of these two");
            clock.advance(SECOND / 2);
            get.join().unwrap().unwrap();
            clock.advance(SECOND / 2);
            watch.join().unwrap().unwrap();
        });
    }
    // After a pause it is three at once again, and not more.
    clock.advance(SECOND * 60);
    (0..3).for_each(|_| drop(api.get("a").unwrap()));
    let (result, _) = stop_when(|| clock.wait_for_timers(1), |stop| api.with_stop(stop).get("a"));
    assert!(result.unwrap_err().is_stopped());
}

#[test]
fn a_stop_ends_the_wait_for_a_turn() {
    let (server, clock) = (server(), Clock::manual());
    let api = config_maps(&limited(&server.url(), &clock, 1, 1));
    api.get("a").unwrap();
    assert_stopped(stop_when(|| clock.wait_for_timers(1), |stop| api.with_stop(stop).get("a")));
    assert_stopped(stop_when(|| clock.wait_for_timers(1), |stop| api.watch(&WatchParams::default(), stop)));
    assert_eq!(server.seen.try_iter().count(), 1);
}

#[test]
fn a_turn_that_comes_too_late_is_an_error_at_once_and_costs_none() {
    let (server, clock) = (server(), Clock::manual());
    let api = config_maps(&limited(&server.url(), &clock, 1, 1).with_timeout(SECOND / 2));
    api.get("a").unwrap();
    for _ in 0..10 {
        let error = api.get("a").unwrap_err();
        assert!(error.is_timeout() && error.to_string().contains("rate limit"), "{error:?}");
        assert!(api.watch(&WatchParams::default(), &Stop::new()).unwrap_err().is_timeout());
    }
    clock.advance(SECOND);
    api.get("a").unwrap();
    assert_eq!(server.seen.try_iter().count(), 2);
}

#[test]
fn what_is_sent_again_waits_too() {
    let server = Server::start(|mut c| match c.index {
        0 => {
            c.request();
            hang_up(c);
        }
        _ => c.serve(|c, _| c.json(200, config_map("a"))),
    });
    let clock = Clock::manual();
    let api = config_maps(&limited(&server.url(), &clock, 1, 1));
    thread::scope(|scope| {
        let get = thread::Builder::new().spawn_scoped(scope, || api.get("a").map(drop)).unwrap();
        clock.wait_for_timers(1);
        assert_eq!((server.accepted(), clock.next_timer()), (1, Some(SECOND)));
        clock.advance(SECOND);
        get.join().unwrap().unwrap();
    });
    assert_eq!(server.accepted(), 2);
}

#[test]
fn there_is_no_limit_unless_one_is_set() {
    let (server, clock) = (server(), Clock::manual());
    for config in [config(&server.url()), config(&server.url()).with_rate_limit(5, 1).with_rate_limit(0, 1)] {
        assert_eq!(config.rate_limit(), None);
        let api = config_maps(&Client::new(config.with_clock(clock.clone())).unwrap());
        (0..300).for_each(|_| drop(api.get("a").unwrap()));
    }
    assert_eq!(config("http://x").with_rate_limit(5, 7).rate_limit(), Some((5, 7)));
}
