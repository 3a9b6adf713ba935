//! Warnings that come with answers.

use std::sync::{Arc, Mutex};

use listwatch::types::ConfigMap;
use listwatch::{Api, Client, ListParams, PostParams, Stop, WatchParams};

use super::server::{Connection, Seen, Server};
use super::{client, config_map, config_maps};

/// A client that writes down what it is warned of.
fn listening(client: &Client) -> (Client, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hook = heard.clone();
    (client.with_warnings(move |text| hook.lock().unwrap().push(text.to_owned())), heard)
}

/// Answers everything with these headers.
fn server(headers: &'static str) -> Server {
    Server::start(move |connection| {
        connection.serve(|c: &mut Connection, seen: &Seen| {
            if seen.line.contains("watch=true") {
                c.send(format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: 0\r\n\r\n"));
            } else if seen.line.ends_with("/configmaps") && seen.line.starts_with("GET") {
                c.answer(
                    200,
                    headers,
                    r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[]}"#,
                );
            } else if seen.line.ends_with("/refused") {
                c.answer(403, headers, "");
            } else {
                c.answer(200, headers, config_map("a"));
            }
        });
    })
}

#[test]
fn each_warning_of_each_answer_is_told() {
    let server = server(
        "Warning: 299 - \"unknown field \\\"spec.a\\\"\"\r\nwarning: 299 - \"v1 Old is deprecated\", 299 kube:443 \"caf\u{e9}\" \"Sat, 25 Aug 2012 23:34:45 GMT\"\r\nWarning: 199 - \"not for us\"\r\n",
    );
    let (client, heard) = listening(&client(&server.url()));
    let api = config_maps(&client);
    type Call = fn(&Api<ConfigMap>);
    let calls: [Call; 5] = [
        |api| drop(api.get("a").unwrap()),
        |api| drop(api.create(&PostParams::default(), &ConfigMap::default()).unwrap()),
        |api| drop(api.list(&ListParams::default()).unwrap()),
        |api| drop(api.watch(&WatchParams::default(), &Stop::new()).unwrap()),
        |api| assert!(api.get("refused").unwrap_err().is_forbidden()),
    ];
    for call in calls {
        call(&api);
        let heard = std::mem::take(&mut *heard.lock().unwrap());
        assert_eq!(heard, ["unknown field \"spec.a\"", "v1 Old is deprecated", "caf\u{e9}"]);
    }
}

#[test]
fn junk_is_no_warning_and_no_harm() {
    let server = server(
        "Warning: \r\nWarning: 299\r\nWarning: 299 - \"open\r\nWarning: \u{fffd}\u{9b} - \"\"\r\nWarning: 299 - \"good\\\"\\\\\", junk\r\n",
    );
    let (client, heard) = listening(&client(&server.url()));
    config_maps(&client).get("a").unwrap();
    assert_eq!(*heard.lock().unwrap(), ["good\"\\"]);
}

#[test]
fn many_and_long_warnings_are_bounded() {
    let many = format!("Warning: {}\r\n", "299 - \"a\", ".repeat(2000));
    let long = format!("Warning: 299 - \"{}\"\r\n", "b".repeat(20_000));
    let server = server((long + &many).leak());
    let (client, heard) = listening(&client(&server.url()));
    config_maps(&client).get("a").unwrap();
    let heard = heard.lock().unwrap();
    assert_eq!(heard.len(), 64);
    assert!(heard.iter().all(|text| text.len() < 5000));
}

#[test]
fn a_hook_that_panics_harms_no_call() {
    let server = server("Warning: 299 - \"a\"\r\n");
    let client = client(&server.url()).with_warnings(|_| panic!("on purpose"));
    config_maps(&client).get("a").unwrap();
}
