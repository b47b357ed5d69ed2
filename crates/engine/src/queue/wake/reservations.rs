//! What a change of a node can cure for pods that may use reservations, and for reservations.

use super::Asked;
use crate::needs::TakeOver;
use crate::plugin::Plugin;
use crate::plugins::reservation::conflict;
use crate::queue::change::{Change, PodView};

/// Something else is on a node on which a reservation is for the pod: what it could not use there it
/// perhaps can now, whoever refused it. Or the pod is a reservation, and those that it does not go together
/// with are gone.
pub(super) fn may_cure(asked: &Asked<'_>, change: &Change) -> bool {
    let Asked { plugin, ledger, ask, .. } = *asked;
    if let (Some(own), Change::Placed { new: Some(new), .. }) = (ledger.takeover(ask), change)
        && may_be_taken_over(asked, own, new)
    {
        return true;
    }
    let comes = match change {
        Change::Node { .. } => None,
        // Whoever comes takes room, unless it is a reservation that is for the pod.
        Change::Placed { old: None, new: Some(new) } if !new.is_reservation() => return false,
        Change::Placed { old: None, new } => new.as_deref(),
        Change::Placed { .. } => None,
        _ => return false,
    };
    let Some(node) = change.node().and_then(|name| ledger.nodes.find(name)) else { return false };
    if ask.guests.is_some() {
        let is_it = |name: &str| comes.is_none_or(|comes| *comes.name == *name);
        return ledger.meant_on(ask, node).any(|own| is_it(&own.rules.name));
    }
    let needs = ask.reservation.map(|id| ledger.asks.reservations.get(id));
    let own = needs.and_then(|needs| needs.own.as_ref());
    plugin == Plugin::Reservation && own.is_some_and(|own| conflict(ledger, own, node).is_none())
}

/// Whether a pod that runs is one that a reservation may take over, as far as its labels say.
fn may_be_taken_over(asked: &Asked<'_>, own: &TakeOver, pod: &PodView) -> bool {
    let label = |key: &str| pod.label(key);
    if own.is_of_anyone {
        let key = asked.arguments.takeover_label.as_deref();
        return key.is_some_and(|key| label(key) == Some("true"));
    }
    let rules = asked.ledger.reservations.rules(&own.uid);
    let mut owners = rules.into_iter().flat_map(|rules| &rules.owners);
    owners.any(|owner| owner.labels.as_ref().is_some_and(|labels| labels.matches(label)))
}

/// The pod must use a reservation, none is for it on the node that the change is about, and whoever refused
/// the pod looks at one node at a time.
pub(super) fn is_elsewhere(asked: &Asked<'_>, change: &Change) -> bool {
    let Asked { plugin, ledger, ask, .. } = *asked;
    let looks_at_one = matches!(
        plugin,
        Plugin::NodeResourcesFit
            | Plugin::NodePorts
            | Plugin::NodeNUMAResource
            | Plugin::LoadAwareScheduling
            | Plugin::TaintToleration
            | Plugin::NodeAffinity
            | Plugin::NodeUnschedulable
    );
    if !looks_at_one || !ledger.must_use(ask) {
        return false;
    }
    let node = change.node().and_then(|name| ledger.nodes.find(name));
    node.is_some_and(|node| ledger.meant_on(ask, node).next().is_none())
}
