//! Room in a quota that is kept for a pod while others leave for it.
//!
//! They go one after the other. Were what each leaves behind there for anybody, whoever asks for less
//! would have it before there is enough for the pod that they go for.

use crate::fact::Uid;
use crate::ledger::{Charged, Ledger};
use crate::moment::Moment;
use crate::preemption::Victim;
use crate::quota::QuotaRefusal;
use crate::turn::Engine;

/// For how many pods room is kept at once, but for those for whom others are being looked for already.
const PROMISES_MAX: usize = 256;

/// What a pod was promised.
#[derive(Debug, Clone)]
pub(in crate::turn) struct Promise {
    lot: Charged,
    /// Who goes for it.
    victims: Box<[Uid]>,
}

impl Promise {
    /// Whether any of those is still there who go for the pod.
    fn is_anybody_left(&self, ledger: &Ledger) -> bool {
        self.victims.iter().any(|uid| ledger.pod(uid).is_some_and(|row| row.is_placed()))
    }
}

impl Engine {
    /// Keeps what a pod asks for in its quota, since these go for it.
    pub(in crate::turn) fn promise(&mut self, uid: &Uid, lot: Charged, victims: &[Victim]) {
        let victims = victims.iter().map(|own| own.pod.uid.clone()).collect();
        self.keep(uid, Promise { lot, victims });
    }

    /// Whether room can be kept for one more pod. Nobody goes for one for whom it cannot.
    pub(in crate::turn) fn can_promise(&self) -> bool {
        self.lots.promises.len() < PROMISES_MAX
    }

    fn keep(&mut self, uid: &Uid, promise: Promise) {
        self.ledger.quotas.pledge(uid, promise.lot, &self.ledger.asks.requests);
        self.lots.promises.insert(uid.clone(), promise);
    }

    /// Keeps nothing for a pod any longer; whether anything was, and what it was promised.
    pub(super) fn end_promise(&mut self, uid: &Uid) -> (bool, Option<Promise>) {
        (self.ledger.quotas.unpledge(uid), self.lots.promises.remove(uid))
    }

    /// A pod does not wait for its quota any longer, or nobody goes for it.
    pub(in crate::turn) fn break_promise(&mut self, uid: &Uid) {
        self.end_promise(uid);
        self.lots.retries.forget(uid);
    }

    /// Keeps on what a pod was promised that its quota refused again, where anybody is still to go for it;
    /// whether that is so.
    pub(super) fn renew(&mut self, uid: &Uid, promise: Option<Promise>, lot: Charged) -> bool {
        let is_left = |own: &Promise| own.lot == lot && own.is_anybody_left(&self.ledger);
        let Some(promise) = promise.filter(is_left) else { return false };
        self.keep(uid, promise);
        true
    }

    /// Whether the quota of a pod has room for it, as if nothing were kept for it already.
    pub(super) fn admit_promised(&mut self, uid: &Uid) -> Result<(), QuotaRefusal> {
        // To look at it is no news, or it would be looked at for ever.
        self.ledger.quotas.begin_thought();
        let (_, promise) = self.end_promise(uid);
        let answer = self.ledger.admit(uid);
        if let Some(promise) = promise {
            self.keep(uid, promise);
        }
        self.ledger.quotas.end_thought();
        answer
    }

    /// Wakes pods that room was kept for, where there is enough by now. What is kept for one
    /// for whom nobody is to go any longer is there for all.
    pub(super) fn redeem(&mut self, now: Moment) {
        for uid in self.lots.promises.keys().cloned().collect::<Vec<Uid>>() {
            if self.admit_promised(&uid).is_ok() {
                self.queue.unpark(&uid);
                continue;
            }
            let own = self.lots.promises.get(&uid);
            if own.is_some_and(|own| !own.is_anybody_left(&self.ledger)) {
                self.end_promise(&uid);
                self.lots.retries.ask(&uid, now);
            }
        }
    }
}
