//! What a change of a node's load can cure.

use super::{Asked, Hint};
use crate::ledger::LoadRooms;

/// The node takes the pod now, and did not before, as far as that is known.
pub(super) fn hint(asked: &Asked<'_>, node: &str, before: Option<&LoadRooms>) -> Hint {
    let Asked { arguments, ledger, ask, .. } = *asked;
    let own = arguments.load.as_deref().and_then(|settings| ledger.loads.find(settings));
    let (Some((number, book)), Some(node)) = (own, ledger.nodes.find(node)) else {
        return Hint::No;
    };
    let estimate = ledger.estimate(book, ask);
    let did = before.is_some_and(|before| before.fit(number, &estimate));
    Hint::when(!did && book.fits(node, &estimate))
}
