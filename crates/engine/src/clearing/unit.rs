//! Units: pods that go together or stay together.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use api::pod_group::GangId;

use super::Aim;
use crate::fact::Uid;
use crate::ledger::{Ledger, NodeIndex, PodRow};
use crate::moment::Moment;
use crate::preemption::breaks_budget;
use crate::search::Work;
use crate::speculate::Speculation;

/// How much is left of disruption budgets, by namespace and name, of those that were asked.
pub(super) type Left = BTreeMap<(Box<str>, Box<str>), i32>;

/// How much is lost. Less is better; the order of the fields is the order of what counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Importance {
    /// Pods whose going breaks a disruption budget.
    violations: usize,
    /// The priority of the most important one.
    highest: i32,
    /// How many there are.
    pods: usize,
    /// When the one that runs longest started: later is better.
    started: Reverse<Moment>,
}

impl Importance {
    /// Whether the going of any breaks a disruption budget.
    pub(super) fn breaks_budgets(&self) -> bool {
        self.violations > 0
    }

    /// The priority of the most important one.
    pub(super) fn highest(&self) -> i32 {
        self.highest
    }

    /// What is lost with others as well.
    pub(super) fn merge(&mut self, other: &Self) {
        self.violations += other.violations;
        self.highest = self.highest.max(other.highest);
        self.pods += other.pods;
        self.started = self.started.min(other.started);
    }

    /// What is lost with all of these, for each of so many members that get a place.
    pub(super) fn of(units: &[Unit], members: usize) -> Self {
        let all = || units.iter().map(|unit| &unit.importance);
        let pods: usize = all().map(|own| own.pods).sum();
        Self {
            violations: all().map(|own| own.violations).sum(),
            highest: all().map(|own| own.highest).max().unwrap_or(i32::MIN),
            // More members for the same loss are better.
            pods: pods * 1_000 / members.max(1),
            started: all().map(|own| own.started).min().unwrap_or_default(),
        }
    }
}

/// What a unit is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Extent {
    /// A pod of no gang.
    Pod,
    /// A member of a gang that has enough others.
    Member(GangId),
    /// All of a gang.
    Gang(GangId),
}

/// Who stays though a pod was to go.
pub(super) enum Stays {
    /// The pod.
    Pod,
    /// All of its gang, which has as few as it needs.
    Gang(GangId),
}

/// Pods that go together or stay together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) pods: Vec<Uid>,
    pub(super) extent: Extent,
    pub(super) importance: Importance,
}

impl Unit {
    /// The units of a node that may have to go, the least important first.
    pub(super) fn on(
        ledger: &mut Ledger,
        node: NodeIndex,
        aim: Aim<'_>,
        work: &mut Work,
    ) -> Vec<Self> {
        let residents: Vec<Uid> =
            ledger.residents.on(node).iter().map(|(_, uid)| uid.clone()).collect();
        work.spend(residents.len());
        let (mut units, mut seen, mut left) = (Vec::<Self>::new(), BTreeSet::new(), Left::new());
        let mut staying: BTreeSet<GangId> = BTreeSet::new();
        for uid in residents {
            let gang = ledger.pod(&uid).and_then(|row| row.gang.as_ref());
            if seen.contains(&uid) || gang.is_some_and(|own| staying.contains(&own.gang)) {
                continue;
            }
            match Self::of(ledger, &uid, aim, &mut left, work) {
                Ok(unit) => {
                    seen.extend(unit.pods.iter().cloned());
                    units.push(unit);
                }
                Err(Stays::Gang(gang)) => drop(staying.insert(gang)),
                Err(Stays::Pod) => {}
            }
        }
        units.sort_by(|one, other| {
            (&one.importance, &one.pods).cmp(&(&other.importance, &other.pods))
        });
        units
    }

    /// The unit of a pod that has a node.
    ///
    /// # Errors
    /// Who stays, where it may not go.
    pub(super) fn of(
        ledger: &mut Ledger,
        uid: &Uid,
        Aim { party, rule, now }: Aim<'_>,
        left: &mut Left,
        work: &mut Work,
    ) -> Result<Self, Stays> {
        let kin = &party.kin;
        let is_there = ledger.pod(uid).is_some_and(PodRow::is_placed);
        let stays = !is_there || kin.contains(uid);
        if stays || !rule.may_go(ledger, uid) || !rule.helps(ledger, uid) {
            return Err(Stays::Pod);
        }
        let (mut pods, mut extent) = whole(ledger, uid);
        work.spend(pods.len().saturating_sub(1));
        let may_all = pods.iter().all(|own| own == uid || !kin.contains(own))
            && rule.may_all_go(ledger, &pods.iter().collect::<Vec<&Uid>>());
        match extent {
            Extent::Gang(gang) if !may_all && rule.parts(ledger, uid, &pods) => {
                (pods, extent) = (vec![uid.clone()], Extent::Member(gang));
            }
            Extent::Gang(gang) if !may_all => return Err(Stays::Gang(gang)),
            _ if !may_all => return Err(Stays::Pod),
            _ => {}
        }
        let importance = importance(ledger, &pods, left, now);
        Ok(Self { pods, extent, importance })
    }

    /// What goes by now of those who were to leave a node: others may have gone since in thought, so that there
    /// are too few left of a gang, or that what was borrowed is guaranteed. Nothing where none is there any longer.
    ///
    /// # Errors
    /// Who stays, where nobody of them may go, or it would be of no use on that node.
    pub(super) fn by_now(
        &self,
        ledger: &mut Ledger,
        node: NodeIndex,
        aim: Aim<'_>,
        left: &mut Left,
        work: &mut Work,
    ) -> Result<Option<Self>, Stays> {
        let is_there = |uid: &&Uid| ledger.pod(uid).and_then(PodRow::node) == Some(node);
        let there: Vec<&Uid> = self.pods.iter().filter(is_there).collect();
        let mut stays = Ok(None);
        for uid in there {
            match Self::of(ledger, uid, aim, left, work) {
                // Another one of them may be of use.
                Err(Stays::Pod) => stays = Err(Stays::Pod),
                found => return found.map(Some),
            }
        }
        stays
    }

    /// The gang of which all go, where there is more than one of it.
    pub(super) fn whole_gang(&self) -> Option<&GangId> {
        match &self.extent {
            Extent::Gang(gang) if self.pods.len() > 1 => Some(gang),
            _ => None,
        }
    }

    /// Whether it is of this gang.
    pub(super) fn is_of(&self, gang: &GangId) -> bool {
        matches!(&self.extent, Extent::Member(own) | Extent::Gang(own) if own == gang)
    }

    /// It goes, in thought.
    pub(super) fn leave(&self, thought: &mut Speculation<'_>) {
        for uid in &self.pods {
            // One that is not where it was has gone already.
            let _ = thought.evict(uid);
        }
    }
}

/// The pod, or all members of its gang that have a node where without it these were too few.
fn whole(ledger: &Ledger, uid: &Uid) -> (Vec<Uid>, Extent) {
    let Some(own) = ledger.pod(uid).and_then(|row| row.gang.as_ref()) else {
        return (vec![uid.clone()], Extent::Pod);
    };
    let least = ledger.gangs.terms(&own.gang).and_then(|terms| terms.min_available);
    let placed = ledger.gangs.placed(&own.gang);
    // Where it has too few already, one more or less makes no difference.
    match least.is_some_and(|least| placed.len() == least as usize) && placed.contains(uid) {
        true => (placed.iter().cloned().collect(), Extent::Gang(own.gang.clone())),
        false => (vec![uid.clone()], Extent::Member(own.gang.clone())),
    }
}

fn importance<'a>(ledger: &'a Ledger, pods: &[Uid], left: &mut Left, now: Moment) -> Importance {
    // Whoever goes anyway is no loss.
    let rows: Vec<(&Uid, &'a PodRow)> = pods
        .iter()
        .filter_map(|uid| Some((uid, ledger.pod(uid).filter(|row| !row.goes())?)))
        .collect();
    let violations = rows.iter().filter(|(uid, _)| breaks_budget(ledger, uid, left)).count();
    let started = rows.iter().map(|(_, row)| row.started.unwrap_or(now)).min();
    Importance {
        violations,
        highest: rows.iter().map(|(_, row)| row.priority).max().unwrap_or(i32::MIN),
        pods: rows.len(),
        started: Reverse(started.unwrap_or(now)),
    }
}

#[cfg(test)]
mod tests;
