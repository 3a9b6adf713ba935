//! A small HTTP client, so that the tests see the bytes.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use listwatch::apiserver::ApiServer;
use serde_json::{Value, json};

pub(crate) const CM: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    /// The body, after checking the code.
    pub(crate) fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.text);
        self.json()
    }

    /// Checks code and body, down to the order of the fields.
    pub(crate) fn is(self, code: u16, text: &str) {
        assert_eq!((self.code, self.text.trim_end()), (code, text));
    }
}

pub(crate) fn connect(server: &ApiServer) -> TcpStream {
    let stream = TcpStream::connect(server.url().trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Whether a connection is open and brings nothing for a moment.
pub(crate) fn is_quiet(stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    matches!(peeked, Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

pub(crate) fn raw(server: &ApiServer, bytes: &[u8]) -> Answer {
    let mut stream = connect(server);
    stream.write_all(bytes).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    parse(&all)
}

fn parse(bytes: &[u8]) -> Answer {
    let all = String::from_utf8(bytes.to_vec()).unwrap();
    let (head, body) = all.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {all:?}"));
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    let chunked = head.contains("Transfer-Encoding: chunked");
    let text = if chunked { unchunk(body) } else { body.to_string() };
    Answer { code, head: head.into(), text }
}

fn unchunk(mut body: &str) -> String {
    let mut out = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n").unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            assert_eq!(rest, "\r\n");
            return out;
        }
        out.push_str(&rest[..size]);
        body = rest[size..].strip_prefix("\r\n").unwrap();
    }
}

pub(crate) fn send(server: &ApiServer, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nUser-Agent: test/1\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n"
    );
    raw(server, (head + body).as_bytes())
}

pub(crate) fn get(server: &ApiServer, path: &str) -> Answer {
    send(server, "GET", path, "", "")
}

pub(crate) fn get_as(server: &ApiServer, path: &str, accept: &str) -> Answer {
    send(server, "GET", path, &format!("Accept: {accept}\r\n"), "")
}

pub(crate) fn post(server: &ApiServer, path: &str, body: Value) -> Answer {
    send(server, "POST", path, "Content-Type: application/json\r\n", &body.to_string())
}

pub(crate) fn put(server: &ApiServer, path: &str, body: Value) -> Answer {
    send(server, "PUT", path, "Content-Type: application/json\r\n", &body.to_string())
}

pub(crate) fn delete(server: &ApiServer, path: &str) -> Answer {
    send(server, "DELETE", path, "", "")
}

/// `kind` is json-patch, merge-patch, strategic-merge-patch or apply-patch.
pub(crate) fn patch(server: &ApiServer, path: &str, kind: &str, body: Value) -> Answer {
    let format = if kind == "apply-patch" { "yaml" } else { "json" };
    let header = format!("Content-Type: application/{kind}+{format}\r\n");
    send(server, "PATCH", path, &header, &body.to_string())
}

pub(crate) fn config_map(name: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"a": "1"}})
}

/// Creates config maps with the label `set: demo`.
pub(crate) fn create_all(server: &ApiServer, names: &[&str]) {
    for name in names {
        post(server, CM, config_map(name, json!({"set": "demo"}))).expect(201);
    }
}

pub(crate) fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

/// A watch: frames as they come.
pub(crate) struct Watch {
    reader: BufReader<TcpStream>,
}

impl Watch {
    pub(crate) fn open(server: &ApiServer, path: &str) -> Self {
        Self::open_as(server, path, "application/json")
    }

    pub(crate) fn open_as(server: &ApiServer, path: &str, accept: &str) -> Self {
        let mut stream = connect(server);
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAccept: {accept}\r\n\r\n")
            .unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 200 "), "{line}");
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        Self { reader }
    }

    /// The next chunk, which is empty at the end.
    pub(crate) fn chunk(&mut self) -> String {
        let mut size = String::new();
        self.reader.read_line(&mut size).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or_else(|e| panic!("{e}: {size:?}"));
        let mut chunk = vec![0; size + 2];
        self.reader.read_exact(&mut chunk).unwrap();
        chunk.truncate(size);
        String::from_utf8(chunk).unwrap()
    }

    /// The next line, or `None` at the last chunk.
    pub(crate) fn line(&mut self) -> Option<String> {
        let text = self.chunk();
        (!text.is_empty()).then(|| text.strip_suffix('\n').unwrap().to_string())
    }

    /// Whether the connection is open and brings nothing for now.
    pub(crate) fn is_quiet(&self) -> bool {
        self.reader.buffer().is_empty() && is_quiet(self.reader.get_ref())
    }

    /// How reading fails.
    pub(crate) fn fails(&mut self) -> std::io::Error {
        self.reader.read_to_end(&mut Vec::new()).unwrap_err()
    }

    /// All bytes until the connection ends.
    pub(crate) fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.reader.read_to_string(&mut rest).unwrap();
        rest
    }

    pub(crate) fn event(&mut self) -> Value {
        serde_json::from_str(&self.line().expect("the watch ended")).unwrap()
    }

    /// The next event as `ADDED name`, or `BOOKMARK version`.
    pub(crate) fn next(&mut self) -> String {
        let event = self.event();
        let of = event["object"]["metadata"]["name"]
            .as_str()
            .or(event["object"]["metadata"]["resourceVersion"].as_str())
            .unwrap_or_default();
        format!("{} {of}", event["type"].as_str().unwrap())
    }
}
