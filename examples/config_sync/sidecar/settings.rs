use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use listwatch::Selector;
use log::warn;

use super::Failure;
use super::hook::{Call, Hook, Process, signal};

/// What the environment says.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) selector: String,
    pub(crate) folder: PathBuf,
    /// Where else annotations may lead.
    pub(crate) allowed: Vec<PathBuf>,
    pub(crate) folder_annotation: String,
    pub(crate) namespaces: Namespaces,
    pub(crate) configmaps: bool,
    pub(crate) secrets: bool,
    pub(crate) unique_filenames: bool,
    pub(crate) file_mode: u32,
    /// Mirror once and end.
    pub(crate) once: bool,
    pub(crate) hooks: Vec<Hook>,
    /// No hook for the first mirror.
    pub(crate) skip_init: bool,
    pub(crate) health_port: u16,
}

/// Where the objects are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Namespaces {
    /// That of the pod, or of the kubeconfig's context.
    Own,
    All,
    Named(BTreeSet<String>),
}

impl Settings {
    /// Reads the variables. An empty one is as none.
    pub(crate) fn read(read: &dyn Fn(&str) -> Option<String>) -> Result<Self, Failure> {
        let get = |name: &str| read(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let required = |name: &str| get(name).ok_or_else(|| format!("{name} is not set"));
        let flag = |name: &str| get(name).is_some_and(|text| text.eq_ignore_ascii_case("true"));
        for (name, why) in [
            ("SCRIPT", "there is no shell to run it"),
            ("RESOURCE_NAME", "choose by label"),
            ("SKIP_TLS_VERIFY", "it would hand the token to anyone"),
            ("REQ_SKIP_TLS_VERIFY", "use http within the pod"),
        ] {
            if get(name).is_some_and(|value| !value.eq_ignore_ascii_case("false")) {
                return Err(format!("{name} is not supported: {why}").into());
            }
        }
        let label = required("LABEL")?;
        let selector = match get("LABEL_VALUE") {
            Some(value) => format!("{label}={value}"),
            None => label,
        };
        Selector::parse(&selector).map_err(|e| format!("LABEL, LABEL_VALUE: {e}"))?;
        let (configmaps, secrets) = match get("RESOURCE").as_deref().unwrap_or("configmap") {
            "configmap" => (true, false),
            "secret" => (false, true),
            "both" => (true, true),
            other => return Err(format!("RESOURCE is {other:?}, not configmap, secret or both").into()),
        };
        let method = get("METHOD").unwrap_or_default();
        if method == "SLEEP" {
            warn!("METHOD=SLEEP watches, which costs less and is sooner");
        }
        let mode = get("DEFAULT_FILE_MODE").unwrap_or_else(|| "644".into());
        let file_mode = u32::from_str_radix(&mode, 8).ok().filter(|mode| (0o400..=0o777).contains(mode));
        Ok(Self {
            selector,
            folder: absolute(&required("FOLDER")?)?,
            allowed: words(get("ALLOWED_FOLDERS"))
                .iter()
                .map(|word| absolute(word))
                .collect::<Result<_, _>>()?,
            folder_annotation: get("FOLDER_ANNOTATION").unwrap_or("k8s-sidecar-target-directory".into()),
            namespaces: match words(get("NAMESPACE")) {
                names if names.is_empty() => Namespaces::Own,
                names if names.iter().any(|name| name == "ALL") => Namespaces::All,
                names => Namespaces::Named(names.into_iter().collect()),
            },
            configmaps,
            secrets,
            unique_filenames: flag("UNIQUE_FILENAMES"),
            file_mode: file_mode
                .ok_or_else(|| format!("DEFAULT_FILE_MODE is {mode:?}, not 400 to 777: we read them, too"))?,
            once: method == "LIST",
            hooks: hooks(&get)?,
            skip_init: flag("REQ_SKIP_INIT"),
            health_port: match get("HEALTH_PORT") {
                Some(port) => port.parse().map_err(|_| format!("HEALTH_PORT is {port:?}, not a port"))?,
                None => 8080,
            },
        })
    }
}

impl Settings {
    /// Which objects, in one way for each choice: whose list of files it is.
    pub(crate) fn selection(&self) -> String {
        let resource = match (self.configmaps, self.secrets) {
            (true, true) => "both",
            (_, secrets) => {
                if secrets {
                    "secret"
                } else {
                    "configmap"
                }
            }
        };
        let namespaces = match &self.namespaces {
            Namespaces::Own => String::new(),
            Namespaces::All => "ALL".into(),
            Namespaces::Named(names) => names.iter().map(String::as_str).collect::<Vec<_>>().join(","),
        };
        format!("LABEL {} RESOURCE {resource} NAMESPACE {namespaces}", self.selector)
    }
}

fn words(text: Option<String>) -> Vec<String> {
    let text = text.unwrap_or_default();
    text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
}

fn absolute(path: &str) -> Result<PathBuf, Failure> {
    if path.split('/').any(|part| part == "..") {
        return Err(format!("the folder {path:?} has '..' in it").into());
    }
    std::path::absolute(path).map_err(|e| format!("the folder {path:?}: {e}").into())
}

fn hooks(get: &dyn Fn(&str) -> Option<String>) -> Result<Vec<Hook>, Failure> {
    let mut hooks = Vec::new();
    // A signal first: what a request makes reload may be what the signal is for.
    if let Some(name) = get("SIGNAL") {
        let signal = signal(&name)
            .ok_or_else(|| format!("SIGNAL is {name:?}, not HUP, INT, QUIT, TERM, USR1, USR2 or WINCH"))?;
        let process = match (get("SIGNAL_PID_FILE"), get("SIGNAL_PROCESS")) {
            (Some(file), None) => Process::PidFile(file.into()),
            (None, Some(name)) => Process::Name(name),
            _ => return Err("SIGNAL needs one of SIGNAL_PID_FILE and SIGNAL_PROCESS".into()),
        };
        hooks.push(Hook::Signal(signal, process));
    }
    if let Some(url) = get("REQ_URL") {
        let post = match get("REQ_METHOD").as_deref().unwrap_or("GET") {
            "GET" => false,
            "POST" => true,
            other => return Err(format!("REQ_METHOD is {other:?}, not GET or POST").into()),
        };
        let timeout = get("REQ_TIMEOUT").unwrap_or_else(|| "10".into());
        let seconds = timeout.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let timeout = seconds
            .filter(|t| !t.is_zero())
            .ok_or_else(|| format!("REQ_TIMEOUT is {timeout:?}, not seconds"))?;
        let user = get("REQ_USERNAME").zip(get("REQ_PASSWORD"));
        hooks.push(Hook::Call(Box::new(Call::new(&url, post, get("REQ_PAYLOAD"), timeout, user)?)));
    }
    Ok(hooks)
}
