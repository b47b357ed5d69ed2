//! What a pod gets of the NUMA nodes of a node, where these matter.

use api::CpuSet;

use super::{Asked, CpuSettings, Owed, amplified};
use crate::cpus::{Binding, NotTaken, Want as CpuWant, take};
use crate::fact::{CpuLayout, NumaPolicy};
use crate::ledger::NodeCpus;
use crate::needs::Amounts;
use crate::numa::{Policy, Question, Room, Unplaced, Use, Want, Zone, place};
use crate::reason::CpuReason;

/// Thousandths in a CPU.
const MILLIS: i64 = 1_000;

/// How NUMA nodes are chosen for a pod on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choosing {
    pub(super) policy: NumaPolicy,
    is_apart: bool,
}

impl Asked<'_> {
    /// How NUMA nodes are chosen for the pod on a node; none where they do not matter.
    pub(super) fn choosing(&self, own: Option<&NodeCpus>) -> Result<Option<Choosing>, CpuReason> {
        let node = own.and_then(|own| own.policy);
        let pod = self.needs.and_then(|needs| needs.numa);
        let apart = self.needs.and_then(|needs| needs.is_apart);
        match (pod, node) {
            (Some(pod), Some(node)) if pod != node => Err(CpuReason::OtherPolicy { pod, node }),
            // Who asks for it himself keeps apart from others, unless he says otherwise.
            (Some(policy), _) => Ok(Some(Choosing { policy, is_apart: apart.unwrap_or(true) })),
            (None, Some(policy)) => Ok(Some(Choosing { policy, is_apart: apart.unwrap_or(false) })),
            (None, None) => Ok(None),
        }
    }

    /// What the pod gets of the NUMA nodes of a node.
    pub(super) fn pieces(
        &self,
        settings: &CpuSettings,
        own: &NodeCpus,
        choosing: Choosing,
        owed: Option<Owed>,
    ) -> Result<Vec<(u32, Amounts)>, CpuReason> {
        let Some(layout) = own.layout.as_ref().filter(|layout| !layout.zones.is_empty()) else {
            return match choosing.policy {
                NumaPolicy::BestEffort => Ok(Vec::new()),
                _ => Err(CpuReason::Numa(Unplaced::NoZones)),
            };
        };
        let wants = self.wants(settings, layout, owed);
        let zones: Vec<Zone> = layout
            .zones
            .iter()
            .map(|(id, has)| zone(own, layout, (*id, has), &wants, owed))
            .collect();
        let question = Question {
            policy: match choosing.policy {
                NumaPolicy::BestEffort => Policy::BestEffort,
                NumaPolicy::Restricted => Policy::Restricted,
                NumaPolicy::SingleNUMANode => Policy::Single,
            },
            is_apart: choosing.is_apart,
            strategy: own.strategy.unwrap_or(settings.strategy),
            wants,
        };
        let pieces = place(&zones, &question).map_err(CpuReason::Numa)?;
        let told = pieces.into_iter().map(|piece| {
            let mut amounts = Amounts::default();
            for (want, amount) in question.wants.iter().zip(piece.amounts) {
                if amount > 0 {
                    amounts.put(&want.resource, amount);
                }
            }
            (piece.zone, amounts)
        });
        Ok(told.filter(|(_, amounts)| !amounts.is_nothing()).collect())
    }

    /// What the pod asks of NUMA nodes: of what any of them reports.
    fn wants(&self, settings: &CpuSettings, layout: &CpuLayout, owed: Option<Owed>) -> Vec<Want> {
        let is_reported = |name: &&str| layout.zones.iter().any(|(_, has)| has.of(name) > 0);
        let want = |name: &str| {
            let grain = match (name, owed) {
                ("cpu", Some(owed)) if owed.is_required && owed.binding == Binding::FullCores => {
                    i64::try_from(layout.topology.threads()).unwrap_or(1).max(1) * MILLIS
                }
                ("cpu", Some(_)) => MILLIS,
                _ => 1,
            };
            let weights = settings.zone_weights.iter();
            let weight = weights.filter(|own| &*own.resource == name).map(|own| own.weight).sum();
            Want { resource: name.into(), amount: self.requests.of(name), grain, weight }
        };
        self.requests.names().filter(is_reported).map(want).collect()
    }
}

/// A NUMA node, as far as a pod that asks this is concerned.
fn zone(
    own: &NodeCpus,
    layout: &CpuLayout,
    (id, has): (u32, &Amounts),
    wants: &[Want],
    owed: Option<Owed>,
) -> Zone {
    let cpus = layout.topology.of_numa(id);
    let taken = own.zones.get(&id).cloned().unwrap_or_default();
    let reserved = millis(cpus.among(&own.held.reserved).len());
    let bound = |counts: &dyn Fn(bool) -> bool| -> i64 {
        let sets = own.sets.iter().filter(|((_, is_told), _)| counts(*is_told));
        let of = sets.map(|((set, _), times)| {
            i64::from(*times).saturating_mul(millis(set.among(&cpus).len()))
        });
        of.sum()
    };
    // CPUs of pods that say nothing of NUMA nodes are where they are.
    let (bound, untold) = (bound(&|_| true), bound(&|is_told| !is_told));
    let room = |want: &Want| {
        let name = &*want.resource;
        let (mut total, mut used) = (has.of(name), taken.of(name));
        if total <= 0 {
            return None;
        }
        if name == "cpu" {
            total = total.saturating_sub(reserved).max(0);
            used = used.saturating_add(untold);
        }
        let ratio = own.ratio(name);
        if !layout.is_amplified {
            total = amplified(total, ratio);
        }
        if name == "cpu" {
            used = (used - bound).max(0) + amplified(bound, ratio);
        }
        let mut free = total.saturating_sub(used).max(0);
        if let Some(owed) = owed.filter(|_| name == "cpu") {
            let within = own.held.free_within(&layout.topology, &cpus);
            let required = owed.is_required.then_some(owed.binding);
            free = free.min(i64::from(within.lying(required)) * MILLIS);
        }
        Some(Room { total, free })
    };
    let sets = own.sets.keys().map(|(set, _)| set);
    let spanning = sets.filter(|set| !set.among(&cpus).is_empty());
    let spans = spanning.map(|set| !set.without(&cpus).is_empty());
    let used = spans.fold(Use::Idle, |used, spans| match (used, spans) {
        (Use::Shared, _) | (_, true) => Use::Shared,
        (Use::Idle | Use::Single, false) => Use::Single,
    });
    Zone { id, amounts: wants.iter().map(room).collect(), used }
}

fn millis(cpus: usize) -> i64 {
    i64::try_from(cpus).unwrap_or(i64::MAX).saturating_mul(MILLIS)
}

/// The CPUs that a pod gets of each NUMA node.
pub(super) fn take_of_each(
    own: &NodeCpus,
    layout: &CpuLayout,
    pieces: &[(u32, Amounts)],
    want: &CpuWant,
) -> Result<CpuSet, NotTaken> {
    let mut taken = CpuSet::new();
    for (zone, amounts) in pieces {
        let others = layout.topology.all().without(&layout.topology.of_numa(*zone));
        let mut held = own.held.clone();
        held.reserved = held.reserved.and(&others);
        let count = usize::try_from(amounts.cpu_millis / MILLIS).unwrap_or(0);
        let here = take(&layout.topology, &held, &CpuWant { count, ..want.clone() })?;
        taken = taken.and(&here);
    }
    if taken.len() < want.count { Err(NotTaken::TooFew) } else { Ok(taken) }
}
