//! VolumeZone: a node is in the zone and region of the volumes.
//!
//! Volumes say so by labels of old; the nodes that reach a volume are VolumeBinding's.

use super::node_affinity::label;
use super::volume_restrictions::{key, volumes};
use crate::fact::{PersistentVolume, TOPOLOGY_LABELS, Zone, successor};
use crate::judge::Judging;
use crate::ledger::{Ask, Ledger, NodeIndex};
use crate::needs::{Volume, Volumes};
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Plugin, Reads};
use crate::reason::{Code, Reason, Refusal, VolumeReason};

/// Refuses nodes in other zones or regions than the volumes.
#[derive(Debug, Clone, Copy)]
pub struct VolumeZone;

type Named<'a> = (&'a str, &'a PersistentVolume);

/// The persistent volumes that the claims of a pod name; why one has none and does not wait.
fn named<'a>(ledger: &'a Ledger, volumes: &'a Volumes) -> Result<Vec<Named<'a>>, VolumeReason> {
    let mut found = Vec::new();
    for volume in &volumes.volumes {
        let Volume::Claim(name) = volume else { continue };
        let no_claim = || VolumeReason::NoClaim { claim: name.clone() };
        let claim = ledger.storage.claim(&volumes.namespace, name).ok_or_else(no_claim)?;
        if let Some(volume) = claim.volume.as_deref() {
            let missing = || VolumeReason::NoSuchVolume { volume: volume.into() };
            found.push((volume, ledger.storage.volume(volume).ok_or_else(missing)?));
        } else if claim.class.is_empty() {
            return Err(VolumeReason::NeitherVolumeNorClass { claim: name.clone() });
        } else {
            let no_class = || VolumeReason::NoClass { class: claim.class.clone() };
            let class = ledger.storage.class(&claim.class).ok_or_else(no_class)?;
            if !class.waits {
                return Err(VolumeReason::NoVolumeName { claim: name.clone() });
            }
        }
    }
    Ok(found)
}

/// The volume that is elsewhere, and the label that says so.
fn elsewhere<'a>(
    ledger: &Ledger,
    volumes: &[Named<'a>],
    node: NodeIndex,
) -> Option<(&'a str, &'static str)> {
    // Where nodes have no zones, volumes may be anywhere.
    if TOPOLOGY_LABELS.iter().all(|key| label(ledger, node, key).is_none()) {
        return None;
    }
    let zones =
        volumes.iter().flat_map(|(name, volume)| volume.zones.iter().map(|zone| (*name, zone)));
    let fits = |Zone { label: key, values }: &Zone| {
        let own = label(ledger, node, key).or_else(|| label(ledger, node, successor(key)));
        own.is_some_and(|own| values.iter().any(|value| **value == *own))
    };
    let mut wrong = zones.filter(|(_, zone)| !fits(zone));
    wrong.next().map(|(name, zone)| (name, zone.label))
}

impl Filter for VolumeZone {
    fn plugin(&self) -> Plugin {
        Plugin::VolumeZone
    }

    fn reads(&self) -> Reads {
        Reads::Cluster
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        key(ledger, ask)
    }

    fn admit(&self, ledger: &Ledger, ask: Ask) -> Result<(), Refusal> {
        let Some(volumes) = volumes(ledger, ask) else { return Ok(()) };
        let refusal = |reason| Refusal::new(Code::Unresolvable, Reason::Volume(reason));
        named(ledger, volumes).map(|_| ()).map_err(refusal)
    }

    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
        let Some(volumes) = volumes(ledger, ask) else { return };
        let Ok(mut named) = named(ledger, volumes) else { return };
        named.retain(|(_, volume)| !volume.zones.is_empty());
        if !named.is_empty() {
            nodes.keep_where(|node| elsewhere(ledger, &named, node).is_none());
        }
    }

    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal> {
        let named = named(ledger, volumes(ledger, ask)?).ok()?;
        let (volume, label) = elsewhere(ledger, &named, node)?;
        let reason = VolumeReason::OtherZone { volume: volume.into(), label: label.into() };
        Some(Refusal::new(Code::Unresolvable, Reason::Volume(reason)))
    }

    /// Volumes are where they are, whoever is on the node.
    fn judge(&self, _ledger: &Ledger, _ask: Ask) -> Judging {
        Judging::Fixed
    }
}
