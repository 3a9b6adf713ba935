//! Exec plugins: programs that give credentials, called as client-go calls them
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins>).
//!
//! A plugin gets a request in its environment and prints an answer. When it is run, and how long its answer is used, is
//! the business of [`credentials`](super::credentials).

mod answer;
mod run;

use std::error::Error as StdError;
use std::io::{self, IsTerminal as _};
use std::process::{Command, Stdio};
use std::str::FromStr;

use serde_json::{Map, Value, json};

use super::{Credential, CredentialSource, Pem, Secret};
use crate::base64_text;
use crate::error::{Error, Result};
use crate::stop::Stop;

/// The variable that the request is in.
const REQUEST: &str = "KUBERNETES_EXEC_INFO";

/// A program that gives credentials.
pub(super) struct Plugin {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    /// Added to our own environment.
    pub(super) env: Vec<(String, Secret)>,
    pub(super) version: Version,
    /// How to get the program, for who does not have it. May be empty.
    pub(super) install_hint: String,
    pub(super) interactive: Interactive,
    /// What the plugin is told of the cluster.
    pub(super) cluster: Option<Cluster>,
}

/// The versions of request and answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V1Beta1,
}

/// Whether a plugin may use the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interactive {
    Never,
    IfAvailable,
    Always,
}

/// A cluster as a plugin is told of it.
pub(super) struct Cluster {
    pub(super) server: String,
    pub(super) tls_server_name: String,
    pub(super) insecure_skip_tls_verify: bool,
    pub(super) ca: Option<Pem>,
    pub(super) proxy_url: String,
    pub(super) disable_compression: bool,
    /// What the kubeconfig holds for the plugin alone.
    pub(super) config: Option<Value>,
}

/// What a plugin printed, if it was asked in this version.
pub(super) fn read_answer(answer: &[u8], api_version: &str) -> Result<Credential> {
    answer::read(answer, api_version.parse()?).map_err(|e| e.context("answer of an exec plugin"))
}

impl CredentialSource for Plugin {
    fn credential(&self, stop: &Stop) -> Result<Credential, Box<dyn StdError + Send + Sync>> {
        let interactive = self.interactive.with(io::stdin().is_terminal())?;
        let mut command = Command::new(&self.command);
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value.expose())))
            .env(REQUEST, self.request(interactive)?)
            .stdout(Stdio::piped());
        if interactive {
            // Who is asked to log in must see it, as it is written.
            command.stdin(Stdio::inherit()).stderr(Stdio::inherit());
        } else {
            command.stdin(Stdio::null()).stderr(Stdio::piped());
        }
        let run = run::run(&mut command, stop).map_err(|e| match self.install_hint.as_str() {
            "" => Error::config(format!("cannot be started: {e}")),
            hint => Error::config(format!("cannot be started: {e}; {hint}")),
        })?;
        let credential = run.stdout().and_then(|stdout| answer::read(&stdout, self.version));
        credential.map_err(|e| match run.stderr() {
            said if said.is_empty() => e.into(),
            said => Error::config(format!("{e}: {said}")).into(),
        })
    }
}

impl Plugin {
    /// As client-go writes it: what is not set is left out, but for `server` and `config`.
    fn request(&self, interactive: bool) -> Result<String> {
        let mut spec = Map::new();
        spec.insert("interactive".into(), interactive.into());
        if let Some(cluster) = &self.cluster {
            spec.insert("cluster".into(), cluster.told()?.into());
        }
        let request = json!({ "kind": "ExecCredential", "apiVersion": self.version.as_str(), "spec": spec });
        Ok(request.to_string())
    }
}

impl Cluster {
    fn told(&self) -> Result<Map<String, Value>> {
        // Read each time: it may have been replaced.
        let ca = self.ca.as_ref().map(Pem::read).transpose()?.unwrap_or_default();
        let fields = [
            ("server", Some(self.server.as_str().into())),
            ("tls-server-name", text(&self.tls_server_name)),
            ("insecure-skip-tls-verify", flag(self.insecure_skip_tls_verify)),
            ("certificate-authority-data", text(&base64_text::encode(&ca))),
            ("proxy-url", text(&self.proxy_url)),
            ("disable-compression", flag(self.disable_compression)),
            ("config", Some(self.config.clone().unwrap_or_default())),
        ];
        Ok(fields.into_iter().filter_map(|(name, value)| Some((name.into(), value?))).collect())
    }
}

fn text(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| text.into())
}

fn flag(flag: bool) -> Option<Value> {
    flag.then_some(true.into())
}

impl Interactive {
    fn with(self, terminal: bool) -> Result<bool> {
        match self {
            Self::Always if !terminal => Err(Error::config(
                "it needs a terminal (interactiveMode: Always), and standard input is none",
            )),
            Self::Never => Ok(false),
            Self::Always | Self::IfAvailable => Ok(terminal),
        }
    }
}

impl Version {
    const ALL: [Self; 2] = [Self::V1, Self::V1Beta1];

    fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "client.authentication.k8s.io/v1",
            Self::V1Beta1 => "client.authentication.k8s.io/v1beta1",
        }
    }
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|version| version.as_str() == text).ok_or_else(|| {
            let of_old = text == "client.authentication.k8s.io/v1alpha1";
            let hint = if of_old { " any more: have a newer plugin write the kubeconfig anew" } else { "" };
            Error::config(format!(
                "exec: apiVersion {text:?} is not supported{hint} ({} and {} are)",
                Self::V1.as_str(),
                Self::V1Beta1.as_str()
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin() -> Plugin {
        Plugin {
            command: "plugin".into(),
            args: Vec::new(),
            env: Vec::new(),
            version: Version::V1Beta1,
            install_hint: String::new(),
            interactive: Interactive::Never,
            cluster: None,
        }
    }

    #[test]
    fn the_request_is_as_client_go_writes_it() {
        let mut plugin = plugin();
        assert_eq!(
            plugin.request(true).unwrap(),
            r#"{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","spec":{"interactive":true}}"#
        );
        plugin.cluster = Some(Cluster {
            server: "https://api.test".into(),
            tls_server_name: String::new(),
            insecure_skip_tls_verify: false,
            ca: None,
            proxy_url: String::new(),
            disable_compression: false,
            config: None,
        });
        let request: Value = serde_json::from_str(&plugin.request(false).unwrap()).unwrap();
        assert_eq!(
            request["spec"],
            json!({"interactive": false, "cluster": {"server": "https://api.test", "config": null}})
        );
        plugin.cluster = plugin.cluster.map(|cluster| Cluster {
            insecure_skip_tls_verify: true,
            ca: Some(Pem::File("/nowhere/ca.crt".into())),
            ..cluster
        });
        let error = plugin.request(false).unwrap_err().to_string();
        assert!(error.contains("/nowhere/ca.crt"), "{error}");
    }

    #[test]
    fn a_terminal_is_used_if_there_is_one_and_the_mode_allows_it() {
        for (mode, terminal, interactive) in [
            (Interactive::Never, true, Some(false)),
            (Interactive::Never, false, Some(false)),
            (Interactive::IfAvailable, true, Some(true)),
            (Interactive::IfAvailable, false, Some(false)),
            (Interactive::Always, true, Some(true)),
            (Interactive::Always, false, None),
        ] {
            assert_eq!(mode.with(terminal).ok(), interactive, "{mode:?}, {terminal}");
        }
    }
}
