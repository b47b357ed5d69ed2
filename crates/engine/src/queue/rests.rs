//! Pods that can use nothing of their quota, however much is divided for it, until something else happens:
//! nodes refused them, or they may not be tried, or they are too many or too large for what their quota may
//! ever use.

use std::collections::BTreeSet;

use super::parked::Cure;
use super::{Place, Queue};
use crate::fact::Uid;

impl Place {
    /// Whether a pod there may be one that can use nothing.
    fn may_be_rest(self) -> bool {
        matches!(self, Self::Waiting | Self::Gated | Self::Parked(_))
    }
}

impl Queue {
    /// Remembers which pods come to rest or are roused.
    #[must_use]
    pub fn telling_turns(mut self) -> Self {
        self.turned = Some(BTreeSet::new());
        self
    }

    /// Pods that have come to rest or have been roused since this was last asked.
    pub(crate) fn take_turned(&mut self) -> BTreeSet<Uid> {
        self.turned.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// A pod is gone: nobody has to hear that it was roused, however long nobody asks.
    pub(crate) fn forget_turn(&mut self, uid: &Uid) {
        if let Some(turned) = &mut self.turned {
            turned.remove(uid);
        }
    }

    /// How many pods are remembered that have come to rest or have been roused.
    #[cfg(test)]
    pub(crate) fn turned_count(&self) -> usize {
        self.turned.as_ref().map_or(0, BTreeSet::len)
    }

    /// Whether a pod waits for something else than that its quota may use more, or may not be tried.
    #[must_use]
    pub fn is_resting(&self, uid: &Uid) -> bool {
        self.pods.get(uid).is_some_and(|entry| match entry.place {
            Place::Waiting | Place::Gated => true,
            Place::Parked(lot) => self.parked.cure(lot) == Cure::Else,
            _ => false,
        })
    }

    /// A pod comes to a place or leaves it.
    pub(super) fn turn(&mut self, uid: &Uid, place: Place) {
        if place.may_be_rest()
            && let Some(turned) = &mut self.turned
        {
            turned.insert(uid.clone());
        }
    }
}
