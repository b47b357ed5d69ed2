//! What is not read yet, and what is in the way: for whoever asks why a scheduler is not ready.
//!
//! A leader has read a kind when it knows all that happened before its turn; one that stands by,
//! when it has listed it once. Before either has begun, nothing is known at all.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The resources that a scheduler has to read before it decides; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Awaited(Arc<Mutex<All>>);

#[derive(Debug, Default)]
struct All {
    /// Whether it is clear what has to be read.
    is_begun: bool,
    unread: BTreeMap<String, Unread>,
}

/// A resource that is not read.
#[derive(Debug, Default)]
struct Unread {
    /// Whether it was listed, so that one who does not lead knows enough of it.
    is_listed: bool,
    /// What was last in its way.
    trouble: Option<String>,
}

impl Awaited {
    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A resource has to be read.
    pub(crate) fn begin(&self, resource: &str) {
        let mut all = self.all();
        all.is_begun = true;
        all.unread.insert(resource.to_owned(), Unread::default());
    }

    /// Nothing has to be read before this process leads.
    pub(crate) fn begin_with_nothing(&self) {
        self.all().is_begun = true;
    }

    /// Something is in the way of a resource, where it is not read yet.
    pub(crate) fn trouble(&self, resource: &str, what: &str) {
        if let Some(unread) = self.all().unread.get_mut(resource) {
            unread.trouble = Some(what.to_owned());
        }
    }

    /// A resource was listed, and has to be read once more by one who leads.
    pub(crate) fn listed(&self, resource: &str) {
        if let Some(unread) = self.all().unread.get_mut(resource) {
            *unread = Unread { is_listed: true, trouble: None };
        }
    }

    /// A resource is read.
    pub(crate) fn end(&self, resource: &str) {
        self.all().unread.remove(resource);
    }

    /// Why one that stands by could not take over; none where it could.
    #[must_use]
    pub fn in_the_way(&self) -> Option<String> {
        let all = self.all();
        if !all.is_begun {
            return Some("nobody has said yet who holds the lease".to_owned());
        }
        let unlisted = told(all.unread.iter().filter(|(_, unread)| !unread.is_listed));
        (!unlisted.is_empty()).then(|| format!("it has not read what there is: {unlisted}"))
    }
}

/// Resources, each with what was last in its way.
fn told<'a>(unread: impl Iterator<Item = (&'a String, &'a Unread)>) -> String {
    let words = unread.map(|(resource, unread)| match &unread.trouble {
        Some(trouble) => format!("{resource} ({trouble})"),
        None => resource.clone(),
    });
    words.collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Awaited {
    /// Those that are awaited by one who leads, each with what was last in its way.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&told(self.all().unread.iter()))
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

    #[test]
    fn one_that_stands_by_needs_to_have_listed_each_kind_once() {
        let awaited = Awaited::default();
        let check = |in_the_way: Option<&str>, read: &str| {
            assert_eq!(awaited.in_the_way().as_deref(), in_the_way);
            assert_eq!(awaited.to_string(), read);
        };
        check(Some("nobody has said yet who holds the lease"), "");
        awaited.begin("nodes.v1");
        awaited.begin("pods.v1");
        awaited.trouble("nodes.v1", "no (403)");
        awaited.trouble("pods.v1", "no (403)");
        awaited.listed("pods.v1");
        let both = "nodes.v1 (no (403)), pods.v1";
        check(Some("it has not read what there is: nodes.v1 (no (403))"), both);
        awaited.listed("nodes.v1");
        check(None, "nodes.v1, pods.v1");
        // What happens to a watch later does not take back what is known.
        awaited.trouble("pods.v1", "watch lost");
        check(None, "nodes.v1, pods.v1 (watch lost)");
        awaited.end("pods.v1");
        awaited.listed("pods.v1");
        check(None, "nodes.v1");
    }

    #[test]
    fn one_that_is_to_read_nothing_before_its_turn_can_take_over() {
        let awaited = Awaited::default();
        awaited.begin_with_nothing();
        assert_eq!(awaited.in_the_way(), None);
    }
}
