//! What reservations say that are for a pod which no node can take.

use std::collections::BTreeMap;

use super::Unsuited;
use crate::ledger::{Ask, Ledger, NodeIndex};
use crate::plugins::reservation::Reservation;
use crate::reason::{Reason, Refusal, ReservationReason};

/// How many reservations are for a pod that has no node, and what is in the way of each. The words are
/// Koordinator's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Whether the pod must use one.
    pub is_required: bool,
    /// How many are for it.
    pub meant: usize,
    /// How many of them have the name that it wants.
    pub named: usize,
    /// Why it cannot use one, as far as that says, and of how many that is so.
    pub unsuited: Vec<(Unsuited, usize)>,
    /// Why the nodes of others do not take it, and of how many that is so.
    pub by_node: Vec<(Reason, usize)>,
    /// Those others, by node.
    suited: BTreeMap<NodeIndex, usize>,
}

impl Tally {
    /// What reservations say of a pod, before their nodes are asked; none where none is for it and it need
    /// not use one.
    pub(crate) fn of(ledger: &Ledger, ask: Ask, filter: &Reservation) -> Option<Self> {
        let needs = ask.reservation.map(|id| ledger.asks.reservations.get(id));
        let affinity = needs.and_then(|needs| needs.affinity.as_ref());
        let wanted = affinity.and_then(|affinity| affinity.name.as_deref());
        let mut tally = Self { is_required: affinity.is_some(), ..Self::default() };
        for own in ledger.meant(ask) {
            let why = ledger.unsuited(ask, own, filter);
            // One that has its pod is for nobody else.
            if why == Some(Unsuited::Taken) {
                continue;
            }
            tally.meant += 1;
            tally.named += usize::from(wanted.is_some_and(|name| *name == *own.rules.name));
            match why {
                None => *tally.suited.entry(own.node).or_default() += 1,
                Some(why) => tally.count(why),
            }
        }
        tally.unsuited.sort_by_key(|(why, _)| why.place());
        (tally.is_required || tally.meant > 0).then_some(tally)
    }

    fn count(&mut self, why: Unsuited) {
        match self.unsuited.iter_mut().find(|(other, _)| other.is_like(&why)) {
            Some((_, count)) => *count += 1,
            None => self.unsuited.push((why, 1)),
        }
    }

    /// Their nodes have said why they do not take the pod.
    pub(crate) fn heed<'a>(&mut self, refused: impl Iterator<Item = (NodeIndex, &'a Refusal)>) {
        // Where each is that reads so.
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (node, refusal) in refused {
            let Some(suited) = self.suited.get(&node).copied() else { continue };
            let is_of_node = |reason: &&Reason| {
                !matches!(reason, Reason::Reservation(ReservationReason::Unsuited { .. }))
            };
            for reason in refusal.reasons.iter().filter(is_of_node) {
                let place = *places.entry(reason.to_string()).or_insert_with(|| {
                    self.by_node.push((reason.clone(), 0));
                    self.by_node.len() - 1
                });
                self.by_node[place].1 += suited;
            }
        }
    }

    /// What is in the way of each.
    fn items(&self) -> impl Iterator<Item = String> {
        let named = (self.named > 0).then(|| {
            format!("{} Reservation(s) exactly matches the requested reservation name", self.named)
        });
        let unsuited = self.unsuited.iter().map(|(why, count)| {
            let why = ReservationReason::Unsuited { why: why.clone(), is_named: false };
            format!("{count} {why}")
        });
        let by_node = self
            .by_node
            .iter()
            .map(|(reason, count)| format!("{count} Reservation(s) for node reason that {reason}"));
        named.into_iter().chain(unsuited).chain(by_node)
    }

    /// What is told after what nodes say.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let total = format!("{} Reservation(s) matched owner total", self.meant);
        self.items().chain([total]).collect()
    }

    /// The same in one sentence of its own; none where none is for the pod.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        let items: Vec<String> = self.items().collect();
        let total = self.meant;
        (total > 0 && !items.is_empty())
            .then(|| format!("0/{total} reservations are available: {}.", items.join(", ")))
    }
}
