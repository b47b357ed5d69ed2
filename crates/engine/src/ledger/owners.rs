//! Services and controllers of pods: which pods are alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use object::field::Path;
use object::selector::label::{Operator, Requirement, Selector};
use rustc_hash::FxHashMap;

use crate::needs::{Owner, OwnerKind};

/// What is known in each namespace. A copy shares it.
type ByNamespace<M> = FxHashMap<Box<str>, Arc<M>>;

/// Services and controllers, by what they select.
#[derive(Debug, Clone, Default)]
pub struct Owners {
    /// By namespace and name.
    services: ByNamespace<BTreeMap<Box<str>, Arc<Selector>>>,
    /// By namespace.
    controllers: ByNamespace<FxHashMap<Owner, Arc<Selector>>>,
    changes: u64,
}

impl Owners {
    /// A service or controller selects this; nothing when it is gone.
    pub fn put(&mut self, namespace: &str, owner: Owner, selector: Option<Selector>) {
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
    map: &mut ByNamespace<M>,
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
