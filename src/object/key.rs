use std::borrow::Borrow;
use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::excerpt;
use crate::error::Error;

/// Names one object of a kind: namespace and name, or the name alone where the kind has no namespaces.
///
/// Prints as `namespace/name` or `name` and parses back from it. One word and a half, cheap to clone.
///
/// ```
/// # use listwatch::ObjectKey;
/// let key: ObjectKey = "default/web-0".parse()?;
/// assert_eq!((key.namespace(), key.name()), (Some("default"), "web-0"));
/// assert_eq!(key, ObjectKey::namespaced("default", "web-0"));
/// # Ok::<(), listwatch::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(Arc<str>);

thread_local! {
    /// Where the text of a key is put together.
    static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
}

impl ObjectKey {
    /// The key of an object in a namespace. An empty namespace is none.
    #[must_use]
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self::with_text(namespace, name, |text| Self(text.into()))
    }

    /// Lends the text of a key that need not be made for it: to look for what is there already.
    pub(crate) fn with_text<T>(namespace: &str, name: &str, f: impl FnOnce(&str) -> T) -> T {
        if namespace.is_empty() {
            return f(name);
        }
        // Taken for the while, so that `f` may do the same.
        let mut text = TEXT.try_with(RefCell::take).unwrap_or_default();
        text.clear();
        text.push_str(namespace);
        text.push('/');
        text.push_str(name);
        let result = f(&text);
        // Names are short; one that is not leaves nothing behind.
        if text.capacity() <= 1024 {
            let _ = TEXT.try_with(|kept| kept.replace(text));
        }
        result
    }

    /// The key of an object of a kind without namespaces.
    #[must_use]
    pub fn cluster(name: &str) -> Self {
        Self(name.into())
    }

    /// The key for an optional namespace.
    #[must_use]
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Self::namespaced(namespace.unwrap_or_default(), name)
    }

    /// The namespace, if the kind has any.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.0.split_once('/').map(|(namespace, _)| namespace)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(_, name)| name)
    }

    /// `namespace/name` or `name`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Hashes and orders as its text, so maps by key can be asked with a `&str`.
impl Borrow<str> for ObjectKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for ObjectKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut parts = text.split('/');
        let good = match (parts.next(), parts.next(), parts.next()) {
            (Some(name), None, None) => !name.is_empty(),
            (Some(namespace), Some(name), None) => !namespace.is_empty() && !name.is_empty(),
            _ => false,
        };
        if good {
            Ok(Self(text.into()))
        } else {
            Err(Error::invalid(format!("object key {} is not NAME or NAMESPACE/NAME", excerpt(text))))
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_parses_back() {
        for text in ["web-0", "default/web-0"] {
            assert_eq!(text.parse::<ObjectKey>().unwrap().to_string(), text);
        }
        assert_eq!(ObjectKey::new(Some(""), "a"), ObjectKey::cluster("a"));
        assert_eq!(ObjectKey::cluster("node-1").namespace(), None);
    }

    #[test]
    fn refuses_what_is_no_key() {
        for text in ["", "/", "a/", "/a", "a/b/c"] {
            let error = text.parse::<ObjectKey>().unwrap_err();
            assert!(error.is_invalid_argument() && error.to_string().contains(&format!("{text:?}")));
        }
    }
}
