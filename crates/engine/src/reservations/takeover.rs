//! Pods that run and that a reservation takes over: from then on what they use is inside it, and is held
//! when they leave.
//!
//! What they take of the node is room for the reservation, in thought: they leave, and all filters are
//! asked about it. How many are taken over, and which, follows from what it holds.

use std::cmp::Reverse;

use super::inside::{Place, Within};
use super::suit::{lack, score};
use crate::decide::{Decider, Looked, allot_by, mixed};
use crate::fact::{ReservationRules, Uid, Visitor};
use crate::judge::{Trial, take_one};
use crate::ledger::{Ask, Holding, Ledger, NodeIndex, Passing, PodRow, ReservationUse, Way};
use crate::needs::{Amounts, OwnReservation, TakeOver};
use crate::node_set::NodeSet;
use crate::plugin::{Plugin, SCORE_MAX, reserving};
use crate::plugins::reservation::{Reservation, conflict, short_on};
use crate::reason::{Code, Reason, Refusal, ReservationReason};

/// A pod that may be taken over.
pub(super) struct Candidate {
    pub(super) uid: Uid,
    pub(super) pod: Passing,
    pub(super) requests: Amounts,
    /// How much of the reservation would be in use.
    score: i64,
    /// Whether it says already that it uses the reservation.
    pub(super) is_inside: bool,
}

/// Pods that are taken over, in thought.
#[derive(Default)]
pub(super) struct Taken {
    uids: Vec<Uid>,
    pub(super) pods: Vec<Passing>,
    pub(super) used: ReservationUse,
}

impl Taken {
    pub(super) fn push(&mut self, one: &Candidate) {
        self.uids.push(one.uid.clone());
        self.pods.push(one.pod);
        self.used.pods += 1;
        self.used.amounts.add(&one.requests, 1);
    }

    pub(super) fn pop(&mut self, one: &Candidate) {
        self.uids.pop();
        self.pods.pop();
        self.used.pods -= 1;
        self.used.amounts.add(&one.requests, -1);
    }
}

impl Ledger {
    /// What a reservation that is to get a node takes over, where it takes over pods.
    pub(crate) fn takeover(&self, ask: Ask) -> Option<&TakeOver> {
        let needs = self.asks.reservations.get(ask.reservation?);
        needs.own.as_ref()?.takes_over.as_ref()
    }

    /// Whether a pod is one that a reservation may take over.
    fn is_candidate(
        &self,
        row: &PodRow,
        uid: &Uid,
        own: &TakeOver,
        rules: &ReservationRules,
        filter: &Reservation,
    ) -> bool {
        let (crowds, identity) = (&self.terms.crowds, row.ask.identity);
        let label = |key: &str| crowds.label_of(identity, key, &self.symbols);
        if own.is_of_anyone {
            return filter.takeover_label.as_ref().is_some_and(|key| label(key) == Some("true"));
        }
        // An owner that is not told by labels is not looked for.
        let mut selectors = rules.owners.iter().filter_map(|owner| owner.labels.as_ref());
        if !selectors.any(|labels| labels.matches(label)) {
            return false;
        }
        let labels = &crowds.labels_of(identity, &self.symbols);
        let owners = row.makers.map_or(&[][..], |id| &self.asks.makers.get(id).0);
        rules.means(Visitor { uid, namespace: &row.namespace, name: &row.name, labels, owners })
    }

    /// The pods of a node that a reservation may take over, the first of them first.
    fn candidates_on(
        &self,
        own: &TakeOver,
        rules: &ReservationRules,
        filter: &Reservation,
        node: NodeIndex,
    ) -> Vec<Candidate> {
        let of_node = Some(node).filter(|_| !filter.omits_node_labels);
        let candidate = |(_, uid): &(i32, Uid)| {
            let row = self.pod(uid).filter(|row| row.is_bound() && !row.is_reservation())?;
            let allotment = row.allotment.map(|id| self.asks.allotments.get(id));
            // One that is gone is nobody's any longer.
            let used = allotment.and_then(|allotment| allotment.reservation.as_ref());
            let used = used.filter(|used| self.reservations.rules(&used.uid).is_some());
            let is_inside = used.is_some_and(|used| used.uid == own.uid);
            let is_its_own = row.reservation.is_some() || self.is_ignoring(row.ask);
            let is_free = used.is_none() && !row.is_deleting() && !is_its_own;
            let is_meant = is_inside
                || is_free
                    && self.is_candidate(row, uid, own, rules, filter)
                    && self.unwanted(row.ask, rules, of_node, false).is_none();
            is_meant.then(|| {
                let requests = self.asks.requests.get(row.ask.taken).charged.clone();
                let score = score(&rules.amounts, &Amounts::NOTHING, &requests);
                let needs = row.ask.reservation.map(|id| self.asks.reservations.get(id));
                let rank = needs.map_or(0, |needs| needs.takeover_rank);
                let one =
                    Candidate { uid: uid.clone(), pod: row.passing(), requests, score, is_inside };
                (rank, one)
            })
        };
        let mut all: Vec<(i64, Candidate)> =
            self.residents.on(node).iter().filter_map(candidate).collect();
        all.sort_by(|(rank, one), (other_rank, other)| {
            let key = |rank: i64, one: &Candidate| {
                let rank = Reverse(if own.is_of_anyone { rank } else { 0 });
                let score =
                    Reverse(if own.is_of_anyone && own.may_be_many { 0 } else { one.score });
                (!one.is_inside, rank, score)
            };
            (key(*rank, one), &one.uid).cmp(&(key(*other_rank, other), &other.uid))
        });
        all.into_iter().map(|(_, one)| one).collect()
    }
}

fn refused(code: Code, why: ReservationReason) -> (Plugin, Refusal) {
    (Plugin::Reservation, Refusal::new(code, Reason::Reservation(why)))
}

impl Trial<'_> {
    /// Which pods of a node the reservation takes over that is asked about, so that the node takes it.
    ///
    /// # Errors
    /// Who refuses it, and why.
    pub(super) fn take_over(
        &mut self,
        others: &[Passing],
        node: NodeIndex,
    ) -> Result<Vec<Uid>, (Plugin, Refusal)> {
        let Some((filter, own)) = self.reserving().zip(self.own_reservation()) else {
            return self.told_refusal(others, node).map_or(Ok(Vec::new()), Err);
        };
        if let Some(why) = conflict(self.ledger(), &own, node) {
            return Err(refused(Code::Unresolvable, why));
        }
        let Some(takeover) = &own.takes_over else { return Ok(Vec::new()) };
        let Some(rules) = self.ledger().reservations.rules(&takeover.uid).cloned() else {
            return Err(refused(Code::Unresolvable, ReservationReason::NothingToTakeOver));
        };
        let mut all = self.ledger().candidates_on(takeover, &rules, filter, node);
        // Who makes room is not there to be taken over.
        let mut left = self.left(node);
        all.retain(|one| !take_one(&mut left, one.pod));
        if all.is_empty() && takeover.is_required {
            return Err(refused(Code::Unresolvable, ReservationReason::NothingToTakeOver));
        }
        let mut taken = Taken::default();
        all.iter().filter(|one| one.is_inside).for_each(|one| taken.push(one));
        let may_do_without = filter.prefers_no_takeover && !takeover.is_required;
        let is_enough = may_do_without || !taken.uids.is_empty();
        if is_enough && self.fits_with(&taken, others, node) {
            return Ok(taken.uids);
        }
        let ignores = |name: &str| filter.ignored.contain(name);
        let asked = self.ledger().asks.requests.get(self.ask().requests).charged.clone();
        let mut tried = None;
        for one in all.iter().filter(|one| !one.is_inside) {
            let shares = one.requests.names().any(|name| asked.of(name) > 0);
            if !shares || lack(&rules, &taken.used, &one.requests, &ignores).is_some() {
                continue;
            }
            taken.push(one);
            if self.fits_with(&taken, others, node) {
                return Ok(taken.uids);
            }
            tried = Some(taken.pods.clone());
            if !takeover.may_be_many || !self.covers(&taken.pods, node) {
                taken.pop(one);
            }
        }
        if takeover.is_required {
            return Err(refused(Code::Unschedulable, ReservationReason::TakeOverUnmet));
        }
        let without = self.refusal_adopting(&taken.pods, others, node);
        let Some(without) = without else {
            let is_covered = self.covers(&taken.pods, node);
            let unmet = || refused(Code::Unschedulable, ReservationReason::TakeOverUnmet);
            return is_covered.then_some(taken.uids).ok_or_else(unmet);
        };
        // Of too little, the reservation knows more, where it was it that looked.
        if all.is_empty() && !filter.prefers_no_takeover {
            return Err(without);
        }
        let away = if takeover.may_be_many { taken.pods } else { tried.unwrap_or(taken.pods) };
        let short = self
            .without(&away, node, |own| short_on(own.ledger(), own.ask(), node, &filter.ignored));
        match short.is_empty() {
            true => Err(without),
            false => {
                Err((Plugin::Reservation, Refusal { code: Code::Unschedulable, reasons: short }))
            }
        }
    }

    /// The pods of a node that the reservation may take over that is asked about, the first first.
    pub(super) fn candidates(&self, node: NodeIndex) -> Vec<Candidate> {
        let ledger = self.ledger();
        let own = ledger.takeover(self.ask());
        let rules = own.and_then(|own| ledger.reservations.rules(&own.uid));
        match (own, rules, self.reserving()) {
            (Some(own), Some(rules), Some(filter)) => {
                ledger.candidates_on(own, rules, filter, node)
            }
            _ => Vec::new(),
        }
    }

    /// The reservation that is asked about, where it is one.
    fn own_reservation(&self) -> Option<OwnReservation> {
        let id = self.ask().reservation?;
        self.ledger().asks.reservations.get(id).own.clone()
    }

    /// What is so while some pods are not there.
    fn without<T>(&mut self, pods: &[Passing], node: NodeIndex, ask: impl FnOnce(&Self) -> T) -> T {
        let mark = self.mark();
        pods.iter().for_each(|pod| self.shift(*pod, node, Way::Out));
        let found = ask(self);
        self.take_back(mark);
        found
    }

    /// Whether the node takes the reservation that takes these over.
    fn fits_with(&mut self, taken: &Taken, others: &[Passing], node: NodeIndex) -> bool {
        self.refusal_adopting(&taken.pods, others, node).is_none() && self.covers(&taken.pods, node)
    }

    /// Whether what the reservation would get of CPUs and NUMA nodes has in it what these have.
    pub(super) fn covers(&mut self, pods: &[Passing], node: NodeIndex) -> bool {
        let allotments = &self.ledger().asks.allotments;
        let inside: Vec<_> =
            pods.iter().filter_map(|pod| Some(allotments.get(pod.allotment?).clone())).collect();
        if inside.iter().all(|one| one.is_shared()) {
            return true;
        }
        let first = Holding::of_cpus(inside.iter().map(|one| &one.cpus));
        let found = self.without(pods, node, |own| {
            allot_by(own.filters(), own.ledger(), own.ask(), node, Some(&first))
        });
        let Ok(found) = found else { return false };
        // One that gets none of its own counts by amounts alone.
        let Some(own) = found else { return true };
        let mut left = own.zones.clone();
        let mut fits = |(zone, amounts): &(u32, Amounts)| {
            let Some((_, own)) = left.iter_mut().find(|(other, _)| other == zone) else {
                return left.is_empty();
            };
            let has = amounts.names().all(|name| own.of(name) >= amounts.of(name));
            own.reduce(amounts);
            has
        };
        (own.cpus.is_empty() || first.cpus.without(&own.cpus).is_empty())
            && inside.iter().all(|one| one.zones.iter().all(&mut fits))
    }
}

impl Decider {
    /// The place for a reservation that takes over pods that run.
    pub(crate) fn taking_over(
        &mut self,
        ledger: &mut Ledger,
        uid: &Uid,
        tie: u64,
    ) -> Option<Place> {
        let row = ledger.pod(uid)?;
        let (ask, priority) = (row.ask, row.priority);
        let own = ledger.takeover(ask)?.clone();
        let rules = ledger.reservations.rules(&own.uid)?.clone();
        if self.refused_everywhere(ledger, ask).is_some() {
            return None;
        }
        // Where there is none to take over, it is as any other.
        let able = self.able(ledger, uid);
        let filter = reserving(&self.profile.filters)?;
        let is_settled =
            |node: &NodeIndex| !ledger.candidates_on(&own, &rules, filter, *node).is_empty();
        let settled: NodeSet = ledger.nodes.present().iter().filter(is_settled).collect();
        let bare = able.iter().filter(|node| !own.is_required && !settled.contains(*node));
        let mut found: Vec<(NodeIndex, Vec<Uid>)> = bare.map(|node| (node, Vec::new())).collect();
        let promised: std::collections::BTreeMap<NodeIndex, Vec<Passing>> =
            ledger.promised(uid, priority).into_iter().collect();
        let mut trial = Trial::new(ledger, &self.profile.filters, ask);
        for node in settled.iter() {
            let others = promised.get(&node).map_or(&[][..], Vec::as_slice);
            if let Ok(taken) = trial.take_over(others, node) {
                found.push((node, taken));
            }
        }
        drop(trial);
        let nodes: NodeSet = found.iter().map(|(node, _)| *node).collect();
        self.looked = Looked { nodes: ledger.nodes.present().len(), feasible: found.len() };
        let worth = self.worth(ledger, ask, &nodes);
        let best = found.into_iter().min_by_key(|(node, taken)| {
            let inside = taken.iter().any(|pod| ledger.is_inside(pod, &own.uid));
            let worth = worth.get(node).copied().unwrap_or_default();
            let draw = mixed(self.seed ^ tie ^ node.get() as u64);
            (
                Reverse(inside),
                Reverse(ledger.takeover_score(&own, &rules, taken)),
                Reverse(worth),
                draw,
            )
        });
        best.map(|(node, taken)| Place { node, within: Within::Adopting(taken.into()) })
    }
}

impl Ledger {
    /// Whether a pod says already that it uses a reservation.
    fn is_inside(&self, pod: &Uid, reservation: &Uid) -> bool {
        let allotment = self.pod(pod).and_then(|row| row.allotment);
        let used = allotment.and_then(|id| self.asks.allotments.get(id).reservation.as_ref());
        used.is_some_and(|used| used.uid == *reservation)
    }

    /// How good it is to take over these: the fewer of many, the better, and of single ones the larger.
    fn takeover_score(&self, own: &TakeOver, rules: &ReservationRules, taken: &[Uid]) -> i64 {
        if own.may_be_many {
            return SCORE_MAX / i64::try_from(1 + taken.len()).unwrap_or(i64::MAX);
        }
        let mut used = Amounts::default();
        for row in taken.iter().filter_map(|uid| self.pod(uid)) {
            used.add(&self.asks.requests.get(row.ask.taken).charged, 1);
        }
        if taken.is_empty() { 0 } else { score(&rules.amounts, &Amounts::NOTHING, &used) }
    }
}
