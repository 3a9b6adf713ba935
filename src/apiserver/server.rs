//! The listener and its connections: one thread for each, all joined on stop and pause.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::clock::Clock;
use crate::config::Pem;
use crate::error::{Error, Result};
use crate::object::Time;
use crate::stop::Stop;

use super::faults::{Faults, Frames, Instead};
use super::http::{Connection, NoRequest, Request};
use super::routes::{Answer, answer};
use super::store::{Key, State};
use super::tls::{Files, Tls};
use super::watch::Watch;

/// How many requests the log keeps.
const LOG_LENGTH: usize = 10_000;
/// Objects are trees of at most 128 levels, which fits with room to spare.
const STACK: usize = 1024 * 1024;
/// How many connections wait to be accepted, as the standard library has it.
const BACKLOG: i32 = 128;

/// What the server was started with.
#[derive(Clone)]
pub(super) struct Options {
    pub(super) port: u16,
    pub(super) history: usize,
    pub(super) bookmark_every: Duration,
    pub(super) clock: Clock,
    pub(super) token: Option<String>,
    pub(super) tls: Option<Files>,
    /// By whom the certificates of clients are issued.
    pub(super) client_authority: Option<Pem>,
}

/// What all connections share. No lock is taken while another is held.
pub(super) struct Server {
    pub(super) options: Options,
    pub(super) clock: Clock,
    pub(super) stop: Stop,
    pub(super) faults: Arc<Faults>,
    tls: Option<Mutex<Tls>>,
    token: Mutex<Option<String>>,
    state: Mutex<State>,
    log: Mutex<VecDeque<String>>,
    /// Those of pods.
    logs: Mutex<BTreeMap<Key, String>>,
    /// Streams are their threads': held by another they would not close, nor be reset.
    connections: Mutex<Vec<(Weak<TcpStream>, JoinHandle<()>)>>,
    address: OnceLock<SocketAddr>,
}

impl Server {
    pub(super) fn new(options: Options) -> Result<Self> {
        let clock = options.clock.clone();
        let tls = options.tls.as_ref().map(|files| Tls::new(files, options.client_authority.as_ref()));
        Ok(Self {
            state: Mutex::new(State::new(clock.clone(), options.history)),
            clock,
            token: Mutex::new(options.token.clone()),
            options,
            stop: Stop::new(),
            faults: Arc::default(),
            log: Mutex::default(),
            logs: Mutex::default(),
            connections: Mutex::default(),
            address: OnceLock::new(),
            tls: tls.transpose()?.map(Mutex::new),
        })
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

    pub(super) fn set_log_of(&self, pod: Key, text: String) {
        lock(&self.logs).insert(pod, text);
    }

    /// What the pod of this name has logged.
    pub(super) fn log_of(&self, pod: &Key) -> String {
        lock(&self.logs).get(pod).cloned().unwrap_or_default()
    }

    /// Now: for the ages in tables.
    pub(super) fn now(&self) -> Time {
        self.clock.wall().into()
    }

    /// Whether the credentials of a request are accepted.
    pub(super) fn admits(&self, request: &Request) -> bool {
        let has_token = |token: &String| {
            request.authorization.strip_prefix("Bearer ").is_some_and(|sent| sent.trim() == token)
        };
        match self.token() {
            None if self.options.client_authority.is_none() => true,
            token => request.has_certificate || token.as_ref().is_some_and(has_token),
        }
    }

    /// The certificates that its clients must trust, as PEM; `None` without TLS.
    pub(super) fn authority(&self) -> Option<Vec<u8>> {
        self.tls.as_ref().map(|tls| lock(tls).authority())
    }

    /// For connections from now on; there must be TLS already, or clients would need another URL.
    #[cfg(feature = "tls")]
    pub(super) fn set_tls(&self, change: impl FnOnce(&Tls) -> Result<Tls>) -> Result<()> {
        let Some(tls) = &self.tls else {
            return Err(Error::config("embedded API server: it was started without TLS"));
        };
        let before = lock(tls).clone();
        let new = change(&before)?;
        *lock(tls) = new;
        Ok(())
    }

    /// The token that requests must have, if they must have one.
    pub(super) fn token(&self) -> Option<String> {
        lock(&self.token).clone()
    }

    pub(super) fn set_token(&self, token: String) {
        *lock(&self.token) = Some(token);
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
    fn serve(&self, stream: Arc<TcpStream>, stop: Stop) -> io::Result<()> {
        let tls = self.tls.as_ref().map(|tls| lock(tls).session()).transpose()?;
        let mut connection = Connection::new(stream, tls, stop);
        if !matches!(self.faults.meet(None, &mut connection)?, Instead::Nothing) {
            return Ok(());
        }
        connection.handshake()?;
        while !connection.stop().is_stopped() {
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
            let goes_on = match self.faults.meet(Some(&request), &mut connection)? {
                Instead::Nothing => self.answer(&mut connection, &request, keep_alive)?,
                Instead::Send(response) => connection.respond(&response, keep_alive).map(|()| true)?,
                Instead::Cut(bytes) => {
                    if let Answer::Whole(response) = answer(self, &request) {
                        connection.respond_in_part(&response, bytes)?;
                    }
                    false
                }
                Instead::End => false,
            };
            if !goes_on {
                break;
            }
            if !keep_alive {
                return connection.close();
            }
        }
        Ok(())
    }

    /// Returns whether the connection can go on.
    fn answer(&self, connection: &mut Connection, request: &Request, keep_alive: bool) -> io::Result<bool> {
        match answer(self, request) {
            Answer::Whole(response) => connection.respond(&response, keep_alive).map(|()| true),
            Answer::Watch(watch) => self.stream(connection, request, *watch, keep_alive),
        }
    }

    fn stream(
        &self,
        connection: &mut Connection,
        request: &Request,
        watch: Watch,
        keep_alive: bool,
    ) -> io::Result<bool> {
        connection.begin_stream(keep_alive)?;
        let mut frames = Frames::new(connection, &self.faults, request);
        let ran = watch.run(self, &mut frames);
        frames.finish(ran)
    }

    fn accept(self: &Arc<Self>, stream: TcpStream, stop: &Stop) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let stream = Arc::new(stream);
        let (handle, stop) = (Arc::downgrade(&stream), stop.clone());
        let server = Arc::clone(self);
        let thread =
            Builder::new().name("apiserver-connection".into()).stack_size(STACK).spawn(move || {
                let served = server.serve(Arc::clone(&stream), stop);
                let reset = matches!(&served, Err(e) if e.kind() == io::ErrorKind::ConnectionReset);
                if let Err(e) = served {
                    log::debug!("apiserver: a connection ended: {e}");
                }
                if !reset {
                    let _ = stream.shutdown(Shutdown::Both); // it may be over already
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
    accepting: Option<Accepting>,
    /// While paused: it keeps the port, and does not listen, so that connections are refused.
    reserved: Option<Socket>,
}

struct Accepting {
    thread: JoinHandle<()>,
    /// The socket that it accepts from.
    socket: Socket,
    /// Ends the thread.
    stop: Stop,
    /// Ends its connections.
    connections: Stop,
}

impl Listener {
    pub(super) fn start(server: &Arc<Server>) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.options.port));
        let socket = bound(address, false)
            .and_then(|socket| socket.listen(BACKLOG).map(|()| TcpListener::from(socket)));
        let socket = socket.map_err(|e| failed(&format!("listen on {address}"), e))?;
        let address = socket.local_addr().map_err(|e| failed("read its address", e))?;
        let accepting = Accepting::start(server, socket).map_err(|e| failed("start a thread", e))?;
        Ok(Self { address, accepting: Some(accepting), reserved: None })
    }

    /// Ends the listener and all connections, and returns when their threads have ended.
    pub(super) fn stop(&mut self, server: &Server) {
        server.stop.stop();
        self.reserved = None;
        if let Some(accepting) = self.accepting.take() {
            accepting.end(self.address, server);
        }
    }

    /// The same, with the port kept, for [`resume`](Self::resume).
    pub(super) fn pause(&mut self, server: &Server) -> Result<()> {
        let Some(accepting) = self.accepting.take() else { return Ok(()) };
        // Before the port is free, or somebody else may take it in between; but only Linux lets two have it.
        let beside = accepting.beside(self.address).ok();
        accepting.end(self.address, server);
        let reserved = beside.map_or_else(|| bound(self.address, false), Ok);
        self.reserved = Some(reserved.map_err(|e| failed(&format!("keep {}", self.address), e))?);
        Ok(())
    }

    pub(super) fn resume(&mut self, server: &Arc<Server>) -> Result<()> {
        let Some(socket) = self.reserved.take() else { return Ok(()) };
        let started = socket.listen(BACKLOG).and_then(|()| Accepting::start(server, socket.into()));
        self.accepting = Some(started.map_err(|e| failed(&format!("listen on {}", self.address), e))?);
        Ok(())
    }
}

/// A socket that has the address; on Linux, if so wanted, beside another one of ours that allows it.
fn bound(address: SocketAddr, beside: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    #[cfg(unix)] // elsewhere it would let others take the port
    socket.set_reuse_address(true)?; // connections that have ended linger
    #[cfg(target_os = "linux")]
    socket.set_reuse_port(beside)?;
    #[cfg(not(target_os = "linux"))]
    let _ = beside;
    socket.bind(&address.into()).map(|()| socket)
}

fn failed(what: &str, e: io::Error) -> Error {
    Error::config(format!("embedded API server: {what}")).with_source(e)
}

impl Accepting {
    fn start(server: &Arc<Server>, socket: TcpListener) -> io::Result<Self> {
        let kept = socket.try_clone()?.into();
        let (stop, connections) = (server.stop.child(), server.stop.child());
        let (server, stopped, theirs) = (Arc::clone(server), stop.clone(), connections.clone());
        let run = move || {
            for stream in socket.incoming() {
                if stopped.is_stopped() {
                    break;
                }
                if let Err(e) = stream.and_then(|stream| server.accept(stream, &theirs)) {
                    log::warn!("apiserver: cannot accept a connection: {e}");
                    stopped.sleep(Duration::from_millis(50)); // out of descriptors or threads: not in a tight loop
                }
            }
        };
        let thread = Builder::new().name("apiserver-listener".into()).stack_size(STACK).spawn(run)?;
        Ok(Self { thread, socket: kept, stop, connections })
    }

    /// Another socket with the same port, on which nobody listens.
    fn beside(&self, address: SocketAddr) -> io::Result<Socket> {
        #[cfg(target_os = "linux")]
        self.socket.set_reuse_port(true)?;
        bound(address, true)
    }

    /// Cuts all connections, and returns when all threads have ended.
    fn end(self, address: SocketAddr, server: &Server) {
        self.stop.stop();
        // A connection is what wakes a thread in accept, on every system.
        let woken = TcpStream::connect_timeout(&address, Duration::from_secs(1));
        if woken.is_ok() {
            let _ = self.thread.join(); // a panic was reported by its thread
        }
        drop(self.socket);
        let connections = std::mem::take(&mut *lock(&server.connections));
        // Cut before they are told, or watches would end as they should.
        for stream in connections.iter().filter_map(|(stream, _)| stream.upgrade()) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.connections.stop();
        for (_, thread) in connections {
            let _ = thread.join();
        }
    }
}
