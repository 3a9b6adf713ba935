use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::unbounded;
use listwatch::finalizer::{Event, ensure, finalizer, remove};
use listwatch::types::ConfigMap;
use listwatch::{
    Action, Api, ApiServer, Controller, DeleteParams, Error, ObjectMeta, Patch, PatchParams, PostParams,
    Request, Stop,
};
use serde_json::json;

use crate::{LONG, config_maps, create};

const OURS: &str = "example.com/ours";
const THEIRS: &str = "example.com/theirs";

fn with_theirs(api: &Api<ConfigMap>, name: &str) -> ConfigMap {
    let metadata = ObjectMeta { finalizers: vec![THEIRS.into()], ..ObjectMeta::named(name) };
    api.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).unwrap()
}

/// One round of a controller whose cache is up to date.
fn round(api: &Api<ConfigMap>, name: &str, cleanup: Result<Action, Error>) -> Result<&'static str, Error> {
    let object = Arc::new(api.get(name)?);
    let mut told = "nothing";
    finalizer(api, OURS, &object, |event| match event {
        Event::Apply(object) => {
            assert!(object.metadata.finalizers.iter().any(|f| f == OURS), "applied without a finalizer");
            told = "apply";
            Ok(Action::await_change())
        }
        Event::Cleanup(object) => {
            assert!(object.metadata.deletion_timestamp.is_some());
            told = "cleanup";
            cleanup
        }
    })
    .map(|_| told)
}

fn done() -> Result<Action, Error> {
    Ok(Action::await_change())
}

#[test]
fn an_object_is_cleaned_up_before_it_goes() {
    let server = ApiServer::start().unwrap();
    let maps = config_maps(&server);
    create(&maps, "a");
    assert_eq!(round(&maps, "a", done()).unwrap(), "apply");
    assert_eq!(maps.get("a").unwrap().metadata.finalizers, [OURS]);
    assert_eq!(round(&maps, "a", done()).unwrap(), "apply");
    maps.delete("a", &DeleteParams::default()).unwrap();

    let failed = round(&maps, "a", Err(Error::timed_out("remove the bucket"))).unwrap_err();
    assert_eq!(failed.to_string(), "remove the bucket: timed out");
    assert_eq!(maps.get("a").unwrap().metadata.finalizers, [OURS], "it waits for the cleanup");
    assert_eq!(round(&maps, "a", done()).unwrap(), "cleanup");
    assert!(maps.get_opt("a").unwrap().is_none());
}

#[test]
fn finalizers_of_others_stay() {
    let server = ApiServer::start().unwrap();
    let maps = config_maps(&server);
    let object = with_theirs(&maps, "a");
    let object = ensure(&maps, &object, OURS).unwrap().unwrap();
    assert_eq!(object.metadata.finalizers, [THEIRS, OURS]);
    assert!(ensure(&maps, &object, OURS).unwrap().is_none(), "it has it");
    maps.delete("a", &DeleteParams::default()).unwrap();
    assert_eq!(round(&maps, "a", done()).unwrap(), "cleanup");
    assert_eq!(maps.get("a").unwrap().metadata.finalizers, [THEIRS]);
    // Ours is done, the object still there.
    assert_eq!(round(&maps, "a", done()).unwrap(), "nothing");
}

#[test]
fn an_object_that_is_being_deleted_gets_none() {
    let server = ApiServer::start().unwrap();
    let maps = config_maps(&server);
    let before = with_theirs(&maps, "a");
    maps.delete("a", &DeleteParams::default()).unwrap();
    let requests = server.requests().len();
    assert!(ensure(&maps, &before, OURS).unwrap_err().is_conflict(), "from a cache that is behind");
    let deleting = maps.get("a").unwrap();
    assert!(ensure(&maps, &deleting, OURS).unwrap().is_none());
    assert_eq!(server.requests().len(), requests + 2, "no patch where it is known to be in vain");
    assert_eq!(maps.get("a").unwrap().metadata.finalizers, [THEIRS]);
}

#[test]
fn a_race_is_a_conflict_and_changes_nothing() {
    let server = ApiServer::start().unwrap();
    let maps = config_maps(&server);
    let bare = create(&maps, "a");
    // Another controller was faster with the first finalizer.
    ensure(&maps, &bare, THEIRS).unwrap().unwrap();
    let error = ensure(&maps, &bare, OURS).unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert!(
        error
            .to_string()
            .starts_with("change the finalizers of configmaps default/a: the object has changed"),
        "{error}"
    );
    assert_eq!(maps.get("a").unwrap().metadata.finalizers, [THEIRS]);

    // Theirs goes, and ours is no longer where it was.
    let both = ensure(&maps, &maps.get("a").unwrap(), OURS).unwrap().unwrap();
    remove(&maps, &both, THEIRS).unwrap().unwrap();
    assert!(remove(&maps, &both, OURS).unwrap_err().is_conflict());
    assert_eq!(maps.get("a").unwrap().metadata.finalizers, [OURS]);
    // Ours was taken away by another replica, and theirs is where it was.
    let one = maps.get("a").unwrap();
    let two = ensure(&maps, &one, THEIRS).unwrap().unwrap();
    remove(&maps, &two, OURS).unwrap().unwrap();
    assert!(remove(&maps, &two, OURS).unwrap_err().is_conflict());
    assert_eq!(maps.get("a").unwrap().metadata.finalizers, [THEIRS]);
    let again = ensure(&maps, &maps.get("a").unwrap(), OURS).unwrap().unwrap();
    remove(&maps, &again, THEIRS).unwrap().unwrap();
    // A change of anything else is in nobody's way.
    let held = maps.get("a").unwrap();
    let change = Patch::Merge(json!({"data": {"key": "other"}}));
    maps.patch("a", &PatchParams::default(), &change).unwrap();
    assert!(remove(&maps, &held, OURS).unwrap().unwrap().metadata.finalizers.is_empty());
}

#[test]
fn a_later_object_of_the_name_keeps_its_own() {
    let server = ApiServer::start().unwrap();
    let maps = config_maps(&server);
    let old = ensure(&maps, &create(&maps, "a"), OURS).unwrap().unwrap();
    remove(&maps, &old, OURS).unwrap();
    maps.delete("a", &DeleteParams::default()).unwrap();
    assert!(remove(&maps, &old, OURS).unwrap().is_none(), "gone is gone");
    assert!(ensure(&maps, &create(&maps, "b"), OURS).unwrap().is_some());
    ensure(&maps, &create(&maps, "a"), OURS).unwrap().unwrap();
    assert!(remove(&maps, &old, OURS).unwrap_err().is_conflict());
    assert_eq!(maps.get("a").unwrap().metadata.finalizers, [OURS]);
}

#[test]
fn objects_are_found_in_their_namespace_from_an_api_of_all() {
    let server = ApiServer::start().unwrap();
    let all = Api::<ConfigMap>::all(&server.client().unwrap());
    let object = ensure(&all, &create(&config_maps(&server), "a"), OURS).unwrap().unwrap();
    assert!(remove(&all, &object, OURS).unwrap().is_some());
}

#[test]
fn a_controller_cleans_each_object_up_once_and_lets_it_go() {
    let server = ApiServer::start().unwrap();
    let maps = config_maps(&server);
    let stop = Stop::new();
    let (told, tells) = unbounded();
    let cleanups = Arc::new(AtomicUsize::new(0));
    let counted = cleanups.clone();
    let reconcile = move |map: &Request<ConfigMap>| {
        finalizer(&map.api(), OURS, map.object(), |event| {
            match event {
                Event::Apply(map) => told.send(map.metadata.name.clone()).unwrap(),
                Event::Cleanup(_) => drop(counted.fetch_add(1, Ordering::SeqCst)),
            }
            Ok::<_, Error>(Action::await_change())
        })
    };
    std::thread::scope(|scope| {
        let _end = crate::StopAtEnd(&stop);
        scope.spawn(|| Controller::<ConfigMap>::all(maps.client()).workers(2).run(&stop, reconcile).unwrap());
        for name in ["a", "b", "c"] {
            create(&maps, name);
            while tells.recv_timeout(LONG).as_deref() != Ok(name) {}
            maps.delete(name, &DeleteParams::default()).unwrap();
        }
        let gone = || maps.list(&Default::default()).unwrap().items.is_empty();
        crate::eventually("all are gone", gone);
    });
    assert_eq!(cleanups.load(Ordering::SeqCst), 3);
}
