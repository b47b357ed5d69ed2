//! NodeNUMAResource: latency-sensitive pods get CPUs of their own, which lie as they should, and pods are
//! put on NUMA nodes by policy.
//!
//! Where no policy is, whether a node has CPUs for a pod follows from three counts that the ledger keeps
//! of it, and which they are is found out once, when the pod gets the node ([`crate::cpus`]). With one,
//! sets of NUMA nodes are tried ([`crate::numa`]).

mod zones;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::hash::BuildHasher as _;

use rustc_hash::FxBuildHasher;

use super::node_resources::{Counted, Strategy as ScoreStrategy, Weighted, are_most, parts};
use crate::cpus::{Binding, Exclusive, Strategy, Want, take};
use crate::fact::{Allotment, NumaPolicy};
use crate::ledger::{Ask, Holding, Ledger, NodeCpus, NodeIndex};
use crate::needs::{Amounts, CpuNeeds, Wish};
use crate::node_set::NodeSet;
use crate::numa::Unplaced;
use crate::plugin::{Filter, Key, Normalise, Plugin, Reads, Score, States};
use crate::queue::Arguments;
use crate::reason::{Code, CpuReason, Reason, Refusal};
use zones::Choosing;
pub use zones::room_named;

/// What profiles say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSettings {
    /// How the CPUs of pods lie that do not say it; none where these get none.
    pub binding: Option<Binding>,
    /// Which CPUs and NUMA nodes are given first where a node does not say it.
    pub strategy: Strategy,
    /// What resources count where NUMA nodes are compared.
    pub zone_weights: Vec<Weighted>,
}

impl Default for CpuSettings {
    fn default() -> Self {
        Self {
            binding: Some(Binding::FullCores),
            strategy: Strategy::LeastAllocated,
            zone_weights: Weighted::cpu_and_memory(),
        }
    }
}

/// Gives CPUs to pods, and refuses nodes that have none for them.
#[derive(Debug, Clone)]
pub struct NodeNuma {
    /// How.
    pub settings: CpuSettings,
    /// How the use of resources makes a score.
    pub score: ScoreStrategy,
    /// Which resources.
    pub resources: Vec<Weighted>,
}

impl Default for NodeNuma {
    fn default() -> Self {
        Self {
            settings: CpuSettings::default(),
            score: ScoreStrategy::LeastAllocated,
            resources: Weighted::cpu_and_memory(),
        }
    }
}

/// Thousandths of a CPU in a CPU, and of a ratio in one.
const MILLIS: i64 = 1_000;

/// What a pod asks for.
struct Asked<'a> {
    requests: &'a Amounts,
    millis: i64,
    needs: Option<&'a CpuNeeds>,
    /// Whether it must be so, and how its CPUs lie, where it is one that gets its own everywhere.
    wish: Option<(bool, Binding)>,
}

/// CPUs that a pod gets on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owed {
    count: u32,
    binding: Binding,
    is_required: bool,
}

/// So much more of CPU as a node offers more than it has.
fn amplified(millis: i64, ratio: Option<u32>) -> i64 {
    let Some(ratio) = ratio else { return millis };
    let whole = i128::from(millis) * i128::from(ratio);
    let rounded = whole.div_euclid(1_000) + i128::from(whole.rem_euclid(1_000) != 0);
    i64::try_from(rounded).unwrap_or(i64::MAX)
}

impl CpuSettings {
    fn asked<'a>(&self, ledger: &'a Ledger, ask: Ask) -> Asked<'a> {
        let requests = &ledger.asks.requests.get(ask.requests).charged;
        let millis = requests.cpu_millis;
        let needs = ask.cpus.map(|id| ledger.asks.cpus.get(id));
        let wish = needs.and_then(|needs| needs.wish(self.binding)).filter(|_| millis > 0);
        Asked { requests, millis, needs, wish }
    }

    /// Why a node has no CPUs for the pod; none where it has.
    pub(crate) fn lack(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<CpuReason> {
        self.check(ledger, &self.asked(ledger, ask), node).err()
    }

    fn check(&self, ledger: &Ledger, asked: &Asked<'_>, node: NodeIndex) -> Result<(), CpuReason> {
        if asked.requests.is_nothing() {
            return Ok(());
        }
        let own = ledger.cpus.of(node);
        let choosing = asked.choosing(own)?;
        let owed = asked.owed(own)?;
        if let Some(lack) = asked.amplified_lack(ledger, node, own, owed.is_some()) {
            return Err(lack);
        }
        match (choosing, own, owed) {
            // On as few NUMA nodes as can be: no reason to refuse any.
            (Some(Choosing { policy: NumaPolicy::BestEffort, .. }) | None, own, owed) => {
                let Some((own, owed)) = own.zip(owed) else { return Ok(()) };
                let free = own.free.lying(owed.is_required.then_some(owed.binding));
                match owed.count > free {
                    true => Err(CpuReason::TooFew { count: owed.count, free }),
                    false => Ok(()),
                }
            }
            (Some(_), None, _) => Err(CpuReason::Numa(Unplaced::NoZones)),
            (Some(choosing), Some(own), owed) => asked.fits(self, own, choosing, owed),
        }
    }
}

impl Asked<'_> {
    fn whole(&self) -> Result<u32, CpuReason> {
        let millis = self.millis;
        match millis % MILLIS {
            _ if millis <= 0 => Ok(0),
            0 => Ok(u32::try_from(millis / MILLIS).unwrap_or(u32::MAX)),
            _ => Err(CpuReason::NotWhole { millis }),
        }
    }

    /// How many CPUs the pod gets on a node, and how they lie; none where it gets none of its own.
    fn owed(&self, own: Option<&NodeCpus>) -> Result<Option<Owed>, CpuReason> {
        let node = own.and_then(|own| own.binding).filter(|_| self.millis > 0);
        let (is_required, binding) = match (self.wish, node) {
            (None, None) => return Ok(None),
            (Some((true, pod)), Some(node)) if pod != node => {
                self.whole()?;
                self.layout(own)?;
                return Err(CpuReason::Conflict { pod, node });
            }
            (_, Some(node)) => (true, node),
            (Some(wish), None) => wish,
        };
        let count = self.whole()?;
        let threads = self.layout(own)?;
        let is_full = is_required && binding == Binding::FullCores;
        if is_full && !count.is_multiple_of(threads) {
            return Err(CpuReason::NotMultiple { count, threads });
        }
        Ok(Some(Owed { count, binding, is_required }))
    }

    /// How the CPUs of the pod had to lie and would best lie to each other, now that it is known.
    fn told(&self, owed: Owed, node: Option<Binding>) -> (Option<Wish>, Option<Wish>) {
        let (required, preferred) =
            self.needs.map(|needs| (needs.required, needs.preferred)).unwrap_or_default();
        let so = Some(Wish::So(owed.binding));
        match (required, preferred) {
            (None | Some(Wish::Default), _) if node.is_some() => (so, preferred),
            (None, None | Some(Wish::Default)) => (None, so),
            told => told,
        }
    }

    /// How many CPUs a core of the node has.
    fn layout(&self, own: Option<&NodeCpus>) -> Result<u32, CpuReason> {
        let layout = own.and_then(|own| own.layout.as_ref());
        let layout = layout.filter(|layout| !layout.topology.is_empty());
        let threads = layout.ok_or(CpuReason::NoLayout)?.topology.threads();
        Ok(u32::try_from(threads.max(1)).unwrap_or(u32::MAX))
    }

    /// What a CPU of its own counts where a node offers more than it has, and what others have.
    fn amplified(
        &self,
        ledger: &Ledger,
        node: NodeIndex,
        own: &NodeCpus,
        owns: bool,
    ) -> (i64, i64) {
        let requested = ledger.nodes.resources.cpu.requested[node.get()];
        let ratio = own.ratio("cpu");
        let need = if owns { amplified(self.millis, ratio) } else { self.millis };
        let bound = i64::from(own.bound) * MILLIS;
        let used = match bound > 0 && requested >= bound {
            true => requested - bound + amplified(bound, ratio),
            false => requested,
        };
        (need, used)
    }

    fn amplified_lack(
        &self,
        ledger: &Ledger,
        node: NodeIndex,
        own: Option<&NodeCpus>,
        owns: bool,
    ) -> Option<CpuReason> {
        let own = own.filter(|own| own.ratio("cpu").is_some() && self.millis > 0)?;
        let (requested, used) = self.amplified(ledger, node, own, owns);
        let allocatable = ledger.nodes.resources.cpu.allocatable[node.get()];
        (requested > allocatable.saturating_sub(used)).then_some(CpuReason::Amplified {
            requested,
            used,
            allocatable,
        })
    }
}

fn refusal(why: CpuReason) -> Refusal {
    let code = match why {
        CpuReason::TooFew { .. } | CpuReason::Amplified { .. } => Code::Unschedulable,
        CpuReason::Numa(Unplaced::Unsatisfied(_) | Unplaced::Unaligned) => Code::Unschedulable,
        _ => Code::Unresolvable,
    };
    Refusal::new(code, Reason::Cpus(why))
}

impl NodeNuma {
    /// What counts in the score, CPU before all others, and how often that is. Mostly it is written so.
    fn cpu_first(&self) -> (Cow<'_, [Weighted]>, usize) {
        let is_cpu = |own: &Weighted| &*own.resource == "cpu";
        let cpus = self.resources.iter().filter(|own| is_cpu(own)).count();
        if self.resources.iter().take(cpus).all(is_cpu) {
            return (Cow::Borrowed(&self.resources), cpus);
        }
        let (mut first, others): (Vec<Weighted>, Vec<Weighted>) =
            self.resources.iter().cloned().partition(is_cpu);
        first.extend(others);
        (Cow::Owned(first), cpus)
    }

    /// How good the NUMA nodes are that a pod would get; nothing where it would get none.
    fn score_of_zones(&self, asked: &Asked<'_>, own: &NodeCpus, choosing: Choosing) -> i64 {
        let pieces = asked.owed(Some(own)).and_then(|owed| {
            Ok((asked.pieces(&self.settings, own, (choosing, owed), None)?, owed.is_some()))
        });
        let (Ok((pieces, owns)), Some(layout)) = (pieces, &own.layout) else { return 0 };
        let part = |weighted: &Weighted| {
            let name = &*weighted.resource;
            let resource = zones::Resource::of(own, name);
            let (mut total, mut used) = (0_i64, 0_i64);
            for (zone, given) in &pieces {
                let Some(room) = zones::room_of(own, layout, *zone, resource) else { continue };
                let more = given.of(name);
                let more = match owns && name == "cpu" {
                    true => amplified(more, own.ratio(name)),
                    false => more,
                };
                total = total.saturating_add(room.total);
                used = used.saturating_add(room.total - room.free).saturating_add(more);
            }
            (total, used, weighted.weight)
        };
        self.score.of(self.resources.iter().map(part))
    }

    /// Nodes on which NUMA nodes are tried share what comes of it. On the others a few counts say it all.
    fn states<'a>(&self, ledger: &'a Ledger, ask: Ask) -> Option<States<'a>> {
        let asked = self.settings.asked(ledger, ask);
        let of_pod = asked.needs.and_then(|needs| needs.numa);
        if of_pod.is_none() && ledger.cpus.particular().is_empty() {
            return None;
        }
        Some(Box::new(move |node| {
            let own = ledger.cpus.of(node)?;
            of_pod.or(own.policy)?;
            // Where a node offers more than it has, what of it is asked for counts as well.
            own.ratio("cpu").is_none().then(|| ledger.cpus.state(node))?
        }))
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Key {
        let cpus = ask.cpus.map(|id| ledger.asks.cpus.stamp(id));
        FxBuildHasher.hash_one((ledger.asks.requests.stamp(ask.requests), cpus))
    }
}

impl Filter for NodeNuma {
    fn plugin(&self) -> Plugin {
        Plugin::NodeNUMAResource
    }

    fn reads(&self) -> Reads {
        Reads::Load
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        let asked = self.settings.asked(ledger, ask);
        let wishes = asked.wish.is_some() || asked.needs.is_some_and(|needs| needs.numa.is_some());
        let is_concerned = wishes || !ledger.cpus.particular().is_empty();
        (!asked.requests.is_nothing() && is_concerned).then(|| self.key(ledger, ask))
    }

    fn admit(&self, ledger: &Ledger, ask: Ask) -> Result<(), Refusal> {
        let asked = self.settings.asked(ledger, ask);
        let malformed = asked.needs.and_then(|needs| needs.malformed.clone());
        let malformed = malformed.map(CpuReason::Malformed);
        let why = malformed.or_else(|| asked.wish.and_then(|_| asked.whole().err()));
        why.map_or(Ok(()), |why| Err(refusal(why)))
    }

    fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
        let asked = self.settings.asked(ledger, ask);
        nodes.keep_where(|node| self.settings.check(ledger, &asked, node).is_ok());
    }

    fn states<'a>(&'a self, ledger: &'a Ledger, ask: Ask) -> Option<States<'a>> {
        self.states(ledger, ask)
    }

    fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<Refusal> {
        self.settings.lack(ledger, ask, node).map(refusal)
    }

    fn tell(&self, arguments: &mut Arguments) {
        arguments.cpus = Some(self.settings.clone());
    }

    fn allots(&self) -> bool {
        true
    }

    fn allot(
        &self,
        ledger: &Ledger,
        ask: Ask,
        node: NodeIndex,
        first: Option<&Holding>,
    ) -> Result<Option<Allotment>, Refusal> {
        let asked = self.settings.asked(ledger, ask);
        let own = ledger.cpus.of(node).filter(|_| !asked.requests.is_nothing());
        let Some(own) = own else { return Ok(None) };
        let choosing = asked.choosing(Some(own)).map_err(refusal)?;
        let is_lenient = choosing.is_some_and(|own| own.policy == NumaPolicy::BestEffort);
        let mut zones = match choosing {
            Some(choosing) => {
                let owed = asked.owed(Some(own)).map_err(refusal)?;
                asked.pieces(&self.settings, own, (choosing, owed), first).map_err(refusal)?
            }
            None => Vec::new(),
        };
        let Some(owed) = asked.owed(Some(own)).map_err(refusal)? else {
            let own = Allotment { zones: zones.into(), ..Allotment::default() };
            return Ok(Some(own).filter(|own| !own.zones.is_empty()));
        };
        let Some(layout) = &own.layout else { return Err(refusal(CpuReason::NoLayout)) };
        let want = Want {
            count: owed.count as usize,
            binding: Some(owed.binding),
            is_required: owed.is_required,
            exclusive: asked.needs.map_or(Exclusive::None, |needs| needs.exclusive),
            strategy: own.strategy.unwrap_or(self.settings.strategy),
            preferred: first.map(|first| first.cpus.clone()).unwrap_or_default(),
            ..Want::default()
        };
        let free = own.free.lying(owed.is_required.then_some(owed.binding));
        let too_few = |_| refusal(CpuReason::TooFew { count: owed.count, free });
        let anywhere = || take(&layout.topology, &own.held, &want);
        let cpus = match zones.is_empty() {
            true => anywhere(),
            false => match zones::take_of_each(own, layout, &zones, &want) {
                // As well as can be is better than not at all. What is told is where the CPUs are.
                Err(_) if is_lenient => anywhere().inspect(|cpus| {
                    zones::put_cpus(layout, cpus, &mut zones);
                }),
                taken => taken,
            },
        };
        let cpus = cpus.map_err(too_few)?;
        let (required, preferred) = asked.told(owed, own.binding);
        let (exclusive, zones) = (want.exclusive, zones.into());
        let reservation = None;
        Ok(Some(Allotment { cpus, required, preferred, exclusive, zones, reservation }))
    }
}

impl Score for NodeNuma {
    fn plugin(&self) -> Plugin {
        Plugin::NodeNUMAResource
    }

    fn reads(&self) -> Reads {
        Reads::Load
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        Some(self.key(ledger, ask))
    }

    fn normalise(&self) -> Normalise {
        Normalise::No
    }

    fn states<'a>(&'a self, ledger: &'a Ledger, ask: Ask) -> Option<States<'a>> {
        let states = self.states(ledger, ask)?;
        let asked = self.settings.asked(ledger, ask);
        // Where no NUMA nodes are chosen, what of the whole node is asked for counts.
        let chooses = move |node| matches!(asked.choosing(ledger.cpus.of(node)), Ok(Some(_)));
        Some(Box::new(move |node| chooses(node).then(|| states(node))?))
    }

    fn score(&self, ledger: &Ledger, ask: Ask, nodes: &NodeSet, raw: &mut [i32]) {
        let (resources, cpus) = self.cpu_first();
        let mut parts = parts(ledger, ask, &resources, Counted::Charged);
        let all = ledger.nodes.present();
        let scored = if are_most(nodes, raw.len()) {
            self.score.score_all(&parts, raw);
            all
        } else {
            nodes.each(|node| {
                raw[node] = i32::try_from(self.score.score(&parts, node)).unwrap_or(i32::MAX);
            });
            nodes
        };
        let asked = self.settings.asked(ledger, ask);
        let is_asked_by_pod = asked.needs.is_some_and(|needs| needs.numa.is_some());
        let counts = |node: &NodeIndex| is_asked_by_pod || ledger.cpus.particular().contains(*node);
        for node in scored.iter().filter(counts) {
            let Some(own) = ledger.cpus.of(node) else { continue };
            if let Ok(Some(choosing)) = asked.choosing(Some(own)) {
                let score = self.score_of_zones(&asked, own, choosing);
                raw[node.get()] = i32::try_from(score).unwrap_or(i32::MAX);
                continue;
            }
            if own.ratio("cpu").is_none() {
                continue;
            }
            // Where a node offers more CPU than it has, CPUs that are somebody's own count for more.
            let owns = asked.owed(Some(own)).is_ok_and(|owed| owed.is_some());
            let (need, used) = asked.amplified(ledger, node, own, owns);
            let requested = ledger.nodes.resources.cpu.requested[node.get()];
            let added = need.saturating_add(used.saturating_sub(requested));
            parts.iter_mut().take(cpus).for_each(|part| part.adding(added));
            let score = self.score.score(&parts, node.get());
            raw[node.get()] = i32::try_from(score).unwrap_or(i32::MAX);
        }
    }
}
