//! The certificate that says who we are, and its key.

use std::sync::Arc;

use log::warn;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::der::Fields;
use crate::config::{ClientCertificate, Pem};
use crate::error::{Error, Result};
use crate::object::Time;

/// The curve P-521 as keys and certificates name it.
const P521: [u8; 7] = [0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23];

#[derive(Debug)]
pub(super) struct Client {
    pub(super) pair: Arc<CertifiedKey>,
    /// Where the certificate is.
    place: String,
    not_before: Time,
    not_after: Time,
}

impl Client {
    /// From the texts of both. That they belong together is seen here and not by rustls, which cannot read certificates
    /// of version 1.
    pub(super) fn new(
        from: &ClientCertificate,
        certificate: Result<Vec<u8>>,
        key: Result<Vec<u8>>,
        provider: &CryptoProvider,
    ) -> Result<Self> {
        let (place, key_place) = (from.certificate.place(), from.key.place());
        let bad = |what: &str| Error::config(format!("client certificate {place}: {what}"));
        let text = certificate.map_err(|e| e.context("client certificate"))?;
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&text)
            .collect::<Result<_, _>>()
            .map_err(|_| bad("holds no valid certificate"))?; // without the cause: it quotes lines, which may be a key
        let leaf = chain.first().ok_or_else(|| bad("holds no certificate"))?;
        let Fields { not_before, not_after, public_key, .. } =
            Fields::read(leaf).ok_or_else(|| bad("holds no valid certificate"))?;
        let key = private_key(&from.key, &key.map_err(|e| e.context("client key"))?)?;
        let on_p521 = [public_key, key.secret_der()].iter().any(|der| der.windows(7).any(|at| at == P521));
        let key = provider.key_provider.load_private_key(key).map_err(|e| {
            let what = if on_p521 {
                "is on the curve P-521, for which listwatch needs its feature `aws-lc-rs`"
            } else {
                "is none that TLS can use: RSA of 2048 bits or more, EC on P-256 or P-384, Ed25519"
            };
            Error::config(format!("client key {key_place} of client certificate {place}: {what}"))
                .with_source(e)
        })?;
        if key.public_key().is_some_and(|of_key| of_key.as_ref() != public_key) {
            return Err(bad(&format!("the client key {key_place} is not its key")));
        }
        let pair = Arc::new(CertifiedKey::new(chain, key));
        Ok(Self { pair, place, not_before, not_after })
    }

    /// Says in the log if the time of the certificate is over, or has not come. It is sent all the same, as kubectl does.
    pub(super) fn check_time(&self, now: Time) {
        if let Some(expired) = self.expired(now) {
            warn!(target: "listwatch::http", "{expired}; the server may refuse it");
        } else if now < self.not_before {
            let (place, from) = (&self.place, self.not_before);
            warn!(target: "listwatch::http", "client certificate {place}: not valid before {from}; the server may refuse it");
        }
    }

    pub(super) fn expired(&self, now: Time) -> Option<String> {
        let (place, until) = (&self.place, self.not_after);
        (now > until).then(|| format!("client certificate {place}: expired at {until}"))
    }

    /// For the message that a server has refused it.
    pub(super) fn describe(&self) -> String {
        format!("{}, valid from {} to {}", self.place, self.not_before, self.not_after)
    }
}

/// The first private key; other blocks are passed over.
fn private_key(from: &Pem, text: &[u8]) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(text).map_err(|e| {
        let encrypted = [&b"ENCRYPTED PRIVATE KEY"[..], b"Proc-Type: 4,ENCRYPTED"]
            .iter()
            .any(|mark| text.windows(mark.len()).any(|at| at == *mark));
        let what = match e {
            _ if encrypted => "is encrypted, which is not supported (`openssl pkey` writes it in the clear)",
            pem::Error::NoItemsFound => "holds no private key in PKCS#1, PKCS#8 or SEC1 form",
            _ => "holds no valid private key",
        };
        // Without the cause, which may quote the whole key.
        Error::config(format!("client key {}: {what}", from.place()))
    })
}
