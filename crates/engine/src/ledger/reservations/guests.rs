//! Which reservations are for which pods.
//!
//! A pod is asked only about reservations of which one thing is so that their owners need: a label, a
//! name, a controller. Thousands of reservations that have nothing to do with it cost it nothing.

use std::collections::BTreeSet;

use object::selector::label::Operator;
use rustc_hash::FxHashMap;

use super::{ReservationIndex, Reservations};
use crate::fact::{OwnerRule, ReservationRules, Uid, Visitor};

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
            let rules = row.rules.as_ref().filter(|rules| rules.means(pod))?;
            let _ = rules;
            row.uid.clone()
        });
        let mut all: Vec<Uid> = about.collect();
        all.sort_unstable();
        (!all.is_empty()).then(|| Guests(all.into()))
    }
}
