//! Certificates, keys and names, with the files that `pki/make.sh` made.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use listwatch::config::{ClientCertificate, Pem, TlsOptions};
use listwatch::{Client, Config, Credentials, ListParams, Stop, WatchParams};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::server::{Connection, Seen, Server, Stream};
use super::{LONG, config, config_map, config_maps, event};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client/pki").join(name)
}

fn pem(name: &str) -> Pem {
    Pem::File(file(name))
}

fn text(name: &str) -> Vec<u8> {
    std::fs::read(file(name)).unwrap()
}

/// Speaks TLS on each connection; with `mutual`, only with who shows a certificate of `ca`.
fn start(address: &str, mutual: bool, script: impl Fn(Connection) + Send + Sync + 'static) -> Server {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
    let builder = if mutual {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(file("ca.pem")).unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let chain = vec![CertificateDer::from_pem_file(file("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(file("server.key.pem")).unwrap();
    let config = Arc::new(builder.with_single_cert(chain, key).unwrap());
    let wrap = move |tcp: TcpStream| -> Option<Box<dyn Stream>> {
        let mut connection = ServerConnection::new(config.clone()).unwrap();
        let mut tcp = tcp;
        while connection.is_handshaking() {
            connection.complete_io(&mut tcp).ok()?;
        }
        Some(Box::new(StreamOwned::new(connection, tcp)))
    };
    Server::start_with(address, wrap, script)
}

fn answering(address: &str, mutual: bool) -> Server {
    start(address, mutual, |c| {
        c.serve(|connection: &mut Connection, seen: &Seen| {
            if seen.line.contains("watch=true") {
                connection.stream();
                connection.chunk(event("ADDED", &config_map("a")));
                connection.last_chunk();
            } else if seen.line.contains('?') {
                connection
                    .json(200, r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[]}"#);
            } else {
                connection.json(200, config_map("a"));
            }
        });
    })
}

fn url(host: &str, server: &Server) -> String {
    format!("https://{host}:{}", server.port())
}

fn trusting(ca: &str) -> TlsOptions {
    TlsOptions { ca: Some(pem(ca)), ..TlsOptions::default() }
}

fn with_key(name: &str) -> TlsOptions {
    let client_certificate =
        ClientCertificate { certificate: pem(&format!("{name}.pem")), key: pem(&format!("{name}.key.pem")) };
    TlsOptions { client_certificate: Some(client_certificate), ..trusting("ca.pem") }
}

fn get(url: &str, tls: TlsOptions) -> listwatch::Result<()> {
    config_maps(&Client::new(config(url).with_tls(tls))?).get("a").map(drop)
}

#[test]
fn every_kind_of_key_is_taken() {
    let server = answering("127.0.0.1:0", true);
    let url = url("127.0.0.1", &server);
    for name in ["rsa-pkcs1", "rsa-pkcs8", "ec-sec1", "ec-pkcs8", "ed25519"] {
        get(&url, with_key(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let error = get(&url, trusting("ca.pem")).unwrap_err();
    assert!(error.is_io() || error.is_connect(), "{error:?}");
}

#[test]
#[cfg(not(feature = "aws-lc-rs"))]
fn a_key_on_a_curve_that_is_not_known_is_an_error_of_configuration() {
    let error = get("https://127.0.0.1:1", with_key("p521")).unwrap_err();
    assert!(error.is_config() && error.to_string().contains("client certificate"), "{error}");
}

#[test]
fn a_certificate_and_a_key_that_do_not_belong_together_are_an_error_of_configuration() {
    for (certificate, key) in [("server.pem", "ec-pkcs8.key.pem"), ("ec-sec1.pem", "rsa-pkcs1.key.pem")] {
        let pair = ClientCertificate { certificate: pem(certificate), key: pem(key) };
        let tls = TlsOptions { client_certificate: Some(pair), ..trusting("ca.pem") };
        let error = get("https://127.0.0.1:1", tls).unwrap_err();
        assert!(error.is_config(), "{error:?}");
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
        &text("ec-sec1.key.pem"),
        &text("ca.pem"),
    ]
    .concat();
    let tls = TlsOptions { ca: Some(Pem::Data(bundle)), ..TlsOptions::default() };
    get(&url("127.0.0.1", &server), tls).unwrap();
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
    // kubectl takes the server's own certificate as an authority; why we do not, the error says.
    for ca in ["other-ca.pem", "server.pem"] {
        let error = get(&url("127.0.0.1", &server), trusting(ca)).unwrap_err();
        assert!(error.is_connect() && error.to_string().contains("a leaf"), "{ca}: {error}");
    }
    assert!(server.seen.is_empty());
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
    }
}

#[test]
fn the_name_of_the_server_can_be_given() {
    let server = answering("127.0.0.1:0", false);
    let named = |name: &str| TlsOptions { server_name: Some(name.into()), ..trusting("ca.pem") };
    get(&url("127.0.0.1", &server), named("api.example")).unwrap();
    let error = get(&url("127.0.0.1", &server), named("other.example")).unwrap_err();
    assert!(error.is_connect() && error.to_string().contains("other.example"), "{error}");
    let error = get(&url("127.0.0.1", &server), named("not a name")).unwrap_err();
    assert!(error.to_string().contains("not a name"), "{error}");
}

#[test]
fn verifying_can_be_left_out() {
    let server = answering("127.0.0.1:0", false);
    let tls = TlsOptions { insecure_skip_verify: true, ..TlsOptions::default() };
    get(&url("127.0.0.1", &server), tls.clone()).unwrap();
    let tls = TlsOptions { server_name: Some("other.example".into()), ..tls };
    get(&url("127.0.0.1", &server), tls).unwrap();
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

#[test]
fn a_server_without_tls_is_told_so() {
    let server = Server::start(|mut c| {
        c.first_byte();
        c.send("HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request\n");
    });
    let error = get(&url("127.0.0.1", &server), trusting("ca.pem")).unwrap_err();
    assert!(error.is_connect() && error.to_string().contains("TLS"), "{error}");
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
struct Log(Mutex<String>);

static LOG: Log = Log(Mutex::new(String::new()));

impl log::Log for Log {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        use std::fmt::Write;
        let mut log = self.0.lock().unwrap();
        writeln!(log, "{} {} {}", record.level(), record.target(), record.args()).unwrap();
    }

    fn flush(&self) {}
}

#[test]
fn no_secret_is_ever_shown() {
    log::set_logger(&LOG).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
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
    shown += &LOG.0.lock().unwrap();
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
