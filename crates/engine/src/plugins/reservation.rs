//! Reservation: capacity is held for pods that are still to come.
//!
//! Which reservation a pod uses is found out before nodes are asked ([`crate::reservations`]). Here is what
//! a node says to a pod that must use one and cannot, and to a reservation that is to get a node.

use std::hash::BuildHasher as _;

use rustc_hash::FxBuildHasher;

use super::node_resources::IgnoredResources;
use crate::fact::ReservationPolicy;
use crate::ledger::{Ask, Ledger, NodeIndex};
use crate::needs::{OwnReservation, ReservationNeeds};
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Plugin, Reads};
use crate::queue::Arguments;
use crate::reason::{Code, Reason, Refusal, ReservationReason};

/// Refuses nodes to pods that must use a reservation, and to reservations that do not go together.
#[derive(Debug, Clone, Default)]
pub struct Reservation {
    /// What of a reservation is left to others to look at.
    pub ignored: IgnoredResources,
    /// The label of pods that any reservation may take over; none where none may take over pods that it
    /// is not for.
    pub takeover_label: Option<Box<str>>,
    /// Whether no pod is taken over where there is room enough without.
    pub prefers_no_takeover: bool,
    /// Whether pods that want a reservation with certain labels look at its own only, and not at those
    /// of its node.
    pub omits_node_labels: bool,
}

fn refusal(code: Code, why: ReservationReason) -> Refusal {
    Refusal::new(code, Reason::Reservation(why))
}

fn needs(ledger: &Ledger, ask: Ask) -> Option<&ReservationNeeds> {
    ask.reservation.map(|id| ledger.asks.reservations.get(id))
}

/// Why a node does not take a reservation.
pub(crate) fn conflict(
    ledger: &Ledger,
    own: &OwnReservation,
    node: NodeIndex,
) -> Option<ReservationReason> {
    if own.node.as_deref().is_some_and(|name| *name != *ledger.nodes.name(node)) {
        return Some(ReservationReason::OtherNode);
    }
    let is_default = |policy| policy == ReservationPolicy::Default;
    let mut others = ledger.reservations.on(node).map(|other| other.rules.policy);
    let clashes = others.any(|other| is_default(other) != is_default(own.policy));
    clashes.then_some(ReservationReason::PolicyConflict)
}

/// Why a pod that must use a reservation can use none of a node.
fn unused(ledger: &Ledger, ask: Ask, node: NodeIndex, filter: &Reservation) -> Refusal {
    let own = needs(ledger, ask).and_then(|needs| needs.affinity.as_ref());
    let is_named = own.is_some_and(|own| own.name.is_some());
    let mut reasons = Vec::new();
    for meant in ledger.meant_on(ask, node) {
        if let Some(why) = ledger.unsuited(ask, meant, filter) {
            reasons.push(ReservationReason::Unsuited { why, is_named });
            continue;
        }
        let requests = &ledger.asks.requests.get(ask.requests).charged;
        let resources = &ledger.nodes.resources;
        let has = resources.allowed(node);
        let short = requests.names().filter(|name| !filter.ignored.contain(name)).filter(|name| {
            let used = resources.requested(node, name).saturating_sub(meant.spare.amounts.of(name));
            requests.of(name) > has.of(name).saturating_sub(used)
        });
        reasons.extend(short.map(|name| ReservationReason::ShortOfNode { resource: name.into() }));
    }
    let mut told: Vec<Reason> = Vec::new();
    for reason in reasons.into_iter().filter(ReservationReason::is_about_room) {
        let reason = Reason::Reservation(reason);
        if !told.contains(&reason) {
            told.push(reason);
        }
    }
    if told.is_empty() {
        let is_meant = ledger.meant_on(ask, node).next().is_some();
        return match is_meant {
            true => refusal(Code::Unschedulable, ReservationReason::Unmet),
            false => refusal(Code::Unresolvable, ReservationReason::NoMatch),
        };
    }
    Refusal { code: Code::Unschedulable, reasons: told }
}

/// What a reservation is short of on a node, as that is in thought.
pub(crate) fn short_on(
    ledger: &Ledger,
    ask: Ask,
    node: NodeIndex,
    ignored: &IgnoredResources,
) -> Vec<Reason> {
    let requests = &ledger.asks.requests.get(ask.requests).charged;
    let resources = &ledger.nodes.resources;
    let has = resources.allowed(node);
    let short = requests.names().filter(|name| !ignored.contain(name)).filter(|name| {
        requests.of(name) > has.of(name).saturating_sub(resources.requested(node, name))
    });
    short
        .map(|name| ReservationReason::ShortOfNode { resource: name.into() })
        .map(Reason::Reservation)
        .collect()
}

impl Reservation {
    /// Whether a reservation may take over the pods that it is to take over, wherever they are.
    fn may_take_over(&self, own: &OwnReservation) -> Result<(), ReservationReason> {
        let Some(takes_over) = &own.takes_over else { return Ok(()) };
        if own.policy != ReservationPolicy::Restricted {
            return Err(ReservationReason::TakeOverUnrestricted);
        }
        match takes_over.is_of_anyone && self.takeover_label.is_none() {
            true => Err(ReservationReason::TakeOverOfAnyone),
            false => Ok(()),
        }
    }
}

impl Filter for Reservation {
    fn plugin(&self) -> Plugin {
        Plugin::Reservation
    }

    fn reads(&self) -> Reads {
        Reads::Load
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        let needs = needs(ledger, ask)?;
        let is_concerned = needs.affinity.is_some() || needs.own.is_some();
        is_concerned.then(|| {
            let asks = &ledger.asks;
            let own = ask.reservation.map(|id| asks.reservations.stamp(id));
            let guests = ask.guests.map(|id| asks.guests.stamp(id));
            FxBuildHasher.hash_one((own, guests, asks.requests.stamp(ask.requests)))
        })
    }

    fn admit(&self, ledger: &Ledger, ask: Ask) -> Result<(), Refusal> {
        let Some(needs) = needs(ledger, ask) else { return Ok(()) };
        if let Some(words) = &needs.malformed {
            return Err(Refusal::new(Code::Unresolvable, Reason::Malformed(words.clone())));
        }
        if let Some(own) = &needs.own {
            return self.may_take_over(own).map_err(|why| refusal(Code::Unresolvable, why));
        }
        if needs.affinity.is_some() && ledger.meant(ask).next().is_none() {
            return Err(refusal(Code::Unresolvable, ReservationReason::NoMatch));
        }
        Ok(())
    }

    fn tell(&self, arguments: &mut Arguments) {
        arguments.reserves = true;
        arguments.takeover_label.clone_from(&self.takeover_label);
    }

    fn as_reservation(&self) -> Option<&Self> {
        Some(self)
    }

    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
        let Some(needs) = needs(ledger, ask) else { return };
        match &needs.own {
            Some(own) => nodes.keep_where(|node| conflict(ledger, own, node).is_none()),
            // What is free on a node is not for it.
            None if needs.affinity.is_some() => nodes.clear(),
            None => {}
        }
    }

    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal> {
        let needs = needs(ledger, ask)?;
        match &needs.own {
            Some(own) => conflict(ledger, own, node).map(|why| refusal(Code::Unresolvable, why)),
            None => needs.affinity.as_ref().map(|_| unused(ledger, ask, node, self)),
        }
    }
}
