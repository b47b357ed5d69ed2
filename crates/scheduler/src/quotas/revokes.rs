//! Quotas that use more than they may for too long: whose pods have to go, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use chassis::key::Key;
use engine::Engine;
use engine::fact::{PodRef, Uid};
use engine::moment::Moment;
use engine::quota::{Holder, Preemptible, Tenure, revoke};

use super::status::Overuse;
use crate::dismissals::{Cause, DismissOrder, Line};

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
    line: Line,
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
        // It may have gone, or be going, by itself.
        let has_to = |order: &DismissOrder| {
            engine.ledger().pod(&order.pod.uid).is_some_and(|row| !row.deleting)
        };
        self.line.next(has_to)
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
        let mut over: BTreeMap<Box<str>, Box<str>> = BTreeMap::new();
        for tree in trees {
            if let Some(view) = engine.quota_view(&tree) {
                over.extend(view.over_used().into_iter().map(|name| (name.into(), tree.clone())));
            }
        }
        self.since.retain(|name, _| over.contains_key(name));
        for (name, tree) in over {
            let since = self.since.entry(name.clone()).or_insert(now);
            let room = self.line.room();
            // Who is not looked at for want of room has waited long enough, and is next.
            if now.since(*since) > wait && room > 0 {
                *since = now;
                let register = engine.ledger().quotas.forest().register();
                let namespace = register.get(&name).map_or("", |own| &own.namespace);
                let key = Key::new(namespace, &name);
                let uid = uid(&key).unwrap_or_default();
                self.line.extend(victims(engine, &tree, &name, &(key, uid)).into_iter());
            }
        }
    }
}

/// The pods of a quota that have to go.
fn victims(
    engine: &mut Engine,
    tree: &str,
    quota: &str,
    object: &(Key, Box<str>),
) -> Vec<DismissOrder> {
    let standing = engine.quota_view(tree).and_then(|view| view.standing(quota));
    let standing = standing.unwrap_or_default();
    let max = engine.ledger().quotas.forest().register().get(quota).map(|own| own.max.clone());
    let over = Overuse::of(&standing.used, &standing.runtime, &max.unwrap_or_default());
    let words: Box<str> = over.map(|over| over.to_string()).unwrap_or_default().into();
    let users = engine.ledger().quota_users(quota);
    let holders: Vec<Holder<'_>> = users
        .iter()
        .map(|(_, row, amounts)| {
            let tenure = match (row.deleting, row.is_bound(), row.preemptible) {
                (true, ..) => Tenure::Leaving,
                (false, true, Preemptible::Yes) => Tenure::Movable,
                (false, ..) => Tenure::Fixed,
            };
            Holder { amounts, tenure }
        })
        .collect();
    let gone = revoke(&standing.used, &standing.runtime, &holders).into_iter();
    gone.map(|place| {
        let (uid, row, _) = users[place];
        let pod = PodRef::of(uid, row);
        DismissOrder { pod, cause: Cause::Quota, object: object.clone(), words: words.clone() }
    })
    .collect()
}
