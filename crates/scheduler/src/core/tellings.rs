//! What users are told of pods that have no node: one thing at a time, and only what is not written.

use std::sync::Arc;

use engine::fact::{PodRef, Uid};
use engine::ledger::PodRow;
use engine::preemption::Room;

use super::{Core, Phase, Waiting, Why};
use crate::message::{ConditionOrder, Order, RoomOrder, Scheduled, TellOrder};

impl Core {
    pub(super) fn room(&self, room: &Room) -> RoomOrder {
        let victims = room.victims.iter().filter(|victim| !victim.deleting);
        RoomOrder {
            node: self.engine.ledger().nodes.name(room.node).into(),
            victims: victims.map(|victim| victim.pod.clone()).collect(),
            passed_over: room.passed_over.clone(),
        }
    }

    /// What counts as written of a pod is not.
    pub(super) fn unsay(&mut self, uid: &Uid) {
        if let Some(Waiting { written, .. }) = self.waiting.get_mut(uid) {
            written.scheduled = None;
            written.nominated = Box::default();
        }
    }

    /// What was being told of a pod is told, or cannot be: what there is to tell by now, if anything.
    pub(super) fn tell_next(&mut self, uid: &Uid) -> Option<Box<TellOrder>> {
        self.telling = self.telling.saturating_sub(1);
        let mut next = self.tellings.remove(uid)??;
        if self.phase == Phase::Ending || !self.waiting.contains_key(uid) {
            return None;
        }
        if let Some(room) = &mut next.room {
            // Some may have gone by themselves, or not have come.
            let ledger = self.engine.ledger();
            let node = ledger.nodes.find(&room.node);
            let is_there = |row: &PodRow| !row.deleting && node.is_some() && row.node() == node;
            room.victims.retain(|one| ledger.pod(&one.uid).is_some_and(is_there));
        }
        self.telling += 1;
        self.tellings.insert(uid.clone(), None);
        Some(next)
    }

    /// Has users told why a pod has no node: what of it is not written already. Nothing for now where
    /// something else is being told of it.
    pub(super) fn tell(
        &mut self,
        pod: PodRef,
        scheduler: Arc<str>,
        why: Why,
        room: Option<RoomOrder>,
    ) -> Option<Order> {
        if let Some(room) = &room {
            for other in &room.passed_over {
                if let Some(waiting) = self.waiting.get_mut(&other.uid) {
                    waiting.written.nominated = Box::default();
                }
            }
        }
        let Why { reason, message, mut nominated } = why;
        let mut condition = None;
        if let Some(Waiting { written, .. }) = self.waiting.get_mut(&pod.uid) {
            let old = written.scheduled.as_ref().filter(|old| old.is_false);
            let is_same = |old: &Scheduled| *old.reason == *reason && old.message == message;
            if !old.is_some_and(is_same) {
                let (generation, is_transition) = (written.generation, old.is_none());
                condition = Some(ConditionOrder { reason, generation, is_transition });
                let (reason, message) = (reason.into(), message.clone());
                written.scheduled = Some(Scheduled { is_false: true, reason, message });
            }
            nominated = nominated.filter(|node| *node != written.nominated);
            if let Some(node) = &nominated {
                written.nominated.clone_from(node);
            }
        }
        let version = self.waiting.get(&pod.uid).map(|own| own.written.version.clone());
        let version = version.unwrap_or_default();
        let order = TellOrder { version, pod, scheduler, message, condition, nominated, room };
        let mut order = Box::new(order);
        if let Some(next) = self.tellings.get_mut(&order.pod.uid) {
            // What was to be told next, and counts as written, is told with this.
            if let Some(old) = next.take() {
                if let (Some(new), Some(old)) = (&mut order.condition, &old.condition) {
                    new.is_transition |= old.is_transition;
                }
                order.condition = order.condition.or(old.condition);
                order.nominated = order.nominated.or(old.nominated);
                order.room = order.room.or(old.room);
            }
            *next = Some(order);
            return None;
        }
        self.telling += 1;
        self.tellings.insert(order.pod.uid.clone(), None);
        Some(Order::Tell(order))
    }
}
