//! Cryptography of ring: rustls's own provider for it, but for ChaCha20-Poly1305, which is a twentieth of a small program.
//! Go's TLS, which API servers have, speaks AES, too: in TLS 1.3 it cannot be told not to. A front of TLS 1.2 that is set to
//! ChaCha20 alone needs the feature `aws-lc-rs`. Where the processor has no instructions for AES, software does it.

use std::sync::Arc;

use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::crypto::ring::{cipher_suite, kx_group, sign::any_supported_type};
use rustls::crypto::{
    CryptoProvider, GetRandomFailed, KeyProvider, SecureRandom, SupportedKxGroup, WebPkiSupportedAlgorithms,
};
use rustls::pki_types::{PrivateKeyDer, SignatureVerificationAlgorithm};
use rustls::sign::SigningKey;
use rustls::{SignatureScheme, SupportedCipherSuite};
use webpki::ring as algorithm;

/// Always given to rustls by hand: a process with two providers has no default, and rustls would panic.
pub(crate) fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: CIPHER_SUITES.into(),
        kx_groups: KX_GROUPS.into(),
        signature_verification_algorithms: SIGNATURES,
        secure_random: &Ring,
        key_provider: &Ring,
    }
}

const CIPHER_SUITES: [SupportedCipherSuite; 6] = [
    cipher_suite::TLS13_AES_256_GCM_SHA384,
    cipher_suite::TLS13_AES_128_GCM_SHA256,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
];

const KX_GROUPS: [&dyn SupportedKxGroup; 3] = [kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1];

const SIGNATURES: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms { all: &ALL, mapping: &BY_SCHEME };

/// For certificates.
static ALL: [&dyn SignatureVerificationAlgorithm; 14] = [
    algorithm::ECDSA_P256_SHA256,
    algorithm::ECDSA_P256_SHA384,
    algorithm::ECDSA_P384_SHA256,
    algorithm::ECDSA_P384_SHA384,
    algorithm::ED25519,
    algorithm::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
    algorithm::RSA_PSS_2048_8192_SHA384_LEGACY_KEY,
    algorithm::RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
    algorithm::RSA_PKCS1_2048_8192_SHA256,
    algorithm::RSA_PKCS1_2048_8192_SHA384,
    algorithm::RSA_PKCS1_2048_8192_SHA512,
    algorithm::RSA_PKCS1_2048_8192_SHA256_ABSENT_PARAMS,
    algorithm::RSA_PKCS1_2048_8192_SHA384_ABSENT_PARAMS,
    algorithm::RSA_PKCS1_2048_8192_SHA512_ABSENT_PARAMS,
];

type Scheme = (SignatureScheme, &'static [&'static dyn SignatureVerificationAlgorithm]);

/// For handshakes; the first is what we like best. In TLS 1.2 a scheme does not say which curve it is.
static BY_SCHEME: [Scheme; 9] = [
    (SignatureScheme::ECDSA_NISTP384_SHA384, &[algorithm::ECDSA_P384_SHA384, algorithm::ECDSA_P256_SHA384]),
    (SignatureScheme::ECDSA_NISTP256_SHA256, &[algorithm::ECDSA_P256_SHA256, algorithm::ECDSA_P384_SHA256]),
    (SignatureScheme::ED25519, &[algorithm::ED25519]),
    (SignatureScheme::RSA_PSS_SHA512, &[algorithm::RSA_PSS_2048_8192_SHA512_LEGACY_KEY]),
    (SignatureScheme::RSA_PSS_SHA384, &[algorithm::RSA_PSS_2048_8192_SHA384_LEGACY_KEY]),
    (SignatureScheme::RSA_PSS_SHA256, &[algorithm::RSA_PSS_2048_8192_SHA256_LEGACY_KEY]),
    (SignatureScheme::RSA_PKCS1_SHA512, &[algorithm::RSA_PKCS1_2048_8192_SHA512]),
    (SignatureScheme::RSA_PKCS1_SHA384, &[algorithm::RSA_PKCS1_2048_8192_SHA384]),
    (SignatureScheme::RSA_PKCS1_SHA256, &[algorithm::RSA_PKCS1_2048_8192_SHA256]),
];

#[derive(Debug)]
struct Ring;

impl SecureRandom for Ring {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        SystemRandom::new().fill(bytes).map_err(|_| GetRandomFailed)
    }
}

impl KeyProvider for Ring {
    fn load_private_key(&self, key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, rustls::Error> {
        any_supported_type(&key)
    }
}

#[cfg(test)]
mod tests {
    use rustls::crypto::ring::default_provider;

    use super::*;

    /// So that an update of rustls which knows more is seen here.
    #[test]
    fn all_that_rustls_has_with_ring_is_here_but_for_one_cipher() {
        let (ours, whole) = (provider(), default_provider());
        let suites =
            whole.cipher_suites.into_iter().filter(|suite| !format!("{suite:?}").contains("CHACHA20"));
        assert_eq!(ours.cipher_suites, suites.collect::<Vec<_>>());
        let names =
            |groups: &[&dyn SupportedKxGroup]| groups.iter().map(|group| group.name()).collect::<Vec<_>>();
        assert_eq!(names(&ours.kx_groups), names(&whole.kx_groups));
        let (ours, whole) = (ours.signature_verification_algorithms, whole.signature_verification_algorithms);
        let ids = |all: &[&dyn SignatureVerificationAlgorithm]| {
            all.iter().map(|one| (one.public_key_alg_id(), one.signature_alg_id())).collect::<Vec<_>>()
        };
        assert_eq!(ids(ours.all), ids(whole.all));
        assert_eq!(ours.supported_schemes(), whole.supported_schemes());
        for (ours, whole) in ours.mapping.iter().zip(whole.mapping) {
            assert_eq!(ids(ours.1), ids(whole.1));
        }
    }
}
