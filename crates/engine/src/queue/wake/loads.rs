//! What a change of a node's load can cure.

use super::{Asked, Hint};
use crate::ledger::LoadRooms;

/// The node takes the pod now, and did not before.
pub(super) fn hint(asked: &Asked<'_>, node: &str, before: &LoadRooms) -> Hint {
    let Asked { arguments, ledger, ask, .. } = *asked;
    let own = arguments.load.as_deref().and_then(|settings| ledger.loads.find(settings));
    let (Some((number, book)), Some(node)) = (own, ledger.nodes.find(node)) else {
        return Hint::No;
    };
    let estimate = ledger.estimate(book, ask);
    Hint::when(!before.fit(number, &estimate) && book.fits(node, &estimate))
}
