//! What the kernel says about this process.

use std::fs;

const SELF: &str = "/proc/self/status";

/// One number of a file of this kernel: kilobytes, threads or switches.
fn status_of(file: &str, key: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn threads() -> impl Iterator<Item = String> {
    fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path().display().to_string())
}

/// Context switches of all threads.
pub(crate) fn switches() -> u64 {
    threads()
        .map(|t| format!("{t}/status"))
        .map(|f| status_of(&f, "voluntary_ctxt_switches") + status_of(&f, "nonvoluntary_ctxt_switches"))
        .sum()
}

/// Seconds that this process has spent, by threads that have ended, too; to a hundredth.
pub(crate) fn cpu() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 14 and 15, user and system; the name of the program, which ends in the last parenthesis, is the second.
    let after = stat.rsplit(')').next().unwrap_or_default();
    after.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>()
        as f64
        / 100.0
}

pub(crate) fn resident_mb() -> f64 {
    status_of(SELF, "VmRSS") as f64 / 1024.0
}

/// The most that was resident since the start, or since [`forget_peak`].
pub(crate) fn peak_mb() -> f64 {
    status_of(SELF, "VmHWM") as f64 / 1024.0
}

pub(crate) fn forget_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Resident set, its peak, threads and open files.
pub(crate) fn memory() -> String {
    let files = fs::read_dir("/proc/self/fd").unwrap().count();
    let (rss, peak, threads) = (resident_mb(), peak_mb(), status_of(SELF, "Threads"));
    format!("rss_mb={rss:.1} hwm_mb={peak:.1} threads={threads} fds={files}")
}

/// The median, the 99th percentile and the greatest of nanoseconds, in microseconds.
pub(crate) fn quantiles(nanos: &mut [u64]) -> String {
    nanos.sort_unstable();
    let at = |q: f64| nanos[((q * nanos.len() as f64) as usize).min(nanos.len() - 1)] as f64 / 1e3;
    format!("p50_us={:.0} p99_us={:.0} max_us={:.0}", at(0.5), at(0.99), at(1.0))
}
