//! Gangs that others have to start before: whoever names one hears of what he can see of it, and of nothing
//! else.
//!
//! Thousands of gangs may name the same one. Those that start with it are looked at at once; the others only where
//! something is otherwise that they wait for or are told, and some of them at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use api::pod_group::{GangId, GangTerms};

use super::Engine;
use crate::gangs::{GangWait, Group};
use crate::moment::Moment;

/// How many gangs are looked at in one turn because of another that they name.
const NAMERS_PER_TURN: usize = 32;
/// How many names of a gang cost as much as a gang, each with each of the others.
const NAMES_PER_NAMER: usize = 8;

/// What those see of a gang that it has to start before.
#[derive(Debug, PartialEq)]
struct Shown {
    has_started: bool,
    terms: Option<GangTerms>,
    /// Whether it waits for itself, over others.
    is_in_circle: bool,
    /// What it waits for, of which only those of its namespace are told.
    wait: Option<GangWait>,
}

impl Shown {
    /// Who sees that it is this now, and was that before; none where nobody does.
    fn seen_by(&self, was: &Self) -> Option<Whom> {
        let is_known_to_all = self.has_started == was.has_started
            && self.is_in_circle == was.is_in_circle
            && self.terms == was.terms;
        match is_known_to_all {
            false => Some(Whom::All),
            true => (self.wait != was.wait).then_some(Whom::Kin),
        }
    }
}

/// Which of the gangs that name one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Whom {
    /// Those of its namespace.
    Kin,
    /// All of them.
    All,
}

/// How many of those that name a gang were looked at.
#[derive(Debug, Default)]
struct Round {
    /// The last of them.
    after: Option<GangId>,
    /// Whether all are to be looked at once more.
    again: bool,
}

/// What gangs show to those that name them, and who is still to be looked at because of that.
#[derive(Debug, Default)]
pub(super) struct Namers {
    shown: BTreeMap<GangId, Shown>,
    rounds: BTreeMap<(GangId, Whom), Round>,
    /// Whose turn it is.
    line: VecDeque<(GangId, Whom)>,
}

impl Namers {
    /// Whether nobody is to be looked at.
    pub(super) fn are_done(&self) -> bool {
        self.line.is_empty()
    }

    /// Whether nothing is known of anybody.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.shown.is_empty() && self.rounds.is_empty() && self.line.is_empty()
    }

    /// A gang shows this now; nothing where nobody else names it, or nothing is known of it.
    fn show(&mut self, gang: &GangId, shown: Option<Shown>, is_named: bool) {
        let whom = match (self.shown.get(gang), &shown) {
            (Some(was), Some(is)) => is.seen_by(was),
            (was, is) => (was.is_some() != is.is_some()).then_some(Whom::All),
        };
        let Some(whom) = whom else { return };
        match shown {
            Some(shown) => drop(self.shown.insert(gang.clone(), shown)),
            None => drop(self.shown.remove(gang)),
        }
        if !is_named {
            return;
        }
        let own = (gang.clone(), whom);
        match self.rounds.get_mut(&own) {
            Some(round) => round.again = true,
            None => {
                self.rounds.insert(own.clone(), Round::default());
                self.line.push_back(own);
            }
        }
    }
}

impl Engine {
    /// Notes what a gang of a group shows to those that name it and do not start with it.
    pub(super) fn show(&mut self, gang: &GangId, group: &Group, is_in_circle: bool) {
        let is_named = self.ledger.gangs.naming_count(gang) > group.gangs.len();
        let shown = self.shown(gang, is_in_circle).filter(|_| is_named);
        self.gangs.namers.show(gang, shown, is_named);
    }

    /// Notes what a group sees of gangs that it is the first to name.
    pub(super) fn see(&mut self, group: &Group) {
        for gang in &group.first {
            if !self.gangs.namers.shown.contains_key(gang)
                && let Some(shown) = self.shown(gang, false)
            {
                self.gangs.namers.shown.insert(gang.clone(), shown);
            }
        }
    }

    /// What can be seen of a gang; none where nothing is known of it.
    fn shown(&self, gang: &GangId, is_in_circle: bool) -> Option<Shown> {
        let gangs = &self.ledger.gangs;
        gangs.is_known(gang).then(|| Shown {
            has_started: gangs.has_started(gang),
            terms: gangs.terms(gang).cloned(),
            is_in_circle,
            wait: self.ledger.told_of_first(gang),
        })
    }

    /// Whether nobody is still to be looked at because of a gang that he names.
    pub(in crate::turn) fn gangs_are_settled(&self) -> bool {
        self.gangs.namers.are_done()
    }

    /// Looks at some of those that name gangs of which something is otherwise.
    pub(in crate::turn) fn settle_namers(&mut self, now: Moment) {
        let mut left = NAMERS_PER_TURN;
        while left > 0
            && let Some(own) = self.gangs.namers.line.pop_front()
        {
            let Some(mut round) = self.gangs.namers.rounds.remove(&own) else { continue };
            let (some, cost) = self.next_namers(&own, round.after.as_ref(), left);
            if cost >= left {
                round.after = some.last().cloned();
            } else if std::mem::take(&mut round.again) {
                round.after = None;
            } else {
                self.settle_each(&some, now);
                left -= cost;
                continue;
            }
            self.gangs.namers.rounds.insert(own.clone(), round);
            self.gangs.namers.line.push_back(own);
            return self.settle_each(&some, now);
        }
    }

    /// As many of those that name a gang, after this one, as cost so much, and what they do.
    fn next_namers(
        &self,
        (gang, whom): &(GangId, Whom),
        after: Option<&GangId>,
        most: usize,
    ) -> (BTreeSet<GangId>, usize) {
        let first = GangId::new(gang.namespace(), "");
        let after = match whom {
            Whom::All => after,
            Whom::Kin => Some(after.unwrap_or(&first)),
        };
        let naming = self.ledger.gangs.naming(gang, after);
        let is_meant = |own: &&GangId| *whom == Whom::All || own.namespace() == gang.namespace();
        let (mut some, mut cost) = (BTreeSet::new(), 0);
        for own in naming.take_while(is_meant) {
            if cost >= most {
                break;
            }
            let names = self.ledger.gangs.names_count(own) / NAMES_PER_NAMER;
            cost += 1 + names * names;
            some.insert(own.clone());
        }
        (some, cost)
    }
}
