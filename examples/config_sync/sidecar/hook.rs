//! What is told to the program beside us when its files have changed.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select};
use listwatch::client::{Method, RawRequest};
use listwatch::{Client, Clock, Config, Credentials, Stop};
use log::{debug, info, warn};
use rustix::process::{Pid, Signal, kill_process};

use super::Failure;
use super::tally::Tally;

/// Files that change within this time of each other are one burst.
const QUIET: Duration = Duration::from_millis(250);
/// A burst that goes on is told of all the same.
const LONGEST_BURST: Duration = Duration::from_secs(5);
/// Between tries, twice as long each time.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) enum Hook {
    Call(Box<Call>),
    Signal(Signal, Process),
}

/// An HTTP request.
pub(crate) struct Call {
    client: Client,
    request: RawRequest,
    /// Without its query, which may hold a secret.
    shown: String,
    query: String,
}

#[derive(Debug)]
pub(crate) enum Process {
    PidFile(PathBuf),
    Name(String),
}

impl Hook {
    /// Once, but for the processes that were told already.
    fn run(&self, told: &mut HashSet<Pid>, stop: &Stop) -> Result<(), Failure> {
        match self {
            Self::Call(call) => {
                let done = call.client.with_stop(stop).request_bytes(&call.request);
                done.map_err(|e| e.to_string().replace(&call.query, ""))?;
            }
            Self::Signal(signal, process) => {
                let mut failed = Ok(());
                for id in process.find()? {
                    if told.contains(&id) {
                        continue;
                    }
                    match kill_process(id, *signal) {
                        Ok(()) => drop(told.insert(id)),
                        Err(e) => failed = Err(format!("process {}: {e}", id.as_raw_nonzero())),
                    }
                }
                failed?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(call) => write!(f, "{}", call.shown),
            Self::Signal(signal, Process::Name(name)) => write!(f, "{signal:?} to {name}"),
            Self::Signal(signal, Process::PidFile(file)) => {
                write!(f, "{signal:?} to the process of {}", file.display())
            }
        }
    }
}

impl Call {
    /// The client of the API server does for any server: limits of time, TLS with the system's authorities, stopping.
    pub(crate) fn new(
        url: &str,
        post: bool,
        payload: Option<String>,
        timeout: Duration,
        user: Option<(String, String)>,
    ) -> Result<Self, Failure> {
        let (scheme, rest) = url.split_once("://").ok_or("REQ_URL is not http://… or https://…")?;
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let mut config = Config::new(&format!("{scheme}://{host}"))
            .map_err(|e| format!("REQ_URL: {e}"))?
            .with_timeout(timeout);
        if let Some((user, password)) = user {
            config = config.with_credentials(Credentials::basic(&user, &password));
        }
        let method = if post { Method::Post } else { Method::Get };
        let (bare, query) = path.split_at(path.find('?').unwrap_or(path.len()));
        let (shown, query) = (format!("{method} {}{bare}", config.server()), query.to_owned());
        let mut request = RawRequest::new(method, path);
        if let Some(payload) = payload.filter(|_| post) {
            // As k8s-sidecar: what is no JSON is sent as a JSON text.
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&payload).is_ok();
            let body = if is_json { payload } else { serde_json::Value::from(payload).to_string() };
            request = request.body("application/json", body.into_bytes());
        }
        Ok(Self { client: Client::new(config)?, request, shown, query })
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Process {
    fn find(&self) -> Result<Vec<Pid>, Failure> {
        match self {
            Self::PidFile(file) => {
                let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
                let id = text.trim().parse().ok().filter(|id| *id > 1).and_then(Pid::from_raw);
                // Ids 0 and below are groups of processes; 1 is the init of a container, which is not what a file says.
                Ok(vec![id.ok_or_else(|| format!("{} holds no process id", file.display()))?])
            }
            Self::Name(name) => named(name),
        }
    }
}

/// The processes of this name whose parent has another.
fn named(name: &str) -> Result<Vec<Pid>, Failure> {
    let name_of = |id: i32| std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
    let is = |id: i32| name_of(id).trim_end() == name;
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").map_err(|e| format!("/proc: {e}"))?.flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if is(id) && !parent(id).is_some_and(is) {
            found.extend(Pid::from_raw(id));
        }
    }
    found.retain(|id| *id != rustix::process::getpid());
    if found.is_empty() {
        return Err(format!("no process is named {name:?}: is shareProcessNamespace set?").into());
    }
    Ok(found)
}

/// The fourth field of `/proc/ID/stat`, behind the name in parentheses, which may hold anything.
fn parent(id: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

pub(crate) fn signal(name: &str) -> Option<Signal> {
    Some(match name.trim_start_matches("SIG") {
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "QUIT" => Signal::QUIT,
        "TERM" => Signal::TERM,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        "WINCH" => Signal::WINCH,
        _ => return None,
    })
}

/// Runs the hooks on a thread of its own, so that a program that is slow to reload holds up no file.
pub(crate) struct Teller {
    changed: Sender<()>,
    thread: JoinHandle<()>,
}

impl Teller {
    pub(crate) fn start(hooks: Vec<Hook>, clock: Clock, tally: Tally, stop: &Stop) -> Result<Self, Failure> {
        let (changed, changes) = bounded(1);
        let stop = stop.clone();
        let thread = thread::Builder::new().name("hooks".into()).spawn(move || {
            let (mut round, mut delay) = (Round::default(), FIRST_DELAY);
            while let Some(changed) = wait(&changes, round.left().then_some(delay), &clock, &stop) {
                if changed {
                    (round, delay) = (Round::of(&hooks), FIRST_DELAY);
                } else {
                    delay = (delay * 2).min(LONGEST_DELAY);
                }
                round.run(Some(delay), &tally, &stop);
            }
        })?;
        Ok(Self { changed, thread })
    }

    /// Files have changed.
    pub(crate) fn changed(&self) {
        let _ = self.changed.try_send(()); // full: it will be told anyway
    }

    /// Waits for the end of the thread, once stopped.
    pub(crate) fn join(self) {
        drop(self.thread.join());
    }
}

/// Waits for a change and for the end of its burst, or for the next try if there is one. Returns whether something has
/// changed; `None` once stopped.
fn wait(changes: &Receiver<()>, again: Option<Duration>, clock: &Clock, stop: &Stop) -> Option<bool> {
    match again.map(|delay| clock.now() + delay) {
        None => select! {
            recv(changes) -> _ => {}
            recv(stop.signal()) -> _ => return None,
        },
        // In pieces, as a change does not wait for the next try.
        Some(next) => {
            while changes.try_recv().is_err() {
                if clock.now() >= next {
                    return Some(false);
                }
                if clock.sleep(QUIET, stop) {
                    return None;
                }
            }
        }
    }
    let end = clock.now() + LONGEST_BURST;
    loop {
        if clock.sleep(QUIET, stop) {
            return None;
        }
        if changes.try_recv().is_err() || clock.now() >= end {
            return Some(true);
        }
    }
}

/// The hooks that have not succeeded since the last change, each with the processes that were told.
#[derive(Default)]
pub(crate) struct Round<'a>(Vec<(&'a Hook, HashSet<Pid>)>);

impl<'a> Round<'a> {
    pub(crate) fn of(hooks: &'a [Hook]) -> Self {
        Self(hooks.iter().map(|hook| (hook, HashSet::new())).collect())
    }

    /// Whether there are any.
    pub(crate) fn left(&self) -> bool {
        !self.0.is_empty()
    }

    /// One try of each. `again`: when the next one of those that fail will be.
    pub(crate) fn run(&mut self, again: Option<Duration>, tally: &Tally, stop: &Stop) {
        self.0.retain_mut(|(hook, told)| {
            debug!("{hook}: now");
            let Err(e) = hook.run(told, stop) else {
                tally.hooks_done.add();
                info!("{hook}: done");
                return false;
            };
            tally.hooks_failed.add();
            match again {
                Some(delay) => warn!("{hook}: {e}; again in {delay:?}"),
                None => warn!("{hook}: {e}"),
            }
            true
        });
    }
}
