//! HTTP/1.1 as far as a Kubernetes client needs it: request heads and bodies from bytes (pure functions), answers to
//! a socket.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;

use crate::stop::Stop;

use super::answer::{Failure, Outcome, Response};
use super::tls::Session;

/// The longest request head in bytes.
const HEAD_LIMIT: usize = 64 * 1024;
/// The largest body in bytes, as kube-apiserver's.
pub(super) const BODY_LIMIT: usize = 3 * 1024 * 1024;
const HEADERS_LIMIT: usize = 100;

/// A request.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) method: String,
    /// As it was sent, without the query.
    pub(super) path: String,
    pub(super) query_text: String,
    pub(super) query: Query,
    pub(super) accept: String,
    pub(super) content_type: String,
    pub(super) authorization: String,
    pub(super) user_agent: String,
    pub(super) body: Vec<u8>,
    pub(super) keep_alive: bool,
    /// The client has shown a certificate that was verified.
    pub(super) has_certificate: bool,
}

/// The parameters of a request.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name, true), decode(value, true))
        });
        Self(pairs.collect())
    }

    /// A parameter's value; absent and empty are the same.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
    }

    /// `true` and `1` are true, as Go reads it.
    pub(super) fn is_true(&self, name: &str) -> bool {
        matches!(self.get(name), "true" | "1" | "t" | "T" | "True" | "TRUE")
    }

    pub(super) fn number(&self, name: &str) -> Outcome<Option<u64>> {
        let text = self.get(name);
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| {
            Failure::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax"))
        })
    }
}

/// Undoes percent encoding; what is no UTF-8 becomes U+FFFD.
pub(super) fn decode(text: &str, plus_is_space: bool) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = |b: u8| char::from(b).to_digit(16);
        let (byte, left) = match (first, tail) {
            (b'%', [a, b, left @ ..]) => match (hex(*a), hex(*b)) {
                (Some(high), Some(low)) => ((high * 16 + low) as u8, left),
                _ => (b'%', tail),
            },
            (b'+', _) if plus_is_space => (b' ', tail),
            _ => (*first, tail),
        };
        out.push(byte);
        rest = left;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// How the length of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Bytes(usize),
    Chunked,
}

/// A request as far as its head goes.
#[derive(Debug)]
pub(super) struct Head {
    request: Request,
    length: Length,
    /// The client waits for `100 Continue` before it sends the body.
    expects_continue: bool,
    /// Where the body begins.
    bytes: usize,
}

/// Reads the head of a request from the beginning of `bytes`; `None` if it is not all there yet.
pub(super) fn parse_head(bytes: &[u8]) -> Outcome<Option<Head>> {
    let bad = |why: &str| Err(Failure::bad_http(400, &format!("malformed HTTP request: {why}")));
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_LIMIT];
    let mut parsed = httparse::Request::new(&mut headers);
    let read = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(read)) => read,
        Ok(httparse::Status::Partial) if bytes.len() > HEAD_LIMIT => {
            return Err(Failure::bad_http(431, "request header too large"));
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Failure::bad_http(431, "too many request headers"));
        }
        Err(e) => return bad(&e.to_string()),
    };
    let target = parsed.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Request {
        method: parsed.method.unwrap_or_default().into(),
        path: path.into(),
        query_text: query.into(),
        query: Query::parse(query),
        keep_alive: parsed.version == Some(1),
        ..Request::default()
    };
    let (mut length, mut expects_continue) = (None, false);
    for header in parsed.headers.iter() {
        let value = String::from_utf8_lossy(header.value);
        let value = value.trim();
        match header.name.to_ascii_lowercase().as_str() {
            "accept" if request.accept.is_empty() => request.accept = value.into(),
            "accept" => request.accept = format!("{},{value}", request.accept),
            "content-type" => request.content_type = value.into(),
            "authorization" => request.authorization = value.into(),
            "user-agent" => request.user_agent = value.into(),
            "expect" => expects_continue = value.eq_ignore_ascii_case("100-continue"),
            "connection" => {
                let has = |word: &str| value.split(',').any(|v| v.trim().eq_ignore_ascii_case(word));
                request.keep_alive = !has("close") && (request.keep_alive || has("keep-alive"));
            }
            "transfer-encoding" if !value.eq_ignore_ascii_case("chunked") => {
                return Err(Failure::bad_http(501, "unsupported transfer encoding"));
            }
            "transfer-encoding" if length.replace(Length::Chunked).is_some() => return bad("two lengths"),
            "transfer-encoding" => {}
            "content-length" => {
                // Rust takes a sign, too.
                let Some(bytes) = value.parse().ok().filter(|_| !value.starts_with('+')) else {
                    return bad("Content-Length is no number");
                };
                if length.replace(Length::Bytes(bytes)).is_some_and(|before| before != Length::Bytes(bytes)) {
                    return bad("two lengths");
                }
            }
            _ => {}
        }
    }
    let length = length.unwrap_or(Length::Bytes(0));
    if matches!(length, Length::Bytes(bytes) if bytes > BODY_LIMIT) {
        return Err(Failure::body_too_large(BODY_LIMIT));
    }
    Ok(Some(Head { request, length, expects_continue, bytes: read }))
}

/// Reads a chunked body from the beginning of `bytes`: the body and how long it was; `None` if it is not all there.
pub(super) fn parse_chunked(bytes: &[u8]) -> Outcome<Option<(Vec<u8>, usize)>> {
    let bad = || Failure::bad_http(400, "malformed HTTP request: invalid chunk");
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let (start, size) = match httparse::parse_chunk_size(&bytes[at..]) {
            Ok(httparse::Status::Complete((line, size))) => (at + line, size),
            // A line of extensions may have no end.
            Ok(httparse::Status::Partial) if bytes.len() - at > HEAD_LIMIT => return Err(bad()),
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(bad()),
        };
        let Some(size) = usize::try_from(size).ok().filter(|size| *size <= BODY_LIMIT - body.len()) else {
            return Err(Failure::body_too_large(BODY_LIMIT));
        };
        if size == 0 {
            // Trailers end with an empty line; nobody reads them.
            let Some(rest) = bytes.get(start..) else { return Ok(None) };
            let mut trailers = [httparse::EMPTY_HEADER; HEADERS_LIMIT];
            return match httparse::parse_headers(rest, &mut trailers) {
                Ok(httparse::Status::Complete((read, _))) => Ok(Some((body, start + read))),
                Ok(httparse::Status::Partial) if rest.len() > HEAD_LIMIT => Err(bad()),
                Ok(httparse::Status::Partial) => Ok(None),
                Err(_) => Err(bad()),
            };
        }
        let end = start + size;
        match bytes.get(end..end + 2) {
            Some(b"\r\n") => body.extend_from_slice(&bytes[start..end]),
            Some(_) => return Err(bad()),
            None => return Ok(None),
        }
        at = end + 2;
    }
}

/// A connection: what was read and not used yet stays for the next request.
pub(super) struct Connection {
    stream: Arc<TcpStream>,
    tls: Option<Session>,
    unread: Vec<u8>,
    stop: Stop,
}

/// Why there is no request.
pub(super) enum NoRequest {
    /// The connection ended, between requests or within one.
    Ended,
    /// It is answered, and then the connection ends: where the next request begins is unknown.
    Bad(Failure),
}

impl From<io::Error> for NoRequest {
    fn from(_: io::Error) -> Self {
        Self::Ended
    }
}

impl From<Failure> for NoRequest {
    fn from(failure: Failure) -> Self {
        Self::Bad(failure)
    }
}

impl Connection {
    /// `stop` is stopped when the server ends its connections; what reads or writes one is woken by its shutdown.
    pub(super) fn new(stream: Arc<TcpStream>, tls: Option<Session>, stop: Stop) -> Self {
        Self { stream, tls, unread: Vec::new(), stop }
    }

    pub(super) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Does the handshake of TLS, if that is spoken.
    pub(super) fn handshake(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        tls.handshake(&self.stream).inspect_err(|_| self.drain()) // or the alert would be lost
    }

    /// Waits for the next request.
    pub(super) fn request(&mut self) -> Result<Request, NoRequest> {
        let head = loop {
            if let Some(head) = parse_head(&self.unread)? {
                break head;
            }
            self.fill()?;
        };
        self.unread.drain(..head.bytes);
        if head.expects_continue {
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let mut request = head.request;
        request.has_certificate = self.tls.as_ref().is_some_and(Session::knows_client);
        match head.length {
            Length::Bytes(bytes) => {
                while self.unread.len() < bytes {
                    self.fill()?;
                }
                request.body = self.unread.drain(..bytes).collect();
            }
            Length::Chunked => {
                // Parsed again only when there is twice as much, so that many small chunks cost no square of time.
                let mut tried = 0;
                let (body, bytes) = loop {
                    let ends = self.unread.ends_with(b"\r\n\r\n") || self.unread.len() >= 2 * tried;
                    if ends {
                        tried = self.unread.len();
                        if let Some(done) = parse_chunked(&self.unread)? {
                            break done;
                        }
                    }
                    self.fill()?;
                };
                self.unread.drain(..bytes);
                request.body = body;
            }
        }
        Ok(request)
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        let read = match &mut self.tls {
            Some(tls) => tls.read(&self.stream, &mut buffer),
            None => (&*self.stream).read(&mut buffer),
        };
        match read? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                self.unread.extend_from_slice(&buffer[..read]);
                Ok(())
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => tls.write_all(&self.stream, bytes),
            None => (&*self.stream).write_all(bytes),
        }
    }

    /// Whether the client has closed its side. Does not wait.
    pub(super) fn is_abandoned(&mut self) -> io::Result<bool> {
        if !self.unread.is_empty() {
            return Ok(false);
        }
        self.stream.set_nonblocking(true)?;
        let filled = self.fill();
        self.stream.set_nonblocking(false)?;
        match filled {
            Ok(()) => Ok(false),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(true),
            Err(e) => Err(e),
        }
    }

    /// Ends a connection as it should: with TLS a client can tell that from a cut.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.tls.as_mut().map_or(Ok(()), |tls| tls.close(&self.stream))
    }

    /// Reads on for a moment after an answer that ends the connection, as a reset by unread bytes would lose it.
    pub(super) fn drain(&mut self) {
        let _ = self.close();
        let _ = self.stream.shutdown(Shutdown::Write);
        let _ = self.stream.set_read_timeout(Some(Duration::from_millis(500)));
        let mut buffer = [0; 16 * 1024];
        let mut left = 2 * BODY_LIMIT;
        while let Ok(read @ 1..) = (&*self.stream).read(&mut buffer) {
            left = left.saturating_sub(read);
            if left == 0 {
                break;
            }
        }
    }

    /// Sends a whole answer: long ones in chunks, as kube-apiserver does.
    pub(super) fn respond(&mut self, response: &Response, keep_alive: bool) -> io::Result<()> {
        const LONG: usize = 128 * 1024;
        let body = &response.body;
        let mut head = head(response.code, &response.content_type, keep_alive);
        if let Some(seconds) = response.retry_after {
            head.push_str(&format!("Retry-After: {seconds}\r\n"));
        }
        if body.len() <= LONG {
            head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
            let mut bytes = head.into_bytes();
            bytes.extend_from_slice(body);
            return self.write(&bytes);
        }
        head.push_str("Transfer-Encoding: chunked\r\n\r\n");
        self.write(head.as_bytes())?;
        for piece in body.chunks(LONG) {
            self.chunk(piece)?;
        }
        self.last_chunk()
    }

    /// Begins an answer that goes on as [`chunk`](Self::chunk)s.
    pub(super) fn begin_stream(&mut self, keep_alive: bool) -> io::Result<()> {
        let head = head(200, "application/json", keep_alive) + "Transfer-Encoding: chunked\r\n\r\n";
        self.write(head.as_bytes())
    }

    pub(super) fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.write(&chunk)
    }

    pub(super) fn last_chunk(&mut self) -> io::Result<()> {
        self.write(b"0\r\n\r\n")
    }

    /// Sends an answer whose body ends too early; the connection must end with it.
    pub(super) fn respond_in_part(&mut self, response: &Response, bytes: usize) -> io::Result<()> {
        let body = &response.body;
        let mut head = head(response.code, &response.content_type, true);
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        let mut sent = head.into_bytes();
        sent.extend_from_slice(&body[..bytes.min(body.len())]);
        self.write(&sent)
    }

    /// Keeps the connection open and silent until `over` stops, the client closes it, or the server ends it.
    pub(super) fn hold(&mut self, over: &Stop) -> io::Result<()> {
        let stream = Arc::downgrade(&self.stream);
        let _cut = over.on_stop(move || {
            if let Some(stream) = stream.upgrade() {
                let _ = stream.shutdown(Shutdown::Both); // it may be over already
            }
        });
        let mut buffer = [0; 16 * 1024];
        while (&*self.stream).read(&mut buffer)? > 0 {}
        Ok(())
    }

    /// Makes its end a reset, and fails with that: who gets it must not end the connection in another way.
    pub(super) fn reset(&mut self) -> io::Result<()> {
        SockRef::from(&*self.stream).set_linger(Some(Duration::ZERO))?;
        Err(io::ErrorKind::ConnectionReset.into())
    }
}

fn head(code: u16, content_type: &str, keep_alive: bool) -> String {
    let close = if keep_alive { "" } else { "Connection: close\r\n" };
    format!(
        "HTTP/1.1 {code} {}\r\nCache-Control: no-cache, private\r\nContent-Type: {content_type}\r\n{close}",
        reason(code)
    )
}

fn reason(code: u16) -> &'static str {
    match code {
        200 => "OK",
        201 => "Created",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        409 => "Conflict",
        410 => "Gone",
        413 => "Request Entity Too Large",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Internal Server Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_when_it_is_all_there() {
        let bytes =
            b"GET /api/v1/pods?labelSelector=a%3Db&x=1+2 HTTP/1.1\r\nAccept: application/json\r\n\r\n";
        for end in 0..bytes.len() {
            assert!(parse_head(&bytes[..end]).unwrap().is_none());
        }
        let head = parse_head(bytes).unwrap().unwrap();
        assert_eq!((head.bytes, head.length), (bytes.len(), Length::Bytes(0)));
        let request = head.request;
        assert_eq!((&*request.method, &*request.path), ("GET", "/api/v1/pods"));
        assert_eq!((request.query.get("labelSelector"), request.query.get("x")), ("a=b", "1 2"));
        assert!(request.keep_alive);
    }

    #[test]
    fn what_is_no_http_is_refused() {
        for bytes in [
            &b"\x16\x03\x01\x02\x00\x01"[..],
            b"GET /\r\n\r\n",
            b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            b"GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"GET / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
        ] {
            assert!(parse_head(bytes).is_err(), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_chunked_body_is_put_together() {
        let bytes = b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: x\r\n\r\nGET";
        for end in 0..bytes.len() - 3 {
            assert!(parse_chunked(&bytes[..end]).unwrap().is_none(), "{end}");
        }
        let (body, read) = parse_chunked(bytes).unwrap().unwrap();
        assert_eq!((&body[..], read), (&b"abcde"[..], bytes.len() - 3));
        assert!(parse_chunked(b"zz\r\n").is_err());
        assert!(parse_chunked(b"3\r\nabcd\r\n").is_err());
        assert!(parse_chunked(b"ffffffff\r\n").is_err());
        let endless = [&b"1;"[..], &[b'x'; HEAD_LIMIT]].concat();
        assert!(parse_chunked(&endless).is_err());
    }

    #[test]
    fn percent_encoding_that_is_none_stays() {
        assert_eq!(decode("a%2Fb%zz%4", false), "a/b%zz%4");
        assert_eq!(decode("%ff", false), "\u{fffd}");
    }

    /// Any bytes are a request, the beginning of one, or refused; what is read is within them, is not there before
    /// its last byte, and is the same whatever follows it.
    #[test]
    fn no_bytes_make_it_panic() {
        let parts: [&[u8]; 20] = [
            b"GET ",
            b"/a?b=%",
            b" HTTP/1.1",
            b"\r\n",
            b"\r\n",
            b"\r\n\r\n",
            b"Content-Length: ",
            b"1",
            b"ff",
            b"0",
            b"Transfer-Encoding: chunked",
            b"Connection: close",
            b"Accept: ,",
            b";x",
            b"ffffffffffffffff",
            b"\xff",
            b"\0",
            b" ",
            b"abc",
            b"GET / HTTP/1.1\r\n",
        ];
        let (mut seed, mut heads, mut bodies) = (88_172_645_463_325_252_u64, 0, 0);
        let mut random = |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % below as u64) as usize
        };
        for _ in 0..100_000 {
            let bytes: Vec<u8> = (0..random(10)).flat_map(|_| parts[random(parts.len())]).copied().collect();
            if let Ok(Some(head)) = parse_head(&bytes) {
                let read = head.bytes;
                assert!(matches!(parse_head(&bytes[..random(read)]), Ok(None)), "{}", bytes.escape_ascii());
                let alone = parse_head(&bytes[..read]).unwrap().unwrap();
                let told = |head: &Head| format!("{:?} {:?}", head.request, head.length);
                assert_eq!((alone.bytes, told(&alone)), (read, told(&head)), "{}", bytes.escape_ascii());
                heads += 1;
            }
            if let Ok(Some((body, read))) = parse_chunked(&bytes) {
                assert!(
                    matches!(parse_chunked(&bytes[..random(read)]), Ok(None)),
                    "{}",
                    bytes.escape_ascii()
                );
                assert_eq!(parse_chunked(&bytes[..read]).unwrap(), Some((body, read)));
                bodies += 1;
            }
        }
        assert!(heads > 500 && bodies > 500, "only {heads} heads and {bodies} bodies");
    }
}
