//! What a pod gets of the NUMA nodes of a node, where these matter.

use std::collections::BTreeMap;

use api::CpuSet;

use super::{Asked, CpuSettings, Owed, amplified};
use crate::cpus::{Binding, NotTaken, Want as CpuWant, take};
use crate::fact::{CpuLayout, NumaPolicy};
use crate::ledger::{Holding, NodeCpus, ZoneUse};
use crate::needs::{Amounts, Named};
use crate::numa::{Policy, Question, Room, Unplaced, Want, Zone, check, place};
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

    /// What the pod gets of the NUMA nodes of a node; of these parts of them, where they will do.
    pub(super) fn pieces(
        &self,
        settings: &CpuSettings,
        own: &NodeCpus,
        (choosing, owed): (Choosing, Option<Owed>),
        first: Option<&Holding>,
    ) -> Result<Vec<(u32, Amounts)>, CpuReason> {
        let Some((zones, question)) = self.question(settings, own, choosing, owed)? else {
            return Ok(Vec::new());
        };
        let first = first.map(|first| &first.zones).filter(|parts| !parts.is_empty());
        let inside = first.and_then(|parts| {
            let zones: Vec<Zone> =
                zones.iter().map(|zone| within(zone, parts, &question)).collect();
            place(&zones, &question).ok()
        });
        let pieces = match inside {
            Some(pieces) => pieces,
            None => place(&zones, &question).map_err(CpuReason::Numa)?,
        };
        let told = pieces.into_iter().map(|piece| {
            let mut amounts = Amounts::default();
            for (want, amount) in question.wants.iter().zip(piece.amounts) {
                if amount > 0 {
                    amounts.put(want.resource, amount);
                }
            }
            (piece.zone, amounts)
        });
        Ok(told.filter(|(_, amounts)| !amounts.is_nothing()).collect())
    }

    /// Whether the pod gets anything of them.
    pub(super) fn fits(
        &self,
        settings: &CpuSettings,
        own: &NodeCpus,
        choosing: Choosing,
        owed: Option<Owed>,
    ) -> Result<(), CpuReason> {
        match self.question(settings, own, choosing, owed)? {
            Some((zones, question)) => check(&zones, &question).map_err(CpuReason::Numa),
            None => Ok(()),
        }
    }

    /// What is asked of which NUMA nodes; none where nobody knows any and it does not matter.
    fn question(
        &self,
        settings: &CpuSettings,
        own: &NodeCpus,
        choosing: Choosing,
        owed: Option<Owed>,
    ) -> Result<Option<(Vec<Zone>, Question<'_>)>, CpuReason> {
        let Some(layout) = own.layout.as_ref().filter(|layout| !layout.zones.is_empty()) else {
            return match choosing.policy {
                NumaPolicy::BestEffort => Ok(None),
                _ => Err(CpuReason::Numa(Unplaced::NoZones)),
            };
        };
        let wants = self.wants(settings, layout, owed);
        let zones = layout.zones.iter().zip(own.uses.iter());
        let named: Vec<Resource<'_>> =
            wants.iter().map(|want| Resource::of(own, want.resource)).collect();
        let zones = zones.map(|zone| zone_of(layout, zone, &named, owed)).collect();
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
        Ok(Some((zones, question)))
    }

    /// What the pod asks of NUMA nodes: of what any of them reports.
    fn wants(
        &self,
        settings: &CpuSettings,
        layout: &CpuLayout,
        owed: Option<Owed>,
    ) -> Vec<Want<'_>> {
        let is_reported = |name: &&str| layout.zones.iter().any(|(_, has)| has.of(name) > 0);
        let want = |name| {
            let grain = match (name, owed) {
                ("cpu", Some(owed)) if owed.is_required && owed.binding == Binding::FullCores => {
                    i64::try_from(layout.topology.threads()).unwrap_or(1).max(1) * MILLIS
                }
                ("cpu", Some(_)) => MILLIS,
                _ => 1,
            };
            let weights = settings.zone_weights.iter();
            let weight = weights.filter(|own| &*own.resource == name).map(|own| own.weight).sum();
            Want { resource: name, amount: self.requests.of(name), grain, weight }
        };
        // CPUs of its own lie somewhere, whatever is reported.
        let counts = |name: &&str| is_reported(name) || (owed.is_some() && *name == "cpu");
        self.requests.names().filter(counts).map(want).collect()
    }
}

/// A NUMA node of which no more than its part of these may be had.
fn within(zone: &Zone, parts: &BTreeMap<u32, Amounts>, question: &Question<'_>) -> Zone {
    let part = parts.get(&zone.id);
    let rooms = zone.amounts.iter().zip(&question.wants).map(|(room, want)| {
        let part = part.map_or(0, |part| part.of(want.resource));
        room.map(|room| Room { free: room.free.min(part), ..room })
    });
    Zone { amounts: rooms.collect(), ..zone.clone() }
}

/// A NUMA node of a layout, and how it is used.
type Used<'a> = (&'a (u32, Amounts), &'a ZoneUse);

/// A resource, and how much more of it than it has the node offers.
#[derive(Clone, Copy)]
pub(super) struct Resource<'a> {
    name: Named<'a>,
    ratio: Option<u32>,
}

impl<'a> Resource<'a> {
    pub(super) fn of(own: &NodeCpus, name: &'a str) -> Self {
        Self { name: name.into(), ratio: own.ratio(name) }
    }
}

/// A NUMA node, as far as a pod that asks for these is concerned.
fn zone_of(layout: &CpuLayout, zone: Used<'_>, wants: &[Resource<'_>], owed: Option<Owed>) -> Zone {
    let room = |want: &Resource<'_>| {
        let owed = owed.filter(|_| want.name == Named::Cpu);
        let mut room = room(layout, zone, *want, owed.is_some())?;
        if let Some(owed) = owed {
            let required = owed.is_required.then_some(owed.binding);
            room.free = room.free.min(i64::from(zone.1.free.lying(required)) * MILLIS);
        }
        Some(room)
    };
    Zone { id: zone.0.0, amounts: wants.iter().map(room).collect(), used: zone.1.by }
}

/// What a NUMA node has of the resource of this name; nothing where it does not report it.
#[must_use]
pub fn room_named(own: &NodeCpus, layout: &CpuLayout, id: u32, name: &str) -> Option<Room> {
    room_of(own, layout, id, Resource::of(own, name))
}

/// What a NUMA node has of a resource; nothing where it does not report it.
pub(super) fn room_of(
    own: &NodeCpus,
    layout: &CpuLayout,
    id: u32,
    resource: Resource<'_>,
) -> Option<Room> {
    let mut zones = layout.zones.iter().zip(own.uses.iter());
    room(layout, zones.find(|((own, _), _)| *own == id)?, resource, false)
}

fn room(
    layout: &CpuLayout,
    ((id, has), zone): Used<'_>,
    Resource { name, ratio }: Resource<'_>,
    owns: bool,
) -> Option<Room> {
    let has = has.named(name);
    let (mut total, mut used) = (has, zone.taken.named(name).max(0));
    if name == Named::Cpu {
        if total <= 0 && owns {
            total = millis(layout.topology.of_numa(*id).len());
        }
        total = total.saturating_sub(i64::from(zone.reserved) * MILLIS).max(0);
        let [bound, untold] = [zone.bound, zone.untold].map(|cpus| cpus.saturating_mul(MILLIS));
        used = used.saturating_add(untold).saturating_sub(bound).max(0);
        used = used.saturating_add(amplified(bound, ratio));
    }
    if total <= 0 && has <= 0 && !owns {
        return None;
    }
    let total = if layout.is_amplified { total } else { amplified(total, ratio) };
    Some(Room { total, free: total.saturating_sub(used).max(0) })
}

/// Says of CPUs that lie elsewhere than was planned where they are.
pub(super) fn put_cpus(layout: &CpuLayout, cpus: &CpuSet, zones: &mut Vec<(u32, Amounts)>) {
    zones.iter_mut().for_each(|(_, amounts)| amounts.cpu_millis = 0);
    for (id, _) in &layout.zones {
        let here = millis(cpus.count_among(layout.topology.of_numa(*id)));
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
        let others = layout.topology.all().without(layout.topology.of_numa(*zone));
        let mut held = own.held.clone();
        held.reserved = held.reserved.and(&others);
        let count = usize::try_from(amounts.cpu_millis / MILLIS).unwrap_or(0);
        let here = take(&layout.topology, &held, &CpuWant { count, ..want.clone() })?;
        taken = taken.and(&here);
    }
    if taken.len() < want.count { Err(NotTaken::TooFew) } else { Ok(taken) }
}
