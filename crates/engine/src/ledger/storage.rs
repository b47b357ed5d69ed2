//! Storage: volumes, claims and what binds them, and which pods use them where.
//!
//! Everything is kept by name, as the API server has it, so that it does not matter which of a
//! claim, its volume, its class and the pods that use it is told first.

mod free;
mod promises;

use std::collections::{BTreeMap, BTreeSet};

use free::Free;
use object::quantity::Quantity;
pub use promises::Promises;

use super::NodeIndex;
use crate::fact::{
    Attachment, Capacity, Claim, ClaimReference, Class, CsiDriver, CsiNode, PersistentVolume,
    StorageFact,
};
use crate::needs::{Volume, Volumes};
use crate::pool::Id;
use crate::shared::Sharded;

/// A namespace and a name.
type Key = (Box<str>, Box<str>);
type ByName<T> = Sharded<Box<str>, T>;

/// What is known of storage.
#[derive(Debug, Clone, Default)]
pub struct Storage {
    volumes: ByName<PersistentVolume>,
    /// Volumes that nobody has, by class.
    free: ByName<Free>,
    /// Names of the others, by namespace and name of the claim that they are bound to or kept for.
    kept: ByName<ByName<BTreeSet<Box<str>>>>,
    /// By namespace and name.
    claims: ByName<ByName<Claim>>,
    classes: ByName<Class>,
    csi_nodes: ByName<CsiNode>,
    csi_drivers: ByName<CsiDriver>,
    /// By class, then by namespace and name.
    capacities: ByName<BTreeMap<Key, Capacity>>,
    /// The class of each capacity, by namespace and name.
    capacity_classes: Sharded<Key, Box<str>>,
    attachments: ByName<Attachment>,
    /// Names of attachments, by node.
    attached: ByName<BTreeSet<Box<str>>>,
    /// How many pods on which node use a claim, by its namespace and name.
    users: ByName<ByName<BTreeMap<NodeIndex, u32>>>,
    on_node: Sharded<NodeIndex, InUse>,
    /// What we decided and have not yet seen back.
    pub promises: Promises,
}

/// Volumes that pods of a node use.
#[derive(Debug, Clone, Default)]
struct InUse {
    /// One entry for each pod with volumes.
    pods: Vec<Id<Volumes>>,
    /// How many volumes those are, counted as often as they are used.
    uses: usize,
}

impl Storage {
    /// Takes a fact in.
    pub(super) fn apply(&mut self, fact: StorageFact) {
        match fact {
            StorageFact::Volume(name, volume) => self.put_volume(name, volume.map(|own| *own)),
            StorageFact::Claim(namespace, name, claim) => {
                put_within(&mut self.claims, namespace, name, claim.map(|own| *own));
            }
            StorageFact::Class(name, class) => put(&mut self.classes, name, class),
            StorageFact::CsiNode(name, node) => put(&mut self.csi_nodes, name, node),
            StorageFact::CsiDriver(name, driver) => put(&mut self.csi_drivers, name, driver),
            StorageFact::Capacity(namespace, name, capacity) => {
                self.put_capacity((namespace, name), capacity);
            }
            StorageFact::Attachment(name, attachment) => self.put_attachment(name, attachment),
        }
    }

    /// What was told last of the thing that a fact is about.
    #[must_use]
    pub fn told(&self, fact: &StorageFact) -> StorageFact {
        match fact {
            StorageFact::Volume(name, _) => {
                let known = self.volumes.get(name).cloned();
                StorageFact::Volume(name.clone(), known.map(Box::new))
            }
            StorageFact::Claim(namespace, name, _) => {
                let known = self.claim(namespace, name).cloned();
                StorageFact::Claim(namespace.clone(), name.clone(), known.map(Box::new))
            }
            StorageFact::Class(name, _) => {
                StorageFact::Class(name.clone(), self.classes.get(name).cloned())
            }
            StorageFact::CsiNode(name, _) => {
                StorageFact::CsiNode(name.clone(), self.csi_nodes.get(name).cloned())
            }
            StorageFact::CsiDriver(name, _) => {
                StorageFact::CsiDriver(name.clone(), self.csi_driver(name))
            }
            StorageFact::Capacity(namespace, name, _) => {
                let key = (namespace.clone(), name.clone());
                let class = self.capacity_classes.get(&key);
                let known = class.and_then(|class| self.capacities.get(class)?.get(&key).cloned());
                StorageFact::Capacity(key.0, key.1, known)
            }
            StorageFact::Attachment(name, _) => {
                StorageFact::Attachment(name.clone(), self.attachments.get(name).cloned())
            }
        }
    }

    fn put_volume(&mut self, name: Box<str>, volume: Option<PersistentVolume>) {
        match self.volumes.get(&name) {
            Some(old @ PersistentVolume { claim: None, .. }) => {
                if let Some(free) = self.free.get_mut(&old.class) {
                    free.remove(&name, old);
                    if free.is_empty() {
                        self.free.remove(&old.class);
                    }
                }
            }
            Some(PersistentVolume { claim: Some(claim), .. }) => {
                if let Some(kept) = self.kept.get_mut(&claim.namespace) {
                    leave(kept, &claim.name, &name);
                    if kept.is_empty() {
                        self.kept.remove(&claim.namespace);
                    }
                }
            }
            None => {}
        }
        match &volume {
            Some(new @ PersistentVolume { claim: None, .. }) => {
                self.free.or_default(new.class.clone()).add(&name, new);
            }
            Some(PersistentVolume { claim: Some(claim), .. }) => {
                let kept = self.kept.or_default(claim.namespace.clone());
                kept.or_default(claim.name.clone()).insert(name.clone());
            }
            None => {}
        }
        put(&mut self.volumes, name, volume);
    }

    fn put_capacity(&mut self, name: Key, capacity: Option<Capacity>) {
        if let Some(class) = self.capacity_classes.remove(&name)
            && let Some(own) = self.capacities.get_mut(&class)
        {
            own.remove(&name);
            if own.is_empty() {
                self.capacities.remove(&class);
            }
        }
        if let Some(capacity) = capacity {
            let class = capacity.class.clone();
            self.capacity_classes.insert(name.clone(), class.clone());
            self.capacities.or_default(class).insert(name, capacity);
        }
    }

    fn put_attachment(&mut self, name: Box<str>, attachment: Option<Attachment>) {
        if let Some(old) = self.attachments.get(&name) {
            leave(&mut self.attached, &old.node, &name);
        }
        if let Some(new) = &attachment {
            self.attached.or_default(new.node.clone()).insert(name.clone());
        }
        put(&mut self.attachments, name, attachment);
    }

    /// A persistent volume.
    #[must_use]
    pub fn volume(&self, name: &str) -> Option<&PersistentVolume> {
        self.volumes.get(name)
    }

    /// The persistent volumes that are bound to a claim of this name, kept for it or promised to it,
    /// with the claim that is meant.
    pub fn kept_for(
        &self,
        namespace: &str,
        claim: &str,
    ) -> impl Iterator<Item = (&str, &PersistentVolume, &ClaimReference)> {
        let kept = self.kept.get(namespace).and_then(|kept| kept.get(claim));
        let mut names: Vec<&str> = kept.into_iter().flatten().map(|name| &**name).collect();
        names.extend(self.promises.volumes_for(namespace, claim));
        names.sort_unstable();
        names.dedup();
        names.into_iter().filter_map(|name| {
            let volume = self.volumes.get(name)?;
            let meant = volume.claim.as_ref().or_else(|| self.promises.claim_of(name))?;
            (*meant.name == *claim && *meant.namespace == *namespace)
                .then_some((name, volume, meant))
        })
    }

    /// The smallest persistent volume of a class that nobody has, that holds so much and is fine, out
    /// of those that a node with these labels may reach.
    pub fn smallest_free<'a>(
        &self,
        class: &str,
        size: &Quantity,
        label: impl Fn(&str) -> Option<&'a str>,
        is_fine: impl Fn(&str, &PersistentVolume) -> bool,
    ) -> Option<&str> {
        self.free.get(class)?.smallest(size, label, |name| {
            let volume = self.volumes.get(name);
            self.promises.claim_of(name).is_none()
                && volume.is_some_and(|volume| is_fine(name, volume))
        })
    }

    /// A claim.
    #[must_use]
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&Claim> {
        self.claims.get(namespace)?.get(name)
    }

    /// The node for which a volume is made for a claim, or for which one is promised.
    #[must_use]
    pub fn selected_node<'a>(
        &'a self,
        namespace: &str,
        name: &str,
        claim: &'a Claim,
    ) -> Option<&'a str> {
        let promised = || match self.promises.is_empty() {
            true => None,
            false => self.promises.node_of(&(namespace.into(), name.into())),
        };
        claim.selected_node.as_deref().or_else(promised)
    }

    /// A class.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<&Class> {
        self.classes.get(name)
    }

    /// What CSI drivers say of a node.
    #[must_use]
    pub fn csi_node(&self, name: &str) -> Option<&CsiNode> {
        self.csi_nodes.get(name)
    }

    /// A CSI driver.
    #[must_use]
    pub fn csi_driver(&self, name: &str) -> Option<CsiDriver> {
        self.csi_drivers.get(name).copied()
    }

    /// How much room there is for volumes of a class.
    pub fn capacities_of(&self, class: &str) -> impl Iterator<Item = &Capacity> {
        self.capacities.get(class).into_iter().flat_map(BTreeMap::values)
    }

    /// What is attached to a node, or is to be.
    pub fn attached(&self, node: &str) -> impl Iterator<Item = &Attachment> {
        let names = self.attached.get(node).into_iter().flatten();
        names.filter_map(|name| self.attachments.get(name))
    }

    /// How many volumes a node may have at most: those that its pods use, each as often as it is
    /// used, and those that are attached.
    #[must_use]
    pub fn most_on(&self, node: NodeIndex, name: &str) -> usize {
        let uses = self.on_node.get(&node).map_or(0, |own| own.uses);
        uses + self.attached.get(name).map_or(0, BTreeSet::len)
    }

    /// The volumes of each pod on a node that has some.
    pub fn pods_on(&self, node: NodeIndex) -> impl Iterator<Item = Id<Volumes>> {
        self.on_node.get(&node).into_iter().flat_map(|own| own.pods.iter().copied())
    }

    /// Nodes with pods that use a claim.
    pub fn users(&self, namespace: &str, claim: &str) -> impl Iterator<Item = NodeIndex> {
        let users = self.users.get(namespace).and_then(|claims| claims.get(claim));
        users.into_iter().flat_map(|users| users.keys().copied())
    }

    /// A pod with volumes is on a node now.
    pub(super) fn arrive(&mut self, id: Id<Volumes>, volumes: &Volumes, node: NodeIndex) {
        let own = self.on_node.or_default(node);
        own.pods.push(id);
        own.uses += volumes.volumes.len();
        for name in claims(volumes) {
            let users = self.users.or_default(volumes.namespace.clone());
            *users.or_default(name.into()).entry(node).or_default() += 1;
        }
    }

    /// A pod with volumes is no longer on a node.
    pub(super) fn leave(&mut self, id: Id<Volumes>, volumes: &Volumes, node: NodeIndex) {
        if let Some(own) = self.on_node.get_mut(&node) {
            if let Some(place) = own.pods.iter().position(|other| *other == id) {
                own.pods.swap_remove(place);
                own.uses -= volumes.volumes.len();
            }
            if own.pods.is_empty() {
                self.on_node.remove(&node);
            }
        }
        let Some(users) = self.users.get_mut(&volumes.namespace) else { return };
        for name in claims(volumes) {
            let Some(nodes) = users.get_mut(name) else { continue };
            if let Some(count) = nodes.get_mut(&node) {
                *count -= 1;
                if *count == 0 {
                    nodes.remove(&node);
                }
            }
            if nodes.is_empty() {
                users.remove(name);
            }
        }
        if users.is_empty() {
            self.users.remove(&volumes.namespace);
        }
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.volumes.is_empty()
            && self.free.is_empty()
            && self.kept.is_empty()
            && self.claims.is_empty()
            && self.classes.is_empty()
            && self.csi_nodes.is_empty()
            && self.csi_drivers.is_empty()
            && self.capacities.is_empty()
            && self.capacity_classes.is_empty()
            && self.attachments.is_empty()
            && self.attached.is_empty()
            && self.users.is_empty()
            && self.on_node.is_empty()
            && self.promises.is_empty()
    }
}

/// The claims that others may name as well.
fn claims(volumes: &Volumes) -> impl Iterator<Item = &str> {
    volumes.volumes.iter().filter_map(|volume| match volume {
        Volume::Claim(name) => Some(&**name),
        _ => None,
    })
}

fn put<T: Clone>(map: &mut ByName<T>, name: Box<str>, value: Option<T>) {
    match value {
        Some(value) => map.insert(name, value),
        None => map.remove(&name),
    };
}

fn put_within<T: Clone>(
    map: &mut ByName<ByName<T>>,
    namespace: Box<str>,
    name: Box<str>,
    value: Option<T>,
) {
    match value {
        Some(value) => {
            map.or_default(namespace).insert(name, value);
        }
        None => {
            let Some(own) = map.get_mut(&namespace) else { return };
            own.remove(&name);
            if own.is_empty() {
                map.remove(&namespace);
            }
        }
    }
}

fn leave(map: &mut ByName<BTreeSet<Box<str>>>, of: &str, name: &str) {
    let Some(names) = map.get_mut(of) else { return };
    names.remove(name);
    if names.is_empty() {
        map.remove(of);
    }
}
