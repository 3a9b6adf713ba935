//! The server's version, and whether it is well.

use std::time::Duration;

use listwatch::{Client, Clock};

use super::server::{Connection, Seen, Server};
use super::{client, config, http};

#[test]
fn the_version_of_a_real_server() {
    let server = Server::start(|connection| {
        connection.serve(|c: &mut Connection, _: &Seen| c.json(200, http::read("version").body));
    });
    let version = client(&server.url()).version().unwrap();
    assert_eq!(server.next().line, "GET /version");
    assert_eq!((version.number(), &*version.platform), (Some((1, 36)), "linux/amd64"));
    assert_eq!(format!("{version}"), "v1.36.3");
}

#[test]
fn a_server_that_is_well_says_so() {
    let server = Server::start(|connection| {
        connection.serve(|c: &mut Connection, seen: &Seen| match &*seen.line {
            "GET /readyz" => c.answer(200, "Content-Type: text/plain\r\n", "ok"),
            _ => c.answer(200, "", http::read("readyz_verbose").body),
        });
    });
    let client = client(&server.url());
    client.readyz().unwrap();
    client.livez().unwrap();
    let lines: Vec<_> = server.seen.try_iter().map(|seen| (seen.line, seen.connection)).collect();
    assert_eq!(lines, [("GET /readyz".to_owned(), 0), ("GET /livez".to_owned(), 0)]);
}

/// What a server that ends itself says to `/readyz`.
const ENDS: &str = "[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\n[+]poststarthook/rbac/bootstrap-roles ok\n\
    [-]shutdown failed: reason withheld\nreadyz check failed\n";

#[test]
fn a_server_that_is_not_well_says_why_and_is_asked_once() {
    let long = ENDS.replace("[+]ping ok\n", &"[+]poststarthook/one-of-many ok\n".repeat(100));
    for (code, body, told) in [
        (500, ENDS.to_owned(), "GET /readyz: etcd failed: reason withheld; shutdown failed: reason withheld (500)"),
        (500, long, "GET /readyz: etcd failed: reason withheld; shutdown failed: reason withheld (500)"),
        (503, "no healthy upstream".to_owned(), "GET /readyz: the server answered 503: no healthy upstream"),
        (
            403,
            r#"{"kind":"Status","status":"Failure","message":"forbidden: User \"x\"","reason":"Forbidden","code":403}"#.to_owned(),
            "GET /readyz: forbidden: User \"x\" (403 Forbidden)",
        ),
    ] {
        let server = Server::start(move |connection| {
            connection.serve(|c: &mut Connection, _: &Seen| c.answer(code, "Retry-After: 5\r\n", body.as_bytes()));
        });
        // A clock on which a wait would never end.
        let config = config(&server.url()).with_clock(Clock::manual()).with_timeout(Duration::from_secs(60));
        let error = Client::new(config).unwrap().readyz().unwrap_err();
        assert_eq!((error.code(), &*error.to_string()), (Some(code), told));
        assert_eq!(server.seen.try_iter().count(), 1);
    }
}

#[test]
fn a_long_account_is_cut() {
    let server = Server::start(|connection| {
        connection
            .serve(|c: &mut Connection, _: &Seen| c.answer(500, "", "[-]check failed\n".repeat(10_000)));
    });
    let told = client(&server.url()).livez().unwrap_err().to_string();
    assert!(
        told.starts_with("GET /livez: check failed; check failed") && told.len() < 3000,
        "{}",
        told.len()
    );
}
