//! Gangs: a group of them is one entry of the queue, and gets all its nodes at once or none.
//!
//! Members of a group that has not started are not in the queue themselves. The group is, from when
//! enough members are there. When its turn comes it is [planned](planning): one member after the other
//! gets a node, and where one that is needed gets none, all is taken back. Nobody else is decided about
//! meanwhile, so that nobody waits for what a plan holds. When all that are needed have a node, the group
//! is [released](release): its members are bound, and those whose Binding fails keep their nodes and are
//! tried again until the group's time is over.

mod alone;
mod namers;
mod planning;
mod release;
mod room;
mod seen;
mod steps;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use api::pod_group::GangId;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::{Decision, Engine, Looked, Question, Verdict, Waiting};
use crate::fact::{Fact, PodRef, Uid};
use crate::gangs::{GangWait, Group, Readiness, entry_of, least_of};
use crate::ledger::{Ask, Charged, PodRow};
use crate::moment::Moment;
use crate::needs::Amounts;
use crate::queue::{Change, Pending, Rejection, Standing};
use alone::Alone;
use namers::Namers;
use planning::Planning;
use release::Releases;
use room::GroupClearing;
use steps::Steps;
pub use steps::{ClearingEnd, GangStep, PlanEnd};

/// How far a gang has come, for whoever tells users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GangNews {
    /// It waits for this.
    Waits(Arc<GangWait>),
    /// Its turn comes.
    Queued,
    /// No nodes were found for it, in these words.
    Refused(Arc<str>),
    /// So many of its members have a node, of so many that there must be.
    Placed {
        /// How many have one.
        placed: usize,
        /// How many there must be.
        min: usize,
    },
}

/// A member of a gang that wants a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// In whose name it is decided.
    pub scheduler: Arc<str>,
    /// Whether somebody outside is asked about it.
    pub is_consulted: bool,
}

/// Why no nodes were found for a group, and who of its members has heard of it.
struct LastWord {
    /// Which sort of member was refused by whom and for what, without how many nodes said so: those change
    /// with each attempt, and all members would be told of it each time.
    reason: Box<str>,
    waiting: Arc<Waiting>,
    attempts: u32,
    told: BTreeSet<Uid>,
}

/// Room that others are asked to make for a group.
struct GangRoom {
    /// Members of whom that is not yet told.
    untold: BTreeSet<Uid>,
    /// Who refused them.
    rejection: Rejection,
    /// Whether anybody who has to go could not be asked to.
    has_failed: bool,
}

/// An entry of the queue that stands for a group.
struct Entry {
    /// One of its gangs.
    gang: GangId,
    /// What is needed, who is there and what they ask, as a hash.
    asked: u64,
}

/// Groups of gangs as the queue knows them.
#[derive(Default)]
pub(super) struct Gangs {
    /// The group of each gang that has members.
    groups: BTreeMap<GangId, Box<str>>,
    /// By what the queue calls them.
    by_uid: FxHashMap<Uid, Entry>,
    /// What members were last told that they wait for.
    told: FxHashMap<Uid, Arc<GangWait>>,
    /// What was last said of groups that no nodes were found for.
    refused: FxHashMap<Uid, LastWord>,
    /// What groups that their quotas refused ask for in all, held so that it can be asked for again.
    sums: FxHashMap<Uid, Charged>,
    /// What groups wait for of which members are still to be told, each with one of its gangs, and when.
    waits: BTreeMap<Box<str>, (GangId, Arc<GangWait>, Moment)>,
    tell_at: BTreeSet<(Moment, Box<str>)>,
    planning: Option<Planning>,
    /// Groups for which room is being made: the first is worked on.
    clearings: VecDeque<GroupClearing>,
    /// Pods that were decided since that was last done.
    decided: usize,
    /// Groups for which others were asked to go.
    rooms: FxHashMap<Uid, GangRoom>,
    /// Groups that have started and whose members are by themselves.
    started: BTreeSet<Box<str>>,
    /// How many members get nodes in one turn, where that is not the usual number.
    members_per_turn: Option<usize>,
    releases: Releases,
    news: BTreeMap<GangId, GangNews>,
    /// Gangs of which anything was told, and of which members are there.
    told_of: BTreeSet<GangId>,
    steps: Steps,
    namers: Namers,
    alone: Alone,
    /// How many groups were looked at.
    #[cfg(test)]
    settled: usize,
    /// How many members were tried for a node.
    #[cfg(test)]
    tried: usize,
}

impl Gangs {
    /// Members of a group wait for this, and are told then, or when they were to be told of something else.
    fn wait(&mut self, key: &str, (gang, wait): (GangId, Arc<GangWait>), at: Moment) {
        let at = self.waits.get(key).map_or(at, |(.., at)| *at);
        self.tell_at.insert((at, key.into()));
        self.waits.insert(key.into(), (gang, wait, at));
    }

    /// Members of a group wait no longer, or there are none.
    fn forget_wait(&mut self, key: &str) {
        if let Some((.., at)) = self.waits.remove(key) {
            self.tell_at.remove(&(at, key.into()));
        }
    }
}

/// Of how many groups members are told in one turn what they wait for.
const TOLD_PER_TURN: usize = 64;
/// How long members wait for others before they are told that they do.
const TOLD_AFTER: Duration = Duration::from_millis(500);
/// When they are told once more, where it could not be written.
const TOLD_AGAIN_AFTER: Duration = Duration::from_secs(10);

impl Engine {
    /// Gives nodes to so many members in one turn.
    #[cfg(test)]
    pub(crate) fn with_members_per_turn(mut self, members: usize) -> Self {
        self.gangs.members_per_turn = Some(members);
        self
    }

    /// Whether pods of a profile start together with others.
    fn heeds_gangs(&self, profile: usize) -> bool {
        self.profiles[profile].1.profile().gangs.is_some()
    }

    /// Whether pods of this scheduler start together with others: those of other schedulers may.
    pub(super) fn is_ganged(&self, scheduler: &str) -> bool {
        let own = self.profiles.iter().position(|(name, _)| **name == *scheduler);
        own.is_none_or(|profile| self.heeds_gangs(profile))
    }

    /// How many pods of groups stand where in the queue, and how many wait for others of their gang.
    #[must_use]
    pub fn gang_standings(&self) -> (Vec<(Standing, usize)>, usize) {
        let (mut standings, mut gated) = (Vec::new(), 0);
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for (gang, key) in &self.gangs.groups {
            if !seen.insert(key) {
                continue;
            }
            let group = self.ledger.group_of(gang);
            let waiting = self.ledger.gang_waiting(&group.gangs);
            let alone = |uid: &Uid| self.queue.standing(uid).is_some();
            let waiting =
                waiting.filter(|(_, uid, _)| !alone(uid) && self.unbound.get(uid).is_some());
            match (self.queue.standing(&entry_of(key)), waiting.count()) {
                (_, 0) => {}
                // The entry itself is counted with the others.
                (Some(standing), count) => standings.push((standing, count - 1)),
                (None, count) => gated += count,
            }
        }
        (standings, gated)
    }

    /// Whether a pod waits for others of its gang, so that it is not by itself in the queue.
    pub(super) fn is_in_gang(&self, row: &PodRow, profile: usize) -> bool {
        let Some(own) = row.gang.as_ref().filter(|_| self.heeds_gangs(profile)) else {
            return false;
        };
        let key = self.gangs.groups.get(&own.gang);
        key.is_none_or(|key| !self.gangs.started.contains(key))
    }

    /// Whether an entry of the queue stands for a group.
    pub(super) fn is_gang_entry(&self, uid: &Uid) -> bool {
        self.gangs.by_uid.contains_key(uid)
    }

    /// A pod is gone, or bound, or of another gang, or nobody's business any longer: what it was given with
    /// its gang is given back.
    pub(super) fn leave_gang(&mut self, uid: &Uid, now: Moment) {
        self.gangs.told.remove(uid);
        self.gangs.alone.remove(uid);
        self.leave_plan(uid, now);
        self.leave_release(uid, now);
        for room in self.gangs.rooms.values_mut() {
            room.untold.remove(uid);
        }
    }

    /// A pod has no node any longer: it waits with its gang, or by itself.
    pub(super) fn settle_own(&mut self, uid: &Uid, now: Moment) {
        let gang = self.member_of(uid).filter(|_| self.ledger.gangs.are_kept()).cloned();
        if let Some(gang) = gang {
            self.settle_gangs(&[gang], now);
        }
    }

    /// Whether a group is being planned, or room is being made for it.
    fn is_planned(&self, uid: &Uid) -> bool {
        let planned = self.gangs.planning.iter().map(|own| &own.uid);
        let cleared = self.gangs.clearings.iter().map(GroupClearing::uid);
        planned.chain(cleared).any(|own| own == uid)
    }

    /// The gang of a pod.
    pub(super) fn member_of(&self, uid: &Uid) -> Option<&GangId> {
        self.ledger.pod(uid)?.gang.as_ref().map(|own| &own.gang)
    }

    /// The gangs that a fact is about, before and after it, and those that start with them before it where that
    /// may be otherwise by it.
    pub(super) fn gang_of(&self, fact: &Fact) -> Vec<GangId> {
        let gangs = &self.ledger.gangs;
        let was_of = |uid: &Uid| match self.ledger.pod(uid)?.gang.as_deref() {
            // What a pod says of its gang may be what all go by.
            Some(own) if own.terms.is_some() && !gangs.is_object(&own.gang) => {
                Some(self.ledger.group_of(&own.gang).gangs)
            }
            own => own.map(|own| vec![own.gang.clone()]),
        };
        match fact {
            _ if !gangs.are_kept() => Vec::new(),
            Fact::Gang { id, .. } => self.ledger.group_of(id).gangs,
            Fact::Pod(pod) => {
                let mut all = was_of(&pod.uid).unwrap_or_default();
                let new = pod.gang.as_ref().map(|own| own.gang.clone());
                let is_told = pod.gang.as_ref().is_some_and(|own| own.terms.is_some());
                match new {
                    Some(gang) if is_told && !gangs.is_object(&gang) => {
                        all.extend(self.ledger.group_of(&gang).gangs);
                    }
                    new => all.extend(new),
                }
                all
            }
            Fact::PodGone(uid) | Fact::PodFailed(uid) => was_of(uid).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// The ledger knows of a pod that was of this gang: where it is of another one by now, it has left what it
    /// was given with the others.
    pub(super) fn follow_gang(&mut self, uid: &Uid, was_of: Option<&GangId>, now: Moment) {
        if was_of.is_some() && was_of != self.member_of(uid) {
            self.leave_gang(uid, now);
        }
    }

    /// Something of gangs is otherwise: whoever starts with them may start, or has to wait.
    pub(super) fn settle_gangs(&mut self, gangs: &[GangId], now: Moment) {
        let all = gangs.iter().flat_map(|gang| self.ledger.group_of(gang).gangs);
        let all: BTreeSet<GangId> = all.chain(gangs.iter().cloned()).collect();
        self.settle_each(&all, now);
        self.settle_namers(now);
    }

    /// The same of these alone, and of whoever starts with them by now.
    fn settle_each(&mut self, all: &BTreeSet<GangId>, now: Moment) {
        // Gangs that name the same are one group: it is looked for once.
        let mut groups: BTreeMap<BTreeSet<GangId>, Group> = BTreeMap::new();
        for gang in all {
            let named = self.ledger.gangs.named(gang);
            let group =
                groups.entry(named).or_insert_with_key(|named| self.ledger.group_of_all(named));
            let old = match self.ledger.gangs.members(gang).len() {
                0 => self.gangs.groups.remove(gang),
                _ => self.gangs.groups.insert(gang.clone(), group.key.clone()),
            };
            if old.as_ref() != Some(&group.key) {
                // Its members are to be freed, where the others of the group are already.
                self.gangs.started.remove(&group.key);
            }
            // Before any is settled: others may have kept the name that this one has left.
            if let Some(old) = old.filter(|old| *old != group.key) {
                self.gangs.started.remove(&old);
                self.gangs.forget_wait(&old);
                self.dissolve(&entry_of(&old), now);
            }
        }
        for group in groups.values() {
            let is_in_circle = self.settle_group(group, now);
            self.see(group);
            for gang in group.gangs.iter().filter(|gang| all.contains(*gang)) {
                self.show(gang, group, is_in_circle);
            }
        }
        // Nobody may ask for news for days: of gangs that are gone there is none.
        for gang in all.iter().filter(|gang| !self.ledger.gangs.is_known(gang)) {
            self.gangs.news.remove(gang);
        }
    }

    /// There is no such group any longer.
    fn dissolve(&mut self, uid: &Uid, now: Moment) {
        self.give_up_plan(uid, now);
        self.gangs.rooms.remove(uid);
        self.gangs.by_uid.remove(uid);
        self.gangs.refused.remove(uid);
        self.queue.remove(uid);
        self.break_promise(uid);
        self.drop_sum(uid);
    }

    /// A member that waits of the group that is called this in the queue; none where that is no group.
    pub(super) fn waiting_member(&self, uid: &Uid) -> Option<Uid> {
        let group = self.group_of_entry(uid)?;
        let first = self.ledger.gang_waiting(&group.gangs).next();
        first.map(|(_, uid, _)| uid.clone())
    }

    /// The group that an entry of the queue stands for; none where it is a pod.
    #[must_use]
    pub fn group_of_entry(&self, uid: &Uid) -> Option<Group> {
        self.gangs.by_uid.get(uid).map(|entry| self.ledger.group_of(&entry.gang))
    }

    /// What a group waits for before any node is looked at, and what it needs.
    fn readiness(&self, group: &Group) -> Readiness {
        let is_consulted = |uid: &Uid| self.unbound.get(uid).is_some_and(|own| own.consulted);
        self.ledger.readiness_beside(group, is_consulted)
    }

    /// A group may start, or has to wait; whether it waits for itself, over others.
    fn settle_group(&mut self, group: &Group, now: Moment) -> bool {
        #[cfg(test)]
        {
            self.gangs.settled += 1;
        }
        let readiness = self.readiness(group);
        let is_in_circle = matches!(&readiness, Readiness::Waits(GangWait::Circle { .. }));
        self.settle_as(group, readiness, now);
        is_in_circle
    }

    /// A group can start, or waits for something, or has started.
    fn settle_as(&mut self, group: &Group, readiness: Readiness, now: Moment) {
        let uid = group.entry();
        let is_planned = self.is_planned(&uid);
        // What is under way is looked at when it has come to its end.
        if self.gangs.rooms.get(&uid).is_some_and(|room| room.untold.is_empty()) {
            self.room_is_told(&uid, group, now);
        }
        if self.gangs.releases.is_pending(&group.key) && self.is_over(&group.key) {
            // Something else is said of how many there must be.
            return self.end_release(&group.key, now);
        }
        let is_cleared = self.gangs.rooms.contains_key(&uid);
        let is_busy = is_planned || is_cleared || self.gangs.releases.contains(&group.key);
        let may_end = is_planned || self.gangs.releases.is_pending(&group.key);
        if readiness == Readiness::Started && !may_end {
            return self.settle_started(group, &uid, now);
        }
        self.gangs.started.remove(&group.key);
        match readiness {
            _ if is_busy => self.leave_members(group),
            Readiness::Waits(wait) => self.settle_waiting(group, &uid, wait, now),
            Readiness::Started => {}
            Readiness::Ready(_) => {
                self.gangs.forget_wait(&group.key);
                self.leave_members(group);
                self.enqueue(group, &uid, now);
                if self.gangs.refused.contains_key(&uid) {
                    self.tell_untold(&uid, group, None);
                } else {
                    self.tell_news(group, &GangNews::Queued);
                }
            }
        }
    }

    /// A group has started: who waits is by itself, and so is who comes.
    fn settle_started(&mut self, group: &Group, uid: &Uid, now: Moment) {
        let is_anybody = |gang: &GangId| self.ledger.gangs.members(gang).len() > 0;
        if !group.gangs.iter().any(is_anybody) {
            // Whoever comes then is to be freed.
            self.gangs.started.remove(&group.key);
            self.dissolve(uid, now);
        } else if self.gangs.started.insert(group.key.clone()) {
            self.gangs.forget_wait(&group.key);
            self.dissolve(uid, now);
            self.free_members(group, now);
        }
        self.tell_placed(group);
    }

    /// A group waits for something that no node can help with.
    fn settle_waiting(&mut self, group: &Group, uid: &Uid, wait: GangWait, now: Moment) {
        let was_queued = self.gangs.by_uid.contains_key(uid);
        self.dissolve(uid, now);
        self.leave_members(group);
        if was_queued {
            self.keep_no_room_for(group, now);
        }
        let wait = Arc::new(wait);
        self.tell_news(group, &GangNews::Waits(wait.clone()));
        let Some(gang) = group.gangs.iter().find(|gang| self.gangs.groups.contains_key(gang))
        else {
            // Nobody is there to be told.
            self.gangs.forget_wait(&group.key);
            return;
        };
        self.gangs.wait(&group.key, (gang.clone(), wait), now.after(TOLD_AFTER));
    }

    /// No room is kept for members of a group that does not look for any.
    pub(super) fn keep_no_room_for(&mut self, group: &Group, now: Moment) {
        let waiting = self.ledger.gang_waiting(&group.gangs);
        let awaited = waiting.filter(|(_, _, row)| row.nominated().is_some());
        let awaited: Vec<Uid> = awaited.map(|(_, uid, _)| uid.clone()).collect();
        self.keep_no_room(awaited, now);
    }

    /// Members are not by themselves in the queue.
    fn leave_members(&mut self, group: &Group) {
        let may_be_tried = |uid: &&Uid| self.ledger.pod(uid).is_some_and(PodRow::may_be_tried);
        let alone = group.gangs.iter().flat_map(|gang| self.gangs.alone.of(gang));
        let alone = alone.filter(may_be_tried).filter(|uid| self.queue.standing(uid).is_some());
        for uid in alone.cloned().collect::<Vec<Uid>>() {
            self.gangs.alone.remove(&uid);
            self.searches.drop(&uid);
            self.rooms.remove(&uid);
            self.ask_no_more(&uid);
            self.queue.remove(&uid);
            self.break_promise(&uid);
        }
    }

    /// Each member that waits is by itself.
    fn free_members(&mut self, group: &Group, now: Moment) {
        let waiting = self.ledger.gang_waiting(&group.gangs).map(|(_, uid, _)| uid.clone());
        for uid in waiting.collect::<Vec<Uid>>() {
            self.gangs.told.remove(&uid);
            if self.queue.standing(&uid).is_none()
                && let Some((own, row)) = self.unbound.get(&uid).zip(self.ledger.pod(&uid))
            {
                let question = Question::of(own.profile, row, &self.ledger);
                let pending = question.pending(&uid, row, own.gated, own.consulted);
                self.queue.put(pending, now);
                self.note_alone(&uid);
            }
        }
    }

    /// The group is one entry of the queue, with all that its members ask.
    fn enqueue(&mut self, group: &Group, uid: &Uid, now: Moment) {
        let mut priority = i32::MIN;
        let mut asks: Vec<Ask> = Vec::new();
        for (_, member, row) in self.ledger.gang_waiting(&group.gangs) {
            if self.unbound.get(member).is_some() {
                priority = priority.max(row.priority);
                asks.push(row.ask);
            }
        }
        asks.sort_unstable_by_key(|ask| FxBuildHasher.hash_one(ask));
        asks.dedup();
        let Some((first, others)) = asks.split_first() else { return self.dissolve(uid, now) };
        let kind = FxBuildHasher.hash_one(uid);
        let pending = Pending { uid: uid.clone(), priority, ask: *first, kind, gated: false };
        self.queue.put(pending, now);
        self.queue.also_asks(uid, others);
        let least = self.least_of(group);
        // Where it asks for something else by now, nobody knows what its quotas say.
        if let Some(lot) = self.queue.lot(uid)
            && self.ledger.asks.requests.get(lot.amounts).charged
                != self.lot_sum((uid, group), &least, lot)
        {
            self.queue.unpark(uid);
        }
        let asked = self.asked_by(group, &least);
        let Some(gang) = group.gangs.first().cloned() else { return };
        let old = self.gangs.by_uid.insert(uid.clone(), Entry { gang, asked });
        // What it was refused for may not be so any longer.
        if old.is_some_and(|old| old.asked != asked) {
            self.queue.notice(&self.ledger, Change::Asked(uid.clone()), now);
        }
    }

    /// How many members of each gang of a group are needed; none where it cannot start.
    fn least_of(&self, group: &Group) -> BTreeMap<GangId, usize> {
        match self.ledger.readiness(group) {
            Readiness::Ready(needs) => least_of(needs),
            _ => BTreeMap::new(),
        }
    }

    /// What of a group decides whether it gets nodes, as a hash. Whoever finds out anew who is like a member
    /// tells it otherwise.
    fn asked_by(&self, group: &Group, least: &BTreeMap<GangId, usize>) -> u64 {
        let mut asked = FxBuildHasher.build_hasher();
        least.hash(&mut asked);
        for (_, uid, row) in self.ledger.gang_waiting(&group.gangs) {
            if self.unbound.get(uid).is_some() {
                let ask = Ask { like: None, guests: None, ..row.ask };
                (uid, row.priority, ask).hash(&mut asked);
            }
        }
        asked.finish()
    }

    /// What the queue calls whoever is tried for a pod: its group, where the pod is not there by itself.
    pub(super) fn entry_of(&self, uid: &Uid) -> Uid {
        let row = self.ledger.pod(uid).filter(|_| self.queue.standing(uid).is_none());
        let gang = row.and_then(|row| row.gang.as_ref());
        gang.map_or_else(|| uid.clone(), |own| self.gang_entry(&own.gang))
    }

    /// What pods ask is otherwise than when their groups were put into the queue.
    pub(super) fn follow_asks(&mut self, pods: &[Uid], now: Moment) {
        let gang = |uid: &Uid| Some(self.ledger.pod(uid)?.gang.as_ref()?.gang.clone());
        let gangs: BTreeSet<GangId> = pods.iter().filter_map(gang).collect();
        if !gangs.is_empty() && self.ledger.gangs.are_kept() {
            self.settle_gangs(&gangs.into_iter().collect::<Vec<_>>(), now);
        }
    }

    /// What a group waits for in a quota: all that it was promised there, where others leave that for it, and else the
    /// least that so many of its members need.
    fn lot_sum(
        &self,
        (entry, group): (&Uid, &Group),
        least: &BTreeMap<GangId, usize>,
        like: Charged,
    ) -> Amounts {
        let promised = self.ledger.quotas.pledged_in(entry, like.belonging);
        if let Some(amounts) = promised.filter(|_| self.is_promised(entry)) {
            return amounts.clone();
        }
        let waiting = self.ledger.gang_waiting(&group.gangs);
        let ours = waiting.filter(|(_, uid, _)| self.unbound.get(uid).is_some());
        self.ledger.gang_floor(ours.map(|(gang, uid, _)| (gang, uid)), least, like)
    }

    /// What a group asks for in all need not be kept any longer.
    fn drop_sum(&mut self, uid: &Uid) {
        if let Some(sum) = self.gangs.sums.remove(uid) {
            self.ledger.asks.requests.release(sum.amounts);
        }
    }

    /// A member could not be told what it waits for with its gang, if it does: it is told once more.
    fn tell_again(&mut self, gang: &GangId, now: Moment) {
        let group = self.ledger.group_of(gang);
        let Readiness::Waits(wait) = self.readiness(&group) else { return };
        let own = (gang.clone(), Arc::new(wait));
        self.gangs.wait(&group.key, own, now.after(TOLD_AGAIN_AFTER));
    }

    /// Tells members what they wait for, where they still do after a moment: most gangs come whole.
    pub(super) fn tell_waiting(&mut self, now: Moment) {
        for _ in 0..TOLD_PER_TURN {
            let Some((at, key)) = self.gangs.tell_at.first().cloned() else { return };
            if at > now {
                return;
            }
            self.gangs.tell_at.pop_first();
            let Some((gang, wait, _)) = self.gangs.waits.remove(&key) else { continue };
            if self.gangs.groups.get(&gang) == Some(&key) {
                let group = self.ledger.group_of(&gang);
                self.keep_no_room_for(&group, now);
                self.tell_members(&group, wait);
            }
        }
    }

    /// When members are to be told what they wait for.
    pub(super) fn waits_told_at(&self) -> Option<Moment> {
        self.gangs.tell_at.first().map(|(at, _)| *at)
    }

    /// Tells members what they wait for, each once for each sort of thing.
    fn tell_members(&mut self, group: &Group, wait: Arc<GangWait>) {
        let waiting = self.ledger.gang_waiting(&group.gangs);
        let waiting: Vec<(Uid, PodRef)> =
            waiting.map(|(_, uid, row)| (uid.clone(), PodRef::of(uid, row))).collect();
        for (uid, pod) in waiting {
            let is_told = self.gangs.told.get(&uid).is_some_and(|old| old.is_like(&wait));
            if is_told {
                continue;
            }
            let Some(own) = self.unbound.get(&uid) else { continue };
            let scheduler = self.profiles[own.profile].0.clone();
            self.gangs.told.insert(uid, wait.clone());
            let (verdict, looked) = (Verdict::Await(wait.clone()), Looked::default());
            self.due.push(Decision { pod, scheduler, attempts: 0, verdict, looked, gang: None });
        }
    }

    fn tell_news(&mut self, group: &Group, news: &GangNews) {
        for gang in &group.gangs {
            if self.is_to_tell(gang) {
                self.gangs.news.insert(gang.clone(), news.clone());
            }
        }
    }

    /// Whether anything is to be told of a gang: any member is ours to place, or was, for of others nothing is
    /// known; or the last one has just gone.
    fn is_to_tell(&mut self, gang: &GangId) -> bool {
        let mut rows = self.ledger.gangs.members(gang).filter_map(|uid| self.ledger.pod(uid));
        if rows.any(|row| !row.is_anothers) {
            self.gangs.told_of.insert(gang.clone());
            return true;
        }
        self.gangs.told_of.remove(gang)
    }

    /// Tells how many members of each gang have a node.
    fn tell_placed(&mut self, group: &Group) {
        for gang in &group.gangs {
            if !self.is_to_tell(gang) {
                continue;
            }
            let placed = self.ledger.gangs.counts(gang).placed;
            let terms = self.ledger.gangs.terms(gang);
            let min = terms.and_then(|terms| terms.min_available).unwrap_or(0) as usize;
            self.gangs.news.insert(gang.clone(), GangNews::Placed { placed, min });
        }
    }

    /// How far gangs have come, of which something is otherwise than when this was last asked.
    pub fn take_gang_news(&mut self) -> BTreeMap<GangId, GangNews> {
        std::mem::take(&mut self.gangs.news)
    }

    /// Members of a group that want a node, and who decides for each.
    #[must_use]
    pub fn gang_candidates(&self, group: &Group) -> BTreeMap<Uid, Candidate> {
        let waiting = self.ledger.gang_waiting(&group.gangs);
        let candidates = waiting.filter_map(|(_, uid, _)| {
            let own = self.unbound.get(uid)?;
            let scheduler = self.profiles[own.profile].0.clone();
            Some((uid.clone(), Candidate { scheduler, is_consulted: own.consulted }))
        });
        candidates.collect()
    }

    /// Whether members of a group got a node and are not all bound.
    #[must_use]
    pub fn is_gang_released(&self, group: &Group) -> bool {
        self.gangs.releases.contains(&group.key)
    }

    /// What was done for groups since this was last asked.
    pub fn take_gang_steps(&mut self) -> Vec<GangStep> {
        self.gangs.steps.take()
    }

    /// How many groups have members that got a node and are not all bound.
    #[must_use]
    pub fn gangs_released(&self) -> usize {
        self.gangs.releases.len()
    }

    /// Members in the order in which they get nodes.
    fn by_size(&self, group: &Group) -> Vec<(GangId, Uid)> {
        self.ledger.gang_by_size(group, |uid| self.unbound.get(uid).is_some())
    }
}
