use std::sync::{Arc, mpsc};
use std::time::Duration;

use listwatch::cache::Handlers;
use listwatch::types::ConfigMap;
use listwatch::{
    Api, DeleteParams, Informer, ListMode, ListParams, Patch, PatchParams, Selector, Stop, WatchParams,
};
use serde_json::json;

use crate::{LONG, create, create_many, eventually, server};

/// More than fit into one page of a list.
const CROWD: usize = 1200;

fn is_of_crowd(map: &ConfigMap) -> bool {
    map.metadata.name.starts_with("crowd-")
}

fn crowd(informer: &Informer<ConfigMap>) -> Vec<Arc<ConfigMap>> {
    let mut maps = informer.lister().list(&Selector::everything());
    maps.retain(|map| is_of_crowd(map));
    maps
}

fn held(informer: &Informer<ConfigMap>) -> Vec<String> {
    let maps = informer.lister().list(&Selector::everything());
    maps.iter()
        .filter(|map| !is_of_crowd(map))
        .map(|map| format!("{}={}", map.metadata.name, map.data.get("key").unwrap_or_default()))
        .collect()
}

fn set(api: &Api<ConfigMap>, name: &str, value: &str) {
    api.patch(name, &PatchParams::default(), &Patch::Merge(json!({"data": {"key": value}}))).unwrap();
}

fn follow(api: &Api<ConfigMap>, mode: ListMode, stop: &Stop) -> Informer<ConfigMap> {
    let informer = Informer::builder(api.clone()).mode(mode).build().unwrap();
    informer.start(stop).unwrap();
    informer.wait_for_sync(LONG).unwrap();
    informer
}

#[test]
fn an_informer_outlives_its_server_and_finds_what_changed_meanwhile() {
    let Some(server) = server::alone() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("outage"));
    for name in ["changed", "deleted", "kept", "made-anew"] {
        create(&api, name, "1");
    }
    create_many(&api, "crowd-", CROWD);
    let stop = Stop::new();
    let informers =
        [ListMode::Paged(500), ListMode::WatchList, ListMode::Cached].map(|mode| follow(&api, mode, &stop));
    let (sender, gone) = mpsc::channel();
    for informer in &informers {
        let sender = sender.clone();
        let handlers = Handlers::<ConfigMap>::new().on_delete(move |deleted| {
            sender.send((deleted.object.metadata.name.clone(), deleted.final_state_known)).unwrap();
        });
        informer.add_handler(handlers).unwrap();
    }
    let before = informers.each_ref().map(crowd);
    assert!(before.iter().all(|crowd| crowd.len() == CROWD));

    server.kill();
    for informer in &informers {
        eventually("the informer is cut off", || informer.health().errors > 0);
    }
    server.beside(|client| {
        let api = Api::<ConfigMap>::namespaced(client, api.namespace().unwrap());
        set(&api, "changed", "2");
        for name in ["deleted", "made-anew"] {
            api.delete(name, &DeleteParams::default()).unwrap();
        }
        create(&api, "made-anew", "2");
        let last = create(&api, "new", "2");
        server.compact(&last.metadata.resource_version);
    });
    server.restart();

    for informer in &informers {
        eventually("the informer has it all", || {
            held(informer) == ["changed=2", "kept=1", "made-anew=2", "new=2"]
        });
        assert!(informer.has_synced() && informer.health().lists >= 2);
    }
    let mut all: Vec<_> = (0..6).map(|_| gone.recv_timeout(LONG).unwrap()).collect();
    all.sort();
    let expected = ["deleted", "made-anew"].map(|name| [(); 3].map(|()| (name.to_owned(), false)));
    assert_eq!(all, expected.concat(), "each deletion is told once to each, as one that was missed");

    // What was listed anew and has not changed is kept as it was, not a second time.
    for (informer, before) in informers.iter().zip(&before) {
        let after = crowd(informer);
        assert!(after.len() == CROWD && after.iter().zip(before).all(|(new, old)| Arc::ptr_eq(new, old)));
    }

    // And goes on.
    set(&api, "kept", "3");
    for informer in &informers {
        eventually("a later change is seen", || held(informer).contains(&"kept=3".to_owned()));
    }
    stop.stop();
    informers.iter().for_each(Informer::join);
}

#[test]
fn issue_kubernetes_107457_a_cluster_that_was_restored_from_a_backup_is_found_out() {
    let Some(server) = server::alone() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("restored"));
    for name in ["changed", "deleted", "kept"] {
        create(&api, name, "1");
    }
    let stop = Stop::new();
    let informers =
        [ListMode::Paged(500), ListMode::WatchList, ListMode::Cached].map(|mode| follow(&api, mode, &stop));
    server.back_up();
    set(&api, "changed", "2");
    api.delete("deleted", &DeleteParams::default()).unwrap();
    create(&api, "new", "2");
    // As much as a server writes when it starts, and more.
    create_many(&api, "crowd-", CROWD);
    for informer in &informers {
        eventually("the informer has what came after the backup", || {
            held(informer) == ["changed=2", "kept=1", "new=2"] && crowd(informer).len() == CROWD
        });
    }
    let lists = informers.each_ref().map(|informer| informer.health().lists);
    server.restore();
    for (informer, lists) in informers.iter().zip(lists) {
        eventually("the informer is where the server is", || {
            held(informer) == ["changed=1", "deleted=1", "kept=1"] && crowd(informer).is_empty()
        });
        assert!(informer.health().lists > lists);
    }
    set(&api, "kept", "3");
    for informer in &informers {
        eventually("a later change is seen", || held(informer).contains(&"kept=3".to_owned()));
    }
    stop.stop();
    informers.iter().for_each(Informer::join);
}

#[test]
fn a_server_that_stands_still_for_a_while_is_only_slow() {
    let Some(server) = server::alone() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("still"));
    create(&api, "a", "1");
    let stop = Stop::new();
    let informer = follow(&api, ListMode::default(), &stop);
    // A server that has just started may end its first watches.
    set(&api, "a", "still");
    eventually("it follows", || held(&informer) == ["a=still"]);
    let (lists, errors) = (informer.health().lists, informer.health().errors);
    let hasty = api.client().with_timeout(Duration::from_millis(200));
    let hasty = Api::<ConfigMap>::namespaced(&hasty, api.namespace().unwrap());
    server.freeze();
    let error = hasty.get("a").unwrap_err();
    assert!(error.is_timeout(), "{error}");
    stop.sleep(Duration::from_secs(2));
    server.thaw();
    set(&api, "a", "2");
    eventually("the change is seen", || held(&informer) == ["a=2"]);
    assert_eq!((informer.health().lists, informer.health().errors), (lists, errors));
    stop.stop();
    informer.join();
}

#[test]
fn a_version_that_the_server_no_longer_has_is_expired() {
    let Some(server) = server::alone() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("expired"));
    for name in ["a", "b", "c"] {
        create(&api, name, "1");
    }
    let first = api.list(&ListParams::default().limit(1)).unwrap().metadata;
    set(&api, "a", "2");
    let last = api.get("a").unwrap().metadata.resource_version;
    server.compact(&last);
    // Its watch cache forgets too.
    server.kill();
    server.restart();

    for version in ["1", &first.resource_version] {
        let params = WatchParams::default().resource_version(version);
        let error = match api.watch(&params, &Stop::new()) {
            Ok(mut events) => events.next().unwrap().unwrap_err(),
            Err(error) => error,
        };
        assert!(error.is_expired() && error.code() == Some(410), "{error}");
    }
    let page = ListParams::default().limit(1).continue_token(first.continue_token);
    let error = api.list(&page).unwrap_err();
    assert!(error.is_expired(), "{error}");
}

#[test]
fn a_stop_ends_an_informer_whose_server_is_away() {
    let Some(server) = server::alone() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("away"));
    let stop = Stop::new();
    let informer = follow(&api, ListMode::default(), &stop);
    server.kill();
    eventually("the informer is cut off", || informer.health().errors > 0);
    assert!(api.list(&ListParams::default()).unwrap_err().is_connect());
    stop.stop();
    informer.join();
    server.restart();
}
