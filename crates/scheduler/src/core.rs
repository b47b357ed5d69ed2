//! What the scheduler does, as a state machine without I/O: messages and the time in, orders out.
//!
//! It stands between the engine, which decides, and those who watch and write. It begins to
//! decide when everything that there was has been told, orders no more than can be written, and
//! remembers which pods already carry the words that they would be given. A pod that gets a node while
//! too many of its like wait for an answer is held back: it loses the node, and is told why. The
//! engine's thread drives it on the machine's clock; a simulation can drive it on any other.

mod gangs;
mod overdue;
mod quotas;
mod recalls;
mod resort;
mod sights;
mod tellings;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use api::Reservation;
use chassis::key::Key;
use chassis::words::cut;
use engine::fact::{Fact, PodRef, Uid};
use engine::moment::Moment;
use engine::turn::{self, Decision, Engine, Verdict};
use rustc_hash::FxHashMap;

pub(crate) use resort::Resort;
pub(crate) use tellings::REFUSALS;

use crate::bind::Outcome;
use crate::debug::{Decided, Fate};
use crate::excess::Excess;
use crate::extenders::{Binder, Binders};
use crate::gangs::Groups;
use crate::later::Busy;
use crate::message::{
    Adopted, Answer, BindOrder, ConsultOrder, Errand, Kind, Message, Order, PodNews, PrepareOrder,
    Recall, ReservationNews, Scheduled, Unreadable, Written, Wrote,
};
use crate::meters::{Attempt, Failure, Meters, Shown};
use crate::quotas::Statements;
use crate::reservations::{self, Lives};
use crate::stale::Silence;
use overdue::Overdue;
pub use overdue::Patience;
use sights::Sights;
use tellings::Tellings;

/// How many Bindings may be asked for and not answered: twice as many as are under way at once, so
/// that the next ones wait where they are written.
pub const BINDS_MAX: usize = 128;
/// With so many of them the writers have enough to do for some milliseconds: nothing is in a hurry.
const BINDS_AHEAD: usize = 96;
/// How many more there may be that nobody waits for, since their answers are unclear or they wait
/// behind such. With as many, no more is bound in the namespaces that they are in.
pub const APART_MAX: usize = 4096;
/// How many of these there may be in one namespace before no more is bound there: others have their
/// share too.
pub const APART_IN_NAMESPACE_MAX: usize = 1024;
/// How many Bindings others may have under way, each on a connection of its own.
pub const FOREIGN_MAX: usize = 256;
/// How many pods may be prepared at once, or wait to be.
pub const PREPARATIONS_MAX: usize = 4096;
/// How many errands may be under way, each of which has its place in the line to who runs them.
pub const ERRANDS_MAX: usize = BINDS_MAX + APART_MAX + FOREIGN_MAX + PREPARATIONS_MAX;
/// How much may wait in the line to who tells users, and how much he may have begun to. Of a pod for which
/// room is made, no more is told then, and it is tried again after a while; others wait to be told of.
pub const TELLS_MAX: usize = 4096;
/// How many decisions are remembered.
pub const DECISIONS_KEPT: usize = 1024;
/// How long a message may be; what extenders say of each node may add up to more.
const MESSAGE_MAX: usize = 32 << 10;
/// An annotation that says that a pod got nothing.
const NOTHING: &str = "{}";
/// The reason of a condition when the attempt itself failed.
pub(crate) const SCHEDULER_ERROR: &str = "SchedulerError";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not everything that there was has been told.
    Filling,
    Deciding,
    Ending,
}

/// What came of a turn to decide.
#[derive(Debug)]
pub enum Next {
    /// This is to be written.
    Order(Box<Order>),
    /// Nothing of what was decided is to be written now.
    Silent,
    /// There is nothing to decide for now.
    Idle,
}

/// What somebody was sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mission {
    Bind(Binder),
    Prepare,
}

impl Mission {
    /// What somebody is to be sent for, if anything, where this binder binds.
    fn of(verdict: &Verdict, binder: Binder) -> Option<Self> {
        match verdict {
            Verdict::Bind(..) => Some(Self::Bind(binder)),
            Verdict::Prepare(..) => Some(Self::Prepare),
            _ => None,
        }
    }

    /// Why nobody is sent where too many are already.
    fn held_back(self) -> &'static str {
        match self {
            Self::Bind(Binder::Server) => {
                "too many pods of the namespace, or of all namespaces together, wait for an answer of \
                 the API server to their Bindings; the pod is tried again after a while"
            }
            Self::Bind(_) => {
                "too many pods wait for an extender to bind them; the pod is tried again after a while"
            }
            Self::Prepare => {
                "too many pods wait for their volumes to be prepared; the pod is tried again after a \
                 while"
            }
        }
    }

    /// Whether nobody else waits for it: others who bind, and volumes, may take their time.
    fn is_apart(self) -> bool {
        self != Self::Bind(Binder::Server)
    }
}

/// A Binding, or a preparation for one, that was asked for and is not answered.
#[derive(Debug)]
struct Flight {
    number: u64,
    mission: Mission,
    pod: PodRef,
    attempt: Attempt,
    decided: Moment,
    /// Nobody else waits for it.
    is_apart: bool,
    is_unclear: bool,
    /// How whoever prepares hears that nobody wants it any longer.
    recall: Option<Recall>,
}

/// Why a pod has no node.
struct Why {
    reason: &'static str,
    message: Arc<str>,
    /// The node on which room is made for it, or empty for none; nothing where that stays as it is.
    nominated: Option<Box<str>>,
    /// What is in the way of the reservations that it must use one of.
    reservations: Option<Box<str>>,
}

/// A pod that has no node.
#[derive(Debug, Default)]
struct Waiting {
    written: Written,
    /// When it could first be tried.
    since: Option<Moment>,
    /// The last attempt that went on after it was decided: extenders were asked, or it was prepared. It
    /// may have ended since, and the next one is not part of it.
    begun: Option<Begun>,
    /// Who will bind it.
    binder: Binder,
    /// What came of looking for others who make room for it.
    resort: Option<Box<Resort>>,
    /// Why its whole group has no nodes, where that is what it was told last.
    group_refusal: Option<Arc<str>>,
}

/// How an attempt began.
#[derive(Debug, Clone, Copy)]
struct Begun {
    attempt: u32,
    at: Moment,
    /// Whether it has come to a node already.
    is_placed: bool,
}

/// A decision of which it is not yet said how long it took.
struct Untimed {
    profile: Arc<str>,
    /// How long the attempt took before: extenders were asked, or the pod was prepared.
    before: Duration,
    /// Whether nodes were looked at: they are once in an attempt.
    is_scored: bool,
    /// Why the attempt is over, where it is.
    failure: Option<Failure>,
}

impl Waiting {
    /// How the attempt began that has come to this.
    fn begun(&mut self, verdict: &Verdict, attempt: u32, now: Moment) -> Begun {
        let before = self.begun.take().filter(|own| own.attempt == attempt);
        let begun = before.unwrap_or(Begun { attempt, at: now, is_placed: false });
        self.begun = match verdict {
            Verdict::Consult(..) => Some(begun),
            Verdict::Prepare(..) => Some(Begun { is_placed: true, ..begun }),
            _ => None,
        };
        begun
    }
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
    /// How many errands there were.
    errands: u64,
    /// How many of the flights nobody else waits for.
    apart: usize,
    /// How many of these are Bindings of ours, in each namespace that has any.
    apart_in: FxHashMap<Box<str>, usize>,
    /// How many are Bindings of others, and how many preparations.
    foreign: usize,
    preparations: usize,
    unclear: usize,
    /// Pods that were held back since somebody asked, since too much waits for an answer.
    held_back: usize,
    /// What is being written.
    busy: Busy,
    telling: usize,
    /// Why pods have no node, as far as it is being told or to be told.
    tellings: Tellings,
    waiting: FxHashMap<Uid, Waiting>,
    /// Objects that cannot be read, of which nobody was told.
    complaints: BTreeMap<(Kind, Key), Unreadable>,
    /// The last decisions, the newest last.
    decided: VecDeque<Decided>,
    excess: Excess,
    silence: Silence,
    binders: Binders,
    lives: Lives,
    groups: Groups,
    quotas: Statements,
    overdue: Overdue,
    sights: Sights,
    /// What was decided since somebody said how long it took.
    untimed: Vec<Untimed>,
    meters: Meters,
    shown: Shown,
}

impl Core {
    /// A scheduler that has been told nothing, for the pods of these names.
    #[must_use]
    pub fn new(engine: Engine, names: impl IntoIterator<Item = Arc<str>>, meters: Meters) -> Self {
        Self {
            awaited: Kind::read_by(engine.ledger()),
            engine,
            names: names.into_iter().collect(),
            phase: Phase::Filling,
            flights: FxHashMap::default(),
            errands: 0,
            apart: 0,
            apart_in: FxHashMap::default(),
            foreign: 0,
            preparations: 0,
            unclear: 0,
            held_back: 0,
            busy: Busy::default(),
            telling: 0,
            tellings: Tellings::default(),
            waiting: FxHashMap::default(),
            complaints: BTreeMap::new(),
            decided: VecDeque::with_capacity(DECISIONS_KEPT),
            excess: Excess::default(),
            silence: Silence::default(),
            binders: Binders::default(),
            lives: Lives::default(),
            groups: Groups::default(),
            quotas: Statements::default(),
            overdue: Overdue::default(),
            sights: Sights::default(),
            untimed: Vec::new(),
            meters,
            shown: Shown::default(),
        }
    }

    /// The same with others who bind some pods.
    #[must_use]
    pub fn with_binders(self, binders: Binders) -> Self {
        Self { binders, ..self }
    }

    /// The same, which looks after reservations like this, or leaves that to somebody else.
    #[must_use]
    pub fn keeping(self, settings: Option<reservations::Settings>) -> Self {
        Self { lives: settings.map_or_else(Lives::of_others, Lives::with), ..self }
    }

    /// Takes what happened. Some of it is to be told.
    pub fn take(&mut self, message: Message, now: Moment) -> Option<Order> {
        let order = self.taken(message, now);
        self.recall_vacated();
        order
    }

    fn taken(&mut self, message: Message, now: Moment) -> Option<Order> {
        match message {
            Message::Fact(fact) => self.fact(fact, now),
            Message::Pod(news) => self.pod(*news, now),
            Message::Reservation(news) => self.reservation(*news, now),
            Message::Group(object) => self.group(object, now),
            Message::GroupGone(key) => self.group_gone(&key, now),
            Message::GroupWritten(receipt) => self.group_written(&receipt, now),
            Message::Quota(object) => self.quota(object, now),
            Message::QuotaGone(key) => self.quota_gone(&key, now),
            Message::QuotaWritten(receipt) => self.quota_written(*receipt, now),
            Message::Dismissed(pod, answer) => self.dismissed(&pod, answer),
            Message::Lived(uid, wrote) => {
                self.telling = self.telling.saturating_sub(1);
                if wrote == Wrote::Refused {
                    self.engine.resize(&uid, None, now);
                }
                self.lives.lived(&uid, wrote, now);
            }
            Message::Synced(kind) => {
                self.awaited.remove(&kind);
                if self.awaited.is_empty() && self.phase == Phase::Filling {
                    self.phase = Phase::Deciding;
                }
            }
            Message::Adopted(Adopted { by, pod, version }) => {
                self.engine.adopted(&by, &pod, version);
            }
            Message::Advised(ticket, advice) => self.engine.consulted(ticket, advice),
            Message::Answered(errand, answer) => return self.answered(&errand, answer, now),
            Message::Unclear(errand) => {
                if let Some(flight) = self.set_apart(&errand) {
                    let was_unclear = std::mem::replace(&mut flight.is_unclear, true);
                    self.unclear += usize::from(!was_unclear);
                }
            }
            Message::Held(errand) => drop(self.set_apart(&errand)),
            Message::Told(uid) => return self.telling_done(&uid, now),
            Message::Needless(uid) => return self.telling_needless(&uid, now),
            Message::Complained => self.telling = self.telling.saturating_sub(1),
            Message::Untold(uid) => return self.telling_failed(&uid, now),
            Message::Listed(_) => {}
            Message::Unreadable(what) => {
                let Unreadable { kind, key, .. } = &*what;
                self.complaints.insert((*kind, key.clone()), *what);
            }
            Message::Look(look) => look.at(self, now),
            Message::Stop => self.phase = Phase::Ending,
        }
        None
    }

    fn fact(&mut self, fact: Fact, now: Moment) {
        if let Some(uid) = fact.gone() {
            self.waits_no_longer(uid);
            self.overdue.forget(uid);
            self.recall(uid);
            self.lives.remove(uid, self.engine.ledger());
        }
        if let Fact::NodeGone(node) = &fact {
            self.lives.touch_on(node, now);
        }
        self.apply(fact, now);
    }

    /// Has the engine take a fact in, and looks at the reservations that it has to do with.
    fn apply(&mut self, fact: Fact, now: Moment) {
        self.engine.apply(fact, now);
        for uid in self.engine.take_touched() {
            self.lives.touch(uid, now);
        }
    }

    fn reservation(&mut self, news: ReservationNews, now: Moment) {
        let ReservationNews { fact, object } = news;
        let uid = Uid::new(&object.metadata.uid);
        let scheduler = match &fact {
            Fact::Reservation(own) if own.pod.node.is_none() => Some(&own.pod.scheduler),
            _ => None,
        };
        let scheduler = scheduler.filter(|name| self.names.contains(&***name));
        let gives = |name: &&Arc<str>| self.engine.gives_reservations_nodes(name);
        let waits = scheduler.is_some_and(|name| gives(&name));
        self.lives.passed_over(&uid, scheduler.filter(|name| !gives(name)));
        if waits {
            let own = self.waiting.entry(uid).or_default();
            own.written = reservations::written(&object);
            own.since.get_or_insert(now);
        } else {
            self.waits_no_longer(&uid);
        }
        self.lives.put(object, now);
        self.apply(fact, now);
    }

    fn pod(&mut self, news: PodNews, now: Moment) {
        let PodNews { fact, mut written } = news;
        if !self.complaints.is_empty() {
            let key = Key::namespaced(&fact.namespace, &fact.name);
            self.complaints.remove(&(Kind::Pod, key));
        }
        if fact.node.is_none() && self.names.contains(&*fact.scheduler) {
            let binder = self.binders.of_pod(&fact.extended);
            if let Some(told) = &mut written.scheduled {
                told.message = self.tellings.share(&told.message);
            }
            let own = self.waiting.entry(fact.uid.clone()).or_default();
            (own.written, own.binder) = (written, binder);
            if fact.gates.is_empty() {
                own.since.get_or_insert(now);
            }
        } else {
            self.waits_no_longer(&fact.uid);
        }
        if fact.deleting || fact.node.is_some() {
            self.overdue.forget(&fact.uid);
            self.recall(&fact.uid);
        }
        self.apply(Fact::Pod(Box::new(fact)), now);
    }

    fn answered(&mut self, errand: &Errand, answer: Answer, now: Moment) -> Option<Order> {
        let Errand { uid, number } = errand;
        // Facts may show what became of a preparation before whoever prepares knows. Then the pod is
        // being bound already, or waits, or is prepared anew.
        self.flights.get(uid).filter(|flight| flight.number == *number)?;
        let Flight { mission, pod, attempt, decided, .. } = self.forget(uid)?;
        let (answer, failure) = match answer {
            Answer::Abandoned => return None,
            Answer::Prepared(versions) => {
                self.engine.prepared(uid, &versions, now);
                return None;
            }
            Answer::Unprepared(why) => {
                let message = format!("running PreBind plugin \"VolumeBinding\": {why}");
                (turn::Answer::Refused, Some(message))
            }
            Answer::Definite(Outcome::Bound) => {
                self.tellings.bound(now);
                self.meters.scheduled(&attempt, decided, now);
                (turn::Answer::Done, None)
            }
            Answer::Definite(Outcome::Gone | Outcome::Elsewhere(_)) => (turn::Answer::Lost, None),
            Answer::Definite(Outcome::NotBound(why)) => {
                let message = match mission {
                    Mission::Bind(Binder::Extender) => why.into(),
                    _ => format!("running Bind plugin \"DefaultBinder\": {why}"),
                };
                (turn::Answer::Refused, Some(message))
            }
        };
        self.engine.answered(uid, answer, now);
        if let Some(own) = self.decided.iter_mut().rev().find(|own| own.uid() == uid) {
            own.answered(answer, now);
        }
        self.overdue.over(uid, &attempt.profile, (decided, now), &self.meters);
        let message = failure?;
        self.meters.failed(&attempt, decided, now);
        self.failed(pod, attempt.profile, &message, now)
    }

    /// Nobody else waits for a flight any longer.
    fn set_apart(&mut self, Errand { uid, number }: &Errand) -> Option<&mut Flight> {
        let flight = self.flights.get_mut(uid).filter(|own| own.number == *number)?;
        if !std::mem::replace(&mut flight.is_apart, true) {
            self.apart += 1;
            *self.apart_in.entry(flight.pod.namespace.clone()).or_default() += 1;
        }
        Some(flight)
    }

    /// Whether somebody may be sent for a pod in this namespace. Where too many of his like wait for
    /// an answer, those for whom nobody answers hold up nobody else.
    fn may_send(&self, mission: Mission, namespace: &str) -> bool {
        match mission {
            Mission::Bind(Binder::Server) => {
                let of_server = self.apart - self.foreign - self.preparations;
                let limit = if of_server < APART_MAX { APART_IN_NAMESPACE_MAX } else { 1 };
                self.apart_in.get(namespace).is_none_or(|apart| *apart < limit)
            }
            Mission::Bind(_) => self.foreign < FOREIGN_MAX,
            Mission::Prepare => self.preparations < PREPARATIONS_MAX,
        }
    }

    /// How many pods were held back since this was asked before, because too much waits for an answer.
    /// They are decided for anew after their back-off.
    pub fn held_back(&mut self) -> usize {
        std::mem::take(&mut self.held_back)
    }

    /// An attempt failed for another reason than that no node can take the pod.
    fn failed(
        &mut self,
        pod: PodRef,
        scheduler: Arc<str>,
        message: &str,
        now: Moment,
    ) -> Option<Order> {
        let (reason, message) = (SCHEDULER_ERROR, self.tellings.share(message));
        // Room is not kept for it any longer.
        let nominated = Some(Box::default());
        self.note_group_refusal(&pod.uid, None);
        let why = Why { reason, message, nominated, reservations: None };
        self.tell(pod, scheduler, why, None, now)
    }

    /// Whether anything more may be decided before something is answered.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.phase == Phase::Deciding && self.flights.len() - self.apart < BINDS_MAX
    }

    /// Whether nothing is decided yet, since not everything that there was has been told.
    #[must_use]
    pub fn is_filling(&self) -> bool {
        self.phase == Phase::Filling
    }

    /// Whether whoever writes has enough to do for a while.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        self.phase == Phase::Deciding && self.flights.len() - self.apart >= BINDS_AHEAD
    }

    /// Decides for one pod, or has something else written.
    pub fn decide(&mut self, now: Moment) -> Next {
        if !self.has_room() {
            return Next::Idle;
        }
        if let Some(order) = self.beside(now) {
            self.telling += 1;
            return Next::Order(Box::new(order));
        }
        let Some(decision) = self.decide_one(now) else { return Next::Idle };
        self.order(decision, now).map_or(Next::Silent, |order| Next::Order(Box::new(order)))
    }

    /// What a decision asks for; nothing where it can wait.
    fn order(&mut self, decision: Decision, now: Moment) -> Option<Order> {
        let Decision { pod, scheduler, attempts, verdict, looked, gang } = decision;
        let waiting = self.waiting.entry(pod.uid.clone()).or_default();
        let since = *waiting.since.get_or_insert(now);
        let binder = waiting.binder;
        let begun = waiting.begun(&verdict, attempts, now);
        let version = waiting.written.version.clone();
        let forged = waiting.written.forged.clone();
        // Whoever was sent before is not wanted any longer.
        self.forget(&pod.uid);
        let mission = Mission::of(&verdict, binder);
        let held_back = mission.filter(|own| !self.may_send(*own, &pod.namespace));
        self.time(&begun, (&verdict, held_back), &scheduler, now);
        if mission.is_some() && held_back.is_none() && !begun.is_placed {
            self.meters.looked(looked);
        }
        if let Some(mission) = held_back {
            self.overdue.over(&pod.uid, &scheduler, (begun.at, now), &self.meters);
            return self.hold_back(mission, pod, scheduler, attempts, now);
        }
        self.overdue.follow(&pod, (&scheduler, &verdict), (begun.at, now), &self.meters);
        let message: Arc<str> = match &verdict {
            Verdict::Wait(own) => self.tellings.share(&cut(own.to_string(), MESSAGE_MAX)),
            _ => Arc::default(),
        };
        let fate = Fate::of(&verdict, &message);
        self.remember(Decided::new(&pod, &scheduler, attempts, fate, (begun.at, now)));
        let begun = begun.at;
        let attempt = Attempt { profile: scheduler.clone(), number: attempts, since };
        let order = match verdict {
            Verdict::Bind(node, allotment) => {
                let number = self.begin(Mission::Bind(binder), &pod, attempt, begun, None);
                let stamps = allotment.iter().flat_map(|own| own.stamps());
                // What its author wrote is no word of ours, once it is bound.
                let nothing = forged.iter().map(|key| (*key, NOTHING.to_owned()));
                let stamps = nothing.chain(stamps).chain(gangs::stamps(gang.as_deref()));
                let stamps = stamps.map(|(key, text)| (key.to_owned(), text)).collect();
                let held = pod.is_reservation.then(|| self.held(&pod.uid));
                let order =
                    BindOrder { pod, number, version, node, scheduler, binder, stamps, held };
                Order::Bind(order)
            }
            Verdict::Prepare(_, writes) => {
                let recall = Recall::default();
                let heard = Some(recall.clone());
                let number = self.begin(Mission::Prepare, &pod, attempt, begun, heard);
                Order::Prepare(PrepareOrder { pod, number, writes, recall })
            }
            Verdict::Consult(ticket, nodes) => Order::Consult(ConsultOrder { ticket, pod, nodes }),
            Verdict::Await(wait) => return self.await_gang(pod, scheduler, &wait, now),
            Verdict::Failed(why) => return self.failed(pod, scheduler, &why, now),
            Verdict::Unprepared(failure) => {
                let message = format!("running PreBind plugin \"VolumeBinding\": {failure}");
                return self.failed(pod, scheduler, &message, now);
            }
            Verdict::Wait(waiting) => {
                self.meters.unschedulable(&waiting);
                self.diagnose(&pod, &waiting, now);
                let why = self.why(&waiting, message);
                let room = waiting.room().map(|room| self.room(room));
                self.note_resort(&pod.uid, &waiting.last_resorts, room.as_ref());
                self.note_group_refusal(&pod.uid, waiting.gang.as_ref().map(|_| &why.message));
                return self.tell(pod, scheduler, why, room, now);
            }
        };
        Some(order)
    }

    /// Counts an attempt that is over with this verdict, and remembers what is still to be timed.
    fn time(
        &mut self,
        begun: &Begun,
        (verdict, held_back): (&Verdict, Option<Mission>),
        profile: &Arc<str>,
        now: Moment,
    ) {
        let failure = match verdict {
            Verdict::Wait(_) => Some(Failure::Unschedulable),
            Verdict::Failed(_) | Verdict::Unprepared(_) => Some(Failure::Error),
            Verdict::Bind(..) | Verdict::Prepare(..) => held_back.map(|_| Failure::Error),
            Verdict::Consult(..) | Verdict::Await(_) => None,
        };
        if let Some(failure) = failure {
            self.meters.came_to_nothing(profile, failure);
        }
        let is_asked = matches!(verdict, Verdict::Consult(..) | Verdict::Await(_));
        let is_scored = !begun.is_placed && !is_asked;
        if is_scored || failure.is_some() {
            let (profile, before) = (profile.clone(), now.since(begun.at));
            self.untimed.push(Untimed { profile, before, is_scored, failure });
        }
    }

    fn remember(&mut self, decided: Decided) {
        if self.decided.len() == DECISIONS_KEPT {
            self.decided.pop_front();
        }
        self.decided.push_back(decided);
    }

    /// The last decisions, the newest last.
    pub(crate) fn decided(&self) -> impl DoubleEndedIterator<Item = &Decided> {
        self.decided.iter()
    }

    /// A reservation as the API server shows it.
    pub(crate) fn reservation_object(&self, uid: &Uid) -> Option<&Arc<Reservation>> {
        self.lives.object(uid)
    }

    /// What users were last told of why a pod has no node.
    pub(crate) fn told(&self, uid: &Uid) -> Option<&Scheduled> {
        self.waiting.get(uid)?.written.scheduled.as_ref().filter(|told| told.is_false)
    }

    /// A pod loses the node that it got, since nobody can be sent to bind or to prepare it.
    fn hold_back(
        &mut self,
        mission: Mission,
        pod: PodRef,
        scheduler: Arc<str>,
        attempt: u32,
        now: Moment,
    ) -> Option<Order> {
        self.held_back += 1;
        let why = mission.held_back();
        self.remember(Decided::new(&pod, &scheduler, attempt, Fate::HeldBack(why), (now, now)));
        self.engine.answered(&pod.uid, turn::Answer::Refused, now);
        self.failed(pod, scheduler, why, now)
    }

    /// Somebody is sent for a pod, for whom there is room, and hears of it where he is recalled.
    fn begin(
        &mut self,
        mission: Mission,
        pod: &PodRef,
        attempt: Attempt,
        decided: Moment,
        recall: Option<Recall>,
    ) -> u64 {
        self.hush(&pod.uid);
        self.tellings.binding(decided);
        self.errands += 1;
        let is_apart = mission.is_apart();
        self.apart += usize::from(is_apart);
        match mission {
            Mission::Bind(Binder::Server) => {}
            Mission::Bind(_) => self.foreign += 1,
            Mission::Prepare => self.preparations += 1,
        }
        let (number, is_unclear, uid) = (self.errands, false, pod.uid.clone());
        let pod = pod.clone();
        let flight =
            Flight { number, mission, pod, attempt, decided, is_apart, is_unclear, recall };
        self.flights.insert(uid, flight);
        number
    }

    /// When to come again if nothing happens before; none where only a message can help.
    #[must_use]
    pub fn next_due(&self, now: Moment) -> Option<Moment> {
        let due = match self.has_room() {
            true if self.is_to_tell() => Some(now),
            true => {
                let beside = self.lives.next_due().into_iter().chain(self.quotas_due(now));
                let beside = beside.chain(self.groups.next_due());
                let beside = beside.map(|due| due.max(now));
                beside.chain(self.engine.next_due(now)).min()
            }
            false => None,
        };
        due.into_iter().chain(self.next_look()).chain(self.tellings.next_due(now)).min()
    }

    /// The engine, to look at.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Pods whose Binding, or what prepares them for one, is asked for and not answered.
    pub fn in_flight(&self) -> impl Iterator<Item = &Uid> {
        self.flights.keys()
    }

    /// Pods that are ours and have no node.
    pub fn nodeless(&self) -> impl Iterator<Item = &Uid> {
        self.waiting.keys()
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

    /// What was decided since this was said before took so long.
    pub fn took(&mut self, duration: Duration) {
        self.gangs_took(duration);
        let each = duration / u32::try_from(self.untimed.len()).unwrap_or(u32::MAX).max(1);
        for Untimed { profile, before, is_scored, failure } in self.untimed.drain(..) {
            if is_scored {
                self.meters.decided(each + before);
            }
            if let Some(failure) = failure {
                self.meters.took(&profile, failure, each + before);
            }
        }
    }

    /// Shows how much there is of everything, and tells of nodes that carry too much.
    pub fn measure(&mut self) {
        let Self { engine, excess, silence, shown, lives, .. } = self;
        lives.show(&self.meters.reservations);
        self.meters.exceeded(excess.look(engine.ledger()));
        self.meters.silent(silence.look(engine.ledger()));
        self.meters.measure(engine, self.flights.len(), self.unclear, shown);
    }
}
