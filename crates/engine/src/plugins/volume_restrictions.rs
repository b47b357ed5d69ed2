//! VolumeRestrictions: some disks go to one pod of a node, and some claims to one pod of all.

mod judge;

use crate::judge::Judging;
use crate::ledger::{Ask, Ledger, NodeIndex};
use crate::needs::{Disk, Volume, Volumes};
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Plugin, Reads};
use crate::reason::{Code, Reason, Refusal, VolumeReason};

/// Refuses nodes with a disk that cannot be shared, and all while a claim is in use that is for
/// one pod.
#[derive(Debug, Clone, Copy)]
pub struct VolumeRestrictions;

/// The volumes of a pod, where it has any.
pub(super) fn volumes(ledger: &Ledger, ask: Ask) -> Option<&Volumes> {
    ask.volumes.map(|id| ledger.asks.volumes.get(id))
}

/// What answers about volumes follow from.
pub(super) fn key(ledger: &Ledger, ask: Ask) -> Option<Key> {
    ask.volumes.map(|id| ledger.asks.volumes.stamp(id))
}

fn disks(volumes: &Volumes) -> impl Iterator<Item = &Disk> {
    volumes.volumes.iter().filter_map(|volume| match volume {
        Volume::Disk(disk) => Some(disk),
        _ => None,
    })
}

fn disk_is_taken(ledger: &Ledger, volumes: &Volumes, node: NodeIndex) -> bool {
    let pods = || ledger.storage.pods_on(node).map(|id| ledger.asks.volumes.get(id));
    let is_taken = |disk: &Disk| pods().flat_map(disks).any(|other| disk.collides_with(other));
    disks(volumes).any(is_taken)
}

/// A claim for one pod that another one has.
fn in_use<'a>(ledger: &Ledger, volumes: &'a Volumes) -> Option<&'a str> {
    let namespace = &volumes.namespace;
    let names = volumes.volumes.iter().filter_map(|volume| match volume {
        Volume::Claim(name) => Some(&**name),
        _ => None,
    });
    let mut for_one = names.filter(|name| {
        ledger.storage.claim(namespace, name).is_some_and(|claim| claim.is_for_one_pod())
    });
    for_one.find(|name| {
        let mut users = ledger.storage.users(namespace, name);
        users.any(|node| ledger.nodes.present().contains(node))
    })
}

impl Filter for VolumeRestrictions {
    fn plugin(&self) -> Plugin {
        Plugin::VolumeRestrictions
    }

    fn reads(&self) -> Reads {
        Reads::Cluster
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        key(ledger, ask)
    }

    fn admit(&self, ledger: &Ledger, ask: Ask) -> Result<(), Refusal> {
        let Some(volumes) = volumes(ledger, ask) else { return Ok(()) };
        for volume in &volumes.volumes {
            if let Volume::Claim(claim) = volume
                && ledger.storage.claim(&volumes.namespace, claim).is_none()
            {
                let reason = VolumeReason::NoClaim { claim: claim.clone() };
                return Err(Refusal::new(Code::Unresolvable, Reason::Volume(reason)));
            }
        }
        Ok(())
    }

    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
        let Some(volumes) = volumes(ledger, ask) else { return };
        if in_use(ledger, volumes).is_some() {
            *nodes = NodeSet::new();
        } else if disks(volumes).next().is_some() {
            nodes.keep_where(|node| !disk_is_taken(ledger, volumes, node));
        }
    }

    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal> {
        let volumes = volumes(ledger, ask)?;
        let reason = if disk_is_taken(ledger, volumes, node) {
            VolumeReason::DiskTaken
        } else {
            VolumeReason::InUse { claim: in_use(ledger, volumes)?.into() }
        };
        Some(Refusal::new(Code::Unschedulable, Reason::Volume(reason)))
    }

    fn judge(&self, ledger: &Ledger, ask: Ask) -> Judging {
        judge::judge(ledger, ask)
    }
}
