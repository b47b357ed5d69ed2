//! Groups whose members have their nodes and are being bound.
//!
//! A member whose Binding fails for sure keeps its node and is tried again, there or where there is room
//! by then, until the time of the group is over. Then what is not bound is free again; what is bound stays, and
//! so does what may be: a Binding that is under way.
//!
//! A member whose node is gone, or takes it no longer, gets another one; where there is none it gives up what it
//! has and is released no longer, and so does one whose volumes cannot be made. While nobody is bound or being
//! bound, the others go on only where enough of them are left, and none of them is bound before as many of each
//! gang are ready as have to start. Afterwards those that are left follow when they are ready, and who is missing
//! follows by itself once its gang has started, or with a new plan when this release is over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::pod_group::GangId;
use rustc_hash::FxHashMap;

use crate::fact::{Allotment, Uid};
use crate::gangs::{GangStamp, Group, entry_of};
use crate::ledger::{Ask, Gangs, NodeId};
use crate::moment::Moment;
use crate::queue::{Change, History};
use crate::reservations::{Place, Within};
use crate::turn::{Answer, Decision, Engine, Verdict, tie_of};

/// How long a member is left alone after its Binding failed for the first time.
const REST_FIRST: Duration = Duration::from_secs(1);
/// How long it is left alone at most.
const REST_MAX: Duration = Duration::from_secs(10);

/// How far a member has come.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// Its volumes are being made ready.
    Preparing,
    /// It could be bound, and waits for others to be ready.
    Ready,
    /// Its Binding is under way.
    Bound,
    /// It is tried again then.
    Rests(Moment),
}

#[derive(Debug, Clone)]
struct Member {
    stage: Stage,
    attempts: u32,
    failures: u32,
    /// With whom it starts; none for those that follow later.
    stamp: Option<Arc<GangStamp>>,
}

/// A group whose members have their nodes.
pub(super) struct Release {
    group: Group,
    until: Moment,
    /// What the group went through before it got its nodes.
    history: History,
    /// How many members of each gang have to be bound at once.
    least: BTreeMap<GangId, usize>,
    /// How many each gang said that there must be.
    mins: BTreeMap<GangId, Option<u32>>,
    /// Whether any is bound.
    has_bound: bool,
    members: BTreeMap<Uid, Member>,
    /// What is to be done when enough are ready.
    held: Vec<Decision>,
    /// What is to be done before.
    first: Vec<Decision>,
}

impl Release {
    pub(super) fn new(
        group: Group,
        until: Moment,
        history: History,
        least: BTreeMap<GangId, usize>,
        gangs: &Gangs,
    ) -> Self {
        let (members, held, first) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mins = gangs.mins(&group.gangs);
        Self { group, until, history, least, mins, has_bound: false, members, held, first }
    }

    pub(super) fn add(&mut self, decision: Decision) {
        let (uid, attempts) = (decision.pod.uid.clone(), decision.attempts);
        let stage = match decision.verdict {
            Verdict::Prepare(..) => {
                self.first.push(decision);
                Stage::Preparing
            }
            _ => {
                self.held.push(decision);
                Stage::Ready
            }
        };
        let old = self.members.remove(&uid);
        let (failures, stamp) = old.map_or((0, None), |old| (old.failures, old.stamp));
        self.members.insert(uid, Member { stage, attempts, failures, stamp });
    }

    /// Whether any is bound, or may be by now.
    fn has_begun(&self) -> bool {
        self.has_bound || self.members.values().any(|member| member.stage == Stage::Bound)
    }

    /// Those that could be bound.
    fn ready(&self) -> impl Iterator<Item = &Uid> {
        let ready = self.members.iter().filter(|(_, member)| member.stage == Stage::Ready);
        ready.map(|(uid, _)| uid)
    }

    /// Those that are to be bound now. Those that are the first to be start together, and say so.
    fn bind(&mut self) -> Vec<Decision> {
        if !self.has_begun() {
            let (group, members) = (self.group.key.clone(), self.held.len());
            let stamp = (members > 1).then(|| Arc::new(GangStamp { group, members }));
            for member in self.members.values_mut() {
                member.stamp = stamp.clone().filter(|_| member.stage == Stage::Ready);
            }
        }
        let mut bound = std::mem::take(&mut self.held);
        for decision in &mut bound {
            if let Some(member) = self.members.get_mut(&decision.pod.uid) {
                member.stage = Stage::Bound;
                decision.gang.clone_from(&member.stamp);
            }
        }
        bound
    }
}

/// All groups that are being bound.
#[derive(Default)]
pub(super) struct Releases {
    by_key: BTreeMap<Box<str>, Release>,
    by_member: FxHashMap<Uid, Box<str>>,
    /// When something is due for a group.
    due: BTreeSet<(Moment, Box<str>)>,
    /// Members that lost their nodes and of whom nobody was told.
    vacated: Vec<Uid>,
}

impl Releases {
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.by_key.contains_key(key)
    }

    /// Whether a group has nodes, and none of its members was to be bound so far.
    pub(super) fn is_pending(&self, key: &str) -> bool {
        self.by_key.get(key).is_some_and(|release| !release.has_begun())
    }

    /// Whether a pod is of one that is being bound.
    #[cfg(test)]
    pub(super) fn holds(&self, uid: &Uid) -> bool {
        self.by_member.contains_key(uid)
    }

    /// Whether nothing is known of anybody.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.by_member.is_empty() && self.due.is_empty()
    }

    fn of(&mut self, uid: &Uid) -> Option<&mut Release> {
        let key = self.by_member.get(uid)?;
        self.by_key.get_mut(key)
    }

    fn plan(&mut self, key: &str, at: Moment) {
        self.due.insert((at, key.into()));
    }

    /// A pod is of none any longer: of which it was, and how far it had come.
    fn forget(&mut self, uid: &Uid) -> Option<(Box<str>, Stage)> {
        let key = self.by_member.remove(uid)?;
        let release = self.by_key.get_mut(&key)?;
        release.held.retain(|decision| decision.pod.uid != *uid);
        let member = release.members.remove(uid)?;
        Some((key, member.stage))
    }
}

impl Engine {
    /// Has the members of a group bound: those first that have to be made ready.
    pub(super) fn release(&mut self, mut release: Release, now: Moment) {
        let key = release.group.key.clone();
        for uid in release.members.keys() {
            self.gangs.releases.by_member.insert(uid.clone(), key.clone());
        }
        self.due.extend(release.first.drain(..));
        self.gangs.releases.plan(&key, release.until);
        self.gangs.releases.by_key.insert(key.clone(), release);
        self.bind_ready(&key, now);
    }

    /// Binds the members of a group that are ready, where enough are and have nodes that are there.
    fn bind_ready(&mut self, key: &str, now: Moment) {
        if self.is_over(key) {
            return self.end_release(key, now);
        }
        if !self.may_bind(key) {
            return;
        }
        let Some(release) = self.gangs.releases.by_key.get(key) else { return };
        let held = release.held.iter().map(|decision| &decision.pod.uid);
        let lost = held.filter(|uid| !self.is_claim_there(uid)).cloned();
        for uid in lost.collect::<Vec<Uid>>() {
            self.place_again(key, &uid, now);
        }
        if self.is_over(key) {
            return self.end_release(key, now);
        }
        if !self.may_bind(key) {
            return;
        }
        let Some(release) = self.gangs.releases.by_key.get_mut(key) else { return };
        let begins = !release.has_begun();
        self.due.extend(release.bind());
        if begins {
            // Where its gang has started by that, who got no node is by itself.
            let gangs = release.group.gangs.clone();
            self.settle_gangs(&gangs, now);
        }
    }

    /// Whether those of a group that are ready are to be bound: enough are, or the others have to follow anyway.
    fn may_bind(&self, key: &str) -> bool {
        let Some(release) = self.gangs.releases.by_key.get(key) else { return false };
        release.has_begun() || self.has_enough(&release.least, release.ready())
    }

    /// Whether nobody is left of a group; or none has started, and fewer are left than have to at once, or
    /// something else is said of that by now.
    pub(super) fn is_over(&self, key: &str) -> bool {
        let Some(release) = self.gangs.releases.by_key.get(key) else { return false };
        let members = &release.members;
        let is_as_said = || self.ledger.gangs.mins(&release.group.gangs) == release.mins;
        let is_enough = || self.has_enough(&release.least, members.keys());
        let may_start = release.has_begun() || is_as_said() && is_enough();
        members.is_empty() || !may_start
    }

    /// A member is ready to be bound; whether it is one.
    pub(in crate::turn) fn is_gang_ready(&mut self, decision: &Decision, now: Moment) -> bool {
        let Some(release) = self.gangs.releases.of(&decision.pod.uid) else { return false };
        release.add(decision.clone());
        let key = release.group.key.clone();
        self.bind_ready(&key, now);
        true
    }

    /// Volumes of a member cannot be made ready: it has no node any longer, and nobody of its group has where too
    /// few are left to start. Whether it is a member.
    pub(in crate::turn) fn is_gang_unready(&mut self, uid: &Uid, now: Moment) -> bool {
        if !self.gangs.releases.by_member.contains_key(uid) {
            return false;
        }
        self.leave_release(uid, now);
        self.settle_own(uid, now);
        true
    }

    /// Takes in what became of the Binding of a member; whether it is one.
    pub(in crate::turn) fn gang_answered(
        &mut self,
        uid: &Uid,
        answer: Answer,
        now: Moment,
    ) -> bool {
        let Some(release) = self.gangs.releases.of(uid) else { return false };
        let key = release.group.key.clone();
        if answer == Answer::Refused {
            let Some(member) = release.members.get_mut(uid) else { return false };
            member.failures += 1;
            let doubled = 1_u32 << member.failures.min(5).saturating_sub(1);
            let at = now.after((REST_FIRST * doubled).min(REST_MAX));
            member.stage = Stage::Rests(at);
            let gangs = (!release.has_begun()).then(|| release.group.gangs.clone());
            self.gangs.releases.plan(&key, at);
            // Nobody of them is bound after all: who came meanwhile is not by itself.
            self.settle_gangs(&gangs.unwrap_or_default(), now);
            // Where its volumes were being made ready, that is begun anew.
            self.recall(uid);
            self.bind_ready(&key, now);
            return true;
        }
        if answer == Answer::Done {
            release.has_bound = true;
            if let Some(gang) = self.ledger.pod(uid).and_then(|row| row.gang.clone()) {
                self.ledger.gangs.note_started(&gang.gang, uid);
            }
        }
        self.gangs.releases.forget(uid);
        self.bind_ready(&key, now);
        // Where it is gone, its claim is given back as that of any pod.
        answer == Answer::Done
    }

    /// A member is bound, or gone, or of another gang: unless its Binding is under way, what it has is free again.
    pub(in crate::turn) fn leave_release(&mut self, uid: &Uid, now: Moment) {
        let Some((key, stage)) = self.gangs.releases.forget(uid) else { return };
        if self.recall(uid) || stage != Stage::Bound {
            self.vacate(uid, now);
        }
        self.bind_ready(&key, now);
    }

    /// What is not bound of a group is free again.
    pub(super) fn end_release(&mut self, key: &str, now: Moment) {
        let Some(release) = self.gangs.releases.by_key.remove(key) else { return };
        self.gangs.releases.due.retain(|(_, own)| **own != *key);
        let recalled = self.due.drop_all(release.members.keys().cloned());
        for (uid, member) in &release.members {
            self.gangs.releases.by_member.remove(uid);
            let is_prepared = self.preparations.drop(uid, &mut self.ledger);
            // A Binding that is under way may be carried out: until that is known, its node is charged.
            if is_prepared || recalled.contains(uid) || member.stage != Stage::Bound {
                self.vacate(uid, now);
            }
        }
        self.settle_gangs(&release.group.gangs, now);
        // Where it is to be tried again after all, it came to nothing and is left alone for a while.
        if !release.has_begun() || !release.members.is_empty() {
            self.queue.failed_again(&entry_of(key), release.history, now);
        }
    }

    /// A member has no node any longer: others may have it.
    pub(super) fn vacate(&mut self, uid: &Uid, now: Moment) {
        if self.ledger.pod(uid).is_some_and(|row| row.claim.is_some()) {
            let left = self.take_node(uid);
            self.notice_vacated(uid, left, now);
        }
    }

    /// Takes its node from a member; what is otherwise by that.
    fn take_node(&mut self, uid: &Uid) -> Option<Change> {
        self.refused.clear();
        self.ledger.loads.watch(self.queue.is_listening());
        let left = Change::unplaced(&self.ledger, uid);
        let _ = self.ledger.disclaim(uid);
        self.gangs.releases.vacated.push(uid.clone());
        left
    }

    /// Members that lost the nodes that they had been given, since this was last asked: what was begun for them
    /// there is not wanted any longer. Some may have got another one by now.
    pub fn take_vacated(&mut self) -> Vec<Uid> {
        std::mem::take(&mut self.gangs.releases.vacated)
    }

    /// What a member has left others may have.
    fn notice_vacated(&mut self, uid: &Uid, left: Option<Change>, now: Moment) {
        let gang = self.ledger.pod(uid).and_then(|row| row.gang.as_ref());
        if let Some(key) = gang.and_then(|own| self.gangs.groups.get(&own.gang)) {
            // Where its gang has started, it is by itself from now on.
            self.gangs.started.remove(key);
        }
        if let Some(left) = left {
            self.queue.notice(&self.ledger, left, now);
        }
        self.notice_loads(now);
    }

    /// Does what is due for groups that are being bound.
    pub(in crate::turn) fn advance_releases(&mut self, now: Moment) {
        while let Some((at, key)) = self.gangs.releases.due.first().cloned() {
            if at > now {
                return;
            }
            self.gangs.releases.due.pop_first();
            let Some(release) = self.gangs.releases.by_key.get_mut(&key) else { continue };
            if release.until <= now {
                self.end_release(&key, now);
                continue;
            }
            let rests = |member: &Member| matches!(member.stage, Stage::Rests(at) if at <= now);
            let again = release.members.iter().filter(|(_, member)| rests(member));
            for uid in again.map(|(uid, _)| uid.clone()).collect::<Vec<Uid>>() {
                self.place_again(&key, &uid, now);
            }
            self.bind_ready(&key, now);
        }
    }

    /// Whether the node that a member has is there.
    pub(super) fn is_claim_there(&self, uid: &Uid) -> bool {
        let node = self.ledger.pod(uid).and_then(|row| row.claim);
        node.is_some_and(|node| self.ledger.nodes.present().contains(node))
    }

    /// Gives a member a node anew: the one that it had, or another one where there is room. Where nothing takes
    /// it, it gives up what it has and is released no longer.
    fn place_again(&mut self, key: &str, uid: &Uid, now: Moment) {
        let Some(release) = self.gangs.releases.by_key.get_mut(key) else { return };
        let Some(member) = release.members.get_mut(uid) else { return };
        member.attempts += 1;
        let attempts = member.attempts;
        release.held.retain(|decision| decision.pod.uid != *uid);
        let claimed = self.ledger.pod(uid).and_then(|row| Some((row.ask, row.claim?)));
        let own = claimed.zip(self.unbound.get(uid).map(|own| own.profile));
        let Some(((ask, old), profile)) = own else {
            self.gangs.releases.forget(uid);
            return self.vacate(uid, now);
        };
        let old = self.ledger.nodes.id(old);
        let left = self.take_node(uid);
        let Some((place, own)) = self.place_for(uid, (profile, ask), old) else {
            self.gangs.releases.forget(uid);
            self.notice_vacated(uid, left, now);
            return self.settle_own(uid, now);
        };
        let claimed = self.ledger.claim(uid, place.node, own.as_ref());
        claimed.expect("its claim was just taken back");
        if let Within::Adopting(pods) = &place.within {
            self.ledger.adopt(uid, pods);
        }
        if place.node != old.index {
            self.notice_vacated(uid, left, now);
        }
        let Some(decision) = self.place_released(uid, attempts, now) else { return };
        let Some(release) = self.gangs.releases.by_key.get_mut(key) else { return };
        release.add(decision);
        self.due.extend(release.first.drain(..));
    }

    /// A place for a member that was to have this node, which it gets where there is none that is better:
    /// it was there before those who are awaited there.
    fn place_for(
        &mut self,
        uid: &Uid,
        (profile, ask): (usize, Ask),
        old: NodeId,
    ) -> Option<(Place, Option<Allotment>)> {
        let decider = &mut self.profiles[profile].1;
        let place = decider.choose(&mut self.ledger, uid, tie_of(uid)).ok().flatten();
        let nodes = &self.ledger.nodes;
        // The place of a node that is gone goes to another one.
        let is_there = nodes.is_there(old) && nodes.present().contains(old.index);
        let takes_it = || is_there && decider.refusal(&self.ledger, ask, old.index).is_none();
        let place = place.or_else(|| takes_it().then(|| Place::on(old.index)))?;
        let own = decider.allot(&mut self.ledger, ask, &place).ok()?;
        Some((place, own))
    }

    /// What is wrong with a group that is being bound, where anything is.
    #[cfg(test)]
    pub(super) fn unsound_release(&self) -> Option<String> {
        let releases = &self.gangs.releases;
        for (key, release) in &releases.by_key {
            let members = release.members.keys();
            let mut strangers = members.filter(|uid| {
                let claim = self.ledger.pod(uid).and_then(|row| row.claim);
                claim.is_none() || self.unbound.get(uid).is_none()
            });
            if let Some(uid) = strangers.next() {
                return Some(format!("{uid:?} of {key} has nothing"));
            }
            if self.is_over(key) {
                return Some(format!("too few of {key} are left: {:?}", release.members));
            }
        }
        let lost = releases.by_member.iter().find(|(uid, key)| {
            releases.by_key.get(*key).is_none_or(|own| !own.members.contains_key(*uid))
        });
        lost.map(|(uid, key)| format!("{uid:?} is not of {key}"))
    }

    /// When something is due for groups that are being bound.
    pub(in crate::turn) fn releases_due(&self) -> Option<Moment> {
        self.gangs.releases.due.first().map(|(at, _)| *at)
    }
}
