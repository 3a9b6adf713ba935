//! What kube-apiserver takes of client certificates, which a test server can only be told.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use listwatch::config::{ClientCertificate, Pem, TlsOptions};
use listwatch::{Client, Config};

use crate::access::whoami;
use crate::server::{self, Server};

/// A certificate of X.509 version 1 for the user `old`, and its key, in files that are there until the server ends.
fn version_1(server: &Server) -> [PathBuf; 2] {
    let folder = server.kubeconfig().parent().unwrap().join("pki");
    let script = "openssl ecparam -genkey -name prime256v1 -noout -out v1-$$.key &&
        openssl req -new -key v1-$$.key -subj /CN=old |
        openssl x509 -req -CA ca.crt -CAkey ca.key -set_serial 4711 -days 30 -out v1-$$.crt && echo $$";
    let mut shell = Command::new("sh");
    let done = shell.arg("-c").arg(script).current_dir(&folder).stderr(Stdio::null()).output().unwrap();
    let number = String::from_utf8(done.stdout).unwrap();
    ["crt", "key"].map(|end| folder.join(format!("v1-{}.{end}", number.trim())))
}

fn client(server: &Server, pair: &[PathBuf; 2]) -> Client {
    let [certificate, key] = pair.each_ref().map(|file| Pem::File(file.clone()));
    let tls = TlsOptions {
        ca: Some(Pem::File(server.kubeconfig().parent().unwrap().join("pki/ca.crt"))),
        client_certificate: Some(ClientCertificate { certificate, key }),
        ..TlsOptions::default()
    };
    Client::new(Config::new(&format!("https://{}", server.address())).unwrap().with_tls(tls)).unwrap()
}

#[test]
fn a_client_certificate_of_version_1_is_taken() {
    let Some((server, _quiet)) = server::shared() else { return };
    let pair = version_1(server);
    let shown =
        Command::new("openssl").args(["x509", "-noout", "-text", "-in"]).arg(&pair[0]).output().unwrap();
    assert!(String::from_utf8(shown.stdout).unwrap().contains("Version: 1"));
    assert_eq!(whoami(&client(server, &pair)).unwrap(), "old");
}

/// The server takes the connection, whatever the certificate, and answers 401.
#[test]
fn a_client_certificate_that_is_refused_is_read_again_at_once() {
    let Some((server, _quiet)) = server::shared() else { return };
    let good = version_1(server);
    let pair = good
        .each_ref()
        .map(|file| file.with_file_name(format!("rotated-{}", file.file_name().unwrap().to_str().unwrap())));
    let pki = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client/pki");
    fs::copy(pki.join("ec-sec1.pem"), &pair[0]).unwrap();
    fs::copy(pki.join("ec-sec1.key.pem"), &pair[1]).unwrap();
    let client = client(server, &pair);
    let error = whoami(&client).unwrap_err();
    assert!(error.is_unauthorized(), "{error}");
    fs::copy(&good[0], &pair[0]).unwrap();
    fs::copy(&good[1], &pair[1]).unwrap();
    assert_eq!(whoami(&client).unwrap(), "old");
}
