use std::io::{Read, Write};
use std::time::Duration;

use listwatch::apiserver::ApiServer;
use serde_json::json;

use crate::client::*;

#[test]
fn what_is_no_http_gets_an_answer() {
    let server = ApiServer::start().unwrap();
    for (bytes, code) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00"[..], 400),
        (b"GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n", 400),
        (b"POST /api/v1/pods HTTP/1.1\r\nContent-Length: 4000000\r\n\r\n", 413),
        (b"POST /api/v1/pods HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"POST /api/v1/pods HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    ] {
        let answer = raw(&server, bytes);
        assert_eq!(answer.code, code, "{}", bytes.escape_ascii());
        assert_eq!(answer.json()["kind"], "Status");
    }
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(100_000));
    assert_eq!(raw(&server, long.as_bytes()).code, 431);
    let deep = "[".repeat(100_000);
    assert_eq!(send(&server, "POST", CM, "", &deep).code, 400);
    for path in
        ["/", "//", "/api/v1/namespaces/default/pods/a/b/c", "/apis//", "/%2e%2e/%ff", "/api/v1/pods/x"]
    {
        let code = get(&server, path).code;
        assert!(matches!(code, 200 | 404), "{path}: {code}");
    }
}

#[test]
fn a_connection_serves_many_requests() {
    let server = ApiServer::start().unwrap();
    let mut stream = connect(&server);
    // Two at once, one with a chunked body in pieces, and one that waits to be told to go on.
    stream.write_all(b"GET /livez HTTP/1.1\r\n\r\nGET /livez HTTP/1.1\r\n\r\n").unwrap();
    let head = format!("POST {CM} HTTP/1.1\r\nContent-Type: application/json\r\n");
    let body = json!({"metadata": {"name": "a"}}).to_string();
    let (first, second) = body.split_at(5);
    write!(stream, "{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n", first.len()).unwrap();
    write!(stream, "{:x}\r\n{second}\r\n0\r\n\r\n", second.len()).unwrap();
    let body = json!({"metadata": {"name": "b"}}).to_string();
    write!(
        stream,
        "{head}Connection: close\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    let codes: Vec<_> = all.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(codes, ["200", "200", "201", "100", "201"]);
    assert_eq!(names(&get(&server, CM).json()), ["a", "b"]);
}

#[test]
fn a_long_list_comes_in_chunks() {
    let server = ApiServer::start().unwrap();
    let text = "x".repeat(100_000);
    for name in ["a", "b"] {
        post(&server, CM, json!({"metadata": {"name": name}, "data": {"text": text}})).expect(201);
    }
    let answer = get(&server, CM);
    assert!(answer.head.contains("Transfer-Encoding: chunked"));
    assert_eq!(names(&answer.json()), ["a", "b"]);
}

#[test]
fn only_the_token_is_let_in() {
    let server = ApiServer::builder().token("secret").start().unwrap();
    get(&server, CM).is(
        401,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#,
    );
    assert_eq!(send(&server, "GET", CM, "Authorization: Bearer wrong\r\n", "").code, 401);
    send(&server, "GET", CM, "Authorization: Bearer secret\r\n", "").expect(200);
    assert!(!format!("{:?}{server:?}", ApiServer::builder().token("secret")).contains("secret"));
}

#[test]
fn the_kubeconfig_names_the_server_and_goes_with_it() {
    let server = ApiServer::builder().token("secret").start().unwrap();
    let file = server.kubeconfig().unwrap();
    assert_eq!(server.kubeconfig().unwrap(), file);
    let config: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(config["clusters"][0]["cluster"]["server"], server.url());
    assert_eq!(config["users"][0]["user"]["token"], "secret");
    drop(server);
    assert!(!file.exists() && !file.parent().unwrap().exists());
}

#[test]
fn requests_are_logged() {
    let server = ApiServer::start().unwrap();
    get(&server, &format!("{CM}?limit=1"));
    post(&server, CM, json!({}));
    assert_eq!(server.requests(), [format!("GET {CM}?limit=1"), format!("POST {CM}")]);
}

#[test]
fn stop_ends_idle_connections_and_watches() {
    let mut server = ApiServer::start().unwrap();
    let mut idle = connect(&server);
    let mut half = connect(&server);
    half.write_all(b"GET /api").unwrap();
    let mut watch = connect(&server);
    watch.write_all(format!("GET {CM}?watch=1 HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    let mut begun = [0; 12];
    watch.read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    server.stop();
    for stream in [&mut idle, &mut half, &mut watch] {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut rest = Vec::new();
        // Ended, cleanly or not: what matters is that it does not go on.
        let ended = stream.read_to_end(&mut rest);
        assert!(!matches!(&ended, Err(e) if e.kind() == std::io::ErrorKind::WouldBlock), "{ended:?}");
    }
    assert!(std::net::TcpStream::connect(server.url().trim_start_matches("http://")).is_err());
    server.stop();
}

#[test]
fn two_servers_do_not_know_each_other() {
    let (one, other) = (ApiServer::start().unwrap(), ApiServer::start().unwrap());
    create_all(&one, &["a"]);
    assert_ne!(one.url(), other.url());
    assert_eq!(get(&other, &format!("{CM}/a")).code, 404);
}

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }

    /// Changes a few bytes of `text` into others of `letters`, or takes some away.
    fn spoil(&mut self, text: &str, letters: &[u8]) -> String {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..self.below(4) {
            if bytes.is_empty() {
                break;
            }
            let at = self.below(bytes.len());
            match self.below(3) {
                0 => drop(bytes.drain(at..(at + self.below(8)).min(bytes.len()))),
                1 => bytes.insert(at, letters[self.below(letters.len())]),
                _ => bytes[at] = letters[self.below(letters.len())],
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[test]
fn every_request_is_answered_however_spoiled() {
    let server = ApiServer::start().unwrap();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let foos = crate::custom::FOOS;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let nested = format!("{}1{}", r#"{"a":["#.repeat(55), "]}".repeat(55));
    let foo = r#"{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"f"},"spec":{"size":2,"rules":[{"id":"x","a":1}]}}"#;
    let owned = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"a":"b"},"finalizers":["x/y"],"ownerReferences":[{"uid":"u"}]},"data":{"a":"1"}}"#;
    let containers = r#"{"spec":{"containers":[{"name":"a","$patch":"delete"},{"name":"b","env":[{"name":"X"}]}],"$setElementOrder/containers":[{"name":"b"}],"$retainKeys":["containers"]}}"#;
    let steps = r#"[{"op":"add","path":"/data/-","value":[1]},{"op":"move","from":"/data","path":"/x"},{"op":"test","path":"/x/0","value":null}]"#;
    let requests = [
        ("GET", format!("{CM}?labelSelector=a%20in%20(b,c),!d,e>1&limit=2&continue=3/default/a"), "", ""),
        (
            "GET",
            format!("{PODS}?fieldSelector=spec.nodeName!=a&resourceVersion=3&resourceVersionMatch=Exact"),
            "",
            "",
        ),
        ("POST", CM.into(), "application/json", owned),
        ("PUT", format!("{CM}/a"), "application/json", owned),
        ("PATCH", format!("{CM}/a"), "application/json-patch+json", steps),
        ("PATCH", format!("{CM}/a"), "application/merge-patch+json", &*nested),
        ("PATCH", format!("{CM}/b?fieldManager=m"), "application/apply-patch+yaml", owned),
        ("PATCH", format!("{PODS}/p"), "application/strategic-merge-patch+json", containers),
        ("PATCH", format!("{PODS}/p?fieldManager=m&force=true"), "application/apply-patch+yaml", containers),
        ("POST", definitions.into(), "application/json", &*definition()),
        ("POST", foos.into(), "application/json", foo),
        ("PATCH", format!("{foos}/f?fieldManager=m"), "application/apply-patch+yaml", foo),
        ("PUT", format!("{deployments}/d/scale"), "application/json", r#"{"spec":{"replicas":3}}"#),
        (
            "DELETE",
            format!("{CM}/a"),
            "application/json",
            r#"{"preconditions":{"uid":"x"},"propagationPolicy":"Orphan"}"#,
        ),
        ("DELETE", format!("{foos}?propagationPolicy=Foreground"), "", ""),
    ];
    let mut dice = Dice(7);
    for _ in 0..150 {
        for (method, path, media, body) in &requests {
            let path = dice.spoil(path, b"/%?&=,!()a0-.");
            let body = dice.spoil(body, b"{}[]\",:\\0a$-.\xff");
            let media = format!("Content-Type: {media}\r\n");
            let path = if path.starts_with('/') { path } else { format!("/{path}") };
            let answer = send(&server, method, &path, &media, &body);
            assert!((200..=599).contains(&answer.code), "{method} {path} {body}");
        }
    }
    get(&server, "/api/v1/namespaces/default").expect(200);
}

fn definition() -> String {
    crate::custom::definition().to_string()
}
