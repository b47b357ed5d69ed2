//! What a change of a node can cure for pods that may use reservations, and for reservations.

use super::Asked;
use crate::plugin::Plugin;
use crate::plugins::reservation::conflict;
use crate::queue::change::Change;

/// Something else is on a node on which a reservation is for the pod: what it could not use there it
/// perhaps can now, whoever refused it. Or the pod is a reservation, and those that it does not go together
/// with are gone.
pub(super) fn may_cure(asked: &Asked<'_>, change: &Change) -> bool {
    let Asked { plugin, ledger, ask, .. } = *asked;
    match change {
        Change::Node { .. } => {}
        // Whoever comes takes room, unless it is a reservation.
        Change::Placed { old: None, new: Some(new) } if !new.is_reservation() => return false,
        Change::Placed { .. } => {}
        _ => return false,
    }
    let Some(node) = change.node().and_then(|name| ledger.nodes.find(name)) else { return false };
    if ask.guests.is_some() {
        return ledger.meant(ask).any(|own| own.node == node);
    }
    let needs = ask.reservation.map(|id| ledger.asks.reservations.get(id));
    let own = needs.and_then(|needs| needs.own.as_ref());
    plugin == Plugin::Reservation && own.is_some_and(|own| conflict(ledger, own, node).is_none())
}
