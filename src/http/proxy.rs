//! What is said to a proxy before its connection is the server's: CONNECT (RFC 9110, 9.3.6) or SOCKS5 (RFC 1928, 1929).

use std::io::{self, Read, Write};
use std::net::IpAddr;

use memchr::memchr;

use super::connector::ip_of;
use crate::config::{Proxy, ProxyKind, Secret};
use crate::error::{Error, Kind};

/// How long the head of a proxy's answer may be.
const LONGEST_HEAD: usize = 16 << 10;
/// How much of the body of a refusal is read, and how much of that is told.
const REFUSAL: usize = 4 << 10;
const TOLD: usize = 200;

/// Has the proxy at the other end of `stream` connect it to the server. The stream has a limit of time.
pub(super) fn connect(
    proxy: &Proxy,
    host: &str,
    port: u16,
    stream: &mut (impl Read + Write),
) -> Result<(), Error> {
    match proxy.kind {
        ProxyKind::Http | ProxyKind::Https => tunnel(proxy, host, port, stream),
        ProxyKind::Socks5 => socks5(proxy, host, port, stream),
    }
}

/// How requests to an http server are sent through a proxy of HTTP.
pub(super) struct Forward {
    /// Goes before the path.
    pub(super) origin: String,
    pub(super) authorization: Option<Secret>,
}

/// The head of a request with what ureq does not know of: it logs each byte of the head that it wrote. `None` if the
/// first line is not whole.
pub(super) fn complete(
    head: &[u8],
    credential: Option<&Secret>,
    forward: Option<&Forward>,
) -> Option<Vec<u8>> {
    let (line, rest) = head.split_at(memchr(b'\n', head)? + 1);
    let (method, line) = line.split_at(memchr(b' ', line)? + 1);
    let origin = forward.map_or("", |forward| &forward.origin);
    let mut whole = [method, origin.as_bytes(), line].concat();
    let for_proxy = forward.and_then(|forward| forward.authorization.as_ref());
    for (name, value) in [("authorization", credential), ("proxy-authorization", for_proxy)] {
        if let Some(value) = value {
            whole.extend_from_slice([name, ": ", value.expose(), "\r\n"].concat().as_bytes());
        }
    }
    whole.extend_from_slice(rest);
    Some(whole)
}

fn tunnel(proxy: &Proxy, host: &str, port: u16, stream: &mut (impl Read + Write)) -> Result<(), Error> {
    let mut request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
    if let Some(authorization) = proxy.authorization() {
        request += &format!("Proxy-Authorization: {}\r\n", authorization.expose());
    }
    request += "\r\n";
    send(stream, request.as_bytes())?;

    let mut answer = Vec::new();
    let end = loop {
        if let Some(end) = end_of_head(&answer) {
            break end;
        }
        let start = &answer[..answer.len().min(5)];
        if !b"HTTP/".starts_with(start) {
            let start = String::from_utf8_lossy(&answer[..answer.len().min(50)]);
            return Err(failed(format!("the proxy does not speak HTTP: {start:?}")));
        }
        if answer.len() > LONGEST_HEAD {
            return Err(failed(format!("the head of the proxy's answer has over {LONGEST_HEAD} bytes")));
        }
        if more(stream, &mut answer).map_err(broke)? == 0 {
            return Err(broke(io::ErrorKind::UnexpectedEof.into()));
        }
    };
    let mut body = answer.split_off(end);
    let head = String::from_utf8_lossy(&answer);
    let (line, headers) = head.split_once('\n').unwrap_or((&head, ""));
    let status = line.trim_end().split_once(' ').unwrap_or_default().1;
    let code = status.split(' ').next().and_then(|code| code.parse().ok()).unwrap_or(0);
    match code {
        // A server of TLS does not speak first, so this would be from somebody else.
        200..=299 if !body.is_empty() => Err(failed("the proxy said more than it was asked for")),
        200..=299 => Ok(()),
        100..=599 => {
            let length = headers.lines().filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
            });
            let wanted = REFUSAL.min(length.unwrap_or(REFUSAL));
            // What comes of it will do.
            while body.len() < wanted && !body.ends_with(b"0\r\n\r\n") {
                match more(stream, &mut body) {
                    Ok(1..) => {}
                    _ => break,
                }
            }
            body.truncate(wanted);
            let text = words(&body);
            let colon = if text.is_empty() { "" } else { ": " };
            let login =
                if code == 407 && proxy.login.is_none() { " (its URL has no user and password)" } else { "" };
            Err(failed(format!("the proxy answered {status}{login}{colon}{text}")))
        }
        _ => Err(failed(format!("the proxy does not speak HTTP: {:?}", line.trim_end()))),
    }
}

/// What follows the empty line.
fn end_of_head(answer: &[u8]) -> Option<usize> {
    let mut line = 0;
    while let Some(length) = memchr(b'\n', &answer[line..]) {
        let next = line + length + 1;
        if line > 0 && matches!(&answer[line..next], b"\r\n" | b"\n") {
            return Some(next);
        }
        line = next;
    }
    None
}

/// The beginning of a text for people, without the tags of HTML.
fn words(body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let mut text = String::new();
    let mut rest = &*body;
    while let Some((before, tag)) = rest.split_once('<') {
        text += before;
        text.push(' ');
        // What a style says is for nobody to read, and may be long.
        let end = if tag.starts_with("style") {
            "</style>"
        } else if tag.starts_with("!--") {
            "-->"
        } else {
            ">"
        };
        rest = tag.split_once(end).map_or("", |(_, after)| after);
    }
    text += rest;
    let mut told = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = told.char_indices().nth(TOLD) {
        told.truncate(end);
        told.push('…');
    }
    told
}

fn socks5(proxy: &Proxy, host: &str, port: u16, stream: &mut (impl Read + Write)) -> Result<(), Error> {
    const VERSION: u8 = 5;
    const NO_LOGIN: u8 = 0;
    const LOGIN: u8 = 2;
    const NONE_FITS: u8 = 0xff;

    let methods: &[u8] = if proxy.login.is_some() { &[NO_LOGIN, LOGIN] } else { &[NO_LOGIN] };
    send(stream, &[&[VERSION, methods.len() as u8][..], methods].concat())?;
    match (receive::<2>(stream)?, &proxy.login) {
        ([VERSION, NO_LOGIN], _) => {}
        ([VERSION, LOGIN], Some((user, password))) => {
            let mut login = vec![1];
            for part in [user.expose(), password.expose()] {
                login.push(part.len() as u8); // that it fits was seen to when the proxy was set
                login.extend_from_slice(part.as_bytes());
            }
            send(stream, &login)?;
            let [_, refused] = receive::<2>(stream)?;
            if refused != 0 {
                return Err(failed("the proxy refused the user or the password"));
            }
        }
        ([VERSION, NONE_FITS | LOGIN], None) => {
            return Err(failed("the proxy wants a user and password, and its URL has none"));
        }
        ([VERSION, NONE_FITS], Some(_)) => return Err(failed("the proxy takes no user and password")),
        ([VERSION, method], _) => {
            return Err(failed(format!("the proxy wants a login of an unknown kind ({method})")));
        }
        (other, _) => {
            return Err(failed(format!(
                "the proxy does not speak SOCKS5: {:?}",
                other.escape_ascii().to_string()
            )));
        }
    }

    let mut request = vec![VERSION, 1, 0]; // connect
    match ip_of(host) {
        Some(IpAddr::V4(ip)) => {
            request.push(1);
            request.extend_from_slice(&ip.octets());
        }
        Some(IpAddr::V6(ip)) => {
            request.push(4);
            request.extend_from_slice(&ip.octets());
        }
        None => {
            let length = u8::try_from(host.len());
            request.extend([3, length.map_err(|_| failed("the server's name is too long for SOCKS"))?]);
            request.extend_from_slice(host.as_bytes());
        }
    }
    request.extend_from_slice(&port.to_be_bytes());
    send(stream, &request)?;

    let [version, reply] = receive::<2>(stream)?;
    if version != VERSION {
        return Err(failed("the proxy does not speak SOCKS5"));
    }
    let why = match reply {
        0 => {
            // From where it connected, which is of no interest.
            let length = match receive::<2>(stream)? {
                [_, 1] => 4,
                [_, 4] => 16,
                [_, 3] => receive::<1>(stream)?[0].into(),
                _ => return Err(failed("the proxy does not speak SOCKS5")),
            };
            let mut address = [0; 255 + 2];
            return stream.read_exact(&mut address[..length + 2]).map_err(broke);
        }
        1 => "it failed".to_owned(),
        2 => "its rules do not allow it".to_owned(),
        3 => "the network cannot be reached".to_owned(),
        4 => "the host cannot be reached, or its name is not known there".to_owned(),
        5 => "the connection was refused".to_owned(),
        6 => "the time to live was over".to_owned(),
        7 => "it cannot connect (the command is not supported)".to_owned(),
        8 => "it does not know this type of address".to_owned(),
        reply => format!("reply {reply}"),
    };
    Err(failed(format!("the proxy could not connect: {why}")))
}

fn send(stream: &mut impl Write, bytes: &[u8]) -> Result<(), Error> {
    stream.write_all(bytes).and_then(|()| stream.flush()).map_err(broke)
}

fn receive<const N: usize>(stream: &mut impl Read) -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).map_err(broke)?;
    Ok(bytes)
}

/// Appends what comes next; 0 is the end.
fn more(stream: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<usize> {
    let mut piece = [0; 1024];
    let amount = stream.read(&mut piece)?;
    bytes.extend_from_slice(&piece[..amount]);
    Ok(amount)
}

fn failed(what: impl Into<String>) -> Error {
    Error::new(Kind::Connect, what)
}

fn broke(e: io::Error) -> Error {
    match e.kind() {
        io::ErrorKind::TimedOut => failed("the proxy did not answer in time"),
        io::ErrorKind::UnexpectedEof => failed("the proxy closed the connection before its answer was whole"),
        // What its TLS says is to be found by those who look for another certificate.
        _ => match e.downcast::<Error>() {
            Ok(said) => said.context("the connection to the proxy broke"),
            Err(e) => failed("the connection to the proxy broke").with_source(e),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers what is written down, a byte at a time, and keeps what is sent.
    struct Script {
        answers: Vec<u8>,
        sent: Vec<u8>,
    }

    impl Read for Script {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let amount = buf.len().min(self.answers.len()).min(1);
            buf[..amount].copy_from_slice(&self.answers[..amount]);
            self.answers.drain(..amount);
            Ok(amount)
        }
    }

    impl Write for Script {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.sent.extend_from_slice(buf);
            Ok(buf.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What was sent, and the error or what of the answers is left.
    fn play(url: &str, host: &str, answers: impl AsRef<[u8]>) -> (Vec<u8>, Result<Vec<u8>, String>) {
        let config = crate::Config::new("https://unused").unwrap().with_proxy_url(url).unwrap();
        let proxy = config.proxy(&|_| None).unwrap().unwrap();
        let mut stream = Script { answers: answers.as_ref().to_vec(), sent: Vec::new() };
        let done = connect(&proxy, host, 6443, &mut stream);
        if let Err(e) = &done {
            assert!(e.is_connect() && !e.to_string().contains("hidden"), "{e:?}");
        }
        (stream.sent, done.map(|()| stream.answers).map_err(|e| e.to_string()))
    }

    #[test]
    fn a_tunnel_is_asked_for_and_nothing_behind_the_answer_is_read() {
        for host in ["api.test", "10.0.0.1", "[fd00::1]"] {
            let answer = "HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nS";
            let (sent, left) = play("http://proxy.test", host, answer);
            assert_eq!(sent, format!("CONNECT {host}:6443 HTTP/1.1\r\nHost: {host}:6443\r\n\r\n").as_bytes());
            assert_eq!(left.unwrap(), b"S");
        }
        let (sent, left) = play("https://bob:p%40ss@proxy.test", "api.test", "HTTP/1.0 200\n\n");
        let sent = String::from_utf8(sent).unwrap();
        assert!(sent.ends_with("\r\nProxy-Authorization: Basic Ym9iOnBAc3M=\r\n\r\n"), "{sent}");
        assert_eq!(left.unwrap(), b"");
    }

    #[test]
    fn a_refusal_is_told_with_code_reason_and_text() {
        let page = "<html><head><title>403 Filtered</title><style>h1 {color: red}</style></head>\
                    <body><!-- a > b --><h1>Filtered</h1>\n <p>by our\n rules</body></html>";
        let long = format!("500 Long: {}…", "é".repeat(200));
        for (answer, told) in [
            ("HTTP/1.1 403 Forbidden\r\n\r\nnot\r\nyou".to_owned(), "403 Forbidden: not you"),
            ("HTTP/1.1 502\r\nContent-Length: 0\r\n\r\n".into(), "502"),
            ("HTTP/1.1 503 Busy\r\ncontent-length:3\r\n\r\nnowelse".into(), "503 Busy: now"),
            ("HTTP/1.1 301 Moved\r\nLocation: http://x\r\n\r\n".into(), "301 Moved"),
            (
                "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n".into(),
                "407 Proxy Authentication Required (its URL has no user and password)",
            ),
            (
                format!("HTTP/1.1 403 Filtered\r\n\r\n{page}"),
                "403 Filtered: 403 Filtered Filtered by our rules",
            ),
            (format!("HTTP/1.1 500 Long\r\n\r\n{}", "é".repeat(9000)), &*long),
        ] {
            let (_, done) = play("http://proxy.test", "api.test", &answer);
            assert_eq!(done.unwrap_err(), format!("the proxy answered {told}"));
        }
        let (_, done) = play("http://bob:hidden@proxy.test", "x", "HTTP/1.1 407 Who\r\n\r\nwrong");
        assert_eq!(done.unwrap_err(), "the proxy answered 407 Who: wrong");
    }

    #[test]
    fn what_is_no_answer_of_http_is_told_at_once() {
        for (answer, told) in [
            ("SSH-2.0-OpenSSH\r\n".to_owned(), "does not speak HTTP: \"S\""),
            ("HTTP/1.1 abc\r\n\r\n".to_owned(), "does not speak HTTP: \"HTTP/1.1 abc\""),
            ("HTTP/1.1\r\n\r\n".to_owned(), "does not speak HTTP"),
            ("HTTP/1.1 99 x\r\n\r\n".to_owned(), "does not speak HTTP"),
            (String::new(), "closed the connection"),
            ("HTTP/1.1 200 OK\r\nVia: x\r\n".to_owned(), "closed the connection"),
            (format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(1 << 20)), "over 16384 bytes"),
        ] {
            let (_, done) = play("http://proxy.test", "api.test", &answer);
            let error = done.unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn socks_gets_a_name_as_it_is_and_an_address_in_bytes() {
        let bound: [&[u8]; 3] = [
            b"\x05\0\0\x01\x7f\0\0\x01\x04\x38",
            b"\x05\0\0\x03\x02ab\x04\x38",
            &[5, 0, 0, 4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18],
        ];
        for bound in bound {
            for (host, address) in [
                ("api.test", b"\x03\x08api.test".to_vec()),
                ("10.0.0.1", b"\x01\x0a\0\0\x01".to_vec()),
                ("[fd00::1]", [&b"\x04\xfd"[..], &[0; 14], b"\x01"].concat()),
            ] {
                let (sent, left) = play("socks5://proxy.test", host, [b"\x05\0", bound, b"S"].concat());
                assert_eq!(sent, [b"\x05\x01\0", &b"\x05\x01\0"[..], &address, b"\x19\x2b"].concat());
                assert_eq!(left.unwrap(), b"S");
            }
        }
    }

    #[test]
    fn socks_is_told_the_user_and_password_if_it_asks() {
        let done = b"\x05\0\0\x01\0\0\0\0\0\0";
        let (sent, left) =
            play("socks5h://bob:p%40s@proxy.test", "x", [b"\x05\x02\x01\0", &done[..]].concat());
        assert!(
            sent.starts_with(b"\x05\x02\0\x02\x01\x03bob\x03p@s\x05\x01\0\x03\x01x"),
            "{}",
            sent.escape_ascii()
        );
        assert!(left.is_ok());
        let (sent, left) = play("socks5://bob:p%40s@proxy.test", "x", [b"\x05\0", &done[..]].concat());
        assert!(left.is_ok() && !sent.windows(3).any(|three| three == b"p@s"), "{}", sent.escape_ascii());
    }

    #[test]
    fn each_refusal_of_socks_is_put_into_words() {
        for (reply, told) in [
            (1, "it failed"),
            (2, "rules"),
            (3, "network"),
            (4, "host cannot be reached"),
            (5, "refused"),
            (6, "time to live"),
            (7, "not supported"),
            (8, "type of address"),
            (9, "reply 9"),
        ] {
            // Some send no more than the reply.
            let (_, done) = play("socks5://proxy.test", "x", [5, 0, 5, reply]);
            let error = done.unwrap_err();
            assert!(error.starts_with("the proxy could not connect: ") && error.contains(told), "{error}");
        }
        let with_login = "socks5://bob:hidden@proxy.test";
        let long = "x".repeat(256);
        for (url, host, answers, told) in [
            ("socks5://proxy.test", "x", &b"\x05\xff"[..], "wants a user and password, and its URL has none"),
            (with_login, "x", b"\x05\xff", "takes no user and password"),
            (with_login, "x", b"\x05\x01", "unknown kind (1)"),
            (with_login, "x", b"\x05\x02\x01\x01", "refused the user or the password"),
            ("socks5://proxy.test", "x", b"HTTP/1.1 400 Bad", "does not speak SOCKS5: \"HT\""),
            ("socks5://proxy.test", "x", b"\x05\0\x04\0", "does not speak SOCKS5"),
            ("socks5://proxy.test", "x", b"\x05\0\x05\0\0\x09", "does not speak SOCKS5"),
            ("socks5://proxy.test", "x", b"", "closed the connection"),
            ("socks5://proxy.test", "x", b"\x05\0\x05\0\0\x01\0", "closed the connection"),
            ("socks5://proxy.test", &long, b"\x05\0", "too long"),
        ] {
            let (_, done) = play(url, host, answers);
            let error = done.unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn credentials_go_behind_the_first_line() {
        let head = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n";
        let token = Secret::new("Bearer t");
        let login = Secret::new("Basic b");
        let whole = |credential, forward| {
            complete(head, credential, forward).map(|head| String::from_utf8(head).unwrap()).unwrap()
        };
        assert_eq!(whole(None, None).as_bytes(), head);
        assert_eq!(
            whole(Some(&token), None),
            "GET /a HTTP/1.1\r\nauthorization: Bearer t\r\nhost: x\r\n\r\n"
        );
        let forward = Forward { origin: "http://x:80".into(), authorization: Some(login) };
        assert_eq!(
            whole(Some(&token), Some(&forward)),
            "GET http://x:80/a HTTP/1.1\r\nauthorization: Bearer t\r\nproxy-authorization: Basic b\r\nhost: x\r\n\r\n"
        );
        assert_eq!(complete(b"GET /", Some(&token), None), None);
    }
    #[test]
    #[cfg(not(feature = "tls"))]
    fn an_https_proxy_needs_the_feature_tls_and_others_do_not() {
        let client = |proxy: &str| {
            crate::Client::new(crate::Config::new("http://api.test").unwrap().with_proxy_url(proxy).unwrap())
        };
        let error = client("https://bob:hidden@proxy.test").unwrap_err();
        let told = "the proxy https://proxy.test:443: https:// needs the feature `tls` of listwatch";
        assert!(error.is_config() && error.to_string() == told, "{error:?}");
        for proxy in ["http://proxy.test", "socks5://proxy.test"] {
            client(proxy).unwrap();
        }
    }
}
