//! What a real API server is needed for.
//!
//! ```text
//! fill N      puts N pods like those of the load server into ns-0 .. ns-19
//! download N  reads what a sync of N pods reads, the same pages by the same client, and throws it away
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use listwatch::Client;
use listwatch::client::{Method, RawRequest};
use serde_json::{Value, json};

use crate::pods;
use crate::proc::{cpu, memory};

pub(crate) fn download(client: &Client, n: usize) {
    let (start, mut token, mut bytes, mut pages) = (Instant::now(), String::new(), 0, 0);
    loop {
        let page = RawRequest::new(Method::Get, format!("/api/v1/pods?limit=500{token}"));
        let text = client.request_text(&page).unwrap();
        (bytes, pages) = (bytes + text.len(), pages + 1);
        // The list's metadata comes before its items.
        let head = &text[..text.find("\"items\"").unwrap()];
        match head.split_once("\"continue\":\"").and_then(|(_, rest)| rest.split_once('"')) {
            Some((next, _)) if !next.is_empty() => token = format!("&continue={next}"),
            _ => break,
        }
    }
    assert_eq!(pages, n.div_ceil(500), "the server has another number of pods");
    let (wall, mb) = (start.elapsed().as_secs_f64(), bytes as f64 / 1e6);
    println!("downloaded pages={pages} mb={mb:.1} wall={wall:.3} cpu={:.3} {}", cpu(), memory());
}

pub(crate) fn fill(client: &Client, n: usize) {
    let post = |path: String, body: &Value| {
        let request = RawRequest::new(Method::Post, path).json(body).unwrap();
        match client.request_text(&request) {
            Err(e) if !e.is_already_exists() => panic!("{e}"),
            _ => {}
        }
    };
    for ns in 0..20 {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("ns-{ns}")}});
        post("/api/v1/namespaces".into(), &body);
    }
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= n {
                        break;
                    }
                    let mut pod = pod(i);
                    let status = pod["status"].take();
                    let path = format!("/api/v1/namespaces/ns-{}/pods", i % 20);
                    post(format!("{path}?fieldManager=kube-controller-manager"), &pod);
                    let name = pod["metadata"]["name"].as_str().unwrap();
                    let patch = serde_json::to_vec(&json!({ "status": status })).unwrap();
                    let path = format!("{path}/{name}/status?fieldManager=kubelet");
                    let request = RawRequest::new(Method::Patch, path);
                    client.request_text(&request.body("application/merge-patch+json", patch)).unwrap();
                }
            });
        }
    });
    println!("filled n={n}");
}

/// A pod of the load server, without what an API server writes itself.
fn pod(i: usize) -> Value {
    let mut pod: Value = serde_json::from_str(&pods::text(i, 0)).unwrap();
    let meta = pod["metadata"].as_object_mut().unwrap();
    for written_by_server in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"] {
        meta.remove(written_by_server);
    }
    pod
}
