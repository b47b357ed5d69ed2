//! Pods that have no node as far as the API server says.

use std::collections::{BTreeMap, BTreeSet};

use api::OwnerReference;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::fact::Uid;
use crate::ledger::Identity;
use crate::needs::Owner;
use crate::pool::Id;
use crate::queue::History;

/// A pod that has no node as far as the API server says.
#[derive(Debug, Clone)]
pub(super) struct Unbound {
    pub(super) profile: usize,
    pub(super) gated: bool,
    /// Whether somebody outside is asked about it.
    pub(super) consulted: bool,
    pub(super) labels: BTreeMap<Box<str>, Box<str>>,
    pub(super) owner: Option<Owner>,
    /// Who made it.
    pub(super) owners: Box<[OwnerReference]>,
    /// When it was found out which reservations are for it.
    pub(super) invited: u64,
    /// When it was found out which pods are like it.
    pub(super) likened: u64,
    /// What it went through, where we decided on a node.
    pub(super) history: History,
}

/// All of them, also by their namespace and labels.
#[derive(Default)]
pub(super) struct AllUnbound {
    pods: FxHashMap<Uid, (Unbound, Id<Identity>)>,
    by_identity: FxHashMap<Id<Identity>, FxHashSet<Uid>>,
}

impl AllUnbound {
    pub(super) fn get(&self, uid: &Uid) -> Option<&Unbound> {
        self.pods.get(uid).map(|(own, _)| own)
    }

    pub(super) fn get_mut(&mut self, uid: &Uid) -> Option<&mut Unbound> {
        self.pods.get_mut(uid).map(|(own, _)| own)
    }

    pub(super) fn insert(&mut self, uid: Uid, own: Unbound, identity: Id<Identity>) {
        let old = self.pods.insert(uid.clone(), (own, identity)).map(|(_, old)| old);
        if old != Some(identity) {
            self.part(&uid, old);
            self.by_identity.entry(identity).or_default().insert(uid);
        }
    }

    pub(super) fn remove(&mut self, uid: &Uid) {
        if let Some((_, identity)) = self.pods.remove(uid) {
            self.part(uid, Some(identity));
        }
    }

    fn part(&mut self, uid: &Uid, identity: Option<Id<Identity>>) {
        let Some(identity) = identity else { return };
        let Some(others) = self.by_identity.get_mut(&identity) else { return };
        others.remove(uid);
        if others.is_empty() {
            self.by_identity.remove(&identity);
        }
    }

    /// Those with one of these namespaces and labels, in order.
    pub(super) fn with(&self, identities: &BTreeSet<Id<Identity>>) -> Vec<Uid> {
        let all = identities.iter().filter_map(|identity| self.by_identity.get(identity));
        sorted(all.flatten().cloned().collect())
    }

    /// All of them, in order.
    pub(super) fn all(&self) -> Vec<Uid> {
        sorted(self.pods.keys().cloned().collect())
    }
}

fn sorted(mut uids: Vec<Uid>) -> Vec<Uid> {
    uids.sort_unstable();
    uids
}
