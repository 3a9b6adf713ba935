use std::time::Duration;

use listwatch::apiserver::faults::{Effect, Fault, Reply};
use listwatch::events::{EventRecorder, EventType};
use listwatch::types::{ConfigMap, Event, ObjectReference};
use listwatch::{Api, ApiServer, Clock, DeleteParams, ListParams, ObjectMeta, Stop};

use crate::{LONG, config_maps, create, eventually};

const MINUTE: Duration = Duration::from_secs(60);

/// A server whose time stands still, and a recorder on it.
struct Scene {
    server: ApiServer,
    clock: Clock,
    stop: Stop,
    recorder: EventRecorder,
    object: ObjectReference,
}

impl Scene {
    fn new() -> Self {
        let clock = Clock::manual();
        let server = ApiServer::builder().clock(clock.clone()).start().unwrap();
        let stop = Stop::new();
        let builder = EventRecorder::builder(&server.client().unwrap(), "example.com/foo").instance("foo-0");
        let recorder = builder.start(&stop).unwrap();
        let object = ObjectReference::of(&create(&config_maps(&server), "a"));
        Self { server, clock, stop, recorder, object }
    }

    fn tell(&self, reason: &str) {
        self.recorder.event(&self.object, EventType::Normal, reason, "Sync", "done");
    }

    fn events(&self) -> Vec<Event> {
        Api::<Event>::all(&self.server.client().unwrap()).list(&ListParams::default()).unwrap().items
    }

    /// Waits until the events are these: reason and count.
    #[track_caller]
    fn shows(&self, expected: &[(&str, i32)]) {
        let mut last = Vec::new();
        let stop = Stop::new();
        let deadline = Clock::system().now() + LONG;
        while Clock::system().now() < deadline {
            last = self.counts();
            if last.iter().map(|(reason, count)| (reason.as_str(), *count)).eq(expected.iter().copied()) {
                return;
            }
            stop.sleep(Duration::from_millis(20));
        }
        panic!("{last:?} in place of {expected:?}");
    }

    fn counts(&self) -> Vec<(String, i32)> {
        let count = |event: &Event| event.series.as_ref().map_or(1, |series| series.count);
        let mut counts: Vec<_> =
            self.events().iter().map(|event| (event.reason.to_string(), count(event))).collect();
        counts.sort();
        counts
    }

    fn end(&self) {
        self.stop.stop();
        self.recorder.join();
    }

    fn writes(&self) -> usize {
        let is_write = |request: &&String| request.contains("events") && !request.starts_with("GET");
        self.server.requests().iter().filter(is_write).count()
    }
}

#[test]
fn an_event_says_who_what_when_and_of_which_object() {
    let scene = Scene::new();
    let related = ObjectReference { kind: "Node".into(), name: "n1".into(), ..ObjectReference::default() };
    let (object, warning) = (&scene.object, EventType::Warning);
    scene.recorder.event_with_related(object, &related, warning, "Failed", "Sync", "no room");
    scene.end();
    let event = scene.events().remove(0);
    assert_eq!((&*event.metadata.namespace, &event.regarding), ("default", object));
    assert_eq!(event.related.as_deref(), Some(&related));
    assert_eq!((&*event.reporting_controller, &*event.reporting_instance), ("example.com/foo", "foo-0"));
    assert_eq!(
        (&*event.type_, &*event.reason, &*event.action, &*event.note),
        ("Warning", "Failed", "Sync", "no room")
    );
    assert_eq!(event.event_time, Some(scene.clock.wall().into()));
    assert!(event.series.is_none() && event.metadata.name.starts_with("a."), "{}", event.metadata.name);
}

#[test]
fn repetitions_within_six_minutes_are_a_series_and_later_ones_a_new_event() {
    let scene = Scene::new();
    scene.tell("Synced");
    scene.shows(&[("Synced", 1)]);
    scene.clock.advance(MINUTE);
    scene.tell("Synced");
    scene.shows(&[("Synced", 2)]);
    let again = scene.clock.wall();
    let series = scene.events().remove(0).series.unwrap();
    assert_eq!(series.last_observed_time, Some(again.into()));

    // The third to fifth are counted, and told when the series is over.
    for _ in 0..3 {
        scene.clock.advance(5 * MINUTE);
        scene.tell("Synced");
    }
    scene.tell("Other");
    scene.shows(&[("Other", 1), ("Synced", 2)]);
    scene.clock.advance(6 * MINUTE);
    scene.shows(&[("Other", 1), ("Synced", 5)]);
    scene.tell("Synced");
    scene.tell("Other");
    scene.shows(&[("Other", 1), ("Other", 1), ("Synced", 1), ("Synced", 5)]);
}

#[test]
fn a_series_that_goes_on_is_told_every_half_hour() {
    let scene = Scene::new();
    for _ in 0..2 {
        scene.tell("Synced");
    }
    scene.shows(&[("Synced", 2)]);
    let writes = scene.writes();
    for minute in 1..=29 {
        scene.clock.advance(MINUTE);
        if minute % 5 == 0 {
            scene.tell("Synced");
        }
    }
    // Something that is written after all of these.
    scene.tell("Other");
    scene.shows(&[("Other", 1), ("Synced", 2)]);
    assert_eq!(scene.writes(), writes + 1);
    scene.clock.advance(MINUTE);
    scene.shows(&[("Other", 1), ("Synced", 7)]);
}

#[test]
fn an_object_that_changed_or_a_note_that_differs_is_a_repetition_and_another_type_is_not() {
    let mut scene = Scene::new();
    scene.tell("Synced");
    scene.object.resource_version = "99".into();
    scene.recorder.event(&scene.object, EventType::Normal, "Synced", "Sync", "another note");
    scene.recorder.event(&scene.object, EventType::Warning, "Synced", "Sync", "done");
    scene.end();
    assert_eq!(scene.counts(), [("Synced".into(), 1), ("Synced".into(), 2)]);
}

#[test]
fn one_object_gets_25_events_at_once_and_then_one_in_five_minutes() {
    let scene = Scene::new();
    for number in 0..30 {
        scene.tell(&format!("Reason{number}"));
    }
    eventually("five are too many", || scene.recorder.limited() == 5);
    // A repetition is no new event, and another object has a limit of its own.
    scene.tell("Reason0");
    let other = ObjectReference::of(&create(&config_maps(&scene.server), "b"));
    scene.recorder.event(&other, EventType::Normal, "Synced", "Sync", "");
    eventually("26 are written", || scene.events().len() == 26);
    scene.clock.advance(5 * MINUTE);
    scene.tell("Later");
    scene.tell("TooMany");
    eventually("one passes", || scene.events().len() == 27);
    scene.end();
    assert_eq!((scene.recorder.limited(), scene.recorder.dropped()), (6, 0));
    assert!(scene.counts().contains(&("Reason0".into(), 2)));
}

#[test]
fn a_server_that_fails_is_tried_again_and_one_that_refuses_is_not() {
    let scene = Scene::new();
    for fault in [Effect::Reply(Reply::status(500, "InternalError", "not now")), Effect::Close] {
        let failing =
            scene.server.inject(Fault::new(fault.clone()).method("POST").path("/apis/events.k8s.io"));
        let (before, reason) =
            (scene.events().len(), format!("{fault:?}").split('(').next().unwrap().to_owned());
        scene.tell(&reason);
        assert!(failing.wait_for_hit(LONG));
        drop(failing);
        // It waits 10 s, and a quarter of that.
        eventually("it waits for its time", || scene.clock.next_timer().is_some_and(|t| t > 9 * MINUTE / 60));
        assert_eq!(scene.events().len(), before);
        let written = || {
            scene.clock.advance(Duration::from_secs(1));
            scene.events().len() == before + 1
        };
        eventually("it is written", written);
    }
    assert_eq!(scene.recorder.dropped(), 0);
    let forbidden =
        Fault::new(Effect::Reply(Reply::status(403, "Forbidden", "no right"))).method("POST").once();
    let refusing = scene.server.inject(forbidden);
    scene.tell("Refused");
    eventually("it is left out", || scene.recorder.dropped() == 1);
    drop(refusing);
    scene.tell("Next");
    eventually("the next is written", || scene.counts().contains(&("Next".into(), 1)));
    assert!(!scene.counts().iter().any(|(reason, _)| reason == "Refused"));
}

#[test]
fn repetitions_while_the_server_is_away_come_as_one_event() {
    let mut scene = Scene::new();
    scene.server.pause().unwrap();
    for _ in 0..5 {
        scene.tell("Synced");
    }
    eventually("it waits for the server", || scene.clock.next_timer().is_some());
    scene.server.resume().unwrap();
    scene.end();
    assert_eq!((scene.counts(), scene.recorder.dropped()), (vec![("Synced".into(), 5)], 0));
}

#[test]
fn a_server_that_cannot_be_reached_is_left_alone_for_a_while() {
    let scene = Scene::new();
    let away = scene.server.inject(Fault::new(Effect::Close).method("POST").path("/apis/events.k8s.io"));
    scene.tell("First");
    assert!(away.wait_for_hit(LONG));
    eventually("it waits", || scene.clock.next_timer().is_some());
    let writes = scene.writes();
    (0..25).for_each(|number| scene.tell(&format!("Reason{number}")));
    eventually("all are taken", || scene.recorder.limited() == 1);
    eventually("it waits again", || scene.clock.next_timer().is_some());
    assert_eq!(scene.writes(), writes);
    drop(away);
    let written = || {
        scene.clock.advance(Duration::from_secs(1));
        scene.events().len() == 25
    };
    eventually("they are written", written);
}

#[test]
fn a_series_is_told_to_its_end_before_the_next_begins() {
    let scene = Scene::new();
    // Its calls outlast what the clock is advanced by.
    let client = scene.server.client().unwrap().with_timeout(60 * MINUTE);
    let recorder = EventRecorder::start(&client, "foo", &scene.stop).unwrap();
    let tell = |reason: &str| recorder.event(&scene.object, EventType::Normal, reason, "Sync", "");
    tell("Synced");
    tell("Synced");
    scene.shows(&[("Synced", 2)]);
    tell("Synced");
    let late = scene.server.inject(Fault::new(Effect::Late).method("POST").path("/apis/events.k8s.io"));
    tell("Other");
    assert!(late.wait_for_hit(LONG));
    // The series is over before its thread can say so, and another begins.
    scene.clock.advance(6 * MINUTE);
    tell("Synced");
    drop(late);
    scene.shows(&[("Other", 1), ("Synced", 1), ("Synced", 3)]);
    assert_eq!(recorder.dropped(), 0);
    scene.end();
    recorder.join();
}

#[test]
fn an_event_that_the_server_forgot_is_made_again() {
    let scene = Scene::new();
    scene.tell("Synced");
    scene.shows(&[("Synced", 1)]);
    let events = Api::<Event>::namespaced(&scene.server.client().unwrap(), "default");
    events.delete(&scene.events()[0].metadata.name, &DeleteParams::default()).unwrap();
    scene.tell("Synced");
    scene.shows(&[("Synced", 2)]);
}

#[test]
fn an_answer_that_was_lost_makes_no_second_event() {
    let scene = Scene::new();
    let cut = scene.server.inject(Fault::new(Effect::CutBody(10)).method("POST").once());
    scene.tell("Synced");
    assert!(cut.wait_for_hit(LONG));
    scene.shows(&[("Synced", 1)]);
    scene.tell("Synced");
    let told = || {
        scene.clock.advance(Duration::from_secs(1));
        scene.counts() == [("Synced".into(), 2)]
    };
    eventually("the series is told", told);
}

#[test]
fn a_stop_writes_what_was_told_and_counted() {
    let scene = Scene::new();
    for _ in 0..2 {
        scene.tell("Synced");
    }
    scene.shows(&[("Synced", 2)]);
    for _ in 0..5 {
        scene.tell("Synced");
    }
    scene.tell("Last");
    scene.end();
    assert_eq!(scene.counts(), [("Last".into(), 1), ("Synced".into(), 7)]);
    scene.tell("TooLate");
    assert_eq!(scene.recorder.dropped(), 1);
}

#[test]
fn a_server_that_hangs_holds_up_neither_callers_nor_the_end() {
    let clock = Clock::system();
    let server = ApiServer::start().unwrap();
    let hanging = server.inject(Fault::new(Effect::Silence).method("POST").path("/apis/events.k8s.io"));
    let stop = Stop::new();
    let builder =
        EventRecorder::builder(&server.client().unwrap(), "foo").flush_within(Duration::from_millis(200));
    let recorder = builder.start(&stop).unwrap();
    let object = ObjectReference { name: "a".into(), ..ObjectReference::default() };
    recorder.event(&object, EventType::Normal, "First", "Sync", "");
    assert!(hanging.wait_for_hit(LONG));
    let start = clock.now();
    // One is under way, 1000 wait.
    for number in 0..1500 {
        recorder.event(&object, EventType::Normal, &format!("Reason{number}"), "Sync", "");
    }
    assert_eq!(recorder.dropped(), 500);
    stop.stop();
    recorder.join();
    // The client's own limit is 30 s.
    assert!(clock.now() - start < Duration::from_secs(20));
    // Of those in the queue 24 were within the limits of their object.
    assert_eq!((recorder.dropped(), recorder.limited()), (500 + 25, 976));
}

#[test]
fn dropping_the_last_clone_writes_what_was_told() {
    let server = ApiServer::start().unwrap();
    let recorder = EventRecorder::start(&server.client().unwrap(), "foo", &Stop::new()).unwrap();
    let object = ObjectReference { kind: "Node".into(), name: "n1".into(), ..ObjectReference::default() };
    recorder.clone().event(&object, EventType::Normal, "Ready", "Watch", "");
    drop(recorder);
    let events = Api::<Event>::namespaced(&server.client().unwrap(), "default");
    let event = events.list(&ListParams::default()).unwrap().items.remove(0);
    assert_eq!(event.reason, "Ready", "of an object without a namespace, in default");
    assert!(event.reporting_instance.starts_with("foo"), "{}", event.reporting_instance);
}

#[test]
fn what_is_too_long_is_cut_between_characters_and_names_that_are_none_replaced() {
    let scene = Scene::new();
    let metadata = ObjectMeta::named("Not.A_Name:1").in_namespace("default");
    let object = ObjectReference::of(&ConfigMap { metadata, ..ConfigMap::default() });
    let long = "ü".repeat(1000);
    scene.recorder.event(&object, EventType::Normal, &long, &long, &format!("x{long}"));
    scene.end();
    let event = scene.events().remove(0);
    assert_eq!((event.reason.len(), event.action.len(), event.note.len()), (128, 128, 1023));
    assert!(event.note.ends_with('ü') && event.regarding.name == "Not.A_Name:1");
    assert!(event.metadata.name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{}", event.metadata.name);
}

#[test]
fn a_controller_needs_a_name_that_the_server_takes() {
    let client = ApiServer::start().unwrap().client().unwrap();
    for name in ["", "foo bar", "example.com/", "a/b/c"] {
        let error = EventRecorder::start(&client, name, &Stop::new()).unwrap_err();
        assert!(error.is_invalid_argument(), "{name:?}: {error}");
    }
    for instance in [String::new(), "x".repeat(129)] {
        let builder = EventRecorder::builder(&client, "foo").instance(instance);
        assert!(builder.start(&Stop::new()).unwrap_err().is_invalid_argument());
    }
}
