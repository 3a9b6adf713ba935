//! Where the API server is and who we are: by hand, from inside a cluster, or from kubeconfig files.
//!
//! Nothing here opens a connection. Files are read, and exec plugins of a kubeconfig are run, when a request needs a
//! credential of them.

mod credentials;
#[cfg(feature = "kubeconfig")]
mod exec;
mod in_cluster;
#[cfg(feature = "kubeconfig")]
mod kubeconfig;
mod pem;
mod proxy;
#[cfg(test)]
mod testing;
mod url;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

pub use credentials::{Credential, CredentialSource, Credentials};
pub(crate) use credentials::{Identity, Secret};
#[cfg(feature = "kubeconfig")]
pub use kubeconfig::KubeconfigOptions;
pub use pem::{ClientCertificate, Pem, TlsOptions};

pub(crate) use self::proxy::{Proxy, ProxyKind};
pub(crate) use self::url::escape;

use self::url::Url;
use crate::clock::Clock;
use crate::error::{Error, Result};

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
    /// Whether the environment may name a proxy.
    environment_proxy: bool,
    rate_limit: Option<(NonZeroU32, u32)>,
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
            environment_proxy: true,
            rate_limit: None,
            impersonate: None,
            compression: true,
            clock: Clock::system(),
        })
    }

    /// The API server of the cluster that this program runs in, as its service account.
    ///
    /// Reads `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`, and below
    /// `/var/run/secrets/kubernetes.io/serviceaccount` the files `token` and `ca.crt` (read again as they
    /// rotate) and `namespace` (unless `POD_NAMESPACE` is set).
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
    /// Nor are host names taken that are not ASCII, nor IPv6 addresses with a zone, nor `auth-provider`, which is compiled
    /// into kubectl, nor an infinite number. What can be known to fail (files without a certificate, no authority that has
    /// not expired, a key that is another certificate's, a port beyond 65535) is said when the client is made. For all else
    /// the verdict is that of client-go's `clientcmd`, but for some quirks of Go's YAML parser: 500 recorded cases are in the
    /// crate's tests.
    ///
    /// An exec plugin has as long as the call that needs its credential: where one asks its user to log in, set a long
    /// [`with_timeout`](Self::with_timeout). It is ended with that call.
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

    /// Who we are: what goes into the `Authorization` header, and client certificates that change.
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

    /// The proxy to go through, with its user and password if it has any, percent-encoded.
    ///
    /// - `http://` and `https://`: an https server is reached by `CONNECT`, an http server by requests that name it whole.
    ///   A proxy's certificate is verified as the server's is, against the same [`ca`](TlsOptions::ca) as in client-go,
    ///   but by the proxy's own name; [`server_name`](TlsOptions::server_name) is that of the server alone.
    /// - `socks5://` and `socks5h://`: the proxy looks up the server's name with either, as in Go.
    ///
    /// If none is set, [`Client::new`](crate::Client::new) reads the environment as client-go does: `HTTPS_PROXY` or
    /// `https_proxy` for an https server, `HTTP_PROXY` or `http_proxy` for an http server (unless `REQUEST_METHOD` is
    /// set, as for CGI programs), without a scheme it is `http`. A server is reached directly if it is on this machine
    /// (`localhost`, loopback addresses), or if `NO_PROXY` or `no_proxy` lists it, between commas, whatever the case: `*`,
    /// a name (with all below; `.name` and `*.name` are those below alone), an address, a network (`10.96.0.0/12`), a
    /// name or address with a port. A variable that is no proxy is an error if it would be used; Go goes around it.
    /// A proxy that is set here is used for any server.
    #[must_use]
    pub fn proxy_url(&self) -> Option<&str> {
        self.proxy_url.as_deref()
    }

    /// How many requests a second may be sent, and how many at once after a pause; `None`, the default, is any number.
    #[must_use]
    pub fn rate_limit(&self) -> Option<(u32, u32)> {
        self.rate_limit.map(|(per_second, burst)| (per_second.get(), burst))
    }

    /// What the server is reached through, by what is set or by the environment.
    pub(crate) fn proxy(&self, env: Env<'_>) -> Result<Option<Proxy>> {
        match &self.proxy_url {
            Some(text) => {
                let bad = |why| Error::config(format!("proxy-url {:?}: {why}", url::redacted(text)));
                Proxy::new(&Url::proxy(text)?).map(Some).map_err(bad)
            }
            None if self.environment_proxy => proxy::from_environment(&Url::server(&self.server)?, env),
            None => Ok(None),
        }
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

    /// Sets [`proxy_url`](Self::proxy_url): `http`, `https`, `socks5` or `socks5h`.
    ///
    /// # Errors
    /// The URL is not one of such a proxy.
    pub fn with_proxy_url(mut self, url: &str) -> Result<Self> {
        Url::proxy(url)?;
        self.proxy_url = Some(url.into());
        Ok(self)
    }

    /// Goes to the server directly, whatever the environment says, and forgets a [`proxy_url`](Self::proxy_url).
    #[must_use]
    pub fn without_proxy(mut self) -> Self {
        self.proxy_url = None;
        self.environment_proxy = false;
        self
    }

    /// Lets a [`Client`](crate::Client) and its clones send at most so many requests a second, `burst` of them at once
    /// after a pause: lists, watches and what is sent again included. There is no limit by default, since the API server
    /// has its own, which is fair; this is for clusters where it is turned off. `per_second` of 0 takes it away.
    ///
    /// A request waits for its turn within its limit of time, in order, until its `Stop`; one whose turn would come too
    /// late fails at once with an error that [is a timeout](crate::Error::is_timeout).
    #[must_use]
    pub fn with_rate_limit(mut self, per_second: u32, burst: u32) -> Self {
        self.rate_limit = NonZeroU32::new(per_second).map(|per_second| (per_second, burst));
        self
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
            .map_err(|error| Error::config(format!("no configuration: {missing}; {error}"))),
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
            .field("environment_proxy", &self.environment_proxy)
            .field("rate_limit", &self.rate_limit)
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
