//! The claims of a pod, with what does not depend on the node worked out once.

use object::quantity::Quantity;

use crate::fact::{Claim, PersistentVolume};
use crate::ledger::Ledger;
use crate::needs::Volumes;

/// A persistent volume and its name.
pub type Named<'a> = (&'a str, &'a PersistentVolume);

/// The claims of a pod by what has to be done for them.
#[derive(Default)]
pub struct Claims<'a> {
    /// Volumes that claims are bound to, and those that are not there.
    pub bound: Vec<(&'a str, Option<&'a PersistentVolume>)>,
    /// For these, a volume is being made for a node.
    pub in_the_making: Vec<(&'a str, &'a Claim, &'a str)>,
    /// These wait for a node, the smallest first.
    pub open: Vec<Open<'a>>,
}

/// A claim that waits for a node, and the volumes that it could have there.
pub struct Open<'a> {
    /// Its name.
    pub name: &'a str,
    /// The claim.
    pub claim: &'a Claim,
    /// Volumes that are kept for it: if there is one, it is this or none.
    pub kept: Vec<Named<'a>>,
}

/// Claims that neither are bound nor wait for a node.
pub fn immediate<'a>(ledger: &'a Ledger, volumes: &'a Volumes) -> impl Iterator<Item = &'a str> {
    let names = volumes.volumes.iter().filter_map(|volume| volume.claim());
    names.filter(|name| {
        let claim = ledger.storage.claim(&volumes.namespace, name);
        claim.is_some_and(|claim| claim.bound().is_none() && !waits(ledger, claim))
    })
}

/// Whether a claim waits for a node. One that names a volume does not.
fn waits(ledger: &Ledger, claim: &Claim) -> bool {
    let class = ledger.storage.class(&claim.class);
    claim.volume.is_none() && class.is_some_and(|class| class.waits)
}

impl<'a> Claims<'a> {
    /// The claims of a pod.
    pub fn new(ledger: &'a Ledger, volumes: &'a Volumes) -> Self {
        let namespace = &volumes.namespace;
        let mut claims = Self::default();
        for name in volumes.volumes.iter().filter_map(|volume| volume.claim()) {
            let Some(claim) = ledger.storage.claim(namespace, name) else { continue };
            if let Some(volume) = claim.bound() {
                claims.bound.push((volume, ledger.storage.volume(volume)));
            } else if !waits(ledger, claim) {
                continue;
            } else if let Some(node) = ledger.storage.selected_node(namespace, name, claim) {
                claims.in_the_making.push((name, claim, node));
            } else {
                claims.open.push(Open::new(ledger, namespace, name, claim));
            }
        }
        claims.open.sort_by(|a, b| size(a.claim).cmp(size(b.claim)));
        claims
    }

    /// Whether there is nothing to see to.
    pub fn is_empty(&self) -> bool {
        self.bound.is_empty() && self.in_the_making.is_empty() && self.open.is_empty()
    }
}

/// How much a claim asks for.
pub fn size(claim: &Claim) -> &Quantity {
    claim.request.as_ref().unwrap_or(&Quantity::ZERO)
}

impl<'a> Open<'a> {
    fn new(ledger: &'a Ledger, namespace: &str, name: &'a str, claim: &'a Claim) -> Self {
        let kept = ledger.storage.kept_for(namespace, name).filter(|(_, volume, meant)| {
            let is_for = meant.uid.is_empty() || meant.uid == claim.uid;
            is_for && volume.class == claim.class && suits(volume, claim)
        });
        Self { name, claim, kept: kept.map(|(name, volume, _)| (name, volume)).collect() }
    }
}

/// Whether a volume that is kept for a claim is one for it.
fn suits(volume: &PersistentVolume, claim: &Claim) -> bool {
    volume.capacity >= *size(claim)
        && volume.is_block == claim.is_block
        && volume.attributes_class == claim.attributes_class
        && !volume.is_going
}

/// Whether a volume that nobody has is one for a claim.
pub fn suits_freely(volume: &PersistentVolume, claim: &Claim) -> bool {
    let label = |key: &str| volume.labels.get(key).map(|value| &**value);
    suits(volume, claim)
        && volume.is_available
        && claim.selector.matches(label)
        && claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
}
