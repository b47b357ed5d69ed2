//! What a change of a node's CPUs can cure.

use super::{Asked, Hint};

/// The node has CPUs for the pod now.
pub(super) fn hint(asked: &Asked<'_>, node: Option<&str>) -> Hint {
    let Asked { arguments, ledger, ask, .. } = *asked;
    let node = node.and_then(|node| ledger.nodes.find(node));
    let (Some(settings), Some(node)) = (&arguments.cpus, node) else { return Hint::No };
    Hint::when(settings.lack(ledger, ask, node).is_none())
}
