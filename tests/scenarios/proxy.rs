//! A TCP proxy with the faults of a network. It relays bytes, TLS or not, and is told what becomes of them.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

/// What becomes of the bytes of a connection in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// They come through.
    Open,
    /// They are kept until the way is another: a partition that heals in time for TCP to send them again.
    Held,
    /// They are lost, and so is the end of the connection.
    Dark,
    /// Half of the next ones come through, then none.
    Half,
    /// Each comes by itself.
    Single,
    /// Of a server: open until it was asked something, then dark: no head comes.
    DarkOnceAsked,
    /// Of a server: as before, but for the first bytes of the answer: a head, and no body.
    HeadOnly,
}

/// What new connections meet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    /// They are relayed: from the client, and from the server.
    Relay(Way, Way),
    /// They are accepted, and nothing is read or said.
    Mute,
}

pub(crate) const OPEN: Entry = Entry::Relay(Way::Open, Way::Open);

pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    door: Door,
}

/// What is at the port.
enum Door {
    Open(JoinHandle<()>),
    /// Nobody listens, but the port is kept.
    Closed(#[allow(dead_code)] Socket),
    /// The queue is full and nobody accepts: Linux drops who knocks.
    Clogged(#[allow(dead_code)] (Socket, Vec<Socket>)),
    Moving,
}

struct Shared {
    upstream: SocketAddr,
    state: Mutex<State>,
}

struct State {
    entry: Entry,
    links: Vec<Link>,
    accepted: usize,
    closing: bool,
}

/// A connection and what it is relayed to.
struct Link {
    wire: Arc<Wire>,
    threads: Vec<JoinHandle<()>>,
}

struct Wire {
    client: TcpStream,
    /// None if it is mute.
    server: Option<TcpStream>,
    ways: Mutex<Ways>,
    changed: Condvar,
}

struct Ways {
    up: Way,
    down: Way,
    /// The request has gone up.
    asked: bool,
    /// It is to end, held or not.
    over: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    pub(crate) fn start(upstream: SocketAddr) -> Self {
        let state = State { entry: OPEN, links: Vec::new(), accepted: 0, closing: false };
        let shared = Arc::new(Shared { upstream, state: Mutex::new(state) });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let door = Door::Open(accept(&shared, listener));
        Self { address, shared, door }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// What new connections meet from now on.
    pub(crate) fn meet(&self, entry: Entry) {
        lock(&self.shared.state).entry = entry;
    }

    /// How many connections there were.
    pub(crate) fn accepted(&self) -> usize {
        lock(&self.shared.state).accepted
    }

    /// What becomes of the bytes of all connections that are open.
    pub(crate) fn set(&self, up: Way, down: Way) {
        for link in &lock(&self.shared.state).links {
            let mut ways = lock(&link.wire.ways);
            (ways.up, ways.down) = (up, down);
            link.wire.changed.notify_all();
        }
    }

    /// Ends all connections on both sides (FIN).
    pub(crate) fn cut(&self) {
        self.end(|wire| wire.shut_down(Shutdown::Both));
    }

    /// Ends all connections on both sides (RST).
    pub(crate) fn reset(&self) {
        self.end(|wire| {
            for stream in [Some(&wire.client), wire.server.as_ref()].into_iter().flatten() {
                SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
            }
            // Which tells the other side nothing, and wakes the threads: the last one closes the sockets.
            wire.shut_down(Shutdown::Read);
        });
    }

    /// Ends the connections to the server; the client is not told.
    pub(crate) fn cut_upstream(&self) {
        self.set(Way::Dark, Way::Dark);
        for link in &lock(&self.shared.state).links {
            let _ = link.wire.server.as_ref().map(|server| server.shutdown(Shutdown::Both)); // it may be over
        }
    }

    fn end(&self, how: impl Fn(&Wire)) {
        let links = std::mem::take(&mut lock(&self.shared.state).links);
        for link in links {
            lock(&link.wire.ways).over = true;
            link.wire.changed.notify_all();
            how(&link.wire);
            link.threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    }

    /// From now on connections are refused.
    pub(crate) fn refuse(&mut self) {
        self.close();
        self.door = Door::Closed(self.bind());
    }

    /// From now on who connects gets no answer.
    pub(crate) fn clog(&mut self) {
        self.close();
        let socket = self.bind();
        socket.listen(0).unwrap();
        let knock = || {
            let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            let _ = client.connect_timeout(&self.address.into(), Duration::from_millis(50)); // in the end it fails
            client
        };
        let crowd = (0..4).map(|_| knock()).collect();
        self.door = Door::Clogged((socket, crowd));
    }

    /// Listens again.
    pub(crate) fn listen(&mut self) {
        self.close();
        let socket = self.bind();
        socket.listen(128).unwrap();
        self.door = Door::Open(accept(&self.shared, socket.into()));
    }

    fn bind(&self) -> Socket {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap(); // connections that have ended linger
        socket.bind(&self.address.into()).unwrap();
        socket
    }

    /// Takes away whatever is at the port.
    fn close(&mut self) {
        if let Door::Open(thread) = std::mem::replace(&mut self.door, Door::Moving) {
            lock(&self.shared.state).closing = true;
            drop(TcpStream::connect(self.address)); // wakes it
            thread.join().unwrap();
            lock(&self.shared.state).closing = false;
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.close();
        self.cut();
    }
}

fn accept(shared: &Arc<Shared>, listener: TcpListener) -> JoinHandle<()> {
    let shared = shared.clone();
    let run = move || {
        for client in listener.incoming() {
            let mut state = lock(&shared.state);
            if state.closing {
                break;
            }
            state.accepted += 1;
            // A server that is away: so is the connection.
            if let Ok(link) = client.and_then(|client| Link::open(client, shared.upstream, state.entry)) {
                state.links.push(link);
            }
        }
    };
    Builder::new().name("proxy-accept".into()).spawn(run).unwrap()
}

impl Link {
    fn open(client: TcpStream, upstream: SocketAddr, entry: Entry) -> io::Result<Self> {
        client.set_nodelay(true)?;
        let (server, up, down) = match entry {
            Entry::Relay(up, down) => (Some(TcpStream::connect(upstream)?), up, down),
            Entry::Mute => (None, Way::Dark, Way::Dark),
        };
        let ways = Mutex::new(Ways { up, down, asked: false, over: false });
        let wire = Arc::new(Wire { client, server, ways, changed: Condvar::new() });
        let mut threads = Vec::new();
        if let Some(server) = &wire.server {
            server.set_nodelay(true)?;
            for (name, up) in [("proxy-up", true), ("proxy-down", false)] {
                let wire = wire.clone();
                threads.push(Builder::new().name(name.into()).spawn(move || wire.relay(up))?);
            }
        }
        Ok(Self { wire, threads })
    }
}

impl Wire {
    fn shut_down(&self, how: Shutdown) {
        for stream in [Some(&self.client), self.server.as_ref()].into_iter().flatten() {
            let _ = stream.shutdown(how); // it may be over
        }
    }

    /// Relays one direction until an end of it ends.
    fn relay(&self, up: bool) {
        let Some(server) = &self.server else { return };
        let (from, to) = if up { (&self.client, server) } else { (server, &self.client) };
        let (mut bytes, mut requests) = (vec![0; 64 << 10], Requests::default());
        loop {
            let amount = { from }.read(&mut bytes).unwrap_or(0);
            let Some(way) = self.way(up) else { return };
            if amount == 0 {
                if way != Way::Dark {
                    self.shut_down(Shutdown::Both);
                }
                return;
            }
            let bytes = &bytes[..amount];
            if up && requests.seen(bytes) {
                lock(&self.ways).asked = true; // before the answer can come
            }
            let passed = match way {
                Way::Dark => Ok(()),
                Way::Half => { to }.write_all(&bytes[..amount / 2]),
                Way::Single => bytes.chunks(1).try_for_each(|byte| { to }.write_all(byte)),
                _ => { to }.write_all(bytes),
            };
            if passed.is_err() && self.way(up).is_none_or(|way| way != Way::Dark) {
                self.shut_down(Shutdown::Both);
                return;
            }
        }
    }

    /// What becomes of the bytes that have come; blocks while they are held. `None` is the end.
    fn way(&self, up: bool) -> Option<Way> {
        let mut ways = lock(&self.ways);
        loop {
            let asked = ways.asked;
            let way = if up { &mut ways.up } else { &mut ways.down };
            let now = *way;
            match now {
                Way::Held => {}
                Way::Half => *way = Way::Dark,
                Way::HeadOnly if asked => *way = Way::Dark,
                Way::DarkOnceAsked if asked => return Some(Way::Dark),
                _ => {}
            }
            if ways.over {
                return None;
            }
            if now != Way::Held {
                return Some(now);
            }
            ways = self.changed.wait(ways).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Finds out when a request has gone up. Of TLS 1.3 the first encrypted record is still of the handshake.
#[derive(Default)]
struct Requests {
    /// What is left of this record.
    left: usize,
    header: Vec<u8>,
    encrypted: usize,
}

impl Requests {
    /// Whether a request is in what has come so far.
    fn seen(&mut self, mut bytes: &[u8]) -> bool {
        const ENCRYPTED: u8 = 23;
        if self.header.is_empty() && self.left == 0 && bytes[0].is_ascii_alphabetic() {
            return true; // no TLS
        }
        while !bytes.is_empty() {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = &bytes[skipped..];
            let wanted = (5 - self.header.len()).min(bytes.len());
            self.header.extend_from_slice(&bytes[..wanted]);
            bytes = &bytes[wanted..];
            if let [kind, _, _, high, low] = self.header[..] {
                self.left = usize::from(u16::from_be_bytes([high, low]));
                self.encrypted += usize::from(kind == ENCRYPTED);
                self.header.clear();
            }
        }
        self.encrypted > 1
    }
}
