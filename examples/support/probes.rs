//! The endpoints that operators expect of a program: `/metrics`, `/healthz` and `/readyz`, over plain HTTP: a
//! thread, and one for each of a few clients.
#![allow(dead_code)] // no example uses all of it

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{bounded, select};
use listwatch::{Clock, Stop};

/// How long a client may take to send its request and take the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Clients at a time; others wait.
const MOST: usize = 16;
/// A request of these probes is a few hundred bytes long.
const LONGEST: usize = 8 << 10;

/// What is answered. A probe gives whether all is well, and a text that says what is not.
pub(crate) struct Endpoints {
    /// The text format of Prometheus.
    pub(crate) metrics: Box<dyn Fn() -> String + Send + Sync>,
    /// Whether the program need not be restarted.
    pub(crate) healthz: Box<dyn Fn() -> (bool, String) + Send + Sync>,
    /// Whether the program does its work.
    pub(crate) readyz: Box<dyn Fn() -> (bool, String) + Send + Sync>,
}

/// Serves until stopped or dropped, which closes the connections and waits for calls of [`Endpoints`] under way.
pub(crate) struct Probes {
    address: SocketAddr,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Probes {
    /// Serves at this address, `"0.0.0.0:8080"` in a pod; port 0 is any that is free.
    pub(crate) fn serve(at: impl ToSocketAddrs, endpoints: Endpoints, stop: &Stop) -> io::Result<Self> {
        let listener = TcpListener::bind(at)?;
        let (address, stop) = (listener.local_addr()?, stop.child());
        let stopped = stop.clone();
        let serve = move || {
            // A connection wakes the thread that waits for one.
            let _wake =
                stopped.on_stop(move || drop(TcpStream::connect_timeout(&loopback(address), PATIENCE)));
            accept(&listener, &endpoints, &stopped);
        };
        let thread = thread::Builder::new().name("probes".into()).spawn(serve)?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it serves.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it does not panic
        }
    }
}

/// An address that reaches a listener of any.
fn loopback(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let (v4, v6) = (std::net::Ipv4Addr::LOCALHOST.into(), std::net::Ipv6Addr::LOCALHOST.into());
        address.set_ip(if address.is_ipv4() { v4 } else { v6 });
    }
    address
}

fn accept(listener: &TcpListener, endpoints: &Endpoints, stop: &Stop) {
    let (take, give) = bounded(MOST);
    thread::scope(|scope| {
        for stream in listener.incoming() {
            if stop.is_stopped() {
                break;
            }
            match stream {
                // Each on a thread of its own, as one that says nothing must not keep a probe waiting.
                Ok(stream) => {
                    select! {
                        send(take, ()) -> _ => {}
                        recv(stop.signal()) -> _ => break,
                    }
                    let give = &give;
                    let answer = move || {
                        let _ = answer(stream, endpoints, stop);
                        let _ = give.try_recv();
                    };
                    if thread::Builder::new().name("probe".into()).spawn_scoped(scope, answer).is_err() {
                        let _ = give.try_recv();
                    }
                }
                // Out of files, perhaps: not tried again at once.
                Err(_) => drop(stop.sleep(Duration::from_millis(100))),
            }
        }
    });
}

fn answer(mut stream: TcpStream, endpoints: &Endpoints, stop: &Stop) -> io::Result<()> {
    let (clock, open) = (Clock::system(), stream.try_clone()?);
    let _close = stop.on_stop(move || drop(open.shutdown(Shutdown::Both)));
    let end = clock.now() + PATIENCE;
    let left = || match end.saturating_duration_since(clock.now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut),
        left => Ok(Some(left)),
    };
    let (mut request, mut piece) = (Vec::new(), [0; 1024]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        stream.set_read_timeout(left()?)?;
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            _ if request.len() > LONGEST => return Ok(()),
            amount => request.extend_from_slice(&piece[..amount]),
        }
    }
    let line = String::from_utf8_lossy(&request);
    let mut words = line.split_ascii_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let plain = "text/plain; charset=utf-8";
    let probe = |(well, text): (bool, String)| (if well { 200 } else { 503 }, plain, text);
    let (code, kind, text) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => {
            (200, "text/plain; version=0.0.4; charset=utf-8", (endpoints.metrics)())
        }
        ("GET" | "HEAD", "/healthz") => probe((endpoints.healthz)()),
        ("GET" | "HEAD", "/readyz") => probe((endpoints.readyz)()),
        ("GET" | "HEAD", _) => (404, plain, "see /metrics, /healthz, /readyz\n".to_owned()),
        _ => (405, plain, "GET only\n".to_owned()),
    };
    let reason = match code {
        200 => "OK",
        404 => "Not Found",
        405 => "Method Not Allowed",
        _ => "Service Unavailable",
    };
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {code} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let body = if method == "HEAD" { "" } else { &text };
    let answer = head + body;
    let mut rest = answer.as_bytes();
    while !rest.is_empty() {
        stream.set_write_timeout(left()?)?;
        match stream.write(rest)? {
            0 => break,
            amount => rest = &rest[amount..],
        }
    }
    Ok(())
}
