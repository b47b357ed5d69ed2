//! Pods that no node can take, while it is found out why and who makes room for them.
//!
//! That may take longer than a turn, so it is done a slice at a time, and other pods are decided in
//! between. A pod whose search is under way is out of the queue, and what changes is kept for it
//! there. When the search ends and things have changed, the pod is tried again first, and who makes
//! room is confirmed; where that is no longer so, the search begins again, and after some times it
//! is done in one go.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::clearings::Clearings;
use super::{Decision, Engine, Question, Verdict, Waiting, rejection, tie_of};
use crate::fact::{PodRef, Uid};
use crate::moment::Moment;
use crate::plugin::Plugins;
use crate::preemption::Nominating;
use crate::queue::Change;
use crate::search::{Progress, Search, Work};

/// How much is done of a search in one slice: nodes and pods that are looked at.
const SLICE: usize = 1024;
/// How many pods are decided between two slices, where there are any.
pub(super) const DECISIONS_PER_SLICE: usize = 16;
/// How many pods may wait for their search to begin or to end before no other pod is tried.
const LINE_MAX: usize = 16;
/// How many answers are kept: each tells of every node, and all are dropped with the next change.
const ANSWERS_KEPT: usize = 4;
/// How often a search begins again before it is done in one go.
const BEGUN_OVER_MAX: u32 = 3;

/// Why pods have no node, as long as the ledger is what it was.
#[derive(Default)]
pub(super) struct Refused {
    answers: FxHashMap<Question, Arc<Waiting>>,
    /// How often the ledger changed.
    pub(super) revision: u64,
}

impl Refused {
    /// The ledger changed.
    pub(super) fn clear(&mut self) {
        self.answers.clear();
        self.revision += 1;
    }
}

/// A pod whose search is under way, or will be.
pub(super) struct Searching {
    pod: PodRef,
    question: Question,
    attempts: u32,
    tie: u64,
    /// The revision at which no node could take it.
    refused_at: u64,
    begun_over: u32,
    /// None before it begins.
    search: Option<Search>,
    /// Who makes room for it, where more is tried than victims of one node.
    clearing: Option<Box<Clearings>>,
}

/// The searches under way: the first is worked on.
pub(super) struct Searches {
    line: VecDeque<Searching>,
    slice: usize,
    /// Pods that were decided since the last slice.
    decided: usize,
}

impl Default for Searches {
    fn default() -> Self {
        Self { line: VecDeque::new(), slice: SLICE, decided: 0 }
    }
}

impl Searches {
    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.line.len()
    }

    /// Does so much at a time.
    pub(super) fn slice_by(&mut self, units: usize) {
        self.slice = units.max(1);
    }

    /// Whether it is time for a slice, where pods can be decided meanwhile or not.
    pub(super) fn are_due(&self, others: bool) -> bool {
        !self.is_empty() && (!others || self.is_full() || self.decided >= DECISIONS_PER_SLICE)
    }

    /// Whether no other pod is to be tried before a search is over.
    pub(super) fn come_first(&self, others: bool) -> bool {
        !self.is_empty() && (!others || self.is_full())
    }

    fn is_full(&self) -> bool {
        self.line.len() >= LINE_MAX
    }

    pub(super) fn note_decided(&mut self) {
        self.decided += 1;
    }

    /// A pod does not want a node any longer, or may not be tried; whether it was here.
    pub(super) fn drop(&mut self, uid: &Uid) -> bool {
        let before = self.line.len();
        self.line.retain(|own| own.pod.uid != *uid);
        self.line.len() < before
    }

    /// A pod whose quota has no room for it, while others may make some.
    pub(super) fn push(&mut self, own: Searching) {
        self.line.push_back(own);
    }

    /// A pod asks this now.
    pub(super) fn follow(&mut self, uid: &Uid, question: Question) {
        let own = self.line.iter_mut().find(|own| own.pod.uid == *uid);
        if let Some(own) = own.filter(|own| own.question != question) {
            own.question = question;
            own.begin_over();
        }
    }
}

impl Searching {
    /// One that is refused already, and for which room may be made.
    pub(super) fn clearing(
        (pod, question): (PodRef, Question),
        (attempts, refused_at): (u32, u64),
        clearings: Clearings,
    ) -> Self {
        let (tie, clearing) = (tie_of(&pod.uid), Some(Box::new(clearings)));
        let (begun_over, search) = (0, None);
        Self { pod, question, attempts, tie, refused_at, begun_over, search, clearing }
    }

    pub(super) fn pod(&self) -> &PodRef {
        &self.pod
    }

    pub(super) fn question(&self) -> Question {
        self.question
    }

    fn begin_over(&mut self) {
        self.clearing = None;
        if self.search.take().is_some() {
            self.begun_over += 1;
        }
    }
}

impl Engine {
    /// A pod was tried and no node can take it: what is to be done about it; nothing yet where that
    /// takes longer.
    pub(super) fn refuse(
        &mut self,
        pod: PodRef,
        question: Question,
        attempts: u32,
        tie: u64,
        now: Moment,
    ) -> Option<Decision> {
        let refused_at = self.refused.revision;
        let (begun_over, search, clearing) = (0, None, None);
        let mut own =
            Searching { pod, question, attempts, tie, refused_at, begun_over, search, clearing };
        let verdict = match self.known(&own) {
            Some(known) => Some(self.leave(&own.pod.uid, Some(question), known, now)),
            None if self.searches.is_empty() => self.advance(&mut own, now),
            None => None,
        };
        match verdict {
            Some(verdict) => Some(self.ended(own, verdict)),
            None => {
                self.searches.line.push_back(own);
                None
            }
        }
    }

    /// Does a slice of the first search; what is to be done about the pod where that ends it.
    pub(super) fn search_on(&mut self, now: Moment) -> Option<Decision> {
        let mut own = self.searches.line.pop_front()?;
        self.searches.decided = 0;
        match self.advance(&mut own, now) {
            Some(verdict) => Some(self.ended(own, verdict)),
            None => {
                self.searches.line.push_front(own);
                None
            }
        }
    }

    fn ended(&self, own: Searching, verdict: Verdict) -> Decision {
        let Searching { pod, question, attempts, .. } = own;
        self.decision(question.profile, pod, attempts, verdict)
    }

    /// Why no node can take a pod, where that is known already.
    fn known(&self, own: &Searching) -> Option<Arc<Waiting>> {
        let alone = self.ledger.nominations.is_empty();
        self.refused.answers.get(&own.question).filter(|_| alone).cloned()
    }

    /// Does a slice of a search.
    fn advance(&mut self, own: &mut Searching, now: Moment) -> Option<Verdict> {
        let expected = "a pod whose search is under way is there";
        let revision = self.refused.revision;
        if let Some(clearings) = own.clearing.take() {
            return self.clear_for(own, clearings, now);
        }
        let mut search = match own.search.take() {
            Some(search) => search,
            None => {
                if let Some(verdict) = self.tried_again(own, now) {
                    return Some(verdict);
                }
                own.refused_at = revision;
                if let Some(known) = self.known(own) {
                    return Some(self.leave(&own.pod.uid, Some(own.question), known, now));
                }
                let decider = &self.profiles[own.question.profile].1;
                let (uid, tie) = (&own.pod.uid, own.tie);
                Search::begin(decider, &self.ledger, uid, tie, revision, now).expect(expected)
            }
        };
        let mut work = match own.begun_over < BEGUN_OVER_MAX {
            true => Work::of(self.searches.slice),
            false => Work::without_end(),
        };
        let decider = &self.profiles[own.question.profile].1;
        let progress = search.advance(decider, &mut self.ledger, revision, &mut work);
        match progress.expect(expected) {
            Progress::Unfinished => {
                own.search = Some(search);
                return None;
            }
            Progress::Moot => {
                own.begun_over += 1;
                return None;
            }
            Progress::Finished => {}
        }
        let mut others = Plugins::default();
        if own.refused_at != revision {
            if let Some(verdict) = self.tried_again(own, now) {
                return Some(verdict);
            }
            let decider = &mut self.profiles[own.question.profile].1;
            if !search.confirm(decider, &mut self.ledger) {
                own.begun_over += 1;
                return None;
            }
            search.complete(decider, &mut self.ledger);
            let ask = self.ledger.pod(&own.pod.uid).expect(expected).ask;
            others = decider.refusing(&self.ledger, ask);
        }
        let decider = &self.profiles[own.question.profile].1;
        let (examination, last_resorts) =
            search.end(decider, &self.ledger).expect(expected).expect("the search is over");
        let mut rejection = rejection(&examination);
        // What nodes said when they were asked may be true no longer: whoever refuses now is to be
        // woken for as well.
        rejection.unschedulable = rejection.unschedulable.and(others);
        let waiting = Waiting::new(examination, last_resorts, rejection);
        if let Some(clearings) = self.clearings_for(own, &waiting, now) {
            own.clearing = Some(Box::new(clearings));
            return None;
        }
        let waiting = Arc::new(waiting);
        let answers = (own.refused_at == revision).then_some(own.question);
        Some(self.leave(&own.pod.uid, answers, waiting, now))
    }

    /// Does more to make room for a pod by whoever may have to go.
    fn clear_for(
        &mut self,
        own: &mut Searching,
        mut clearings: Box<Clearings>,
        now: Moment,
    ) -> Option<Verdict> {
        let known = self.known_of(&clearings, own.question);
        match known.or_else(|| self.clear_on(&mut clearings)) {
            None => {
                own.clearing = Some(clearings);
                None
            }
            Some(cleared) => Some(self.leave_cleared(own, *clearings, cleared, now)),
        }
    }

    /// Has a pod wait that no node can take, and finds out in one go why: where somebody outside is
    /// asked about it, no node is chosen for it in between.
    pub(super) fn deny(&mut self, pod: &PodRef, question: Question, now: Moment) -> Verdict {
        let decider = &self.profiles[question.profile].1;
        let waiting = Waiting::of(&mut self.ledger, decider, &pod.uid, tie_of(&pod.uid), now);
        let waiting = Arc::new(waiting.expect("a pod that was popped is there"));
        self.leave(&pod.uid, Some(question), waiting, now)
    }

    /// Tries a pod again where things changed since no node could take it.
    fn tried_again(&mut self, own: &Searching, now: Moment) -> Option<Verdict> {
        if own.refused_at == self.refused.revision || self.is_consulted_about(&own.pod.uid) {
            return None;
        }
        let decider = &mut self.profiles[own.question.profile].1;
        let place = decider.choose(&mut self.ledger, &own.pod.uid, own.tie).ok()??;
        Some(self.give(&own.pod, own.question, &place, own.attempts, now))
    }

    /// Leaves a pod waiting that no node can take. Nobody goes for one that its quota has no room for by now.
    /// Others who ask this question now would be told the same.
    pub(super) fn leave(
        &mut self,
        uid: &Uid,
        question: Option<Question>,
        waiting: Arc<Waiting>,
        now: Moment,
    ) -> Verdict {
        match waiting.room().and_then(|_| self.quota_refusal(uid)) {
            Some(refusal) => self.park(uid, refusal, now),
            None => self.leave_admitted(uid, question, waiting, now),
        }
    }

    /// The same of one that its quota lets in when those are gone who go for it. Where room is made, the pod
    /// is nominated to the node, and its quota keeps room for it; those that waited for the node before are
    /// not.
    pub(super) fn leave_admitted(
        &mut self,
        uid: &Uid,
        question: Option<Question>,
        waiting: Arc<Waiting>,
        now: Moment,
    ) -> Verdict {
        let alone = self.ledger.nominations.is_empty();
        // What changes for others when no room is kept for it where it was.
        let left = match waiting.last_resorts.nominating() {
            Nominating::Unchanged => None,
            Nominating::Nowhere => self.nominate(uid, None),
            Nominating::To(node) => {
                let name: Box<str> = self.ledger.nodes.name(node).into();
                self.nominate(uid, Some(&name))
            }
        };
        let passed_over = waiting.room().map_or(&[][..], |room| &room.passed_over);
        for other in passed_over {
            // Their room is kept all the same, for this one: nobody else can have it.
            self.nominate(&other.uid, None);
        }
        if let Some(question) = question
            && waiting.room().is_none()
            && alone
            && self.ledger.nominations.is_empty()
        {
            if self.refused.answers.len() >= ANSWERS_KEPT {
                self.refused.answers.clear();
            }
            self.refused.answers.insert(question, waiting.clone());
        }
        if let Some(room) = waiting.room() {
            self.promise(uid, &room.victims);
            // Until whoever has to go was asked to, it is in flight: tried again before, it might
            // push out others somewhere else.
            self.queue.room_made(uid, &self.ledger);
            self.rooms.insert(uid.clone(), waiting.rejection);
        } else {
            if self.ledger.nominated(uid).is_none() {
                self.end_promise(uid);
            }
            self.queue.reject(uid, waiting.rejection, &self.ledger, now);
        }
        if let Some(left) = left {
            self.queue.notice(&self.ledger, left, now);
        }
        for other in passed_over {
            // They may find another place, and need not wait until that one is free.
            let change = Change::PassedOver(self.entry_of(&other.uid));
            self.queue.notice(&self.ledger, change, now);
        }
        if let Some(room) = waiting.room() {
            self.see_off([(uid, &room.victims[..])], now);
        }
        Verdict::Wait(waiting)
    }
}

#[cfg(test)]
mod tests;
