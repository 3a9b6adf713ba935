use std::fmt;
use std::ops::Range;

/// Bytes that were read and not yet used: a window into one vector, which the reader writes behind.
pub(super) struct Buffer {
    /// All of it is initialised: readers write into `data[window.end..]`.
    data: Vec<u8>,
    window: Range<usize>,
    /// The length it has while no value is long.
    usual: usize,
}

impl Buffer {
    /// The least room that `space` offers.
    const ROOM: usize = 8 * 1024;
    /// It shrinks only when it has grown that often past the usual, so that it does not go up and down for ever.
    const SHRINK: usize = 8;

    pub(super) const fn new(usual: usize) -> Self {
        Self { data: Vec::new(), window: 0..0, usual }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.data[self.window.clone()]
    }

    /// Room for the next bytes. What is in use moves to the front only when that frees half of the buffer, else the
    /// buffer doubles: so no byte moves more often than once for each time that as many bytes were read.
    pub(super) fn space(&mut self) -> &mut [u8] {
        let (used, length) = (self.window.len(), self.data.len());
        if length < self.usual || (length > self.usual * Self::SHRINK && used <= self.usual / 2) {
            self.resize(self.usual);
        } else if length - self.window.end < Self::ROOM {
            if used > length / 2 {
                self.resize(length * 2);
            } else {
                self.data.copy_within(self.window.clone(), 0);
                self.window = 0..used;
            }
        }
        &mut self.data[self.window.end..]
    }

    fn resize(&mut self, length: usize) {
        let mut data = vec![0; length];
        let used = self.window.len();
        data[..used].copy_from_slice(self.bytes());
        self.data = data;
        self.window = 0..used;
    }

    /// Takes the first `count` bytes of `space` into use; no more than it has.
    pub(super) fn filled(&mut self, count: usize) {
        self.window.end = self.data.len().min(self.window.end.saturating_add(count));
    }

    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = self.space();
            let count = space.len().min(bytes.len());
            space[..count].copy_from_slice(&bytes[..count]);
            self.filled(count);
            bytes = &bytes[count..];
        }
    }

    /// Lets go of the first `count` bytes.
    pub(super) fn consume(&mut self, count: usize) {
        self.window.start = self.window.end.min(self.window.start.saturating_add(count));
        if self.window.is_empty() {
            self.window = 0..0;
        }
    }
}

/// Never the bytes: they may be secrets.
impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.window.len(), self.data.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_for_a_long_value_and_shrinks_after_it() {
        let mut buffer = Buffer::new(16 * 1024);
        let long: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
        for piece in long.chunks(777) {
            buffer.feed(piece);
        }
        assert_eq!(buffer.bytes(), long);
        buffer.consume(999_990);
        assert!(buffer.space().len() >= Buffer::ROOM);
        assert_eq!(buffer.data.len(), 16 * 1024);
        assert_eq!(buffer.bytes(), &long[999_990..]);
    }

    #[test]
    fn keeps_its_length_while_values_are_short() {
        let mut buffer = Buffer::new(32 * 1024);
        for _ in 0..1000 {
            buffer.feed(&[1; 5000]);
            assert_eq!(buffer.bytes().len(), 5000);
            buffer.consume(5000);
        }
        assert_eq!(buffer.data.len(), 32 * 1024);
    }

    #[test]
    fn always_offers_room() {
        let mut buffer = Buffer::new(16 * 1024);
        for step in [1, 9000, 3, 20_000, 8191] {
            for _ in 0..20 {
                assert!(buffer.space().len() >= Buffer::ROOM);
                buffer.feed(&vec![7; step]);
                buffer.consume(step / 2);
            }
        }
    }
}
