//! In which order members of a group get nodes, and which of them are needed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use api::pod_group::GangId;

use super::{Group, Need};
use crate::fact::Uid;
use crate::ledger::{Ledger, PodRow};

/// How many members that are not needed are tried in one plan: the others come after whoever waits.
const EXTRAS_MAX: usize = 512;
/// How often members are tried again after others, in one plan, however few there are.
const AGAIN_MAX: usize = 4_096;
/// The same for each of many.
const AGAIN_PER_MEMBER_MAX: usize = 4;

/// How often so many members are tried again in one plan. In a chain of those who each want to be near the next one
/// all but one may be tried in vain each time, and nobody else is decided about meanwhile.
pub(crate) fn again_max(members: usize) -> usize {
    AGAIN_MAX.max(members.saturating_mul(AGAIN_PER_MEMBER_MAX))
}

/// Members that are still to be tried, and how many of them are needed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line {
    line: VecDeque<(GangId, Uid)>,
    /// Who is tried when all that are needed have a node.
    extras: VecDeque<Uid>,
    /// How many members of each gang are still needed, and how many of it are still to be tried.
    needs: BTreeMap<GangId, (usize, usize)>,
    /// How many of these were tried.
    extras_tried: usize,
    /// Who was tried and got none.
    unplaced: Vec<(GangId, Uid)>,
    /// Who got none and may get one beside others: they are tried again after them.
    late: VecDeque<(GangId, Uid)>,
    /// Whether anybody got one since the first of those was tried last.
    has_moved: bool,
    /// How often members may still be tried again.
    again: usize,
}

/// Who is to be tried next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// A member that is needed of this gang.
    Needed(GangId, Uid),
    /// One that is not.
    Extra(Uid),
    /// Fewer are left than are needed, since nobody else gets a node any more.
    Short,
    /// Nobody is left.
    Nobody,
}

impl Line {
    /// These members in this order, of which so many of each gang are needed.
    pub(crate) fn new(least: &BTreeMap<GangId, usize>, members: Vec<(GangId, Uid)>) -> Self {
        let needs = least.iter().map(|(gang, needed)| (gang.clone(), (*needed, 0)));
        let mut needs: BTreeMap<GangId, (usize, usize)> = needs.collect();
        for (gang, _) in &members {
            needs.entry(gang.clone()).or_default().1 += 1;
        }
        Self { again: again_max(members.len()), line: members.into(), needs, ..Self::default() }
    }

    /// Who is to be tried next.
    pub(crate) fn next(&mut self) -> Next {
        if self.line.is_empty() && !self.late.is_empty() {
            if !std::mem::take(&mut self.has_moved) || self.again < self.late.len() {
                return self.give_up_late();
            }
            self.again -= self.late.len();
            self.line = std::mem::take(&mut self.late);
        }
        while let Some((gang, uid)) = self.line.pop_front() {
            let (needed, left) = self.needs.entry(gang.clone()).or_default();
            *left = left.saturating_sub(1);
            if *needed > 0 {
                return Next::Needed(gang, uid);
            }
            self.extras.push_back(uid);
        }
        if !self.late.is_empty() {
            return self.next();
        }
        self.extras_tried += 1;
        let extra = self.extras.pop_front().filter(|_| self.extras_tried <= EXTRAS_MAX);
        extra.map_or(Next::Nobody, Next::Extra)
    }

    /// Nobody of those who were put back gets a node.
    fn give_up_late(&mut self) -> Next {
        for (gang, uid) in std::mem::take(&mut self.late) {
            if let Some((_, left)) = self.needs.get_mut(&gang) {
                *left = left.saturating_sub(1);
            }
            self.unplaced.push((gang, uid));
        }
        match self.is_short() {
            true => Next::Short,
            false => self.next(),
        }
    }

    /// A member that is needed got no node, and may get one when others have theirs.
    pub(crate) fn put_back(&mut self, gang: GangId, uid: Uid) {
        if let Some((_, left)) = self.needs.get_mut(&gang) {
            *left += 1;
        }
        self.late.push_back((gang, uid));
    }

    /// A member that is needed has a node.
    pub(crate) fn placed(&mut self, gang: &GangId) {
        self.has_moved = true;
        if let Some((needed, _)) = self.needs.get_mut(gang) {
            *needed = needed.saturating_sub(1);
        }
    }

    /// A member that is needed got none.
    pub(crate) fn unplaced(&mut self, gang: GangId, uid: Uid) {
        self.unplaced.push((gang, uid));
    }

    /// Whether fewer members of any gang are left than are still needed.
    pub(crate) fn is_short(&self) -> bool {
        self.needs.values().any(|(needed, left)| needed > left)
    }

    /// Whether fewer members of a gang are left than are still needed.
    pub(crate) fn falls_short(&self, gang: &GangId) -> bool {
        self.needs.get(gang).is_some_and(|(needed, left)| needed > left)
    }

    /// Who is needed and has no node.
    pub(crate) fn missing(&self) -> Vec<Uid> {
        let mut needed: BTreeMap<&GangId, usize> =
            self.needs.iter().map(|(gang, (needed, _))| (gang, *needed)).collect();
        let members = self.unplaced.iter().chain(&self.late).chain(&self.line);
        let missing = members.filter(|(gang, _)| {
            let left = needed.entry(gang).or_default();
            let is_needed = *left > 0;
            *left -= usize::from(is_needed);
            is_needed
        });
        missing.map(|(_, uid)| uid.clone()).collect()
    }
}

/// How many members of each gang are needed.
pub(crate) fn least_of(needs: Vec<Need>) -> BTreeMap<GangId, usize> {
    needs.into_iter().map(|need| (need.gang, need.needed)).collect()
}

impl Ledger {
    /// Members in the order in which they get nodes, of those that this holds of: the largest first, which
    /// are the hardest to place.
    pub(crate) fn gang_by_size(
        &self,
        group: &Group,
        is_tried: impl Fn(&Uid) -> bool,
    ) -> Vec<(GangId, Uid)> {
        let total = self.nodes.resources.total();
        let share = |row: &PodRow| {
            let asked = &self.asks.requests.get(row.ask.requests).charged;
            let shares = asked.names().map(|name| {
                let all = i128::from(total.of(name)).max(1);
                i128::from(asked.of(name)) * 1_000_000_000 / all
            });
            shares.max().unwrap_or(0)
        };
        let members = self.gang_waiting(&group.gangs).filter(|(_, uid, _)| is_tried(uid));
        let mut members: Vec<_> = members
            .map(|(gang, uid, row)| {
                let name = (row.namespace.clone(), row.name.clone());
                let order = (Reverse(row.priority), Reverse(share(row)), name);
                (order, gang.clone(), uid.clone())
            })
            .collect();
        members.sort_unstable();
        members.into_iter().map(|(_, gang, uid)| (gang, uid)).collect()
    }
}
