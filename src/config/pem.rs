use std::fmt;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// How to know the API server, and how it knows us, on TLS connections.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// The certificates to trust; other PEM blocks, and certificates that cannot be read, are passed over. Without them
    /// those of the system, read when a client is made: the file `$SSL_CERT_FILE` and the directories `$SSL_CERT_DIR`, or
    /// where Linux distributions keep them, as in Go.
    pub ca: Option<Pem>,
    /// The certificate that says who we are.
    pub client_certificate: Option<ClientCertificate>,
    /// The name that is asked for (SNI) and that the server's certificate must have, where it is not the URL's host.
    pub server_name: Option<String>,
    /// Trust any server. Whoever is between it and us reads and changes everything. Each client warns of it in the log.
    pub insecure_skip_verify: bool,
}

/// A certificate, with those it was issued by if need be, and its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, of any version of X.509, followed by those of its issuers.
    pub certificate: Pem,
    /// The private key: RSA, EC or Ed25519 in PKCS#1, PKCS#8 or SEC1 form, not encrypted; P-521 with the feature
    /// `aws-lc-rs` alone. It may be in the same file as the certificate.
    pub key: Pem,
}

/// PEM blocks: certificates or a key.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// The text itself.
    Data(Vec<u8>),
    /// A file that holds it, read when a client is made. From then on requests look every 10 s whether it has changed,
    /// and when a server does not accept us or we not it: new connections are made with what it holds then. While that
    /// cannot be used, what was read before is.
    File(PathBuf),
}

impl Pem {
    /// The text, read now if it is in a file.
    ///
    /// # Errors
    /// The file cannot be read; the error names it.
    pub fn read(&self) -> Result<Vec<u8>> {
        match self {
            Self::Data(data) => Ok(data.clone()),
            Self::File(path) => std::fs::read(path)
                .map_err(|error| Error::config(format!("read {}", path.display())).with_source(error)),
        }
    }

    /// Where it is, for messages.
    #[cfg(feature = "tls")]
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Data(_) => "given as text".into(),
            Self::File(path) => path.display().to_string(),
        }
    }
}

/// Whether it holds a PEM block at all; the rest is found when a connection is made.
#[cfg(feature = "kubeconfig")]
pub(super) fn is_pem(data: &[u8]) -> bool {
    data.windows(11).any(|window| window == b"-----BEGIN ")
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(data) => write!(f, "Data({} bytes)", data.len()),
            Self::File(path) => write!(f, "File({path:?})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_named() {
        let error = Pem::File("/nowhere/ca.crt".into()).read().unwrap_err();
        assert!(error.is_config() && error.to_string().starts_with("read /nowhere/ca.crt: "), "{error}");
    }

    #[test]
    fn debug_shows_no_key() {
        assert_eq!(format!("{:?}", Pem::Data(b"PRIVATE".to_vec())), "Data(7 bytes)");
    }
}
