//! A `ListWatch` that the test answers request by request.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select, unbounded};
use listwatch::cache::{Delta, Events, ListWatch, Reflector, Sink};
use listwatch::types::ConfigMap;
use listwatch::wire::{Expect, WatchDecoder};
use listwatch::{
    Bookmark, Clock, Error, ListMeta, ListMode, ListParams, ObjectKey, Resource, Result, StaticResource,
    Status, Stop, WatchEvent, WatchParams,
};

/// Longer than any of this takes; a test that waits so long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) type Event = Result<WatchEvent<ConfigMap>>;

/// Takes the next message, or fails the test.
#[track_caller]
pub(crate) fn next<T>(channel: &Receiver<T>) -> T {
    match channel.recv_timeout(PATIENCE) {
        Ok(message) => message,
        Err(RecvTimeoutError::Timeout) => panic!("nothing came"),
        Err(RecvTimeoutError::Disconnected) => panic!("nothing can come any more"),
    }
}

/// A page of a list, and its metadata or why it failed.
struct Page {
    items: Vec<Result<ConfigMap>>,
    end: Result<ListMeta>,
}

pub(crate) enum Request {
    List(Listing),
    Watch(Watching),
}

/// A list request that waits for its answer.
pub(crate) struct Listing {
    pub(crate) params: ListParams,
    answer: Sender<Page>,
}

/// A watch request that waits for its answer.
pub(crate) struct Watching {
    pub(crate) params: WatchParams,
    answer: Sender<Result<Receiver<Event>>>,
}

/// The version that it says it is at, or why it does not.
type Version = std::result::Result<Option<&'static str>, fn() -> Error>;

/// What a reflector or informer speaks to.
pub(crate) struct Script {
    name: String,
    requests: Sender<Request>,
    version: Arc<Mutex<Version>>,
}

/// The test's side of a [`Script`].
pub(crate) struct Server {
    requests: Receiver<Request>,
    version: Arc<Mutex<Version>>,
}

pub(crate) fn script() -> (Script, Server) {
    named("configmaps in \"a\"")
}

pub(crate) fn named(name: &str) -> (Script, Server) {
    let (sender, requests) = unbounded();
    let version = Arc::new(Mutex::new(Ok(None)));
    (Script { name: name.into(), requests: sender, version: version.clone() }, Server { requests, version })
}

impl ListWatch<ConfigMap> for Script {
    fn list(
        &self,
        params: &ListParams,
        stop: &Stop,
        sink: &mut dyn FnMut(Result<ConfigMap>) -> Result<()>,
    ) -> Result<ListMeta> {
        let (answer, answers) = bounded(1);
        let _ = self.requests.send(Request::List(Listing { params: params.clone(), answer }));
        let page = select! {
            recv(answers) -> page => page.map_err(|_| status(500, "", "the test has gone"))?,
            recv(stop.signal()) -> _ => return Err(status(500, "", "stopped")),
        };
        page.items.into_iter().try_for_each(sink)?;
        page.end
    }

    fn watch(&self, params: &WatchParams, stop: &Stop) -> Result<Events<ConfigMap>> {
        let (answer, answers) = bounded(1);
        let _ = self.requests.send(Request::Watch(Watching { params: params.clone(), answer }));
        let events = select! {
            recv(answers) -> events => events.map_err(|_| status(500, "", "the test has gone"))??,
            recv(stop.signal()) -> _ => return Err(status(500, "", "stopped")),
        };
        let stop = stop.clone();
        Ok(Box::new(std::iter::from_fn(move || {
            select! {
                recv(events) -> event => event.ok(),
                recv(stop.signal()) -> _ => None,
            }
        })))
    }

    fn current_version(&self, _: &ListParams, _: &Stop) -> Result<Option<String>> {
        self.version.lock().unwrap().map(|version| version.map(str::to_owned)).map_err(|e| e())
    }

    fn describe(&self) -> String {
        self.name.clone()
    }
}

impl Server {
    #[track_caller]
    pub(crate) fn next(&self) -> Request {
        next(&self.requests)
    }

    /// The next request, which must be this list.
    #[track_caller]
    pub(crate) fn list(&self, params: ListParams) -> Listing {
        match self.next() {
            Request::List(listing) => {
                assert_eq!(listing.params, params);
                listing
            }
            Request::Watch(watching) => {
                panic!("a list was expected, but this watch came: {:?}", watching.params)
            }
        }
    }

    /// The next request, which must be this watch.
    #[track_caller]
    pub(crate) fn watch(&self, params: WatchParams) -> Watching {
        match self.next() {
            Request::Watch(watching) => {
                assert_eq!(watching.params, params);
                watching
            }
            Request::List(listing) => {
                panic!("a watch was expected, but this list came: {:?}", listing.params)
            }
        }
    }

    /// The next request, which must be a watch from this version.
    #[track_caller]
    pub(crate) fn watch_from(&self, version: &str) -> Watching {
        self.watch(WatchParams::default().resource_version(version))
    }

    /// What it says its version is, if it is asked for nothing else.
    pub(crate) fn is_at(&self, version: Option<&'static str>) {
        *self.version.lock().unwrap() = Ok(version);
    }

    /// It does not say its version, but fails so.
    pub(crate) fn does_not_say_where_it_is(&self, e: fn() -> Error) {
        *self.version.lock().unwrap() = Err(e);
    }

    /// Answers the next request, which must be a list of the default mode, and the watch behind it.
    #[track_caller]
    pub(crate) fn sync(&self, items: &[&str], version: &str) -> Feed {
        self.list(ListParams::default().limit(500)).all(items, version);
        self.watch_from(version).open()
    }

    #[track_caller]
    pub(crate) fn is_quiet(&self) {
        assert!(self.requests.is_empty(), "a request came that nobody should have sent");
    }
}

impl Listing {
    /// Answers with all there is.
    pub(crate) fn all(self, items: &[&str], version: &str) {
        self.page(items, version, "");
    }

    /// Answers with a page.
    pub(crate) fn page(self, items: &[&str], version: &str, continue_token: &str) {
        let items = items.iter().map(|item| Ok(object(item))).collect();
        let meta = ListMeta {
            resource_version: version.into(),
            continue_token: continue_token.into(),
            ..ListMeta::default()
        };
        self.answer(items, Ok(meta));
    }

    pub(crate) fn fail(self, e: Error) {
        self.answer(Vec::new(), Err(e));
    }

    pub(crate) fn answer(self, items: Vec<Result<ConfigMap>>, end: Result<ListMeta>) {
        let _ = self.answer.send(Page { items, end });
    }
}

impl Watching {
    /// Answers with a watch that stays open until the feed is dropped.
    pub(crate) fn open(self) -> Feed {
        let (feed, events) = unbounded();
        let _ = self.answer.send(Ok(events));
        Feed(feed)
    }

    pub(crate) fn fail(self, e: Error) {
        let _ = self.answer.send(Err(e));
    }
}

/// Feeds an open watch; dropped, the watch ends as a server ends it.
pub(crate) struct Feed(Sender<Event>);

impl Feed {
    pub(crate) fn send(&self, event: Event) {
        let _ = self.0.send(event);
    }

    pub(crate) fn added(&self, object_text: &str) {
        self.send(Ok(WatchEvent::Added(object(object_text))));
    }

    pub(crate) fn modified(&self, object_text: &str) {
        self.send(Ok(WatchEvent::Modified(object(object_text))));
    }

    pub(crate) fn deleted(&self, object_text: &str) {
        self.send(Ok(WatchEvent::Deleted(object(object_text))));
    }

    pub(crate) fn bookmark(&self, version: &str, initial_events_end: bool) {
        let bookmark = Bookmark { resource_version: version.into(), initial_events_end };
        self.send(Ok(WatchEvent::Bookmark(bookmark)));
    }

    pub(crate) fn fail(self, e: Error) {
        self.send(Err(e));
    }
}

/// `namespace/name@version` or `namespace/name@version/uid`. The uid is the name unless given.
pub(crate) fn object(text: &str) -> ConfigMap {
    let (key, version) = text.split_once('@').unwrap();
    let key: ObjectKey = key.parse().unwrap();
    let (version, uid) = version.split_once('/').unwrap_or((version, key.name()));
    let mut object = ConfigMap::default();
    object.metadata.namespace = key.namespace().unwrap_or_default().into();
    object.metadata.name = key.name().to_owned();
    object.metadata.uid = uid.to_owned();
    object.metadata.resource_version = version.to_owned();
    object
}

/// `namespace/name@version`.
pub(crate) fn text(object: &impl Resource) -> String {
    format!("{}@{}", object.key(), object.resource_version())
}

/// What a server answers when it refuses.
pub(crate) fn status(code: u16, reason: &str, message: &str) -> Error {
    Status { code, reason: reason.into(), message: message.into(), ..Status::default() }.into()
}

pub(crate) fn expired() -> Error {
    status(410, "Expired", "too old resource version: 1 (2)")
}

/// A frame that is no event.
pub(crate) fn broken_frame() -> Error {
    decode("not JSON")
}

/// A line over the limit.
pub(crate) fn too_long() -> Error {
    let mut decoder = WatchDecoder::<ConfigMap>::new(Expect::any()).max_line(1);
    decoder.feed(b"{}\n");
    let error = decoder.next_event().unwrap().unwrap_err();
    assert!(error.is_limit());
    error
}

/// The error of a call that took too long.
pub(crate) fn timed_out() -> Error {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = listwatch::Config::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let client = listwatch::Client::new(config.with_timeout(Duration::from_millis(30))).unwrap();
    let error = listwatch::Api::<ConfigMap>::namespaced(&client, "a").get("a").unwrap_err();
    assert!(error.is_timeout(), "{error}");
    error
}

/// An object whose data does not fit.
pub(crate) fn unfit(event: &str, key: &str, version: &str) -> Error {
    let key: ObjectKey = key.parse().unwrap();
    decode(&format!(
        r#"{{"type":"{event}","object":{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"namespace":"{}","name":"{}","resourceVersion":"{version}"}},"data":7}}}}"#,
        key.namespace().unwrap(),
        key.name(),
    ))
}

fn decode(line: &str) -> Error {
    let mut decoder = WatchDecoder::<ConfigMap>::new(Expect::from(&ConfigMap::api_resource()));
    decoder.feed(format!("{line}\n").as_bytes());
    decoder.next_event().unwrap().unwrap_err()
}

/// The error of a connection that nobody takes.
pub(crate) fn refused() -> Error {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = listwatch::Config::new(&format!("http://127.0.0.1:{port}")).unwrap();
    let client = listwatch::Client::new(config).unwrap();
    let error = listwatch::Api::<ConfigMap>::namespaced(&client, "a").get("a").unwrap_err();
    assert!(error.is_connect(), "{error}");
    error
}

/// A reflector on a thread of its own, with all it puts out.
pub(crate) struct Running {
    pub(crate) server: Server,
    pub(crate) clock: Clock,
    pub(crate) stop: Stop,
    pub(crate) deltas: Receiver<Delta<ConfigMap>>,
    pub(crate) errors: Receiver<String>,
    pub(crate) reflector: std::sync::Arc<Reflector<ConfigMap>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct ToChannel(Sender<Delta<ConfigMap>>, Known);

type Known = std::collections::HashMap<ObjectKey, std::sync::Arc<ConfigMap>>;

impl Sink<ConfigMap> for ToChannel {
    fn push(&mut self, delta: Delta<ConfigMap>) -> bool {
        if let Delta::Replace { items, .. } = &delta {
            self.1 = items.iter().map(|item| (item.key(), item.clone())).collect();
        }
        self.0.send(delta).is_ok()
    }

    fn known(&self, object: &ConfigMap) -> Option<std::sync::Arc<ConfigMap>> {
        self.1.get(&object.key()).cloned()
    }
}

pub(crate) fn run(mode: ListMode) -> Running {
    run_with(|reflector| reflector.mode(mode))
}

pub(crate) fn run_with(with: impl FnOnce(Reflector<ConfigMap>) -> Reflector<ConfigMap>) -> Running {
    let (script, server) = script();
    let (clock, stop) = (Clock::manual(), Stop::new());
    let (delta, deltas) = unbounded();
    let (error, errors) = unbounded();
    let reflector = Reflector::new(script).clock(clock.clone()).on_error(move |e| {
        let _ = error.send(e.to_string());
    });
    let reflector = std::sync::Arc::new(with(reflector));
    let (running, token) = (reflector.clone(), stop.clone());
    let run = move || running.run(&token, &mut ToChannel(delta, Known::new()));
    let thread = std::thread::Builder::new().name("test-reflector".into()).spawn(run).unwrap();
    Running { server, clock, stop, deltas, errors, reflector, thread: Some(thread) }
}

impl Running {
    /// The next delta, as text.
    #[track_caller]
    pub(crate) fn delta(&self) -> String {
        told(&next(&self.deltas))
    }

    #[track_caller]
    pub(crate) fn expect(&self, deltas: &[&str]) {
        for delta in deltas {
            assert_eq!(self.delta(), *delta);
        }
    }

    /// Lets the wait that the reflector is in pass, and says how long it was.
    #[track_caller]
    pub(crate) fn wait_out(&self) -> Duration {
        timers(&self.clock, 1);
        let wait = self.clock.next_timer().unwrap_or_default();
        self.clock.advance(wait);
        wait
    }

    /// As long as a watch lasts normally.
    pub(crate) fn long_enough(&self) {
        self.clock.advance(Duration::from_secs(200));
    }

    /// Waits for the reflector's thread, which must end by itself.
    pub(crate) fn join(mut self) {
        ended(self.thread.take().unwrap());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

/// Fails the test if the thread does not end.
#[track_caller]
pub(crate) fn ended(thread: std::thread::JoinHandle<()>) {
    let (done, is_done) = bounded(1);
    let join = move || {
        let result = thread.join();
        let _ = done.send(result.is_ok());
    };
    std::thread::Builder::new().name("test-join".into()).spawn(join).unwrap();
    assert!(next(&is_done), "the thread panicked");
}

/// Waits until something holds that no channel tells of.
#[track_caller]
pub(crate) fn until(mut holds: impl FnMut() -> bool) {
    let clock = Clock::system();
    let end = clock.now() + PATIENCE;
    while !holds() {
        assert!(clock.now() < end, "it did not come to hold");
        std::thread::yield_now();
    }
}

/// Waits until so many threads wait for a time of this clock.
#[track_caller]
pub(crate) fn timers(clock: &Clock, count: usize) {
    let clock = clock.clone();
    soon(move || clock.wait_for_timers(count));
}

/// Runs what must return soon.
#[track_caller]
pub(crate) fn soon<T: Send + Debug + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, is_done) = bounded(1);
    let run = move || {
        let _ = done.send(f());
    };
    std::thread::Builder::new().name("test-soon".into()).spawn(run).unwrap();
    next(&is_done)
}

fn told(delta: &Delta<ConfigMap>) -> String {
    match delta {
        Delta::Upsert(object) => format!("upsert {}", text(&**object)),
        Delta::Delete { object: Some(object), .. } => format!("delete {}", text(&**object)),
        Delta::Delete { key, object: None } => format!("delete {key}"),
        Delta::Replace { items, unfit, resource_version, .. } => {
            let items: Vec<_> = items.iter().map(|item| text(&**item)).collect();
            let unfit: String = unfit.iter().map(|unfit| format!(" unfit {}", unfit.key)).collect();
            format!("replace [{}]{unfit} at {resource_version}", items.join(" "))
        }
        Delta::Bookmark(version) => format!("bookmark {version}"),
        Delta::Resync => "resync".into(),
    }
}
