//! Loads of nodes: who was refused for them wakes where there is more room.

use super::Engine;
use crate::moment::Moment;
use crate::queue::Change;

impl Engine {
    /// Tells the queue of which nodes more can be used than before.
    pub(super) fn notice_loads(&mut self, now: Moment) {
        for (node, before) in self.ledger.loads.take_grown() {
            let node = self.ledger.nodes.name(node).into();
            self.queue.notice(&self.ledger, Change::Load { node, before }, now);
        }
    }

    /// Takes in which nodes have not reported their load for too long.
    pub(super) fn expire_loads(&mut self, now: Moment) {
        while let Some(node) = self.ledger.loads.expired(now) {
            self.ledger.loads.watch(self.queue.is_listening());
            self.ledger.pass(node, now);
            self.refused.clear();
        }
        self.notice_loads(now);
    }
}

#[cfg(test)]
mod tests;
