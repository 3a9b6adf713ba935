//! Cryptography of aws-lc-rs.

use rustls::crypto::CryptoProvider;

/// Always given to rustls by hand: a process with two providers has no default, and rustls would panic.
pub(crate) fn provider() -> CryptoProvider {
    rustls::crypto::aws_lc_rs::default_provider()
}
