//! Quotas, as far as anything is to be written of them.

use std::sync::Arc;

use api::ElasticQuota;
use chassis::key::Key;
use engine::fact::{Fact, Uid};
use engine::moment::Moment;

use super::Core;
use crate::dismissals::Dismissal;
use crate::message::{Order, Receipt};
use crate::quotas::{Revoking, Statements};

impl Core {
    /// The same, which leaves it to somebody else to say how quotas stand.
    #[must_use]
    pub fn leaving_quotas(self) -> Self {
        Self { quotas: Statements::of_others(), ..self }
    }

    /// The same, where pods have to go whose quota uses more than it may.
    #[must_use]
    pub fn revoking(self, settings: Option<Revoking>) -> Self {
        Self { quotas: self.quotas.revoking(settings), ..self }
    }

    /// The same, where the quotas of every cluster count in this namespace alone: nobody else makes them.
    #[must_use]
    pub fn reserving(self, namespace: Box<str>) -> Self {
        Self { quotas: self.quotas.reserving(namespace), ..self }
    }

    /// What came of asking a pod to go, for a quota or for a gang.
    pub(super) fn dismissed(&mut self, pod: &Uid, answer: Dismissal) {
        self.telling = self.telling.saturating_sub(1);
        self.quotas.dismissed(pod, answer);
        self.groups.dismissed(pod);
    }

    pub(super) fn quota(&mut self, object: Arc<ElasticQuota>, now: Moment) {
        if let Some(fact) = self.quotas.put(object) {
            self.fact(Fact::Quota(Box::new(fact)), now);
        }
    }

    pub(super) fn quota_gone(&mut self, key: &Key, now: Moment) {
        self.quotas.remove(key, &self.meters.quotas);
        let (namespace, name) = (key.namespace().into(), key.name().into());
        self.fact(Fact::QuotaGone { namespace, name }, now);
    }

    pub(super) fn quota_written(&mut self, receipt: Receipt<ElasticQuota>, now: Moment) {
        self.telling = self.telling.saturating_sub(1);
        self.quotas.written(receipt, now, &self.meters.quotas);
    }

    /// What is to be written of quotas, if anything.
    pub(super) fn quota_order(&mut self, now: Moment) -> Option<Order> {
        let busy = self.busy(now);
        if let Some(order) = self.quotas.next(&mut self.engine, busy, now, &self.meters.quotas) {
            return Some(Order::Quota(Box::new(order)));
        }
        let order = self.quotas.next_revoke(&mut self.engine, now)?;
        Some(Order::Dismiss(Box::new(order)))
    }

    /// When something may be to be written of quotas.
    pub(super) fn quotas_due(&self, now: Moment) -> Option<Moment> {
        self.quotas.next_due(self.engine.ledger().quotas.forest().version(), self.busy(now))
    }
}
