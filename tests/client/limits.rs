//! Limits of time, and that they apply to what they are meant for only.

use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use listwatch::types::ConfigMap;
use listwatch::{Client, Clock, Handlers, Informer, ListParams, Resource, Stop, WatchEvent, WatchParams};

use super::answers::TokenFile;
use super::server::{Server, hanging, refusing};
use super::{LONG, client, config, config_map, config_maps, event};

/// A limit that is to be reached.
const SHORT: Duration = Duration::from_millis(150);

fn client_with_timeout(server: &Server, timeout: Duration) -> Client {
    Client::new(config(&server.url()).with_timeout(timeout)).unwrap()
}

/// Lets time pass in the script of a server, where time passing is what is tested.
fn pass(time: Duration) {
    let never: Receiver<()> = crossbeam_channel::never();
    let _ = never.recv_timeout(time);
}

#[test]
fn a_connect_without_an_answer_ends_at_its_limit() {
    let (url, _, _sockets) = hanging();
    let client = Client::new(config(&url).with_connect_timeout(SHORT)).unwrap();
    let error = config_maps(&client).get("a").unwrap_err();
    let text = error.to_string();
    assert!(
        error.is_connect() && text.contains("connect to 127.0.0.1") && text.contains("no answer"),
        "{text}"
    );
    let error = config_maps(&client).watch(&WatchParams::default(), &Stop::new()).unwrap_err();
    assert!(error.is_connect(), "{error}");
    // The limit of the call covers connecting.
    let client = Client::new(config(&url).with_timeout(SHORT)).unwrap();
    assert!(config_maps(&client).get("a").unwrap_err().is_connect());
}

#[test]
fn a_refused_connect_says_where_and_that_nothing_was_sent() {
    let url = refusing();
    let error = config_maps(&client(&url)).get("a").unwrap_err();
    assert!(error.is_connect() && !error.is_io(), "{error}");
    assert!(error.to_string().contains(url.strip_prefix("http://").unwrap()), "{error}");
}

#[test]
fn a_name_without_an_address_is_a_failed_connect() {
    // The one test that speaks to no address of this machine, which a proxy of the environment would be asked for.
    let config = config("http://nowhere.invalid:1").without_proxy();
    let error = config_maps(&Client::new(config).unwrap()).get("a").unwrap_err();
    assert!(error.is_connect() && error.to_string().contains("name lookup failed"), "{error}");
}

#[test]
fn headers_that_never_come_end_every_call_at_its_limit() {
    let server = Server::start(|c| c.serve(|_, _| {}));
    let api = config_maps(&client_with_timeout(&server, SHORT));
    assert!(api.get("a").unwrap_err().is_timeout());
    assert!(api.list(&ListParams::default()).unwrap_err().is_timeout());
    assert!(api.watch(&WatchParams::default(), &Stop::new()).unwrap_err().is_timeout());
    // A call that timed out may have been acted on: it is not sent again.
    assert_eq!(server.seen.try_iter().count(), 3);
}

#[test]
fn a_call_has_one_limit_for_all_of_it() {
    let server = Server::start(|mut c| {
        c.request();
        c.stream();
        // Never silent for long, never done.
        while c.try_send(b"1\r\n \r\n").is_ok() {
            pass(SHORT / 5);
        }
    });
    let error = config_maps(&client_with_timeout(&server, SHORT * 2)).get("a").unwrap_err();
    assert!(error.is_timeout(), "{error}");
}

#[test]
fn a_list_may_take_long_but_not_be_silent() {
    let server = Server::start(|mut c| {
        let silent = c.request().unwrap().line.contains("limit");
        c.stream();
        c.chunk(r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":["#);
        if silent {
            return c.closed();
        }
        for n in 0..12 {
            c.chunk(config_map(&format!("c-{n}")) + if n < 11 { "," } else { "]}" });
            pass(SHORT);
        }
        c.last_chunk();
    });
    // Its limit is 6 pauses long, the list 12.
    let api = config_maps(&client_with_timeout(&server, SHORT * 6));
    assert_eq!(api.list(&ListParams::default()).unwrap().items.len(), 12);
    let api = config_maps(&client_with_timeout(&server, SHORT));
    assert!(api.list(&ListParams::default().limit(1)).unwrap_err().is_timeout());
}

/// This fails if ureq once more changes what its limits mean.
#[test]
fn a_watch_outlives_the_limits_of_calls_and_its_own_silence_as_long_as_bytes_come() {
    let server = Server::start(|mut c| {
        c.request();
        c.stream();
        for n in 0..12 {
            // Any byte will do, also half a line.
            let line = event("ADDED", &config_map(&format!("c-{n}")));
            let (a, b) = line.split_at(line.len() / 2);
            c.chunk(a);
            pass(SHORT / 2);
            c.chunk(b);
            pass(SHORT / 2);
        }
        c.closed();
    });
    // Each limit is 6 pauses long, the events 12.
    let api = config_maps(&client_with_timeout(&server, SHORT * 6));
    let params = WatchParams::default().silence(SHORT * 6);
    let mut watch = api.watch(&params, &Stop::new()).unwrap();
    for _ in 0..12 {
        assert!(matches!(watch.next(), Some(Ok(WatchEvent::Added(_)))));
    }
    let error = watch.next().unwrap().unwrap_err();
    assert!(error.is_timeout() && error.to_string().contains("silent"), "{error}");
    assert!(watch.next().is_none());
}

#[test]
fn a_watch_is_refused_in_time_though_its_silence_may_be_long() {
    let file = TokenFile::new("stalls");
    for code in [503, 401] {
        let server = Server::start(move |mut c| {
            c.request();
            c.send(format!("HTTP/1.1 {code} No\r\nContent-Length: 100\r\n\r\nno, and then"));
            c.closed();
        });
        let config = config(&server.url()).with_timeout(SHORT * 6).with_credentials(file.credentials());
        let api = config_maps(&Client::new(config).unwrap());
        let error = api.watch(&WatchParams::default().silence(LONG), &Stop::new()).unwrap_err();
        assert_eq!(error.code(), Some(code));
        assert!(error.to_string().contains("no, and then"), "{error}");
    }
}

#[test]
fn a_request_that_the_server_does_not_read_ends_at_its_limit() {
    let (done, over) = bounded::<()>(0);
    let server = Server::start(move |_connection| assert!(over.recv().is_err()));
    let api = config_maps(&client_with_timeout(&server, SHORT));
    let data = [("k".to_owned(), "x".repeat(32 << 20))].into_iter().collect();
    let object = ConfigMap { data, ..ConfigMap::default() };
    let error = api.create(&listwatch::PostParams::default(), &object).unwrap_err();
    assert!(error.is_timeout(), "{error}");
    drop(done);
}

#[test]
fn a_limit_may_be_as_good_as_none() {
    let server = Server::start(|c| {
        c.serve(|c, seen| {
            if seen.line.contains("watch=true") {
                c.stream();
                c.chunk(event("ADDED", &config_map("a")));
                c.last_chunk();
            } else if seen.line.contains('?') {
                c.json(200, r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[]}"#);
            } else {
                c.json(200, config_map("a"));
            }
        });
    });
    for limit in [Duration::MAX, Duration::from_secs(u64::MAX / 2), Duration::from_secs(1 << 40)] {
        let config = config(&server.url().replace("127.0.0.1", "localhost"));
        let api = config_maps(&Client::new(config.with_timeout(limit).with_connect_timeout(limit)).unwrap());
        api.get("a").unwrap();
        api.list(&ListParams::default().limit(1)).unwrap();
        let params = WatchParams::default().timeout(limit).silence(limit);
        assert_eq!(api.watch(&params, &Stop::new()).unwrap().filter(|event| event.is_ok()).count(), 1);
        drop(api.watch(&WatchParams::default().timeout(limit), &Stop::new()).unwrap());
    }
}

/// A limit of nothing is reached at once, and is not taken for none.
#[test]
fn a_limit_may_be_nothing() {
    let server = Server::start(|c| c.serve(|_, _| {}));
    let config = config(&server.url()).with_timeout(Duration::ZERO);
    let api = config_maps(&Client::new(config).unwrap());
    for error in [
        api.get("a").unwrap_err(),
        api.list(&ListParams::default()).unwrap_err(),
        api.watch(&WatchParams::default().silence(Duration::ZERO), &Stop::new()).unwrap_err(),
    ] {
        assert!(error.is_timeout() || error.is_connect(), "{error:?}");
    }
}

/// Whether the connection is not made, brings no head, or goes silent at any place: one option says when that is found.
#[test]
fn a_dead_watch_is_found_within_the_silence_and_goes_on_without_a_list() {
    let server = Server::start(|mut c| {
        // The list, then a watch that dies in one way after the other, then one that lives.
        match c.index {
            0 => {
                c.request();
                let list = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#;
                c.json(200, list);
            }
            1 => drop(c.request()),
            // Before each watch that follows a broken one the version is asked for, on a connection of its own.
            2 | 4 | 6 => {
                c.request();
                let page = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#;
                c.json(200, page);
            }
            3 => {
                c.request();
                c.stream();
            }
            5 => {
                c.request();
                c.stream();
                c.chunk(&event("ADDED", &config_map("half"))[..30]);
            }
            _ => {
                c.request();
                c.stream();
                c.chunk(event("ADDED", &config_map("a").replace(r#"ersion":"1""#, r#"ersion":"8""#)));
            }
        }
        c.closed();
    });
    let (stop, clock) = (Stop::new(), Clock::manual());
    let (seen, told) = bounded(1);
    let informer = Informer::builder(config_maps(&client(&server.url())))
        .clock(clock.clone())
        .silence(SHORT * 2)
        .build()
        .unwrap();
    let handler =
        Handlers::<ConfigMap>::new().on_add(move |object, _| seen.send(object.key().to_string()).unwrap());
    informer.add_handler(handler).unwrap();
    informer.start(&stop).unwrap();
    for _ in 0..3 {
        // It has found the connection dead when it waits before the next.
        clock.wait_for_timers(1);
        clock.advance(Duration::from_secs(60));
    }
    assert_eq!(told.recv_timeout(super::SOON).unwrap(), "ns/a");
    stop.stop();
    informer.join();
    let requests: Vec<_> = server.seen.try_iter().map(|seen| seen.line).collect();
    assert_eq!(requests.iter().filter(|line| line.contains("limit=500")).count(), 1, "{requests:?}");
    let mut watches = requests.iter().filter(|line| line.contains("watch=true"));
    assert!(watches.all(|line| line.contains("resourceVersion=7&")), "{requests:?}");
}

/// Load balancers drop what was quiet for four minutes, without a word.
#[test]
fn a_watch_ends_before_a_balancer_would_drop_it() {
    let server = Server::start(|c| {
        c.serve(|c, _| {
            c.stream();
            c.last_chunk();
        });
    });
    let api = config_maps(&client(&server.url()));
    let asked = |params: &WatchParams| -> u64 {
        assert!(api.watch(params, &Stop::new()).unwrap().next().is_none());
        let line = server.next().line;
        line.split("timeoutSeconds=").nth(1).unwrap().split('&').next().unwrap().parse().unwrap()
    };
    let drawn: Vec<_> = (0..50).map(|_| asked(&WatchParams::default())).collect();
    assert!(drawn.iter().all(|time| (180..=210).contains(time)), "{drawn:?}");
    // Not all of a program's watches end at once.
    assert!(drawn.iter().any(|time| *time != drawn[0]), "{drawn:?}");
    let seconds = Duration::from_secs;
    // The server ends a quiet watch before it would be taken for dead.
    for (silence, expected) in [(4, 3), (60, 50), (200, 190), (3600, 3590)] {
        assert_eq!(asked(&WatchParams::default().silence(seconds(silence))), expected);
    }
    assert_eq!(asked(&WatchParams::default().timeout(seconds(30))), 30);
    assert_eq!(asked(&WatchParams::default().timeout(seconds(30)).silence(seconds(90))), 30);
}

/// Of all that a server has to say about a few objects; it would cut off who does not read.
#[test]
fn a_blocked_handler_does_not_keep_the_connection_from_being_read() {
    let (sent, all) = bounded(1);
    let data = "x".repeat(10_000);
    let server = Server::start(move |mut c| {
        if !c.request().unwrap().line.contains("watch=true") {
            let list =
                r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#;
            return c.json(200, list);
        }
        c.stream();
        // More than sockets and queues could hold.
        let written = (10..6_000).try_for_each(|version| {
            let line = format!(
                r#"{{"type":"ADDED","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"c-{}","namespace":"ns","uid":"u","resourceVersion":"{version}"}},"data":{{"k":"{data}"}}}}}}"#,
                version % 100,
            ) + "\n";
            c.try_send(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes())
        });
        sent.send(written).unwrap();
        c.closed();
    });
    let (go, gate) = bounded::<()>(0);
    let stop = Stop::new();
    let blocked = Handlers::<ConfigMap>::new().on_add(move |_, _| {
        let _ = gate.recv();
    });
    let informer = Informer::builder(config_maps(&client(&server.url()))).build().unwrap();
    let registration = informer.add_handler(blocked).unwrap();
    informer.start(&stop).unwrap();
    assert_eq!(all.recv_timeout(super::SOON), Ok(Ok(())));
    assert!(registration.depth() < 2_000, "{}", registration.depth());
    drop(go);
    stop.stop();
    informer.join();
}
