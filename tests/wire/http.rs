//! Reads a recorded HTTP/1.1 response: as little as these files need.

use std::io::Read;
use std::path::Path;

pub(crate) struct Response {
    pub(crate) code: u16,
    pub(crate) body: Vec<u8>,
    /// Whether the body came to its end; one recording was cut off.
    pub(crate) whole: bool,
}

pub(crate) fn read(name: &str) -> Response {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire").join(name).with_extension("http");
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (head, body) = split(&bytes, b"\r\n\r\n").expect("a head and a body");
    let head = std::str::from_utf8(head).unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    let has = |header: &str| head.lines().any(|line| line.eq_ignore_ascii_case(header));
    let (mut body, whole) =
        if has("Transfer-Encoding: chunked") { chunks(body) } else { (body.to_vec(), true) };
    if has("Content-Encoding: gzip") {
        let mut text = Vec::new();
        flate2::read::MultiGzDecoder::new(&*body).read_to_end(&mut text).unwrap();
        body = text;
    }
    Response { code, body, whole }
}

/// The bytes in the chunks, and whether there was a last one.
fn chunks(mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some((length, rest)) = split(bytes, b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(length).unwrap(), 16).unwrap();
        if length == 0 {
            return (body, true);
        }
        body.extend_from_slice(&rest[..length]);
        bytes = rest[length..].strip_prefix(b"\r\n").unwrap();
    }
    (body, false)
}

fn split<'a>(bytes: &'a [u8], by: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = bytes.windows(by.len()).position(|window| window == by)?;
    Some((&bytes[..at], &bytes[at + by.len()..]))
}
