//! Plans: members of a group get nodes one after the other, until all that are needed have one or one of
//! them gets none.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;
use std::sync::Arc;

use api::pod_group::{GangId, GangTerms};
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::release::Release;
use super::room::GroupClearing;
use super::steps::{GangStep, PlanEnd};
use super::{GangNews, LastWord};
use crate::decide::Looked;
use crate::fact::{PodRef, Uid};
use crate::gangs::{Course, Group, Next, Readiness, Refused, Seatless, least_of, seat};
use crate::ledger::{Charged, Pledge, PodRow};
use crate::moment::Moment;
use crate::needs::Requests;
use crate::queue::{Change, Rejection};
use crate::reason::Reason;
use crate::reservations::Within;
use crate::turn::{Decision, Engine, KNOWN, Question, Verdict, Waiting};

/// How many members get nodes in one turn.
const MEMBERS_PER_TURN: usize = 64;
/// How many members cost as much as one that is tried, who are not tried since one who asks the same got no node.
const ALIKE_PER_MEMBER: usize = 32;

/// A group that is being planned.
pub(super) struct Planning {
    /// What the queue calls it.
    pub(super) uid: Uid,
    pub(super) group: Group,
    pub(super) attempts: u32,
    pub(super) course: Course,
    /// What was said of the gangs when it began.
    terms: Vec<Option<GangTerms>>,
    pub(super) placed: Vec<Uid>,
    /// What members asked that got no node in this turn, while nobody has got one since.
    in_vain: FxHashSet<Alike>,
    /// What its quota keeps for it, which does not count meanwhile.
    pledge: Option<Pledge>,
    began: Moment,
}

/// What the answer to a member follows from that waits for no node of its own.
type Alike = (Question, Option<Charged>);

impl Planning {
    /// What came of it.
    pub(super) fn over(&self, end: PlanEnd, now: Moment) -> GangStep {
        GangStep::Planned { end, members: self.course.order().len(), took: now.since(self.began) }
    }

    /// A member is none any longer; whether it had a node.
    fn forget(&mut self, uid: &Uid) -> bool {
        let before = self.placed.len();
        self.placed.retain(|own| own != uid);
        self.placed.len() < before
    }
}

/// Why a group has no nodes.
pub(super) struct GroupRefusal {
    pub(super) member: Uid,
    pub(super) waiting: Waiting,
    parked: Option<(Box<str>, Charged)>,
}

/// What came of trying a member.
enum Tried {
    Placed,
    /// It is gone meanwhile, or has a node: it is nobody's business any longer.
    Gone,
    /// It gets none; nothing more is known where another that asks the same got none.
    Refused(Option<Refused>),
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
            return self.due.pop();
        };
        let course = Course::begin(least_of(needs), self.by_size(&group));
        if course.is_short() {
            // Of one it is known that it is gone, or elsewhere, and not yet what became of it.
            self.queue.reject(uid, Rejection::default(), &self.ledger, now);
            return None;
        }
        for uid in course.order() {
            self.liken(uid, now);
        }
        let terms = self.terms_of(&group);
        let pledge = self.ledger.quotas.take_pledge(uid);
        self.gangs.planning = Some(Planning {
            uid: uid.clone(),
            group,
            attempts,
            course,
            terms,
            placed: Vec::new(),
            in_vain: FxHashSet::default(),
            pledge,
            began: now,
        });
        self.plan_on(now)
    }

    /// Whether a group is being planned.
    pub(in crate::turn) fn is_planning(&self) -> bool {
        self.gangs.planning.is_some()
    }

    /// A pod was decided about.
    pub(in crate::turn) fn note_decided(&mut self) {
        self.gangs.decided += 1;
    }

    /// Gives nodes to more members; what is to be done about the first of them where that was the last.
    pub(in crate::turn) fn plan_on(&mut self, now: Moment) -> Option<Decision> {
        let mut plan = self.gangs.planning.take()?;
        self.ledger.loads.watch(false);
        // Others may have left since.
        plan.in_vain.clear();
        let members = self.gangs.members_per_turn.unwrap_or(MEMBERS_PER_TURN);
        let mut work = members * ALIKE_PER_MEMBER;
        while work > 0 {
            let cost = match plan.course.next() {
                Next::Needed(gang, uid) => {
                    let (tried, cost) = self.try_member(&mut plan, &uid);
                    match tried {
                        Tried::Placed => plan.course.seated(&gang),
                        Tried::Gone => {}
                        Tried::Refused(refused) => {
                            plan.course.left_out(&self.ledger, (gang.clone(), uid), refused);
                        }
                    }
                    if plan.course.falls_short(&gang) && !self.begin_anew(&mut plan) {
                        return self.refuse_plan(plan, now);
                    }
                    cost
                }
                Next::Short if self.begin_anew(&mut plan) => 1,
                Next::Short => return self.refuse_plan(plan, now),
                // It is not needed.
                Next::Extra(uid) => self.try_member(&mut plan, &uid).1,
                Next::Nobody => return self.keep_plan(plan, now),
            };
            work = work.saturating_sub(cost);
        }
        self.gangs.planning = Some(plan);
        None
    }

    /// Begins a plan anew that falls short, in another order; whether that may help.
    fn begin_anew(&mut self, plan: &mut Planning) -> bool {
        if !plan.course.has_another_order(&self.ledger, &plan.placed) {
            return false;
        }
        self.take_back(&std::mem::take(&mut plan.placed));
        plan.course.begin_anew(&self.ledger, self.by_size(&plan.group));
        plan.in_vain.clear();
        true
    }

    /// Gives a member a node, and what that costs: one that asks the same as another that got none is not tried.
    fn try_member(&mut self, plan: &mut Planning, uid: &Uid) -> (Tried, usize) {
        let alike = self.alike(&plan.group, uid);
        if alike.as_ref().is_some_and(|own| plan.in_vain.contains(own)) {
            return (Tried::Refused(None), 1);
        }
        #[cfg(test)]
        {
            self.gangs.tried += 1;
        }
        let tried = self.place_member(&plan.group, uid, &mut plan.placed);
        match &tried {
            // Others may come near it.
            Tried::Placed => plan.in_vain.clear(),
            Tried::Refused(_) => plan.in_vain.extend(alike),
            Tried::Gone => {}
        }
        (tried, ALIKE_PER_MEMBER)
    }

    /// What the answer to a member follows from; none where room is made for it somewhere, or it is none.
    fn alike(&self, group: &Group, uid: &Uid) -> Option<Alike> {
        let is_tried =
            |row: &&PodRow| row.nominated().is_none() && self.is_waiting_member(group, uid);
        let row = self.ledger.pod(uid).filter(is_tried)?;
        let own = self.unbound.get(uid)?;
        Some((Question::of(own.profile, row, &self.ledger), row.charged()))
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
    pub(super) fn is_waiting_member(&self, group: &Group, uid: &Uid) -> bool {
        let waits = |row: &PodRow| !row.is_placed() && !row.gated;
        self.is_member(group, uid) && self.ledger.pod(uid).is_some_and(waits)
    }

    /// Whether what a plan has given is still given to members on nodes that are there, and to enough of them
    /// as far as they are all that are needed.
    pub(super) fn stands(&self, plan: &Planning) -> bool {
        let holds = |uid: &Uid| self.is_member(&plan.group, uid) && self.is_claim_there(uid);
        plan.placed.iter().all(holds) && self.terms_of(&plan.group) == plan.terms
    }

    /// Things are otherwise than when a plan began: all is taken back, and what that means is found out anew.
    pub(super) fn plan_anew(&mut self, mut plan: Planning, now: Moment) {
        self.gangs.steps.note(plan.over(PlanEnd::Dropped, now));
        self.take_back(&plan.placed);
        self.renew_promise(&mut plan);
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
        let own = self.unbound.get(uid).filter(|_| self.is_waiting_member(group, uid));
        let Some(own) = own else { return Tried::Gone };
        let decider = &mut self.profiles[own.profile].1;
        let (place, allotment) = match seat(&mut self.ledger, decider, uid) {
            Ok(own) => own,
            Err(why) => {
                let refused = Refused { member: uid.clone(), why, seated: placed.len() };
                return Tried::Refused(Some(refused));
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
    pub(super) fn take_back(&mut self, placed: &[Uid]) {
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
        for mut plan in cleared.map(|own| own.plan).into_iter().chain(planned) {
            self.gangs.steps.note(plan.over(PlanEnd::Dropped, now));
            self.take_back(&plan.placed);
            self.renew_promise(&mut plan);
        }
    }

    /// What was kept for a group is kept again while others leave for it, and else no longer.
    fn renew_promise(&mut self, plan: &mut Planning) {
        let pledge = plan.pledge.take();
        match self.is_promised(&plan.uid) {
            true => {
                pledge.into_iter().for_each(|own| self.ledger.quotas.put_pledge(&plan.uid, own))
            }
            false => {
                pledge.into_iter().for_each(|own| self.ledger.quotas.drop_pledge(own));
                self.end_promise(&plan.uid);
            }
        }
    }

    /// All that are needed have a node: they are to be bound.
    fn keep_plan(&mut self, plan: Planning, now: Moment) -> Option<Decision> {
        // Some may have gone, or their nodes.
        if !self.stands(&plan) || !self.has_enough(plan.course.least(), &plan.placed) {
            self.plan_anew(plan, now);
            return None;
        }
        self.gangs.steps.note(plan.over(PlanEnd::Kept, now));
        let Planning { uid, group, attempts, placed, course, pledge, .. } = plan;
        pledge.into_iter().for_each(|own| self.ledger.quotas.drop_pledge(own));
        self.refused.clear();
        let history = self.queue.placed(&uid).unwrap_or_default();
        self.gangs.by_uid.remove(&uid);
        self.gangs.refused.remove(&uid);
        self.drop_sum(&uid);
        self.break_promise(&uid);
        let until = now.after(self.ledger.gang_wait(&group));
        let gangs = &self.ledger.gangs;
        let mut release =
            Release::new(group.clone(), until, history, course.least().clone(), gangs);
        for uid in &placed {
            if let Some(decision) = self.place_released(uid, attempts, now) {
                release.add(decision);
            }
        }
        self.tell_placed(&group);
        self.release(release, now);
        self.due.pop()
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
        let first = plan.course.take_refused();
        let first = first.filter(|own| self.is_waiting_member(&plan.group, &own.member));
        let Some(first) = first.filter(|_| self.stands(&plan)) else {
            self.plan_anew(plan, now);
            return None;
        };
        let member = first.member.clone();
        let parked = match &first.why {
            Seatless::Quota(own) => Some((own.0.quota.clone(), own.1)),
            Seatless::Nodes => None,
        };
        // While the others have their nodes: that is what it is refused for.
        let decider = &self.profiles[self.unbound.get(&member).expect(KNOWN).profile].1;
        let waiting = first.waiting(&mut self.ledger, decider, &plan.group).expect(KNOWN);
        let mut refusal = GroupRefusal { member, waiting, parked };
        self.renew_promise(&mut plan);
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

    /// Leaves a group without nodes.
    pub(super) fn leave_group(
        &mut self,
        plan: Planning,
        refusal: GroupRefusal,
        now: Moment,
    ) -> Option<Decision> {
        self.gangs.steps.note(plan.over(PlanEnd::Refused, now));
        let Planning { uid, group, attempts, placed, course, .. } = plan;
        let GroupRefusal { member, waiting, parked } = refusal;
        let waiting = Arc::new(waiting);
        self.take_back(&placed);
        // Some may have gone meanwhile.
        self.enqueue(&group, &uid, now);
        match parked {
            Some((quota, charged)) if self.is_charged_like(&member, charged) => {
                self.park_group(&uid, &group, (course.least(), charged), &quota, now);
            }
            // What it was refused for is of one that is gone by now.
            Some(_) => self.queue.rest(&uid, now),
            None => {
                let rejection = self.all_refusals(&group, waiting.rejection);
                self.queue.reject(&uid, rejection, &self.ledger, now);
            }
        }
        self.tell_refused(&uid, &group, &waiting, (&member, attempts));
        // What is told of it meanwhile was left for now.
        self.settle_gangs(&group.gangs, now);
        self.due.pop()
    }

    /// Whether a pod is there and charged to the same.
    fn is_charged_like(&self, uid: &Uid, like: Charged) -> bool {
        let own = self.ledger.pod(uid).and_then(PodRow::charged);
        own.is_some_and(|own| {
            (own.belonging, own.preemptible) == (like.belonging, like.preemptible)
        })
    }

    /// Has a group wait until its quota has room for all of it.
    pub(super) fn park_group(
        &mut self,
        uid: &Uid,
        group: &Group,
        (least, charged): (&BTreeMap<GangId, usize>, Charged),
        quota: &str,
        now: Moment,
    ) {
        let sum = self.lot_sum((uid, group), least, charged);
        let sum = Requests { charged: sum, ..Requests::default() };
        self.drop_sum(uid);
        let lot = Charged { amounts: self.ledger.asks.requests.hold(sum).0, ..charged };
        self.gangs.sums.insert(uid.clone(), lot);
        match self.ledger.admit_as(uid, lot) {
            // Members are charged to several quotas, which together have too little: a lot is charged to
            // one. Or members ask for different amounts, and those that are left need more than the smallest do.
            // Each try costs a plan, and they come less and less often, up to the longest back-off.
            Ok(()) => self.queue.rest(uid, now),
            Err(_) => self.queue.park(uid, lot, quota, now),
        }
        match self.is_promised(uid) {
            true => self.await_promised(uid),
            // They could not use what is kept on nodes.
            false => self.keep_no_room_for(group, now),
        }
    }

    /// Who may refuse a member, so that whatever may help any of them wakes the group.
    pub(super) fn all_refusals(&mut self, group: &Group, rejection: Rejection) -> Rejection {
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
        Rejection { unschedulable, ..rejection }
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
            self.due.push(Decision {
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
        self.ledger.group_of(gang).entry()
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
