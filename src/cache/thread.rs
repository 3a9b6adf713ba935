use std::sync::PoisonError;

use super::latch::Latch;
use crate::error::{Error, Kind, Result};
use crate::sync::Mutex;
use crate::sync::thread::{self, JoinHandle, ThreadId};

/// A thread that any number of others may wait for.
pub(super) struct Thread {
    id: ThreadId,
    /// Taken by the first who waits.
    handle: Mutex<Option<JoinHandle<()>>>,
    ended: Latch,
}

impl Thread {
    pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<Self> {
        /// Opens the latch however the thread ends.
        struct End(Latch);

        impl Drop for End {
            fn drop(&mut self) {
                self.0.open();
            }
        }

        let ended = Latch::new();
        let end = End(ended.clone());
        // A zero byte in a name would panic.
        let handle = thread::Builder::new().name(name.replace('\0', "")).spawn(move || {
            let _end = end;
            run();
        });
        let handle =
            handle.map_err(|e| Error::new(Kind::Limit, "the system has no thread left").with_source(e))?;
        Ok(Self { id: handle.thread().id(), handle: Mutex::new(Some(handle)), ended })
    }

    /// Waits until it has ended, unless it is the one that asks.
    pub(super) fn join(&self) {
        if self.is_current() {
            return;
        }
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        match handle {
            Some(handle) => drop(handle.join()), // code of the user is caught within
            None => self.ended.wait_for_ever(),
        }
    }

    pub(super) fn is_current(&self) -> bool {
        self.id == thread::current().id()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_open()
    }
}
