//! Whether gangs can start, and what they wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::Malformed;
use api::pod_group::{GANG_MIN_AVAILABLE, GangId, GangTerms, MatchPolicy};

use super::GangWait;
use crate::fact::Uid;
use crate::ledger::{Ledger, PodRow};

/// How deep it is told what gangs wait for that others wait for.
const TOLD_DEPTH: usize = 1;
/// How many gangs are looked at to find out whether some wait for each other in a circle.
const CIRCLE_MAX: usize = 64;
/// How many names of theirs are.
const CIRCLE_NAMES_MAX: usize = 512;

/// Gangs that start at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// All that they name, in order, as one text.
    pub key: Box<str>,
    /// Those that name the same, and so start at once.
    pub gangs: Vec<GangId>,
    /// Those that are named and do not name the same: they have to start first.
    pub first: Vec<GangId>,
}

impl Group {
    /// What the queue, and whoever keeps something for it, calls it.
    #[must_use]
    pub fn entry(&self) -> Uid {
        entry_of(&self.key)
    }
}

/// What the queue calls the group of this key.
pub(crate) fn entry_of(key: &str) -> Uid {
    Uid::new(&format!("gang {key}"))
}

/// How many members of a gang have to get a node at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The gang.
    pub gang: GangId,
    /// How many.
    pub needed: usize,
}

/// Whether a group can start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// It has started: each member that comes is by itself.
    Started,
    /// So many members of each gang have to get a node at once.
    Ready(Vec<Need>),
    /// Something is missing.
    Waits(GangWait),
}

impl Ledger {
    /// The gangs that start with one.
    #[must_use]
    pub fn group_of(&self, gang: &GangId) -> Group {
        self.group_of_all(&self.gangs.named(gang))
    }

    /// The gangs that start with any that names all of these and no others.
    pub(crate) fn group_of_all(&self, named: &BTreeSet<GangId>) -> Group {
        let same = |other: &&GangId| self.gangs.names_all(other, named);
        let (gangs, first) = named.iter().partition::<Vec<&GangId>, _>(same);
        let names: Vec<&str> = named.iter().map(GangId::as_str).collect();
        Group {
            key: names.join(",").into(),
            gangs: gangs.into_iter().cloned().collect(),
            first: first.into_iter().cloned().collect(),
        }
    }

    /// Members of gangs that wait for a node and may be tried, in the order of their uids.
    pub fn gang_waiting<'a>(
        &'a self,
        gangs: &'a [GangId],
    ) -> impl Iterator<Item = (&'a GangId, &'a Uid, &'a PodRow)> {
        gangs.iter().flat_map(move |gang| {
            let waiting = self.gangs.waiting(gang);
            waiting.filter_map(move |uid| Some((gang, uid, self.pod(uid)?)))
        })
    }

    /// Whether a group can start.
    #[must_use]
    pub fn readiness(&self, group: &Group) -> Readiness {
        let has_started = group.gangs.iter().any(|gang| self.gangs.has_started(gang));
        if let Some(wait) = group.first.iter().find_map(|other| self.names_others(group, other)) {
            return Readiness::Waits(wait);
        }
        let is_apart =
            |gang| self.gangs.terms(gang).is_some_and(|own| own.min_available == Some(0));
        if !has_started
            && !group.gangs.iter().all(is_apart)
            && let Some(wait) = self.circle(group)
        {
            return Readiness::Waits(wait);
        }
        let mut needs = Vec::new();
        for gang in &group.gangs {
            match self.need(gang, group, has_started) {
                Ok(needed) => needs.push(Need { gang: gang.clone(), needed }),
                Err(wait) => return Readiness::Waits(wait),
            }
        }
        if needs.iter().all(|need| need.needed == 0) {
            return Readiness::Started;
        }
        for gang in &group.first {
            // What goes on in another namespace is told to those alone who may ask there.
            let is_kin = group.gangs.iter().all(|own| own.namespace() == gang.namespace());
            let depth = if is_kin { TOLD_DEPTH } else { 0 };
            if let Some(wait) = self.must_start_first(gang, depth) {
                return Readiness::Waits(wait);
            }
        }
        Readiness::Ready(needs)
    }

    /// The same where somebody outside is asked about these members, which cannot be done for many at once.
    #[must_use]
    pub fn readiness_beside(
        &self,
        group: &Group,
        is_consulted: impl Fn(&Uid) -> bool,
    ) -> Readiness {
        match self.readiness(group) {
            Readiness::Ready(needs) => {
                let mut waiting = self.gang_waiting(&group.gangs);
                let consulted = waiting.find(|(_, uid, _)| is_consulted(uid));
                match consulted {
                    Some((gang, _, row)) => {
                        let pod = format!("{}/{}", row.namespace, row.name).into();
                        Readiness::Waits(GangWait::Consulted { gang: gang.clone(), pod })
                    }
                    None => Readiness::Ready(needs),
                }
            }
            readiness => readiness,
        }
    }

    /// What is wrong where a gang that has to start first names one of a group and not the same as that: each
    /// would wait for the other.
    fn names_others(&self, group: &Group, other: &GangId) -> Option<GangWait> {
        let gang = group.gangs.iter().find(|gang| self.gangs.names(other, gang))?;
        if self.gangs.has_started(gang) || self.gangs.has_started(other) {
            return None;
        }
        let theirs = self.gangs.named(other);
        let ours = self.gangs.named(gang);
        let only = ours.symmetric_difference(&theirs).cloned().collect();
        Some(GangWait::Unlike { gang: gang.clone(), other: other.clone(), only })
    }

    /// What is wrong where a group waits for a gang that waits, over others, for one of the group.
    fn circle(&self, group: &Group) -> Option<GangWait> {
        let is_ahead = |gang: &&GangId| !self.gangs.has_started(gang);
        // Each gang that is waited for, with the place in this line of the one that waits for it.
        let first = group.first.iter().filter(is_ahead);
        let mut line: Vec<(GangId, Option<usize>)> =
            first.map(|gang| (gang.clone(), None)).collect();
        let mut seen: BTreeSet<GangId> = line.iter().map(|(gang, _)| gang.clone()).collect();
        let (mut at, mut names) = (0, 0);
        while let Some((gang, _)) = line.get(at).filter(|_| at < CIRCLE_MAX) {
            let theirs = self.group_of(gang);
            at += 1;
            names += theirs.gangs.len() + theirs.first.len();
            if names > CIRCLE_NAMES_MAX {
                return None;
            }
            if !theirs.gangs.iter().all(|gang| is_ahead(&gang)) {
                continue;
            }
            if let Some(own) = theirs.first.iter().find(|own| group.gangs.contains(own)) {
                let places = std::iter::successors(Some(at - 1), |place| line[*place].1);
                let mut others: Vec<GangId> = places.map(|place| line[place].0.clone()).collect();
                others.reverse();
                return Some(GangWait::Circle { gang: own.clone(), others: others.into() });
            }
            for other in theirs.first.iter().filter(is_ahead) {
                if line.len() < CIRCLE_MAX && seen.insert(other.clone()) {
                    line.push((other.clone(), Some(at - 1)));
                }
            }
        }
        None
    }

    /// What a gang waits for by itself, as those are told that it has to start before.
    pub(crate) fn told_of_first(&self, gang: &GangId) -> Option<GangWait> {
        self.must_start_first(gang, TOLD_DEPTH)
    }

    /// What a gang waits for that has to start before another.
    fn must_start_first(&self, gang: &GangId, depth: usize) -> Option<GangWait> {
        if self.gangs.has_started(gang) {
            return None;
        }
        let own = Group { key: Box::default(), gangs: vec![gang.clone()], first: Vec::new() };
        let why = (depth > 0).then(|| self.need(gang, &own, false).err()).flatten();
        Some(GangWait::Gang { gang: gang.clone(), why: why.map(Box::new) })
    }

    /// How many members of a gang have to get a node at once.
    fn need(&self, gang: &GangId, group: &Group, has_started: bool) -> Result<usize, GangWait> {
        let terms = self.gang_terms(gang)?;
        let min = terms.min_available.map_or(usize::MAX, |min| min as usize);
        let policy = self.gangs.policy(terms);
        if policy == MatchPolicy::OnceSatisfied && has_started && !self.gangs.starts_anew(gang) {
            return Ok(0);
        }
        let counts = self.gangs.counts(gang);
        let counted = match policy {
            MatchPolicy::OnceSatisfied => 0,
            MatchPolicy::WaitingAndRunning => counts.placed,
            MatchPolicy::OnlyWaiting => self.begun(gang, group),
        };
        let needed = min.saturating_sub(counted);
        if counts.waiting < needed {
            let there = counts.waiting + counted;
            return Err(GangWait::Collecting { gang: gang.clone(), there, min });
        }
        Ok(needed)
    }

    /// What is said of a gang.
    fn gang_terms(&self, gang: &GangId) -> Result<&GangTerms, GangWait> {
        let Some(terms) = self.gangs.terms(gang) else {
            return Err(GangWait::Undescribed(gang.clone()));
        };
        match terms.min_available {
            Some(_) => Ok(terms),
            None => {
                let why = terms.malformed.first().cloned();
                let fix = "write a whole number such as 4";
                let why = why.unwrap_or_else(|| Malformed::new(GANG_MIN_AVAILABLE, "", fix));
                Err(GangWait::Unreadable(gang.clone(), Box::new(why)))
            }
        }
    }

    /// How many members of a gang were bound of those that its group started with last, where not all of
    /// them were: the others may follow. Whoever is to follow was there when those started; nothing else tells
    /// one start from others of as many members.
    fn begun(&self, gang: &GangId, group: &Group) -> usize {
        let waiting = self.gang_waiting(&group.gangs).filter_map(|(_, _, row)| row.gang.as_ref());
        let since = waiting.map(|own| own.created).min().unwrap_or_default();
        let mut by_count: BTreeMap<u32, BTreeSet<(&GangId, &Uid)>> = BTreeMap::new();
        for other in &group.gangs {
            for uid in self.gangs.members(other) {
                let is_later = |row: &PodRow| row.started.is_none_or(|started| started >= since);
                let row = self.pod(uid).filter(|row| row.is_bound() && is_later(row));
                let row = row.filter(|_| self.gangs.placed(other).contains(uid));
                let own = row.and_then(|row| row.gang.as_ref()?.incarnation.as_ref());
                if let Some(own) = own.filter(|own| own.group == group.key) {
                    by_count.entry(own.members).or_default().insert((other, uid));
                }
            }
        }
        let unfinished = by_count.into_iter().find(|(count, bound)| bound.len() < *count as usize);
        unfinished.map_or(0, |(_, bound)| bound.iter().filter(|(own, _)| *own == gang).count())
    }

    /// How long those of a group that got nodes may take to be bound: the least that any of its gangs says.
    #[must_use]
    pub fn gang_wait(&self, group: &Group) -> Duration {
        let plain = self.gangs.settings().wait;
        let waits = group.gangs.iter().filter_map(|gang| self.gangs.terms(gang));
        waits.map(|terms| terms.waiting_time.unwrap_or(plain)).min().unwrap_or(plain)
    }
}
