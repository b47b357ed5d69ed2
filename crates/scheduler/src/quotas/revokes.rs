//! Quotas that use more than they may for too long: whose pods have to go, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chassis::key::Key;
use engine::Engine;
use engine::fact::{PodRef, Uid};
use engine::ledger::{Ledger, PodRow};
use engine::moment::Moment;
use engine::needs::Amounts;
use engine::quota::{Holder, Preemptible, Standing, Tenure, View, revoke};

use super::status::Overuse;
use crate::dismissals::{Cause, DismissOrder, Dismissals};

/// How often it is looked at the most.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// When pods of quotas that use more than they may have to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revoking {
    /// For how long a quota has to use more than it may.
    pub wait: Duration,
    /// How often that is looked at.
    pub interval: Duration,
}

/// Quotas that use more than they may.
#[derive(Debug, Default)]
pub(super) struct Revokes {
    /// None where nobody has to go.
    settings: Option<Revoking>,
    /// Since when each uses more than it may, or since when it was last asked to use less.
    since: BTreeMap<Box<str>, Moment>,
    looked: Moment,
    /// The version of the trees that was looked at.
    seen: Option<u64>,
    line: Dismissals,
}

impl Revokes {
    pub(super) fn with(settings: Option<Revoking>) -> Self {
        Self { settings, ..Self::default() }
    }

    /// When it is to be looked at, where the trees are of this version.
    pub(super) fn next_due(&self, version: u64) -> Option<Moment> {
        let Revoking { wait, interval } = self.settings?;
        if !self.line.is_empty() {
            return self.line.admits().then_some(Moment(0));
        }
        let next = self.looked.after(interval.max(INTERVAL_MIN));
        let is_stale = self.seen != Some(version);
        // Longer than it may: not as soon as it is over.
        let ends = self.since.values().map(|at| at.after(wait + Duration::from_nanos(1))).min();
        is_stale.then_some(next).into_iter().chain(ends.map(|at| at.max(next))).min()
    }

    /// A pod was asked to go, or cannot be for now.
    pub(super) fn answered(&mut self, uid: &Uid) {
        self.line.answered(uid);
    }

    /// A pod that has to go, where any has to by now. Objects of quotas have these uids.
    pub(super) fn next(
        &mut self,
        engine: &mut Engine,
        uid: impl Fn(&Key) -> Option<Box<str>>,
        now: Moment,
    ) -> Option<DismissOrder> {
        let settings = self.settings?;
        let version = engine.ledger().quotas.forest().version();
        if self.line.is_empty() && self.next_due(version).is_some_and(|due| due <= now) {
            (self.looked, self.seen) = (now, Some(version));
            self.look(engine, uid, settings.wait, now);
        }
        // It may have gone, or be going, by itself, or its quota may use more by now than when it was looked at.
        self.line.next(|order| {
            let stays = engine.ledger().pod(&order.pod.uid).is_some_and(|row| !row.goes());
            stays && is_over(engine, order.object.0.name())
        })
    }

    fn look(
        &mut self,
        engine: &mut Engine,
        uid: impl Fn(&Key) -> Option<Box<str>>,
        wait: Duration,
        now: Moment,
    ) {
        let trees: Vec<Box<str>> =
            engine.ledger().quotas.forest().trees().map(Into::into).collect();
        let mut all = BTreeSet::new();
        let mut orders = Vec::new();
        let room = self.line.room();
        for tree in trees {
            let Some(view) = engine.quota_view(&tree) else { continue };
            let over: BTreeSet<Box<str>> = view.over_used().into_iter().map(Into::into).collect();
            let Some(mut judgement) = Judgement::new(engine, &tree, &over, &self.line) else {
                continue;
            };
            for name in &over {
                let since = self.since.entry(name.clone()).or_insert(now);
                // Who is not looked at for want of room has waited long enough, and is next.
                if now.since(*since) > wait && orders.len() < room {
                    *since = now;
                    orders.extend(judgement.orders(name, &uid));
                }
            }
            all.extend(over);
        }
        self.since.retain(|name, _| all.contains(name));
        // Those for whom there is no place are looked at when these were asked.
        drop(self.line.extend(orders.into_iter()));
    }
}

/// Whether a quota uses more than it may.
fn is_over(engine: &mut Engine, quota: &str) -> bool {
    let tree = engine.ledger().quotas.forest().find(quota).tree;
    let standing = engine.quota_view(&tree).and_then(|view| view.standing(quota));
    standing.is_some_and(|Standing { used, runtime, .. }| {
        used.iter().any(|(name, used)| runtime.get(name).is_some_and(|most| used > most))
    })
}

/// Who has to go of the quotas of a tree. What a quota uses is what its own pods do and those of the quotas below:
/// these are judged first, and those of them who go, or are going, go for it as well.
struct Judgement<'a> {
    ledger: &'a Ledger,
    view: View<'a>,
    /// Quotas that use more than they may.
    over: &'a BTreeSet<Box<str>>,
    /// Pods that were just asked to go.
    asked: BTreeSet<Uid>,
    judged: BTreeMap<&'a str, Judged<'a>>,
}

/// Who has to go of a quota.
#[derive(Default)]
struct Judged<'a> {
    /// Of its own pods, in this order.
    victims: Vec<(&'a Uid, &'a PodRow)>,
    /// What comes back from whoever goes of it and of the quotas below.
    leaving: Vec<&'a Amounts>,
}

impl<'a> Judgement<'a> {
    fn new(
        engine: &'a Engine,
        tree: &str,
        over: &'a BTreeSet<Box<str>>,
        line: &Dismissals,
    ) -> Option<Self> {
        let ledger = engine.ledger();
        let view = ledger.quotas.forest().last_view(tree)?;
        let (asked, judged) = (line.asked().clone(), BTreeMap::new());
        Some(Self { ledger, view, over, asked, judged })
    }

    /// The pods of a quota that have to go. Objects of quotas have these uids.
    fn orders(
        &mut self,
        quota: &'a str,
        uid: impl Fn(&Key) -> Option<Box<str>>,
    ) -> Vec<DismissOrder> {
        // Those below come before those above.
        let mut all = vec![quota];
        let mut place = 0;
        while let Some(own) = all.get(place) {
            all.extend(self.view.below(own));
            place += 1;
        }
        for own in all.into_iter().rev() {
            if !self.judged.contains_key(own) {
                let judged = self.judge(own);
                self.judged.insert(own, judged);
            }
        }
        let fact = self.view.register().get(quota);
        let key = Key::new(fact.map_or("", |own| &own.namespace), quota);
        let object = (key.clone(), uid(&key).unwrap_or_default());
        let standing = self.view.standing(quota).unwrap_or_default();
        let max = fact.map(|own| own.max.clone()).unwrap_or_default();
        let over = Overuse::of(&standing.used, &standing.runtime, &max);
        let words: Box<str> = over.map(|over| over.to_string()).unwrap_or_default().into();
        let victims = self.judged.get(quota).into_iter().flat_map(|own| own.victims.iter());
        let order = |(uid, row): &(&Uid, &PodRow)| DismissOrder {
            pod: PodRef::of(uid, row),
            cause: Cause::Quota,
            object: object.clone(),
            words: words.clone(),
        };
        victims.map(order).collect()
    }

    /// Who has to go of a quota, where the quotas right below it are judged.
    fn judge(&mut self, quota: &'a str) -> Judged<'a> {
        let mut leaving = Vec::new();
        for below in self.view.below(quota) {
            leaving.extend(
                self.judged.get_mut(below).into_iter().flat_map(|own| own.leaving.drain(..)),
            );
        }
        let users = self.ledger.quota_users(quota);
        let mut stays = Vec::new();
        for (uid, row, amounts) in users {
            match row.goes() || self.asked.contains(uid) {
                true => leaving.push(amounts),
                false => stays.push((uid, row, amounts)),
            }
        }
        if !self.over.contains(quota) {
            return Judged { victims: Vec::new(), leaving };
        }
        let goes = leaving.iter().map(|amounts| Holder { amounts, tenure: Tenure::Leaving });
        let holders = stays.iter().map(|(_, row, amounts)| Holder {
            amounts,
            tenure: match (row.is_bound(), row.preemptible) {
                (true, Preemptible::Yes) => Tenure::Movable,
                _ => Tenure::Fixed,
            },
        });
        let holders: Vec<Holder<'_>> = holders.chain(goes).collect();
        let standing = self.view.standing(quota).unwrap_or_default();
        let places = revoke(&standing.used, &standing.runtime, &holders);
        let gone = places.iter().map(|place| stays[*place]);
        let victims = gone.clone().map(|(uid, row, _)| (uid, row)).collect();
        leaving.extend(gone.map(|(_, _, amounts)| amounts));
        Judged { victims, leaving }
    }
}
