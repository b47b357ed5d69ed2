//! What plugins that read terms about other pods have in common.

use crate::fact::TERMS_MAX;
use crate::ledger::Ask;
use crate::reason::{Code, Reason, Refusal};

/// A pod with so many terms that they are not kept is not placed as if it had none.
pub(super) fn admit_terms(ask: Ask) -> Result<(), Refusal> {
    match ask.too_many_terms {
        Some(terms) => {
            let reason = Reason::TooManyTerms { terms, most: TERMS_MAX };
            Err(Refusal::new(Code::Unresolvable, reason))
        }
        None => Ok(()),
    }
}
