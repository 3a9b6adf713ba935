//! Credentials that have to be asked for: of a program's own source, or of an exec plugin. One cache for both.

use std::error::Error as StdError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Instant, SystemTime};

use crossbeam_channel::{Receiver, Sender, bounded};
use log::{debug, warn};

use super::{Identity, RETRY, Secret, bearer};
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
/// Where it is a mounted secret whose user changes, a source reads it anew, every ten minutes here and after each answer
/// of 401 (with that an exec plugin in it is run again, too):
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
///         Ok(now.with_refresh(SystemTime::now() + Duration::from_secs(600)))
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
    /// What it gives is used until it [expires](Credential::with_expiry) or is [due](Credential::with_refresh), or until
    /// the server answers 401, after which it is called once more. After an error what it gave before is used on, if that
    /// has not expired; else it is called again by the next request.
    ///
    /// `stop` is stopped when no request waits any more. Then the call should return soon, whatever it returns: until
    /// it has, it is not called again.
    ///
    /// # Errors
    /// Anything; it is part of the error of each request that waited, so it should hold no secret. A panic is one, too.
    fn credential(&self, stop: &Stop) -> Result<Credential, Box<dyn StdError + Send + Sync>>;
}

/// A token, a client certificate, or both, and until when they are good.
#[derive(Clone, Debug)]
pub struct Credential {
    authorization: Option<Secret>,
    certificate: Option<ClientCertificate>,
    expires: Option<SystemTime>,
    due: Option<SystemTime>,
}

impl Credential {
    /// A bearer token, sent as it is.
    ///
    /// # Errors
    /// It is empty, or holds a character that a header cannot carry.
    pub fn token(token: &str) -> Result<Self> {
        Ok(Self { authorization: Some(bearer(token)?), certificate: None, expires: None, due: None })
    }

    /// A client certificate, which is shown in place of that of [`TlsOptions`](crate::config::TlsOptions).
    #[must_use]
    pub fn certificate(certificate: ClientCertificate) -> Self {
        Self { authorization: None, certificate: Some(certificate), expires: None, due: None }
    }

    /// Adds a client certificate to a token.
    #[must_use]
    pub fn with_certificate(mut self, certificate: ClientCertificate) -> Self {
        self.certificate = Some(certificate);
        self
    }

    /// Until when it is used, by the time of day; without, until the server answers 401.
    #[must_use]
    pub fn with_expiry(mut self, expires: impl Into<SystemTime>) -> Self {
        self.expires = Some(expires.into());
        self
    }

    /// From when on another is asked for, by the time of day; without, when it expires. While there is none, which is
    /// tried every 10 s, this one is used until it expires.
    #[must_use]
    pub fn with_refresh(mut self, due: impl Into<SystemTime>) -> Self {
        self.due = Some(due.into());
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
        let certificate = identity.certificate.as_deref().cloned().or_else(configured);
        let read = |ClientCertificate { certificate, key }| -> Result<ClientCertificate> {
            Ok(ClientCertificate { certificate: Pem::Data(certificate.read()?), key: Pem::Data(key.read()?) })
        };
        let certificate = certificate.map(read).transpose()?;
        let Identity { authorization, expires, .. } = identity;
        Ok(Credential { authorization, certificate, expires, due: None })
    }
}

/// Credentials that have to be asked for.
pub(super) trait Source: Send + Sync {
    /// What the source gave last, or gives now: one call for all who wait.
    fn get(self: Arc<Self>, clock: &Clock, until: Instant, stop: &Stop) -> Result<Identity>;

    /// The server did not accept this one: the next call asks for another, unless there is one already.
    fn refresh(&self, used: &Identity);

    fn name(&self) -> &str;
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
    /// From when on there should be another than `last`.
    due: Option<SystemTime>,
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

    /// Not to be asked for anew, either.
    fn fresh(&self, clock: &Clock) -> Option<&Identity> {
        let is_due = self.due.is_some_and(|due| due <= clock.wall());
        self.good(clock).filter(|_| !self.refused && !is_due)
    }
}

impl Renewed {
    pub(super) fn new(name: String, source: Box<dyn CredentialSource>) -> Self {
        Self { name, source, state: Mutex::default() }
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

    fn finish(&self, run: &Run, told: Result<Credential, Box<dyn StdError + Send + Sync>>, clock: &Clock) {
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
        if failed.is_some() {
            state.due = state.due.map(|due| due.max(clock.wall() + RETRY));
        }
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

impl Source for Renewed {
    fn get(self: Arc<Self>, clock: &Clock, until: Instant, stop: &Stop) -> Result<Identity> {
        loop {
            let run = {
                let mut state = self.lock();
                if let Some(fresh) = state.fresh(clock) {
                    return Ok(fresh.clone());
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

    fn refresh(&self, used: &Identity) {
        let mut state = self.lock();
        if state.last.as_ref().is_some_and(|last| last.generation == used.generation) {
            state.refused = true;
        }
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl State {
    fn identity(&mut self, credential: Credential) -> Identity {
        let Credential { authorization, certificate, expires, due } = credential;
        self.due = due;
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

#[cfg(all(test, shuttle))]
mod model;

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use crossbeam_channel::unbounded;

    use super::super::Credentials;
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    type Answer = Result<Credential, &'static str>;

    /// A source that a test answers.
    struct Scripted {
        answers: Receiver<Answer>,
        /// The stop of each call.
        calls: Sender<Stop>,
        running: AtomicUsize,
    }

    impl CredentialSource for Scripted {
        fn credential(&self, stop: &Stop) -> Result<Credential, Box<dyn StdError + Send + Sync>> {
            assert_eq!(self.running.fetch_add(1, Ordering::SeqCst), 0, "two calls at a time");
            self.calls.send(stop.clone()).unwrap();
            let answer = self.answers.recv_timeout(MINUTE).unwrap_or(Err("nobody answers"));
            self.running.fetch_sub(1, Ordering::SeqCst);
            answer.map_err(Into::into)
        }
    }

    struct Setup {
        credentials: Credentials,
        clock: Clock,
        answers: Sender<Answer>,
        calls: Receiver<Stop>,
    }

    impl Setup {
        fn new() -> Self {
            let ((answers, asked), (sender, calls)) = (unbounded(), unbounded());
            let source = Scripted { answers: asked, calls: sender, running: AtomicUsize::new(0) };
            Self { credentials: Credentials::source(source), clock: Clock::manual(), answers, calls }
        }

        fn answer(&self, answer: Answer) {
            self.answers.send(answer).unwrap();
        }

        fn get(&self, limit: Duration, stop: &Stop) -> Result<Identity> {
            self.credentials.identity(&self.clock, self.clock.deadline(limit), stop)
        }

        /// What is sent now, if the source is asked so many times for it.
        fn sent(&self, calls: usize) -> String {
            let sent = header(&self.get(MINUTE, &Stop::new()).unwrap()).to_owned();
            assert_eq!(self.calls.try_iter().count(), calls, "calls for {sent}");
            sent
        }
    }

    fn token(token: &str) -> Credential {
        Credential::token(token).unwrap()
    }

    fn header(identity: &Identity) -> &str {
        identity.authorization.as_ref().unwrap().expose()
    }

    #[test]
    fn one_call_serves_all_who_wait() {
        let setup = Setup::new();
        thread::scope(|scope| {
            let waiting = [(); 4].map(|()| scope.spawn(|| setup.get(MINUTE, &Stop::new())));
            setup.clock.wait_for_timers(4);
            setup.answer(Ok(token("one")));
            for thread in waiting {
                assert_eq!(header(&thread.join().unwrap().unwrap()), "Bearer one");
            }
        });
        assert_eq!(setup.calls.len(), 1);
    }

    #[test]
    fn a_failure_is_told_to_all_who_wait_and_the_next_asks_anew() {
        let setup = Setup::new();
        thread::scope(|scope| {
            let waiting = [(); 3].map(|()| scope.spawn(|| setup.get(MINUTE, &Stop::new())));
            setup.clock.wait_for_timers(3);
            setup.answer(Err("the vault is sealed"));
            for thread in waiting {
                let error = thread.join().unwrap().unwrap_err();
                assert!(
                    error.is_config() && error.to_string().contains("Scripted: the vault is sealed"),
                    "{error}"
                );
            }
        });
        setup.answer(Ok(token("two")));
        assert_eq!(setup.sent(2), "Bearer two");
    }

    #[test]
    fn who_gives_up_leaves_the_call_to_the_others() {
        let (setup, stop) = (Setup::new(), Stop::new());
        thread::scope(|scope| {
            let patient = scope.spawn(|| setup.get(MINUTE, &Stop::new()));
            let hasty = scope.spawn(|| setup.get(MINUTE / 2, &Stop::new()));
            let stopped = scope.spawn(|| setup.get(MINUTE, &stop));
            setup.clock.wait_for_timers(3);
            stop.stop();
            assert!(stopped.join().unwrap().unwrap_err().is_stopped());
            setup.clock.advance(MINUTE / 2);
            let error = hasty.join().unwrap().unwrap_err();
            assert!(error.is_timeout() && error.to_string().contains("Scripted"), "{error}");
            assert!(!setup.calls.recv_timeout(MINUTE).unwrap().is_stopped());
            setup.answer(Ok(token("one")));
            assert_eq!(header(&patient.join().unwrap().unwrap()), "Bearer one");
        });
    }

    #[test]
    fn the_last_who_gives_up_stops_the_call_and_the_next_waits_for_its_end() {
        for late in [Ok(token("late")), Err("ended")] {
            let (setup, stop) = (Setup::new(), Stop::new());
            thread::scope(|scope| {
                let waiting = scope.spawn(|| setup.get(MINUTE, &stop));
                let run = setup.calls.recv().unwrap();
                stop.stop();
                assert!(waiting.join().unwrap().unwrap_err().is_stopped());
                run.wait();
                let next = scope.spawn(|| setup.get(MINUTE, &Stop::new()));
                setup.clock.wait_for_timers(1);
                let ended = late.is_err();
                setup.answer(late);
                // What came too late for the one is in time for the other.
                if ended {
                    assert!(!setup.calls.recv_timeout(MINUTE).unwrap().is_stopped());
                    setup.answer(Ok(token("next")));
                }
                let sent = next.join().unwrap().unwrap();
                assert_eq!(header(&sent), if ended { "Bearer next" } else { "Bearer late" });
            });
        }
    }

    #[test]
    fn a_credential_is_used_until_it_expires_and_not_after() {
        let setup = Setup::new();
        setup.answer(Ok(token("one").with_expiry(setup.clock.wall() + MINUTE)));
        assert_eq!(setup.sent(1), "Bearer one");
        setup.clock.advance(MINUTE - Duration::from_secs(1));
        assert_eq!(setup.sent(0), "Bearer one");
        setup.clock.advance(Duration::from_secs(1));
        setup.answer(Err("no"));
        assert!(setup.get(MINUTE, &Stop::new()).unwrap_err().is_config());
        setup.answer(Ok(token("two")));
        assert_eq!(setup.sent(2), "Bearer two");
        setup.clock.advance(MINUTE * 60 * 24 * 365);
        assert_eq!(setup.sent(0), "Bearer two");
    }

    #[test]
    fn one_that_is_due_is_used_on_while_there_is_no_other_until_it_expires() {
        let setup = Setup::new();
        let (start, second) = (setup.clock.wall(), Duration::from_secs(1));
        setup.answer(Ok(token("one").with_refresh(start + MINUTE).with_expiry(start + MINUTE * 60)));
        assert_eq!(setup.sent(1), "Bearer one");
        setup.clock.advance(MINUTE - second);
        assert_eq!(setup.sent(0), "Bearer one");
        setup.clock.advance(second);
        for _ in 0..3 {
            setup.answer(Err("the file is half written"));
            assert_eq!(setup.sent(1), "Bearer one");
            setup.clock.advance(RETRY - second);
            assert_eq!(setup.sent(0), "Bearer one");
            setup.clock.advance(second);
        }
        setup.answer(Ok(token("two")
            .with_refresh(setup.clock.wall() + MINUTE * 2)
            .with_expiry(setup.clock.wall() + MINUTE)));
        assert_eq!(setup.sent(1), "Bearer two");
        assert_eq!(setup.sent(0), "Bearer two");
        setup.clock.advance(MINUTE);
        setup.answer(Err("no"));
        assert!(setup.get(MINUTE, &Stop::new()).unwrap_err().is_config());
    }

    #[test]
    fn one_that_was_refused_is_asked_for_once_and_used_on_if_there_is_no_other() {
        let setup = Setup::new();
        setup.answer(Ok(token("one").with_expiry(setup.clock.wall() + MINUTE)));
        let first = setup.get(MINUTE, &Stop::new()).unwrap();
        assert!(setup.credentials.refresh(&first));
        setup.answer(Err("no"));
        assert_eq!(setup.sent(2), "Bearer one");
        assert_eq!(setup.sent(0), "Bearer one");

        setup.credentials.refresh(&first);
        setup.answer(Ok(token("two")));
        assert_eq!(setup.sent(1), "Bearer two");
        // Another request was refused with the first, too.
        assert!(setup.credentials.refresh(&first));
        assert_eq!(setup.sent(0), "Bearer two");
    }

    #[test]
    fn a_certificate_is_another_only_if_it_differs() {
        let pair = |key: &str| {
            let pem = |text: &str| Pem::Data(text.into());
            Credential::certificate(ClientCertificate { certificate: pem("c"), key: pem(key) })
        };
        let setup = Setup::new();
        setup.answer(Ok(pair("one")));
        let first = setup.get(MINUTE, &Stop::new()).unwrap();
        assert!(first.authorization.is_none());
        let mut last = first.clone();
        for (credential, same) in [(pair("one"), true), (pair("two"), false), (token("t"), false)] {
            setup.credentials.refresh(&last);
            setup.answer(Ok(credential));
            last = setup.get(MINUTE, &Stop::new()).unwrap();
            let kept = last
                .certificate
                .as_ref()
                .is_some_and(|now| Arc::ptr_eq(now, first.certificate.as_ref().unwrap()));
            assert_eq!(kept, same);
        }
        assert!(last.certificate.is_none());
    }

    #[test]
    fn a_source_that_panics_is_asked_again() {
        struct Panics(AtomicUsize);

        impl CredentialSource for Panics {
            fn credential(&self, _: &Stop) -> Result<Credential, Box<dyn StdError + Send + Sync>> {
                assert!(self.0.fetch_add(1, Ordering::SeqCst) > 0, "on purpose");
                Ok(token("one"))
            }
        }

        let credentials = Credentials::source(Panics(AtomicUsize::new(0)));
        let error = credentials.authorization(&Clock::manual()).unwrap_err().to_string();
        assert!(error.contains("Panics: it panicked"), "{error}");
        assert_eq!(credentials.authorization(&Clock::manual()).unwrap().as_deref(), Some("Bearer one"));
    }

    #[test]
    fn debug_shows_no_secret() {
        let pem = || Pem::Data(b"hidden".to_vec());
        let credential =
            token("hidden").with_certificate(ClientCertificate { certificate: pem(), key: pem() });
        let setup = Setup::new();
        setup.answer(Ok(credential.clone()));
        setup.sent(1);
        let shown = format!("{credential:?} {:?}", setup.credentials);
        assert!(!shown.contains("hidden") && shown.contains("Scripted"), "{shown}");
    }
}
