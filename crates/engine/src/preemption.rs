//! Preemption: which pods of lower priority make room for a pod that no node can take.
//!
//! On each node that evicting pods could help, all pods of lower priority leave in thought; if the
//! pod fits then, as many as possible come back, those first whose going would break a disruption
//! budget. Of the nodes found so, the one is taken where the least is lost. Nothing is evicted
//! here: whoever asked deletes the victims, nominates the pod to the node and tries it again when
//! they are gone.

mod choice;
mod victims;

use std::collections::BTreeMap;
use std::fmt;

use crate::decide::{Decider, mixed};
use crate::examination::{Examination, count, counted};
use crate::fact::{PodRef, Uid};
use crate::judge::Trial;
use crate::ledger::{ClaimError, Ledger, NodeIndex, PodRow};
use crate::plugin::Filter as _;
use crate::plugins::dynamic_resources::DynamicResources;
use crate::profile::LastResort;
use crate::queue::Moment;
use crate::reason::{Code, Refusal};

/// On how many nodes victims are looked for: on the greater of both numbers that yields some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// So many of a hundred nodes.
    pub candidate_nodes_percent_min: u8,
    /// So many nodes.
    pub candidate_nodes_min: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { candidate_nodes_percent_min: 10, candidate_nodes_min: 100 }
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
        Self { pod: named(uid, row), deleting: row.deleting }
    }
}

fn named(uid: &Uid, row: &PodRow) -> PodRef {
    PodRef { uid: uid.clone(), namespace: row.namespace.clone(), name: row.name.clone() }
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
    pub refusal: Option<(&'static str, Refusal)>,
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
}

impl LastResorts {
    /// What happens to the nomination of the pod.
    #[must_use]
    pub fn nominating(&self) -> Nominating {
        match &self.preemption {
            Some(Outcome::Room(room)) => Nominating::To(room.node),
            Some(Outcome::NoRoom(NoRoom::Nowhere { .. })) => Nominating::Nowhere,
            Some(Outcome::NoRoom(_)) | None => Nominating::Unchanged,
        }
    }
}

impl Decider {
    /// Tries the profile's last resorts for a pod that no node can take. `spread` differs from pod
    /// to pod.
    ///
    /// # Errors
    /// When the pod is gone.
    pub fn last_resorts(
        &self,
        ledger: &mut Ledger,
        uid: &Uid,
        examined: &Examination,
        spread: u64,
        now: Moment,
    ) -> Result<LastResorts, ClaimError> {
        let mut all = LastResorts::default();
        let mut texts = Vec::new();
        for last_resort in &self.profile.last_resorts {
            match last_resort {
                // Upstream looks for what it prepared, does not find it where the pod was refused
                // before it came to that, and says so and nothing else.
                LastResort::DynamicResources if !self.prepares_devices(examined) => {
                    return Ok(LastResorts { preemption: None, text: "not found".to_owned() });
                }
                LastResort::DynamicResources => {
                    texts.push("no new claims to deallocate".to_owned());
                }
                LastResort::DefaultPreemption(settings) => {
                    let outcome = self.preempt(ledger, uid, examined, *settings, spread, now)?;
                    if let Outcome::NoRoom(why) = &outcome {
                        texts.push(format!("preemption: {why}"));
                    } else {
                        texts.clear();
                    }
                    let ends = matches!(outcome, Outcome::Room(_));
                    all.preemption = Some(outcome);
                    if ends {
                        break;
                    }
                }
            }
        }
        all.text = texts.join(", ");
        Ok(all)
    }

    /// Whether devices were thought of before the pod was refused whatever the nodes are.
    fn prepares_devices(&self, examined: &Examination) -> bool {
        let refused_by = examined.everywhere.as_ref().map(|(plugin, _)| *plugin);
        let mut asked = self.profile.admission.iter().map(|at| self.profile.filters[*at].name());
        let first =
            asked.find(|name| *name == DynamicResources.name() || Some(*name) == refused_by);
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
        spread: u64,
        now: Moment,
    ) -> Result<Outcome, ClaimError> {
        let row = ledger.pod(uid).ok_or_else(|| ClaimError::NoPod(uid.clone()))?;
        let priority = row.priority;
        if let Some(why) = ineligible(ledger, row, examined) {
            return Ok(Outcome::NoRoom(why));
        }
        let Candidates { found, tried } =
            self.candidates(ledger, uid, examined, settings, spread, now)?;
        let Some(best) = choice::best(found) else {
            return Ok(Outcome::NoRoom(NoRoom::Nowhere { nodes: examined.nodes, tried }));
        };
        let name = ledger.nodes.name(best.node);
        let waiting = ledger.awaited(name).filter(|other| *other != uid);
        let waiting = waiting.filter_map(|other| Some((other, ledger.pod(other)?)));
        let passed_over = waiting.filter(|(_, row)| row.priority < priority);
        let passed_over = passed_over.map(|(other, row)| named(other, row)).collect();
        let Candidate { node, victims, violations, .. } = best;
        Ok(Outcome::Room(Room { node, victims, violations, passed_over }))
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
        spread: u64,
        now: Moment,
    ) -> Result<Candidates, ClaimError> {
        let row = ledger.pod(uid).ok_or_else(|| ClaimError::NoPod(uid.clone()))?;
        let (ask, priority) = (row.ask, row.priority);
        let nodes: Vec<NodeIndex> = examined.curable().collect();
        let mut candidates = Candidates::default();
        if nodes.is_empty() {
            return Ok(candidates);
        }
        let enough = settings.enough(nodes.len());
        let first = usize::try_from(mixed(self.seed ^ spread) % nodes.len() as u64).unwrap_or(0);
        let mut promised: BTreeMap<NodeIndex, _> =
            ledger.promised(uid, priority).into_iter().collect();
        let mut violating = Vec::new();
        let mut trial = Trial::new(ledger, &self.profile.filters, ask);
        trial.prepare(&nodes.iter().copied().collect());
        for node in nodes[first..].iter().chain(&nodes[..first]) {
            let others = promised.remove(node).unwrap_or_default();
            match victims::on(&mut trial, *node, priority, &others, now) {
                Ok(candidate) if candidate.violations == 0 => candidates.found.push(candidate),
                Ok(candidate) if violating.len() < enough => violating.push(candidate),
                Ok(_) => {}
                Err(refusal) => candidates.tried.push(Tried { node: *node, refusal }),
            }
            let found = candidates.found.len();
            if found > 0 && found + violating.len() >= enough {
                break;
            }
        }
        candidates.found.append(&mut violating);
        Ok(candidates)
    }
}

/// Why a pod may not push others out now; none where it may.
fn ineligible(ledger: &Ledger, row: &PodRow, examined: &Examination) -> Option<NoRoom> {
    if !row.may_preempt {
        return Some(NoRoom::Never);
    }
    let node = ledger.nodes.find(row.nomination.node()?)?;
    // A node that cannot be helped is not worth waiting for.
    if examined.code_of(node) != Some(Code::Unschedulable) {
        return None;
    }
    let mut lower = ledger.residents.below(node, row.priority).iter();
    let leaving = lower.any(|(_, uid)| ledger.pod(uid).is_some_and(|row| row.giving_way));
    leaving.then_some(NoRoom::Leaving)
}
