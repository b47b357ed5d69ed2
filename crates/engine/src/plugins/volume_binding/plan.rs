//! What the claims of a pod get on a node.

use super::claims::{Claims, Open, size, suits_freely};
use crate::fact::{Claim, Class, CsiNode, PersistentVolume, Source, TopologyRequirement};
use crate::ledger::{Ledger, NodeIndex};
use crate::needs::NodeTerm;
use crate::plugins::node_affinity::label;
use crate::reason::VolumeReason;

/// What a claim gets on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Name of the claim.
    pub claim: Box<str>,
    /// Name of the volume; none where one is made.
    pub volume: Option<Box<str>>,
}

/// Nobody makes volumes of such a class.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

impl<'a> Claims<'a> {
    /// What the claims get on a node, or all reasons why they get nothing.
    pub fn plan(
        &self,
        ledger: &'a Ledger,
        node: NodeIndex,
    ) -> Result<Vec<Binding>, Vec<VolumeReason>> {
        let mut reasons = Vec::new();
        let mut gone = None;
        match self.unreached(ledger, node) {
            Some(reason @ VolumeReason::VolumeGone { .. }) => gone = Some(reason),
            other => reasons.extend(other),
        }
        let plan = self.bindings(ledger, node);
        match plan {
            Ok(bindings) if reasons.is_empty() && gone.is_none() => return Ok(bindings),
            Ok(_) => {}
            Err(reason) => reasons.push(reason),
        }
        reasons.extend(gone);
        Err(reasons)
    }

    /// The first volume that the node does not reach, or that is not there.
    fn unreached(&self, ledger: &Ledger, node: NodeIndex) -> Option<VolumeReason> {
        for (name, volume) in &self.bound {
            let Some(volume) = volume else {
                return Some(VolumeReason::VolumeGone { volume: (*name).into() });
            };
            if !reaches_volume(ledger, node, volume) {
                return Some(VolumeReason::NotReached { volume: (*name).into() });
            }
        }
        None
    }

    fn bindings(&self, ledger: &'a Ledger, node: NodeIndex) -> Result<Vec<Binding>, VolumeReason> {
        let mut made: Vec<(&str, &Claim)> = Vec::new();
        for (name, claim, selected) in &self.in_the_making {
            if *selected != ledger.nodes.name(node) {
                return Err(VolumeReason::NoVolume { claim: (*name).into() });
            }
            made.push((name, claim));
        }
        let mut bindings: Vec<Binding> = Vec::new();
        for open in &self.open {
            let is_left =
                |volume: &str| bindings.iter().all(|other| other.volume.as_deref() != Some(volume));
            match open.volume(ledger, node, is_left) {
                Some(volume) => {
                    bindings.push(Binding { claim: open.name.into(), volume: Some(volume.into()) })
                }
                None => made.push((open.name, open.claim)),
            }
        }
        for (name, claim) in made {
            can_be_made(ledger, node, name, claim)?;
            bindings.push(Binding { claim: name.into(), volume: None });
        }
        Ok(bindings)
    }
}

impl<'a> Open<'a> {
    /// The volume that the claim gets on a node, out of those that are left.
    fn volume(
        &self,
        ledger: &'a Ledger,
        node: NodeIndex,
        is_left: impl Fn(&str) -> bool,
    ) -> Option<&'a str> {
        let reached = |volume: &PersistentVolume| reaches(ledger, node, volume.reach.as_deref());
        match self.kept.iter().find(|(name, _)| is_left(name)) {
            Some((name, volume)) => reached(volume).then_some(*name),
            None => {
                let is_fine = |name: &str, volume: &PersistentVolume| {
                    is_left(name) && suits_freely(volume, self.claim) && reached(volume)
                };
                let Claim { class, .. } = self.claim;
                let own = |key: &str| label(ledger, node, key);
                ledger.storage.smallest_free(class, size(self.claim), own, is_fine)
            }
        }
    }
}

/// The nodes that reach a volume, as one node with these drivers sees it.
fn reach<'a>(volume: &'a PersistentVolume, csi: Option<&CsiNode>) -> Option<&'a [NodeTerm]> {
    let taken_over = match &volume.source {
        Source::InTree { kind, handle: Some(_) } => csi
            .is_some_and(|csi| csi.taken_over.iter().any(|name| **name == *kind.name()))
            .then_some(volume.reach_taken_over.as_deref())
            .flatten(),
        _ => None,
    };
    taken_over.or(volume.reach.as_deref())
}

/// Whether a node reaches a volume.
pub(super) fn reaches_volume(ledger: &Ledger, node: NodeIndex, volume: &PersistentVolume) -> bool {
    let csi = ledger.storage.csi_node(ledger.nodes.name(node));
    reaches(ledger, node, reach(volume, csi))
}

/// Whether a node is one of those that terms mean. Volumes ask for labels only: to them, no node
/// has a name.
fn reaches(ledger: &Ledger, node: NodeIndex, terms: Option<&[NodeTerm]>) -> bool {
    let holds = |term: &NodeTerm| term.holds("", |key| label(ledger, node, key));
    terms.is_none_or(|terms| terms.iter().any(holds))
}

/// Whether a volume for a claim can be made for a node.
fn can_be_made(
    ledger: &Ledger,
    node: NodeIndex,
    name: &str,
    claim: &Claim,
) -> Result<(), VolumeReason> {
    let no_volume = || VolumeReason::NoVolume { claim: name.into() };
    let class = ledger.storage.class(&claim.class).ok_or_else(no_volume)?;
    let nobody = class.provisioner.is_empty() || *class.provisioner == *NO_PROVISIONER;
    if nobody || !is_allowed(ledger, node, class) {
        return Err(no_volume());
    }
    if has_room(ledger, node, class, claim) {
        Ok(())
    } else {
        Err(VolumeReason::NoRoom { claim: name.into() })
    }
}

fn is_allowed(ledger: &Ledger, node: NodeIndex, class: &Class) -> bool {
    let holds = |one: &TopologyRequirement| {
        let own = label(ledger, node, &one.key);
        own.is_some_and(|own| one.values.iter().any(|value| **value == *own))
    };
    let term_holds = |term: &[TopologyRequirement]| !term.is_empty() && term.iter().all(holds);
    class.topologies.is_empty() || class.topologies.iter().any(|term| term_holds(term))
}

/// Whether the driver of a class has room for a claim; one that does not tell has.
fn has_room(ledger: &Ledger, node: NodeIndex, class: &Class, claim: &Claim) -> bool {
    let Some(request) = &claim.request else { return true };
    let driver = ledger.storage.csi_driver(&class.provisioner);
    if !driver.is_some_and(|driver| driver.tells_capacity) {
        return true;
    }
    let bytes = request.value();
    let mut capacities = ledger.storage.capacities_of(&claim.class);
    capacities.any(|capacity| {
        capacity.largest_bytes.is_some_and(|largest| largest >= bytes)
            && capacity.nodes.matches(|key| label(ledger, node, key))
    })
}
