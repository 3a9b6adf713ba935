//! One Lease, and candidates of ours and of client-go: it goes from one to the other, given up or run out.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use super::*;

/// A candidate of client-go. Dropping it kills it.
struct Go {
    child: Child,
    input: Option<ChildStdin>,
    says: Receiver<String>,
    reader: Option<JoinHandle<()>>,
}

/// Builds it; `None` if this machine has no Go.
fn build() -> Option<PathBuf> {
    if Command::new("go").arg("version").output().is_err() {
        assert_ne!(env::var("LISTWATCH_GO").as_deref(), Ok("required"), "there is no Go");
        eprintln!("SKIPPED: no Go on this machine, so nothing is tried with client-go's elector");
        return None;
    }
    let to = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("elector");
    let done = Command::new("go")
        .args(["build", "-buildvcs=false", "-o"])
        .arg(&to)
        .arg(".")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go/elector"))
        .status()
        .unwrap();
    assert!(done.success(), "client-go's elector cannot be built");
    Some(to)
}

impl Go {
    fn start(program: &Path, server: &ApiServer) -> Self {
        let mut child = Command::new(program)
            .args([&*server.url(), "default", "it", "go"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, says) = unbounded();
        let output = BufReader::new(child.stdout.take().unwrap());
        let read = move || output.lines().map_while(Result::ok).for_each(|line| drop(tell.send(line)));
        let reader = Some(Builder::new().spawn(read).unwrap());
        Self { input: child.stdin.take(), child, says, reader }
    }

    /// Waits until it says so.
    #[track_caller]
    fn says(&self, what: &str) {
        while self.says.recv_timeout(LONG).unwrap_or_else(|e| panic!("it never says {what:?}: {e}")) != what {
        }
    }

    fn has_said(&self, what: &str) -> bool {
        self.says.try_iter().any(|line| line == what)
    }
}

impl Drop for Go {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

#[test]
fn a_lease_goes_from_client_go_to_us_and_back() {
    let Some(program) = build() else { return };
    let server = ApiServer::start().unwrap();
    let elector = elector(&server, &Clock::system(), "rust")
        .lease_duration(6 * SECOND)
        .renew_deadline(4 * SECOND)
        .retry_period(SECOND / 2);
    let ours = Running::start(&elector, true);
    ours.term();
    let mut go = Go::start(&program, &server);
    go.says("sees \"rust\"");
    // It waits for as long as we renew; unless this machine is too slow for that.
    while elector.status().renewals < 12 && elector.status().terms == 1 {
        Stop::new().sleep(SECOND / 20);
    }
    assert!(!go.has_said("leads") || elector.status().terms > 1);

    // We give it up, and they take it.
    let before = lease(&server).lease_transitions;
    ours.stop.stop();
    assert!(matches!(ours.end(), Ended::Stopped(_)));
    go.says("leads");
    let taken = lease(&server);
    assert_eq!(taken.holder_identity.as_deref(), Some("go"));
    assert!(taken.lease_transitions > before);

    // They give it up, and we take it.
    let ours = Running::start(&elector, true);
    while elector.leader().as_deref() != Some("go") {
        assert!(ours.terms.is_empty());
        Stop::new().sleep(SECOND / 20);
    }
    drop(go.input.take());
    go.says("leads no more");
    ours.term();
    assert_eq!((holder(&server).as_str(), elector.is_leader()), ("rust", true));
    ours.stop.stop();
    assert!(matches!(ours.end(), Ended::Stopped(_)));

    // We end without giving it up, and they take it when it has run out.
    let silent = elector.clone().release_on_stop(false);
    let ours = Running::once(&silent);
    ours.term();
    let go = Go::start(&program, &server);
    go.says("sees \"rust\"");
    ours.stop.stop();
    let _ = ours.end();
    assert_eq!(holder(&server), "rust");
    go.says("leads");
    assert!(!elector.is_leader());

    // They are killed, and we take it when it has run out.
    let ours = Running::start(&elector, true);
    drop(go);
    assert_eq!(holder(&server), "go");
    ours.term();
    assert_eq!(holder(&server), "rust");
    ours.stop.stop();
    assert!(matches!(ours.end(), Ended::Stopped(_)));
}
