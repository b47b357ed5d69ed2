//! What a change of a pod can cure.

use object::taint::{Effect, Taint, is_tolerated};

use super::nodes::grew;
use super::{Hint, Missed};
use crate::ledger::{Ask, Ledger};
use crate::needs::{Clause, PodTerm};
use crate::plugin::Plugin;
use crate::queue::arrivals::shrank;
use crate::queue::change::PodView;

/// The taint that stands for a cordon.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// What a pod with a node can cure by coming, going or changing.
pub(super) fn placed(
    plugin: Plugin,
    ledger: &Ledger,
    ask: Ask,
    old: Option<&PodView>,
    new: Option<&PodView>,
) -> Hint {
    let gone = new.is_none();
    match plugin {
        Plugin::NodeResourcesFit => {
            let need = &ledger.asks.requests.get(ask.requests).charged;
            let shrank = |old: &PodView, new: &PodView| grew(need, &new.taken, &old.taken);
            Hint::when(gone || old.zip(new).is_some_and(|(old, new)| shrank(old, new)))
        }
        Plugin::NodePorts => {
            let own = &ledger.asks.ports.get(ask.ports).0;
            let freed = old.filter(|_| gone).map(|old| &old.ports[..]).unwrap_or_default();
            let collide = own.iter().any(|own| freed.iter().any(|port| port.collides_with(own)));
            Hint::when(collide)
        }
        Plugin::VolumeRestrictions | Plugin::NodeVolumeLimits => Hint::when(gone),
        Plugin::PodTopologySpread => spread(ledger, ask, old, new),
        Plugin::InterPodAffinity => affinity(ledger, ask, old, new),
        Plugin::Extender | Plugin::Other => Hint::Yes,
        _ => Hint::No,
    }
}

fn spread(ledger: &Ledger, ask: Ask, old: Option<&PodView>, new: Option<&PodView>) -> Hint {
    let own = ledger.terms.crowds.namespace_of(ask.identity, &ledger.symbols);
    if [old, new].into_iter().flatten().any(|pod| &*pod.namespace != own) {
        return Hint::No;
    }
    let rules = &ledger.terms.told_spread(ask.spread).0;
    let mut binding = rules.iter().filter(|rule| rule.binds);
    let means = |clause: &Clause, pod: &PodView| clause.labels.matches(|key| pod.label(key));
    match (old, new) {
        (Some(old), Some(new)) => {
            let ends = !old.deleting && new.deleting;
            let mut other = binding.clone().map(|rule| &rule.pods);
            Hint::when(other.any(|pods| means(pods, old) != means(pods, new))).or(|| {
                let counted = ends && binding.any(|rule| means(&rule.pods, old));
                Hint::missed_when(counted, Missed::Deleting)
            })
        }
        (one, other) => {
            let pod = one.or(other);
            Hint::when(pod.is_some_and(|pod| binding.any(|rule| means(&rule.pods, pod))))
        }
    }
}

/// Whether a term means a pod: as kube-scheduler reads it here, without the labels of namespaces,
/// and as it is meant.
fn means(ledger: &Ledger, term: &PodTerm, pod: &PodView, namespaces: Namespaces) -> bool {
    let label = |key: &str| match namespaces {
        Namespaces::Unknown => None,
        Namespaces::Known => {
            ledger.terms.crowds.namespace_label(&pod.namespace, key, &ledger.symbols)
        }
    };
    term.pods.holds(&pod.namespace, label, |key| pod.label(key))
}

#[derive(Clone, Copy)]
enum Namespaces {
    Unknown,
    Known,
}

fn affinity(ledger: &Ledger, ask: Ask, old: Option<&PodView>, new: Option<&PodView>) -> Hint {
    let wants = ledger.terms.told_affinity(ask.pod_affinity);
    let all = |terms: &[PodTerm], pod: Option<&PodView>, namespaces| {
        let means = |pod| terms.iter().all(|term| means(ledger, term, pod, namespaces));
        !terms.is_empty() && pod.is_some_and(means)
    };
    let any = |terms: &[PodTerm], pod: Option<&PodView>| {
        let means = |pod| terms.iter().any(|term| means(ledger, term, pod, Namespaces::Known));
        pod.is_some_and(means)
    };
    let unknown = Namespaces::Unknown;
    let (near, away) = (&wants.near, &wants.away);
    let comes = new.is_some() && !all(near, old, unknown) && all(near, new, unknown);
    let leaves = old.is_some() && all(away, old, unknown) && !all(away, new, unknown);
    if comes || leaves {
        return Hint::Yes;
    }
    let known = Namespaces::Known;
    if !all(near, old, known) && all(near, new, known) {
        Hint::Missed(Missed::NamespaceSelector)
    } else if any(away, old)
        && away.iter().any(|term| {
            let means =
                |pod: Option<&PodView>| pod.is_some_and(|pod| means(ledger, term, pod, known));
            means(old) && !means(new)
        })
    {
        Hint::Missed(Missed::OneOfSeveralTerms)
    } else if all(near, old, known) && !all(near, new, known) {
        Hint::Missed(Missed::LastOfItsKind)
    } else if new.is_none() && old.is_some_and(|old| keeps_away(ledger, ask, old)) {
        Hint::Missed(Missed::WishOfOthers)
    } else {
        Hint::No
    }
}

/// Whether a pod may not be near one that asks this.
fn keeps_away(ledger: &Ledger, ask: Ask, pod: &PodView) -> bool {
    let (crowds, symbols) = (&ledger.terms.crowds, &ledger.symbols);
    let namespace = crowds.namespace_of(ask.identity, symbols);
    let of_namespace = |key: &str| crowds.namespace_label(namespace, key, symbols);
    let own = |key: &str| crowds.label_of(ask.identity, key, symbols);
    pod.away.iter().any(|term| term.pods.holds(namespace, of_namespace, own))
}

/// What a pod can cure by changing itself.
pub(super) fn own(plugin: Plugin, ledger: &Ledger, ask: Ask, old: &PodView, new: &PodView) -> Hint {
    // Tolerations can only be added.
    let tolerates_more = old.tolerations.len() != new.tolerations.len();
    match plugin {
        Plugin::NodeResourcesFit => Hint::when(shrank(&old.taken, &new.taken)),
        Plugin::TaintToleration => Hint::when(tolerates_more),
        Plugin::NodeUnschedulable => {
            let effect = Some(Effect::NoSchedule);
            let taint = Taint { key: UNSCHEDULABLE.into(), effect, ..Taint::default() };
            Hint::when(tolerates_more && is_tolerated(&taint, &new.tolerations))
        }
        Plugin::PodTopologySpread => {
            let rules = &ledger.terms.told_spread(ask.spread).0;
            let mut binding = rules.iter().filter(|rule| rule.binds);
            let honours = binding.clone().any(|rule| rule.honours_taints);
            let means =
                |clause: &Clause, pod: &PodView| clause.labels.matches(|key| pod.label(key));
            let counted = binding.any(|rule| means(&rule.pods, old) != means(&rule.pods, new));
            Hint::when((tolerates_more && honours) || counted)
        }
        Plugin::InterPodAffinity => Hint::missed_when(old.labels != new.labels, Missed::OwnLabels),
        Plugin::Extender | Plugin::Other => Hint::Yes,
        _ => Hint::No,
    }
}
