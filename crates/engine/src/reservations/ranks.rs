//! Reservations that pods could use, the best first, kept as long as they are what they were.
//!
//! Where thousands are for one pod, most of them are what they were when the last one like it asked.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::hash::BuildHasher as _;

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::ledger::{Ask, Ledger, NodeIndex, Position, Reservation, ReservationIndex};
use crate::plugins::reservation::Reservation as Plugin;

/// How many lists are kept.
const KEPT_MAX: usize = 256;

/// Where a reservation stands among others that a pod could use: the lowest goes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// What it says itself; those that say nothing come last.
    order: i64,
    /// How much of it would be in use.
    score: Reverse<i64>,
    /// Of equally good ones, the name decides.
    pub(super) name: Box<str>,
    pub(super) node: NodeIndex,
    pub(super) index: ReservationIndex,
}

impl Rank {
    /// Where one stands for a pod; none where the pod cannot use it, as far as it says.
    pub(super) fn of(
        ledger: &Ledger,
        ask: Ask,
        own: Reservation<'_>,
        filter: &Plugin,
    ) -> Option<Self> {
        let (order, score) = ledger.suited(ask, own, filter)?;
        Some(Self {
            order,
            score: Reverse(score),
            name: own.rules.name.clone(),
            node: own.node,
            index: own.index,
        })
    }
}

#[derive(Debug, Default)]
struct Kept {
    /// What is known of changes; none where nothing is.
    seen: Option<Position>,
    ranks: BTreeSet<Rank>,
    on: FxHashMap<NodeIndex, Vec<Rank>>,
}

/// Lists of reservations that pods could use, by what pods that ask alike have in common.
#[derive(Debug, Default)]
pub(crate) struct Ranks(FxHashMap<u64, Kept>);

impl Ranks {
    /// The reservations that a pod could use, as far as they say.
    pub(super) fn of(&mut self, ledger: &Ledger, ask: Ask, filter: &Plugin) -> &BTreeSet<Rank> {
        if self.0.len() >= KEPT_MAX {
            self.0.clear();
        }
        let asks = &ledger.asks;
        let key = FxBuildHasher.hash_one((
            ask.guests.map(|id| asks.guests.stamp(id)),
            ask.reservation.map(|id| asks.reservations.stamp(id)),
            asks.requests.stamp(ask.requests),
            ledger.reservations.epoch(),
        ));
        let kept = self.0.entry(key).or_default();
        let changes = &ledger.nodes.load_changed;
        let rank = |own: Reservation<'_>| Rank::of(ledger, ask, own, filter);
        match kept.seen.and_then(|seen| changes.since(seen)) {
            Some(nodes) => {
                let nodes: BTreeSet<NodeIndex> = nodes.collect();
                for node in nodes {
                    for old in kept.on.remove(&node).unwrap_or_default() {
                        kept.ranks.remove(&old);
                    }
                    ledger.meant_on(ask, node).filter_map(rank).for_each(|new| kept.put(new));
                }
            }
            None => {
                kept.ranks.clear();
                kept.on.clear();
                ledger.meant(ask).filter_map(rank).for_each(|new| kept.put(new));
            }
        }
        kept.seen = Some(changes.end());
        &kept.ranks
    }
}

impl Kept {
    fn put(&mut self, rank: Rank) {
        self.on.entry(rank.node).or_default().push(rank.clone());
        self.ranks.insert(rank);
    }
}
