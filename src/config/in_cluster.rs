use std::ffi::OsStr;
use std::path::Path;

use super::{Config, Credentials, Env, Pem, TlsOptions};
use crate::error::{Error, Result};

/// Where the kubelet puts a pod's service account.
pub(super) const DIRECTORY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// As client-go's `rest.InClusterConfig`, but a missing CA is an error: without it no connection would be trusted.
pub(super) fn load(env: Env<'_>, directory: &Path) -> Result<Config> {
    let variable = |name: &str| {
        let value = env(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| Error::config(format!("not in a cluster: {name} is not set")))
    };
    let text = |name: &str| {
        let value = variable(name)?;
        value.into_string().map_err(|_| Error::config(format!("{name} is not UTF-8")))
    };
    let (host, port) = (text("KUBERNETES_SERVICE_HOST")?, text("KUBERNETES_SERVICE_PORT")?);
    let bare_ipv6 = host.contains(':') && !host.starts_with('[');
    let host = if bare_ipv6 { format!("[{host}]") } else { host };

    let credentials = Credentials::token_file(directory.join("token"));
    credentials.check_file().map_err(|error| error.context("in-cluster configuration"))?;
    let ca = Pem::File(directory.join("ca.crt"));
    ca.read().map_err(|error| error.context("in-cluster configuration"))?;

    let config = Config::new(&format!("https://{host}:{port}"))
        .map_err(|error| error.context("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT"))?
        .with_tls(TlsOptions { ca: Some(ca), ..TlsOptions::default() })
        .with_credentials(credentials);
    Ok(match namespace(env, directory) {
        Some(namespace) => config.with_namespace(namespace),
        None => config,
    })
}

/// A pod may run without the file, so its absence is no error.
fn namespace(env: Env<'_>, directory: &Path) -> Option<String> {
    let named = env("POD_NAMESPACE").as_deref().and_then(OsStr::to_str).map(str::to_owned);
    named
        .or_else(|| std::fs::read_to_string(directory.join("namespace")).ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::testing::Dir;
    use super::*;
    use crate::clock::Clock;

    fn pod() -> Dir {
        let dir = Dir::new();
        dir.write("token", "tok-pod\n");
        dir.write("ca.crt", "-----BEGIN CERTIFICATE-----");
        dir.write("namespace", "team-a\n");
        dir
    }

    fn load_with(dir: &Dir, variables: &[(&str, &str)]) -> Result<Config> {
        let env = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        load(&env, &dir.path(""))
    }

    const SERVICE: [(&str, &str); 2] =
        [("KUBERNETES_SERVICE_HOST", "10.96.0.1"), ("KUBERNETES_SERVICE_PORT", "443")];

    #[test]
    fn reads_the_service_account() {
        let dir = pod();
        let config = load_with(&dir, &SERVICE).unwrap();
        assert_eq!((config.server(), config.namespace()), ("https://10.96.0.1:443", "team-a"));
        assert!(matches!(&config.tls().ca, Some(Pem::File(path)) if *path == dir.path("ca.crt")));
        let header = config.credentials().authorization(&Clock::manual()).unwrap();
        assert_eq!(header.as_deref(), Some("Bearer tok-pod"));
    }

    #[test]
    fn an_ipv6_host_gets_brackets() {
        for host in ["fd00::1", "[fd00::1]"] {
            let variables = [("KUBERNETES_SERVICE_HOST", host), ("KUBERNETES_SERVICE_PORT", "6443")];
            assert_eq!(load_with(&pod(), &variables).unwrap().server(), "https://[fd00::1]:6443");
        }
    }

    #[test]
    fn the_namespace_may_come_from_the_environment_or_be_missing() {
        let (dir, [host, port]) = (pod(), SERVICE);
        let named = load_with(&dir, &[host, port, ("POD_NAMESPACE", "team-b")]).unwrap();
        assert_eq!(named.namespace(), "team-b");
        std::fs::remove_file(dir.path("namespace")).unwrap();
        assert_eq!(load_with(&dir, &SERVICE).unwrap().namespace(), "default");
    }

    #[test]
    fn what_is_missing_is_named() {
        let (dir, [host, port]) = (pod(), SERVICE);
        let message = |variables: &[_]| load_with(&dir, variables).unwrap_err().to_string();
        assert!(message(&[port]).contains("KUBERNETES_SERVICE_HOST is not set"));
        assert!(
            message(&[host, ("KUBERNETES_SERVICE_PORT", "")]).contains("KUBERNETES_SERVICE_PORT is not set")
        );
        assert!(message(&[host, ("KUBERNETES_SERVICE_PORT", "x")]).contains("KUBERNETES_SERVICE_PORT"));
        std::fs::remove_file(dir.path("ca.crt")).unwrap();
        assert!(message(&SERVICE).contains("ca.crt"));
        dir.write("token", "");
        assert!(message(&SERVICE).contains("token is empty"));
    }
}
