//! Which reservation a pod uses.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::decide::{Decider, mixed};
use crate::fact::{Allotment, ReservationRef, Uid};
use crate::judge::Trial;
use crate::ledger::{Ask, Ledger, NodeIndex, Passing, PodRow, Way};
use crate::node_set::NodeSet;
use crate::plugin::Plugin;
use crate::reason::Refusal;

/// Where a pod is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The node.
    pub node: NodeIndex,
    /// Whose room it gets there.
    pub within: Within,
}

/// Whose room a pod gets on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Within {
    /// What is free.
    Node,
    /// That of a reservation, and what is free.
    Reservation(ReservationRef),
    /// That of all reservations, none of which it uses.
    All,
}

impl Place {
    /// What is free on a node.
    #[must_use]
    pub fn on(node: NodeIndex) -> Self {
        Self { node, within: Within::Node }
    }
}

impl Ledger {
    /// A reservation as it comes to its node and leaves it.
    fn passing_of(&self, uid: &Uid) -> Option<Passing> {
        self.pod(uid).map(PodRow::passing)
    }

    /// Reservations on a node that are for a pod, as they leave it.
    pub(crate) fn passing_meant(&self, ask: Ask, node: NodeIndex) -> Vec<Passing> {
        self.meant_on(ask, node).filter_map(|own| self.passing_of(own.uid)).collect()
    }

    /// Whether a pod must use a reservation.
    pub(crate) fn must_use(&self, ask: Ask) -> bool {
        ask.reservation.is_some_and(|id| self.asks.reservations.get(id).affinity.is_some())
    }

    /// All reservations on a node, as they leave it.
    pub(crate) fn passing_on(&self, node: NodeIndex) -> Vec<Passing> {
        self.reservations.on(node).filter_map(|own| self.passing_of(own.uid)).collect()
    }

    /// Whether a pod may use what reservations hold and uses none of them.
    pub(crate) fn is_ignoring(&self, ask: Ask) -> bool {
        ask.reservation.is_some_and(|id| self.asks.reservations.get(id).is_ignoring)
    }
}

impl Decider {
    /// The reservation that a pod uses; none where it can use none. `only` is the one node that counts,
    /// where there is one.
    pub(crate) fn inside(
        &mut self,
        ledger: &mut Ledger,
        uid: &Uid,
        only: Option<NodeIndex>,
    ) -> Option<Place> {
        let row = ledger.pod(uid).filter(|row| row.ask.guests.is_some())?;
        let (ask, priority) = (row.ask, row.priority);
        if !self.uses_reservations() || ledger.is_ignoring(ask) {
            return None;
        }
        if ledger.meant(ask).next().is_none() || self.refused_everywhere(ledger, ask).is_some() {
            return None;
        }
        let promised: BTreeMap<NodeIndex, Vec<Passing>> =
            ledger.promised(uid, priority).into_iter().collect();
        let Self { profile, ranks, .. } = self;
        let filter = profile.filters.iter().find(|own| own.plugin() == Plugin::Reservation)?;
        let ignores = |name: &str| filter.ignores(name);
        let found = ranks.of(ledger, ask, &ignores);
        let mut found = found.iter().filter(|rank| only.is_none_or(|only| only == rank.node));
        let first = found.next()?;
        let mut trial = Trial::new(ledger, &profile.filters, ask).within();
        for rank in std::iter::once(first).chain(found) {
            let Some(own) = trial.ledger().reservations.get(rank.index) else { continue };
            let own = ReservationRef { name: rank.name.clone(), uid: own.uid.clone() };
            let Some(held) = trial.ledger().passing_of(&own.uid) else { continue };
            let others = promised.get(&rank.node).map_or(&[][..], Vec::as_slice);
            if trial.refusal_without(&[held], others, rank.node).is_none() {
                return Some(Place { node: rank.node, within: Within::Reservation(own) });
            }
        }
        None
    }

    /// The best node for a pod that may use what reservations hold and uses none of them, where it fits
    /// nowhere else.
    pub(crate) fn amid(&mut self, ledger: &mut Ledger, uid: &Uid, tie: u64) -> Option<Place> {
        let row = ledger.pod(uid)?;
        let (ask, priority) = (row.ask, row.priority);
        if !self.uses_reservations() || !ledger.is_ignoring(ask) {
            return None;
        }
        let present = ledger.nodes.present();
        let nodes: NodeSet =
            ledger.reservations.nodes().filter(|node| present.contains(*node)).collect();
        if nodes.is_empty() || self.refused_everywhere(ledger, ask).is_some() {
            return None;
        }
        let worth = self.worth(ledger, ask, &nodes);
        let draw = |node: NodeIndex| mixed(self.seed ^ tie ^ node.get() as u64);
        let mut ranked: Vec<_> =
            worth.into_iter().map(|(node, worth)| (Reverse(worth), draw(node), node)).collect();
        ranked.sort_unstable();
        let promised: BTreeMap<NodeIndex, Vec<Passing>> =
            ledger.promised(uid, priority).into_iter().collect();
        let mut trial = Trial::new(ledger, &self.profile.filters, ask).within();
        let fits = |(_, _, node): &(Reverse<i64>, u64, NodeIndex)| {
            let held = trial.ledger().passing_on(*node);
            let others = promised.get(node).map_or(&[][..], Vec::as_slice);
            trial.refusal_without(&held, others, *node).is_none()
        };
        let (_, _, node) = ranked.into_iter().find(fits)?;
        Some(Place { node, within: Within::All })
    }

    /// What of a place is the pod's own from now on, besides amounts.
    ///
    /// # Errors
    /// Why it gets none. A node that was picked has them.
    pub fn allot(
        &self,
        ledger: &mut Ledger,
        ask: Ask,
        place: &Place,
    ) -> Result<Option<Allotment>, (Plugin, Refusal)> {
        let node = place.node;
        let (away, first, reservation) = match &place.within {
            Within::Node => return self.allot_on(ledger, ask, node, None),
            Within::All => (ledger.passing_on(node), None, None),
            Within::Reservation(own) => {
                let spare = ledger.reservations.find(&own.uid).map(|own| own.spare.cpus.clone());
                (ledger.passing_of(&own.uid).into_iter().collect(), spare, Some(own.clone()))
            }
        };
        for held in &away {
            ledger.shift_load(node, *held, Way::Out);
        }
        let own = self.allot_on(ledger, ask, node, first.as_ref());
        for held in &away {
            ledger.shift_load(node, *held, Way::In);
        }
        let own = own?;
        match reservation {
            None => Ok(own),
            Some(_) => Ok(Some(Allotment { reservation, ..own.unwrap_or_default() })),
        }
    }
}
