//! Crowds: the placed pods that a selector means, counted by node.
//!
//! Pods with the same namespace and labels share an identity, and an identity knows the crowds it
//! belongs to; so placing a pod moves one count for each crowd that somebody cares about, and a
//! label that no selector names costs nothing. Each crowd also knows the pods whose terms mean it:
//! what they want of a pod that comes near is found through the crowds of that pod.
//!
//! Who belongs to a crowd is looked for where its selector says that they are: among the identities
//! with a certain label, with any value of one, or in certain namespaces.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher};
use std::sync::Arc;

use object::selector::label::Requirement;
use rustc_hash::FxHashMap;

use super::nodes::NodeIndex;
use super::symbols::{Symbol, Symbols};
use super::tally::Tally;
use super::topology::TopologyKey;
use crate::needs::{PodSelector, Reach};
use crate::pool::{Id, Pool};
use crate::shared::{Chunked, Sharded};

/// The namespace and labels of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    namespace: Symbol,
    /// Sorted by key.
    labels: Box<[(Symbol, Symbol)]>,
}

/// What identities are found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mark {
    Namespace(Symbol),
    /// They have this label, whatever its value.
    Key(Symbol),
    Label(Symbol, Symbol),
}

impl Mark {
    fn let_go(self, symbols: &mut Symbols) {
        match self {
            Self::Namespace(symbol) | Self::Key(symbol) => symbols.release(symbol),
            Self::Label(key, value) => {
                symbols.release(key);
                symbols.release(value);
            }
        }
    }
}

impl Identity {
    /// All its marks: its namespace, and then those of each label.
    fn marks(&self) -> impl Iterator<Item = Mark> + '_ {
        let labels = self.labels.iter();
        let labels = labels.flat_map(|(key, value)| [Mark::Key(*key), Mark::Label(*key, *value)]);
        std::iter::once(Mark::Namespace(self.namespace)).chain(labels)
    }

    /// Which of its marks this is.
    fn place_of(&self, mark: Mark) -> Option<usize> {
        let label = |key| self.labels.binary_search_by_key(&key, |(own, _)| *own).ok();
        match mark {
            Mark::Namespace(_) => Some(0),
            Mark::Key(key) => label(key).map(|label| 1 + 2 * label),
            Mark::Label(key, _) => label(key).map(|label| 2 + 2 * label),
        }
    }
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
    /// Sorted.
    crowds: Vec<CrowdId>,
    placed: Tally,
    /// For each of its marks, its place among the identities that share it.
    places: Box<[u32]>,
}

impl Member {
    /// Whether it did not belong to the crowd before.
    fn join(&mut self, crowd: CrowdId) -> bool {
        match self.crowds.binary_search(&crowd) {
            Ok(_) => false,
            Err(place) => {
                self.crowds.insert(place, crowd);
                true
            }
        }
    }

    /// Whether it belonged to the crowd before.
    fn part(&mut self, crowd: CrowdId) -> bool {
        let place = self.crowds.binary_search(&crowd);
        place.map(|place| self.crowds.remove(place)).is_ok()
    }
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
    /// By the number of the selector, the marks of which each pod that it means has one. Their symbols
    /// are held. None where such pods may be anywhere.
    marks: Vec<Option<Box<[Mark]>>>,
    /// Identities by each of their marks.
    identities_with: Sharded<Mark, Vec<Id<Identity>>>,
    /// Selectors by their marks.
    selectors_with: Sharded<Mark, Vec<CrowdId>>,
    /// Selectors without marks.
    unmarked: BTreeSet<CrowdId>,
    /// Selectors that depend on labels of namespaces.
    reading: BTreeSet<CrowdId>,
    /// Labels of namespaces.
    namespaces: FxHashMap<Symbol, Box<[(Symbol, Symbol)]>>,
    evaluations: u64,
    joined: Joined,
}

/// Identities that came to belong to a crowd which they did not belong to when they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Joined {
    /// None.
    #[default]
    Nobody,
    /// These.
    These(BTreeSet<Id<Identity>>),
    /// More than are worth to be told one by one: possibly all.
    Many,
}

/// How many of them are told one by one.
const JOINED_MAX: usize = 1024;

impl Joined {
    fn add(&mut self, identity: Id<Identity>) {
        match self {
            Self::Nobody => *self = Self::These(BTreeSet::from([identity])),
            Self::These(all) => {
                all.insert(identity);
                if all.len() > JOINED_MAX {
                    *self = Self::Many;
                }
            }
            Self::Many => {}
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
    /// Which of all namespaces and labels ever held these are.
    #[must_use]
    pub(super) fn stamp_of(&self, identity: Id<Identity>) -> u64 {
        self.identities.stamp(identity)
    }

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
        let (mut crowds, mut places) = (Vec::new(), Vec::with_capacity(1 + 2 * labels.len()));
        for mark in identity.marks() {
            let others = self.identities_with.or_default(mark);
            // No more than there are ids.
            places.push(others.len() as u32);
            others.push(id);
            crowds.extend_from_slice(self.selectors_with.get(&mark).map_or(&[], Vec::as_slice));
        }
        crowds.extend(&self.unmarked);
        self.evaluations += crowds.len() as u64;
        crowds.retain(|crowd| self.means(*crowd, &identity, symbols));
        crowds.sort_unstable();
        self.members[id.get()] = Member { crowds, placed: Tally::default(), places: places.into() };
        id
    }

    /// Ends one hold.
    pub fn release_identity(&mut self, id: Id<Identity>, symbols: &mut Symbols) {
        let Some(identity) = self.identities.release(id) else { return };
        let member = std::mem::take(&mut self.members[id.get()]);
        for (mark, place) in identity.marks().zip(&member.places) {
            self.take_mark(mark, *place);
        }
        symbols.release(identity.namespace);
        let_go(&identity.labels, symbols);
    }

    /// Takes an identity from its place among those that share a mark. The last one gets the place.
    fn take_mark(&mut self, mark: Mark, place: u32) {
        let Some(others) = self.identities_with.get_mut(&mark) else { return };
        others.swap_remove(place as usize);
        let moved = others.get(place as usize).copied();
        if others.is_empty() {
            self.identities_with.remove(&mark);
        }
        let Some(moved) = moved else { return };
        if let Some(own) = self.identities.get(moved).place_of(mark) {
            self.members[moved.get()].places[own] = place;
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
            self.marks.resize(id.get() + 1, None);
        }
        let marks: Option<Box<[Mark]>> = match selector.reaches().next() {
            None => None,
            Some(Reach::Label(key, value)) => {
                Some([Mark::Label(symbols.hold(key), symbols.hold(value))].into())
            }
            Some(Reach::Key(key)) => Some([Mark::Key(symbols.hold(key))].into()),
            Some(Reach::Namespaces(names)) => {
                Some(names.iter().map(|name| Mark::Namespace(symbols.hold(name))).collect())
            }
        };
        for mark in marks.iter().flatten() {
            self.selectors_with.or_default(*mark).push(id);
        }
        if marks.is_none() {
            self.unmarked.insert(id);
        }
        self.marks[id.get()] = marks;
        if selector.reads_namespaces() {
            self.reading.insert(id);
        }
        self.gather(id, symbols);
        id
    }

    /// Ends one hold.
    pub fn release(&mut self, id: CrowdId, symbols: &mut Symbols) {
        if self.selectors.is_last_hold(id) {
            for member in self.candidates(self.selectors.get(id), symbols) {
                self.members[member.get()].part(id);
            }
        }
        if self.selectors.release(id).is_none() {
            return;
        }
        self.crowds[id.get()] = Arc::default();
        self.reading.remove(&id);
        match self.marks[id.get()].take() {
            None => {
                self.unmarked.remove(&id);
            }
            Some(marks) => {
                for mark in marks {
                    remove_from(&mut self.selectors_with, mark, &id);
                    mark.let_go(symbols);
                }
            }
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
        let new = labels.map(|labels| held(labels, symbols));
        // The name and its labels are held for as long as the namespace is known.
        let old = match &new {
            Some(new) => self.namespaces.insert(namespace, new.clone()),
            None => self.namespaces.remove(&namespace),
        };
        let (before, after) = (old.as_deref().unwrap_or(&[]), new.as_deref().unwrap_or(&[]));
        if before != after {
            self.move_namespace(namespace, [before, after], symbols);
        }
        if let Some(old) = &old {
            let_go(old, symbols);
            symbols.release(namespace);
        }
        if new.is_none() {
            symbols.release(namespace);
        }
    }

    /// Has the pods of a namespace leave crowds that mean it no longer, and join those that do now.
    fn move_namespace(
        &mut self,
        namespace: Symbol,
        [before, after]: [&[(Symbol, Symbol)]; 2],
        symbols: &Symbols,
    ) {
        let identities = self.identities_with.get(&Mark::Namespace(namespace));
        let Some(identities) = identities.cloned() else { return };
        let spans = |crowd: CrowdId, labels: &[(Symbol, Symbol)]| {
            let name = symbols.text(namespace);
            self.selectors.get(crowd).spans(name, |key| label(labels, key, symbols))
        };
        let moved: Vec<(CrowdId, bool)> = self
            .reading
            .iter()
            .map(|crowd| (*crowd, spans(*crowd, before), spans(*crowd, after)))
            .filter_map(|(crowd, was, is)| (was != is).then_some((crowd, is)))
            .collect();
        for (crowd, joins) in moved {
            let mut found = identities.clone();
            if joins {
                self.evaluations += found.len() as u64;
                found.retain(|id| self.means(crowd, self.identities.get(*id), symbols));
            }
            for id in found {
                let member = &mut self.members[id.get()];
                let pods = &mut Arc::make_mut(&mut self.crowds[crowd.get()]).pods;
                if joins && member.join(crowd) {
                    self.joined.add(id);
                    pods.add_all(&member.placed);
                } else if !joins && member.part(crowd) {
                    pods.take_all(&member.placed);
                }
            }
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
        self.members[identity.get()].crowds.binary_search(&crowd).is_ok()
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

    /// How often a selector was held against an identity: what terms about pods cost.
    #[must_use]
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.identities.is_empty()
            && self.selectors.is_empty()
            && self.namespaces.is_empty()
            && self.identities_with.is_empty()
            && self.selectors_with.is_empty()
            && self.unmarked.is_empty()
            && self.reading.is_empty()
    }

    /// Finds the members of a crowd that has none yet, and counts those that are placed.
    fn gather(&mut self, crowd: CrowdId, symbols: &Symbols) {
        let selector = self.selectors.get(crowd);
        let mut found = self.candidates(selector, symbols);
        let evaluations = found.len() as u64;
        // Texts are looked up once, and namespaces once each: there may be very many identities.
        let requirements: Vec<(Option<Symbol>, &Requirement)> =
            selector.requirements().map(|one| (symbols.find(one.key()), one)).collect();
        let mut namespaces: FxHashMap<Symbol, bool> = FxHashMap::default();
        found.retain(|id| {
            let Identity { namespace, labels } = self.identities.get(*id);
            let spans = || self.spans(selector, *namespace, symbols);
            let value = |key: Symbol| {
                let place = labels.binary_search_by_key(&key, |(own, _)| *own).ok()?;
                Some(symbols.text(labels[place].1))
            };
            *namespaces.entry(*namespace).or_insert_with(spans)
                && requirements.iter().all(|(key, one)| one.matches(|_| value((*key)?)))
        });
        self.evaluations += evaluations;
        for id in found {
            let member = &mut self.members[id.get()];
            member.join(crowd);
            self.joined.add(id);
            Arc::make_mut(&mut self.crowds[crowd.get()]).pods.add_all(&member.placed);
        }
    }

    /// The identities that a selector may mean: where it says several things of where they are, those
    /// that are the fewest.
    fn candidates(&self, selector: &PodSelector, symbols: &Symbols) -> Vec<Id<Identity>> {
        let with = |mark: Option<Mark>| {
            mark.and_then(|mark| self.identities_with.get(&mark)).map_or(&[][..], Vec::as_slice)
        };
        let found = selector.reaches().map(|reach| match reach {
            Reach::Label(key, value) => {
                let pair = symbols.find(key).zip(symbols.find(value));
                vec![with(pair.map(|(key, value)| Mark::Label(key, value)))]
            }
            Reach::Key(key) => vec![with(symbols.find(key).map(Mark::Key))],
            Reach::Namespaces(names) => {
                let names = names.iter().map(|name| symbols.find(name));
                names.map(|name| with(name.map(Mark::Namespace))).collect()
            }
        });
        let count =
            |lists: &Vec<&[Id<Identity>]>| lists.iter().map(|list| list.len()).sum::<usize>();
        match found.min_by_key(count) {
            Some(lists) => lists.concat(),
            None => self.identities.iter().map(|(id, _)| id).collect(),
        }
    }

    /// Whether a selector means pods of a namespace at all.
    fn spans(&self, selector: &PodSelector, namespace: Symbol, symbols: &Symbols) -> bool {
        let labels = self.namespaces.get(&namespace).map_or(&[][..], |labels| labels);
        selector.spans(symbols.text(namespace), |key| label(labels, key, symbols))
    }

    fn means(&self, crowd: CrowdId, identity: &Identity, symbols: &Symbols) -> bool {
        let selector = self.selectors.get(crowd);
        let value = |key: &str| label(&identity.labels, key, symbols);
        selector.requirements().all(|one| one.matches(value))
            && !selector.is_nothing()
            && self.spans(selector, identity.namespace, symbols)
    }
}

fn remove_from<K: std::hash::Hash + Eq + Clone, V: PartialEq + Clone>(
    map: &mut Sharded<K, Vec<V>>,
    key: K,
    value: &V,
) {
    if let Some(values) = map.get_mut(&key) {
        if let Some(place) = values.iter().position(|other| other == value) {
            values.swap_remove(place);
        }
        if values.is_empty() {
            map.remove(&key);
        }
    }
}
