//! What a change of storage can cure.
//!
//! What kube-scheduler looks at and what a plugin's answer follows from are told apart: it tries
//! pods for volumes that they have nothing to do with, and takes for unchangeable what is only seldom
//! changed.

use super::{Hint, Missed};
use crate::fact::{Claim, CsiNode, InTree, Source, StorageFact};
use crate::ledger::{Ask, Ledger};
use crate::needs::{Volume, Volumes};
use crate::plugin::Plugin;

pub(super) fn hint(
    plugin: Plugin,
    ledger: &Ledger,
    ask: Ask,
    old: &StorageFact,
    new: &StorageFact,
) -> Hint {
    let none = Volumes::default();
    let volumes = ask.volumes.map_or(&none, |id| ledger.asks.volumes.get(id));
    let own = Own { ledger, volumes };
    let (seen, may) = match plugin {
        Plugin::VolumeBinding => (binding_seen(&own, old, new), own.binding(old, new)),
        Plugin::NodeVolumeLimits => (limits_seen(&own, old, new), own.limits(old, new)),
        Plugin::VolumeRestrictions => (restrictions_seen(&own, old, new), own.sharing(old, new)),
        Plugin::VolumeZone => (zone_seen(&own, old, new), own.zones(old, new)),
        Plugin::Extender | Plugin::Other => (true, true),
        _ => (false, false),
    };
    Hint::of_both(seen, may, Missed::Storage)
}

/// What kube-scheduler tries a pod for that VolumeBinding refused.
fn binding_seen(own: &Own<'_>, old: &StorageFact, new: &StorageFact) -> bool {
    match (old, new) {
        (_, StorageFact::Volume(_, Some(_))) => true,
        (_, StorageFact::Claim(namespace, name, Some(_))) => own.has(namespace, name),
        (StorageFact::Class(_, old), StorageFact::Class(_, Some(new))) => {
            old.as_ref().is_none_or(|old| old.topologies != new.topologies)
        }
        (StorageFact::CsiNode(_, old), StorageFact::CsiNode(_, Some(new))) => {
            old.as_ref().is_none_or(|old| old.taken_over != new.taken_over)
        }
        (StorageFact::Capacity(_, _, old), StorageFact::Capacity(_, _, Some(new))) => {
            old.as_ref().is_none_or(|old| new.largest_bytes > old.largest_bytes)
        }
        _ => false,
    }
}

fn limits_seen(own: &Own<'_>, old: &StorageFact, new: &StorageFact) -> bool {
    match (old, new) {
        (StorageFact::CsiNode(_, old), StorageFact::CsiNode(_, Some(new))) => {
            // It takes no limit for a limit of 0.
            let limit =
                |node: &CsiNode, driver: &str| node.limits.get(driver).copied().unwrap_or(0);
            let raised = |old: &CsiNode| {
                new.limits.iter().any(|(driver, count)| *count > limit(old, driver))
            };
            old.as_ref().is_none_or(raised)
        }
        (StorageFact::Claim(_, _, None), StorageFact::Claim(namespace, name, Some(_))) => {
            own.has(namespace, name)
        }
        (StorageFact::Attachment(_, Some(old)), StorageFact::Attachment(_, None)) => {
            own.volumes.volumes.iter().any(|volume| match volume {
                Volume::Claim(_) => true,
                Volume::Ephemeral { .. } => false,
                Volume::Disk(disk) => {
                    disk.driver().is_some_and(|driver| *driver.kind.driver() == *old.attacher)
                }
            })
        }
        _ => false,
    }
}

fn restrictions_seen(own: &Own<'_>, old: &StorageFact, new: &StorageFact) -> bool {
    match (old, new) {
        (StorageFact::Claim(_, _, None), StorageFact::Claim(namespace, name, Some(_))) => {
            own.names(namespace, name)
        }
        _ => false,
    }
}

fn zone_seen(own: &Own<'_>, old: &StorageFact, new: &StorageFact) -> bool {
    match (old, new) {
        (_, StorageFact::Claim(namespace, name, Some(_))) => own.names(namespace, name),
        (StorageFact::Class(_, None), StorageFact::Class(_, Some(new))) => new.waits,
        (StorageFact::Volume(_, old), StorageFact::Volume(_, Some(new))) => {
            old.as_ref().is_none_or(|old| old.zones != new.zones)
        }
        _ => false,
    }
}

/// A pod with volumes, and what it may care about.
struct Own<'a> {
    ledger: &'a Ledger,
    volumes: &'a Volumes,
}

impl<'a> Own<'a> {
    /// Whether a claim is one of the pod's.
    fn has(&self, namespace: &str, name: &str) -> bool {
        *self.volumes.namespace == *namespace
            && self.volumes.volumes.iter().any(|volume| volume.claim() == Some(name))
    }

    /// Whether it is one that the pod names itself, and that others may name as well.
    fn names(&self, namespace: &str, name: &str) -> bool {
        let is = |volume: &Volume| matches!(volume, Volume::Claim(own) if **own == *name);
        *self.volumes.namespace == *namespace && self.volumes.volumes.iter().any(is)
    }

    /// The pod's claims that are there.
    fn claims(&self) -> impl Iterator<Item = &'a Claim> {
        let Self { ledger, volumes } = self;
        let names = volumes.volumes.iter().filter_map(|volume| volume.claim());
        names.filter_map(|name| ledger.storage.claim(&volumes.namespace, name))
    }

    /// Whether a claim of the pod names a volume.
    fn has_volume(&self, name: &str) -> bool {
        self.claims().any(|claim| claim.volume.as_deref() == Some(name))
    }

    /// Whether a claim of the pod waits for a volume of a class.
    fn wants_of(&self, class: &str) -> bool {
        self.claims().any(|claim| claim.bound().is_none() && *claim.class == *class)
    }

    /// What VolumeBinding's answer may follow from.
    fn binding(&self, old: &StorageFact, new: &StorageFact) -> bool {
        match (old, new) {
            (StorageFact::Volume(name, old), StorageFact::Volume(_, new)) => {
                let mut either = [old, new].into_iter().flatten();
                self.has_volume(name) || either.any(|volume| self.wants_of(&volume.class))
            }
            (_, StorageFact::Claim(namespace, name, new)) => {
                new.is_some() && self.has(namespace, name)
            }
            (_, StorageFact::Class(name, new)) => new.is_some() && self.wants_of(name),
            (StorageFact::CsiNode(_, old), StorageFact::CsiNode(_, new)) => {
                fn taken_over(node: Option<&CsiNode>) -> &[Box<str>] {
                    node.map_or(&[], |node| &node.taken_over)
                }
                let same = taken_over(old.as_ref()) == taken_over(new.as_ref());
                !same && self.claims().next().is_some()
            }
            (StorageFact::CsiDriver(name, old), StorageFact::CsiDriver(_, new)) => {
                let told = old.is_some_and(|old| old.tells_capacity);
                let tells = new.is_some_and(|new| new.tells_capacity);
                let is_its = |claim: &Claim| {
                    let class = self.ledger.storage.class(&claim.class);
                    class.is_some_and(|class| class.provisioner == *name)
                };
                told && !tells && self.claims().any(is_its)
            }
            (StorageFact::Capacity(_, _, old), StorageFact::Capacity(_, _, Some(new))) => {
                let more = old.as_ref().is_none_or(|old| {
                    let elsewhere = old.class != new.class || old.nodes != new.nodes;
                    elsewhere || new.largest_bytes > old.largest_bytes
                });
                more && self.wants_of(&new.class)
            }
            _ => false,
        }
    }

    /// What NodeVolumeLimits' answer may follow from: also the volumes of other pods.
    fn limits(&self, old: &StorageFact, new: &StorageFact) -> bool {
        if self.volumes.volumes.is_empty() {
            return false;
        }
        match (old, new) {
            (StorageFact::CsiNode(_, Some(old)), StorageFact::CsiNode(_, new)) => {
                let now = |driver: &str| new.as_ref().and_then(|new| new.limits.get(driver));
                let mut limits = old.limits.iter();
                let raised =
                    limits.any(|(driver, count)| now(driver).is_none_or(|now| *now > *count));
                let otherwise = new.as_ref().is_some_and(|new| new.taken_over != old.taken_over);
                raised || otherwise
            }
            (StorageFact::Claim(_, _, old), StorageFact::Claim(namespace, name, new)) => {
                let (old, new) = (old.as_deref(), new.as_deref());
                let own = new.is_some() && self.has(namespace, name);
                own || old.is_some_and(|old| self.counts_less((namespace, name), old, new))
            }
            (StorageFact::Volume(_, old), StorageFact::Volume(_, new)) => {
                let (old, new) = (old.as_deref(), new.as_deref());
                old.map(|old| &old.source) != new.map(|new| &new.source)
            }
            (StorageFact::Class(_, old), StorageFact::Class(_, new)) => {
                let (old, new) = (old.as_ref(), new.as_ref());
                old.map(|old| &old.provisioner) != new.map(|new| &new.provisioner)
            }
            (StorageFact::Attachment(_, old), StorageFact::Attachment(..)) => old.is_some(),
            _ => false,
        }
    }

    /// Whether a claim of pods that have a node does not count any longer, or for another driver.
    fn counts_less(
        &self,
        (namespace, name): (&str, &str),
        old: &Claim,
        new: Option<&Claim>,
    ) -> bool {
        let storage = &self.ledger.storage;
        // Who uses a claim that is made for a pod is not kept: its owner is.
        let is_used = old.controller.is_some() || storage.users(namespace, name).next().is_some();
        let before = driver_of(self.ledger, old);
        let same = |new: &Claim| {
            let moved = old.volume.is_some() && old.volume != new.volume;
            !moved && old.controller == new.controller && driver_of(self.ledger, new) == before
        };
        is_used && before.is_some() && !new.is_some_and(same)
    }

    /// What VolumeRestrictions' answer may follow from.
    fn sharing(&self, old: &StorageFact, new: &StorageFact) -> bool {
        match (old, new) {
            (StorageFact::Claim(_, _, old), StorageFact::Claim(namespace, name, Some(new))) => {
                let was = old.as_ref().map(|old| old.is_for_one_pod());
                was != Some(new.is_for_one_pod()) && self.names(namespace, name)
            }
            _ => false,
        }
    }

    /// What VolumeZone's answer may follow from.
    fn zones(&self, old: &StorageFact, new: &StorageFact) -> bool {
        match (old, new) {
            (_, StorageFact::Claim(namespace, name, Some(_))) => self.names(namespace, name),
            (_, StorageFact::Class(name, Some(_))) => self.wants_of(name),
            (StorageFact::Volume(name, old), StorageFact::Volume(_, Some(new))) => {
                let moved = old.as_ref().is_none_or(|old| old.zones != new.zones);
                moved && self.has_volume(name)
            }
            _ => false,
        }
    }
}

/// The driver for which a claim counts: that of its volume, or else of its class.
fn driver_of<'a>(ledger: &'a Ledger, claim: &Claim) -> Option<&'a str> {
    let volume = claim.volume.as_deref().and_then(|name| ledger.storage.volume(name));
    match volume.map(|volume| &volume.source) {
        Some(Source::Csi { driver, .. }) => Some(driver),
        Some(Source::InTree { kind, handle: Some(_) }) => Some(kind.driver()),
        Some(_) => None,
        None => {
            let provisioner = &*ledger.storage.class(&claim.class)?.provisioner;
            let built_in = InTree::ALL.into_iter().find(|kind| kind.name() == provisioner);
            Some(built_in.map_or(provisioner, |kind| kind.driver()))
        }
    }
}
