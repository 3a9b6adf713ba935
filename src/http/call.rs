//! One call in progress: what lets a [`Stop`] shut its socket down, whichever connection ureq picks for it.

use std::cell::RefCell;
use std::net::Shutdown;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use socket2::Socket;

use crate::config::Secret;
use crate::stop::{OnStop, Stop};

/// A call from its start to the end of its body.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) stop: Stop,
    /// The value of its `Authorization` header, until it is sent.
    authorization: Mutex<Option<Secret>>,
    /// The socket it uses now. Held for a moment only, with no other lock.
    socket: Mutex<Option<Arc<Socket>>>,
    /// A limit for each read, below that of the request: a watch has another before its first list than behind it.
    silence: Mutex<Option<Duration>>,
}

/// Keeps a call known to its [`Stop`]; belongs to the response once there is one.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) call: Arc<Call>,
    _hook: OnStop,
}

thread_local! {
    /// ureq hands nothing of ours from a request to the connection it uses for it, but does all up to the response's
    /// head on the thread that asked.
    static CURRENT: RefCell<Option<Arc<Call>>> = const { RefCell::new(None) };
}

impl Running {
    pub(super) fn new(stop: &Stop, authorization: Option<Secret>) -> Self {
        let call = Arc::new(Call {
            stop: stop.clone(),
            authorization: Mutex::new(authorization),
            socket: Mutex::default(),
            silence: Mutex::default(),
        });
        let hooked = call.clone();
        let hook = stop.on_stop(move || hooked.shut_down());
        Self { call, _hook: hook }
    }

    /// Runs `f` with this as the current call of the thread.
    pub(super) fn enter<T>(&self, f: impl FnOnce() -> T) -> T {
        struct Leave(Option<Arc<Call>>);

        impl Drop for Leave {
            fn drop(&mut self) {
                CURRENT.with(|current| current.replace(self.0.take()));
            }
        }

        let _leave = Leave(CURRENT.with(|current| current.replace(Some(self.call.clone()))));
        f()
    }
}

impl Call {
    /// The call that runs on this thread.
    pub(super) fn current() -> Option<Arc<Self>> {
        CURRENT.with(|current| current.borrow().clone())
    }

    /// The credential, which is to be sent once.
    pub(super) fn take_authorization(&self) -> Option<Secret> {
        self.authorization.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// From now on a stop shuts this socket down; if stopped already, at once.
    pub(super) fn attach(&self, socket: &Arc<Socket>) {
        *self.socket.lock().unwrap_or_else(PoisonError::into_inner) = Some(socket.clone());
        if self.stop.is_stopped() {
            self.shut_down();
        }
    }

    /// The socket serves another call now.
    pub(super) fn detach(&self) {
        *self.socket.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn set_silence(&self, limit: Option<Duration>) {
        *self.silence.lock().unwrap_or_else(PoisonError::into_inner) = limit;
    }

    pub(super) fn silence(&self) -> Option<Duration> {
        *self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shut_down(&self) {
        if let Some(socket) = &*self.socket.lock().unwrap_or_else(PoisonError::into_inner) {
            // An error means that it is closed already. Linux ends a connect in progress as well.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}
