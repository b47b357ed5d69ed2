//! Pods by the name of something that they each have one of at most.

use std::collections::{BTreeMap, BTreeSet};

use crate::fact::Uid;

/// Pods by the name of something that they each have one of at most.
#[derive(Debug, Clone, Default)]
pub struct PodsByName(BTreeMap<Box<str>, BTreeSet<Uid>>);

impl PodsByName {
    /// A pod had one name and has another now.
    pub(crate) fn follow(&mut self, uid: &Uid, old: Option<&str>, new: Option<&str>) {
        if old == new {
            return;
        }
        if let Some(old) = old
            && let Some(pods) = self.0.get_mut(old)
        {
            pods.remove(uid);
            if pods.is_empty() {
                self.0.remove(old);
            }
        }
        if let Some(new) = new {
            self.0.entry(new.into()).or_default().insert(uid.clone());
        }
    }

    /// The pods with a name.
    pub(crate) fn with(&self, name: &str) -> impl Iterator<Item = &Uid> {
        self.0.get(name).into_iter().flatten()
    }

    /// The pods with a name, which they have no longer.
    pub(crate) fn take(&mut self, name: &str) -> BTreeSet<Uid> {
        self.0.remove(name).unwrap_or_default()
    }

    /// The names, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
    }

    /// The pods, by their names.
    pub fn pods(&self) -> impl Iterator<Item = &Uid> {
        self.0.values().flatten()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
