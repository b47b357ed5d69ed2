//! Pods that can use nothing of their quota, however much is divided for it, until something else happens:
//! no node would take them whoever left it, or they may not be tried, or they are too many or too large for what
//! their quota may ever use.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use super::parked::Cure;
use super::{Place, Queue, Turn};
use crate::fact::Uid;
use crate::ledger::Charged;

/// Pods that have come to rest or have been roused, until somebody asks.
#[derive(Debug, Clone, Default)]
pub(super) struct Turned {
    pods: BTreeSet<Uid>,
    /// Lots of which all have, and the pod of each after which it goes on.
    lots: VecDeque<Charged>,
    after: BTreeMap<Charged, Option<Turn>>,
}

impl Turned {
    /// All of a lot have. Where it is gone through already, that begins anew.
    pub(super) fn put_lot(&mut self, lot: Charged) {
        if self.after.insert(lot, None).is_none() {
            self.lots.push_back(lot);
        }
    }

    fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.lots.is_empty()
    }
}

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
        self.turned = Some(Turned::default());
        self
    }

    /// So many of the pods that have come to rest or have been roused since this was last asked, maybe several times.
    pub(crate) fn take_turned(&mut self, most: usize) -> Vec<Uid> {
        let Some(turned) = &mut self.turned else { return Vec::new() };
        let first = std::iter::from_fn(|| turned.pods.pop_first());
        let mut taken: Vec<Uid> = first.take(most).collect();
        while taken.len() < most
            && let Some(lot) = turned.lots.pop_front()
        {
            let after = turned.after.remove(&lot).flatten();
            let after = after.map_or(Bound::Unbounded, Bound::Excluded);
            let some = self.parked.turns(lot, after).take(most - taken.len());
            let mut last = None;
            taken.extend(
                some.inspect(|turn| last = Some((*turn).clone())).map(|(_, _, uid)| uid.clone()),
            );
            if taken.len() == most {
                turned.after.insert(lot, last);
                turned.lots.push_back(lot);
            }
        }
        taken
    }

    /// Whether any have of whom nobody has asked yet.
    pub(crate) fn has_turned(&self) -> bool {
        self.turned.as_ref().is_some_and(|turned| !turned.is_empty())
    }

    /// A pod is gone: nobody has to hear that it was roused, however long nobody asks.
    pub(crate) fn forget_turn(&mut self, uid: &Uid) {
        if let Some(turned) = &mut self.turned {
            turned.pods.remove(uid);
        }
    }

    /// How many pods are remembered that have come to rest or have been roused.
    #[cfg(test)]
    pub(crate) fn turned_count(&self) -> usize {
        self.turned.as_ref().map_or(0, |turned| turned.pods.len())
    }

    /// Whether a pod waits for something else than that its quota may use more, or may not be tried.
    #[must_use]
    pub fn is_resting(&self, uid: &Uid) -> bool {
        self.pods.get(uid).is_some_and(|entry| match entry.place {
            Place::Waiting => entry.rejection.is_hopeless,
            Place::Gated => true,
            Place::Parked(lot) => self.parked.cure(lot) == Cure::Else,
            _ => false,
        })
    }

    /// A pod comes to a place or leaves it.
    pub(super) fn turn(&mut self, uid: &Uid, place: Place) {
        if place.may_be_rest()
            && let Some(turned) = &mut self.turned
        {
            turned.pods.insert(uid.clone());
        }
    }
}
