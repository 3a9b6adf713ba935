use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded, unbounded};
use listwatch::types::{ConfigMap, Deployment, Secret};
use listwatch::{
    Action, Clock, Controller, Error, ObjectKey, ObjectMeta, Request, Resource, Result, Stop, resource,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::script::{next, text, timers, until};
use crate::server::{ApiServer, CONFIG_MAPS, DEPLOYMENTS, serve};

const FOOS: &str = "/apis/samplecontroller.k8s.io/v1alpha1/foos";

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Foo {
    metadata: ObjectMeta,
}
resource!(Foo: "samplecontroller.k8s.io/v1alpha1", "Foo", "foos", namespaced);

/// A controller that runs on a thread of its own.
struct Running {
    stop: Stop,
    done: Receiver<Result<()>>,
}

fn start<E: std::fmt::Display + 'static>(
    controller: &Arc<Controller<Foo>>,
    reconcile: impl Fn(&Request<Foo>) -> Result<Action, E> + Send + Sync + 'static,
) -> Running {
    let (stop, (sender, done)) = (Stop::new(), bounded(1));
    let (token, controller) = (stop.clone(), controller.clone());
    let run = move || drop(sender.send(controller.run(&token, reconcile)));
    std::thread::Builder::new().name("test-controller".into()).spawn(run).unwrap();
    Running { stop, done }
}

impl Running {
    #[track_caller]
    fn end(self) {
        self.stop.stop();
        next(&self.done).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

fn owner(api_version: &str, kind: &str, name: &str, controller: Option<bool>) -> Option<Value> {
    Some(json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": "u", "controller": controller}))
}

fn controller(server: &ApiServer) -> Controller<Foo> {
    Controller::all(&server.client())
}

/// Starts it with a function that tells which object it was called with.
fn telling(controller: Controller<Foo>) -> (Running, Receiver<String>) {
    let (calls, told) = unbounded();
    let running = start(&Arc::new(controller), move |request: &Request<Foo>| {
        calls.send(text(&**request.object())).unwrap();
        Ok::<_, Error>(Action::await_change())
    });
    (running, told)
}

#[test]
fn each_object_is_worked_on_at_first_and_when_it_changes() {
    let server = serve();
    server.put(FOOS, "a/one", None);
    server.put(FOOS, "b/two", None);
    let (running, told) = telling(controller(&server).workers(2));
    let mut first = [next(&told), next(&told)];
    first.sort();
    assert_eq!(first, ["a/one@1", "b/two@2"]);
    server.put(FOOS, "a/one", None);
    assert_eq!(next(&told), "a/one@3");
    // One that is gone is not given; what comes after it shows that.
    server.delete(FOOS, "b/two");
    server.put(FOOS, "c/three", None);
    assert_eq!(next(&told), "c/three@5");
    running.end();
    assert!(told.is_empty());
}

#[test]
fn a_change_of_what_an_object_owns_works_on_the_owner() {
    let server = serve();
    server.put(FOOS, "a/one", None);
    let (running, told) = telling(controller(&server).owns::<Deployment>());
    assert_eq!(next(&told), "a/one@1");
    let group = "samplecontroller.k8s.io";
    // Another version of the group is the same kind.
    server.put(DEPLOYMENTS, "a/d", owner(&format!("{group}/v2"), "Foo", "one", Some(true)));
    assert_eq!(next(&told), "a/one@1");
    server.delete(DEPLOYMENTS, "a/d");
    assert_eq!(next(&told), "a/one@1");
    for (name, reference) in [
        ("no-owner", None),
        ("no-controller", owner(&format!("{group}/v1alpha1"), "Foo", "one", None)),
        ("other-group", owner("other.io/v1alpha1", "Foo", "one", Some(true))),
        ("core", owner("v1", "Foo", "one", Some(true))),
        ("other-kind", owner(&format!("{group}/v1alpha1"), "Bar", "one", Some(true))),
        ("unknown", owner(&format!("{group}/v1alpha1"), "Foo", "nobody", Some(true))),
    ] {
        server.put(DEPLOYMENTS, &format!("a/{name}"), reference);
    }
    // In another namespace it is another owner.
    server.put(DEPLOYMENTS, "b/d", owner(&format!("{group}/v1alpha1"), "Foo", "one", Some(true)));
    server.put(DEPLOYMENTS, "a/end", owner(&format!("{group}/v1alpha1"), "Foo", "one", Some(true)));
    assert_eq!(next(&told), "a/one@1");
    server.put(FOOS, "a/last", None);
    assert_eq!(next(&told), "a/last@12");
    running.end();
    assert!(told.is_empty());
}

#[test]
fn a_change_of_what_is_watched_works_on_the_objects_it_names() {
    let server = serve();
    server.put(FOOS, "a/one", None);
    let watching = controller(&server).watches(|map: &ConfigMap| {
        vec![ObjectKey::namespaced("a", map.name()), ObjectKey::namespaced("a", "nobody")]
    });
    let (running, told) = telling(watching);
    assert_eq!(next(&told), "a/one@1");
    server.put(CONFIG_MAPS, "b/one", None);
    assert_eq!(next(&told), "a/one@1");
    server.delete(CONFIG_MAPS, "b/one");
    assert_eq!(next(&told), "a/one@1");
    running.end();
    assert!(told.is_empty());
}

#[test]
fn a_failure_is_tried_again_and_an_object_may_ask_to_be_given_again() {
    let server = serve();
    server.put(FOOS, "a/one", None);
    let (calls, told) = unbounded();
    let count = AtomicUsize::new(0);
    let running = start(&Arc::new(controller(&server)), move |_: &Request<Foo>| {
        let call = count.fetch_add(1, Ordering::SeqCst);
        calls.send(call).unwrap();
        match call {
            0 => Err("not yet"),
            1 => panic!("in reconcile"),
            2 => Ok(Action::requeue(Duration::from_millis(1))),
            _ => Ok(Action::await_change()),
        }
    });
    (0..4).for_each(|call| assert_eq!(next(&told), call));
    running.end();
    assert!(told.is_empty());
}

#[test]
fn a_request_reads_the_caches_of_its_controller_only() {
    let server = serve();
    server.put(FOOS, "a/one", None);
    server.put(DEPLOYMENTS, "a/d", owner("samplecontroller.k8s.io/v1alpha1", "Foo", "one", Some(true)));
    let (calls, told) = unbounded();
    let watching = controller(&server).owns::<Deployment>().watches(|_: &ConfigMap| Vec::new());
    let running = start(&Arc::new(watching), move |request: &Request<Foo>| {
        let deployment = request.lister::<Deployment>()?.get("a", "d");
        let maps = request.lister::<ConfigMap>()?.store().len();
        let own = request.lister::<Foo>()?.get("a", "one").is_some();
        let none = request.lister::<Secret>().map(drop).unwrap_err().to_string();
        let reference = request.owner_reference();
        calls.send((deployment.is_some(), maps, own, none, request.name().to_owned(), reference)).unwrap();
        Ok::<_, Error>(Action::await_change())
    });
    let (deployment, maps, own, none, name, reference) = next(&told);
    assert_eq!((deployment, maps, own, name.as_str()), (true, 0, true, "one"));
    assert!(none.contains("no cache of secrets"), "{none}");
    assert_eq!(
        (reference.api_version.as_str(), reference.uid.as_str()),
        ("samplecontroller.k8s.io/v1alpha1", "uid-one")
    );
    running.end();
}

#[test]
fn a_namespaced_controller_watches_there_only() {
    let server = serve();
    server.put(FOOS, "a/one", None);
    server.put(FOOS, "b/two", None);
    let (running, told) = telling(Controller::namespaced(&server.client(), "b").owns::<Deployment>());
    assert_eq!(next(&told), "b/two@2");
    running.end();
    let requests = server.seen();
    assert!(requests.len() >= 2 && requests.iter().all(|r| r.contains("/namespaces/b/")), "{requests:?}");
}

#[test]
fn first_lists_that_do_not_come_are_an_error_that_says_why() {
    let server = serve();
    server.refuse(DEPLOYMENTS, 403);
    let clock = Clock::manual();
    let all = Controller::<Foo>::all(&server.client_with(clock.clone())).owns::<Deployment>();
    let running = start(&Arc::new(all.sync_timeout(Duration::from_secs(10))), |_: &Request<Foo>| {
        Ok::<_, Error>(Action::await_change())
    });
    timers(&clock, 2); // for the next try, and for the end of patience
    until(|| {
        clock.advance(Duration::from_secs(10));
        !running.done.is_empty()
    });
    let error = next(&running.done).unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert!(
        error.to_string().contains("deployments.apps") && error.to_string().contains("is refused"),
        "{error}"
    );
}

#[test]
fn a_stop_before_the_first_lists_is_no_error() {
    let server = serve();
    server.refuse(FOOS, 404);
    server.refuse(DEPLOYMENTS, 404);
    let (running, told) = telling(controller(&server).owns::<Deployment>());
    let _ = next(&server.requests);
    running.end();
    assert!(told.recv_timeout(Duration::ZERO).is_err());
}

#[test]
fn it_can_run_again_and_leaves_no_thread() {
    let server = serve();
    server.put(FOOS, "a/one", None);
    let controller = Arc::new(controller(&server).owns::<Deployment>().workers(3));
    for _ in 0..3 {
        let (calls, told) = unbounded();
        let kept = Arc::new(());
        let (given, in_call) = (kept.clone(), Arc::new(Mutex::new(())));
        let running = start(&controller, move |request: &Request<Foo>| {
            let _ = (&given, in_call.lock());
            calls.send(text(&**request.object())).unwrap();
            Ok::<_, Error>(Action::await_change())
        });
        assert_eq!(next(&told), "a/one@1");
        running.end();
        // The function is gone, so nobody can call it any more.
        assert!(told.recv_timeout(crate::script::PATIENCE).unwrap_err().is_disconnected());
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}

#[test]
fn it_returns_when_the_call_that_runs_has_returned() {
    let server = serve();
    server.put(FOOS, "a/one", None);
    let ((started, starts), (go, gate)) = (bounded(1), bounded::<()>(0));
    let (begin, finished) = (started, Arc::new(AtomicUsize::new(0)));
    let finish = finished.clone();
    let running = start(&Arc::new(controller(&server)), move |_: &Request<Foo>| {
        begin.send(()).unwrap();
        let _ = gate.recv();
        finish.store(1, Ordering::SeqCst);
        Ok::<_, Error>(Action::await_change())
    });
    next(&starts);
    running.stop.stop();
    assert!(running.done.is_empty());
    drop(go);
    next(&running.done).unwrap();
    assert_eq!(finished.load(Ordering::SeqCst), 1);
}
