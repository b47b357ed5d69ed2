//! Pods that are asked to go for something that they are part of: a few at once, by way of the API server, which heeds
//! disruption budgets.

use std::collections::{BTreeSet, VecDeque};

use api::{ElasticQuota, PodGroup};
use chassis::events::Subject;
use chassis::key::Key;
use engine::fact::{PodRef, Uid};

/// How many pods are asked to go at once.
const UNDER_WAY_MAX: usize = 16;
/// How many may be in line: those beyond them are looked at again when all of these were asked.
pub(crate) const LINE_MAX: usize = 4096;

/// What a pod is part of that it has to go for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Its quota uses more than it may.
    Quota,
    /// Its gang has started only in part.
    Gang,
}

impl Cause {
    /// What it is called for short.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Gang => "gang",
        }
    }

    /// The reason of the event.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Quota => "QuotaRevoked",
            Self::Gang => "GangIncomplete",
        }
    }

    /// What the pod did not do right.
    pub(crate) fn fault(self) -> &'static str {
        match self {
            Self::Quota => "has used more than it may for too long",
            Self::Gang => "has started only in part",
        }
    }

    /// The object of this key and uid.
    pub(crate) fn subject(self, (key, uid): &(Key, Box<str>)) -> Subject {
        let (key, uid) = (key.clone(), uid.clone().into());
        match self {
            Self::Quota => Subject::named::<ElasticQuota>(key, uid),
            Self::Gang => Subject::named::<PodGroup>(key, uid),
        }
    }
}

/// A pod that has to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DismissOrder {
    /// The pod.
    pub pod: PodRef,
    /// What it has to go for.
    pub cause: Cause,
    /// The object of that, and its uid.
    pub object: (Key, Box<str>),
    /// What is wrong, in words.
    pub words: Box<str>,
}

/// Who has to go, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Dismissals {
    line: VecDeque<DismissOrder>,
    under_way: BTreeSet<Uid>,
}

impl Dismissals {
    /// How many more may stand in line.
    pub(crate) fn room(&self) -> usize {
        LINE_MAX.saturating_sub(self.line.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Pods that are being asked to go.
    pub(crate) fn asked(&self) -> &BTreeSet<Uid> {
        &self.under_way
    }

    /// Whether one more may be asked to go now.
    pub(crate) fn admits(&self) -> bool {
        self.under_way.len() < UNDER_WAY_MAX
    }

    /// These have to go too, as far as there is room for them.
    pub(crate) fn extend(&mut self, orders: impl Iterator<Item = DismissOrder>) {
        let room = self.room();
        self.line.extend(orders.take(room));
    }

    /// A pod was asked to go, or cannot be for now.
    pub(crate) fn answered(&mut self, uid: &Uid) {
        self.under_way.remove(uid);
    }

    /// The next one, of those who still have to go.
    pub(crate) fn next(
        &mut self,
        mut has_to: impl FnMut(&DismissOrder) -> bool,
    ) -> Option<DismissOrder> {
        if !self.admits() {
            return None;
        }
        loop {
            let order = self.line.pop_front()?;
            if has_to(&order) && self.under_way.insert(order.pod.uid.clone()) {
                return Some(order);
            }
        }
    }
}
