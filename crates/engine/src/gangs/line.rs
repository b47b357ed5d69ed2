//! In which order members of a group get nodes, which of them are needed, and which node one gets.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use api::pod_group::GangId;

use super::{GangRefusal, Group, Need};
use crate::decide::Decider;
use crate::fact::{Allotment, Uid};
use crate::ledger::{Ask, Charged, Ledger, PodRow};
use crate::needs::Amounts;
use crate::pool::Id;
use crate::preemption::LastResorts;
use crate::quota::{Preemptible, QuotaRefusal};
use crate::reservations::Place;
use crate::turn::{Waiting, rejection, tie_of};

/// How many members that are not needed are tried in one plan: the others come after whoever waits.
const EXTRAS_MAX: usize = 512;

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
        Self { line: members.into(), needs, ..Self::default() }
    }

    /// Who is to be tried next.
    pub(crate) fn next(&mut self) -> Next {
        if self.line.is_empty() && !self.late.is_empty() {
            if !std::mem::take(&mut self.has_moved) {
                return self.give_up_late();
            }
            self.line = std::mem::take(&mut self.late);
        }
        while let Some((gang, uid)) = self.line.pop_front() {
            let (needed, left) = self.needs.entry(gang.clone()).or_default();
            *left -= usize::from(*left > 0);
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
                *left -= usize::from(*left > 0);
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
            *needed -= usize::from(*needed > 0);
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

/// Sorts of members that get their nodes before the others: no node was left for them behind those.
#[derive(Debug, Clone, Default)]
pub(crate) struct Foremost(Vec<Ask>);

/// For how many sorts a plan begins anew.
const FOREMOST_MAX: usize = 2;

impl Foremost {
    /// A member got no node while these of its group had theirs: whether the plan is to begin anew with those like it.
    pub(crate) fn add<'a>(
        &mut self,
        ledger: &Ledger,
        member: &Uid,
        placed: impl IntoIterator<Item = &'a Uid>,
    ) -> bool {
        let sort = |uid: &Uid| ledger.pod(uid).map(|row| whereabouts(row.ask));
        let Some(own) = sort(member) else { return false };
        let is_news = self.0.len() < FOREMOST_MAX && !self.0.contains(&own);
        let is_behind = placed.into_iter().any(|uid| sort(uid).is_some_and(|other| other != own));
        if is_news && is_behind {
            self.0.push(own);
        }
        is_news && is_behind
    }

    /// Members in their order, these before the others of their priority: whoever matters more goes first all the
    /// same.
    pub(crate) fn sort(&self, ledger: &Ledger, members: &mut [(GangId, Uid)]) {
        let place = |uid: &Uid| {
            let row = ledger.pod(uid)?;
            let at = self.0.iter().rposition(|own| *own == whereabouts(row.ask));
            Some((Reverse(row.priority), Reverse(at)))
        };
        if !self.0.is_empty() {
            members.sort_by_cached_key(|(_, uid)| place(uid));
        }
    }
}

/// What of an ask says which nodes it may go to, however much is free there.
fn whereabouts(ask: Ask) -> Ask {
    let (requests, taken, images) = (Id::at(0), Id::at(0), Id::at(0));
    Ask { requests, taken, images, load: None, like: None, ..ask.anonymous() }
}

/// How many members of each gang are needed.
pub(crate) fn least_of(needs: Vec<Need>) -> BTreeMap<GangId, usize> {
    needs.into_iter().map(|need| (need.gang, need.needed)).collect()
}

/// Why a member gets no node.
pub(crate) enum Seatless {
    /// Its quota has no room.
    Quota(Box<QuotaRefusal>),
    /// No node takes it.
    Nodes,
}

/// The node that a member gets, as things are, and what of that besides amounts.
pub(crate) fn seat(
    ledger: &mut Ledger,
    decider: &mut Decider,
    uid: &Uid,
) -> Result<(Place, Option<Allotment>), Seatless> {
    if decider.profile().quota.is_some() {
        ledger.admit(uid).map_err(|refusal| Seatless::Quota(Box::new(refusal)))?;
    }
    let ask = ledger.pod(uid).map(|row| row.ask).ok_or(Seatless::Nodes)?;
    let place = decider.choose(ledger, uid, tie_of(uid)).ok().flatten().ok_or(Seatless::Nodes)?;
    let allotment = decider.allot(ledger, ask, &place).map_err(|_| Seatless::Nodes)?;
    Ok((place, allotment))
}

/// Why a group has no nodes of which a member gets none, as things are: the others have theirs, so many
/// of whom had theirs before it was tried.
pub(crate) fn refused(
    ledger: &mut Ledger,
    decider: &Decider,
    (group, member): (&Group, &Uid),
    quota: Option<QuotaRefusal>,
    placed: usize,
) -> Option<Waiting> {
    let row = ledger.pod(member)?;
    let pod = format!("{}/{}", row.namespace, row.name).into();
    let gang = Some(GangRefusal { group: group.key.clone(), pod, placed });
    let waiting = match quota {
        Some(refusal) => Waiting::refused_by_quota(ledger, refusal),
        None => {
            let examination = decider.examine(ledger, member).ok()?;
            let rejection = rejection(&examination);
            let last_resorts = LastResorts::default();
            Waiting::new(examination, last_resorts, rejection)
        }
    };
    Some(Waiting { gang, ..waiting })
}

impl Ledger {
    /// Whether a pod that no node takes may be taken by one where others have theirs: it wants to be near some, or to
    /// be spread like them.
    pub(crate) fn follows_others(&self, uid: &Uid) -> bool {
        self.pod(uid).is_some_and(|row| {
            let is_near = !self.terms.affinity(row.ask.pod_affinity).near.is_empty();
            is_near || self.terms.spread(row.ask.spread).iter().any(|own| own.binds)
        })
    }

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

    /// What the first members in this order that are needed ask of a quota in all, of those that count where
    /// one is held against it: whoever may not have to make room is held against what the others of that sort
    /// use, too.
    pub(crate) fn gang_sum(
        &self,
        members: Vec<(GangId, Uid)>,
        least: &BTreeMap<GangId, usize>,
        like: Charged,
    ) -> Amounts {
        let quota = self.quotas.quota(like.belonging);
        let (mut left, mut sum) = (least.clone(), Amounts::default());
        for (gang, uid) in members {
            let Some(left) = left.get_mut(&gang).filter(|left| **left > 0) else { continue };
            *left -= 1;
            let charged = self.pod(&uid).and_then(|row| row.charged());
            let is_like = |own: &Charged| {
                let is_held =
                    like.preemptible == Preemptible::Yes || own.preemptible == like.preemptible;
                is_held && self.quotas.quota(own.belonging) == quota
            };
            if let Some(own) = charged.filter(is_like) {
                sum.add(&self.asks.requests.get(own.amounts).charged, 1);
            }
        }
        sum
    }
}
