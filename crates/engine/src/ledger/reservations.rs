//! What reservations hold, and what pods use of it.
//!
//! A node is charged for each of its pods, whether that uses a reservation or not, and for what of each
//! reservation no pod uses. Whatever comes or goes, what is not used is found out anew from both sides:
//! nothing is added back, and nothing has to be remembered of who came when.
//!
//! Pods may speak of a reservation that nobody else knows yet, or any longer.

mod adoption;
mod guests;
mod holding;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

pub use adoption::Adoption;
pub use guests::Guests;
pub use holding::{Holding, Used};

use super::{Ledger, NodeIndex, Passing, PodRow, Way};
use crate::fact::{ReservationRules, Size, Uid};
use crate::shared::Chunked;
use guests::{Index, Known};

/// The place of a reservation in the table, for as long as that or a pod that uses it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationIndex(u32);

impl ReservationIndex {
    fn get(self) -> usize {
        self.0 as usize
    }
}

/// The table of reservations.
#[derive(Debug, Clone, Default)]
pub struct Reservations {
    rows: Chunked<Row>,
    by_uid: FxHashMap<Uid, ReservationIndex>,
    free: Vec<ReservationIndex>,
    by_node: FxHashMap<NodeIndex, BTreeSet<ReservationIndex>>,
    index: Index,
    epoch: u64,
    known: Known,
    is_kept: bool,
    /// Those of which something may be otherwise than before, since somebody last asked.
    touched: BTreeSet<Uid>,
}

#[derive(Debug, Clone, Default)]
struct Row {
    /// Nothing where the place is free.
    uid: Option<Uid>,
    /// Nothing where only pods speak of it.
    rules: Option<Arc<ReservationRules>>,
    held: Option<Held>,
    /// What pods use of it, by the node that they are on.
    used: BTreeMap<NodeIndex, Used>,
    /// Pods of which it is decided that they use it, before they say so.
    adopts: BTreeSet<Uid>,
    /// What it is to hold from now on, and what it tells, which says that it holds what it held when that
    /// was decided.
    resizing: Option<(Size, Arc<ReservationRules>)>,
}

/// Where a reservation is.
#[derive(Debug, Clone)]
struct Held {
    node: NodeIndex,
    /// What it holds there besides amounts and places for pods, which its rules tell.
    particular: Holding,
    /// What of it no pod uses: the node is charged for that.
    spare: Holding,
}

/// A reservation.
#[derive(Debug, Clone, Copy)]
pub struct Reservation<'a> {
    /// Its place in the table.
    pub index: ReservationIndex,
    /// What the API server calls it.
    pub uid: &'a Uid,
    /// Who may use it, and how.
    pub rules: &'a Arc<ReservationRules>,
    /// The node that it is on.
    pub node: NodeIndex,
    /// What pods use of it there.
    pub used: &'a Used,
    /// What of it no pod uses.
    pub spare: &'a Holding,
}

static NOTHING: Used = Used::NOTHING;

impl Reservations {
    /// Whether nobody knows of any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_uid.is_empty() && self.by_node.is_empty() && self.index.is_empty()
    }

    /// Whether pods use reservations.
    #[must_use]
    pub fn are_kept(&self) -> bool {
        self.is_kept
    }

    /// Those of which something may be otherwise than before, since this was last asked.
    pub fn take_touched(&mut self) -> BTreeSet<Uid> {
        std::mem::take(&mut self.touched)
    }

    /// Changes when others may use reservations than before.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Who may use a reservation, and how; none where it is not there.
    #[must_use]
    pub fn rules(&self, uid: &Uid) -> Option<&Arc<ReservationRules>> {
        self.rows[self.by_uid.get(uid)?.get()].rules.as_ref()
    }

    /// The one of a name, whether it has a node or not.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Uid> {
        let rules = |index: &ReservationIndex| self.rows[index.get()].rules.as_ref();
        let is_it = |index: &&ReservationIndex| rules(index).is_some_and(|own| *own.name == *name);
        let index = self.by_uid.values().filter(is_it).min()?;
        self.rows[index.get()].uid.as_ref()
    }

    /// A reservation that is on a node.
    #[must_use]
    pub fn find(&self, uid: &Uid) -> Option<Reservation<'_>> {
        self.get(*self.by_uid.get(uid)?)
    }

    /// A reservation that is on a node.
    #[must_use]
    pub fn get(&self, index: ReservationIndex) -> Option<Reservation<'_>> {
        let row = &self.rows[index.get()];
        let held = row.held.as_ref()?;
        Some(Reservation {
            index,
            uid: row.uid.as_ref()?,
            rules: row.rules.as_ref()?,
            node: held.node,
            used: row.used.get(&held.node).unwrap_or(&NOTHING),
            spare: &held.spare,
        })
    }

    /// All that are on nodes, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Reservation<'_>> {
        self.by_uid.values().filter_map(|index| self.get(*index))
    }

    /// All that are known of, in no order.
    pub(super) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.by_uid.keys()
    }

    /// Those that are on a node.
    pub fn on(&self, node: NodeIndex) -> impl Iterator<Item = Reservation<'_>> {
        let own = self.by_node.get(&node).into_iter().flatten();
        own.filter_map(|index| self.get(*index))
    }

    /// Nodes that reservations are on, in no order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeIndex> {
        self.by_node.keys().copied()
    }

    /// A reservation is on this node, or no longer.
    fn settle(&mut self, index: ReservationIndex, node: NodeIndex, way: Way) {
        let own = self.by_node.entry(node).or_default();
        match way {
            Way::In => own.insert(index),
            Way::Out => own.remove(&index),
        };
        if own.is_empty() {
            self.by_node.remove(&node);
        }
    }

    /// The place of a reservation, made where there is none yet.
    fn place(&mut self, uid: &Uid) -> ReservationIndex {
        if let Some(index) = self.by_uid.get(uid) {
            return *index;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.rows.push(Row::default());
            let number = u32::try_from(self.rows.len() - 1);
            ReservationIndex(number.expect("there is not enough memory for so many"))
        });
        self.rows[index.get()].uid = Some(uid.clone());
        self.by_uid.insert(uid.clone(), index);
        index
    }

    fn free_if_unknown(&mut self, index: ReservationIndex) {
        let row = &mut self.rows[index.get()];
        let is_used = !row.used.is_empty() || !row.adopts.is_empty();
        if row.rules.is_some() || row.held.is_some() || is_used {
            return;
        }
        if let Some(uid) = row.uid.take() {
            self.by_uid.remove(&uid);
            self.free.push(index);
        }
    }

    /// A reservation has these rules now, or is gone.
    fn put(&mut self, uid: &Uid, rules: Option<Arc<ReservationRules>>) -> ReservationIndex {
        let index = self.place(uid);
        let row = &mut self.rows[index.get()];
        let rules = match rules {
            Some(rules) => Some(row.resized(rules)),
            None => {
                row.resizing = None;
                None
            }
        };
        if row.rules != rules {
            if let Some(old) = &row.rules {
                self.index.remove(index, old);
            }
            if let Some(new) = &rules {
                self.index.insert(index, new);
            }
            row.rules = rules;
            self.epoch += 1;
        }
        index
    }
}

impl Row {
    /// Rules that it tells, with the size that it has by now: as much as it holds before and after, as long
    /// as it tells what it told before. Whatever else it tells is how it is.
    fn resized(&mut self, rules: Arc<ReservationRules>) -> Arc<ReservationRules> {
        let told = Size::of(&rules);
        self.resizing.take_if(|(_, before)| Size::of(before) != told);
        let Some((wanted, before)) = &mut self.resizing else { return rules };
        before.clone_from(&rules);
        let Size { amounts, pods } = wanted.or(&told);
        // Pods may use what is held in either case.
        let mut kept_back = rules.kept_back.clone();
        for name in amounts.names() {
            let sure = wanted.amounts.of(name).min(told.amounts.of(name));
            let more = amounts.of(name).saturating_sub(sure);
            kept_back.put(name, kept_back.of(name).saturating_add(more));
        }
        Arc::new(ReservationRules { amounts, pods, kept_back, ..(*rules).clone() })
    }

    /// What it holds on its node of which pods use nothing.
    fn spare(&self, held: &Held) -> Holding {
        let mut whole = held.particular.clone();
        if let Some(rules) = &self.rules {
            whole.amounts.clone_from(&rules.amounts);
            whole.pods = rules.pods.unwrap_or(1);
        }
        whole.without(self.used.get(&held.node).unwrap_or(&NOTHING))
    }
}

impl Ledger {
    /// Pods use reservations from now on.
    pub fn keep_reservations(&mut self) {
        self.reservations.is_kept = true;
    }

    /// Pods that are bound and use a reservation, in the order of their uids.
    #[must_use]
    pub fn users(&self, own: Reservation<'_>) -> Vec<(&Uid, &PodRow)> {
        let rows = self.residents.on(own.node).iter().filter_map(|(_, uid)| {
            let row = self.pods.get(uid).filter(|row| row.is_bound() && !row.is_reservation())?;
            let used = &self.asks.allotments.get(row.allotment?).reservation;
            used.as_ref().is_some_and(|used| used.uid == *own.uid).then_some((uid, &**row))
        });
        let mut users: Vec<(&Uid, &PodRow)> = rows.collect();
        users.sort_unstable_by_key(|(uid, _)| *uid);
        users
    }

    /// Whether a reservation is to hold something else than it says.
    #[must_use]
    pub fn is_resizing(&self, uid: &Uid) -> bool {
        let index = self.reservations.by_uid.get(uid);
        index.is_some_and(|index| self.reservations.rows[index.get()].resizing.is_some())
    }

    /// A reservation is to hold this from now on, before it says so; none where it holds what it says.
    pub fn resize(&mut self, uid: &Uid, size: Option<Size>) {
        let Some(rules) = self.reservations.rules(uid).cloned() else { return };
        let index = self.reservations.place(uid);
        let row = &mut self.reservations.rows[index.get()];
        let told = row.resizing.take().map_or(rules, |(_, told)| told);
        row.resizing = size.map(|wanted| (wanted, told.clone()));
        self.put_rules(uid, told);
    }

    /// Whether a reservation holds nothing but amounts and ports.
    #[must_use]
    pub fn is_of_amounts(&self, uid: &Uid) -> bool {
        let index = self.reservations.by_uid.get(uid);
        let held = index.and_then(|index| self.reservations.rows[index.get()].held.as_ref());
        held.is_none_or(|held| held.particular.cpus.is_empty() && held.particular.zones.is_empty())
    }

    /// A reservation has these rules now.
    pub(crate) fn put_rules(
        &mut self,
        uid: &Uid,
        rules: Arc<ReservationRules>,
    ) -> ReservationIndex {
        let before = self.reservations.epoch;
        let index = self.reservations.put(uid, Some(rules));
        self.forget_guests(before);
        self.reservations.touched.insert(uid.clone());
        self.recharge(index, |_| {});
        index
    }

    /// A reservation is gone. What pods use of it they use of the node.
    pub(super) fn remove_rules(&mut self, index: ReservationIndex) {
        let uid = self.reservations.rows[index.get()].uid.clone();
        if let Some(uid) = uid {
            let before = self.reservations.epoch;
            self.reservations.put(&uid, None);
            self.forget_guests(before);
        }
        self.reservations.free_if_unknown(index);
    }

    /// A pod comes to a node or leaves it, not only in thought: something of the reservation that it uses,
    /// or is, changes.
    pub(super) fn touch(&mut self, pod: Passing) {
        let allotment = pod.allotment.map(|id| self.asks.allotments.get(id));
        let used = allotment.and_then(|own| own.reservation.as_ref()).map(|own| &own.uid);
        let is = || self.reservations.rows[pod.reservation?.get()].uid.as_ref();
        if let Some(uid) = used.or_else(is).cloned() {
            self.reservations.touched.insert(uid);
        }
    }

    /// A reservation comes to a node or leaves it.
    pub(super) fn shift_reservation(
        &mut self,
        node: NodeIndex,
        index: ReservationIndex,
        pod: Passing,
        way: Way,
    ) {
        let particular = match way {
            Way::Out => None,
            Way::In => {
                let allotment = pod.allotment.map(|id| self.asks.allotments.get(id));
                let ports = &self.asks.ports.get(pod.ask.ports).0;
                Some(Holding::particular(ports, allotment))
            }
        };
        // While it is there, so is the place of the node.
        if way == Way::In {
            self.nodes.pin(node);
        }
        self.recharge(index, |row| {
            row.held =
                particular.map(|particular| Held { node, particular, spare: Holding::default() });
        });
        if way == Way::Out {
            self.nodes.unpin(node);
        }
    }

    /// A pod that uses a reservation comes to a node or leaves it.
    pub(super) fn shift_use(&mut self, node: NodeIndex, pod: Passing, way: Way) {
        let Some(allotment) = pod.allotment else { return };
        let Some(own) = &self.asks.allotments.get(allotment).reservation else { return };
        let index = self.reservations.place(&own.uid);
        let asks = &self.asks;
        let one = Used::by(
            &asks.requests.get(pod.ask.taken).charged,
            &asks.ports.get(pod.ask.ports).0,
            asks.allotments.get(allotment),
        );
        self.recharge(index, |row| {
            let used = row.used.entry(node).or_default();
            used.shift(&one, way);
            if used.pods == 0 {
                row.used.remove(&node);
            }
        });
        self.reservations.free_if_unknown(index);
    }

    /// Changes something of a reservation, and charges its node for what of it is not used then.
    fn recharge(&mut self, index: ReservationIndex, change: impl FnOnce(&mut Row)) {
        let row = &mut self.reservations.rows[index.get()];
        let before = row.held.clone();
        change(row);
        let mut after = row.held.take();
        if let Some(held) = &mut after {
            held.spare = row.spare(held);
        }
        let is_same = match (&before, &after) {
            (Some(before), Some(after)) => before.node == after.node && before.spare == after.spare,
            (before, after) => before.is_none() && after.is_none(),
        };
        if !is_same {
            for (held, way) in [(&before, Way::Out), (&after, Way::In)] {
                if let Some(held) = held {
                    let places = self.nodes.places();
                    self.nodes.charge(held.node, &held.spare, way);
                    self.reservations.settle(index, held.node, way);
                    self.cpus.shift(held.node, places, &held.spare.allotment(), way);
                }
            }
        }
        self.reservations.rows[index.get()].held = after;
    }
}

#[cfg(test)]
mod tests;
