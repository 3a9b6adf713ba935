//! Which call uses which connection.

use std::thread;
use std::time::Duration;

use crossbeam_channel::bounded;
use listwatch::{Api, ListParams, Object, Patch, PatchParams, PostParams, Stop, WatchEvent, WatchParams};
use serde_json::json;

use super::server::{Connection, Server, hang_up};
use super::{SOON, client, config, config_map, config_maps, event};

/// A server whose first connection is special, the others answer.
fn first_of_its_kind(script: impl Fn(Connection) + Send + Sync + 'static) -> Server {
    Server::start(move |connection| match connection.index {
        0 => script(connection),
        _ => connection.serve(|connection, _| connection.json(200, config_map("a"))),
    })
}

#[test]
fn calls_one_after_the_other_share_a_connection() {
    let server = Server::start(|c| c.serve(|c, _| c.json(200, config_map("a"))));
    let api = config_maps(&client(&server.url()));
    for _ in 0..20 {
        api.get("a").unwrap();
        api.clone().patch("a", &PatchParams::default(), &Patch::Merge(json!({}))).unwrap();
    }
    assert_eq!(server.accepted(), 1);
}

#[test]
fn refusals_keep_their_connection() {
    let server = Server::start(|c| {
        c.serve(|c, _| {
            c.json(429, r#"{"kind":"Status","status":"Failure","reason":"TooManyRequests","code":429}"#)
        });
    });
    let api = config_maps(&client(&server.url()));
    for _ in 0..50 {
        assert!(api.get("a").unwrap_err().is_too_many_requests());
        assert!(api.list(&ListParams::default()).unwrap_err().is_too_many_requests());
    }
    assert_eq!(server.accepted(), 1);
}

#[test]
fn a_refusal_in_chunks_keeps_its_connection() {
    let server = Server::start(|c| {
        c.serve(|c, _| {
            c.send("HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n");
            c.chunk("busy");
            c.last_chunk();
        });
    });
    let api = config_maps(&client(&server.url()));
    for _ in 0..20 {
        assert_eq!(api.get("a").unwrap_err().code(), Some(503));
    }
    assert_eq!(server.accepted(), 1);
}

#[test]
fn calls_at_the_same_time_have_connections_of_their_own_and_leave_them_to_the_next() {
    let (here, arrived) = bounded(0);
    let (go, going) = bounded::<()>(0);
    let server = Server::start(move |c| {
        c.serve(|c, _| {
            here.send(()).unwrap();
            let _ = going.recv();
            c.json(200, config_map("a"));
        });
    });
    let api = config_maps(&client(&server.url()));
    for _ in 0..3 {
        thread::scope(|scope| {
            for _ in 0..8 {
                let spawned = thread::Builder::new().spawn_scoped(scope, || api.get("a").unwrap());
                spawned.unwrap();
            }
            (0..8).for_each(|_| arrived.recv_timeout(SOON).unwrap());
            (0..8).for_each(|_| go.send(()).unwrap());
        });
    }
    assert_eq!(server.accepted(), 8);
}

#[test]
fn a_connection_that_the_server_closed_while_it_was_idle_costs_no_call() {
    let (closed, when) = bounded(1);
    let server = first_of_its_kind(move |mut c| {
        c.request();
        c.json(200, config_map("a"));
        hang_up(c);
        closed.send(()).unwrap();
    });
    let api = config_maps(&client(&server.url()));
    api.get("a").unwrap();
    when.recv_timeout(SOON).unwrap();
    api.create(&PostParams::default(), &api.get("a").unwrap()).unwrap();
    assert_eq!(server.accepted(), 2);
}

#[test]
fn a_get_whose_connection_breaks_before_an_answer_is_sent_again() {
    let server = first_of_its_kind(|mut c| {
        c.request();
        c.json(200, config_map("a"));
        c.request();
        c.reset();
    });
    let api = config_maps(&client(&server.url()));
    api.get("a").unwrap();
    api.get("a").unwrap();
    assert_eq!(server.seen.try_iter().map(|seen| seen.connection).collect::<Vec<_>>(), [0, 0, 1]);
}

#[test]
fn a_get_is_sent_again_once_only() {
    let server = Server::start(|mut c| {
        c.request();
        c.reset();
    });
    assert!(config_maps(&client(&server.url())).get("a").unwrap_err().is_io());
    assert_eq!(server.accepted(), 2);
}

#[test]
fn a_change_whose_connection_breaks_is_never_sent_again() {
    type Call = fn(&Api<Object>) -> listwatch::Result<()>;
    let calls: [Call; 3] = [
        |api| api.create(&PostParams::default(), &object()).map(drop),
        |api| api.patch("a", &PatchParams::default(), &Patch::Merge(json!({}))).map(drop),
        |api| api.delete("a", &listwatch::DeleteParams::default()).map(drop),
    ];
    for call in calls {
        let server = first_of_its_kind(|mut c| {
            c.request();
            c.json(200, config_map("a"));
            c.request();
            c.reset();
        });
        let client = client(&server.url());
        let api = Api::<Object>::namespaced_with(&client, "ns", config_maps(&client).resource());
        api.get("a").unwrap();
        assert!(call(&api).unwrap_err().is_io());
        assert_eq!(server.seen.try_iter().count(), 2);
        // The broken connection is not used again.
        api.get("a").unwrap();
        assert_eq!(server.next().connection, 1);
    }
}

fn object() -> Object {
    serde_json::from_str(&config_map("a")).unwrap()
}

#[test]
fn a_connection_whose_call_timed_out_is_not_used_again() {
    let (go, going) = bounded::<()>(0);
    let server = first_of_its_kind(move |mut c| {
        c.request();
        let _ = going.recv();
        c.json(200, config_map("late"));
        c.closed();
    });
    let client = client(&server.url());
    let hasty = config_maps(&client.with_timeout(Duration::from_millis(100)));
    assert!(hasty.get("late").unwrap_err().is_timeout());
    go.send(()).unwrap();
    assert_eq!(config_maps(&client).get("a").unwrap().metadata.name, "a");
    assert_eq!(server.accepted(), 2);
}

#[test]
fn an_answer_that_nobody_asked_for_is_not_taken_for_the_next() {
    let (sent, when) = bounded(1);
    let server = first_of_its_kind(move |mut c| {
        c.request();
        c.json(200, config_map("a"));
        c.json(200, config_map("evil"));
        sent.send(()).unwrap();
        c.closed();
    });
    let api = config_maps(&client(&server.url()));
    api.get("a").unwrap();
    when.recv_timeout(SOON).unwrap();
    assert_eq!(api.get("a").unwrap().metadata.name, "a");
}

#[test]
fn a_watch_has_its_own_connection_and_closes_it_when_dropped() {
    let (closed, when) = bounded(1);
    let server = Server::start(move |c| {
        let mut c = c;
        while let Some(seen) = c.request() {
            if seen.line.contains("watch=true") {
                c.stream();
                c.chunk(event("ADDED", &config_map("a")));
                c.closed();
                closed.send(seen.connection).unwrap();
                return;
            }
            c.json(200, config_map("a"));
        }
    });
    let api = config_maps(&client(&server.url()));
    api.get("a").unwrap();
    let stop = Stop::new();
    let mut watch = api.watch(&WatchParams::default(), &stop).unwrap();
    assert!(matches!(watch.next(), Some(Ok(WatchEvent::Added(_)))));
    api.get("a").unwrap();
    let on: Vec<_> = server.seen.try_iter().map(|seen| seen.connection).collect();
    assert_eq!(on, [0, 1, 0]);
    assert!(when.is_empty());
    drop(watch);
    assert_eq!(when.recv_timeout(SOON), Ok(1));
    assert!(!stop.is_stopped());
}

/// Even one that ended well: the server may be about to go.
#[test]
fn a_watch_that_ended_leaves_no_connection_to_the_next() {
    let server = Server::start(|c| {
        c.serve(|c, _| {
            c.stream();
            c.last_chunk();
        });
    });
    let api = config_maps(&client(&server.url()));
    for _ in 0..3 {
        assert_eq!(api.watch(&WatchParams::default(), &Stop::new()).unwrap().count(), 0);
    }
    assert_eq!(server.accepted(), 3);
}

/// A list that has come whole, but is still being taken in, has given back its connection.
#[test]
fn a_stop_of_one_call_does_not_break_another_on_its_former_connection() {
    let (here, arrived) = bounded(0);
    let (go, going) = bounded::<()>(0);
    let server = Server::start(move |c| {
        c.serve(|c, seen| {
            if seen.line.contains("limit") {
                let item = config_map("a");
                c.json(
                    200,
                    format!(
                        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{}},"items":[{item}]}}"#
                    ),
                );
            } else {
                here.send(seen.connection).unwrap();
                let _ = going.recv();
                c.json(200, config_map("a"));
            }
        });
    });
    let api = config_maps(&client(&server.url()));
    let stop = Stop::new();
    let mut created = None;
    let listed = api.list_each(&ListParams::default().limit(1), &stop, |item| {
        // Not to be sent twice, so that a broken connection shows.
        thread::scope(|scope| {
            let create = || api.create(&PostParams::default(), &item.unwrap());
            let creating = thread::Builder::new().spawn_scoped(scope, create).unwrap();
            assert_eq!(arrived.recv_timeout(SOON), Ok(0), "the connection of the list");
            stop.stop();
            go.send(()).unwrap();
            created = Some(creating.join().unwrap());
        });
        Ok(())
    });
    created.unwrap().unwrap();
    listed.unwrap();
}

#[test]
fn nothing_is_sent_before_the_first_call() {
    let server = Server::start(|c| c.serve(|_, _| {}));
    drop(listwatch::Client::new(config(&server.url())).unwrap());
    assert_eq!(server.accepted(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_client_has_no_threads_but_while_it_looks_up_a_name_or_asks_for_a_stream() {
    let server = Server::start(|c| c.serve(|c, _| c.json(200, config_map("a"))));
    let api = config_maps(&client(&server.url().replace("127.0.0.1", "localhost")));
    api.get("a").unwrap();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    let ours: Vec<_> = names.filter(|name| name.starts_with("lw-")).collect();
    // Other tests of this process ask for streams.
    assert!(ours.iter().all(|name| matches!(&**name, "lw-dns\n" | "lw-send\n")), "{ours:?}");
}

/// The server has fair queues; a limit that nobody asked for makes a start last minutes.
#[test]
fn no_call_is_held_back() {
    let server = Server::start(|c| c.serve(|c, _| c.json(200, config_map("a"))));
    // Whoever waited for time to pass would wait for ever.
    let config = config(&server.url()).with_clock(listwatch::Clock::manual());
    let api = config_maps(&listwatch::Client::new(config).unwrap());
    for _ in 0..500 {
        api.get("a").unwrap();
    }
}
