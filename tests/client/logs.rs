//! Logs of pods.

use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use listwatch::types::{ConfigMap, Pod};
use listwatch::{Api, Client, LogParams, Object, StaticResource as _, Stop, Time};

use super::server::{Connection, Seen, Server, hang_up};
use super::{LONG, SOON, client, config};

fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client, "ns")
}

/// A server of one log, in chunks as given, whose end is proper or not.
fn server(chunks: Vec<Vec<u8>>, proper: bool) -> Server {
    Server::start(move |mut connection| {
        connection.request();
        connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n");
        chunks.iter().for_each(|chunk| connection.chunk(chunk));
        if proper {
            connection.last_chunk();
            connection.closed();
        } else {
            hang_up(connection);
        }
    })
}

#[test]
fn each_option_is_sent_as_the_server_reads_it() {
    let server = Server::start(|c| c.serve(|c: &mut Connection, _: &Seen| c.answer(200, "", "")));
    let api = pods(&client(&server.url()));
    let all = LogParams::default()
        .container("main")
        .follow()
        .previous()
        .timestamps()
        .insecure_skip_tls_verify_backend()
        .since(Duration::from_millis(1500))
        .tail_lines(0)
        .limit_bytes(9);
    for (params, query) in [
        (LogParams::default(), ""),
        (
            all,
            "?container=main&follow=true&previous=true&timestamps=true&insecureSkipTLSVerifyBackend=true&sinceSeconds=1&tailLines=0&limitBytes=9",
        ),
        (LogParams::default().since(Duration::ZERO), "?sinceSeconds=1"),
        (
            LogParams::default().since(LONG).since_time(Time::from_unix(0)),
            "?sinceTime=1970-01-01T00%3A00%3A00Z",
        ),
        (LogParams::default().since_time(Time::from_unix(0)).since(LONG), "?sinceSeconds=120"),
    ] {
        assert_eq!(api.logs("web-0", &params, &Stop::new()).unwrap().count(), 0);
        let seen = server.next();
        assert_eq!(seen.line, format!("GET /api/v1/namespaces/ns/pods/web-0/log{query}"));
        assert_eq!(seen.header("accept-encoding"), "identity");
    }
}

#[test]
fn lines_come_as_they_are_cut_by_the_network_or_not() {
    let text = "one\n\ntwo\r\nthr\u{e9}\u{20ac}\n\u{1f600}last".as_bytes();
    for length in 1..text.len() {
        let server = server(text.chunks(length).map(<[u8]>::to_vec).collect(), true);
        let lines = pods(&client(&server.url())).logs("web-0", &LogParams::default(), &Stop::new()).unwrap();
        let lines: Vec<_> = lines.map(Result::unwrap).collect();
        assert_eq!(lines, ["one", "", "two", "thr\u{e9}\u{20ac}", "\u{1f600}last"]);
    }
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    let server = server(vec![b"a\xff\xfeb\n\x00\x1b[2J\n\xe2\x82".to_vec()], true);
    let lines = pods(&client(&server.url())).logs("web-0", &LogParams::default(), &Stop::new()).unwrap();
    let lines: Vec<_> = lines.map(Result::unwrap).collect();
    assert_eq!(lines, ["a\u{fffd}\u{fffd}b", "\0\u{1b}[2J", "\u{fffd}"]);
}

#[test]
fn a_line_of_many_megabytes_comes_in_pieces() {
    let chunks = (0..20).map(|_| vec![b'x'; 1 << 20]).chain([b"\nlast\n".to_vec()]).collect();
    let server = server(chunks, true);
    let lines = pods(&client(&server.url())).logs("web-0", &LogParams::default(), &Stop::new()).unwrap();
    let lengths: Vec<_> = lines.map(|line| line.unwrap().len()).collect();
    assert_eq!(lengths, [[1 << 20; 20].as_slice(), &[4]].concat());
}

#[test]
fn an_end_in_the_middle_is_an_error_behind_what_came() {
    for follow in [true, false] {
        let server = server(vec![b"one\ntw".to_vec()], false);
        let params = if follow { LogParams::default().follow() } else { LogParams::default() };
        let mut lines = pods(&client(&server.url())).logs("web-0", &params, &Stop::new()).unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "one");
        assert_eq!(lines.next().unwrap().unwrap(), "tw");
        let error = lines.next().unwrap().unwrap_err();
        assert!(error.is_io(), "{error:?}");
        let told = error.to_string();
        assert!(
            told.starts_with("read the log of pods ns/web-0: the server closed the connection in the middle"),
            "{told}"
        );
        assert!(lines.next().is_none());
    }
}

#[test]
fn a_refusal_says_which_log_and_why() {
    let server = Server::start(|c| {
        c.serve(|c: &mut Connection, _: &Seen| {
            let body = r#"{"kind":"Status","status":"Failure","message":"a container name must be specified for pod web-0, choose one of: [a b]","reason":"BadRequest","code":400}"#;
            c.json(400, body);
        });
    });
    for params in [LogParams::default(), LogParams::default().follow()] {
        let error = pods(&client(&server.url())).logs("web-0", &params, &Stop::new()).unwrap_err();
        assert_eq!(error.code(), Some(400));
        let told = error.to_string();
        assert!(
            told.starts_with("read the log of pods ns/web-0: a container name must be specified"),
            "{told}"
        );
    }
}

#[test]
fn only_pods_have_logs_whatever_they_are_read_as() {
    let server = Server::start(|c| c.serve(|c: &mut Connection, _: &Seen| c.answer(200, "", "line")));
    let client = client(&server.url());
    let whole = Api::<Object>::namespaced_with(&client, "ns", &Pod::api_resource());
    assert_eq!(whole.logs("a", &LogParams::default(), &Stop::new()).unwrap().count(), 1);
    let error = Api::<ConfigMap>::namespaced(&client, "ns")
        .logs("a", &LogParams::default(), &Stop::new())
        .unwrap_err();
    assert!(error.is_invalid_argument(), "{error}");
    assert!(error.to_string().contains("configmaps have no logs: only pods do"), "{error}");
    assert!(
        Api::<Pod>::all(&client)
            .logs("a", &LogParams::default(), &Stop::new())
            .unwrap_err()
            .is_invalid_argument()
    );
    assert_eq!(server.seen.try_iter().count(), 1);
}

/// A server that sends a head, and each line when the test says so.
fn slow(lines: Receiver<Option<&'static str>>) -> Server {
    Server::start(move |mut connection| {
        connection.request();
        for line in &lines {
            match line {
                None => connection.stream(),
                Some(line) => connection.chunk(line),
            }
        }
        connection.last_chunk();
    })
}

#[test]
fn silence_is_an_error_but_for_who_follows() {
    const SHORT: Duration = Duration::from_millis(300);
    let short = |url: &str| Client::new(config(url).with_timeout(SHORT)).unwrap();
    // Lets time pass, before the head and within the log: this is what is tested.
    let pass = || {
        let _ = crossbeam_channel::never::<()>().recv_timeout(SHORT * 3);
    };
    let (send, lines) = bounded(10);
    let server = slow(lines);
    let api = pods(&short(&server.url()));
    std::thread::scope(|scope| {
        let follow = LogParams::default().follow();
        let reading = scope.spawn(move || {
            let lines = api.logs("web-0", &follow, &Stop::new()).unwrap();
            lines.map(Result::unwrap).collect::<Vec<_>>()
        });
        for what in [None, Some("one\n"), Some("two\n")] {
            pass();
            send.send(what).unwrap();
        }
        drop(send);
        assert_eq!(reading.join().unwrap(), ["one", "two"]);
    });

    let (send, lines) = bounded(10);
    let server = slow(lines);
    send.send(None).unwrap();
    send.send(Some("half")).unwrap();
    let mut lines = pods(&short(&server.url())).logs("web-0", &LogParams::default(), &Stop::new()).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "half");
    assert!(lines.next().unwrap().unwrap_err().is_timeout());
}

#[test]
fn a_refusal_that_does_not_end_is_no_log_to_follow() {
    let server = Server::start(|mut connection| {
        connection.request();
        connection.send("HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\n{");
        connection.closed();
    });
    let client = Client::new(config(&server.url()).with_timeout(Duration::from_millis(300))).unwrap();
    let error = pods(&client).logs("web-0", &LogParams::default().follow(), &Stop::new()).unwrap_err();
    assert_eq!(error.code(), Some(500));
}

#[test]
fn a_stop_ends_it_before_the_head_and_within_the_log() {
    for answers in [false, true] {
        let (here, arrived) = bounded(1);
        let server = Server::start(move |mut connection| {
            connection.request();
            if answers {
                connection.stream();
                connection.chunk("one\nhalf");
            } else {
                here.send(()).unwrap();
            }
            connection.closed();
        });
        let (api, stop) = (pods(&client(&server.url())), Stop::new());
        let follow = LogParams::default().follow();
        let (ended, end) = bounded(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                if answers {
                    let mut lines = api.logs("web-0", &follow, &stop).unwrap();
                    assert_eq!(lines.next().unwrap().unwrap(), "one");
                    let stopping = stop.clone();
                    scope.spawn(move || stopping.stop());
                    assert!(lines.next().is_none());
                } else {
                    assert!(api.logs("web-0", &follow, &stop).unwrap_err().is_stopped());
                }
                ended.send(()).unwrap();
            });
            if !answers {
                arrived.recv_timeout(SOON).unwrap();
                stop.stop();
            }
            end.recv_timeout(SOON).unwrap();
        });
    }
}
