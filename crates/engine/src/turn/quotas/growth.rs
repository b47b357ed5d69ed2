//! Quotas share more than before: lots that asked for more than all there was may ask for less than that now.
//!
//! Nothing was divided for them meanwhile, so that no quota may use more because of them, and none tells that it has
//! room. They are asked one after the other whether that is still so, and something is divided for those of which it
//! is not.

use std::ops::Bound;

use crate::ledger::Charged;
use crate::turn::Engine;

/// Of how many lots it is asked in one turn.
pub(super) const ASKED_MAX: usize = 256;

/// How far those are gone through that nothing is divided for.
#[derive(Debug, Default)]
pub(super) struct Growth {
    /// From where on it is gone on, where it is.
    next: Option<Bound<Charged>>,
    /// Whether there has become more since that was begun.
    again: bool,
}

impl Growth {
    /// Whether nobody is left to be asked.
    pub(super) fn is_done(&self) -> bool {
        self.next.is_none()
    }

    /// There is more to share. All are asked, however often this is said meanwhile.
    fn note(&mut self) {
        self.again |= self.next.is_some();
        self.next.get_or_insert(Bound::Unbounded);
    }

    /// All that was to be asked was.
    fn end(&mut self) {
        self.next = std::mem::take(&mut self.again).then_some(Bound::Unbounded);
    }
}

impl Engine {
    /// Takes in whether there is more to share.
    pub(super) fn note_growth(&mut self) {
        if self.ledger.quotas.take_growth() {
            self.lots.growth.note();
        }
    }

    /// Asks more of the lots that nothing is divided for.
    pub(super) fn follow_growth(&mut self) {
        for _ in 0..ASKED_MAX {
            let Some(from) = self.lots.growth.next else { return };
            match self.queue.lot_beyond_runtime(from) {
                Some(lot) => {
                    self.settle_cure(lot);
                    self.lots.growth.next = Some(Bound::Excluded(lot));
                }
                None => self.lots.growth.end(),
            }
        }
    }
}
