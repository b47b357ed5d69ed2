//! When it is looked again whether others of their quota can make room for pods that wait for it.
//!
//! That is looked for once when such a pod begins to wait. It is worth looking again when pods of the quota
//! have come or gone, but not at each of them: a pod is left alone for longer and longer in between. And a quota
//! may refuse thousands whom nobody can help, each of another size: to look for all of them takes longer than all
//! else that is decided. So it is looked for few at once, one begins after the other, and where others are to be
//! tried they are most of those who are.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rustc_hash::FxHashSet;

use crate::fact::Uid;
use crate::moment::Moment;
use crate::queue::{Standing, Turn};
use crate::turn::{Engine, Question};

/// In how many turns one pod is tried again while others are to be tried.
const TURNS_PER_RETRY: usize = 16;
/// Of how many pods it is found out in one turn that nobody can make room for them any longer.
const RETRIED_MAX: usize = 4;
/// For how many pods that their quotas refused and that ask something else each it is looked at once who makes room.
const SEARCHED_MAX: usize = 4;
/// For how many in all: the line of searches is longer, so that others are tried meanwhile.
const SEARCHED_IN_ALL_MAX: usize = 12;
/// For how many more that ask the same as others in that line: what is found out for one is known of all, but where they
/// fill the line nobody else is tried before that is found out.
const SPARE_MAX: usize = 4;
/// After how many turns in which they fill it no longer they may do so again.
const TURNS_PER_SPARE: usize = 256;
/// How many pods are put into their order at once.
const READY_MAX: usize = 1024;
/// For how long a pod is left alone after it was first looked again.
const REST_MIN: Duration = Duration::from_secs(1);
/// For how long it is left alone at most.
const REST_MAX: Duration = Duration::from_mins(1);

/// Whether it is worth looking again for a pod.
#[derive(Debug, Clone, Default)]
enum Worth {
    /// Nothing has happened.
    #[default]
    No,
    /// It is, from then on.
    From(Moment),
    /// It is, and this is its turn among those for whom it is.
    Now(Turn),
}

#[derive(Debug, Clone, Default)]
struct Retry {
    worth: Worth,
    /// It is left alone until then.
    rests_until: Moment,
    rest: Duration,
}

/// Pods for which it is worth looking again.
#[derive(Debug, Clone, Default)]
pub(super) struct Retries {
    pods: BTreeMap<Uid, Retry>,
    due: BTreeSet<(Moment, Uid)>,
    /// Those that are left alone no longer, the most important first.
    ready: BTreeSet<Turn>,
    /// When it was last seen who is.
    seen: Moment,
    /// The pod that was tried again last.
    last: Option<Uid>,
    /// How many turns ago.
    turns: usize,
    /// Pods that their quotas refused, and for which it is being looked who makes room.
    searched: BTreeMap<Uid, Searched>,
    /// How many more of them there were lately than there are as a rule.
    spared: usize,
    /// In how many turns there were no more.
    turns_unspared: usize,
}

/// A pod for which it is being looked who makes room.
#[derive(Debug, Clone)]
struct Searched {
    /// Who refused it.
    by: Box<str>,
    question: Question,
    ends: SearchEnd,
}

/// Whether what is found out for a pod that its quota refused is so in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::turn) enum SearchEnd {
    /// Nothing is known that would make it otherwise.
    Settled,
    /// Others have come or gone since it was begun, and it was in no lot that would be looked at again.
    Overtaken,
}

impl Retries {
    /// It is worth looking again for a pod.
    pub(super) fn ask(&mut self, uid: &Uid, now: Moment) {
        let own = self.pods.entry(uid.clone()).or_default();
        if let Worth::No = own.worth {
            let at = now.max(own.rests_until);
            own.worth = Worth::From(at);
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

    /// The most important pod whose turn it is by now; it is left alone afterwards. Those that have no turn do not
    /// wait any longer.
    fn next(&mut self, now: Moment, turn: impl Fn(&Uid) -> Option<Turn>) -> Option<Uid> {
        for _ in 0..READY_MAX {
            let Some((_, uid)) = self.due.first().filter(|(at, _)| *at <= now).cloned() else {
                break;
            };
            self.due.pop_first();
            match turn(&uid) {
                Some(turn) => {
                    self.pods.entry(uid).or_default().worth = Worth::Now(turn.clone());
                    self.ready.insert(turn);
                }
                None => drop(self.pods.remove(&uid)),
            }
        }
        self.seen = now;
        let (.., uid) = self.ready.pop_first()?;
        let own = self.pods.entry(uid.clone()).or_default();
        own.worth = Worth::No;
        own.rest = (own.rest * 2).clamp(REST_MIN, REST_MAX);
        own.rests_until = now.after(own.rest);
        Some(uid)
    }

    /// A pod does not wait any longer.
    pub(super) fn forget(&mut self, uid: &Uid) {
        match self.pods.remove(uid).map(|own| own.worth) {
            Some(Worth::From(at)) => _ = self.due.remove(&(at, uid.clone())),
            Some(Worth::Now(turn)) => _ = self.ready.remove(&turn),
            Some(Worth::No) | None => {}
        }
    }

    /// When it is the turn of one of them.
    pub(super) fn next_due(&self) -> Option<Moment> {
        let ready = (!self.ready.is_empty()).then_some(self.seen);
        self.due.first().map(|(at, _)| *at).into_iter().chain(ready).min()
    }

    /// It begins to be looked who makes room for a pod that this quota refused.
    pub(super) fn begin_search(&mut self, (uid, question): (&Uid, Question), by: Box<str>) {
        let ends = SearchEnd::Settled;
        self.searched.insert(uid.clone(), Searched { by, question, ends });
    }

    /// Whether it may begin for one more that asks this.
    fn may_begin(&mut self, question: Question) -> bool {
        let has_place = self.searched.len() < SEARCHED_IN_ALL_MAX;
        let is_known_soon = self.searched.values().any(|own| own.question == question);
        if has_place || !is_known_soon {
            return has_place && (is_known_soon || !self.are_enough_searched());
        }
        self.spared += 1;
        self.spared <= SPARE_MAX
    }

    /// Whether it is looked for as many that ask something else each as it is at once.
    fn are_enough_searched(&self) -> bool {
        let asked: FxHashSet<Question> = self.searched.values().map(|own| own.question).collect();
        asked.len() >= SEARCHED_MAX
    }

    /// Another turn begins.
    fn turn(&mut self) {
        self.turns = self.turns.saturating_add(1);
        if self.searched.len() < SEARCHED_IN_ALL_MAX && self.spared > 0 {
            self.turns_unspared += 1;
            if self.turns_unspared >= TURNS_PER_SPARE {
                (self.spared, self.turns_unspared) = (0, 0);
            }
        }
    }

    /// Whether it is looked for nobody.
    pub(super) fn is_nobody_searched(&self) -> bool {
        self.searched.is_empty()
    }

    /// Others have come to some quotas, or left them.
    pub(super) fn overtake(&mut self, is_meant: impl Fn(&str) -> bool) {
        let meant = self.searched.values_mut().filter(|own| is_meant(&own.by));
        meant.for_each(|own| own.ends = SearchEnd::Overtaken);
    }
}

impl Engine {
    /// Whether it is looked at once who makes room for a pod that its quota refused and that asks this.
    pub(in crate::turn) fn may_search_in_quota(&mut self, question: Question) -> bool {
        self.lots.retries.may_begin(question)
    }

    /// Some for which it was being looked are gone, or may not be tried any longer.
    pub(super) fn forget_searched(&mut self) {
        let queue = &self.queue;
        let is_searched = |uid: &Uid| queue.standing(uid) == Some(Standing::InFlight);
        self.lots.retries.searched.retain(|uid, _| is_searched(uid));
    }

    /// It is known who makes room for a pod, and whether that is so by now.
    pub(in crate::turn) fn end_search_in_quota(&mut self, uid: &Uid) -> SearchEnd {
        let own = self.lots.retries.searched.remove(uid);
        own.map_or(SearchEnd::Settled, |own| own.ends)
    }

    /// Has a pod tried again for which others may make room by now, where it is time for one.
    pub(super) fn retry(&mut self, now: Moment) {
        let own = &mut self.lots.retries;
        own.turn();
        let (turns, last) = (own.turns, own.last.as_ref());
        let is_tried = last.is_some_and(|uid| self.queue.standing(uid) == Some(Standing::Active));
        if own.next_due().is_none_or(|due| due > now) || is_tried {
            return;
        }
        let comes_after_others = turns < TURNS_PER_RETRY && self.queue.has_active(now);
        if comes_after_others || self.lots.retries.are_enough_searched() {
            return;
        }
        for _ in 0..RETRIED_MAX {
            let queue = &self.queue;
            let next = self.lots.retries.next(now, |uid| queue.turn_of(uid));
            let Some(uid) = next else { return };
            if self.may_have_room_made(&uid) {
                self.forget_vain(&uid);
                self.queue.unpark(&uid);
                (self.lots.retries.turns, self.lots.retries.last) = (0, Some(uid));
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;

    #[test]
    fn a_pod_is_left_alone_for_longer_and_longer_and_news_meanwhile_are_not_lost() {
        let (mut own, uid) = (Retries::default(), Uid::new("p"));
        let at = |seconds: u64| Moment(seconds * 1_000_000_000);
        let turn = |uid: &Uid| Some((Reverse(0), at(0), uid.clone()));
        own.ask(&uid, at(10));
        assert_eq!((own.next(at(10), turn), own.next(at(99), turn)), (Some(uid.clone()), None));
        for (told, expected) in [(10, 11), (11, 13), (12, 17), (40, 40), (41, 56)] {
            own.ask(&uid, at(told));
            own.ask(&uid, at(told));
            assert_eq!(own.next_due(), Some(at(expected)));
            assert_eq!(own.next(Moment(at(expected).0 - 1), turn), None);
            assert_eq!(own.next(at(expected), turn), Some(uid.clone()));
        }
        own.ask(&uid, at(41));
        own.forget(&uid);
        assert!(own.pods.is_empty() && own.due.is_empty());
    }

    #[test]
    fn of_those_that_are_left_alone_no_longer_the_most_important_is_first() {
        let (mut own, now) = (Retries::default(), Moment(9));
        let turn = |uid: &Uid| match &*uid.0 {
            "gone" => None,
            "high" => Some((Reverse(5), Moment(3), uid.clone())),
            "early" => Some((Reverse(0), Moment(1), uid.clone())),
            _ => Some((Reverse(0), Moment(2), uid.clone())),
        };
        for name in ["a-late", "early", "gone", "high", "z-forgotten"] {
            own.ask(&Uid::new(name), Moment(8));
        }
        assert_eq!(own.next(now, turn), Some(Uid::new("high")));
        assert_eq!(own.next_due(), Some(now), "others are ready");
        own.forget(&Uid::new("z-forgotten"));
        let rest: Vec<Uid> = std::iter::from_fn(|| own.next(now, turn)).collect();
        assert_eq!(rest, [Uid::new("early"), Uid::new("a-late")]);
        assert_eq!((own.next_due(), own.ready.len()), (None, 0));
    }
}
