//! Room for groups: who has others go so that all members get nodes that are needed, and what becomes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::pod_group::GangId;

use super::planning::{GroupRefusal, Planning};
use super::steps::{ClearingEnd, GangStep, PlanEnd};
use super::{GangNews, GangRoom};
use crate::clearing::{Cleared, Party, Seed, by_node};
use crate::decide::Looked;
use crate::fact::{PodRef, Uid};
use crate::gangs::Group;
use crate::ledger::{Charged, PodRow};
use crate::moment::Moment;
use crate::needs::{Amounts, Requests};
use crate::plugin::Plugin;
use crate::preemption::{LastResorts, Outcome, Room, Victim};
use crate::profile::LastResort;
use crate::queue::{Change, Rejection};
use crate::turn::clearings::Clearings;
use crate::turn::searches::DECISIONS_PER_SLICE;
use crate::turn::{Decision, Engine, KNOWN, Verdict, Waiting};

/// For how many groups room is made before no other pod is tried.
const CLEARINGS_MAX: usize = 16;

/// A group for which room is being made, while others are decided about.
pub(super) struct GroupClearing {
    pub(super) plan: Planning,
    /// How many of its members had a node.
    pub(super) had: usize,
    pub(super) refusal: GroupRefusal,
    pub(super) clearings: Clearings,
    pub(super) began: Moment,
}

impl GroupClearing {
    /// What the queue calls it.
    pub(super) fn uid(&self) -> &Uid {
        &self.plan.uid
    }
}

impl Engine {
    /// Whether room is being made for groups.
    pub(in crate::turn) fn is_clearing(&self) -> bool {
        !self.gangs.clearings.is_empty()
    }

    /// Whether it is time to make room for groups, where pods can be decided meanwhile or not.
    pub(in crate::turn) fn is_clearing_due(&self, others: bool) -> bool {
        let is_time = self.gangs.decided >= DECISIONS_PER_SLICE;
        self.is_clearing() && (!others || self.are_clearings_full() || is_time)
    }

    /// Whether no other pod is to be tried before there is room for a group.
    pub(in crate::turn) fn are_clearings_full(&self) -> bool {
        self.gangs.clearings.len() >= CLEARINGS_MAX
    }

    /// What is tried to make room for a group, which holds nothing then: others are decided about meanwhile.
    /// None where nothing is tried, which is said of its refusal.
    pub(super) fn group_clearings(
        &mut self,
        plan: &mut Planning,
        refusal: &mut GroupRefusal,
        now: Moment,
    ) -> Option<Clearings> {
        let missing = plan.course.missing();
        let own = self.unbound.get(&refusal.member)?;
        let last_resorts = self.profiles[own.profile].1.profile().last_resorts.clone();
        let is_tried = last_resorts.iter().any(LastResort::is_for_groups);
        let row = self.ledger.pod(&refusal.member).filter(|_| is_tried)?;
        let (charged, lowest) = (row.charged(), row.priority);
        let all: Vec<Uid> = missing.iter().chain(&plan.placed).cloned().collect();
        let untried = match row.may_preempt {
            false => Some(ClearingEnd::Never),
            true => {
                let is_leaving = all.iter().any(|uid| self.is_leaving(uid));
                let is_awaited = is_leaving || self.is_room_awaited(&plan.uid);
                is_awaited.then_some(ClearingEnd::Leaving)
            }
        };
        if let Some(end) = untried {
            self.gangs.steps.note(GangStep::Cleared { end, took: Duration::ZERO });
            refusal.waiting.last_resorts = end.untried();
            return None;
        }
        self.end_promise(&plan.uid);
        self.give_up_useless(&all, now);
        let rows = missing.iter().filter_map(|uid| self.ledger.pod(uid));
        let priority = rows.fold(lowest, |least, row| least.min(row.priority));
        let party = self.party_of(plan, &missing);
        self.take_back(&std::mem::take(&mut plan.placed));
        let (charged, sum) = self.sum_of_party(&party, charged);
        let rules = self.rules_by(&last_resorts, charged, sum, priority);
        Clearings::new(party, rules, refusal.waiting.clone(), now)
    }

    /// What a party asks of the quota of one of them in all. Where some are of another quota, nobody goes by
    /// what that one is guaranteed.
    fn sum_of_party(&self, party: &Party, one: Option<Charged>) -> (Option<Charged>, Amounts) {
        let quota = |own: Charged| self.ledger.quotas.quota(own.belonging);
        let rows = party.members.iter().filter_map(|(uid, _)| self.ledger.pod(uid));
        let mut sum = Amounts::default();
        for row in rows {
            let like = row.charged().filter(|own| quota(*own) == one.and_then(quota));
            let Some(own) = like else { return (None, Amounts::default()) };
            sum.add(&self.ledger.asks.requests.get(own.amounts).charged, 1);
        }
        (one, sum)
    }

    /// Those of a group that are to get nodes, and the places of those that have one.
    fn party_of(&self, plan: &Planning, missing: &[Uid]) -> Party {
        let mut party = Party::default();
        let waiting = self.ledger.gang_waiting(&plan.group.gangs).map(|(_, uid, _)| uid.clone());
        party.kin.extend(waiting.chain(plan.placed.iter().cloned()));
        let all: BTreeSet<&Uid> = missing.iter().chain(&plan.placed).collect();
        for uid in plan.course.order().iter().filter(|uid| all.contains(uid)) {
            let Some(own) = self.unbound.get(uid) else { continue };
            let row = self.ledger.pod(uid).expect(KNOWN);
            if let Some(node) = row.claim {
                let own = row.allotment.map(|id| self.ledger.asks.allotments.get(id).clone());
                party.seeds.push(Seed { member: party.members.len(), node, own });
            }
            party.members.push((uid.clone(), own.profile));
        }
        party
    }

    /// Does more to make room for a group.
    pub(in crate::turn) fn clear_group(&mut self, now: Moment) -> Option<Decision> {
        self.gangs.decided = 0;
        let mut own = self.gangs.clearings.pop_front()?;
        let Some(cleared) = self.clear_on(&mut own.clearings) else {
            self.gangs.clearings.push_front(own);
            return None;
        };
        let GroupClearing { plan, had, mut refusal, began, .. } = own;
        let end = cleared.as_ref().map_or_else(ClearingEnd::of, |_| ClearingEnd::Room);
        self.gangs.steps.note(GangStep::Cleared { end, took: now.since(began) });
        // Who has to go is not asked for a group that is another one by now.
        let is_planned = |cleared: &Cleared| self.is_as_planned(&plan, cleared);
        if !self.stands(&plan) || !cleared.as_ref().map_or(true, is_planned) {
            self.plan_anew(plan, now);
            return None;
        }
        match cleared {
            Ok(cleared) => self.await_room((plan, had), refusal, cleared, now),
            Err(fruitless) => {
                refusal.waiting.last_resorts.text = format!("preemption: {fruitless}");
                self.clear_nominations(&plan, now);
                self.leave_group(plan, refusal, now)
            }
        }
    }

    /// Whether those for whom room was found still wait, and are still enough.
    fn is_as_planned(&self, plan: &Planning, cleared: &Cleared) -> bool {
        let members = || cleared.plan.iter().map(|(uid, _)| uid);
        members().all(|uid| self.is_waiting_member(&plan.group, uid))
            && self.has_enough(plan.course.least(), members())
    }

    /// No room is kept for members of a group.
    fn clear_nominations(&mut self, plan: &Planning, now: Moment) {
        let waiting = self.ledger.gang_waiting(&plan.group.gangs).map(|(_, uid, _)| uid.clone());
        let all: Vec<Uid> = waiting.chain(plan.placed.iter().cloned()).collect();
        self.keep_no_room(all, now);
    }

    /// No room is kept for these any longer: others may have it.
    pub(in crate::turn) fn keep_no_room(&mut self, members: Vec<Uid>, now: Moment) {
        for uid in members {
            if let Some(left) = self.nominate(&uid, None) {
                self.queue.notice(&self.ledger, left, now);
            }
        }
    }

    /// Others go for a group: its members wait for the nodes that they are to have.
    fn await_room(
        &mut self,
        (plan, had): (Planning, usize),
        refusal: GroupRefusal,
        cleared: Cleared,
        now: Moment,
    ) -> Option<Decision> {
        self.gangs.steps.note(plan.over(PlanEnd::Refused, now));
        let Planning { uid, group, attempts, .. } = plan;
        let charged = self.ledger.pod(&refusal.member).and_then(PodRow::charged);
        let places = cleared.plan;
        self.enqueue(&group, &uid, now);
        let text = format!("preempt success, alreadyWaitingForBound: {had}/{}", places.len());
        let mut victims = by_node(cleared.victims);
        let mut untold: BTreeSet<Uid> = BTreeSet::new();
        let own: BTreeSet<Uid> = places.iter().map(|(member, _)| member.clone()).collect();
        let (mut left, mut passed) = (Vec::new(), BTreeSet::new());
        let mut leavers: Vec<(Uid, Vec<Victim>)> = Vec::new();
        let last = places.len().saturating_sub(1);
        for (number, (member, node)) in places.into_iter().enumerate() {
            let mut going = victims.remove(&node).unwrap_or_default();
            if number == last {
                // Of gangs that go whole, some may be where nobody comes.
                going.extend(std::mem::take(&mut victims).into_values().flatten());
            }
            let mut passed_over = self.passed_over(node, &member);
            passed_over.retain(|other| !own.contains(&other.uid));
            for other in &passed_over {
                // Their room is kept all the same, for this one: nobody else can have it.
                self.nominate(&other.uid, None);
                passed.insert(self.entry_of(&other.uid));
            }
            let name: Box<str> = self.ledger.nodes.name(node).into();
            left.extend(self.nominate(&member, Some(&name)));
            leavers.push((member.clone(), going.clone()));
            let room = Room { node, victims: going, violations: 0, passed_over };
            let preemption = Some(Outcome::Room(room));
            let last_resorts = LastResorts { preemption, text: text.clone(), is_untried: false };
            let waiting = Arc::new(Waiting { last_resorts, ..refusal.waiting.clone() });
            let Some(profile) = self.unbound.get(&member).map(|own| own.profile) else { continue };
            let Some(row) = self.ledger.pod(&member) else { continue };
            let (pod, scheduler) = (PodRef::of(&member, row), self.profiles[profile].0.clone());
            let (verdict, looked) = (Verdict::Wait(waiting), Looked::default());
            let gang = None;
            self.due.push(Decision { pod, scheduler, attempts, verdict, looked, gang });
            untold.insert(member);
        }
        let rejection = self.all_refusals(&group, refusal.waiting.rejection);
        self.tell_news(&group, &GangNews::Refused(text.into()));
        self.gangs.refused.remove(&uid);
        self.promise_group(&uid, &own, charged, &leavers);
        self.gangs.rooms.insert(uid, GangRoom { untold, rejection, has_failed: false });
        // They may find another place, and need not wait until that one is free.
        for change in left.into_iter().chain(passed.into_iter().map(Change::PassedOver)) {
            self.queue.notice(&self.ledger, change, now);
        }
        self.see_off(leavers.iter().map(|(member, victims)| (member, &victims[..])), now);
        self.due.pop()
    }

    /// Keeps what these of a group ask for in the quota of one of them, since others go for it.
    fn promise_group(
        &mut self,
        uid: &Uid,
        members: &BTreeSet<Uid>,
        charged: Option<Charged>,
        leavers: &[(Uid, Vec<Victim>)],
    ) {
        let Some(own) = charged else { return };
        let sum = self.ledger.sum_beside(members, own);
        let sum = Requests { charged: sum, ..Requests::default() };
        let amounts = self.ledger.asks.requests.hold(sum).0;
        let victims = leavers.iter().flat_map(|(_, victims)| victims);
        let victims = victims.map(|own| own.pod.uid.clone()).collect();
        self.promise_as(uid, Charged { amounts, ..own }, victims);
        self.ledger.asks.requests.release(amounts);
    }

    /// What was to be done for a member that waits is done: once that is so for all, the group may be tried
    /// again when something helps it.
    pub(in crate::turn) fn gang_done(&mut self, uid: &Uid, now: Moment) {
        let Some(gang) = self.ledger.pod(uid).and_then(|row| row.gang.clone()) else { return };
        let entry = self.gang_entry(&gang.gang);
        let Some(room) = self.gangs.rooms.get_mut(&entry) else { return };
        room.untold.remove(uid);
        if room.untold.is_empty() {
            self.settle_gangs(std::slice::from_ref(&gang.gang), now);
        }
    }

    /// What was to be done for a member that waits could not be done: its group is tried again after its
    /// back-off, or it is told once more what that waits for. Where others were to go for it, no room is kept
    /// where they were to leave it.
    pub(in crate::turn) fn gang_undone(&mut self, uid: &Uid, now: Moment) {
        let Some(gang) = self.ledger.pod(uid).and_then(|row| row.gang.clone()) else { return };
        let entry = self.gang_entry(&gang.gang);
        self.gangs.told.remove(uid);
        if let Some(last) = self.gangs.refused.get_mut(&entry) {
            last.told.remove(uid);
        }
        match self.gangs.rooms.get_mut(&entry).filter(|room| room.untold.contains(uid)) {
            None if self.queue.standing(&entry).is_none() => self.tell_again(&gang.gang, now),
            None => self.queue.again(&entry, now),
            Some(room) => {
                room.has_failed = true;
                self.break_promise(&entry);
                let Some(node) = self.ledger.nominated(uid).map(Box::<str>::from) else { return };
                let group = self.ledger.group_of(&gang.gang);
                let waiting = self.ledger.gang_waiting(&group.gangs);
                let there = waiting.filter(|(_, _, row)| row.nominated() == Some(&*node));
                let there: Vec<Uid> = there.map(|(_, uid, _)| uid.clone()).collect();
                self.keep_no_room(there, now);
            }
        }
    }

    /// All who have to go for a group were asked to, as far as anybody could.
    pub(super) fn room_is_told(&mut self, uid: &Uid, group: &Group, now: Moment) {
        let Some(room) = self.gangs.rooms.remove(uid) else { return };
        self.enqueue(group, uid, now);
        // Where somebody could not be asked, it is the attempt that failed.
        let rejection = if room.has_failed { Rejection::default() } else { room.rejection };
        if !rejection.unschedulable.contains(Plugin::ElasticQuota) {
            self.queue.reject(uid, rejection, &self.ledger, now);
            return self.settle_promise(uid, now);
        }
        let least = self.least_of(group);
        match self.short_quota(uid, group, &least) {
            Some((quota, charged)) => self.park_group(uid, group, (&least, charged), &quota, now),
            None if self.is_in_one_quota(group) => self.queue.again_at_once(uid, now),
            // Each has room, and together they may have none: it would ask for more room at once.
            None => self.queue.rest(uid, now),
        }
    }

    /// Whether all members of a group are charged to the same quota.
    fn is_in_one_quota(&self, group: &Group) -> bool {
        let waiting = self.ledger.gang_waiting(&group.gangs);
        let charged = waiting.filter_map(|(_, _, row)| row.charged());
        let mut quotas = charged.map(|own| self.ledger.quotas.quota(own.belonging));
        let first = quotas.next();
        quotas.all(|own| Some(own) == first)
    }

    /// The first quota that has no room for a group, and how those are charged that it has none for.
    fn short_quota(
        &mut self,
        entry: &Uid,
        group: &Group,
        least: &BTreeMap<GangId, usize>,
    ) -> Option<(Box<str>, Charged)> {
        let charged = |(_, uid): &(GangId, Uid)| self.ledger.pod(uid)?.charged();
        let all: Vec<Charged> = self.by_size(group).iter().filter_map(charged).collect();
        let mut seen = BTreeSet::new();
        for own in all.into_iter().filter(|own| seen.insert((own.belonging, own.preemptible))) {
            let sum = self.lot_sum((entry, group), least, own);
            let sum = Requests { charged: sum, ..Requests::default() };
            let amounts = self.ledger.asks.requests.hold(sum).0;
            let lot = Charged { amounts, ..own };
            let refusal = self.ledger.admit_as(entry, lot).err();
            self.ledger.asks.requests.release(amounts);
            if let Some(refusal) = refusal {
                return Some((refusal.quota, own));
            }
        }
        None
    }
}
