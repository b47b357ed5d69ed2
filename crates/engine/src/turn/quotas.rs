//! Quotas: a pod that its quota has no room for waits outside the queue, and who now fits is woken.

mod growth;
#[cfg(test)]
mod laws;
mod promises;
mod retries;
mod sweep;
#[cfg(test)]
mod tests;
mod vain;

use std::sync::Arc;
use std::time::Duration;

use super::clearings::InQuota;
use super::searches::Searching;
use super::{Engine, KNOWN, Question, Verdict, Waiting};
use crate::examination::Examination;
use crate::fact::{PodRef, Uid};
use crate::ledger::{Charged, Ledger};
use crate::moment::Moment;
use crate::plugin::{Plugin, Plugins};
use crate::preemption::LastResorts;
use crate::queue::{Cure, Rejection};
use crate::quota::{Freed, QuotaRefusal, View};
use crate::reason::{Code, Reason, Refusal};
use growth::Growth;
use promises::Promises;
use retries::Retries;
pub(super) use retries::SearchEnd;
use sweep::Sweep;
pub(super) use vain::Among;
use vain::Vain;

/// How many lots are looked at in one turn because quotas may have more room.
const WOKEN_MAX: usize = 256;
/// How many are in one turn because they may have been overlooked.
const OVERDUE_MAX: usize = 64;
/// Of how many pods quotas hear in one turn that they have come to rest or have been roused.
const TURNED_MAX: usize = 1024;
/// How many pods of a lot are passed over since others go for them already.
const ASKED_OF_LOT_MAX: usize = 512;
/// Of how many lots the first pod is looked at again in one turn because others have got a node.
const NOTICED_MAX: usize = 256;
/// How often it is looked whether quotas have room for pods that wait for too long.
const OVERDUE_INTERVAL: Duration = Duration::from_secs(30);

/// Lots of pods that are still to be held against their quotas.
#[derive(Debug, Default)]
pub(super) struct Lots {
    /// Of quotas that may have more room.
    freed: Sweep,
    /// Of all quotas: those that have waited for too long.
    overdue: Sweep,
    /// Whether nothing has happened since that was begun, so that they were overlooked.
    are_overlooked: bool,
    /// When it was last begun.
    looked: Moment,
    /// Of quotas of which others have got a node.
    joined: Sweep,
    /// Those that nothing is divided for, while there is more to share.
    growth: Growth,
    /// How many pods were woken and refused by a quota again.
    woken_in_vain: u64,
    /// What is kept for pods while others leave for them.
    promises: Promises,
    /// Pods for which others may make room by now.
    retries: Retries,
    /// Pods for which nobody could go.
    vain: Vain,
}

impl Lots {
    /// How many pods were woken and refused by a quota again.
    pub(super) fn woken_in_vain(&self) -> u64 {
        self.woken_in_vain
    }
}

impl Waiting {
    /// Why a pod waits that a quota has no room for.
    #[must_use]
    pub fn refused_by_quota(ledger: &Ledger, refusal: QuotaRefusal) -> Self {
        let plugins = Plugins::from_iter([Plugin::ElasticQuota]);
        let refusal = Refusal::new(Code::Unschedulable, Reason::Quota(Box::new(refusal)));
        Self {
            examination: Arc::new(Examination {
                nodes: ledger.nodes.present().len(),
                everywhere: Some((Plugin::ElasticQuota, refusal)),
                ..Examination::default()
            }),
            last_resorts: LastResorts::default(),
            rejection: Rejection { unschedulable: plugins, ..Rejection::default() },
            gang: None,
        }
    }
}

impl Engine {
    /// Whether pods of a profile are held to their quotas.
    pub(super) fn heeds_quotas(&self, profile: usize) -> bool {
        self.profiles[profile].1.profile().quota.is_some()
    }

    /// Has a pod that is in hand wait where its quota has no room for it; no verdict yet where others may
    /// make room.
    pub(super) fn over_quota(
        &mut self,
        pod: &PodRef,
        (question, attempts): (Question, u32),
        now: Moment,
    ) -> Option<Option<Verdict>> {
        if !self.heeds_quotas(question.profile) {
            return None;
        }
        self.follow_rest(&pod.uid);
        let refusal = self.ledger.admit(&pod.uid).err();
        let is_promised = self.is_promised(&pod.uid);
        if !is_promised {
            let was_let_in = self.end_promise(&pod.uid);
            self.lots.woken_in_vain += u64::from(was_let_in && refusal.is_some());
        }
        let refusal = refusal?;
        if is_promised {
            return Some(Some(self.park(&pod.uid, refusal, now)));
        }
        let charged = self.ledger.pod(&pod.uid).expect(KNOWN).charged()?;
        if self.is_nobody_concerned() {
            // It is the first, and knows of all that has happened so far.
            self.ledger.quotas.forget_news();
        }
        let quota = refusal.quota.clone();
        let waiting = Waiting::refused_by_quota(&self.ledger, refusal);
        match self.clearings_in_quota(pod, question, (waiting, (charged, quota.clone())), now) {
            InQuota::Search(clearings) => {
                let since = (attempts, self.refused.revision);
                let own = Searching::clearing((pod.clone(), question), since, *clearings);
                self.lots.retries.begin_search((&pod.uid, question), quota);
                self.searches.push(own);
                Some(None)
            }
            InQuota::Later(waiting) => {
                let verdict = self.park_waiting(&pod.uid, (charged, &quota), *waiting, now);
                self.look_again_soon(&pod.uid, now);
                Some(Some(verdict))
            }
            InQuota::Nobody(waiting) => {
                Some(Some(self.park_waiting(&pod.uid, (charged, &quota), *waiting, now)))
            }
        }
    }

    /// Has a pod wait whose quota has no room for it any longer.
    pub(super) fn park(&mut self, uid: &Uid, refusal: QuotaRefusal, now: Moment) -> Verdict {
        let quota = refusal.quota.clone();
        let waiting = Waiting::refused_by_quota(&self.ledger, refusal);
        match self.ledger.pod(uid).and_then(|row| row.charged()) {
            Some(charged) => self.park_waiting(uid, (charged, &quota), waiting, now),
            None => Verdict::Wait(Arc::new(waiting)),
        }
    }

    /// The same where it is known why it waits. No node is kept for one that nobody goes for: it could not use
    /// it.
    pub(super) fn park_waiting(
        &mut self,
        uid: &Uid,
        (lot, refused_by): (Charged, &str),
        mut waiting: Waiting,
        now: Moment,
    ) -> Verdict {
        let mut left = None;
        if self.is_promised(uid) {
            self.await_promised(uid);
        } else {
            self.lose_promise(uid, now);
            waiting.last_resorts.is_untried = true;
            left = self.nominate(uid, None);
        }
        self.queue.park(uid, lot, refused_by, now);
        self.settle_cure(lot);
        if let Some(left) = left {
            self.queue.notice(&self.ledger, left, now);
        }
        Verdict::Wait(Arc::new(waiting))
    }

    /// Has a pod wait for its quota for which nobody could go, or tries it: while others were looked for it was in no
    /// lot, and nobody told it that there is room by now.
    pub(super) fn leave_refused(
        &mut self,
        uid: &Uid,
        lot: Charged,
        waiting: Waiting,
        now: Moment,
    ) -> Verdict {
        match self.ledger.admit(uid) {
            Ok(()) => {
                // Nobody else is told of it.
                self.ledger.quotas.pledge(uid, lot, &self.ledger.asks.requests);
                self.queue.again_at_once(uid, now);
                Verdict::Wait(Arc::new(waiting))
            }
            Err(refusal) => {
                let (quota, last_resorts) = (refusal.quota.clone(), waiting.last_resorts);
                let waiting = Waiting::refused_by_quota(&self.ledger, refusal);
                let waiting = Waiting { last_resorts, ..waiting };
                self.park_waiting(uid, (lot, &quota), waiting, now)
            }
        }
    }

    /// Finds out what has to become otherwise before a lot is let in: nothing is divided for those who could
    /// use none of it.
    fn settle_cure(&mut self, lot: Charged) {
        let requests = &self.ledger.asks.requests;
        let cure = match self.ledger.quotas.is_beyond_runtime(lot, requests) {
            true => Cure::Else,
            false => Cure::Runtime,
        };
        self.queue.await_cure(lot, cure);
    }

    /// Why a pod is not let in by its quota as things are, where it is held to one.
    pub(super) fn quota_refusal(&mut self, uid: &Uid) -> Option<QuotaRefusal> {
        let profile = self.unbound.get(uid)?.profile;
        if !self.heeds_quotas(profile) {
            return None;
        }
        self.ledger.admit(uid).err()
    }

    /// Has a pod wait until others of its quota have gone for it, or tries it where they have.
    pub(super) fn wait_for_quota(&mut self, uid: &Uid, now: Moment) {
        match self.ledger.admit(uid) {
            Ok(()) => self.queue.again_at_once(uid, now),
            Err(refusal) => drop(self.park(uid, refusal, now)),
        }
    }

    /// Has quotas hear of some of the pods that have come to rest or have been roused: for those that nodes refused,
    /// or that may not be tried, nothing is divided that others could use.
    pub(super) fn follow_rests(&mut self) {
        for uid in self.queue.take_turned(TURNED_MAX) {
            self.follow_rest(&uid);
        }
    }

    /// The same of one pod. For one for which room is made on a node something is divided all along.
    pub(super) fn follow_rest(&mut self, uid: &Uid) {
        let is_awaited = self.ledger.nominated(uid).is_some() || self.has_promise(uid);
        if self.queue.is_resting(uid) && !is_awaited {
            self.ledger.rest(uid);
        } else {
            self.ledger.rouse(uid);
        }
    }

    /// A pod is now this: where it is charged otherwise than before, nothing is kept for it as it was, and it
    /// is tried where it waited for its quota.
    pub(super) fn follow_quota(&mut self, uid: &Uid) {
        let charged = self.ledger.pod(uid).and_then(|row| row.charged());
        let requests = &self.ledger.asks.requests;
        if self.ledger.quotas.is_pledged_otherwise(uid, charged, requests) {
            self.break_promise(uid);
        }
        if self.queue.lot(uid).is_some_and(|lot| Some(lot) != charged) {
            self.queue.unpark(uid);
        }
    }

    /// Whether somebody may be let in by a quota whom it refused before.
    pub(super) fn are_lots_due(&self) -> bool {
        let Lots { freed, overdue, joined, growth, .. } = &self.lots;
        let is_under_way = [freed, overdue, joined].into_iter().any(|sweep| !sweep.is_done());
        let is_under_way = is_under_way || !growth.is_done();
        let has_news = || self.ledger.quotas.forest().has_news() || self.ledger.quotas.has_joined();
        let is_anybody = !self.queue.is_nobody_parked();
        is_under_way || self.queue.has_turned() || is_anybody && has_news()
    }

    /// When it is looked for pods that wait for their quotas for too long, or that others may make room for.
    pub(super) fn lots_overdue_at(&self) -> Option<Moment> {
        let is_anybody = !self.queue.is_nobody_parked();
        let overdue = is_anybody.then(|| self.lots.looked.after(OVERDUE_INTERVAL));
        overdue.into_iter().chain(self.lots.retries.next_due().filter(|_| is_anybody)).min()
    }

    /// Wakes pods that quotas have room for now, in their order, and as many as fit.
    pub(super) fn notice_quotas(&mut self, now: Moment) {
        if self.is_planning() {
            // What is kept for the group does not count just now.
            return;
        }
        self.forget_searched();
        if self.is_nobody_concerned() {
            let Lots { freed, overdue, joined, growth, .. } = &mut self.lots;
            [freed, overdue, joined].into_iter().for_each(Sweep::clear);
            *growth = Growth::default();
            self.lots.looked = now;
            return;
        }
        self.notice_members(now);
        if self.ledger.quotas.forest().has_news() {
            self.notice_freed(now);
        }
        if now.since(self.lots.looked) >= OVERDUE_INTERVAL {
            self.look_at_all(now);
        }
        self.follow_growth();
        for _ in 0..WOKEN_MAX {
            let Some(step) = self.lots.freed.take() else { break };
            self.let_in(step.lot(), now);
            self.lots.freed.go_on(step, &self.queue);
        }
        for _ in 0..OVERDUE_MAX {
            let Some(step) = self.lots.overdue.take() else { break };
            self.let_in_overdue(step.lot(), now);
            self.lots.overdue.go_on(step, &self.queue);
        }
        self.retry(now);
    }

    /// Whether nobody waits for a quota, or will where nobody makes room.
    fn is_nobody_concerned(&self) -> bool {
        self.queue.is_nobody_parked() && self.lots.retries.is_nobody_searched()
    }

    /// It is looked who waits for too long, and who is waited for that does not go.
    fn look_at_all(&mut self, now: Moment) {
        self.lots.looked = now;
        // Where others are looked at anyway, nobody knows who was overlooked.
        self.lots.are_overlooked = self.lots.freed.is_done();
        for quota in self.queue.quotas_refusing() {
            self.lots.overdue.begin_or_repeat(quota, &self.queue);
        }
        self.forget_all_vain();
        self.give_up_waiting(now);
    }

    /// It is looked again after a while who makes room for a pod that waits for its quota.
    pub(super) fn look_again(&mut self, uid: &Uid, now: Moment) {
        self.lots.retries.rest(uid, now);
    }

    /// The same, as soon as it has been left alone for long enough.
    pub(super) fn look_again_soon(&mut self, uid: &Uid, now: Moment) {
        self.lots.retries.ask(uid, now);
    }

    /// Quotas may have more room: their lots are looked at from the most important one on.
    fn notice_freed(&mut self, now: Moment) {
        let freed = self.ledger.quotas.take_freed();
        self.note_growth();
        match &freed {
            Freed::All => self.forget_vain_refused_by(|_| true),
            Freed::These(quotas) => self.forget_vain_refused_by(|quota| quotas.contains(quota)),
        }
        if !freed.is_nobody() {
            self.redeem(now);
        }
        let Lots { freed: sweep, .. } = &mut self.lots;
        let mut begin = |quota: &str| usize::from(sweep.begin(quota, &self.queue));
        let begun: usize = match freed {
            Freed::All => self.queue.quotas_refusing().map(begin).sum(),
            Freed::These(quotas) => quotas.iter().map(|quota| begin(quota)).sum(),
        };
        self.lots.are_overlooked &= begun == 0;
    }

    /// Others have a node by now who may make room for pods that wait for their quotas.
    fn notice_members(&mut self, now: Moment) {
        if self.ledger.quotas.has_joined() {
            let quotas = self.ledger.quotas.take_joined();
            self.forget_vain_of(&quotas);
            for quota in &quotas {
                self.lots.joined.begin_or_repeat(quota, &self.queue);
            }
        }
        for _ in 0..NOTICED_MAX {
            let Some(step) = self.lots.joined.take() else { return };
            self.ask_next_of_lot(step.lot(), now);
            self.lots.joined.go_on(step, &self.queue);
        }
    }

    /// It is looked again who makes room for the first of a lot for which nobody goes yet.
    pub(super) fn ask_next_of_lot(&mut self, lot: Charged, now: Moment) {
        let mut some = self.queue.pods_of_lot(lot).take(ASKED_OF_LOT_MAX);
        let is_next = |uid: &&Uid| {
            !self.lots.promises.has(uid) && self.ledger.pod(uid).is_none_or(|row| row.may_preempt)
        };
        if let Some(uid) = some.find(is_next) {
            self.lots.retries.ask(uid, now);
        }
    }

    /// Whether a pod or a group waits for its quota, and somebody may make room for it.
    fn may_have_room_made(&mut self, uid: &Uid) -> bool {
        let Some(lot) = self.queue.lot(uid).filter(|_| !self.has_promise(uid)) else {
            return false;
        };
        let member = self.waiting_member(uid);
        let asker = member.as_ref().unwrap_or(uid);
        let profile = self.unbound.get(asker).map(|own| own.profile);
        profile.is_some_and(|profile| self.room_rule(asker, profile, lot).is_some())
    }

    /// Wakes the first pod of a lot that has waited for too long, where its quota has room for it.
    fn let_in_overdue(&mut self, lot: Charged, now: Moment) {
        if !self.queue.is_overdue(lot, now) {
            return;
        }
        let woken = self.let_in(lot, now);
        if let Some(uid) = woken.filter(|_| self.lots.are_overlooked) {
            self.queue.note_overdue(&uid);
        }
    }

    /// Wakes the first pod of a lot, where its quota has room for it; it is returned where nobody had told it so.
    fn let_in(&mut self, lot: Charged, now: Moment) -> Option<Uid> {
        let (_, _, uid) = self.queue.first_of_lot(lot)?;
        let uid = uid.clone();
        self.settle_cure(lot);
        self.follow_rest(&uid);
        let is_promised = self.has_promise(&uid);
        let answer = match is_promised {
            true => self.admit_waiting(&uid, lot),
            false => self.ledger.quotas.admit(lot, &self.ledger.asks.requests),
        };
        match answer {
            Ok(()) => {
                if !is_promised {
                    // Nobody else is told that there is room which this one was told of.
                    self.ledger.quotas.pledge(&uid, lot, &self.ledger.asks.requests);
                }
                self.queue.unpark(&uid);
                (!is_promised).then_some(uid)
            }
            Err(refusal) => {
                self.queue.refuse_lot(lot, &refusal.quota);
                if self.ledger.quotas.takes_back() {
                    self.ask_next_of_lot(lot, now);
                }
                None
            }
        }
    }

    /// A tree of quotas as it is now; none where there is no such tree.
    pub fn quota_view(&mut self, tree: &str) -> Option<View<'_>> {
        self.follow_rests();
        self.ledger.quotas.forest_mut().view(tree)
    }

    /// How many pods were woken because a quota had room for them, and were refused by one again.
    #[must_use]
    pub fn woken_in_vain(&self) -> u64 {
        self.lots.woken_in_vain()
    }
}
