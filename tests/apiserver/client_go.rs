//! client-go's shared informer and typed client against the server: the program of `tests/go/informer`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use listwatch::apiserver::ApiServer;
use listwatch::apiserver::faults::{Effect, Fault, Reply};
use serde_json::{Value, json};

use crate::client::{CM, create_all, delete, post, put};

/// Longer than anything takes on a machine that is busy.
const LONG: Duration = Duration::from_secs(60);

/// Builds it once; `None`, and a word about it, if there is no Go.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        if Command::new("go").arg("version").output().is_err() {
            assert_ne!(std::env::var("LISTWATCH_GO").as_deref(), Ok("required"), "no Go");
            // Not through eprintln!, which is captured.
            drop(std::io::stderr().write_all(b"SKIPPED: Go is not installed, client-go is not tried\n"));
            return None;
        }
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("client-go-informer");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go/informer");
        let built = Command::new("go")
            .args(["build", "-o"])
            .arg(&program)
            .arg(".")
            .current_dir(source)
            .output()
            .unwrap();
        assert!(built.status.success(), "go build: {}", String::from_utf8_lossy(&built.stderr));
        Some(program)
    };
    PROGRAM.get_or_init(build).as_deref()
}

/// A running one.
struct Go {
    child: Child,
    commands: ChildStdin,
    lines: Receiver<String>,
}

impl Go {
    /// Starts it, and waits until its informers have synced; what they told until then.
    fn start(server: &ApiServer, watch_list: bool) -> Option<(Self, Vec<String>)> {
        let mut child = Command::new(program()?)
            .arg(server.kubeconfig().unwrap())
            .env("KUBE_FEATURE_WatchListClient", watch_list.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        let read = move || output.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        thread::Builder::new().name("output".into()).spawn(read).unwrap(); // ends with the child
        let mut go = Self { child, commands, lines };
        let told = go.until("synced");
        Some((go, told))
    }

    #[track_caller]
    fn next(&mut self) -> String {
        self.lines.recv_timeout(LONG).expect("it says something")
    }

    /// What comes before this line.
    #[track_caller]
    fn until(&mut self, end: &str) -> Vec<String> {
        let mut told = Vec::new();
        loop {
            let line = self.next();
            if line == end {
                return told;
            }
            assert!(!line.starts_with("failed"), "{line}, after {told:?}");
            told.push(line);
        }
    }

    fn command(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }

    /// Runs a command that succeeds, and waits for this event of it; they come in any order.
    #[track_caller]
    fn run(&mut self, command: &str, event: &str) {
        self.command(command);
        let first = self.next();
        assert!(!first.starts_with("failed"), "{command}: {first}");
        let mut two = [first, self.next()];
        two.sort();
        let mut wanted = ["done", event];
        wanted.sort_unstable();
        assert_eq!(two, wanted, "{command}");
    }

    /// Waits for this event, which others may come before: after a new list objects may be told again.
    fn comes_to(&mut self, event: &str) {
        while self.next() != event {}
    }

    /// Waits for this event alone.
    #[track_caller]
    fn tells(&mut self, event: &str) {
        assert_eq!(self.next(), event);
    }

    #[track_caller]
    fn answers(&mut self, command: &str, answer: &str) {
        self.command(command);
        assert_eq!(self.until("done"), [answer]);
    }
}

impl Drop for Go {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "a", "image": "x"}]}},
        },
    })
}

fn set(server: &ApiServer, name: &str, value: &str) {
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}});
    put(server, &format!("{CM}/{name}"), map).expect(200);
}

fn informers_work(watch_list: bool) {
    let server = ApiServer::start().unwrap();
    create_all(&server, &["a", "b", "c"]);
    post(&server, DEPLOYMENTS, deployment("web")).expect(201);
    let Some((mut go, mut told)) = Go::start(&server, watch_list) else { return };
    // Handlers may be told after the cache has synced.
    while told.len() < 4 {
        told.push(go.next());
    }
    told.sort();
    assert_eq!(told, ["add configmap a ", "add configmap b ", "add configmap c ", "add deployment web 1"]);
    let requests = server.requests();
    let of = |word: &str| requests.iter().any(|r| r.contains("/configmaps") && r.contains(word));
    assert_eq!(of("sendInitialEvents=true"), watch_list, "{requests:#?}");
    let lists = |r: &String| r.starts_with("GET ") && r.contains("/configmaps") && !r.contains("watch=true");
    assert_eq!(requests.iter().any(lists), !watch_list, "{requests:#?}");

    // Changes of others, and its own.
    set(&server, "a", "1");
    go.tells("update configmap a 1");
    delete(&server, &format!("{CM}/b")).expect(200);
    go.tells("delete configmap b ");
    go.run("create d 1", "add configmap d 1");
    go.run("update d 2", "update configmap d 2");
    go.run("patch d 3", "update configmap d 3");
    go.run("apply d 4", "update configmap d 4");
    go.run("apply e 1", "add configmap e 1");
    go.run("scale web 3", "update deployment web 3");
    go.run("delete e", "delete configmap e 1");
    go.answers("list", "list a c d");
    go.answers("cache", "cache a=1 c= d=4");
    go.command("create d 1");
    assert_eq!(go.next(), "failed: configmaps \"d\" already exists");

    // Waiting: for what is so, and for what gets so.
    go.answers("wait d 4", "waiting");
    go.command("wait d 5");
    go.tells("waiting");
    set(&server, "d", "5");
    let mut two = [go.next(), go.next()];
    two.sort();
    assert_eq!(two, ["done", "update configmap d 5"]);
}

#[test]
fn informers_of_client_go_work_with_lists_and_watches() {
    informers_work(false);
}

#[test]
fn informers_of_client_go_work_with_streamed_lists() {
    informers_work(true);
}

#[test]
fn informers_of_client_go_come_through_lost_connections_and_history() {
    let mut server = ApiServer::start().unwrap();
    create_all(&server, &["a", "b"]);
    let Some((mut go, told)) = Go::start(&server, true) else { return };
    (told.len()..2).for_each(|_| drop(go.next()));
    server.pause().unwrap();
    server.resume().unwrap();
    set(&server, "a", "1");
    go.comes_to("update configmap a 1");
    // What it missed is not in the history any more: it has to list anew.
    let busy = Reply::status(429, "TooManyRequests", "busy");
    let refused = server.inject(Fault::new(Effect::Reply(busy)).watches().path(CM));
    server.pause().unwrap();
    server.resume().unwrap();
    assert!(refused.wait_for_hit(LONG));
    delete(&server, &format!("{CM}/b")).expect(200);
    server.compact();
    drop(refused);
    go.comes_to("delete configmap b ");
    set(&server, "a", "2");
    go.comes_to("update configmap a 2");
    go.command("cache");
    go.comes_to("cache a=2");
}
