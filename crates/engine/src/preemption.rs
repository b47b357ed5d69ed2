//! Preemption: which pods of lower priority make room for a pod that no node can take.
//!
//! On each node that evicting pods could help, all pods of lower priority leave in thought; if the
//! pod fits then, as many as possible come back, those first whose going would break a disruption
//! budget. Of the nodes found so, the one is taken where the least is lost. Nothing is evicted
//! here: whoever asked deletes the victims, nominates the pod to the node and tries it again when
//! they are gone.

mod choice;
mod victims;

pub(crate) use victims::breaks_budget;

use std::collections::BTreeMap;
use std::fmt;

use crate::decide::{Decider, mixed};
use crate::examination::{Examination, count, counted};
use crate::fact::{PodRef, Uid};
use crate::judge::Trial;
use crate::ledger::{Borrower, ClaimError, Ledger, NodeIndex, PodRow};
use crate::moment::Moment;
use crate::node_set::NodeSet;
use crate::plugin::Plugin;
use crate::profile::LastResort;
use crate::reason::{Code, Refusal};
use crate::reservations::Tally;
use crate::search::{Promised, Work};

/// On how many nodes victims are looked for: on the greater of both numbers that yields some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// So many of a hundred nodes.
    pub candidate_nodes_percent_min: u8,
    /// So many nodes.
    pub candidate_nodes_min: u32,
    /// Whether pods are left alone that say that they are to be.
    pub spares: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { candidate_nodes_percent_min: 10, candidate_nodes_min: 100, spares: false }
    }
}

impl Settings {
    /// How many of so many nodes are enough.
    fn enough(self, nodes: usize) -> usize {
        let share = nodes.saturating_mul(self.candidate_nodes_percent_min.into()) / 100;
        let least = usize::try_from(self.candidate_nodes_min).unwrap_or(usize::MAX);
        share.max(least).min(nodes)
    }
}

/// A pod that makes room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// Which pod.
    pub pod: PodRef,
    /// Whether it is being deleted already.
    pub deleting: bool,
}

impl Victim {
    fn new(uid: &Uid, row: &PodRow) -> Self {
        Self { pod: PodRef::of(uid, row), deleting: row.is_deleting() }
    }
}

/// A node on which room can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The node.
    pub node: NodeIndex,
    /// Who has to go, the most important first.
    pub victims: Vec<Victim>,
    /// How many of them break a disruption budget.
    pub violations: usize,
    loss: choice::Loss,
}

/// A node on which no room can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The node.
    pub node: NodeIndex,
    /// Who refuses the pod even when all pods of lower priority are gone; none where there are no
    /// such pods.
    pub refusal: Option<(Plugin, Refusal)>,
}

/// What was found on the nodes that evicting pods could help.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidates {
    /// Where room can be made, those first that break no disruption budget.
    pub found: Vec<Candidate>,
    /// Where it cannot.
    pub tried: Vec<Tried>,
}

/// A node on which room is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// The node.
    pub node: NodeIndex,
    /// Who has to go, the most important first.
    pub victims: Vec<Victim>,
    /// How many of them break a disruption budget.
    pub violations: usize,
    /// Pods of lower priority that waited for room on this node, and now do not.
    pub passed_over: Vec<PodRef>,
}

/// Why nobody makes room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoRoom {
    /// The pod pushes nobody out.
    Never,
    /// Others are leaving the node that it waits for.
    Leaving,
    /// It would not help.
    Nowhere {
        /// How many nodes there are.
        nodes: usize,
        /// Where it was tried.
        tried: Vec<Tried>,
    },
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("not eligible due to preemptionPolicy=Never."),
            Self::Leaving => {
                f.write_str("not eligible due to a terminating pod on the nominated node.")
            }
            Self::Nowhere { nodes, tried } => {
                let (mut counts, mut text) = (BTreeMap::new(), String::new());
                let refusals = tried.iter().filter_map(|one| one.refusal.as_ref());
                for reason in refusals.flat_map(|(_, refusal)| &refusal.reasons) {
                    count(reason, &mut text, &mut counts);
                }
                let alone = tried.iter().filter(|one| one.refusal.is_none()).count();
                for (text, times) in [
                    ("No preemption victims found for incoming pod", alone),
                    ("Preemption is not helpful for scheduling", nodes.saturating_sub(tried.len())),
                ] {
                    if times > 0 {
                        counts.insert(text.to_owned(), times);
                    }
                }
                counted(f, *nodes, counts)
            }
        }
    }
}

/// What came of preemption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Room is made.
    Room(Room),
    /// It is not.
    NoRoom(NoRoom),
}

/// What happens to the nomination of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nominating {
    /// The pod waits for room on this node.
    To(NodeIndex),
    /// It waits for room on no node.
    Nowhere,
    /// It stays as it is.
    Unchanged,
}

/// What came of all that is tried for a pod that no node can take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastResorts {
    /// What came of preemption, if it was come to.
    pub preemption: Option<Outcome>,
    /// What is added to what the nodes say; empty where room is made.
    pub text: String,
    /// Whether nothing at all is tried, by the profile or since a quota has no room: then room that is kept is
    /// kept in vain.
    pub is_untried: bool,
}

impl LastResorts {
    /// What happens to the nomination of the pod.
    #[must_use]
    pub fn nominating(&self) -> Nominating {
        match &self.preemption {
            Some(Outcome::Room(room)) => Nominating::To(room.node),
            Some(Outcome::NoRoom(NoRoom::Nowhere { .. })) => Nominating::Nowhere,
            None if self.is_untried => Nominating::Nowhere,
            Some(Outcome::NoRoom(_)) | None => Nominating::Unchanged,
        }
    }
}

/// Which candidates are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// Whoever asks wants to see them all.
    All,
    /// The one that loses the least is all that counts.
    Best,
}

impl Keeping {
    fn keep(self, kept: &mut Vec<Candidate>, candidate: Candidate) {
        match (self, &mut kept[..]) {
            // Of equal ones, the first stays.
            (Self::Best, [best]) if candidate.loss >= best.loss => {}
            (Self::Best, [best]) => *best = candidate,
            _ => kept.push(candidate),
        }
    }
}

/// For whom others are to go, and whom it leaves alone.
pub(crate) struct Pusher {
    pub(crate) priority: i32,
    /// Whether pods are left alone that say that they are to be.
    spares: bool,
    /// What it would use that its quota borrows: who is guaranteed what he uses is left alone.
    borrower: Option<Borrower>,
}

impl Pusher {
    fn of(ledger: &Ledger, row: &PodRow, settings: Settings) -> Self {
        let (priority, spares) = (row.priority, settings.spares);
        Self { priority, spares, borrower: ledger.borrower_of(row) }
    }
}

/// Preemption under way: victims are looked for on one node after the other, on as many at a time as
/// there is work to be spent.
pub(crate) struct Preempting {
    pusher: Pusher,
    /// Nodes in the order in which they are tried, and how many of them were.
    order: Vec<NodeIndex>,
    seen: usize,
    /// As many candidates are enough.
    enough: usize,
    /// Which of them are kept.
    keeping: Keeping,
    /// How many there are that break no disruption budget, and how many that do.
    harmless: usize,
    harmful: usize,
    violating: Vec<Candidate>,
    candidates: Candidates,
    /// When it began: pods that did not start before would start then.
    now: Moment,
}

impl Preempting {
    /// The nodes that are tried.
    pub(crate) fn nodes(&self) -> NodeSet {
        self.order.iter().copied().collect()
    }

    /// Looks for victims on more nodes; whether enough has been seen.
    pub(crate) fn advance(
        &mut self,
        trial: &mut Trial<'_>,
        promised: &Promised,
        work: &mut Work,
    ) -> bool {
        while let Some(node) = self.order.get(self.seen).copied() {
            if self.harmless > 0 && self.harmless + self.harmful >= self.enough {
                return true;
            }
            if !work.is_left() {
                return false;
            }
            self.seen += 1;
            work.spend(1 + trial.ledger().residents.below(node, self.pusher.priority).len());
            let others = promised.get(&node).map_or(&[][..], Vec::as_slice);
            match victims::on(trial, node, &self.pusher, others, self.now) {
                Ok(candidate) if candidate.violations == 0 => {
                    self.harmless += 1;
                    self.keeping.keep(&mut self.candidates.found, candidate);
                }
                Ok(candidate) if self.harmful < self.enough => {
                    self.harmful += 1;
                    self.keeping.keep(&mut self.violating, candidate);
                }
                Ok(_) => {}
                Err(refusal) => self.candidates.tried.push(Tried { node, refusal }),
            }
        }
        true
    }

    /// Where room can be made, and where it cannot.
    pub(crate) fn end(mut self) -> Candidates {
        self.candidates.found.append(&mut self.violating);
        self.candidates
    }
}

impl Decider {
    /// Tries the profile's last resorts for a pod that no node can take. `tie` differs from pod
    /// to pod.
    ///
    /// # Errors
    /// When the pod is gone.
    pub fn last_resorts(
        &self,
        ledger: &mut Ledger,
        uid: &Uid,
        examined: &Examination,
        tie: u64,
        now: Moment,
    ) -> Result<LastResorts, ClaimError> {
        let row = ledger.pod(uid).ok_or_else(|| ClaimError::NoPod(uid.clone()))?;
        let outcome = match self.preemption(row, examined) {
            Some(settings) => Some(self.preempt(ledger, uid, examined, settings, tie, now)?),
            None => None,
        };
        Ok(self.told_last(examined, outcome))
    }

    /// How victims are looked for where it comes to that.
    pub(crate) fn preemption(&self, row: &PodRow, examined: &Examination) -> Option<Settings> {
        let claims = examined.everywhere.is_some();
        let mut all = self.profile.last_resorts.iter();
        all.find_map(|last_resort| match last_resort {
            LastResort::DynamicResources if claims => Some(None),
            LastResort::DynamicResources => None,
            LastResort::Reservation(settings) => settings.map(Some),
            LastResort::DefaultPreemption(_) if row.is_reservation() => None,
            LastResort::DefaultPreemption(settings) => Some(Some(*settings)),
            LastResort::Coscheduling | LastResort::ElasticQuota => None,
        })
        .flatten()
    }

    /// What the last resorts say, where preemption ended like this.
    pub(crate) fn told_last(
        &self,
        examined: &Examination,
        outcome: Option<Outcome>,
    ) -> LastResorts {
        if let Some(Outcome::Room(_)) = &outcome {
            return LastResorts { preemption: outcome, ..LastResorts::default() };
        }
        let mut texts = Vec::new();
        let mut untold = match &outcome {
            Some(Outcome::NoRoom(why)) => Some(format!("preemption: {why}")),
            _ => None,
        };
        for last_resort in &self.profile.last_resorts {
            match last_resort {
                // Upstream looks for what it prepared, does not find it where the pod was refused
                // before it came to that, and says so and nothing else.
                LastResort::DynamicResources if !self.prepares_devices(examined) => {
                    let text = "not found".to_owned();
                    return LastResorts { text, ..LastResorts::default() };
                }
                LastResort::DynamicResources => {
                    texts.push("no new claims to deallocate".to_owned());
                }
                LastResort::Reservation(settings) => {
                    texts.extend(settings.and_then(|_| untold.take()));
                    texts.extend(examined.reservations.iter().flat_map(Tally::lines));
                }
                LastResort::DefaultPreemption(_) => texts.extend(untold.take()),
                // What comes of it is told when it is over.
                LastResort::Coscheduling | LastResort::ElasticQuota => {}
            }
        }
        let tells = |last_resort: &LastResort| *last_resort == LastResort::Reservation(None);
        let is_untried = self.profile.last_resorts.iter().all(tells);
        LastResorts { preemption: outcome, text: texts.join(", "), is_untried }
    }

    /// Whether devices were thought of before the pod was refused whatever the nodes are.
    fn prepares_devices(&self, examined: &Examination) -> bool {
        let refused_by = examined.everywhere.as_ref().map(|(plugin, _)| *plugin);
        let mut asked = self.profile.admission.iter().map(|at| self.profile.filters[*at].plugin());
        let first =
            asked.find(|plugin| *plugin == Plugin::DynamicResources || Some(*plugin) == refused_by);
        first.is_some() && first != refused_by
    }

    /// Finds a node on which pods of lower priority can make room for a pod that no node can take.
    ///
    /// # Errors
    /// When the pod is gone.
    pub fn preempt(
        &self,
        ledger: &mut Ledger,
        uid: &Uid,
        examined: &Examination,
        settings: Settings,
        tie: u64,
        now: Moment,
    ) -> Result<Outcome, ClaimError> {
        if let Some(why) = ineligible(ledger, uid, examined)? {
            return Ok(Outcome::NoRoom(why));
        }
        let how = (Keeping::Best, settings);
        let candidates = self.all_candidates(ledger, uid, examined, how, tie, now)?;
        outcome(ledger, uid, examined, candidates)
    }

    /// Where room can be made for a pod, and by whom.
    ///
    /// # Errors
    /// When the pod is gone.
    pub fn candidates(
        &self,
        ledger: &mut Ledger,
        uid: &Uid,
        examined: &Examination,
        settings: Settings,
        tie: u64,
        now: Moment,
    ) -> Result<Candidates, ClaimError> {
        self.all_candidates(ledger, uid, examined, (Keeping::All, settings), tie, now)
    }

    fn all_candidates(
        &self,
        ledger: &mut Ledger,
        uid: &Uid,
        examined: &Examination,
        how: (Keeping, Settings),
        tie: u64,
        now: Moment,
    ) -> Result<Candidates, ClaimError> {
        let row = ledger.pod(uid).ok_or_else(|| ClaimError::NoPod(uid.clone()))?;
        let (ask, priority) = (row.ask, row.priority);
        let mut preempting = self.begin_preemption((ledger, row), examined, how, tie, now);
        if !preempting.order.is_empty() {
            let promised = ledger.promised(uid, priority).into_iter().collect();
            let mut trial = Trial::new(ledger, &self.profile.filters, ask);
            trial.prepare(&preempting.nodes());
            preempting.advance(&mut trial, &promised, &mut Work::without_end());
        }
        Ok(preempting.end())
    }

    /// Begins to look for victims of a lower priority than that of a pod.
    pub(crate) fn begin_preemption(
        &self,
        (ledger, row): (&Ledger, &PodRow),
        examined: &Examination,
        (keeping, settings): (Keeping, Settings),
        tie: u64,
        now: Moment,
    ) -> Preempting {
        let mut order: Vec<NodeIndex> = examined.curable().collect();
        let nodes = order.len();
        let first = mixed(self.seed ^ tie).checked_rem(nodes as u64).unwrap_or(0);
        order.rotate_left(usize::try_from(first).unwrap_or(0));
        Preempting {
            pusher: Pusher::of(ledger, row, settings),
            order,
            seen: 0,
            enough: settings.enough(nodes),
            keeping,
            harmless: 0,
            harmful: 0,
            violating: Vec::new(),
            candidates: Candidates::default(),
            now,
        }
    }

    /// Whether what is lost on the best of the nodes that were found is not more now. It is found
    /// out anew, and is all that is left of them.
    pub(crate) fn confirm(
        &self,
        ledger: &mut Ledger,
        uid: &Uid,
        (examined, candidates): (&Examination, &mut Candidates),
        now: Moment,
    ) -> bool {
        let Some(best) = choice::best(&candidates.found) else { return true };
        let Some(row) = ledger.pod(uid) else { return false };
        let settings = self.preemption(row, examined);
        let spares = settings.is_some_and(|settings| settings.spares);
        let pusher = Pusher::of(ledger, row, Settings { spares, ..Settings::default() });
        let (node, ask, priority) = (best.node, row.ask, row.priority);
        let others = ledger.awaited_before(ledger.nodes.name(node), uid, priority);
        let mut trial = Trial::new(ledger, &self.profile.filters, ask);
        match victims::on(&mut trial, node, &pusher, &others, now) {
            Ok(again) if again.loss <= best.loss => {
                candidates.found = vec![again];
                true
            }
            _ => false,
        }
    }
}

/// What comes of preemption where room can be made like this.
pub(crate) fn outcome(
    ledger: &Ledger,
    uid: &Uid,
    examined: &Examination,
    candidates: Candidates,
) -> Result<Outcome, ClaimError> {
    let Candidates { found, tried } = candidates;
    let Some(best) = choice::best(&found) else {
        return Ok(Outcome::NoRoom(NoRoom::Nowhere { nodes: examined.nodes, tried }));
    };
    let passed_over = passed_over(ledger, best.node, uid);
    let Candidate { node, victims, violations, .. } = best.clone();
    Ok(Outcome::Room(Room { node, victims, violations, passed_over }))
}

/// Pods that wait for room on a node and come after this one.
pub(crate) fn passed_over(ledger: &Ledger, node: NodeIndex, uid: &Uid) -> Vec<PodRef> {
    let Some(row) = ledger.pod(uid) else { return Vec::new() };
    let borrower = ledger.borrower_of(row);
    let waiting = ledger.awaited(ledger.nodes.name(node)).filter(|other| *other != uid);
    let waiting = waiting.filter_map(|other| Some((other, ledger.pod(other)?)));
    let is_owed = |other: &PodRow| borrower.as_ref().is_some_and(|own| ledger.owes(own, other));
    let lower = waiting.filter(|(_, other)| other.priority < row.priority && !is_owed(other));
    lower.map(|(other, row)| PodRef::of(other, row)).collect()
}

/// Why a pod may not push others out now; none where it may.
pub(crate) fn ineligible(
    ledger: &Ledger,
    uid: &Uid,
    examined: &Examination,
) -> Result<Option<NoRoom>, ClaimError> {
    let row = ledger.pod(uid).ok_or_else(|| ClaimError::NoPod(uid.clone()))?;
    if !row.may_preempt {
        return Ok(Some(NoRoom::Never));
    }
    let nominated = row.nomination.node().and_then(|name| ledger.nodes.find(name));
    // A node that cannot be helped is not worth waiting for.
    let helped = |node: &NodeIndex| examined.code_of(*node) == Some(Code::Unschedulable);
    let Some(node) = nominated.filter(helped) else { return Ok(None) };
    let mut lower = ledger.residents.below(node, row.priority).iter();
    let leaving = lower.any(|(_, uid)| ledger.pod(uid).is_some_and(PodRow::gives_way));
    Ok(leaving.then_some(NoRoom::Leaving))
}
