//! Reducing: units that need not go come back.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{Plan, is_admitted, place_anywhere, place_on};
use super::unit::Unit;
use super::{Deciders, Party, Rule};
use crate::fact::Allotment;
use crate::gangs::again_max;
use crate::ledger::{Charged, Ledger, NodeIndex};
use crate::search::Work;
use crate::speculate::Speculation;

/// How many members, for all units together, are placed anew to see whether one unit more can stay. Where
/// there are more, members keep their places.
const ANEW_MAX: usize = 8_192;

/// Units that come back, the most important first.
pub(super) struct Reducing {
    /// What was thought of when all members had places.
    all: Plan,
    /// How many units are known to be needed where members have their places.
    needed: usize,
    /// The same where they may have any.
    needed_anyway: usize,
}

impl Reducing {
    pub(super) fn begin(plan: &mut Plan) -> Self {
        plan.gone.sort_by(|one, other| other.importance.cmp(&one.importance));
        Self { all: plan.clone(), needed: 0, needed_anyway: 0 }
    }

    /// Puts back units; whether that is over.
    pub(super) fn go_on(
        &mut self,
        ledger: &mut Ledger,
        deciders: &mut Deciders,
        (party, rule, plan): (&Party, &Rule, &mut Plan),
        work: &mut Work,
    ) -> bool {
        let is_over = ledger.speculate(|thought| {
            // Whether it can still be thought shows in the end.
            if self.needed >= plan.gone.len() || !plan.think(thought, &party.members) {
                return true;
            }
            while self.needed < plan.gone.len() && work.is_left() {
                let unit = plan.gone.remove(self.needed);
                let mark = thought.mark();
                match stays(thought, deciders, (party, plan), &unit, work) {
                    Some(owns) => {
                        owns.into_iter().for_each(|(at, own)| plan.placed[at].own = own);
                    }
                    None => {
                        thought.take_back(mark);
                        plan.gone.insert(self.needed, unit);
                        self.needed += 1;
                    }
                }
            }
            self.needed >= plan.gone.len()
        });
        is_over && self.go_on_anew(ledger, deciders, (party, rule, plan), work)
    }

    /// The same where all members get places anew.
    fn go_on_anew(
        &mut self,
        ledger: &mut Ledger,
        deciders: &mut Deciders,
        (party, rule, plan): (&Party, &Rule, &mut Plan),
        work: &mut Work,
    ) -> bool {
        if plan.gone.len() * party.members.len() > ANEW_MAX {
            return true;
        }
        while self.needed_anyway < plan.gone.len() {
            if !work.is_left() {
                return false;
            }
            work.spend(party.members.len() + plan.weight());
            let unit = plan.gone.remove(self.needed_anyway);
            let anew = Plan { gone: plan.gone.clone(), placed: Vec::new() };
            match places(ledger, deciders, (party, rule, &anew)) {
                Some(_) => *plan = anew,
                None => {
                    plan.gone.insert(self.needed_anyway, unit);
                    self.needed_anyway += 1;
                }
            }
        }
        true
    }

    /// Where members go, by the ledger as it is now: with those gone that were found to be needed, or else
    /// with all of them.
    pub(super) fn proven(
        &self,
        ledger: &mut Ledger,
        deciders: &mut Deciders,
        (party, rule, plan): (&Party, &Rule, &mut Plan),
    ) -> Option<Vec<NodeIndex>> {
        let found = places(ledger, deciders, (party, rule, plan));
        if found.is_none() {
            plan.clone_from(&self.all);
        }
        found.or_else(|| places(ledger, deciders, (party, rule, plan)))
    }
}

/// Where all members go: to their places where these are good, and else to any. Nowhere where somebody who
/// has to go for them may not.
fn places(
    ledger: &mut Ledger,
    deciders: &mut Deciders,
    (party, rule, plan): (&Party, &Rule, &Plan),
) -> Option<Vec<NodeIndex>> {
    let own: BTreeMap<usize, NodeIndex> =
        plan.placed.iter().map(|seed| (seed.member, seed.node)).collect();
    ledger.speculate(|thought| {
        if !rule.sends(thought, &plan.gone) {
            return None;
        }
        let mut place = |thought: &mut Speculation<'_>, number: usize| {
            let member = &party.members[number];
            is_admitted(thought, deciders, member).ok()?;
            let own = own.get(&number).copied();
            let kept = own.filter(|node| place_on(thought, deciders, member, *node).is_some());
            kept.or_else(|| Some(place_anywhere(thought, deciders, member)?.0))
        };
        let mut places: Vec<Option<NodeIndex>> = vec![None; party.members.len()];
        let mut open: Vec<usize> = (0..party.members.len()).collect();
        let mut again = again_max(open.len());
        // Some may get a place beside others that come after them.
        while !open.is_empty() {
            let before = open.len();
            for number in std::mem::take(&mut open) {
                places[number] = place(thought, number);
                if places[number].is_none() {
                    if !thought.ledger().follows_others(&party.members[number].0) {
                        return None;
                    }
                    open.push(number);
                }
            }
            if open.len() == before || again < open.len() {
                return None;
            }
            again -= open.len();
        }
        places.into_iter().collect()
    })
}

/// What members have on the nodes of a unit when that is back there; none where one does not fit beside it,
/// or its quota has no room.
fn stays(
    thought: &mut Speculation<'_>,
    deciders: &Deciders,
    (party, plan): (&Party, &Plan),
    unit: &Unit,
    work: &mut Work,
) -> Option<Vec<(usize, Option<Allotment>)>> {
    work.spend(1 + unit.pods.len());
    let homes = unit.pods.iter().map(|uid| thought.bring_back(uid).ok());
    let homes: BTreeSet<NodeIndex> = homes.collect::<Option<_>>()?;
    let (beside, elsewhere): (Vec<usize>, Vec<usize>) =
        (0..plan.placed.len()).partition(|at| homes.contains(&plan.placed[*at].node));
    for at in &beside {
        thought.evict(&party.members[plan.placed[*at].member].0).ok()?;
    }
    let mut owns = Vec::with_capacity(beside.len());
    for at in beside {
        work.spend(1);
        let seed = &plan.placed[at];
        let member = &party.members[seed.member];
        is_admitted(thought, deciders, member).ok()?;
        owns.push((at, place_on(thought, deciders, member, seed.node)?));
    }
    // Of those that are charged alike, one speaks for all.
    let mut asked: BTreeSet<Option<Charged>> = [None].into();
    for at in elsewhere {
        let seed = &plan.placed[at];
        let member = &party.members[seed.member];
        let charged = thought.ledger().pod(&member.0).and_then(|row| row.charged());
        if asked.insert(charged) {
            work.spend(1);
            thought.evict(&member.0).ok()?;
            is_admitted(thought, deciders, member).ok()?;
            thought.place(&member.0, seed.node, seed.own.as_ref()).ok()?;
        }
    }
    Some(owns)
}
