//! Which reservation a pod uses.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::ranks::Rank;
use crate::decide::{Decider, mixed};
use crate::fact::{Allotment, ReservationRef, Uid};
use crate::judge::Trial;
use crate::ledger::{Ask, Holding, Ledger, NodeIndex, Passing, PodRow, Way};
use crate::node_set::NodeSet;
use crate::plugin::{Plugin, reserving};
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
    /// What is free and what these pods have, which it takes over: it is a reservation.
    Adopting(Box<[Uid]>),
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
    pub(super) fn passing_of(&self, uid: &Uid) -> Option<Passing> {
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

impl Trial<'_> {
    /// Whose room the pod gets on a node, as things are in thought.
    ///
    /// # Errors
    /// Who refuses it, and why.
    pub(crate) fn place_on(
        &mut self,
        others: &[Passing],
        node: NodeIndex,
    ) -> Result<Within, (Plugin, Refusal)> {
        if self.ledger().takeover(self.ask()).is_some() {
            return self.take_over(others, node).map(|taken| Within::Adopting(taken.into()));
        }
        if let Some(own) = self.reserved_on(others, node) {
            return Ok(Within::Reservation(own));
        }
        let Some(refusal) = self.told_refusal(others, node) else { return Ok(Within::Node) };
        if self.reserving().is_some() && self.ledger().is_ignoring(self.ask()) {
            let held = self.ledger().passing_on(node);
            if self.refusal_within(&held, others, node).is_none() {
                return Ok(Within::All);
            }
        }
        Err(refusal)
    }

    /// Whether the node goes on taking the pod, where others moved since it was asked and did.
    pub(crate) fn still_takes(&mut self, others: &[Passing], node: NodeIndex) -> bool {
        let ask = self.ask();
        let ledger = self.ledger();
        let takes_over = ledger.takeover(ask).is_some();
        match ask.guests.is_some() || takes_over || ledger.is_ignoring(ask) {
            true => self.place_on(others, node).is_ok(),
            false => self.refusal_by_load_with(others, node).is_none(),
        }
    }

    /// The reservation of a node that the pod uses; none where it can use none.
    fn reserved_on(&mut self, others: &[Passing], node: NodeIndex) -> Option<ReservationRef> {
        let ask = self.ask();
        // Hardly any pod is meant by one.
        let filter = self.reserving().filter(|_| ask.guests.is_some())?;
        let ledger = self.ledger();
        if ledger.is_ignoring(ask) {
            return None;
        }
        let rank = |own| Rank::of(ledger, ask, own, filter);
        let ranks: BTreeSet<Rank> = ledger.meant_on(ask, node).filter_map(rank).collect();
        ranks.into_iter().find_map(|rank| self.uses(&rank, others))
    }

    /// The reservation of this rank, where the pod can use it.
    fn uses(&mut self, rank: &Rank, others: &[Passing]) -> Option<ReservationRef> {
        let uid = self.ledger().reservations.get(rank.index)?.uid.clone();
        let held = self.ledger().passing_of(&uid)?;
        let is_refused = self.refusal_within(&[held], others, rank.node).is_some();
        (!is_refused).then(|| ReservationRef { name: rank.name.clone(), uid })
    }
}

impl Decider {
    /// The reservation that a pod uses; none where it can use none.
    pub(crate) fn inside(&mut self, ledger: &mut Ledger, uid: &Uid) -> Option<Place> {
        let row = ledger.pod(uid).filter(|row| row.ask.guests.is_some())?;
        let (ask, priority) = (row.ask, row.priority);
        if ledger.is_ignoring(ask) || ledger.meant(ask).next().is_none() {
            return None;
        }
        let filter = reserving(&self.profile.filters)?;
        if self.refused_everywhere(ledger, ask).is_some() {
            return None;
        }
        let promised: BTreeMap<NodeIndex, Vec<Passing>> =
            ledger.promised(uid, priority).into_iter().collect();
        let found = self.ranks.of(ledger, ask, filter);
        // What is asked of the whole cluster is gathered where there is one to ask about.
        let first = found.first()?;
        let mut trial = Trial::new(ledger, &self.profile.filters, ask);
        for rank in std::iter::once(first).chain(found.iter().skip(1)) {
            let others = promised.get(&rank.node).map_or(&[][..], Vec::as_slice);
            if let Some(own) = trial.uses(rank, others) {
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
        let mut trial = Trial::new(ledger, &self.profile.filters, ask);
        let fits = |(_, _, node): &(Reverse<i64>, u64, NodeIndex)| {
            let held = trial.ledger().passing_on(*node);
            let others = promised.get(node).map_or(&[][..], Vec::as_slice);
            trial.refusal_within(&held, others, *node).is_none()
        };
        let (_, _, node) = ranked.into_iter().find(fits)?;
        // It is the first that does.
        self.looked.feasible = 1;
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
            Within::Adopting(pods) => {
                let pods: Vec<Passing> =
                    pods.iter().filter_map(|uid| ledger.passing_of(uid)).collect();
                let inside = pods.iter().filter_map(|pod| pod.allotment);
                let inside = inside.map(|id| &ledger.asks.allotments.get(id).cpus);
                let first = Holding::of_cpus(inside);
                (pods, Some(first), None)
            }
            Within::Reservation(own) => {
                let spare = ledger.reservations.find(&own.uid).map(|own| own.spare.clone());
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
