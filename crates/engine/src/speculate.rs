//! Speculation: pods are placed and evicted in thought, and all of it is kept or none.
//!
//! Whatever is asked of the ledger inside a speculation is answered as if it had happened. An undo
//! log takes it back, so that a speculation that is dropped leaves no trace. Placing many pods at
//! once or not at all, moving a pod, and asking what would fit are all this one thing. For the many
//! small questions of preemption there is [`crate::judge::Trial`], which moves less.

use crate::fact::{Allotment, Uid};
use crate::ledger::{ClaimError, Ledger, NodeIndex, Way};
use crate::pool::Id;

/// Why a speculation cannot be kept, or a pod cannot be moved in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpeculateError {
    /// The pod cannot be moved like this.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The pod has no node to leave.
    #[error("pod with uid {} has no node", .0.0)]
    Nowhere(Uid),
    /// The node is gone.
    #[error("the node of this place is gone")]
    NoNode,
    /// Only the API server ends a pod.
    #[error("pod with uid {} was evicted in thought only, so what followed from it cannot be kept", .0.0)]
    Evicted(Uid),
}

#[derive(Debug, Clone)]
enum Done {
    Placed(Uid),
    Evicted {
        uid: Uid,
        node: NodeIndex,
        bound: Option<NodeIndex>,
        claim: Option<NodeIndex>,
        /// What it has there besides amounts: elsewhere it gets something else.
        allotment: Option<Id<Allotment>>,
        /// Whether the place of the node was held, because nothing else would have held it.
        pinned: bool,
    },
}

/// A point of a speculation to come back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(usize);

/// A ledger in which pods are placed and evicted in thought.
pub struct Speculation<'a> {
    ledger: &'a mut Ledger,
    done: Vec<Done>,
    kept: bool,
}

impl Ledger {
    /// Places and evicts pods in thought. Unless the speculation is kept, everything is as before
    /// at the end.
    pub fn speculate<T>(&mut self, think: impl FnOnce(&mut Speculation<'_>) -> T) -> T {
        self.quotas.begin_thought();
        let mut speculation = Speculation { ledger: self, done: Vec::new(), kept: false };
        let answer = think(&mut speculation);
        drop(speculation);
        self.quotas.end_thought();
        answer
    }
}

impl Speculation<'_> {
    /// The ledger as it would be.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        self.ledger
    }

    /// The same for those who ask by trying; they leave it as they find it.
    pub fn ledger_mut(&mut self) -> &mut Ledger {
        self.ledger
    }

    /// Puts a pod on a node, with these CPUs. If the speculation is kept, the pod has a claim on the
    /// node.
    ///
    /// # Errors
    /// When the pod or the node is gone, or the pod has a node.
    pub fn place(
        &mut self,
        uid: &Uid,
        node: NodeIndex,
        allotment: Option<&Allotment>,
    ) -> Result<(), SpeculateError> {
        if !self.ledger.nodes.present().contains(node) {
            return Err(SpeculateError::NoNode);
        }
        self.ledger.claim(uid, node, allotment)?;
        self.done.push(Done::Placed(uid.clone()));
        Ok(())
    }

    /// Takes a pod from its node, and says from which.
    ///
    /// # Errors
    /// When the pod is gone or has no node.
    pub fn evict(&mut self, uid: &Uid) -> Result<NodeIndex, SpeculateError> {
        let row = self.ledger.pods.get_mut(uid).ok_or_else(|| ClaimError::NoPod(uid.clone()))?;
        let node = row.node().ok_or_else(|| SpeculateError::Nowhere(uid.clone()))?;
        let (bound, claim) = (row.bound.take(), row.claim.take());
        self.ledger.gangs.follow(uid, row);
        let (pod, charged, user) = (row.passing(), row.charged(), row.user());
        let allotment = row.allotment.take();
        let pinned = !self.ledger.nodes.present().contains(node);
        if pinned {
            self.ledger.nodes.pin(node);
        }
        self.ledger.move_out(node, uid, pod, user.priority);
        self.ledger.shift_quota(uid, charged, user, Way::Out);
        self.done.push(Done::Evicted { uid: uid.clone(), node, bound, claim, allotment, pinned });
        Ok(node)
    }

    /// Puts a pod that was evicted back to where it was, with what it had there, and says where that is.
    ///
    /// # Errors
    /// When it was not evicted, or cannot be there any longer.
    pub fn bring_back(&mut self, uid: &Uid) -> Result<NodeIndex, SpeculateError> {
        let evicted = self.done.iter().find_map(|done| match done {
            Done::Evicted { uid: own, node, allotment, .. } if own == uid => {
                Some((*node, *allotment))
            }
            _ => None,
        });
        let Some((node, allotment)) = evicted else {
            return Err(SpeculateError::Nowhere(uid.clone()));
        };
        let own = allotment.map(|id| self.ledger.asks.allotments.get(id).clone());
        self.place(uid, node, own.as_ref())?;
        Ok(node)
    }

    /// The point up to which things are thought of now.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark(self.done.len())
    }

    /// Takes back what was thought of after a point.
    pub fn take_back(&mut self, Mark(mark): Mark) {
        while self.done.len() > mark {
            match self.done.pop() {
                Some(Done::Placed(uid)) => {
                    // Whom it takes over where it really is, it still does.
                    let back = self.ledger.take_back_claim(&uid);
                    back.expect("no pod goes while others think");
                }
                Some(Done::Evicted { uid, node, bound, claim, allotment, pinned }) => {
                    self.restore(&uid, node, (bound, claim), allotment);
                    if pinned {
                        self.ledger.nodes.unpin(node);
                    }
                }
                None => {}
            }
        }
    }

    fn restore(
        &mut self,
        uid: &Uid,
        node: NodeIndex,
        (bound, claim): (Option<NodeIndex>, Option<NodeIndex>),
        allotment: Option<Id<Allotment>>,
    ) {
        let row = self.ledger.pods.get_mut(uid).expect("no pod goes while others think");
        (row.bound, row.claim, row.allotment) = (bound, claim, allotment);
        self.ledger.gangs.follow(uid, row);
        let (pod, charged, user) = (row.passing(), row.charged(), row.user());
        self.ledger.move_in(node, uid, pod, user.priority);
        self.ledger.shift_quota(uid, charged, user, Way::In);
        if claim.is_some() {
            self.ledger.remember_claim(uid);
        }
    }

    /// Makes true what was thought of: pods that were placed have claims now.
    ///
    /// # Errors
    /// When a pod was evicted: it stays until the API server says that it is gone, and what needs
    /// its room has to wait.
    pub fn keep(&mut self) -> Result<(), SpeculateError> {
        let evicted = self.done.iter().find_map(|done| match done {
            Done::Evicted { uid, .. } => Some(uid.clone()),
            Done::Placed(_) => None,
        });
        match evicted {
            Some(uid) => Err(SpeculateError::Evicted(uid)),
            None => {
                self.kept = true;
                Ok(())
            }
        }
    }
}

impl Drop for Speculation<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.take_back(Mark(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{Fact, NodeFact, PodFact, ReservationRef};

    #[test]
    fn who_is_moved_in_thought_has_afterwards_what_it_had() {
        let mut ledger = Ledger::default();
        for name in ["a", "b"] {
            let node = NodeFact { name: name.into(), pods_allowed: 9, ..NodeFact::default() };
            ledger.apply(Fact::Node(node));
        }
        let uses = ReservationRef { name: "r".into(), uid: Uid::new("r") };
        let own = Allotment { reservation: Some(uses), ..Allotment::default() };
        let mut pod = PodFact::new("p", "ns", "p");
        (pod.node, pod.allotment) = (Some("a".into()), Some(own.clone()));
        ledger.apply(Fact::Pod(Box::new(pod)));
        let uid = Uid::new("p");
        let other = ledger.nodes.find("b").unwrap();
        ledger.speculate(|thought| {
            thought.evict(&uid).unwrap();
            thought.place(&uid, other, None).unwrap();
        });
        let id = ledger.pod(&uid).unwrap().allotment.unwrap();
        assert_eq!(*ledger.asks.allotments.get(id), own);
        ledger.apply(Fact::PodGone(uid));
        assert!(ledger.asks.is_empty() && ledger.reservations.is_empty());
    }
}
