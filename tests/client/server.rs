//! A server that does what a test says, connection by connection. It knows as little of HTTP as it can.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::SOON;

/// A request as it came.
#[derive(Debug)]
pub(crate) struct Seen {
    /// On which connection; the first is 0.
    pub(crate) connection: usize,
    /// Method and path with query.
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn headers(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str()).collect()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers(name).first().copied().unwrap_or_default()
    }
}

/// What a connection goes over.
pub(crate) trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// One connection, in the hands of the script.
pub(crate) struct Connection {
    pub(crate) index: usize,
    stream: BufReader<Box<dyn Stream>>,
    tcp: TcpStream,
    seen: Sender<Seen>,
}

impl Connection {
    /// Reads a request and records it; `None` when the client has closed.
    pub(crate) fn request(&mut self) -> Option<Seen> {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            match self.stream.read_line(&mut line) {
                Ok(0) | Err(_) => return None,
                Ok(_) if line == "\r\n" => break,
                Ok(_) => head.push(line.trim_end().to_owned()),
            }
        }
        let split = |line: &String| {
            let (name, value) = line.split_once(": ").expect("a header");
            (name.to_owned(), value.to_owned())
        };
        let mut seen = Seen {
            connection: self.index,
            line: head[0].strip_suffix(" HTTP/1.1").expect("HTTP/1.1").to_owned(),
            headers: head[1..].iter().map(split).collect(),
            body: String::new(),
        };
        assert_eq!(seen.header("transfer-encoding"), "");
        let length = seen.header("content-length").parse().unwrap_or(0);
        self.stream.by_ref().take(length).read_to_string(&mut seen.body).unwrap();
        let copy =
            Seen { headers: seen.headers.clone(), body: seen.body.clone(), line: seen.line.clone(), ..seen };
        self.seen.send(copy).unwrap();
        Some(seen)
    }

    /// Waits for something to be sent.
    pub(crate) fn first_byte(&mut self) {
        assert!(!self.stream.fill_buf().unwrap().is_empty());
    }

    /// Reads bytes that are no HTTP, and forgets them.
    pub(crate) fn bytes(&mut self, amount: usize) -> Vec<u8> {
        let mut bytes = vec![0; amount];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// The same connection from here on within another stream, such as TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn within(self, wrap: impl FnOnce(Box<dyn Stream>) -> Box<dyn Stream>) -> Self {
        assert!(self.stream.buffer().is_empty());
        Self { stream: BufReader::new(wrap(self.stream.into_inner())), ..self }
    }

    /// Writes bytes; the client may be gone.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.try_send(bytes.as_ref());
    }

    /// The same, which tells when the client has gone.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> Result<(), ()> {
        let stream = self.stream.get_mut();
        stream.write_all(bytes).and_then(|()| stream.flush()).map_err(drop)
    }

    /// Answers with a body of known length; `headers` are lines with their ends.
    pub(crate) fn answer(&mut self, code: u16, headers: &str, body: impl AsRef<[u8]>) {
        let length = body.as_ref().len();
        self.send(format!("HTTP/1.1 {code} Whatever\r\n{headers}Content-Length: {length}\r\n\r\n"));
        self.send(body);
    }

    pub(crate) fn json(&mut self, code: u16, body: impl AsRef<[u8]>) {
        self.answer(code, "Content-Type: application/json\r\n", body);
    }

    /// The head of an answer whose body comes in chunks.
    pub(crate) fn stream(&mut self) {
        self.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
    }

    pub(crate) fn chunk(&mut self, bytes: impl AsRef<[u8]>) {
        self.send(format!("{:x}\r\n", bytes.as_ref().len()));
        self.send(bytes);
        self.send("\r\n");
    }

    pub(crate) fn last_chunk(&mut self) {
        self.send("0\r\n\r\n");
    }

    /// Waits until the client closes.
    pub(crate) fn closed(&mut self) {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest);
    }

    /// Closes with a reset: what the client has not read is lost.
    pub(crate) fn reset(self) {
        socket2::SockRef::from(&self.tcp).set_linger(Some(Duration::ZERO)).unwrap();
        // Not `shutdown`, which would send a proper end.
    }

    /// Answers every request alike.
    pub(crate) fn serve(mut self, answer: impl Fn(&mut Self, &Seen)) {
        while let Some(seen) = self.request() {
            answer(&mut self, &seen);
        }
    }
}

/// Listens until the test's process ends.
pub(crate) struct Server {
    address: SocketAddr,
    pub(crate) seen: Receiver<Seen>,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    /// Runs `script` for each connection, on a thread of its own.
    pub(crate) fn start(script: impl Fn(Connection) + Send + Sync + 'static) -> Self {
        Self::start_with("127.0.0.1:0", |tcp| Some(Box::new(tcp)), script)
    }

    /// With something between the socket and the script, such as TLS.
    pub(crate) fn start_with(
        address: &str,
        wrap: impl Fn(TcpStream) -> Option<Box<dyn Stream>> + Send + Sync + 'static,
        script: impl Fn(Connection) + Send + Sync + 'static,
    ) -> Self {
        // In a process with a logger there is no other.
        #[cfg(feature = "tls")]
        crate::tls::log();
        #[cfg(not(feature = "tls"))]
        crate::trace::start();
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, seen) = unbounded();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = accepted.clone();
        let both = Arc::new((wrap, script));
        let accept = move || {
            for tcp in listener.incoming() {
                let (tcp, index) = (tcp.unwrap(), count.fetch_add(1, Ordering::SeqCst));
                tcp.set_nodelay(true).unwrap();
                let (both, seen) = (both.clone(), sender.clone());
                let run = move || {
                    if let Some(stream) = both.0(tcp.try_clone().unwrap()) {
                        (both.1)(Connection { index, stream: BufReader::new(stream), tcp, seen });
                    }
                };
                thread::Builder::new().name(format!("connection-{index}")).spawn(run).unwrap();
            }
        };
        thread::Builder::new().name("server".into()).spawn(accept).unwrap();
        Self { address, seen, accepted }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// How many connections were made so far.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// The next request that came.
    pub(crate) fn next(&self) -> Seen {
        self.seen.recv_timeout(SOON).expect("a request")
    }
}

/// A place that refuses connections.
pub(crate) fn refusing() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// A place where connecting hangs, as long as the returned sockets are kept.
pub(crate) fn hanging() -> (String, u16, Vec<socket2::Socket>) {
    use socket2::{Domain, Socket, Type};
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let port = address.as_socket().unwrap().port();
    let mut sockets = vec![listener];
    // Its queue holds one; from then on Linux drops who knocks.
    while connecting_to(port) == 0 {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        let _ = socket.connect(&address);
        sockets.push(socket);
    }
    (format!("http://127.0.0.1:{port}"), port, sockets)
}

/// How many connects to this port of 127.0.0.1 are in progress.
pub(crate) fn connecting_to(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let (peer, syn_sent) = (format!("0100007F:{port:04X}"), "02");
    let here = |line: &&str| {
        let mut fields = line.split_whitespace().skip(2);
        fields.next() == Some(&*peer) && fields.next() == Some(syn_sent)
    };
    table.lines().filter(here).count()
}

/// Closes both ways, so that the client sees the end at once.
pub(crate) fn hang_up(connection: Connection) {
    let _ = connection.tcp.shutdown(Shutdown::Both);
}
