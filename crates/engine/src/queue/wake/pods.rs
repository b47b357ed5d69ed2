//! What a change of a pod can cure.

use object::taint::{Effect, Taint, is_tolerated};

use super::nodes::grew;
use super::{Asked, Hint, Missed, Rule};
use crate::ledger::{Ask, Ledger};
use crate::needs::{PodTerm, Volume};
use crate::plugin::Plugin;
use crate::queue::arrivals::shrank;
use crate::queue::change::{PodView, has_left};

/// The taint that stands for a cordon.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// What a pod with a node can cure by coming, going or changing.
pub(super) fn placed(asked: &Asked<'_>, old: Option<&PodView>, new: Option<&PodView>) -> Hint {
    if new.is_some() && has_left(old, new) {
        return placed(asked, old, None).or(|| placed(asked, None, new));
    }
    let Asked { plugin, ledger, ask, .. } = *asked;
    let gone = old.filter(|_| new.is_none());
    match plugin {
        Plugin::NodeResourcesFit => {
            let need = &ledger.asks.requests.get(ask.requests).charged;
            // A reservation may have fewer places for pods now.
            let shrank = |old: &PodView, new: &PodView| {
                new.is_reservation() || grew(need, &new.taken, &old.taken)
            };
            Hint::when(new.is_none() || old.zip(new).is_some_and(|(old, new)| shrank(old, new)))
        }
        Plugin::NodePorts => {
            let own = &ledger.asks.ports.get(ask.ports).0;
            let freed = gone.map(|old| &old.ports[..]).unwrap_or_default();
            let collide = own.iter().any(|own| freed.iter().any(|port| port.collides_with(own)));
            Hint::when(collide)
        }
        Plugin::NodeNUMAResource => {
            super::cpus::hint(asked, old.or(new).and_then(|pod| pod.node.as_deref()))
        }
        Plugin::VolumeRestrictions => gone.map_or(Hint::No, |old| sharing(ledger, ask, old)),
        Plugin::NodeVolumeLimits => Hint::when(gone.is_some_and(|old| {
            let counts = |volume: &Volume| match volume {
                Volume::Claim(_) | Volume::Ephemeral { .. } => true,
                Volume::Disk(disk) => disk.is_taken_over(),
            };
            old.volumes.volumes.iter().any(counts)
        })),
        Plugin::VolumeBinding => {
            let broken = gone.is_some_and(|old| old.breaks_promises);
            Hint::missed_when(broken, Missed::BrokenPromise)
        }
        Plugin::PodTopologySpread => spread(asked, old, new),
        Plugin::InterPodAffinity => affinity(ledger, ask, old, new),
        _ => Hint::No,
    }
}

/// A pod is gone that may have had what the pod cannot share.
fn sharing(ledger: &Ledger, ask: Ask, gone: &PodView) -> Hint {
    let Some(own) = ask.volumes.map(|id| ledger.asks.volumes.get(id)) else { return Hint::No };
    let pairs = own.volumes.iter().flat_map(|own| {
        let theirs = gone.volumes.volumes.iter();
        theirs.map(move |other| (own, other))
    });
    let (mut disk, mut claim, mut for_one) = (false, false, false);
    let same = own.namespace == gone.volumes.namespace;
    for pair in pairs {
        match pair {
            (Volume::Disk(own), Volume::Disk(other)) => disk |= own.collides_with(other),
            (Volume::Claim(name), Volume::Claim(other)) if same && name == other => {
                let known = ledger.storage.claim(&own.namespace, name);
                claim = true;
                for_one |= known.is_some_and(|claim| claim.is_for_one_pod());
            }
            _ => {}
        }
    }
    Hint::of_both(same && (disk || claim), disk || for_one, Missed::SharedDisk)
}

fn spread(asked: &Asked<'_>, old: Option<&PodView>, new: Option<&PodView>) -> Hint {
    let Asked { ledger, ask, .. } = *asked;
    let own = ledger.terms.crowds.namespace_of(ask.identity, &ledger.symbols);
    if [old, new].into_iter().flatten().any(|pod| &*pod.namespace != own) {
        return Hint::No;
    }
    let rules = asked.rules();
    match (old, new) {
        (Some(old), Some(new)) => {
            let ends = !old.deleting && new.deleting;
            let other = rules.iter().any(|rule| rule.counts(old) != rule.counts(new));
            Hint::when(other).or(|| {
                let counted = ends && rules.iter().any(|rule| rule.counts(old));
                Hint::missed_when(counted, Missed::Deleting)
            })
        }
        (one, other) => {
            let pod = one.or(other);
            Hint::when(pod.is_some_and(|pod| rules.iter().any(|rule| rule.counts(pod))))
        }
    }
}

impl Rule<'_> {
    /// Whether a pod of the same namespace is counted.
    fn counts(&self, pod: &PodView) -> bool {
        self.pods.matches(|key| pod.label(key))
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
pub(super) fn own(asked: &Asked<'_>, old: &PodView, new: &PodView) -> Hint {
    // Tolerations can only be added.
    let tolerates_more = old.tolerations.len() != new.tolerations.len();
    let relabelled = old.labels != new.labels;
    match asked.plugin {
        Plugin::NodeResourcesFit => Hint::when(shrank(&old.taken, &new.taken)),
        Plugin::TaintToleration => Hint::when(tolerates_more),
        Plugin::NodeUnschedulable => {
            let effect = Some(Effect::NoSchedule);
            let taint = Taint { key: UNSCHEDULABLE.into(), effect, ..Taint::default() };
            Hint::when(tolerates_more && is_tolerated(&taint, &new.tolerations))
        }
        Plugin::PodTopologySpread => {
            let rules = asked.rules();
            let honours = rules.iter().any(|rule| rule.honours_taints);
            let counted = rules.iter().any(|rule| rule.counts(old) != rule.counts(new));
            Hint::when((tolerates_more && honours) || counted).or(|| {
                // Others may be like it now, or nobody.
                let otherwise = relabelled && asked.is_spread_by_default();
                Hint::missed_when(otherwise, Missed::OwnLabels)
            })
        }
        Plugin::LoadAwareScheduling => Hint::when(old.load != new.load || old.taken != new.taken),
        Plugin::SchedulingHint => Hint::when(old.hint != new.hint),
        Plugin::Reservation => Hint::when(old.reservation != new.reservation),
        Plugin::NodeNUMAResource => Hint::when(old.cpus != new.cpus || old.taken != new.taken),
        Plugin::InterPodAffinity => Hint::missed_when(relabelled, Missed::OwnLabels),
        _ => Hint::No,
    }
}
