//! The program as it is deployed: variables in, signals, an exit code.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::config_sync;
use crate::rig::{Rig, get};

/// The name of the next test, which is the program when called by itself.
const SELF: &str = "process::a_signal_ends_it_cleanly";

#[test]
fn a_signal_ends_it_cleanly() {
    if std::env::var_os("CONFIG_SYNC_IS_THE_PROGRAM").is_some() {
        let code = config_sync::main();
        std::process::exit(i32::from(
            format!("{code:?}") != format!("{:?}", std::process::ExitCode::SUCCESS),
        ));
    }
    let rig = Rig::new();
    rig.apply("a", json!({"a": "1"}));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let program = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", SELF, "--nocapture"])
            .env("CONFIG_SYNC_IS_THE_PROGRAM", "1")
            .env("API_SERVER", rig.server.url())
            .env("LABEL", "app")
            .env("HEALTH_PORT", port.port().to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    };
    let mut running = program().env("FOLDER", &rig.folder.0).spawn().unwrap();
    let mut lines = BufReader::new(running.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("the first mirror is complete: 1 files of 1 objects")));
    rig.folder.wait_for(&[("a", "1")]);
    assert_eq!(get(port, "/readyz").0, 200);
    let kill = Command::new("kill").args(["-TERM", &running.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert!(lines.any(|line| line.contains("as told by a signal")));
    assert_eq!(running.wait().unwrap().code(), Some(0));
    assert!(std::net::TcpStream::connect(port).is_err());

    let without = program().output().unwrap();
    assert_eq!(without.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&without.stderr).contains("FOLDER is not set"));
}
