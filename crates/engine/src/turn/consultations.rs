//! Pods about which somebody outside is asked before they get a node.
//!
//! Such a pod leaves the turn as a question, about nodes that could take it, and charges nobody
//! meanwhile. In a large cluster a part of the nodes is asked about at a time, and where none of them
//! is allowed, the next part. The answer is held against the cluster as it is then: a node is taken only where
//! it was allowed and can still take the pod. One question is open at a time, because those who are
//! asked may rely on it; pods that nobody asks about go on.
//!
//! Who is asked, and how, is not known here.

use std::collections::{BTreeMap, BTreeSet};

use super::{Decision, Engine, Looked, Question, Verdict, Waiting};
use crate::examination::{Examination, Refused};
use crate::fact::{PodRef, Uid};
use crate::ledger::{Ledger, NodeIndex};
use crate::moment::Moment;
use crate::node_set::NodeSet;
use crate::plugin::Plugin;
use crate::profile::Consulting;
use crate::queue::{Popped, Rejection};
use crate::reason::Refusal;
use crate::reservations::{Place, Within};

/// How often more is asked than there are parts, while answers are overtaken by events.
const ROUNDS_MAX: usize = 3;
/// So few nodes are asked about all at once.
const FEW_NODES: usize = 100;

/// How many nodes are asked about at a time, in a cluster of so many: as many as kube-scheduler looks
/// for, since those who are asked count on that.
fn part_of(nodes: usize, percent: u8) -> usize {
    let percent = match percent {
        0 => 50_usize.saturating_sub(nodes / 125).max(5),
        percent => percent.into(),
    };
    if nodes < FEW_NODES { nodes } else { (nodes * percent / 100).max(FEW_NODES) }
}

/// A question of the engine, which has but one open at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What those who were asked about a pod said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advice {
    /// Which nodes it may get.
    Counsel(Counsel),
    /// They failed, in their words: the attempt did.
    Failed(Box<str>),
}

/// Which of the nodes that were asked about a pod may get.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counsel {
    /// Those it may get, and what is added to what each is worth.
    pub allowed: BTreeMap<Box<str>, i64>,
    /// Those it may not get and of which something was said.
    pub refused: BTreeMap<Box<str>, Refusal>,
}

impl Counsel {
    /// Nodes that can take the pod are refused after all. Of those of which nothing was said nothing
    /// is told, and nobody makes room there, as kube-scheduler has it.
    fn add_to(&self, examination: &mut Examination, able: &NodeSet, ledger: &Ledger) {
        examination.naming.insert(Plugin::Extender);
        examination.refused.extend(able.iter().filter_map(|node| {
            let refusal = self.refused.get(ledger.nodes.name(node))?.clone();
            Some(Refused { node, plugin: Some(Plugin::Extender), refusal })
        }));
        examination.refused.sort_by_key(|one| one.node);
    }
}

/// Which nodes are asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// The one on which room was made for the pod.
    MadeRoom,
    /// Those that can take it, or a part of them.
    Able,
}

/// What was asked in an attempt, and what was said.
#[derive(Debug, Clone, Default)]
struct Before {
    rounds: usize,
    asked: BTreeSet<Box<str>>,
    refused: BTreeMap<Box<str>, Refusal>,
}

/// A question that is open.
#[derive(Debug, Clone)]
struct Open {
    ticket: Ticket,
    pod: PodRef,
    attempts: u32,
    about: About,
    before: Before,
    advice: Option<Advice>,
}

/// The question that is open, if any.
#[derive(Debug, Clone, Default)]
pub(super) struct Consultations {
    open: Option<Open>,
    tickets: u64,
}

impl Consultations {
    /// Forgets the question about a pod; false where there is none.
    fn drop(&mut self, uid: &Uid) -> bool {
        self.open.take_if(|open| open.pod.uid == *uid).is_some()
    }

    /// Whether somebody is being asked.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether there is an answer to act on.
    pub(super) fn is_answered(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.advice.is_some())
    }

    fn answered(&mut self) -> Option<(Open, Advice)> {
        let mut open = self.open.take_if(|open| open.advice.is_some())?;
        let advice = open.advice.take()?;
        Some((open, advice))
    }
}

impl Engine {
    /// The pod whose turn it is. One that would have to be asked about waits while another is, and
    /// whoever waited so comes back when nobody is asked.
    pub(super) fn next(&mut self, now: Moment) -> Option<Popped> {
        if !self.consultations.is_open() {
            self.queue.rejoin();
        }
        loop {
            let popped = self.queue.pop(now)?;
            if !self.consultations.is_open() || !self.is_consulted_about(&popped.uid) {
                return Some(popped);
            }
            self.queue.set_aside(&popped.uid);
        }
    }

    pub(super) fn is_consulted_about(&self, uid: &Uid) -> bool {
        self.unbound.get(uid).is_some_and(|own| own.consulted)
    }

    /// Asks about a pod whose turn it is; none where nobody is to be asked, or no node can take it.
    pub(super) fn consult(
        &mut self,
        pod: &PodRef,
        attempts: u32,
        question: Question,
    ) -> Option<Verdict> {
        let decider = &self.profiles[question.profile].1;
        let is_ever = decider.profile().consulting != Consulting::Never;
        if !is_ever || !self.is_consulted_about(&pod.uid) {
            return None;
        }
        let decider = &mut self.profiles[question.profile].1;
        match decider.own_place(&mut self.ledger, &pod.uid) {
            Some(Place { node, within: Within::Node }) => {
                let nodes = NodeSet::only(node);
                Some(self.ask(pod, attempts, About::MadeRoom, &nodes, Before::default()))
            }
            // What is held is not for others to give.
            Some(_) => None,
            None => self.ask_of_able(pod, attempts, question),
        }
    }

    fn ask_of_able(&mut self, pod: &PodRef, attempts: u32, question: Question) -> Option<Verdict> {
        let decider = &mut self.profiles[question.profile].1;
        let able = decider.able(&mut self.ledger, &pod.uid);
        let part = self.next_part(&able, &pod.uid, question, &Before::default())?;
        Some(self.ask(pod, attempts, About::Able, &part, Before::default()))
    }

    /// Those that are asked about next; none where all were, or where it was asked too often. Each pod
    /// begins at another node, so that its like do not all hear of the same ones.
    fn next_part(
        &self,
        able: &NodeSet,
        uid: &Uid,
        question: Question,
        before: &Before,
    ) -> Option<NodeSet> {
        let percent = self.profiles[question.profile].1.profile().consulted_percent;
        let part = part_of(self.ledger.nodes.present().len(), percent).max(1);
        let is_new = |node: &NodeIndex| !before.asked.contains(self.ledger.nodes.name(*node));
        let new: Vec<NodeIndex> = able.iter().filter(is_new).collect();
        if new.is_empty() || before.rounds >= ROUNDS_MAX + (able.len() - 1) / part {
            return None;
        }
        let begin = usize::try_from(super::tie_of(uid)).unwrap_or(0) % new.len();
        Some(new[begin..].iter().chain(&new[..begin]).take(part).copied().collect())
    }

    fn ask(
        &mut self,
        pod: &PodRef,
        attempts: u32,
        about: About,
        nodes: &NodeSet,
        mut before: Before,
    ) -> Verdict {
        self.consultations.tickets += 1;
        let ticket = Ticket(self.consultations.tickets);
        let names = nodes.iter().map(|node| self.ledger.nodes.name(node).into());
        let names: Vec<Box<str>> = names.collect();
        before.rounds += 1;
        before.asked.extend(names.iter().cloned());
        let pod = pod.clone();
        self.consultations.open = Some(Open { ticket, pod, attempts, about, before, advice: None });
        Verdict::Consult(ticket, names)
    }

    /// Takes in what was said of a pod. An answer to a question that is no longer asked is not
    /// heeded.
    pub fn consulted(&mut self, ticket: Ticket, advice: Advice) {
        let open = self.consultations.open.as_mut();
        if let Some(open) = open.filter(|open| open.ticket == ticket) {
            open.advice = Some(advice);
        }
    }

    /// A pod needs no node any longer, or may not be tried; whether it was asked about.
    pub(super) fn ask_no_more(&mut self, uid: &Uid) -> bool {
        self.consultations.drop(uid)
    }

    /// Decides about the pod of which something was said.
    pub(super) fn heed(&mut self, now: Moment) -> Option<Decision> {
        let (open, advice) = self.consultations.answered()?;
        let Open { pod, attempts, .. } = &open;
        self.liken(&pod.uid, now);
        let (_, question) = self.question(&pod.uid);
        self.profiles[question.profile].1.looked = Looked::ONE;
        let verdict = match (open.about, advice) {
            (About::MadeRoom, advice) => self.heed_where_room_is_made(&open, advice, question, now),
            (About::Able, Advice::Failed(why)) => self.fail(&pod.uid, why, now),
            (About::Able, Advice::Counsel(counsel)) => self.weigh(&open, counsel, question, now),
        };
        Some(self.decision(question.profile, pod.clone(), *attempts, verdict))
    }

    /// The node on which room was made is taken where it is allowed. Otherwise all are asked about,
    /// even where those who were asked failed.
    fn heed_where_room_is_made(
        &mut self,
        open: &Open,
        advice: Advice,
        question: Question,
        now: Moment,
    ) -> Verdict {
        let Open { pod, attempts, .. } = open;
        let place = self.profiles[question.profile].1.made_room(&mut self.ledger, &pod.uid);
        let allowed = |place: &Place| match &advice {
            Advice::Counsel(counsel) => {
                counsel.allowed.contains_key(self.ledger.nodes.name(place.node))
            }
            Advice::Failed(_) => false,
        };
        match place.filter(allowed) {
            Some(place) => self.give(pod, question, &place, *attempts, now),
            None => {
                let asked = self.ask_of_able(pod, *attempts, question);
                asked.unwrap_or_else(|| self.deny(pod, question, now))
            }
        }
    }

    /// Finds the best of the nodes that a pod may get, as things are now.
    fn weigh(
        &mut self,
        open: &Open,
        mut counsel: Counsel,
        question: Question,
        now: Moment,
    ) -> Verdict {
        let Open { pod, attempts, before, .. } = open;
        let nodes = &self.ledger.nodes;
        let allowed = counsel.allowed.iter();
        let allowed: BTreeMap<NodeIndex, i64> =
            allowed.filter_map(|(name, added)| Some((nodes.find(name)?, *added))).collect();
        let tie = super::tie_of(&pod.uid);
        let decider = &mut self.profiles[question.profile].1;
        let best = decider.choose_among(&mut self.ledger, &pod.uid, &allowed, tie);
        if let Some(node) = best {
            return self.give(pod, question, &Place::on(node), *attempts, now);
        }
        let able = decider.able(&mut self.ledger, &pod.uid);
        counsel.refused.extend(before.refused.clone());
        let is_new = |node: NodeIndex| !before.asked.contains(self.ledger.nodes.name(node));
        if able.iter().any(is_new) {
            let Some(part) = self.next_part(&able, &pod.uid, question, before) else {
                let rounds = before.rounds;
                let why =
                    format!("nodes changed while extenders were asked about them, {rounds} times");
                return self.fail(&pod.uid, why.into(), now);
            };
            let before = Before { refused: counsel.refused, ..before.clone() };
            return self.ask(pod, *attempts, About::Able, &part, before);
        }
        if able.is_empty() {
            return self.deny(pod, question, now);
        }
        let expected = "a pod that was asked about is there";
        let decider = &self.profiles[question.profile].1;
        let mut examination = decider.examine(&mut self.ledger, &pod.uid).expect(expected);
        counsel.add_to(&mut examination, &able, &self.ledger);
        let waiting = Waiting::after(examination, &mut self.ledger, decider, &pod.uid, tie, now);
        self.leave(&pod.uid, None, waiting.expect(expected).into(), now)
    }

    /// Those who were asked failed, and so did the attempt.
    pub(super) fn fail(&mut self, uid: &Uid, why: Box<str>, now: Moment) -> Verdict {
        let left = self.nominate(uid, None);
        self.end_promise(uid);
        self.queue.reject(uid, Rejection::default(), &self.ledger, now);
        if let Some(left) = left {
            self.queue.notice(&self.ledger, left, now);
        }
        Verdict::Failed(why)
    }
}

#[cfg(test)]
mod tests;
