//! An elector on a real kube-apiserver: what that does with Leases that the embedded server may not.

use std::time::Duration;

use listwatch::leader::Ended;
use listwatch::types::Lease;
use listwatch::{Api, DeleteParams, LeaderElector, LeaseLock, Object, PostParams, StaticResource, Stop};
use serde_json::json;

use crate::{eventually, server};

fn elector(server: &server::Server, namespace: &str) -> LeaderElector {
    LeaderElector::new(&server.client(), LeaseLock::new(namespace, "it", "a"))
        .lease_duration(Duration::from_secs(60))
        .renew_deadline(Duration::from_secs(50))
        .retry_period(Duration::from_millis(100))
}

#[test]
fn an_elector_takes_renews_and_gives_up_a_lease_and_writes_a_deleted_one_anew() {
    let Some((server, _quiet)) = server::shared() else { return };
    let namespace = server.namespace("leader");
    let objects = Api::<Object>::namespaced_with(&server.client(), &namespace, &Lease::api_resource());
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "it", "labels": {"team": "a"}}, "spec": {"leaseTransitions": 3}});
    objects.create(&PostParams::default(), &Object::from_value(lease).unwrap()).unwrap();
    let elector = elector(server, &namespace);
    let renewed = |more: u64| {
        let so_far = elector.status().renewals;
        eventually("the Lease is renewed", || elector.status().renewals >= so_far + more);
    };
    let ended = elector.run(&Stop::new(), |term| {
        renewed(2);
        let held = objects.get("it").unwrap();
        assert_eq!(held.get_str("/metadata/labels/team").as_deref(), Some("a"));
        assert_eq!(held.get_str("/spec/holderIdentity").as_deref(), Some("a"));
        assert_eq!(
            (held.get("/spec/leaseTransitions"), held.get("/spec/leaseDurationSeconds")),
            (Some(4), Some(60))
        );
        objects.delete("it", &DeleteParams::default()).unwrap();
        renewed(2);
        assert_eq!(objects.get("it").unwrap().get_str("/spec/holderIdentity").as_deref(), Some("a"));
        assert!(!term.is_stopped());
    });
    assert_eq!(ended.unwrap(), Ended::Returned(()));
    let left = objects.get("it").unwrap();
    assert_eq!(left.get_str("/spec/holderIdentity").as_deref(), Some(""));
    assert_eq!(
        (left.get("/spec/leaseTransitions"), left.get("/spec/leaseDurationSeconds")),
        (Some(4), Some(1))
    );
    assert_eq!(elector.run(&Stop::new(), |_| 7).unwrap(), Ended::Returned(7));
}

#[test]
fn a_namespace_that_is_missing_is_told() {
    let Some((server, _quiet)) = server::shared() else { return };
    let (elector, stop) = (elector(server, "nowhere"), Stop::new());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| elector.run(&stop, |_| ()));
        eventually("the error is told", || elector.status().last_error.is_some());
        stop.stop();
        assert_eq!(running.join().unwrap().unwrap(), Ended::Stopped(None));
    });
    let why = elector.status().last_error.unwrap().1;
    assert!(
        why.contains("create leases.coordination.k8s.io nowhere/it")
            && why.contains("namespaces \"nowhere\" not found"),
        "{why}"
    );
}
