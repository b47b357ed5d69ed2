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
        // CPUs of its own lie somewhere, whatever is reported.
        let counts = |name: &&str| is_reported(name) || (owed.is_some() && *name == "cpu");
        self.requests.names().filter(counts).map(want).collect()
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
    let room = |want: &Want| {
        let name = &*want.resource;
        let owed = owed.filter(|_| name == "cpu");
        let mut room = room(own, layout, (id, has), name, owed.is_some())?;
        if let Some(owed) = owed {
            let within = own.held.free_within(&layout.topology, &cpus);
            let required = owed.is_required.then_some(owed.binding);
            room.free = room.free.min(i64::from(within.lying(required)) * MILLIS);
        }
        Some(room)
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

/// What a NUMA node has of a resource; nothing where it does not report it.
pub(super) fn room_of(own: &NodeCpus, layout: &CpuLayout, id: u32, name: &str) -> Option<Room> {
    let (_, has) = layout.zones.iter().find(|(own, _)| *own == id)?;
    room(own, layout, (id, has), name, false)
}

fn room(
    own: &NodeCpus,
    layout: &CpuLayout,
    (id, has): (u32, &Amounts),
    name: &str,
    owns: bool,
) -> Option<Room> {
    let (mut total, ratio) = (has.of(name), own.ratio(name));
    let mut used = own.zones.get(&id).map_or(0, |taken| taken.of(name)).max(0);
    if name == "cpu" {
        let cpus = layout.topology.of_numa(id);
        if total <= 0 && owns {
            total = millis(cpus.len());
        }
        total = total.saturating_sub(millis(cpus.among(&own.held.reserved).len())).max(0);
        let bound = |counts: &dyn Fn(bool) -> bool| -> i64 {
            let sets = own.sets.iter().filter(|((_, is_told), _)| counts(*is_told));
            let of = sets.map(|((set, _), times)| {
                i64::from(*times).saturating_mul(millis(set.among(&cpus).len()))
            });
            of.fold(0, i64::saturating_add)
        };
        // CPUs of pods that say nothing of NUMA nodes are where they are.
        let (bound, untold) = (bound(&|_| true), bound(&|is_told| !is_told));
        used = used.saturating_add(untold).saturating_sub(bound).max(0);
        used = used.saturating_add(amplified(bound, ratio));
    }
    if total <= 0 && has.of(name) <= 0 && !owns {
        return None;
    }
    let total = if layout.is_amplified { total } else { amplified(total, ratio) };
    Some(Room { total, free: total.saturating_sub(used).max(0) })
}

/// Says of CPUs that lie elsewhere than was planned where they are.
pub(super) fn put_cpus(layout: &CpuLayout, cpus: &CpuSet, zones: &mut Vec<(u32, Amounts)>) {
    zones.iter_mut().for_each(|(_, amounts)| amounts.cpu_millis = 0);
    for (id, _) in &layout.zones {
        let here = millis(cpus.among(&layout.topology.of_numa(*id)).len());
        match zones.iter_mut().find(|(own, _)| own == id) {
            Some((_, amounts)) => amounts.cpu_millis = here,
            None if here > 0 => {
                zones.push((*id, Amounts { cpu_millis: here, ..Amounts::default() }));
            }
            None => {}
        }
    }
    zones.retain(|(_, amounts)| !amounts.is_nothing());
    zones.sort_by_key(|(id, _)| *id);
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
