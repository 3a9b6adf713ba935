//! URLs of servers and proxies, read as Go's `net/url` reads them, since kubeconfig files are written for it.

use std::fmt;
use std::net::Ipv6Addr;

use crate::error::{Error, Result};

/// A URL without query and fragment.
#[derive(Debug, Default)]
pub(super) struct Url {
    pub(super) scheme: String,
    /// The user and password in the URL, decoded.
    pub(super) user: Option<(String, String)>,
    /// With the port, if there is one.
    host: String,
    /// Escaped; empty or starting with a slash.
    path: String,
}

impl Url {
    /// The URL of an API server. As client-go's `rest.DefaultServerURL`: what is no URL must be `host` or `host:port`,
    /// reached by http.
    pub(super) fn server(text: &str) -> Result<Self> {
        let bad = |why: &str| Error::config(format!("server {:?} is not a URL: {why}", redacted(text)));
        let url = match parse(text) {
            Ok(url) if !url.scheme.is_empty() && !url.host.is_empty() => url,
            _ => {
                let url = parse(&format!("http://{text}")).map_err(&bad)?;
                if !url.path.is_empty() && url.path != "/" {
                    return Err(bad("it must be a URL or host:port"));
                }
                url
            }
        };
        url.check_zone().map_err(&bad)?;
        if url.scheme != "http" && url.scheme != "https" {
            return Err(bad("the scheme must be http or https"));
        }
        if url.host.is_empty() || url.host.starts_with(':') {
            return Err(bad("there is no host"));
        }
        Ok(url)
    }

    /// The URL of a proxy.
    pub(super) fn proxy(text: &str) -> Result<Self> {
        let bad = |why: &str| Error::config(format!("proxy-url {:?} is not a URL: {why}", redacted(text)));
        let url = parse(text).map_err(&bad)?;
        match url.scheme.as_str() {
            "http" | "https" | "socks5" | "socks5h" => Ok(url),
            _ => Err(bad("the scheme must be http, https, socks5 or socks5h")),
        }
    }

    /// A URL that is `http` where it does not say.
    pub(super) fn with_scheme(text: &str) -> Result<Self, &'static str> {
        if text.contains("://") { parse(text) } else { parse(&format!("http://{text}")) }
    }

    /// A zone is the number of a network interface to the system, which nobody here can ask for.
    fn check_zone(&self) -> Result<(), &'static str> {
        let has_zone = self.host.starts_with('[') && self.host.contains('%');
        if has_zone { Err("an IPv6 address with a zone (%25) cannot be reached") } else { Ok(()) }
    }

    /// The host, decoded and without brackets, and the port, which may be the scheme's.
    pub(super) fn address(&self) -> Result<(String, u16), &'static str> {
        self.check_zone()?;
        let (host, port) = match self.host.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (&*self.host, ""),
        };
        let host = String::from_utf8(unescape(host.trim_start_matches('[').trim_end_matches(']'))?)
            .map_err(|_| "the host is not UTF-8")?;
        if host.is_empty() {
            return Err("there is no host");
        }
        let port = match (port, &*self.scheme) {
            ("", "https") => 443,
            ("", "socks5" | "socks5h") => 1080,
            ("", _) => 80,
            (port, _) => port.parse().map_err(|_| "the port is over 65535")?,
        };
        Ok((host, port))
    }
}

/// Without the user, and without a slash at the end.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = clean(&format!("/{}", self.path));
        write!(f, "{}://{}{}", self.scheme, self.host, if path == "/" { "" } else { &path })
    }
}

/// The text with whatever may be a user and password replaced.
pub(super) fn redacted(text: &str) -> String {
    let Some(end) = text.rfind('@') else { return text.into() };
    // Of `bob:a//b@host` all is user and password: a scheme has no colon before its own.
    let scheme = text[..end].find("//").filter(|at| !text[..*at].trim_end_matches(':').contains([':', '@']));
    let start = scheme.map_or(0, |at| at + 2);
    format!("{}***{}", &text[..start], &text[end..])
}

/// The shortest path of the same meaning: no empty segments, none of `.` and `..`. An empty path is `.`; one that
/// starts with a slash keeps it.
pub(super) fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." if kept.last().is_some_and(|last| *last != "..") => drop(kept.pop()),
            ".." if rooted => {}
            segment => kept.push(segment),
        }
    }
    match (rooted, kept.join("/")) {
        (true, path) => format!("/{path}"),
        (false, path) if path.is_empty() => ".".into(),
        (false, path) => path,
    }
}

fn parse(text: &str) -> Result<Url, &'static str> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("it holds a control character");
    }
    let text = text.split_once('#').map_or(text, |(before, _)| before);
    let (scheme, rest) = split_scheme(text)?;
    let mut url = Url { scheme: scheme.to_ascii_lowercase(), ..Url::default() };
    let mut rest = rest.split_once('?').map_or(rest, |(before, _)| before);
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            return Ok(url); // `mailto:someone`
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("the scheme is missing");
        }
    }
    let authority =
        if url.scheme.is_empty() && rest.starts_with("///") { None } else { rest.strip_prefix("//") };
    if let Some(authority) = authority {
        let (authority, path) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
        rest = path;
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        check_host(host)?;
        url.host = escape(host, |byte| byte.is_ascii());
        url.user = user.map(split_user).transpose()?;
    }
    unescape(rest)?;
    url.path = escape(rest, |byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%[]".contains(&byte));
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), &'static str> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("the scheme is missing"),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn split_user(text: &str) -> Result<(String, String), &'static str> {
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)) {
        return Err("the user or password must be percent-encoded");
    }
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let decode = |part| String::from_utf8(unescape(part)?).map_err(|_| "the user or password is not UTF-8");
    Ok((decode(user)?, decode(password)?))
}

fn check_host(host: &str) -> Result<(), &'static str> {
    let port = if let Some(rest) = host.strip_prefix('[') {
        let (address, port) = rest.rsplit_once(']').ok_or("the bracket of the host is not closed")?;
        let (address, zone) = address.split_once("%25").unwrap_or((address, ""));
        unescape(zone)?;
        address.parse::<Ipv6Addr>().map_err(|_| "what is in brackets must be an IPv6 address")?;
        port
    } else {
        let allowed = |byte: u8| {
            byte >= 0x80 || byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:<>\"%".contains(&byte)
        };
        if !host.bytes().all(allowed) {
            return Err("the host holds a character that it cannot");
        }
        if unescape(host)?.iter().filter(|byte| byte.is_ascii()).count()
            != host.bytes().filter(|byte| byte.is_ascii()).count() - 3 * host.matches('%').count()
        {
            return Err("the host holds an escaped character that it cannot");
        }
        &host[host.find(':').unwrap_or(host.len())..]
    };
    match port.strip_prefix(':') {
        None if port.is_empty() => Ok(()),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok(()),
        _ => Err("the port is not a number (an IPv6 address must be in brackets)"),
    }
}

fn unescape(text: &str) -> Result<Vec<u8>, &'static str> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => out.push((high * 16 + low) as u8),
            _ => return Err("a % is not followed by two hexadecimal digits"),
        }
    }
    Ok(out)
}

/// Percent-encodes all bytes but those to keep, which are ASCII.
pub(crate) fn escape(text: &str, keep: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if keep(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_normalised() {
        for (given, server) in [
            ("https://10.0.0.1", "https://10.0.0.1"),
            ("HTTPS://Example.test:6443/", "https://Example.test:6443"),
            ("https://example.test/k8s//clusters/./c-1/?x=y#z", "https://example.test/k8s/clusters/c-1"),
            ("https://[fd00::1]:6443/prefix/", "https://[fd00::1]:6443/prefix"),
            ("https://example.test/a b%20c", "https://example.test/a%20b%20c"),
            ("https://bücher.test", "https://b%C3%BCcher.test"),
            ("https://bob:pw@example.test", "https://example.test"),
            ("example.test:8080", "http://example.test:8080"),
            ("localhost", "http://localhost"),
        ] {
            assert_eq!(Url::server(given).unwrap().to_string(), server, "{given}");
        }
    }

    #[test]
    fn what_is_no_server_is_refused() {
        for given in [
            "",
            "https://",
            "https:///prefix",
            "https://:6443",
            "https://fd00::1",
            "https://[fd00::1",
            "https://[10.0.0.1]",
            "https://example.test:https",
            "https://example.test:+443",
            "https://example.test\\prefix",
            "https://exa mple.test",
            "https://a%20b.test",
            "https://example.test\n",
            "https:example.test",
            "example.test/prefix",
            "unix:///var/run/api.sock",
            "ftp://example.test",
            "https://example.test/%zz",
            "https://[fe80::1%25eth0]:6443",
        ] {
            let error = Url::server(given).unwrap_err();
            assert!(error.is_config() && error.to_string().contains("is not a URL"), "{given:?}: {error}");
        }
    }

    #[test]
    fn a_user_in_the_url_is_decoded_and_never_shown() {
        let url = Url::server("https://eve:p%40w@example.test").unwrap();
        assert_eq!(url.user, Some(("eve".into(), "p@w".into())));
        let error = Url::server("https://eve:hidden@example.test:x").unwrap_err().to_string();
        assert!(error.contains("https://***@example.test:x") && !error.contains("hidden"), "{error}");
        let error = Url::server("eve:hidden//@example.test").unwrap_err().to_string();
        assert!(error.contains("\"***@example.test") && !error.contains("hidden"), "{error}");
    }

    #[test]
    fn proxies_have_one_of_four_schemes() {
        for good in
            ["http://proxy.test:3128", "https://u:p@proxy.test", "socks5://[fd00::1]:1080", "socks5h://p"]
        {
            assert!(Url::proxy(good).is_ok(), "{good}");
        }
        for bad in ["ftp://proxy.test", "localhost:3128", "proxy.test", ":3128", "http://proxy.test\n"] {
            assert!(Url::proxy(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses_are_what_can_be_dialled() {
        for (given, host, port) in [
            ("https://example.test", "example.test", 443),
            ("http://example.test:", "example.test", 80),
            ("http://[fd00::1]", "fd00::1", 80),
            ("https://[fd00::1]:6443/x", "fd00::1", 6443),
            ("https://b\u{fc}cher.test", "b\u{fc}cher.test", 443),
        ] {
            assert_eq!(Url::server(given).unwrap().address().unwrap(), (host.into(), port), "{given}");
        }
        assert!(Url::server("https://example.test:65536").unwrap().address().is_err());
        for zone in ["https://[fe80::1%25eth0]:6443", "http://[fe80::1%25]"] {
            assert!(Url::server(zone).unwrap_err().to_string().contains("zone"), "{zone}");
            assert!(Url::proxy(zone).unwrap().address().unwrap_err().contains("zone"), "{zone}");
        }
    }

    #[test]
    fn paths_are_cleaned() {
        for (given, path) in [
            ("", "."),
            ("/", "/"),
            ("a//b/./c/", "a/b/c"),
            ("a/../../b", "../b"),
            ("/../a", "/a"),
            ("a/..", "."),
        ] {
            assert_eq!(clean(given), path, "{given:?}");
        }
    }
}
