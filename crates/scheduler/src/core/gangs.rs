//! Gangs, as far as anything is to be told or written of them.

use std::sync::Arc;
use std::time::Duration;

use api::PodGroup;
use api::pod_group::{
    BIND_GROUP_ID, BIND_GROUP_ID_BEFORE, BIND_MEMBER_COUNT, BIND_MEMBER_COUNT_BEFORE, GangId,
};
use chassis::key::Key;
use engine::fact::{Fact, PodRef, Uid};
use engine::gangs::{GangStamp, GangWait};
use engine::moment::Moment;

use super::{Core, Why};
use crate::gangs::Groups;
use crate::message::{Order, Receipt};

/// The reason of a condition when a pod waits for others of its gang. More nodes do not help it, so that
/// who adds nodes for pods that have none must not take it for one of these.
const WAITING_FOR_GANG: &str = "WaitingForGang";

impl Core {
    /// The same, which leaves it to somebody else to say how gangs stand.
    #[must_use]
    pub fn leaving_gangs(self) -> Self {
        Self { groups: Groups::of_others(), ..self }
    }

    pub(super) fn group(&mut self, object: Arc<PodGroup>, now: Moment) {
        let id = GangId::new(&object.metadata.namespace, &object.metadata.name);
        if self.engine.ledger().gangs.members(&id).len() == 0 {
            self.groups.forget_early(&id);
        }
        let fact = self.groups.put(object, now);
        self.fact(fact, now);
    }

    pub(super) fn group_gone(&mut self, key: &Key, now: Moment) {
        self.groups.remove(key);
        let id = GangId::new(key.namespace(), key.name());
        self.fact(Fact::Gang { id, terms: None, has_started: false }, now);
    }

    pub(super) fn group_written(&mut self, receipt: &Receipt<PodGroup>, now: Moment) {
        self.telling = self.telling.saturating_sub(1);
        self.groups.written(receipt, now);
    }

    /// When the group of a gang was made, where it has one.
    pub(crate) fn group_made(&self, gang: &GangId) -> Option<Moment> {
        self.groups.made(gang)
    }

    /// Counts what was done for gangs by the end of a turn that took so long.
    pub(super) fn gangs_took(&mut self, turn: Duration) {
        for step in self.engine.take_gang_steps() {
            self.meters.gangs.observe(&step, turn);
        }
    }

    /// What is to be written of gangs, if anything.
    pub(super) fn group_order(&mut self, now: Moment) -> Option<Order> {
        for (gang, news) in self.engine.take_gang_news() {
            self.groups.say(&gang, news, now);
        }
        let gangs = &self.engine.ledger().gangs;
        self.groups.drop_early(|gang| gangs.members(gang).len() > 0);
        let ledger = self.engine.ledger();
        if let Some(order) = self.groups.next(ledger, now) {
            return Some(Order::Group(Box::new(order)));
        }
        let order = self.groups.next_leftover(ledger)?;
        Some(Order::Dismiss(Box::new(order)))
    }

    /// A pod is told this last: why its whole group has no nodes, or something else.
    pub(super) fn note_group_refusal(&mut self, uid: &Uid, words: Option<&Arc<str>>) {
        if let Some(waiting) = self.waiting.get_mut(uid) {
            waiting.group_refusal = words.cloned();
        }
    }

    /// Why the whole group of a pod has no nodes, where that is what it was told last.
    pub(crate) fn group_refusal(&self, uid: &Uid) -> Option<&Arc<str>> {
        self.waiting.get(uid)?.group_refusal.as_ref()
    }

    /// Has users told what a pod waits for before any node is looked at.
    pub(super) fn await_gang(
        &mut self,
        pod: PodRef,
        scheduler: Arc<str>,
        wait: &GangWait,
        now: Moment,
    ) -> Option<Order> {
        let message = self.tellings.share(&wait.to_string());
        self.note_group_refusal(&pod.uid, None);
        let (nominated, reservations) = (None, None);
        let why = Why { reason: WAITING_FOR_GANG, message, nominated, reservations };
        self.tell(pod, scheduler, why, None, now)
    }
}

/// Annotations that say with whom a pod gets its node.
pub(super) fn stamps(gang: Option<&GangStamp>) -> Vec<(&'static str, String)> {
    let Some(GangStamp { group, members }) = gang else { return Vec::new() };
    let (group, members) = (group.to_string(), members.to_string());
    vec![
        (BIND_GROUP_ID, group.clone()),
        (BIND_GROUP_ID_BEFORE, group),
        (BIND_MEMBER_COUNT, members.clone()),
        (BIND_MEMBER_COUNT_BEFORE, members),
    ]
}
