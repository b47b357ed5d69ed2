//! Pods for which it was found out that nobody can go, so that each of a lot need not find it out anew.
//!
//! One pod stands for all that ask the same, for as long as it waits itself: what it asks is kept by numbers,
//! which mean something else once it is gone. Where only pods of its own quota could go, it stands for those as well
//! that ask for more of the same: whoever is pairwise different need not be looked for one after the other. It
//! stands for nobody any longer when others have got a node who may go for it, when its quota has more room, or when
//! it is looked again for it.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, Hasher as _};

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::clearing::Fruitless;
use crate::fact::Uid;
use crate::ledger::{Ask, Belonging, Charged, PodRow};
use crate::needs::Amounts;
use crate::pool::Id;
use crate::quota::Preemptible;
use crate::turn::{Engine, KNOWN, Question};

/// For how many questions that is kept.
const KEPT_MAX: usize = 256;

/// Who can go for others is looked for on behalf of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::turn) enum Among {
    /// Only pods of the same quota may go.
    OwnQuota,
    /// So may those of others that use what was lent to them.
    AllQuotas,
}

/// What pods have in common of which one may ask for more than another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sort {
    profile: usize,
    /// Without amounts.
    ask: Ask,
    /// What of whose it is counts.
    alike: u64,
    belonging: Id<Belonging>,
    preemptible: Preemptible,
}

impl Sort {
    /// None where more of something may be had where less of it cannot: whole CPUs are taken by their places.
    fn of(question: Question, charged: Charged, alike: u64) -> Option<Self> {
        let Charged { belonging, preemptible, .. } = charged;
        let none = Id::at(0);
        let ask = Ask { requests: none, taken: none, ..question.ask };
        let own = Self { profile: question.profile, ask, alike, belonging, preemptible };
        question.ask.cpus.is_none().then_some(own)
    }
}

#[derive(Debug)]
struct Answer {
    /// The pod for which nobody could go.
    uid: Uid,
    lot: Charged,
    /// What it has in common with those that it stands for though they ask for more.
    sort: Option<Sort>,
    among: Among,
    why: Fruitless,
}

/// Whether this is no more than that, of nothing.
fn is_within(own: &Amounts, other: &Amounts) -> bool {
    let is_named = |name: &str| other.scalars.iter().any(|(own, _)| **own == *name);
    own.names().all(|name| own.of(name) <= other.of(name))
        // A scalar that is named counts, however little of it.
        && own.scalars.iter().all(|(name, _)| is_named(name))
}

/// What was found out, by what was asked.
#[derive(Debug, Default)]
pub(super) struct Vain(FxHashMap<Question, Answer>);

impl Engine {
    /// Nobody could go for a pod of a lot.
    pub(in crate::turn) fn note_vain(
        &mut self,
        (question, uid): (Question, &Uid),
        (lot, among): (Charged, Among),
        why: Fruitless,
    ) {
        let sort = self.sort_of((question, uid), lot).filter(|_| among == Among::OwnQuota);
        let all = &mut self.lots.vain.0;
        if all.len() >= KEPT_MAX {
            all.clear();
        }
        all.insert(question, Answer { uid: uid.clone(), lot, sort, among, why });
    }

    fn sort_of(&self, (question, uid): (Question, &Uid), lot: Charged) -> Option<Sort> {
        let mut alike = FxBuildHasher.build_hasher();
        self.ledger.hash_alike(self.ledger.pod(uid)?.ask, &mut alike);
        Sort::of(question, lot, alike.finish())
    }

    /// Why nobody of its own quota can go for a pod, where one that asks for no more than it and is as important waits,
    /// and it is known of that.
    pub(in crate::turn) fn known_vain_of_less(
        &self,
        (question, uid): (Question, &Uid),
        lot: Charged,
    ) -> Option<Fruitless> {
        let sort = self.sort_of((question, uid), lot)?;
        let row = self.ledger.pod(uid)?;
        let is_known = |(asked, answer): &(&Question, &Answer)| {
            answer.sort == Some(sort)
                && asked.priority >= question.priority
                && self.still_waits(asked, answer)
                && self.asks_no_more(self.ledger.pod(&answer.uid).expect(KNOWN), row)
        };
        let known = self.lots.vain.0.iter().filter(is_known).map(|(_, answer)| answer);
        known.min_by(|one, other| one.uid.cmp(&other.uid)).map(|answer| answer.why.clone())
    }

    /// Whether a pod for which nobody could go waits and is what it was.
    fn still_waits(&self, asked: &Question, Answer { uid, lot, .. }: &Answer) -> bool {
        self.queue.lot(uid) == Some(*lot) && self.question(uid).1 == *asked
    }

    /// Whether a pod asks for no more than another.
    fn asks_no_more(&self, own: &PodRow, other: &PodRow) -> bool {
        let pairs = [(own.ask.requests, other.ask.requests), (own.ask.taken, other.ask.taken)];
        let requests = &self.ledger.asks.requests;
        pairs.iter().all(|(own, other)| {
            is_within(&requests.get(*own).charged, &requests.get(*other).charged)
        })
    }

    /// Why nobody can go for pods that ask this, where one that does waits and it is known of that.
    pub(in crate::turn) fn known_vain(&mut self, question: Question) -> Option<Fruitless> {
        let answer = self.lots.vain.0.get(&question)?;
        if self.still_waits(&question, answer) {
            return Some(answer.why.clone());
        }
        self.lots.vain.0.remove(&question);
        None
    }

    /// It is looked again for a pod who can go for it.
    pub(super) fn forget_vain(&mut self, uid: &Uid) {
        if self.queue.lot(uid).is_some() && self.unbound.get(uid).is_some() {
            let (_, question) = self.question(uid);
            self.lots.vain.0.remove(&question);
        }
    }

    /// Pods of some quotas have got a node: those that were refused by any of these may have others go.
    pub(super) fn forget_vain_of(&mut self, quotas: &BTreeSet<Box<str>>) {
        self.lots.vain.0.retain(|_, own| own.among == Among::OwnQuota);
        self.forget_vain_refused_by(|quota| quotas.contains(quota));
    }

    /// Quotas have more room: less is enough for those that they refused. The same is to be found out anew where it is
    /// being found out.
    pub(super) fn forget_vain_refused_by(&mut self, is_meant: impl Fn(&str) -> bool) {
        let refused = |lot| self.queue.refusing(lot).is_some_and(&is_meant);
        self.lots.vain.0.retain(|_, own| !refused(own.lot));
        self.lots.retries.overtake(is_meant);
    }

    /// It is to be looked again for all.
    pub(super) fn forget_all_vain(&mut self) {
        self.lots.vain.0.clear();
    }
}
