//! A controller that can be operated: it serves its metrics, and the probes of its pod.
//!
//! ```text
//! cargo run --example metrics                  on an embedded API server: shows what it serves, and ends
//! cargo run --example metrics -- --cluster     on the cluster of the kubeconfig, on port 8080, until killed
//! ```
//!
//! The probes in a pod's manifest:
//!
//! ```yaml
//! livenessProbe: {httpGet: {path: /healthz, port: 8080}}
//! readinessProbe: {httpGet: {path: /readyz, port: 8080}}
//! ```

#![allow(clippy::expect_used, reason = "an example may end so")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use listwatch::metrics::Metrics;
use listwatch::types::ConfigMap;
use listwatch::{Action, Api, Controller, Error, ObjectMeta, PostParams, Request, Stop};

#[path = "support/probes.rs"]
mod probes;
mod support;

use probes::{Endpoints, Probes};

fn main() -> Result<(), Error> {
    let session = support::connect()?;
    let (stop, metrics) = (Stop::new(), Metrics::new());
    let client = session.client.with_metrics(metrics.clone());
    let controller = Arc::new(Controller::<ConfigMap>::all(&client).workers(2));
    let at = if session.server.is_some() { "127.0.0.1:0" } else { "0.0.0.0:8080" };
    let probes = Probes::serve(at, endpoints(&metrics, &controller), &stop).expect("the port is free");
    println!("serving on {}", probes.address());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| controller.run(&stop, reconcile).inspect_err(|_| stop.stop()));
        if session.server.is_some() {
            let told = tell(&session.client, probes.address());
            stop.stop();
            told?;
        }
        running.join().expect("the controller does not panic")
    })
}

fn reconcile(_: &Request<ConfigMap>) -> Result<Action, Error> {
    Ok(Action::await_change())
}

fn endpoints(metrics: &Metrics, controller: &Arc<Controller<ConfigMap>>) -> Endpoints {
    let (metrics, live, ready) = (metrics.clone(), controller.clone(), controller.clone());
    Endpoints {
        metrics: Box::new(move || metrics.to_prometheus_text()),
        healthz: Box::new(move || {
            let health = live.health();
            (health.is_live(), health.to_string())
        }),
        readyz: Box::new(move || {
            let health = ready.health();
            (health.is_ready(), health.to_string())
        }),
    }
}

/// Makes an object, and shows what is served once it was worked on.
fn tell(client: &listwatch::Client, address: SocketAddr) -> Result<(), Error> {
    let map = ConfigMap { metadata: ObjectMeta::named("one"), ..ConfigMap::default() };
    Api::<ConfigMap>::namespaced(client, "default").create(&PostParams::default(), &map)?;
    let done = "controller_runtime_reconcile_total{controller=\"configmaps\",result=\"success\"} ";
    let worked_on = || {
        let served = get(address, "/metrics");
        let count = served.lines().find_map(|line| line.strip_prefix(done)).map(str::to_owned);
        count.is_some_and(|count| count != "0")
    };
    while !worked_on() {
        Stop::new().sleep(Duration::from_millis(20));
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        println!("GET {path}\n{}", get(address, path).split_once("\r\n\r\n").map_or("", |(_, body)| body));
    }
    Ok(())
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut answer = String::new();
    let mut stream = TcpStream::connect(address).expect("it serves");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("it reads");
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}
