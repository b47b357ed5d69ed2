//! Plans: members of a group get nodes one after the other, until all that are needed have one or one of
//! them gets none.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use api::pod_group::{GangId, GangTerms};
use rustc_hash::FxBuildHasher;

use super::release::Release;
use super::steps::{ClearingEnd, GangStep, PlanEnd};
use super::{GangNews, GangRoom, LastWord, uid_of};
use crate::clearing::{Cleared, Party, Seed, by_node};
use crate::decide::Looked;
use crate::fact::{PodRef, Uid};
use crate::gangs::{Group, Line, Next, Readiness, Seatless, least_of, refused, seat};
use crate::ledger::{Charged, PodRow};
use crate::moment::Moment;
use crate::needs::{Amounts, Requests};
use crate::plugin::{Plugin, Plugins};
use crate::preemption::{LastResorts, Outcome, Room};
use crate::profile::LastResort;
use crate::queue::{Change, Rejection};
use crate::quota::QuotaRefusal;
use crate::reason::Reason;
use crate::reservations::Within;
use crate::turn::clearings::Clearings;
use crate::turn::searches::DECISIONS_PER_SLICE;
use crate::turn::{Decision, Engine, KNOWN, Question, Verdict, Waiting};

/// How many members get nodes in one turn.
const MEMBERS_PER_TURN: usize = 64;
/// For how many groups room is made before no other pod is tried.
const CLEARINGS_MAX: usize = 16;

/// A group that is being planned.
pub(super) struct Planning {
    /// What the queue calls it.
    pub(super) uid: Uid,
    group: Group,
    attempts: u32,
    line: Line,
    /// All members there were at first, in their order.
    order: Vec<Uid>,
    /// How many were needed then, and what was said of the gangs.
    least: BTreeMap<GangId, usize>,
    terms: Vec<Option<GangTerms>>,
    placed: Vec<Uid>,
    refused: Option<Refused>,
    began: Moment,
}

/// A group for which room is being made, while others are decided about.
pub(super) struct GroupClearing {
    plan: Planning,
    /// How many of its members had a node.
    had: usize,
    refusal: GroupRefusal,
    clearings: Clearings,
    began: Moment,
}

impl Planning {
    /// What came of it.
    fn over(&self, end: PlanEnd, now: Moment) -> GangStep {
        GangStep::Planned { end, members: self.order.len(), took: now.since(self.began) }
    }

    /// A member is none any longer; whether it had a node.
    fn forget(&mut self, uid: &Uid) -> bool {
        let before = self.placed.len();
        self.placed.retain(|own| own != uid);
        self.placed.len() < before
    }
}

impl GroupClearing {
    /// What the queue calls it.
    pub(super) fn uid(&self) -> &Uid {
        &self.plan.uid
    }
}

/// Why a group has no nodes.
struct GroupRefusal {
    member: Uid,
    waiting: Waiting,
    parked: Option<(Box<str>, Charged)>,
}

/// The first member that got no node.
struct Refused {
    uid: Uid,
    question: Question,
    quota: Option<(QuotaRefusal, Charged)>,
    /// How many others had one then.
    placed: usize,
}

/// What came of trying a member.
enum Tried {
    Placed,
    /// It is gone meanwhile, or has a node: it is nobody's business any longer.
    Gone,
    Refused(Box<Refused>),
}

impl Engine {
    /// Begins to plan a group whose turn it is.
    pub(in crate::turn) fn plan(
        &mut self,
        uid: &Uid,
        attempts: u32,
        now: Moment,
    ) -> Option<Decision> {
        let gang = self.gangs.by_uid.get(uid)?.gang.clone();
        let group = self.ledger.group_of(&gang);
        let Readiness::Ready(needs) = self.ledger.readiness(&group) else {
            self.settle_gangs(&[gang], now);
            return self.due.pop_front();
        };
        self.ledger.quotas.unpledge(uid);
        let (members, least) = (self.by_size(&group), least_of(needs));
        let order = members.iter().map(|(_, uid)| uid.clone()).collect();
        let line = Line::new(&least, members);
        if line.is_short() {
            // Of one it is known that it is gone, or elsewhere, and not yet what became of it.
            self.queue.reject(uid, Rejection::default(), &self.ledger, now);
            return None;
        }
        for uid in &order {
            self.liken(uid, now);
        }
        let terms = self.terms_of(&group);
        self.gangs.planning = Some(Planning {
            uid: uid.clone(),
            order,
            group,
            attempts,
            line,
            least,
            terms,
            placed: Vec::new(),
            refused: None,
            began: now,
        });
        self.plan_on(now)
    }

    /// Whether a group is being planned.
    pub(in crate::turn) fn is_planning(&self) -> bool {
        self.gangs.planning.is_some()
    }

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

    /// A pod was decided about.
    pub(in crate::turn) fn note_decided(&mut self) {
        self.gangs.decided += 1;
    }

    /// Gives nodes to more members; what is to be done about the first of them where that was the last.
    pub(in crate::turn) fn plan_on(&mut self, now: Moment) -> Option<Decision> {
        let mut plan = self.gangs.planning.take()?;
        self.ledger.loads.watch(false);
        for _ in 0..self.gangs.members_per_turn.unwrap_or(MEMBERS_PER_TURN) {
            match plan.line.next() {
                Next::Needed(gang, uid) => {
                    match self.place_member(&plan.group, &uid, &mut plan.placed) {
                        Tried::Placed => plan.line.placed(&gang),
                        Tried::Gone => {}
                        Tried::Refused(refused) => {
                            plan.line.unplaced(gang.clone(), uid);
                            plan.refused.get_or_insert(*refused);
                        }
                    }
                    if plan.line.falls_short(&gang) {
                        return self.refuse_plan(plan, now);
                    }
                }
                // It is not needed.
                Next::Extra(uid) => drop(self.place_member(&plan.group, &uid, &mut plan.placed)),
                Next::Nobody => return self.keep_plan(plan, now),
            }
        }
        self.gangs.planning = Some(plan);
        None
    }

    /// What is said of the gangs of a group.
    fn terms_of(&self, group: &Group) -> Vec<Option<GangTerms>> {
        group.gangs.iter().map(|gang| self.ledger.gangs.terms(gang).cloned()).collect()
    }

    /// Whether a pod is of a group and ours to place.
    fn is_member(&self, group: &Group, uid: &Uid) -> bool {
        let gang = self.ledger.pod(uid).and_then(|row| row.gang.as_deref());
        gang.is_some_and(|own| group.gangs.contains(&own.gang)) && self.unbound.get(uid).is_some()
    }

    /// Whether one of a group waits for a node.
    fn is_waiting_member(&self, group: &Group, uid: &Uid) -> bool {
        let waits = |row: &PodRow| !row.is_placed() && !row.gated;
        self.is_member(group, uid) && self.ledger.pod(uid).is_some_and(waits)
    }

    /// Whether what a plan has given is still given to members on nodes that are there, and to enough of them
    /// as far as they are all that are needed.
    fn stands(&self, plan: &Planning) -> bool {
        let holds = |uid: &Uid| self.is_member(&plan.group, uid) && self.is_claim_there(uid);
        plan.placed.iter().all(holds) && self.terms_of(&plan.group) == plan.terms
    }

    /// Things are otherwise than when a plan began: all is taken back, and what that means is found out anew.
    fn plan_anew(&mut self, plan: &Planning, now: Moment) {
        self.gangs.steps.note(plan.over(PlanEnd::Dropped, now));
        self.take_back(&plan.placed);
        self.queue.again_at_once(&plan.uid, now);
        self.settle_gangs(&plan.group.gangs, now);
    }

    /// A member of a plan is none any longer: what it was given others may have.
    pub(super) fn leave_plan(&mut self, uid: &Uid, now: Moment) {
        if self.gangs.planning.as_mut().is_some_and(|plan| plan.forget(uid)) {
            self.vacate(uid, now);
        }
    }

    /// Gives a member a node; why it gets none where it does not.
    fn place_member(&mut self, group: &Group, uid: &Uid, placed: &mut Vec<Uid>) -> Tried {
        let row = self.ledger.pod(uid).filter(|_| self.is_waiting_member(group, uid));
        let Some((row, own)) = row.zip(self.unbound.get(uid)) else { return Tried::Gone };
        let charged = row.charged();
        let question = Question::of(own.profile, row, &self.ledger);
        let decider = &mut self.profiles[question.profile].1;
        let (place, allotment) = match seat(&mut self.ledger, decider, uid) {
            Ok(own) => own,
            Err(why) => {
                let quota = match why {
                    Seatless::Quota(refusal) => charged.map(|charged| (*refusal, charged)),
                    Seatless::Nodes => None,
                };
                let (uid, placed) = (uid.clone(), placed.len());
                return Tried::Refused(Box::new(Refused { uid, question, quota, placed }));
            }
        };
        self.ledger.claim(uid, place.node, allotment.as_ref()).expect("it has no node");
        if let Within::Adopting(pods) = &place.within {
            self.ledger.adopt(uid, pods);
        }
        placed.push(uid.clone());
        Tried::Placed
    }

    /// Takes back what a plan has given.
    fn take_back(&mut self, placed: &[Uid]) {
        for uid in placed.iter().rev() {
            // Who is gone has nothing any longer.
            let _ = self.ledger.disclaim(uid);
        }
    }

    /// Whether a plan has given a pod a node.
    #[cfg(test)]
    pub(super) fn is_given(&self, uid: &Uid) -> bool {
        self.gangs.planning.iter().any(|plan| plan.placed.contains(uid))
    }

    /// Gives up the plan of a group, if there is one, and says nothing.
    pub(super) fn give_up_plan(&mut self, uid: &Uid, now: Moment) {
        let place = self.gangs.clearings.iter().position(|own| own.uid() == uid);
        let cleared = place.and_then(|place| self.gangs.clearings.remove(place));
        let planned = self.gangs.planning.take_if(|own| own.uid == *uid);
        for plan in cleared.map(|own| own.plan).into_iter().chain(planned) {
            self.gangs.steps.note(plan.over(PlanEnd::Dropped, now));
            self.take_back(&plan.placed);
        }
    }

    /// All that are needed have a node: they are to be bound.
    fn keep_plan(&mut self, plan: Planning, now: Moment) -> Option<Decision> {
        // Some may have gone, or their nodes.
        if !self.stands(&plan) || !self.has_enough(&plan.least, &plan.placed) {
            self.plan_anew(&plan, now);
            return None;
        }
        self.gangs.steps.note(plan.over(PlanEnd::Kept, now));
        let Planning { uid, group, attempts, placed, least, .. } = plan;
        self.refused.clear();
        let history = self.queue.placed(&uid).unwrap_or_default();
        self.gangs.by_uid.remove(&uid);
        self.gangs.refused.remove(&uid);
        self.drop_sum(&uid);
        let until = now.after(self.ledger.gang_wait(&group));
        let gangs = &self.ledger.gangs;
        let mut release = Release::new(group.clone(), until, history, least, gangs);
        for uid in &placed {
            if let Some(decision) = self.place_released(uid, attempts, now) {
                release.add(decision);
            }
        }
        self.tell_placed(&group);
        self.release(release, now);
        self.due.pop_front()
    }

    /// Whether these are as many of each gang as are needed.
    pub(super) fn has_enough<'a>(
        &self,
        least: &BTreeMap<GangId, usize>,
        placed: impl IntoIterator<Item = &'a Uid>,
    ) -> bool {
        let mut counts: BTreeMap<&GangId, usize> = BTreeMap::new();
        for uid in placed {
            if let Some(own) = self.ledger.pod(uid).and_then(|row| row.gang.as_deref()) {
                *counts.entry(&own.gang).or_default() += 1;
            }
        }
        least.iter().all(|(gang, least)| counts.get(gang).copied().unwrap_or(0) >= *least)
    }

    /// What is to be done for a member that has a node; nothing where it is nobody's business any longer.
    pub(super) fn place_released(
        &mut self,
        uid: &Uid,
        attempts: u32,
        now: Moment,
    ) -> Option<Decision> {
        let row = self.ledger.pod(uid)?;
        let (pod, ask, node) = (PodRef::of(uid, row), row.ask, row.claim?);
        let profile = self.unbound.get(uid)?.profile;
        self.gangs.told.remove(uid);
        let elsewhere = (self.ledger.nominated(uid))
            .is_some_and(|nominated| nominated != self.ledger.nodes.name(node));
        if elsewhere && let Some(left) = Change::unplaced(&self.ledger, uid) {
            self.queue.notice(&self.ledger, left, now);
        }
        let verdict = self.place(&pod, (profile, ask, node), attempts, now);
        let scheduler = self.profiles[profile].0.clone();
        Some(Decision { pod, scheduler, attempts, verdict, looked: Looked::default(), gang: None })
    }

    /// One that is needed gets no node: all is taken back, and all members hear why.
    fn refuse_plan(&mut self, plan: Planning, now: Moment) -> Option<Decision> {
        let mut plan = plan;
        let first = plan.refused.take();
        let first = first.filter(|own| self.is_waiting_member(&plan.group, &own.uid));
        let Some(first) = first.filter(|_| self.stands(&plan)) else {
            self.plan_anew(&plan, now);
            return None;
        };
        let Refused { uid: member, question, quota, placed: count } = first;
        let (quota, parked) = match quota {
            Some((refusal, charged)) => {
                let quota = refusal.quota.clone();
                (Some(refusal), Some((quota, charged)))
            }
            None => (None, None),
        };
        // While the others have their nodes: that is what it is refused for.
        let decider = &self.profiles[question.profile].1;
        let whom = (&plan.group, &member);
        let waiting = refused(&mut self.ledger, decider, whom, quota, count).expect(KNOWN);
        let mut refusal = GroupRefusal { member, waiting, parked };
        let had = plan.placed.len();
        match self.group_clearings(&mut plan, &mut refusal, now) {
            Some(clearings) => {
                let own = GroupClearing { plan, had, refusal, clearings, began: now };
                self.gangs.clearings.push_back(own);
                None
            }
            None => self.leave_group(plan, refusal, now),
        }
    }

    /// What is tried to make room for a group, which holds nothing then: others are decided about meanwhile.
    /// None where nothing is tried, which is said of its refusal.
    fn group_clearings(
        &mut self,
        plan: &mut Planning,
        refusal: &mut GroupRefusal,
        now: Moment,
    ) -> Option<Clearings> {
        let missing = plan.line.missing();
        let own = self.unbound.get(&refusal.member)?;
        let last_resorts = self.profiles[own.profile].1.profile().last_resorts.clone();
        let is_tried = last_resorts.iter().any(LastResort::is_for_groups);
        let row = self.ledger.pod(&refusal.member).filter(|_| is_tried)?;
        let (charged, lowest) = (row.charged(), row.priority);
        let all: Vec<Uid> = missing.iter().chain(&plan.placed).cloned().collect();
        let untried = match row.may_preempt {
            false => Some(ClearingEnd::Never),
            true => all.iter().any(|uid| self.is_leaving(uid)).then_some(ClearingEnd::Leaving),
        };
        if let Some(end) = untried {
            self.gangs.steps.note(GangStep::Cleared { end, took: Duration::ZERO });
            refusal.waiting.last_resorts = end.untried();
            return None;
        }
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
        for uid in plan.order.iter().filter(|uid| all.contains(uid)) {
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
            self.plan_anew(&plan, now);
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
            && self.has_enough(&plan.least, members())
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
        let places = cleared.plan;
        self.enqueue(&group, &uid, now);
        let text = format!("preempt success, alreadyWaitingForBound: {had}/{}", places.len());
        let mut victims = by_node(cleared.victims);
        let mut untold: BTreeSet<Uid> = BTreeSet::new();
        let own: BTreeSet<Uid> = places.iter().map(|(member, _)| member.clone()).collect();
        let (mut left, mut passed) = (Vec::new(), BTreeSet::new());
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
            let room = Room { node, victims: going, violations: 0, passed_over };
            let preemption = Some(Outcome::Room(room));
            let last_resorts = LastResorts { preemption, text: text.clone(), is_untried: false };
            let waiting = Arc::new(Waiting { last_resorts, ..refusal.waiting.clone() });
            let Some(profile) = self.unbound.get(&member).map(|own| own.profile) else { continue };
            let Some(row) = self.ledger.pod(&member) else { continue };
            let (pod, scheduler) = (PodRef::of(&member, row), self.profiles[profile].0.clone());
            let (verdict, looked) = (Verdict::Wait(waiting), Looked::default());
            let gang = None;
            self.due.push_back(Decision { pod, scheduler, attempts, verdict, looked, gang });
            untold.insert(member);
        }
        let rejection = self.all_refusals(&group, refusal.waiting.rejection);
        self.tell_news(&group, &GangNews::Refused(text.into()));
        self.gangs.refused.remove(&uid);
        self.gangs.rooms.insert(uid, GangRoom { untold, rejection, has_failed: false });
        // They may find another place, and need not wait until that one is free.
        for change in left.into_iter().chain(passed.into_iter().map(Change::PassedOver)) {
            self.queue.notice(&self.ledger, change, now);
        }
        self.due.pop_front()
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
            return self.queue.reject(uid, rejection, &self.ledger, now);
        }
        let least = self.least_of(group);
        match self.short_quota(group, &least) {
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
        group: &Group,
        least: &BTreeMap<GangId, usize>,
    ) -> Option<(Box<str>, Charged)> {
        let charged = |(_, uid): &(GangId, Uid)| self.ledger.pod(uid)?.charged();
        let all: Vec<Charged> = self.by_size(group).iter().filter_map(charged).collect();
        let mut seen = BTreeSet::new();
        for own in all.into_iter().filter(|own| seen.insert((own.belonging, own.preemptible))) {
            let sum = self.sum_of(group, least, own);
            let sum = Requests { charged: sum, ..Requests::default() };
            let amounts = self.ledger.asks.requests.hold(sum).0;
            let lot = Charged { amounts, ..own };
            let refusal = self.ledger.quotas.admit(lot, &self.ledger.asks.requests).err();
            self.ledger.asks.requests.release(amounts);
            if let Some(refusal) = refusal {
                return Some((refusal.quota, own));
            }
        }
        None
    }

    /// Leaves a group without nodes.
    fn leave_group(
        &mut self,
        plan: Planning,
        refusal: GroupRefusal,
        now: Moment,
    ) -> Option<Decision> {
        self.gangs.steps.note(plan.over(PlanEnd::Refused, now));
        let Planning { uid, group, attempts, placed, least, .. } = plan;
        let GroupRefusal { member, waiting, parked } = refusal;
        let waiting = Arc::new(waiting);
        self.take_back(&placed);
        // Some may have gone meanwhile.
        self.enqueue(&group, &uid, now);
        match parked {
            Some((quota, charged)) => self.park_group(&uid, &group, (&least, charged), &quota, now),
            None => {
                let rejection = self.all_refusals(&group, waiting.rejection);
                self.queue.reject(&uid, rejection, &self.ledger, now);
            }
        }
        self.tell_refused(&uid, &group, &waiting, (&member, attempts));
        // What is told of it meanwhile was left for now.
        self.settle_gangs(&group.gangs, now);
        self.due.pop_front()
    }

    /// Has a group wait until its quota has room for all of it.
    fn park_group(
        &mut self,
        uid: &Uid,
        group: &Group,
        (least, charged): (&BTreeMap<GangId, usize>, Charged),
        quota: &str,
        now: Moment,
    ) {
        let sum = Requests { charged: self.sum_of(group, least, charged), ..Requests::default() };
        self.drop_sum(uid);
        let lot = Charged { amounts: self.ledger.asks.requests.hold(sum).0, ..charged };
        self.gangs.sums.insert(uid.clone(), lot);
        match self.ledger.quotas.admit(lot, &self.ledger.asks.requests) {
            // Members are charged to several quotas, which together have too little: a lot is charged to
            // one. Each try costs a plan, and there is one in ten seconds at most.
            Ok(()) => self.queue.rest(uid, now),
            Err(_) => self.queue.park(uid, lot, quota, now),
        }
    }

    /// Who may refuse a member, so that whatever may help any of them wakes the group.
    fn all_refusals(&mut self, group: &Group, rejection: Rejection) -> Rejection {
        let waiting = self.ledger.gang_waiting(&group.gangs);
        let mut asks: Vec<_> = waiting
            .filter_map(|(_, uid, row)| Some((self.unbound.get(uid)?.profile, row.ask)))
            .collect();
        asks.sort_unstable_by_key(|(profile, ask)| (*profile, ask.requests, ask.identity));
        asks.dedup();
        let mut unschedulable = rejection.unschedulable;
        for (profile, ask) in asks {
            let decider = &mut self.profiles[profile].1;
            unschedulable = unschedulable.and(decider.refusing(&self.ledger, ask));
        }
        Rejection { unschedulable, pending: Plugins::default() }
    }

    /// Tells members why they have no nodes: all of them where it is for another reason than before, and the
    /// one that was tried in any case.
    fn tell_refused(
        &mut self,
        uid: &Uid,
        group: &Group,
        waiting: &Arc<Waiting>,
        (member, attempts): (&Uid, u32),
    ) {
        let words: Arc<str> = waiting.to_string().into();
        let kind = self.ledger.pod(member).map(|row| row.ask.anonymous());
        let reason = lasting(waiting, FxBuildHasher.hash_one(kind));
        let old = self.gangs.refused.remove(uid).filter(|old| old.reason == reason);
        let told = old.map(|old| old.told).unwrap_or_default();
        let last = LastWord { reason, waiting: waiting.clone(), attempts, told };
        self.gangs.refused.insert(uid.clone(), last);
        self.tell_news(group, &GangNews::Refused(words));
        self.tell_untold(uid, group, Some(member));
    }

    /// Tells members that have not heard it why no nodes were found for their group, as those do not that
    /// came later; and one of them in any case.
    pub(super) fn tell_untold(&mut self, uid: &Uid, group: &Group, member: Option<&Uid>) {
        let tells_all = self.ledger.gangs.settings().tells_all;
        let Some(last) = self.gangs.refused.get_mut(uid) else { return };
        last.told.retain(|own| self.ledger.pod(own).is_some());
        for (_, own, row) in self.ledger.gang_waiting(&group.gangs) {
            let is_new = tells_all && !last.told.contains(own);
            if !is_new && member != Some(own) {
                continue;
            }
            let Some(profile) = self.unbound.get(own).map(|own| own.profile) else { continue };
            last.told.insert(own.clone());
            self.gangs.told.remove(own);
            self.due.push_back(Decision {
                pod: PodRef::of(own, row),
                scheduler: self.profiles[profile].0.clone(),
                attempts: last.attempts,
                verdict: Verdict::Wait(last.waiting.clone()),
                looked: Looked::default(),
                gang: None,
            });
        }
    }

    /// What the queue calls the group of a gang.
    #[must_use]
    pub fn gang_entry(&self, gang: &GangId) -> Uid {
        uid_of(&self.ledger.group_of(gang).key)
    }
}

/// Which sort of pod is refused by whom and for what, without numbers.
fn lasting(waiting: &Waiting, kind: u64) -> Box<str> {
    let examination = &waiting.examination;
    let everywhere = examination.everywhere.iter().flat_map(|(_, refusal)| &refusal.reasons);
    let everywhere = everywhere.map(|reason| match reason {
        // How much of it is used is said in numbers of several units.
        Reason::Quota(refusal) => refusal.quota.to_string(),
        reason => reason.to_string(),
    });
    let texts = everywhere.chain(examination.counts().into_keys());
    let without_numbers = |text: &str| text.replace(|letter: char| letter.is_ascii_digit(), "");
    let texts: BTreeSet<String> = texts.map(|text| without_numbers(&text)).collect();
    let tried = without_numbers(&waiting.last_resorts.text);
    format!("{kind} {:?} {texts:?} {tried}", examination.plugins()).into()
}
