//! The buffers of a connection, which are as large as what goes through them.

use ureq::unversioned::transport::Buffers;

use crate::buffer::Buffer;

/// Bytes that are read from a socket at once, where that many come.
const INPUT: usize = 64 << 10;
/// So many bytes may wait for what makes them of use: the end of a head, of which ureq takes 64 KiB, or of a line between
/// chunks.
const MOST: usize = 128 << 10;
/// Bytes of a request that are written at once; what is not its body must fit.
pub(super) const OUTPUT: usize = 8 << 10;

/// What ureq reads and writes through. ureq's own have their full length for as long as the connection lasts; these
/// give memory back: that for the request once it is sent, the rest while the connection is [idle](Self::release).
pub(super) struct ConnectionBuffers {
    input: Buffer,
    /// Empty while nothing is to be sent.
    output: Vec<u8>,
    /// Whether the last bytes could be used, so that there may be more to use in those that are there.
    progress: bool,
}

impl ConnectionBuffers {
    pub(super) const fn new() -> Self {
        Self { input: Buffer::new(INPUT), output: Vec::new(), progress: false }
    }

    /// The request has been sent.
    pub(super) fn sent(&mut self) {
        self.output = Vec::new();
    }

    /// No call uses the connection.
    pub(super) fn release(&mut self) {
        self.sent();
        self.input.release();
    }
}

impl Buffers for ConnectionBuffers {
    fn output(&mut self) -> &mut [u8] {
        self.output.resize(OUTPUT, 0);
        &mut self.output
    }

    fn input(&self) -> &[u8] {
        self.input.bytes()
    }

    fn input_append_buf(&mut self) -> &mut [u8] {
        // No room reads as no progress, which is an error.
        if self.input.bytes().len() < MOST { self.input.space() } else { &mut [] }
    }

    fn input_appended(&mut self, amount: usize) {
        self.input.filled(amount);
    }

    fn input_consume(&mut self, amount: usize) {
        self.progress = amount > 0;
        self.input.consume(amount);
    }

    fn tmp_and_output(&mut self) -> (&mut [u8], &mut [u8]) {
        self.output.resize(OUTPUT, 0);
        (self.input.space(), &mut self.output)
    }

    fn can_use_input(&self) -> bool {
        self.progress && !self.input.bytes().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_keeps_no_memory_once_it_is_sent() {
        let mut buffers = ConnectionBuffers::new();
        assert_eq!(buffers.output().len(), OUTPUT);
        buffers.sent();
        assert_eq!(buffers.output.capacity(), 0);
        assert_eq!(buffers.output().len(), OUTPUT);
    }

    #[test]
    fn bytes_that_are_of_no_use_take_limited_memory() {
        let mut buffers = ConnectionBuffers::new();
        for _ in 0..1000 {
            let amount = buffers.input_append_buf().len();
            buffers.input_appended(amount);
        }
        assert!((MOST..=2 * MOST).contains(&buffers.input().len()), "{}", buffers.input().len());
    }

    #[test]
    fn an_idle_connection_has_no_buffers() {
        let mut buffers = ConnectionBuffers::new();
        buffers.output();
        while buffers.input().len() <= INPUT {
            let amount = buffers.input_append_buf().len();
            buffers.input_appended(amount);
        }
        buffers.input_consume(buffers.input().len());
        buffers.release();
        assert_eq!((buffers.input().len(), buffers.output.capacity()), (0, 0));
        assert_eq!(buffers.input_append_buf().len(), Buffer::LEAST);
    }
}
