//! How far the plan of a group has come: who is tried next, who got no node, and what is tried because of that.
//!
//! The engine goes by it with its ledger, slice by slice; whoever asks why a gang has not started goes by it in
//! thought. So both try the same members in the same order, also where a plan begins anew.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use api::pod_group::GangId;

use super::line::{Line, Next};
use super::{GangRefusal, Group};
use crate::decide::Decider;
use crate::fact::{Allotment, Uid};
use crate::ledger::{Ask, Charged, Ledger, PodRow};
use crate::pool::Id;
use crate::preemption::LastResorts;
use crate::quota::QuotaRefusal;
use crate::reservations::Place;
use crate::turn::{Waiting, rejection, tie_of};

/// For how many sorts a plan begins anew.
const FOREMOST_MAX: usize = 2;

/// The plan of a group, as far as it has come.
#[derive(Debug)]
pub(crate) struct Course {
    least: BTreeMap<GangId, usize>,
    order: Vec<Uid>,
    line: Line,
    /// Sorts of members that get their nodes before the others: no node was left for them behind those.
    foremost: Vec<Ask>,
    /// Whether the smallest go first: their quota had no room for enough of the others.
    is_reversed: bool,
    /// The first member that got none.
    refused: Option<Refused>,
    /// The last that got none and may get one beside others.
    late: Option<Refused>,
}

impl Course {
    /// These members in this order, of which so many of each gang are needed.
    pub(crate) fn begin(least: BTreeMap<GangId, usize>, members: Vec<(GangId, Uid)>) -> Self {
        let order = uids(&members);
        let line = Line::new(&least, members);
        let (foremost, is_reversed, refused, late) = (Vec::new(), false, None, None);
        Self { least, order, line, foremost, is_reversed, refused, late }
    }

    /// How many members of each gang are needed.
    pub(crate) fn least(&self) -> &BTreeMap<GangId, usize> {
        &self.least
    }

    /// All members there were when it began, in the order in which they are tried.
    pub(crate) fn order(&self) -> &[Uid] {
        &self.order
    }

    /// Whether fewer members of any gang are left than are still needed.
    pub(crate) fn is_short(&self) -> bool {
        self.line.is_short()
    }

    /// Whether fewer members of a gang are left than are still needed.
    pub(crate) fn falls_short(&self, gang: &GangId) -> bool {
        self.line.falls_short(gang)
    }

    /// Who is needed and has no node.
    pub(crate) fn missing(&self) -> Vec<Uid> {
        self.line.missing()
    }

    /// Who is to be tried next.
    pub(crate) fn next(&mut self) -> Next {
        self.line.next()
    }

    /// A member that is needed has a node.
    pub(crate) fn seated(&mut self, gang: &GangId) {
        self.line.placed(gang);
    }

    /// A member that is needed got no node; why is not said again of one that asks the same as another. Whoever
    /// follows others is tried again after them.
    pub(crate) fn left_out(
        &mut self,
        ledger: &Ledger,
        (gang, uid): (GangId, Uid),
        refused: Option<Refused>,
    ) {
        let is_of_nodes = refused.as_ref().is_none_or(|own| matches!(own.why, Seatless::Nodes));
        if is_of_nodes && ledger.follows_others(&uid) {
            self.line.put_back(gang, uid);
            self.late = refused.or(self.late.take());
        } else {
            self.line.unplaced(gang, uid);
            self.refused = self.refused.take().or(refused);
        }
    }

    /// The member for which all is taken back, where that is to be.
    pub(crate) fn take_refused(&mut self) -> Option<Refused> {
        self.refused.take().or(self.late.take())
    }

    /// Whether a plan that falls short, where these have nodes, may come further in another order: it is to begin
    /// anew then.
    pub(crate) fn has_another_order<'a>(
        &mut self,
        ledger: &Ledger,
        seated: impl IntoIterator<Item = &'a Uid>,
    ) -> bool {
        let Some(refused) = self.refused.as_ref().or(self.late.as_ref()) else { return false };
        if matches!(refused.why, Seatless::Quota(_)) {
            let is_first = !std::mem::replace(&mut self.is_reversed, true);
            return is_first && self.has_smaller_choice(ledger);
        }
        let sort = |uid: &Uid| ledger.pod(uid).map(|row| whereabouts(row.ask));
        let Some(own) = sort(&refused.member) else { return false };
        let is_news = self.foremost.len() < FOREMOST_MAX && !self.foremost.contains(&own);
        let is_behind = seated.into_iter().any(|uid| sort(uid).is_some_and(|other| other != own));
        if is_news && is_behind {
            self.foremost.push(own);
        }
        is_news && is_behind
    }

    /// Whether there are more members than are needed, and they ask their quotas for different amounts.
    fn has_smaller_choice(&self, ledger: &Ledger) -> bool {
        let amounts = |uid: &Uid| ledger.pod(uid).and_then(PodRow::charged).map(|own| own.amounts);
        let mut all = self.order.iter().map(amounts);
        let first = all.next();
        self.order.len() > self.least.values().sum() && all.any(|own| Some(own) != first)
    }

    /// Begins anew with these members, the largest first, who have no nodes.
    pub(crate) fn begin_anew(&mut self, ledger: &Ledger, mut members: Vec<(GangId, Uid)>) {
        if self.is_reversed {
            members.reverse();
        }
        self.put_foremost(ledger, &mut members);
        self.order = uids(&members);
        self.line = Line::new(&self.least, members);
        (self.refused, self.late) = (None, None);
    }

    /// Puts those before the others of their priority for whom no node was left: whoever matters more goes first
    /// all the same.
    fn put_foremost(&self, ledger: &Ledger, members: &mut [(GangId, Uid)]) {
        let place = |uid: &Uid| {
            let row = ledger.pod(uid)?;
            let at = self.foremost.iter().rposition(|own| *own == whereabouts(row.ask));
            Some((Reverse(row.priority), Reverse(at)))
        };
        members.sort_by_cached_key(|(_, uid)| place(uid));
    }
}

fn uids(members: &[(GangId, Uid)]) -> Vec<Uid> {
    members.iter().map(|(_, uid)| uid.clone()).collect()
}

/// What of an ask says which nodes it may go to, however much is free there.
fn whereabouts(ask: Ask) -> Ask {
    let (requests, taken, images) = (Id::at(0), Id::at(0), Id::at(0));
    Ask { requests, taken, images, load: None, like: None, ..ask.anonymous() }
}

/// Why a member gets no node.
#[derive(Debug)]
pub(crate) enum Seatless {
    /// The quota that it is charged to has no room.
    Quota(Box<(QuotaRefusal, Charged)>),
    /// No node takes it.
    Nodes,
}

/// The node that a member gets, as things are, and what of that besides amounts.
pub(crate) fn seat(
    ledger: &mut Ledger,
    decider: &mut Decider,
    uid: &Uid,
) -> Result<(Place, Option<Allotment>), Seatless> {
    let row = ledger.pod(uid).ok_or(Seatless::Nodes)?;
    let (ask, charged) = (row.ask, row.charged());
    if let Some(charged) = charged.filter(|_| decider.profile().quota.is_some()) {
        ledger.admit(uid).map_err(|refusal| Seatless::Quota(Box::new((refusal, charged))))?;
    }
    let place = decider.choose(ledger, uid, tie_of(uid)).ok().flatten().ok_or(Seatless::Nodes)?;
    let allotment = decider.allot(ledger, ask, &place).map_err(|_| Seatless::Nodes)?;
    Ok((place, allotment))
}

/// A member that is needed and got no node, as things were.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) member: Uid,
    pub(crate) why: Seatless,
    /// How many others had one then.
    pub(crate) seated: usize,
}

impl Refused {
    /// Why its group has no nodes, while the others have theirs; none where it is gone.
    pub(crate) fn waiting(
        self,
        ledger: &mut Ledger,
        decider: &Decider,
        group: &Group,
    ) -> Option<Waiting> {
        let row = ledger.pod(&self.member)?;
        let pod = format!("{}/{}", row.namespace, row.name).into();
        let gang = Some(GangRefusal { group: group.key.clone(), pod, placed: self.seated });
        let waiting = match self.why {
            Seatless::Quota(own) => Waiting::refused_by_quota(ledger, own.0),
            Seatless::Nodes => {
                let examination = decider.examine(ledger, &self.member).ok()?;
                let rejection = rejection(&examination);
                Waiting::new(examination, LastResorts::default(), rejection)
            }
        };
        Some(Waiting { gang, ..waiting })
    }
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
}
