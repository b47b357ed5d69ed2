//! Events: what a component tells users of an object, as `kubectl describe` shows it.
//!
//! A [`Recorder`] takes notes and never waits. What becomes of a note is decided at once, so
//! that an object in trouble costs few writes: a note that repeats raises the count of the
//! event that is there. Only what is to be written enters the recorder's bounded line; what
//! finds it full is dropped and counted, since no event is worth a delay of the work it tells
//! of. A [`Writer`] writes them, those of different objects side by side and those of one
//! object in order; what is not answered waits apart (see [`retries`]), so that a namespace in
//! which nothing is answered holds up no other. Each component has a line and a writer of its own,
//! so that none crowds out another; one that tells in several names shares its line between them.
//!
//! There are two [`Form`]s, and a component chooses the one that users know of its
//! counterpart: core `v1` Events that carry a count, by the rules in [`correlate`], and
//! `events.k8s.io/v1` Events with a series, by the rules in [`series`].
//!
//! What is worth telling is the component's business.

mod correlate;
mod lanes;
mod loss;
mod name;
mod retries;
mod series;
mod wire;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::Resource;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::client::{Client, Error, Identity, Reason};
use crate::clock::Clock;
use crate::key::Key;
use crate::metrics::{EventMeters, Metrics};
use crate::random::seed_for;
use crate::words::cut;
use correlate::Correlator;
use lanes::Lanes;
use loss::{Loss, Losses};
use name::Names;
use retries::{Retries, Tried};
use series::Series;
use wire::Paths;

/// How many events may wait to be written: some seconds of a component that tells of
/// thousands of objects a second.
const WAITING_MAX: usize = 20_000;
/// How many events of different objects are written side by side.
const IN_FLIGHT_MAX: usize = 16;
/// How often a write is tried that the server does not answer.
const TRIES_MAX: u32 = 12;
/// The first wait between tries.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest wait between tries.
const RETRY_MAX: Duration = Duration::from_secs(10);
/// Of so many events that are written side by side, one may be one that was not answered before.
const RETRIES_SHARE: usize = 4;
/// How often series are looked through for what is to be written.
const SWEEP: Duration = Duration::from_secs(30);
/// The longest note that the server takes, in bytes.
const NOTE_MAX: usize = 1024;
/// The longest name of who reports.
const INSTANCE_MAX: usize = 128;

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The version of its kind, such as `apps/v1`.
    pub api_version: Cow<'static, str>,
    /// Its kind.
    pub kind: &'static str,
    /// Namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: Arc<str>,
    /// The version of the state that is spoken of; empty where none is.
    pub resource_version: Box<str>,
}

impl Subject {
    /// An object of kind `K`.
    #[must_use]
    pub fn of<K: Resource>(who: Identity<'_>) -> Self {
        Self {
            resource_version: who.resource_version.into(),
            ..Self::named::<K>(who.key(), who.uid.into())
        }
    }

    /// An object of kind `K`, in whatever state it is. It copies nothing where the kind is
    /// of the core group.
    #[must_use]
    pub fn named<K: Resource>(key: Key, uid: Arc<str>) -> Self {
        let api_version = match K::GROUP {
            "" => Cow::Borrowed(K::VERSION),
            _ => Cow::Owned(K::api_version()),
        };
        Self { api_version, kind: K::KIND, key, uid, resource_version: Box::default() }
    }
}

/// Whether a user has to care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Tone {
    /// As it should be.
    Normal,
    /// Something is wrong.
    Warning,
}

/// Whether something can be told of an object more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// It happens once in the life of an object: nothing is remembered of it, which makes it
    /// cheap.
    Never,
    /// It may come again, and then raises a count.
    Perhaps,
}

/// Something to tell of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Of what.
    pub subject: Subject,
    /// What else has to do with it. Only [`Form::Series`] writes it.
    pub related: Option<Subject>,
    /// Whether a user has to care.
    pub tone: Tone,
    /// Why, as one word.
    pub reason: Cow<'static, str>,
    /// What the component was doing, as one word; where empty, the reason stands for it.
    /// Only [`Form::Series`] writes it.
    pub action: &'static str,
    /// What, in words.
    pub message: String,
    /// Whether it can come again.
    pub repeats: Repeats,
}

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As core `v1` Events with a count that every repetition raises, within an object's
    /// share.
    Counted,
    /// As `events.k8s.io/v1` Events: a repetition makes a series of one, whose count is
    /// written now and then.
    Series,
}

/// How a recorder tells.
#[derive(Debug, Clone)]
pub struct Options {
    /// Who tells, such as `default-scheduler`.
    pub component: String,
    /// The machine or pod that it runs on; only [`Form::Series`] writes it.
    pub host: String,
    /// How events are written.
    pub form: Form,
    /// How many events of different objects are written side by side.
    pub in_flight_max: usize,
    /// How many events may wait to be written in line; more are dropped. As many again may have
    /// left the line and wait for another try, or for what is before them: then nothing leaves it.
    pub waiting_max: usize,
    /// What spreads the waits between tries.
    pub seed: u64,
}

impl Options {
    /// Events with counts, some at a time: for a controller.
    #[must_use]
    pub fn counted(component: &str, seed: u64) -> Self {
        Self {
            component: component.to_owned(),
            host: String::new(),
            form: Form::Counted,
            in_flight_max: IN_FLIGHT_MAX,
            waiting_max: WAITING_MAX,
            seed,
        }
    }

    /// Events with series, told from `host`.
    #[must_use]
    pub fn series(component: &str, host: &str, seed: u64) -> Self {
        Self { host: host.to_owned(), form: Form::Series, ..Self::counted(component, seed) }
    }
}

/// Who tells.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Reporter {
    component: String,
    instance: String,
}

impl Reporter {
    fn new(form: Form, component: &str, host: &str) -> Arc<Self> {
        let mut instance = match form {
            Form::Counted => String::new(),
            Form::Series => format!("{component}-{host}"),
        };
        instance.truncate(instance.floor_char_boundary(INSTANCE_MAX));
        Arc::new(Self { component: component.to_owned(), instance })
    }
}

/// A note, and the event it has become.
#[derive(Debug, Clone)]
struct Event {
    note: Note,
    reporter: Arc<Reporter>,
    /// What its name ends with.
    stamp: u64,
    /// How often it was told, with this time.
    count: u32,
    /// When it was told first.
    first: Timestamp,
    /// When it was told last.
    last: Timestamp,
}

/// What to do with an event.
#[derive(Debug)]
enum Step {
    /// Write a new one.
    Create(Event),
    /// Raise the count of one that is there.
    Repeat(Event),
    /// Nothing: its object has had its share, or its count is written later.
    Spare,
}

/// What was told, by the rules of a form.
#[derive(Debug)]
enum Told {
    Counted(Correlator),
    Series(Series),
}

#[derive(Debug)]
struct Shared {
    form: Form,
    host: String,
    clock: Clock,
    names: Names,
    told: Mutex<Told>,
    meters: EventMeters,
    lost: Losses,
}

impl Shared {
    /// Events are not written, and why; whoever runs this hears of each reason once.
    fn lose(&self, events: usize, why: Loss, cause: &dyn std::fmt::Display) {
        self.meters.dropped(events);
        self.lost.count(events, why, cause);
    }

    /// What series have to tell now, or once and for all.
    fn late(&self, is_end: bool) -> VecDeque<Write> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let Told::Series(series) = &mut *told else { return VecDeque::new() };
        let (now, names) = (self.clock.now(), &self.names);
        let due = if is_end { series.finish(now, names) } else { series.sweep(now, names) };
        due.into_iter().filter_map(Write::of).collect()
    }
}

/// An event on its way to the server.
#[derive(Debug)]
struct Write {
    /// Boxed, since it moves from hand to hand.
    event: Box<Event>,
    is_new: bool,
}

/// What must be told in order: all of one object.
type Lane = (&'static str, Key);

impl Write {
    fn create(event: Event) -> Self {
        Self { event: Box::new(event), is_new: true }
    }

    fn repeat(event: Event) -> Self {
        Self { event: Box::new(event), is_new: false }
    }

    /// What a step has written, if anything.
    fn of(step: Step) -> Option<Self> {
        match step {
            Step::Create(event) => Some(Self::create(event)),
            Step::Repeat(event) => Some(Self::repeat(event)),
            Step::Spare => None,
        }
    }

    fn lane(&self) -> Lane {
        let subject = &self.event.note.subject;
        (subject.kind, subject.key.clone())
    }
}

/// Takes notes for one component; clones share its memory and its line.
#[derive(Debug, Clone)]
pub struct Recorder {
    reporter: Arc<Reporter>,
    shared: Arc<Shared>,
    line: mpsc::Sender<Write>,
}

impl Recorder {
    /// A recorder that tells in the name of `component` in [`Form::Counted`], and the writer
    /// that must run for anything to be written.
    #[must_use]
    pub fn new(component: &str, client: &Client, seed: u64, metrics: &Metrics) -> (Self, Writer) {
        Self::with(&Options::counted(component, seed), client, metrics)
    }

    /// A recorder that tells as `options` say, and the writer that must run for anything to be
    /// written. The writer keeps to the limits of `client`: one that has its own, such as
    /// [`Client::apart`], leaves the component's other requests alone.
    #[must_use]
    pub fn with(options: &Options, client: &Client, metrics: &Metrics) -> (Self, Writer) {
        let Options { component, host, form, in_flight_max, waiting_max, seed } = options;
        let (line, writes) = mpsc::channel((*waiting_max).max(1));
        let told = match form {
            Form::Counted => Told::Counted(Correlator::default()),
            Form::Series => Told::Series(Series::default()),
        };
        let shared = Arc::new(Shared {
            form: *form,
            host: host.clone(),
            clock: client.clock().clone(),
            names: Names::new(component),
            told: Mutex::new(told),
            meters: metrics.events(),
            lost: Losses::new(component),
        });
        let backoff = Backoff::new(RETRY_MIN, RETRY_MAX, seed_for(*seed, &["events", component]));
        let pen = Pen {
            client: client.clone(),
            paths: Paths::new(*form),
            backoff: Mutex::new(backoff),
            shared: shared.clone(),
        };
        let reporter = Reporter::new(*form, component, host);
        let (in_flight_max, waiting_max) = ((*in_flight_max).max(1), (*waiting_max).max(1));
        let writer = Writer { pen, writes, in_flight_max, waiting_max };
        (Self { reporter, shared, line }, writer)
    }

    /// A recorder that tells in another name and shares the rest with this one.
    #[must_use]
    pub fn named(&self, component: &str) -> Self {
        let reporter = Reporter::new(self.shared.form, component, &self.shared.host);
        Self { reporter, ..self.clone() }
    }

    /// How many events wait in line: some do where as many as may be are being written.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.line.max_capacity() - self.line.capacity()
    }

    /// Tells what is as it should be.
    pub fn normal(&self, subject: &Subject, reason: impl Into<Cow<'static, str>>, message: String) {
        self.tell(plain(subject, Tone::Normal, reason.into(), message));
    }

    /// Tells what is wrong.
    pub fn warning(
        &self,
        subject: &Subject,
        reason: impl Into<Cow<'static, str>>,
        message: String,
    ) {
        self.tell(plain(subject, Tone::Warning, reason.into(), message));
    }

    /// Tells something. It never waits; what finds the line full is dropped.
    pub fn tell(&self, mut note: Note) {
        let Shared { form, clock, names, told, meters, .. } = &*self.shared;
        if *form == Form::Series {
            note.message = cut(note.message, NOTE_MAX);
        }
        let (repeats, now) = (note.repeats, clock.now());
        let reporter = self.reporter.clone();
        let mut event = Event { note, reporter, stamp: 0, count: 1, first: now, last: now };
        if repeats == Repeats::Never {
            event.stamp = names.draw(now);
            return self.enqueue(Write::create(event));
        }
        let (step, ended) = match &mut *told.lock().unwrap_or_else(PoisonError::into_inner) {
            Told::Counted(correlator) => (correlator.take(event, names), Vec::new()),
            Told::Series(series) => series.take(event, names),
        };
        for write in ended.into_iter().filter_map(Write::of) {
            self.enqueue(write);
        }
        match Write::of(step) {
            Some(write) => self.enqueue(write),
            None => meters.spared(),
        }
    }

    fn enqueue(&self, write: Write) {
        match self.line.try_send(write) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                let cause = format_args!("{} wait already", self.line.max_capacity());
                self.shared.lose(1, Loss::NoRoom, &cause);
            }
            Err(TrySendError::Closed(_)) => {
                self.shared.lose(1, Loss::Ended, &"nobody writes events any more");
            }
        }
    }
}

fn plain(subject: &Subject, tone: Tone, reason: Cow<'static, str>, message: String) -> Note {
    let (subject, repeats) = (subject.clone(), Repeats::Perhaps);
    Note { subject, related: None, tone, reason, action: "", message, repeats }
}

/// Writes what a recorder has noted.
pub struct Writer {
    pen: Pen,
    writes: mpsc::Receiver<Write>,
    in_flight_max: usize,
    /// How many may wait to be tried again, or for such, besides those in line.
    waiting_max: usize,
}

impl Writer {
    /// Runs until all recorders are gone and all is written, or until `stop` is cancelled.
    /// What waits when `stop` is cancelled is dropped and counted.
    /// At the end it is said how many were not written.
    pub async fn run(self, stop: CancellationToken) {
        let shared = self.pen.shared.clone();
        self.write_all(stop).await;
        shared.lost.sum_up();
    }

    async fn write_all(self, stop: CancellationToken) {
        let Self { pen, mut writes, in_flight_max, waiting_max } = self;
        let (pen, shared) = (&pen, &*pen.shared);
        let has_series = shared.form == Form::Series;
        let mut lanes = Lanes::default();
        let mut retries = Retries::new((in_flight_max / RETRIES_SHARE).max(1));
        let mut under_way = FuturesUnordered::new();
        let mut late = VecDeque::new();
        let mut is_open = true;
        let (mut stopped, mut sweep) = (pin!(stop.cancelled()), pin!(shared.clock.sleep(SWEEP)));
        while is_open || !under_way.is_empty() || !late.is_empty() || !retries.is_empty() {
            let is_free = under_way.len() < in_flight_max;
            let has_room = is_free && lanes.held() + retries.len() < waiting_max;
            let due = retries.next_due().filter(|_| is_free);
            let came = tokio::select! {
                biased;
                () = &mut stopped => {
                    let under_way = under_way.len() + retries.len();
                    let waiting = writes.len() + lanes.held() + under_way + late.len();
                    return shared.lose(waiting, Loss::Ended, &"there was no more time");
                }
                Some(tried) = under_way.next() => Came::Tried(tried),
                () = shared.clock.sleep_until(due.unwrap_or_default()), if due.is_some() => {
                    Came::Retry
                }
                Some(write) = async { late.pop_front() }, if has_room => Came::Write(write),
                write = writes.recv(), if is_open && has_room => {
                    write.map_or(Came::End, Came::Write)
                }
                () = &mut sweep, if is_open && has_series => Came::Sweep,
            };
            let next = match came {
                Came::Tried(tried) => {
                    let ended = retries.tried(tried);
                    let next = ended.and_then(|lane| lanes.leave(&lane)).map(Try::first);
                    next.and_then(|next| retries.admit(next, shared.clock.monotonic()))
                }
                Came::Retry => retries.pop(shared.clock.monotonic()),
                Came::Write(write) => {
                    let next = lanes.enter(write.lane(), write).map(Try::first);
                    next.and_then(|next| retries.admit(next, shared.clock.monotonic()))
                }
                Came::Sweep => {
                    late.extend(shared.late(false));
                    sweep.set(shared.clock.sleep(SWEEP));
                    None
                }
                Came::End => {
                    is_open = false;
                    late.extend(shared.late(true));
                    None
                }
            };
            if let Some(next) = next {
                under_way.push(pen.write(next));
            }
        }
    }
}

/// What a writer waits for.
enum Came {
    /// Something to write.
    Write(Write),
    /// The end of a try.
    Tried(Tried),
    /// The time for another try.
    Retry,
    /// The time to look through the series.
    Sweep,
    /// The end of all recorders.
    End,
}

/// An event, and how often it was tried to write it.
#[derive(Debug)]
struct Try {
    write: Write,
    tries: u32,
    /// Whether it has a place of those that are for tries like this one.
    is_apart: bool,
}

impl Try {
    fn first(write: Write) -> Self {
        Self { write, tries: 0, is_apart: false }
    }

    fn namespace(&self) -> &str {
        self.write.event.note.subject.key.namespace()
    }
}

/// Writes one event, once.
struct Pen {
    client: Client,
    paths: Paths,
    backoff: Mutex<Backoff>,
    shared: Arc<Shared>,
}

impl Pen {
    async fn write(&self, Try { write, mut tries, is_apart }: Try) -> Tried {
        let note = &write.event.note;
        let answer = self.try_write(&write).await;
        tries += 1;
        let end = |write: &Write, is_clear| Tried::End { lane: write.lane(), is_clear, is_apart };
        let error = match answer {
            Ok(()) => {
                self.shared.meters.written();
                return end(&write, true);
            }
            Err(error) => error,
        };
        if is_final(&error) {
            tracing::debug!(object = %note.subject.key, reason = %note.reason, %error, "event refused");
            self.shared.lose(1, Loss::of(&error), &error);
            return end(&write, true);
        }
        if tries >= TRIES_MAX {
            tracing::debug!(object = %note.subject.key, reason = %note.reason, "event given up");
            self.shared.lose(1, Loss::Unanswered, &error);
            return end(&write, false);
        }
        let wait = self.backoff.lock().unwrap_or_else(PoisonError::into_inner).wait(tries - 1);
        let asked = error.retry_after().unwrap_or_default().min(RETRY_MAX);
        let due = self.client.clock().monotonic() + wait.max(asked);
        Tried::Unclear { next: Try { write, tries, is_apart }, due }
    }

    async fn try_write(&self, Write { event, is_new }: &Write) -> Result<(), Error> {
        if !is_new {
            match self.client.call_unread(self.paths.repeat(event)?).await {
                // Events expire, and one may never have been written; it is told anew.
                Err(error) if error.is_not_found() => {}
                answer => return answer,
            }
        }
        match self.client.call_unread(self.paths.create(event)?).await {
            // The answer to an earlier try was lost.
            Err(error) if error.is_already_exists() => Ok(()),
            answer => answer,
        }
    }
}

/// Whether the server has decided and would decide the same again, or the event cannot be sent
/// at all. A server that is too busy, or fails, may take it later.
fn is_final(error: &Error) -> bool {
    match error {
        Error::Refused { refusal, .. } => !matches!(
            refusal.reason,
            Reason::TooManyRequests | Reason::Unavailable | Reason::Timeout | Reason::Internal
        ),
        Error::Request { .. } | Error::Unwritable(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
