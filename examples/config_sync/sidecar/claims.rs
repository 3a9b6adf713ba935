//! Which objects want which files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use listwatch::types::{ConfigMap, Secret};
use listwatch::{ObjectKey, ObjectMeta, Resource, Time};
use log::warn;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    ConfigMap,
    Secret,
    /// No object: an earlier run, whose files are to go.
    Earlier,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
            Self::Earlier => "earlier run",
        }
    }
}

/// Names an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Source {
    pub(crate) kind: Kind,
    pub(crate) key: ObjectKey,
}

impl Source {
    pub(crate) fn earlier() -> Self {
        Self { kind: Kind::Earlier, key: ObjectKey::new(None, "") }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Earlier => f.write_str("files of an earlier run"),
            kind => write!(f, "{} {}", kind.name(), self.key),
        }
    }
}

/// In logs of the queue.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An object as it is in the cache.
#[derive(Clone)]
pub(crate) enum Object {
    ConfigMap(Arc<ConfigMap>),
    Secret(Arc<Secret>),
}

impl Object {
    pub(crate) fn source(&self) -> Source {
        match self {
            Self::ConfigMap(object) => Source { kind: Kind::ConfigMap, key: object.key() },
            Self::Secret(object) => Source { kind: Kind::Secret, key: object.key() },
        }
    }

    pub(crate) fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::ConfigMap(object) => &object.metadata,
            Self::Secret(object) => &object.metadata,
        }
    }

    pub(crate) fn keys(&self) -> Vec<&str> {
        match self {
            Self::ConfigMap(object) => {
                let text = object.data.iter().map(|(key, _)| key);
                text.chain(object.binary_data.keys().map(String::as_str)).collect()
            }
            Self::Secret(object) => object.data.keys().map(String::as_str).collect(),
        }
    }

    pub(crate) fn content(&self, key: &str) -> Option<&[u8]> {
        match self {
            Self::ConfigMap(object) => {
                let text = object.data.get(key).map(str::as_bytes);
                text.or_else(|| object.binary_data.get(key).map(|bytes| bytes.0.as_slice()))
            }
            Self::Secret(object) => object.data.get(key).map(|bytes| bytes.0.as_slice()),
        }
    }
}

/// That an object wants a file. The least has it: the oldest object, and so none that comes later can take it away.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claim {
    pub(crate) created: Option<Time>,
    pub(crate) source: Source,
    /// The key in the object.
    pub(crate) key: String,
}

#[derive(Default)]
pub(crate) struct Claims {
    by_path: BTreeMap<PathBuf, BTreeSet<Claim>>,
    by_source: HashMap<Source, Vec<(PathBuf, Claim)>>,
}

impl Claims {
    /// All that `source` wants, in place of what it wanted before. Returns the files whose content may now be another.
    pub(crate) fn set(&mut self, source: &Source, wanted: Vec<(PathBuf, Claim)>) -> BTreeSet<PathBuf> {
        let mut touched = BTreeSet::new();
        let before = self.by_source.remove(source).unwrap_or_default();
        for (path, claim) in &before {
            if let Some(claims) = self.by_path.get_mut(path) {
                claims.remove(claim);
                if claims.is_empty() {
                    self.by_path.remove(path);
                }
            }
            touched.insert(path.clone());
        }
        for (path, claim) in &wanted {
            let claims = self.by_path.entry(path.clone()).or_default();
            claims.insert(claim.clone());
            let news = !before.iter().any(|(other, _)| other == path);
            if let (true, true, Some(first)) = (news, claims.len() > 1, claims.first()) {
                let all: Vec<_> = claims.iter().map(|claim| claim.source.to_string()).collect();
                warn!(
                    "{}: {} want it; {} has it, as it is the oldest",
                    path.display(),
                    all.join(" and "),
                    first.source
                );
            }
            touched.insert(path.clone());
        }
        if !wanted.is_empty() {
            self.by_source.insert(source.clone(), wanted);
        }
        touched
    }

    /// Whose content the file has.
    pub(crate) fn winner(&self, path: &Path) -> Option<&Claim> {
        self.by_path.get(path)?.first()
    }

    /// How many objects have files.
    pub(crate) fn objects(&self) -> usize {
        self.by_source.len()
    }
}
