//! Where bytes wait between a read and their use.

use std::fmt;
use std::ops::Range;

/// Bytes that were read and not yet used: a window into one vector, which the reader writes behind.
///
/// It is as long as what comes at once needs: it begins with [`LEAST`](Self::LEAST), doubles up to its usual length
/// while reads fill it, and beyond that for a value that is longer. After a very long value it goes back to the usual
/// length at once, and else to what was needed lately, once in a while: most watches stand idle most of the time.
pub(crate) struct Buffer {
    /// All of it is initialised: readers write into `data[window.end..]`.
    data: Vec<u8>,
    window: Range<usize>,
    /// The length up to which it grows for speed alone.
    usual: usize,
    /// Whether the last read filled the room it had, so that there may be more.
    full: bool,
    /// Of the last so many reads: the most that it held.
    reads: u8,
    most: usize,
}

impl Buffer {
    /// The least room that `space` offers, and the least length. Bookmarks are of some hundred bytes.
    pub(crate) const LEAST: usize = 2 * 1024;
    /// It shrinks to the usual length only when it has grown that often past it, so that it does not go up and down
    /// for ever.
    const SHRINK: usize = 8;
    /// It is asked after so many reads whether it could be smaller: at most one allocation for so many.
    const READS: u8 = 16;

    pub(crate) const fn new(usual: usize) -> Self {
        Self { data: Vec::new(), window: 0..0, usual, full: false, reads: 0, most: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.data[self.window.clone()]
    }

    /// Room for the next bytes. What is in use moves to the front only when that frees half of the buffer, else the
    /// buffer doubles: so no byte moves more often than once for each time that as many bytes were read.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        let (used, length) = (self.window.len(), self.data.len());
        if length > self.usual * Self::SHRINK && used <= self.usual / 2 {
            self.resize(self.usual);
        } else if used == 0 && self.reads >= Self::READS {
            let enough = (self.most * 2).next_power_of_two().max(Self::LEAST);
            (self.reads, self.most) = (0, 0);
            if enough <= length / 2 {
                self.resize(enough);
            }
        } else if length < self.usual && self.full {
            self.resize(length * 2);
        } else if length - self.window.end < Self::LEAST {
            if used > length / 2 || length - used < Self::LEAST {
                self.resize((length * 2).max(Self::LEAST));
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
        self.full = false;
    }

    /// Takes the first `count` bytes of `space` into use; no more than it has.
    pub(crate) fn filled(&mut self, count: usize) {
        let count = count.min(self.data.len() - self.window.end);
        if count == 0 {
            return;
        }
        self.window.end += count;
        self.full = self.window.end == self.data.len();
        self.reads = self.reads.saturating_add(1);
        self.most = self.most.max(self.window.len());
    }

    /// Gives all memory back, and with it what is in use.
    pub(crate) fn release(&mut self) {
        *self = Self::new(self.usual);
    }

    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = self.space();
            let count = space.len().min(bytes.len());
            space[..count].copy_from_slice(&bytes[..count]);
            self.filled(count);
            bytes = &bytes[count..];
        }
    }

    /// Lets go of the first `count` bytes.
    pub(crate) fn consume(&mut self, count: usize) {
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
        assert!(buffer.space().len() >= Buffer::LEAST);
        assert_eq!(buffer.data.len(), 16 * 1024);
        assert_eq!(buffer.bytes(), &long[999_990..]);
    }

    #[test]
    fn a_read_of_nothing_changes_nothing() {
        let mut buffer = Buffer::new(16 * 1024);
        (0..100).for_each(|_| buffer.filled(0));
        assert_eq!(buffer.space().len(), Buffer::LEAST);
        buffer.filled(0);
        buffer.feed(b"all");
        assert_eq!(buffer.bytes(), b"all");
    }

    /// Reads so much, uses it all, and says how long the buffer was for it.
    fn read(buffer: &mut Buffer, count: usize) -> usize {
        let mut left = count;
        while left > 0 {
            let piece = left.min(buffer.space().len());
            buffer.filled(piece);
            left -= piece;
        }
        buffer.consume(count);
        buffer.data.len()
    }

    #[test]
    fn is_short_while_little_comes() {
        let mut buffer = Buffer::new(32 * 1024);
        assert!((0..1000).all(|_| read(&mut buffer, 900) == Buffer::LEAST));
    }

    #[test]
    fn grows_to_its_usual_length_and_no_further_while_much_comes() {
        let mut buffer = Buffer::new(32 * 1024);
        for _ in 0..100 {
            let room = buffer.space().len();
            buffer.filled(room);
            buffer.consume(room);
        }
        assert_eq!(buffer.data.len(), 32 * 1024);
    }

    #[test]
    fn keeps_the_length_that_values_need() {
        let mut buffer = Buffer::new(32 * 1024);
        let lengths: Vec<_> = (0..1000).map(|_| read(&mut buffer, 10_000)).collect();
        assert!(lengths[1..].iter().all(|length| *length == 16 * 1024));
    }

    #[test]
    fn is_short_again_some_reads_after_a_value_of_any_length() {
        for long in [10_000, 32_000, 200_000, 1 << 20, 20 << 20] {
            let mut buffer = Buffer::new(32 * 1024);
            assert!(read(&mut buffer, long) >= long);
            let small = (1..100).find(|_| read(&mut buffer, 900) == Buffer::LEAST).unwrap();
            assert!(small <= 2 * usize::from(Buffer::READS) + 2, "{small} reads after {long} bytes");
        }
    }

    #[test]
    fn holds_nothing_once_released() {
        let mut buffer = Buffer::new(32 * 1024);
        buffer.feed(&[1; 100_000]);
        buffer.release();
        assert_eq!((buffer.bytes().len(), buffer.data.capacity()), (0, 0));
        buffer.feed(b"again");
        assert_eq!(buffer.bytes(), b"again");
    }

    #[test]
    fn always_offers_room() {
        let mut buffer = Buffer::new(16 * 1024);
        for step in [1, 9000, 3, 20_000, 8191] {
            for _ in 0..20 {
                assert!(buffer.space().len() >= Buffer::LEAST);
                buffer.feed(&vec![7; step]);
                buffer.consume(step / 2);
            }
        }
    }
}
