//! Real proxies in front of the embedded API server: tinyproxy for HTTP, microsocks for SOCKS5, each with and without a
//! login, on ports of their own.
//!
//! Without them the tests pass and say so, unless `LISTWATCH_PROXIES=required`. What proxies do that do not work is in
//! `tests/client/proxies.rs`.
#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/eventually.rs"]
mod eventually;
#[path = "support/trace.rs"]
mod trace;

use std::io::{self, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use eventually::eventually;
use listwatch::config::Pem;
use listwatch::types::ConfigMap;
use listwatch::{
    Api, ApiServer, Client, Clock, Config, DeleteParams, Error, Informer, ListParams, Map, ObjectMeta,
    PostParams, Resource, Selector, Stop, WatchEvent, WatchParams,
};

/// Longer than anything takes on a machine that is busy.
const LONG: Duration = Duration::from_secs(60);
const LOGIN: &str = "bob:s3cret@";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tinyproxy,
    Microsocks,
}

/// A proxy that runs, and ends when this is dropped.
struct Proxy {
    kind: Kind,
    login: bool,
    port: u16,
    child: Child,
}

impl Proxy {
    /// `None` if this machine has no such program.
    fn start(kind: Kind, login: bool) -> Option<Self> {
        let clock = Clock::system();
        let deadline = clock.now() + LONG;
        // Somebody else may take the port before it does.
        while clock.now() < deadline {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let started = Self::start_at(kind, login, port)?;
            if started.is_some() {
                return started;
            }
        }
        panic!("{kind:?} does not start");
    }

    /// `Some(None)` if it ended at once.
    fn start_at(kind: Kind, login: bool, port: u16) -> Option<Option<Self>> {
        let mut command = match kind {
            Kind::Tinyproxy => {
                let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
                let file = folder.join(format!("tinyproxy-{}-{port}.conf", std::process::id()));
                let auth = if login { "BasicAuth bob s3cret\n" } else { "" };
                std::fs::write(
                    &file,
                    format!("Listen 127.0.0.1\nPort {port}\nMaxClients 100\nTimeout 600\n{auth}"),
                )
                .unwrap();
                let mut command = Command::new("tinyproxy");
                command.arg("-d").arg("-c").arg(file);
                command
            }
            Kind::Microsocks => {
                let mut command = Command::new("microsocks");
                command.args(["-i", "127.0.0.1", "-p", &port.to_string()]);
                if login {
                    command.args(["-u", "bob", "-P", "s3cret"]);
                }
                command
            }
        };
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = match spawned {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let required = std::env::var("LISTWATCH_PROXIES").is_ok_and(|value| value == "required");
                assert!(!required, "there is no {kind:?}");
                // Not through eprintln!, which is captured.
                io::stderr().write_all(format!("SKIPPED: no {kind:?}\n").as_bytes()).unwrap();
                return None;
            }
            spawned => spawned.unwrap(),
        };
        let mut proxy = Self { kind, login, port, child };
        let mut ended = false;
        eventually("the proxy listens", || {
            ended = proxy.child.try_wait().unwrap().is_some();
            ended || TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(Some(proxy).filter(|_| !ended))
    }

    /// Its URL with the login that it wants.
    fn url(&self) -> String {
        self.url_with(if self.login { LOGIN } else { "" })
    }

    fn url_with(&self, login: &str) -> String {
        let scheme = if self.kind == Kind::Tinyproxy { "http" } else { "socks5" };
        format!("{scheme}://{login}127.0.0.1:{}", self.port)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn all_kinds(test: impl Fn(Proxy)) {
    for kind in [Kind::Tinyproxy, Kind::Microsocks] {
        for login in [false, true] {
            if let Some(proxy) = Proxy::start(kind, login) {
                test(proxy);
            }
        }
    }
}

/// One over HTTP and one over TLS.
fn servers() -> [ApiServer; 2] {
    let pki = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client/pki");
    let chain = ["server.pem", "ca.pem"].map(|name| std::fs::read(pki.join(name)).unwrap()).concat();
    trace::start();
    let tls = ApiServer::builder().tls(Pem::Data(chain), Pem::File(pki.join("server.key.pem")));
    [ApiServer::start().unwrap(), tls.start().unwrap()]
}

fn through(proxy: &str, server: &ApiServer) -> Api<ConfigMap> {
    let config: Config = server.client().unwrap().config().clone();
    Api::namespaced(&Client::new(config.with_proxy_url(proxy).unwrap()).unwrap(), "default")
}

fn map(name: &str, value: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta::named(name), data: Map::from([("key", value)]), ..ConfigMap::default() }
}

fn create(api: &Api<ConfigMap>, name: &str) {
    api.create(&PostParams::default(), &map(name, "1")).unwrap();
}

fn list(api: &Api<ConfigMap>) -> Result<usize, Error> {
    Ok(api.list(&ListParams::default())?.iter().count())
}

#[test]
fn lists_watches_and_informers_work_through_each() {
    all_kinds(|proxy| {
        for server in servers() {
            let api = through(&proxy.url(), &server);
            let mut watch = api.watch(&WatchParams::default(), &Stop::new()).unwrap();
            create(&api, "a");
            let Some(Ok(WatchEvent::Added(added))) = watch.next() else { panic!("no event") };
            assert_eq!(added.name(), "a");
            // Longer than any buffer on the way.
            let text = "x".repeat(300_000);
            api.create(&PostParams::default(), &map("long", &text)).unwrap();
            assert_eq!(api.get("long").unwrap().data.get("key"), Some(&*text));
            assert_eq!(list(&api).unwrap(), 2);

            let stop = Stop::new();
            let informer = Informer::builder(api.clone()).build().unwrap();
            informer.start(&stop).unwrap();
            informer.wait_for_sync(LONG).unwrap();
            assert_eq!(informer.lister().list(&Selector::everything()).len(), 2);
            create(&api, "b");
            api.delete("a", &DeleteParams::default()).unwrap();
            let lister = informer.lister();
            eventually("the informer follows", || {
                lister.get("default", "b").is_some() && lister.get("default", "a").is_none()
            });
            stop.stop();
            informer.join();
        }
    });
}

#[test]
fn a_wrong_password_and_a_server_that_is_down_are_told() {
    all_kinds(|proxy| {
        let [plain, tls] = servers();
        let is_http = proxy.kind == Kind::Tinyproxy;
        if proxy.login {
            for (login, of_http, of_socks) in [
                ("bob:wr0ng@", "the proxy answered 401", "refused the user or the password"),
                ("", "(its URL has no user and password)", "its URL has none"),
            ] {
                let error = list(&through(&proxy.url_with(login), &tls)).unwrap_err();
                assert!(error.is_connect(), "{error:?}");
                let text = error.to_string();
                assert!(text.contains(if is_http { of_http } else { of_socks }), "{text}");
                assert!(text.contains(&format!("through the proxy {}", proxy.url_with(""))), "{text}");
                let error = list(&through(&proxy.url_with(login), &plain)).unwrap_err();
                let refused = matches!(error.code(), Some(401 | 407));
                assert!(if is_http { refused } else { error.is_connect() }, "{error:?}");
                assert!(!format!("{text} {error:?}").contains("wr0ng"), "{error:?}");
            }
        }
        let (api, address) = (through(&proxy.url(), &tls), tls.url().replace("https://", ""));
        list(&api).unwrap();
        drop(tls);
        let error = api.get("a").unwrap_err();
        assert!(error.is_connect(), "{error:?}");
        let told =
            if is_http { "the proxy answered 5" } else { "could not connect: the connection was refused" };
        assert!(error.to_string().contains(told), "{error}");
        assert!(error.to_string().contains(&format!("connect to {address} through the proxy")), "{error}");
    });
}

#[test]
fn nothing_goes_around_a_proxy_that_is_down_and_an_informer_comes_through_its_restart() {
    all_kinds(|proxy| {
        let [_, server] = servers();
        let (url, direct) = (proxy.url(), Api::<ConfigMap>::namespaced(&server.client().unwrap(), "default"));
        let stop = Stop::new();
        let informer = Informer::builder(through(&url, &server)).build().unwrap();
        informer.start(&stop).unwrap();
        informer.wait_for_sync(LONG).unwrap();
        let (kind, login, port) = (proxy.kind, proxy.login, proxy.port);
        drop(proxy);
        let error = list(&through(&url, &server)).unwrap_err();
        assert!(error.is_connect() && error.to_string().contains("through the proxy"), "{error:?}");
        create(&direct, "meanwhile");
        let mut again = None;
        // Its old connections may keep the port for a while.
        eventually("the proxy starts again", || {
            again = Proxy::start_at(kind, login, port).unwrap();
            again.is_some()
        });
        let lister = informer.lister();
        eventually("the informer is back", || lister.get("default", "meanwhile").is_some());
        stop.stop();
        informer.join();
    });
}
