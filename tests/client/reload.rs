//! Certificates and keys in files that change while the client lives.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crossbeam_channel::bounded;
use listwatch::config::{ClientCertificate, Credential, CredentialSource, Pem, TlsOptions};
use listwatch::types::ConfigMap;
use listwatch::{Api, Client, Clock, Credentials, PostParams, Stop, WatchEvent, WatchParams};
use rustls::version::{TLS12, TLS13};

use super::server::{Connection, Server};
use super::tls::{Clients, Secured, answer, der, log, text, url};
use super::{config, config_map, config_maps, event};

const OLD: Clients = Clients::Of("ca.pem");
const NEW: Clients = Clients::Of("other-ca.pem");
const LOOK: Duration = Duration::from_secs(10);

/// A directory with `ca.crt`, `tls.crt` and `tls.key`, removed when dropped.
struct Files(PathBuf);

impl Files {
    /// What the server `server` and its authority `ca` ask for.
    fn old() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let files =
            Self(std::env::temp_dir().join(format!("listwatch-reload-{}-{number}", std::process::id())));
        fs::create_dir_all(&files.0).unwrap();
        log(); // from here on
        files.copy("ca.crt", "ca.pem");
        files.set_pair("ec-sec1");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn copy(&self, name: &str, from: &str) {
        fs::write(self.path(name), text(from)).unwrap();
    }

    fn set_pair(&self, from: &str) {
        self.copy("tls.crt", &format!("{from}.pem"));
        self.copy("tls.key", &format!("{from}.key.pem"));
    }

    fn client(&self, server: &Server, clock: &Clock) -> Api<ConfigMap> {
        let pem = |name| Pem::File(self.path(name));
        let pair = ClientCertificate { certificate: pem("tls.crt"), key: pem("tls.key") };
        let tls =
            TlsOptions { ca: Some(pem("ca.crt")), client_certificate: Some(pair), ..TlsOptions::default() };
        let config = config(&url("127.0.0.1", server)).with_tls(tls).with_clock(clock.clone());
        config_maps(&Client::new(config).unwrap())
    }

    /// Warnings that name a file in it.
    fn warnings(&self) -> Vec<String> {
        log().lines(&["WARN", self.0.to_str().unwrap()])
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn create(api: &Api<ConfigMap>) -> listwatch::Result<ConfigMap> {
    api.create(&PostParams::default(), &serde_json::from_str(&config_map("a")).unwrap())
}

/// Which connections the requests so far came on.
fn connections(server: &Server) -> Vec<usize> {
    server.seen.try_iter().map(|seen| seen.connection).collect()
}

/// An answer after which the connection is closed.
fn answer_once(mut c: Connection) {
    c.request();
    c.answer(200, "Connection: close\r\nContent-Type: application/json\r\n", config_map("a"));
}

#[test]
fn a_changed_authority_is_trusted_within_ten_seconds_and_idle_connections_are_left() {
    let (files, clock, secured) = (Files::old(), Clock::manual(), Secured::new("server", OLD));
    let server = secured.start("127.0.0.1:0", answer);
    let api = files.client(&server, &clock);
    api.get("a").unwrap();
    files.copy("ca.crt", "other-ca.pem");
    secured.set("other-server", OLD, rustls::ALL_VERSIONS);
    clock.advance(LOOK - Duration::from_secs(1));
    api.get("a").unwrap();
    clock.advance(Duration::from_secs(1));
    api.get("a").unwrap();
    api.get("a").unwrap();
    assert_eq!(connections(&server), [0, 0, 1, 1]);
    assert_eq!(server.accepted(), 2, "and none was tried in vain");
}

#[test]
fn files_that_stay_as_they_are_keep_their_connections() {
    let (files, clock, secured) = (Files::old(), Clock::manual(), Secured::new("server", OLD));
    let server = secured.start("127.0.0.1:0", answer);
    let api = files.client(&server, &clock);
    for _ in 0..5 {
        api.get("a").unwrap();
        clock.advance(LOOK);
        files.set_pair("ec-sec1"); // written anew
    }
    assert_eq!(server.accepted(), 1);
    assert_eq!(files.warnings(), [""; 0]);
}

/// Kubernetes swaps a symlink to a directory of a new generation, so that all files change at once.
#[test]
#[cfg(unix)]
fn files_behind_symlinks_change_as_kubernetes_swaps_them() {
    let (files, clock, secured) = (Files::old(), Clock::manual(), Secured::new("server", OLD));
    let names = ["ca.crt", "tls.crt", "tls.key"];
    for (generation, from) in [
        ("1", ["ca.pem", "ec-sec1.pem", "ec-sec1.key.pem"]),
        ("2", ["other-ca.pem", "other-client.pem", "other-client.key.pem"]),
    ] {
        fs::create_dir(files.path(generation)).unwrap();
        for (name, from) in names.iter().zip(from) {
            files.copy(&format!("{generation}/{name}"), from);
        }
    }
    let link = |from: &str, to: &str| {
        std::os::unix::fs::symlink(from, files.path("..link")).unwrap();
        fs::rename(files.path("..link"), files.path(to)).unwrap();
    };
    link("1", "..data");
    names.iter().for_each(|name| link(&format!("..data/{name}"), name));
    let server = secured.start("127.0.0.1:0", answer);
    let api = files.client(&server, &clock);
    api.get("a").unwrap();
    link("2", "..data");
    secured.set("other-server", NEW, rustls::ALL_VERSIONS);
    clock.advance(LOOK);
    api.get("a").unwrap();
    assert_eq!(connections(&server), [0, 1]);
    assert_eq!(secured.handshakes.lock().unwrap()[1].certificates, [der("other-client.pem")]);
    assert_eq!(files.warnings(), [""; 0]);
}

/// The clock stands still: nothing is due.
#[test]
fn a_server_that_is_not_trusted_makes_the_files_be_looked_at_at_once() {
    let (files, clock, secured) = (Files::old(), Clock::manual(), Secured::new("server", OLD));
    let server = secured.start("127.0.0.1:0", answer_once);
    let api = files.client(&server, &clock);
    create(&api).unwrap();
    secured.set("other-server", OLD, rustls::ALL_VERSIONS);
    // Nothing has changed yet, so one try is enough.
    let error = create(&api).unwrap_err();
    assert!(error.is_connect() && error.to_string().contains("no authority that we trust"), "{error}");
    assert_eq!(server.accepted(), 2);
    files.copy("ca.crt", "other-ca.pem");
    create(&api).unwrap();
    assert_eq!(connections(&server), [0, 3]);
    // The same for a watch.
    files.copy("ca.crt", "ca.pem");
    secured.set("server", OLD, rustls::ALL_VERSIONS);
    api.watch(&WatchParams::default(), &Stop::new()).unwrap();
    assert_eq!(connections(&server), [5]);
}

/// In TLS 1.3 the refusal comes when the request has been written.
#[test]
fn a_server_that_refuses_our_certificate_makes_the_files_be_looked_at_at_once() {
    for version in [&TLS12, &TLS13] {
        let (files, clock, secured) = (Files::old(), Clock::manual(), Secured::new("server", OLD));
        let server = secured.start("127.0.0.1:0", answer_once);
        let api = files.client(&server, &clock);
        create(&api).unwrap();
        secured.set("server", NEW, &[version]);
        let error = create(&api).unwrap_err();
        let words = format!("it refused our client certificate {}", files.path("tls.crt").display());
        assert!(error.is_connect() && error.to_string().contains(&words), "{version:?}: {error}");
        assert_eq!(server.accepted(), 2, "{version:?}");
        files.set_pair("other-client");
        create(&api).unwrap();
        assert_eq!(connections(&server), [0, 3], "{version:?}: sent once each");
        files.set_pair("ec-sec1");
        secured.set("server", OLD, &[version]);
        api.watch(&WatchParams::default(), &Stop::new()).unwrap();
    }
}

/// A request of many records: its server is gone before it is written.
#[test]
fn a_refusal_is_heard_while_a_long_request_is_written() {
    let (files, clock, secured) = (Files::old(), Clock::manual(), Secured::new("server", NEW));
    let server = secured.start("127.0.0.1:0", answer);
    let api = files.client(&server, &clock);
    files.set_pair("other-client");
    let mut long: ConfigMap = serde_json::from_str(&config_map("a")).unwrap();
    long.data.insert("text", &"x".repeat(2_000_000));
    api.create(&PostParams::default(), &long).unwrap();
    assert_eq!(connections(&server), [1]);
}

/// kube-apiserver takes the connection, whatever the certificate, and refuses each request.
#[test]
fn a_certificate_that_is_no_longer_authorized_makes_the_files_be_looked_at_at_once() {
    let (files, clock, secured) = (Files::old(), Clock::manual(), Secured::new("server", Clients::Named));
    let shown = secured.handshakes.clone();
    let server = secured.start("127.0.0.1:0", move |c| {
        let index = c.index;
        let shown = shown.clone();
        c.serve(move |c, _| {
            let is_new = shown.lock().unwrap()[index].certificates == [der("other-client.pem")];
            c.json(if is_new { 200 } else { 401 }, config_map("a"));
        });
    });
    let api = files.client(&server, &clock);
    assert!(create(&api).unwrap_err().is_unauthorized());
    assert_eq!(connections(&server), [0]);
    files.set_pair("other-client");
    create(&api).unwrap();
    assert_eq!(connections(&server), [0, 1]);
}

#[test]
fn a_certificate_without_its_key_keeps_the_old_pair_and_is_told_once() {
    let (files, clock, secured) = (Files::old(), Clock::manual(), Secured::new("server", Clients::Named));
    let server = secured.start("127.0.0.1:0", answer);
    let api = files.client(&server, &clock);
    let look = || {
        clock.advance(LOOK);
        create(&api).unwrap();
    };
    files.copy("tls.crt", "other-client.pem");
    (0..3).for_each(|_| look());
    assert_eq!(server.accepted(), 1);
    let warnings = files.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let names = [files.path("tls.crt"), files.path("tls.key")];
    assert!(names.iter().all(|name| warnings[0].contains(name.to_str().unwrap())), "{warnings:?}");
    files.copy("tls.key", "other-client.key.pem");
    look();
    assert_eq!(server.accepted(), 2);
    assert_eq!(secured.handshakes.lock().unwrap()[1].certificates, [der("other-client.pem")]);
    assert_eq!(files.warnings().len(), 1);
}

#[test]
fn an_authority_that_cannot_be_read_keeps_the_old_one_and_is_told_once() {
    let (files, clock, secured) = (Files::old(), Clock::manual(), Secured::new("server", OLD));
    let server = secured.start("127.0.0.1:0", answer);
    let api = files.client(&server, &clock);
    let look = || {
        clock.advance(LOOK);
        api.get("a").unwrap();
    };
    let spoil: [fn(&Path); 3] = [
        |ca| fs::write(ca, &text("ca.pem")[..200]).unwrap(), // half written
        |ca| fs::write(ca, "").unwrap(),
        |ca| fs::remove_file(ca).unwrap(),
    ];
    for (told, spoil) in spoil.iter().enumerate() {
        spoil(&files.path("ca.crt"));
        (0..3).for_each(|_| look());
        let warnings = files.warnings();
        assert_eq!(warnings.len(), told + 1, "{warnings:?}");
        assert!(warnings[told].contains("using what was read before"), "{warnings:?}");
    }
    assert_eq!(server.accepted(), 1);
    // The pair changes meanwhile: that is taken by itself.
    files.set_pair("p384-sec1");
    look();
    assert_eq!(server.accepted(), 2);
    files.copy("ca.crt", "other-ca.pem");
    secured.set("other-server", OLD, rustls::ALL_VERSIONS);
    look();
    assert_eq!(server.accepted(), 3);
}

#[test]
fn a_watch_goes_on_while_certificates_change() {
    let (files, clock, secured) = (Files::old(), Clock::manual(), Secured::new("server", OLD));
    let (go, going) = bounded::<()>(0);
    let server = secured.start("127.0.0.1:0", move |mut c| {
        while let Some(seen) = c.request() {
            if !seen.line.contains("watch=true") {
                c.json(200, config_map("a"));
                continue;
            }
            c.stream();
            while going.recv().is_ok() {
                c.chunk(event("ADDED", &config_map("b")));
            }
        }
    });
    let api = files.client(&server, &clock);
    let mut watch = api.watch(&WatchParams::default(), &Stop::new()).unwrap();
    let mut next = || {
        go.send(()).unwrap();
        assert!(matches!(watch.next(), Some(Ok(WatchEvent::Added(_)))));
    };
    next();
    for (server, clients, ca, pair) in
        [("other-server", NEW, "other-ca.pem", "other-client"), ("server", OLD, "ca.pem", "ec-sec1")]
    {
        secured.set(server, clients, rustls::ALL_VERSIONS);
        files.copy("ca.crt", ca);
        files.set_pair(pair);
        clock.advance(LOOK);
        api.get("a").unwrap();
        next();
    }
    assert_eq!(connections(&server), [0, 1, 2]);
}

/// Many threads find at the same time that the server is not trusted: each comes through, whoever has looked first.
#[test]
fn all_who_are_refused_at_the_same_time_come_through() {
    let (files, clock, secured) = (Files::old(), Clock::manual(), Secured::new("other-server", OLD));
    let server = secured.start("127.0.0.1:0", answer_once);
    let api = Arc::new(files.client(&server, &clock));
    assert!(create(&api).unwrap_err().is_connect());
    files.copy("ca.crt", "other-ca.pem");
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| std::thread::Builder::new().spawn_scoped(scope, || create(&api).unwrap()).unwrap())
            .collect();
        threads.into_iter().for_each(|thread| drop(thread.join().unwrap()));
    });
    assert_eq!(server.seen.try_iter().count(), 8);
}

/// Gives these pairs of certificate and key, one after the other.
struct Pairs(std::sync::Mutex<Vec<[&'static str; 2]>>);

impl CredentialSource for Pairs {
    fn credential(&self, _: &Stop) -> Result<Credential, Box<dyn Error + Send + Sync>> {
        let [certificate, key] = self.0.lock().unwrap().pop().ok_or("asked too often")?;
        let [certificate, key] =
            [format!("{certificate}.pem"), format!("{key}.key.pem")].map(|name| text(&name));
        let (certificate, key) = (Pem::Data(certificate), Pem::Data(key));
        Ok(Credential::certificate(ClientCertificate { certificate, key }))
    }
}

/// That of the last request came in the end, and the source was asked for it.
#[test]
fn a_certificate_of_the_credentials_that_is_of_no_use_is_asked_for_anew() {
    // Newest last: it is taken first.
    for first in [["ec-sec1", "ec-sec1"], ["ec-sec1", "other-client"]] {
        let secured = Secured::new("server", NEW);
        let server = secured.start("127.0.0.1:0", answer);
        let source = Pairs(vec![["other-client", "other-client"], first].into());
        let tls = TlsOptions { ca: Some(Pem::Data(text("ca.pem"))), ..TlsOptions::default() };
        let config = config(&url("127.0.0.1", &server)).with_tls(tls);
        let api = config_maps(&Client::new(config.with_credentials(Credentials::source(source))).unwrap());
        create(&api).unwrap();
        create(&api).unwrap();
        assert_eq!(server.seen.try_iter().count(), 2, "{first:?}: sent once each");
        let shown = secured.handshakes.lock().unwrap().pop().unwrap().certificates;
        assert_eq!(shown, [der("other-client.pem")], "{first:?}");
    }
}
