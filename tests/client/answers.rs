//! What a caller is told of each kind of answer.

use std::path::PathBuf;

use listwatch::client::{Method, RawRequest};
use listwatch::types::ConfigMap;
use listwatch::{
    Api, Client, Credentials, DeleteParams, Deletion, Error, ListParams, PostParams, Stop, WatchEvent,
    WatchParams,
};

use super::server::{Connection, Server, hang_up};
use super::{client, config, config_map, config_maps, event};

/// What a GET and a watch say that are answered so. A time to wait is longer than they have.
fn refused(code: u16, headers: &'static str, body: &'static str) -> Error {
    let server = Server::start(move |connection| {
        connection.serve(|connection: &mut Connection, _| connection.answer(code, headers, body));
    });
    let api = config_maps(&client(&server.url()));
    let watch = api.watch(&WatchParams::default(), &Stop::new()).unwrap_err();
    let list = api.list(&ListParams::default()).unwrap_err();
    let get = api.get("a").unwrap_err();
    assert_eq!(watch.status(), get.status());
    assert_eq!(list.status(), get.status());
    get
}

#[test]
fn a_status_is_read_compact_or_pretty() {
    for body in [
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps \"a\" is forbidden","reason":"Forbidden","details":{"name":"a","kind":"configmaps"},"code":403}"#,
        "{\n  \"kind\": \"Status\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {},\n  \"status\": \"Failure\",\n  \"message\": \"configmaps \\\"a\\\" is forbidden\",\n  \"reason\": \"Forbidden\",\n  \"details\": {\n    \"name\": \"a\"\n  },\n  \"code\": 403\n}\n",
    ] {
        let error = refused(403, "Content-Type: application/json\r\n", body);
        assert!(error.is_forbidden() && !error.is_not_found(), "{error}");
        assert_eq!(error.status().unwrap().details.name, "a");
        assert_eq!(error.to_string(), r#"get configmaps ns/a: configmaps "a" is forbidden (403 Forbidden)"#);
    }
}

#[test]
fn an_answer_that_is_no_status_keeps_its_code_and_its_beginning() {
    let html = "<html><head><title>502 Bad Gateway</title></head></html>";
    let error = refused(502, "Content-Type: text/html\r\n", html);
    assert_eq!(error.code(), Some(502));
    assert!(error.to_string().contains("502 Bad Gateway"), "{error}");

    let error = refused(500, "", "");
    assert_eq!((error.code(), error.is_decode()), (Some(500), false));
    assert!(error.to_string().contains("500 without a message"), "{error}");

    let error = refused(404, "Content-Type: text/plain\r\n", "404 page not found\n");
    assert!(error.is_not_found() && error.to_string().ends_with("404 page not found"), "{error}");

    let error = refused(410, "", "gone");
    assert!(error.is_expired());
}

#[test]
fn when_to_try_again_is_read_from_header_or_body() {
    let status = r#"{"kind":"Status","status":"Failure","reason":"TooManyRequests","code":429}"#;
    let error = refused(429, "Retry-After: 700\r\n", status);
    assert!(error.is_too_many_requests());
    assert_eq!(error.status().unwrap().retry_after().unwrap().as_secs(), 700);
    // The body knows better.
    let status = r#"{"kind":"Status","status":"Failure","code":429,"details":{"retryAfterSeconds":300}}"#;
    let error = refused(429, "Retry-After: 700\r\n", status);
    assert_eq!(error.status().unwrap().retry_after().unwrap().as_secs(), 300);
    let error = refused(503, "Retry-After: Fri, 31 Dec 2100 23:59:59 GMT\r\n", "");
    assert_eq!(error.status().unwrap().retry_after(), None);
}

#[test]
fn a_redirect_is_told_and_not_followed() {
    for code in [301, 302, 303, 307, 308] {
        let error = refused(code, "Location: http://127.0.0.1:1/elsewhere\r\n", "");
        assert_eq!(error.code(), Some(code));
        let text = error.to_string();
        assert!(text.contains("http://127.0.0.1:1/elsewhere") && text.contains("not followed"), "{text}");
    }
    assert_eq!(refused(302, "", "").code(), Some(302));
}

#[test]
fn an_answer_that_is_cut_off_is_a_broken_connection() {
    let server = Server::start(|mut connection| {
        let seen = connection.request().unwrap();
        connection.stream();
        let object = config_map("a");
        match &*seen.line {
            line if line.contains("watch") => {
                connection.chunk(event("ADDED", &object).repeat(2) + &object[..20])
            }
            line if line.contains('?') => {
                connection.chunk(format!(
                    r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{}},"items":[{object},"#
                ));
            }
            _ => connection.chunk(&object),
        }
        hang_up(connection);
    });
    let api = config_maps(&client(&server.url()));
    assert!(api.get("a").unwrap_err().is_io());
    let mut listed = 0;
    let error = api.list_each(&ListParams::default().limit(5), &Stop::new(), |item| {
        listed += usize::from(item.is_ok());
        Ok(())
    });
    assert!(error.unwrap_err().is_io() && listed <= 1);
    let mut watch = api.watch(&WatchParams::default(), &Stop::new()).unwrap();
    assert!(matches!(watch.next(), Some(Ok(WatchEvent::Added(_)))));
    assert!(matches!(watch.next(), Some(Ok(WatchEvent::Added(_)))));
    // The half line is never read as an event.
    assert!(watch.next().unwrap().unwrap_err().is_io());
    assert!(watch.next().is_none());
}

#[test]
fn what_does_not_speak_http_is_told_so() {
    let server = Server::start(|mut connection| {
        connection.request();
        connection.send("SSH-2.0-OpenSSH_9.2\r\n\r\n");
        hang_up(connection);
    });
    let error = config_maps(&client(&server.url())).get("a").unwrap_err();
    assert!(error.is_io() && error.to_string().contains("HTTP"), "{error}");
}

#[test]
fn a_head_without_end_is_refused() {
    let server = Server::start(|mut connection| {
        connection.request();
        connection.send("HTTP/1.1 200 OK\r\nX: ");
        connection.send("x".repeat(8 << 20));
        connection.closed();
    });
    let error = config_maps(&client(&server.url())).get("a").unwrap_err();
    assert!(error.is_limit() || error.is_io(), "{error:?}");
}

#[test]
fn a_line_between_chunks_without_end_is_refused() {
    let server = Server::start(|mut connection| {
        connection.request();
        connection.stream();
        connection.send("1".repeat(8 << 20));
        connection.closed();
    });
    let error = config_maps(&client(&server.url())).get("a").unwrap_err();
    assert!(error.is_io(), "{error:?}");
}

#[test]
fn an_endless_answer_is_cut_at_its_limit() {
    let server = Server::start(|mut connection| {
        connection.request();
        connection.stream();
        let piece = vec![b' '; 1 << 20];
        for _ in 0..66 {
            connection.chunk(&piece);
        }
        connection.closed();
    });
    let error = config_maps(&client(&server.url())).get("a").unwrap_err();
    assert!(error.is_limit(), "{error:?}");
}

fn long_list() -> (usize, String) {
    let filler = "x".repeat(10_000);
    let items: Vec<_> = (0..1_150)
        .map(|n| format!(r#"{{"metadata":{{"name":"c-{n}","namespace":"ns","uid":"u-{n}","resourceVersion":"{n}"}},"data":{{"k":"{filler}"}}}}"#))
        .collect();
    let list = format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{}]}}"#,
        items.join(",")
    );
    (items.len(), list)
}

#[test]
fn a_list_may_be_longer_than_ten_megabytes() {
    let (count, list) = long_list();
    assert!(list.len() > 11_000_000);
    let server = Server::start(move |connection| {
        connection.serve(|connection: &mut Connection, seen| {
            if seen.line.contains("limit") {
                connection.json(200, &list);
            } else {
                connection.stream();
                list.as_bytes().chunks(99_999).for_each(|piece| connection.chunk(piece));
                connection.last_chunk();
            }
        });
    });
    let api = config_maps(&client(&server.url()));
    for params in [ListParams::default(), ListParams::default().limit(5000)] {
        let list = api.list(&params).unwrap();
        assert_eq!((list.items.len(), &*list.metadata.resource_version), (count, "9"));
    }
    assert_eq!(server.accepted(), 1);
}

#[cfg(feature = "gzip")]
fn gzip(text: &str) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
#[cfg(feature = "gzip")]
fn a_compressed_list_is_read_and_its_connection_used_again() {
    let (count, list) = long_list();
    let server = Server::start(move |connection| {
        connection.serve(|connection: &mut Connection, _| {
            connection.answer(
                200,
                "Content-Encoding: gzip\r\nContent-Type: application/json\r\n",
                gzip(&list),
            );
        });
    });
    let api = config_maps(&client(&server.url()));
    for _ in 0..3 {
        assert_eq!(api.list(&ListParams::default()).unwrap().items.len(), count);
        assert!(server.next().header("accept-encoding").contains("gzip"));
    }
    assert_eq!(server.accepted(), 1);
}

/// Kubernetes 1.37 compresses watches, one member of gzip for each event, even for who did not ask.
#[test]
#[cfg(feature = "gzip")]
fn a_watch_that_is_compressed_all_the_same_is_read() {
    let server = Server::start(|mut connection| {
        connection.request();
        connection.send("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n");
        for name in ["a", "b", "c"] {
            connection.chunk(gzip(&event("ADDED", &config_map(name))));
        }
        connection.last_chunk();
    });
    let api = config_maps(&client(&server.url()));
    let watch = api.watch(&WatchParams::default(), &Stop::new()).unwrap();
    assert_eq!(watch.filter(|event| matches!(event, Ok(WatchEvent::Added(_)))).count(), 3);
}

/// A file of this process, gone with it.
pub(crate) struct TokenFile(PathBuf);

impl TokenFile {
    pub(crate) fn new(name: &str) -> Self {
        let file = Self(std::env::temp_dir().join(format!("listwatch-{}-{name}", std::process::id())));
        file.write("old");
        file
    }

    fn write(&self, token: &str) {
        std::fs::write(&self.0, token).unwrap();
    }

    pub(crate) fn credentials(&self) -> Credentials {
        Credentials::token_file(&self.0)
    }

    fn client(&self, server: &Server) -> Client {
        Client::new(config(&server.url()).with_credentials(self.credentials())).unwrap()
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Answers what comes with the token `new`, and nothing else.
fn picky(connection: Connection) {
    connection.serve(|connection: &mut Connection, seen| match seen.header("authorization") {
        "Bearer new" if seen.line.contains("watch=") => {
            connection.stream();
            connection.last_chunk();
        }
        "Bearer new" => connection.json(200, config_map("a")),
        _ => {
            connection.json(401, r#"{"kind":"Status","status":"Failure","reason":"Unauthorized","code":401}"#)
        }
    });
}

#[test]
fn a_token_that_expired_is_read_anew_for_any_verb() {
    let server = Server::start(picky);
    type Call = fn(&Api<ConfigMap>) -> Result<(), Error>;
    let calls: [(&str, Call); 5] = [
        ("get", |api| api.get("a").map(drop)),
        ("post", |api| api.create(&PostParams::default(), &ConfigMap::default()).map(drop)),
        ("put", |api| api.replace("a", &PostParams::default(), &ConfigMap::default()).map(drop)),
        ("delete", |api| api.delete("a", &DeleteParams::default()).map(drop)),
        ("watch", |api| api.watch(&WatchParams::default(), &Stop::new()).map(drop)),
    ];
    for (what, call) in calls {
        let file = TokenFile::new(what);
        let api = config_maps(&file.client(&server));
        assert!(api.get("a").unwrap_err().is_unauthorized(), "{what}"); // reads `old`
        let before = server.accepted();
        file.write("new\n");
        call(&api).unwrap_or_else(|e| panic!("{what}: {e}"));
        // The refusal left its connection in good order; a watch has its own in any case.
        assert_eq!(server.accepted() - before, if what == "watch" { 2 } else { 0 }, "{what}");
    }
}

#[test]
fn a_token_that_stays_bad_is_tried_twice_and_no_more() {
    let server = Server::start(picky);
    let file = TokenFile::new("bad");
    let api = config_maps(&file.client(&server));
    assert!(api.create(&PostParams::default(), &ConfigMap::default()).unwrap_err().is_unauthorized());
    assert_eq!(server.seen.try_iter().count(), 2);
    assert!(api.watch(&WatchParams::default(), &Stop::new()).unwrap_err().is_unauthorized());
    assert_eq!(server.seen.try_iter().count(), 2);
    // One that cannot change is not tried again.
    let config = config(&server.url()).with_credentials(Credentials::token("fixed").unwrap());
    assert!(config_maps(&Client::new(config).unwrap()).get("a").unwrap_err().is_unauthorized());
    assert_eq!(server.seen.try_iter().count(), 1);
}

#[test]
fn a_delete_tells_whether_the_object_lives_on() {
    let server = Server::start(|connection| {
        connection.serve(|connection: &mut Connection, seen| match seen.line.ends_with("/gone") {
            true => connection.json(200, r#"{"status":"Success","kind":"Status","details":{"name":"gone"}}"#),
            false => connection.json(200, config_map("lives")),
        });
    });
    let api = config_maps(&client(&server.url()));
    match api.delete("gone", &DeleteParams::default()).unwrap() {
        Deletion::Done(status) => assert_eq!(status.details.name, "gone"),
        Deletion::Pending(object) => panic!("{object:?}"),
    }
    assert!(matches!(api.delete("lives", &DeleteParams::default()).unwrap(), Deletion::Pending(_)));
}

#[test]
fn an_answer_that_is_no_json_or_another_kind_is_an_error_of_decoding() {
    let server = Server::start(|connection| {
        connection.serve(|connection: &mut Connection, seen| match seen.line.ends_with("/login") {
            true => connection.answer(200, "Content-Type: text/html\r\n", "<html>Please log in</html>"),
            false => connection.json(200, r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"}}"#),
        });
    });
    let client = client(&server.url());
    let api = config_maps(&client);
    for name in ["login", "secret"] {
        let error = api.get(name).unwrap_err();
        assert!(error.is_decode() && error.to_string().starts_with("get configmaps ns/"), "{error}");
    }
    let login = RawRequest::new(Method::Get, "/login");
    assert!(client.request::<ConfigMap>(&login).unwrap_err().is_decode());
    assert_eq!(client.request_text(&login).unwrap(), "<html>Please log in</html>");
}

#[test]
fn an_event_of_many_megabytes_comes_through_and_one_without_end_is_an_error() {
    let long = |name: &str, megabytes: usize| {
        let data = format!(r#""data":{{"k":"{}"}},"metadata":"#, "x".repeat(megabytes << 20));
        event("ADDED", &config_map(name).replace(r#""metadata":"#, &data))
    };
    let server = Server::start(move |mut connection| {
        connection.request();
        connection.stream();
        for line in [long("a", 5), long("b", 20), event("ADDED", &config_map("c")), long("d", 65)] {
            line.as_bytes().chunks(1 << 20).for_each(|piece| connection.chunk(piece));
        }
        connection.closed();
    });
    let api = config_maps(&client(&server.url()));
    let mut watch = api.watch(&WatchParams::default(), &Stop::new()).unwrap();
    for (name, length) in [("a", 5 << 20), ("b", 20 << 20), ("c", 0)] {
        let Some(Ok(WatchEvent::Added(object))) = watch.next() else { panic!("{name}") };
        assert_eq!(object.metadata.name, name);
        assert_eq!(object.data.get("k").unwrap_or_default().len(), length);
    }
    assert!(watch.next().unwrap().unwrap_err().is_limit());
    assert!(watch.next().is_none());
}

#[test]
fn a_line_that_does_not_end_is_no_event_however_the_answer_ends() {
    for proper in [true, false] {
        let server = Server::start(move |mut c| {
            c.request();
            c.stream();
            c.chunk(event("ADDED", &config_map("a")));
            c.chunk(event("ADDED", &config_map("b")).trim_end());
            if proper {
                c.last_chunk();
            }
        });
        let mut watch =
            config_maps(&client(&server.url())).watch(&WatchParams::default(), &Stop::new()).unwrap();
        assert!(matches!(watch.next(), Some(Ok(WatchEvent::Added(map))) if map.metadata.name == "a"));
        watch.next().unwrap().unwrap_err();
        assert!(watch.next().is_none());
    }
}
