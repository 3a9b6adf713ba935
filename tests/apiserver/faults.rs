use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use listwatch::Clock;
use listwatch::apiserver::ApiServer;
use listwatch::apiserver::faults::{Effect, Fault, Injected, Reply};
use serde_json::json;

use crate::client::*;

const SOON: Duration = Duration::from_secs(20);

/// Sends a GET, and leaves the answer to be read.
fn ask(server: &ApiServer, path: &str) -> TcpStream {
    let mut stream = connect(server);
    write!(stream, "GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A server with the config map `a`.
fn with_a() -> ApiServer {
    let server = ApiServer::start().unwrap();
    create_all(&server, &["a"]);
    server
}

/// A watch that has told `a`, and meets this.
fn watch(effect: Effect) -> (ApiServer, Injected, Watch) {
    let server = with_a();
    let fault = server.inject(Fault::new(effect).watches());
    let mut watch = Watch::open(&server, &format!("{CM}?watch=1"));
    assert_eq!(watch.next(), "ADDED a");
    (server, fault, watch)
}

// ---- connections ----------------------------------------------------------------------------------------------

#[test]
fn silence_is_no_byte_until_it_is_over() {
    let server = with_a();
    let fault = server.inject(Fault::new(Effect::Silence));
    let stream = ask(&server, CM);
    assert!(fault.wait_for_hit(SOON));
    assert!(is_quiet(&stream));
    drop(fault);
    assert_eq!(rest(stream), "");
    get(&server, CM).expect(200);
}

#[test]
fn a_connection_is_closed_in_place_of_an_answer() {
    let server = with_a();
    let _fault = server.inject(Fault::new(Effect::Close).once());
    assert_eq!(rest(ask(&server, CM)), "");
    get(&server, CM).expect(200);
}

#[test]
fn a_connection_is_reset() {
    let server = with_a();
    let fault = server.inject(Fault::new(Effect::Reset));
    let failed = ask(&server, CM).read(&mut [0; 100]).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::ConnectionReset);
    drop(fault);
    let mut open = Watch::open(&server, &format!("{CM}?watch=1"));
    assert_eq!(open.next(), "ADDED a");
    let _fault = server.inject(Fault::new(Effect::Reset));
    assert_eq!(open.fails().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_head_comes_without_its_body() {
    let server = with_a();
    let fault = server.inject(Fault::new(Effect::HeadOnly));
    let mut stream = ask(&server, CM);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 200 OK\r\n"));
    assert!(is_quiet(&stream));
    drop(fault);
    assert_eq!(rest(stream), "");
}

#[test]
fn a_late_answer_comes_when_it_is_let_go() {
    let server = with_a();
    let fault = server.inject(Fault::new(Effect::Late).lists());
    let stream = ask(&server, CM);
    assert!(fault.wait_for_hit(SOON));
    create_all(&server, &["b"]);
    assert!(is_quiet(&stream));
    drop(fault);
    let answer = rest(stream);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains(r#""name":"b""#), "{answer}");
}

#[test]
fn a_body_ends_before_its_length() {
    let server = with_a();
    let whole = get(&server, CM).text;
    let _fault = server.inject(Fault::new(Effect::CutBody(10)));
    let answer = rest(ask(&server, CM));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}", whole.len())), "{head}");
    assert_eq!(body, &whole[..10]);
}

#[test]
fn stop_and_pause_end_what_is_held() {
    for effect in [Effect::Silence, Effect::HeadOnly, Effect::Late] {
        let mut server = with_a();
        let fault = server.inject(Fault::new(effect));
        let (_one, _other) = (ask(&server, CM), ask(&server, &format!("{CM}?watch=1")));
        assert!(fault.wait_for_hit(SOON) && fault.wait_for_hit(SOON));
        server.pause().unwrap();
        server.resume().unwrap();
        let _another = ask(&server, CM);
        assert!(fault.wait_for_hit(SOON));
        server.stop();
    }
}

#[test]
fn a_connection_meets_its_fault_before_a_byte_is_read() {
    let server = with_a();
    let set = |effect| server.inject(Fault::new(effect).connections());
    let silent = set(Effect::Silence);
    let stream = connect(&server);
    assert!(silent.wait_for_hit(SOON) && is_quiet(&stream));
    drop(silent);
    assert_eq!(rest(stream), "");
    let closing = set(Effect::Close);
    assert_eq!(rest(connect(&server)), "");
    drop(closing);
    let resetting = set(Effect::Reset);
    let failed = connect(&server).read(&mut [0]).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::ConnectionReset);
    drop(resetting);
    let late = set(Effect::Late);
    let stream = ask(&server, CM);
    assert!(late.wait_for_hit(SOON) && is_quiet(&stream));
    drop(late);
    assert!(rest(stream).starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn connections_that_are_open_are_left_alone() {
    let server = with_a();
    let mut watch = Watch::open(&server, &format!("{CM}?watch=1"));
    assert_eq!(watch.next(), "ADDED a");
    let mut kept = connect(&server);
    let mut asks = || {
        write!(kept, "GET /livez HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = [0; 15];
        kept.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
        while !answer.ends_with(b"ok") {
            answer.rotate_left(1);
            kept.read_exact(&mut answer[14..]).unwrap();
        }
    };
    asks();
    let fault = server.inject(Fault::new(Effect::Close).connections().once());
    asks();
    assert_eq!(rest(connect(&server)), "");
    assert!(fault.wait_for_hit(SOON));
    create_all(&server, &["b"]); // once is over
    assert_eq!(watch.next(), "ADDED b");
}

// ---- answers --------------------------------------------------------------------------------------------------

fn replied(reply: Reply) -> Answer {
    let server = with_a();
    let _fault = server.inject(Fault::new(Effect::Reply(reply)).once());
    let answer = get(&server, CM);
    get(&server, CM).expect(200);
    answer
}

#[test]
fn any_status_is_answered_with_or_without_a_time_to_wait() {
    let busy = || Reply::status(429, "TooManyRequests", "too many requests");
    let answer = replied(busy());
    assert!(!answer.head.contains("Retry-After") && answer.head.contains("429 Too Many Requests"));
    answer.is(
        429,
        r#"{"apiVersion":"v1","code":429,"kind":"Status","message":"too many requests","metadata":{},"reason":"TooManyRequests","status":"Failure"}"#,
    );
    let answer = replied(busy().retry_after(7));
    assert!(answer.head.contains("\r\nRetry-After: 7"), "{}", answer.head);
    assert_eq!(answer.json().get("details"), None);
    let answer = replied(busy().retry_after_in_status(7));
    assert!(!answer.head.contains("Retry-After"));
    assert_eq!(answer.json()["details"]["retryAfterSeconds"], 7);
    assert_eq!(replied(Reply::status(503, "ServiceUnavailable", "down")).code, 503);
    let pretty = replied(Reply::status(500, "", "broken").pretty());
    assert!(pretty.text.contains("{\n  \"apiVersion\": \"v1\",\n"), "{}", pretty.text);
    assert_eq!(pretty.json().get("reason"), None);
}

#[test]
fn expired_and_too_large_versions_have_their_shapes() {
    assert_eq!(replied(Reply::expired()).expect(410)["reason"], "Expired");
    let by_reason = replied(Reply::expired_by_reason()).expect(500);
    assert_eq!((&by_reason["reason"], by_reason.get("code")), (&json!("Expired"), None));
    let cause = |reply| replied(reply).expect(504)["details"]["causes"][0].clone();
    let told = "Too large resource version";
    assert_eq!(
        cause(Reply::too_large_version()),
        json!({"reason": "ResourceVersionTooLarge", "message": told})
    );
    assert_eq!(cause(Reply::too_large_version_by_cause_message()), json!({"message": told}));
    let by_message = replied(Reply::too_large_version_by_message()).expect(504);
    assert_eq!(by_message.get("details"), None);
    assert!(by_message["message"].as_str().unwrap().contains(told));
}

#[test]
fn proxies_answer_in_their_own_words() {
    let html = replied(Reply::html_bad_gateway());
    assert!(html.code == 502 && html.text.starts_with("<html>") && html.head.contains("text/html"));
    replied(Reply::plain_not_found()).is(404, "404 page not found");
    replied(Reply::new(200, "application/json", "[]")).is(200, "[]");
}

// ---- which requests -------------------------------------------------------------------------------------------

#[test]
fn a_fault_is_met_by_the_requests_it_is_for() {
    let server = with_a();
    create_all(&server, &["b"]);
    let no = || Fault::new(Effect::Reply(Reply::status(500, "", "no")));
    server.compact();
    let watch = format!("{CM}?watch=1&resourceVersion=1"); // too old: ends at once
    let page = format!("{CM}?limit=1");
    let token = get(&server, &page).json()["metadata"]["continue"].as_str().unwrap().replace('/', "%2F");
    let next = format!("{page}&continue={token}");
    let asked = [("GET", CM), ("GET", &*next), ("GET", &*watch), ("GET", &*format!("{CM}/a")), ("PUT", CM)];
    for (fault, met) in [
        (no(), [true; 5]),
        (no().lists(), [true, true, false, false, false]),
        (no().next_pages(), [false, true, false, false, false]),
        (no().watches(), [false, false, true, false, false]),
        (no().others(), [false, false, false, true, true]),
        (no().method("PUT"), [false, false, false, false, true]),
        (no().path(PODS), [false; 5]),
        (no().path(CM).times(2), [true, true, false, false, false]),
        (no().times(0), [false; 5]),
        (no().connections(), [false; 5]), // nothing was asked
    ] {
        let told = format!("{fault:?}");
        let _fault = server.inject(fault);
        let got = asked.map(|(method, path)| send(&server, method, path, "", "").code == 500);
        assert_eq!(got, met, "{told}");
    }
    assert_eq!(get(&server, CM).code, 200, "all guards are gone");
}

// ---- watches --------------------------------------------------------------------------------------------------

#[test]
fn a_watch_falls_silent_after_some_events() {
    let (server, fault, mut watch) = watch(Effect::SilenceAfter(1));
    create_all(&server, &["b"]);
    assert!(watch.is_quiet());
    drop(fault);
    assert_eq!(watch.rest(), "");
}

#[test]
fn half_a_line_comes_and_then_nothing() {
    let (server, fault, mut watch) = watch(Effect::HalfLineThenSilence(1));
    create_all(&server, &["b"]);
    let half = watch.chunk();
    assert!(half.starts_with(r#"{"type":"ADDED","object":{"#) && !half.ends_with('\n'), "{half}");
    assert!(watch.is_quiet());
    drop(fault);
    assert_eq!(watch.rest(), "");
}

#[test]
fn half_a_line_comes_and_then_the_end() {
    let (server, _fault, mut watch) = watch(Effect::HalfLineThenClose(1));
    create_all(&server, &["b"]);
    assert!(!watch.chunk().ends_with('\n'));
    assert_eq!(watch.rest(), "");
}

#[test]
fn a_watch_is_cut_without_its_last_chunk_or_ends_with_it() {
    let (_server, _fault, mut cut) = watch(Effect::CutAfter(1));
    assert_eq!(cut.rest(), "");
    let (_server, _fault, mut ended) = watch(Effect::EndAfter(1));
    assert_eq!(ended.rest(), "0\r\n\r\n");
    let server = with_a();
    let _fault = server.inject(Fault::new(Effect::EndAfter(0)).watches());
    assert_eq!(Watch::open(&server, &format!("{CM}?watch=1")).rest(), "0\r\n\r\n");
}

#[test]
fn a_watch_tells_an_error_and_ends() {
    let (_server, _fault, mut told) = watch(Effect::ErrorAfter(1, Reply::expired().pretty()));
    let error = told.event();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(told.line(), None);
    let (_server, _fault, mut told) = watch(Effect::ErrorAfter(1, Reply::html_bad_gateway()));
    assert!(told.event()["object"].as_str().unwrap().starts_with("<html>"));
}

#[test]
fn lines_are_added_lost_and_repeated() {
    let (server, _fault, mut added) = watch(Effect::LineAfter(1, "no JSON".into()));
    assert_eq!(added.line().as_deref(), Some("no JSON"));
    create_all(&server, &["b"]);
    assert_eq!(added.next(), "ADDED b");

    let (server, _fault, mut lossy) = watch(Effect::Lose(2));
    create_all(&server, &["b", "c"]);
    assert_eq!(lossy.next(), "ADDED c");

    let (server, fault, mut twice) = watch(Effect::Repeat);
    assert_eq!(twice.next(), "ADDED a");
    drop(fault);
    create_all(&server, &["b", "c"]);
    assert_eq!((twice.next(), twice.next()), ("ADDED b".into(), "ADDED c".into()));
}

#[test]
fn each_byte_is_a_chunk() {
    let server = with_a();
    let fault = server.inject(Fault::new(Effect::OneByteChunks).watches());
    let mut watch = Watch::open(&server, &format!("{CM}?watch=1"));
    let mut line = String::new();
    while !line.ends_with('\n') {
        let chunk = watch.chunk();
        assert_eq!(chunk.len(), 1);
        line += &chunk;
    }
    assert!(line.starts_with(r#"{"type":"ADDED""#), "{line}");
    drop(fault);
    create_all(&server, &["b"]);
    assert_eq!(watch.next(), "ADDED b");
}

#[test]
fn bookmarks_are_held_back() {
    let clock = Clock::manual();
    let server = ApiServer::builder().clock(clock.clone()).start().unwrap();
    create_all(&server, &["a"]);
    let fault = server.inject(Fault::new(Effect::NoBookmarks));
    let query = format!("{CM}?watch=1&resourceVersion=0&allowWatchBookmarks=true");
    let mut watch = Watch::open(&server, &query);
    assert_eq!(watch.next(), "ADDED a");
    create_all(&server, &["b"]);
    assert_eq!(watch.next(), "ADDED b"); // no end of the initial events before it
    drop(fault);
    clock.wait_for_timers(1);
    clock.advance(Duration::from_secs(60));
    assert!(watch.next().starts_with("BOOKMARK "));
}

#[test]
fn open_watches_meet_what_is_set_later() {
    let server = with_a();
    let open = || {
        let mut watch = Watch::open(&server, &format!("{CM}?watch=1"));
        while watch.next() != "ADDED a" {}
        watch
    };
    for (effect, ends) in [(Effect::Close, ""), (Effect::CutAfter(0), ""), (Effect::EndAfter(0), "0\r\n\r\n")]
    {
        let mut watch = open();
        let fault = server.inject(Fault::new(effect));
        assert!(fault.wait_for_hit(SOON));
        assert_eq!(watch.rest(), ends);
    }
    let mut watch = open();
    let fault = server.inject(Fault::new(Effect::Silence).watches());
    assert!(fault.wait_for_hit(SOON));
    create_all(&server, &["b"]);
    assert!(watch.is_quiet());
    drop(fault);
    assert_eq!(watch.rest(), "");
    // Events are counted from the fault on, and several faults are met at once.
    delete(&server, &format!("{CM}/b")).expect(200);
    let mut watch = open();
    let (_one, _other) =
        (server.inject(Fault::new(Effect::EndAfter(2))), server.inject(Fault::new(Effect::Repeat)));
    create_all(&server, &["b", "c"]);
    let told: Vec<_> = (0..4).map(|_| watch.next()).collect();
    assert_eq!(
        (told, watch.line()),
        (["ADDED b", "ADDED b", "ADDED c", "ADDED c"].map(String::from).into(), None)
    );
}

// ---- state ----------------------------------------------------------------------------------------------------

#[test]
fn a_restored_server_knows_nothing_of_what_came_after() {
    let server = with_a();
    let (before, version) = (server.snapshot(), server.resource_version());
    let mut watch = Watch::open(&server, &format!("{CM}?watch=1"));
    assert_eq!(watch.next(), "ADDED a");
    create_all(&server, &["b"]);
    assert_eq!(watch.next(), "ADDED b");
    delete(&server, &format!("{CM}/a")).expect(200);
    assert_eq!(watch.next(), "DELETED a");
    server.restore(&before);
    assert_eq!(watch.rest(), "", "cut, as servers are stopped for that");
    let list = get(&server, CM).json();
    assert_eq!((names(&list), server.resource_version()), (vec!["a"], version));
    assert_eq!(get(&server, &format!("{CM}?resourceVersion={}", version + 1)).code, 504);
    create_all(&server, &["c"]);
    assert_eq!(server.resource_version(), version + 1);
    // The snapshot is as it was.
    server.restore(&before);
    assert_eq!(names(&get(&server, CM).json()), ["a"]);
}

#[test]
fn a_port_has_one_server_also_after_a_pause() {
    let mut server = ApiServer::start().unwrap();
    let port = server.url().rsplit(':').next().unwrap().parse().unwrap();
    let is_taken = || {
        ApiServer::builder().port(port).start().is_err() && TcpListener::bind(("127.0.0.1", port)).is_err()
    };
    assert!(is_taken());
    server.pause().unwrap();
    server.resume().unwrap();
    assert!(is_taken());
}

#[test]
fn a_paused_server_refuses_connections_and_comes_back_on_its_port() {
    let mut server = with_a();
    let (url, mut watch) = (server.url(), Watch::open(&server, &format!("{CM}?watch=1")));
    assert_eq!(watch.next(), "ADDED a");
    server.pause().unwrap();
    server.pause().unwrap();
    assert_eq!(watch.rest(), "", "cut, not ended");
    let refused = TcpStream::connect(url.trim_start_matches("http://")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    server.resume().unwrap();
    server.resume().unwrap();
    assert_eq!((server.url(), names(&get(&server, CM).json())), (url, vec!["a"]));
    server.pause().unwrap();
    server.stop();
}
