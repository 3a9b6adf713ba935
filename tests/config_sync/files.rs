//! What is in the folder.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::Duration;

use listwatch::apiserver::ApiServer;
use listwatch::types::{ConfigMap, Namespace};
use listwatch::{Api, Clock, ObjectMeta, PostParams};
use serde_json::json;

use crate::eventually::eventually;
use crate::rig::{Folder, Rig};

const FOLDER: &str = "k8s-sidecar-target-directory";

#[test]
fn the_folder_follows_what_the_label_chooses() {
    let rig = Rig::new();
    rig.apply("a", json!({"a.txt": "1"}));
    rig.create(
        "other",
        &json!({"metadata": {"name": "other", "labels": {"app2": "x"}}, "data": {"other.txt": "1"}}),
    );
    rig.create_secret(
        json!({"metadata": {"name": "s", "labels": {"app": "y"}}, "data": {"key.pem": "U0VDUkVU"}}),
    );
    let sidecar = rig.start(&[]);
    rig.folder.wait_for(&[("a.txt", "1"), ("key.pem", "SECRET")]);
    assert_eq!((sidecar.metric("objects"), sidecar.metric("files")), (2, 2));

    rig.apply("a", json!({"a.txt": "2", "b.txt": ""}));
    rig.folder.wait_for(&[("a.txt", "2"), ("b.txt", ""), ("key.pem", "SECRET")]);
    rig.apply("a", json!({"b.txt": "3"}));
    rig.folder.wait_for(&[("b.txt", "3"), ("key.pem", "SECRET")]);
    rig.create(
        "bytes",
        &json!({"metadata": {"name": "bytes", "labels": {"app": "z"}}, "binaryData": {"c.bin": "AAEC"}}),
    );
    rig.folder.wait_for(&[("b.txt", "3"), ("c.bin", "\0\u{1}\u{2}"), ("key.pem", "SECRET")]);
    rig.patch("a", json!({"metadata": {"labels": {"app": null}}}));
    rig.folder.wait_for(&[("c.bin", "\0\u{1}\u{2}"), ("key.pem", "SECRET")]);
    rig.patch("a", json!({"metadata": {"labels": {"app": "again"}}}));
    rig.folder.wait_for(&[("b.txt", "3"), ("c.bin", "\0\u{1}\u{2}"), ("key.pem", "SECRET")]);
    rig.delete("bytes");
    rig.delete("a");
    rig.folder.wait_for(&[("key.pem", "SECRET")]);
    eventually("counted", || (sidecar.metric("objects"), sidecar.metric("files")) == (1, 1));
}

#[test]
fn a_value_of_the_label_and_namespaces_choose_too() {
    let rig = Rig::new();
    let client = rig.server.client().unwrap();
    for name in ["one", "two", "three"] {
        Api::<Namespace>::all(&client)
            .create(
                &PostParams::default(),
                &Namespace { metadata: ObjectMeta::named(name), ..Default::default() },
            )
            .or_else(|e| if e.is_already_exists() { Ok(Namespace::default()) } else { Err(e) })
            .unwrap();
        for value in ["x", "y"] {
            let map = json!({"metadata": {"name": value, "labels": {"app": value}}, "data": {"k": "v"}});
            let api = Api::<ConfigMap>::namespaced(&client, name);
            api.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).unwrap();
        }
    }
    let unique = [("UNIQUE_FILENAMES", "true"), ("LABEL_VALUE", "x")];
    let sidecar = rig.start(&[&unique[..], &[("NAMESPACE", "one, two")]].concat());
    rig.folder.wait_for(&[("namespace_one.configmap_x.k", "v"), ("namespace_two.configmap_x.k", "v")]);
    sidecar.end();
    // Those of the third come; had it been the other way round, they would go.
    let _sidecar = rig.start(&[&unique[..], &[("NAMESPACE", "ALL")]].concat());
    rig.folder.wait_for(&[
        ("namespace_one.configmap_x.k", "v"),
        ("namespace_three.configmap_x.k", "v"),
        ("namespace_two.configmap_x.k", "v"),
    ]);
}

#[test]
fn a_file_is_replaced_as_a_whole_and_has_the_mode() {
    let rig = Rig::new();
    rig.apply("a", json!({"a": "old"}));
    let _sidecar = rig.start(&[("DEFAULT_FILE_MODE", "440")]);
    let path = rig.folder.0.join("a");
    let mut reader = File::open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o440);
    rig.apply("a", json!({"a": "new and longer"}));
    rig.folder.wait_for(&[("a", "new and longer")]);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "old", "who has it open still reads the old content");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o440);
    assert!(rig.folder.own(".tmp").is_empty());
}

#[test]
fn equal_content_is_left_alone() {
    let rig = Rig::new();
    rig.apply("a", json!({"a": "1"}));
    let sidecar = rig.start(&[]);
    let before = fs::metadata(rig.folder.0.join("a")).unwrap();
    rig.apply_with("a", json!({"note": "other"}), json!({"a": "1"}));
    rig.apply("b", json!({"b": "1"})); // comes after it in the queue
    rig.folder.wait_for(&[("a", "1"), ("b", "1")]);
    sidecar.end();
    let _again = rig.start(&[("DEFAULT_FILE_MODE", "600")]);
    let after = fs::metadata(rig.folder.0.join("a")).unwrap();
    assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()));
    assert_eq!(after.permissions().mode() & 0o7777, 0o600, "the mode is as it is told now");
}

#[test]
fn an_annotation_names_the_folder_and_moves_the_files() {
    let (rig, second) = (Rig::new(), Folder::new());
    rig.apply_with("a", json!({FOLDER: "sub/./deep"}), json!({"a": "1"}));
    let allowed = second.0.to_str().unwrap();
    let _sidecar = rig.start(&[("ALLOWED_FOLDERS", allowed)]);
    rig.folder.wait_for(&[("sub/deep/a", "1")]);
    rig.patch("a", json!({"metadata": {"annotations": {FOLDER: rig.folder.0.join("abs")}}}));
    rig.folder.wait_for(&[("abs/a", "1")]);
    rig.patch("a", json!({"metadata": {"annotations": {FOLDER: format!("{allowed}/x")}}}));
    second.wait_for(&[("x/a", "1")]);
    rig.folder.wait_for(&[]);
    rig.patch("a", json!({"metadata": {"annotations": {FOLDER: null}}}));
    rig.folder.wait_for(&[("a", "1")]);
    second.wait_for(&[]);
}

#[test]
fn nothing_is_written_outside() {
    let (rig, outside) = (Rig::new(), Folder::new());
    symlink(&outside.0, rig.folder.0.join("link")).unwrap();
    let absolute = outside.0.to_str().unwrap();
    for (index, folder) in
        ["..", "../x", "a/../../x", absolute, "/", "/nowhere", "link", "link/sub"].iter().enumerate()
    {
        rig.apply_with(&format!("m{index}"), json!({FOLDER: folder}), json!({"pwned": "1"}));
    }
    rig.apply(
        "keys",
        json!({"../pwned": "1", "..": "1", "a/b": "1", ".config-sync.x.json": "{}", "fine": "1"}),
    );
    let sidecar = rig.start_early(&[]);
    // The objects with the link are tried again and again, as links may go.
    eventually("all were tried", || sidecar.metric("refused") == 10 && sidecar.metric("failing") == 2);
    rig.folder.wait_for(&[("fine", "1"), ("link", "")]);
    outside.wait_for(&[]);
    let parent = fs::read_dir(rig.folder.0.parent().unwrap()).unwrap();
    assert_eq!(parent.count(), 1, "nothing beside the folder");
    fs::remove_file(rig.folder.0.join("link")).unwrap();
    // Two want one file: the older has it, both have the same content.
    rig.folder.wait_for(&[("fine", "1"), ("link/pwned", "1"), ("link/sub/pwned", "1")]);
}

#[test]
fn nothing_outside_is_removed_though_the_list_of_files_says_so() {
    let (rig, outside) = (Rig::new(), Folder::new());
    let precious = outside.0.join("precious");
    fs::write(&precious, "1").unwrap();
    symlink(&outside.0, rig.folder.0.join("link")).unwrap();
    let outer = outside.0.parent().unwrap().file_name().unwrap();
    let up = format!("../../{}/files/precious", outer.to_str().unwrap());
    rig.apply("a", json!({"gone": "1"}));
    rig.once(&[]).unwrap();
    rig.delete("a");
    let (list, mut state) = rig.folder.state();
    assert_eq!(state["files"], json!(["gone"]));
    state["files"] = json!([precious, up, "link/precious", "gone"]);
    fs::write(list, state.to_string()).unwrap();
    let _sidecar = rig.start(&[]);
    rig.folder.wait_for(&[("link", "")]);
    outside.wait_for(&[("precious", "1")]);
}

#[test]
fn the_older_of_two_objects_has_the_file_and_the_other_gets_it_back() {
    let clock = Clock::manual();
    let server = ApiServer::builder().clock(clock.clone()).start().unwrap();
    let rig = Rig { server, clock: clock.clone(), ..Rig::new() };
    rig.apply("b", json!({"f": "of b"}));
    clock.advance(Duration::from_secs(10));
    // Younger, though first by name.
    rig.apply("a", json!({"f": "of a"}));
    let sidecar = rig.start(&[]);
    rig.folder.wait_for(&[("f", "of b")]);
    rig.apply("a", json!({"f": "of a again"}));
    rig.apply("marker", json!({"m": "1"})); // comes after it in the queue
    rig.folder.wait_for(&[("f", "of b"), ("m", "1")]);
    rig.delete("b");
    rig.folder.wait_for(&[("f", "of a again"), ("m", "1")]);
    rig.apply("b", json!({"f": "of b, younger now"}));
    rig.apply("marker", json!({"m": "2"}));
    rig.folder.wait_for(&[("f", "of a again"), ("m", "2")]);
    rig.delete("b");
    rig.delete("a");
    rig.folder.wait_for(&[("m", "2")]);
    eventually("counted", || sidecar.metric("files") == 1);
}

#[test]
fn what_went_while_it_was_away_is_removed_and_what_is_of_others_stays() {
    let rig = Rig::new();
    rig.apply("a", json!({"a": "1", "b": "1"}));
    rig.apply_with("c", json!({FOLDER: "sub"}), json!({"c": "1"}));
    rig.start(&[]).end();
    rig.folder.wait_for(&[("a", "1"), ("b", "1"), ("sub/c", "1")]);
    fs::write(rig.folder.0.join("foreign"), "1").unwrap();
    fs::write(rig.folder.0.join("b"), "torn").unwrap();
    let (list, _) = rig.folder.state();
    let half = list.with_extension("1.tmp");
    fs::write(&half, "half").unwrap();
    rig.delete("c");
    rig.apply("a", json!({"b": "1"}));
    let sidecar = rig.start(&[]);
    rig.folder.wait_for(&[("b", "1"), ("foreign", "1")]);
    assert!(!half.exists());
    assert_eq!(sidecar.metric("files_removed_total"), 2);
}

#[test]
fn sidecars_that_choose_different_objects_share_a_folder() {
    let rig = Rig::new();
    for value in ["one", "two"] {
        let map = json!({"metadata": {"name": value, "labels": {"app": value}}, "data": {value: "1"}});
        rig.create(value, &map);
    }
    rig.once(&[("LABEL_VALUE", "one")]).unwrap();
    let second = rig.start(&[("LABEL_VALUE", "two")]);
    rig.folder.wait_for(&[("one", "1"), ("two", "1")]);
    // The first again, while the second runs.
    rig.delete("one");
    rig.once(&[("LABEL_VALUE", "one")]).unwrap();
    rig.folder.wait_for(&[("two", "1")]);
    // What one is writing is none of the other's business.
    let first = rig.folder.own(".json").into_iter().map(|list| list.with_extension("1.tmp"));
    first.for_each(|half| fs::write(half, "half").unwrap());
    second.end();
    let _again = rig.start(&[("LABEL_VALUE", "two")]);
    assert_eq!(rig.folder.own(".tmp").len(), 1);
}

#[test]
fn a_second_sidecar_that_chooses_the_same_ends_with_an_error() {
    let rig = Rig::new();
    rig.apply("a", json!({"a": "1"}));
    let first = rig.start(&[]);
    let error = rig.once(&[]).unwrap_err();
    assert!(error.contains("another config_sync"), "{error}");
    first.end();
    rig.once(&[]).unwrap();
}

#[test]
fn a_list_of_files_that_cannot_be_read_removes_nothing_and_stops_nothing() {
    let rig = Rig::new();
    rig.apply("a", json!({"a": "1"}));
    rig.once(&[]).unwrap();
    fs::write(rig.folder.state().0, r#"{"files": ["fo"#).unwrap();
    fs::write(rig.folder.0.join("fo"), "1").unwrap();
    let _sidecar = rig.start(&[]);
    rig.folder.wait_for(&[("a", "1"), ("fo", "1")]);
}

#[test]
fn what_cannot_be_written_is_tried_again_and_holds_up_no_other() {
    let rig = Rig::new();
    fs::write(rig.folder.0.join("sub"), "in the way").unwrap();
    rig.apply_with("a", json!({FOLDER: "sub"}), json!({"a": "1"}));
    rig.apply("b", json!({"b": "1"}));
    let sidecar = rig.start_early(&[]);
    rig.folder.wait_for(&[("b", "1"), ("sub", "in the way")]);
    eventually("counted", || sidecar.metric("failing") == 1);
    eventually("ready", || sidecar.get("/readyz").0 == 200);
    fs::remove_file(rig.folder.0.join("sub")).unwrap();
    rig.folder.wait_for(&[("b", "1"), ("sub/a", "1")]);
    eventually("counted", || sidecar.metric("failing") == 0);
}

#[test]
fn what_cannot_be_removed_is_tried_again() {
    let (rig, outside) = (Rig::new(), Folder::new());
    rig.apply_with("a", json!({FOLDER: "sub"}), json!({"a": "1"}));
    let sidecar = rig.start(&[]);
    // Somebody puts a link in the place of the folder.
    fs::write(outside.0.join("a"), "precious").unwrap();
    fs::remove_dir_all(rig.folder.0.join("sub")).unwrap();
    symlink(&outside.0, rig.folder.0.join("sub")).unwrap();
    rig.delete("a");
    eventually("it fails", || sidecar.metric("failing") == 1);
    fs::remove_file(rig.folder.0.join("sub")).unwrap();
    eventually("it is tried again", || (sidecar.metric("failing"), sidecar.metric("files")) == (0, 0));
    outside.wait_for(&[("a", "precious")]);
}

#[test]
fn no_file_is_written_that_cannot_be_noted() {
    let rig = Rig::new();
    rig.apply("a", json!({"a": "1"}));
    let sidecar = rig.start(&[]);
    let (list, _) = rig.folder.state();
    fs::remove_file(&list).unwrap();
    fs::create_dir(&list).unwrap();
    rig.apply("b", json!({"b": "1"}));
    eventually("it is tried again", || {
        let text = sidecar.get("/metrics").1;
        let retries =
            text.lines().find_map(|line| line.strip_prefix("workqueue_retries_total{name=\"config_sync\"} "));
        rig.folder.files().contains_key("b") || retries.unwrap().parse::<u64>().unwrap() > 1
    });
    rig.folder.wait_for(&[("a", "1")]);
    fs::remove_dir(&list).unwrap();
    rig.folder.wait_for(&[("a", "1"), ("b", "1")]);
    assert_eq!(rig.folder.state().1["files"], json!(["a", "b"]));
}

#[test]
fn what_an_earlier_run_left_and_cannot_be_removed_is_tried_again() {
    let (rig, outside) = (Rig::new(), Folder::new());
    rig.apply_with("a", json!({FOLDER: "sub"}), json!({"a": "1"}));
    rig.once(&[]).unwrap();
    rig.delete("a");
    fs::rename(rig.folder.0.join("sub"), rig.folder.0.join("moved")).unwrap();
    symlink(&outside.0, rig.folder.0.join("sub")).unwrap();
    let sidecar = rig.start_early(&[]);
    eventually("it fails", || sidecar.metric("failing") == 1);
    fs::remove_file(rig.folder.0.join("sub")).unwrap();
    fs::rename(rig.folder.0.join("moved"), rig.folder.0.join("sub")).unwrap();
    rig.folder.wait_for(&[]);
    eventually("counted", || sidecar.metric("failing") == 0);
}

#[test]
fn an_object_that_cannot_be_mirrored_keeps_no_pod_from_starting() {
    let rig = Rig::new();
    let long = "x".repeat(250);
    rig.apply("a", json!({long: "1", "conf": "1"}));
    rig.apply_with("b", json!({FOLDER: "conf"}), json!({"b": "1"}));
    rig.apply_with("c", json!({FOLDER: "y".repeat(256)}), json!({"c": "1"}));
    rig.apply_with("d", json!({FOLDER: "z/".repeat(2048)}), json!({"d": "1"}));
    let unique = [("UNIQUE_FILENAMES", "true")];
    rig.apply("conf", json!({"k": "1"}));
    rig.apply_with("e", json!({FOLDER: "namespace_default.configmap_conf.k"}), json!({"e": "1"}));
    rig.once(&unique).unwrap();
    let sidecar = rig.start(&unique);
    assert_eq!((sidecar.metric("refused"), sidecar.metric("failing")), (3, 1));
    let files = rig.folder.files();
    assert!(files.contains_key("conf/namespace_default.configmap_b.b"), "{files:?}");
    assert_eq!(files.len(), 3, "{files:?}");
    // What was in the way goes.
    rig.delete("conf");
    eventually("written", || {
        rig.folder.files().contains_key("namespace_default.configmap_conf.k/namespace_default.configmap_e.e")
    });
    eventually("counted", || sidecar.metric("failing") == 0);
}

#[test]
fn files_stay_while_the_server_is_away() {
    let mut rig = Rig::new();
    rig.apply("a", json!({"a": "1"}));
    let sidecar = rig.start(&[]);
    rig.server.pause().unwrap();
    assert_eq!((sidecar.get("/readyz").0, sidecar.get("/healthz").0), (200, 200));
    rig.folder.wait_for(&[("a", "1")]);
    rig.server.resume().unwrap();
    rig.apply("a", json!({"a": "2"}));
    rig.folder.wait_for(&[("a", "2")]);
    assert_eq!(sidecar.metric("files_removed_total"), 0);
}

#[test]
fn it_is_not_ready_before_the_first_mirror() {
    let mut rig = Rig::new();
    rig.apply("a", json!({"a": "1"}));
    rig.start(&[]).end();
    rig.delete("a");
    rig.server.pause().unwrap();
    let sidecar = rig.start_early(&[]);
    assert_eq!((sidecar.get("/readyz").0, sidecar.get("/healthz").0), (503, 200));
    assert_eq!(sidecar.get("/nothing").0, 404);
    rig.folder.wait_for(&[("a", "1")]); // nothing is known yet
    rig.server.resume().unwrap();
    eventually("ready", || sidecar.get("/readyz").0 == 200);
    rig.folder.wait_for(&[]);
}

#[test]
fn the_method_list_mirrors_once() {
    let rig = Rig::new();
    rig.apply("a", json!({"a": "1"}));
    rig.create_secret(json!({"metadata": {"name": "s", "labels": {"app": "y"}}, "stringData": {"s": "2"}}));
    rig.once(&[]).unwrap();
    rig.folder.wait_for(&[("a", "1"), ("s", "2")]);
    assert!(!rig.server.requests().iter().any(|request| request.contains("watch")));
    // What is in the way of one object is said; that nothing can be noted is a failure.
    fs::create_dir(rig.folder.0.join("b")).unwrap();
    rig.apply("b", json!({"b": "1", "c": "1"}));
    rig.once(&[]).unwrap();
    rig.folder.wait_for(&[("a", "1"), ("c", "1"), ("s", "2")]);
    let (list, _) = rig.folder.state();
    fs::remove_file(&list).unwrap();
    fs::create_dir(&list).unwrap();
    let failed = rig.once(&[]).unwrap_err();
    assert!(failed.contains(list.to_str().unwrap()), "{failed}");
}
