//! What the caches take of memory, measured from outside: each test in a process of its own.
//!
//! - `slow`: a handler that is slower than the changes come
//! - `relist`: large lists that come again
//! - `churn`: clients and handlers that come and go

#![cfg(target_os = "linux")] // what it measures is in /proc
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests are outside of what clippy.toml lets off

#[path = "memory/churn.rs"]
mod churn;
#[allow(dead_code)] // other suites use the rest
#[path = "support/history.rs"]
mod history;
#[path = "memory/relist.rs"]
mod relist;
#[path = "memory/slow.rs"]
mod slow;

use std::fs;
use std::process::Command;
use std::time::Duration;

use listwatch::Clock;

/// Longer than any of this takes; what waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(300);

const MIB: f64 = 1024.0 * 1024.0;

/// Runs a test in a process of its own, as what was there before it would be measured, too. `name` is the test's.
fn alone(name: &str, test: impl FnOnce()) {
    const ALONE: &str = "LISTWATCH_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return test();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([name, "--exact", "--nocapture"]).env(ALONE, "1");
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    text.lines().filter(|line| line.starts_with("memory: ")).for_each(|line| println!("{line}"));
}

/// A line of /proc/self/status in bytes.
fn status(field: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<f64>().unwrap() * 1024.0
}

/// What is resident now.
fn resident() -> f64 {
    status("VmRSS")
}

/// The most that was resident since [`forget_peak`].
fn peak() -> f64 {
    status("VmHWM")
}

fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// How many threads there are.
fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// Waits until something holds that no channel tells of.
#[track_caller]
fn until(mut holds: impl FnMut() -> bool) {
    let clock = Clock::system();
    let end = clock.now() + PATIENCE;
    while !holds() {
        assert!(clock.now() < end, "it did not come to hold");
        std::thread::yield_now();
    }
}
