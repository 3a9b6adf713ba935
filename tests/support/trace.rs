//! Everything that is logged, at trace level, on standard error, where `LISTWATCH_TRACE` is set: `.ci/run secrets` runs
//! tests so, and looks for their secrets in it.

use std::io::{self, Write as _};

#[allow(dead_code)] // of no use where a test has a logger of its own
struct Trace;

impl log::Log for Trace {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        write(record);
    }

    fn flush(&self) {}
}

/// To be called before anything of a test is logged; may be called often.
#[allow(dead_code)]
pub(crate) fn start() {
    if is_on() && log::set_logger(&Trace).is_ok() {
        log::set_max_level(log::LevelFilter::Trace);
    }
}

/// For a logger of a test's own.
pub(crate) fn write(record: &log::Record<'_>) {
    if is_on() {
        // Not through eprintln!, which is captured.
        let line = format!("{} {} {}\n", record.level(), record.target(), record.args());
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

fn is_on() -> bool {
    std::env::var_os("LISTWATCH_TRACE").is_some()
}
