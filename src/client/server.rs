//! What the server says of itself: its version, and whether it is well.

use std::fmt;

use serde::Deserialize;

use super::{Client, LARGEST_REFUSAL, Method, RawRequest};
use crate::error::Result;
use crate::http::Limits;
use crate::object::{Status, cut, nullable};

/// The longest account of failed checks that an error holds, in bytes.
const LONGEST_ACCOUNT: usize = 2 << 10;

/// Which Kubernetes a server is: `version.Info` of apimachinery. Prints as `v1.37.2`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Version {
    /// `1`; see [`number`](Self::number).
    #[serde(deserialize_with = "nullable")]
    pub major: String,
    /// `37`, or `37+` where a vendor has changed it; see [`number`](Self::number).
    #[serde(deserialize_with = "nullable")]
    pub minor: String,
    /// `v1.37.2`, `v1.37.2-gke.100`, `v1.37.2+k3s1`.
    #[serde(deserialize_with = "nullable")]
    pub git_version: String,
    /// What it was built from.
    #[serde(deserialize_with = "nullable")]
    pub git_commit: String,
    /// When it was built, as RFC 3339.
    #[serde(deserialize_with = "nullable")]
    pub build_date: String,
    /// By which Go.
    #[serde(deserialize_with = "nullable")]
    pub go_version: String,
    /// What the server runs on: `linux/amd64`.
    #[serde(deserialize_with = "nullable")]
    pub platform: String,
}

impl Version {
    /// Major and minor version, to be compared: `(1, 37)`. `None` if the server names none.
    #[must_use]
    pub fn number(&self) -> Option<(u32, u32)> {
        let digits = |text: &str| {
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            text[..end].parse().ok()
        };
        Some((digits(&self.major)?, digits(&self.minor)?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.git_version)
    }
}

impl Client {
    /// Which Kubernetes the server is.
    ///
    /// # Errors
    /// If the server refuses, or the connection fails.
    pub fn version(&self) -> Result<Version> {
        self.request(&RawRequest::new(Method::Get, "/version")).map_err(|e| e.context("ask for the version"))
    }

    /// Whether the server takes requests and is to get some (`/readyz`). It is not while it starts, and while it ends
    /// itself.
    ///
    /// Asked once and not again, though the server may say when to come back: who waits asks again.
    ///
    /// # Errors
    /// If it is not ready: the error has a [`code`](crate::Error::code), mostly 500, and names the checks that failed. If the
    /// server refuses to tell (401, 403), or the connection fails.
    pub fn readyz(&self) -> Result<()> {
        self.probe("/readyz")
    }

    /// Whether the server lives (`/livez`); if not, it should be started anew. Asked as by [`readyz`](Self::readyz).
    ///
    /// # Errors
    /// As those of [`readyz`](Self::readyz).
    pub fn livez(&self) -> Result<()> {
        self.probe("/livez")
    }

    fn probe(&self, path: &str) -> Result<()> {
        let ask = || {
            let request = RawRequest::new(Method::Get, path);
            let mut answer = self.send(&request, Limits::Total(self.timeout()), self.stop(), false)?;
            let mut body = Vec::new();
            let end = answer.body.read_to_end(LARGEST_REFUSAL, self.until(), &mut body);
            match answer.code() {
                200..=299 => end,
                code => Err(unwell(code, &body).into()),
            }
        };
        ask().map_err(|e| e.context(format!("GET {path}")))
    }
}

/// The checks that failed, of a list as apiserver's `healthz` writes it when one has.
fn unwell(code: u16, body: &[u8]) -> Status {
    let mut status = Status::from_body(code, body);
    let text = String::from_utf8_lossy(body);
    let failed: Vec<_> = text.lines().filter_map(|line| line.trim().strip_prefix("[-]")).collect();
    if !failed.is_empty() {
        let all = failed.join("; ");
        let (account, more) = cut(&all, LONGEST_ACCOUNT);
        status.message = format!("{account}{more}");
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_whatever_a_vendor_adds() {
        let of = |json: &str| serde_json::from_str::<Version>(json).unwrap().number();
        assert_eq!(of(r#"{"major":"1","minor":"27+","gitVersion":"v1.27.3-gke.100"}"#), Some((1, 27)));
        assert_eq!(of(r#"{"major":"1","minor":"9"}"#), Some((1, 9)));
        for none in [
            r#"{"major":"","minor":null}"#,
            "{}",
            r#"{"major":"x1","minor":"2"}"#,
            r#"{"major":"1","minor":"99999999999"}"#,
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
