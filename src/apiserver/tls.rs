//! TLS by rustls, for connections that the server accepts.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, Stream};

use crate::base64_text;
use crate::config::Pem;
use crate::error::{Error, Result};
use crate::http::tls_provider;

/// What a server is given.
#[derive(Clone)]
pub(super) struct Files {
    pub(super) chain: Pem,
    pub(super) key: Pem,
}

/// What connections are secured with.
#[derive(Clone)]
pub(super) struct Tls {
    config: Arc<ServerConfig>,
    /// What it was made of.
    files: Files,
    client_authority: Option<Pem>,
    /// The last certificate of the chain, as PEM.
    authority: Vec<u8>,
}

impl Tls {
    pub(super) fn new(files: &Files, client_authority: Option<&Pem>) -> Result<Self> {
        let chain = certificates(&files.chain)?;
        // Without the cause, here and below: it quotes lines, which may be the whole key.
        let key = PrivateKeyDer::from_pem_slice(&files.key.read()?).map_err(|_| {
            Error::config(format!("{:?} holds no private key in PKCS#1, PKCS#8 or SEC1 form", files.key))
        })?;
        let authority = chain.last().map(|last| pem(last)).unwrap_or_default();
        let provider = Arc::new(tls_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::config("TLS cannot be set up").with_source(e))?;
        let builder = match client_authority {
            Some(authority) => {
                let unfit = || format!("{authority:?} holds no certificate that can be used as an authority");
                let mut roots = RootCertStore::empty();
                for certificate in certificates(authority)? {
                    roots.add(certificate).map_err(|e| Error::config(unfit()).with_source(e))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                let verifier = verifier.allow_unauthenticated().build();
                builder
                    .with_client_cert_verifier(verifier.map_err(|e| Error::config(unfit()).with_source(e))?)
            }
            None => builder.with_no_client_auth(),
        };
        let config = builder.with_single_cert(chain, key).map_err(|e| {
            Error::config("the server's certificate and its key cannot be used together").with_source(e)
        })?;
        let (files, client_authority) = (files.clone(), client_authority.cloned());
        Ok(Self { config: Arc::new(config), files, client_authority, authority })
    }

    /// With another certificate and key.
    pub(super) fn with_files(&self, files: &Files) -> Result<Self> {
        Self::new(files, self.client_authority.as_ref())
    }

    /// With others who issue the certificates of clients.
    pub(super) fn with_client_authority(&self, client_authority: &Pem) -> Result<Self> {
        Self::new(&self.files, Some(client_authority))
    }

    /// What clients must trust.
    pub(super) fn authority(&self) -> Vec<u8> {
        self.authority.clone()
    }

    /// For a new connection, before its handshake.
    pub(super) fn session(&self) -> io::Result<Session> {
        ServerConnection::new(Arc::clone(&self.config))
            .map(|connection| Session(Box::new(connection)))
            .map_err(io::Error::other)
    }
}

/// At least one.
fn certificates(pem: &Pem) -> Result<Vec<CertificateDer<'static>>> {
    let none = || Error::config(format!("{pem:?} holds no valid certificate"));
    let found: Vec<_> =
        CertificateDer::pem_slice_iter(&pem.read()?).collect::<Result<_, _>>().map_err(|_| none())?;
    if found.is_empty() { Err(none()) } else { Ok(found) }
}

fn pem(certificate: &[u8]) -> Vec<u8> {
    let body = base64_text::encode(certificate);
    let mut pem = b"-----BEGIN CERTIFICATE-----\n".to_vec();
    for line in body.as_bytes().chunks(64) {
        pem.extend_from_slice(line);
        pem.push(b'\n');
    }
    pem.extend_from_slice(b"-----END CERTIFICATE-----\n");
    pem
}

/// The TLS side of one connection.
pub(super) struct Session(Box<ServerConnection>);

impl Session {
    pub(super) fn handshake(&mut self, mut stream: &TcpStream) -> io::Result<()> {
        while self.0.is_handshaking() {
            self.0.complete_io(&mut stream)?;
        }
        Ok(())
    }

    /// Whether the client has shown a certificate, which was verified then.
    pub(super) fn knows_client(&self) -> bool {
        self.0.peer_certificates().is_some()
    }

    pub(super) fn read(&mut self, mut stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        Stream::new(&mut *self.0, &mut stream).read(buffer)
    }

    pub(super) fn write_all(&mut self, mut stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
        let mut stream = Stream::new(&mut *self.0, &mut stream);
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// Says that nothing more comes. Reads nothing, in a handshake neither.
    pub(super) fn close(&mut self, mut stream: &TcpStream) -> io::Result<()> {
        self.0.send_close_notify();
        while self.0.wants_write() {
            self.0.write_tls(&mut stream)?;
        }
        Ok(())
    }
}
