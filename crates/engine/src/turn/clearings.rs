//! Room that is made for pods by more than the victims of one node: for whole gangs, within quotas, and for
//! those who are guaranteed what others only borrowed.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use super::quotas::{Among, SearchEnd};
use super::searches::Searching;
use super::{Engine, Question, Verdict, Waiting};
use crate::clearing::{Cleared, Clearing, Fruitless, Party, Rule, Uncleared, by_node};
use crate::fact::{Fact, PodRef, Uid};
use crate::ledger::{Charged, NodeIndex, PodRow};
use crate::moment::Moment;
use crate::needs::Amounts;
use crate::preemption::{LastResorts, Outcome, Room};
use crate::profile::LastResort;
use crate::queue::Change;
use crate::quota::Part;
use crate::search::Work;

/// How much is done in one turn: nodes and pods that are looked at.
const SLICE: usize = 256;
/// The same where it had to begin over again and again: twice as much each time up to this.
const SLICE_MAX: usize = 4_096;
/// After so many times of beginning over, since nodes came and went, nobody is looked for for a while.
const BEGUN_OVER_MAX: u32 = 16;

/// What is tried one after the other to make room for some pods.
pub(super) struct Clearings {
    party: Arc<Party>,
    asked: Asked,
    /// What is still to be tried: the first is.
    rules: VecDeque<Rule>,
    current: Option<Clearing>,
    begun_over: u32,
    /// Why there is no room, by what was tried before.
    fruitless: Fruitless,
    /// Why they have no nodes.
    pub(super) waiting: Waiting,
    /// The lot that the pod waits in where no room is made, and who refuses it, where that is a quota.
    parked: Option<(Charged, Box<str>)>,
    /// Of which quotas somebody may go, by what is tried last.
    among: Among,
    now: Moment,
}

/// What room is made for, as quotas see it.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked {
    charged: Option<Charged>,
    amounts: Amounts,
}

/// What is to be done for a pod that its quota, or one above, has no room for.
pub(super) enum InQuota {
    /// It is looked who makes room.
    Search(Box<Clearings>),
    /// The same, once it is known for others.
    Later(Box<Waiting>),
    /// It waits: nobody could.
    Nobody(Box<Waiting>),
}

impl Clearings {
    pub(super) fn new(
        party: Party,
        (asked, rules): (Asked, VecDeque<Rule>),
        waiting: Waiting,
        now: Moment,
    ) -> Option<Self> {
        if rules.is_empty() {
            return None;
        }
        let party = Arc::new(party);
        let (current, begun_over, fruitless, parked) = (None, 0, Fruitless::default(), None);
        let among = rules.back().map_or(Among::OwnQuota, among);
        Some(Self {
            party,
            asked,
            rules,
            current,
            begun_over,
            fruitless,
            waiting,
            parked,
            among,
            now,
        })
    }

    /// Whether what was found out was no longer so, again and again.
    fn gave_up(&self) -> bool {
        self.begun_over >= BEGUN_OVER_MAX
    }
}

impl Engine {
    /// By whom room may be made for a pod of a profile.
    pub(super) fn rules_of(&mut self, uid: &Uid, profile: usize) -> (Asked, VecDeque<Rule>) {
        let last_resorts = self.profiles[profile].1.profile().last_resorts.clone();
        let Some(row) = self.ledger.pod(uid).filter(|row| row.may_preempt) else {
            return (Asked::default(), VecDeque::new());
        };
        let (priority, charged) = (row.priority, row.charged());
        let amounts = charged.map(|own| self.ledger.asks.requests.get(own.amounts).charged.clone());
        self.rules_by(&last_resorts, charged, amounts.unwrap_or_default(), priority)
    }

    /// By whom room may be made for so much of this priority.
    pub(super) fn rules_by(
        &mut self,
        last_resorts: &[LastResort],
        charged: Option<Charged>,
        amounts: Amounts,
        priority: i32,
    ) -> (Asked, VecDeque<Rule>) {
        let mut rules = VecDeque::new();
        for last_resort in last_resorts {
            match last_resort {
                LastResort::Coscheduling => {
                    let borrower = self.ledger.borrower(charged, &amounts);
                    rules.push_back(Rule::Lower { priority, borrower });
                }
                LastResort::ElasticQuota => {
                    rules.extend(self.quota_rule(charged, &amounts, priority))
                }
                _ => {}
            }
        }
        (Asked { charged, amounts }, rules)
    }

    /// By whom room may be made within quotas.
    fn quota_rule(
        &mut self,
        charged: Option<Charged>,
        amounts: &Amounts,
        priority: i32,
    ) -> Option<Rule> {
        let quota = self.ledger.quotas.quota(charged?.belonging)?.clone();
        let view = self.ledger.quotas.forest_mut().view(&quota.tree)?;
        let part = Part { quota: &quota.name, amounts };
        let wants = view.wants(part);
        Some(Rule::Quota { priority, quota, wants })
    }

    /// What is tried to make room for a pod that no node can take; none where nothing is.
    pub(super) fn clearings_for(
        &mut self,
        own: &Searching,
        waiting: &Waiting,
        now: Moment,
    ) -> Option<Clearings> {
        let (uid, profile) = (&own.pod().uid, own.question().profile);
        let can_help = waiting.examination.curable().next().is_some();
        let is_reservation = self.ledger.pod(uid).is_none_or(PodRow::is_reservation);
        if waiting.room().is_some() || !can_help || is_reservation {
            return None;
        }
        self.give_up_useless(std::slice::from_ref(uid), now);
        if self.is_leaving(uid) || self.is_promised(uid) {
            return None;
        }
        let rules = self.rules_of(uid, profile);
        let party = Party::one(uid, profile);
        Clearings::new(party, rules, waiting.clone(), now)
    }

    /// The same for one that its quota, or one above, has no room for; nothing is tried where nobody of it
    /// could go and nothing was only lent, or before it is known of others who makes room for them.
    pub(super) fn clearings_in_quota(
        &mut self,
        pod: &PodRef,
        question: Question,
        (mut waiting, parked): (Waiting, (Charged, Box<str>)),
        now: Moment,
    ) -> InQuota {
        let rule = self.room_rule(&pod.uid, question.profile, parked.0);
        let Some(rule) = rule.filter(|_| !self.is_leaving(&pod.uid)) else {
            return InQuota::Nobody(Box::new(waiting));
        };
        let asked = (question, &pod.uid);
        let is_own = among(&rule) == Among::OwnQuota;
        let known = self.known_vain(question);
        let known = known.or_else(|| self.known_vain_of_less(asked, parked.0).filter(|_| is_own));
        if let Some(why) = known {
            waiting.last_resorts.text = format!("preemption: {why}");
            return InQuota::Nobody(Box::new(waiting));
        }
        if !self.may_search_in_quota(question) {
            return InQuota::Later(Box::new(waiting));
        }
        self.give_up_useless(std::slice::from_ref(&pod.uid), now);
        let party = Party::one(&pod.uid, question.profile);
        let lot = parked.0;
        let amounts = self.ledger.asks.requests.get(lot.amounts).charged.clone();
        let asked = Asked { charged: Some(lot), amounts };
        match Clearings::new(party, (asked, [rule].into()), waiting.clone(), now) {
            Some(clearings) => {
                InQuota::Search(Box::new(Clearings { parked: Some(parked), ..clearings }))
            }
            None => InQuota::Nobody(Box::new(waiting)),
        }
    }

    /// By whom room may be made for a pod that its quota, or one above, has no room for; none where nobody of
    /// it could go and nothing was only lent, or where it would not be let in whoever goes.
    pub(super) fn room_rule(&mut self, uid: &Uid, profile: usize, lot: Charged) -> Option<Rule> {
        let last_resorts = &self.profiles[profile].1.profile().last_resorts;
        let tries = last_resorts.contains(&LastResort::ElasticQuota) && self.can_promise();
        let priority = self.ledger.pod(uid).filter(|row| tries && row.may_preempt)?.priority;
        if self.ledger.quotas.is_beyond_help(lot, &self.ledger.asks.requests) {
            return None;
        }
        let quotas = &self.ledger.quotas;
        let lowest = quotas.quota(lot.belonging).and_then(|quota| quotas.lowest_yielding(quota));
        let amounts = self.ledger.asks.requests.get(lot.amounts).charged.clone();
        let rule = self.quota_rule(Some(lot), &amounts, priority)?;
        let takes_back = among(&rule) == Among::AllQuotas;
        (takes_back || lowest.is_some_and(|lowest| lowest < priority)).then_some(rule)
    }

    /// What is known already of a pod that its quota refused, where nobody has looked for it yet.
    pub(super) fn known_of(
        &mut self,
        own: &Clearings,
        question: Question,
    ) -> Option<Result<Cleared, Fruitless>> {
        let is_new = own.parked.is_some() && own.current.is_none() && own.fruitless.is_nothing();
        let why = is_new.then(|| self.known_vain(question)).flatten()?;
        Some(Err(why))
    }

    /// Whether others are leaving the node that a pod waits for, who had to go for such as it, and that is of use:
    /// nobody waits for a node that is not what he needs, whoever leaves it.
    pub(super) fn is_leaving(&self, uid: &Uid) -> bool {
        let Some(row) = self.ledger.pod(uid) else { return false };
        let awaited = self.awaited_node(row).filter(|node| self.can_be_helped(uid, row, *node));
        let Some(node) = awaited else { return false };
        let quota = |row: &PodRow| row.charged().map(|own| own.belonging);
        let quota = |row: &PodRow| self.ledger.quotas.quota(quota(row)?);
        // What was only lent is taken back from pods of any priority.
        let may_go = |own: &PodRow| own.priority < row.priority || quota(own) != quota(row);
        let mut others = self.ledger.residents.on(node).iter();
        others
            .any(|(_, uid)| self.ledger.pod(uid).is_some_and(|own| own.gives_way() && may_go(own)))
    }

    /// The node on which room is being made for a pod, where that is there.
    fn awaited_node(&self, row: &PodRow) -> Option<NodeIndex> {
        let node = row.nominated().and_then(|name| self.ledger.nodes.find(name))?;
        self.ledger.nodes.present().contains(node).then_some(node)
    }

    /// Whether a node would take a pod if others left it.
    fn can_be_helped(&self, uid: &Uid, row: &PodRow, node: NodeIndex) -> bool {
        let own = self.unbound.get(uid);
        own.is_none_or(|own| {
            self.profiles[own.profile].1.can_be_helped(&self.ledger, row.ask, node)
        })
    }

    /// No room is kept for these on nodes that they cannot come to, whoever leaves them.
    pub(super) fn give_up_useless(&mut self, uids: &[Uid], now: Moment) {
        let is_useless = |uid: &Uid| {
            let Some(row) = self.ledger.pod(uid) else { return false };
            let node = self.awaited_node(row);
            row.nominated().is_some() && node.is_none_or(|node| !self.can_be_helped(uid, row, node))
        };
        let useless: Vec<Uid> = uids.iter().filter(|uid| is_useless(uid)).cloned().collect();
        self.keep_no_room(useless, now);
    }

    /// The node that somebody leaves by this who had to go for others.
    pub(super) fn cleared_by(&self, fact: &Fact) -> Option<Box<str>> {
        let row = self.ledger.pod(fact.gone()?).filter(|row| row.gives_way())?;
        Some(self.ledger.nodes.name(row.node()?).into())
    }

    /// Whoever others left a node for is tried once all of them are gone: it comes there, or somebody else
    /// may have the room, whatever it was refused for last.
    pub(super) fn wake_awaited(&mut self, node: Option<&str>, now: Moment) {
        let awaited = node.into_iter().flat_map(|node| self.ledger.awaited(node));
        let all: Vec<Uid> = awaited.filter(|uid| !self.is_leaving(uid)).cloned().collect();
        for uid in all {
            let change = Change::Asked(self.entry_of(&uid));
            self.queue.notice(&self.ledger, change, now);
        }
    }

    /// Does more to make room; what came of it where it is over.
    pub(super) fn clear_on(&mut self, own: &mut Clearings) -> Option<Result<Cleared, Fruitless>> {
        self.ledger.loads.watch(false);
        let under_way = own.current.take();
        let mut under_way = under_way.filter(|clearing| {
            let is_moot = clearing.is_moot(&self.ledger);
            own.begun_over += u32::from(is_moot);
            !is_moot
        });
        if own.gave_up() {
            if let Some(rule) = own.rules.front() {
                own.fruitless.note(rule, Uncleared::Unsettled);
            }
            return Some(Err(std::mem::take(&mut own.fruitless)));
        }
        let begins = under_way.is_none();
        if begins {
            let rule = self.rule_by_now(&own.asked, own.rules.front()?.clone());
            under_way = Some(Clearing::begin(&self.ledger, own.party.clone(), rule, own.now));
        }
        let mut clearing = under_way?;
        let mut work = Work::of((SLICE << own.begun_over.min(BEGUN_OVER_MAX)).min(SLICE_MAX));
        match clearing.advance(&mut self.ledger, &mut self.profiles, &mut work) {
            None => own.current = Some(clearing),
            Some(Ok(cleared)) => return Some(Ok(cleared)),
            // Others were decided about meanwhile: whoever would have gone may not be enough by now.
            Some(Err(Uncleared::Overtaken)) if !begins => own.begun_over += 1,
            Some(Err(why)) => {
                own.fruitless.note(clearing.rule(), why);
                own.rules.pop_front();
            }
        }
        own.rules.is_empty().then(|| Err(std::mem::take(&mut own.fruitless)))
    }

    /// A rule as it is by now: others may use by now what a quota was guaranteed, or borrow no longer.
    fn rule_by_now(&mut self, asked: &Asked, rule: Rule) -> Rule {
        let Asked { charged, amounts } = asked;
        match &rule {
            Rule::Lower { priority, .. } => {
                let borrower = self.ledger.borrower(*charged, amounts);
                Rule::Lower { priority: *priority, borrower }
            }
            Rule::Quota { priority, .. } => {
                self.quota_rule(*charged, amounts, *priority).unwrap_or(rule)
            }
        }
    }

    /// Leaves a pod waiting, for room that is made or for none.
    pub(super) fn leave_cleared(
        &mut self,
        own: &Searching,
        clearings: Clearings,
        cleared: Result<Cleared, Fruitless>,
        now: Moment,
    ) -> Verdict {
        let gave_up = clearings.gave_up();
        let Clearings { mut waiting, parked, among, .. } = clearings;
        let uid = &own.pod().uid;
        let end = self.end_search_in_quota(uid);
        match cleared {
            Ok(cleared) => {
                let node = cleared.plan.first().map(|(_, node)| *node);
                if let Some(node) = node {
                    let room = self.room_on(node, uid, cleared);
                    let preemption = Some(Outcome::Room(room));
                    waiting.last_resorts = LastResorts { preemption, ..LastResorts::default() };
                }
            }
            Err(fruitless) => {
                let is_so = !gave_up && end == SearchEnd::Settled;
                if let Some((lot, _)) = parked.as_ref().filter(|_| is_so) {
                    let asked = (own.question(), uid);
                    self.note_vain(asked, (*lot, among), fruitless.clone());
                }
                let before = std::mem::take(&mut waiting.last_resorts.text);
                let texts = [before, format!("preemption: {fruitless}")];
                let texts: Vec<String> =
                    texts.into_iter().filter(|text| !text.is_empty()).collect();
                waiting.last_resorts.text = texts.join(", ");
            }
        }
        match parked {
            Some((lot, _)) if waiting.room().is_none() => {
                let verdict = self.leave_refused(uid, lot, waiting, now);
                match end {
                    _ if gave_up => self.look_again(uid, now),
                    SearchEnd::Overtaken => self.look_again_soon(uid, now),
                    SearchEnd::Settled => {}
                }
                verdict
            }
            _ => {
                let (is_refused, is_none) = (parked.is_some(), waiting.room().is_none());
                let verdict = self.leave_admitted(uid, None, waiting.into(), now);
                if is_refused {
                    self.await_promised(uid);
                }
                if let Some((lot, _)) = parked.filter(|_| !is_none) {
                    self.ask_next_of_lot(lot, now);
                }
                if gave_up && is_none {
                    self.queue.again(uid, now);
                }
                verdict
            }
        }
    }

    /// Room on a node, with all who have to go for it wherever they are.
    fn room_on(&self, node: NodeIndex, uid: &Uid, cleared: Cleared) -> Room {
        let victims = by_node(cleared.victims).into_values().flatten().collect();
        let passed_over = self.passed_over(node, uid);
        Room { node, victims, violations: 0, passed_over }
    }

    /// Pods of lower priority that wait for room on a node.
    pub(super) fn passed_over(&self, node: NodeIndex, uid: &Uid) -> Vec<PodRef> {
        crate::preemption::passed_over(&self.ledger, node, uid)
    }
}

/// Of which quotas somebody may go.
fn among(rule: &Rule) -> Among {
    match rule {
        Rule::Quota { wants: None, .. } => Among::OwnQuota,
        Rule::Quota { .. } | Rule::Lower { .. } => Among::AllQuotas,
    }
}
