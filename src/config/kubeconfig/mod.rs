//! Kubeconfig files: found, merged and resolved as client-go's `clientcmd` does it.

mod file;
#[cfg(all(test, feature = "tls"))]
mod verdicts;
pub(super) mod yaml;

use std::io;
use std::path::{Path, PathBuf};

use super::credentials::fits_header;
use super::exec::{self, Plugin};
use super::pem::is_pem;
use super::url::Url;
use super::{ClientCertificate, Config, Credentials, Env, Impersonate, Pem, TlsOptions};
use crate::error::{Error, Result};
use file::{Cluster, Context, Exec, File, User};

/// Which kubeconfig files to read, and what of them to use. By default what kubectl would.
#[derive(Clone, Debug, Default)]
pub struct KubeconfigOptions {
    context: Option<String>,
    cluster: Option<String>,
    user: Option<String>,
    namespace: Option<String>,
    paths: Vec<PathBuf>,
}

impl KubeconfigOptions {
    /// What kubectl would use.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The context to use, in place of `current-context`.
    #[must_use]
    pub fn with_context(mut self, context: impl Into<String>) -> Self {
        self.context = Some(context.into());
        self
    }

    /// The cluster to use, in place of the context's.
    #[must_use]
    pub fn with_cluster(mut self, cluster: impl Into<String>) -> Self {
        self.cluster = Some(cluster.into());
        self
    }

    /// The user to be, in place of the context's.
    #[must_use]
    pub fn with_user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// The default namespace, in place of the context's.
    #[must_use]
    pub fn with_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// A file to read, in place of those of `$KUBECONFIG` and `~/.kube/config`; may be called for several. A file
    /// named here must exist.
    #[must_use]
    pub fn with_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.paths.push(path.into());
        self
    }
}

/// What the files say, or the error that they say nothing at all: then a program in a cluster uses that one.
pub(super) fn load(options: &KubeconfigOptions, env: Env<'_>) -> Result<Result<Config>> {
    let sources = Sources::find(options, env);
    let merged = sources.read()?;
    match resolve(&merged, options, &sources.name)? {
        Some(resolved) => resolved.config().map(Ok),
        None => Ok(Err(Error::config(format!("{sources} holds no configuration")))),
    }
}

pub(super) fn load_text(yaml: &str, options: &KubeconfigOptions) -> Result<Config> {
    let file = File::parse(yaml.as_bytes(), "kubeconfig", &absolute(Path::new("")))?;
    match resolve(&file, options, "kubeconfig")? {
        Some(resolved) => resolved.config(),
        None => Err(Error::config("the kubeconfig holds no configuration")),
    }
}

/// The files to merge, the first before the others.
struct Sources {
    paths: Vec<PathBuf>,
    /// How messages call them all.
    name: String,
    must_exist: bool,
}

impl Sources {
    fn find(options: &KubeconfigOptions, env: Env<'_>) -> Self {
        let listed = |paths: &[PathBuf]| {
            paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
        };
        if !options.paths.is_empty() {
            let name = format!("kubeconfig {}", listed(&options.paths));
            return Self { paths: options.paths.clone(), name, must_exist: true };
        }
        let variable = |name: &str| env(name).filter(|value| !value.is_empty());
        if let Some(list) = variable("KUBECONFIG") {
            let mut paths: Vec<_> = std::env::split_paths(&list).collect();
            paths.retain(|path| !path.as_os_str().is_empty());
            let name = format!("$KUBECONFIG ({})", listed(&paths));
            return Self { paths, name, must_exist: false };
        }
        match variable("HOME").or_else(|| variable("USERPROFILE")) {
            Some(home) => {
                let path = Path::new(&home).join(".kube").join("config");
                Self { name: format!("kubeconfig {}", path.display()), paths: vec![path], must_exist: false }
            }
            None => Self {
                paths: Vec::new(),
                name: "kubeconfig (neither $KUBECONFIG nor $HOME is set)".into(),
                must_exist: false,
            },
        }
    }

    fn read(&self) -> Result<File> {
        let mut merged = File::default();
        for path in &self.paths {
            let bytes = match std::fs::read(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && !self.must_exist => continue,
                read => read.map_err(|error| {
                    Error::config(format!("kubeconfig {}", path.display())).with_source(error)
                })?,
            };
            let directory = absolute(path.parent().unwrap_or(Path::new("")));
            merged.merge(File::parse(&bytes, &format!("kubeconfig {}", path.display()), &directory)?);
        }
        Ok(merged)
    }
}

impl std::fmt::Display for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

fn absolute(directory: &Path) -> PathBuf {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    std::path::absolute(directory).unwrap_or_else(|_| directory.into())
}

/// What is to be used of the files: what client-go puts into its `rest.Config`.
struct Resolved {
    cluster: Cluster,
    user: User,
    namespace: String,
    /// Over plain http the user's credentials and everything of TLS are left out.
    tls: bool,
    /// The token that is sent while the token file cannot be read; with a token file and no token, the file's.
    token: String,
}

/// `None`: nothing is configured. `name` is how messages call all files together.
fn resolve(file: &File, options: &KubeconfigOptions, name: &str) -> Result<Option<Resolved>> {
    let asked = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    let missing = |kind: &str, entry: &str| Error::config(format!("{name}: there is no {kind} {entry:?}"));

    let wanted = asked(&options.context);
    let wanted = wanted.as_ref().unwrap_or(&file.current_context);
    let context = match file.contexts.get(wanted) {
        Some(context) => context.clone(),
        None if !wanted.is_empty() => return Err(missing("context", wanted)),
        None => Context::default(),
    };
    let user_name = asked(&options.user);
    let user = match (file.users.get(user_name.as_ref().unwrap_or(&context.user)), &user_name) {
        (Some(user), _) => user.clone(),
        (None, Some(name)) => return Err(missing("user", name)),
        // As client-go: a context may name a user that does not exist, and is anonymous then.
        (None, None) => User::default(),
    };
    check_user(&user)?;
    let cluster_name = asked(&options.cluster);
    let cluster = match (file.clusters.get(cluster_name.as_ref().unwrap_or(&context.cluster)), &cluster_name)
    {
        (Some(cluster), _) => cluster.clone(),
        (None, Some(name)) => return Err(missing("cluster", name)),
        (None, None) if context.cluster.is_empty() => return Ok(None),
        // client-go takes this for no configuration, and goes on as the service account of the cluster it is in.
        (None, None) => return Err(missing("cluster", &context.cluster)),
    };
    check_cluster(&cluster)?;

    let tls = Url::server(&cluster.server).is_ok_and(|url| url.scheme == "https");
    let mut token = user.token.clone();
    if tls && token.is_empty() && !user.token_file.is_empty() {
        let bytes = std::fs::read(&user.token_file).map_err(|error| {
            Error::config(format!("{}: tokenFile {}", user.place, user.token_file)).with_source(error)
        })?;
        token = String::from_utf8_lossy(&bytes).into_owned();
    }
    let namespace = asked(&options.namespace).unwrap_or(context.namespace);
    let namespace = if namespace.is_empty() { "default".into() } else { namespace };
    Ok(Some(Resolved { cluster, user, namespace, tls, token }))
}

fn check_cluster(cluster: &Cluster) -> Result<()> {
    let wrong = |what: &str| Err(Error::config(format!("{}: {what}", cluster.place)));
    if cluster.server.is_empty() {
        return wrong("server is missing");
    }
    if !cluster.proxy_url.is_empty() {
        Url::proxy(&cluster.proxy_url).map_err(|error| error.context(&cluster.place))?;
    }
    if !cluster.certificate_authority.is_empty() && !cluster.certificate_authority_data.is_empty() {
        return wrong("certificate-authority and certificate-authority-data are both given");
    }
    check_file(&cluster.certificate_authority, "certificate-authority", &cluster.place)
}

fn check_user(user: &User) -> Result<()> {
    let wrong = |what: &str| Err(Error::config(format!("{}: {what}", user.place)));
    let basic = !user.username.is_empty() || !user.password.is_empty();
    if !user.client_certificate.is_empty() || !user.client_certificate_data.is_empty() {
        if !user.client_certificate.is_empty() && !user.client_certificate_data.is_empty() {
            return wrong("client-certificate and client-certificate-data are both given");
        }
        if !user.client_key.is_empty() && !user.client_key_data.is_empty() {
            return wrong("client-key and client-key-data are both given");
        }
        if user.client_key.is_empty() && user.client_key_data.is_empty() {
            return wrong("a client certificate needs client-key or client-key-data");
        }
        check_file(&user.client_certificate, "client-certificate", &user.place)?;
        check_file(&user.client_key, "client-key", &user.place)?;
    }
    if let Some(exec) = &user.exec {
        if user.auth_provider.is_some() {
            return wrong("exec and auth-provider are both given");
        }
        check_exec(exec).or_else(|what| wrong(&format!("exec: {what}")))?;
    }
    if !user.token.is_empty() && basic {
        return wrong("token and username or password are both given");
    }
    let more = !user.impersonate_uid.is_empty()
        || !user.impersonate_groups.is_empty()
        || !user.impersonate_extra.is_empty();
    if more && user.impersonate.is_empty() {
        return wrong("as-uid, as-groups and as-user-extra need as");
    }
    Ok(())
}

fn check_exec(exec: &Exec) -> Result<(), String> {
    if exec.command.is_empty() {
        return Err("command is missing".into());
    }
    if exec.api_version.is_empty() {
        return Err("apiVersion is missing".into());
    }
    if exec.env.iter().any(|(name, _)| name.is_empty()) {
        return Err("env: a name is missing".into());
    }
    match exec.interactive_mode.as_str() {
        "Never" | "IfAvailable" | "Always" => Ok(()),
        "" => Err("interactiveMode is missing".into()),
        other => Err(format!("interactiveMode {other:?} is none of Never, IfAvailable and Always")),
    }
}

fn check_file(path: &str, field: &str, place: &str) -> Result<()> {
    if path.is_empty() {
        return Ok(());
    }
    let opened = std::fs::File::open(path);
    opened.map(drop).map_err(|error| Error::config(format!("{place}: {field} {path}")).with_source(error))
}

impl Resolved {
    /// Refuses what client-go refuses when it makes a client, as far as no certificate has to be understood.
    fn config(self) -> Result<Config> {
        let Self { cluster, user, namespace, tls, token } = self;
        let mut config = Config::new(&cluster.server)
            .map_err(|error| error.context(&cluster.place))?
            .with_namespace(namespace);
        if !cluster.proxy_url.is_empty() {
            config = config.with_proxy_url(&cluster.proxy_url)?;
        }
        if !user.impersonate.is_empty() {
            let mut sent =
                [&user.impersonate, &user.impersonate_uid].into_iter().chain(&user.impersonate_groups);
            if !sent.all(|text| fits_header(text))
                || !user.impersonate_extra.values().flatten().all(|text| fits_header(text))
            {
                let what = "as, as-uid, as-groups and as-user-extra cannot hold control characters";
                return Err(Error::config(format!("{}: {what}", user.place)));
            }
            config = config.with_impersonate(Impersonate {
                user: user.impersonate.clone(),
                uid: Some(user.impersonate_uid.clone()).filter(|uid| !uid.is_empty()),
                groups: user.impersonate_groups.clone(),
                extra: user.impersonate_extra.clone(),
            });
        }
        config = config.with_compression(!cluster.disable_compression);
        if !tls {
            // client-go drops them without a word, and acts as anybody.
            if !cluster.server.contains("://") && (user.has_credentials() || cluster.has_tls_settings()) {
                return Err(Error::config(format!(
                    "{}: server has no scheme, so that it would be http and all credentials be left out: \
                     write https:// or http:// before it",
                    cluster.place
                )));
            }
            return Ok(config);
        }
        let ca = pem(&cluster.certificate_authority, &cluster.certificate_authority_data);
        if let Some(Pem::Data(data)) = &ca {
            check_pem(data, "certificate-authority-data", &cluster.place)?;
        }
        if ca.is_some() && cluster.insecure_skip_tls_verify {
            return Err(Error::config(format!(
                "{}: insecure-skip-tls-verify and a certificate authority exclude each other",
                cluster.place
            )));
        }
        config = config.with_tls(TlsOptions {
            ca,
            client_certificate: client_certificate(&user)?,
            server_name: Some(cluster.tls_server_name.clone()).filter(|name| !name.is_empty()),
            insecure_skip_verify: cluster.insecure_skip_tls_verify,
        });
        let credentials = credentials(&user, &cluster, &token, config.tls.client_certificate.is_some())
            .map_err(|error| error.context(&user.place))?;
        // A user in the server's URL goes before all others, as Go's HTTP client has it.
        let in_url = Url::server(&cluster.server)?.user.is_some();
        Ok(if in_url { config } else { config.with_credentials(credentials) })
    }
}

fn credentials(user: &User, cluster: &Cluster, token: &str, certificate: bool) -> Result<Credentials> {
    let basic = !user.username.is_empty();
    if let Some(provider) = &user.auth_provider {
        return Err(Error::config(format!("auth-provider {:?} is not supported; use exec", provider.name)));
    }
    if basic && !token.is_empty() {
        return Err(Error::config("username and a token exclude each other"));
    }
    if let Some(exec) = &user.exec {
        let plugin = plugin(exec, cluster)?;
        // Beside other credentials it is never run.
        if !(basic || certificate || !token.is_empty()) {
            let name = format!("{}: exec plugin {:?}", user.place, exec.command);
            return Ok(Credentials::renewed(name, plugin));
        }
    }
    if basic {
        return Ok(Credentials::basic(&user.username, &user.password));
    }
    if user.token_file.is_empty() {
        return if token.is_empty() { Ok(Credentials::none()) } else { Credentials::token(token) };
    }
    if user.token.is_empty() {
        let credentials = Credentials::token_file(&user.token_file);
        credentials.check_file()?;
        return Ok(credentials);
    }
    Credentials::token_file_with_fallback(user.token_file.clone().into(), &user.token)
}

fn plugin(exec: &Exec, cluster: &Cluster) -> Result<Plugin> {
    let cluster = exec.provide_cluster_info.then(|| exec::Cluster {
        server: cluster.server.clone(),
        tls_server_name: cluster.tls_server_name.clone(),
        insecure_skip_tls_verify: cluster.insecure_skip_tls_verify,
        ca: pem(&cluster.certificate_authority, &cluster.certificate_authority_data),
        proxy_url: cluster.proxy_url.clone(),
        disable_compression: cluster.disable_compression,
        config: cluster.exec_config.clone(),
    });
    Ok(Plugin {
        command: exec.command.clone(),
        args: exec.args.clone(),
        env: exec.env.clone(),
        version: exec.api_version.parse()?,
        install_hint: exec.install_hint.clone(),
        interactive: match exec.interactive_mode.as_str() {
            "Always" => exec::Interactive::Always,
            "IfAvailable" => exec::Interactive::IfAvailable,
            _ => exec::Interactive::Never,
        },
        cluster,
    })
}

fn client_certificate(user: &User) -> Result<Option<ClientCertificate>> {
    let certificate = pem(&user.client_certificate, &user.client_certificate_data);
    let key = pem(&user.client_key, &user.client_key_data);
    // A key alone is ignored, as in client-go.
    let (Some(certificate), Some(key)) = (certificate, key) else { return Ok(None) };
    for (pem, field) in [(&certificate, "client-certificate-data"), (&key, "client-key-data")] {
        if let Pem::Data(data) = pem {
            check_pem(data, field, &user.place)?;
        }
    }
    Ok(Some(ClientCertificate { certificate, key }))
}

fn pem(path: &str, data: &[u8]) -> Option<Pem> {
    if !data.is_empty() {
        Some(Pem::Data(data.into()))
    } else if !path.is_empty() {
        Some(Pem::File(path.into()))
    } else {
        None
    }
}

/// What the field is about is still known here.
fn check_pem(data: &[u8], field: &str, place: &str) -> Result<()> {
    if is_pem(data) { Ok(()) } else { Err(Error::config(format!("{place}: {field} holds no PEM block"))) }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Dir;
    use super::*;
    use crate::clock::Clock;
    use crate::config::Identity;

    const CLUSTER: &str = "clusters: [{name: c, cluster: {server: 'https://api.test:6443'}}]\n";
    const CONTEXT: &str = "contexts: [{name: main, context: {cluster: c, user: u}}]\ncurrent-context: main\n";

    fn with_user(user: &str) -> String {
        format!("{CLUSTER}{CONTEXT}users: [{{name: u, user: {user}}}]\n")
    }

    fn read(yaml: &str) -> Result<Config> {
        load_text(yaml, &KubeconfigOptions::new())
    }

    fn refusal(yaml: &str) -> String {
        let error = read(yaml).unwrap_err();
        assert!(error.is_config());
        error.to_string()
    }

    fn header(config: &Config) -> Option<String> {
        config.credentials().authorization(&Clock::manual()).unwrap()
    }

    /// Reads the files as those of `$KUBECONFIG`.
    fn read_list(paths: &[PathBuf], options: &KubeconfigOptions) -> Result<Config> {
        let list = std::env::join_paths(paths).unwrap();
        load(options, &|name| (name == "KUBECONFIG").then(|| list.clone()))?
    }

    #[test]
    fn the_current_context_chooses_cluster_user_and_namespace() {
        let config = read(
            "apiVersion: v1\nkind: Config\ncurrent-context: b\n\
             clusters: [{name: c1, cluster: {server: 'https://one.test'}}, {name: c2, cluster: {server: 'https://two.test/p/', \
             tls-server-name: api, proxy-url: 'socks5://proxy.test:1080', disable-compression: true}}]\n\
             users: [{name: u1, user: {token: one}}, {name: u2, user: {token: two, as: jane, as-uid: '7', \
             as-groups: [ops], as-user-extra: {scopes: [x, z]}}}]\n\
             contexts: [{name: a, context: {cluster: c1, user: u1}}, \
             {name: b, context: {cluster: c2, user: u2, namespace: team}}]",
        )
        .unwrap();
        assert_eq!((config.server(), config.namespace()), ("https://two.test/p", "team"));
        assert_eq!(header(&config).as_deref(), Some("Bearer two"));
        assert_eq!(config.tls().server_name.as_deref(), Some("api"));
        assert_eq!(config.proxy_url(), Some("socks5://proxy.test:1080"));
        assert!(!config.compression());
        let jane = Impersonate {
            user: "jane".into(),
            uid: Some("7".into()),
            groups: vec!["ops".into()],
            extra: [("scopes".to_owned(), vec!["x".to_owned(), "z".to_owned()])].into(),
        };
        assert_eq!(config.impersonate(), Some(&jane));
    }

    #[test]
    fn options_go_before_the_files() {
        let yaml = "clusters: [{name: c1, cluster: {server: 'https://one.test'}}, {name: c2, cluster: {server: 'https://two.test'}}]\n\
             users: [{name: u1, user: {token: one}}, {name: u2, user: {token: two}}]\n\
             contexts: [{name: a, context: {cluster: c1, user: u1, namespace: n1}}]\n\
             current-context: gone";
        let options = KubeconfigOptions::new().with_context("a");
        let config = load_text(yaml, &options).unwrap();
        assert_eq!((config.server(), config.namespace()), ("https://one.test", "n1"));
        let options = options.with_cluster("c2").with_user("u2").with_namespace("n2");
        let config = load_text(yaml, &options).unwrap();
        assert_eq!((config.server(), config.namespace()), ("https://two.test", "n2"));
        assert_eq!(header(&config).as_deref(), Some("Bearer two"));

        assert_eq!(refusal(yaml), r#"kubeconfig: there is no context "gone""#);
        for (options, missing) in [
            (options.clone().with_context("x"), r#"no context "x""#),
            (options.clone().with_user("x"), r#"no user "x""#),
            (options.with_cluster("x"), r#"no cluster "x""#),
        ] {
            let error = load_text(yaml, &options).unwrap_err().to_string();
            assert!(error.contains(missing), "{error}");
        }
    }

    #[test]
    fn the_first_file_wins_with_its_whole_entry() {
        let dir = Dir::new();
        let first = dir.write(
            "a",
            format!("{CLUSTER}users: [{{name: u, user: {{username: bob}}}}]\ncurrent-context: ''"),
        );
        let second =
            dir.write("b", with_user("{token: two, username: eve}").replace("api.test", "other.test"));
        let paths = [dir.path("missing"), PathBuf::new(), first, second];
        let config = read_list(&paths, &KubeconfigOptions::new()).unwrap();
        assert_eq!(config.server(), "https://api.test:6443");
        assert_eq!(header(&config).as_deref(), Some("Basic Ym9iOg=="));
    }

    #[test]
    fn a_broken_file_of_a_list_spoils_it_and_is_named() {
        let dir = Dir::new();
        let paths = [dir.write("a", with_user("{token: t}")), dir.write("b", "clusters: [\n")];
        let error = read_list(&paths, &KubeconfigOptions::new()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("kubeconfig {}: not YAML: line ", paths[1].display())), "{error}");
        let error = read_list(&[dir.path("")], &KubeconfigOptions::new()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("kubeconfig {}", dir.path("").display())), "{error}");
    }

    #[test]
    fn files_named_in_the_options_must_exist() {
        let dir = Dir::new();
        let path = dir.write("a", with_user("{token: t}"));
        let options = KubeconfigOptions::new().with_path(path);
        assert_eq!(header(&Config::from_kubeconfig(&options).unwrap()).as_deref(), Some("Bearer t"));
        let error = Config::from_kubeconfig(&options.with_path(dir.path("gone"))).unwrap_err().to_string();
        assert!(error.contains("gone"), "{error}");
    }

    #[test]
    fn relative_paths_are_relative_to_the_file_of_the_entry() {
        let dir = Dir::new();
        for file in ["one/pki/ca.crt", "two/alice.crt", "two/alice.key"] {
            dir.write(file, "-----BEGIN CERTIFICATE-----");
        }
        dir.write("token", "tok-file");
        let first = dir.write(
            "one/config",
            format!("{CONTEXT}clusters: [{{name: c, cluster: {{server: 'https://x', certificate-authority: ./pki//ca.crt}}}}]"),
        );
        let second = dir.write(
            "two/config",
            "users: [{name: u, user: {client-certificate: alice.crt, client-key: alice.key, tokenFile: ../token}}]",
        );
        let config = read_list(&[first, second], &KubeconfigOptions::new()).unwrap();
        assert!(matches!(&config.tls().ca, Some(Pem::File(path)) if *path == dir.path("one/pki/ca.crt")));
        let certificate = config.tls().client_certificate.as_ref().unwrap();
        assert!(matches!(&certificate.key, Pem::File(path) if *path == dir.path("two/alice.key")));
        assert_eq!(header(&config).as_deref(), Some("Bearer tok-file"));
    }

    #[test]
    fn data_is_decoded_and_line_breaks_in_it_ignored() {
        // "-----BEGIN X-----" twice
        let data = "LS0tLS1CRUdJ\\nTiBYLS0tLS0=";
        let user = format!("{{client-certificate-data: \"{data}\", client-key-data: \"{data}\"}}");
        let config = read(&with_user(&user)).unwrap();
        let certificate = config.tls().client_certificate.as_ref().unwrap();
        assert_eq!(certificate.key.read().unwrap(), b"-----BEGIN X-----");
        assert_eq!(certificate.certificate.read().unwrap(), b"-----BEGIN X-----");
    }

    #[test]
    fn an_inline_token_stands_in_for_an_unreadable_token_file() {
        let dir = Dir::new();
        let file = dir.write("token", "");
        let config = read(&with_user(&format!("{{token: inline, tokenFile: {}}}", file.display()))).unwrap();
        assert_eq!(header(&config).as_deref(), Some("Bearer inline"));
        dir.write("token", "from-file");
        config.credentials().refresh(&Identity::default());
        assert_eq!(header(&config).as_deref(), Some("Bearer from-file"));
    }

    #[test]
    fn over_plain_http_no_credentials_are_kept() {
        let config = read(&with_user("{token: t, as: jane}").replace("https:", "http:")).unwrap();
        assert_eq!(header(&config), None);
        assert!(config.impersonate().is_some());
    }

    /// A plugin that is a script of the shell.
    fn script(script: &str, more: &str) -> String {
        let version = "client.authentication.k8s.io/v1";
        let args = serde_json::json!(["-c", script]);
        format!("exec: {{command: sh, args: {args}, apiVersion: {version}, interactiveMode: Never{more}}}")
    }

    /// Prints what the shell makes of `text` as a token.
    fn print(text: &str) -> String {
        let head = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1""#;
        format!(r#"echo '{head},"status":{{"token":"'{text}'"}}}}'"#)
    }

    #[test]
    fn an_exec_plugin_is_run_for_a_user_without_other_credentials() {
        let exec = script(&print("$TEXT"), ", env: [{name: TEXT, value: none}, {name: TEXT, value: one}]");
        let config = read(&with_user(&format!("{{{exec}}}"))).unwrap();
        assert_eq!(header(&config).as_deref(), Some("Bearer one"));
        for (other, sent) in [
            ("token: t", Some("Bearer t")),
            ("username: bob", Some("Basic Ym9iOg==")),
            ("client-certificate-data: LS0tLS1CRUdJTiA=, client-key-data: LS0tLS1CRUdJTiA=", None),
        ] {
            let config = read(&with_user(&format!("{{{other}, {exec}}}"))).unwrap();
            assert_eq!(header(&config).as_deref(), sent, "{other}");
        }
        // A key alone is nothing.
        let config = read(&with_user(&format!("{{client-key-data: LS0tLS1CRUdJTiA=, {exec}}}"))).unwrap();
        assert_eq!(header(&config).as_deref(), Some("Bearer one"));
    }

    #[test]
    fn an_exec_plugin_is_told_of_the_cluster_if_it_asks_for_that() {
        let dir = Dir::new();
        let ca = dir.write("ca.crt", "-----BEGIN CERTIFICATE-----");
        let exec = script(&print("$(printf %s \"$KUBERNETES_EXEC_INFO\" | base64 | tr -d '\\n')"), "");
        let cluster = format!(
            "server: 'https://api.test:6443/', tls-server-name: api, certificate-authority: '{}', proxy-url: 'http://p.test:3128', \
             disable-compression: true, extensions: [{{name: client.authentication.k8s.io/exec, extension: {{audience: x}}}}]",
            ca.display()
        );
        let told = |exec: &str| -> serde_json::Value {
            let yaml = with_user(&format!("{{{exec}}}")).replace("server: 'https://api.test:6443'", &cluster);
            let header = header(&read(&yaml).unwrap()).unwrap();
            let request = crate::base64_text::decode(header.strip_prefix("Bearer ").unwrap()).unwrap();
            serde_json::from_slice(&request).unwrap()
        };
        let version = "client.authentication.k8s.io/v1";
        assert_eq!(
            told(&exec),
            serde_json::json!({"kind": "ExecCredential", "apiVersion": version, "spec": {"interactive": false}})
        );
        let cluster = serde_json::json!({
            "server": "https://api.test:6443/",
            "tls-server-name": "api",
            "certificate-authority-data": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t",
            "proxy-url": "http://p.test:3128",
            "disable-compression": true,
            "config": {"audience": "x"},
        });
        assert_eq!(
            told(&exec.replace("Never", "Never, provideClusterInfo: true")),
            serde_json::json!({
                "kind": "ExecCredential",
                "apiVersion": version,
                "spec": {"interactive": false, "cluster": cluster},
            })
        );
    }

    #[test]
    #[cfg(unix)]
    fn the_command_of_an_exec_plugin_is_relative_to_its_kubeconfig() {
        let dir = Dir::new();
        std::fs::create_dir(dir.path("bin")).unwrap();
        std::os::unix::fs::symlink("/bin/sh", dir.path("bin/plugin")).unwrap();
        let exec = script(&print("$0"), "").replace("command: sh", "command: ./bin/plugin");
        let path = dir.write("config", with_user(&format!("{{{exec}}}")));
        let config = read_list(&[path], &KubeconfigOptions::new()).unwrap();
        let plugin = dir.path("bin/plugin");
        assert_eq!(header(&config), Some(format!("Bearer {}", plugin.display())));
    }

    #[test]
    fn what_is_wrong_with_an_exec_plugin_is_said_with_its_entry() {
        let version = "client.authentication.k8s.io/v1";
        for (exec, said) in [
            (
                script(
                    "echo token-$TEXT; echo no access >&2; exit 7",
                    ", env: [{name: TEXT, value: hidden}]",
                ),
                "exec plugin \"sh\": failed with exit code 7: no access",
            ),
            (script("echo log in first >&2", ""), "exec plugin \"sh\": it printed nothing: log in first"),
            (script("echo hidden", ""), "exec plugin \"sh\": it printed no object"),
            (script("kill -9 $$", ""), "exec plugin \"sh\": was ended (signal: 9"),
            (
                format!(
                    "exec: {{command: listwatch-no-such-plugin, apiVersion: {version}, interactiveMode: Never, \
                     installHint: \"get it\\nat example.test\"}}"
                ),
                "exec plugin \"listwatch-no-such-plugin\": cannot be started: No such file or directory (os error 2); \
                 get it at example.test",
            ),
        ] {
            let config = read(&with_user(&format!("{{{exec}}}"))).unwrap();
            let error = config.credentials().authorization(&Clock::manual()).unwrap_err();
            let text = error.to_string();
            assert!(error.is_config(), "{error:?}");
            assert!(text.starts_with(&format!("kubeconfig: users[0] \"u\": {said}")), "{text}");
            assert!(!text.contains("hidden") && !format!("{config:?}").contains("hidden"), "{text}");
        }
        for (version, said) in [
            ("v1alpha1", "v1alpha1\" is not supported any more"),
            ("v2", "v2\" is not supported (client.authentication.k8s.io/v1 and "),
        ] {
            // Looked at even if it is not run.
            for other in ["", "token: t, "] {
                let exec = script(&print("t"), "").replace("io/v1", &format!("io/{version}"));
                let refused = refusal(&with_user(&format!("{{{other}{exec}}}")));
                assert!(refused.starts_with("kubeconfig: users[0] \"u\": exec: apiVersion "), "{refused}");
                assert!(refused.contains(said), "{refused}");
            }
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_entry_and_field() {
        for (user, said) in [
            ("{token: 5}", "token is a number, not text (quote it)"),
            ("{token: \"a\\nb\"}", "the token holds a control character"),
            ("{token: t, username: bob}", "token and username or password are both given"),
            ("{client-certificate-data: 'hidden!'}", "client-certificate-data is not base64: at character 6"),
            ("{client-key-data: 'aGk'}", "client-key-data is not base64: it is cut off or padded wrongly"),
            (
                "{client-certificate-data: aGk=, client-key-data: aGk=}",
                "client-certificate-data holds no PEM block",
            ),
            ("{client-certificate-data: aGk=}", "a client certificate needs client-key or client-key-data"),
            ("{client-certificate: /x, client-certificate-data: aGk=, client-key: /k}", "both given"),
            ("{client-certificate: /nowhere, client-key-data: aGk=}", "client-certificate /nowhere: "),
            ("{tokenFile: /nowhere}", "tokenFile /nowhere: "),
            ("{as-groups: [a]}", "as-uid, as-groups and as-user-extra need as"),
            ("{as: \"a\\nb\"}", "cannot hold control characters"),
            ("{exec: {command: x}}", "exec: apiVersion is missing"),
            ("{auth-provider: {name: oidc}}", "auth-provider \"oidc\" is not supported"),
        ] {
            let error = refusal(&with_user(user));
            assert!(
                error.starts_with("kubeconfig: users[0] \"u\": ") && error.contains(said),
                "{user}: {error}"
            );
            assert!(!error.contains("hidden"), "{error}");
        }
        for (cluster, said) in [
            ("{}", "server is missing"),
            ("{server: 'unix:///x'}", "is not a URL"),
            ("{server: 'https://x', proxy-url: 'ftp://u:hidden@x'}", "proxy-url \"ftp://***@x\""),
            (
                "{server: 'https://x', insecure-skip-tls-verify: 'true'}",
                "insecure-skip-tls-verify is text, not true or false",
            ),
            ("{server: 'https://x', certificate-authority: /nowhere}", "certificate-authority /nowhere: "),
            (
                "{server: 'https://x', insecure-skip-tls-verify: true, certificate-authority-data: LS0tLS1CRUdJTiA=}",
                "exclude each other",
            ),
        ] {
            let error = refusal(&format!("{CONTEXT}clusters: [{{name: c, cluster: {cluster}}}]"));
            assert!(
                error.starts_with("kubeconfig: clusters[0] \"c\": ") && error.contains(said),
                "{cluster}: {error}"
            );
            assert!(!error.contains("hidden"), "{error}");
        }
    }

    #[test]
    fn entries_that_nobody_uses_are_checked_too() {
        let used = with_user("{token: t}");
        for (more, said) in [
            ("extensions: [{name: e, extension: 1}, {name: e, extension: 2}]", "the name \"e\" occurs twice"),
            ("preferences: {colors: 'no'}", "preferences: colors is text"),
            ("kind: Secret", "is no kubeconfig"),
            ("apiVersion: v2", "is no kubeconfig"),
        ] {
            let error = refusal(&format!("{used}{more}\n"));
            assert!(error.contains(said), "{more}: {error}");
        }
        let twice = used.replace("users: [", "users: [{name: u}, ");
        assert_eq!(refusal(&twice), "kubeconfig: users[1]: the name \"u\" occurs twice in users");
        assert_eq!(refusal("[]"), "kubeconfig is a list, not a kubeconfig");
    }

    #[test]
    fn nothing_configured_is_told_apart_from_something_broken() {
        for nothing in ["", "# empty", "clusters: []", "contexts: [{name: a}]"] {
            assert_eq!(refusal(nothing), "the kubeconfig holds no configuration", "{nothing}");
        }
        // client-go says the same, and a program in a cluster would go on there as another user.
        let dangling = with_user("{}").replace("name: c,", "name: d,");
        assert_eq!(refusal(&dangling), "kubeconfig: there is no cluster \"c\"");
        let none = load(&KubeconfigOptions::new(), &|_| None).unwrap().unwrap_err().to_string();
        assert_eq!(none, "kubeconfig (neither $KUBECONFIG nor $HOME is set) holds no configuration");
    }

    #[test]
    fn bytes_of_any_kind_never_panic() {
        let good = with_user("{token: t, as-groups: [a], exec: {command: x, env: [{name: a, value: b}]}}");
        for at in 0..good.len() {
            let mut bytes = good.clone().into_bytes();
            for byte in [b'[', b'}', b':', b'\n', b'*', b'&', b'!', b'|', b'\t', b'"', 0xff, 0] {
                bytes[at] = byte;
                let _ = File::parse(&bytes, "kubeconfig", Path::new("/"));
            }
            let _ = File::parse(&good.as_bytes()[..at], "kubeconfig", Path::new("/"));
        }
    }
}
