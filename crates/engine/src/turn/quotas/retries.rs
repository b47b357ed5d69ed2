//! When it is looked again whether others of their quota can make room for pods that wait for it.
//!
//! That is looked for once when such a pod begins to wait. It is worth looking again when pods of the quota
//! have come or gone, but not at each of them: a pod is left alone for longer and longer in between.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::fact::Uid;
use crate::moment::Moment;

/// For how long a pod is left alone after it was first looked again.
const REST_MIN: Duration = Duration::from_secs(1);
/// For how long it is left alone at most.
const REST_MAX: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy, Default)]
struct Retry {
    /// When it is its turn, where it is worth looking.
    due: Option<Moment>,
    /// It is left alone until then.
    rests_until: Moment,
    rest: Duration,
}

/// Pods for which it is worth looking again.
#[derive(Debug, Clone, Default)]
pub(super) struct Retries {
    pods: BTreeMap<Uid, Retry>,
    due: BTreeSet<(Moment, Uid)>,
}

impl Retries {
    /// It is worth looking again for a pod.
    pub(super) fn ask(&mut self, uid: &Uid, now: Moment) {
        let own = self.pods.entry(uid.clone()).or_default();
        if own.due.is_none() {
            let at = now.max(own.rests_until);
            own.due = Some(at);
            self.due.insert((at, uid.clone()));
        }
    }

    /// It is worth looking again for a pod that is left alone from now on, as if it had just been looked.
    pub(super) fn rest(&mut self, uid: &Uid, now: Moment) {
        let own = self.pods.entry(uid.clone()).or_default();
        own.rest = (own.rest * 2).clamp(REST_MIN, REST_MAX);
        own.rests_until = now.after(own.rest);
        self.ask(uid, now);
    }

    /// The next pod whose turn it is by now; it is left alone afterwards.
    pub(super) fn next(&mut self, now: Moment) -> Option<Uid> {
        let (at, uid) = self.due.first().filter(|(at, _)| *at <= now)?.clone();
        self.due.remove(&(at, uid.clone()));
        let own = self.pods.entry(uid.clone()).or_default();
        own.due = None;
        own.rest = (own.rest * 2).clamp(REST_MIN, REST_MAX);
        own.rests_until = now.after(own.rest);
        Some(uid)
    }

    /// A pod does not wait any longer.
    pub(super) fn forget(&mut self, uid: &Uid) {
        if let Some(at) = self.pods.remove(uid).and_then(|own| own.due) {
            self.due.remove(&(at, uid.clone()));
        }
    }

    /// When it is the turn of one of them.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.due.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_left_alone_for_longer_and_longer_and_news_meanwhile_are_not_lost() {
        let (mut own, uid) = (Retries::default(), Uid::new("p"));
        let at = |seconds: u64| Moment(seconds * 1_000_000_000);
        own.ask(&uid, at(10));
        assert_eq!((own.next(at(10)), own.next(at(99))), (Some(uid.clone()), None));
        for (told, expected) in [(10, 11), (11, 13), (12, 17), (40, 40), (41, 56)] {
            own.ask(&uid, at(told));
            own.ask(&uid, at(told));
            assert_eq!(own.next_due(), Some(at(expected)));
            assert_eq!(own.next(Moment(at(expected).0 - 1)), None);
            assert_eq!(own.next(at(expected)), Some(uid.clone()));
        }
        own.ask(&uid, at(41));
        own.forget(&uid);
        assert!(own.pods.is_empty() && own.due.is_empty());
    }
}
