//! What is told to the program beside the sidecar.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::eventually::eventually;
use crate::rig::Rig;

/// More than a burst's end, less than the time between tries.
const A_WHILE: Duration = Duration::from_millis(300);

/// A program that is told of changes: answers with these codes in turn, then with 200, for as long as the test runs.
struct Told {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Told {
    fn start(codes: &'static [u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        let serve = move || {
            for connection in listener.incoming() {
                let mut reader = BufReader::new(connection.unwrap());
                let (mut head, mut line) = (String::new(), String::new());
                while reader.read_line(&mut line).unwrap() > 2 {
                    head.push_str(&std::mem::take(&mut line).to_lowercase());
                }
                if head.is_empty() {
                    continue; // a connection that was closed
                }
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
                reader.read_exact(&mut body).unwrap();
                let mut seen = seen.lock().unwrap();
                let code = codes.get(seen.len()).unwrap_or(&200);
                seen.push(head + &String::from_utf8(body).unwrap());
                // The body is no text, which is no matter.
                let head = format!("HTTP/1.1 {code} X\r\nConnection: close\r\nContent-Length: 2\r\n\r\n");
                reader.into_inner().write_all(&[head.as_bytes(), b"\xff\0"].concat()).unwrap();
            }
        };
        thread::Builder::new().name("told".into()).spawn(serve).unwrap();
        Self { url, requests }
    }

    fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// Lets time pass until it has been told so often.
    fn wait_for(&self, rig: &Rig, count: usize) {
        eventually("told", || {
            rig.clock.advance(A_WHILE);
            self.count() >= count
        });
    }
}

#[test]
fn a_burst_is_told_once_and_after_the_files_are_there() {
    let (rig, told) = (Rig::timeless(), Told::start(&[]));
    let sidecar =
        rig.start(&[("REQ_URL", &format!("{}/reload?token=x", told.url)), ("REQ_SKIP_INIT", "true")]);
    for index in 0..20 {
        rig.apply(&format!("m{index}"), json!({format!("f{index}"): "1"}));
    }
    eventually("all files", || rig.folder.files().len() == 20 && sidecar.metric("objects") == 20);
    assert_eq!(told.count(), 0, "no time has passed");
    told.wait_for(&rig, 1);
    rig.apply("m0", json!({"f0": "2"}));
    eventually("the file", || rig.folder.files()["f0"] == "2");
    told.wait_for(&rig, 2);
    // An object that changes without its files changing tells nothing.
    let worked_on = || {
        let text = sidecar.get("/metrics").1;
        let name = "workqueue_work_duration_seconds_count{name=\"config_sync\"} ";
        text.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok())
    };
    let before = worked_on().unwrap();
    rig.apply_with("m0", json!({"note": "x"}), json!({"f0": "2"}));
    eventually("looked at", || worked_on().unwrap() > before);
    rig.clock.advance(A_WHILE);
    rig.apply("m1", json!({"f1": "2"}));
    eventually("the file", || rig.folder.files()["f1"] == "2");
    told.wait_for(&rig, 3);
    eventually("done", || sidecar.metric(r#"hooks_total{result="done"}"#) == 3);
    assert_eq!(told.count(), 3);
    assert!(told.requests.lock().unwrap().iter().all(|request| request.starts_with("get /reload?token=x ")));
}

#[test]
fn it_is_told_after_the_start_though_nothing_has_changed() {
    let (rig, told) = (Rig::timeless(), Told::start(&[]));
    let hook = [
        ("REQ_URL", &*told.url),
        ("REQ_METHOD", "POST"),
        ("REQ_PAYLOAD", r#"{"a": 1}"#),
        ("REQ_USERNAME", "me"),
        ("REQ_PASSWORD", "pw"),
    ];
    let _sidecar = rig.start(&hook);
    told.wait_for(&rig, 1);
    let request = told.requests.lock().unwrap()[0].clone();
    assert!(request.starts_with("post / ") && request.ends_with(r#"{"a": 1}"#), "{request}");
    assert!(request.contains("authorization: basic bwu6chc="), "{request}"); // lower case
}

#[test]
fn it_is_told_until_that_succeeds() {
    let (rig, told) = (Rig::timeless(), Told::start(&[500, 404, 503]));
    let sidecar = rig.start(&[("REQ_URL", &told.url)]);
    told.wait_for(&rig, 4);
    eventually("counted", || sidecar.metric(r#"hooks_total{result="done"}"#) == 1);
    assert_eq!(sidecar.metric(r#"hooks_total{result="failed"}"#), 3);
}

#[test]
fn a_hook_that_never_succeeds_holds_up_no_other() {
    let (rig, told) = (Rig::timeless(), Told::start(&[]));
    let file = rig.folder.0.with_extension("pid");
    let signal = [("SIGNAL", "WINCH"), ("SIGNAL_PID_FILE", file.to_str().unwrap())];
    let sidecar = rig.start(&[&signal[..], &[("REQ_URL", &told.url)]].concat());
    told.wait_for(&rig, 1);
    let failed = || sidecar.metric(r#"hooks_total{result="failed"}"#);
    eventually("tried again", || {
        rig.clock.advance(A_WHILE);
        failed() > 4
    });
    assert_eq!(told.count(), 1, "what has succeeded is not done again");
    // A change is told of to all, and at once.
    rig.apply("a", json!({"a": "1"}));
    rig.folder.wait_for(&[("a", "1")]);
    let start = rig.clock.now();
    told.wait_for(&rig, 2);
    assert!(rig.clock.now() - start < Duration::from_secs(8), "sooner than the next try would be");
    std::fs::write(&file, std::process::id().to_string()).unwrap(); // a signal that is ignored
    eventually("it succeeds", || {
        rig.clock.advance(A_WHILE);
        sidecar.metric(r#"hooks_total{result="done"}"#) == 3
    });
    std::fs::remove_file(&file).unwrap();
    assert_eq!(told.count(), 2);
}

#[test]
fn once_a_hook_that_fails_is_no_failure() {
    let rig = Rig::timeless();
    rig.apply("a", json!({"a": "1"}));
    let refused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{refused}");
    let hooks = [("SIGNAL", "HUP"), ("SIGNAL_PID_FILE", "/nowhere"), ("REQ_URL", &*url)];
    let ended = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let done = rig.once(&hooks);
            ended.store(true, std::sync::atomic::Ordering::SeqCst);
            done.unwrap();
        });
        eventually("it ends", || {
            rig.clock.advance(Duration::from_secs(1));
            ended.load(std::sync::atomic::Ordering::SeqCst)
        });
    });
    rig.folder.wait_for(&[("a", "1")]);
}

#[test]
fn a_program_that_never_answers_holds_up_neither_files_nor_the_end() {
    let rig = Rig::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let sidecar = rig.start(&[("REQ_URL", &format!("http://{}", silent.local_addr().unwrap()))]);
    let _called = silent.accept().unwrap();
    rig.apply("a", json!({"a": "1"}));
    rig.folder.wait_for(&[("a", "1")]);
    sidecar.end();
}

#[test]
fn the_process_of_a_file_gets_a_signal() {
    use std::os::unix::process::ExitStatusExt;
    let rig = Rig::new();
    let mut program = Command::new("sleep").arg("1000").spawn().unwrap();
    let file = rig.folder.0.with_extension("pid");
    std::fs::write(&file, format!("{}\n", program.id())).unwrap();
    rig.once(&[("SIGNAL", "SIGUSR1"), ("SIGNAL_PID_FILE", file.to_str().unwrap())]).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(program.wait().unwrap().signal(), Some(10));
}

#[test]
fn of_processes_with_a_name_the_parent_gets_a_signal() {
    use std::os::unix::process::ExitStatusExt;
    let rig = Rig::new();
    // A shell of that name that has started another, which lives until its input ends.
    let name = format!("lw{}", std::process::id());
    let shell = rig.folder.0.join(&name);
    std::fs::copy("/bin/bash", &shell).unwrap();
    let mut program = Command::new(&shell)
        .args(["-c", "exec 3<&0; (read -r <&3; exit 7) & echo; wait"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    rig.once(&[("SIGNAL", "USR2"), ("SIGNAL_PROCESS", &name)]).unwrap();
    let input = program.stdin.take(); // or waiting would close it
    assert_eq!(program.wait().unwrap().signal(), Some(12));
    assert_eq!(processes(&name), 1);
    drop(input);
    eventually("it has ended", || processes(&name) == 0);
}

/// Those that live: one that has ended may stay as a zombie, where nobody waits for it.
fn processes(name: &str) -> usize {
    let is = |stat: String| stat.contains(&format!("({name}) ")) && !stat.contains(&format!("({name}) Z"));
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| std::fs::read_to_string(entry.path().join("stat")).is_ok_and(is)).count()
}
