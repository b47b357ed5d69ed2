//! PodGroups as far as the engine has something to say of them: why a gang has not started, from the first
//! second on.
//!
//! How far the pods of a group have come is told by `pod_groups`. What the engine says is one condition,
//! written at the pace of `pace`, and an event whenever it says something else. What is to be written is
//! decided here without I/O.

mod meters;
mod starts;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::PodGroup;
use api::condition::{self, Condition};
use api::pod_group::{GangId, GangTerms, PodGroupPhase};
use chassis::key::Key;
use chassis::words::cut;
use engine::fact::{Fact, Uid};
use engine::gangs::GangWait;
use engine::ledger::Ledger;
use engine::moment::Moment;
use engine::turn::GangNews;
use serde_json::{Value, json};

pub(crate) use meters::GangMeters;

use crate::dismissals::{DismissOrder, Dismissals};
use crate::message::Receipt;
use crate::pace::{Outcome, WritePace};
use crate::reservations::time;
use starts::{LINE_AGAIN, Start};

/// The condition that says whether enough members have nodes.
const SCHEDULED: &str = "Scheduled";
/// The condition that says whether what is said of a gang can be meant.
const VALID: &str = "Valid";
/// The phases of groups of which enough members had nodes.
const HAD_NODES: [PodGroupPhase; 4] = [
    PodGroupPhase::Scheduled,
    PodGroupPhase::Running,
    PodGroupPhase::Finished,
    PodGroupPhase::Failed,
];
/// How long the words of a condition may be.
const MESSAGE_MAX: usize = 8 << 10;
/// Of how many gangs that have no group it is kept what is said of them, before it is looked which of them
/// are still there.
const EARLY_MIN: usize = 64;

/// What is to be written on a group.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupOrder {
    /// Which.
    pub key: Key,
    /// What the API server calls it.
    pub uid: Box<str>,
    /// As a merge patch, of the object of this uid alone.
    pub patch: Value,
    /// What is told of it, where that is something else than before.
    pub note: Option<GroupNote>,
}

/// What a group says of its gang.
pub(crate) fn fact(object: &PodGroup) -> Fact {
    fact_of(object, GangTerms::of_group(object))
}

/// The same of one of which this was read.
fn fact_of(object: &PodGroup, terms: GangTerms) -> Fact {
    let id = GangId::new(&object.metadata.namespace, &object.metadata.name);
    let has_started = has_started(object);
    Fact::Gang { id, terms: Some(Box::new(terms)), has_started }
}

/// Whether a group says that its gang has started, as a scheduler wrote it that led before: members were bound, and
/// were not all deleted since. Where that one had nodes for them last, they may never have been bound to these, or
/// have gone before he could say so: then it counts that some have ended.
fn has_started(object: &PodGroup) -> bool {
    let status = &object.status;
    let has_ended = status.succeeded > 0 || status.failed > 0;
    let was_whole = starts::is_whole(object);
    let told = condition::find(&status.conditions, SCHEDULED);
    match told.and_then(|own| GangState::read(&own.reason)) {
        // Of one whose group has started beside it, nobody may have been bound.
        Some(GangState::Left) => was_whole || has_ended || status.scheduled > 0,
        Some(GangState::Placed) => was_whole || has_ended,
        Some(_) => false,
        None => was_whole || has_ended && HAD_NODES.contains(&status.phase),
    }
}

/// What is told of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupNote {
    /// Where it stands.
    pub state: GangState,
    /// The same in words.
    pub words: String,
}

/// Where a gang stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GangState {
    /// Members are missing.
    Collecting,
    /// Members of another gang of its group are.
    Gated,
    /// What is said of it cannot be meant, or nobody says anything.
    Invalid,
    /// Somebody outside is asked about a member.
    Consulted,
    /// Its turn comes.
    Queued,
    /// No nodes were found for it.
    Refused,
    /// Members have nodes.
    Placed,
    /// Enough had, and some have ended or gone since.
    Left,
}

impl GangState {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Collecting,
        Self::Gated,
        Self::Invalid,
        Self::Consulted,
        Self::Queued,
        Self::Refused,
        Self::Placed,
        Self::Left,
    ];

    fn of(news: &GangNews) -> Self {
        match news {
            GangNews::Waits(wait) => match **wait {
                GangWait::Collecting { .. } => Self::Collecting,
                GangWait::Gang { .. } => Self::Gated,
                GangWait::Undescribed(_)
                | GangWait::Unreadable(..)
                | GangWait::Unlike { .. }
                | GangWait::Circle { .. } => Self::Invalid,
                GangWait::Consulted { .. } => Self::Consulted,
            },
            GangNews::Queued => Self::Queued,
            GangNews::Refused(_) => Self::Refused,
            GangNews::Placed { placed, min } if placed >= min => Self::Placed,
            GangNews::Placed { .. } => Self::Left,
        }
    }

    /// Where a condition says that a gang stands, where that can be read.
    fn read(reason: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.word() == reason)
    }

    /// As one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Collecting => "WaitingForMembers",
            Self::Gated => "WaitingForGang",
            Self::Invalid => "InvalidGang",
            Self::Consulted => "ExtendersAsked",
            Self::Queued => "Queued",
            Self::Refused => "Unschedulable",
            Self::Placed => "Placed",
            Self::Left => "MembersLeft",
        }
    }

    /// Whether nobody has to do anything about it.
    #[must_use]
    pub fn is_fine(self) -> bool {
        !matches!(self, Self::Invalid | Self::Consulted | Self::Refused)
    }
}

/// What is said of a gang, as a condition.
fn scheduled(news: &GangNews) -> Condition {
    let (is_true, message) = match news {
        GangNews::Waits(wait) => (false, wait.to_string()),
        GangNews::Queued => (false, "all members are there, and wait for their turn".to_owned()),
        GangNews::Refused(words) => (false, cut(words.to_string(), MESSAGE_MAX)),
        GangNews::Placed { placed, min } if placed >= min => {
            (true, format!("{placed} members have a node, and there must be {min}"))
        }
        GangNews::Placed { placed, min } => {
            let words = format!("it has started: {placed} members have a node by now, of {min}");
            (false, words)
        }
    };
    Condition {
        r#type: SCHEDULED.to_owned(),
        status: if is_true { "True" } else { "False" }.to_owned(),
        reason: GangState::of(news).word().to_owned(),
        message,
        ..Condition::default()
    }
}

/// Whether what is said of a gang can be meant, as a condition; none where it can and that was never in
/// question.
fn valid(object: &PodGroup, terms: &GangTerms) -> Option<Condition> {
    let mut words: Vec<String> = terms.malformed.iter().map(ToString::to_string).collect();
    if object.spec.min_member == 0 {
        words.push(
            "spec.minMember is 0, so that each pod starts by itself: write how many members must have a \
             place, such as 4"
                .to_owned(),
        );
    }
    let is_valid = words.is_empty();
    let is_whole = object.spec.min_resources.is_empty();
    if !is_whole {
        words
            .push("spec.minResources changes nothing: what each member asks for counts".to_owned());
    }
    let was_told = condition::find(&object.status.conditions, VALID).is_some();
    let reason = match (is_valid, is_whole) {
        (false, _) => "Malformed",
        (true, false) => "PartlyHeeded",
        (true, true) => "Readable",
    };
    (reason != "Readable" || was_told).then(|| Condition {
        r#type: VALID.to_owned(),
        status: if is_valid { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: cut(words.join("; "), MESSAGE_MAX),
        ..Condition::default()
    })
}

/// A group as the API server shows it, and what is said of it.
#[derive(Debug)]
struct Own {
    object: Arc<PodGroup>,
    /// What it says, which is read once.
    terms: GangTerms,
    said: Option<GangNews>,
    /// What was last told of it.
    told: Option<GangState>,
    /// How far its start has come, where the group asks for that or has asked for it.
    start: Option<Start>,
    /// The first of its members that have to go for whom there was no place in line, and when it is looked again.
    left_out: Option<(Uid, Moment)>,
}

/// All groups, and what is written of them.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// Whether nothing is written of them: somebody else looks after them.
    is_idle: bool,
    all: BTreeMap<Key, Own>,
    /// What is said of gangs whose group is not there yet, or never.
    early: BTreeMap<GangId, GangNews>,
    /// How many of them were left when it was last looked which are still there.
    early_left: usize,
    /// When which is written, and what is being said of those that are.
    pace: WritePace<Vec<Condition>>,
    /// Members of gangs that have started only in part, who have to go.
    leftovers: Dismissals,
}

impl Groups {
    /// Groups that somebody else looks after.
    pub(crate) fn of_others() -> Self {
        Self { is_idle: true, ..Self::default() }
    }

    /// A group is there, or is now this: what it says of its gang.
    pub(crate) fn put(&mut self, object: Arc<PodGroup>, now: Moment) -> Fact {
        let terms = GangTerms::of_group(&object);
        let fact = fact_of(&object, terms.clone());
        if !self.is_idle {
            self.keep(object, terms, now);
        }
        fact
    }

    fn keep(&mut self, object: Arc<PodGroup>, terms: GangTerms, now: Moment) {
        let metadata = &object.metadata;
        let key = Key::namespaced(&metadata.namespace, &metadata.name);
        let id = GangId::new(&metadata.namespace, &metadata.name);
        self.pace.ask(&key, now);
        match self.all.get_mut(&key) {
            Some(own) => {
                let start = own.start.unwrap_or_else(|| Start::read(&object));
                own.start = starts::is_told(&object, &terms).then_some(start);
                (own.object, own.terms) = (object, terms);
            }
            None => {
                let said = self.early.remove(&id);
                let told = condition::find(&object.status.conditions, SCHEDULED);
                let told = told.and_then(|own| GangState::read(&own.reason));
                let start = starts::is_told(&object, &terms).then(|| Start::read(&object));
                self.all.insert(key, Own { object, terms, said, told, start, left_out: None });
            }
        }
    }

    /// A group is gone.
    pub(crate) fn remove(&mut self, key: &Key) {
        self.all.remove(key);
        self.pace.forget(key);
    }

    /// When the group of a gang was made.
    pub(crate) fn made(&self, gang: &GangId) -> Option<Moment> {
        let own = self.all.get(&Key::namespaced(gang.namespace(), gang.name()))?;
        own.object.metadata.creation_timestamp.map(Moment::from)
    }

    /// This is said of a gang.
    pub(crate) fn say(&mut self, gang: &GangId, news: GangNews, now: Moment) {
        if self.is_idle {
            return;
        }
        let key = Key::namespaced(gang.namespace(), gang.name());
        match self.all.get_mut(&key) {
            Some(own) => {
                own.said = Some(news);
                self.pace.ask(&key, now);
            }
            None => drop(self.early.insert(gang.clone(), news)),
        }
    }

    /// Drops what is said of gangs that are gone, whenever there is twice as much of it as was left: there
    /// is never more than twice of what there are gangs.
    pub(crate) fn drop_early(&mut self, is_there: impl Fn(&GangId) -> bool) {
        if self.early.len() >= EARLY_MIN.max(self.early_left.saturating_mul(2)) {
            self.early.retain(|gang, _| is_there(gang));
            self.early_left = self.early.len();
        }
    }

    /// A gang is gone: what was said of it is not true of another of its name.
    pub(crate) fn forget_early(&mut self, gang: &GangId) {
        self.early.remove(gang);
    }

    /// When something is to be looked at.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        let leftovers =
            (!self.leftovers.is_empty() && self.leftovers.admits()).then_some(Moment(0));
        self.pace.next_due().into_iter().chain(leftovers).min()
    }

    /// What was to be written on a group is written, or is not.
    pub(crate) fn written(&mut self, receipt: &Receipt<PodGroup>, now: Moment) {
        let Receipt { key, object, wrote } = receipt;
        let Some(flight) = self.pace.answered(key) else { return };
        // It may be gone by now.
        if self.all.contains_key(key) {
            let says = |own: &Arc<PodGroup>| differing(own, &flight.what, now).is_none();
            let outcome = Outcome::of(*wrote, || object.as_ref().is_none_or(says));
            self.pace.settle(key, &flight, outcome, now);
        }
    }

    /// A pod was asked to go, or cannot be for now.
    pub(crate) fn dismissed(&mut self, uid: &Uid) {
        self.leftovers.answered(uid);
    }

    /// A member that has to go, where any has to by now.
    pub(crate) fn next_leftover(&mut self, ledger: &Ledger) -> Option<DismissOrder> {
        let Self { leftovers, all, .. } = self;
        leftovers.next(|order| {
            // The others may have followed meanwhile.
            let is_undone = all.get(&order.object.0).is_some_and(|own| own.is_undone(ledger));
            is_undone && ledger.pod(&order.pod.uid).is_some_and(|row| !row.is_deleting())
        })
    }

    /// What is to be written next, where anything is by now.
    pub(crate) fn next(&mut self, ledger: &Ledger, now: Moment) -> Option<GroupOrder> {
        while let Some(key) = self.pace.next(now) {
            let Some(own) = self.all.get_mut(&key) else { continue };
            let (start, due) = own.starts(ledger, &mut self.leftovers, now).unzip();
            let said = own.said.iter().map(scheduled).chain(valid(&own.object, &own.terms));
            let said: Vec<Condition> = said.chain(start).collect();
            let due = due.flatten();
            let Some(conditions) = differing(&own.object, &said, now) else {
                due.into_iter().for_each(|due| self.pace.ask(&key, due));
                continue;
            };
            let uid = &own.object.metadata.uid;
            let patch =
                json!({ "metadata": { "uid": uid }, "status": { "conditions": conditions } });
            let (uid, note) = (uid.as_str().into(), own.note());
            self.pace.begin(&key, said, now);
            due.into_iter().for_each(|due| self.pace.ask(&key, due));
            return Some(GroupOrder { key, uid, patch, note });
        }
        None
    }
}

/// The conditions of a group that is to say this; none where it does.
fn differing(own: &PodGroup, said: &[Condition], now: Moment) -> Option<Vec<Condition>> {
    let mut conditions = own.status.conditions.clone();
    let mut is_new = false;
    for new in said {
        is_new |= condition::set(&mut conditions, new.clone(), time(now));
    }
    is_new.then_some(conditions)
}

impl Own {
    /// Whether its members have to go, since too few followed them.
    fn is_undone(&self, ledger: &Ledger) -> bool {
        let metadata = &self.object.metadata;
        let gang = GangId::new(&metadata.namespace, &metadata.name);
        let is_partial = matches!(self.start, Some(Start::Partial { .. }));
        is_partial && starts::is_asked(&self.terms) && !ledger.gangs.was_whole(&gang)
    }

    /// How far its start has come, as a condition, and when that is to be looked at again; none where the group does
    /// not ask for it. Who has to go by now stands in line.
    fn starts(
        &mut self,
        ledger: &Ledger,
        line: &mut Dismissals,
        now: Moment,
    ) -> Option<(Condition, Option<Moment>)> {
        let metadata = &self.object.metadata;
        let gang = GangId::new(&metadata.namespace, &metadata.name);
        let min = usize::try_from(self.object.spec.min_member).unwrap_or_default();
        let mut start = self.start?.next(ledger, &gang, now);
        let is_asked = starts::is_asked(&self.terms);
        let due_of = |start: Start| start.due(ledger, &gang).filter(|_| is_asked);
        let is_due = due_of(start).is_some_and(|due| due <= now);
        if !is_due {
            self.left_out = None;
        } else if self.left_out.as_ref().is_none_or(|(_, at)| *at <= now) {
            let all = starts::leftovers(ledger, &self.object, min).into_iter();
            let from = self.left_out.take().map(|(from, _)| from);
            let left = all.skip_while(|own| from.as_ref().is_some_and(|from| own.pod.uid < *from));
            match line.extend(left) {
                // They are asked only when all of them are in line.
                Some(order) => self.left_out = Some((order.pod.uid, now.after(LINE_AGAIN))),
                None => start = start.again(now),
            }
        }
        self.start = Some(start);
        let due = due_of(start);
        let again = self.left_out.as_ref().map(|(_, at)| *at);
        Some((start.condition(min, due), again.or(due)))
    }

    /// What is to be told, where that is something else than before.
    fn note(&mut self) -> Option<GroupNote> {
        let news = self.said.as_ref()?;
        let state = GangState::of(news);
        let is_new = self.told.replace(state) != Some(state);
        is_new.then(|| GroupNote { state, words: scheduled(news).message })
    }
}
