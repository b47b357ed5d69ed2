//! What we decided about storage and have not yet seen back.
//!
//! A volume that is promised to a claim counts as kept for it, and a claim that is promised a
//! volume on a node counts as one for which a volume is made there. Pods that share a claim hold
//! the same promise.

use std::collections::BTreeMap;

use super::Key;
use crate::fact::ClaimReference;

/// Volumes and nodes that are promised to claims.
#[derive(Debug, Clone, Default)]
pub struct Promises {
    /// By name of the volume, with the number of pods that count on it.
    volumes: BTreeMap<Box<str>, (ClaimReference, u32)>,
    /// Nodes by namespace and name of the claim, likewise.
    nodes: BTreeMap<Key, (Box<str>, u32)>,
}

impl Promises {
    /// The claim that a volume is promised to.
    pub(super) fn claim_of(&self, volume: &str) -> Option<&ClaimReference> {
        self.volumes.get(volume).map(|(claim, _)| claim)
    }

    /// The volumes that are promised to a claim.
    pub(super) fn volumes_for(&self, namespace: &str, name: &str) -> impl Iterator<Item = &str> {
        let is_for =
            |claim: &ClaimReference| *claim.namespace == *namespace && *claim.name == *name;
        let theirs = self.volumes.iter().filter(move |(_, (claim, _))| is_for(claim));
        theirs.map(|(volume, _)| &**volume)
    }

    /// The node on which a claim is promised a volume.
    pub(super) fn node_of(&self, claim: &Key) -> Option<&str> {
        self.nodes.get(claim).map(|(node, _)| &**node)
    }

    /// Whether nothing is promised, which is the rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.volumes.is_empty() && self.nodes.is_empty()
    }

    /// Promises a volume to a claim, once more.
    pub fn promise_volume(&mut self, volume: &str, claim: ClaimReference) {
        self.volumes.entry(volume.into()).or_insert((claim, 0)).1 += 1;
    }

    /// One pod does not count on it any longer.
    pub fn release_volume(&mut self, volume: &str) {
        if let Some((_, holders)) = self.volumes.get_mut(volume) {
            *holders -= 1;
            if *holders == 0 {
                self.volumes.remove(volume);
            }
        }
    }

    /// Promises a claim a volume on a node, once more.
    pub fn promise_node(&mut self, claim: Key, node: &str) {
        self.nodes.entry(claim).or_insert((node.into(), 0)).1 += 1;
    }

    /// One pod does not count on it any longer.
    pub fn release_node(&mut self, claim: &Key) {
        if let Some((_, holders)) = self.nodes.get_mut(claim) {
            *holders -= 1;
            if *holders == 0 {
                self.nodes.remove(claim);
            }
        }
    }
}
