//! From bytes to events and objects: the decoders of watches and lists. They do no I/O of their own: a reader writes
//! into their buffer, and they hand out what is complete.
//!
//! ```
//! use listwatch::wire::{Expect, WatchDecoder, WatchEvent};
//! use listwatch::{Object, Resource};
//!
//! let mut watch = WatchDecoder::<Object>::new(Expect::any());
//! watch.feed(b"{\"type\":\"ADDED\",\"object\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"");
//! assert!(watch.next_event().is_none());
//! watch.feed(b"}}}\n");
//! let Some(Ok(WatchEvent::Added(pod))) = watch.next_event() else { panic!() };
//! assert_eq!(pod.name(), "a");
//! watch.finish()?;
//! # Ok::<(), listwatch::Error>(())
//! ```

mod list;
mod object;
mod scan;
mod single;
mod unfit;
mod watch;

pub use list::ListDecoder;
pub use object::Expect;
pub use single::decode_object;
pub use watch::{Bookmark, WatchDecoder, WatchEvent};

pub use crate::object::ListMeta;
