//! The program as it is deployed: variables in, signals, an exit code.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
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
        let mut command = program(&rig);
        command.env("HEALTH_PORT", port.port().to_string());
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

/// This program as the sidecar.
fn program(rig: &Rig) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", SELF, "--nocapture"])
        .env("CONFIG_SYNC_IS_THE_PROGRAM", "1")
        .env("API_SERVER", rig.server.url())
        .env("LABEL", "app")
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

#[test]
fn the_mode_is_mended_though_the_file_is_of_another_user() {
    let rig = Rig::new();
    rig.apply("a", json!({"a": "1"}));
    let path = rig.folder.0.join("a");
    std::fs::write(&path, "1").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o604)).unwrap();
    if chown(&rig.folder.0, Some(65534), Some(65534)).is_err() {
        eprintln!("SKIPPED: only root can be another user");
        return;
    }
    let mut other = program(&rig);
    other.env("FOLDER", &rig.folder.0).env("METHOD", "LIST").uid(65534).gid(65534).current_dir("/");
    let ended = other.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let after = std::fs::metadata(&path).unwrap();
    assert_eq!((after.permissions().mode() & 0o7777, after.uid()), (0o644, 65534));
}

#[test]
fn of_two_processes_the_one_that_cannot_be_told_keeps_no_other_from_its_one_signal() {
    let rig = Rig::new();
    let name = format!("ls{}", std::process::id());
    let shell = rig.folder.0.with_file_name(&name);
    std::fs::copy("/bin/bash", &shell).unwrap();
    if chown(&rig.folder.0, Some(65534), Some(65534)).is_err() {
        eprintln!("SKIPPED: only root can be another user");
        return;
    }
    // Each says what it gets, and ends with its input.
    let start = |user: u32| {
        let mut command = Command::new(&shell);
        command
            .args(["-c", "trap 'echo got' USR1; echo ready; until read -r; do [ $? -gt 128 ] || exit; done"]);
        let mut program = command.uid(user).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().unwrap(), "ready");
        (program, lines)
    };
    let programs = [start(65534), start(0), start(65534)];
    let mut other = program(&rig);
    other.env("FOLDER", &rig.folder.0).env("HEALTH_PORT", "0").uid(65534).gid(65534).current_dir("/");
    let mut other = other.env("SIGNAL", "USR1").env("SIGNAL_PROCESS", &name).spawn().unwrap();
    let lines = BufReader::new(other.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.filter(|line| line.contains("; again in ")).take(2).count(), 2);
    other.kill().unwrap();
    other.wait().unwrap();
    let got = programs.map(|(mut program, lines)| {
        drop(program.stdin.take());
        program.wait().unwrap();
        lines.count()
    });
    assert_eq!(got, [1, 0, 1]);
}
