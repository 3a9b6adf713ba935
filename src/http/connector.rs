//! TCP and TLS connections for ureq, which a [`Stop`](crate::Stop) can end in every state.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{bounded, select};
use log::debug;
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use ureq::config::Config as UreqConfig;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::time::Duration as UreqDuration;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

use super::buffers::ConnectionBuffers;
use super::call::Call;
use super::proxy::{self, Forward};
use super::tls::{Session, Tls};
use crate::clock::Clock;
use crate::config::{Proxy, ProxyKind};
use crate::error::{Error, Kind};
use crate::stop::Stop;

/// Seconds of silence after which the kernel asks whether the peer is there; Go's dialer has the same.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Leaves the addresses to [`TcpConnector`], so that a pooled connection costs no name lookup.
#[derive(Debug)]
pub(super) struct NoResolver;

impl Resolver for NoResolver {
    fn resolve(
        &self,
        _: &ureq::http::Uri,
        _: &UreqConfig,
        _: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        Ok(self.empty())
    }
}

/// Opens connections.
#[derive(Debug)]
pub(super) struct TcpConnector {
    pub(super) tls: Tls,
    /// What to go through.
    pub(super) proxy: Option<Arc<Proxy>>,
    pub(super) clock: Clock,
    pub(super) timeout: Duration,
}

impl Connector<()> for TcpConnector {
    type Out = Connection;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<Connection>, ureq::Error> {
        let call = Call::current().ok_or(ureq::Error::ConnectionFailed)?;
        let limit = details.timeout.not_zero().map_or(self.timeout, |left| self.timeout.min(*left));
        let deadline = self.clock.now() + limit;
        let host = details.uri.host().unwrap_or_default();
        let port = details.uri.port_u16().unwrap_or(if details.needs_tls() { 443 } else { 80 });
        self.open(details, &call, host, port, deadline).map(Some).map_err(|e| {
            let e = if call.stop.is_stopped() { Error::stopped() } else { e };
            let through =
                self.proxy.as_ref().map_or_else(String::new, |proxy| format!(" through the proxy {proxy}"));
            ureq::Error::Io(io::Error::other(e.context(format!("connect to {host}:{port}{through}"))))
        })
    }
}

impl TcpConnector {
    fn open(
        &self,
        details: &ConnectionDetails<'_>,
        call: &Arc<Call>,
        host: &str,
        port: u16,
        deadline: Instant,
    ) -> Result<Connection, Error> {
        let proxy = self.proxy.as_deref();
        let (peer, peer_port) = proxy.map_or((host, port), |proxy| (proxy.host.as_str(), proxy.port));
        let socket = self.reach(peer, peer_port, deadline, call)?;
        let mut wire = Wire {
            socket,
            proxy: None,
            timeouts: [None; 2],
            deadline: Some(deadline),
            clock: self.clock.clone(),
        };
        let mut forward = None;
        if let Some(proxy) = proxy {
            if proxy.kind == ProxyKind::Https {
                let session = self.tls.without_name().handshake(peer, &mut wire);
                wire.proxy = Some(session.map_err(|e| e.context("the proxy"))?);
            }
            if proxy.kind == ProxyKind::Socks5 || details.needs_tls() {
                proxy::connect(proxy, host, port, &mut wire)?;
            } else {
                let (origin, authorization) = (format!("http://{host}:{port}"), proxy.authorization());
                forward = Some(Forward { origin, authorization });
            }
        }
        let tls = if details.needs_tls() { Some(self.tls.handshake(host, &mut wire)?) } else { None };
        wire.deadline = None;
        debug!(target: "listwatch::http", "connected to {host}:{port}");
        let (buffers, call) = (ConnectionBuffers::new(), call.clone());
        Ok(Connection { wire, tls, forward, buffers, call, at_head: true })
    }

    /// A socket that is connected to one of the host's addresses.
    fn reach(&self, host: &str, port: u16, deadline: Instant, call: &Call) -> Result<Arc<Socket>, Error> {
        let host_is_name = ip_of(host).is_none();
        let addresses = self.look_up(host, port, deadline, &call.stop)?;
        let mut connected = Err(Error::new(Kind::Connect, "the name has no address"));
        for (at, address) in addresses.iter().enumerate() {
            // Each address gets half of what is left, the last one all of it.
            let left = deadline.saturating_duration_since(self.clock.now());
            let limit = if at + 1 < addresses.len() { left / 2 } else { left };
            connected = dial(*address, limit, call);
            if host_is_name {
                connected = connected.map_err(|e| e.context(address.to_string()));
            }
            if connected.is_ok() || call.stop.is_stopped() {
                break;
            }
        }
        connected
    }

    /// A name lookup cannot be ended: it runs on a thread of its own, which is left behind when the time is over.
    fn look_up(
        &self,
        host: &str,
        port: u16,
        deadline: Instant,
        stop: &Stop,
    ) -> Result<Vec<SocketAddr>, Error> {
        if let Some(ip) = ip_of(host) {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let (sender, found) = bounded(1);
        let name = host.to_owned();
        let failed = |e: io::Error| Error::new(Kind::Connect, "name lookup failed").with_source(e);
        thread::Builder::new()
            .name("lw-dns".into())
            .spawn(move || sender.send((name.as_str(), port).to_socket_addrs().map(Vec::from_iter)))
            .map_err(failed)?;
        let timer = self.clock.timer(Some(deadline));
        select! {
            recv(found) -> found => match found {
                Ok(addresses) => addresses.map_err(failed),
                Err(_) => Err(Error::new(Kind::Connect, "name lookup ended without an answer")),
            },
            recv(timer.channel()) -> _ => Err(Error::new(Kind::Connect, "name lookup timed out")),
            recv(stop.signal()) -> _ => Err(Error::stopped()),
        }
    }
}

/// The address that a host is; one of IPv6 may be in brackets.
pub(super) fn ip_of(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn dial(address: SocketAddr, limit: Duration, call: &Call) -> Result<Arc<Socket>, Error> {
    let open = || -> io::Result<Arc<Socket>> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE))?;
        let socket = Arc::new(socket);
        call.attach(&socket);
        // A zero limit is refused by the system as meaning "for ever".
        socket.connect_timeout(&address.into(), limit.max(Duration::from_millis(1)))?;
        // A stop in the moment between is no longer a connect in progress, so look again.
        call.attach(&socket);
        Ok(socket)
    };
    open().map_err(|e| match e.kind() {
        io::ErrorKind::TimedOut => Error::new(Kind::Connect, format!("no answer within {limit:.1?}")),
        _ => Error::new(Kind::Connect, "no connection").with_source(e),
    })
}

/// A connection, with or without TLS.
pub(super) struct Connection {
    wire: Wire,
    tls: Option<Session>,
    /// How requests are sent through a proxy that is no tunnel.
    forward: Option<Forward>,
    buffers: ConnectionBuffers,
    /// The call that it serves now.
    call: Arc<Call>,
    /// Whether what is sent next begins a request.
    at_head: bool,
}

/// The socket as a blocking stream with limits of time.
pub(super) struct Wire {
    socket: Arc<Socket>,
    /// The TLS of an `https://` proxy; what goes on within it is none of its business.
    proxy: Option<Session>,
    /// What is set on the socket for reading and for writing, to spare system calls.
    timeouts: [Option<Duration>; 2],
    /// For what comes before the first request, which is many reads and writes under one limit.
    deadline: Option<Instant>,
    clock: Clock,
}

#[derive(Clone, Copy)]
enum Side {
    Read,
    Write,
}

impl Wire {
    fn limit(&mut self, side: Side, limit: Option<Duration>) -> io::Result<()> {
        // What is under a microsecond would be for ever.
        let limit = limit.map(|limit| limit.max(Duration::from_millis(1)));
        if self.timeouts[side as usize] != limit {
            match side {
                Side::Read => self.socket.set_read_timeout(limit)?,
                Side::Write => self.socket.set_write_timeout(limit)?,
            }
            self.timeouts[side as usize] = limit;
        }
        Ok(())
    }

    /// Under a deadline each read or write gets what is left.
    fn before(&mut self, side: Side) -> io::Result<()> {
        let Some(deadline) = self.deadline else { return Ok(()) };
        let left = deadline.saturating_duration_since(self.clock.now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { self.limit(side, Some(left)) }
    }
}

/// A socket whose time is over says "would block".
fn timed_out(e: io::Error) -> io::Error {
    if e.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { e }
}

impl Read for Wire {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(mut proxy) = self.proxy.take() {
            let read = proxy.read(self, buf);
            self.proxy = Some(proxy);
            return read;
        }
        self.before(Side::Read)?;
        loop {
            match (&*self.socket).read(buf) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                done => return done.map_err(timed_out),
            }
        }
    }
}

impl Write for Wire {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if let Some(mut proxy) = self.proxy.take() {
            let written = proxy.write_all(self, buf);
            self.proxy = Some(proxy);
            return written.map(|()| buf.len());
        }
        self.before(Side::Write)?;
        loop {
            match (&*self.socket).write(buf) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                done => return done.map_err(timed_out),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for Connection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        // A pooled connection now serves another call. The one before may still be known to its own stop.
        if let Some(call) = Call::current().filter(|call| !Arc::ptr_eq(call, &self.call)) {
            self.call.detach();
            call.attach(&self.wire.socket);
            self.call = call;
            self.at_head = true;
        }
        let timeout = timeout.for_write();
        self.wire.limit(Side::Write, timeout.not_zero().map(|d| *d))?;
        let output = &self.buffers.output()[..amount];
        let head;
        let credential = if self.at_head { self.call.take_authorization() } else { None };
        let forward = self.forward.as_ref().filter(|_| self.at_head);
        self.at_head = false;
        let output = if credential.is_some() || forward.is_some() {
            head =
                proxy::complete(output, credential.as_ref(), forward).ok_or(ureq::Error::ConnectionFailed)?;
            &head
        } else {
            output
        };
        let written = match &mut self.tls {
            Some(session) => session.write_all(&mut self.wire, output),
            None => self.wire.write_all(output),
        };
        written.map_err(|e| in_time(e, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let mut timeout = timeout.for_read();
        if let Some(limit) =
            self.call.silence().map(UreqDuration::Exact).filter(|limit| *limit < timeout.after)
        {
            timeout.after = limit;
            timeout.reason = ureq::Timeout::PerRead;
        }
        self.wire.limit(Side::Read, timeout.not_zero().map(|d| *d))?;
        self.buffers.sent();
        let input = self.buffers.input_append_buf();
        if input.is_empty() {
            return Ok(false);
        }
        let read = match &mut self.tls {
            Some(session) => session.read(&mut self.wire, input),
            None => self.wire.read(input),
        };
        let amount = read.map_err(|e| in_time(e, timeout))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        let socket = &self.wire.socket;
        let mut byte = [0];
        // Bytes that nobody asked for, and the end of the stream, both end its use.
        let quiet = socket.set_nonblocking(true).is_ok()
            && matches!((&**socket).read(&mut byte), Err(e) if e.kind() == io::ErrorKind::WouldBlock);
        let is_open = quiet && socket.set_nonblocking(false).is_ok();
        // Asked when a call has ended, and before the next.
        self.buffers.release();
        is_open
    }

    fn is_tls(&self) -> bool {
        self.tls.is_some()
    }
}

fn in_time(e: io::Error, timeout: NextTimeout) -> ureq::Error {
    if e.kind() == io::ErrorKind::TimedOut {
        ureq::Error::Timeout(timeout.reason)
    } else {
        ureq::Error::Io(e)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::call::Running;
    use super::*;

    /// A stop may come between the moment the socket is known to it and the connect.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_socket_that_was_shut_down_does_not_connect() {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let stop = Stop::new();
        stop.stop();
        let running = Running::new(&stop, None);
        let limit = Duration::from_secs(120);
        // The first connects in any case, or not; the queue is full for the others.
        for _ in 0..4 {
            let at = Clock::system().now();
            let _ = dial(address, limit, &running.call);
            assert!(Clock::system().now() - at < limit / 2);
        }
    }
}
