//! What is not read yet, and what is in the way: for whoever asks why a scheduler is not ready.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The resources that a scheduler has to read before it decides; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Awaited(Arc<Mutex<BTreeMap<String, Option<String>>>>);

impl Awaited {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Option<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A resource has to be read.
    pub(crate) fn begin(&self, resource: &str) {
        self.all().insert(resource.to_owned(), None);
    }

    /// Something is in the way of a resource, where it is not read yet.
    pub(crate) fn trouble(&self, resource: &str, what: &str) {
        if let Some(trouble) = self.all().get_mut(resource) {
            *trouble = Some(what.to_owned());
        }
    }

    /// A resource is read.
    pub(crate) fn end(&self, resource: &str) {
        self.all().remove(resource);
    }
}

impl fmt::Display for Awaited {
    /// Those that are awaited, each with what was last in its way.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (resource, trouble)) in self.all().iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{resource}")?;
            if let Some(trouble) = trouble {
                write!(f, " ({trouble})")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_not_awaited_and_has_no_troubles() {
        let awaited = Awaited::default();
        for resource in ["pods.v1", "nodes.v1", "services.v1"] {
            awaited.begin(resource);
        }
        awaited.trouble("pods.v1", "cannot list: no (403)");
        awaited.trouble("pods.v1", "cannot list: not yet (503)");
        awaited.end("nodes.v1");
        awaited.trouble("nodes.v1", "watch lost");
        assert_eq!(awaited.to_string(), "pods.v1 (cannot list: not yet (503)), services.v1");
    }
}
