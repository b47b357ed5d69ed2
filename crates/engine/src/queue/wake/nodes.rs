//! What a change of a node can cure.

use object::taint::{Effect, Taint, is_tolerated};

use super::{Asked, Hint, Missed, Rule};
use crate::fact::NodeFact;
use crate::ledger::{Ask, Ledger};
use crate::needs::{Amounts, NodeAffinity, PodTerm};
use crate::plugin::Plugin;

pub(super) fn hint(asked: &Asked<'_>, old: Option<&NodeFact>, new: Option<&NodeFact>) -> Hint {
    let Asked { plugin, ledger, ask, .. } = *asked;
    let Some(new) = new else {
        return match plugin {
            Plugin::PodTopologySpread => spread(asked, old, None),
            Plugin::InterPodAffinity => Hint::Missed(Missed::NodeGone),
            // Its pods do not use their claims any longer.
            Plugin::VolumeRestrictions => {
                Hint::missed_when(ask.volumes.is_some(), Missed::NodeGone)
            }
            _ => Hint::No,
        };
    };
    let relabelled = old.is_none_or(|old| old.labels != new.labels);
    let own = match plugin {
        Plugin::NodeUnschedulable => {
            let was = old.is_none_or(|old| old.unschedulable);
            Hint::when(was && !new.unschedulable)
        }
        Plugin::NodeName
        | Plugin::NodePorts
        | Plugin::VolumeRestrictions
        | Plugin::SchedulingHint => Hint::when(old.is_none()),
        Plugin::VolumeBinding | Plugin::VolumeZone => Hint::when(relabelled),
        Plugin::TaintToleration => {
            let was = old.is_none_or(|old| keeps_away(ledger, ask, &old.taints));
            Hint::when(was && !keeps_away(ledger, ask, &new.taints))
        }
        Plugin::NodeAffinity => {
            let affinity = ledger.asks.node_affinity.get(ask.node_affinity);
            let added = &asked.arguments.node_affinity.added;
            let is = admits(affinity, new) && admits(added, new);
            let was = old.is_some_and(|old| admits(affinity, old));
            let was_added = old.is_some_and(|old| admits(added, old));
            Hint::of_both(is && !was, is && !(was && was_added), Missed::AddedAffinity)
        }
        Plugin::NodeResourcesFit => fit(asked, old, new),
        Plugin::NodeNUMAResource => {
            let is_other =
                |old: &NodeFact| old.cpus != new.cpus || old.allocatable != new.allocatable;
            let may = old.is_none_or(is_other);
            if may { super::cpus::hint(asked, Some(&new.name)) } else { Hint::No }
        }
        Plugin::PodTopologySpread => return spread(asked, old, Some(new)),
        Plugin::InterPodAffinity => affinity(ledger, ask, old, new),
        Plugin::NodeVolumeLimits => Hint::missed_when(old.is_none(), Missed::NewNode),
        _ => Hint::No,
    };
    match own {
        Hint::Yes => Hint::Yes,
        _ if retainted(old, new) && wakes_in_vain(plugin) => match own {
            // Both agree that it wakes, if not why.
            Hint::Missed(_) => Hint::Yes,
            _ => Hint::Vain,
        },
        own => own,
    }
}

/// Whether kube-scheduler tells its plugins that taints changed: so it calls an uncordoned node.
fn retainted(old: Option<&NodeFact>, new: &NodeFact) -> bool {
    old.is_some_and(|old| old.taints != new.taints || (old.unschedulable && !new.unschedulable))
}

/// Plugins that hear of new nodes and not of taints: kube-scheduler has them try a pod whenever
/// taints change.
fn wakes_in_vain(plugin: Plugin) -> bool {
    matches!(
        plugin,
        Plugin::NodeResourcesFit
            | Plugin::NodeName
            | Plugin::NodePorts
            | Plugin::NodeAffinity
            | Plugin::InterPodAffinity
            | Plugin::VolumeRestrictions
            | Plugin::VolumeZone
            | Plugin::VolumeBinding
    )
}

fn keeps_away(ledger: &Ledger, ask: Ask, taints: &[Taint]) -> bool {
    let tolerations = &ledger.asks.tolerations.get(ask.tolerations).0;
    let forbids =
        |taint: &&Taint| matches!(taint.effect, Some(Effect::NoSchedule | Effect::NoExecute));
    taints.iter().filter(forbids).any(|taint| !is_tolerated(taint, tolerations))
}

fn admits(affinity: &NodeAffinity, node: &NodeFact) -> bool {
    let label = |key: &str| node.labels.get(key).map(|value| &**value);
    let required = affinity.required.as_deref();
    affinity.labels.iter().all(|(key, value)| label(key) == Some(value))
        && required.is_none_or(|terms| terms.iter().any(|term| term.holds(&node.name, label)))
}

/// Whether some amount for which there is a need is larger.
pub(super) fn grew(need: &Amounts, old: &Amounts, new: &Amounts) -> bool {
    grew_but(need, old, new, |_| false)
}

fn grew_but(need: &Amounts, old: &Amounts, new: &Amounts, ignores: impl Fn(&str) -> bool) -> bool {
    let scalars = need.scalars.iter().filter(|(name, amount)| *amount != 0 && !ignores(name));
    (need.cpu_millis > 0 && new.cpu_millis > old.cpu_millis)
        || (need.memory_bytes > 0 && new.memory_bytes > old.memory_bytes)
        || (need.storage_bytes > 0 && new.storage_bytes > old.storage_bytes)
        || scalars.into_iter().any(|(name, _)| new.scalar(name) > old.scalar(name))
}

/// A node that could take the pod if it were empty has more than before.
fn fit(asked: &Asked<'_>, old: Option<&NodeFact>, new: &NodeFact) -> Hint {
    let need = &asked.ledger.asks.requests.get(asked.ask.requests).charged;
    let has = &new.allocatable;
    let enough = new.pods_allowed > 0
        && (need.cpu_millis <= 0 || need.cpu_millis <= has.cpu_millis)
        && (need.memory_bytes <= 0 || need.memory_bytes <= has.memory_bytes)
        && (need.storage_bytes <= 0 || need.storage_bytes <= has.storage_bytes);
    let helps = |ignores: &dyn Fn(&str) -> bool| {
        let mut scalars = need.scalars.iter().filter(|(name, _)| !ignores(name));
        let enough =
            enough && scalars.all(|(name, amount)| *amount == 0 || *amount <= has.scalar(name));
        let more = |old: &NodeFact| {
            new.pods_allowed > old.pods_allowed || grew_but(need, &old.allocatable, has, ignores)
        };
        enough && old.is_none_or(more)
    };
    let ignores = |name: &str| asked.arguments.fit.ignores(name);
    Hint::of_both(helps(&|_| false), helps(&ignores), Missed::IgnoredResources)
}

fn has_key(node: &NodeFact, key: &str) -> bool {
    node.labels.contains_key(key)
}

fn spread(asked: &Asked<'_>, old: Option<&NodeFact>, new: Option<&NodeFact>) -> Hint {
    let rules = asked.rules();
    let counts = |node: &NodeFact| rules.iter().all(|rule| has_key(node, rule.topology_key));
    let (Some(old), Some(new)) = (old, new) else {
        return Hint::when(old.or(new).is_some_and(counts));
    };
    let moved = |rule: &Rule<'_>| {
        let value = |node: &NodeFact| node.labels.get(rule.topology_key).cloned();
        value(old).unwrap_or_default() != value(new).unwrap_or_default()
    };
    let same = counts(new) && !rules.iter().any(moved) && old.taints == new.taints;
    let seen = counts(old) != counts(new) || (counts(new) && !same);
    Hint::when(seen).or(|| {
        let affinity = asked.ledger.asks.node_affinity.get(asked.ask.node_affinity);
        let honours = rules.iter().any(|rule| rule.honours_affinity);
        let other = admits(affinity, old) != admits(affinity, new);
        Hint::missed_when(honours && other, Missed::CountedNodes)
    })
}

fn affinity(ledger: &Ledger, ask: Ask, old: Option<&NodeFact>, new: &NodeFact) -> Hint {
    let wants = ledger.terms.told_affinity(ask.pod_affinity);
    let Some(old) = old else {
        let near = wants.near.iter().any(|term| has_key(new, &term.topology_key));
        let none = wants.near.is_empty();
        return Hint::when(near || !wants.away.is_empty())
            .or(|| Hint::missed_when(none, Missed::WishOfOthers));
    };
    let value = |node: &NodeFact, term: &PodTerm| node.labels.get(&term.topology_key).cloned();
    let near = |term: &PodTerm| {
        let is = value(new, term);
        is.is_some() && is != value(old, term)
    };
    let away = |term: &PodTerm| {
        let was = value(old, term);
        was.is_some() && was != value(new, term)
    };
    let seen = wants.near.iter().any(near) || wants.away.iter().any(away);
    let relabelled = old.labels != new.labels;
    Hint::when(seen).or(|| Hint::missed_when(relabelled, Missed::WishOfOthers))
}
