//! A watch as an iterator of events.

use std::fmt;
use std::time::Duration;

use crate::error::Result;
use crate::http::Response;
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
    /// `None` once it has ended.
    answer: Option<Response>,
    decoder: WatchDecoder<K>,
    stop: Stop,
}

impl<K: Resource> Watch<K> {
    /// `initial` limits the silence until a bookmark says that the initial events were all.
    pub(super) fn new(answer: Response, expect: Expect, initial: Option<Duration>, stop: Stop) -> Self {
        answer.body.set_silence(initial);
        Self { answer: Some(answer), decoder: WatchDecoder::new(expect), stop }
    }

    fn read(&mut self) -> Result<Option<WatchEvent<K>>> {
        while let Some(answer) = &mut self.answer {
            if let Some(event) = self.decoder.next_event() {
                if let Ok(WatchEvent::Bookmark(Bookmark { initial_events_end: true, .. })) = &event {
                    answer.body.set_silence(None);
                }
                return event.map(Some);
            }
            match answer.body.read(self.decoder.space())? {
                0 => {
                    self.answer = None;
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
                self.answer = None;
                if self.stop.is_stopped() { None } else { Some(Err(e.context("watch"))) }
            }
        }
    }
}

impl<K> fmt::Debug for Watch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("open", &self.answer.is_some()).finish_non_exhaustive()
    }
}
