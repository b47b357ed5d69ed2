//! Services and controllers of pods: which pods are alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use object::field::Path;
use object::selector::label::{Operator, Requirement, Selector};
use rustc_hash::FxHashMap;

use crate::needs::{Owner, OwnerKind};

type ByName = BTreeMap<Box<str>, Arc<Selector>>;

/// Services and controllers, by what they select.
#[derive(Debug, Clone, Default)]
pub struct Owners {
    /// By namespace and name.
    services: FxHashMap<Box<str>, Arc<ByName>>,
    /// By namespace.
    controllers: FxHashMap<Box<str>, Arc<FxHashMap<Owner, Arc<Selector>>>>,
    changes: u64,
}

impl Owners {
    /// A service or controller selects this; nothing when it is gone.
    pub fn put(&mut self, namespace: &str, owner: Owner, selector: Option<Selector>) {
        // Most of what is told of a controller is how many of its pods are there.
        if self.selector(namespace, &owner) == selector.as_ref() {
            return;
        }
        self.changes += 1;
        let selector = selector.map(Arc::new);
        match owner.kind {
            OwnerKind::Service => put(&mut self.services, namespace, |services| match selector {
                Some(selector) => services.insert(owner.name, selector),
                None => services.remove(&owner.name),
            }),
            _ => put(&mut self.controllers, namespace, |controllers| match selector {
                Some(selector) => controllers.insert(owner, selector),
                None => controllers.remove(&owner),
            }),
        }
    }

    /// What a service or controller selects; none where it is not known.
    #[must_use]
    pub fn selector(&self, namespace: &str, owner: &Owner) -> Option<&Selector> {
        let known = match owner.kind {
            OwnerKind::Service => self.services.get(namespace)?.get(&owner.name)?,
            _ => self.controllers.get(namespace)?.get(owner)?,
        };
        Some(known)
    }

    /// Changes when any answer may have changed.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.changes
    }

    /// Which pods are like one: those that its services and its controller select. None where it
    /// has neither.
    #[must_use]
    pub fn like(
        &self,
        namespace: &str,
        labels: &BTreeMap<Box<str>, Box<str>>,
        owner: Option<&Owner>,
    ) -> Option<Selector> {
        let label = |key: &str| labels.get(key).map(|value| &**value);
        let services = self.services.get(namespace).into_iter().flat_map(|own| own.values());
        let mut pairs = BTreeMap::new();
        for selector in services.filter(|selector| selector.matches(label)) {
            let requirements = selector.requirements().unwrap_or_default();
            pairs.extend(requirements.iter().map(|one| (one.key(), one.values())));
        }
        let controller = owner.and_then(|owner| self.controllers.get(namespace)?.get(owner));
        let theirs = controller.and_then(|own| own.requirements()).unwrap_or_default();
        if owner.is_some_and(|owner| owner.kind == OwnerKind::ReplicationController) {
            pairs.extend(theirs.iter().map(|one| (one.key(), one.values())));
        }
        let pairs = pairs.into_iter().filter_map(|(key, values)| {
            Requirement::new(key, Operator::Equals, values.to_vec(), &Path::root()).ok()
        });
        let mut all: Vec<Requirement> = pairs.collect();
        if owner.is_some_and(|owner| owner.kind != OwnerKind::ReplicationController) {
            all.extend_from_slice(theirs);
        }
        (!all.is_empty()).then(|| Selector::all(all))
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.services.is_empty() && self.controllers.is_empty()
    }
}

/// Changes what is known of a namespace, and forgets it when that was the last.
fn put<M: Clone + Default + Emptiable, R>(
    map: &mut FxHashMap<Box<str>, Arc<M>>,
    namespace: &str,
    change: impl FnOnce(&mut M) -> R,
) {
    let own = Arc::make_mut(map.entry(namespace.into()).or_default());
    change(own);
    if own.is_empty() {
        map.remove(namespace);
    }
}

trait Emptiable {
    fn is_empty(&self) -> bool;
}

impl<K, V> Emptiable for BTreeMap<K, V> {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl<K, V> Emptiable for FxHashMap<K, V> {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_selector_is_a_change() {
        let mut owners = Owners::default();
        let mut check = |kind, selector: Option<[(&str, &str); 1]>, changed: bool| {
            let (before, owner) = (owners.epoch(), Owner { kind, name: "web".into() });
            owners.put("default", owner, selector.map(Selector::from_pairs));
            assert_eq!(owners.epoch() != before, changed, "{kind:?} {selector:?}");
        };
        for kind in [OwnerKind::Service, OwnerKind::ReplicaSet] {
            check(kind, None, false);
            check(kind, Some([("app", "web")]), true);
            check(kind, Some([("app", "web")]), false);
            check(kind, Some([("app", "db")]), true);
            check(kind, None, true);
            check(kind, None, false);
        }
    }
}
