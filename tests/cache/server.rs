//! An API server of few words over real HTTP: lists and watches of whatever JSON the test puts into it.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use crossbeam_channel::{Receiver, Sender, unbounded};
use listwatch::{Client, Clock, Config};
use serde_json::{Value, json};

pub(crate) const CONFIG_MAPS: &str = "/api/v1/configmaps";
pub(crate) const SECRETS: &str = "/api/v1/secrets";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";

#[derive(Default)]
struct State {
    version: u64,
    /// By path of all objects of the kind, namespace and name.
    objects: BTreeMap<(String, String, String), Value>,
    /// Path, namespace, version and line of each event.
    events: Vec<(String, String, u64, String)>,
    refused: HashMap<String, u16>,
    over: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    requests: Sender<String>,
}

pub(crate) struct ApiServer {
    shared: Arc<Shared>,
    port: u16,
    /// Path and query of each request.
    pub(crate) requests: Receiver<String>,
}

pub(crate) fn serve() -> ApiServer {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = unbounded();
    let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), requests: sender });
    let serving = shared.clone();
    let accept = move || {
        for stream in listener.incoming() {
            if serving.state.lock().unwrap().over {
                break;
            }
            let (shared, stream) = (serving.clone(), stream.unwrap());
            let answer = move || drop(shared.answer(stream));
            std::thread::Builder::new().name("test-answer".into()).spawn(answer).unwrap();
        }
    };
    std::thread::Builder::new().name("test-server".into()).spawn(accept).unwrap();
    ApiServer { shared, port, requests }
}

impl ApiServer {
    pub(crate) fn client(&self) -> Client {
        self.client_with(Clock::system())
    }

    pub(crate) fn client_with(&self, clock: Clock) -> Client {
        let config = Config::new(&format!("http://127.0.0.1:{}", self.port)).unwrap();
        Client::new(config.with_clock(clock)).unwrap()
    }

    /// Creates or replaces `namespace/name`.
    pub(crate) fn put(&self, path: &str, key: &str, owner: Option<Value>) {
        let (namespace, name) = key.split_once('/').unwrap();
        let mut state = self.shared.state.lock().unwrap();
        state.version += 1;
        let version = state.version;
        let at = (path.to_owned(), namespace.to_owned(), name.to_owned());
        let object = json!({"metadata": {
            "namespace": namespace, "name": name, "uid": format!("uid-{name}"),
            "resourceVersion": version.to_string(), "ownerReferences": owner.into_iter().collect::<Vec<_>>(),
        }});
        let before = state.objects.insert(at, object.clone());
        let event = if before.is_some() { "MODIFIED" } else { "ADDED" };
        let line = json!({"type": event, "object": object}).to_string();
        state.events.push((path.into(), namespace.into(), version, line));
        self.shared.changed.notify_all();
    }

    pub(crate) fn delete(&self, path: &str, key: &str) {
        let (namespace, name) = key.split_once('/').unwrap();
        let mut state = self.shared.state.lock().unwrap();
        state.version += 1;
        let version = state.version;
        let mut object =
            state.objects.remove(&(path.to_owned(), namespace.to_owned(), name.to_owned())).unwrap();
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let line = json!({"type": "DELETED", "object": object}).to_string();
        state.events.push((path.into(), namespace.into(), version, line));
        self.shared.changed.notify_all();
    }

    /// Refuses all requests for a kind.
    pub(crate) fn refuse(&self, path: &str, code: u16) {
        self.shared.state.lock().unwrap().refused.insert(path.into(), code);
    }

    pub(crate) fn allow(&self, path: &str) {
        self.shared.state.lock().unwrap().refused.remove(path);
    }

    /// The requests so far.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.requests.try_iter().collect()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap().over = true;
        self.shared.changed.notify_all();
        let _ = TcpStream::connect(("127.0.0.1", self.port)); // wakes the one that accepts
    }
}

impl Shared {
    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut first = String::new();
        reader.read_line(&mut first)?;
        for line in reader.lines() {
            if line?.is_empty() {
                break;
            }
        }
        // A connection may be closed before anything is asked on it.
        let Some(target) = first.split(' ').nth(1) else { return Ok(()) };
        let _ = self.requests.send(target.to_owned());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (path, namespace) = match path.split_once("/namespaces/") {
            Some((root, rest)) => {
                let (namespace, plural) = rest.split_once('/').unwrap();
                (format!("{root}/{plural}"), namespace.to_owned())
            }
            None => (path.to_owned(), String::new()),
        };
        let refused = self.state.lock().unwrap().refused.get(&path).copied();
        if let Some(code) = refused {
            let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": format!("{path} is refused")});
            return write_whole(&mut stream, code, &status.to_string());
        }
        if !query.contains("watch=true") {
            let state = self.state.lock().unwrap();
            let items: Vec<_> = state
                .objects
                .iter()
                .filter(|((at, ns, _), _)| *at == path && (namespace.is_empty() || *ns == namespace))
                .map(|(_, object)| object)
                .collect();
            let version = state.version.max(1).to_string();
            let list = json!({"metadata": {"resourceVersion": version}, "items": items}).to_string();
            drop(state);
            return write_whole(&mut stream, 200, &list);
        }
        let version = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion=")).unwrap_or("0");
        let mut seen: u64 = version.parse().unwrap();
        stream.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        )?;
        let mut state = self.state.lock().unwrap();
        loop {
            let lines: String = state
                .events
                .iter()
                .filter(|(at, ns, v, _)| {
                    *at == path && (namespace.is_empty() || *ns == namespace) && *v > seen
                })
                .map(|(.., line)| format!("{line}\n"))
                .collect();
            seen = state.version.max(seen);
            if !lines.is_empty() {
                drop(state);
                stream.write_all(format!("{:x}\r\n{lines}\r\n", lines.len()).as_bytes())?;
                state = self.state.lock().unwrap();
                continue;
            }
            if state.over {
                return Ok(());
            }
            state = self.changed.wait(state).unwrap();
        }
    }
}

fn write_whole(stream: &mut TcpStream, code: u16, body: &str) -> std::io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}
