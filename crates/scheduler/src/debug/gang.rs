//! Why a gang has not started, said of what the engine's thread knows of it.
//!
//! A copy knows of a member what it asks for, and not what its author wrote. So one that gets no node is
//! read from the server before it is said what would give it one.

use std::sync::Arc;

use api::pod_group::GangId;
use engine::fact::{PodFact, Uid};
use engine::ledger::Ledger;
use engine::moment::Moment;

use super::{Clerk, Desk, Known, Refusal, Seen, elsewhere, explained, holders, views};
use crate::config::Configuration;
use crate::core::Core;
use crate::why::{
    self, Answer, AnsweredBy, Candidates, GroupPhase, Standing, State, Unplaced, WhyError,
};

/// What the engine's thread knows of the gangs that start with one.
pub(crate) struct KnownGroup {
    gang: GangId,
    candidates: Candidates,
    standing: Option<Standing>,
    /// Whether members have nodes that are being written.
    is_starting: bool,
    /// Why it has no nodes, as a member was told last.
    refusal: Option<Arc<str>>,
}

impl KnownGroup {
    /// What is known of the group of a gang, and whose rows that is about.
    pub(super) fn of(core: &Core, gang: &GangId, now: Moment) -> (Self, Vec<Uid>) {
        let (engine, ledger) = (core.engine(), core.engine().ledger());
        let group = ledger.group_of(gang);
        let standing = engine.queue().standing(&engine.gang_entry(gang));
        let candidates = engine.gang_candidates(&group);
        let all = group.gangs.iter().chain(&group.first);
        let members = all.flat_map(|gang| ledger.gangs.members(gang).cloned());
        let own = Self {
            gang: gang.clone(),
            standing: standing.map(|own| views::standing(own, now)),
            is_starting: engine.is_gang_released(&group),
            refusal: candidates.keys().find_map(|uid| core.group_refusal(uid).cloned()),
            candidates,
        };
        (own, members.collect())
    }
}

impl Known {
    /// What is known of a gang and of all nodes; none where nothing is known of the gang.
    fn of_gang(core: &Core, gang: &GangId, now: Moment) -> Option<Self> {
        let ledger = core.engine().ledger();
        let is_known = ledger.gangs.terms(gang).is_some() || ledger.gangs.members(gang).len() > 0;
        is_known.then(|| {
            let (group, members) = KnownGroup::of(core, gang, now);
            Self {
                ledger: ledger.snapshot(&members),
                now,
                standing: None,
                told: None,
                resort: None,
                holders: holders(ledger, members.iter()),
                group: Some(group),
            }
        })
    }
}

/// A member of which it is still to be found out why no node takes it, and what is known.
struct Unexplained {
    ledger: Ledger,
    now: Moment,
    unplaced: Unplaced,
}

impl Desk {
    /// Why a gang has not started.
    pub(super) async fn why_gang(&self, namespace: &str, name: &str) -> Result<Answer, Refusal> {
        let clerk = self.clerk()?;
        let by = AnsweredBy::Scheduler;
        let answer = Answer::of_gang(namespace, name, by, &clerk.configuration);
        if answer.state == State::NotGanging {
            return Ok(answer);
        }
        let gang = GangId::new(namespace, name);
        let look = move |core: &Core, now| Known::of_gang(core, &gang, now);
        let Seen { what, turn } = clerk.look(self.turn().await, look).await?;
        let none = || WhyError::no_gang(namespace, name);
        let known = what.ok_or_else(none)?;
        told(&clerk, Seen { what: known, turn }, answer, None).await
    }

    /// Why a pod has no node that says that it is of a gang.
    pub(super) async fn why_member(
        &self,
        answer: Answer,
        fact: PodFact,
    ) -> Result<Answer, Refusal> {
        let clerk = self.clerk()?;
        if answer.profile(&fact, &clerk.configuration).is_none() {
            return Ok(answer);
        }
        let uid = fact.uid.clone();
        let look = move |core: &Core, now| Known::of(core, &uid, now);
        let seen = clerk.look(self.turn().await, look).await?;
        told(&clerk, seen, answer, Some(fact)).await
    }
}

/// Says what is known of a group, and why a member of it gets no node.
async fn told(
    clerk: &Clerk,
    seen: Seen<Known>,
    answer: Answer,
    pod: Option<PodFact>,
) -> Result<Answer, Refusal> {
    let Seen { what: known, turn } = seen;
    let (configuration, held) = (clerk.configuration.clone(), turn.clone());
    let work = move || {
        let planned = planned(answer, known, pod.as_ref(), &configuration);
        drop(held);
        planned
    };
    let (mut answer, unexplained) = elsewhere(work).await?;
    let Some(Unexplained { mut ledger, now, unplaced }) = unexplained else { return Ok(answer) };
    let pod = match why::find(&clerk.client, &unplaced.namespace, &unplaced.name).await {
        Ok(pod) => pod,
        // It went meanwhile: what is known of it is told.
        Err(WhyError::NoPod { .. }) => return Ok(answer),
        Err(error) => return Err(error.into()),
    };
    let configuration: Arc<Configuration> = clerk.configuration.clone();
    let work = move || {
        let fact = PodFact::from(&pod);
        answer.explain_unplaced(&mut ledger, &unplaced, &fact, &configuration, now);
        drop(turn);
        answer
    };
    elsewhere(work).await
}

/// What is known of a group; of a pod that is by itself, what is known of that.
fn planned(
    mut answer: Answer,
    mut known: Known,
    pod: Option<&PodFact>,
    configuration: &Configuration,
) -> (Answer, Option<Unexplained>) {
    let is_decided = matches!(known.standing, Some(Standing::Decided { .. }));
    let Some(group) = known.group.take().filter(|_| !is_decided) else {
        let answer = match pod {
            Some(pod) => explained(answer, known, pod, configuration),
            None => answer,
        };
        return (answer, None);
    };
    let KnownGroup { gang, candidates, standing: own, is_starting, refusal } = group;
    let Known { ledger, now, holders, .. } = &mut known;
    let held = |_: &Ledger, quota: &str| holders.remove(quota).unwrap_or_default();
    let unplaced = answer.ask_group(ledger, &gang, &candidates, configuration, held);
    let now = *now;
    if let Some(group) = answer.group.as_mut().filter(|_| is_starting) {
        group.phase = GroupPhase::Starting;
        (group.waits_for, group.plan, answer.message) = (None, None, None);
        group.hints.clear();
    }
    if let Some(pod) = pod.filter(|_| !answer.is_held_by_group()) {
        return (explained(answer, known, pod, configuration), None);
    }
    if let State::Waiting { standing, .. } | State::Unstarted { standing } = &mut answer.state {
        *standing = own;
    }
    // It also says who could have made room.
    if answer.message.is_some()
        && let Some(refusal) = refusal
    {
        answer.message = Some(refusal.to_string());
    }
    let unplaced = unplaced.filter(|_| !is_starting);
    let ledger = known.ledger;
    (answer, unplaced.map(|unplaced| Unexplained { ledger, now, unplaced }))
}

#[cfg(test)]
mod tests;
