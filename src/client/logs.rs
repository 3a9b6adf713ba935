//! Logs of pods, line by line.

use std::fmt;
use std::time::Duration;

use memchr::memchr;

use super::request::Query;
use super::{Api, Client, RawRequest};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::http::{Body, Limits, Response};
use crate::object::{Resource, Time};
use crate::stop::Stop;

/// A longer line comes in pieces.
const LONGEST_LINE: usize = 1 << 20;
/// Bytes that are read at once, where that many come.
const USUAL: usize = 16 << 10;

/// Which part of a log to read: `v1` PodLogOptions upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct LogParams {
    container: String,
    follow: bool,
    previous: bool,
    timestamps: bool,
    insecure_backend: bool,
    since: Option<Since>,
    tail_lines: Option<u64>,
    limit_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Since {
    Ago(Duration),
    Time(Time),
}

impl LogParams {
    /// Of which container; needed where the pod has several.
    pub fn container(mut self, name: impl Into<String>) -> Self {
        self.container = name.into();
        self
    }

    /// Go on with what comes, until the container ends.
    pub fn follow(mut self) -> Self {
        self.follow = true;
        self
    }

    /// Of the container's run before this one, if it has restarted.
    pub fn previous(mut self) -> Self {
        self.previous = true;
        self
    }

    /// Each line begins with its time, as RFC 3339 with nanoseconds, and a space.
    pub fn timestamps(mut self) -> Self {
        self.timestamps = true;
        self
    }

    /// Only what is no older than this, in whole seconds and at least one. Takes the place of
    /// [`since_time`](Self::since_time).
    pub fn since(mut self, ago: Duration) -> Self {
        self.since = Some(Since::Ago(ago));
        self
    }

    /// Only what came at this time or later. Takes the place of [`since`](Self::since()).
    pub fn since_time(mut self, time: Time) -> Self {
        self.since = Some(Since::Time(time));
        self
    }

    /// Only the last so many lines, 0 for none but those that follow.
    pub fn tail_lines(mut self, lines: u64) -> Self {
        self.tail_lines = Some(lines);
        self
    }

    /// So many bytes and no more, at least 1; the last line may be cut off, or a little longer.
    pub fn limit_bytes(mut self, bytes: u64) -> Self {
        self.limit_bytes = Some(bytes);
        self
    }

    /// The API server does not check the certificate of the kubelet that it gets the log from: for nodes whose
    /// certificates it cannot verify. Another may then have written the log.
    pub fn insecure_skip_tls_verify_backend(mut self) -> Self {
        self.insecure_backend = true;
        self
    }

    pub(super) fn query(&self) -> Query {
        let mut query = Query::default();
        query.add_text("container", &self.container);
        query.add_flag("follow", self.follow);
        query.add_flag("previous", self.previous);
        query.add_flag("timestamps", self.timestamps);
        query.add_flag("insecureSkipTLSVerifyBackend", self.insecure_backend);
        match self.since {
            Some(Since::Ago(ago)) => query.add("sinceSeconds", &ago.as_secs().max(1).to_string()),
            Some(Since::Time(time)) => query.add("sinceTime", &time.to_string()),
            None => {}
        }
        let mut number = |key, number: Option<u64>| {
            if let Some(number) = number {
                query.add(key, &number.to_string());
            }
        };
        number("tailLines", self.tail_lines);
        number("limitBytes", self.limit_bytes);
        query
    }
}

impl<K: Resource> Api<K> {
    /// Reads the log of a pod, line by line as it comes, on a connection of its own.
    ///
    /// ```no_run
    /// # use listwatch::{Api, Client, LogParams, Stop, types::Pod};
    /// # fn main() -> listwatch::Result<()> {
    /// # let client = Client::try_default()?;
    /// let pods = Api::<Pod>::namespaced(&client, "default");
    /// for line in pods.logs("web-0", &LogParams::default().follow().tail_lines(10), &Stop::new())? {
    ///     println!("{}", line?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Blocks until the answer begins, and is asked again if it asks for that; then see [`LogLines`]. Silence of the
    /// client's [timeout](crate::Config::timeout) is an error, but not when [following](LogParams::follow()): a quiet pod
    /// may say nothing for hours, and kubelets do not even begin to answer before its first line. Then only the
    /// system's keepalive finds a dead connection, some minutes after the other end was gone; a proxy on the way may
    /// hide that. Who must know sets a limit of his own, by `stop`.
    ///
    /// The log of a pod that has no node yet is empty, and ends at once though it is followed: follow a pod that runs.
    ///
    /// # Errors
    /// If this is no `Api` of pods, there is no such pod, its container is not named or has not started (400), the
    /// server refuses, or the connection fails.
    pub fn logs(&self, name: &str, params: &LogParams, stop: &Stop) -> Result<LogLines> {
        let client = self.client();
        let open = |request: RawRequest| {
            client.patiently(stop, |left| match params.follow {
                true => client.follow(&request, stop),
                false => client.with_timeout(left).stream_alone(&request, client.timeout(), stop),
            })
        };
        let answer =
            self.check_pods("logs").and_then(|()| self.collection().logs(name, params)).and_then(open);
        match answer {
            Ok(answer) => {
                let what = format!("read the log of {} {}", self.resource(), self.key_of(name));
                Ok(LogLines {
                    body: Some(answer.body),
                    lines: Lines::new(LONGEST_LINE),
                    failed: None,
                    stop: stop.clone(),
                    what,
                })
            }
            Err(e) => Err(self.explain_named("read the log of", name, e)),
        }
    }

    /// Only pods have what they have.
    pub(super) fn check_pods(&self, what: &str) -> Result<()> {
        let resource = self.resource();
        if (resource.group(), &*resource.plural) == ("", "pods") {
            return Ok(());
        }
        Err(Error::invalid(format!("{resource} have no {what}: only pods do")))
    }
}

impl Client {
    /// Sends a request whose answer may begin late, and be silent for as long as it likes.
    fn follow(&self, request: &RawRequest, stop: &Stop) -> Result<Response> {
        let limits = Limits::Stream { head: Duration::MAX, silence: Duration::MAX };
        let answer = self.send(request, limits, stop, true)?;
        if !(200..=299).contains(&answer.code()) {
            // A refusal has no right to it.
            answer.body.set_silence(Some(self.timeout()));
        }
        self.accept(answer)
    }
}

/// The lines of a log, from [`Api::logs`].
///
/// [`next`](Iterator::next) blocks until there is a line, without its end: a newline, or a carriage return and a newline.
/// What is not UTF-8 is replaced by `U+FFFD`. A line of more than 1 MiB comes in pieces of that length, so it holds at
/// most some MiB. It ends with `None`
/// - at the end of the log, or of the container when following; a last line without a newline is one;
/// - within a moment once stopped;
/// - after an error: the connection broke or went silent in the middle of the log. What came before it, even half a
///   line, was told.
///
/// The API server itself ends the log as if it were complete when it loses the kubelet.
pub struct LogLines {
    /// `None` once it has ended.
    body: Option<Body>,
    lines: Lines,
    /// To be told behind the last line.
    failed: Option<Error>,
    stop: Stop,
    what: String,
}

impl Iterator for LogLines {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(line) = self.lines.next_line() {
                return Some(Ok(line));
            }
            let Some(body) = &mut self.body else {
                let rest = self.lines.rest().map(Ok);
                return rest.or_else(|| self.failed.take().map(Err));
            };
            match body.read(self.lines.buffer.space()) {
                Ok(0) => self.body = None,
                Ok(amount) => self.lines.buffer.filled(amount),
                Err(_) if self.stop.is_stopped() => {
                    self.body = None;
                    self.lines = Lines::new(LONGEST_LINE);
                }
                Err(e) => {
                    self.body = None;
                    self.failed = Some(e.context(self.what.as_str()));
                }
            }
        }
    }
}

/// Without what was read.
impl fmt::Debug for LogLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogLines").field("open", &self.body.is_some()).finish_non_exhaustive()
    }
}

/// Bytes to lines.
struct Lines {
    buffer: Buffer,
    longest: usize,
    /// How many bytes of the buffer are known to hold no newline.
    searched: usize,
}

impl Lines {
    fn new(longest: usize) -> Self {
        Self { buffer: Buffer::new(USUAL), longest, searched: 0 }
    }

    /// The next line, or a piece of one that is too long, if it is there.
    fn next_line(&mut self) -> Option<String> {
        let bytes = self.buffer.bytes();
        // With room for its end, which would else come as an empty piece.
        let within = bytes.len().min(self.longest + 2);
        if let Some(at) = memchr(b'\n', &bytes[self.searched..within]) {
            let end = self.searched + at;
            let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]).len();
            return Some(self.take(line, end + 1));
        }
        if within < self.longest + 2 {
            self.searched = within;
            return None;
        }
        let end = self.longest - unfinished(&bytes[..self.longest]);
        Some(self.take(end, end))
    }

    /// What is left at the end.
    fn rest(&mut self) -> Option<String> {
        let left = self.buffer.bytes().len();
        (left > 0).then(|| self.take(left, left))
    }

    fn take(&mut self, text: usize, whole: usize) -> String {
        let text = String::from_utf8_lossy(&self.buffer.bytes()[..text]).into_owned();
        self.buffer.consume(whole);
        self.searched = 0;
        text
    }
}

/// How many bytes at the end begin a character of UTF-8 and do not end it.
fn unfinished(bytes: &[u8]) -> usize {
    for (n, byte) in (1..).zip(bytes.iter().rev().take(3)) {
        let length = match byte {
            0x80..=0xBF => continue,
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => 1,
        };
        return if length > n { n } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a text that comes in pieces of this length, none longer than `longest`.
    fn lines(text: &[u8], piece: usize, longest: usize) -> Vec<String> {
        let (mut lines, mut all) = (Lines::new(longest), Vec::new());
        for bytes in text.chunks(piece) {
            lines.buffer.feed(bytes);
            all.extend(std::iter::from_fn(|| lines.next_line()));
        }
        all.extend(lines.rest());
        all
    }

    #[test]
    fn lines_are_the_same_however_they_come() {
        let text = "a\n\n  b\r\nc\rd\r\n\r\nä€😀\nlast";
        for piece in 1..text.len() {
            assert_eq!(lines(text.as_bytes(), piece, 1000), ["a", "", "  b", "c\rd", "", "ä€😀", "last"]);
        }
        assert_eq!(lines(b"a\n", 2, 1000), ["a"]);
        assert_eq!(lines(b"", 1, 1000), [""; 0]);
        assert_eq!(lines(b"\xff\xfea\xe2\x82\n\xf0\x9f", 1, 1000), ["\u{fffd}\u{fffd}a\u{fffd}", "\u{fffd}"]);
    }

    #[test]
    fn a_long_line_comes_in_pieces_that_cut_no_character_and_add_no_line() {
        let text = "ab€😀".repeat(40);
        for longest in 4..20 {
            for end in ["", "\n", "\r\n"] {
                for piece in [1, 3, 7, 1000] {
                    let all = lines(format!("{text}{end}").as_bytes(), piece, longest);
                    assert_eq!(all.concat(), text);
                    assert!(all.iter().all(|piece| (longest - 3..=longest + 2).contains(&piece.len())
                        || piece == all.last().unwrap()));
                }
            }
        }
        for length in 8..12 {
            for end in ["\n", "\r\n"] {
                let text = "x".repeat(length) + end;
                assert_eq!(lines(text.as_bytes(), 1, 10).concat(), "x".repeat(length));
            }
            assert_eq!(lines(("x".repeat(10) + "\r\n").as_bytes(), 1, 10), ["x".repeat(10)]);
        }
        // Bytes that are no text do not hold it up.
        assert_eq!(lines(&[0x80; 40], 1, 10).concat(), "\u{fffd}".repeat(40));
    }
}
