//! Room in a quota that is kept for a pod while others leave for it, its quota or a node.
//!
//! They go one after the other. Were what each leaves behind there for anybody, whoever asks for less
//! would have it before there is enough for the pod that they go for. And those who leave a node for a pod
//! would leave it in vain if its quota let in others meanwhile.
//!
//! What is kept is the pledge of the quota, which holds all that it names. A promise names nothing but pods:
//! it is over when a pod is charged otherwise than it was.
//!
//! Nobody waits for ever: who is on a node that is gone, or of which nothing is heard, is not seen to go however
//! long that takes, and neither is who has not gone for a long time. A quota that kept room for so long would keep
//! it from everybody else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::fact::{PodRef, Uid};
use crate::ledger::{Charged, Ledger};
use crate::moment::Moment;
use crate::preemption::Victim;
use crate::queue::Standing;
use crate::quota::QuotaRefusal;
use crate::turn::going_for::GoingFor;
use crate::turn::{Engine, Verdict, Waiting};

/// For how many pods that their quotas refused room is kept at once, but for those for whom others are being
/// looked for already.
const REFUSED_MAX: usize = 256;
/// For how long it is waited for those who have to go: longer than all but the longest grace periods.
const AWAITED_MAX: Duration = Duration::from_mins(10);

/// For whom room is kept.
#[derive(Debug, Default)]
pub(super) struct Promises {
    /// Who goes for them.
    going: GoingFor,
    /// Pods that their quotas refused: they are tried when there is enough.
    refused: BTreeSet<Uid>,
    /// Since when it is known of each that somebody is waited for, once that was looked at.
    since: BTreeMap<Uid, Option<Moment>>,
    /// Those that were waited for for too long, until they are gone.
    given_up: BTreeSet<Uid>,
}

impl Promises {
    pub(super) fn has(&self, uid: &Uid) -> bool {
        self.going.has(uid)
    }

    fn put(&mut self, uid: &Uid, victims: BTreeSet<Uid>) {
        self.refused.remove(uid);
        self.since.insert(uid.clone(), None);
        self.going.put(uid, victims);
    }

    /// Whether there was one.
    fn remove(&mut self, uid: &Uid) -> bool {
        self.refused.remove(uid);
        self.since.remove(uid);
        self.going.remove(uid).is_some()
    }

    /// Whether any of those is still there who go for a pod, and can be seen to go.
    fn is_anybody_left(&self, uid: &Uid, ledger: &Ledger) -> bool {
        let is_awaited = |uid: &Uid| !self.given_up.contains(uid) && ledger.can_be_seen_to_go(uid);
        self.going.leavers(uid).any(is_awaited)
    }

    /// Whether nothing is kept for anybody, and nobody was given up.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let Self { going, refused, since, given_up } = self;
        going.is_empty() && refused.is_empty() && since.is_empty() && given_up.is_empty()
    }

    /// Gives up those who go for a pod where it is waited for them for too long.
    fn give_up_overdue(&mut self, uid: &Uid, now: Moment) {
        let Some(since) = self.since.get_mut(uid) else { return };
        if now.since(*since.get_or_insert(now)) >= AWAITED_MAX {
            self.given_up.extend(self.going.leavers(uid).cloned());
        }
    }
}

impl Engine {
    /// Keeps what a pod asks for in its quota, since these go for it.
    pub(in crate::turn) fn promise(&mut self, uid: &Uid, victims: &[Victim]) {
        if !self.unbound.get(uid).is_some_and(|own| self.heeds_quotas(own.profile)) {
            return;
        }
        if let Some(charged) = self.ledger.pod(uid).and_then(|row| row.charged()) {
            let victims = victims.iter().map(|own| own.pod.uid.clone()).collect();
            self.promise_as(uid, charged, victims);
        }
    }

    /// The same for one that is charged like this, whoever it is.
    pub(in crate::turn) fn promise_as(
        &mut self,
        uid: &Uid,
        charged: Charged,
        victims: BTreeSet<Uid>,
    ) {
        self.ledger.quotas.pledge(uid, charged, &self.ledger.asks.requests);
        self.lots.promises.put(uid, victims);
    }

    /// Whether anything is kept for somebody while others leave.
    pub(in crate::turn) fn has_promise(&self, uid: &Uid) -> bool {
        self.lots.promises.has(uid)
    }

    /// Whether one that waits for its quota may be let in, where nothing that is kept for it counts.
    pub(super) fn admit_waiting(&mut self, uid: &Uid, lot: Charged) -> Result<(), QuotaRefusal> {
        match self.is_gang_entry(uid) {
            true => self.ledger.admit_as(uid, lot),
            false => self.ledger.admit(uid),
        }
    }

    /// Whether room can be kept for one more pod that its quota refused. Nobody goes for one for whom it
    /// cannot.
    pub(in crate::turn) fn can_promise(&self) -> bool {
        self.lots.promises.refused.len() < REFUSED_MAX
    }

    /// Whether room is kept for a pod for which somebody is still to go.
    pub(in crate::turn) fn is_promised(&self, uid: &Uid) -> bool {
        self.lots.promises.is_anybody_left(uid, &self.ledger)
    }

    /// Whether others are still to leave room in its quota for one that was refused there.
    pub(in crate::turn) fn is_room_awaited(&self, uid: &Uid) -> bool {
        self.lots.promises.refused.contains(uid) && self.is_promised(uid)
    }

    /// A pod that was promised room was refused by its quota.
    pub(in crate::turn) fn await_promised(&mut self, uid: &Uid) {
        if self.lots.promises.has(uid) {
            self.lots.promises.refused.insert(uid.clone());
        }
    }

    /// Keeps nothing for a pod any longer; whether it had been told that there is room.
    pub(in crate::turn) fn end_promise(&mut self, uid: &Uid) -> bool {
        let was_promised = self.lots.promises.remove(uid);
        self.ledger.quotas.unpledge(uid) && !was_promised
    }

    /// No node is kept for a pod any longer: nothing is in its quota either, unless others leave that for it.
    pub(in crate::turn) fn end_promise_on_node(&mut self, uid: &Uid) {
        if !self.lots.promises.refused.contains(uid) {
            self.end_promise(uid);
        }
    }

    /// A pod does not wait for its quota any longer, or nobody goes for it.
    pub(in crate::turn) fn break_promise(&mut self, uid: &Uid) {
        self.end_promise(uid);
        self.lots.retries.forget(uid);
    }

    /// Quotas have more room: pods that they refused, and that room is kept for, may have enough.
    pub(super) fn redeem(&mut self, now: Moment) {
        for uid in self.lots.promises.refused.iter().cloned().collect::<Vec<Uid>>() {
            self.settle_promise(&uid, now);
        }
    }

    /// No node is kept any longer for a pod that its quota refuses, and it is told so.
    fn keep_no_node(&mut self, uid: &Uid, refusal: QuotaRefusal, now: Moment) {
        if let Some(group) = self.group_of_entry(uid) {
            return self.keep_no_room_for(&group, now);
        }
        if self.ledger.nominated(uid).is_none() {
            return;
        }
        if let Some(left) = self.nominate(uid, None) {
            self.queue.notice(&self.ledger, left, now);
        }
        let Some((own, row)) = self.unbound.get(uid).zip(self.ledger.pod(uid)) else { return };
        let mut waiting = Waiting::refused_by_quota(&self.ledger, refusal);
        waiting.last_resorts.is_untried = true;
        let (pod, verdict) = (PodRef::of(uid, row), Verdict::Wait(Arc::new(waiting)));
        // Nobody tries it just now.
        let attempts = 0;
        let decision = self.decision(own.profile, pod, attempts, verdict);
        self.due.push(decision);
    }

    /// Somebody is gone: what was kept for whom he went is there for all where that is not to be tried. Those that
    /// their quotas refused are looked at all together, when these have the room.
    pub(in crate::turn) fn settle_promises(&mut self, victim: &Uid, now: Moment) {
        self.lots.promises.given_up.remove(victim);
        let awaiting: Vec<Uid> = self.lots.promises.going.askers(victim).cloned().collect();
        for uid in awaiting {
            if self.queue.lot(&uid).is_none() {
                self.settle_promise(&uid, now);
            }
        }
    }

    /// Nobody waits any longer for those who cannot be seen to go, or have not gone for too long.
    pub(super) fn give_up_waiting(&mut self, now: Moment) {
        for uid in self.lots.promises.since.keys().cloned().collect::<Vec<Uid>>() {
            self.lots.promises.give_up_overdue(&uid, now);
            self.settle_promise(&uid, now);
        }
    }

    /// Wakes a pod that waits for its quota, and that room was kept for, where there is enough by now. What is
    /// kept for one that is not to be tried, and for whom nobody is to go any longer, is there for all.
    pub(in crate::turn) fn settle_promise(&mut self, uid: &Uid, now: Moment) {
        let lot = self.queue.lot(uid);
        let refusal = lot.and_then(|lot| self.admit_waiting(uid, lot).err());
        if lot.is_some() && refusal.is_none() {
            return self.queue.unpark(uid);
        }
        let sleeps = self.queue.standing(uid) == Some(Standing::Waiting);
        if !sleeps || self.is_promised(uid) {
            return;
        }
        match refusal {
            Some(refusal) => {
                self.lose_promise(uid, now);
                self.keep_no_node(uid, refusal, now);
            }
            None => _ = self.end_promise(uid),
        }
    }

    /// Nobody goes any longer for a pod that its quota refuses: what was kept for it is there for all, and it is
    /// looked again who may make room.
    pub(super) fn lose_promise(&mut self, uid: &Uid, now: Moment) {
        if self.has_promise(uid) {
            self.end_promise(uid);
            self.lots.retries.ask(uid, now);
        }
    }
}
