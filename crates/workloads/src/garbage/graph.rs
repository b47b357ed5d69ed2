//! Who owns whom, and what follows from it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use api::OwnerReference;
use chassis::key::Key;

/// Keeps an owner until those that block its deletion are gone.
pub const FOREGROUND: &str = "foregroundDeletion";
/// Keeps an owner until its dependents have been set free.
pub const ORPHAN: &str = "orphan";
/// How many objects that are gone, or were never there, are remembered.
const GONE_MAX: usize = 10_000;

/// The identity of an object over time.
pub type Uid = Arc<str>;

/// A resource, as a number that the shell gives out.
pub type ResourceId = u32;

/// What is known of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its resource.
    pub resource: ResourceId,
    /// Its namespace and name.
    pub key: Key,
    /// Who owns it.
    pub owners: Box<[OwnerReference]>,
    /// Where it is in its life.
    pub stage: Stage,
}

/// Where an object is in its life, as far as its dependents are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It is there.
    Alive,
    /// It is going, and waits for its dependents to go.
    AwaitsDependents,
    /// It is going, and waits for its dependents to be set free.
    AwaitsOrphaning,
    /// It is going, and waits for others than its dependents.
    Going,
}

impl Stage {
    /// The stage of an object that has these marks.
    #[must_use]
    pub fn of(is_going: bool, has_foreground: bool, has_orphan: bool) -> Self {
        match (is_going, has_foreground, has_orphan) {
            (false, ..) => Self::Alive,
            (true, true, _) => Self::AwaitsDependents,
            (true, false, true) => Self::AwaitsOrphaning,
            (true, false, false) => Self::Going,
        }
    }
}

/// What is to be done for an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Keep,
    /// Find out whether these owners exist, then ask again.
    Ask(Vec<OwnerReference>),
    /// Look at these objects: they keep this one.
    LookAt(Vec<Uid>),
    /// Delete it, in the way that its own marks say.
    Delete,
    /// Delete it and what depends on it first. Where one of its dependents waits for it in
    /// turn, it must not block its owners, or both would wait for ever.
    DeleteForeground {
        /// Whether it must stop blocking its owners.
        unblock: bool,
    },
    /// Take these owners away: others remain.
    DropOwners(Vec<String>),
    /// All that it waited for is gone: remove [`FOREGROUND`].
    Finish,
    /// Set these objects free, then remove [`ORPHAN`].
    SetFree(Vec<Uid>),
}

/// What the server said about an owner that the graph does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It exists, with this stage.
    There(Stage),
    /// It does not.
    Gone,
    /// It cannot be an owner: an object without a namespace has none in a namespace. Which
    /// namespace to look in nobody knows, so that it never counts as gone.
    Misplaced,
}

/// Every object and its owners.
#[derive(Debug, Default)]
pub struct Graph {
    entries: BTreeMap<Uid, Entry>,
    dependents: BTreeMap<Uid, BTreeSet<Uid>>,
    /// What was seen to go, with the namespace it was in; a uid never comes again.
    gone: Remembered<Uid, Box<str>>,
    /// References that the server found nobody for, from the namespace they were looked up
    /// in. Another reference may give the same uid and name the right object.
    absent: Remembered<(Box<str>, Reference), ()>,
    /// The kinds whose objects are in namespaces.
    namespaced: BTreeSet<Kind>,
}

/// Group and kind.
pub type Kind = (String, String);
/// All that a reference says of its owner: version, kind, name and uid.
type Reference = [String; 4];

fn reference(owner: &OwnerReference) -> Reference {
    [&owner.api_version, &owner.kind, &owner.name, &owner.uid].map(Clone::clone)
}

/// A bounded map that forgets what it was told first.
#[derive(Debug)]
struct Remembered<K, V> {
    values: BTreeMap<K, V>,
    order: VecDeque<K>,
}

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self { values: BTreeMap::new(), order: VecDeque::new() }
    }
}

impl<K: Ord + Clone, V> Remembered<K, V> {
    fn note(&mut self, key: K, value: V) {
        if self.values.insert(key.clone(), value).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > GONE_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.values.remove(&oldest);
        }
    }
}

impl Graph {
    /// Learns which kinds have their objects in namespaces.
    pub fn learn_namespaced(&mut self, kinds: BTreeSet<Kind>) {
        self.namespaced = kinds;
    }

    /// Takes in an object as it is now, and says which objects to look at.
    pub fn observe(&mut self, uid: &str, entry: Entry) -> Vec<Uid> {
        let uid: Uid = uid.into();
        let old = self.entries.get(&uid);
        if old.is_some_and(|old| *old == entry) {
            return Vec::new();
        }
        let mut looks = Vec::new();
        let old_owners = old.map(|old| old.owners.clone()).unwrap_or_default();
        let old_stage = old.map(|old| old.stage);
        if old_owners != entry.owners {
            // An owner that waits may have waited for just this reference.
            looks.extend(old_owners.iter().filter_map(|owner| self.awaiting(&owner.uid)));
            self.unlink(&uid, &old_owners);
            for owner in &entry.owners {
                let dependents = self.dependents.entry(owner.uid.as_str().into()).or_default();
                dependents.insert(uid.clone());
            }
            looks.push(uid.clone());
        }
        if old_stage != Some(entry.stage) {
            match entry.stage {
                Stage::AwaitsDependents => {
                    looks.push(uid.clone());
                    looks.extend(self.dependents_of(&uid));
                }
                Stage::AwaitsOrphaning => looks.push(uid.clone()),
                Stage::Alive | Stage::Going => {}
            }
            // One that now waits in turn may be part of a circle that has to be broken.
            if entry.stage == Stage::AwaitsDependents {
                looks.extend(entry.owners.iter().filter_map(|owner| self.awaiting(&owner.uid)));
            }
        }
        self.entries.insert(uid, entry);
        looks
    }

    /// The object is gone. Says which objects to look at.
    pub fn forget(&mut self, uid: &str) -> Vec<Uid> {
        let Some((uid, entry)) = self.entries.remove_entry(uid) else {
            return self.dependents_of(uid);
        };
        self.unlink(&uid, &entry.owners);
        self.gone.note(uid.clone(), entry.key.namespace().into());
        let mut looks = self.dependents_of(&uid);
        looks.extend(entry.owners.iter().filter_map(|owner| self.awaiting(&owner.uid)));
        looks
    }

    /// The objects of a resource are no longer watched: nothing is known of them.
    pub fn drop_resource(&mut self, resource: ResourceId) {
        let uids: Vec<Uid> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.resource == resource)
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in uids {
            if let Some(entry) = self.entries.remove(&uid) {
                self.unlink(&uid, &entry.owners);
            }
        }
    }

    /// One object.
    #[must_use]
    pub fn get(&self, uid: &str) -> Option<&Entry> {
        self.entries.get(uid)
    }

    /// How many objects are known.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is known.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Remembers that the server found nobody for a reference from an object of `namespace`.
    pub fn note_absent(&mut self, namespace: &str, owner: &OwnerReference) {
        self.absent.note((namespace.into(), reference(owner)), ());
    }

    fn unlink(&mut self, uid: &Uid, owners: &[OwnerReference]) {
        for owner in owners {
            if let Some(dependents) = self.dependents.get_mut(owner.uid.as_str()) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(owner.uid.as_str());
                }
            }
        }
    }

    fn dependents_of(&self, uid: &str) -> Vec<Uid> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// The uid, if its object waits for its dependents.
    fn awaiting(&self, uid: &str) -> Option<Uid> {
        let (uid, entry) = self.entries.get_key_value(uid)?;
        (entry.stage == Stage::AwaitsDependents).then(|| uid.clone())
    }

    /// Decides for one object. `owners` are those that the server tells now, and `found`
    /// what it said about owners that [`Verdict::Ask`] named.
    #[must_use]
    pub fn judge(
        &self,
        uid: &str,
        owners: &[OwnerReference],
        found: &BTreeMap<String, Found>,
    ) -> Verdict {
        let Some(entry) = self.entries.get(uid) else { return Verdict::Keep };
        match entry.stage {
            Stage::Going => return Verdict::Keep,
            Stage::AwaitsOrphaning => return Verdict::SetFree(self.dependents_of(uid)),
            Stage::AwaitsDependents => return self.judge_waiting(uid),
            Stage::Alive => {}
        }
        let (mut solid, mut dangling, mut waiting, mut ask) =
            (0, Vec::new(), Vec::new(), Vec::new());
        for owner in owners {
            match self.find(entry, owner, found) {
                None => ask.push(owner.clone()),
                // Upstream leaves such an object alone, whatever its other owners are.
                Some(Found::Misplaced) => return Verdict::Keep,
                Some(Found::Gone) => dangling.push(owner.uid.clone()),
                Some(Found::There(Stage::AwaitsDependents)) => waiting.push(owner.uid.clone()),
                Some(Found::There(_)) => solid += 1,
            }
        }
        if !ask.is_empty() {
            return Verdict::Ask(ask);
        }
        if solid > 0 || owners.is_empty() {
            dangling.append(&mut waiting);
            return if dangling.is_empty() { Verdict::Keep } else { Verdict::DropOwners(dangling) };
        }
        let dependents = self.dependents_of(uid);
        if waiting.is_empty() || dependents.is_empty() {
            return Verdict::Delete;
        }
        let unblock = dependents.iter().any(|dependent| self.awaiting(dependent).is_some());
        Verdict::DeleteForeground { unblock }
    }

    /// An object that waits goes when nothing blocks it; what blocks it has to be looked at.
    fn judge_waiting(&self, uid: &str) -> Verdict {
        let blocks = |dependent: &&Uid| {
            self.entries.get(*dependent).is_some_and(|entry| {
                let is_it = |owner: &OwnerReference| {
                    *owner.uid == *uid && owner.block_owner_deletion == Some(true)
                };
                entry.owners.iter().any(is_it)
            })
        };
        let blocking: Vec<Uid> =
            self.dependents.get(uid).into_iter().flatten().filter(blocks).cloned().collect();
        if blocking.is_empty() {
            return Verdict::Finish;
        }
        let idle = |uid: &Uid| self.awaiting(uid).is_none();
        Verdict::LookAt(blocking.into_iter().filter(idle).collect())
    }

    /// What is known of an owner; `None` when the server has to be asked. An owner in
    /// another namespace is none: references do not cross namespaces.
    fn find(
        &self,
        dependent: &Entry,
        owner: &OwnerReference,
        found: &BTreeMap<String, Found>,
    ) -> Option<Found> {
        let (own, uid) = (dependent.key.namespace(), owner.uid.as_str());
        let entry = self.entries.get(uid);
        let gone = self.gone.values.get(uid);
        let namespace = entry.map(|entry| entry.key.namespace()).or(gone.map(|own| &**own));
        let is_namespaced = || {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            self.namespaced.contains(&(group.to_owned(), owner.kind.clone()))
        };
        if own.is_empty() && (namespace.is_some_and(|other| !other.is_empty()) || is_namespaced()) {
            return Some(Found::Misplaced);
        }
        match (entry, namespace) {
            (Some(entry), Some(namespace)) if namespace.is_empty() || namespace == own => {
                Some(Found::There(entry.stage))
            }
            (_, Some(_)) => Some(Found::Gone),
            (_, None) if self.absent.values.contains_key(&(own.into(), reference(owner))) => {
                Some(Found::Gone)
            }
            (_, None) => found.get(uid).copied(),
        }
    }
}
