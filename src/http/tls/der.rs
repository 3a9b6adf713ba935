//! The few fields of a certificate that we read ourselves: rustls's own reading refuses X.509 version 1, which kubectl
//! sends and API servers take, and does not tell until when a certificate is good.

use crate::object::Time;

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version; certificates of version 1 have none.
const VERSION: u8 = 0xa0;
const VERSION_3: [u8; 3] = [INTEGER, 1, 2];
const EXTENSIONS: u8 = 0xa3;
/// id-ce-basicConstraints, 2.5.29.19.
const BASIC_CONSTRAINTS: [u8; 3] = [0x55, 0x1d, 0x13];

/// Of a certificate of any version, RFC 5280, section 4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields<'a> {
    pub(super) not_before: Time,
    pub(super) not_after: Time,
    /// The whole SubjectPublicKeyInfo.
    pub(super) public_key: &'a [u8],
    /// Whether it can be an authority: it says so (`CA:TRUE`), vouches for itself, or is too old to say.
    pub(super) may_issue: bool,
}

impl<'a> Fields<'a> {
    /// `None` if the bytes are no certificate.
    pub(super) fn read(mut der: &'a [u8]) -> Option<Self> {
        let mut certificate = value(&mut der, SEQUENCE)?;
        let mut fields = value(&mut certificate, SEQUENCE)?;
        let has_version = fields.first() == Some(&VERSION);
        let is_v3 = has_version && value(&mut fields, VERSION)? == VERSION_3;
        // The serial number, the algorithm of the signature.
        for tag in [INTEGER, SEQUENCE] {
            value(&mut fields, tag)?;
        }
        let issuer = value(&mut fields, SEQUENCE)?;
        let mut validity = value(&mut fields, SEQUENCE)?;
        let (not_before, not_after) = (time(&mut validity)?, time(&mut validity)?);
        let subject = value(&mut fields, SEQUENCE)?;
        let from_key = fields;
        value(&mut fields, SEQUENCE)?;
        let public_key = &from_key[..from_key.len() - fields.len()];
        let may_issue = !is_v3 || issuer == subject || is_authority(fields).unwrap_or(false);
        Some(Self { not_before, not_after, public_key, may_issue })
    }
}

/// What the basic constraints say, of what is behind the public key.
fn is_authority(mut fields: &[u8]) -> Option<bool> {
    let mut extensions = loop {
        let tag = *fields.first()?;
        let mut found = value(&mut fields, tag)?; // unique ids, or
        if tag == EXTENSIONS {
            break value(&mut found, SEQUENCE)?;
        }
    };
    loop {
        let mut extension = value(&mut extensions, SEQUENCE)?;
        if value(&mut extension, OBJECT_ID)? == BASIC_CONSTRAINTS {
            if extension.first() == Some(&BOOLEAN) {
                value(&mut extension, BOOLEAN)?; // whether it is critical
            }
            let mut constraints = value(&mut value(&mut extension, OCTETS)?, SEQUENCE)?;
            return Some(value(&mut constraints, BOOLEAN)? != [0]);
        }
    }
}

/// Takes the first element off, which must have this tag, and gives what is in it.
fn value<'a>(rest: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (found, after) = rest.split_first()?;
    let (&first, mut after) = after.split_first()?;
    let length = match first {
        0..=0x7f => usize::from(first),
        // In so many bytes; no certificate is longer than three can say.
        0x81..=0x83 => {
            let (bytes, behind) = after.split_at_checked(usize::from(first & 0x7f))?;
            after = behind;
            bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
        }
        _ => return None,
    };
    let (value, behind) = after.split_at_checked(length)?;
    *rest = behind;
    (*found == tag).then_some(value)
}

/// In the two forms that RFC 5280 allows, which both have seconds and end with `Z`.
fn time(rest: &mut &[u8]) -> Option<Time> {
    let tag = *rest.first()?;
    let text = std::str::from_utf8(value(rest, tag)?).ok()?;
    let text = match tag {
        // Two digits of the year: 1950 to 2049.
        UTC_TIME => format!("{}{text}", if text < "5" { "20" } else { "19" }),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let part = |from, to| text.get(from..to);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(8, 10)?, part(10, 12)?, part(12, text.len())?);
    format!("{year}-{month}-{day}T{hour}:{minute}:{second}").parse().ok()
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::super::provider;
    use super::*;

    fn der(pem: &[u8]) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem).unwrap()
    }

    fn time_of(tag: u8, text: &str) -> Option<String> {
        let mut element = vec![tag, text.len() as u8];
        element.extend_from_slice(text.as_bytes());
        time(&mut &*element).map(|time| time.to_string())
    }

    /// As rustls reads it, where it does.
    #[test]
    fn the_public_key_is_that_of_the_private_one() {
        for (certificate, key) in [
            (
                &include_bytes!("../../../tests/client/pki/ec-sec1.pem")[..],
                &include_bytes!("../../../tests/client/pki/ec-sec1.key.pem")[..],
            ),
            (
                include_bytes!("../../../tests/client/pki/rsa-pkcs1.pem"),
                include_bytes!("../../../tests/client/pki/rsa-pkcs1.key.pem"),
            ),
            (
                include_bytes!("../../../tests/client/pki/v1.pem"),
                include_bytes!("../../../tests/client/pki/v1.key.pem"),
            ),
        ] {
            let key = rustls::pki_types::PrivateKeyDer::from_pem_slice(key).unwrap();
            let key = provider().key_provider.load_private_key(key).unwrap();
            let certificate = der(certificate);
            let fields = Fields::read(&certificate).unwrap();
            assert_eq!(fields.public_key, key.public_key().unwrap().as_ref());
        }
    }

    #[test]
    fn the_time_of_a_certificate_is_read() {
        let expired = der(include_bytes!("../../../tests/client/pki/expired.pem"));
        let fields = Fields::read(&expired).unwrap();
        assert_eq!(fields.not_before.to_string(), "2020-01-01T00:00:00Z");
        assert_eq!(fields.not_after.to_string(), "2021-02-03T04:05:06Z");
        let future = der(include_bytes!("../../../tests/client/pki/future-server.pem"));
        assert_eq!(Fields::read(&future).unwrap().not_before.to_string(), "2100-01-01T00:00:00Z");
    }

    #[test]
    fn an_authority_says_so_or_vouches_for_itself() {
        let may_issue = |pem: &[u8]| Fields::read(&der(pem)).unwrap().may_issue;
        assert!(may_issue(include_bytes!("../../../tests/client/pki/ca.pem")));
        assert!(may_issue(include_bytes!("../../../tests/client/pki/self-signed.pem")));
        assert!(may_issue(include_bytes!("../../../tests/client/pki/v1.pem")));
        let chain = &include_bytes!("../../../tests/client/pki/server-chain.pem")[..];
        let both: Vec<_> = CertificateDer::pem_slice_iter(chain).map(Result::unwrap).collect();
        assert_eq!([&both[0], &both[1]].map(|der| Fields::read(der).unwrap().may_issue), [false, true]);
        assert!(!may_issue(include_bytes!("../../../tests/client/pki/ec-sec1.pem")));
    }

    #[test]
    fn times_have_two_forms() {
        assert_eq!(time_of(UTC_TIME, "491231235959Z").unwrap(), "2049-12-31T23:59:59Z");
        assert_eq!(time_of(UTC_TIME, "500101000000Z").unwrap(), "1950-01-01T00:00:00Z");
        assert_eq!(time_of(GENERALIZED_TIME, "20500101000000Z").unwrap(), "2050-01-01T00:00:00Z");
        for text in ["", "49", "4912312359Z", "491331235959Z", "49123123595Z", "49123123595\u{e9}Z"] {
            assert_eq!(time_of(UTC_TIME, text), None, "{text}");
        }
        assert_eq!(time_of(INTEGER, "491231235959Z"), None);
    }

    #[test]
    fn bytes_that_are_no_certificate_are_none() {
        let whole = der(include_bytes!("../../../tests/client/pki/rsa-pkcs1.pem"));
        assert!(Fields::read(&whole).is_some());
        for end in 0..whole.len() {
            assert_eq!(Fields::read(&whole[..end]), None, "cut at {end}");
        }
        for at in 0..whole.len() {
            for change in [0x00, 0x7f, 0x80, 0x84, 0xff] {
                let mut spoiled = whole.to_vec();
                spoiled[at] = change;
                let _ = Fields::read(&spoiled); // no panic
            }
        }
    }
}
