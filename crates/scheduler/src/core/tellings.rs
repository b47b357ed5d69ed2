//! What users are told of pods that have no node: one thing at a time, and only what is not written.

mod line;

use std::sync::Arc;

use engine::fact::{PodRef, Size, Uid};
use engine::ledger::PodRow;
use engine::moment::Moment;
use engine::preemption::{Nominating, Room};
use engine::reason::Reason;
use engine::reservations::Tally;
use engine::turn;

use super::{BINDS_MAX, Core, Phase, Waiting, Why};
use crate::later::{Busy, Work};
use crate::message::{ConditionOrder, HoldOrder, Order, RoomOrder, Scheduled, TellOrder};
use crate::reservations::{self, Step};
pub(super) use line::Tellings;

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

/// The reasons of a condition when a pod waits for something that is not up to its turn.
pub(crate) const REFUSALS: [&str; 5] =
    [UNSCHEDULABLE, RESOURCE_CLAIMS, TOO_MANY_TERMS, INVALID_CPU_REQUEST, INVALID_ANNOTATION];

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
    pub(super) fn why(&self, waiting: &turn::Waiting, message: Arc<str>) -> Why {
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
        if let Some(order) = self.group_order(now) {
            return Some(order);
        }
        if let Some(order) = self.quota_order(now) {
            return Some(order);
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

    /// What was being told of a pod is told: what there is to tell by now, if anything.
    pub(super) fn telling_done(&mut self, uid: &Uid, now: Moment) -> Option<Order> {
        let next = self.tell_next(uid, now);
        // Who has to go for it may still be to be asked.
        if next.as_ref().is_none_or(|next| next.room.is_none()) {
            self.engine.done(uid, now);
        }
        next.map(Order::Tell)
    }

    /// The same where it waits no longer, so that nothing was told and nobody was asked to go for it.
    pub(super) fn telling_needless(&mut self, uid: &Uid, now: Moment) -> Option<Order> {
        let next = self.tell_next(uid, now);
        if next.as_ref().is_none_or(|next| next.room.is_none()) {
            self.engine.needless(uid, now);
        }
        next.map(Order::Tell)
    }

    /// The same where it could not be told, or no room could be made.
    pub(super) fn telling_failed(&mut self, uid: &Uid, now: Moment) -> Option<Order> {
        self.unsay(uid);
        let next = self.tell_next(uid, now);
        if next.as_ref().is_none_or(|next| next.room.is_none()) {
            self.engine.undone(uid, now);
        }
        next.map(Order::Tell)
    }

    fn tell_next(&mut self, uid: &Uid, now: Moment) -> Option<Box<TellOrder>> {
        self.telling = self.telling.saturating_sub(1);
        if self.phase == Phase::Ending || !self.waiting.contains_key(uid) {
            self.tellings.hush(uid);
        }
        let mut next = self.tellings.ended(uid)?;
        if let Some(room) = &mut next.room {
            // Some may have gone by themselves, or not have come.
            let ledger = self.engine.ledger();
            let is_there = |row: &PodRow| !row.is_deleting() && row.node().is_some();
            let is_not_there = |one: &mut PodRef| !ledger.pod(&one.uid).is_some_and(is_there);
            let spared: Vec<Uid> =
                room.victims.extract_if(.., is_not_there).map(|one| one.uid).collect();
            self.engine.spare(uid, &spared, now);
        }
        self.telling += 1;
        Some(next)
    }

    /// A pod waits for a node no longer, whatever was to be told of it.
    pub(super) fn waits_no_longer(&mut self, uid: &Uid) {
        self.waiting.remove(uid);
        self.tellings.hush(uid);
    }

    /// Somebody is sent for a pod: why it had no node need not be told any more.
    pub(super) fn hush(&mut self, uid: &Uid) {
        if self.tellings.hush(uid) {
            self.unsay(uid);
        }
    }

    /// How much is under way that comes before those who wait to be told of.
    fn work(&self, now: Moment) -> Work {
        let is_due = || self.engine.next_due(now).is_some_and(|due| due <= now);
        match self.flights.len() - self.apart {
            // Whose turn it is may get a node.
            0 if is_due() => Work::Some,
            0 => Work::None,
            few if 4 * few <= BINDS_MAX => Work::Some,
            _ => Work::Crowded,
        }
    }

    /// So much is being written by now.
    pub(crate) fn heed(&mut self, busy: Busy) {
        self.busy = busy;
    }

    /// What comes before words on those that wait: what is being written, and what is under way.
    pub(super) fn busy(&self, now: Moment) -> Busy {
        Busy { work: self.busy.work.max(self.work(now)), ..self.busy }
    }

    /// How many pods wait to be told of.
    pub(crate) fn untold_count(&self) -> usize {
        self.tellings.waiting()
    }

    /// What is to be told next of those who wait to be told of, where there is time for it.
    pub(crate) fn tell_waiting(&mut self, now: Moment) -> Option<Order> {
        self.tell_beside(self.busy(now), now)
    }

    /// The same beside so much that is being written.
    pub(super) fn tell_beside(&mut self, busy: Busy, now: Moment) -> Option<Order> {
        if self.phase == Phase::Ending {
            self.tellings.drop_waiting();
        }
        let mut order = self.tellings.next(now, busy)?;
        if let Some(own) = self.waiting.get(&order.pod.uid) {
            order.version.clone_from(&own.written.version);
        }
        self.telling += 1;
        Some(Order::Tell(order))
    }

    /// Has users told why a pod has no node: what of it is not written already. Nothing for now where
    /// something else is being told of it, or where it can wait.
    pub(super) fn tell(
        &mut self,
        pod: PodRef,
        scheduler: Arc<str>,
        why: Why,
        room: Option<RoomOrder>,
        now: Moment,
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
        let room = room.map(Box::new);
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
        let order = self.tellings.put(Box::new(order), now)?;
        self.telling += 1;
        Some(Order::Tell(order))
    }
}
