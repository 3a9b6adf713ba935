//! Credentials that have to be asked for: of a program's own source, or of an exec plugin. One cache for both.

use std::error::Error as StdError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Instant, SystemTime};

use crossbeam_channel::{Receiver, Sender, bounded};
use log::{debug, warn};

use super::{Identity, Secret, bearer};
use crate::clock::Clock;
use crate::config::{ClientCertificate, Config, Pem};
use crate::error::{Error, Result};
use crate::stop::Stop;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, select, thread};

/// Where a program gets its credentials from, if none of [`Credentials`](super::Credentials) does it: a vault, a cloud's
/// own protocol, a file in a format of its own.
///
/// ```
/// # use listwatch::config::{Config, Credential, CredentialSource, Credentials};
/// # use listwatch::Stop;
/// # use std::error::Error;
/// # use std::time::{Duration, SystemTime};
/// struct Vault;
///
/// impl CredentialSource for Vault {
///     fn credential(&self, stop: &Stop) -> Result<Credential, Box<dyn Error + Send + Sync>> {
///         let (token, lives) = ask_the_vault(stop)?;
///         Ok(Credential::token(&token)?.with_expiry(SystemTime::now() + lives))
///     }
/// }
/// # fn ask_the_vault(_: &Stop) -> Result<(String, Duration), Box<dyn Error + Send + Sync>> {
/// #     Ok(("secret".into(), Duration::from_secs(600)))
/// # }
/// let config = Config::new("https://10.0.0.1:6443")?.with_credentials(Credentials::source(Vault));
/// # Ok::<(), listwatch::Error>(())
/// ```
///
/// # A kubeconfig that is replaced
///
/// Files that a kubeconfig names are read again, and its exec plugin is run again; the kubeconfig itself is read once.
/// Where it is a mounted secret whose user changes, a source reads it anew, as often as its expiry says and after each
/// answer of 401:
///
/// ```
/// # #[cfg(feature = "kubeconfig")] mod example {
/// # use listwatch::config::{Config, Credential, CredentialSource, Credentials, KubeconfigOptions};
/// # use listwatch::Stop;
/// # use std::error::Error;
/// # use std::time::{Duration, SystemTime};
/// struct Mounted(KubeconfigOptions);
///
/// impl CredentialSource for Mounted {
///     fn credential(&self, stop: &Stop) -> Result<Credential, Box<dyn Error + Send + Sync>> {
///         let now = Config::from_kubeconfig(&self.0)?.current_credential(stop)?;
///         Ok(now.with_expiry(SystemTime::now() + Duration::from_secs(60)))
///     }
/// }
///
/// # fn connect() -> listwatch::Result<()> {
/// let options = KubeconfigOptions::new().with_path("/etc/clusters/east/kubeconfig");
/// let config = Config::from_kubeconfig(&options)?.with_credentials(Credentials::source(Mounted(options)));
/// # drop(config); Ok(()) }
/// # }
/// ```
///
/// The server's address and certificate authority stay those of the first reading: for others make a new client.
pub trait CredentialSource: Send + Sync + 'static {
    /// Gets a credential. May block: it is called on a thread of its own, `lw-credential`, and never by two threads at
    /// a time; all requests that need the credential wait for the one call, each within its own limit of time.
    ///
    /// What it gives is used until it [expires](Credential::with_expiry), or until the server answers 401, after which
    /// it is called once more. After an error it is called again by the next request; until then what it gave before is
    /// used on, if that has not expired.
    ///
    /// # Errors
    /// Anything; it is part of the error of each request that waited, so it should hold no secret. A panic is one, too.
    ///
    /// `stop` is stopped when no request waits any more. Then the call should return soon, whatever it returns: until
    /// it has, it is not called again.
    fn credential(&self, stop: &Stop) -> Result<Credential, Box<dyn StdError + Send + Sync>>;
}

/// A token, a client certificate, or both, and until when they are good.
#[derive(Clone, Debug)]
pub struct Credential {
    authorization: Option<Secret>,
    certificate: Option<ClientCertificate>,
    expires: Option<SystemTime>,
}

impl Credential {
    /// A bearer token, sent as it is.
    ///
    /// # Errors
    /// It is empty, or holds a character that a header cannot carry.
    pub fn token(token: &str) -> Result<Self> {
        Ok(Self { authorization: Some(bearer(token)?), certificate: None, expires: None })
    }

    /// A client certificate, which is shown in place of that of [`TlsOptions`](crate::config::TlsOptions).
    #[must_use]
    pub fn certificate(certificate: ClientCertificate) -> Self {
        Self { authorization: None, certificate: Some(certificate), expires: None }
    }

    /// Adds a client certificate to a token.
    #[must_use]
    pub fn with_certificate(mut self, certificate: ClientCertificate) -> Self {
        self.certificate = Some(certificate);
        self
    }

    /// Until when it is used, by the time of day; without, until the server answers 401. A source that is to be asked
    /// in time names a time before the token's own.
    #[must_use]
    pub fn with_expiry(mut self, expires: impl Into<SystemTime>) -> Self {
        self.expires = Some(expires.into());
        self
    }

    /// What an exec plugin printed for this `apiVersion`, `client.authentication.k8s.io/v1` or `/v1beta1`: an
    /// `ExecCredential` in JSON or YAML.
    ///
    /// # Errors
    /// It is none, or of another version, or holds neither a token nor a certificate with its key. Nothing that it
    /// holds is in the error.
    #[cfg(feature = "kubeconfig")]
    pub fn from_exec(answer: &[u8], api_version: &str) -> Result<Self> {
        crate::config::exec::read_answer(answer, api_version)
    }
}

impl Config {
    /// What requests would be sent with now: the token or password, and the client certificate. May run an exec plugin or
    /// wait for another source, for no longer than [`timeout`](Self::timeout) or until stopped. For a
    /// [`CredentialSource`] that reads a configuration anew.
    ///
    /// # Errors
    /// They cannot be had, or a file of the certificate cannot be read.
    pub fn current_credential(&self, stop: &Stop) -> Result<Credential> {
        let until = self.clock().deadline(self.timeout());
        let identity = self.credentials().identity(self.clock(), until, stop)?;
        let configured = || self.tls().client_certificate.clone();
        let certificate = identity.certificate.map(|certificate| (*certificate).clone()).or_else(configured);
        let read = |pem: Pem| Ok(Pem::Data(pem.read()?));
        let certificate = certificate.map(|ClientCertificate { certificate, key }| {
            Ok::<_, Error>(ClientCertificate { certificate: read(certificate)?, key: read(key)? })
        });
        Ok(Credential {
            authorization: identity.authorization,
            certificate: certificate.transpose()?,
            expires: identity.expires,
        })
    }
}

/// A source, what it gave last, and who waits for it.
pub(super) struct Renewed {
    /// How messages call the source.
    name: String,
    source: Box<dyn CredentialSource>,
    /// Held for moments, with no other lock, and never while the source is asked.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: Option<Identity>,
    /// The server did not accept `last`.
    refused: bool,
    /// While the source is asked.
    run: Option<Arc<Run>>,
}

/// One call of the source.
struct Run {
    /// Stopped by the last who waited for it.
    stop: Stop,
    /// How many wait. Changed under the lock of the state.
    waiting: AtomicUsize,
    outcome: OnceLock<Result<Identity, String>>,
    /// Disconnected when there is an outcome.
    over: Receiver<()>,
}

impl State {
    fn good(&self, clock: &Clock) -> Option<&Identity> {
        self.last.as_ref().filter(|last| last.expires.is_none_or(|expires| clock.wall() < expires))
    }
}

impl Renewed {
    pub(super) fn new(name: String, source: Box<dyn CredentialSource>) -> Self {
        Self { name, source, state: Mutex::default() }
    }

    /// What the source gave last, or gives now: one call for all who wait.
    pub(super) fn get(self: &Arc<Self>, clock: &Clock, until: Instant, stop: &Stop) -> Result<Identity> {
        loop {
            let run = {
                let mut state = self.lock();
                match state.good(clock) {
                    Some(good) if !state.refused => return Ok(good.clone()),
                    _ => {}
                }
                let (run, over) = match state.run.clone() {
                    Some(run) => (run, None),
                    None => {
                        let (run, over) = Run::new();
                        state.run = Some(run.clone());
                        (run, Some(over))
                    }
                };
                run.waiting.fetch_add(1, Ordering::Relaxed);
                drop(state);
                if let Some(over) = over {
                    self.start(&run, over, clock);
                }
                run
            };
            let timer = clock.timer(Some(until));
            let ended = select! {
                recv(run.over) -> _ => Ok(()),
                recv(timer.channel()) -> _ => Err(Error::timed_out(format!("wait for {}", self.name))),
                recv(stop.signal()) -> _ => Err(Error::stopped()),
            };
            let left = {
                let _state = self.lock();
                run.waiting.fetch_sub(1, Ordering::Relaxed) == 1
            };
            if left && ended.is_err() {
                run.stop.stop();
            }
            ended?;
            match run.outcome.get() {
                Some(Ok(identity)) => return Ok(identity.clone()),
                Some(Err(why)) if !run.stop.is_stopped() => return Err(Error::config(why.clone())),
                _ => {} // one that was given up before this call came: the next is ours
            }
        }
    }

    /// The server did not accept this one: the next call asks for another, unless there is one already.
    pub(super) fn refresh(&self, used: &Identity) {
        let mut state = self.lock();
        if state.last.as_ref().is_some_and(|last| last.generation == used.generation) {
            state.refused = true;
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn start(self: &Arc<Self>, run: &Arc<Run>, over: Sender<()>, clock: &Clock) {
        let until_here = over.clone();
        let work = {
            let (this, run, clock) = (self.clone(), run.clone(), clock.clone());
            move || {
                debug!(target: "listwatch::config", "{}: asking for a credential", this.name);
                let told = catch_unwind(AssertUnwindSafe(|| this.source.credential(&run.stop)));
                this.finish(&run, told.unwrap_or_else(|_| Err("it panicked".into())), &clock);
                drop(over);
            }
        };
        if let Err(e) = thread::Builder::new().name("lw-credential".into()).spawn(work) {
            self.finish(run, Err(e.into()), clock);
        }
        drop(until_here);
    }

    fn finish(
        &self,
        run: &Run,
        told: Result<Credential, Box<dyn StdError + Send + Sync>>,
        clock: &Clock,
    ) {
        let told = told.map_err(|e| Error::config(&self.name).with_source(e).to_string());
        let mut state = self.lock();
        state.run = None;
        let (outcome, failed) = match told {
            Ok(credential) => {
                let identity = state.identity(credential);
                state.last = Some(identity.clone());
                (Ok(identity), None)
            }
            Err(why) => match state.good(clock) {
                // Given up by all: whoever comes next asks anew.
                Some(good) if !run.stop.is_stopped() => (Ok(good.clone()), Some(why)),
                _ => (Err(why), None),
            },
        };
        state.refused &= outcome.is_err();
        let _ = run.outcome.set(outcome); // there is one end only
        drop(state);
        if let Some(why) = failed {
            warn!(target: "listwatch::config", "{why}; using the last credential");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn identity(&self, credential: Credential) -> Identity {
        let Credential { authorization, certificate, expires } = credential;
        // Connections are kept for as long as the certificate is the same.
        let last = self.last.as_ref().and_then(|last| last.certificate.clone());
        let certificate = certificate.map(|new| match last {
            Some(last) if *last == new => last,
            _ => Arc::new(new),
        });
        let generation = self.last.as_ref().map_or(0, |last| last.generation) + 1;
        Identity { authorization, certificate, expires, generation }
    }
}

impl Run {
    fn new() -> (Arc<Self>, Sender<()>) {
        let (sender, over) = bounded(0);
        let (stop, waiting) = (Stop::new(), AtomicUsize::new(0));
        (Arc::new(Self { stop, waiting, outcome: OnceLock::new(), over }), sender)
    }
}
