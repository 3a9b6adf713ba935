//! Whom to trust: authorities that are given, or the system's.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use log::warn;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::der::Fields;
use crate::config::Pem;
use crate::error::{Error, Result};
use crate::object::Time;

/// Where systems keep the certificates that they trust, as Go has it for Linux (`crypto/x509/root_linux.go`): the first
/// of the files that can be read, and all that lies in the directories.
const FILES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
const DIRECTORIES: [&str; 2] = ["/etc/ssl/certs", "/etc/pki/tls/certs"];

/// What is no certificate of an authority is passed over, as Go's `AppendCertsFromPEM` does, and so is one that has
/// expired, or must not issue any, through which Go takes no chain: rustls does not look at what it is to trust.
pub(super) fn given(ca: &Pem, text: &[u8], now: Time) -> Result<RootCertStore> {
    let place = ca.place();
    let (mut store, mut skipped, mut why) = (RootCertStore::empty(), 0, String::new());
    for certificate in CertificateDer::pem_slice_iter(text) {
        let Ok(der) = certificate else {
            skipped += 1;
            continue;
        };
        match Fields::read(&der) {
            Some(Fields { not_after, .. }) if not_after < now => {
                why = format!(" (one expired at {not_after})");
                warn!(target: "listwatch::http", "certificate authority {place}: one expired at {not_after} and is not taken");
            }
            Some(Fields { may_issue: false, .. }) => {
                skipped += 1;
                why = " (a leaf, such as a server's own, is none, though kubectl takes it)".into();
            }
            _ if store.add(CertificateDer::from(&*der)).is_ok() => {}
            _ => skipped += 1,
        }
    }
    if store.is_empty() {
        return Err(Error::config(format!(
            "certificate authority {place}: holds no certificate that can be used as an authority{why}"
        )));
    }
    if skipped > 0 {
        let taken = store.len();
        warn!(target: "listwatch::http", "certificate authority {place}: {skipped} entries are no certificates of an authority, {taken} are");
    }
    Ok(store)
}

/// `SSL_CERT_FILE` and `SSL_CERT_DIR` (with colons between) come in place of the system's, as in Go.
pub(super) fn of_system(env: &dyn Fn(&str) -> Option<OsString>, now: Time) -> Result<RootCertStore> {
    let given = |name| env(name).filter(|value| !value.is_empty());
    let files = match given("SSL_CERT_FILE") {
        Some(file) => vec![PathBuf::from(file)],
        None => FILES.map(PathBuf::from).into(),
    };
    let directories = match given("SSL_CERT_DIR") {
        Some(directories) => std::env::split_paths(&directories).collect(),
        None => DIRECTORIES.map(PathBuf::from).to_vec(),
    };
    // Directories hold again what is in the file.
    let mut found = Vec::new();
    let mut add = |text: &[u8]| {
        for der in CertificateDer::pem_slice_iter(text).filter_map(|der| der.ok()) {
            if !found.contains(&der) {
                found.push(der);
            }
        }
    };
    let mut failed = None;
    let mut note = |path: &Path, e: io::Error| {
        if e.kind() != io::ErrorKind::NotFound {
            failed.get_or_insert_with(|| Error::config(format!("read {}", path.display())).with_source(e));
        }
    };
    for file in files {
        match fs::read(&file) {
            Ok(text) => {
                add(&text);
                break;
            }
            Err(e) => note(&file, e),
        }
    }
    for directory in directories {
        match fs::read_dir(&directory) {
            Ok(entries) => {
                for text in entries.filter_map(|entry| fs::read(entry.ok()?.path()).ok()) {
                    add(&text);
                }
            }
            Err(e) => note(&directory, e),
        }
    }
    let mut store = RootCertStore::empty();
    let can_issue = |fields: Fields<'_>| fields.may_issue && now <= fields.not_after;
    store.add_parsable_certificates(found.into_iter().filter(|der| Fields::read(der).is_none_or(can_issue)));
    if store.is_empty() {
        let none = Error::config("no certificate authority is given for the server, and the system has none");
        return Err(failed.map_or(none, |e| {
            e.context(
                "no certificate authority is given for the server, and those of the system cannot be read",
            )
        }));
    }
    Ok(store)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PKI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client/pki");

    fn now() -> Time {
        Time::from_unix(2_000_000_000)
    }

    /// Of these files, one behind the other.
    fn bundle(files: &[&str]) -> Result<RootCertStore> {
        let texts = files.iter().flat_map(|file| fs::read(format!("{PKI}/{file}.pem")).unwrap());
        let text: Vec<_> = texts.collect();
        given(&Pem::Data(text.clone()), &text, now())
    }

    #[test]
    fn one_that_has_expired_or_must_not_issue_is_no_authority() {
        let ca = bundle(&["ca"]).unwrap().roots;
        assert_eq!(bundle(&["expired-ca", "ca"]).unwrap().roots, ca);
        assert_eq!(bundle(&["server", "ca", "ec-sec1"]).unwrap().roots, ca);
        // Kept is what vouches for itself, or is too old to say what it is.
        assert_eq!(bundle(&["self-signed", "self-signed-ca", "v1"]).unwrap().len(), 3);
        let error = bundle(&["expired-ca"]).unwrap_err();
        assert!(
            error.is_config() && error.to_string().contains("expired at 2021-02-03T04:05:06Z"),
            "{error}"
        );
        let error = bundle(&["server"]).unwrap_err();
        assert!(error.is_config() && error.to_string().contains("a leaf"), "{error}");
        let ca_alone = of(&format!("{PKI}/ca.pem"), "/nowhere").unwrap();
        for file in ["expired-ca", "server"] {
            let error = of(&format!("{PKI}/{file}.pem"), "/nowhere").unwrap_err();
            assert!(error.to_string().contains("the system has none"), "{error}");
        }
        assert_eq!(ca_alone.roots, ca);
    }

    fn of(file: &str, directories: &str) -> Result<RootCertStore> {
        let (file, directories) = (file.to_owned(), directories.to_owned());
        let env = move |name: &str| match name {
            "SSL_CERT_FILE" => Some(file.clone().into()),
            "SSL_CERT_DIR" => Some(directories.clone().into()),
            _ => None,
        };
        of_system(&env, now())
    }

    #[test]
    fn the_environment_says_where_the_system_keeps_its_authorities() {
        let one = of(&format!("{PKI}/ca.pem"), "/nowhere").unwrap();
        assert_eq!(one.len(), 1);
        // The directory holds the same one again, others, and keys, a script and certificates of no authority.
        let all = of(&format!("{PKI}/ca.pem"), &format!("/nowhere:{PKI}")).unwrap();
        let again = of("/nowhere/file.pem", PKI).unwrap();
        assert!(all.len() > 2 && all.len() == again.len(), "{} {}", all.len(), again.len());
        assert!(again.roots.contains(&one.roots[0]));
    }

    #[test]
    fn a_system_without_authorities_is_an_error_that_says_what_could_not_be_read() {
        let error = of("/nowhere/file.pem", "/nowhere").unwrap_err();
        assert!(error.is_config() && error.to_string().contains("the system has none"), "{error}");
        let error = of(PKI, "/nowhere").unwrap_err();
        assert!(error.is_config() && error.to_string().contains(PKI), "{error}");
    }
}
