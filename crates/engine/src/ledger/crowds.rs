//! Crowds: the placed pods that a selector means, counted by node.
//!
//! Pods with the same namespace and labels share an identity, and an identity knows the crowds it
//! belongs to; so placing a pod moves one count for each crowd that somebody cares about, and a
//! label that no selector names costs nothing. Each crowd also knows the pods whose terms mean it:
//! what they want of a pod that comes near is found through the crowds of that pod.

use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::nodes::NodeIndex;
use super::symbols::{Symbol, Symbols};
use super::tally::Tally;
use super::topology::TopologyKey;
use crate::needs::PodSelector;
use crate::pool::{Id, Pool};
use crate::shared::{Chunked, Sharded};

/// The namespace and labels of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    namespace: Symbol,
    /// Sorted by key.
    labels: Box<[(Symbol, Symbol)]>,
}

/// The number of a crowd.
pub type CrowdId = Id<PodSelector>;

/// What a pod with a term wants of pods that its selector means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// It must be near one of them.
    Near,
    /// None may come near.
    Away,
    /// Being near is worth this much; below zero where it would avoid them.
    Rather(i32),
}

/// Placed pods that want the same of the same crowd.
#[derive(Debug, Clone)]
pub struct Wanting {
    /// What they want.
    pub want: Want,
    /// How near is near.
    pub topology: TopologyKey,
    /// Where they are.
    pub pods: Tally,
}

/// The placed pods that a selector means.
#[derive(Debug, Clone, Default)]
pub struct Crowd {
    /// Where they are.
    pub pods: Tally,
    /// Placed pods whose terms mean this crowd.
    pub wanted_by: Vec<Wanting>,
}

#[derive(Debug, Clone, Default)]
struct Member {
    crowds: Vec<CrowdId>,
    placed: Tally,
    /// For each of its labels, its place among the identities that share it.
    places: Box<[u32]>,
}

/// All crowds and who belongs to them.
#[derive(Debug, Clone, Default)]
pub struct Crowds {
    identities: Pool<Identity>,
    /// By the number of the identity.
    members: Chunked<Member>,
    selectors: Pool<PodSelector>,
    /// By the number of the selector.
    crowds: Vec<Arc<Crowd>>,
    /// Identities by each of their labels.
    identities_with: Sharded<(Symbol, Symbol), Vec<Id<Identity>>>,
    /// Selectors by a label that they require; each holds the symbols of its label.
    selectors_with: Sharded<(Symbol, Symbol), Vec<CrowdId>>,
    /// Selectors that require no certain label.
    unlabelled: Vec<CrowdId>,
    /// Labels of namespaces.
    namespaces: FxHashMap<Symbol, Box<[(Symbol, Symbol)]>>,
    joined: Joined,
}

/// Identities that came to belong to a crowd which they did not belong to when they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Joined {
    /// None.
    #[default]
    Nobody,
    /// These.
    These(Vec<Id<Identity>>),
    /// More than are worth to be told one by one: possibly all.
    Many,
}

/// How many of them are told one by one.
const JOINED_MAX: usize = 1024;

impl Joined {
    fn add(&mut self, identity: Id<Identity>) {
        match self {
            Self::Nobody => *self = Self::These(vec![identity]),
            Self::These(all) if all.len() < JOINED_MAX => all.push(identity),
            Self::These(_) | Self::Many => *self = Self::Many,
        }
    }
}

fn held(labels: &BTreeMap<Box<str>, Box<str>>, symbols: &mut Symbols) -> Box<[(Symbol, Symbol)]> {
    let mut held: Vec<(Symbol, Symbol)> =
        labels.iter().map(|(key, value)| (symbols.hold(key), symbols.hold(value))).collect();
    held.sort_unstable();
    held.into()
}

fn told(labels: &[(Symbol, Symbol)], symbols: &Symbols) -> BTreeMap<Box<str>, Box<str>> {
    let text = |symbol: Symbol| symbols.text(symbol).into();
    labels.iter().map(|(key, value)| (text(*key), text(*value))).collect()
}

fn let_go(labels: &[(Symbol, Symbol)], symbols: &mut Symbols) {
    for (key, value) in labels {
        symbols.release(*key);
        symbols.release(*value);
    }
}

fn label<'a>(labels: &[(Symbol, Symbol)], key: &str, symbols: &'a Symbols) -> Option<&'a str> {
    let key = symbols.find(key)?;
    let place = labels.binary_search_by_key(&key, |(key, _)| *key).ok()?;
    Some(symbols.text(labels[place].1))
}

impl Crowds {
    /// The identity of a pod, held once more.
    pub fn hold_identity(
        &mut self,
        namespace: &str,
        labels: &BTreeMap<Box<str>, Box<str>>,
        symbols: &mut Symbols,
    ) -> Id<Identity> {
        let identity =
            Identity { namespace: symbols.hold(namespace), labels: held(labels, symbols) };
        if let Some(id) = self.identities.find(&identity) {
            self.identities.hold_again(id);
            symbols.release(identity.namespace);
            let_go(&identity.labels, symbols);
            return id;
        }
        let (id, _) = self.identities.hold(identity.clone());
        self.members.grow(id.get() + 1);
        let (mut crowds, mut places) = (Vec::new(), Vec::with_capacity(identity.labels.len()));
        for pair in &identity.labels {
            let others = self.identities_with.or_default(*pair);
            // No more than there are ids.
            places.push(others.len() as u32);
            others.push(id);
            crowds.extend_from_slice(self.selectors_with.get(pair).map_or(&[], Vec::as_slice));
        }
        crowds.extend_from_slice(&self.unlabelled);
        crowds.retain(|crowd| self.means(*crowd, &identity, symbols));
        crowds.sort_unstable();
        self.members[id.get()] = Member { crowds, placed: Tally::default(), places: places.into() };
        id
    }

    /// Ends one hold.
    pub fn release_identity(&mut self, id: Id<Identity>, symbols: &mut Symbols) {
        let Some(identity) = self.identities.release(id) else { return };
        let member = std::mem::take(&mut self.members[id.get()]);
        for (pair, place) in identity.labels.iter().zip(&member.places) {
            self.part(*pair, *place);
        }
        symbols.release(identity.namespace);
        let_go(&identity.labels, symbols);
    }

    /// Takes an identity from its place among those that share a label. The last one gets the place.
    fn part(&mut self, pair: (Symbol, Symbol), place: u32) {
        let Some(others) = self.identities_with.get_mut(&pair) else { return };
        others.swap_remove(place as usize);
        let moved = others.get(place as usize).copied();
        if others.is_empty() {
            self.identities_with.remove(&pair);
        }
        let Some(moved) = moved else { return };
        if let Ok(label) = self.identities.get(moved).labels.binary_search(&pair) {
            self.members[moved.get()].places[label] = place;
        }
    }

    /// The crowd of a selector, held once more.
    pub fn hold(&mut self, selector: &PodSelector, symbols: &mut Symbols) -> CrowdId {
        if let Some(id) = self.selectors.find(selector) {
            self.selectors.hold_again(id);
            return id;
        }
        let (id, _) = self.selectors.hold(selector.clone());
        if self.crowds.len() <= id.get() {
            self.crowds.resize_with(id.get() + 1, Arc::default);
        }
        match selector.pair() {
            Some((key, value)) => {
                let pair = (symbols.hold(key), symbols.hold(value));
                self.selectors_with.or_default(pair).push(id);
            }
            None => self.unlabelled.push(id),
        }
        self.gather(id, symbols);
        id
    }

    /// Ends one hold.
    pub fn release(&mut self, id: CrowdId, symbols: &mut Symbols) {
        if self.selectors.is_last_hold(id) {
            for member in self.candidates(id, symbols) {
                self.members[member.get()].crowds.retain(|crowd| *crowd != id);
            }
        }
        let Some(selector) = self.selectors.release(id) else { return };
        self.crowds[id.get()] = Arc::default();
        match selector.pair() {
            Some((key, value)) => {
                if let Some(pair) = symbols.find(key).zip(symbols.find(value)) {
                    remove_from(&mut self.selectors_with, pair, &id);
                    let_go(&[pair], symbols);
                }
            }
            None => self.unlabelled.retain(|other| *other != id),
        }
    }

    /// A namespace has these labels now; none when it is gone.
    pub fn put_namespace(
        &mut self,
        name: &str,
        labels: Option<&BTreeMap<Box<str>, Box<str>>>,
        symbols: &mut Symbols,
    ) {
        let namespace = symbols.hold(name);
        let old = match labels {
            Some(labels) => {
                let labels = held(labels, symbols);
                self.namespaces.insert(namespace, labels)
            }
            None => self.namespaces.remove(&namespace),
        };
        if let Some(old) = &old {
            let_go(old, symbols);
        }
        // The name is held for as long as the namespace is known.
        if old.is_some() {
            symbols.release(namespace);
        }
        if labels.is_none() {
            symbols.release(namespace);
        }
        let moved: Vec<CrowdId> = self
            .selectors
            .iter()
            .filter(|(_, selector)| selector.reads_namespaces())
            .map(|(id, _)| id)
            .collect();
        for crowd in moved {
            for member in self.candidates(crowd, symbols) {
                self.members[member.get()].crowds.retain(|other| *other != crowd);
            }
            self.crowd_mut(crowd).pods = Tally::default();
            self.gather(crowd, symbols);
        }
    }

    /// A pod is on a node.
    pub fn arrive(&mut self, identity: Id<Identity>, node: NodeIndex, deleting: bool) {
        let staying = u32::from(!deleting);
        let member = &mut self.members[identity.get()];
        member.placed.add(node, 1, staying);
        for crowd in &member.crowds {
            Arc::make_mut(&mut self.crowds[crowd.get()]).pods.add(node, 1, staying);
        }
    }

    /// A pod is on a node no longer.
    pub fn leave(&mut self, identity: Id<Identity>, node: NodeIndex, deleting: bool) {
        let staying = u32::from(!deleting);
        let member = &mut self.members[identity.get()];
        member.placed.take(node, 1, staying);
        for crowd in &member.crowds {
            Arc::make_mut(&mut self.crowds[crowd.get()]).pods.take(node, 1, staying);
        }
    }

    /// A pod on a node wants something of a crowd.
    pub fn want(&mut self, crowd: CrowdId, topology: TopologyKey, want: Want, node: NodeIndex) {
        let wanted_by = &mut self.crowd_mut(crowd).wanted_by;
        let same = |one: &&mut Wanting| one.want == want && one.topology == topology;
        match wanted_by.iter_mut().find(same) {
            Some(own) => own.pods.add(node, 1, 0),
            None => {
                let mut pods = Tally::default();
                pods.add(node, 1, 0);
                wanted_by.push(Wanting { want, topology, pods });
            }
        }
    }

    /// It is on the node no longer.
    pub fn unwant(&mut self, crowd: CrowdId, topology: TopologyKey, want: Want, node: NodeIndex) {
        let wanted_by = &mut self.crowd_mut(crowd).wanted_by;
        let same = |one: &Wanting| one.want == want && one.topology == topology;
        if let Some(place) = wanted_by.iter().position(same) {
            wanted_by[place].pods.take(node, 1, 0);
            if wanted_by[place].pods.is_empty() {
                wanted_by.swap_remove(place);
            }
        }
    }

    /// The crowds that a pod of this identity belongs to.
    #[must_use]
    pub fn of(&self, identity: Id<Identity>) -> &[CrowdId] {
        &self.members[identity.get()].crowds
    }

    /// What pods of an identity have in common with others in the eyes of all selectors: their
    /// namespace, and the crowds they belong to. Labels that no selector names are no part of it.
    pub fn hash_alike(&self, identity: Id<Identity>, state: &mut impl Hasher) {
        self.identities.get(identity).namespace.hash(state);
        for crowd in self.of(identity) {
            self.selectors.stamp(*crowd).hash(state);
        }
    }

    /// Who came to belong to a crowd since this was last asked.
    pub fn take_joined(&mut self) -> Joined {
        std::mem::take(&mut self.joined)
    }

    /// Whether a pod of this identity belongs to a crowd.
    #[must_use]
    pub fn is_member(&self, identity: Id<Identity>, crowd: CrowdId) -> bool {
        self.members[identity.get()].crowds.contains(&crowd)
    }

    fn crowd_mut(&mut self, crowd: CrowdId) -> &mut Crowd {
        Arc::make_mut(&mut self.crowds[crowd.get()])
    }

    /// A crowd.
    #[must_use]
    pub fn get(&self, crowd: CrowdId) -> &Crowd {
        &self.crowds[crowd.get()]
    }

    /// The pods that belong to a crowd.
    #[must_use]
    pub fn selector(&self, crowd: CrowdId) -> &PodSelector {
        self.selectors.get(crowd)
    }

    /// The namespace of an identity.
    #[must_use]
    pub fn namespace_of<'a>(&self, identity: Id<Identity>, symbols: &'a Symbols) -> &'a str {
        symbols.text(self.identities.get(identity).namespace)
    }

    /// A label of an identity.
    #[must_use]
    pub fn label_of<'a>(
        &self,
        identity: Id<Identity>,
        key: &str,
        symbols: &'a Symbols,
    ) -> Option<&'a str> {
        label(&self.identities.get(identity).labels, key, symbols)
    }

    /// Whether an identity has any label.
    #[must_use]
    pub fn is_labelled(&self, identity: Id<Identity>) -> bool {
        !self.identities.get(identity).labels.is_empty()
    }

    /// The labels of an identity.
    #[must_use]
    pub fn labels_of(
        &self,
        identity: Id<Identity>,
        symbols: &Symbols,
    ) -> BTreeMap<Box<str>, Box<str>> {
        told(&self.identities.get(identity).labels, symbols)
    }

    /// A label of a namespace.
    #[must_use]
    pub fn namespace_label<'a>(
        &self,
        namespace: &str,
        key: &str,
        symbols: &'a Symbols,
    ) -> Option<&'a str> {
        label(self.namespaces.get(&symbols.find(namespace)?)?, key, symbols)
    }

    /// The labels of a namespace; none where it is not known.
    #[must_use]
    pub fn namespace_labels(
        &self,
        namespace: &str,
        symbols: &Symbols,
    ) -> Option<BTreeMap<Box<str>, Box<str>>> {
        Some(told(self.namespaces.get(&symbols.find(namespace)?)?, symbols))
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.identities.is_empty() && self.selectors.is_empty() && self.namespaces.is_empty()
    }

    /// Finds the members of a crowd that has none yet, and counts those that are placed.
    fn gather(&mut self, crowd: CrowdId, symbols: &Symbols) {
        for id in self.candidates(crowd, symbols) {
            if self.means(crowd, self.identities.get(id), symbols) {
                let member = &mut self.members[id.get()];
                self.joined.add(id);
                member.crowds.push(crowd);
                member.crowds.sort_unstable();
                let pods = &mut Arc::make_mut(&mut self.crowds[crowd.get()]).pods;
                for entry in member.placed.entries() {
                    pods.add(entry.node, entry.all, entry.staying);
                }
            }
        }
    }

    /// The identities that may belong to a crowd.
    fn candidates(&self, crowd: CrowdId, symbols: &Symbols) -> Vec<Id<Identity>> {
        let Some((key, value)) = self.selectors.get(crowd).pair() else {
            return self.identities.iter().map(|(id, _)| id).collect();
        };
        let pair = symbols.find(key).zip(symbols.find(value));
        pair.and_then(|pair| self.identities_with.get(&pair)).cloned().unwrap_or_default()
    }

    fn means(&self, crowd: CrowdId, identity: &Identity, symbols: &Symbols) -> bool {
        let namespace = self.namespaces.get(&identity.namespace).map_or(&[][..], |labels| labels);
        self.selectors.get(crowd).0.iter().all(|clause| {
            clause.holds(
                symbols.text(identity.namespace),
                |key| label(namespace, key, symbols),
                |key| label(&identity.labels, key, symbols),
            )
        })
    }
}

fn remove_from<K: std::hash::Hash + Eq + Clone, V: PartialEq + Clone>(
    map: &mut Sharded<K, Vec<V>>,
    key: K,
    value: &V,
) {
    if let Some(values) = map.get_mut(&key) {
        values.retain(|other| other != value);
        if values.is_empty() {
            map.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_shares_a_label_is_found_when_others_that_do_are_gone() {
        let (mut crowds, mut symbols) = (Crowds::default(), Symbols::default());
        let labels = |number: u8| -> BTreeMap<Box<str>, Box<str>> {
            let pairs = [("app", "web".into()), ("name", number.to_string()), ("z", "1".into())];
            pairs.map(|(key, value): (&str, String)| (key.into(), value.into())).into()
        };
        let mut held: Vec<_> = (0..9)
            .map(|number| crowds.hold_identity("default", &labels(number), &mut symbols))
            .collect();
        for gone in [0, 3, 6, 0, 2] {
            let gone: usize = gone;
            crowds.release_identity(held.remove(gone), &mut symbols);
            for key in ["app", "z"] {
                let value = if key == "app" { "web" } else { "1" };
                let pair = (symbols.find(key).unwrap(), symbols.find(value).unwrap());
                let mut found = crowds.identities_with.get(&pair).unwrap().clone();
                found.sort_unstable();
                let mut expected = held.clone();
                expected.sort_unstable();
                assert_eq!(found, expected);
            }
        }
        held.into_iter().for_each(|id| crowds.release_identity(id, &mut symbols));
        assert!(crowds.identities_with.is_empty() && symbols.is_empty());
    }
}
