//! A watch as an iterator of events.

use std::fmt;
use std::time::Duration;

use crate::error::Result;
use crate::http::{Body, Response};
use crate::object::Resource;
use crate::stop::Stop;
use crate::wire::{Bookmark, Expect, WatchDecoder, WatchEvent};

/// The events of one watch request, from [`Api::watch`](crate::Api::watch).
///
/// [`next`](Iterator::next) blocks until there is an event; it returns within a moment once stopped, and after the
/// time of [`WatchParams::silence`](crate::WatchParams::silence) without a byte. It ends with `None`
/// - after the server ended the watch, which it does after some minutes: watch again from the last resourceVersion;
/// - when stopped;
/// - after an error, but for one: JSON that does not fit `K` (see [`Error::unfit`](crate::Error::unfit)) loses that event only.
///
/// [`Informer`](crate::Informer) does all this, for ever.
pub struct Watch<K> {
    /// `None` once it has ended. Without its head, which would be kept for hours.
    body: Option<Body>,
    decoder: WatchDecoder<K>,
    stop: Stop,
}

impl<K: Resource> Watch<K> {
    /// `initial` limits the silence until a bookmark says that the initial events were all.
    pub(super) fn new(answer: Response, expect: Expect, initial: Option<Duration>, stop: Stop) -> Self {
        answer.body.set_silence(initial);
        Self { body: Some(answer.body), decoder: WatchDecoder::new(expect), stop }
    }

    fn read(&mut self) -> Result<Option<WatchEvent<K>>> {
        while let Some(body) = &mut self.body {
            if let Some(event) = self.decoder.next_event() {
                if let Ok(WatchEvent::Bookmark(Bookmark { initial_events_end: true, .. })) = &event {
                    body.set_silence(None);
                }
                return event.map(Some);
            }
            match body.read(self.decoder.space())? {
                0 => {
                    self.body = None;
                    self.decoder.finish()?;
                }
                amount => self.decoder.filled(amount),
            }
        }
        Ok(None)
    }
}

impl<K: Resource> Iterator for Watch<K> {
    type Item = Result<WatchEvent<K>>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.read() {
            Ok(event) => event.map(Ok),
            Err(e) if e.unfit().is_some() => Some(Err(e)),
            Err(e) => {
                self.body = None;
                if self.stop.is_stopped() { None } else { Some(Err(e.context("watch"))) }
            }
        }
    }

    /// At least one where the next event, or an error, is there without a read.
    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.body.is_some() && self.decoder.has_line()), None)
    }
}

impl<K> fmt::Debug for Watch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("open", &self.body.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use crossbeam_channel::{Receiver, bounded};

    use super::*;
    use crate::client::{Client, Method, RawRequest};
    use crate::config::Config;
    use crate::object::Object;

    const LONG: Duration = Duration::from_secs(120);
    const INITIAL: Duration = Duration::from_millis(500);

    /// A server of one watch, which sends each line when the test says so.
    fn watch(lines: Receiver<&'static str>) -> Watch<Object> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serve = move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
            for line in lines {
                // In one piece: the end of a line must not come after its beginning was read.
                stream.write_all(format!("{:x}\r\n{line}\n\r\n", line.len() + 1).as_bytes()).unwrap();
            }
        };
        thread::Builder::new().spawn(serve).unwrap();
        let (stop, client) = (Stop::new(), Client::new(Config::new(&url).unwrap()).unwrap());
        let answer = client.stream_alone(&RawRequest::new(Method::Get, "/"), LONG, &stop).unwrap();
        Watch::new(answer, Expect::default(), Some(INITIAL), stop)
    }

    #[test]
    fn the_initial_events_must_come_soon_and_what_follows_may_take_its_time() {
        let (line, lines) = bounded(1);
        let mut watch = watch(lines);
        line.send(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}"#)
            .unwrap();
        assert!(matches!(watch.next(), Some(Ok(WatchEvent::Bookmark(b))) if b.initial_events_end));
        let later = thread::Builder::new().spawn(move || {
            // Lets time pass: this is what is tested.
            let _ = crossbeam_channel::never::<()>().recv_timeout(INITIAL * 2);
            line.send(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2"}}}"#).unwrap();
            line
        });
        assert!(matches!(watch.next(), Some(Ok(WatchEvent::Bookmark(b))) if b.resource_version == "2"));
        drop(later);
    }

    #[test]
    fn says_whether_the_next_event_is_there_without_a_read() {
        const BOOKMARK: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2"}}}"#;
        let two: &'static str = format!("{BOOKMARK}\n{BOOKMARK}").leak();
        let (line, lines) = bounded(2);
        let mut watch = watch(lines);
        assert_eq!(watch.size_hint().0, 0);
        line.send(two).unwrap();
        assert!(watch.next().is_some());
        assert_eq!(watch.size_hint().0, 1);
        assert!(watch.next().is_some());
        assert_eq!(watch.size_hint().0, 0);
        drop(line);
    }

    #[test]
    fn a_server_that_does_not_end_the_initial_events_is_found_out() {
        let (line, lines) = bounded(1);
        let mut watch = watch(lines);
        // Such a bookmark does not say that these were all.
        line.send(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}"#).unwrap();
        assert!(matches!(watch.next(), Some(Ok(WatchEvent::Bookmark(_)))));
        assert!(watch.next().unwrap().unwrap_err().is_timeout());
    }
}
