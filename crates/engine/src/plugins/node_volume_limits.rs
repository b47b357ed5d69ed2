//! NodeVolumeLimits: a node takes so many volumes of a CSI driver.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::volume_restrictions::{key, volumes};
use crate::fact::{Claim, CsiNode, Driver, InTree, Source};
use crate::ledger::{Ask, Ledger, NodeIndex};
use crate::needs::{Volume, Volumes};
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Plugin, Reads};
use crate::reason::{Code, Reason, Refusal, VolumeReason};

/// Refuses nodes that would have more volumes of a driver than they may.
#[derive(Debug, Clone, Copy)]
pub struct NodeVolumeLimits;

/// A volume as its driver knows it, or will know it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Attached<'a> {
    driver: &'a str,
    handle: Handle<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Handle<'a> {
    Known(Cow<'a, str>),
    /// The volume is not there yet; the claim stands for it.
    Of {
        namespace: &'a str,
        claim: &'a str,
    },
}

/// Sources that no driver takes over, though a driver could.
const NOT_TAKEN_OVER: [&str; 2] = ["kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"];

/// Whether a driver has taken a source over on a node.
fn is_taken_over(node: &CsiNode, kind: InTree) -> bool {
    kind != InTree::Portworx || node.taken_over.iter().any(|name| **name == *kind.name())
}

/// The volumes that a pod has on a node.
fn of_pod<'a>(
    ledger: &'a Ledger,
    volumes: &'a Volumes,
    node: &CsiNode,
    found: &mut BTreeSet<Attached<'a>>,
) {
    for volume in &volumes.volumes {
        let attached = match volume {
            Volume::Disk(disk) => disk
                .driver()
                .filter(|Driver { kind, .. }| is_taken_over(node, *kind))
                .map(|Driver { kind, handle }| Attached {
                    driver: kind.driver(),
                    handle: Handle::Known(Cow::Owned(handle.into())),
                }),
            Volume::Claim(name) => of_claim(ledger, &volumes.namespace, name, None, node),
            Volume::Ephemeral { claim, uid, .. } => {
                of_claim(ledger, &volumes.namespace, claim, Some(uid), node)
            }
        };
        found.extend(attached);
    }
}

fn of_claim<'a>(
    ledger: &'a Ledger,
    namespace: &'a str,
    name: &'a str,
    owner: Option<&str>,
    node: &CsiNode,
) -> Option<Attached<'a>> {
    let claim = ledger.storage.claim(namespace, name)?;
    if owner.is_some() && claim.controller.as_deref() != owner {
        return None;
    }
    let volume = claim.volume.as_deref().and_then(|name| ledger.storage.volume(name));
    let Some(volume) = volume else { return of_class(ledger, namespace, name, claim, node) };
    let (driver, handle) = match &volume.source {
        Source::Csi { driver, handle } => (&**driver, &**handle),
        Source::InTree { kind, handle } if is_taken_over(node, *kind) => {
            (kind.driver(), handle.as_deref()?)
        }
        _ => return None,
    };
    let handle_known = Handle::Known(Cow::Borrowed(handle));
    (!driver.is_empty() && !handle.is_empty()).then_some(Attached { driver, handle: handle_known })
}

/// The volume that a claim will have, by its class.
fn of_class<'a>(
    ledger: &'a Ledger,
    namespace: &'a str,
    name: &'a str,
    claim: &Claim,
    node: &CsiNode,
) -> Option<Attached<'a>> {
    let provisioner = &*ledger.storage.class(&claim.class)?.provisioner;
    let driver = match InTree::ALL.into_iter().find(|kind| kind.name() == provisioner) {
        Some(kind) if is_taken_over(node, kind) => kind.driver(),
        Some(_) => return None,
        None if provisioner.is_empty() || NOT_TAKEN_OVER.contains(&provisioner) => return None,
        None => provisioner,
    };
    Some(Attached { driver, handle: Handle::Of { namespace, claim: name } })
}

/// What is too much on a node.
fn too_many(ledger: &Ledger, volumes: &Volumes, node: NodeIndex) -> Option<VolumeReason> {
    let name = ledger.nodes.name(node);
    let csi = ledger.storage.csi_node(name).filter(|csi| !csi.limits.is_empty())?;
    let mut added = BTreeSet::new();
    of_pod(ledger, volumes, csi, &mut added);
    let limits = added.iter().filter_map(|one| csi.limits.get(one.driver));
    let lowest = usize::try_from(*limits.min()?).unwrap_or(0);
    if ledger.storage.most_on(node, name) + added.len() <= lowest {
        return None;
    }
    let mut there = BTreeSet::new();
    for id in ledger.storage.pods_on(node) {
        of_pod(ledger, ledger.asks.volumes.get(id), csi, &mut there);
    }
    // A volume that is attached and that no pod here uses counts on its own, even where the pod
    // asks for that very volume: so does Kubernetes.
    let attached = ledger.storage.attached(name).filter_map(|attachment| {
        let volume = ledger.storage.volume(attachment.volume.as_deref()?)?;
        let Source::Csi { handle, .. } = &volume.source else { return None };
        let handle = Handle::Known(Cow::Borrowed(&**handle));
        let driver = &*attachment.attacher;
        (!driver.is_empty()).then_some(Attached { driver, handle })
    });
    let alone: BTreeSet<_> = attached.filter(|one| !there.contains(one)).collect();
    let mut adds: BTreeMap<&str, usize> = BTreeMap::new();
    for one in added.difference(&there) {
        *adds.entry(one.driver).or_default() += 1;
    }
    adds.into_iter().find_map(|(driver, added)| {
        let limit = *csi.limits.get(driver)?;
        let attached = there.iter().chain(&alone).filter(|one| one.driver == driver).count();
        let fits = i64::try_from(attached + added).is_ok_and(|all| all <= i64::from(limit));
        (!fits).then(|| VolumeReason::TooMany { driver: driver.into(), limit, attached, added })
    })
}

/// The first claim of a pod that is not there. The other plugins of volumes say it before this one,
/// where they are on.
fn missing(ledger: &Ledger, volumes: &Volumes) -> Option<VolumeReason> {
    let namespace = &volumes.namespace;
    let mut claims = volumes.volumes.iter().filter_map(|volume| match volume {
        Volume::Claim(claim) | Volume::Ephemeral { claim, .. } => Some(&**claim),
        Volume::Disk(_) => None,
    });
    let claim = claims.find(|claim| ledger.storage.claim(namespace, claim).is_none())?;
    Some(VolumeReason::NotCounted { namespace: namespace.clone(), claim: claim.into() })
}

impl Filter for NodeVolumeLimits {
    fn plugin(&self) -> Plugin {
        Plugin::NodeVolumeLimits
    }

    fn reads(&self) -> Reads {
        Reads::Cluster
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        key(ledger, ask)
    }

    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
        let Some(volumes) = volumes(ledger, ask) else { return };
        if missing(ledger, volumes).is_some() {
            return nodes.clear();
        }
        nodes.keep_where(|node| too_many(ledger, volumes, node).is_none());
    }

    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal> {
        let volumes = volumes(ledger, ask)?;
        if let Some(reason) = missing(ledger, volumes) {
            return Some(Refusal::new(Code::Unresolvable, Reason::Volume(reason)));
        }
        let reason = too_many(ledger, volumes, node)?;
        Some(Refusal::new(Code::Unschedulable, Reason::Volume(reason)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{Fact, NodeFact, StorageFact};
    use crate::needs::{Disk, Needs};

    #[test]
    fn a_disk_that_its_driver_cannot_take_over_is_not_counted() {
        let check = |handle: Option<&str>, refused: bool| {
            let mut ledger = Ledger::default();
            ledger.apply(Fact::Node(NodeFact { name: "node".into(), ..NodeFact::default() }));
            let limits = [(InTree::Aws.driver().into(), 0)].into_iter().collect();
            let csi = CsiNode { limits, taken_over: Box::default() };
            ledger.apply(Fact::Storage(StorageFact::CsiNode("node".into(), Some(csi))));
            let disk = Disk::Aws { id: "disk".into(), handle: handle.map(Into::into) };
            let volumes =
                Volumes { namespace: "default".into(), volumes: Box::new([Volume::Disk(disk)]) };
            let needs = Needs { volumes, ..Needs::default() };
            let ask = ledger.hold("default", &BTreeMap::new(), &needs);
            let node = ledger.nodes.find("node").unwrap();
            let found = NodeVolumeLimits.refusal(&ledger, ask, node).is_some();
            assert_eq!(found, refused, "{handle:?}");
        };
        check(Some("vol-1"), true);
        check(None, false);
    }
}
