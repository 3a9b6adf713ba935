//! One kubeconfig file: from JSON to entries, every field checked, also of entries that are not used.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use serde_json::{Map, Value};

use super::yaml;
use crate::base64_text;
use crate::config::Secret;
use crate::error::{Error, Result};

/// The extension of a cluster that is meant for its exec plugin.
const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// What a file holds, by name.
#[derive(Default)]
pub(super) struct File {
    pub(super) clusters: BTreeMap<String, Cluster>,
    pub(super) users: BTreeMap<String, User>,
    pub(super) contexts: BTreeMap<String, Context>,
    pub(super) current_context: String,
}

#[derive(Clone, Default)]
pub(super) struct Cluster {
    pub(super) server: String,
    pub(super) tls_server_name: String,
    pub(super) insecure_skip_tls_verify: bool,
    pub(super) certificate_authority: String,
    pub(super) certificate_authority_data: Vec<u8>,
    pub(super) proxy_url: String,
    pub(super) disable_compression: bool,
    /// What the exec plugin is to be told.
    pub(super) exec_config: Option<Value>,
    /// The file and entry, for messages.
    pub(super) place: String,
}

impl Cluster {
    pub(super) fn has_tls_settings(&self) -> bool {
        !self.certificate_authority.is_empty()
            || !self.certificate_authority_data.is_empty()
            || !self.tls_server_name.is_empty()
    }
}

#[derive(Clone, Default)]
pub(super) struct User {
    pub(super) client_certificate: String,
    pub(super) client_certificate_data: Vec<u8>,
    pub(super) client_key: String,
    pub(super) client_key_data: Vec<u8>,
    pub(super) token: String,
    pub(super) token_file: String,
    pub(super) impersonate: String,
    pub(super) impersonate_uid: String,
    pub(super) impersonate_groups: Vec<String>,
    pub(super) impersonate_extra: BTreeMap<String, Vec<String>>,
    pub(super) username: String,
    pub(super) password: String,
    pub(super) auth_provider: Option<AuthProvider>,
    pub(super) exec: Option<Exec>,
    /// The file and entry, for messages.
    pub(super) place: String,
}

impl User {
    pub(super) fn has_credentials(&self) -> bool {
        let fields = [&self.token, &self.token_file, &self.username, &self.client_certificate];
        fields.iter().any(|field| !field.is_empty())
            || !self.client_certificate_data.is_empty()
            || self.exec.is_some()
            || self.auth_provider.is_some()
    }
}

#[derive(Clone, Default)]
pub(super) struct Context {
    pub(super) cluster: String,
    pub(super) user: String,
    pub(super) namespace: String,
}

#[derive(Clone, Debug)]
pub(super) struct AuthProvider {
    pub(super) name: String,
}

/// A program that gives credentials.
#[derive(Clone, Debug)]
pub(super) struct Exec {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, Secret)>,
    pub(super) api_version: String,
    pub(super) install_hint: String,
    pub(super) provide_cluster_info: bool,
    pub(super) interactive_mode: String,
}

impl File {
    /// `name` is how messages call the file, `directory` what its relative paths are relative to.
    pub(super) fn parse(bytes: &[u8], name: &str, directory: &Path) -> Result<Self> {
        let root = yaml::parse(bytes).map_err(|why| Error::config(format!("{name}: not YAML: {why}")))?;
        let empty = Map::new();
        let root = match &root {
            Value::Null => return Ok(Self::default()),
            Value::Object(map) => At { map, place: name.to_owned(), empty: &empty },
            other => return Err(Error::config(format!("{name} is {}, not a kubeconfig", describe(other)))),
        };
        let (version, kind) = (root.text("apiVersion")?, root.text("kind")?);
        if !matches!(version.as_str(), "" | "/" | "v1" | "/v1") || !matches!(kind.as_str(), "" | "Config") {
            return Err(Error::config(format!(
                "{name} is no kubeconfig: apiVersion {version:?}, kind {kind:?} instead of \"v1\", \"Config\""
            )));
        }
        let preferences = root.map("preferences")?;
        preferences.flag("colors")?;
        preferences.extensions()?;
        root.extensions()?;

        let path = |path: String| resolve(path, directory);
        let mut file = Self { current_context: root.text("current-context")?, ..Self::default() };
        for (name, at) in root.entries("clusters", "cluster")? {
            file.clusters.insert(name, Cluster::read(&at, path)?);
        }
        for (name, at) in root.entries("users", "user")? {
            file.users.insert(name, User::read(&at, path)?);
        }
        for (name, at) in root.entries("contexts", "context")? {
            at.extensions()?;
            let context = Context {
                cluster: at.text("cluster")?,
                user: at.text("user")?,
                namespace: at.text("namespace")?,
            };
            file.contexts.insert(name, context);
        }
        Ok(file)
    }

    /// Adds what another file holds under names that are not taken.
    pub(super) fn merge(&mut self, other: Self) {
        fn add<T>(into: &mut BTreeMap<String, T>, from: BTreeMap<String, T>) {
            for (name, entry) in from {
                into.entry(name).or_insert(entry);
            }
        }
        add(&mut self.clusters, other.clusters);
        add(&mut self.users, other.users);
        add(&mut self.contexts, other.contexts);
        if self.current_context.is_empty() {
            self.current_context = other.current_context;
        }
    }
}

impl Cluster {
    fn read(at: &At<'_>, path: impl Fn(String) -> String) -> Result<Self> {
        Ok(Self {
            server: at.text("server")?,
            tls_server_name: at.text("tls-server-name")?,
            insecure_skip_tls_verify: at.flag("insecure-skip-tls-verify")?,
            certificate_authority: path(at.text("certificate-authority")?),
            certificate_authority_data: at.bytes("certificate-authority-data")?,
            proxy_url: at.text("proxy-url")?,
            disable_compression: at.flag("disable-compression")?,
            exec_config: at.extensions()?.cloned(),
            place: at.place.clone(),
        })
    }
}

impl User {
    fn read(at: &At<'_>, path: impl Fn(String) -> String) -> Result<Self> {
        at.extensions()?;
        Ok(Self {
            client_certificate: path(at.text("client-certificate")?),
            client_certificate_data: at.bytes("client-certificate-data")?,
            client_key: path(at.text("client-key")?),
            client_key_data: at.bytes("client-key-data")?,
            token: at.text("token")?,
            token_file: path(at.text("tokenFile")?),
            impersonate: at.text("as")?,
            impersonate_uid: at.text("as-uid")?,
            impersonate_groups: at.texts("as-groups")?,
            impersonate_extra: {
                let extra = at.map("as-user-extra")?;
                extra.map.keys().map(|key| Ok((key.clone(), extra.texts(key)?))).collect::<Result<_>>()?
            },
            username: at.text("username")?,
            password: at.text("password")?,
            auth_provider: at.some("auth-provider")?.map(|at| AuthProvider::read(&at)).transpose()?,
            exec: at.some("exec")?.map(|at| Exec::read(&at, path)).transpose()?,
            place: at.place.clone(),
        })
    }
}

impl AuthProvider {
    fn read(at: &At<'_>) -> Result<Self> {
        let config = at.map("config")?;
        config.map.keys().try_for_each(|key| config.text(key).map(drop))?;
        Ok(Self { name: at.text("name")? })
    }
}

impl Exec {
    fn read(at: &At<'_>, path: impl Fn(String) -> String) -> Result<Self> {
        let (command, api_version) = (at.text("command")?, at.text("apiVersion")?);
        let mut interactive_mode = at.text("interactiveMode")?;
        let old = ["client.authentication.k8s.io/v1beta1", "client.authentication.k8s.io/v1alpha1"];
        if interactive_mode.is_empty() && old.contains(&api_version.as_str()) {
            interactive_mode = "IfAvailable".into();
        }
        Ok(Self {
            // A name without a slash is looked up in PATH.
            command: if command.contains(std::path::MAIN_SEPARATOR) { path(command) } else { command },
            args: at.texts("args")?,
            env: at
                .list("env")?
                .iter()
                .map(|at| Ok((at.text("name")?, Secret::new(at.text("value")?))))
                .collect::<Result<_>>()?,
            api_version,
            install_hint: printable(&at.text("installHint")?),
            provide_cluster_info: at.flag("provideClusterInfo")?,
            interactive_mode,
        })
    }
}

/// A mapping, and where it is. Absent and null are the same everywhere: empty.
struct At<'a> {
    map: &'a Map<String, Value>,
    place: String,
    empty: &'a Map<String, Value>,
}

impl<'a> At<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    fn wrong(&self, key: &str, value: &Value, needed: &str) -> Error {
        let hint =
            if needed == "text" && !value.is_array() && !value.is_object() { " (quote it)" } else { "" };
        Error::config(format!("{}: {key} is {}, not {needed}{hint}", self.place, describe(value)))
    }

    fn text(&self, key: &str) -> Result<String> {
        match self.get(key) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(self.wrong(key, other, "text")),
        }
    }

    fn flag(&self, key: &str) -> Result<bool> {
        match self.get(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(self.wrong(key, other, "true or false")),
        }
    }

    /// base64, which may be broken into lines.
    fn bytes(&self, key: &str) -> Result<Vec<u8>> {
        let text = match self.get(key) {
            None => return Ok(Vec::new()),
            Some(Value::String(text)) => text,
            Some(other) => return Err(self.wrong(key, other, "base64 text")),
        };
        base64_text::decode(text).map_err(|error| {
            // The error may quote a byte; only its place is told.
            let place = match error {
                base64::DecodeError::InvalidByte(at, _) => format!("at character {at}"),
                _ => "it is cut off or padded wrongly".into(),
            };
            Error::config(format!("{}: {key} is not base64: {place}", self.place))
        })
    }

    fn array(&self, key: &str) -> Result<&'a [Value]> {
        match self.get(key) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(other) => Err(self.wrong(key, other, "a list")),
        }
    }

    fn texts(&self, key: &str) -> Result<Vec<String>> {
        let items = self.array(key)?.iter().enumerate();
        items
            .map(|(n, item)| match item {
                Value::Null => Ok(String::new()),
                Value::String(text) => Ok(text.clone()),
                other => Err(self.wrong(&format!("{key}[{n}]"), other, "text")),
            })
            .collect()
    }

    fn some(&self, key: &str) -> Result<Option<Self>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(map)) => {
                Ok(Some(Self { map, place: format!("{}: {key}", self.place), empty: self.empty }))
            }
            Some(other) => Err(self.wrong(key, other, "a mapping")),
        }
    }

    fn map(&self, key: &str) -> Result<Self> {
        let none = || Self { map: self.empty, place: self.place.clone(), empty: self.empty };
        Ok(self.some(key)?.unwrap_or_else(none))
    }

    fn list(&self, key: &str) -> Result<Vec<Self>> {
        let items = self.array(key)?.iter().enumerate();
        items
            .map(|(n, item)| {
                let map = match item {
                    Value::Null => self.empty,
                    Value::Object(map) => map,
                    other => return Err(self.wrong(&format!("{key}[{n}]"), other, "a mapping")),
                };
                Ok(Self { map, place: format!("{}: {key}[{n}]", self.place), empty: self.empty })
            })
            .collect()
    }

    /// A list of `name` and a mapping called `inner`; no name may occur twice.
    fn entries(&self, key: &str, inner: &str) -> Result<Vec<(String, Self)>> {
        let mut seen = HashSet::new();
        let mut entries = Vec::new();
        for at in self.list(key)? {
            let name = at.text("name")?;
            if !seen.insert(name.clone()) {
                return Err(Error::config(format!("{}: the name {name:?} occurs twice in {key}", at.place)));
            }
            let map = match at.get(inner) {
                None => self.empty,
                Some(Value::Object(map)) => map,
                Some(other) => return Err(at.wrong(inner, other, "a mapping")),
            };
            entries.push((
                name.clone(),
                Self { map, place: format!("{} {name:?}", at.place), empty: self.empty },
            ));
        }
        Ok(entries)
    }

    /// Checks the extensions, which may hold anything, and gives that for exec plugins.
    fn extensions(&self) -> Result<Option<&'a Value>> {
        let mut seen = HashSet::new();
        let mut exec = None;
        for at in self.list("extensions")? {
            let name = at.text("name")?;
            if seen.contains(&name) {
                return Err(Error::config(format!("{}: the name {name:?} occurs twice", at.place)));
            }
            let Some(value) = at.get("extension") else { continue }; // a null does not take the name
            if name == EXEC_EXTENSION {
                exec = Some(value);
            }
            seen.insert(name);
        }
        Ok(exec)
    }
}

fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// As Go's `filepath.Join`: a relative path is cleaned, an absolute one left as it is.
fn resolve(path: String, directory: &Path) -> String {
    if path.is_empty() || Path::new(&path).is_absolute() {
        return path;
    }
    crate::config::url::clean(&format!("{}/{path}", directory.display()))
}

/// No escape sequence may reach a terminal.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && !('\t'..='\r').contains(&c) {
            out.push_str(&format!("U+{:04X}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}
