//! A sidecar on a thread, its folder, and the server that it follows.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use listwatch::apiserver::ApiServer;
use listwatch::types::{ConfigMap, Secret};
use listwatch::{Api, Client, Clock, DeleteParams, Patch, PatchParams, PostParams, Stop};
use serde_json::{Value, json};

use crate::config_sync::sidecar::{Settings, Status, run};
use crate::eventually::eventually;

/// Longer than anything takes on a machine that is busy.
const LONG: Duration = Duration::from_secs(60);

/// An empty folder in one of its own, which is removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("lw-sync-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name).join("files");
        fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    /// All files but those of the sidecar's own, by path, with their content.
    pub(crate) fn files(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        self.gather(&self.0, &mut found);
        found
    }

    fn gather(&self, folder: &Path, found: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(&self.0).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() && !path.is_symlink() {
                self.gather(&path, found);
            } else if !path.file_name().unwrap().to_str().unwrap().starts_with(".config-sync.") {
                found
                    .insert(name, String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned());
            }
        }
    }

    /// The sidecar's own files with this ending.
    pub(crate) fn own(&self, ending: &str) -> Vec<PathBuf> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        let all = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        all.filter(|path| name(path).starts_with(".config-sync.") && name(path).ends_with(ending)).collect()
    }

    /// The one list of files, and what it says.
    pub(crate) fn state(&self) -> (PathBuf, Value) {
        let [path] = &self.own(".json")[..] else { panic!("not one list of files") };
        (path.clone(), serde_json::from_slice(&fs::read(path).unwrap()).unwrap())
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, files: &[(&str, &str)]) {
        let wanted = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let mut now = BTreeMap::new();
        let (clock, stop) = (Clock::system(), Stop::new());
        let deadline = clock.now() + LONG;
        while now != wanted {
            assert!(clock.now() < deadline, "has {now:?}, not {wanted:?}");
            stop.sleep(Duration::from_millis(5));
            now = self.files();
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(self.0.parent().unwrap()));
    }
}

pub(crate) struct Rig {
    pub(crate) server: ApiServer,
    pub(crate) folder: Folder,
    pub(crate) clock: Clock,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self { server: ApiServer::start().unwrap(), folder: Folder::new(), clock: Clock::system() }
    }

    /// With a clock that stands until it is advanced.
    pub(crate) fn timeless() -> Self {
        Self { clock: Clock::manual(), ..Self::new() }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.server.client().unwrap().config().clone().with_clock(self.clock.clone())).unwrap()
    }

    pub(crate) fn settings(&self, more: &[(&str, &str)]) -> Settings {
        let mut variables = BTreeMap::from([("LABEL", "app"), ("RESOURCE", "both")]);
        let folder = self.folder.0.to_str().unwrap();
        variables.insert("FOLDER", folder);
        variables.extend(more.iter().copied());
        Settings::read(&|name| variables.get(name).map(|value| (*value).to_owned())).unwrap()
    }

    /// Starts one, and waits for its first mirror.
    pub(crate) fn start(&self, more: &[(&str, &str)]) -> Sidecar {
        let sidecar = self.start_early(more);
        eventually("ready", || sidecar.get("/readyz").0 == 200);
        sidecar
    }

    /// Starts one and waits for nothing.
    pub(crate) fn start_early(&self, more: &[(&str, &str)]) -> Sidecar {
        let (settings, client, stop) = (self.settings(more), self.client(), Stop::new());
        let status = Status::default();
        let probes = status.serve("127.0.0.1:0", &stop).unwrap();
        let address = probes.address();
        let stopping = stop.clone();
        let run = move || {
            let _probes = probes;
            run(settings, &client, &stopping, &status).unwrap();
        };
        let thread = thread::Builder::new().name("sidecar".into()).spawn(run).unwrap();
        Sidecar { stop, address, thread: Some(thread) }
    }

    /// Mirrors once.
    pub(crate) fn once(&self, more: &[(&str, &str)]) -> Result<(), String> {
        let settings = self.settings(&[more, &[("METHOD", "LIST")]].concat());
        run(settings, &self.client(), &Stop::new(), &Status::default()).map_err(|e| e.to_string())
    }

    pub(crate) fn apply(&self, name: &str, data: Value) {
        self.apply_with(name, json!({}), data);
    }

    /// A ConfigMap with the label, with these annotations.
    pub(crate) fn apply_with(&self, name: &str, annotations: Value, data: Value) {
        let map = json!({
            "metadata": {"name": name, "labels": {"app": "x"}, "annotations": annotations},
            "data": data,
        });
        self.create(name, &map);
    }

    /// Creates this ConfigMap, or changes it into this one.
    pub(crate) fn create(&self, name: &str, map: &Value) {
        let api = Api::<ConfigMap>::namespaced(&self.server.client().unwrap(), "default");
        let map: ConfigMap = serde_json::from_value(map.clone()).unwrap();
        match api.get_opt(name).unwrap() {
            None => api.create(&PostParams::default(), &map).unwrap(),
            Some(_) => api.replace(name, &PostParams::default(), &map).unwrap(),
        };
    }

    pub(crate) fn create_secret(&self, secret: Value) {
        let api = Api::<Secret>::namespaced(&self.server.client().unwrap(), "default");
        api.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).unwrap();
    }

    pub(crate) fn patch(&self, name: &str, patch: Value) {
        let api = Api::<ConfigMap>::namespaced(&self.server.client().unwrap(), "default");
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).unwrap();
    }

    pub(crate) fn delete(&self, name: &str) {
        let api = Api::<ConfigMap>::namespaced(&self.server.client().unwrap(), "default");
        api.delete(name, &DeleteParams::default()).unwrap();
    }
}

/// Stops it when dropped.
pub(crate) struct Sidecar {
    pub(crate) stop: Stop,
    pub(crate) address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Sidecar {
    /// Code and body.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        get(self.address, path)
    }

    /// The value of a metric.
    #[track_caller]
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.get("/metrics").1;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("config_sync_")?.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    /// Ends it as SIGTERM does.
    pub(crate) fn end(mut self) {
        self.stop.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

pub(crate) fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}
