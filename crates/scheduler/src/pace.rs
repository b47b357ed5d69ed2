//! How often objects are written: each at most once a second, so many at once, what could not be written
//! again later, and one whose server does not keep what is written less and less often. Without I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chassis::backoff::doubled;
use chassis::key::Key;
use engine::moment::Moment;

use crate::message::Wrote;

#[cfg(test)]
mod tests;

/// How often an object is written, at most.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// How many are written at once.
pub(crate) const WRITES_MAX: usize = 16;
/// After what could not be written, it is tried again.
pub(crate) const AGAIN: Duration = Duration::from_secs(5);
/// The same where the server refused it for good.
pub(crate) const REFUSED_AGAIN: Duration = Duration::from_secs(60);
/// How long an object is left alone whose server does not keep what is written, at most.
pub(crate) const VAIN_MAX: Duration = Duration::from_secs(300);

/// What came of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The object says what was written.
    Kept,
    /// The server took it, and the object does not say so: somebody on the way dropped or rewrote it.
    Vain,
    /// It is not written, or nobody knows.
    Failed,
    /// The server refused it for good.
    Refused,
}

impl Outcome {
    /// What came of a write, where somebody can tell whether the object says what was written.
    pub(crate) fn of(wrote: Wrote, is_kept: impl FnOnce() -> bool) -> Self {
        match wrote {
            Wrote::All if is_kept() => Self::Kept,
            Wrote::All => Self::Vain,
            Wrote::Nothing => Self::Failed,
            Wrote::Refused => Self::Refused,
        }
    }

    /// When it is written again though there is no news.
    fn again(self, now: Moment) -> Option<Moment> {
        match self {
            Self::Kept | Self::Vain => None,
            Self::Failed => Some(now.after(AGAIN)),
            Self::Refused => Some(now.after(REFUSED_AGAIN)),
        }
    }
}

/// Until when an object is left alone that was written, whatever happens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rest {
    until: Moment,
    /// How many writes in a row came to nothing.
    vain: u32,
}

impl Rest {
    /// The same after one more write.
    pub(crate) fn after(self, outcome: Outcome, now: Moment) -> Self {
        let vain = match outcome {
            Outcome::Kept => 0,
            Outcome::Vain => self.vain.saturating_add(1),
            Outcome::Failed | Outcome::Refused => self.vain,
        };
        let pause = match outcome {
            Outcome::Kept | Outcome::Failed => INTERVAL,
            Outcome::Vain => doubled(INTERVAL, VAIN_MAX, self.vain),
            Outcome::Refused => REFUSED_AGAIN,
        };
        Self { until: now.after(pause), vain }
    }

    /// The same after a look at it: who is looked at is left alone as long as who is written.
    pub(crate) fn looked(self, now: Moment) -> Self {
        Self { until: now.after(INTERVAL), ..self }
    }

    /// The same where it need not be left alone any longer.
    pub(crate) fn over(self) -> Self {
        Self { until: Moment::default(), ..self }
    }

    /// How long it lasts; none where it is over.
    pub(crate) fn left(self, now: Moment) -> Option<Duration> {
        let left = self.until.since(now);
        (!left.is_zero()).then_some(left)
    }
}

/// A write that is not answered yet.
#[derive(Debug)]
pub(crate) struct Flight<F> {
    /// What is known of it.
    pub(crate) what: F,
    pub(crate) since: Moment,
    has_news: bool,
}

/// Which objects are written when.
#[derive(Debug)]
pub(crate) struct WritePace<F> {
    rests: BTreeMap<Key, Rest>,
    planned: BTreeMap<Key, Moment>,
    due: BTreeSet<(Moment, Key)>,
    under_way: BTreeMap<Key, Flight<F>>,
}

impl<F> Default for WritePace<F> {
    fn default() -> Self {
        Self {
            rests: BTreeMap::new(),
            planned: BTreeMap::new(),
            due: BTreeSet::new(),
            under_way: BTreeMap::new(),
        }
    }
}

impl<F> WritePace<F> {
    /// There is news of an object: it is due as soon as it may be written.
    pub(crate) fn ask(&mut self, key: &Key, now: Moment) {
        match self.under_way.get_mut(key) {
            Some(flight) => flight.has_news = true,
            None => self.plan(key, self.rest(key).until.max(now)),
        }
    }

    /// An object is gone.
    pub(crate) fn forget(&mut self, key: &Key) {
        self.rests.remove(key);
        self.unplan(key);
    }

    /// When the next object is due, where another may be written at all.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.due.first().filter(|_| self.has_room()).map(|(at, _)| *at)
    }

    /// An object that is due, where another may be written. It is due no longer.
    pub(crate) fn next(&mut self, now: Moment) -> Option<Key> {
        self.next_due().filter(|at| *at <= now)?;
        let (_, key) = self.due.pop_first()?;
        self.planned.remove(&key);
        Some(key)
    }

    /// Whether another may be written.
    pub(crate) fn has_room(&self) -> bool {
        self.under_way.len() < WRITES_MAX
    }

    /// Whether an object is neither being written nor left alone; else it is due as soon as it is neither.
    pub(crate) fn admits(&mut self, key: &Key, now: Moment) -> bool {
        let is_free = !self.under_way.contains_key(key) && self.rest(key).left(now).is_none();
        if !is_free {
            self.ask(key, now);
        }
        is_free
    }

    /// An object is being written.
    pub(crate) fn begin(&mut self, key: &Key, what: F, now: Moment) {
        self.unplan(key);
        self.under_way.insert(key.clone(), Flight { what, since: now, has_news: false });
    }

    /// The write of an object is answered. Who still has the object has to [settle](Self::settle) it.
    pub(crate) fn answered(&mut self, key: &Key) -> Option<Flight<F>> {
        self.under_way.remove(key)
    }

    /// This is what came of a write.
    pub(crate) fn settle(&mut self, key: &Key, flight: &Flight<F>, outcome: Outcome, now: Moment) {
        // However long the server takes to answer, what it keeps is written once a second.
        let from = if outcome == Outcome::Kept { flight.since } else { now };
        let rest = self.rest(key).after(outcome, from);
        self.rests.insert(key.clone(), rest);
        let news = flight.has_news.then_some(rest.until);
        if let Some(at) = news.into_iter().chain(outcome.again(now)).min() {
            self.plan(key, at);
        }
    }

    fn rest(&self, key: &Key) -> Rest {
        self.rests.get(key).copied().unwrap_or_default()
    }

    fn plan(&mut self, key: &Key, at: Moment) {
        if self.planned.get(key).is_some_and(|planned| *planned <= at) {
            return;
        }
        self.unplan(key);
        self.planned.insert(key.clone(), at);
        self.due.insert((at, key.clone()));
    }

    fn unplan(&mut self, key: &Key) {
        if let Some(at) = self.planned.remove(key) {
            self.due.remove(&(at, key.clone()));
        }
    }
}
