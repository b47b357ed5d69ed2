//! The name of an object within its kind.
//!
//! A key is one shared string, so that the reflector's memory of what it delivered, the
//! store, the work queue and a log line all hold the same few bytes.

use std::fmt;
use std::sync::Arc;

/// `namespace/name`, or `name` for an object of a cluster-scoped kind.
///
/// ```
/// use chassis::key::Key;
/// let key = Key::namespaced("shop", "web-0");
/// assert_eq!((key.namespace(), key.name()), ("shop", "web-0"));
/// assert_eq!(Key::cluster("node-1").to_string(), "node-1");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The key of an object; an empty namespace means a cluster-scoped kind.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() { Self::cluster(name) } else { Self::namespaced(namespace, name) }
    }

    /// The key of an object in a namespace.
    #[must_use]
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// The key of an object of a cluster-scoped kind.
    #[must_use]
    pub fn cluster(name: &str) -> Self {
        Self(name.into())
    }

    /// The namespace; empty for a cluster-scoped kind.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name within the namespace or the cluster.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(_, name)| name)
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
