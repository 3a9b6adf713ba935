//! The lines of a watch on their way out, past the faults that it meets.

use std::io;
use std::sync::Arc;

use super::{Active, Effect, Faults};
use crate::apiserver::http::{Connection, Request};
use crate::stop::Stop;

/// Where a watch writes its lines.
pub(in crate::apiserver) struct Frames<'a> {
    connection: &'a mut Connection,
    faults: &'a Faults,
    request: &'a Request,
    met: Vec<Met>,
    /// How a fault has ended the watch.
    end: Option<End>,
}

/// A fault that this watch has met.
struct Met {
    active: Arc<Active>,
    /// Events since.
    events: usize,
    /// It has sent the line that it adds.
    sent: bool,
}

enum End {
    Silence(Stop),
    Close,
    Reset,
    Clean,
}

impl<'a> Frames<'a> {
    pub(in crate::apiserver) fn new(
        connection: &'a mut Connection,
        faults: &'a Faults,
        request: &'a Request,
    ) -> Self {
        Self { connection, faults, request, met: Vec::new(), end: None }
    }

    pub(in crate::apiserver) fn connection(&mut self) -> &mut Connection {
        self.connection
    }

    /// Meets the faults that were set since, which may end the watch: then it fails.
    pub(in crate::apiserver) fn check(&mut self) -> io::Result<()> {
        if self.faults.is_empty() {
            return Ok(());
        }
        loop {
            let (request, met) = (self.request, &self.met);
            let meets = |active: &Arc<Active>| {
                active.fault.effect.is_for_watches()
                    && active.fault.fits(Some(request))
                    && !met.iter().any(|met| Arc::ptr_eq(&met.active, active))
            };
            let Some(active) = self.faults.take(meets) else { return self.due() };
            self.met.push(Met { active, events: 0, sent: false });
        }
    }

    /// Sends a line, or what faults make of it; fails if they end the watch. A watch without faults pays two
    /// comparisons for them.
    pub(in crate::apiserver) fn send(&mut self, name: &str, object: &[u8]) -> io::Result<()> {
        let line = frame(name, object);
        self.check()?;
        if self.met.is_empty() {
            return self.connection.chunk(&line);
        }
        self.met.retain(|met| !met.active.over.is_stopped());
        let (mut copies, mut half) = (1, None);
        let is_event = !matches!(name, "BOOKMARK" | "ERROR");
        for met in &mut self.met {
            match (&met.active.fault.effect, is_event) {
                (Effect::NoBookmarks, false) if name == "BOOKMARK" => copies = 0,
                (Effect::Repeat, true) => copies *= 2,
                (Effect::Lose(number), true) if *number == met.events + 1 => copies = 0,
                (Effect::HalfLineThenSilence(after), true) if *after == met.events => {
                    half = Some(End::Silence(met.active.over.clone()));
                }
                (Effect::HalfLineThenClose(after), true) if *after == met.events => half = Some(End::Close),
                _ => {}
            }
            met.events += usize::from(is_event);
        }
        if let Some(end) = half {
            self.write(&line[..line.len() / 2])?;
            return self.end(end);
        }
        for _ in 0..copies {
            self.write(&line)?;
        }
        self.due()
    }

    /// What follows upon the events so far.
    fn due(&mut self) -> io::Result<()> {
        for at in 0..self.met.len() {
            let met = &mut self.met[at];
            let active = Arc::clone(&met.active);
            let passed = |after: &usize| met.events >= *after;
            let end = match &active.fault.effect {
                _ if active.over.is_stopped() => continue,
                Effect::Silence => End::Silence(active.over.clone()),
                Effect::SilenceAfter(after) if passed(after) => End::Silence(active.over.clone()),
                Effect::Close => End::Close,
                Effect::CutAfter(after) if passed(after) => End::Close,
                Effect::Reset => End::Reset,
                Effect::EndAfter(after) if passed(after) => End::Clean,
                Effect::ErrorAfter(after, reply) if passed(after) => {
                    self.write(&frame("ERROR", reply.event().as_bytes()))?;
                    End::Clean
                }
                Effect::LineAfter(after, line) if passed(after) && !met.sent => {
                    met.sent = true;
                    self.write(format!("{line}\n").as_bytes())?;
                    continue;
                }
                _ => continue,
            };
            return self.end(end);
        }
        Ok(())
    }

    fn end(&mut self, end: End) -> io::Result<()> {
        self.end = Some(end);
        Err(io::Error::other("a fault ended the watch"))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let trickles = |met: &Met| matches!(met.active.fault.effect, Effect::OneByteChunks);
        if self.met.iter().any(trickles) {
            return bytes.chunks(1).try_for_each(|byte| self.connection.chunk(byte));
        }
        self.connection.chunk(bytes)
    }

    /// Ends the answer as the watch ended, or as a fault wants it; blocks for as long as that is silent. Returns
    /// whether the connection can go on.
    pub(in crate::apiserver) fn finish(self, ran: io::Result<()>) -> io::Result<bool> {
        match self.end {
            None => ran?,
            Some(End::Clean) => {}
            Some(End::Close) => return Ok(false),
            Some(End::Reset) => return self.connection.reset().map(|()| false),
            Some(End::Silence(over)) => return self.connection.hold(&over).map(|()| false),
        }
        self.connection.last_chunk().map(|()| true)
    }
}

/// A line of a watch.
fn frame(name: &str, object: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(object.len() + 40);
    frame.extend_from_slice(br#"{"type":""#);
    frame.extend_from_slice(name.as_bytes());
    frame.extend_from_slice(br#"","object":"#);
    frame.extend_from_slice(object.trim_ascii_end());
    frame.extend_from_slice(b"}\n");
    frame
}
