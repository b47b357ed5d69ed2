//! A search that is done a slice at a time: why no node can take a pod, and who makes room for it.
//!
//! In a large cluster that takes longer than others may be kept waiting. So a [`Search`] does as
//! much as it is given [`Work`] for, lets go of the ledger, and goes on later. Work is counted in
//! nodes and pods that are looked at, not in time. With nothing changing in between, what it finds is
//! what [`Decider::examine`] and [`Decider::last_resorts`] say at once: those are the same steps.
//!
//! Where the ledger changed in between, what was found before may no longer be so. A search says
//! that it is moot where what it began with is different; who makes room it confirms in the end.

use std::collections::BTreeMap;

use crate::decide::Decider;
use crate::examination::{Examination, Examining, Refused};
use crate::fact::Uid;
use crate::judge::{Judges, Trial};
use crate::ledger::{ClaimError, Ledger, NodeIndex, Passing, PodRow};
use crate::moment::Moment;
use crate::node_set::NodeSet;
use crate::plugin::Plugin;
use crate::preemption::{
    Candidates, Keeping, LastResorts, NoRoom, Outcome, Preempting, ineligible, outcome,
};
use crate::reason::Refusal;

/// How much may be done: nodes and pods that are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work(usize);

impl Work {
    /// As much as there is to do.
    pub(crate) fn without_end() -> Self {
        Self(usize::MAX)
    }

    /// So much.
    pub(crate) fn of(units: usize) -> Self {
        Self(units)
    }

    pub(crate) fn is_left(self) -> bool {
        self.0 > 0
    }

    /// How much is left.
    #[cfg(test)]
    pub(crate) fn left(self) -> usize {
        self.0
    }

    pub(crate) fn spend(&mut self, units: usize) {
        self.0 = self.0.saturating_sub(units);
    }
}

/// Pods to whom a pod has to leave the room, by node.
pub(crate) type Promised = BTreeMap<NodeIndex, Vec<Passing>>;

/// What a search began with. Where it is different, what was found so far means nothing.
#[derive(PartialEq)]
struct Premise {
    /// Which nodes there are.
    comings: u64,
    /// The node on which room is made for the pod.
    own: Option<NodeIndex>,
    everywhere: Option<(Plugin, Refusal)>,
    named: Option<NodeSet>,
}

impl Premise {
    fn of(decider: &Decider, ledger: &Ledger, row: &PodRow) -> Self {
        Self {
            comings: ledger.nodes.comings(),
            own: row.nomination.node().and_then(|name| ledger.nodes.find(name)),
            everywhere: decider.refused_everywhere(ledger, row.ask),
            named: decider.named(ledger, row.ask).0,
        }
    }
}

enum Stage {
    Examining(Examining),
    Preempting(Examination, Preempting),
    Over(Examination, Option<Result<Candidates, NoRoom>>),
}

/// How far a search is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is more to be done.
    Unfinished,
    /// It is over.
    Finished,
    /// What it began with is different now.
    Moot,
}

/// A search under way.
pub(crate) struct Search {
    uid: Uid,
    tie: u64,
    begun: Moment,
    premise: Premise,
    stage: Option<Stage>,
    promised: Promised,
    /// What is known of the cluster as it was at a revision.
    judges: Option<Judges>,
    revision: u64,
}

impl Search {
    /// Begins, on a ledger at this revision.
    pub(crate) fn begin(
        decider: &Decider,
        ledger: &Ledger,
        uid: &Uid,
        tie: u64,
        revision: u64,
        now: Moment,
    ) -> Result<Self, ClaimError> {
        let row = ledger.pod(uid).ok_or_else(|| ClaimError::NoPod(uid.clone()))?;
        Ok(Self {
            uid: uid.clone(),
            tie,
            begun: now,
            premise: Premise::of(decider, ledger, row),
            stage: Some(Stage::Examining(decider.begin_examination(ledger, uid)?)),
            promised: ledger.promised(uid, row.priority).into_iter().collect(),
            judges: None,
            revision,
        })
    }

    /// Does some of the work, on the ledger as it is at this revision.
    pub(crate) fn advance(
        &mut self,
        decider: &Decider,
        ledger: &mut Ledger,
        revision: u64,
        work: &mut Work,
    ) -> Result<Progress, ClaimError> {
        let row = ledger.pod(&self.uid).ok_or_else(|| ClaimError::NoPod(self.uid.clone()))?;
        let (ask, priority) = (row.ask, row.priority);
        if self.revision != revision {
            if self.premise != Premise::of(decider, ledger, row) {
                return Ok(Progress::Moot);
            }
            self.judges = None;
            self.promised = ledger.promised(&self.uid, priority).into_iter().collect();
            self.revision = revision;
        }
        let filters = &decider.profile.filters;
        let mut trial = match self.judges.take() {
            Some(judges) => Trial::resumed(ledger, filters, ask, judges),
            None => {
                let nodes = ledger.nodes.present().clone();
                let mut trial = Trial::new(ledger, filters, ask);
                trial.prepare(&nodes);
                trial
            }
        };
        while let Some(stage) = self.stage.take() {
            let (stage, is_done) = match stage {
                Stage::Examining(mut examining) => {
                    match examining.advance(&mut trial, &self.promised, work) {
                        true => (self.examined(decider, trial.ledger(), examining.end())?, true),
                        false => (Stage::Examining(examining), false),
                    }
                }
                Stage::Preempting(examined, mut preempting) => {
                    match preempting.advance(&mut trial, &self.promised, work) {
                        true => (Stage::Over(examined, Some(Ok(preempting.end()))), true),
                        false => (Stage::Preempting(examined, preempting), false),
                    }
                }
                over @ Stage::Over(..) => {
                    self.stage = Some(over);
                    return Ok(Progress::Finished);
                }
            };
            self.stage = Some(stage);
            if !is_done {
                break;
            }
        }
        self.judges = Some(trial.interrupt());
        Ok(Progress::Unfinished)
    }

    /// What is next when all nodes have refused.
    fn examined(
        &self,
        decider: &Decider,
        ledger: &Ledger,
        examined: Examination,
    ) -> Result<Stage, ClaimError> {
        let row = ledger.pod(&self.uid).ok_or_else(|| ClaimError::NoPod(self.uid.clone()))?;
        let Some(settings) = decider.preemption(row, &examined) else {
            return Ok(Stage::Over(examined, None));
        };
        if let Some(why) = ineligible(ledger, &self.uid, &examined)? {
            return Ok(Stage::Over(examined, Some(Err(why))));
        }
        let how = (Keeping::Best, settings);
        let preempting =
            decider.begin_preemption((ledger, row), &examined, how, self.tie, self.begun);
        Ok(Stage::Preempting(examined, preempting))
    }

    /// Whether the best that was found is at least as good as the ledger is now. What is lost there is
    /// found out anew.
    pub(crate) fn confirm(&mut self, decider: &Decider, ledger: &mut Ledger) -> bool {
        let Some(Stage::Over(examined, found)) = &mut self.stage else { return false };
        match found {
            None => true,
            Some(Err(_)) => ineligible(ledger, &self.uid, examined).is_ok_and(|why| why.is_some()),
            Some(Ok(candidates)) => {
                ineligible(ledger, &self.uid, examined).is_ok_and(|why| why.is_none())
                    && decider.confirm(ledger, &self.uid, (examined, candidates), self.begun)
            }
        }
    }

    /// A node that took the pod when it was asked may not do so by now: those of which nothing is
    /// known are asked again.
    pub(crate) fn complete(&mut self, decider: &Decider, ledger: &mut Ledger) {
        let Some(Stage::Over(examined, _)) = &mut self.stage else { return };
        let Some(row) = ledger.pod(&self.uid) else { return };
        if examined.everywhere.is_some() {
            return;
        }
        let (ask, priority) = (row.ask, row.priority);
        let mut unknown = ledger.nodes.present().clone();
        for one in &examined.refused {
            unknown.remove(one.node);
        }
        if unknown.is_empty() {
            return;
        }
        let promised: Promised = ledger.promised(&self.uid, priority).into_iter().collect();
        let mut trial = Trial::new(ledger, &decider.profile.filters, ask);
        trial.prepare(&unknown);
        for node in unknown.iter() {
            let others = promised.get(&node).map_or(&[][..], Vec::as_slice);
            if let Some((plugin, refusal)) = trial.refusal_with(others, node) {
                examined.refused.push(Refused { node, plugin: Some(plugin), refusal });
            }
        }
        examined.refused.sort_by_key(|one| one.node);
    }

    /// What was found, where the search is over.
    pub(crate) fn end(
        self,
        decider: &Decider,
        ledger: &Ledger,
    ) -> Result<Option<(Examination, LastResorts)>, ClaimError> {
        let Some(Stage::Over(examined, found)) = self.stage else { return Ok(None) };
        let outcome = match found {
            None => None,
            Some(Err(why)) => Some(Outcome::NoRoom(why)),
            Some(Ok(candidates)) => Some(outcome(ledger, &self.uid, &examined, candidates)?),
        };
        let last_resorts = decider.told_last(&examined, outcome);
        Ok(Some((examined, last_resorts)))
    }
}

#[cfg(test)]
mod tests;
