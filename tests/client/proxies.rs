//! Proxies of HTTP and SOCKS that do what a test says. Those that work are the server, too: they answer what comes
//! through them themselves.

use std::process::Command;
use std::sync::Mutex;

use listwatch::{Client, Config, Credentials, Error, ListParams, Stop, WatchParams};

use super::server::{Connection, Seen, Server, refusing};
use super::stop::{assert_stopped, server, stop_when};
use super::{LONG, config, config_map, config_maps, event};

const PASSWORD: &str = "pr0xy s3cret";
/// User and password in the URL of a proxy.
const LOGIN: &str = "bob:pr0xy%20s3cret@";
/// The same in a header.
const BASIC: &str = "Basic Ym9iOnByMHh5IHMzY3JldA==";
const TOKEN: &str = "t0k3n";
/// Answers of SOCKS5: no login; connected.
const WELCOME: &[u8] = b"\x05\0";
const CONNECTED: &[u8] = b"\x05\0\0\x01\x7f\0\0\x01\0\x50";

fn answer(c: &mut Connection, seen: &Seen) {
    if seen.line.contains("watch=true") {
        c.stream();
        c.chunk(event("ADDED", &config_map("a")));
        c.last_chunk();
    } else if seen.line.contains("limit=") {
        c.json(200, r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[]}"#);
    } else {
        c.json(200, config_map("a"));
    }
}

/// Takes a request for a tunnel, which the next bytes go through.
#[cfg(feature = "tls")]
fn tunnel(c: &mut Connection) {
    assert!(c.request().unwrap().line.starts_with("CONNECT "));
    c.send("HTTP/1.1 200 Connection established\r\nVia: a test\r\n\r\n");
}

/// The same for SOCKS5, to the name of the server in these tests.
fn socks(c: &mut Connection) {
    assert_eq!(c.bytes(3), b"\x05\x01\0");
    c.send(WELCOME);
    assert_eq!(c.bytes(18)[..16], *b"\x05\x01\0\x03\x0bapi.example");
    c.send(CONNECTED);
}

fn through(proxy: &str, server: &str) -> Config {
    let config = config(server).with_credentials(Credentials::token(TOKEN).unwrap());
    config.with_proxy_url(proxy).unwrap()
}

/// The URL of a proxy at a place.
fn proxy(scheme: &str, login: &str, server: &Server) -> String {
    format!("{scheme}://{login}127.0.0.1:{}", server.port())
}

/// Gets, lists and watches. Two connections will do, of which the watch has one.
fn use_it(config: Config) {
    let api = config_maps(&Client::new(config).unwrap());
    for _ in 0..3 {
        api.get("a").unwrap();
        api.list(&ListParams::default().limit(1)).unwrap();
    }
    assert_eq!(api.watch(&WatchParams::default(), &Stop::new()).unwrap().count(), 1);
    api.get("a").unwrap();
}

/// That the requests that came are those of [`use_it`].
fn assert_used(proxy: &Server, origin: &str) {
    assert_eq!(proxy.accepted(), 2);
    let seen: Vec<_> = proxy.seen.try_iter().collect();
    let (connects, requests): (Vec<_>, Vec<_>) =
        seen.iter().partition(|seen| seen.line.starts_with("CONNECT "));
    assert_eq!(requests.len(), 8);
    let get = format!("GET {origin}/api/v1/namespaces/ns/configmaps");
    for request in &requests {
        assert!(request.line.starts_with(&get), "{}", request.line);
        assert_eq!(request.headers("authorization"), [format!("Bearer {TOKEN}")]);
        let host = request.header("host");
        assert!(host == "api.example:6443" || host == "api.example:8080", "{host}");
    }
    // What is for the proxy goes to the proxy, and what is for the server does not.
    if origin.is_empty() {
        assert!(requests.iter().all(|request| request.headers("proxy-authorization").is_empty()));
    } else {
        assert!(requests.iter().all(|request| request.headers("proxy-authorization") == [BASIC]));
    }
    for connect in connects {
        assert_eq!(connect.line, "CONNECT api.example:6443");
        assert_eq!(connect.header("host"), "api.example:6443");
        assert_eq!(connect.headers("proxy-authorization"), [BASIC]);
        assert!(connect.headers("authorization").is_empty());
    }
}

fn get(config: Config) -> Error {
    config_maps(&Client::new(config).unwrap()).get("a").unwrap_err()
}

#[test]
fn an_http_server_is_asked_for_by_its_whole_url() {
    let server = Server::start(|c| c.serve(answer));
    use_it(through(&proxy("http", LOGIN, &server), "http://api.example:8080"));
    assert_used(&server, "http://api.example:8080");
}

#[test]
fn a_path_before_the_api_is_kept_through_a_proxy() {
    let server = Server::start(|c| c.serve(answer));
    let config = through(&proxy("http", "", &server), "http://api.example/k8s/clusters/c-1/");
    config_maps(&Client::new(config).unwrap()).get("a").unwrap();
    let line = "GET http://api.example:80/k8s/clusters/c-1/api/v1/namespaces/ns/configmaps/a";
    assert_eq!(server.next().line, line);
}

#[test]
fn the_proxy_of_socks_looks_up_the_servers_name() {
    for scheme in ["socks5", "socks5h"] {
        let server = Server::start(|mut c| {
            socks(&mut c);
            c.serve(answer);
        });
        use_it(through(&proxy(scheme, "", &server), "http://api.example:8080"));
        assert_used(&server, "");
    }
}

#[cfg(feature = "tls")]
mod tls {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::time::Duration;

    use crossbeam_channel::bounded;
    use listwatch::config::{ClientCertificate, Pem, TlsOptions};
    use listwatch::{Clock, PostParams};
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ServerConfig, ServerConnection, StreamOwned};

    use super::super::SOON;
    use super::super::server::Stream;
    use super::super::tls::{Clients, Secured, with_key};
    use super::*;

    fn file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client/pki").join(name)
    }

    /// Speaks TLS on a stream, as `server` or `self-signed`.
    fn secured(name: &str) -> impl Fn(Box<dyn Stream>) -> Box<dyn Stream> + Send + Sync + use<> {
        let chain = vec![CertificateDer::from_pem_file(file(&format!("{name}.pem"))).unwrap()];
        let key = PrivateKeyDer::from_pem_file(file(&format!("{name}.key.pem"))).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let config = Arc::new(config);
        move |stream| Box::new(StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream))
    }

    /// A proxy that speaks TLS itself.
    fn secure_proxy(name: &str, script: impl Fn(Connection) + Send + Sync + 'static) -> Server {
        let wrap = secured(name);
        Server::start_with("127.0.0.1:0", move |tcp| Some(wrap(Box::new(tcp))), script)
    }

    fn trusting_ca() -> TlsOptions {
        TlsOptions { ca: Some(Pem::File(file("ca.pem"))), ..TlsOptions::default() }
    }

    fn trusting(config: Config) -> Config {
        config.with_tls(trusting_ca())
    }

    const SERVER: &str = "https://api.example:6443";

    #[test]
    fn an_https_server_is_reached_by_connect() {
        let server = secured("server");
        let server = Server::start(move |mut c| {
            tunnel(&mut c);
            c.within(&server).serve(answer);
        });
        use_it(trusting(through(&proxy("http", LOGIN, &server), SERVER)));
        assert_used(&server, "");
    }

    #[test]
    fn issue_ureq_1182_tls_to_the_server_goes_within_tls_to_the_proxy() {
        let server = secured("server");
        let server = secure_proxy("server", move |mut c| {
            tunnel(&mut c);
            c.within(&server).serve(answer);
        });
        use_it(trusting(through(&proxy("https", LOGIN, &server), SERVER)));
        assert_used(&server, "");
        // As much as several records each way.
        let text = "x".repeat(300_000);
        let long = config_map("a").replace("\"ns\"", &format!("\"ns\",\"annotations\":{{\"a\":\"{text}\"}}"));
        let (echo, secured) = (long.clone(), secured("server"));
        let server = secure_proxy("server", move |mut c| {
            tunnel(&mut c);
            c.within(&secured).serve(|c, seen| {
                assert!(seen.body.len() > 300_000);
                c.json(201, &echo);
            });
        });
        let api =
            config_maps(&Client::new(trusting(through(&proxy("https", LOGIN, &server), SERVER))).unwrap());
        let object = serde_json::from_str(&long).unwrap();
        let created = api.create(&PostParams::default(), &object).unwrap();
        assert_eq!(created.metadata.annotations.get("a"), Some(&*text));
    }

    #[test]
    fn an_http_server_is_asked_for_through_a_proxy_of_tls() {
        let server = secure_proxy("server", |c| c.serve(answer));
        use_it(trusting(through(&proxy("https", LOGIN, &server), "http://api.example:8080")));
        assert_used(&server, "http://api.example:8080");
    }

    #[test]
    fn tls_goes_through_socks() {
        let server = secured("server");
        let server = Server::start(move |mut c| {
            socks(&mut c);
            c.within(&server).serve(answer);
        });
        use_it(trusting(through(&proxy("socks5", "", &server), SERVER)));
        assert_used(&server, "");
    }

    #[test]
    fn the_proxy_is_verified_by_its_own_name_and_the_server_by_its_own() {
        // The name of the server, which is not the proxy's, is given.
        let server = secured("server");
        let proxy_server = secure_proxy("server", move |mut c| {
            tunnel(&mut c);
            c.within(&server).serve(answer);
        });
        let named = |name: &str, server: &Server, login: &str| {
            let tls = TlsOptions {
                ca: Some(Pem::File(file("ca.pem"))),
                server_name: Some(name.into()),
                ..TlsOptions::default()
            };
            through(&proxy("https", login, server), "https://203.0.113.1:6443").with_tls(tls)
        };
        let config = named("api.example", &proxy_server, "");
        config_maps(&Client::new(config).unwrap()).get("a").unwrap();
        let error = get(named("other.example", &proxy_server, "")).to_string();
        assert!(error.contains("TLS with other.example"), "{error}");

        let server = secure_proxy("self-signed", |mut c| drop(c.request()));
        let error = get(named("api.example", &server, LOGIN));
        assert!(error.is_connect(), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("the proxy: TLS with 127.0.0.1"), "{text}");
        assert!(server.seen.is_empty(), "the password was sent");
    }

    /// In TLS 1.3 the refusal comes where the answer to CONNECT should.
    #[test]
    fn a_proxy_that_refuses_our_certificate_is_named_and_the_files_are_looked_at_at_once() {
        let inner = secured("server");
        let server =
            Secured::new("server", Clients::Of("other-ca.pem")).start("127.0.0.1:0", move |mut c| {
                tunnel(&mut c);
                c.within(&inner).serve(answer);
            });
        let dir = std::env::temp_dir().join(format!("listwatch-proxy-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let set = |name: &str| {
            std::fs::copy(file(&format!("{name}.pem")), dir.join("crt")).unwrap();
            std::fs::copy(file(&format!("{name}.key.pem")), dir.join("key")).unwrap();
        };
        set("ec-sec1");
        let pem = |name| Pem::File(dir.join(name));
        let pair = ClientCertificate { certificate: pem("crt"), key: pem("key") };
        let tls = TlsOptions { client_certificate: Some(pair), ..trusting_ca() };
        let config = through(&proxy("https", "", &server), SERVER).with_clock(Clock::manual());
        let api = config_maps(&Client::new(config.with_tls(tls)).unwrap());
        let error = api.get("a").unwrap_err();
        assert!(error.is_connect(), "{error:?}");
        let words = "TLS with the proxy: it refused our client certificate";
        assert!(error.to_string().contains(words), "{error}");
        set("other-client");
        api.get("a").unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// The proxy is shown our certificate, but the server, which is spoken to in the clear, is not.
    #[test]
    fn a_certificate_that_has_expired_is_not_why_a_server_without_tls_says_unauthorized() {
        let server = Secured::new("server", Clients::Named).start("127.0.0.1:0", |c| {
            c.serve(|c, _| c.json(401, "{}"));
        });
        let config = through(&proxy("https", "", &server), "http://api.example:8080");
        let error = get(config.with_tls(with_key("expired")));
        assert_eq!(error.code(), Some(401));
        assert!(!error.to_string().contains("expired"), "{error}");
    }

    #[test]
    fn a_proxy_that_is_told_in_the_wrong_scheme_is_an_error() {
        let plain = Server::start(|mut c| {
            c.first_byte();
            c.send("HTTP/1.1 400 Bad Request\r\n\r\n");
        });
        let error = get(trusting(through(&proxy("https", "", &plain), SERVER))).to_string();
        assert!(error.contains("the proxy: TLS with 127.0.0.1"), "{error}");
        let secure = secure_proxy("server", |mut c| drop(c.request()));
        let error = get(trusting(through(&proxy("http", "", &secure), SERVER)));
        assert!(error.is_connect(), "{error:?}");
    }

    #[test]
    fn a_refused_tunnel_is_told_with_the_proxys_answer() {
        for (code, told) in [(407, "407 No"), (403, "403 No"), (502, "502 No")] {
            // It does not close, and what is sent again comes on a new connection.
            let server = Server::start(move |mut c| {
                while c.request().is_some() {
                    c.send(format!("HTTP/1.1 {code} No\r\nContent-Length: 19\r\n\r\n<h1>because of</h1>"));
                }
            });
            let url = proxy("http", LOGIN, &server);
            let error = get(trusting(through(&url, SERVER)));
            assert!(error.is_connect(), "{error:?}");
            let text = error.to_string();
            let at =
                format!("connect to api.example:6443 through the proxy http://127.0.0.1:{}: ", server.port());
            assert!(text.contains(&at), "{text}");
            assert!(text.ends_with(&format!("the proxy answered {told}: because of")), "{text}");
            assert!(!text.contains(PASSWORD) && !format!("{error:?}").contains("s3cret"), "{error:?}");
            assert!(server.seen.try_iter().all(|seen| seen.line == "CONNECT api.example:6443"));
        }
    }

    #[test]
    fn half_answers_and_garbage_are_told() {
        for (answer, told) in [
            ("", "closed the connection"),
            ("HTTP/1.1 200 OK\r\nVia: a", "closed the connection"),
            ("\0\x01\x02 garbage", "does not speak HTTP"),
            ("HTTP/1.1 200 OK\r\n\r\nHello, I am not the server", "said more"),
        ] {
            let server = Server::start(move |mut c| {
                c.request();
                c.send(answer);
            });
            let error = get(trusting(through(&proxy("http", "", &server), SERVER)));
            assert!(error.is_connect() && error.to_string().contains(told), "{answer:?}: {error:?}");
        }
        // A head without end is given up, though there is time.
        let server = Server::start(|mut c| {
            c.request();
            c.send("HTTP/1.1 200 OK\r\n");
            while c.try_send(&[b'x'; 1024]).is_ok() {}
        });
        let error = get(trusting(through(&proxy("http", "", &server), SERVER)));
        assert!(error.to_string().contains("over 16384 bytes"), "{error}");
    }

    #[test]
    fn a_stop_ends_the_wait_for_a_proxy() {
        let hangs: [(&str, &str, &[&str]); 4] = [
            ("http", "an answer", &[]),
            ("http", "its end", &["HTTP/1.1 200 OK\r\nVia"]),
            ("http", "the text of a refusal", &["HTTP/1.1 403 No\r\nContent-Length: 100\r\n\r\nbecause"]),
            ("https", "a handshake", &[]),
        ];
        for (scheme, what, answers) in hangs {
            let (server, reached) = server(move |c| {
                c.first_byte();
                if scheme == "http" {
                    c.request();
                }
                answers.iter().for_each(|answer| c.send(answer));
            });
            let config = trusting(through(&proxy(scheme, "", &server), SERVER));
            let api = config_maps(&Client::new(config).unwrap());
            println!("waiting for {what}");
            assert_stopped(stop_when(reached, |stop| api.with_stop(stop).get("a")));
        }
        // In the handshake with the server, behind that of the proxy.
        let (server, reached) = {
            let (here, arrived) = bounded(1);
            let server = secure_proxy("server", move |mut c| {
                tunnel(&mut c);
                c.first_byte();
                here.send(()).unwrap();
                c.closed();
            });
            (server, move || arrived.recv_timeout(SOON).unwrap())
        };
        let api = config_maps(&Client::new(trusting(through(&proxy("https", "", &server), SERVER))).unwrap());
        assert_stopped(stop_when(reached, |stop| api.with_stop(stop).get("a")));
    }

    #[test]
    fn a_proxy_that_does_not_answer_is_given_up_in_time() {
        for scheme in ["http", "https", "socks5"] {
            let server = Server::start(|mut c| c.closed());
            let config = trusting(through(&proxy(scheme, "", &server), SERVER));
            let error = get(config.with_connect_timeout(Duration::from_millis(150)));
            assert!(error.is_connect(), "{error:?}");
            let text = error.to_string();
            assert!(text.contains("through the proxy") && text.contains("time"), "{text}");
        }
        // Its words of refusal need not be waited for longer than that.
        let server = Server::start(|mut c| {
            c.request();
            c.send("HTTP/1.1 403 No\r\n\r\nbecause of");
            c.closed();
        });
        let config = trusting(through(&proxy("http", "", &server), SERVER));
        let error = get(config.with_connect_timeout(Duration::from_millis(150))).to_string();
        assert!(error.ends_with("the proxy answered 403 No: because of"), "{error}");
    }
}

#[test]
fn refusals_of_socks_name_the_proxy_and_the_server() {
    let refused = Server::start(|mut c| {
        c.bytes(4);
        c.send(b"\x05\x02");
        c.bytes(1 + 1 + 3 + 1 + PASSWORD.len());
        c.send(b"\x01\x01");
        c.closed();
    });
    let unknown = Server::start(|mut c| {
        c.bytes(4);
        c.send(WELCOME);
        c.bytes(18);
        c.send(b"\x05\x04\0\x01\0\0\0\0\0\0");
        c.closed();
    });
    for (server, told) in
        [(refused, "the proxy refused the user or the password"), (unknown, "host cannot be reached")]
    {
        let error = get(through(&proxy("socks5", LOGIN, &server), "http://api.example:8080"));
        assert!(error.is_connect(), "{error:?}");
        let text = error.to_string();
        let at =
            format!("connect to api.example:8080 through the proxy socks5://127.0.0.1:{}: ", server.port());
        assert!(text.contains(&at) && text.contains(told), "{text}");
        assert!(!format!("{error:?} {text}").contains("s3cret"), "{error:?}");
    }
}

#[test]
fn a_stop_ends_the_wait_for_socks() {
    for answers in [&[][..], WELCOME, &[WELCOME, &CONNECTED[..6]].concat()[..]] {
        let answers = answers.to_vec();
        let (server, reached) = server(move |c| {
            c.bytes(3);
            c.send(&answers);
        });
        let config = through(&proxy("socks5", "", &server), "http://api.example:8080");
        let api = config_maps(&Client::new(config).unwrap());
        assert_stopped(stop_when(reached, |stop| api.with_stop(stop).get("a")));
    }
}

#[test]
fn a_proxy_that_is_down_is_named() {
    for server in ["http://api.example:8080", "http://127.0.0.1:1"] {
        let url = refusing();
        let error = get(through(&url.replace("http://", &format!("http://{LOGIN}")), server));
        assert!(error.is_connect(), "{error:?}");
        assert!(error.to_string().contains(&format!("through the proxy {url}: no connection")), "{error}");
    }
}

/// An answer of the proxy in place of the server's is one like any other.
#[test]
fn a_refused_request_for_an_http_server_keeps_the_proxys_code() {
    let server = Server::start(|c| c.serve(|c, _| c.answer(407, "", "log in first")));
    let error = get(through(&proxy("http", "", &server), "http://api.example:8080"));
    assert_eq!(error.code(), Some(407));
    assert!(error.to_string().contains("log in first"), "{error}");
}

/// Prints all that is logged.
struct Print(Mutex<()>);

impl log::Log for Print {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let _lock = self.0.lock().unwrap();
        println!("{} {} {}", record.level(), record.target(), record.args());
    }

    fn flush(&self) {}
}

/// The environment belongs to the process, so this runs in one of its own.
#[test]
fn issue_kube_1587_the_environment_is_read_when_a_client_is_made_and_its_password_is_never_shown() {
    const HERE: &str = "LISTWATCH_TEST_PROXIED";
    static PRINT: Print = Print(Mutex::new(()));
    if std::env::var_os(HERE).is_some() {
        log::set_logger(&PRINT).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
        let config = config("http://api.example:8080").with_credentials(Credentials::token(TOKEN).unwrap());
        let client = Client::new(config.clone()).unwrap();
        config_maps(&client).get("a").unwrap();
        println!("{config:?} {client:?} {}", config_maps(&client).get("refused").unwrap_err());
        return;
    }
    let server = Server::start(|c| {
        c.serve(|c, seen| {
            let code = if seen.line.ends_with("refused") { 403 } else { 200 };
            c.json(code, config_map("a"));
        });
    });
    let name = "proxies::issue_kube_1587_the_environment_is_read_when_a_client_is_made_and_its_password_is_never_shown";
    let mut child = Command::new(std::env::current_exe().unwrap());
    for variable in ["HTTP_PROXY", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "REQUEST_METHOD"] {
        child.env_remove(variable);
    }
    child.env(HERE, "1").env("http_proxy", proxy("http", LOGIN, &server).replace("http://", ""));
    let output = child.args(["--exact", name, "--nocapture"]).output().unwrap();
    let shown =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{shown}");
    let seen = server.next();
    assert!(seen.line.starts_with("GET http://api.example:8080/"), "{seen:?}");
    assert_eq!(seen.headers("proxy-authorization"), [BASIC]);
    assert!(
        shown.contains("listwatch::http") && shown.contains("TRACE") && shown.contains("ureq::run"),
        "{shown}"
    );
    // Some logs are dumps of bytes, with 16 of them in a row as text.
    let shown =
        shown.lines().map(|line| line.rsplit(' ').next().unwrap_or(line)).collect::<String>() + &shown;
    for secret in ["s3cret", BASIC.split_once(' ').unwrap().1, TOKEN] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
}

#[test]
fn a_client_without_a_proxy_forgets_the_one_that_was_set() {
    let server = Server::start(|c| c.serve(answer));
    let config = through(&refusing(), &server.url()).with_timeout(LONG).without_proxy();
    config_maps(&Client::new(config).unwrap()).get("a").unwrap();
    assert!(server.next().line.starts_with("GET /api/"));
}
