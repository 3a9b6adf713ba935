//! Certificates, keys and names, with the files that `pki/make.sh` made.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use listwatch::config::{ClientCertificate, Pem, TlsOptions};
use listwatch::{Client, Config, Credentials, ListParams, Stop, WatchParams};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    DigitallySignedStruct, DistinguishedName, HandshakeKind, RootCertStore, ServerConfig, ServerConnection,
    SignatureScheme, StreamOwned, SupportedProtocolVersion,
};

use super::server::{Connection, Seen, Server, Stream};
use super::{LONG, config, config_map, config_maps, event};

pub(super) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client/pki").join(name)
}

pub(super) fn pem(name: &str) -> Pem {
    Pem::File(file(name))
}

pub(super) fn text(name: &str) -> Vec<u8> {
    std::fs::read(file(name)).unwrap()
}

pub(super) fn der(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file(name)).unwrap()
}

/// Whose connections a server takes.
#[derive(Clone, Copy)]
pub(super) enum Clients {
    All,
    /// With a certificate of this authority.
    Of(&'static str),
    /// With a certificate, whatever it is.
    Named,
}

/// What a server was asked for, and who asked.
#[derive(Debug)]
pub(super) struct Handshake {
    pub(super) name: Option<String>,
    kind: Option<HandshakeKind>,
    pub(super) certificates: Vec<CertificateDer<'static>>,
}

/// A server of TLS may get another certificate, or other clients, while it runs.
#[derive(Clone)]
pub(super) struct Secured {
    config: Arc<Mutex<Arc<ServerConfig>>>,
    pub(super) handshakes: Arc<Mutex<Vec<Handshake>>>,
}

impl Secured {
    pub(super) fn new(certificate: &str, clients: Clients) -> Self {
        Self::showing(chain(certificate), certificate, clients, rustls::ALL_VERSIONS)
    }

    /// With any certificates, though the key may be another's.
    fn showing(
        chain: Vec<CertificateDer<'static>>,
        key: &str,
        clients: Clients,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Self {
        let config = Mutex::new(server_config(chain, key, clients, versions));
        Self { config: config.into(), handshakes: Arc::default() }
    }

    pub(super) fn set(
        &self,
        certificate: &str,
        clients: Clients,
        versions: &[&'static SupportedProtocolVersion],
    ) {
        *self.config.lock().unwrap() = server_config(chain(certificate), certificate, clients, versions);
    }

    pub(super) fn start(&self, address: &str, script: impl Fn(Connection) + Send + Sync + 'static) -> Server {
        let Self { config, handshakes } = self.clone();
        let wrap = move |tcp: TcpStream| -> Option<Box<dyn Stream>> {
            let mut connection = ServerConnection::new(config.lock().unwrap().clone()).unwrap();
            let mut tcp = tcp;
            while connection.is_handshaking() {
                connection.complete_io(&mut tcp).ok()?;
            }
            let certificates = connection.peer_certificates().unwrap_or_default();
            handshakes.lock().unwrap().push(Handshake {
                name: connection.server_name().map(Into::into),
                kind: connection.handshake_kind(),
                certificates: certificates.iter().map(|der| der.clone().into_owned()).collect(),
            });
            Some(Box::new(StreamOwned::new(connection, tcp)))
        };
        Server::start_with(address, wrap, script)
    }
}

/// A certificate and those of its issuers, as they are in its file.
fn chain(certificate: &str) -> Vec<CertificateDer<'static>> {
    let file = file(&format!("{certificate}.pem"));
    CertificateDer::pem_file_iter(file).unwrap().collect::<Result<_, _>>().unwrap()
}

fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: &str,
    clients: Clients,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions).unwrap();
    let builder = match clients {
        Clients::All => builder.with_no_client_auth(),
        Clients::Of(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(der(authority)).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
        Clients::Named => builder.with_client_cert_verifier(Arc::new(Named)),
    };
    let key = PrivateKeyDer::from_pem_file(file(&format!("{key}.key.pem"))).unwrap();
    let key = provider.key_provider.load_private_key(key).unwrap();
    Arc::new(builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, key)))))
}

/// Looks at certificates as little as it can: rustls's own verifier takes none of version 1.
#[derive(Debug)]
struct Named;

impl ClientCertVerifier for Named {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let provider = rustls::crypto::ring::default_provider();
        let mut schemes = provider.signature_verification_algorithms.supported_schemes();
        schemes.push(SignatureScheme::ECDSA_NISTP521_SHA512);
        schemes
    }
}

/// Speaks TLS on each connection; with `mutual`, only with who shows a certificate of `ca`.
fn start(address: &str, mutual: bool, script: impl Fn(Connection) + Send + Sync + 'static) -> Server {
    let clients = if mutual { Clients::Of("ca.pem") } else { Clients::All };
    Secured::new("server", clients).start(address, script)
}

fn answering(address: &str, mutual: bool) -> Server {
    start(address, mutual, answer)
}

/// Answers what is asked for: a list without items, a watch with one event, an object.
pub(super) fn answer(c: Connection) {
    c.serve(|connection: &mut Connection, seen: &Seen| {
        if seen.line.contains("watch=true") {
            connection.stream();
            connection.chunk(event("ADDED", &config_map("a")));
            connection.last_chunk();
        } else if seen.line.contains('?') {
            connection.json(200, r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[]}"#);
        } else {
            connection.json(200, config_map("a"));
        }
    });
}

pub(super) fn url(host: &str, server: &Server) -> String {
    format!("https://{host}:{}", server.port())
}

pub(super) fn trusting(ca: &str) -> TlsOptions {
    TlsOptions { ca: Some(pem(ca)), ..TlsOptions::default() }
}

pub(super) fn with_key(name: &str) -> TlsOptions {
    let client_certificate =
        ClientCertificate { certificate: pem(&format!("{name}.pem")), key: pem(&format!("{name}.key.pem")) };
    TlsOptions { client_certificate: Some(client_certificate), ..trusting("ca.pem") }
}

pub(super) fn get(url: &str, tls: TlsOptions) -> listwatch::Result<()> {
    config_maps(&Client::new(config(url).with_tls(tls))?).get("a").map(drop)
}

#[test]
fn every_kind_of_key_is_taken() {
    let server = answering("127.0.0.1:0", true);
    let url = url("127.0.0.1", &server);
    let kinds = ["rsa-pkcs1", "rsa-pkcs8", "ec-sec1", "ec-pkcs8", "p384-sec1", "p384-pkcs8", "ed25519"];
    for name in kinds {
        get(&url, with_key(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let error = get(&url, trusting("ca.pem")).unwrap_err();
    assert!(error.is_connect(), "{error:?}");
    assert!(error.to_string().contains("it wants a client certificate, and we have none"), "{error}");
}

#[test]
fn a_key_on_p521_needs_another_provider() {
    if cfg!(feature = "aws-lc-rs") {
        let secured = Secured::new("server", Clients::Named);
        get(&url("127.0.0.1", &secured.start("127.0.0.1:0", answer)), with_key("p521")).unwrap();
        assert_eq!(secured.handshakes.lock().unwrap()[0].certificates, [der("p521.pem")]);
        return;
    }
    let error = get("https://127.0.0.1:1", with_key("p521")).unwrap_err();
    assert!(error.is_config(), "{error:?}");
    for part in ["p521.key.pem", "p521.pem", "P-521", "`aws-lc-rs`"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

/// kubectl and the API server take it; rustls's own check of certificate and key does not.
#[test]
fn a_certificate_of_version_1_is_shown() {
    let secured = Secured::new("server", Clients::Named);
    get(&url("127.0.0.1", &secured.start("127.0.0.1:0", answer)), with_key("v1")).unwrap();
    assert_eq!(secured.handshakes.lock().unwrap()[0].certificates, [der("v1.pem")]);
    // It is held to its key all the same.
    let pair = ClientCertificate { certificate: pem("v1.pem"), key: pem("ec-sec1.key.pem") };
    let tls = TlsOptions { client_certificate: Some(pair), ..trusting("ca.pem") };
    assert!(get("https://127.0.0.1:1", tls).unwrap_err().is_config());
}

#[test]
fn a_certificate_is_sent_with_those_of_its_issuers() {
    let secured = Secured::new("server", Clients::Of("ca.pem"));
    let server = secured.start("127.0.0.1:0", answer);
    get(&url("127.0.0.1", &server), with_key("chain")).unwrap();
    assert_eq!(secured.handshakes.lock().unwrap()[0].certificates.len(), 2);
}

#[test]
fn a_certificate_and_its_key_may_be_in_one_file() {
    let server = answering("127.0.0.1:0", true);
    for (first, second) in [("rsa-pkcs1.pem", "rsa-pkcs1.key.pem"), ("ec-sec1.key.pem", "ec-sec1.pem")] {
        let both = Pem::Data([text(first), text(second)].concat());
        let pair = ClientCertificate { certificate: both.clone(), key: both };
        let tls = TlsOptions { client_certificate: Some(pair), ..trusting("ca.pem") };
        get(&url("127.0.0.1", &server), tls).unwrap();
    }
}

#[test]
fn a_client_certificate_that_has_expired_is_told_and_shown() {
    let server = answering("127.0.0.1:0", true);
    let log = log();
    let error = get(&url("127.0.0.1", &server), with_key("expired")).unwrap_err();
    assert!(error.is_connect(), "{error:?}");
    for part in ["refused our client certificate", "expired.pem", "to 2021-02-03T04:05:06Z"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let told = log.lines(&["expired.pem: expired at 2021-02-03T04:05:06Z"]);
    assert!(told.iter().all(|line| line.starts_with("WARN")) && !told.is_empty(), "{told:?}");
}

/// As kube-apiserver does, which looks at certificates after the handshake.
#[test]
fn a_client_certificate_that_has_expired_is_told_where_the_server_says_unauthorized() {
    let secured = Secured::new("server", Clients::Named);
    let server = secured.start("127.0.0.1:0", |connection| {
        connection.serve(|connection: &mut Connection, _: &Seen| {
            connection
                .json(401, r#"{"kind":"Status","status":"Failure","reason":"Unauthorized","code":401}"#);
        });
    });
    let error = get(&url("127.0.0.1", &server), with_key("expired")).unwrap_err();
    assert_eq!(error.code(), Some(401));
    assert!(error.to_string().contains("expired.pem: expired at 2021-02-03T04:05:06Z"), "{error}");
    let error = get(&url("127.0.0.1", &server), with_key("ec-sec1")).unwrap_err();
    assert!(error.code() == Some(401) && !error.to_string().contains("expired"), "{error}");
}

#[test]
fn a_certificate_and_a_key_that_do_not_belong_together_are_an_error_of_configuration() {
    for (certificate, key) in [("server.pem", "ec-pkcs8.key.pem"), ("ec-sec1.pem", "rsa-pkcs1.key.pem")] {
        let pair = ClientCertificate { certificate: pem(certificate), key: pem(key) };
        let tls = TlsOptions { client_certificate: Some(pair), ..trusting("ca.pem") };
        let error = get("https://127.0.0.1:1", tls).unwrap_err();
        assert!(error.is_config(), "{error:?}");
        assert!([certificate, key].iter().all(|name| error.to_string().contains(name)), "{error}");
    }
}

#[test]
fn a_key_that_is_encrypted_is_said_to_be() {
    let pair = ClientCertificate { certificate: pem("ec-pkcs8.pem"), key: pem("encrypted.key.pem") };
    let tls = TlsOptions { client_certificate: Some(pair), ..trusting("ca.pem") };
    let error = get("https://127.0.0.1:1", tls).unwrap_err();
    assert!(error.is_config() && error.to_string().contains("encrypted.key.pem: is encrypted"), "{error}");
}

/// Such a panic was found in another client.
#[test]
fn issue_ureq_1077_bad_certificates_and_keys_are_errors() {
    let block = |label: &str, body: &str| format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
    let bad = ["", "AAAA", "MAA=", "MIIB", "!!!!", "MIIBszCCAVmgAwIBAgIUJAAAAAAAAAAAAAAA"];
    let good = |name: &str| String::from_utf8(text(name)).unwrap();
    for body in bad {
        let certificate = block("CERTIFICATE", body);
        let keys = ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"].map(|label| block(label, body));
        let pairs = keys
            .map(|key| (good("ec-sec1.pem"), key))
            .into_iter()
            .chain([(certificate.clone(), good("ec-sec1.key.pem"))]);
        for (certificate, key) in pairs {
            let pair =
                ClientCertificate { certificate: Pem::Data(certificate.into()), key: Pem::Data(key.into()) };
            let tls = TlsOptions { client_certificate: Some(pair), ..trusting("ca.pem") };
            assert!(get("https://127.0.0.1:1", tls).unwrap_err().is_config());
        }
        let tls = TlsOptions { ca: Some(Pem::Data(certificate.into())), ..TlsOptions::default() };
        assert!(get("https://127.0.0.1:1", tls).unwrap_err().is_config());
    }
}

/// As it comes out of some templates and environments: no line breaks, or what stands for them.
#[test]
fn a_key_without_its_line_breaks_is_no_part_of_the_error() {
    let good = String::from_utf8(text("rsa-pkcs8.key.pem")).unwrap();
    let secret = good.lines().nth(4).unwrap();
    // As text, and as bytes in decimal: `MII`.
    let is_shown = |error: &str| error.contains(secret) || error.contains("77, 73, 73");
    for broken in [good.replace('\n', ""), good.replace('\n', "\\n"), good.replace('\n', " ")] {
        let certificate = text("rsa-pkcs8.pem");
        let both = [&certificate[..], broken.as_bytes()].concat();
        for (certificate, key) in [
            (certificate.clone(), broken.clone().into()),
            (both.clone(), both),
            (broken.clone().into(), broken.clone().into()),
        ] {
            let pair = ClientCertificate { certificate: Pem::Data(certificate), key: Pem::Data(key) };
            let tls = TlsOptions { client_certificate: Some(pair), ..trusting("ca.pem") };
            let error = get("https://127.0.0.1:1", tls).unwrap_err();
            assert!(error.is_config());
            assert!(!is_shown(&format!("{error} {error:?}")), "the key is shown");
        }
        let tls = TlsOptions { ca: Some(Pem::Data(broken.into())), ..TlsOptions::default() };
        assert!(!is_shown(&get("https://127.0.0.1:1", tls).unwrap_err().to_string()));
    }
}

#[test]
fn files_without_certificate_or_key_are_named() {
    let parts =
        [("ca.pem", "ca.pem"), ("ec-sec1.key.pem", "ec-sec1.key.pem"), ("gone.pem", "ec-sec1.key.pem")];
    for (certificate, key) in parts {
        let pair = ClientCertificate { certificate: pem(certificate), key: pem(key) };
        let tls = TlsOptions { client_certificate: Some(pair), ..trusting("ca.pem") };
        let error = get("https://127.0.0.1:1", tls).unwrap_err();
        assert!(error.is_config() && error.to_string().contains("tests/client/pki/"), "{error}");
    }
}

#[test]
fn a_bundle_of_authorities_may_hold_other_things() {
    let server = answering("127.0.0.1:0", false);
    let bundle = [
        b"# a comment\n-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n",
        &*text("other-ca.pem"),
        b"\xff\xfe bytes that are no text\n",
        b"\n\n-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\nProc-Type: 4,CLEAR\n\nAAAA\n-----END CERTIFICATE-----\n",
        &text("ec-sec1.key.pem"),
        &text("p384-sec1.key.pem"),
        &text("ca.pem"),
        b"-----BEGIN CERTIFICATE-----\nMIIB",
    ]
    .concat();
    let tls = TlsOptions { ca: Some(Pem::Data(bundle)), ..TlsOptions::default() };
    get(&url("127.0.0.1", &server), tls).unwrap();
}

#[test]
fn without_an_authority_those_of_the_system_are_trusted() {
    // The variables are read by a process of its own, which is this one again.
    if let Ok(url) = std::env::var("TEST_SYSTEM_ROOTS") {
        return get(&url, TlsOptions::default()).unwrap();
    }
    let server = answering("127.0.0.1:0", false);
    let run = |file: &str| {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "tls::without_an_authority_those_of_the_system_are_trusted"]);
        again.env("TEST_SYSTEM_ROOTS", url("127.0.0.1", &server));
        again.env("SSL_CERT_FILE", self::file(file)).env("SSL_CERT_DIR", "/nowhere");
        again.output().unwrap()
    };
    let trusting = run("ca.pem");
    assert!(trusting.status.success(), "{}", String::from_utf8_lossy(&trusting.stdout));
    assert!(!run("other-ca.pem").status.success());
    assert_eq!(server.seen.try_iter().count(), 1);
}

#[test]
fn authorities_without_any_certificate_are_an_error_of_configuration() {
    for data in [Vec::new(), b"nothing".to_vec(), text("ec-sec1.key.pem")] {
        let tls = TlsOptions { ca: Some(Pem::Data(data)), ..TlsOptions::default() };
        let error = get("https://127.0.0.1:1", tls).unwrap_err();
        assert!(error.is_config() && error.to_string().contains("no certificate"), "{error}");
    }
    let error = get("https://127.0.0.1:1", trusting("gone.pem")).unwrap_err();
    assert!(error.is_config() && error.to_string().contains("gone.pem"), "{error}");
}

#[test]
fn a_server_of_another_authority_is_refused() {
    let server = answering("127.0.0.1:0", false);
    // kubectl takes the server's own certificate as an authority; why we do not, the errors say.
    let error = get(&url("127.0.0.1", &server), trusting("other-ca.pem")).unwrap_err();
    assert!(error.is_connect() && error.to_string().contains("a leaf"), "{error}");
    let error = get(&url("127.0.0.1", &server), trusting("server.pem")).unwrap_err();
    assert!(error.is_config() && error.to_string().contains("server.pem: "), "{error}");
    assert!(error.to_string().contains("a leaf"), "{error}");
    assert!(server.seen.is_empty());
}

#[test]
fn a_server_of_an_authority_on_p521_needs_another_provider() {
    let server = Secured::new("of-p521", Clients::All).start("127.0.0.1:0", answer);
    let done = get(&url("127.0.0.1", &server), trusting("p521-ca.pem"));
    if cfg!(feature = "aws-lc-rs") {
        return done.unwrap();
    }
    let error = done.unwrap_err();
    assert!(error.is_connect() && error.to_string().contains("the feature `aws-lc-rs`"), "{error}");
}

/// Or whoever has the key of one server could be all of them.
#[test]
fn a_leaf_among_the_authorities_vouches_for_nobody() {
    let both = [text("other-ca.pem"), text("server.pem")].concat();
    let secured = Secured::showing(chain("of-server"), "of-server", Clients::All, rustls::ALL_VERSIONS);
    let server = secured.start("127.0.0.1:0", answer);
    let tls = TlsOptions { ca: Some(Pem::Data(both)), ..TlsOptions::default() };
    let error = get(&url("127.0.0.1", &server), tls).unwrap_err();
    assert!(error.is_connect() && error.to_string().contains("no authority that we trust"), "{error}");
    assert!(server.seen.is_empty());
}

/// Anybody has the certificate of a server, who only has to ask for it.
#[test]
fn a_server_without_the_key_of_its_certificate_is_refused() {
    for version in rustls::ALL_VERSIONS {
        let secured = Secured::showing(chain("server"), "ec-sec1", Clients::All, &[version]);
        let server = secured.start("127.0.0.1:0", answer);
        let anybody = TlsOptions { insecure_skip_verify: true, ..TlsOptions::default() };
        for tls in [trusting("ca.pem"), anybody] {
            let error = get(&url("127.0.0.1", &server), tls).unwrap_err();
            assert!(error.is_connect(), "{version:?}: {error:?}");
        }
        assert!(server.seen.is_empty());
    }
}

#[test]
fn a_server_of_an_authority_in_between_sends_that_ones_certificate() {
    let both = chain("server-chain");
    assert_eq!(both.len(), 2);
    let showing = |chain: &[CertificateDer<'static>]| {
        let secured = Secured::showing(chain.to_vec(), "server-chain", Clients::All, rustls::ALL_VERSIONS);
        let server = secured.start("127.0.0.1:0", answer);
        get(&url("127.0.0.1", &server), trusting("self-signed-ca.pem"))
    };
    showing(&both).unwrap();
    let error = showing(&both[..1]).unwrap_err();
    assert!(error.is_connect() && error.to_string().contains("no authority that we trust"), "{error}");
}

#[test]
fn a_server_is_known_by_address_or_name() {
    let server = answering("127.0.0.1:0", false);
    for host in ["127.0.0.1", "localhost"] {
        get(&url(host, &server), trusting("ca.pem")).unwrap();
        assert_eq!(server.next().header("host"), format!("{host}:{}", server.port()));
    }
    // Some machines have no IPv6, and nothing to test then.
    if std::net::TcpListener::bind("[::1]:0").is_ok() {
        let server = answering("[::1]:0", false);
        get(&url("[::1]", &server), trusting("ca.pem")).unwrap();
        assert_eq!(server.next().header("host"), format!("[::1]:{}", server.port()));
    } else {
        // Not through eprintln!, which is captured.
        std::io::Write::write_all(&mut std::io::stderr(), b"SKIPPED: no IPv6\n").unwrap();
    }
}

#[test]
fn the_name_of_the_server_can_be_given() {
    let secured = Secured::new("server", Clients::All);
    let server = secured.start("127.0.0.1:0", answer);
    let named = |name: &str| TlsOptions { server_name: Some(name.into()), ..trusting("ca.pem") };
    get(&url("127.0.0.1", &server), named("api.example")).unwrap();
    get(&url("127.0.0.1", &server), trusting("ca.pem")).unwrap();
    get(&url("localhost", &server), trusting("ca.pem")).unwrap();
    let names: Vec<_> = secured.handshakes.lock().unwrap().iter().map(|seen| seen.name.clone()).collect();
    // An address is no name to ask for.
    assert_eq!(names, [Some("api.example".into()), None, Some("localhost".into())]);
    let error = get(&url("127.0.0.1", &server), named("other.example")).unwrap_err();
    assert!(error.is_connect(), "{error:?}");
    let names =
        r#"is not for "other.example", but for localhost, api.example, 127.0.0.1, ::1 (tls-server-name"#;
    assert!(error.to_string().contains(names), "{error}");
    let error = get(&url("127.0.0.1", &server), named("not a name")).unwrap_err();
    assert!(error.to_string().contains("not a name"), "{error}");
}

#[test]
fn verifying_can_be_left_out_and_each_client_says_so_once() {
    let server = answering("127.0.0.1:0", false);
    let (url, log) = (url("127.0.0.1", &server), log());
    let tls = TlsOptions { insecure_skip_verify: true, ..TlsOptions::default() };
    let api = config_maps(&Client::new(config(&url).with_tls(tls.clone())).unwrap());
    for _ in 0..3 {
        api.get("a").unwrap();
        assert_eq!(api.watch(&WatchParams::default(), &Stop::new()).unwrap().count(), 1);
    }
    let told = log.lines(&["NOT verified", &url]);
    assert!(told.len() == 1 && told[0].starts_with("WARN"), "{told:?}");
    let tls = TlsOptions { server_name: Some("other.example".into()), ..tls };
    get(&url, tls).unwrap();
}

#[test]
fn why_a_certificate_of_a_server_is_not_accepted_is_said_in_plain_words() {
    let said = [
        ("expired-server", "expired at 2021-02-03T04:05:06Z; it is 2"),
        ("future-server", "not valid before 2100-01-01T00:00:00Z; it is 2"),
        ("ec-sec1", "none for servers"),
        ("self-signed-ca", "CA:TRUE"),
        ("other-server", "no authority that we trust, which are those of /"),
    ];
    for (certificate, words) in said {
        let server = Secured::new(certificate, Clients::All).start("127.0.0.1:0", answer);
        let ca = if certificate == "self-signed-ca" { "self-signed-ca.pem" } else { "ca.pem" };
        let error = get(&url("127.0.0.1", &server), trusting(ca)).unwrap_err();
        assert!(error.is_connect() && error.to_string().contains(words), "{certificate}: {error}");
        assert!(error.to_string().contains(&format!("connect to 127.0.0.1:{}", server.port())), "{error}");
        assert!(server.seen.is_empty());
    }
    let server = Secured::new("self-signed", Clients::All).start("127.0.0.1:0", answer);
    get(&url("127.0.0.1", &server), trusting("self-signed.pem")).unwrap();
}

/// A process may have two providers, as the feature `aws-lc-rs` leaves ring in, or none that is the default: rustls then
/// panics where it is not given one.
#[test]
fn no_default_provider_is_needed() {
    let server = answering("127.0.0.1:0", true);
    for tls in [with_key("ec-sec1"), TlsOptions { insecure_skip_verify: true, ..with_key("ec-sec1") }] {
        get(&url("127.0.0.1", &server), tls).unwrap();
    }
    // Had rustls been asked to find one, it would be set.
    assert!(rustls::crypto::CryptoProvider::get_default().is_none());
}

#[test]
fn connections_are_used_again_and_watches_have_their_own() {
    let server = answering("127.0.0.1:0", true);
    let config = config(&url("localhost", &server)).with_tls(with_key("ec-sec1"));
    let api = config_maps(&Client::new(config).unwrap());
    for _ in 0..5 {
        api.get("a").unwrap();
        api.list(&ListParams::default().limit(1)).unwrap();
    }
    assert_eq!(server.accepted(), 1);
    assert_eq!(api.watch(&WatchParams::default(), &Stop::new()).unwrap().count(), 1);
    api.get("a").unwrap();
    assert_eq!(server.accepted(), 2);
}

/// A session that is taken up again would skip the certificates, which may have been replaced.
#[test]
fn each_connection_has_a_handshake_of_its_own() {
    for version in rustls::ALL_VERSIONS {
        let secured = Secured::showing(chain("server"), "server", Clients::All, &[version]);
        let server = secured.start("127.0.0.1:0", answer);
        let config = config(&url("localhost", &server)).with_tls(trusting("ca.pem"));
        let api = config_maps(&Client::new(config).unwrap());
        api.get("a").unwrap();
        assert_eq!(api.watch(&WatchParams::default(), &Stop::new()).unwrap().count(), 1);
        let kinds: Vec<_> = secured.handshakes.lock().unwrap().iter().map(|seen| seen.kind).collect();
        assert_eq!(kinds, [Some(HandshakeKind::Full); 2]);
    }
}

#[test]
fn a_server_without_tls_is_told_so() {
    let server = Server::start(|mut c| {
        c.first_byte();
        c.send("HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request\n");
    });
    let error = get(&url("127.0.0.1", &server), trusting("ca.pem")).unwrap_err();
    assert!(error.is_connect() && error.to_string().contains("no TLS (is it an http:// server?)"), "{error}");
}

#[test]
fn a_handshake_without_an_answer_ends_at_its_limit() {
    let server = Server::start(|mut c| c.closed());
    let limit = std::time::Duration::from_millis(150);
    let config = config(&url("127.0.0.1", &server)).with_tls(trusting("ca.pem")).with_connect_timeout(limit);
    let error = config_maps(&Client::new(config).unwrap()).get("a").unwrap_err();
    assert!(error.is_connect() && error.to_string().contains("timed out"), "{error}");
}

/// Keeps all that is logged in this process.
pub(super) struct Log(Mutex<String>);

/// From the first call on.
pub(super) fn log() -> &'static Log {
    static LOG: Log = Log(Mutex::new(String::new()));
    static START: std::sync::Once = std::sync::Once::new();
    START.call_once(|| {
        log::set_logger(&LOG).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
    });
    &LOG
}

impl Log {
    /// The lines that hold all of these; other tests of the process write others.
    pub(super) fn lines(&self, parts: &[&str]) -> Vec<String> {
        let log = self.0.lock().unwrap();
        let lines = log.lines().filter(|line| parts.iter().all(|part| line.contains(part)));
        lines.map(Into::into).collect()
    }
}

impl log::Log for Log {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        use std::fmt::Write;
        let mut log = self.0.lock().unwrap();
        writeln!(log, "{} {} {}", record.level(), record.target(), record.args()).unwrap();
        drop(log);
        crate::trace::write(record);
    }

    fn flush(&self) {}
}

#[test]
fn no_secret_is_ever_shown() {
    let log = log();
    let server = start("127.0.0.1:0", true, |c| {
        c.serve(|c, seen| {
            let code = if seen.line.contains("refused") { 401 } else { 200 };
            c.json(code, config_map("a"));
        });
    });
    let token = "t0ps3cret";
    let client_for = |credentials: Credentials| {
        let config: Config =
            config(&url("localhost", &server)).with_tls(with_key("rsa-pkcs8")).with_credentials(credentials);
        Client::new(config.with_timeout(LONG)).unwrap()
    };
    let mut shown = String::new();
    for credentials in [Credentials::token(token).unwrap(), Credentials::basic("bob", token)] {
        let client = client_for(credentials);
        let api = config_maps(&client);
        api.get("a").unwrap();
        let refused = api.get("refused").unwrap_err();
        let watch = api.watch(&WatchParams::default(), &Stop::new()).unwrap();
        shown += &format!("{client:?} {:?} {api:?} {watch:?} {refused} {refused:?}", client.config());
    }
    let sent: Vec<_> = server.seen.try_iter().map(|seen| seen.header("authorization").to_owned()).collect();
    assert!(sent.contains(&format!("Bearer {token}")), "{sent:?}");
    shown += &log.0.lock().unwrap();
    assert!(
        shown.contains("listwatch::http") && shown.contains("TRACE") && shown.contains("ureq::run"),
        "{shown}"
    );
    let key = String::from_utf8(text("rsa-pkcs8.key.pem")).unwrap();
    // Some logs are dumps of bytes, with 16 of them in a row as text.
    let shown: String =
        shown.lines().map(|line| line.rsplit(' ').next().unwrap_or(line)).collect::<String>() + &shown;
    let secrets = sent.iter().filter_map(|header| header.split_once(' ')).map(|(_, secret)| secret);
    for secret in secrets.chain([token, key.lines().nth(5).unwrap()]) {
        let at = shown.find(secret).map(|at| shown.get(at.saturating_sub(200)..at + 200));
        assert_eq!(at, None, "{secret} is shown");
    }
}
