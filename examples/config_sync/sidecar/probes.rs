//! `/healthz`, `/readyz` and `/metrics`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use listwatch::Stop;
use log::warn;

use super::Failure;
use super::tally::Tally;

/// For a whole exchange's single reads and writes: one that stands still holds up the next no longer.
const PATIENCE: Duration = Duration::from_millis(500);
const LONGEST_HEAD: u64 = 8 * 1024;

/// One connection after the other, on a thread of its own.
pub(crate) struct Probes {
    thread: JoinHandle<()>,
}

impl Probes {
    pub(crate) fn start(listener: TcpListener, tally: Tally, stop: &Stop) -> Result<Self, Failure> {
        let (stop, waking) = (stop.clone(), listener.try_clone()?);
        let thread = thread::Builder::new().name("probes".into()).spawn(move || {
            // A listener is woken from its wait by its end.
            let _end = stop
                .on_stop(move || drop(socket2::SockRef::from(&waking).shutdown(std::net::Shutdown::Both)));
            while !stop.is_stopped() {
                match listener.accept() {
                    Ok((connection, _)) => drop(answer(&connection, &tally)), // it went away
                    Err(_) if stop.is_stopped() => {}
                    Err(e) => {
                        warn!("probes: {e}");
                        stop.sleep(PATIENCE);
                    }
                }
            }
        })?;
        Ok(Self { thread })
    }

    /// Waits for the end of the thread, once stopped.
    pub(crate) fn join(self) {
        drop(self.thread.join());
    }
}

fn answer(connection: &TcpStream, tally: &Tally) -> io::Result<()> {
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let mut head = BufReader::new(connection.take(LONGEST_HEAD));
    let (mut request, mut line) = (String::new(), String::new());
    head.read_line(&mut request)?;
    // All of it is read, or closing would reset the connection before the answer has arrived.
    while head.read_line(&mut line)? > 0 && line.trim_end() != "" {
        line.clear();
    }
    let path = request.split([' ', '?']).nth(1).unwrap_or_default();
    let (code, text) = match (request.split(' ').next(), path) {
        (Some("GET" | "HEAD"), "/healthz" | "/livez") => ("200 OK", "ok\n".into()),
        (Some("GET" | "HEAD"), "/readyz") if tally.ready.get() == 1 => ("200 OK", "ok\n".into()),
        (Some("GET" | "HEAD"), "/readyz") => {
            ("503 Service Unavailable", "the first mirror is not complete\n".into())
        }
        (Some("GET" | "HEAD"), "/metrics") => ("200 OK", tally.text()),
        _ => ("404 Not Found", "there are /healthz, /readyz and /metrics\n".into()),
    };
    let length = text.len();
    let body = if request.starts_with("HEAD") { "" } else { &text };
    let head = "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\nConnection: close";
    (&mut &*connection)
        .write_all(format!("HTTP/1.1 {code}\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}").as_bytes())
}
