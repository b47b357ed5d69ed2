//! What the scheduler does, as a state machine without I/O: messages and the time in, orders out.
//!
//! It stands between the engine, which decides, and those who watch and write. It begins to
//! decide when everything that there was has been told, decides no more than can be written, and
//! remembers which pods already carry the words that they would be given. The engine's thread
//! drives it on the machine's clock; a simulation can drive it on any other.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use engine::fact::{Fact, Uid};
use engine::queue::Moment;
use engine::turn::{self, Decision, Engine, PodRef, Verdict};
use rustc_hash::FxHashMap;

use crate::bind::Outcome;
use crate::message::{
    Answer, BindOrder, ConditionOrder, Kind, Message, Order, PodNews, Scheduled, TellOrder, Written,
};
use crate::meters::{Attempt, Meters};

/// How many Bindings may be asked for and not answered: twice as many as are under way at once, so
/// that the next ones wait where they are written.
pub const BINDS_MAX: usize = 128;
/// How many of them may be unclear before nothing more is decided. While they are few, others go
/// on; when nothing is clear any more, the server has other troubles.
pub const UNCLEAR_MAX: usize = 4096;
/// How many pods may be told why they wait, and the telling not be written.
pub const TELLS_MAX: usize = 256;
/// The reason of a condition when no node can take the pod and more nodes might.
const UNSCHEDULABLE: &str = "Unschedulable";
/// The reason of a condition when the attempt itself failed.
const SCHEDULER_ERROR: &str = "SchedulerError";
/// The longest message of an event, in bytes.
const NOTE_BYTES_MAX: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not everything that there was has been told.
    Filling,
    Deciding,
    Ending,
}

/// A Binding that was asked for and is not answered.
#[derive(Debug)]
struct Flight {
    pod: PodRef,
    attempt: Attempt,
    decided: Moment,
    is_unclear: bool,
}

/// A pod that has no node.
#[derive(Debug, Default)]
struct Waiting {
    written: Written,
    /// When it was first tried.
    tried: Option<Moment>,
}

/// The scheduler, but for its hands and its clock.
pub struct Core {
    engine: Engine,
    /// In whose name pods are scheduled.
    names: BTreeSet<Arc<str>>,
    phase: Phase,
    /// Kinds whose first list is not in.
    awaited: BTreeSet<Kind>,
    flights: FxHashMap<Uid, Flight>,
    unclear: usize,
    telling: usize,
    waiting: FxHashMap<Uid, Waiting>,
    meters: Meters,
}

impl Core {
    /// A scheduler that has been told nothing, for the pods of these names.
    #[must_use]
    pub fn new(engine: Engine, names: impl IntoIterator<Item = Arc<str>>, meters: Meters) -> Self {
        Self {
            engine,
            names: names.into_iter().collect(),
            phase: Phase::Filling,
            awaited: Kind::ALL.into(),
            flights: FxHashMap::default(),
            unclear: 0,
            telling: 0,
            waiting: FxHashMap::default(),
            meters,
        }
    }

    /// Takes what happened. Some of it is to be told.
    pub fn take(&mut self, message: Message, now: Moment) -> Option<Order> {
        match message {
            Message::Fact(fact) => {
                if let Fact::PodGone(uid) = &fact {
                    self.waiting.remove(uid);
                }
                self.engine.apply(fact, now);
            }
            Message::Pod(news) => self.pod(*news, now),
            Message::Synced(kind) => {
                self.awaited.remove(&kind);
                if self.awaited.is_empty() && self.phase == Phase::Filling {
                    self.phase = Phase::Deciding;
                }
            }
            Message::Answered(uid, answer) => return self.answered(&uid, answer, now),
            Message::Unclear(uid) => {
                if let Some(flight) = self.flights.get_mut(&uid)
                    && !std::mem::replace(&mut flight.is_unclear, true)
                {
                    self.unclear += 1;
                }
            }
            Message::Told => self.telling = self.telling.saturating_sub(1),
            Message::Untold(uid) => {
                self.telling = self.telling.saturating_sub(1);
                if let Some(waiting) = self.waiting.get_mut(&uid) {
                    waiting.written.scheduled = None;
                }
            }
            Message::Unreadable(what) => {
                self.telling += 1;
                return Some(Order::Complain(*what));
            }
            Message::Stop => self.phase = Phase::Ending,
        }
        None
    }

    fn pod(&mut self, news: PodNews, now: Moment) {
        let PodNews { fact, written } = news;
        if fact.node.is_none() && self.names.contains(&*fact.scheduler) {
            self.waiting.entry(fact.uid.clone()).or_default().written = written;
        } else {
            self.waiting.remove(&fact.uid);
        }
        self.engine.apply(Fact::Pod(Box::new(fact)), now);
    }

    fn answered(&mut self, uid: &Uid, answer: Answer, now: Moment) -> Option<Order> {
        let flight = self.flights.remove(uid)?;
        self.unclear -= usize::from(flight.is_unclear);
        let Answer::Definite(outcome) = answer else { return None };
        let answer = match &outcome {
            Outcome::Bound => turn::Answer::Bound,
            Outcome::Gone | Outcome::Elsewhere(_) => turn::Answer::Lost,
            Outcome::NotBound(_) => turn::Answer::NotBound,
        };
        self.engine.answered(uid, answer, now);
        match outcome {
            Outcome::Bound => {
                self.meters.scheduled(&flight.attempt, flight.decided, now);
                None
            }
            Outcome::NotBound(why) => {
                self.meters.failed(&flight.attempt, flight.decided, now);
                let message = format!("running Bind plugin \"DefaultBinder\": {why}");
                let Flight { pod, attempt, .. } = flight;
                Some(self.tell(pod, attempt.profile, SCHEDULER_ERROR, message.into()))
            }
            Outcome::Gone | Outcome::Elsewhere(_) => None,
        }
    }

    /// Whether anything more may be decided before something is answered.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.phase == Phase::Deciding
            && self.flights.len() - self.unclear < BINDS_MAX
            && self.unclear < UNCLEAR_MAX
            && self.telling < TELLS_MAX
    }

    /// Decides for one pod; nothing where none can be decided for now.
    pub fn decide(&mut self, now: Moment) -> Option<Order> {
        if !self.has_room() {
            return None;
        }
        let Decision { pod, scheduler, attempts, verdict } = self.engine.decide(now)?;
        let waiting = self.waiting.entry(pod.uid.clone()).or_default();
        let tried = *waiting.tried.get_or_insert(now);
        match verdict {
            Verdict::Bind(node) => {
                let attempt = Attempt { profile: scheduler.clone(), number: attempts, tried };
                let (own, uid) = (pod.clone(), pod.uid.clone());
                let flight = Flight { pod: own, attempt, decided: now, is_unclear: false };
                self.flights.insert(uid, flight);
                Some(Order::Bind(BindOrder { pod, node, scheduler }))
            }
            Verdict::Wait(diagnosis) => {
                self.meters.unschedulable(&scheduler, Duration::ZERO);
                Some(self.tell(pod, scheduler, UNSCHEDULABLE, diagnosis.to_string().into()))
            }
        }
    }

    fn tell(
        &mut self,
        pod: PodRef,
        scheduler: Arc<str>,
        reason: &'static str,
        message: Box<str>,
    ) -> Order {
        self.telling += 1;
        let waiting = self.waiting.get_mut(&pod.uid);
        let condition = waiting.and_then(|waiting| {
            let written = &mut waiting.written;
            let old = written.scheduled.as_ref();
            let was_false = old.is_some_and(|old| old.is_false);
            let is_same = |old: &Scheduled| *old.reason == *reason && old.message == message;
            if was_false && old.is_some_and(is_same) {
                return None;
            }
            let new = Scheduled { is_false: true, reason: reason.into(), message: message.clone() };
            written.scheduled = Some(new);
            let generation = written.generation;
            Some(ConditionOrder { reason, generation, is_transition: !was_false })
        });
        Order::Tell(TellOrder { pod, scheduler, message, condition })
    }

    /// When to come again if nothing happens before; none where only a message can help.
    #[must_use]
    pub fn next_due(&self, now: Moment) -> Option<Moment> {
        if self.has_room() { self.engine.next_due(now) } else { None }
    }

    /// Whether everything that there was has been told.
    #[must_use]
    pub fn is_filled(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Whether it was asked to end and nothing is under way.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Ending && self.flights.is_empty() && self.telling == 0
    }

    /// A decision took so long.
    pub fn took(&self, duration: Duration) {
        self.meters.decided(duration);
    }

    /// Shows how much there is of everything.
    pub fn measure(&self) {
        self.meters.measure(&self.engine, self.flights.len(), self.unclear);
    }
}

/// A message as an event can carry it.
#[must_use]
pub fn note(message: &str) -> String {
    const CUT: &str = " ...";
    if message.len() <= NOTE_BYTES_MAX {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(NOTE_BYTES_MAX - CUT.len());
    format!("{}{CUT}", &message[..end])
}
