//! Three processes that stand for one Lease. One is killed, one is stopped for longer than the Lease lasts and then goes
//! on; each writes a line into one log when it is asked to and leads.
//!
//! A process is asked one after the other, and the next one when it has answered: the lines stand in the order in which
//! the processes looked whether they lead. So terms that overlap show as lines that are mixed, on a machine of any speed.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _, stdin};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};

use super::*;

/// A process that stands, and answers on its standard output.
struct Process {
    name: &'static str,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    stopped: bool,
}

impl Process {
    fn start(name: &'static str, url: &str, log: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::stands_and_writes", "--nocapture"])
            .env("LISTWATCH_CANDIDATE", name)
            .env("LISTWATCH_SERVER", url)
            .env("LISTWATCH_LOG", log)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { name, child, input, output, stopped: false }
    }

    /// Has it write, if it leads. Returns whether it did.
    fn ask(&mut self) -> bool {
        self.input.write_all(b"write\n").unwrap();
        for line in self.output.by_ref().lines() {
            // Before it stands what the test harness writes.
            let line = line.unwrap();
            if line.ends_with("wrote") || line.ends_with("idle") {
                return line.ends_with("wrote");
            }
        }
        panic!("{} has ended", self.name);
    }

    fn signal(&mut self, signal: &str) {
        let done = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(done.success());
        self.stopped = signal == "-STOP";
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This test is the processes of the next one.
#[test]
fn stands_and_writes() {
    let env = |name: &str| std::env::var(name).ok();
    let (Some(name), Some(url), Some(log)) =
        (env("LISTWATCH_CANDIDATE"), env("LISTWATCH_SERVER"), env("LISTWATCH_LOG"))
    else {
        return;
    };
    let client = Client::new(Config::new(&url).unwrap()).unwrap();
    // It wants to live on after it was stopped, and its callback returns at once.
    let elector = LeaderElector::new(&client, LeaseLock::new("default", "it", &*name))
        .lease_duration(2 * SECOND)
        .renew_deadline(SECOND * 5 / 4)
        .retry_period(SECOND / 4)
        .on_overrun(|| {});
    let (stop, term) = (Stop::new(), Arc::new(Mutex::new((0, Stop::new()))));
    term.lock().unwrap().1.stop();
    let (token, current) = (stop.clone(), term.clone());
    let standing = Builder::new().spawn(move || {
        elector.run_forever(&token, |term| {
            let number = elector.status().terms;
            *current.lock().unwrap() = (number, term.clone());
            term.wait();
        })
    });
    for _ in stdin().lines() {
        let (number, term) = term.lock().unwrap().clone();
        if term.is_stopped() {
            println!("idle");
            continue;
        }
        let mut log = OpenOptions::new().append(true).create(true).open(&log).unwrap();
        writeln!(log, "{name} in its term {number}").unwrap();
        println!("wrote");
    }
    stop.stop();
    let _ = standing.unwrap().join().unwrap().unwrap();
}

/// Asks all that run, in turn, until one other than `not` has written. Returns which.
fn until_one_leads(processes: &mut [Process], not: Option<&str>) -> usize {
    let pause = Stop::new();
    loop {
        let mut leader = None;
        for (at, process) in processes.iter_mut().enumerate() {
            if !process.stopped && process.ask() && not != Some(process.name) {
                leader = Some(at);
            }
        }
        match leader {
            Some(leader) => return leader,
            None => pause.sleep(SECOND / 50),
        };
    }
}

#[test]
fn of_three_processes_killed_and_stopped_never_two_write() {
    let server = ApiServer::start().unwrap();
    let log = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("leader-{}.log", std::process::id()));
    let _ = std::fs::remove_file(&log);
    let mut processes: Vec<_> =
        ["a", "b", "c"].into_iter().map(|name| Process::start(name, &server.url(), &log)).collect();
    let first = until_one_leads(&mut processes, None);
    processes.remove(first); // killed

    let second = until_one_leads(&mut processes, None);
    let stopped = processes[second].name;
    processes[second].signal("-STOP");
    until_one_leads(&mut processes, None);
    processes[second].signal("-CONT");
    // The very first thing that it does is to look whether it leads.
    assert!(!processes[second].ask(), "{stopped} leads still");
    for _ in 0..50 {
        until_one_leads(&mut processes, None);
    }
    // And it stands again: the other one is stopped, and not asked meanwhile.
    let other = 1 - second;
    processes[other].signal("-STOP");
    assert_eq!(until_one_leads(&mut processes, None), second);
    processes[other].signal("-CONT");
    for _ in 0..20 {
        until_one_leads(&mut processes, None);
    }
    drop(processes);

    let text = std::fs::read_to_string(&log).unwrap();
    let mut terms: Vec<_> = text.lines().collect();
    terms.dedup();
    let mut once = terms.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(terms.len(), once.len(), "terms overlap: {terms:#?}");
    assert!(terms.len() >= 4, "{terms:?}");
    std::fs::remove_file(&log).unwrap();
}
