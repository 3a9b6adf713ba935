//! Evictions and scales.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use listwatch::types::{ConfigMap, Deployment, Pod, Scale};
use listwatch::{Api, Client, Clock, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::server::{Connection, Seen, Server};
use super::{client, config};

const DONE: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}"#;

#[test]
fn an_eviction_says_how_the_pod_is_to_be_deleted() {
    let server = Server::start(|c| c.serve(|c: &mut Connection, _: &Seen| c.json(201, DONE)));
    let client = client(&server.url());
    let api = Api::<Pod>::namespaced(&client, "ns");
    api.evict("web-0", &DeleteParams::default().grace_period(Duration::from_secs(5)).uid("u").dry_run())
        .unwrap();
    let seen = server.next();
    assert_eq!(seen.line, "POST /api/v1/namespaces/ns/pods/web-0/eviction");
    assert_eq!(
        seen.body,
        r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"web-0","namespace":"ns"},"deleteOptions":{"apiVersion":"v1","kind":"DeleteOptions","dryRun":["All"],"gracePeriodSeconds":5,"preconditions":{"uid":"u"}}}"#
    );
    let error = Api::<ConfigMap>::namespaced(&client, "ns").evict("a", &DeleteParams::default()).unwrap_err();
    assert!(error.to_string().ends_with("configmaps have no evictions: only pods do"), "{error}");
    assert!(Api::<Pod>::all(&client).evict("a", &DeleteParams::default()).unwrap_err().is_invalid_argument());
    assert!(server.seen.is_empty());
}

/// The refusal of a budget that its controller has not seen yet, as kube-apiserver 1.37 sends it.
const BUDGET: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Cannot evict pod as it would violate the pod's disruption budget.","reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget","message":"The disruption budget web is still being processed by the server."}],"retryAfterSeconds":10},"code":429}"#;

#[test]
fn the_refusal_of_a_budget_comes_at_once() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |c| {
        c.serve(|c: &mut Connection, _: &Seen| match count.fetch_add(1, Ordering::SeqCst) {
            0 => c.answer(429, "Retry-After: 10\r\n", BUDGET),
            _ => c.answer(500, "", "asked again"),
        });
    });
    let client = client(&server.url());
    let error = Api::<Pod>::namespaced(&client, "ns").evict("web-0", &DeleteParams::default()).unwrap_err();
    assert!(error.is_too_many_requests(), "{error}");
    let status = error.status().unwrap();
    assert_eq!(status.retry_after(), Some(Duration::from_secs(10)));
    assert!(status.details.causes[0].message.starts_with("The disruption budget web "));
    assert!(error.to_string().starts_with("evict pods ns/web-0: Cannot evict pod"), "{error}");
    assert_eq!(server.seen.try_iter().count(), 1);
}

#[test]
fn an_eviction_that_a_busy_server_refuses_is_sent_again() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |c| {
        c.serve(|c: &mut Connection, _: &Seen| match count.fetch_add(1, Ordering::SeqCst) {
            0 => c.answer(429, "Retry-After: 1\r\n", "busy"),
            _ => c.json(201, DONE),
        });
    });
    let clock = Clock::manual();
    let client = Client::new(config(&server.url()).with_clock(clock.clone())).unwrap();
    std::thread::scope(|scope| {
        let evicting =
            scope.spawn(|| Api::<Pod>::namespaced(&client, "ns").evict("web-0", &DeleteParams::default()));
        clock.wait_for_timers(1);
        clock.advance(Duration::from_secs(2));
        evicting.join().unwrap().unwrap();
    });
}

const SCALE: &str = r#"{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"web","namespace":"ns","resourceVersion":"7"},"spec":{"replicas":3},"status":{"replicas":2,"selector":"app=web"}}"#;

#[test]
fn a_scale_is_read_and_written_with_its_type_even_to_zero() {
    let server = Server::start(|c| c.serve(|c: &mut Connection, _: &Seen| c.json(200, SCALE)));
    let api = Api::<Deployment>::namespaced(&client(&server.url()), "ns");
    let mut scale = api.get_scale("web").unwrap();
    assert_eq!((scale.spec.replicas, scale.status.replicas, &*scale.status.selector), (3, 2, "app=web"));
    scale.spec.replicas = 0;
    api.replace_scale("web", &PostParams::default().field_manager("me"), &scale).unwrap();
    let zero = Scale { spec: scale.spec.clone(), ..Scale::default() };
    api.patch_scale("web", &PatchParams::apply("me"), &Patch::Apply(&zero)).unwrap();
    api.patch_scale("web", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 5}}))).unwrap();
    for (line, body) in [
        ("GET /apis/apps/v1/namespaces/ns/deployments/web/scale", ""),
        (
            "PUT /apis/apps/v1/namespaces/ns/deployments/web/scale?fieldManager=me",
            r#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web","namespace":"ns","resourceVersion":"7"},"spec":{"replicas":0},"status":{"replicas":2,"selector":"app=web"}}"#,
        ),
        (
            "PATCH /apis/apps/v1/namespaces/ns/deployments/web/scale?fieldManager=me",
            r#"{"apiVersion":"autoscaling/v1","kind":"Scale","spec":{"replicas":0}}"#,
        ),
        ("PATCH /apis/apps/v1/namespaces/ns/deployments/web/scale", r#"{"spec":{"replicas":5}}"#),
    ] {
        let seen = server.next();
        assert_eq!((&*seen.line, &*seen.body), (line, body));
    }
}
