//! Which proxy the server is reached through: the one that is set, or what the environment says, read as Go's
//! `golang.org/x/net/http/httpproxy` reads it, since client-go does.

use std::fmt;
use std::net::IpAddr;

use log::warn;

use super::url::Url;
use super::{Env, Secret};
use crate::base64_text;
use crate::error::{Error, Result};

/// A proxy to go through. Shown without its user and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proxy {
    pub(crate) kind: ProxyKind,
    /// Without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// User and password.
    pub(crate) login: Option<(Secret, Secret)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyKind {
    Http,
    /// HTTP over TLS.
    Https,
    Socks5,
}

impl Proxy {
    pub(super) fn new(url: &Url) -> Result<Self, &'static str> {
        let kind = match &*url.scheme {
            "http" => ProxyKind::Http,
            "https" => ProxyKind::Https,
            // Both have the proxy look up names, as in Go.
            "socks5" | "socks5h" => ProxyKind::Socks5,
            _ => return Err("the scheme must be http, https, socks5 or socks5h"),
        };
        let (host, port) = url.address()?;
        let login = url.user.as_ref();
        if let (ProxyKind::Socks5, Some((user, password))) = (kind, login) {
            // RFC 1929 has a byte for each length, and no user without a name.
            if user.is_empty() || user.len() > 255 || password.len() > 255 {
                return Err("a user and a password for SOCKS have 1 to 255 bytes");
            }
        }
        let login = login.map(|(user, password)| (Secret::new(user), Secret::new(password)));
        Ok(Self { kind, host, port, login })
    }

    /// The value of `Proxy-Authorization`.
    pub(crate) fn authorization(&self) -> Option<Secret> {
        let (user, password) = self.login.as_ref()?;
        let pair = format!("{}:{}", user.expose(), password.expose());
        Some(Secret::new(format!("Basic {}", base64_text::encode(pair.as_bytes()))))
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            ProxyKind::Http => "http",
            ProxyKind::Https => "https",
            ProxyKind::Socks5 => "socks5",
        };
        let (host, port) = (&self.host, self.port);
        if host.contains(':') {
            write!(f, "{scheme}://[{host}]:{port}")
        } else {
            write!(f, "{scheme}://{host}:{port}")
        }
    }
}

/// The proxy that the environment has for a server. One that cannot be used is an error, where Go goes around it.
pub(super) fn from_environment(server: &Url, env: Env<'_>) -> Result<Option<Proxy>> {
    let https = server.scheme == "https";
    let names = if https { ["HTTPS_PROXY", "https_proxy"] } else { ["HTTP_PROXY", "http_proxy"] };
    let Some((name, value)) = variable(env, names)? else { return Ok(None) };
    let (host, port) = server.address().map_err(|why| Error::config(format!("server: {why}")))?;
    let exempt = variable(env, ["NO_PROXY", "no_proxy"])?.map_or_else(String::new, |(_, list)| list);
    if goes_direct(&host, port, &exempt) {
        return Ok(None);
    }
    // A web server hands the header `Proxy` of a request to its CGI programs under this name.
    if !https && env("REQUEST_METHOD").is_some_and(|method| !method.is_empty()) {
        warn!(target: "listwatch::config", "{name} is not used, as REQUEST_METHOD is set: this is a CGI program");
        return Ok(None);
    }
    let bad = |why| Error::config(format!("{name} {:?} is no proxy: {why}", super::url::redacted(&value)));
    Url::with_scheme(&value).and_then(|url| Proxy::new(&url)).map(Some).map_err(bad)
}

/// The first that is set and not empty.
fn variable(env: Env<'_>, names: [&'static str; 2]) -> Result<Option<(&'static str, String)>> {
    let set = names.into_iter().find_map(|name| Some((name, env(name).filter(|value| !value.is_empty())?)));
    let Some((name, value)) = set else { return Ok(None) };
    let value = value.into_string().map_err(|_| Error::config(format!("{name} is not UTF-8")))?;
    Ok(Some((name, value)))
}

/// Whether a server is reached without the proxy of the environment: what is on this machine, and what `NO_PROXY` lists.
fn goes_direct(host: &str, port: u16, list: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let address = address_of(&host);
    host == "localhost"
        || address.is_some_and(|ip| ip.is_loopback())
        || list.split(',').any(|entry| covers(&entry.trim().to_ascii_lowercase(), &host, address, port))
}

/// Whether one entry of `NO_PROXY` means this server.
fn covers(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Some((network, bits)) = network_of(entry) {
        return address.is_some_and(|ip| is_in(ip, network, bits));
    }
    let (name, only_port) = split_port(entry);
    if !only_port.is_empty() && only_port != port.to_string() {
        return false;
    }
    if let Some(ip) = address_of(name.trim_start_matches('[').trim_end_matches(']')) {
        return address == Some(ip);
    }
    // `.example.test` and `*.example.test` are the names below alone.
    let name = if name.starts_with("*.") { &name[1..] } else { name };
    match name.strip_prefix('.') {
        Some(parent) => is_below(host, parent),
        None => !name.is_empty() && (host == name || is_below(host, name)),
    }
}

fn is_below(host: &str, parent: &str) -> bool {
    host.strip_suffix(parent).is_some_and(|before| before.ends_with('.'))
}

/// An IPv4 address in the form of IPv6 is the former.
fn address_of(text: &str) -> Option<IpAddr> {
    text.parse().ok().map(|ip: IpAddr| ip.to_canonical())
}

fn network_of(text: &str) -> Option<(IpAddr, u32)> {
    let (network, bits) = text.split_once('/')?;
    let network: IpAddr = network.parse().ok()?;
    let most = if network.is_ipv4() { 32 } else { 128 };
    let bits = bits.parse().ok().filter(|bits| *bits <= most)?;
    Some((network, bits))
}

fn is_in(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            (a.to_bits() ^ b.to_bits()).checked_shr(32 - bits).unwrap_or(0) == 0
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            (a.to_bits() ^ b.to_bits()).checked_shr(128 - bits).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// What is before the port, and the port; of an IPv6 address only what follows its brackets is one.
fn split_port(entry: &str) -> (&str, &str) {
    match entry.rsplit_once(':') {
        Some((host, port)) if host.ends_with(']') || !host.contains(':') => (host, port),
        _ => (entry, ""),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::Config;
    use super::*;

    /// What a server is reached through in an environment, or the error.
    fn through(server: &str, variables: &[(&str, &str)]) -> String {
        let env = |name: &str| -> Option<OsString> {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
        };
        match Config::new(server).unwrap().proxy(&env) {
            Ok(Some(proxy)) => proxy.to_string(),
            Ok(None) => "direct".into(),
            Err(e) => {
                assert!(e.is_config(), "{e:?}");
                e.to_string()
            }
        }
    }

    /// Whether the server is exempt by this list.
    fn exempt(server: &str, list: &str) -> bool {
        let variables = [("HTTPS_PROXY", "proxy.test"), ("HTTP_PROXY", "proxy.test"), ("NO_PROXY", list)];
        through(server, &variables) == "direct"
    }

    #[test]
    fn the_variable_is_that_of_the_servers_scheme() {
        let (https, http) = ("https://api.test:6443", "http://api.test:8080");
        for (variables, of_https, of_http) in [
            (vec![], "direct", "direct"),
            (vec![("HTTPS_PROXY", "http://s.test:1")], "http://s.test:1", "direct"),
            (vec![("https_proxy", "http://s.test:1")], "http://s.test:1", "direct"),
            (vec![("HTTP_PROXY", "http://h.test:2")], "direct", "http://h.test:2"),
            (vec![("http_proxy", "http://h.test:2")], "direct", "http://h.test:2"),
            (vec![("ALL_PROXY", "http://a.test"), ("all_proxy", "http://a.test")], "direct", "direct"),
            (
                vec![("HTTPS_PROXY", "upper.test"), ("https_proxy", "lower.test")],
                "http://upper.test:80",
                "direct",
            ),
            (vec![("HTTPS_PROXY", ""), ("https_proxy", "lower.test")], "http://lower.test:80", "direct"),
            (vec![("HTTP_PROXY", "h.test"), ("REQUEST_METHOD", "GET")], "direct", "direct"),
            (vec![("HTTPS_PROXY", "s.test"), ("REQUEST_METHOD", "GET")], "http://s.test:80", "direct"),
            (vec![("HTTP_PROXY", "h.test"), ("REQUEST_METHOD", "")], "direct", "http://h.test:80"),
        ] {
            assert_eq!(through(https, &variables), of_https, "{variables:?}");
            assert_eq!(through(http, &variables), of_http, "{variables:?}");
        }
    }

    #[test]
    fn a_variable_may_leave_out_the_scheme() {
        for (value, proxy) in [
            ("proxy.test", "http://proxy.test:80"),
            ("proxy.test:3128", "http://proxy.test:3128"),
            ("10.0.0.1:3128", "http://10.0.0.1:3128"),
            ("bob:pw@proxy.test:3128", "http://proxy.test:3128"),
            ("[fd00::1]:3128", "http://[fd00::1]:3128"),
            ("http://proxy.test", "http://proxy.test:80"),
            ("HTTPS://proxy.test/path?query", "https://proxy.test:443"),
            ("socks5://proxy.test", "socks5://proxy.test:1080"),
            ("socks5h://[fd00::1]:99", "socks5://[fd00::1]:99"),
        ] {
            assert_eq!(through("https://api.test", &[("HTTPS_PROXY", value)]), proxy, "{value}");
        }
    }

    #[test]
    fn a_variable_that_is_no_proxy_is_an_error_unless_it_is_not_used() {
        for (value, why) in [
            ("socks4://bob:hidden@proxy.test", "the scheme must be"),
            ("http://bob:hidden@proxy.test:99999", "the port"),
            ("http://bob:hidden@proxy test", "a character"),
            ("http://", "no host"),
            ("socks5://:hidden@proxy.test", "SOCKS"),
        ] {
            let error = through("https://api.test", &[("https_proxy", value)]);
            assert!(error.starts_with("https_proxy \"") && error.contains(why), "{value}: {error}");
            assert!(!error.contains("hidden"), "{error}");
            let exempt = [("https_proxy", value), ("no_proxy", "api.test")];
            assert_eq!(through("https://api.test", &exempt), "direct");
        }
    }

    #[test]
    fn issue_kube_1203_what_no_proxy_lists_is_reached_directly() {
        for (list, server, direct) in [
            ("", "https://api.test", false),
            (" , ,", "https://api.test", false),
            ("*", "https://api.test", true),
            ("other.test, *", "https://api.test", true),
            // Names: themselves, and all below.
            ("api.test", "https://api.test", true),
            ("API.Test", "https://aPi.tEST", true),
            ("test", "https://api.test", true),
            ("api.test", "https://a.b.api.test", true),
            ("api.test", "https://xapi.test", false),
            ("pi.test", "https://api.test", false),
            ("other.test,  api.test  ,x", "https://api.test", true),
            ("other.test api.test", "https://api.test", false),
            (".test", "https://api.test", true),
            (".api.test", "https://api.test", false),
            (".api.test", "https://a.api.test", true),
            ("*.api.test", "https://api.test", false),
            ("*.api.test", "https://a.api.test", true),
            ("*api.test", "https://api.test", false),
            (".svc,.cluster.local", "https://kubernetes.default.svc", true),
            // Ports: the server's own if it says none.
            ("api.test:443", "https://api.test", true),
            ("api.test:80", "http://api.test", true),
            ("api.test:6443", "https://api.test:6443", true),
            ("api.test:6443", "https://api.test", false),
            (".test:6443", "https://api.test:6443", true),
            ("api.test:", "https://api.test:6443", true),
            (":6443", "https://api.test:6443", false),
            // Addresses.
            ("10.96.0.1", "https://10.96.0.1", true),
            ("10.96.0.1", "https://10.96.0.10", false),
            ("10.96.0.1:6443", "https://10.96.0.1:6443", true),
            ("10.96.0.1:6443", "https://10.96.0.1", false),
            ("10.96.0.0/12", "https://10.96.0.1", true),
            ("10.96.0.0/12", "https://10.111.255.255:6443", true),
            ("10.96.0.0/12", "https://10.112.0.0", false),
            ("10.96.0.1/12", "https://10.100.0.1", true),
            ("0.0.0.0/0", "https://192.0.2.1", true),
            ("10.96.0.1/32", "https://10.96.0.1", true),
            ("10.96.0.0/33", "https://10.96.0.0", false),
            ("10.96.0.0/12", "https://10.96.0.1.test", false),
            ("0.0.0.0/0", "https://[fd00::1]", false),
            ("fd00::1", "https://[fd00::1]:6443", true),
            ("[fd00::1]", "https://[fd00::1]:6443", true),
            ("FD00:0::1", "https://[fd00::1]", true),
            ("[fd00::1]:6443", "https://[fd00::1]:6443", true),
            ("[fd00::1]:6443", "https://[fd00::1]", false),
            ("fd00::2", "https://[fd00::1]", false),
            ("fd00::/8", "https://[fd00::1]", true),
            ("fd00::/8", "https://[fe80::1]", false),
            ("::/0", "https://[fe80::1]", true),
            ("10.0.0.1", "https://[::ffff:10.0.0.1]", true),
        ] {
            assert_eq!(exempt(server, list), direct, "{server} with NO_PROXY={list}");
        }
        let lower = [("HTTPS_PROXY", "p.test"), ("NO_PROXY", ""), ("no_proxy", "api.test")];
        assert_eq!(through("https://api.test", &lower), "direct");
    }

    #[test]
    fn this_machine_is_never_reached_through_the_proxy_of_the_environment() {
        for server in
            ["localhost", "LocalHost:6443", "127.0.0.1", "127.8.9.1:80", "[::1]", "[::ffff:127.0.0.1]"]
        {
            assert!(exempt(&format!("https://{server}"), ""), "{server}");
            assert!(exempt(&format!("http://{server}"), ""), "{server}");
        }
        for server in ["localhost.test", "128.0.0.1", "[::2]"] {
            assert!(!exempt(&format!("https://{server}"), ""), "{server}");
        }
    }

    #[test]
    fn issue_kube_1013_what_is_set_goes_before_the_environment() {
        let env = |name: &str| -> Option<OsString> {
            match name {
                "HTTPS_PROXY" => Some("http://env.test:1".into()),
                "NO_PROXY" => Some("*".into()),
                _ => None,
            }
        };
        for server in ["https://api.test", "https://127.0.0.1"] {
            let config = Config::new(server).unwrap().with_proxy_url("socks5://u:p@set.test").unwrap();
            let proxy = config.proxy(&env).unwrap().unwrap();
            assert_eq!(proxy.to_string(), "socks5://set.test:1080");
            assert!(config.without_proxy().proxy(&env).unwrap().is_none());
        }
        let env = |name: &str| (name == "HTTPS_PROXY").then(|| "http://env.test:1".into());
        let config = Config::new("https://api.test").unwrap().without_proxy();
        assert!(config.proxy(&env).unwrap().is_none());
        let config = config.with_proxy_url("http://set.test").unwrap();
        assert_eq!(config.proxy(&env).unwrap().unwrap().to_string(), "http://set.test:80");
    }

    #[test]
    fn a_set_proxy_that_cannot_be_dialled_is_an_error_of_the_client() {
        for url in ["http://proxy.test:99999", "http:", "socks5://:hidden@x"] {
            let config = Config::new("https://api.test").unwrap().with_proxy_url(url).unwrap();
            let error = config.proxy(&|_| None).unwrap_err().to_string();
            assert!(error.starts_with("proxy-url \"") && !error.contains("hidden"), "{error}");
        }
    }

    #[test]
    fn user_and_password_are_decoded_and_never_shown() {
        let config = Config::new("https://api.test").unwrap();
        let config = config.with_proxy_url("http://b%6fb:p%40ss%3Aword@proxy.test").unwrap();
        let proxy = config.proxy(&|_| None).unwrap().unwrap();
        let header = proxy.authorization().unwrap();
        assert_eq!(header.expose(), format!("Basic {}", base64_text::encode(b"bob:p@ss:word")));
        assert!(!format!("{proxy} {proxy:?} {header:?}").contains("ss"), "{proxy:?}");
        let plain = config.with_proxy_url("http://proxy.test").unwrap().proxy(&|_| None).unwrap().unwrap();
        assert_eq!(plain.authorization(), None);
    }
}
