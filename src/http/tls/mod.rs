//! TLS by rustls: our own configuration, so that bad certificates are errors and not panics of ureq, and new ones are
//! taken while the program runs.
//!
//! - `roots`: whom to trust
//! - `client`: who we are
//! - `words`: why there is no connection
//! - `der`: what rustls does not read
//! - `provider`: whose cryptography

mod client;
mod der;
#[cfg_attr(feature = "aws-lc-rs", path = "aws_lc_rs.rs")]
mod provider;
mod roots;
mod words;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::sync::Arc;

use log::warn;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientConfig, ClientConnection, Resumption, verify_server_cert_signed_by_trust_anchor, verify_server_name,
};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::SingleCertAndKey;
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme, Stream};

use self::client::Client;
pub(crate) use self::provider::provider;
pub(super) use self::words::{is_refusal, is_refusal_of_ours};
use super::agents::Found;
use super::connector::Wire;
use crate::config::{ClientCertificate, Config, Pem};
use crate::error::{Error, Kind, Result};

/// How connections are secured. Clones share the configuration, and with it the sessions; `None` for an `http://`
/// server.
#[derive(Clone)]
pub(super) struct Tls(Option<Secure>);

#[derive(Clone)]
struct Secure {
    config: Arc<ClientConfig>,
    server_name: Option<Arc<str>>,
    /// Who is at the other end, in words.
    peer: &'static str,
    /// Whom to trust; `None` is everybody.
    roots: Option<Arc<RootCertStore>>,
    /// The same in words.
    trusted: Arc<str>,
    client: Option<Arc<Client>>,
    /// What the PEM texts of both were when they were last read, good or not.
    seen: [u64; 2],
}

impl Tls {
    /// For a server that is spoken to in the clear.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// From what the configuration says, as its files are now.
    pub(super) fn new(config: &Config) -> Result<Self> {
        let options = config.tls();
        let mut seen = [0; 2];
        let (roots, trusted) = if options.insecure_skip_verify {
            let server = config.server();
            warn!(target: "listwatch::http", "the certificate of {server} is NOT verified (insecure-skip-tls-verify): whoever is between it and us reads and changes everything, credentials too");
            (None, "all".to_owned())
        } else if let Some(ca) = &options.ca {
            let text = ca.read();
            seen[0] = print_of([&text]);
            (Some(given(config, ca, text)?), format!("those of {}", ca.place()))
        } else {
            (
                Some(roots::of_system(&|name| std::env::var_os(name), config.clock().wall().into())?),
                "those of the system".to_owned(),
            )
        };
        let (roots, trusted) = (roots.map(Arc::new), trusted.into());
        let server_name = options.server_name.as_deref().map(Arc::from);
        let none = client_config(roots.as_ref(), None)?;
        let mut secure =
            Secure { config: none, server_name, peer: "the server", roots, trusted, client: None, seen };
        secure.present(config, options.client_certificate.as_ref())?;
        Ok(Self(Some(secure)))
    }

    /// Shows another client certificate from now on.
    pub(super) fn present(&mut self, config: &Config, pair: Option<&ClientCertificate>) -> Result<()> {
        self.0.as_mut().map_or(Ok(()), |secure| secure.present(config, pair))
    }

    /// Whether anything comes from a file, which may change.
    pub(super) fn is_from_files(&self, config: &Config, pair: Option<&ClientCertificate>) -> bool {
        let is_file = |pem: &Pem| matches!(pem, Pem::File(_));
        let ca = config.tls().ca.as_ref().filter(|_| !config.tls().insecure_skip_verify);
        self.0.is_some()
            && (ca.is_some_and(is_file)
                || pair.is_some_and(|pair| is_file(&pair.certificate) || is_file(&pair.key)))
    }

    /// The client certificate in words, if its time is over and the server, not only a proxy, is shown it.
    pub(super) fn expired_certificate(&self, config: &Config) -> Option<String> {
        let secure = self.0.as_ref().filter(|_| config.server().starts_with("https:"))?;
        secure.client.as_ref()?.expired(config.clock().wall().into())
    }

    /// Reads the files again, and takes what has changed since they were last read; of what cannot be used the last that
    /// was good is kept. `None` if nothing has changed.
    pub(super) fn renew(&mut self, config: &Config, pair: Option<&ClientCertificate>) -> Option<Found> {
        self.0.as_mut()?.renew(config, pair)
    }

    /// The same for another than the server: a proxy in front of it, which has a name of its own.
    pub(super) fn without_name(&self) -> Self {
        Self(self.0.clone().map(|secure| Secure { server_name: None, peer: "the proxy", ..secure }))
    }

    /// Does the handshake, within the deadline of `wire`.
    pub(super) fn handshake(&self, host: &str, wire: &mut Wire) -> Result<Session> {
        let Some(secure) = &self.0 else {
            return Err(Error::config("no TLS is set up for this server"));
        };
        let name = secure.server_name.as_deref().unwrap_or(host);
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let server = ServerName::try_from(name.to_owned())
            .map_err(|e| Error::config(format!("{name:?} is no name for TLS")).with_source(e))?;
        let failed = |e: io::Error| {
            if e.kind() == io::ErrorKind::TimedOut {
                return Error::new(Kind::Connect, "the TLS handshake timed out");
            }
            let why = words::why(&e, &secure.trusted, secure.client.as_deref());
            Error::new(Kind::Connect, format!("TLS with {name}{why}")).with_source(e)
        };
        let mut connection =
            ClientConnection::new(secure.config.clone(), server).map_err(|e| failed(io::Error::other(e)))?;
        while connection.is_handshaking() {
            let done = connection.complete_io(wire);
            done.map_err(|e| failed(last_words(&mut connection, wire, &e).unwrap_or(e)))?;
        }
        Ok(Session {
            connection: Box::new(connection),
            client: secure.client.clone(),
            peer: secure.peer,
            is_heard: false,
        })
    }
}

impl Secure {
    fn present(&mut self, config: &Config, pair: Option<&ClientCertificate>) -> Result<()> {
        let client = match pair {
            Some(pair) => {
                let [certificate, key] = [pair.certificate.read(), pair.key.read()];
                self.seen[1] = print_of([&certificate, &key]);
                Some(client_of(config, pair, certificate, key)?)
            }
            None => None,
        };
        self.config = client_config(self.roots.as_ref(), client.as_ref())?;
        self.client = client;
        Ok(())
    }

    fn renew(&mut self, config: &Config, pair: Option<&ClientCertificate>) -> Option<Found> {
        let before = self.seen;
        let mut found = Found::default();
        if let (Some(ca), Some(roots)) = (&config.tls().ca, &mut self.roots) {
            let text = ca.read();
            if is_new(&mut self.seen[0], print_of([&text])) {
                found.take(roots, given(config, ca, text).map(Arc::new));
            }
        }
        if let (Some(pair), Some(client)) = (pair, &mut self.client) {
            let [certificate, key] = [pair.certificate.read(), pair.key.read()];
            if is_new(&mut self.seen[1], print_of([&certificate, &key])) {
                found.take(client, client_of(config, pair, certificate, key));
            }
        }
        if self.seen == before {
            return None;
        }
        match client_config(self.roots.as_ref(), self.client.as_ref()) {
            Ok(new) => self.config = new,
            Err(e) => found = Found { usable: false, failed: vec![e] },
        }
        Some(found)
    }
}

impl Found {
    /// Takes what is new, if it can be used.
    fn take<T>(&mut self, old: &mut T, new: Result<T>) {
        match new {
            Ok(new) => {
                *old = new;
                self.usable = true;
            }
            Err(e) => self.failed.push(e),
        }
    }
}

fn given(config: &Config, ca: &Pem, text: Result<Vec<u8>>) -> Result<RootCertStore> {
    let text = text.map_err(|e| e.context("certificate authority"))?;
    roots::given(ca, &text, config.clock().wall().into())
}

fn client_of(
    config: &Config,
    pair: &ClientCertificate,
    certificate: Result<Vec<u8>>,
    key: Result<Vec<u8>>,
) -> Result<Arc<Client>> {
    let client = Client::new(pair, certificate, key, &provider())?;
    client.check_time(config.clock().wall().into());
    Ok(Arc::new(client))
}

fn client_config(
    roots: Option<&Arc<RootCertStore>>,
    client: Option<&Arc<Client>>,
) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::config("TLS cannot be set up").with_source(e))?;
    let verifier = Verifier { roots: roots.cloned(), provider };
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match client {
        Some(client) => {
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(client.pair.clone())))
        }
        None => builder.with_no_client_auth(),
    };
    // As in client-go. A session that is taken up again would also be one of certificates that may have been replaced.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Tells texts apart without keeping keys: a number for each. What cannot be read is a text of its own.
fn print_of<const N: usize>(texts: [&Result<Vec<u8>>; N]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for text in texts {
        text.as_ref().map_err(Error::to_string).hash(&mut hasher);
    }
    hasher.finish()
}

fn is_new(seen: &mut u64, print: u64) -> bool {
    std::mem::replace(seen, print) != print
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server_name = self.0.as_ref().and_then(|secure| secure.server_name.as_deref());
        f.debug_struct("Tls").field("server_name", &server_name).finish_non_exhaustive()
    }
}

/// The TLS side of one connection.
pub(super) struct Session {
    connection: Box<ClientConnection>,
    client: Option<Arc<Client>>,
    peer: &'static str,
    /// Whether the server has sent anything since the handshake. In TLS 1.3 ours is over before the server has seen our
    /// certificate: an alert about it is the first that we hear then, and the request behind it was never read.
    is_heard: bool,
}

impl Session {
    pub(super) fn read(&mut self, wire: &mut Wire, buf: &mut [u8]) -> io::Result<usize> {
        let read = Stream::new(&mut *self.connection, wire).read(buf);
        let read = read.map_err(|e| self.refused(e));
        self.is_heard |= read.is_ok();
        read
    }

    pub(super) fn write_all(&mut self, wire: &mut Wire, buf: &[u8]) -> io::Result<()> {
        let mut stream = Stream::new(&mut *self.connection, wire);
        let written = stream.write_all(buf).and_then(|()| stream.flush());
        written.map_err(|e| {
            let said = last_words(&mut self.connection, wire, &e).map(|said| self.refused(said));
            said.unwrap_or(e)
        })
    }

    fn refused(&self, e: io::Error) -> io::Error {
        match words::of_rustls(&e) {
            Some(rustls::Error::AlertReceived(alert)) if !self.is_heard && words::is_about_us(*alert) => {
                let (peer, why) = (self.peer, words::why(&e, "", self.client.as_deref()));
                io::Error::other(Error::new(Kind::Connect, format!("TLS with {peer}{why}")).with_source(e))
            }
            _ => e,
        }
    }
}

/// The alert that a server has sent before it closed the connection while we wrote, if that is why writing failed.
fn last_words(connection: &mut ClientConnection, wire: &mut Wire, failed: &io::Error) -> Option<io::Error> {
    let is_closed = matches!(failed.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
    while is_closed && connection.read_tls(wire).is_ok_and(|amount| amount > 0) {
        if let Err(e) = connection.process_new_packets() {
            return Some(io::Error::other(e));
        }
    }
    None
}

/// Checks certificates of servers as rustls's own verifier does, which has the code for revocation lists, too; or takes
/// any, but the server must still hold its key.
#[derive(Debug)]
struct Verifier {
    /// `None` takes any.
    roots: Option<Arc<RootCertStore>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(certificate)?;
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
            verify_server_name(&certificate, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
