//! ElasticQuotas as the API server shows them: what is written of each, and what is shown of each.
//!
//! How quotas stand is in the engine's trees, and what is written of them is compared with that: there is
//! nothing here to get out of step. All are compared at most once a second, and only where anything has
//! happened; all that differs of one quota is written at once, at the pace of `pace`. While pods are bound,
//! that waits as their Events do, since each of them changes a quota. What is to be written is decided by
//! [`status`], without I/O.

mod meters;
mod reading;
mod revokes;
mod status;
pub mod tree;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::{ElasticQuota, Malformed};
use chassis::key::Key;
use engine::Engine;
use engine::fact::{Uid, Version};
use engine::moment::Moment;
use engine::quota::QuotaFact;
use serde_json::Value;

use crate::dismissals::{DismissOrder, Dismissal};
use crate::later::{Busy, HELD_MAX};
use crate::message::Receipt;
use crate::pace::{INTERVAL, Outcome, WritePace};
pub(crate) use meters::QuotaMeters;
use meters::{Reach, Series, Shown};
use reading::Read;
use revokes::Revokes;
pub use revokes::Revoking;
use status::{Conditions, Seen};

/// How many are compared before something else is done.
const COMPARED_MAX: usize = 16;
/// For so long no conditions are written where the server drops them: its definition has none.
const DROPPED_AGAIN: Duration = Duration::from_secs(3600);

/// What is to be written on a quota.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaOrder {
    /// Which.
    pub key: Key,
    /// As a merge patch, of the object of this uid alone.
    pub patch: Value,
}

/// A quota as the API server shows it.
#[derive(Debug)]
struct Own {
    read: Read,
    shown: Shown,
}

/// What is being written.
#[derive(Debug)]
struct Said {
    /// How the quota stands.
    seen: Seen,
    /// Whether conditions are among it.
    has_conditions: bool,
}

/// All quotas, and what is written of them.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    /// Whether nothing is written of them: somebody else looks after them.
    is_idle: bool,
    /// Where the quotas of every cluster count, where they do not count anywhere.
    reserved: Option<Box<str>>,
    all: BTreeMap<Key, Own>,
    /// Those that are still to be compared.
    round: BTreeSet<Key>,
    /// Those of which there was news since.
    touched: BTreeSet<Key>,
    /// The version of the trees that all were last compared with.
    compared: Option<u64>,
    /// When it was last begun to compare.
    begun: Moment,
    /// Since when there is anything to be compared; none where there is nothing.
    stale: Option<Moment>,
    /// When which is written, and what is being written.
    pace: WritePace<Said>,
    /// Until when no conditions are written, since the server drops them.
    plain_until: Moment,
    revokes: Revokes,
    reach: Reach,
    series: Series,
}

/// What a quota says, where the quotas of every cluster count in this namespace alone, if in one; none where it counts for
/// nothing. And what of it cannot be read.
pub(crate) fn read(
    object: &ElasticQuota,
    namespace: Option<&str>,
) -> (Option<QuotaFact>, Vec<Malformed>) {
    let (fact, malformed) = QuotaFact::read(object);
    let counts = status::reserved(namespace, object).is_none();
    (counts.then_some(fact), malformed)
}

impl Statements {
    /// Quotas that somebody else looks after.
    pub(crate) fn of_others() -> Self {
        Self { is_idle: true, ..Self::default() }
    }

    /// The same, of which pods have to go where a quota uses more than it may.
    pub(crate) fn revoking(self, settings: Option<Revoking>) -> Self {
        Self { revokes: Revokes::with(settings), ..self }
    }

    /// The same, where the quotas of every cluster count in this namespace alone.
    pub(crate) fn reserving(self, namespace: Box<str>) -> Self {
        Self { reserved: Some(namespace), ..self }
    }

    /// What came of asking a pod to go.
    pub(crate) fn dismissed(&mut self, uid: &Uid, answer: Dismissal) {
        self.revokes.answered(uid, answer);
    }

    /// A pod that has to go, where any has to by now.
    pub(crate) fn next_revoke(&mut self, engine: &mut Engine, now: Moment) -> Option<DismissOrder> {
        let Self { revokes, all, .. } = self;
        let uid = |key: &Key| all.get(key).map(|own| own.read.object.metadata.uid.as_str().into());
        revokes.next(engine, uid, now)
    }

    /// A quota is there, or is now this: what it says, read; none where it counts for nothing.
    pub(crate) fn put(&mut self, object: Arc<ElasticQuota>) -> Option<QuotaFact> {
        let read = Read::of(object);
        let counts = status::reserved(self.reserved.as_deref(), &read.object).is_none();
        let fact = counts.then(|| QuotaFact::clone(&read.fact));
        self.set(read);
        fact
    }

    fn set(&mut self, read: Read) {
        let key = Key::new(&read.object.metadata.namespace, &read.object.metadata.name);
        let version = |own: &Read| Version::of(&own.object.metadata).0;
        match self.all.get_mut(&key) {
            // What was written is known before the watch tells, which may still tell of what was before.
            Some(own) if version(&own.read) > version(&read) => return,
            Some(own) => own.read = read,
            None => drop(self.all.insert(key.clone(), Own { read, shown: Shown::default() })),
        }
        self.touched.insert(key);
    }

    /// A quota is gone, and nothing is shown of it any longer.
    pub(crate) fn remove(&mut self, key: &Key, meters: &QuotaMeters) {
        if let Some(mut own) = self.all.remove(key) {
            own.shown.follow(Shown::default(), meters, &mut self.series);
        }
        self.touched.remove(key);
        self.round.remove(key);
        self.pace.forget(key);
    }

    /// What was to be written on a quota is written, or is not.
    pub(crate) fn written(
        &mut self,
        receipt: Receipt<ElasticQuota>,
        now: Moment,
        meters: &QuotaMeters,
    ) {
        let Receipt { key, object, wrote } = receipt;
        let Some(flight) = self.pace.answered(&key) else { return };
        meters.took(now.since(flight.since));
        let Said { seen, has_conditions } = &flight.what;
        let drops = |own: &Arc<ElasticQuota>| *has_conditions && own.status.conditions.is_empty();
        if object.as_ref().is_some_and(drops) {
            self.plain_until = now.after(DROPPED_AGAIN);
        }
        // It may be gone by now.
        if !self.all.contains_key(&key) {
            return;
        }
        let conditions = self.conditions(now);
        let answered = object.map(Read::of);
        let says = |own: &Read| status::patch(own, seen, conditions, now).is_none();
        let outcome = Outcome::of(wrote, || answered.as_ref().is_none_or(says));
        self.pace.settle(&key, &flight, outcome, now);
        if let Some(read) = answered {
            self.set(read);
        }
    }

    /// What the server does with conditions, as far as that is known.
    fn conditions(&self, now: Moment) -> Conditions {
        if now < self.plain_until { Conditions::Dropped } else { Conditions::Kept }
    }

    /// Whether anything has happened that nothing was compared with yet.
    fn is_stale(&self, version: u64) -> bool {
        let is_behind = !self.all.is_empty() && self.compared != Some(version);
        is_behind || !self.touched.is_empty()
    }

    /// Notes whether anything is to be compared, and since when.
    fn notice(&mut self, version: u64, now: Moment) {
        let is_asked = || self.pace.next_due().is_some_and(|due| due <= now);
        if self.stale.is_none() && (self.is_stale(version) || is_asked()) {
            self.stale = Some(now);
        }
    }

    /// Whether there is time to compare beside what is being written.
    fn has_time(&self, busy: Busy, now: Moment) -> bool {
        let is_due = || self.stale.is_some_and(|since| now >= since.after(HELD_MAX));
        busy.is_idle() || is_due()
    }

    /// Begins to compare anew, where anything has happened and it was not just done.
    fn begin(&mut self, version: u64, now: Moment) {
        // What was left alone has waited for itself.
        while let Some(key) = self.pace.next(now) {
            self.round.insert(key);
        }
        if !self.round.is_empty() || now < self.begun.after(INTERVAL) && self.compared.is_some() {
            return;
        }
        self.stale = None;
        if self.compared.replace(version) == Some(version) {
            self.round = std::mem::take(&mut self.touched);
        } else {
            self.round = self.all.keys().cloned().collect();
            self.touched.clear();
        }
        if !self.round.is_empty() {
            self.begun = now;
        }
    }

    /// When quotas are to be looked at, where the trees are of this version and so much is being written.
    pub(crate) fn next_due(&self, version: u64, busy: Busy) -> Option<Moment> {
        self.comparing_due(version, busy).into_iter().chain(self.revokes.next_due(version)).min()
    }

    fn comparing_due(&self, version: u64, busy: Busy) -> Option<Moment> {
        if !self.pace.has_room() {
            // What is answered is told.
            return None;
        }
        if !self.round.is_empty() {
            return Some(Moment(0));
        }
        let next = self.is_stale(version).then(|| self.begun.after(INTERVAL));
        let next = next.into_iter().chain(self.pace.next_due()).min()?;
        let held = self.stale.filter(|_| !busy.is_idle()).map(|since| since.after(HELD_MAX));
        Some(held.map_or(next, |held| next.max(held)))
    }

    /// What is to be written next, where anything is by now and there is time for it.
    pub(crate) fn next(
        &mut self,
        engine: &mut Engine,
        busy: Busy,
        now: Moment,
        meters: &QuotaMeters,
    ) -> Option<QuotaOrder> {
        let version = engine.ledger().quotas.forest().version();
        self.notice(version, now);
        if self.has_time(busy, now) {
            self.begin(version, now);
        }
        let conditions = self.conditions(now);
        for _ in 0..COMPARED_MAX {
            if !self.pace.has_room() {
                return None;
            }
            let key = self.round.pop_first()?;
            let Some(own) = self.all.get_mut(&key) else { continue };
            let seen = Seen::of(engine, &own.read, self.reserved.as_deref());
            let reach = self.reach.of(engine, &seen.tree);
            own.shown.follow(Shown::of(&seen, &reach), meters, &mut self.series);
            if self.is_idle {
                continue;
            }
            // What is being written may be all that differs: it is compared again when that is known.
            if let Some(patch) = status::patch(&own.read, &seen, conditions, now)
                && self.pace.admits(&key, now)
            {
                let has_conditions = patch["status"]["conditions"].is_array();
                self.pace.begin(&key, Said { seen, has_conditions }, now);
                return Some(QuotaOrder { key, patch });
            }
        }
        None
    }
}
