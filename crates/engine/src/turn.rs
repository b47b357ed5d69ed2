//! The engine as a whole: facts in, one decision at a time out.
//!
//! An [`Engine`] holds the one ledger, the one queue and a decider for each profile, and keeps them
//! in step: what a fact changes is worked out before the ledger takes it in, the queue hears of a
//! pod right after the ledger did, and pods that the change may help wake last. Whoever drives the
//! engine tells it facts and answers, asks for decisions, and waits as long as it says.
//!
//! It knows which pods wait for a node and through whom, but not how a node is given to a pod.

mod clearings;
mod consultations;
mod due;
mod gangs;
mod going_for;
mod leavers;
mod loads;
mod lookout;
mod preparations;
mod quotas;
mod reservations;
mod searches;
mod unbound;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use crate::cache;
use crate::decide::{Decider, Looked};
use crate::examination::Examination;
use crate::fact::{Allotment, Fact, PodFact, PodRef, Uid, Version};
use crate::gangs::{GangStamp, GangWait};
use crate::ledger::{Ask, Joined, Ledger, NodeIndex, PodRow};
use crate::moment::Moment;
use crate::nominations::Nominators;
use crate::plugins::volume_binding::{Failure, Preparation, Write};
use crate::profile::Profile;
use crate::queue::{self, Change, History, Pending, Plugin, Plugins, Popped, Queue, Rejection};
use crate::reservations::{Place, Within};
use consultations::Consultations;
pub use consultations::{Advice, Counsel, Ticket};
use due::Due;
use gangs::Gangs;
pub use gangs::{Candidate, ClearingEnd, GangNews, GangStep, PlanEnd};
use leavers::Leavers;
use lookout::Watch;
pub use lookout::{Lookout, Scores, Sight, Wanted};
use preparations::{Ended, Preparations};
use quotas::Lots;
use searches::{Refused, Searches};
use unbound::{AllUnbound, Unbound};
pub use waiting::Waiting;

/// How an engine works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// How the queue keeps time.
    pub queue: queue::Settings,
    /// What spreads pods over nodes that are equally good.
    pub seed: u64,
    /// Whether room that other schedulers make for pods is left to those of higher priority.
    pub heeds_others: bool,
}

/// What is to be done about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The pod.
    pub pod: PodRef,
    /// The profile that decided.
    pub scheduler: Arc<str>,
    /// How often the pod has been tried, this time included.
    pub attempts: u32,
    /// What is to be done.
    pub verdict: Verdict,
    /// How many nodes were looked at, where one was found for it.
    pub looked: Looked,
    /// With whom it gets its node, where it gets it with others.
    pub gang: Option<Arc<GangStamp>>,
}

/// What is to be done about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is to be bound to this node, which is charged for it already, and gets these CPUs there. The
    /// engine waits for the answer.
    Bind(Box<str>, Option<Box<Allotment>>),
    /// It is to get this node, which is charged for it already, but first volumes have to be made
    /// ready by these writes. The engine waits for the answer, then for the facts to show it, and
    /// decides again.
    Prepare(Box<str>, Vec<Write>),
    /// Somebody outside is to be asked which of these nodes it may get. The engine waits for the
    /// answer, and decides again.
    Consult(Ticket, Vec<Box<str>>),
    /// It waits for others of its gang, before any node is looked at. Nothing has to be answered.
    Await(Arc<GangWait>),
    /// No node can take it. It waits, and nothing has to be answered.
    Wait(Arc<Waiting>),
    /// Those who were asked about it failed. It is tried again, and nothing has to be answered.
    Failed(Box<str>),
    /// Its volumes could not be made ready. It is tried again, and nothing has to be answered.
    Unprepared(Failure),
}

/// What the API server said for sure of what was to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The pod is bound as asked.
    Done,
    /// The pod is gone, or has another node.
    Lost,
    /// The pod is there and was not bound, or could not be prepared.
    Refused,
}

/// What the answer to a pod that no node can take follows from, besides the ledger, while room is
/// made for nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Question {
    profile: usize,
    /// Without whose it is.
    ask: Ask,
    /// What of whose it is counts.
    alike: u64,
    priority: i32,
    may_preempt: bool,
}

impl Question {
    fn of(profile: usize, row: &PodRow, ledger: &Ledger) -> Self {
        let PodRow { ask, priority, may_preempt, .. } = *row;
        let mut alike = FxBuildHasher.build_hasher();
        ledger.hash_alike(ask, &mut alike);
        // Who makes room for whom follows from their quotas.
        let share = ledger.quotas.takes_back().then_some(row.charged());
        share.hash(&mut alike);
        Self { profile, ask: ask.anonymous(), alike: alike.finish(), priority, may_preempt }
    }

    /// As the queue is told of a pod that asks it. Those who are asked about a pod see all of it: none
    /// speaks for another.
    fn pending(self, uid: &Uid, row: &PodRow, gated: bool, consulted: bool) -> Pending {
        let Self { profile, alike, priority, may_preempt, .. } = self;
        let kind = (profile, alike, may_preempt, consulted.then_some(uid));
        let kind = FxBuildHasher.hash_one(kind);
        Pending { uid: uid.clone(), priority, ask: row.ask, kind, gated }
    }
}

/// Pods to nodes.
pub struct Engine {
    ledger: Ledger,
    queue: Queue,
    profiles: Vec<(Arc<str>, Decider)>,
    unbound: AllUnbound,
    preparations: Preparations,
    consultations: Consultations,
    /// Decisions that wait to be asked for.
    due: Due,
    /// Why pods have no node, as long as the ledger is what it was.
    refused: Refused,
    /// Pods of which it is being found out.
    searches: Searches,
    /// Pods for which room is being made, and who refused them.
    rooms: BTreeMap<Uid, Rejection>,
    leavers: Leavers,
    /// Pods that quotas may have room for.
    lots: Lots,
    gangs: Gangs,
    watch: Watch,
}

impl Engine {
    /// An engine that decides for pods that name one of these profiles.
    #[must_use]
    pub fn new(settings: Settings, profiles: Vec<(Arc<str>, Profile)>, now: Moment) -> Self {
        let own = profiles.iter().map(|(name, _)| name.clone()).collect();
        let nominators = Nominators { own, heeds_others: settings.heeds_others };
        let mut ledger = Ledger::default();
        ledger.heed(nominators);
        let bytes_max = cache::BYTES_MAX / profiles.len().max(1);
        let mut decider =
            |profile| Decider::new(profile, &mut ledger, settings.seed).with_cache_of(bytes_max);
        let profiles: Vec<(Arc<str>, Decider)> =
            profiles.into_iter().map(|(name, profile)| (name, decider(profile))).collect();
        let arguments = profiles.iter().map(|(_, own)| own.profile().arguments()).collect();
        let queue = Queue::new(settings.queue, now).heeding(arguments);
        Self {
            queue: if ledger.quotas.are_kept() { queue.telling_turns() } else { queue },
            ledger,
            profiles,
            unbound: AllUnbound::default(),
            preparations: Preparations::default(),
            consultations: Consultations::default(),
            due: Due::default(),
            refused: Refused::default(),
            searches: Searches::default(),
            rooms: BTreeMap::new(),
            leavers: Leavers::default(),
            lots: Lots::default(),
            gangs: Gangs::default(),
            watch: Watch::default(),
        }
    }

    /// Looks at so many nodes and pods at a time when it finds out why no node can take a pod and
    /// who makes room for it. The fewer, the shorter is the longest turn; what is decided is the
    /// same where nothing changes meanwhile.
    #[must_use]
    pub fn with_slices_of(mut self, units: usize) -> Self {
        self.searches.slice_by(units);
        self
    }

    /// Takes a fact in.
    pub fn apply(&mut self, mut fact: Fact, now: Moment) {
        self.refused.clear();
        match &mut fact {
            Fact::Load { report: Some(report), .. } => report.received(now),
            // A profile without gangs has each pod start by itself.
            Fact::Pod(pod) if pod.gang.is_some() && !self.is_ganged(&pod.scheduler) => {
                pod.gang = None;
            }
            _ => {}
        }
        let listening = self.queue.is_listening();
        self.ledger.loads.watch(listening);
        let change = listening.then(|| Change::of(&self.ledger, &fact)).flatten();
        let told = match &fact {
            Fact::Pod(pod) => {
                let wanting = self.wanting(pod);
                Some((pod.uid.clone(), wanting))
            }
            Fact::Reservation(own) => {
                let wanting = self.wanting_reservation(&own.pod);
                Some((own.pod.uid.clone(), wanting))
            }
            Fact::PodGone(uid) | Fact::PodFailed(uid) => Some((uid.clone(), None)),
            _ => None,
        };
        let invited = self.ledger.reservations.epoch();
        let gangs = self.gang_of(&fact);
        let was_of = told.as_ref().and_then(|(uid, _)| self.member_of(uid).cloned());
        let seen = told.as_ref().and_then(|(uid, _)| Some((uid.clone(), self.seen_by_group(uid)?)));
        let concerned = match &fact {
            Fact::Storage(fact) => self.preparations.concerned(fact),
            Fact::NodeGone(node) => self.preparations.on(node),
            _ => Vec::new(),
        };
        let cleared = self.cleared_by(&fact);
        let gone = fact.gone().cloned();
        self.ledger.apply(fact);
        if let Some((uid, wanting)) = told {
            self.follow_gang(&uid, was_of.as_ref(), now);
            self.follow(uid, wanting, now);
        }
        // Most of what pods say later is nothing to those that they started with.
        let is_news = seen.is_none_or(|(uid, seen)| self.seen_by_group(&uid) != Some(seen));
        if is_news {
            self.settle_gangs(&gangs, now);
        }
        for ended in self.preparations.ended(&concerned, &mut self.ledger) {
            self.end(ended, now);
        }
        self.regroup(now);
        if let Some(change) = change {
            self.queue.notice(&self.ledger, change, now);
        }
        self.wake_awaited(cleared.as_deref(), now);
        if let Some(uid) = gone {
            self.queue.forget_turn(&uid);
            self.settle_promises(&uid, now);
        }
        if self.ledger.reservations.epoch() != invited {
            self.invite_all(now);
        }
        self.notice_loads(now);
    }

    /// A selector has come that tells pods apart which were alike before: the queue has to know.
    fn regroup(&mut self, now: Moment) {
        let moved = match self.ledger.terms.crowds.take_joined() {
            Joined::Nobody => return,
            Joined::These(identities) => self.unbound.with(&identities),
            Joined::Many => self.unbound.all(),
        };
        let mut pending = Vec::new();
        self.follow_asks(&moved, now);
        for uid in moved {
            let row = self.ledger.pod(&uid).filter(|row| !row.is_placed());
            if let Some((own, row)) = self.unbound.get(&uid).zip(row) {
                let question = Question::of(own.profile, row, &self.ledger);
                pending.push(question.pending(&uid, row, own.gated, own.consulted));
                self.searches.follow(&uid, question);
            }
        }
        self.queue.regroup(pending, now);
    }

    /// What has to be known of a pod to find it a node; none where that is not our business.
    fn wanting(&self, pod: &PodFact) -> Option<Unbound> {
        let profile = self.profiles.iter().position(|(name, _)| *name == pod.scheduler)?;
        let wants = pod.node.is_none() && !pod.deleting;
        wants.then(|| Unbound {
            profile,
            gated: !pod.gates.is_empty(),
            consulted: self.profiles[profile].1.profile().consulting.is_about(&pod.extended),
            labels: pod.labels.clone(),
            owner: pod.needs.owner.clone(),
            likened: self.ledger.owners.epoch(),
            owners: pod.owners.clone(),
            invited: self.ledger.reservations.epoch(),
            history: History::default(),
        })
    }

    /// The same of a reservation: only profiles that use them give them nodes, and nobody else is asked.
    fn wanting_reservation(&self, pod: &PodFact) -> Option<Unbound> {
        let wanting = self.wanting(pod)?;
        let decider = &self.profiles[wanting.profile].1;
        decider.uses_reservations().then_some(Unbound { consulted: false, ..wanting })
    }

    /// Whether a profile of this name gives reservations their nodes.
    #[must_use]
    pub fn gives_reservations_nodes(&self, scheduler: &str) -> bool {
        let mut own = self.profiles.iter().filter(|(name, _)| **name == *scheduler);
        own.any(|(_, decider)| decider.uses_reservations())
    }

    /// The ledger knows of a pod: so does the queue, where the pod wants a node.
    fn follow(&mut self, uid: Uid, wanting: Option<Unbound>, now: Moment) {
        let Some(mut wanting) = wanting else {
            self.unbound.remove(&uid);
            self.searches.drop(&uid);
            self.rooms.remove(&uid);
            self.keep_leavers(&uid, now);
            self.queue.remove(&uid);
            self.break_promise(&uid);
            self.leave_gang(&uid, now);
            self.ask_no_more(&uid);
            if self.recall(&uid) {
                self.withdraw(&uid, Answer::Lost, now);
            }
            return;
        };
        let Some(row) = self.ledger.pod(&uid) else { return };
        let identity = row.ask.identity;
        // Members of gangs are there for their groups, which hear of them right after this.
        let is_in_gang = self.is_in_gang(row, wanting.profile);
        if row.node().is_some() {
            // We decided on a node and wait for the answer.
            if let Some(old) = self.unbound.get(&uid) {
                wanting.history = old.history;
            }
        } else {
            let question = Question::of(wanting.profile, row, &self.ledger);
            let gated = wanting.gated;
            let pending = question.pending(&uid, row, gated, wanting.consulted);
            let is_under_way = |own: &mut Self| {
                own.searches.drop(&uid) || own.ask_no_more(&uid) || own.rooms.remove(&uid).is_some()
            };
            if gated && is_under_way(self) {
                self.queue.remove(&uid);
            }
            if gated {
                self.break_promise(&uid);
            }
            self.searches.follow(&uid, question);
            if !is_in_gang || self.queue.standing(&uid).is_some() {
                self.queue.put(pending, now);
                self.note_alone(&uid);
            }
            self.follow_quota(&uid);
            self.follow_rest(&uid);
        }
        self.unbound.insert(uid, wanting, identity);
    }

    /// Decides about the pod whose turn it is; none where no pod can be tried now, or where what is
    /// being found out about one takes longer. Then something is due at once.
    pub fn decide(&mut self, now: Moment) -> Option<Decision> {
        self.expire_loads(now);
        self.follow_rests();
        self.notice_quotas(now);
        for late in self.preparations.late(now, &mut self.ledger) {
            self.end(late, now);
        }
        self.advance_releases(now);
        self.settle_namers(now);
        self.tell_waiting(now);
        if let Some(decision) = self.due.pop() {
            return Some(decision);
        }
        if self.is_planning() {
            return self.plan_on(now);
        }
        if let Some(decision) = self.heed(now) {
            return Some(decision);
        }
        let is_anything = !self.searches.is_empty() || self.is_clearing();
        let others = is_anything && self.queue.has_active(now);
        if self.is_clearing_due(others)
            && let Some(decision) = self.clear_group(now)
        {
            return Some(decision);
        }
        if self.searches.are_due(others)
            && let Some(decision) = self.search_on(now)
        {
            return Some(decision);
        }
        if self.searches.come_first(others) || self.are_clearings_full() {
            return None;
        }
        let Popped { uid, attempts } = self.next(now)?;
        self.searches.note_decided();
        self.note_decided();
        if self.is_gang_entry(&uid) {
            return self.plan(&uid, attempts, now);
        }
        self.liken(&uid, now);
        let (pod, question) = self.question(&uid);
        self.glance(&pod, question);
        if let Some(verdict) = self.over_quota(&pod, (question, attempts), now) {
            return Some(self.decision(question.profile, pod, attempts, verdict?));
        }
        if let Some(verdict) = self.consult(&pod, attempts, question) {
            return Some(self.decision(question.profile, pod, attempts, verdict));
        }
        let (decider, tie) = (&mut self.profiles[question.profile].1, tie_of(&uid));
        let verdict = match decider.choose(&mut self.ledger, &uid, tie).expect(KNOWN) {
            Some(place) => self.give(&pod, question, &place, attempts, now),
            None => return self.refuse(pod, question, attempts, tie, now),
        };
        Some(self.decision(question.profile, pod, attempts, verdict))
    }

    /// What a profile has found out about a pod just now.
    fn decision(&self, profile: usize, pod: PodRef, attempts: u32, verdict: Verdict) -> Decision {
        let (scheduler, decider) = &self.profiles[profile];
        let is_found = matches!(verdict, Verdict::Bind(..) | Verdict::Prepare(..));
        let looked = if is_found { decider.looked } else { Looked::default() };
        Decision { pod, scheduler: scheduler.clone(), attempts, verdict, looked, gang: None }
    }

    /// What the answer to a pod of the queue follows from.
    fn question(&self, uid: &Uid) -> (PodRef, Question) {
        let row = self.ledger.pod(uid).expect(KNOWN);
        let question = Question::of(self.unbound.get(uid).expect(KNOWN).profile, row, &self.ledger);
        (PodRef::of(uid, row), question)
    }

    /// A pod gets a node.
    fn give(
        &mut self,
        pod: &PodRef,
        question: Question,
        place: &Place,
        attempts: u32,
        now: Moment,
    ) -> Verdict {
        // Others may have used what there was while somebody thought about this one.
        if self.heeds_quotas(question.profile)
            && let Err(refusal) = self.ledger.admit(&pod.uid)
        {
            return self.park(&pod.uid, refusal, now);
        }
        let node = place.node;
        let elsewhere = (self.ledger.nominated(&pod.uid))
            .is_some_and(|nominated| nominated != self.ledger.nodes.name(node));
        let left = elsewhere.then(|| Change::unplaced(&self.ledger, &pod.uid)).flatten();
        let ask = self.ledger.pod(&pod.uid).expect(KNOWN).ask;
        let decider = &self.profiles[question.profile].1;
        let allotment = match decider.allot(&mut self.ledger, ask, place) {
            Ok(allotment) => allotment,
            Err((plugin, refusal)) => {
                let words: Vec<String> = refusal.reasons.iter().map(ToString::to_string).collect();
                let words = format!("running Reserve plugin \"{plugin}\": {}", words.join(", "));
                return self.fail(&pod.uid, words.into(), now);
            }
        };
        let claimed = self.ledger.claim(&pod.uid, node, allotment.as_ref());
        claimed.expect("a pod in the queue has no node");
        // It uses by now what was kept for it.
        self.end_promise(&pod.uid);
        if let Within::Adopting(pods) = &place.within {
            self.ledger.adopt(&pod.uid, pods);
        }
        self.refused.clear();
        let history = self.queue.placed(&pod.uid).unwrap_or_default();
        if let Some(own) = self.unbound.get_mut(&pod.uid) {
            own.history = history;
        }
        if let Some(left) = left {
            self.queue.notice(&self.ledger, left, now);
        }
        self.place(pod, (question.profile, ask, node), attempts, now)
    }

    /// Keeps room on a node for a pod, or no longer. What changes where it was kept is returned: it
    /// may help others.
    fn nominate(&mut self, uid: &Uid, node: Option<&str>) -> Option<Change> {
        if self.ledger.nominated(uid) == node {
            return None;
        }
        self.refused.clear();
        let change = Change::unplaced(&self.ledger, uid);
        let _ = self.ledger.nominate(uid, node);
        if node.is_none() {
            self.end_promise_on_node(uid);
        }
        self.follow_rest(uid);
        change
    }

    /// What is to be done for a pod that has a node.
    fn place(
        &mut self,
        pod: &PodRef,
        (profile, ask, node): (usize, Ask, NodeIndex),
        attempts: u32,
        now: Moment,
    ) -> Verdict {
        let name = self.ledger.nodes.name(node).into();
        let wait_max = self.profiles[profile].1.profile().volume_wait_max;
        let wait_max = wait_max.filter(|_| ask.volumes.is_some());
        let begun = wait_max.and_then(|wait_max| {
            let (preparation, writes) = Preparation::begin(&mut self.ledger, ask, node)?;
            Some((preparation, writes, now.after(wait_max)))
        });
        match begun {
            Some((preparation, writes, until)) => {
                let (pod, ledger) = (pod.clone(), &mut self.ledger);
                self.preparations.begin(pod, attempts, preparation, until, ledger);
                Verdict::Prepare(name, writes)
            }
            None => Verdict::Bind(name, self.allotted(&pod.uid)),
        }
    }

    /// The CPUs that a pod gets with its node.
    fn allotted(&self, uid: &Uid) -> Option<Box<Allotment>> {
        let id = self.ledger.pod(uid)?.allotment?;
        Some(Box::new(self.ledger.asks.allotments.get(id).clone()))
    }

    /// The volumes of a pod are ready, or will not be.
    fn end(&mut self, ended: Ended, now: Moment) {
        let Ended { pod, attempts, outcome } = ended;
        let Some(own) = self.unbound.get(&pod.uid) else { return };
        if outcome.is_ok() && self.ledger.pod(&pod.uid).is_none_or(|row| row.claim.is_none()) {
            // Its gang gave up what it had while this was under way.
            return;
        }
        let scheduler = self.profiles[own.profile].0.clone();
        let verdict = match outcome {
            Ok(node) => Verdict::Bind(node, self.allotted(&pod.uid)),
            Err(failure) => {
                if !self.is_gang_unready(&pod.uid, now) {
                    self.withdraw(&pod.uid, Answer::Refused, now);
                }
                Verdict::Unprepared(failure)
            }
        };
        // Its node was found before.
        let looked = Looked::default();
        let decision = Decision { pod, scheduler, attempts, verdict, looked, gang: None };
        let is_ready = matches!(decision.verdict, Verdict::Bind(..));
        if !(is_ready && self.is_gang_ready(&decision, now)) {
            self.due.push(decision);
        }
    }

    /// Takes back what was decided for a pod and nobody was sent to write as a Binding, and says
    /// whether there was any.
    fn recall(&mut self, uid: &Uid) -> bool {
        let is_prepared = self.preparations.drop(uid, &mut self.ledger);
        self.due.drop_of(uid) || is_prepared
    }

    /// Services and controllers may have become known since the pod did.
    fn liken(&mut self, uid: &Uid, now: Moment) {
        let epoch = self.ledger.owners.epoch();
        let Some(own) = self.unbound.get_mut(uid).filter(|own| own.likened != epoch) else {
            return;
        };
        own.likened = epoch;
        self.ledger.liken(uid, &own.labels, own.owner.as_ref());
        if let Some(row) = self.ledger.pod(uid) {
            let question = Question::of(own.profile, row, &self.ledger);
            if self.queue.standing(uid).is_some() {
                self.queue.put(question.pending(uid, row, false, own.consulted), now);
            }
        }
        self.regroup(now);
    }

    /// Takes in what the API server said of a binding, or of a preparation that is not
    /// [done](Self::prepared). While nothing is certain, the node stays charged.
    pub fn answered(&mut self, uid: &Uid, answer: Answer, now: Moment) {
        // What was done, the objects themselves will tell.
        if !self.gang_answered(uid, answer, now) && answer != Answer::Done {
            self.recall(uid);
            self.withdraw(uid, answer, now);
        }
    }

    /// That a reservation takes over a pod is written on it, and made this version of it; 0 is one that
    /// cannot be told.
    pub fn adopted(&mut self, by: &Uid, pod: &Uid, version: u64) {
        self.ledger.adoption_is_written(by, pod, Version(version));
    }

    /// All that prepares a pod is written, and made these versions of the objects, in the order of the
    /// writes; 0 is none that can be told.
    pub fn prepared(&mut self, uid: &Uid, versions: &[u64], now: Moment) {
        self.preparations.written(uid, versions);
        // Later versions may have been told before the answer came.
        for ended in self.preparations.ended(std::slice::from_ref(uid), &mut self.ledger) {
            self.end(ended, now);
        }
    }

    /// What was to be done for a pod that waits is done: whoever has to go for it was asked to. It
    /// may be tried again when something helps it.
    pub fn done(&mut self, uid: &Uid, now: Moment) {
        self.leavers_are_asked(uid);
        self.gang_done(uid, now);
        let Some(rejection) = self.rooms.remove(uid) else { return };
        if rejection.unschedulable.contains(Plugin::ElasticQuota) {
            return self.wait_for_quota(uid, now);
        }
        self.queue.reject(uid, rejection, &self.ledger, now);
        self.settle_promise(uid, now);
    }

    /// A pod waits for a node no longer, as the API server says, and nothing was done for it: nobody was asked to go.
    pub fn needless(&mut self, uid: &Uid, now: Moment) {
        self.keep_leavers(uid, now);
        self.done(uid, now);
    }

    /// What was to be done for a pod that waits could not be done: nobody was told why it waits, or
    /// no room was made. It is tried again after its back-off.
    pub fn undone(&mut self, uid: &Uid, now: Moment) {
        self.keep_leavers(uid, now);
        self.gang_undone(uid, now);
        self.break_promise(uid);
        self.done(uid, now);
        self.queue.again(uid, now);
    }

    /// A pod does not get the node that we decided on.
    fn withdraw(&mut self, uid: &Uid, answer: Answer, now: Moment) {
        let Some(row) = self.ledger.pod(uid) else { return };
        if row.is_bound() || row.node().is_none() {
            return;
        }
        let row = row.clone();
        self.refused.clear();
        let change = Change::unplaced(&self.ledger, uid);
        self.ledger.loads.watch(self.queue.is_listening());
        let _ = self.ledger.disclaim(uid);
        if answer == Answer::Lost {
            // What became of it, it will tell itself.
            self.unbound.remove(uid);
        } else if let Some(own) = self.unbound.get(uid) {
            let question = Question::of(own.profile, &row, &self.ledger);
            let pending = question.pending(uid, &row, false, own.consulted);
            self.queue.put_back(pending, own.history, now);
            self.note_alone(uid);
        }
        // Whether it is to be there by itself, its gang knows.
        self.settle_own(uid, now);
        // Room is not kept for one that cannot be bound there.
        let left = self.nominate(uid, None);
        for change in change.into_iter().chain(left) {
            self.queue.notice(&self.ledger, change, now);
        }
        self.notice_loads(now);
    }

    /// When something is due, if no fact comes before.
    #[must_use]
    pub fn next_due(&self, now: Moment) -> Option<Moment> {
        let can_rejoin = !self.consultations.is_open() && !self.queue.is_nobody_aside();
        let is_answered = self.consultations.is_answered() || can_rejoin;
        let is_settled = self.gangs_are_settled();
        let is_due =
            is_answered || !is_settled || !self.due.is_empty() || !self.searches.is_empty();
        if is_due || self.are_lots_due() || self.is_planning() || self.is_clearing() {
            return Some(now);
        }
        let loads = self.ledger.loads.next_expiry();
        let queue = self.queue.next_due(now);
        let others = self.preparations.next_due().into_iter().chain(loads);
        let others = others.chain(self.releases_due()).chain(self.waits_told_at());
        queue.into_iter().chain(others).chain(self.lots_overdue_at()).min()
    }

    /// How many pods of a profile a plugin keeps from a node. A pod counts for every plugin that
    /// refused it.
    #[must_use]
    pub fn refused(&self) -> BTreeMap<(Arc<str>, Plugin), usize> {
        let mut counts = vec![BTreeMap::new(); self.profiles.len()];
        for (uid, plugins) in self.queue.refusals() {
            let Some(own) = self.unbound.get(uid) else { continue };
            for plugin in plugins.iter() {
                *counts[own.profile].entry(plugin).or_default() += 1;
            }
        }
        let named = self.profiles.iter().zip(counts);
        let all = named.flat_map(|((name, _), counts)| {
            counts.into_iter().map(move |(plugin, count)| ((name.clone(), plugin), count))
        });
        all.collect()
    }

    /// Reservations of which something may be otherwise than before, since this was last asked.
    pub fn take_touched(&mut self) -> BTreeSet<Uid> {
        self.ledger.reservations.take_touched()
    }

    /// What the facts add up to.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The pods that want a node.
    #[must_use]
    pub fn queue(&self) -> &Queue {
        &self.queue
    }
}

const KNOWN: &str = "the queue holds pods that the ledger knows";

/// A number that differs from pod to pod and chooses among equal nodes.
pub(crate) fn tie_of(uid: &Uid) -> u64 {
    uid.number()
}

/// Who refused a pod. Where there is no node to refuse, any change may bring one.
pub(crate) fn rejection(examination: &Examination) -> Rejection {
    let unschedulable = match examination.nodes {
        0 => Plugins::from_iter([Plugin::Other]),
        _ => examination.plugins(),
    };
    let is_hopeless = examination.curable().next().is_none();
    Rejection { unschedulable, is_hopeless, ..Rejection::default() }
}

#[cfg(test)]
mod tests;
