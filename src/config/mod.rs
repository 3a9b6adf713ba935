//! Where the API server is and who we are: by hand, from inside a cluster, or from kubeconfig files.
//!
//! Nothing here opens a connection or starts a process; files are read.

mod credentials;
mod in_cluster;
#[cfg(feature = "kubeconfig")]
mod kubeconfig;
mod pem;
#[cfg(test)]
mod testing;
mod url;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

pub use credentials::Credentials;
pub(crate) use credentials::Secret;
#[cfg(feature = "kubeconfig")]
pub use kubeconfig::KubeconfigOptions;
pub use pem::{ClientCertificate, Pem, TlsOptions};

pub(crate) use self::url::escape;

use self::url::Url;
use crate::clock::Clock;
use crate::error::Result;

/// Looks up an environment variable; tests give their own.
type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Where the API server is, how to reach it, and who we are.
///
/// ```
/// # use listwatch::{Config, Credentials};
/// # use std::time::Duration;
/// let config = Config::new("https://10.0.0.1:6443")?
///     .with_credentials(Credentials::token("secret")?)
///     .with_namespace("team-a")
///     .with_timeout(Duration::from_secs(10));
/// assert_eq!(config.server(), "https://10.0.0.1:6443");
/// assert!(!format!("{config:?}").contains("secret"));
/// # Ok::<(), listwatch::Error>(())
/// ```
#[derive(Clone)]
pub struct Config {
    server: String,
    namespace: String,
    tls: TlsOptions,
    credentials: Credentials,
    timeout: Duration,
    connect_timeout: Duration,
    user_agent: String,
    proxy_url: Option<String>,
    impersonate: Option<Impersonate>,
    compression: bool,
    clock: Clock,
}

/// As whom to act: sent as `Impersonate-*` headers, and allowed by RBAC's `impersonate` verb.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonate {
    /// The user's name; never empty.
    pub user: String,
    /// The user's uid, if it is to be sent.
    pub uid: Option<String>,
    /// The user's groups.
    pub groups: Vec<String>,
    /// Further attributes of the user, each with its values.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Config {
    /// The API server at a URL, `https://host:port/prefix`, without credentials. Without a scheme it is `http`, as in
    /// client-go. A user and password in the URL become [basic credentials](Credentials::basic).
    ///
    /// # Errors
    /// The URL is not one of an HTTP server.
    pub fn new(url: &str) -> Result<Self> {
        let url = Url::server(url)?;
        let credentials = match &url.user {
            Some((user, password)) => Credentials::basic(user, password),
            None => Credentials::none(),
        };
        Ok(Self {
            server: url.to_string(),
            namespace: "default".into(),
            tls: TlsOptions::default(),
            credentials,
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            user_agent: concat!("listwatch/", env!("CARGO_PKG_VERSION")).into(),
            proxy_url: None,
            impersonate: None,
            compression: true,
            clock: Clock::system(),
        })
    }

    /// The API server of the cluster that this program runs in, as its service account.
    ///
    /// Reads `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`, and below
    /// `/var/run/secrets/kubernetes.io/serviceaccount` the files `token` (read again as it rotates), `ca.crt` and
    /// `namespace` (unless `POD_NAMESPACE` is set).
    ///
    /// # Errors
    /// A variable is not set, or `token` or `ca.crt` cannot be read.
    pub fn in_cluster() -> Result<Self> {
        in_cluster::load(&|name| std::env::var_os(name), in_cluster::DIRECTORY.as_ref())
    }

    /// As kubectl finds it: the files of `$KUBECONFIG`, else `~/.kube/config`; then, if they hold no configuration,
    /// the [cluster](Self::in_cluster) that this program runs in. Without the feature `kubeconfig`: only the latter.
    ///
    /// # Errors
    /// A kubeconfig exists but cannot be used (this never falls through to the cluster), or there is neither; then
    /// the error says what is missing of both.
    pub fn infer() -> Result<Self> {
        infer(&|name| std::env::var_os(name), in_cluster::DIRECTORY.as_ref())
    }

    /// From kubeconfig files, by kubectl's rules.
    ///
    /// Several files are merged: the first that holds a name wins, with its whole entry. Relative paths are relative
    /// to the file that holds the entry. Every entry must be well-formed, also one that is not used.
    ///
    /// Refused, where kubectl silently does something else than was written:
    /// - a server without a scheme, with credentials or an authority (client-go speaks http to it, and drops them);
    /// - a context whose cluster is not there (client-go may go on as the service account of the cluster it runs in);
    /// - anything behind the first YAML document (it is never read).
    ///
    /// Nor are host names taken that are not ASCII. For all else the verdict is that of client-go's `clientcmd`: 500
    /// recorded cases are in the crate's tests.
    ///
    /// # Errors
    /// A file cannot be read or is not a kubeconfig, the context asked for does not exist, the files hold no
    /// configuration at all, or it cannot be used: the error names the file, the entry and the field.
    #[cfg(feature = "kubeconfig")]
    pub fn from_kubeconfig(options: &KubeconfigOptions) -> Result<Self> {
        kubeconfig::load(options, &|name| std::env::var_os(name))?
    }

    /// From the text of one kubeconfig. Relative paths in it are relative to the current directory;
    /// [paths](KubeconfigOptions::with_path) in the options are not read.
    ///
    /// # Errors
    /// As those of [`from_kubeconfig`](Self::from_kubeconfig).
    #[cfg(feature = "kubeconfig")]
    pub fn from_kubeconfig_text(yaml: &str, options: &KubeconfigOptions) -> Result<Self> {
        kubeconfig::load_text(yaml, options)
    }

    /// The API server's URL: `https://10.0.0.1:443/prefix`, without a slash at the end, IPv6 hosts in brackets.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The namespace that is meant where none is named; `default` if the configuration does not say.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whom to trust, and our certificate.
    #[must_use]
    pub fn tls(&self) -> &TlsOptions {
        &self.tls
    }

    /// What goes into the `Authorization` header.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// The time limit of one call, from start to the last byte. Of lists, which may be long, it limits the wait for the
    /// head of the answer and each silence after it; of watches only the former. 30 s if not set.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The time limit of making one connection, TLS included. 10 s if not set.
    #[must_use]
    pub fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// The `User-Agent` header.
    #[must_use]
    pub fn user_agent(&self) -> &str {
        &self.user_agent
    }

    /// The proxy to go through, with its user and password if it has any. [`Client`](crate::Client) cannot use one yet,
    /// and refuses to go around it.
    #[must_use]
    pub fn proxy_url(&self) -> Option<&str> {
        self.proxy_url.as_deref()
    }

    /// As whom to act, if not as ourselves.
    #[must_use]
    pub fn impersonate(&self) -> Option<&Impersonate> {
        self.impersonate.as_ref()
    }

    /// Whether to ask for compressed answers (a kubeconfig can say `disable-compression`). Without the feature `gzip`
    /// that is never done.
    #[must_use]
    pub fn compression(&self) -> bool {
        self.compression
    }

    /// The clock of all waits and deadlines.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Sets [`namespace`](Self::namespace).
    #[must_use]
    pub fn with_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Sets [`tls`](Self::tls).
    #[must_use]
    pub fn with_tls(mut self, tls: TlsOptions) -> Self {
        self.tls = tls;
        self
    }

    /// Sets [`credentials`](Self::credentials).
    #[must_use]
    pub fn with_credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// Sets [`timeout`](Self::timeout).
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets [`connect_timeout`](Self::connect_timeout).
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets [`user_agent`](Self::user_agent).
    #[must_use]
    pub fn with_user_agent(mut self, user_agent: impl Into<String>) -> Self {
        self.user_agent = user_agent.into();
        self
    }

    /// Sets [`proxy_url`](Self::proxy_url): `http`, `https` or `socks5`.
    ///
    /// # Errors
    /// The URL is not one of such a proxy.
    pub fn with_proxy_url(mut self, url: &str) -> Result<Self> {
        Url::proxy(url)?;
        self.proxy_url = Some(url.into());
        Ok(self)
    }

    /// Sets [`impersonate`](Self::impersonate).
    #[must_use]
    pub fn with_impersonate(mut self, impersonate: Impersonate) -> Self {
        self.impersonate = Some(impersonate);
        self
    }

    /// Sets [`compression`](Self::compression).
    #[must_use]
    pub fn with_compression(mut self, compression: bool) -> Self {
        self.compression = compression;
        self
    }

    /// Sets [`clock`](Self::clock).
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
}

#[cfg(feature = "kubeconfig")]
fn infer(env: Env<'_>, service_account: &std::path::Path) -> Result<Config> {
    match kubeconfig::load(&KubeconfigOptions::default(), env)? {
        Ok(config) => Ok(config),
        Err(missing) => in_cluster::load(env, service_account)
            .map_err(|error| crate::Error::config(format!("no configuration: {missing}; {error}"))),
    }
}

#[cfg(not(feature = "kubeconfig"))]
fn infer(env: Env<'_>, service_account: &std::path::Path) -> Result<Config> {
    in_cluster::load(env, service_account).map_err(|error| error.context("no configuration"))
}

/// The proxy's user and password are left out; the other fields keep their own secrets.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("server", &self.server)
            .field("namespace", &self.namespace)
            .field("tls", &self.tls)
            .field("credentials", &self.credentials)
            .field("timeout", &self.timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("user_agent", &self.user_agent)
            .field("proxy_url", &self.proxy_url.as_deref().map(url::redacted))
            .field("impersonate", &self.impersonate)
            .field("compression", &self.compression)
            .field("clock", &self.clock)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "kubeconfig")]
    use super::testing::Dir;
    use super::*;

    fn header(config: &Config) -> Option<String> {
        config.credentials().authorization(&Clock::manual()).unwrap()
    }

    #[test]
    fn defaults_are_those_of_the_docs() {
        let config = Config::new("https://10.0.0.1/").unwrap();
        assert_eq!((config.server(), config.namespace()), ("https://10.0.0.1", "default"));
        assert_eq!(config.timeout(), Duration::from_secs(30));
        assert_eq!(config.connect_timeout(), Duration::from_secs(10));
        assert_eq!(config.user_agent(), "listwatch/0.1.0");
        assert!(config.compression() && config.proxy_url().is_none() && config.impersonate().is_none());
        assert_eq!(header(&config), None);
    }

    #[test]
    fn a_user_in_the_url_becomes_credentials() {
        let config = Config::new("https://bob:s3cret@example.test").unwrap();
        assert_eq!(config.server(), "https://example.test");
        assert_eq!(header(&config).as_deref(), Some("Basic Ym9iOnMzY3JldA=="));
    }

    #[test]
    fn debug_shows_no_secret() {
        let key = || Pem::Data(b"hidden".to_vec());
        let config = Config::new("https://bob:hidden@example.test")
            .unwrap()
            .with_proxy_url("http://bob:hidden@proxy.test:3128")
            .unwrap()
            .with_tls(TlsOptions {
                client_certificate: Some(ClientCertificate { certificate: key(), key: key() }),
                ..TlsOptions::default()
            });
        assert_eq!(config.proxy_url(), Some("http://bob:hidden@proxy.test:3128"));
        for shown in [
            format!("{config:?}"),
            format!("{:#?}", config.with_credentials(Credentials::token("hidden").unwrap())),
        ] {
            assert!(shown.contains("http://***@proxy.test:3128"), "{shown}");
            assert!(!shown.contains("hidden") && !shown.contains("104"), "{shown}"); // 104: h as a byte
        }
    }

    #[test]
    #[cfg(feature = "kubeconfig")]
    fn infer_prefers_a_kubeconfig_and_falls_back_to_the_cluster() {
        let dir = Dir::new();
        dir.write("sa/token", "tok-pod");
        dir.write("sa/ca.crt", "");
        let kubeconfig = dir.path("home/.kube/config");
        let in_cluster = |name: &str| -> Option<OsString> {
            match name {
                "HOME" => Some(dir.path("home").into()),
                "KUBERNETES_SERVICE_HOST" => Some("10.96.0.1".into()),
                "KUBERNETES_SERVICE_PORT" => Some("443".into()),
                _ => None,
            }
        };
        let service_account = dir.path("sa");
        assert_eq!(infer(&in_cluster, &service_account).unwrap().server(), "https://10.96.0.1:443");

        dir.write("home/.kube/config", "current-context: ''");
        assert_eq!(infer(&in_cluster, &service_account).unwrap().server(), "https://10.96.0.1:443");

        dir.write("home/.kube/config", "clusters: [{cluster: {server: 'https://x'}}]");
        assert_eq!(infer(&in_cluster, &service_account).unwrap().server(), "https://x");

        dir.write("home/.kube/config", "clusters: 5");
        let error = infer(&in_cluster, &service_account).unwrap_err().to_string();
        assert_eq!(error, format!("kubeconfig {}: clusters is a number, not a list", kubeconfig.display()));
    }

    #[test]
    #[cfg(feature = "kubeconfig")]
    fn with_neither_kubeconfig_nor_cluster_the_error_names_both() {
        let dir = Dir::new();
        let env = |name: &str| (name == "HOME").then(|| dir.path("").into());
        let error = infer(&env, &dir.path("sa")).unwrap_err();
        let text = error.to_string();
        assert!(error.is_config());
        assert!(text.contains(".kube/config holds no configuration"), "{text}");
        assert!(text.contains("KUBERNETES_SERVICE_HOST is not set"), "{text}");
    }
}
