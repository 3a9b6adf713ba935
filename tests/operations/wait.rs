use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::unbounded;
use listwatch::apiserver::faults::{Effect, Fault, Reply};
use listwatch::types::{ConfigMap, CustomResourceDefinition, Deployment, Job, Pod};
use listwatch::wait::{self, Condition, until};
use listwatch::{
    Api, ApiResource, ApiServer, Clock, DeleteParams, Error, Object, Patch, PatchParams, PostParams, Scope,
    Stop,
};
use serde_json::{Value, json};

use crate::{LONG, StopAtEnd, config_maps, create, eventually};

fn has_value(value: &str) -> impl Fn(Option<&ConfigMap>) -> bool {
    let value = value.to_owned();
    move |map| map.is_some_and(|map| map.data.get("key") == Some(&value))
}

fn change(maps: &Api<ConfigMap>, value: &str) {
    let patch = Patch::Merge(json!({"data": {"key": value}}));
    maps.patch("a", &PatchParams::default(), &patch).unwrap();
}

fn watches(server: &ApiServer) -> usize {
    server.requests().iter().filter(|request| request.contains("watch=true")).count()
}

/// What a wait on another thread gives, while `meanwhile` runs.
fn waiting<T: Send>(
    wait: impl FnOnce(&Stop) -> Result<T, Error> + Send,
    meanwhile: impl FnOnce(&Stop),
) -> Result<T, Error> {
    let stop = Stop::new();
    std::thread::scope(|scope| {
        let _end = StopAtEnd(&stop);
        let waits = scope.spawn(|| wait(&stop));
        meanwhile(&stop);
        waits.join().unwrap()
    })
}

#[test]
fn what_is_so_already_is_found_in_the_list() {
    let server = ApiServer::start().unwrap();
    let maps = config_maps(&server);
    let object = create(&maps, "a");
    create(&maps, "b");
    let found = until(&maps, "a", has_value("value"), LONG, &Stop::new()).unwrap().unwrap();
    assert_eq!(*found, object);
    assert!(until(&maps, "c", wait::deleted(""), LONG, &Stop::new()).unwrap().is_none());
    let first = server.requests().into_iter().find(|request| request.starts_with("GET")).unwrap();
    assert!(first.contains("fieldSelector=metadata.name%3Da"), "{first}");
}

#[test]
fn an_object_that_comes_and_changes_is_followed() {
    let server = ApiServer::start().unwrap();
    let maps = config_maps(&server);
    let found = waiting(
        |stop| until(&maps, "a", has_value("2"), LONG, stop),
        |_| {
            eventually("it watches", || watches(&server) == 1);
            create(&maps, "a");
            change(&maps, "1");
            change(&maps, "2");
            change(&maps, "3");
        },
    );
    // No state is passed over, though there are later ones.
    assert_eq!(found.unwrap().unwrap().data.get("key"), Some("2"));
}

#[test]
fn a_deletion_is_noticed_though_the_name_is_taken_again() {
    let server = ApiServer::start().unwrap();
    let maps = config_maps(&server);
    let old = create(&maps, "a");
    let found = waiting(
        |stop| until(&maps, "a", wait::deleted(&old.metadata.uid), LONG, stop),
        |_| {
            eventually("it watches", || watches(&server) == 1);
            // It misses the deletion itself: the watch is silent, and the history is gone when it comes back.
            let silence = server.inject(Fault::new(Effect::Silence).watches());
            assert!(silence.wait_for_hit(LONG));
            maps.delete("a", &DeleteParams::default()).unwrap();
            create(&maps, "a");
            server.compact();
        },
    );
    let found = found.unwrap().unwrap();
    assert_eq!(found.metadata.uid, maps.get("a").unwrap().metadata.uid);
    assert_ne!(found.metadata.uid, old.metadata.uid);
}

#[test]
fn a_broken_watch_goes_on_where_it_stood() {
    let server = ApiServer::start().unwrap();
    let maps = config_maps(&server);
    create(&maps, "a");
    let cut = server.inject(Fault::new(Effect::CutAfter(1)).watches().times(1));
    let (told, tells) = unbounded();
    let condition = move |map: Option<&ConfigMap>| {
        told.send(map.unwrap().data.get("key").unwrap().to_owned()).unwrap();
        map.unwrap().data.get("key") == Some("3")
    };
    let found = waiting(
        |stop| until(&maps, "a", condition, LONG, stop),
        |_| {
            eventually("it watches", || watches(&server) == 1);
            change(&maps, "1");
            assert!(cut.wait_for_hit(LONG));
            change(&maps, "2");
            change(&maps, "3");
        },
    );
    assert!(found.unwrap().is_some());
    assert_eq!(tells.iter().collect::<Vec<_>>(), ["value", "1", "2", "3"]);
}

#[test]
fn time_that_is_over_says_what_was_last_seen() {
    let clock = Clock::manual();
    let server = ApiServer::builder().clock(clock.clone()).start().unwrap();
    let maps = config_maps(&server);
    let (told, tells) = unbounded();
    let condition = move |map: Option<&ConfigMap>| {
        told.send(map.is_some()).unwrap();
        false
    };
    let error = waiting(
        |stop| until(&maps, "a", condition, Duration::from_secs(60), stop),
        |_| {
            assert_eq!(tells.recv_timeout(LONG), Ok(false));
            eventually("it watches", || watches(&server) == 1);
            create(&maps, "a");
            assert_eq!(tells.recv_timeout(LONG), Ok(true));
            clock.advance(Duration::from_secs(60));
        },
    );
    let error = error.unwrap_err();
    let version = maps.get("a").unwrap().metadata.resource_version;
    assert!(error.is_timeout(), "{error}");
    assert_eq!(
        error.to_string(),
        format!(
            "wait until configmaps default/a is as wanted: it is not so within 60s: last seen was version {version}"
        )
    );
}

#[test]
fn time_that_is_over_says_that_nothing_was_there_or_why_nothing_was_seen() {
    for (fault, says) in [(None, "it is not there"), (Some(503), "nothing was seen of it; then ")] {
        let clock = Clock::manual();
        let server = ApiServer::builder().clock(clock.clone()).start().unwrap();
        let maps = config_maps(&server);
        let reply = fault.map(|code| {
            let reply = Reply::status(code, "ServiceUnavailable", "not now");
            server.inject(Fault::new(Effect::Reply(reply)).lists())
        });
        let error = waiting(
            |stop| until(&maps, "a", has_value("x"), Duration::from_secs(600), stop),
            |_| {
                // Its own timer, and then that of the server's watch or of the pause after a failure.
                clock.wait_for_timers(2);
                if reply.is_none() {
                    eventually("it watches", || watches(&server) == 1);
                }
                clock.advance(Duration::from_secs(600));
            },
        );
        let error = error.unwrap_err();
        assert!(error.is_timeout() && error.to_string().contains(says), "{error}");
    }
}

#[test]
fn a_stop_ends_it_also_that_of_the_client() {
    let server = ApiServer::start().unwrap();
    let clients = Stop::new();
    let maps = config_maps(&server).with_stop(&clients);
    let ended = waiting(
        |stop| until(&maps, "a", has_value("x"), LONG, stop),
        |stop| {
            eventually("it watches", || watches(&server) == 1);
            stop.stop();
        },
    );
    assert!(ended.unwrap_err().is_stopped());
    let ended = waiting(
        |stop| until(&maps, "a", has_value("x"), LONG, stop),
        |_| {
            eventually("it watches", || watches(&server) == 2);
            clients.stop();
        },
    );
    assert!(ended.unwrap_err().is_stopped());
}

#[test]
fn a_wait_that_cannot_begin_fails_at_once() {
    let server = ApiServer::builder().token("secret").start().unwrap();
    let unknown = ApiResource::new("example.com/v1", "Foo", "foos", Scope::Namespaced);
    let foos = Api::<Object>::namespaced_with(&server.client().unwrap(), "default", &unknown);
    let error = until(&foos, "a", wait::condition_is("Ready", "True"), LONG, &Stop::new()).unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert!(
        error.to_string().starts_with("wait until foos.example.com default/a has Ready=True: "),
        "{error}"
    );

    let maps = config_maps(&server);
    server.set_token("another");
    let error = until(&maps, "a", has_value("x"), LONG, &Stop::new()).unwrap_err();
    assert!(error.is_unauthorized(), "{error}");
    assert!(until(&maps, "", has_value("x"), LONG, &Stop::new()).unwrap_err().is_invalid_argument());
}

#[test]
fn a_condition_that_panics_leaves_no_thread_behind() {
    let server = ApiServer::start().unwrap();
    let maps = config_maps(&server);
    let condition = |_: Option<&ConfigMap>| -> bool { panic!("on purpose") };
    // It would hang if the thread that reads did not end.
    assert!(catch_unwind(AssertUnwindSafe(|| until(&maps, "a", condition, LONG, &Stop::new()))).is_err());
}

#[test]
fn a_pod_becomes_ready_and_a_job_that_fails_ends_the_wait() {
    let server = ApiServer::start().unwrap();
    let client = server.client().unwrap();
    let pods = Api::<Pod>::default_namespaced(&client);
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web-0"}})).unwrap();
    pods.create(&PostParams::default(), &pod).unwrap();
    let status = |conditions: Value| Patch::Merge(json!({"status": {"conditions": conditions}}));
    let ready = waiting(
        |stop| until(&pods, "web-0", wait::pod_ready(), LONG, stop),
        |_| {
            eventually("it watches", || watches(&server) == 1);
            for is in ["False", "True"] {
                let conditions = json!([{"type": "Ready", "status": is}]);
                pods.patch_status("web-0", &PatchParams::default(), &status(conditions)).unwrap();
            }
        },
    );
    assert!(ready.unwrap().unwrap().is_ready());

    let jobs = Api::<Job>::default_namespaced(&client);
    let job: Job = serde_json::from_value(json!({"metadata": {"name": "once"}})).unwrap();
    jobs.create(&PostParams::default(), &job).unwrap();
    let failed = json!([{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}]);
    jobs.patch_status("once", &PatchParams::default(), &status(failed)).unwrap();
    let error = until(&jobs, "once", wait::job_complete(), LONG, &Stop::new()).unwrap_err();
    assert!(error.is_unmet(), "{error}");
    assert_eq!(
        error.to_string(),
        "wait until jobs.batch default/once is complete: it has failed: BackoffLimitExceeded: too often"
    );
}

#[test]
fn ready_made_conditions_look_at_the_present_generation() {
    fn is<K: serde::de::DeserializeOwned>(mut condition: impl Condition<K>, object: Value) -> bool {
        assert!(!condition.check(None).unwrap());
        condition.check(Some(&serde_json::from_value(object).unwrap())).unwrap()
    }
    let object = |observed: i64, condition: Value| {
        json!({"apiVersion": "example.com/v1", "kind": "Foo",
        "metadata": {"name": "a", "generation": 2}, "status": {"observedGeneration": observed, "conditions": [condition]}})
    };
    let available = |status| json!({"type": "Available", "status": status});
    assert!(is::<Deployment>(wait::deployment_available(), object(2, available("True"))));
    assert!(!is::<Deployment>(wait::deployment_available(), object(1, available("True"))));
    assert!(!is::<Deployment>(wait::deployment_available(), object(2, available("False"))));

    assert!(is(wait::condition_is("available", "true"), object(2, available("True"))));
    assert!(!is(wait::condition_is("Available", "True"), object(1, available("True"))));
    assert!(is(wait::condition_is("Available", "Unknown"), object(2, available("Unknown"))));
    assert!(!is(wait::condition_is("Ready", "True"), object(2, available("True"))));
    // What the condition itself says comes before the status as a whole.
    let own = |generation| json!({"type": "Ready", "status": "True", "observedGeneration": generation});
    assert!(is(wait::condition_is("Ready", "True"), object(1, own(2))));
    assert!(!is(wait::condition_is("Ready", "True"), object(2, own(1))));

    let established = json!({"type": "Established", "status": "True"});
    assert!(is::<CustomResourceDefinition>(wait::crd_established(), object(0, established)));
    let complete = json!({"type": "Complete", "status": "True"});
    assert!(is::<Job>(wait::job_complete(), object(0, complete)));
    let unready = json!({"type": "Ready", "status": "False", "reason": "ContainersNotReady"});
    let pod: Pod = serde_json::from_value(object(0, unready)).unwrap();
    assert_eq!(wait::pod_ready().describe(&pod), "Ready=False (ContainersNotReady)");
}

#[test]
fn an_object_is_given_back_as_the_cache_would_hold_it() {
    let server = ApiServer::start().unwrap();
    let all = Api::<Object>::all_with(
        &server.client().unwrap(),
        &<ConfigMap as listwatch::StaticResource>::api_resource(),
    );
    create(&config_maps(&server), "a");
    let found: Option<Arc<Object>> =
        until(&all.within("default"), "a", |object: Option<&Object>| object.is_some(), LONG, &Stop::new())
            .unwrap();
    assert_eq!(found.unwrap().get_str("/data/key").as_deref(), Some("value"));
}
