//! The server over TLS, with the files that `tests/client/pki/make.sh` made.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use listwatch::apiserver::ApiServer;
use listwatch::apiserver::faults::{Effect, Fault};
use listwatch::config::{ClientCertificate, Pem, TlsOptions};
use listwatch::types::ConfigMap;
use listwatch::{
    Api, Client, Clock, Config, Credentials, DeleteParams, Error, Informer, ListMode, ListParams, ObjectMeta,
    PostParams, Resource, Stop, WatchEvent, WatchParams,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::client::{CM, is_quiet};
use crate::history::{History, state_of};

const SOON: Duration = Duration::from_secs(20);
/// How long clients wait that are to meet silence.
const MOMENT: Duration = Duration::from_millis(200);

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client/pki").join(name)
}

fn pem(name: &str) -> Pem {
    Pem::File(file(name))
}

fn certificate_of(name: &str) -> ClientCertificate {
    ClientCertificate { certificate: pem(&format!("{name}.pem")), key: pem(&format!("{name}.key.pem")) }
}

/// The server's certificate and its issuer's.
fn chain() -> Pem {
    Pem::Data(["server.pem", "ca.pem"].map(|name| std::fs::read(file(name)).unwrap()).concat())
}

pub(crate) fn start() -> ApiServer {
    ApiServer::builder().tls(chain(), pem("server.key.pem")).start().unwrap()
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::default_namespaced(client)
}

fn create(maps: &Api<ConfigMap>, name: &str) {
    let map = ConfigMap { metadata: ObjectMeta::named(name), ..ConfigMap::default() };
    maps.create(&PostParams::default(), &map).unwrap();
}

/// What is trusted for the address of the server, and how we are known.
fn client_with(server: &ApiServer, tls: TlsOptions, credentials: Credentials) -> Client {
    let tls = TlsOptions { ca: tls.ca.or(Some(pem("ca.pem"))), ..tls };
    let config = Config::new(&server.url()).unwrap().with_connect_timeout(SOON);
    Client::new(config.with_tls(tls).with_credentials(credentials)).unwrap()
}

/// Waits a moment only, for a connection and for answers.
fn impatient(server: &ApiServer) -> Api<ConfigMap> {
    let tls = TlsOptions { ca: Some(pem("ca.pem")), ..TlsOptions::default() };
    let config = Config::new(&server.url()).unwrap().with_tls(tls);
    maps(&Client::new(config.with_connect_timeout(MOMENT).with_timeout(MOMENT)).unwrap())
}

fn serves(server: &ApiServer) {
    maps(&server.client().unwrap()).list(&ListParams::default()).unwrap();
}

/// A connection of TLS, byte by byte.
fn connect(server: &ApiServer) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("ca.pem")).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let tcp = TcpStream::connect(server.url().trim_start_matches("https://")).unwrap();
    tcp.set_read_timeout(Some(SOON)).unwrap();
    StreamOwned::new(ClientConnection::new(config.into(), name).unwrap(), tcp)
}

/// Sends a GET that ends the connection, and leaves the answer to be read.
fn ask(server: &ApiServer, path: &str) -> StreamOwned<ClientConnection, TcpStream> {
    let mut stream = connect(server);
    write!(stream, "GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

/// All that comes, and how it ends.
fn rest(mut stream: impl Read) -> (String, Result<(), ErrorKind>) {
    let mut text = Vec::new();
    let end = stream.read_to_end(&mut text).map(drop).map_err(|e| e.kind());
    (String::from_utf8(text).unwrap(), end)
}

#[test]
fn verbs_lists_and_watches_work() {
    let server = start();
    assert!(server.url().starts_with("https://127.0.0.1:"));
    let maps = maps(&server.client().unwrap());
    let mut watch = maps.watch(&WatchParams::default(), &Stop::new()).unwrap();
    create(&maps, "a");
    let Some(Ok(WatchEvent::Added(added))) = watch.next() else { panic!("no event") };
    assert_eq!(added.name(), "a");
    // Longer than a record, and than what the server sends in one piece.
    let mut long = ConfigMap { metadata: ObjectMeta::named("long"), ..ConfigMap::default() };
    long.data.insert("text", &"x".repeat(300_000));
    maps.create(&PostParams::default(), &long).unwrap();
    let list = maps.list(&ListParams::default()).unwrap();
    assert_eq!(list.iter().map(|map| map.name()).collect::<Vec<_>>(), ["a", "long"]);
    assert!(list.iter().any(|map| map.data == long.data));
}

#[test]
#[cfg(feature = "kubeconfig")]
fn the_kubeconfig_has_the_authority() {
    let server = start();
    let options = listwatch::config::KubeconfigOptions::default().with_path(server.kubeconfig().unwrap());
    create(&maps(&Client::new(Config::from_kubeconfig(&options).unwrap()).unwrap()), "a");
    let mut kubectl = std::process::Command::new("kubectl");
    kubectl.env("KUBECONFIG", server.kubeconfig().unwrap()).args(["get", "configmaps", "-o", "name"]);
    let cache = server.kubeconfig().unwrap().parent().unwrap().join("cache");
    match kubectl.arg("--cache-dir").arg(cache).output() {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout), "configmap/a\n", "{output:?}"),
        Err(_) => eprintln!("SKIPPED: kubectl is not installed"),
    }
}

#[test]
fn an_answer_that_ends_the_connection_ends_it_as_it_should() {
    let server = start();
    for (bytes, code) in [
        (format!("GET {CM} HTTP/1.1\r\nConnection: close\r\n\r\n"), "200"),
        ("no HTTP\r\n\r\n".to_owned(), "400"),
    ] {
        let mut stream = connect(&server);
        stream.write_all(bytes.as_bytes()).unwrap();
        let (answer, end) = rest(stream);
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{answer}");
        assert_eq!(end, Ok(()), "and not by a cut");
    }
}

#[test]
fn who_speaks_no_tls_or_trusts_others_is_turned_away() {
    let server = start();
    let mut plain = TcpStream::connect(server.url().trim_start_matches("https://")).unwrap();
    plain.set_read_timeout(Some(SOON)).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).unwrap();
    assert_eq!(answer.first(), Some(&21), "an alert: {}", answer.escape_ascii());
    let tls = TlsOptions { ca: Some(pem("other-ca.pem")), ..TlsOptions::default() };
    let error = maps(&client_with(&server, tls, Credentials::none())).get("a").unwrap_err();
    assert!(error.is_connect(), "{error}");
    assert_eq!(server.requests(), [""; 0]);
}

#[test]
fn certificates_and_keys_that_are_none_are_errors_at_the_start() {
    let start = |chain, key, authority: Option<Pem>| {
        let builder = ApiServer::builder().tls(chain, key);
        authority.into_iter().fold(builder, |builder, pem| builder.client_authority(pem)).start()
    };
    for (chain, key, authority) in [
        (pem("gone.pem"), pem("server.key.pem"), None),
        (pem("server.key.pem"), pem("server.key.pem"), None),
        (pem("server.pem"), pem("server.pem"), None),
        (pem("server.pem"), pem("ec-sec1.key.pem"), None),
        (pem("server.pem"), pem("server.key.pem"), Some(pem("server.key.pem"))),
    ] {
        let error = start(chain, key, authority).unwrap_err();
        assert!(error.is_config(), "{error:?}");
    }
}

#[test]
fn a_certificate_is_replaced_while_it_runs() {
    let server = start();
    let maps_before = maps(&server.client().unwrap());
    let mut watch = maps_before.watch(&WatchParams::default(), &Stop::new()).unwrap();
    create(&maps_before, "a");
    assert!(server.set_tls(pem("self-signed.pem"), pem("server.key.pem")).is_err());
    server.set_tls(pem("self-signed.pem"), pem("self-signed.key.pem")).unwrap();
    // Connections that are open go on, new ones see the new one, also from who would take up an old session.
    create(&maps_before, "b");
    for name in ["a", "b"] {
        let Some(Ok(WatchEvent::Added(added))) = watch.next() else { panic!("no event") };
        assert_eq!(added.name(), name);
    }
    let error = maps_before.watch(&WatchParams::default(), &Stop::new()).unwrap_err();
    assert!(error.is_connect(), "{error}");
    maps(&server.client().unwrap()).get("b").unwrap();
    let plain = ApiServer::start().unwrap();
    assert!(plain.set_tls(chain(), pem("server.key.pem")).unwrap_err().is_config());
}

#[test]
fn clients_are_known_by_certificate_or_token() {
    let builder = || ApiServer::builder().client_authority(pem("ca.pem")).tls(chain(), pem("server.key.pem"));
    let tls = |name: Option<&str>| TlsOptions {
        client_certificate: name.map(certificate_of),
        ..TlsOptions::default()
    };
    let list = |server: &ApiServer, name, credentials| {
        maps(&client_with(server, tls(name), credentials)).list(&ListParams::default()).map(drop)
    };
    let server = builder().start().unwrap();
    list(&server, Some("ec-sec1"), Credentials::none()).unwrap();
    let error = list(&server, None, Credentials::none()).unwrap_err();
    assert!(error.is_unauthorized(), "{error}");
    // Of another authority: the handshake, or what follows at once, fails.
    let error: Error = list(&server, Some("self-signed"), Credentials::none()).unwrap_err();
    assert!(error.is_connect() || error.is_io(), "{error:?}");

    let server = builder().token("secret").start().unwrap();
    list(&server, Some("ec-sec1"), Credentials::none()).unwrap();
    list(&server, None, Credentials::token("secret").unwrap()).unwrap();
    assert!(list(&server, None, Credentials::none()).unwrap_err().is_unauthorized());
    assert!(list(&server, None, Credentials::token("wrong").unwrap()).unwrap_err().is_unauthorized());
    list(&server, Some("ec-sec1"), Credentials::token("wrong").unwrap()).unwrap();
}

/// A client of TLS says goodbye before it closes, so that the socket is not at its end at once.
#[test]
fn a_watcher_that_said_goodbye_is_noticed() {
    let clock = Clock::manual();
    let builder = ApiServer::builder().tls(chain(), pem("server.key.pem"));
    let server = builder.clock(clock.clone()).start().unwrap();
    let mut watch = connect(&server);
    write!(watch, "GET {CM}?watch=1&resourceVersion=0 HTTP/1.1\r\n\r\n").unwrap();
    let mut head = [0; 12];
    watch.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    watch.conn.send_close_notify();
    watch.flush().unwrap();
    clock.wait_for_timers(1);
    clock.advance(Duration::from_secs(60)); // the interval of bookmarks
    // The server ends it, and does not send on.
    let (_, end) = rest(watch);
    assert_eq!(end, Err(ErrorKind::UnexpectedEof));
}

// ---- faults ---------------------------------------------------------------------------------------------------

#[test]
fn a_silent_server_makes_no_handshake() {
    let server = start();
    let silent = server.inject(Fault::new(Effect::Silence).connections());
    let error = impatient(&server).list(&ListParams::default()).unwrap_err();
    assert!(error.is_connect() && error.to_string().contains("handshake timed out"), "{error}");
    assert!(silent.wait_for_hit(SOON));
    assert_eq!(server.requests(), [""; 0]);
    // It ends what it held.
    let held = connect(&server).sock;
    assert!(silent.wait_for_hit(SOON) && is_quiet(&held));
    drop(silent);
    assert_eq!(rest(held), (String::new(), Ok(())));
    serves(&server);
}

#[test]
fn handshakes_are_cut_and_reset() {
    for effect in [Effect::Close, Effect::Reset] {
        let server = start();
        let _fault = server.inject(Fault::new(effect).connections().once());
        let error = maps(&server.client().unwrap()).list(&ListParams::default()).unwrap_err();
        assert!(error.is_connect(), "{error}");
        assert_eq!(server.requests(), [""; 0]);
        serves(&server);
    }
}

#[test]
fn a_handshake_comes_late() {
    let server = start();
    let late = server.inject(Fault::new(Effect::Late).connections());
    let mut stream = connect(&server);
    stream.conn.write_tls(&mut stream.sock).unwrap();
    assert!(late.wait_for_hit(SOON) && is_quiet(&stream.sock));
    drop(late);
    write!(stream, "GET {CM} HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    assert!(rest(stream).0.starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_handshake_is_followed_by_silence() {
    let server = start();
    for effect in [Effect::Silence, Effect::HeadOnly] {
        let silent = server.inject(Fault::new(effect));
        // On a busy machine the handshake may take longer than it has.
        while !silent.wait_for_hit(Duration::ZERO) {
            let error = impatient(&server).list(&ListParams::default()).unwrap_err();
            assert!(error.is_timeout() || error.is_connect(), "{error:?}");
        }
        drop(silent);
        serves(&server);
    }
}

#[test]
fn faults_of_requests_are_met_within_tls() {
    let server = start();
    create(&maps(&server.client().unwrap()), "a");
    let whole = rest(ask(&server, CM)).0;
    let met = |effect| {
        let _fault = server.inject(Fault::new(effect).once());
        rest(ask(&server, CM))
    };
    // Cut without a goodbye, as by a server that was killed.
    assert_eq!(met(Effect::Close), (String::new(), Err(ErrorKind::UnexpectedEof)));
    assert_eq!(met(Effect::Reset), (String::new(), Err(ErrorKind::ConnectionReset)));
    let (half, end) = met(Effect::CutBody(10));
    assert_eq!(end, Err(ErrorKind::UnexpectedEof));
    assert_eq!(half.split_once("\r\n\r\n").unwrap().1, &whole.split_once("\r\n\r\n").unwrap().1[..10]);
}

#[test]
fn watches_meet_faults_within_tls() {
    let server = start();
    let maps = maps(&server.client().unwrap());
    create(&maps, "a");
    let watch = |effect| {
        let fault = server.inject(Fault::new(effect).watches());
        let params = WatchParams::default().silence(10 * MOMENT);
        let mut watch = maps.watch(&params, &Stop::new()).unwrap();
        let Some(Ok(WatchEvent::Added(_))) = watch.next() else { panic!("no event") };
        let then = watch.next();
        assert!(fault.wait_for_hit(SOON));
        then
    };
    for effect in [Effect::SilenceAfter(1), Effect::CutAfter(1)] {
        assert!(matches!(watch(effect.clone()), Some(Err(_))), "{effect:?}");
    }
    assert!(watch(Effect::EndAfter(1)).is_none());
}

#[test]
fn stop_and_pause_end_what_is_held() {
    let mut server = start();
    for effect in [Effect::Silence, Effect::Late] {
        let held = server.inject(Fault::new(effect).connections());
        let stream = connect(&server).sock;
        assert!(held.wait_for_hit(SOON));
        server.pause().unwrap();
        assert_eq!(rest(stream), (String::new(), Ok(())));
        server.resume().unwrap();
    }
    let held = server.inject(Fault::new(Effect::Silence));
    let stream = ask(&server, CM);
    assert!(held.wait_for_hit(SOON));
    server.stop();
    assert_eq!(rest(stream).1, Err(ErrorKind::UnexpectedEof));
}

// ---- informers ------------------------------------------------------------------------------------------------

const MODES: [ListMode; 3] = [ListMode::Paged(2), ListMode::WatchList, ListMode::Cached];

/// What happens to an informer, which gives silence up after a moment, as it connects again after a restart, twice.
/// Meanwhile an object was created and another deleted.
#[track_caller]
fn recovers_from(server: fn() -> ApiServer, fault: &Fault) {
    for mode in MODES {
        let context = format!("{fault:?} in {mode:?}");
        let mut server = server();
        let (client, clock, stop) = (server.client().unwrap(), Clock::manual(), Stop::new());
        let maps = maps(&client);
        ["kept", "gone"].iter().for_each(|name| create(&maps, name));
        let builder = Informer::builder(Api::<ConfigMap>::all(&server.client().unwrap()));
        let informer = builder.mode(mode).silence(MOMENT).clock(clock.clone()).build().unwrap();
        let history = History::new();
        informer.add_handler(history.handler()).unwrap();
        informer.start(&stop).unwrap();
        // The waits between are those of a manual clock, and on a busy machine a moment may be too short for a list.
        let go_on = || clock.next_timer().into_iter().for_each(|wait| clock.advance(wait));
        let comes = |holds: &dyn Fn() -> bool| {
            (0..1000).any(|_| {
                let there = holds();
                if !there {
                    go_on();
                    let _ = history.news.recv_timeout(Duration::from_millis(20));
                }
                there
            })
        };
        assert!(comes(&|| informer.has_synced()), "{context}: {:?}", informer.health());
        server.pause().unwrap();
        clock.wait_for_timers(1);
        server.resume().unwrap();
        maps.delete("gone", &DeleteParams::default()).unwrap();
        create(&maps, "new");

        let guard = server.inject(fault.clone());
        for _ in 0..2 {
            assert!(comes(&|| guard.wait_for_hit(Duration::ZERO)), "{context}: {:?}", informer.health());
        }
        assert_eq!(history.deleted(), [""; 0], "{context}: nothing gets through");
        drop(guard);
        let there = state_of(maps.list(&ListParams::default()).unwrap().iter());
        let stored = || state_of(informer.lister().store().list().iter().map(|map| &**map));
        let recovers = comes(&|| history.state() == there && stored() == there);
        assert!(recovers, "{context}: {:?} and not {there:?}; {:?}", history.state(), informer.health());
        assert_eq!(history.deleted(), ["default/gone"], "{context}");
        history.assert_sound(&context);
        stop.stop();
        informer.join();
    }
}

fn plain() -> ApiServer {
    ApiServer::start().unwrap()
}

#[test]
fn informers_survive_connections_that_are_accepted_and_stay_silent() {
    recovers_from(plain, &Fault::new(Effect::Silence).connections());
    recovers_from(start, &Fault::new(Effect::Silence).connections());
}

#[test]
fn informers_survive_connections_that_are_cut_at_once() {
    for effect in [Effect::Close, Effect::Reset] {
        recovers_from(plain, &Fault::new(effect.clone()).connections());
        recovers_from(start, &Fault::new(effect).connections());
    }
}

#[test]
fn informers_survive_tls_without_an_answer() {
    for effect in [Effect::Silence, Effect::HeadOnly] {
        recovers_from(start, &Fault::new(effect).path("/api/v1/configmaps"));
    }
}
