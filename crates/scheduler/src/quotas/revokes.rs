//! Quotas that use more than they may for too long: whose pods have to go, and when.
//!
//! A quota that has used more than it may for too long has a *round*: all of its pods that have to go are asked, each once.
//! The time begins anew when all of them have found a place in line.

mod judgement;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chassis::key::Key;
use engine::Engine;
use engine::fact::Uid;
use engine::moment::Moment;
use engine::quota::Standing;

use crate::dismissals::{DismissOrder, Dismissal, Dismissals};
use judgement::Judgement;

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

/// A quota that uses more than it may.
#[derive(Debug)]
struct Over {
    /// Since when it does, or since when its last round is over.
    since: Moment,
    /// Whether it has a round.
    is_in_round: bool,
    /// What came of asking pods in this round, or in the last one where it has none.
    answers: BTreeMap<Uid, Dismissal>,
    /// Pods that were asked in the round before and stayed.
    stayed: BTreeSet<Uid>,
}

impl Over {
    fn since(now: Moment) -> Self {
        let (answers, stayed) = (BTreeMap::new(), BTreeSet::new());
        Self { since: now, is_in_round: false, answers, stayed }
    }

    /// Begins a round, where it has none.
    fn begin(&mut self) {
        if !self.is_in_round {
            self.is_in_round = true;
            let answers = std::mem::take(&mut self.answers).into_iter();
            let stayed = answers.filter(|(_, answer)| *answer == Dismissal::Stays);
            self.stayed = stayed.map(|(uid, _)| uid).collect();
        }
    }

    /// All who have to go are in line.
    fn end(&mut self, now: Moment) {
        (self.since, self.is_in_round) = (now, false);
    }
}

/// Quotas that use more than they may.
#[derive(Debug, Default)]
pub(super) struct Revokes {
    /// None where nobody has to go.
    settings: Option<Revoking>,
    over: BTreeMap<Box<str>, Over>,
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
        let wait = wait + Duration::from_nanos(1);
        let ends = self.over.values().map(|own| own.since.after(wait)).min();
        is_stale.then_some(next).into_iter().chain(ends.map(|at| at.max(next))).min()
    }

    /// What came of asking a pod to go.
    pub(super) fn answered(&mut self, uid: &Uid, answer: Dismissal) {
        let object = self.line.answered(uid);
        // Its quota may use no more than it may by now.
        if let Some(own) = object.and_then(|object| self.over.get_mut(object.name())) {
            own.answers.insert(uid.clone(), answer);
        }
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
        let over = over_used(engine);
        self.follow(&over, wait, now);
        let mut all: Vec<(&str, Vec<DismissOrder>)> = Vec::new();
        for (tree, names) in &over {
            let Some(mut judgement) = Judgement::of(engine.ledger(), (tree, names), self) else {
                continue;
            };
            for name in names.iter().filter(|name| self.is_in_round(name)) {
                all.push((name, judgement.orders(name, &uid)));
            }
        }
        for (name, orders) in all {
            let left_out = self.line.extend(orders);
            // Whoever found no place is looked at again when these were asked.
            if let (None, Some(own)) = (left_out, self.over.get_mut(name)) {
                own.end(now);
            }
        }
    }

    /// These quotas use more than they may, by tree: those that have for too long have a round.
    fn follow(&mut self, over: &OverByTree, wait: Duration, now: Moment) {
        self.over.retain(|name, _| over.values().any(|names| names.contains(name)));
        for name in over.values().flatten() {
            let own = self.over.entry(name.clone()).or_insert_with(|| Over::since(now));
            if now.since(own.since) > wait {
                own.begin();
            }
        }
    }

    fn is_in_round(&self, quota: &str) -> bool {
        self.over.get(quota).is_some_and(|own| own.is_in_round)
    }
}

/// Quotas that use more than they may, by tree.
type OverByTree = BTreeMap<Box<str>, BTreeSet<Box<str>>>;

fn over_used(engine: &mut Engine) -> OverByTree {
    let trees: Vec<Box<str>> = engine.ledger().quotas.forest().trees().map(Into::into).collect();
    let over = trees.into_iter().filter_map(|tree| {
        let names = engine.quota_view(&tree)?.over_used().into_iter().map(Into::into).collect();
        Some((tree, names))
    });
    over.collect()
}

/// Whether a quota uses more than it may.
fn is_over(engine: &mut Engine, quota: &str) -> bool {
    let tree = engine.ledger().quotas.forest().find(quota).tree;
    let standing = engine.quota_view(&tree).and_then(|view| view.standing(quota));
    standing.is_some_and(|Standing { used, runtime, .. }| {
        used.iter().any(|(name, used)| runtime.get(name).is_some_and(|most| used > most))
    })
}
