//! What a pod wants of other pods, from the wire.

use api::pod::{NodeInclusionPolicy, WeightedPodAffinityTerm};
use api::pod::{Pod, PodAffinityTerm, TopologySpreadConstraint, WhenUnsatisfiable};
use object::field::Path;
use object::selector::label::{LabelSelector, Operator, Requirement, Selector};

use crate::needs::{Clause, Constraint, PodAffinity, PodTerm, Spread};

/// A selector that is not there means nothing, and so does one that nobody understands.
fn selector(wire: Option<&LabelSelector>) -> Selector {
    wire.and_then(|wire| wire.to_selector().ok()).unwrap_or_else(Selector::nothing)
}

fn term(pod: &Pod, wire: &PodAffinityTerm) -> PodTerm {
    let own = wire.namespaces.is_empty() && wire.namespace_selector.is_none();
    let mut namespaces = match own {
        true => vec![pod.metadata.namespace.as_str().into()],
        false => wire.namespaces.clone(),
    };
    namespaces.sort_unstable();
    namespaces.dedup();
    let pods = Clause {
        namespaces: namespaces.into(),
        namespace_labels: selector(wire.namespace_selector.as_ref()),
        labels: selector(wire.label_selector.as_ref()),
    };
    PodTerm { pods, topology_key: wire.topology_key.clone() }
}

/// How many terms a pod may have in all: each is counted for every node, and so is what others want.
pub(crate) const TERMS_MAX: u32 = 256;

/// How many terms a pod has about other pods, where these are too many.
pub(super) fn too_many_terms(pod: &Pod) -> Option<u32> {
    let affinity = pod.spec.affinity.as_ref();
    let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let away = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let lists = near.into_iter().chain(away);
    let terms = lists.map(|list| list.required.len() + list.preferred.len()).sum::<usize>();
    let terms = u32::try_from(terms + pod.spec.topology_spread_constraints.len());
    Some(terms.unwrap_or(u32::MAX)).filter(|terms| *terms > TERMS_MAX)
}

pub(super) fn pod_affinity(pod: &Pod) -> PodAffinity {
    let affinity = pod.spec.affinity.as_ref();
    let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let away = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let required = |list: Option<&api::pod::PodAffinity>| {
        list.into_iter().flat_map(|list| &list.required).map(|wire| term(pod, wire)).collect()
    };
    let weighted = |sign: i32| {
        move |wire: &WeightedPodAffinityTerm| {
            (sign * wire.weight, term(pod, &wire.pod_affinity_term))
        }
    };
    let liked = near.into_iter().flat_map(|list| &list.preferred).map(weighted(1));
    let avoided = away.into_iter().flat_map(|list| &list.preferred).map(weighted(-1));
    PodAffinity {
        near: required(near),
        away: required(away),
        preferred: liked.chain(avoided).collect(),
    }
}

pub(super) fn spread(pod: &Pod) -> Spread {
    let rules = pod.spec.topology_spread_constraints.iter();
    Spread(rules.map(|wire| constraint(pod, wire)).collect())
}

fn constraint(pod: &Pod, wire: &TopologySpreadConstraint) -> Constraint {
    let honours = |policy: &Option<NodeInclusionPolicy>, default: bool| match policy {
        Some(policy) => *policy == NodeInclusionPolicy::Honor,
        None => default,
    };
    let labels =
        with_own_labels(pod, selector(wire.label_selector.as_ref()), &wire.match_label_keys);
    Constraint {
        binds: wire.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule,
        max_skew: wire.max_skew,
        topology_key: wire.topology_key.clone(),
        pods: Clause::within(&pod.metadata.namespace, labels),
        min_domains: wire.min_domains.unwrap_or(1),
        honours_affinity: honours(&wire.node_affinity_policy, true),
        honours_taints: honours(&wire.node_taints_policy, false),
    }
}

/// The selector, narrowed to pods that share the pod's own values of some labels.
fn with_own_labels(pod: &Pod, selector: Selector, keys: &[Box<str>]) -> Selector {
    let Some(requirements) = selector.requirements() else { return selector };
    let own = keys.iter().filter_map(|key| {
        let value = pod.metadata.labels.get(&**key)?;
        Requirement::new(key, Operator::Equals, vec![value.clone()], &Path::root()).ok()
    });
    let own: Vec<Requirement> = own.collect();
    match own.is_empty() {
        true => selector,
        false => Selector::all(own.into_iter().chain(requirements.iter().cloned()).collect()),
    }
}
