//! The listener and its connections: one thread for each, all joined on stop.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::object::Time;
use crate::stop::Stop;

use super::http::{Connection, NoRequest, Request};
use super::routes::{Answer, answer};
use super::store::State;
use super::watch::Watch;

/// How many requests the log keeps.
const LOG_LENGTH: usize = 10_000;
/// Objects are trees of at most 128 levels, which fits with room to spare.
const STACK: usize = 1024 * 1024;

/// What the server was started with.
#[derive(Clone)]
pub(super) struct Options {
    pub(super) port: u16,
    pub(super) history: usize,
    pub(super) bookmark_every: Duration,
    pub(super) clock: Clock,
    pub(super) token: Option<String>,
}

/// What all connections share. No lock is taken while another is held.
pub(super) struct Server {
    pub(super) options: Options,
    pub(super) clock: Clock,
    pub(super) stop: Stop,
    state: Mutex<State>,
    log: Mutex<VecDeque<String>>,
    connections: Mutex<Vec<(TcpStream, JoinHandle<()>)>>,
    address: OnceLock<SocketAddr>,
}

impl Server {
    pub(super) fn new(options: Options) -> Self {
        let clock = options.clock.clone();
        Self {
            state: Mutex::new(State::new(clock.clone(), options.history)),
            clock,
            options,
            stop: Stop::new(),
            log: Mutex::default(),
            connections: Mutex::default(),
            address: OnceLock::new(),
        }
    }

    pub(super) fn set_address(&self, address: SocketAddr) {
        let _ = self.address.set(address); // set once, by the only caller
    }

    /// Host and port, as clients reach it.
    pub(super) fn address(&self) -> String {
        self.address.get().map(SocketAddr::to_string).unwrap_or_default()
    }

    /// The objects. Held for one read or one write, never over I/O.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn log(&self) -> Vec<String> {
        lock(&self.log).iter().cloned().collect()
    }

    /// Now: for the ages in tables.
    pub(super) fn now(&self) -> Time {
        self.clock.wall().into()
    }

    /// Whether the credentials of a request are accepted.
    pub(super) fn admits(&self, request: &Request) -> bool {
        let Some(token) = &self.options.token else { return true };
        request.authorization.strip_prefix("Bearer ").is_some_and(|sent| sent.trim() == token)
    }

    fn note(&self, request: &Request) {
        let mark = if request.query_text.is_empty() { "" } else { "?" };
        let line = format!("{} {}{mark}{}", request.method, request.path, request.query_text);
        let mut log = lock(&self.log);
        log.push_back(line);
        if log.len() > LOG_LENGTH {
            log.pop_front();
        }
    }

    /// Answers the requests of a connection until it ends.
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut connection = Connection::new(stream);
        while !self.stop.is_stopped() {
            let request = match connection.request() {
                Ok(request) => request,
                Err(NoRequest::Ended) => break,
                Err(NoRequest::Bad(failure)) => {
                    connection.respond(&failure.into(), false)?;
                    connection.drain();
                    break;
                }
            };
            self.note(&request);
            // An answer to HEAD has no body, and no method that is served is HEAD.
            let keep_alive = request.keep_alive && request.method != "HEAD";
            match answer(self, &request) {
                Answer::Whole(response) => connection.respond(&response, keep_alive)?,
                Answer::Watch(watch) => self.stream(&mut connection, *watch, keep_alive)?,
            }
            if !keep_alive {
                break;
            }
        }
        Ok(())
    }

    fn stream(&self, connection: &mut Connection, watch: Watch, keep_alive: bool) -> io::Result<()> {
        connection.begin_stream(keep_alive)?;
        watch.run(self, connection)?;
        connection.last_chunk()
    }

    fn accept(self: &Arc<Self>, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let handle = stream.try_clone()?;
        let server = Arc::clone(self);
        let thread =
            Builder::new().name("apiserver-connection".into()).stack_size(STACK).spawn(move || {
                let peer = stream.try_clone();
                if let Err(e) = server.serve(stream) {
                    log::debug!("apiserver: a connection ended: {e}");
                }
                if let Ok(peer) = peer {
                    let _ = peer.shutdown(Shutdown::Both); // the handle kept for `stop` would hold it open
                }
            })?;
        let mut connections = lock(&self.connections);
        connections.retain(|(_, thread)| !thread.is_finished());
        connections.push((handle, thread));
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that accepts connections.
pub(super) struct Listener {
    pub(super) address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    pub(super) fn start(server: &Arc<Server>) -> Result<Self> {
        let failed =
            |what: &str, e: io::Error| Error::config(format!("embedded API server: {what}")).with_source(e);
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, server.options.port))
            .map_err(|e| failed(&format!("listen on 127.0.0.1:{}", server.options.port), e))?;
        let address = socket.local_addr().map_err(|e| failed("read its address", e))?;
        let server = Arc::clone(server);
        let run = move || {
            for stream in socket.incoming() {
                if server.stop.is_stopped() {
                    break;
                }
                if let Err(e) = stream.and_then(|stream| server.accept(stream)) {
                    log::warn!("apiserver: cannot accept a connection: {e}");
                    server.stop.sleep(Duration::from_millis(50)); // out of descriptors or threads: not in a tight loop
                }
            }
        };
        let thread = Builder::new().name("apiserver-listener".into()).stack_size(STACK).spawn(run);
        Ok(Self { address, thread: Some(thread.map_err(|e| failed("start a thread", e))?) })
    }

    /// Ends the listener and all connections, and returns when their threads have ended.
    pub(super) fn stop(&mut self, server: &Server) {
        server.stop.stop();
        let Some(listener) = self.thread.take() else { return };
        // A connection is what wakes a thread in accept, on every system.
        let woken = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        if woken.is_ok() {
            let _ = listener.join(); // a panic was reported by its thread
        }
        let connections = std::mem::take(&mut *lock(&server.connections));
        for (stream, _) in &connections {
            let _ = stream.shutdown(Shutdown::Both);
        }
        for (_, thread) in connections {
            let _ = thread.join();
        }
    }
}
