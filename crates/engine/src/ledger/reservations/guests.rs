//! Which reservations are for which pods.
//!
//! A pod is asked only about reservations of which one thing is so that their owners need: a label, a
//! name, a controller. Thousands of reservations that have nothing to do with it cost it nothing.

use std::collections::BTreeSet;

use api::OwnerReference;
use object::selector::label::Operator;
use rustc_hash::FxHashMap;

use super::{ReservationIndex, Reservations};
use crate::fact::{OwnerRule, ReservationRules, Uid, Visitor};
use crate::ledger::{Identity, Ledger};
use crate::pool::Id;

/// Reservations that are for a pod, in the order of their uids.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guests(pub Box<[Uid]>);

type Found = BTreeSet<ReservationIndex>;

/// Reservations by something that is so of every pod which one of their owners means.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    labels: FxHashMap<Box<str>, FxHashMap<Box<str>, Found>>,
    names: FxHashMap<Box<str>, Found>,
    uids: FxHashMap<Box<str>, Found>,
    controllers: FxHashMap<Box<str>, Found>,
    /// Those of which nothing of the kind is known.
    others: Found,
}

/// What is so of every pod that an owner means.
enum Common<'a> {
    Label(&'a str, &'a str),
    Name(&'a str),
    Uid(&'a str),
    Controller(&'a str),
    Nothing,
}

impl<'a> Common<'a> {
    fn of(owner: &'a OwnerRule) -> Self {
        let some = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        let pod = owner.pod.as_ref();
        if let Some(uid) = pod.and_then(|pod| some(&pod.uid)) {
            return Self::Uid(uid);
        }
        if let Some(name) = pod.and_then(|pod| some(&pod.name)) {
            return Self::Name(name);
        }
        let requirements = owner.labels.as_ref().and_then(|labels| labels.requirements());
        let mut exact = requirements.unwrap_or_default().iter().filter_map(|one| {
            let is_exact = matches!(one.operator(), Operator::In | Operator::Equals);
            match one.values() {
                [value] if is_exact => Some((one.key(), value.as_str())),
                _ => None,
            }
        });
        if let Some((key, value)) = exact.next() {
            return Self::Label(key, value);
        }
        let controller = owner.controller.as_ref();
        match controller.and_then(|own| some(&own.reference.name)) {
            Some(name) => Self::Controller(name),
            None => Self::Nothing,
        }
    }
}

impl Index {
    pub(super) fn is_empty(&self) -> bool {
        self.labels.is_empty()
            && self.names.is_empty()
            && self.uids.is_empty()
            && self.controllers.is_empty()
            && self.others.is_empty()
    }

    pub(super) fn insert(&mut self, index: ReservationIndex, rules: &ReservationRules) {
        for owner in &rules.owners {
            let found = match Common::of(owner) {
                Common::Label(key, value) => {
                    let values = self.labels.entry(key.into()).or_default();
                    values.entry(value.into()).or_default()
                }
                Common::Name(name) => self.names.entry(name.into()).or_default(),
                Common::Uid(uid) => self.uids.entry(uid.into()).or_default(),
                Common::Controller(name) => self.controllers.entry(name.into()).or_default(),
                Common::Nothing => &mut self.others,
            };
            found.insert(index);
        }
    }

    pub(super) fn remove(&mut self, index: ReservationIndex, rules: &ReservationRules) {
        for owner in &rules.owners {
            match Common::of(owner) {
                Common::Label(key, value) => {
                    if let Some(values) = self.labels.get_mut(key) {
                        part(values, value, index);
                        if values.is_empty() {
                            self.labels.remove(key);
                        }
                    }
                }
                Common::Name(name) => part(&mut self.names, name, index),
                Common::Uid(uid) => part(&mut self.uids, uid, index),
                Common::Controller(name) => part(&mut self.controllers, name, index),
                Common::Nothing => {
                    self.others.remove(&index);
                }
            }
        }
    }

    /// Whether a reservation is for this one pod, and not for its like.
    fn names(&self, pod: Visitor<'_>) -> bool {
        self.names.contains_key(pod.name) || self.uids.contains_key(&*pod.uid.0)
    }

    /// Those that may be for a pod: all that are, are among them.
    fn about(&self, pod: Visitor<'_>) -> Found {
        let mut found = self.others.clone();
        if !self.labels.is_empty() {
            for (key, value) in pod.labels {
                let own = self.labels.get(key).and_then(|values| values.get(value));
                found.extend(own.into_iter().flatten());
            }
        }
        found.extend(self.names.get(pod.name).into_iter().flatten());
        found.extend(self.uids.get(&*pod.uid.0).into_iter().flatten());
        for owner in pod.owners {
            found.extend(self.controllers.get(owner.name.as_str()).into_iter().flatten());
        }
        found
    }
}

/// Reservations that are for pods of the same namespace, labels and makers, as long as no reservation
/// changes: where thousands are, they are not found out anew for each pod of an app.
#[derive(Debug, Clone, Default)]
pub(super) struct Known(FxHashMap<u64, Vec<Same>>);

/// Those of pods with one namespace and labels that the same made.
#[derive(Debug, Clone)]
struct Same {
    owners: Box<[OwnerReference]>,
    guests: Option<Id<Guests>>,
}

/// Of how many namespaces and labels they are known.
const KNOWN_MAX: usize = 1024;

impl Ledger {
    /// The reservations that are for a pod of this namespace and labels, held once more.
    pub(in crate::ledger) fn guests_of(
        &mut self,
        identity: Id<Identity>,
        pod: Visitor<'_>,
    ) -> Option<Id<Guests>> {
        if self.reservations.index.is_empty() {
            return None;
        }
        let is_named = self.reservations.index.names(pod);
        let stamp = self.terms.crowds.stamp_of(identity);
        let known = self.reservations.known.0.get(&stamp).filter(|_| !is_named);
        let mut known = known.into_iter().flatten();
        if let Some(same) = known.find(|same| *same.owners == *pod.owners) {
            return same.guests.inspect(|id| self.asks.guests.hold_again(*id));
        }
        let guests = self.reservations.guests(pod);
        let guests = guests.map(|guests| self.asks.guests.hold(guests).0);
        if !is_named {
            if self.reservations.known.0.len() >= KNOWN_MAX {
                self.forget_all_guests();
            }
            if let Some(id) = guests {
                self.asks.guests.hold_again(id);
            }
            let same = Same { owners: pod.owners.into(), guests };
            self.reservations.known.0.entry(stamp).or_default().push(same);
        }
        guests
    }

    /// Others may use reservations than before, where there were other rules.
    pub(super) fn forget_guests(&mut self, before: u64) {
        if self.reservations.epoch != before {
            self.forget_all_guests();
        }
    }

    fn forget_all_guests(&mut self) {
        let known = std::mem::take(&mut self.reservations.known.0);
        for id in known.into_values().flatten().filter_map(|same| same.guests) {
            self.asks.guests.release(id);
        }
    }
}

fn part(all: &mut FxHashMap<Box<str>, Found>, key: &str, index: ReservationIndex) {
    if let Some(found) = all.get_mut(key) {
        found.remove(&index);
        if found.is_empty() {
            all.remove(key);
        }
    }
}

impl Reservations {
    /// The reservations that are for a pod; none where no one is.
    #[must_use]
    pub fn guests(&self, pod: Visitor<'_>) -> Option<Guests> {
        let about = self.index.about(pod).into_iter().filter_map(|index| {
            let row = &self.rows[index.get()];
            let is_for_it = row.rules.as_ref().is_some_and(|rules| rules.means(pod));
            row.uid.clone().filter(|_| is_for_it)
        });
        let mut all: Vec<Uid> = about.collect();
        all.sort_unstable();
        (!all.is_empty()).then(|| Guests(all.into()))
    }
}
