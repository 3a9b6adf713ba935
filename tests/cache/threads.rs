use std::fs;

use listwatch::types::ConfigMap;
use listwatch::{Clock, Handlers, Informer, Stop};

use crate::informer::recorder;
use crate::script::{named, soon};

/// How many threads of this process have a name that ends so. Linux keeps 15 bytes of a name.
fn threads(suffix: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim_end().starts_with("lw-") && name.contains(suffix)).count()
}

/// Waits until so many are left; the kernel forgets a thread a moment after it was joined.
#[track_caller]
fn until(suffix: &str, count: usize) {
    crate::script::until(|| threads(suffix) == count);
}

#[test]
#[cfg(target_os = "linux")]
fn an_informer_has_two_threads_and_one_for_each_handler() {
    let stop = Stop::new();
    let informers: Vec<_> = (0..50)
        .map(|n| {
            let (script, server) = named("many");
            let informer = Informer::builder(script).clock(Clock::manual()).build().unwrap();
            for _ in 0..n % 3 {
                informer.add_handler(recorder().0).unwrap();
            }
            informer.start(&stop).unwrap();
            (informer, server)
        })
        .collect();
    let feeds: Vec<_> = informers.iter().map(|(_, server)| server.sync(&["a/x@1"], "10")).collect();
    until("many", 50 * 2 + 49);
    stop.stop();
    let joined: Vec<_> = informers.iter().map(|(informer, _)| informer.clone()).collect();
    soon(move || joined.iter().for_each(Informer::join));
    until("many", 0);
    drop(feeds);
}

#[test]
#[cfg(target_os = "linux")]
fn an_informer_that_was_never_started_leaves_no_thread() {
    for _ in 0..20 {
        let informer = Informer::<ConfigMap>::builder(named("idle").0).build().unwrap();
        informer.add_handler(Handlers::new()).unwrap();
        let registration = informer.add_handler(Handlers::new()).unwrap();
        drop(informer);
        assert!(registration.depth() == 0);
    }
    until("idle", 0);
}

#[test]
#[cfg(target_os = "linux")]
fn handlers_that_come_and_go_leave_no_thread() {
    let (script, server) = named("brief");
    let (informer, stop) = (Informer::builder(script).clock(Clock::manual()).build().unwrap(), Stop::new());
    informer.start(&stop).unwrap();
    let _feed = server.sync(&["a/x@1"], "10");
    for _ in 0..10_000 {
        informer.add_handler(recorder().0).unwrap().remove();
    }
    until("brief", 2);
    stop.stop();
    informer.join();
    until("brief", 0);
}
