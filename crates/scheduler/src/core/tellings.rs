//! What users are told of pods that have no node: one thing at a time, and only what is not written.

use std::sync::Arc;

use engine::fact::{PodRef, Size, Uid};
use engine::ledger::PodRow;
use engine::moment::Moment;
use engine::preemption::{Nominating, Room};
use engine::reason::Reason;
use engine::reservations::Tally;
use engine::turn;

use super::{Core, Phase, Waiting, Why};
use crate::message::{ConditionOrder, HoldOrder, Order, RoomOrder, Scheduled, TellOrder};
use crate::reservations::{self, Step};

/// The reason of a condition when no node can take the pod and more nodes might.
const UNSCHEDULABLE: &str = "Unschedulable";
/// The reason of a condition when the pod claims devices, which no node helps with.
const RESOURCE_CLAIMS: &str = "ResourceClaimsNotAllocated";
/// The reason of a condition when the pod has more terms about other pods than are kept.
const TOO_MANY_TERMS: &str = "TooManyTerms";
/// The reason where what a pod wants of CPUs cannot be had anywhere.
const INVALID_CPU_REQUEST: &str = "InvalidCPURequest";
/// The reason where an annotation of a pod cannot be read.
const INVALID_ANNOTATION: &str = "InvalidAnnotation";

impl Core {
    /// What a reservation is to hold.
    pub(super) fn held(&self, uid: &Uid) -> HoldOrder {
        let ledger = self.engine.ledger();
        let Some(rules) = ledger.reservations.rules(uid) else { return HoldOrder::default() };
        let size = Size::of(rules);
        let (adopts, leaves) = ledger.adopted(uid);
        let told = reservations::told(&size).into();
        HoldOrder { amounts: reservations::amounts(&size), told, adopts, leaves }
    }

    /// Why a pod has no node, as users are told.
    pub(super) fn why(&self, waiting: &turn::Waiting, message: Box<str>) -> Why {
        let nominated = match waiting.last_resorts.nominating() {
            Nominating::To(node) => Some(self.engine.ledger().nodes.name(node).into()),
            Nominating::Nowhere => Some(Box::default()),
            Nominating::Unchanged => None,
        };
        let reason = match waiting.beyond_nodes() {
            None => UNSCHEDULABLE,
            Some(Reason::TooManyTerms { .. }) => TOO_MANY_TERMS,
            Some(Reason::Cpus(_)) => INVALID_CPU_REQUEST,
            Some(Reason::Malformed(_)) => INVALID_ANNOTATION,
            Some(_) => RESOURCE_CLAIMS,
        };
        let tally = waiting.examination.reservations.as_ref();
        let tally = tally.filter(|tally| tally.is_required);
        let reservations = tally.and_then(Tally::sentence).map(Into::into);
        Why { reason, message, nominated, reservations }
    }

    /// Whether something is to be told that waits for no time to come.
    pub(super) fn is_to_tell(&self) -> bool {
        let silence = &self.silence;
        !self.complaints.is_empty() || silence.has_news() || silence.is_behind(self.engine.ledger())
    }

    /// What is to be told or written beside decisions, if anything.
    pub(super) fn beside(&mut self, now: Moment) -> Option<Order> {
        if let Some((_, what)) = self.complaints.pop_first() {
            return Some(Order::Complain(what));
        }
        let life = self.lives.next(self.engine.ledger(), now);
        for uid in self.lives.take_given_up() {
            self.engine.resize(&uid, None, now);
        }
        if let Some(order) = life {
            // What is to be held is nobody else's from now on.
            if let Step::Resize { size, .. } = &order.step {
                self.engine.resize(&order.uid, Some(size.clone()), now);
            }
            return Some(Order::Live(Box::new(order)));
        }
        if self.silence.is_behind(self.engine.ledger()) {
            self.meters.silent(self.silence.look(self.engine.ledger()));
        }
        self.silence.next().map(Order::Report)
    }

    pub(super) fn room(&self, room: &Room) -> RoomOrder {
        let victims = room.victims.iter().filter(|victim| !victim.deleting);
        RoomOrder {
            node: self.engine.ledger().nodes.name(room.node).into(),
            victims: victims.map(|victim| victim.pod.clone()).collect(),
            // On a reservation it is written nowhere for which node it waits.
            passed_over: room
                .passed_over
                .iter()
                .filter(|one| !one.is_reservation)
                .cloned()
                .collect(),
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
        let Why { reason, message, mut nominated, reservations } = why;
        nominated = nominated.filter(|_| !pod.is_reservation);
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
        let order = TellOrder {
            version,
            pod,
            scheduler,
            message,
            condition,
            nominated,
            room,
            reservations,
        };
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
