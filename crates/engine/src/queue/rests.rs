//! Pods that can use nothing of their quota for as long as nothing happens that is not up to that: nodes
//! refused them, or they may not be tried.

use super::{Place, Queue};
use crate::fact::Uid;

impl Place {
    /// Whether a pod there can use nothing until something happens that is not up to its quota.
    fn is_rest(self) -> bool {
        matches!(self, Self::Waiting | Self::Gated)
    }
}

impl Queue {
    /// Remembers which pods come to rest or are roused.
    #[must_use]
    pub fn telling_turns(mut self) -> Self {
        self.turned = Some(Vec::new());
        self
    }

    /// Pods that have come to rest or have been roused since this was last asked, maybe several times.
    pub(crate) fn take_turned(&mut self) -> Vec<Uid> {
        self.turned.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether a pod waits for something that is not its quota, or may not be tried.
    #[must_use]
    pub fn is_resting(&self, uid: &Uid) -> bool {
        self.pods.get(uid).is_some_and(|entry| entry.place.is_rest())
    }

    /// A pod comes to a place or leaves it.
    pub(super) fn turn(&mut self, uid: &Uid, place: Place) {
        if place.is_rest()
            && let Some(turned) = &mut self.turned
        {
            turned.push(uid.clone());
        }
    }
}
