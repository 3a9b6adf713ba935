//! Whom to trust: authorities that are given, or the system's.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use log::warn;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::config::Pem;
use crate::error::{Error, Result};

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

/// What is no certificate of an authority is passed over, as Go's `AppendCertsFromPEM` does.
pub(super) fn given(ca: &Pem, text: &[u8]) -> Result<RootCertStore> {
    let (mut store, mut skipped) = (RootCertStore::empty(), 0);
    for certificate in CertificateDer::pem_slice_iter(text) {
        if !certificate.is_ok_and(|der| store.add(der).is_ok()) {
            skipped += 1;
        }
    }
    let place = ca.place();
    if store.is_empty() {
        return Err(Error::config(format!(
            "certificate authority {place}: holds no certificate that can be used as an authority"
        )));
    }
    if skipped > 0 {
        let taken = store.len();
        warn!(target: "listwatch::http", "certificate authority {place}: {skipped} entries are no certificates of an authority, {taken} are");
    }
    Ok(store)
}

/// `SSL_CERT_FILE` and `SSL_CERT_DIR` (with colons between) come in place of the system's, as in Go.
pub(super) fn of_system(env: &dyn Fn(&str) -> Option<OsString>) -> Result<RootCertStore> {
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
    store.add_parsable_certificates(found);
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

    fn of(file: &str, directories: &str) -> Result<RootCertStore> {
        let (file, directories) = (file.to_owned(), directories.to_owned());
        of_system(&move |name| match name {
            "SSL_CERT_FILE" => Some(file.clone().into()),
            "SSL_CERT_DIR" => Some(directories.clone().into()),
            _ => None,
        })
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
