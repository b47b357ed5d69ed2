//! Gathering: members get places, and whoever costs least goes where one gets none.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use api::pod_group::GangId;

use super::offer::{Kinds, Offer, Step};
use super::plan::{Plan, Seed, is_admitted, place_anywhere};
use super::unit::{Importance, Left, Unit};
use super::{Aim, Deciders, Member, Party, Rule};
use crate::fact::Uid;
use crate::gangs::again_max;
use crate::ledger::{Ledger, NodeIndex, PodRow};
use crate::quota::QuotaRef;
use crate::search::Work;
use crate::speculate::Speculation;

/// How far it has come.
pub(super) enum Gathered {
    /// There is more to be done.
    Unfinished,
    /// Everybody has a place.
    All,
    /// Somebody has none, and nobody is left who could go for it.
    Stuck,
}

/// What came of sending somebody away.
enum Sent {
    Somebody,
    Nobody,
    /// There was no time.
    Later,
}

/// What is spared when somebody is sent away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spares {
    /// Disruption budgets, and gangs of which all would go.
    BudgetsAndGangs,
    Budgets,
    Nothing,
}

/// Pods that use a quota: those first whose going breaks no disruption budget, and of those the least important;
/// of as important ones, those first that go alone.
#[derive(Default)]
struct Users {
    line: VecDeque<(i32, Uid)>,
    /// Gangs that go whole, by how important they are and how large, each with one of its members.
    wholes: BTreeSet<(i32, usize, Uid)>,
    /// Which gangs these are.
    gangs: BTreeSet<GangId>,
    kept: VecDeque<Uid>,
}

/// Members that still get places, and who may go for them.
pub(super) struct Gathering {
    /// Who has not been tried while nobody goes.
    untried: VecDeque<usize>,
    /// Who gets a place only where others go.
    line: VecDeque<usize>,
    /// What nodes offer, the cheapest first: which step of which offer.
    heap: BinaryHeap<Reverse<(Importance, NodeIndex, usize, usize)>>,
    /// Who uses quotas that had no room.
    users: BTreeMap<Box<str>, Users>,
    /// What is left of disruption budgets.
    left: Left,
    /// Whether quotas have too little room for them, too.
    is_short_of_quota: bool,
    /// How many followed others and had no place when they were tried last.
    followers: Option<usize>,
    /// How many of the line have let others go first, since anybody got a place.
    stepped_back: usize,
    /// How often followers may still be tried again.
    again: usize,
}

impl Gathering {
    pub(super) fn begin(party: &Party, plan: &Plan, offers: &[Offer]) -> Self {
        let has_place = |number: &usize| plan.placed.iter().any(|seed| seed.member == *number);
        let untried = (0..party.members.len()).filter(|number| !has_place(number)).collect();
        let (line, heap) = (VecDeque::new(), BinaryHeap::new());
        let (users, left) = (BTreeMap::new(), Left::new());
        let mut own = Self {
            untried,
            line,
            heap,
            users,
            left,
            is_short_of_quota: false,
            followers: None,
            stepped_back: 0,
            again: again_max(party.members.len()),
        };
        (0..offers.len()).for_each(|offer| own.push(offers, offer, 0));
        own
    }

    fn push(&mut self, offers: &[Offer], offer: usize, step: usize) {
        if let Some(own) = offers[offer].steps.get(step) {
            self.heap.push(Reverse((own.worth(), offers[offer].node, offer, step)));
        }
    }

    /// Whether nodes would take as many as have no place when everybody left who may: where all that a quota
    /// lacks is room, they take them as it is.
    fn may_suffice(&self, offers: &[Offer]) -> bool {
        let members: usize = offers.iter().map(Offer::members).sum();
        self.is_short_of_quota || members >= self.line.len()
    }

    /// Gives members places.
    pub(super) fn go_on(
        &mut self,
        thought: &mut Speculation<'_>,
        deciders: &mut Deciders,
        aim: Aim<'_>,
        (offers, plan): (&mut Vec<Offer>, &mut Plan),
        work: &mut Work,
    ) -> Gathered {
        while let Some(number) = self.untried.front().copied() {
            if !work.is_left() {
                return Gathered::Unfinished;
            }
            work.spend(1);
            self.untried.pop_front();
            self.seat_as_it_is(thought, deciders, (number, aim.party), plan);
            if self.untried.is_empty() {
                self.try_followers_again(thought.ledger(), aim.party);
            }
            if self.untried.is_empty() && !self.may_suffice(offers) {
                return Gathered::Stuck;
            }
        }
        while let Some(number) = self.line.front().copied() {
            if !work.is_left() {
                return Gathered::Unfinished;
            }
            work.spend(1);
            let member = &aim.party.members[number];
            let sent = match is_admitted(thought, deciders, member) {
                Err(quota) => {
                    let own = (&*quota, &member.0);
                    self.send_user(thought, own, aim, plan, work)
                }
                Ok(()) => match place_anywhere(thought, deciders, member) {
                    Some((node, own)) => {
                        plan.placed.push(Seed { member: number, node, own });
                        self.line.pop_front();
                        self.stepped_back = 0;
                        continue;
                    }
                    None if self.steps_back(thought.ledger(), &member.0) => continue,
                    None => self.send_resident(thought, deciders, aim, (offers, plan), work),
                },
            };
            match sent {
                Sent::Somebody => {}
                Sent::Nobody => return Gathered::Stuck,
                Sent::Later => return Gathered::Unfinished,
            }
        }
        Gathered::All
    }

    /// Gives a member a place for which nobody goes, where there is one.
    fn seat_as_it_is(
        &mut self,
        thought: &mut Speculation<'_>,
        deciders: &mut Deciders,
        (number, party): (usize, &Party),
        plan: &mut Plan,
    ) {
        let member = &party.members[number];
        let is_admitted = is_admitted(thought, deciders, member).is_ok();
        self.is_short_of_quota |= !is_admitted;
        match is_admitted.then(|| place_anywhere(thought, deciders, member)).flatten() {
            Some((node, own)) => plan.placed.push(Seed { member: number, node, own }),
            None => self.line.push_back(number),
        }
    }

    /// Whoever follows others gets a place when they have theirs: they are tried again for as long as anybody got one
    /// by that.
    fn try_followers_again(&mut self, ledger: &Ledger, party: &Party) {
        let follows = |number: &usize| ledger.follows_others(&party.members[*number].0);
        let followers = self.line.iter().filter(|number| follows(number)).count();
        if followers == 0 || self.followers.is_some_and(|before| before <= followers) {
            return;
        }
        self.followers = Some(followers);
        let Some(again) = self.again.checked_sub(followers) else { return };
        self.again = again;
        let (again, others) = self.line.drain(..).partition(follows);
        (self.untried, self.line) = (again, others);
    }

    /// Has one who follows others let those behind him go first, before anybody is sent away for him; whether he does.
    fn steps_back(&mut self, ledger: &Ledger, uid: &Uid) -> bool {
        let is_last = self.stepped_back + 1 >= self.line.len();
        if is_last || self.again == 0 || !ledger.follows_others(uid) {
            return false;
        }
        (self.stepped_back, self.again) = (self.stepped_back + 1, self.again - 1);
        self.line.rotate_left(1);
        true
    }

    /// Sends away whoever costs least of those that nodes offer.
    fn send_resident(
        &mut self,
        thought: &mut Speculation<'_>,
        deciders: &Deciders,
        aim: Aim<'_>,
        (offers, plan): (&mut Vec<Offer>, &mut Plan),
        work: &mut Work,
    ) -> Sent {
        while let Some(Reverse(top)) = self.heap.pop() {
            if !work.is_left() {
                self.heap.push(Reverse(top));
                return Sent::Later;
            }
            work.spend(1);
            let (worth, node, offer, step) = top;
            let own = &offers[offer].steps[step];
            let (mut left, mark) = (self.left.clone(), thought.mark());
            let Some(units) = sent_again(thought, (own, node), aim, &mut left, work) else {
                thought.take_back(mark);
                self.ask_again(thought, deciders, node, aim, offers, work);
                continue;
            };
            if Importance::of(&units, own.members) > worth {
                thought.take_back(mark);
                offers[offer].steps[step].units = units;
                self.push(offers, offer, step);
                continue;
            }
            self.push(offers, offer, step + 1);
            if !units.is_empty() {
                self.left = left;
                units.into_iter().for_each(|unit| plan.send(unit));
                return Sent::Somebody;
            }
        }
        Sent::Nobody
    }

    /// Some who were offered may not go any longer: the node is asked what it offers by now.
    fn ask_again(
        &mut self,
        thought: &mut Speculation<'_>,
        deciders: &Deciders,
        node: NodeIndex,
        aim: Aim<'_>,
        offers: &mut Vec<Offer>,
        work: &mut Work,
    ) {
        let members: Vec<Member> =
            self.line.iter().map(|number| aim.party.members[*number].clone()).collect();
        let units = Unit::on(thought.ledger_mut(), node, aim, work);
        let mut kinds = Kinds::of(thought.ledger(), &members);
        let mark = thought.mark();
        let asked = (&members[..], &mut kinds, aim);
        let offer = Offer::of(thought, deciders, (node, units), asked, work);
        thought.take_back(mark);
        if let Some(offer) = offer {
            offers.push(offer);
            self.push(offers, offers.len() - 1, 0);
        }
    }

    /// Sends away one who uses a quota that has no room, or one below it.
    fn send_user(
        &mut self,
        thought: &mut Speculation<'_>,
        (quota, member): (&str, &Uid),
        aim: Aim<'_>,
        plan: &mut Plan,
        work: &mut Work,
    ) -> Sent {
        if !self.users.contains_key(quota) {
            let users = Users::of(thought.ledger_mut(), (quota, member), aim.rule);
            self.users.insert(quota.into(), users);
        }
        let Some(users) = self.users.get_mut(quota) else { return Sent::Nobody };
        while !users.is_nobody() {
            if !work.is_left() {
                return Sent::Later;
            }
            work.spend(1);
            let Some((uid, spares)) = users.next(thought.ledger()) else { continue };
            let mut left = self.left.clone();
            let unit = Unit::of(thought.ledger_mut(), &uid, aim, &mut left, work);
            let Ok(unit) = unit else { continue };
            if spares == Spares::BudgetsAndGangs
                && let Some(gang) = unit.whole_gang()
            {
                users.gangs.insert(gang.clone());
                users.wholes.insert((unit.importance.highest(), unit.pods.len(), uid));
                continue;
            }
            if spares != Spares::Nothing && unit.importance.breaks_budgets() {
                users.kept.push_back(uid);
                continue;
            }
            self.left = left;
            unit.leave(thought);
            plan.send(unit);
            return Sent::Somebody;
        }
        Sent::Nobody
    }
}

impl Users {
    /// Those who may be asked: of the quota of a member alone where only priority counts.
    fn of(ledger: &mut Ledger, (quota, member): (&str, &Uid), rule: &Rule) -> Self {
        let charged = ledger.pod(member).and_then(|row| row.charged());
        let own = charged.and_then(|charged| ledger.quotas.quota(charged.belonging)).cloned();
        let Some(own) = own else { return Self::default() };
        let quota = match rule {
            Rule::Lower { .. } => own,
            Rule::Quota { .. } => QuotaRef { name: quota.into(), ..own },
        };
        let users = ledger.quotas.users_below(&quota);
        let mut line: Vec<(i32, Uid)> = users
            .into_iter()
            .map(|(priority, uid)| {
                let goes = ledger.pod(&uid).is_some_and(PodRow::goes);
                (if goes { i32::MIN } else { priority }, uid)
            })
            .collect();
        // Of those that are as important, whoever has run for the longest time stays longest.
        let started = |uid: &Uid| {
            let started = ledger.pod(uid).and_then(|row| row.started);
            (started.is_some(), Reverse(started))
        };
        line.sort_by_cached_key(|(priority, uid)| (*priority, started(uid)));
        Self { line: line.into(), ..Self::default() }
    }

    /// Whether nobody is left.
    fn is_nobody(&self) -> bool {
        self.line.is_empty() && self.wholes.is_empty() && self.kept.is_empty()
    }

    /// The next one, and what is spared; none where that is one of a gang that waits for its turn.
    fn next(&mut self, ledger: &Ledger) -> Option<(Uid, Spares)> {
        let single = self.line.front().map(|(priority, _)| *priority);
        let whole = self.wholes.first().map(|(priority, ..)| *priority);
        if whole.is_some_and(|whole| single.is_none_or(|single| whole < single)) {
            let (_, _, uid) = self.wholes.pop_first()?;
            return Some((uid, Spares::Budgets));
        }
        let Some((_, uid)) = self.line.pop_front() else {
            return Some((self.kept.pop_front()?, Spares::Nothing));
        };
        let gang = ledger.pod(&uid).and_then(|row| row.gang.as_deref());
        let waits = gang.is_some_and(|own| self.gangs.contains(&own.gang));
        (!waits).then_some((uid, Spares::BudgetsAndGangs))
    }
}

/// Sends away the units of a step, as they are by now; none where one may not go any longer.
fn sent_again(
    thought: &mut Speculation<'_>,
    (step, node): (&Step, NodeIndex),
    aim: Aim<'_>,
    left: &mut Left,
    work: &mut Work,
) -> Option<Vec<Unit>> {
    let mut units: Vec<Unit> = Vec::with_capacity(step.units.len());
    for unit in &step.units {
        // Nothing of it may be there, since all of it have gone with others.
        let unit = unit.by_now(thought.ledger_mut(), node, aim, left, work).ok()?;
        unit.iter().for_each(|unit| unit.leave(thought));
        units.extend(unit);
    }
    Some(units)
}
