//! Watches: what is there if asked, then each change as a line of JSON.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvError, select};

use crate::object::Time;

use super::answer::{Cause, Failure, Outcome};
use super::faults::Frames;
use super::http::Request;
use super::kinds::Kind;
use super::routes::Call;
use super::selector::Filter;
use super::server::Server;
use super::store::{Change, Changes, Object};
use super::tree::metadata;
use super::view::View;

/// How long a watch lasts for which no time was asked.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// A watch that was accepted.
pub(super) struct Watch {
    kind: Arc<Kind>,
    filter: Filter,
    view: View,
    /// The objects that are told as ADDED, or the failure that is told instead of all.
    initial: Result<Vec<Arc<Object>>, Failure>,
    /// Changes between the version asked for and the beginning of `changes`.
    backlog: Vec<Arc<Change>>,
    changes: Changes,
    /// Changes up to this version are not told.
    from: u64,
    bookmarks: bool,
    /// A bookmark with the annotation of the end of the initial events follows those.
    tells_initial_end: bool,
    /// The version that the initial events show.
    version: u64,
    deadline: Instant,
    /// How often the server had been restored when this began.
    restored: u64,
}

/// Checks a watch and takes hold of its place in history.
pub(super) fn watch(call: &Call<'_>, request: &Request) -> Outcome<Watch> {
    let view = View::of(request)?;
    let query = &request.query;
    let filter = Filter::of(call, request)?;
    let streams_list = check_options(request)?;
    let bookmarks = query.is_true("allowWatchBookmarks");
    let asked = match query.get("resourceVersion") {
        "" => None,
        text => Some(text.parse::<u64>().map_err(|_| Failure::bad_version(text))?),
    };
    let lasts = query.number("timeoutSeconds")?.filter(|s| *s > 0).map_or(LONGEST, Duration::from_secs);

    let mut state = call.server.state();
    let from_now = matches!(asked, None | Some(0));
    let version = state.version;
    let future = asked.filter(|asked| streams_list && *asked > version);
    let (initial, backlog, from) = if let Some(asked) = future {
        (Err(Failure::version_too_large(asked, version)), Vec::new(), version)
    } else if streams_list || (from_now && query.get("sendInitialEvents").is_empty()) {
        let objects =
            state.objects(&call.kind.table).values().filter(|o| filter.matches(o)).cloned().collect();
        (Ok(objects), Vec::new(), version)
    } else if from_now {
        (Ok(Vec::new()), Vec::new(), version)
    } else {
        let from = asked.unwrap_or(version);
        match state.changes_since(&call.kind.table, from) {
            Some(backlog) => (Ok(Vec::new()), backlog, from),
            None => (Err(Failure::too_old(from, state.compacted)), Vec::new(), from),
        }
    };
    Ok(Watch {
        initial,
        backlog,
        changes: state.watch(&call.kind.table),
        from,
        bookmarks,
        tells_initial_end: bookmarks && (streams_list || asked == Some(0)),
        version,
        restored: state.restored,
        deadline: state.clock.now() + lasts.min(Duration::from_secs(86_400)),
        kind: Arc::clone(&call.kind),
        filter,
        view,
    })
}

/// The rules of apimachinery's `ValidateListOptions`, for watches. Returns whether the list is streamed.
fn check_options(request: &Request) -> Outcome<bool> {
    let query = &request.query;
    let (initial, matching) = (query.get("sendInitialEvents"), query.get("resourceVersionMatch"));
    let why = match (initial, matching) {
        ("", "") => return Ok(false),
        ("", _) => "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        (_, "NotOlderThan") => return Ok(query.is_true("sendInitialEvents")),
        (_, "") => "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        (_, other) => {
            let cause =
                Cause::not_supported("resourceVersionMatch", &format!("\"{other}\""), "\"NotOlderThan\"");
            return Err(Failure::invalid_options("ListOptions", vec![cause]));
        }
    };
    Err(Failure::invalid_options("ListOptions", vec![Cause::forbidden("resourceVersionMatch", why)]))
}

impl Watch {
    /// Writes frames until the time is over, the server stops, the client has gone, or a fault ends it; blocks
    /// meanwhile.
    pub(super) fn run(self, server: &Server, out: &mut Frames<'_>) -> io::Result<()> {
        out.check()?;
        let initial = match &self.initial {
            Ok(initial) => initial,
            Err(failure) => return out.send("ERROR", failure.to_json().as_bytes()),
        };
        let now = || server.now();
        for object in initial {
            out.send("ADDED", &self.view.object(&self.kind, object, now()))?;
        }
        // The version that the client knows from the last frame.
        let mut told = if initial.is_empty() { 0 } else { self.version };
        let mut bookmarked = 0;
        if self.tells_initial_end {
            out.send("BOOKMARK", &self.view.bookmark(&self.kind, self.version, true))?;
            (told, bookmarked) = (self.version, self.version);
        }
        for change in &self.backlog {
            told = self.tell(change, now(), out)?.unwrap_or(told);
        }
        // An interval without end is one way to say never.
        let next = || server.clock.now().checked_add(server.options.bookmark_every).unwrap_or(self.deadline);
        let mut next_bookmark = next();
        let stop = out.connection().stop().clone();
        let mut faults = server.faults.changed();
        out.check()?;
        loop {
            let timer = server.clock.timer(Some(next_bookmark.min(self.deadline)));
            let over;
            select! {
                recv(self.changes.receiver) -> change => match change {
                    Ok(change) => {
                        told = self.tell(&change, now(), out)?.unwrap_or(told);
                        continue;
                    }
                    // To restore a state, servers are stopped.
                    Err(RecvError) if server.state().restored != self.restored => {
                        return Err(io::ErrorKind::ConnectionAborted.into());
                    }
                    Err(RecvError) => return Ok(()),
                },
                recv(timer.channel()) -> _ => over = server.clock.now() >= self.deadline,
                recv(faults.signal()) -> _ => {
                    faults = server.faults.changed();
                    out.check()?;
                    continue;
                }
                recv(stop.signal()) -> _ => return Ok(()),
            }
            next_bookmark = next();
            // Only asked now and then: to know it at once would take a second thread for each watch.
            if out.connection().is_abandoned()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // All changes up to this version are in the channel: they are sent there under the lock.
            let mut version = server.state().version;
            for change in self.changes.receiver.try_iter() {
                version = version.max(change.version);
                told = self.tell(&change, now(), out)?.unwrap_or(told);
            }
            let version = version.max(self.from);
            let last_says_it = over && bookmarked == version && told <= version;
            if self.bookmarks && !last_says_it {
                out.send("BOOKMARK", &self.view.bookmark(&self.kind, version, false))?;
                bookmarked = version;
            }
            if over {
                return Ok(());
            }
        }
    }

    /// Tells a change as the selectors see it: what begins to match is added, what ends to match is deleted.
    fn tell(&self, change: &Change, now: Time, out: &mut Frames<'_>) -> io::Result<Option<u64>> {
        if change.version <= self.from {
            return Ok(None);
        }
        let matching = |object: &Option<Arc<Object>>| object.clone().filter(|o| self.filter.matches(o));
        let (name, object) = match (matching(&change.old), matching(&change.new)) {
            (None, None) => return Ok(None),
            (None, Some(new)) => ("ADDED", new),
            (Some(_), Some(new)) => ("MODIFIED", new),
            // The last state that matched, under the version of its end.
            (Some(old), None) => {
                let mut body = old.body.clone();
                metadata(&mut body).insert("resourceVersion".into(), change.version.to_string().into());
                ("DELETED", Arc::new(Object { key: old.key.clone(), body }))
            }
        };
        out.send(name, &self.view.object(&self.kind, &object, now))?;
        Ok(Some(change.version))
    }
}
