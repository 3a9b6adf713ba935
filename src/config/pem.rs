use std::fmt;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// How to know the API server, and how it knows us, on TLS connections.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// The certificates to trust; without them those of the system.
    pub ca: Option<Pem>,
    /// The certificate that says who we are.
    pub client_certificate: Option<ClientCertificate>,
    /// The name that the server's certificate must have, where it is not the URL's host.
    pub server_name: Option<String>,
    /// Trust any server. Whoever is between it and us reads and changes everything.
    pub insecure_skip_verify: bool,
}

/// A certificate, with those it was issued by if need be, and its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, followed by those of its issuers.
    pub certificate: Pem,
    /// The private key.
    pub key: Pem,
}

/// PEM blocks: certificates or a key.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// The text itself.
    Data(Vec<u8>),
    /// A file that holds it, read when a client is made.
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
