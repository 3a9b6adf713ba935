//! TLS by rustls: our own configuration, so that bad certificates are errors and not panics of ureq.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;

use log::warn;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, ClientConnection, Resumption};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme, Stream};

use super::connector::Wire;
use crate::config::{ClientCertificate, Pem, TlsOptions};
use crate::error::{Error, Kind, Result};

/// Where systems keep the certificates that they trust, for a server whose CA is not given.
const SYSTEM_ROOTS: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// How connections are secured. Clones share the configuration, and with it the sessions; `None` for an `http://`
/// server.
#[derive(Clone)]
pub(super) struct Tls {
    config: Option<Arc<ClientConfig>>,
    server_name: Option<String>,
}

impl Tls {
    /// For a server that is spoken to in the clear.
    pub(super) fn none() -> Self {
        Self { config: None, server_name: None }
    }

    pub(super) fn new(options: &TlsOptions) -> Result<Self> {
        let provider = Arc::new(provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::config("TLS cannot be set up").with_source(e))?;
        let builder = if options.insecure_skip_verify {
            warn!(target: "listwatch::http", "the API server's certificate is NOT verified (insecure-skip-tls-verify)");
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(provider)))
        } else {
            builder.with_root_certificates(roots(options.ca.as_ref())?)
        };
        let mut config = match &options.client_certificate {
            Some(pair) => {
                let (chain, key) = client_pair(pair)?;
                builder.with_client_auth_cert(chain, key).map_err(|e| {
                    Error::config("the client certificate and its key cannot be used together").with_source(e)
                })?
            }
            None => builder.with_no_client_auth(),
        };
        // One server, so few sessions to take up again.
        config.resumption = Resumption::in_memory_sessions(4);
        Ok(Self { config: Some(Arc::new(config)), server_name: options.server_name.clone() })
    }

    /// Does the handshake, within the deadline of `wire`.
    pub(super) fn handshake(&self, host: &str, wire: &mut Wire) -> Result<Session> {
        let config = self.config.clone().ok_or_else(|| Error::config("no TLS is set up for this server"))?;
        let name = self.server_name.as_deref().unwrap_or(host).trim_start_matches('[').trim_end_matches(']');
        let server = ServerName::try_from(name.to_owned())
            .map_err(|e| Error::config(format!("{name:?} is no name for TLS")).with_source(e))?;
        let failed = |e: io::Error| match e.kind() {
            io::ErrorKind::TimedOut => Error::new(Kind::Connect, "the TLS handshake timed out"),
            _ => Error::new(Kind::Connect, format!("TLS with {name}{}", explain(&e))).with_source(e),
        };
        let mut connection =
            ClientConnection::new(config, server).map_err(|e| failed(io::Error::other(e)))?;
        while connection.is_handshaking() {
            connection.complete_io(wire).map_err(failed)?;
        }
        Ok(Session(Box::new(connection)))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// What rustls leaves unsaid.
fn explain(e: &io::Error) -> &'static str {
    match e.get_ref().and_then(|e| e.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            ": its certificate is issued by no authority that we trust (its own certificate, a leaf, is none)"
        }
        _ => "",
    }
}

/// The TLS side of one connection.
pub(super) struct Session(Box<ClientConnection>);

impl Session {
    pub(super) fn read(&mut self, wire: &mut Wire, buf: &mut [u8]) -> io::Result<usize> {
        Stream::new(&mut *self.0, wire).read(buf)
    }

    pub(super) fn write_all(&mut self, wire: &mut Wire, buf: &[u8]) -> io::Result<()> {
        let mut stream = Stream::new(&mut *self.0, wire);
        stream.write_all(buf)?;
        stream.flush()
    }
}

/// Always given to rustls by hand: a process with two providers has no default, and rustls would panic.
pub(crate) fn provider() -> CryptoProvider {
    #[cfg(feature = "aws-lc-rs")]
    return rustls::crypto::aws_lc_rs::default_provider();
    #[cfg(not(feature = "aws-lc-rs"))]
    return rustls::crypto::ring::default_provider();
}

fn roots(ca: Option<&Pem>) -> Result<RootCertStore> {
    let Some(ca) = ca else { return system_roots() };
    let mut store = RootCertStore::empty();
    let (added, skipped) = add_certificates(&mut store, &ca.read()?);
    if added == 0 {
        return Err(Error::config(format!("{ca:?} holds no certificate that can be used as an authority")));
    }
    if skipped > 0 {
        warn!(target: "listwatch::http", "{ca:?}: {skipped} entries are no certificates of an authority, {added} are");
    }
    Ok(store)
}

fn system_roots() -> Result<RootCertStore> {
    let given = std::env::var_os("SSL_CERT_FILE").map(std::path::PathBuf::from);
    let mut files = given.into_iter().chain(SYSTEM_ROOTS.iter().map(Into::into));
    let Some(pem) = files.find_map(|file| std::fs::read(file).ok()) else {
        return Err(Error::config(
            "no certificate authority is given for the server, and the system has none",
        ));
    };
    let mut store = RootCertStore::empty();
    add_certificates(&mut store, &pem);
    Ok(store)
}

/// How many were added, and how many could not be.
fn add_certificates(store: &mut RootCertStore, pem: &[u8]) -> (usize, usize) {
    let mut counts = (0, 0);
    for certificate in CertificateDer::pem_slice_iter(pem) {
        match certificate.map(|der| store.add(der)) {
            Ok(Ok(())) => counts.0 += 1,
            _ => counts.1 += 1,
        }
    }
    counts
}

fn client_pair(pair: &ClientCertificate) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    // Without the cause: it quotes lines, which may be the whole key.
    let bad = |pem: &Pem, what: &str| Error::config(format!("{pem:?} holds no {what}"));
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pair.certificate.read()?)
        .collect::<Result<_, _>>()
        .map_err(|_| bad(&pair.certificate, "valid certificate"))?;
    if chain.is_empty() {
        return Err(bad(&pair.certificate, "certificate"));
    }
    let key = PrivateKeyDer::from_pem_slice(&pair.key.read()?)
        .map_err(|_| bad(&pair.key, "private key in PKCS#1, PKCS#8 or SEC1 form"))?;
    Ok((chain, key))
}

/// Takes any certificate, but the peer must still hold its key.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
