//! A sidecar that mirrors ConfigMaps and Secrets, chosen by label, into a directory, and then tells the program
//! beside it. Made to be deployed as it is: `Dockerfile` and `deploy/` are beside this file.
//!
//! It reads the environment variables of kiwigrid's k8s-sidecar:
//!
//! | variable | what it does |
//! |---|---|
//! | `LABEL`, `LABEL_VALUE` | which objects: those with this label, and this value if one is given. `LABEL` is required |
//! | `FOLDER` | where the files go. Required |
//! | `FOLDER_ANNOTATION` | the annotation of an object that names another folder for it, relative to `FOLDER` or absolute; `k8s-sidecar-target-directory` |
//! | `NAMESPACE` | names with commas between, or `ALL`; that of the pod |
//! | `RESOURCE` | `configmap` (if not given), `secret` or `both` |
//! | `METHOD` | `LIST` mirrors once and ends, for init containers; anything else watches |
//! | `UNIQUE_FILENAMES` | `true`: files are named `namespace_NS.configmap_NAME.KEY` |
//! | `DEFAULT_FILE_MODE` | of every file, in octal, its owner reads; `644` |
//! | `REQ_URL`, `REQ_METHOD`, `REQ_PAYLOAD` | the request to send when files have changed; `GET`, or `POST` with this payload |
//! | `REQ_USERNAME`, `REQ_PASSWORD` | its basic authentication |
//! | `REQ_TIMEOUT` | seconds that one try may take; 10 |
//! | `REQ_SKIP_INIT` | `true`: no request and no signal for the first mirror |
//! | `HEALTH_PORT` | `/healthz`, `/readyz` and `/metrics` (of the API client by the names of client-go, too); 8080 |
//! | `LOG_LEVEL` | `DEBUG`, `INFO`, `WARN` or `ERROR` |
//! | `KUBECONFIG` | read as kubectl does, if built with the feature `kubeconfig`; else the pod's service account |
//!
//! And these of its own:
//!
//! | variable | what it does |
//! |---|---|
//! | `ALLOWED_FOLDERS` | absolute folders, with commas between, below which annotations may lead, beside `FOLDER` |
//! | `SIGNAL` | `HUP` and so on: sent when files have changed, to the process that one of the next two names |
//! | `SIGNAL_PID_FILE` | a file that holds its id |
//! | `SIGNAL_PROCESS` | its name as in `/proc/ID/comm`; where a parent and its children have it, the parent gets it |
//! | `API_SERVER` | `http://127.0.0.1:8001` beside `kubectl proxy` |
//!
//! A signal needs `shareProcessNamespace: true` in the pod, and the user of that process or `CAP_KILL`.
//!
//! Not taken over: `SCRIPT` (there is no shell in the image), `RESOURCE_NAME` and the variables that turn off TLS's checks
//! are refused; keys that end in `.url` are files as any others and nothing is downloaded; `METHOD=SLEEP` watches; those
//! of retries and watches (`REQ_RETRY_…`, `WATCH_…`, `ERROR_THROTTLE_SLEEP`) are not read, as neither is ever given up.
//!
//! # What it promises
//!
//! - **A file is replaced as a whole**, by renaming: a reader sees the old content or the new. Equal content is left
//!   alone, so nothing that watches the folder wakes for it. Temporary files are `.config-sync.….tmp`.
//! - **What goes is removed**: with the object, the key, its label, or when its annotation names another folder. Folders stay.
//! - **Two objects, one file**: the older object has it, whichever came first to us (of the same second: a ConfigMap before a
//!   Secret, then by name); the log says so. When it goes, the other's content is written.
//! - **Nothing outside of `FOLDER` and `ALLOWED_FOLDERS`** is written or removed: `..` in an annotation or a key is refused,
//!   and so is a folder that is a symbolic link. The log and `config_sync_refused` tell.
//! - **A restart** finds the files that it wrote in `FOLDER/.config-sync.SELECTION.json`, and removes those whose objects have gone
//!   meanwhile. What others put there is left alone, unless an object has a file of that name. All files are compared
//!   with the objects, so a torn one is mended. While it runs, what others do to its files is mended with the next
//!   change of their object.
//! - **Several may share a `FOLDER`** if they choose different objects: an init container with one label and a watcher with
//!   another, say. Each has a list of its own by `LABEL`, `LABEL_VALUE`, `RESOURCE` and `NAMESPACE`, and removes what is in it
//!   alone; so what was mirrored by another choice stays when these change. They should have no file in common: the last
//!   that writes has it, and the first that loses its object removes it. A second with the same choice ends with an error
//!   while the first runs.
//! - **One bad object** holds up no other and keeps no pod from starting: `/readyz` is well when each was tried. What cannot be
//!   written (a file is where its folder belongs) is logged, counted by `config_sync_failing` and tried again; what never can
//!   (too long a name) by `config_sync_refused`. `METHOD=LIST` warns of both, and ends with an error where the fault is the
//!   folder's (a full disk).
//! - **The request and the signal** come after the files are there, once for a burst, and each is tried until it succeeds, or
//!   the next change; `METHOD=LIST` tries five times and then ends with a warning, as the program may not run yet. Any
//!   answer of 2xx is success; redirects are not followed and count as failures. After the start they come even if nothing
//!   changed, as a change may have been the last thing before the end.
//! - **An API server that is away** changes nothing: the files stay, `/healthz` and `/readyz` stay as they were.
//!
//! ```text
//! LABEL=app FOLDER=/tmp/files cargo run --example config_sync
//! ```

pub(crate) mod sidecar;

use std::process::ExitCode;
use std::thread;

use listwatch::{Client, Config, Stop};
use log::{LevelFilter, error, info};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use sidecar::{Failure, Settings, Status};

pub(crate) fn main() -> ExitCode {
    let read = |name: &str| std::env::var(name).ok();
    let level = read("LOG_LEVEL").and_then(|level| level.parse().ok()).unwrap_or(LevelFilter::Info);
    if log::set_logger(&Stderr).is_ok() {
        log::set_max_level(level);
    }
    match start(&read) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            error!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn start(read: &dyn Fn(&str) -> Option<String>) -> Result<(), Failure> {
    let settings = Settings::read(read)?;
    let config = match read("API_SERVER") {
        Some(server) => Config::new(&server)?,
        None => Config::infer()?,
    };
    let stop = Stop::new();
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let handle = signals.handle();
    let stopping = stop.clone();
    let waiting = thread::Builder::new().name("signals".into()).spawn(move || {
        if signals.forever().next().is_some() {
            info!("stopping, as told by a signal");
            stopping.stop();
        }
    })?;
    let status = Status::default();
    let at = ("0.0.0.0", settings.health_port);
    let probes = match settings.once {
        true => None,
        false => Some(status.serve(at, &stop).map_err(|e| format!("HEALTH_PORT {}: {e}", at.1))?),
    };
    let done = sidecar::run(settings, &Client::new(config)?, &stop, &status);
    drop(probes);
    handle.close();
    drop(waiting.join());
    done
}

struct Stderr;

impl log::Log for Stderr {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    /// Without the time: whoever collects the lines knows it.
    fn log(&self, record: &log::Record<'_>) {
        eprintln!("{:5} {}: {}", record.level(), record.target(), record.args());
    }

    fn flush(&self) {}
}
