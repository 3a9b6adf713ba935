//! What rustls says, in words for who runs the program: what is wrong, with which server or file, and when.

use std::error::Error as _;
use std::io;
use std::net::IpAddr;

use rustls::{AlertDescription, CertificateError};

use super::client::Client;
use crate::error::Error;
use crate::object::Time;

/// What rustls says within an error of reading or writing.
pub(super) fn of_rustls(e: &io::Error) -> Option<&rustls::Error> {
    e.get_ref().and_then(|e| e.downcast_ref())
}

/// Whether a connection was not made because one side does not accept the certificate of the other, or may be so.
pub(in super::super) fn is_refusal(e: &Error) -> bool {
    let cause = e.source().and_then(|e| e.downcast_ref()).and_then(of_rustls);
    e.is_connect()
        && matches!(cause, Some(rustls::Error::InvalidCertificate(_) | rustls::Error::AlertReceived(_)))
}

/// Whether the server may not have accepted our certificate.
pub(in super::super) fn is_refusal_of_ours(e: &Error) -> bool {
    let cause = e.source().and_then(|e| e.downcast_ref()).and_then(of_rustls);
    e.is_connect() && matches!(cause, Some(rustls::Error::AlertReceived(_)))
}

/// Why there is no TLS with a server. `trusted` says what is trusted.
pub(super) fn why(e: &io::Error, trusted: &str, client: Option<&Client>) -> String {
    match of_rustls(e) {
        Some(rustls::Error::InvalidCertificate(e)) => format!(": {}", certificate(e, trusted)),
        Some(rustls::Error::AlertReceived(alert)) => alerted(*alert, client),
        Some(rustls::Error::InvalidMessage(_)) => {
            ": what it answers is no TLS (is it an http:// server?)".into()
        }
        Some(rustls::Error::PeerIncompatible(_)) => {
            ": it has no version of TLS, or no cipher, of ours".into()
        }
        Some(_) => String::new(),
        None if e.kind() == io::ErrorKind::UnexpectedEof => {
            ": it closed the connection in the handshake".into()
        }
        None => String::new(),
    }
}

fn certificate(e: &CertificateError, trusted: &str) -> String {
    let at = |time: &rustls::pki_types::UnixTime| {
        Time::from_unix(i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
    };
    match e {
        CertificateError::UnknownIssuer => format!(
            "its certificate is issued by no authority that we trust, which are {trusted} (its own certificate, a leaf, \
             is none, though kubectl takes it)"
        ),
        CertificateError::ExpiredContext { not_after, time } => {
            format!("its certificate, or that of an issuer, expired at {}; it is {}", at(not_after), at(time))
        }
        CertificateError::NotValidYetContext { not_before, time } => format!(
            "its certificate, or that of an issuer, is not valid before {}; it is {}",
            at(not_before),
            at(time)
        ),
        CertificateError::NotValidForNameContext { expected, presented } if presented.is_empty() => format!(
            "its certificate is not for {:?}: it has no subject alternative names, and a common name does not count",
            expected.to_str()
        ),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let plain = |name: &String| {
                let name = name.trim_start_matches("DnsName(\"").trim_start_matches("IpAddress(");
                let name = name.trim_end_matches(')').trim_end_matches('"');
                // rustls writes ::1 as 0::1.
                name.parse::<IpAddr>().map_or_else(|_| name.to_owned(), |ip| ip.to_string())
            };
            let names: Vec<_> = presented.iter().map(plain).collect();
            format!(
                "its certificate is not for {:?}, but for {} (tls-server-name says which to expect)",
                expected.to_str(),
                names.join(", ")
            )
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is none for servers".into()
        }
        CertificateError::BadSignature => {
            "its certificate is not signed by the authority of that name which we trust".into()
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "its certificate is signed in a way that we do not know (P-521 needs the feature `aws-lc-rs`)"
                .into()
        }
        CertificateError::BadEncoding => "its certificate cannot be read".into(),
        // The type of these is private to rustls.
        CertificateError::Other(e) => match &*e.to_string() {
            "CaUsedAsEndEntity" => {
                "its certificate is one of an authority (CA:TRUE), which TLS takes from no server".into()
            }
            "UnsupportedCertVersion" => "its certificate is not of X.509 version 3".into(),
            _ => "its certificate is not accepted".into(),
        },
        _ => "its certificate is not accepted".into(),
    }
}

/// Whether an alert is about our certificate, or that we have shown none.
pub(super) fn is_about_us(alert: AlertDescription) -> bool {
    use AlertDescription as Alert;
    matches!(
        alert,
        Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::DecryptError
            | Alert::CertificateRequired
    )
}

fn alerted(alert: AlertDescription, client: Option<&Client>) -> String {
    let ours = match client {
        Some(client) => format!("refused our client certificate {}", client.describe()),
        None => "wants a client certificate, and we have none".into(),
    };
    match alert {
        alert if is_about_us(alert) => format!(": it {ours}"),
        AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => {
            format!(": it has no cipher of ours, or {ours}")
        }
        AlertDescription::ProtocolVersion => ": it has no version of TLS of ours".into(),
        AlertDescription::UnrecognisedName => {
            ": it has no server of this name (tls-server-name can give another)".into()
        }
        _ => ": it refused".into(),
    }
}
