//! A program that lives for months: its token, the authority and certificate of the server, and its own certificate are
//! replaced one after another, while an informer follows and requests are sent without a pause.
//!
//! Nothing waits for time to pass: each step goes on when enough requests have been answered and the informer has seen
//! what was changed. The program's clock stands still where a refusal is to make it look at its files, and is moved where
//! it is to look by itself.

#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/trace.rs"]
mod trace;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use listwatch::apiserver::faults::{Effect, Fault};
use listwatch::config::{ClientCertificate, Pem, TlsOptions};
use listwatch::types::ConfigMap;
use listwatch::{
    Api, ApiServer, Client, Clock, Config, Credentials, DeleteParams, Handlers, Informer, ListParams,
    ObjectMeta, PostParams, Resource, Stop,
};

const SOON: Duration = Duration::from_secs(60);
/// The time of a call: the clock is moved while calls are under way.
const LONG: Duration = Duration::from_secs(24 * 3600);
/// How many threads send requests, and how many each has to get through before the next step.
const THREADS: usize = 4;
const ROUNDS: usize = 5;

fn pki(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client/pki").join(name)
}

fn text(names: &[&str]) -> Vec<u8> {
    names.iter().flat_map(|name| fs::read(pki(name)).unwrap()).collect()
}

/// What a program is given: files in a directory, which is removed when dropped.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        trace::start();
        let files =
            Self(std::env::temp_dir().join(format!("listwatch-rotation-{name}-{}", std::process::id())));
        fs::create_dir_all(&files.0).unwrap();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// In one step, as who rotates files does.
    fn set(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path("new"), text).unwrap();
        fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    fn set_pair(&self, from: &str) {
        // Between the two the pair does not match, and requests go on.
        self.set("tls.crt", text(&[&format!("{from}.pem")]));
        self.set("tls.key", text(&[&format!("{from}.key.pem")]));
    }

    fn config(&self, server: &ApiServer) -> Config {
        let pem = |name| Pem::File(self.path(name));
        let pair = ClientCertificate { certificate: pem("tls.crt"), key: pem("tls.key") };
        let tls =
            TlsOptions { ca: Some(pem("ca.crt")), client_certificate: Some(pair), ..TlsOptions::default() };
        Config::new(&server.url())
            .unwrap()
            .with_tls(tls)
            .with_credentials(Credentials::token_file(self.path("token")))
            .with_timeout(LONG)
            .with_connect_timeout(SOON)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta::named(name), ..ConfigMap::default() }
}

/// Sends requests of each kind until told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    failed: Arc<Mutex<Vec<String>>>,
    sent: Arc<AtomicUsize>,
    /// A message for each round of a thread.
    rounds: Receiver<usize>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Load {
    fn start(client: &Client) -> Self {
        let (told, rounds) = unbounded();
        let mut load = Self {
            stop: Arc::default(),
            failed: Arc::default(),
            sent: Arc::default(),
            rounds,
            threads: Vec::new(),
        };
        for number in 0..THREADS {
            let maps = Api::<ConfigMap>::default_namespaced(client);
            let (stop, failed, sent) = (load.stop.clone(), load.failed.clone(), load.sent.clone());
            let told = told.clone();
            let run = move || Self::run(number, &maps, &stop, &failed, &sent, &told);
            load.threads.push(thread::Builder::new().name(format!("load-{number}")).spawn(run).unwrap());
        }
        load
    }

    fn run(
        number: usize,
        maps: &Api<ConfigMap>,
        stop: &AtomicBool,
        failed: &Mutex<Vec<String>>,
        sent: &AtomicUsize,
        told: &Sender<usize>,
    ) {
        let name = format!("load-{number}");
        let note = |what: &str, done: listwatch::Result<()>| {
            sent.fetch_add(1, Ordering::Relaxed);
            if let Err(e) = done {
                failed.lock().unwrap().push(format!("{what}: {e}"));
            }
        };
        while !stop.load(Ordering::Relaxed) {
            note("create", maps.create(&PostParams::default(), &map(&name)).map(drop));
            note("get", maps.get(&name).map(drop));
            note("list", maps.list(&ListParams::default().limit(5)).map(drop));
            note("delete", maps.delete(&name, &DeleteParams::default()).map(drop));
            let _ = told.send(number); // nobody may listen any more
        }
    }

    /// Waits until each thread has begun and ended some rounds from now on.
    fn go_on(&self) {
        self.rounds.try_iter().for_each(drop);
        let mut rounds = [0; THREADS];
        while rounds.iter().any(|done| *done <= ROUNDS) {
            rounds[self.rounds.recv_timeout(SOON).expect("requests are answered")] += 1;
        }
        assert_eq!(*self.failed.lock().unwrap(), [""; 0]);
    }

    fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*self.failed.lock().unwrap(), [""; 0]);
        self.sent.load(Ordering::Relaxed)
    }
}

/// One program and its server.
struct Scene {
    files: Files,
    server: ApiServer,
    /// The program's; the server has its own.
    clock: Clock,
    /// Of the test: it is not to be disturbed by what the program meets.
    own: Api<ConfigMap>,
    own_files: Files,
    informer: Informer<ConfigMap>,
    seen: Receiver<String>,
    load: Load,
}

impl Scene {
    fn watches(&self) -> u64 {
        self.informer.health().watches
    }

    /// The test's own way in is kept as it has to be, before the server changes.
    fn own_api(&self) -> Api<ConfigMap> {
        let config = self.own_files.config(&self.server);
        Api::default_namespaced(&Client::new(config).unwrap())
    }

    /// After a step: requests are answered, and the informer sees a change on the watch that it has, then another
    /// after its watch was ended by the server: on one that it made with what is valid now.
    fn check(&mut self, step: &str) {
        self.own = self.own_api();
        self.load.go_on();
        let before = self.watches();
        self.change(&format!("{step}-before"));
        assert_eq!(self.watches(), before, "{step}: the watch went on");
        // It is met when it is taken, and has its effect while it is kept.
        let end = self.server.inject(Fault::new(Effect::EndAfter(0)).watches().once());
        assert!(end.wait_for_hit(SOON), "{step}");
        self.change(&format!("{step}-after"));
        assert_eq!(self.watches(), before + 1, "{step}: opened anew once");
        self.load.go_on();
    }

    /// Makes an object, and waits until the informer has told of it.
    fn change(&self, name: &str) {
        self.own.create(&PostParams::default(), &map(name)).unwrap();
        for _ in 0..3000 {
            match self.seen.recv_timeout(Duration::from_millis(20)) {
                Ok(seen) if seen == name => return,
                Ok(_) => {}
                // A wait before a watch is opened anew is one of the program's clock.
                Err(_) => self.clock.next_timer().into_iter().for_each(|wait| self.clock.advance(wait)),
            }
        }
        panic!("{name} is not seen: {:?}", self.informer.health());
    }
}

/// `looks`: the program's clock is moved after each change, so that it finds by itself what is new.
fn rotate(name: &str, looks: bool) {
    let (files, own_files) = (Files::new(name), Files::new(&format!("{name}-own")));
    let set_both =
        |name: &str, text: &[u8]| [&files, &own_files].iter().for_each(|files| files.set(name, text));
    set_both("ca.crt", &text(&["ca.pem"]));
    set_both("token", b"s3cret-one");
    [&files, &own_files].iter().for_each(|files| files.set_pair("ec-sec1"));
    let chain = |server: &str, ca: &str| Pem::Data(text(&[&format!("{server}.pem"), &format!("{ca}.pem")]));
    let key = |server: &str| Pem::File(pki(&format!("{server}.key.pem")));
    let server =
        ApiServer::builder().tls(chain("server", "ca"), key("server")).token("s3cret-one").start().unwrap();

    let (clock, stop) = (Clock::manual(), Stop::new());
    let client = Client::new(files.config(&server).with_clock(clock.clone())).unwrap();
    let informer = Informer::builder(Api::<ConfigMap>::default_namespaced(&client));
    let failed = Arc::new(Mutex::new(Vec::new()));
    let note = failed.clone();
    let note = move |e: &listwatch::Error| note.lock().unwrap().push(e.to_string());
    let informer = informer.clock(clock.clone()).on_error(note).build().unwrap();
    let (tell, seen) = unbounded();
    let handlers = Handlers::<ConfigMap>::new().on_add(move |map, _| {
        if !map.name().starts_with("load-") {
            let _ = tell.send(map.name().to_owned());
        }
    });
    informer.add_handler(handlers).unwrap();
    informer.start(&stop).unwrap();
    informer.wait_for_sync(SOON).unwrap();
    let own = Api::default_namespaced(&Client::new(own_files.config(&server)).unwrap());
    let load = Load::start(&client);
    let mut scene = Scene { files, server, clock, own, own_files, informer, seen, load };
    scene.check("start");
    let due = |scene: &Scene| {
        if looks {
            scene.clock.advance(Duration::from_secs(60));
            scene.load.go_on();
        }
    };

    // The server has one token only.
    scene.files.set("token", "s3cret-two");
    scene.own_files.set("token", "s3cret-two");
    scene.server.set_token("s3cret-two");
    due(&scene);
    scene.check("token");

    // As a cluster does it: the files first, and what they hold is good before what they held is no more.

    for files in [&scene.files, &scene.own_files] {
        files.set("ca.crt", text(&["ca.pem", "other-ca.pem"]));
    }
    due(&scene);
    scene.server.set_tls(chain("other-server", "other-ca"), key("other-server")).unwrap();
    scene.check("server");
    for files in [&scene.files, &scene.own_files] {
        files.set("ca.crt", text(&["other-ca.pem"]));
    }
    due(&scene);
    scene.check("authority");

    scene.server.set_client_authority(&Pem::Data(text(&["ca.pem", "other-ca.pem"]))).unwrap();
    scene.check("named");
    scene.files.set_pair("other-client");
    scene.own_files.set_pair("other-client");
    due(&scene);
    scene.server.set_client_authority(&Pem::File(pki("other-ca.pem"))).unwrap();
    scene.check("client");

    let sent = scene.load.end();
    // By a clock that stands still a watch takes no time.
    let mut failed = std::mem::take(&mut *failed.lock().unwrap());
    failed.retain(|e| e != "the server ended the watch at once");
    assert_eq!((scene.informer.health().lists, failed), (1, Vec::new()));
    stop.stop();
    scene.informer.join();
    println!("{name}: {sent} requests, none failed");
}

#[test]
fn nothing_fails_while_files_are_looked_at_in_time() {
    rotate("looks", true);
}

#[test]
fn nothing_fails_while_refusals_tell_that_files_have_changed() {
    rotate("refusals", false);
}
