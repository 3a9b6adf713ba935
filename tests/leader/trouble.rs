//! Requests that hang or are refused, callbacks that panic or do not return.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::sync::{Mutex, Once};

use listwatch::apiserver::faults::{Effect, Fault, Reply};
use log::{Level, LevelFilter, Log, Metadata, Record};

use super::*;

/// Requests may take longer than a test waits: they are limited in the system's time.
const PATIENT: u32 = 2000;

fn patient(server: &ApiServer, clock: &Clock) -> LeaderElector {
    elector(server, clock, "a").lease_duration(2 * PATIENT * SECOND).renew_deadline(PATIENT * SECOND)
}

fn refused() -> Effect {
    Effect::Reply(Reply::status(503, "ServiceUnavailable", "the server is down"))
}

#[test]
fn issue_kubernetes_65094_a_renewal_that_hangs_ends_the_term_at_its_deadline_and_others_follow_later() {
    let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
    let elector = patient(&server, &clock).release_on_stop(false);
    let running = Running::once(&elector);
    let term = running.term();
    clock.wait_for_timers(2);
    let fault = server.inject(Fault::new(Effect::Silence).method("PUT").path(LEASES));
    clock.advance(RETRY * SECOND);
    assert!(fault.wait_for_hit(LONG));
    clock.advance((PATIENT - RETRY) * SECOND - Duration::from_nanos(1));
    assert!(!term.is_stopped() && elector.is_leader());
    clock.advance(Duration::from_nanos(1));
    assert!(term.is_stopped() && !elector.is_leader());
    // It wakes those that wait, though the request hangs still.
    assert_eq!(running.end(), Ended::Lost(()));
    assert_eq!(holder(&server), "a");
}

#[test]
fn issue_kubernetes_23731_a_renewal_that_comes_through_after_the_term_does_not_bring_it_back() {
    let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
    let elector = patient(&server, &clock);
    let running = Running::once(&elector);
    let term = running.term();
    clock.wait_for_timers(2);
    let fault = server.inject(Fault::new(Effect::Late).method("PUT").path(LEASES).once());
    clock.advance(RETRY * SECOND);
    assert!(fault.wait_for_hit(LONG));
    clock.advance((PATIENT - RETRY) * SECOND);
    drop(fault);
    assert!(term.is_stopped() && !elector.is_leader());
    assert_eq!(running.end(), Ended::Lost(()));
    // Whether it was done or not, the Lease is given up behind it, and another term is a new one.
    assert_eq!((holder(&server).as_str(), term.is_stopped()), ("", true));
    let running = Running::once(&elector);
    assert!(!running.term().is_stopped() && term.is_stopped());
    running.stop.stop();
    assert_eq!(running.end(), Ended::Stopped(Some(())));
}

#[test]
fn one_request_that_hangs_leaves_time_for_another() {
    // In the system's time, as requests are limited by it.
    let server = ApiServer::start().unwrap();
    let elector = elector(&server, &Clock::system(), "a")
        .lease_duration(1000 * SECOND)
        .renew_deadline(2 * SECOND)
        .retry_period(SECOND / 10);
    let running = Running::start(&elector, true);
    // A busy machine may lose a term before the request is given up, but not each.
    let given_up = (0..20).any(|_| {
        let term = running.term();
        let fault = server.inject(Fault::new(Effect::Silence).method("PUT").path(LEASES).once());
        assert!(fault.wait_for_hit(LONG));
        let timed_out = || elector.status().last_error.is_some_and(|(_, why)| why.contains("timed out"));
        while !timed_out() && !term.sleep(SECOND / 100) {}
        timed_out()
    });
    assert!(given_up);
    running.stop.stop();
    let _ = running.end();
}

#[test]
fn issue_kubernetes_118790_a_stop_ends_a_request_that_hangs() {
    let server = ApiServer::start().unwrap();
    let elector = patient(&server, &Clock::system()).retry_period(SECOND / 10).release_on_stop(false);
    let fault = server.inject(Fault::new(Effect::Silence).path(LEASES));
    let running = Running::once(&elector);
    assert!(fault.wait_for_hit(LONG));
    running.stop.stop();
    assert_eq!(running.end(), Ended::Stopped(None));
    drop(fault);

    let running = Running::once(&elector);
    running.term();
    let fault = server.inject(Fault::new(Effect::Silence).path(LEASES));
    assert!(fault.wait_for_hit(LONG));
    running.stop.stop();
    assert_eq!(running.end(), Ended::Stopped(Some(())));
    drop(fault);

    // One that would have taken the Lease, and may have: the callback is not called.
    let other = LeaderElector::new(&server.client().unwrap(), LeaseLock::new("default", "other", "a"));
    let fault = server.inject(Fault::new(Effect::Late).method("POST").path(LEASES));
    let running = Running::once(&other);
    assert!(fault.wait_for_hit(LONG));
    running.stop.stop();
    assert_eq!(running.end(), Ended::Stopped(None));
}

/// What was logged at level `warn`.
static WARNED: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Logger;

impl Log for Logger {
    fn enabled(&self, of: &Metadata<'_>) -> bool {
        of.level() <= Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if record.level() == Level::Warn {
            WARNED.lock().unwrap().push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// How many warnings there were of a Lease. Those of before the first call are not counted.
fn warned(lease: &str) -> usize {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Logger).unwrap();
        log::set_max_level(LevelFilter::Warn);
    });
    WARNED.lock().unwrap().iter().filter(|text| text.contains(lease)).count()
}

#[test]
fn who_loses_the_race_for_the_lease_does_not_warn_and_who_loses_the_lease_does() {
    assert_eq!(warned("default/race"), 0);
    let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
    let free = Lease { metadata: ObjectMeta::named("race"), ..Lease::default() };
    leases(&server).create(&PostParams::default(), &free).unwrap();
    // As two that start together see it: there was none when it looked.
    let none = Effect::Reply(Reply::status(404, "NotFound", "not there yet"));
    let none = server.inject(Fault::new(none).method("GET").path(LEASES));
    let elector = LeaderElector::new(&client(&server, &clock), LeaseLock::new("default", "race", "a"));
    let running = Running::once(&elector);
    let tried = |text: &str| {
        clock.wait_for_timers(1);
        assert!(elector.status().last_error.unwrap().1.contains(text), "{:?}", elector.status());
        assert_eq!(warned("default/race"), 0);
    };
    tried("already exists");
    drop(none);
    let changed = || Effect::Reply(Reply::status(409, "Conflict", "it was modified"));
    let fault = server.inject(Fault::new(changed()).method("PUT").path(LEASES));
    clock.advance(LONGEST_WAIT);
    tried("it was modified");
    drop(fault);
    clock.advance(LONGEST_WAIT);
    let term = running.term();
    clock.wait_for_timers(2);
    let fault = server.inject(Fault::new(changed()).method("PUT").path(LEASES));
    clock.advance(RETRY * SECOND);
    clock.wait_for_timers(2);
    assert_eq!((warned("default/race"), term.is_stopped()), (1, false));
    drop(fault);
    running.stop.stop();
    assert_eq!(running.end(), Ended::Stopped(Some(())));
}

#[test]
fn issue_java_1011_who_waits_in_vain_says_why_once_a_minute() {
    assert_eq!(warned("nowhere/it"), 0);
    let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
    let lock = LeaseLock::new("nowhere", "it", "a");
    let elector = LeaderElector::new(&client(&server, &clock), lock);
    let running = Running::once(&elector);
    for _ in 0..10 {
        clock.wait_for_timers(1);
        clock.advance(LONGEST_WAIT);
    }
    clock.wait_for_timers(1);
    let status = elector.status();
    let (at, why) = status.last_error.unwrap();
    assert!(
        why.contains("create leases.coordination.k8s.io nowhere/it")
            && why.contains("namespaces \"nowhere\" not found"),
        "{why}"
    );
    assert_eq!((at, status.errors, status.leading), (clock.now(), 11, false));
    assert_eq!(warned("nowhere/it"), 1);
    clock.advance(60 * SECOND);
    clock.wait_for_timers(1);
    assert_eq!(warned("nowhere/it"), 2);
    running.stop.stop();
    assert_eq!(running.end(), Ended::Stopped(None));
}

#[test]
fn issue_java_1011_a_role_that_is_missing_is_told_and_may_come_later() {
    let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
    let elector = elector(&server, &clock, "a");
    let forbidden = Effect::Reply(Reply::status(403, "Forbidden", "leases is forbidden: no role"));
    let fault = server.inject(Fault::new(forbidden).path(LEASES));
    let running = Running::once(&elector);
    clock.wait_for_timers(1);
    let why = elector.status().last_error.unwrap().1;
    assert!(why.contains("get leases.coordination.k8s.io default/it: leases is forbidden: no role"), "{why}");
    drop(fault);
    clock.advance(LONGEST_WAIT);
    running.term();
    running.stop.stop();
    assert_eq!(running.end(), Ended::Stopped(Some(())));
}

#[test]
fn a_callback_that_panics_ends_its_term_gives_the_lease_up_and_the_panic_goes_on() {
    let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
    let elector = elector(&server, &clock, "a");
    let mut begun = None;
    let run = || {
        elector.run(&Stop::new(), |term| {
            begun = Some(term.clone());
            panic!("of the callback")
        })
    };
    let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"of the callback"));
    assert!(begun.unwrap().is_stopped() && !elector.is_leader());
    assert_eq!(holder(&server), "");
    assert_eq!(elector.run(&Stop::new(), |_| 7).unwrap(), Ended::Returned(7));
}

#[test]
fn issue_cilium_42920_a_callback_that_does_not_return_is_reported_and_its_lease_is_not_given_up() {
    let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
    let (overrun, overruns) = unbounded();
    let elector = elector(&server, &clock, "a").on_overrun(move || overrun.send(()).unwrap());
    let (begun, begins) = bounded(1);
    let (let_go, go) = bounded::<()>(1);
    let (send, ended) = bounded(1);
    let running = elector.clone();
    let thread = Builder::new().spawn(move || {
        let work = |term: &Stop| {
            begun.send(term.clone()).unwrap();
            go.recv_timeout(LONG).unwrap();
        };
        send.send(running.run(&Stop::new(), work)).unwrap();
    });
    let term = begins.recv_timeout(LONG).unwrap();
    clock.wait_for_timers(2);
    let fault = server.inject(Fault::new(refused()).path(LEASES));
    clock.advance(RENEW * SECOND);
    assert!(term.sleep(LONG));
    clock.wait_for_timers(1); // what waits for the callback
    drop(fault);
    clock.advance(SECOND * 5 / 2 - Duration::from_nanos(1));
    assert!(overruns.try_recv().is_err());
    clock.advance(Duration::from_nanos(1));
    overruns.recv_timeout(LONG).unwrap();
    clock.advance(100 * SECOND);
    assert_eq!((holder(&server).as_str(), elector.is_leader()), ("a", false));
    let_go.send(()).unwrap();
    assert_eq!(ended.recv_timeout(LONG).unwrap().unwrap(), Ended::Lost(()));
    thread.unwrap().join().unwrap();
    assert!(overruns.try_recv().is_err());
    assert_eq!(holder(&server), "");
}

#[test]
fn a_hook_of_the_term_that_blocks_does_not_hold_the_report_up() {
    let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
    let (overrun, overruns) = unbounded();
    let elector = elector(&server, &clock, "a").on_overrun(move || overrun.send(()).unwrap());
    let (begun, begins) = bounded(1);
    let (let_go, go) = bounded::<()>(0);
    let thread = Builder::new().spawn(move || {
        elector.run(&Stop::new(), |term: &Stop| {
            let held = go.clone();
            let _hook = term.on_stop(move || assert!(held.recv_timeout(LONG).is_err()));
            begun.send(()).unwrap();
            let _ = go.recv_timeout(LONG);
        })
    });
    begins.recv_timeout(LONG).unwrap();
    clock.wait_for_timers(2);
    let _fault = server.inject(Fault::new(refused()).path(LEASES));
    clock.advance(LEASE * SECOND);
    overruns.recv_timeout(LONG / 2).unwrap();
    drop(let_go);
    assert_eq!(thread.unwrap().join().unwrap().unwrap(), Ended::Lost(()));
}

/// This test is a process of its own in the next one.
#[test]
fn leads_and_does_not_return() {
    let Ok(url) = std::env::var("LISTWATCH_OVERRUN") else { return };
    let client = Client::new(Config::new(&url).unwrap()).unwrap();
    let elector = LeaderElector::new(&client, LeaseLock::new("default", "it", "a"))
        .lease_duration(2 * SECOND)
        .renew_deadline(SECOND)
        .retry_period(SECOND / 5);
    let _ = elector.run(&Stop::new(), |_| {
        println!("leads");
        Stop::new().wait();
    });
}

#[test]
fn issue_cilium_42920_a_process_whose_callback_does_not_return_exits_before_its_lease_has_run_out() {
    let server = ApiServer::start().unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "trouble::leads_and_does_not_return", "--nocapture"])
        .env("LISTWATCH_OVERRUN", server.url())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let wait = Stop::new();
    while leases(&server).get_opt("it").unwrap().is_none() {
        assert_eq!(process.try_wait().unwrap(), None);
        wait.sleep(SECOND / 50);
    }
    let fault = server.inject(Fault::new(refused()).path(LEASES));
    let mut code = None;
    for _ in 0..50 * LONG.as_secs() {
        code = process.try_wait().unwrap();
        if code.is_some() {
            break;
        }
        wait.sleep(SECOND / 50);
    }
    let _ = process.kill();
    assert_eq!(code.expect("it does not exit").code(), Some(1));
    drop(fault);
    assert_eq!(holder(&server), "a");
}
