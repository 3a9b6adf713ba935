//! Terms of single electors and of pairs, as they should be.

use std::sync::{Arc, Mutex};

use listwatch::metrics::Metrics;
use listwatch::types::ConfigMap;
use listwatch::{Action, Controller, DeleteParams, Patch, PatchParams, Request, Resource};
use serde_json::json;

use super::*;

/// Writes a Lease whose time of day is far from ours.
fn held_by(server: &ApiServer, holder: &str, seconds: i32, renewed: &str) {
    let json = json!({"metadata": {"name": "it"}, "spec": {
        "holderIdentity": holder, "leaseDurationSeconds": seconds, "leaseTransitions": 3,
        "acquireTime": "2001-01-01T00:00:00.000000Z", "renewTime": renewed,
    }});
    let mut lease: Lease = serde_json::from_value(json).unwrap();
    let leases = leases(server);
    match leases.get_opt("it").unwrap() {
        None => leases.create(&PostParams::default(), &lease).unwrap(),
        Some(old) => {
            lease.metadata = old.metadata;
            leases.replace("it", &PostParams::default(), &lease).unwrap()
        }
    };
}

#[test]
fn the_lease_is_written_as_client_go_does_and_what_others_wrote_into_it_stays() {
    let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
    let objects = Api::<Object>::namespaced_with(leases(&server).client(), "default", &Lease::api_resource());
    let foreign = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "it", "labels": {"team": "a"}, "annotations": {"note": "b"}},
        "spec": {"leaseTransitions": 3, "strategy": "OldestEmulationVersion", "preferredHolder": "x"}});
    objects.create(&PostParams::default(), &Object::from_value(foreign).unwrap()).unwrap();

    let running = Running::once(&elector(&server, &clock, "a"));
    running.term();
    let acquired = objects.get("it").unwrap();
    clock.wait_for_timers(2);
    clock.advance(RETRY * SECOND);
    clock.wait_for_timers(2);
    let renewed = objects.get("it").unwrap();
    running.let_go.send(()).unwrap();
    assert_eq!(running.end(), Ended::Returned(()));
    let released = objects.get("it").unwrap();

    for lease in [&acquired, &renewed, &released] {
        assert_eq!(
            (lease.get_str("/metadata/labels/team").as_deref(), lease.get("/spec/leaseTransitions")),
            (Some("a"), Some(4))
        );
        assert_eq!(lease.get_str("/metadata/annotations/note").as_deref(), Some("b"));
        assert_eq!(lease.get_str("/spec/strategy").as_deref(), Some("OldestEmulationVersion"));
        assert_eq!(lease.get_str("/spec/preferredHolder").as_deref(), Some("x"));
        for time in ["/spec/acquireTime", "/spec/renewTime"] {
            let text = lease.get_str(time).unwrap();
            assert_eq!(
                text.split_once('.').map(|(_, fraction)| fraction.len()),
                Some("123456Z".len()),
                "{text}"
            );
        }
    }
    for lease in [&acquired, &renewed] {
        assert_eq!(
            (lease.get_str("/spec/holderIdentity").as_deref(), lease.get("/spec/leaseDurationSeconds")),
            (Some("a"), Some(LEASE))
        );
    }
    assert_eq!(acquired.get_str("/spec/acquireTime"), renewed.get_str("/spec/acquireTime"));
    assert_ne!(acquired.get_str("/spec/renewTime"), renewed.get_str("/spec/renewTime"));
    assert_eq!(
        (released.get_str("/spec/holderIdentity").as_deref(), released.get("/spec/leaseDurationSeconds")),
        (Some(""), Some(1))
    );
}

#[test]
fn the_next_one_leads_at_once_where_the_lease_was_given_up_and_else_when_it_has_run_out() {
    for release in [true, false] {
        let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
        let first = Running::once(&elector(&server, &clock, "a").release_on_stop(release));
        first.term();
        clock.wait_for_timers(2);
        let rival = elector(&server, &clock, "b");
        let second = Running::once(&rival);
        clock.wait_for_timers(3);
        assert_eq!(rival.leader().as_deref(), Some("a"));
        first.stop.stop();
        assert_eq!(first.end(), Ended::Stopped(Some(())));
        if !release {
            // As it saw the Lease that is not earlier, however late it looks again.
            for _ in 1..LEASE {
                clock.wait_for_timers(1);
                clock.advance(SECOND);
            }
            clock.wait_for_timers(1);
            assert_eq!((holder(&server).as_str(), rival.is_leader()), ("a", false));
        }
        clock.wait_for_timers(1);
        clock.advance(LONGEST_WAIT);
        second.term();
        assert_eq!((holder(&server).as_str(), rival.is_leader()), ("b", true));
        second.stop.stop();
        assert_eq!(second.end(), Ended::Stopped(Some(())));
    }
}

#[test]
fn issue_client_go_448_what_counts_is_when_a_record_changed_here_and_for_how_long_it_says_it_is_valid() {
    let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
    held_by(&server, "other", 7, "2001-01-01T00:00:00.000000Z");
    let elector = elector(&server, &clock, "a");
    let running = Running::once(&elector);
    // 6 s without a change, then one that was made an hour ago or in an hour, by its own word.
    for renewed in ["2101-01-01T01:00:00.000000Z", "2001-01-01T00:00:01.000000Z"] {
        for _ in 0..6 {
            clock.wait_for_timers(1);
            clock.advance(SECOND);
        }
        clock.wait_for_timers(1);
        assert!(!elector.is_leader());
        held_by(&server, "other", 7, renewed);
        // It looks, so that this is when the change was seen.
        clock.advance(LONGEST_WAIT);
        clock.wait_for_timers(1);
    }
    for _ in 0..2 {
        assert!(!elector.is_leader());
        clock.advance(LONGEST_WAIT);
        if !elector.is_leader() {
            clock.wait_for_timers(1);
        }
    }
    running.term();
    assert_eq!(lease(&server).lease_transitions, Some(4));
    running.stop.stop();
    assert_eq!(running.end(), Ended::Stopped(Some(())));
}

#[test]
fn a_record_of_the_same_identity_that_somebody_else_wrote_is_waited_for() {
    let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
    held_by(&server, "a", 15, "2001-01-01T00:00:00.000000Z");
    let elector = elector(&server, &clock, "a");
    let running = Running::once(&elector);
    clock.wait_for_timers(1);
    clock.advance(14 * SECOND);
    clock.wait_for_timers(1);
    assert!(!elector.is_leader());
    clock.advance(LONGEST_WAIT);
    running.term();
    running.stop.stop();
    assert_eq!(running.end(), Ended::Stopped(Some(())));
}

#[test]
fn a_lease_that_another_one_has_taken_ends_the_term_at_once_and_is_left_alone() {
    let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
    let elector = elector(&server, &clock, "a");
    let running = Running::once(&elector);
    let term = running.term();
    clock.wait_for_timers(2);
    held_by(&server, "other", 15, "2001-01-01T00:00:00.000000Z");
    let before = leases(&server).get("it").unwrap();
    clock.advance(RETRY * SECOND);
    assert_eq!(running.end(), Ended::Lost(()));
    assert!(term.is_stopped());
    assert_eq!((elector.is_leader(), elector.leader().as_deref()), (false, Some("other")));
    assert_eq!(leases(&server).get("it").unwrap(), before);
}

#[test]
fn a_lease_that_was_deleted_is_written_anew_by_its_holder_and_not_by_who_has_seen_that() {
    let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
    let first = Running::once(&elector(&server, &clock, "a"));
    let term = first.term();
    clock.wait_for_timers(2);
    let rival = elector(&server, &clock, "b").retry_period(SECOND / 2);
    let second = Running::once(&rival);
    clock.wait_for_timers(3);
    leases(&server).delete("it", &DeleteParams::default()).unwrap();
    clock.advance(SECOND + SECOND / 2); // the second looks, the first not yet
    clock.wait_for_timers(3);
    assert_eq!(leases(&server).get_opt("it").unwrap(), None);
    clock.advance(SECOND / 2);
    clock.wait_for_timers(3);
    assert_eq!((holder(&server).as_str(), term.is_stopped()), ("a", false));
    for running in [first, second] {
        running.stop.stop();
        let _ = running.end();
    }
}

#[test]
fn issue_client_go_1155_who_has_lost_a_term_stands_again() {
    let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
    let elector = elector(&server, &clock, "a");
    let running = Running::start(&elector, true);
    let first = running.term();
    clock.wait_for_timers(2);
    held_by(&server, "other", 3, "2001-01-01T00:00:00.000000Z");
    clock.advance(RETRY * SECOND);
    assert!(first.sleep(LONG));
    // On a busy machine it may lose some more until this is noticed.
    while running.terms.is_empty() {
        clock.advance(SECOND);
        Stop::new().sleep(SECOND / 50);
    }
    assert!(elector.status().terms >= 2 && first.is_stopped());
    running.stop.stop();
    assert_eq!(running.end(), Ended::Stopped(Some(())));
}

#[test]
fn each_new_leader_is_told_once() {
    let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
    held_by(&server, "other", 15, "2001-01-01T00:00:00.000000Z");
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = told.clone();
    let elector = elector(&server, &clock, "a").on_new_leader(move |leader| {
        tell.lock().unwrap().push(leader.to_owned());
        panic!("a hook that panics harms nobody");
    });
    let running = Running::once(&elector);
    for _ in 0..2 {
        clock.wait_for_timers(1);
        clock.advance(LONGEST_WAIT);
    }
    clock.wait_for_timers(1);
    held_by(&server, "", 1, "2001-01-01T00:00:01.000000Z");
    clock.advance(LONGEST_WAIT);
    running.term();
    assert_eq!(*told.lock().unwrap(), ["other", "a"]);
    let status = elector.status();
    assert_eq!((status.leading, status.leader.as_deref(), status.transitions), (true, Some("a"), 4));
    running.stop.stop();
    assert_eq!(running.end(), Ended::Stopped(Some(())));
    assert_eq!((elector.is_leader(), elector.leader()), (false, None));
}

#[test]
fn issue_controller_runtime_2719_nothing_begins_once_stopped() {
    let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
    let (elector, stop) = (elector(&server, &clock, "a"), Stop::new());
    stop.stop();
    let asked = server.requests().len();
    assert_eq!(elector.run(&stop, |_| panic!("called")).unwrap(), Ended::<()>::Stopped(None));
    assert_eq!(server.requests().len(), asked);

    // Stopped by the client it was made with, while it waits for another.
    held_by(&server, "other", 15, "2001-01-01T00:00:00.000000Z");
    let elector = LeaderElector::new(
        &client(&server, &clock).with_stop(&stop.child()),
        LeaseLock::new("default", "it", "a"),
    );
    assert_eq!(elector.run(&Stop::new(), |_| panic!("called")).unwrap(), Ended::<()>::Stopped(None));
}

#[test]
fn what_cannot_work_is_said_before_anything_is_asked() {
    let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
    let [a, b] = [elector(&server, &clock, "a"), elector(&server, &clock, "a")];
    let nobody = LeaderElector::new(&client(&server, &clock), LeaseLock::new("default", "it", ""));
    let nowhere = LeaderElector::new(&client(&server, &clock), LeaseLock::new("", "it", "a"));
    let asked = server.requests().len();
    for (elector, why) in [
        (
            a.clone().lease_duration(10 * SECOND),
            "lease_duration (10s) must be longer than renew_deadline (10s)",
        ),
        (
            a.clone().lease_duration(15 * SECOND / 2).renew_deadline(5 * SECOND),
            "lease_duration is 7.5s, and must be whole",
        ),
        (a.clone().lease_duration(Duration::ZERO), "lease_duration is 0ns"),
        (a.clone().lease_duration(Duration::MAX), "must be whole seconds"),
        (
            b.clone().renew_deadline(12 * SECOND / 5),
            "renew_deadline (2.4s) must be longer than 1.2 times retry_period (2s)",
        ),
        (b.clone().retry_period(Duration::MAX), "must be longer than 1.2 times"),
        (b.retry_period(Duration::ZERO), "retry_period is zero"),
        (nobody, "election for lease default/it: a candidate needs an identity"),
        (nowhere, "\"\" is no name of a namespace"),
    ] {
        let error = elector.run(&Stop::new(), |_| panic!("called")).unwrap_err();
        assert!(error.is_invalid_argument() && error.to_string().contains(why), "{error}");
    }
    assert_eq!(server.requests().len(), asked);
}

#[test]
fn an_elector_runs_once_at_a_time() {
    let (server, clock) = (ApiServer::start().unwrap(), Clock::manual());
    let elector = elector(&server, &clock, "a");
    let running = Running::once(&elector);
    running.term();
    let error = elector.run(&Stop::new(), |_| panic!("called")).unwrap_err();
    assert!(error.to_string().contains("runs already"), "{error}");
    running.let_go.send(()).unwrap();
    assert_eq!(running.end(), Ended::Returned(()));
    assert_eq!(elector.run(&Stop::new(), |_| 7).unwrap().into_inner(), Some(7));
}

/// Row 132 of the list: a controller that drains, and gives the Lease up last.
#[test]
fn issue_java_operator_sdk_3383_a_stop_ends_the_work_then_gives_the_lease_up() {
    fn touch(map: &Request<ConfigMap>) -> Result<Action, Error> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"seen": "yes"}}}));
        // Not through `Request::api`, whose calls end with the term: work that is finished after the stop.
        let api = Api::<ConfigMap>::default_namespaced(&map.client().with_stop(&Stop::new()));
        api.patch(map.name(), &PatchParams::default(), &patch).map(|_| Action::await_change())
    }

    let server = ApiServer::start().unwrap();
    let client = server.client().unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(&client);
    for n in 0..20 {
        let map = ConfigMap { metadata: ObjectMeta::named(format!("m{n}")), ..ConfigMap::default() };
        maps.create(&PostParams::default(), &map).unwrap();
    }
    let (elector, stop) = (elector(&server, &Clock::system(), "a"), Stop::new());
    let (send, ended) = bounded(1);
    let (token, controller) =
        (stop.clone(), Controller::<ConfigMap>::namespaced(&client, "default").workers(2));
    let run = move || send.send(elector.run(&token, |term: &Stop| controller.run(term, touch))).unwrap();
    let thread = Builder::new().spawn(run).unwrap();
    let watching = Stop::new();
    for event in maps.watch(&Default::default(), &watching).unwrap() {
        if let listwatch::WatchEvent::Modified(_) = event.unwrap() {
            break;
        }
    }
    stop.stop();
    let Ended::Stopped(Some(done)) = ended.recv_timeout(LONG).unwrap().unwrap() else {
        panic!("not stopped")
    };
    done.unwrap();
    thread.join().unwrap();
    assert_eq!(holder(&server), "");
    let asked = server.requests();
    let release = asked.iter().rposition(|request| request.starts_with("PUT") && request.contains(LEASES));
    let work = asked.iter().rposition(|request| request.starts_with("PATCH"));
    assert!(work.is_some() && release > work, "{asked:?}");
}

#[test]
fn metrics_say_who_leads() {
    let (server, metrics) = (ApiServer::start().unwrap(), Metrics::new());
    let client = server.client().unwrap().with_metrics(metrics.clone());
    let lock = LeaseLock::new("default", "it", "a");
    let leads = || metrics.snapshot().leaders.get("it").copied();
    let ended = LeaderElector::new(&client, lock).run(&Stop::new(), |term: &Stop| {
        assert_eq!(leads(), Some(true));
        term.stop(); // as when it is lost
        leads()
    });
    assert_eq!(ended.unwrap().into_inner().flatten(), Some(false));
    assert!(metrics.to_prometheus_text().contains("leader_election_master_status{name=\"it\"} 0"));
}
