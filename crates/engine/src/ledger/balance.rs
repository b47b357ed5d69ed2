//! What a node has, and what becomes of it: requested, held, taken to be used and used. For people.
//!
//! Nothing here is added up in another way than decisions go by: it is read off the ledger, which is
//! charged for pods and for what of reservations no pod uses.

use std::collections::BTreeMap;

use api::priority::{PRIORITY_CLASS_LABEL, PriorityBand};

use super::{Book, Ledger, NodeIndex, PodRow};
use crate::moment::Moment;
use crate::needs::Amounts;

/// What a node has, and what becomes of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Balance {
    /// What pods may request.
    pub allocatable: Amounts,
    /// What pods do request, wherever they take it from.
    pub requested: Amounts,
    /// What reservations hold and no pod uses.
    pub reserved: Amounts,
    /// What the node says that it uses, where it says so.
    pub used: Option<Amounts>,
    /// What it is taken to use, of tracked resources: what it says, and what pods are taken to use of
    /// which it does not say so yet.
    pub estimated: Option<BTreeMap<Box<str>, i64>>,
    /// When it said so; none where it never did.
    pub reported: Option<Moment>,
    /// How many pods it has.
    pub pods: i64,
    /// How many it takes.
    pub pods_allowed: i64,
    /// What pods request and use, by the band that they state; none is for those that state none.
    pub bands: BTreeMap<Option<PriorityBand>, Share>,
}

/// What the pods of one band have of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Share {
    /// How many there are.
    pub pods: i64,
    /// What they request.
    pub requested: Amounts,
    /// What the node says that pods use which it takes to be in this band.
    pub used: Option<Amounts>,
}

impl Ledger {
    /// What becomes of what a node has, where loads are judged by this book.
    #[must_use]
    pub fn balance(&self, book: &Book, node: NodeIndex) -> Balance {
        let resources = &self.nodes.resources;
        let report = self.loads.report(self.nodes.name(node));
        let mut reserved = Amounts::default();
        self.reservations.on(node).for_each(|own| reserved.add(&own.spare.amounts, 1));
        let estimated = self.taken_to_use(book, node);
        let estimated = estimated.map(|own| book.tracked().iter().cloned().zip(own).collect());
        let bands = self.bands(node);
        let mut requested = Amounts::default();
        bands.values().for_each(|share| requested.add(&share.requested, 1));
        Balance {
            used: report.and_then(|own| own.node.as_ref()).map(|own| own.now.clone()),
            estimated,
            reported: report.and_then(|own| own.at),
            pods: bands.values().map(|share| share.pods).sum(),
            pods_allowed: self.nodes.pods_allowed[node.get()],
            allocatable: resources.allowed(node),
            requested,
            reserved,
            bands,
        }
    }

    fn bands(&self, node: NodeIndex) -> BTreeMap<Option<PriorityBand>, Share> {
        let mut bands: BTreeMap<Option<PriorityBand>, Share> = BTreeMap::new();
        let rows = self.residents.on(node).iter().filter_map(|(_, uid)| self.pod(uid));
        for row in rows.filter(|row| !row.is_reservation()) {
            let share = bands.entry(self.stated_band(row)).or_default();
            share.pods += 1;
            share.requested.add(&self.asks.requests.get(row.ask.taken).charged, 1);
        }
        let report = self.loads.report(self.nodes.name(node));
        for usage in report.into_iter().flat_map(|report| report.pods.values()) {
            let used = bands.entry(usage.band).or_default().used.get_or_insert_default();
            used.add(&usage.now, 1);
        }
        bands
    }

    /// The band that a pod states: by its label where it has one, even one that says nothing; else by
    /// its priority.
    fn stated_band(&self, row: &PodRow) -> Option<PriorityBand> {
        let crowds = &self.terms.crowds;
        match crowds.label_of(row.ask.identity, PRIORITY_CLASS_LABEL, &self.symbols) {
            Some(label) => PriorityBand::parse(label).ok(),
            None => PriorityBand::of_priority(row.priority),
        }
    }
}
