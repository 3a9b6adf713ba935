//! Requests that the server asks to send again later. Time is a manual clock's.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use listwatch::types::ConfigMap;
use listwatch::{Api, Client, Clock, DeleteParams, Error, ListParams, PostParams, Result, Stop, WatchParams};

use super::server::{Connection, Seen, Server};
use super::{SOON, config, config_map, config_maps};

const LATER: &str = r#"{"kind":"Status","status":"Failure","reason":"TooManyRequests","code":429}"#;

/// A server that refuses so many requests, and then answers with a ConfigMap.
fn busy(refusals: usize, code: u16, headers: &'static str, body: &'static str) -> Server {
    let count = AtomicUsize::new(0);
    Server::start(move |c| {
        c.serve(|c: &mut Connection, _: &Seen| match count.fetch_add(1, Ordering::SeqCst) {
            n if n < refusals => c.answer(code, headers, body),
            _ => c.json(200, config_map("a")),
        });
    })
}

/// Makes a call, and lets each wait pass. Returns the waits, too.
fn calls<T: Send>(
    server: &Server,
    timeout: Duration,
    call: impl FnOnce(&Api<ConfigMap>) -> Result<T> + Send,
) -> (Result<T>, Vec<Duration>) {
    let clock = Clock::manual();
    let client = Client::new(config(&server.url()).with_clock(clock.clone()).with_timeout(timeout)).unwrap();
    let (done, finished) = crossbeam_channel::bounded(1);
    std::thread::scope(|scope| {
        scope.spawn(|| done.send(call(&config_maps(&client))).unwrap());
        let mut waits = Vec::new();
        let deadline = Clock::system().now() + SOON;
        loop {
            if let Ok(answer) = finished.recv_timeout(Duration::from_millis(1)) {
                return (answer, waits);
            }
            if let Some(wait) = clock.next_timer() {
                waits.push(wait);
                clock.advance(wait);
            }
            assert!(Clock::system().now() < deadline, "after {waits:?}");
        }
    })
}

#[test]
fn issue_kube_1894_a_refusal_that_says_when_to_come_back_is_tried_again_by_any_verb() {
    type Call = fn(&Api<ConfigMap>) -> Result<()>;
    let verbs: [Call; 4] = [
        |api| api.get("a").map(drop),
        |api| api.create(&PostParams::default(), &ConfigMap::default()).map(drop),
        |api| {
            api.replace("a", &PostParams::default(), &serde_json::from_str(&config_map("a")).unwrap())
                .map(drop)
        },
        |api| api.delete("a", &DeleteParams::default()).map(drop),
    ];
    for call in verbs {
        for (code, headers, body) in [
            (429, "Retry-After: 1\r\n", LATER),
            (429, "", r#"{"kind":"Status","status":"Failure","code":429,"details":{"retryAfterSeconds":1}}"#),
            (503, "Retry-After: 1\r\n", "storage is (re)initializing"),
        ] {
            let server = busy(3, code, headers, body);
            let (answer, waits) = calls(&server, Duration::from_secs(60), call);
            answer.unwrap();
            assert_eq!(waits.len(), 3);
            assert!(waits.iter().all(|wait| (1000..1300).contains(&wait.as_millis())), "{waits:?}");
            let bodies: Vec<_> = server.seen.try_iter().map(|seen| (seen.line, seen.body)).collect();
            assert!(bodies.len() == 4 && bodies.iter().all(|other| *other == bodies[0]), "{bodies:?}");
        }
    }
}

/// As in client-go, where any number is a wish.
#[test]
fn a_refusal_that_says_to_come_back_at_once_is_tried_again_after_a_little() {
    for (code, headers) in
        [(429, "Retry-After: 0\r\n"), (503, "Retry-After: 0\r\n"), (429, "Retry-After: -1\r\n")]
    {
        let body = r#"{"kind":"Status","status":"Failure","code":429,"details":{"retryAfterSeconds":0}}"#;
        let server = busy(3, code, headers, if code == 429 { body } else { "" });
        let (answer, waits) = calls(&server, SOON, |api| api.get("a"));
        answer.unwrap();
        let waits: Vec<_> = waits.iter().map(Duration::as_millis).collect();
        assert!(matches!(waits[..], [100..=126, 200..=251, 400..=501]), "{waits:?}");
    }
    // A zero of the body alone is what Go leaves out.
    let zero = r#"{"kind":"Status","status":"Failure","code":429,"details":{"retryAfterSeconds":0}}"#;
    let (answer, waits) = calls(&busy(1, 429, "", zero), SOON, |api| api.get("a"));
    assert_eq!((answer.unwrap_err().code(), waits), (Some(429), vec![]));
    // The body's seconds go before the header's.
    let two = r#"{"kind":"Status","status":"Failure","code":429,"details":{"retryAfterSeconds":2}}"#;
    let (answer, waits) = calls(&busy(1, 429, "Retry-After: 9\r\n", two), SOON, |api| api.get("a"));
    answer.unwrap();
    assert!((2000..=2501).contains(&waits[0].as_millis()), "{waits:?}");
}

#[test]
fn issue_kubernetes_30975_refusals_use_one_connection() {
    let server = busy(10, 429, "Retry-After: 1\r\n", LATER);
    calls(&server, Duration::from_secs(100), |api| api.get("a")).0.unwrap();
    let seen: Vec<_> = server.seen.try_iter().map(|seen| seen.connection).collect();
    assert_eq!(seen, [0; 11]);
}

#[test]
fn a_refusal_without_a_time_is_an_error_at_once() {
    for (code, body) in [(429, LATER), (500, ""), (503, ""), (409, ""), (404, "")] {
        let server = busy(1, code, "", body);
        let (answer, waits) = calls(&server, SOON, |api| api.get("a"));
        assert_eq!((answer.unwrap_err().code(), waits), (Some(code), vec![]));
    }
    // A conflict that says when to come back is not solved by coming back.
    let server = busy(1, 409, "Retry-After: 1\r\n", "");
    assert_eq!(calls(&server, SOON, |api| api.get("a")).0.unwrap_err().code(), Some(409));
}

#[test]
fn it_is_given_up_after_ten_times_or_when_there_is_no_time_left() {
    let refused = |server: &Server, timeout: u64| -> (Error, usize) {
        let (answer, waits) = calls(server, Duration::from_secs(timeout), |api| api.get("a"));
        (answer.unwrap_err(), waits.len())
    };
    let (error, waits) = refused(&busy(100, 429, "Retry-After: 1\r\n", LATER), 1000);
    assert!(error.is_too_many_requests());
    assert_eq!(waits, 10);
    let server = busy(100, 429, "Retry-After: 1\r\n", LATER);
    let (error, waits) = refused(&server, 4);
    assert!(error.is_too_many_requests() && waits == 3, "{waits}");
    // Waits grow: after six the seventh, of five seconds, would be over too late.
    let (_, waits) = refused(&busy(100, 429, "Retry-After: 1\r\n", LATER), 13);
    assert_eq!(waits, 6);
    // One that asks for more time than there is, is not waited for at all.
    assert_eq!(refused(&busy(100, 429, "Retry-After: 60\r\n", LATER), 30).1, 0);
    // Nor one that asks for more than can be counted.
    for seconds in ["18446744073709551615", "9223372036854775807", "4611686018427387904"] {
        let headers = format!("Retry-After: {seconds}\r\n").leak();
        assert_eq!(refused(&busy(100, 429, headers, LATER), 30).1, 0);
    }
}

#[test]
fn issue_kubernetes_26871_waits_grow_beyond_what_the_server_asks_for_and_are_not_the_same() {
    let server = busy(9, 429, "Retry-After: 1\r\n", LATER);
    let (answer, waits) = calls(&server, Duration::from_secs(1000), |api| api.get("a"));
    answer.unwrap();
    let least = [1.0, 1.0, 1.0, 1.0, 1.6, 3.2, 5.0, 5.0, 5.0];
    let waits: Vec<_> = waits.iter().map(Duration::as_secs_f64).collect();
    assert_eq!(waits.len(), least.len());
    assert!(
        waits.iter().zip(least).all(|(wait, least)| (least..=least * 1.25 + 0.001).contains(wait)),
        "{waits:?}"
    );
    assert!(waits[..4].iter().any(|wait| *wait != waits[0]), "all come back at once: {waits:?}");
}

#[test]
fn lists_and_watches_are_tried_again_too() {
    let server = busy(2, 429, "Retry-After: 1\r\n", LATER);
    let (answer, waits) = calls(&server, Duration::from_secs(60), |api| {
        api.watch(&WatchParams::default(), &Stop::new()).map(drop)
    });
    answer.unwrap();
    assert_eq!(waits.len(), 2);
    let server = busy(2, 429, "Retry-After: 1\r\n", LATER);
    // What the server sends at last is no list, and told as such: the third attempt got through.
    let (answer, waits) = calls(&server, Duration::from_secs(60), |api| api.list(&ListParams::default()));
    assert!(answer.unwrap_err().is_decode());
    assert_eq!(waits.len(), 2);
    // A list of a version that is not there yet is not.
    let too_large = r#"{"kind":"Status","status":"Failure","message":"Timeout: Too large resource version: 9, current: 1","reason":"Timeout","code":504,"details":{"retryAfterSeconds":1,"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]}}"#;
    let (answer, waits) = calls(&busy(1, 504, "", too_large), SOON, |api| api.list(&ListParams::default()));
    assert!(answer.unwrap_err().is_too_large_resource_version() && waits.is_empty());
}

#[test]
fn a_stop_ends_the_wait() {
    let server = busy(100, 429, "Retry-After: 1\r\n", LATER);
    let (clock, stop) = (Clock::manual(), Stop::new());
    let client = Client::new(config(&server.url()).with_clock(clock.clone())).unwrap().with_stop(&stop);
    std::thread::scope(|scope| {
        let call = scope.spawn(|| config_maps(&client).get("a"));
        clock.wait_for_timers(1);
        stop.stop();
        assert!(call.join().unwrap().unwrap_err().is_stopped());
    });
}
