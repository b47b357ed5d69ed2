//! Whether a pod can use a reservation, as far as that says.

use object::taint::{Effect, Taint, is_tolerated};

use crate::fact::{ReservationPolicy, ReservationRules};
use crate::ledger::{Ask, Ledger, NodeIndex, PodRow, Reservation, ReservationUse, forbids};
use crate::needs::{Amounts, ReservationNeeds};
use crate::plugin::SCORE_MAX;
use crate::plugins::node_affinity::label;
use crate::plugins::reservation::Reservation as Plugin;

/// The taint that stands for a reservation that takes no more pods.
const CLOSED: &str = "node.kubernetes.io/unschedulable";

/// Which resources of reservations are left to others to look at.
pub(crate) type Ignores<'a> = &'a dyn Fn(&str) -> bool;

/// Why a pod cannot use a reservation that is for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsuited {
    /// The pod wants the one of another name.
    Name,
    /// It takes no more pods.
    Closed,
    /// The pod does not put up with a taint of it.
    Tainted(Taint),
    /// Its labels are not as the pod wants them.
    Labels,
    /// It does not hold exactly what the pod asks for.
    NotExact,
    /// Its one pod is there.
    Taken,
    /// It has nothing left of what the pod asks for.
    Nothing,
    /// It has too little of a resource left.
    ShortOf {
        /// The resource.
        resource: Box<str>,
        /// What the pod asks for.
        requested: i64,
        /// What others use.
        used: i64,
        /// What it holds for pods.
        capacity: i64,
    },
    /// It has as many pods as it takes.
    TooManyPods {
        /// How many there are.
        used: i64,
        /// How many it takes.
        capacity: i64,
    },
}

impl Unsuited {
    /// Where it is told among others.
    pub(super) fn place(&self) -> u8 {
        match self {
            Self::Name => 0,
            Self::Labels => 1,
            Self::Closed => 2,
            Self::NotExact => 3,
            Self::Tainted(_) => 4,
            Self::ShortOf { .. } => 5,
            Self::TooManyPods { .. } => 6,
            Self::Nothing => 7,
            Self::Taken => 8,
        }
    }

    /// Whether it is told in the same words, where no numbers are.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tainted(own), Self::Tainted(other)) => {
                (&own.key, &own.value) == (&other.key, &other.value)
            }
            (Self::ShortOf { resource: own, .. }, Self::ShortOf { resource: other, .. }) => {
                own == other
            }
            _ => self.place() == other.place(),
        }
    }
}

impl Ledger {
    /// Reservations that are for a pod, and on nodes.
    pub(crate) fn meant(&self, ask: Ask) -> impl Iterator<Item = Reservation<'_>> {
        let guests = ask.guests.map(|id| self.asks.guests.get(id));
        let all = guests.into_iter().flat_map(|guests| &*guests.0);
        all.filter_map(|uid| self.reservations.find(uid)).filter(|own| self.is_there(*own))
    }

    /// Those of them that are on a node.
    pub(crate) fn meant_on(
        &self,
        ask: Ask,
        node: NodeIndex,
    ) -> impl Iterator<Item = Reservation<'_>> {
        let guests = ask.guests.map(|id| self.asks.guests.get(id));
        let is_guest = move |own: &Reservation<'_>| {
            guests.is_some_and(|guests| guests.0.binary_search(own.uid).is_ok())
        };
        self.reservations.on(node).filter(is_guest).filter(|own| self.is_there(*own))
    }

    pub(super) fn is_there(&self, own: Reservation<'_>) -> bool {
        // What we only decided on may not come to be.
        let is_bound = self.pod(own.uid).is_some_and(PodRow::is_bound);
        is_bound && self.nodes.present().contains(own.node)
    }

    /// Which goes first of those that the pod can use, and how much of it would be in use; none where the
    /// pod cannot use it, as far as it says.
    pub(super) fn suited(
        &self,
        ask: Ask,
        own: Reservation<'_>,
        filter: &Plugin,
    ) -> Option<(i64, i64)> {
        if self.unsuited(ask, own, filter).is_some() {
            return None;
        }
        let requests = &self.asks.requests.get(ask.requests).charged;
        let order = own.rules.order.unwrap_or(i64::MAX);
        Some((order, score(&own.rules.amounts, &own.used.amounts, requests)))
    }

    /// Why a pod cannot use a reservation that is for it, as far as that says; none where it can.
    pub(crate) fn unsuited(
        &self,
        ask: Ask,
        own: Reservation<'_>,
        filter: &Plugin,
    ) -> Option<Unsuited> {
        let requests = &self.asks.requests.get(ask.requests).charged;
        let rules: &ReservationRules = own.rules;
        let of_node = Some(own.node).filter(|_| !filter.omits_node_labels);
        if let Some(why) = self.unwanted(ask, rules, of_node, rules.is_closed) {
            return Some(why);
        }
        if rules.is_for_one_pod && own.used.pods > 0 {
            return Some(Unsuited::Taken);
        }
        let shares = requests.names().any(|name| own.spare.amounts.of(name) > 0);
        if !self.must_use(ask) && !shares {
            return Some(Unsuited::Nothing);
        }
        lack(rules, own.used, requests, &|name| filter.ignored.contain(name))
    }

    /// Why a pod does not want a reservation that is for it, as far as both say. The labels of a node
    /// count as the reservation's, where one is named.
    pub(super) fn unwanted(
        &self,
        ask: Ask,
        rules: &ReservationRules,
        node: Option<NodeIndex>,
        is_closed: bool,
    ) -> Option<Unsuited> {
        let none = ReservationNeeds::default();
        let needs = ask.reservation.map_or(&none, |id| self.asks.reservations.get(id));
        let requests = &self.asks.requests.get(ask.requests).charged;
        let affinity = needs.affinity.as_ref();
        let named = affinity.and_then(|own| own.name.as_deref());
        match named {
            Some(name) if *name != *rules.name => return Some(Unsuited::Name),
            Some(_) => {}
            None => {
                let tolerations = affinity.map_or(&[][..], |own| &own.tolerations.0);
                let effect = Some(Effect::NoSchedule);
                let closed = Taint { key: CLOSED.into(), effect, ..Taint::default() };
                if is_closed && !is_tolerated(&closed, tolerations) {
                    return Some(Unsuited::Closed);
                }
                let mut taints = rules.taints.iter().filter(|taint| forbids(taint));
                if let Some(taint) = taints.find(|taint| !is_tolerated(taint, tolerations)) {
                    return Some(Unsuited::Tainted(taint.clone()));
                }
                let of = |key: &str| match rules.labels.get(key) {
                    Some(value) => Some(&**value),
                    None => node.and_then(|node| label(self, node, key)),
                };
                if affinity.is_some_and(|affinity| !affinity.holds(&rules.name, of)) {
                    return Some(Unsuited::Labels);
                }
            }
        }
        let is_other = |name: &str| requests.of(name) != rules.amounts.of(name);
        needs.exact.iter().any(|name| is_other(name)).then_some(Unsuited::NotExact)
    }
}

/// What a reservation has too little of for a pod that may use no more than it holds.
pub(super) fn lack(
    rules: &ReservationRules,
    used: &ReservationUse,
    requests: &Amounts,
    ignores: Ignores<'_>,
) -> Option<Unsuited> {
    let is_restricted = rules.policy == ReservationPolicy::Restricted;
    let most = rules.pods.filter(|_| is_restricted);
    if let Some(capacity) = most.filter(|capacity| used.pods >= *capacity) {
        return Some(Unsuited::TooManyPods { used: used.pods, capacity });
    }
    let restricts = |name: &&str| rules.restricts(name) && !ignores(name);
    let mut restricted = requests.names().filter(restricts);
    restricted.find_map(|name| {
        let capacity = rules.amounts.of(name).saturating_sub(rules.kept_back.of(name)).max(0);
        let (requested, used) = (requests.of(name), used.amounts.of(name));
        (requested > capacity.saturating_sub(used)).then(|| Unsuited::ShortOf {
            resource: name.into(),
            requested,
            used,
            capacity,
        })
    })
}

/// How much of a reservation would be in use, on the average of what it holds.
pub(super) fn score(held: &Amounts, used: &Amounts, requests: &Amounts) -> i64 {
    let parts = held.names().map(|name| {
        let (held, used) = (held.of(name), used.of(name).saturating_add(requests.of(name)));
        let part = i128::from(used) * i128::from(SCORE_MAX) / i128::from(held.max(1));
        if used > held { 0 } else { i64::try_from(part).unwrap_or(0) }
    });
    let (sum, count) = parts.fold((0, 0), |(sum, count), part| (sum + part, count + 1));
    if count == 0 { 0 } else { sum / count }
}
