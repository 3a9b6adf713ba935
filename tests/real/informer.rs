use std::sync::mpsc;

use listwatch::cache::Handlers;
use listwatch::types::ConfigMap;
use listwatch::{
    Api, DeleteParams, Informer, InformerFactory, ListMode, ListParams, PartialObjectMetadata, Patch,
    PatchParams, Resource as _, Selector, StaticResource as _, Stop,
};
use serde_json::json;

use crate::server::Server;
use crate::{LONG, config_map, create, create_many, eventually, server};

/// The names and values that an informer holds.
fn held(informer: &Informer<ConfigMap>) -> Vec<String> {
    informer.lister().list(&Selector::everything()).iter().map(|map| tell(map)).collect()
}

fn tell(map: &ConfigMap) -> String {
    format!("{}={}", map.name(), map.data.get("key").unwrap_or("-"))
}

/// What a handler is told.
fn told(informer: &Informer<ConfigMap>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let (on_add, on_update, on_delete) = (sender.clone(), sender.clone(), sender);
    let handlers = Handlers::new()
        .on_add(move |map, initial| {
            let initial = if initial { "there" } else { "new" };
            on_add.send(format!("{initial} {}", tell(map))).unwrap();
        })
        .on_update(move |old, new| {
            on_update.send(format!("{} -> {}", tell(old), tell(new))).unwrap();
        })
        .on_delete(move |deleted| {
            assert!(deleted.final_state_known);
            on_delete.send(format!("gone {}", tell(&deleted.object))).unwrap();
        });
    informer.add_handler(handlers).unwrap();
    receiver
}

fn follow(server: &Server, mode: ListMode) {
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("informer"));
    create(&api, "a", "1");
    create(&api, "b", "1");
    if mode == ListMode::Cached {
        // Its first list may be behind.
        let cached = ListParams::default().resource_version("0");
        eventually("the watch cache has them", || api.list(&cached).unwrap().items.len() == 2);
    }
    let stop = Stop::new();
    let informer = Informer::builder(api.clone()).mode(mode).build().unwrap();
    let told = told(&informer);
    informer.start(&stop).unwrap();
    informer.wait_for_sync(LONG).unwrap();
    assert_eq!(held(&informer), ["a=1", "b=1"]);
    let mut initial = [told.recv_timeout(LONG).unwrap(), told.recv_timeout(LONG).unwrap()];
    initial.sort();
    assert_eq!(initial, ["there a=1", "there b=1"]);

    let next = || told.recv_timeout(LONG).unwrap();
    create(&api, "c", "1");
    assert_eq!(next(), "new c=1");
    api.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"key": "2"}}))).unwrap();
    assert_eq!(next(), "a=1 -> a=2");
    api.delete("b", &DeleteParams::default()).unwrap();
    assert_eq!(next(), "gone b=1");

    let listed: Vec<_> = api.list(&ListParams::default()).unwrap().iter().map(tell).collect();
    assert_eq!(held(&informer), listed);
    let health = informer.health();
    assert_eq!((health.errors, health.unfit, health.last_error), (0, 0, None));
    assert_eq!(health.lists, 1);
    stop.stop();
    informer.join();
}

#[test]
fn an_informer_that_lists_in_pages_follows_the_server() {
    let Some((server, _quiet)) = server::shared() else { return };
    follow(server, ListMode::Paged(1));
}

#[test]
fn an_informer_that_has_the_list_as_a_stream_follows_the_server() {
    let Some((server, _quiet)) = server::shared() else { return };
    follow(server, ListMode::WatchList);
}

#[test]
fn an_informer_that_lists_from_the_watch_cache_follows_the_server() {
    let Some((server, _quiet)) = server::shared() else { return };
    follow(server, ListMode::Cached);
}

#[test]
fn five_thousand_objects_come_in_each_mode_as_they_are() {
    const AMOUNT: usize = 5000;
    let Some((server, _quiet)) = server::shared() else { return };
    let client = server.client();
    let api = Api::<ConfigMap>::namespaced(&client, &server.namespace("many"));
    create_many(&api, "m", AMOUNT);
    let mut pages = 0;
    let mut all = Vec::new();
    for page in api.pages(&ListParams::default()) {
        pages += 1;
        all.extend(page.unwrap());
    }
    assert_eq!((pages, all.len()), (10, AMOUNT));
    assert!(all.iter().enumerate().all(|(n, map)| tell(map) == format!("m{n:04}={n}")));
    // In one piece, as a sink takes it.
    let mut amount = 0;
    let count = |map: listwatch::Result<ConfigMap>| {
        map?;
        amount += 1;
        Ok(())
    };
    api.list_each(&ListParams::default(), &Stop::new(), count).unwrap();
    assert_eq!(amount, AMOUNT);

    let cached = ListParams::default().resource_version("0").limit(1);
    eventually("the watch cache has them", || {
        let list = api.list(&cached).unwrap();
        list.items.len() as u64 + list.metadata.remaining_item_count.unwrap_or(0) >= AMOUNT as u64
    });
    for mode in [ListMode::Paged(500), ListMode::WatchList, ListMode::Cached] {
        let stop = Stop::new();
        let factory = InformerFactory::new(&client).namespace(api.namespace().unwrap()).mode(mode);
        let informer = factory.informer::<ConfigMap>();
        factory.start(&stop).unwrap();
        factory.wait_for_sync(LONG).unwrap();
        let held = informer.lister().list(&Selector::everything());
        assert!(held.iter().map(|map| &**map).eq(&all), "{mode:?}: {} objects", held.len());
        assert_eq!((informer.health().lists, informer.health().errors), (1, 0), "{mode:?}");
        stop.stop();
        factory.join();
    }
}

#[test]
fn an_object_that_no_longer_matches_leaves_the_cache() {
    let Some((server, _quiet)) = server::shared() else { return };
    let api = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("leaves"));
    let mut map = config_map("a", "1");
    map.metadata.labels.insert("app", "web");
    api.create(&listwatch::PostParams::default(), &map).unwrap();
    create(&api, "other", "1");
    let stop = Stop::new();
    let informer = Informer::builder(api.clone()).labels("app=web").build().unwrap();
    let told = told(&informer);
    informer.start(&stop).unwrap();
    informer.wait_for_sync(LONG).unwrap();
    assert_eq!(held(&informer), ["a=1"]);
    let patch = Patch::Merge(json!({"metadata": {"labels": null}}));
    api.patch("a", &PatchParams::default(), &patch).unwrap();
    assert_eq!(told.recv_timeout(LONG).unwrap(), "there a=1");
    assert_eq!(told.recv_timeout(LONG).unwrap(), "gone a=1");
    assert_eq!(held(&informer), [""; 0]);
    stop.stop();
    informer.join();
}

#[test]
fn the_metadata_alone_is_listed_watched_patched_and_deleted() {
    let Some((server, _quiet)) = server::shared() else { return };
    let maps = Api::<ConfigMap>::namespaced(&server.client(), &server.namespace("metadata"));
    create(&maps, "a", "1");
    create(&maps, "b", "1");
    let resource = ConfigMap::api_resource();
    let client = server.client();
    let api = Api::<PartialObjectMetadata>::namespaced_with(
        &client,
        maps.namespace().unwrap_or_default(),
        &resource,
    );
    for mode in [ListMode::Paged(1), ListMode::WatchList, ListMode::Cached] {
        let cached = ListParams::default().resource_version("0");
        eventually("the watch cache has them", || api.list(&cached).unwrap().items.len() == 2);
        let stop = Stop::new();
        let informer = Informer::builder(api.clone()).mode(mode).build().unwrap();
        informer.start(&stop).unwrap();
        informer.wait_for_sync(LONG).unwrap();
        assert_eq!((informer.health().mode, informer.lister().store().len()), (mode, 2));
        let label = format!("{mode:?}").chars().filter(|c| c.is_alphanumeric()).collect::<String>();
        let patch = Patch::Merge(json!({"metadata": {"labels": {"mode": label}}}));
        let patched = api.patch("a", &PatchParams::default(), &patch).unwrap();
        assert_eq!(patched.label("mode"), Some(&*label));
        let told = || informer.lister().get(maps.namespace().unwrap_or_default(), "a");
        eventually("the label is seen", || told().is_some_and(|a| a.label("mode") == Some(&*label)));
        create(&maps, "c", "1");
        eventually("it is there", || informer.lister().store().len() == 3);
        api.delete("c", &DeleteParams::default()).unwrap();
        eventually("it is gone", || informer.lister().store().len() == 2);
        stop.stop();
        informer.join();
    }
    assert_eq!(api.get("b").unwrap().metadata, maps.get("b").unwrap().metadata);
}
