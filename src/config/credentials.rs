//! Who we are: fixed, read from files, or asked for, and which of it a request is sent with.

mod source;

use std::any::type_name;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use log::warn;

pub use self::source::{Credential, CredentialSource};

use self::source::{Renewed, Source};
use super::ClientCertificate;
use crate::base64_text;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::stop::Stop;

/// A token file is read again after this time: client-go's period of a minute less its leeway of 10 s.
const REREAD: Duration = Duration::from_secs(50);
/// When a token file that could not be read again, or a source that failed before its time, is tried next.
const RETRY: Duration = Duration::from_secs(10);

/// Text that never shows in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(Arc<str>);

impl Secret {
    pub(crate) fn new(secret: impl AsRef<str>) -> Self {
        Self(secret.as_ref().into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// What a request is sent with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    /// The value of its `Authorization` header.
    pub(crate) authorization: Option<Secret>,
    /// A client certificate that came with the credential, in place of the configured one. The same one is the same
    /// `Arc`.
    pub(crate) certificate: Option<Arc<ClientCertificate>>,
    /// Until when it is good, if that is known.
    expires: Option<SystemTime>,
    /// Which of those that the credentials gave it is: each that was read or asked for has a higher number.
    generation: u64,
}

impl Identity {
    fn of_file(header: Secret, generation: u64) -> Self {
        Self { authorization: Some(header), generation, ..Self::default() }
    }
}

/// What tells the API server who we are: a token or password in the `Authorization` header of each request, or a client
/// certificate that changes. One that stays is part of the [`TlsOptions`](super::TlsOptions).
///
/// An answer of 401 has a token file read again, and a source or exec plugin asked again, once for all requests that were
/// refused with the same credential; each of them is then sent once more.
///
/// Clones share what was read from files and what sources gave.
#[derive(Clone)]
pub struct Credentials(Arc<Kind>);

enum Kind {
    None,
    Token(Secret),
    File(TokenFile),
    Basic {
        user: String,
        header: Secret,
    },
    /// Behind a trait, so that a program which has no source has not the code for them.
    Source(Arc<dyn Source>),
}

struct TokenFile {
    path: PathBuf,
    /// The header to send while the file has never been read.
    fallback: Option<Secret>,
    /// Never held while the file is read.
    cached: Mutex<Cached>,
}

#[derive(Default)]
struct Cached {
    header: Option<Secret>,
    /// When to read again; none: at once.
    due: Option<Instant>,
    generation: u64,
}

impl Credentials {
    /// No header is sent.
    #[must_use]
    pub fn none() -> Self {
        Self(Arc::new(Kind::None))
    }

    /// A bearer token, sent as it is.
    ///
    /// # Errors
    /// It is empty, or holds a character that a header cannot carry.
    pub fn token(token: &str) -> Result<Self> {
        Ok(Self(Arc::new(Kind::Token(bearer(token)?))))
    }

    /// A bearer token in a file, without the white space around it and a byte order mark. The file is read again at least
    /// once a minute and after an answer of 401. If that fails, the last good token is used on, and a warning is logged.
    #[must_use]
    pub fn token_file(path: impl Into<PathBuf>) -> Self {
        Self::token_file_or(path.into(), None)
    }

    /// As [`token_file`](Self::token_file), with a token to use until the file can be read.
    #[cfg(feature = "kubeconfig")]
    pub(super) fn token_file_with_fallback(path: PathBuf, token: &str) -> Result<Self> {
        Ok(Self::token_file_or(path, Some(bearer(token)?)))
    }

    fn token_file_or(path: PathBuf, fallback: Option<Secret>) -> Self {
        Self(Arc::new(Kind::File(TokenFile { path, fallback, cached: Mutex::default() })))
    }

    /// A user and password. An empty user sends nothing, as in client-go.
    #[must_use]
    pub fn basic(user: &str, password: &str) -> Self {
        if user.is_empty() {
            return Self::none();
        }
        let pair = base64_text::encode(format!("{user}:{password}").as_bytes());
        Self(Arc::new(Kind::Basic { user: user.into(), header: Secret::new(format!("Basic {pair}")) }))
    }

    /// A source of the program's own; see there.
    #[must_use]
    pub fn source<S: CredentialSource>(source: S) -> Self {
        Self::renewed(format!("credential source {}", type_name::<S>()), source)
    }

    /// The same; `name` is how messages call it.
    pub(super) fn renewed(name: String, source: impl CredentialSource) -> Self {
        Self(Arc::new(Kind::Source(Arc::new(Renewed::new(name, Box::new(source))))))
    }

    /// What the next request is sent with. May read a file, or wait for a source until the time given or stopped.
    ///
    /// # Errors
    /// The token file has never been read with success, and cannot be now; or the source gives nothing.
    pub(crate) fn identity(&self, clock: &Clock, until: Instant, stop: &Stop) -> Result<Identity> {
        match &*self.0 {
            Kind::None => Ok(Identity::default()),
            Kind::Token(header) | Kind::Basic { header, .. } => {
                Ok(Identity { authorization: Some(header.clone()), ..Identity::default() })
            }
            Kind::File(file) => file.identity(clock),
            Kind::Source(source) => source.clone().get(clock, until, stop),
        }
    }

    #[cfg(test)]
    pub(super) fn authorization(&self, clock: &Clock) -> Result<Option<String>> {
        let identity = self.identity(clock, clock.deadline(Duration::from_secs(60)), &Stop::new())?;
        Ok(identity.authorization.map(|header| header.expose().into()))
    }

    /// The server did not accept what a request was sent with: has the file read or the source asked again for the next
    /// request, unless that was done since. Says whether the next request may be sent with something else.
    pub(crate) fn refresh(&self, used: &Identity) -> bool {
        match &*self.0 {
            Kind::None | Kind::Token(_) | Kind::Basic { .. } => return false,
            Kind::File(file) => {
                let mut cached = file.lock();
                if cached.generation == used.generation {
                    cached.due = None;
                }
            }
            Kind::Source(source) => source.refresh(used),
        }
        true
    }

    /// Whether the token file, if there is one, can be read now.
    pub(super) fn check_file(&self) -> Result<()> {
        match &*self.0 {
            Kind::File(file) => file.read().map(drop),
            _ => Ok(()),
        }
    }
}

impl Default for Credentials {
    fn default() -> Self {
        Self::none()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::None => f.write_str("None"),
            Kind::Token(token) => write!(f, "Token({token:?})"),
            Kind::File(file) => write!(f, "TokenFile({:?})", file.path),
            Kind::Basic { user, header } => write!(f, "Basic({user:?}, {header:?})"),
            Kind::Source(source) => write!(f, "Source({})", source.name()),
        }
    }
}

impl TokenFile {
    fn identity(&self, clock: &Clock) -> Result<Identity> {
        let now = clock.now();
        let (last, generation) = {
            let cached = self.lock();
            match (&cached.header, cached.due) {
                (Some(header), Some(due)) if now < due => {
                    return Ok(Identity::of_file(header.clone(), cached.generation));
                }
                (header, _) => (header.clone(), cached.generation),
            }
        };
        let (header, new, wait) = match self.read() {
            Ok(header) => (header, generation + 1, REREAD),
            Err(error) => {
                let Some(good) = last.or_else(|| self.fallback.clone()) else { return Err(error) };
                warn!(target: "listwatch::config", "{error}; using the last token");
                (good, generation, RETRY)
            }
        };
        let mut cached = self.lock();
        // Another thread may have read it meanwhile, and later.
        if cached.generation == generation {
            *cached = Cached { header: Some(header.clone()), due: Some(now + wait), generation: new };
        }
        Ok(Identity::of_file(header, new))
    }

    fn read(&self) -> Result<Secret> {
        let failed = |what: &str| Error::config(format!("token file {}{what}", self.path.display()));
        let token = std::fs::read_to_string(&self.path).map_err(|error| failed("").with_source(error))?;
        match token.trim_start_matches('\u{feff}').trim() {
            "" => Err(failed(" is empty")),
            token => bearer(token).map_err(|error| error.context(failed("").to_string())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Cached> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bearer(token: &str) -> Result<Secret> {
    if token.is_empty() {
        return Err(Error::config("the token is empty"));
    }
    if !fits_header(token) {
        return Err(Error::config("the token holds a control character, which no header can carry"));
    }
    Ok(Secret::new(format!("Bearer {token}")))
}

/// Whether a header can carry the text, as bytes: anything but control characters.
pub(super) fn fits_header(text: &str) -> bool {
    !text.bytes().any(|byte| (byte < b' ' && byte != b'\t') || byte == 0x7f)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Dir;
    use super::*;

    fn sent(credentials: &Credentials, clock: &Clock) -> String {
        credentials.authorization(clock).unwrap().unwrap()
    }

    #[test]
    fn headers_of_tokens_and_passwords() {
        let clock = Clock::manual();
        assert_eq!(Credentials::none().authorization(&clock).unwrap(), None);
        assert_eq!(sent(&Credentials::token("abc").unwrap(), &clock), "Bearer abc");
        assert_eq!(sent(&Credentials::basic("bob", "s3cret"), &clock), "Basic Ym9iOnMzY3JldA==");
        assert_eq!(Credentials::basic("", "s3cret").authorization(&clock).unwrap(), None);
    }

    #[test]
    fn a_token_cannot_smuggle_in_a_header() {
        for token in ["", "a\nX-Evil: 1", "a\r", "a\0", "a\x7f"] {
            let error = Credentials::token(token).unwrap_err().to_string();
            assert!(error.starts_with("the token ") && !error.contains("Evil"), "{error}");
        }
    }

    #[test]
    fn a_rotated_token_file_is_used_within_a_minute() {
        let (dir, clock) = (Dir::new(), Clock::manual());
        let credentials = Credentials::token_file(dir.write("token", " one\n"));
        assert_eq!(sent(&credentials, &clock), "Bearer one");
        dir.write("token", "two\n");
        clock.advance(Duration::from_secs(49));
        assert_eq!(sent(&credentials, &clock), "Bearer one");
        clock.advance(Duration::from_secs(1));
        assert_eq!(sent(&credentials.clone(), &clock), "Bearer two");
    }

    #[test]
    fn refresh_reads_the_token_file_at_once() {
        let (dir, clock) = (Dir::new(), Clock::manual());
        let credentials = Credentials::token_file(dir.write("token", "one"));
        assert_eq!(sent(&credentials, &clock), "Bearer one");
        let used = credentials.identity(&clock, clock.now(), &Stop::new()).unwrap();
        dir.write("token", "two");
        assert!(credentials.clone().refresh(&used));
        assert_eq!(sent(&credentials, &clock), "Bearer two");
        // Another request was refused with the first, too: the file has been read since.
        dir.write("token", "three");
        assert!(credentials.refresh(&used));
        assert_eq!(sent(&credentials, &clock), "Bearer two");
    }

    #[test]
    #[cfg(unix)]
    fn a_token_file_is_swapped_as_kubelet_does_it() {
        let (dir, clock) = (Dir::new(), Clock::manual());
        for (folder, token) in [("..1", "one\n"), ("..2", "two\n")] {
            dir.write(&format!("{folder}/token"), token);
        }
        let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, dir.path(name)).unwrap();
        link("..1", "..data");
        link("..data/token", "token");
        let credentials = Credentials::token_file(dir.path("token"));
        assert_eq!(sent(&credentials, &clock), "Bearer one");
        link("..2", "..data_tmp");
        std::fs::rename(dir.path("..data_tmp"), dir.path("..data")).unwrap();
        std::fs::remove_dir_all(dir.path("..1")).unwrap();
        clock.advance(Duration::from_secs(60));
        assert_eq!(sent(&credentials, &clock), "Bearer two");
    }

    #[test]
    fn what_editors_add_to_a_token_file_is_not_sent() {
        let (dir, clock) = (Dir::new(), Clock::manual());
        for text in ["one\r\n", "\u{feff}one", "\u{feff}\r\n one\r\n\r\n"] {
            let credentials = Credentials::token_file(dir.write("token", text));
            assert_eq!(sent(&credentials, &clock), "Bearer one", "{text:?}");
        }
        for bytes in [&b"one\r\ntwo"[..], b"\xff\xfeo\0n\0e\0", "\u{feff} \r\n".as_bytes()] {
            let credentials = Credentials::token_file(dir.write("token", bytes));
            assert!(credentials.authorization(&clock).unwrap_err().is_config(), "{bytes:?}");
        }
    }

    #[test]
    fn the_last_good_token_outlives_its_file() {
        let (dir, clock) = (Dir::new(), Clock::manual());
        let credentials = Credentials::token_file(dir.write("token", "one"));
        assert_eq!(sent(&credentials, &clock), "Bearer one");
        dir.write("token", "\n");
        clock.advance(Duration::from_secs(60));
        assert_eq!(sent(&credentials, &clock), "Bearer one");
        std::fs::remove_file(dir.path("token")).unwrap();
        clock.advance(Duration::from_secs(10));
        assert_eq!(sent(&credentials, &clock), "Bearer one");
        dir.write("token", "two");
        clock.advance(Duration::from_secs(10));
        assert_eq!(sent(&credentials, &clock), "Bearer two");
    }

    #[test]
    fn a_token_file_that_was_never_good_is_an_error() {
        let (dir, clock) = (Dir::new(), Clock::manual());
        let empty = dir.write("token", " \n");
        let error = Credentials::token_file(&empty).authorization(&clock).unwrap_err().to_string();
        assert_eq!(error, format!("token file {} is empty", empty.display()));
        let error = Credentials::token_file(dir.path("gone")).authorization(&clock).unwrap_err().to_string();
        assert!(error.contains("gone"), "{error}");
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!(
            "{:?} {:?} {:?}",
            Secret::new("hidden"),
            Credentials::token("hidden").unwrap(),
            Credentials::basic("bob", "hidden")
        );
        assert_eq!(shown, r#"*** Token(***) Basic("bob", ***)"#);
    }
}
