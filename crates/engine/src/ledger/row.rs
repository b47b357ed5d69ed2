//! A pod, or a reservation, as the ledger knows it.

use std::sync::Arc;

use super::quotas::User;
use super::{Adoption, Ask, Belonging, Charged, Ledger, NodeIndex, Passing, ReservationIndex};
use crate::fact::{Allotment, LoadTimes, PodFact};
use crate::gangs::Membership;
use crate::moment::Moment;
use crate::needs::Makers;
use crate::nominations::Nomination;
use crate::pool::Id;
use crate::quota::Preemptible;

/// Whether a pod goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departure {
    /// It stays.
    No,
    /// It has to go for others, and is not seen to go yet.
    SeenOff,
    /// It is being deleted.
    Deleted,
    /// It is being deleted to make room for others.
    GivesWay,
}

impl Departure {
    /// As a pod says it is; what was decided of one that stays for all that it says holds on.
    pub(super) fn told(fact: &PodFact, before: Option<&PodRow>) -> Self {
        match (fact.deleting, fact.giving_way) {
            (true, true) => Self::GivesWay,
            (true, false) => Self::Deleted,
            _ if before.is_some_and(|row| row.departure == Self::SeenOff) => Self::SeenOff,
            _ => Self::No,
        }
    }
}

/// What is known of a pod.
#[derive(Debug, Clone)]
pub struct PodRow {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Higher goes first.
    pub priority: i32,
    /// Whether it goes.
    pub(crate) departure: Departure,
    /// Whether it is not to be pushed out for a reservation, or inside one.
    pub is_spared: bool,
    /// Whether something keeps it from being tried at all.
    pub gated: bool,
    /// Whether pods of lower priority may be pushed out for it.
    pub may_preempt: bool,
    /// When its node accepted it.
    pub started: Option<Moment>,
    /// From when on its load is reported, where anybody looks at that.
    pub(crate) load_times: Option<Box<LoadTimes>>,
    /// What it asks of a node, or takes of one.
    pub ask: Ask,
    /// What it got besides amounts.
    pub(crate) allotment: Option<Id<Allotment>>,
    /// Which reservation it is, where it is one.
    pub(crate) reservation: Option<ReservationIndex>,
    /// Whether it is nothing else: a pod that is one is a pod all the same.
    pub(crate) is_object: bool,
    /// Who made it, where it has a node and pods use reservations.
    pub(crate) makers: Option<Id<Makers>>,
    /// Whether a reservation takes it over, before it says so.
    pub(crate) adoption: Option<Box<Adoption>>,
    /// The gang that it is of.
    pub gang: Option<Arc<Membership>>,
    /// By what it belongs to a quota, where it is charged to any.
    pub(crate) belonging: Option<Id<Belonging>>,
    /// Whether it may have to make room for others of its quota.
    pub preemptible: Preemptible,
    /// What of it only those outside read, as a hash.
    pub(crate) rest: u64,
    /// The node on which room is being made for it.
    pub(crate) nomination: Nomination,
    /// Whether it is another scheduler's.
    pub(crate) is_anothers: bool,
    /// The node that the API server says it is bound to.
    pub(crate) bound: Option<NodeIndex>,
    /// The same where that node is not there.
    pub(crate) astray: Option<Box<str>>,
    /// The node that we decided on and have not yet seen back.
    pub(crate) claim: Option<NodeIndex>,
}

impl PodRow {
    /// The node that is charged for the pod: where it is bound, or where we decided to bind it. None
    /// where it is bound to a node that is not there.
    #[must_use]
    pub fn node(&self) -> Option<NodeIndex> {
        self.bound.or(self.claim)
    }

    /// The node on which room is being made for it.
    #[must_use]
    pub fn nominated(&self) -> Option<&str> {
        self.nomination.node()
    }

    /// Whether room is being made for it, but no longer on the same node once this is known.
    pub(crate) fn loses_nomination(&self, fact: &PodFact) -> bool {
        let next = Nomination::told(Some(&self.nomination), fact.nominated.clone());
        self.nominated().is_some() && self.nominated() != next.node()
    }

    /// What of it its node feels.
    #[must_use]
    pub fn passing(&self) -> Passing {
        let Self { ask, allotment, reservation, .. } = *self;
        Passing { ask, deleting: self.is_deleting(), allotment, reservation }
    }

    /// What of it a quota is charged for; none where it is charged to nobody.
    #[must_use]
    pub fn charged(&self) -> Option<Charged> {
        let (belonging, amounts) = (self.belonging?, self.ask.taken);
        Some(Charged { belonging, amounts, preemptible: self.preemptible })
    }

    /// As somebody who uses a quota.
    pub(crate) fn user(&self) -> User {
        let stays = self.is_spared || self.is_object || self.preemptible == Preemptible::No;
        User { priority: self.priority, yields: !stays, goes: self.goes() }
    }

    /// Whether it is no pod but a reservation.
    #[must_use]
    pub fn is_reservation(&self) -> bool {
        self.is_object
    }

    /// Whether the API server says that it is bound.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.bound.is_some() || self.astray.is_some()
    }

    /// Whether it has a node: one that it is bound to, there or not, or one that we decided on.
    #[must_use]
    pub fn is_placed(&self) -> bool {
        self.is_bound() || self.claim.is_some()
    }

    /// Where it has no node any longer, it has not to go from there.
    pub(super) fn stays_without_node(&mut self) {
        if self.departure == Departure::SeenOff && !self.is_placed() {
            self.departure = Departure::No;
        }
    }

    /// Whether it is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        matches!(self.departure, Departure::Deleted | Departure::GivesWay)
    }

    /// Whether it goes, or has to.
    #[must_use]
    pub fn goes(&self) -> bool {
        self.departure != Departure::No
    }

    /// Whether it goes to make room for others, or has to.
    pub(crate) fn gives_way(&self) -> bool {
        matches!(self.departure, Departure::SeenOff | Departure::GivesWay)
    }

    /// Whether it waits for a node and may be tried, by itself or with its gang.
    pub(crate) fn may_be_tried(&self) -> bool {
        !self.is_placed() && !self.gated && !self.is_deleting() && !self.is_anothers
    }

    /// The name of the node that the API server says it is bound to.
    pub(crate) fn bound_to<'a>(&'a self, ledger: &'a Ledger) -> Option<&'a str> {
        self.bound.map(|node| ledger.nodes.name(node)).or(self.astray.as_deref())
    }
}
