//! Events: what a component tells users of an object, as `kubectl describe` shows it.
//!
//! A [`Recorder`] takes notes and never waits. What becomes of a note is decided at once by
//! [`correlate`], so that an object in trouble costs few writes: a note that repeats raises
//! the count of the event that is there, many that differ only in their words become one,
//! and one object's share is bounded. Only what is to be written enters the recorder's
//! bounded line; what finds it full is dropped, since no event is worth a delay of the work
//! it tells of. A [`Writer`] writes them as core `v1` Events, those of different objects
//! side by side and those of one object in order. Each component has a line and
//! a writer of its own, so that none crowds out another.
//!
//! What is worth telling is the component's business.

pub mod correlate;
mod lanes;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::Resource;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::Method;
use jiff::Timestamp;
use object::time::Time;
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::client::{Call, Client, Error, Identity, Reason, ResourceType};
use crate::clock::Clock;
use crate::key::Key;
use crate::metrics::{EventMeters, Metrics};
use crate::random::seed_for;
use correlate::{Correlator, Step, Told};
use lanes::Lanes;

/// How many events may wait to be written: some seconds of a component that tells of
/// thousands of objects a second.
const LINE_MAX: usize = 10_000;
/// How many events of different objects are written side by side.
const IN_FLIGHT_MAX: usize = 16;
/// How many events may wait for an earlier one of the same object before the rest of the
/// line waits too.
const HELD_MAX: usize = 1000;
/// How often a write is tried that the server does not answer.
const TRIES_MAX: u32 = 4;
/// The first wait between tries.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest wait between tries.
const RETRY_MAX: Duration = Duration::from_secs(10);
/// Where events of objects without a namespace are kept.
const DEFAULT_NAMESPACE: &str = "default";
/// The longest name of an object.
const NAME_MAX: usize = 253;

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The version of its kind, such as `apps/v1`.
    pub api_version: String,
    /// Its kind.
    pub kind: &'static str,
    /// Namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: Box<str>,
    /// The version of the state that is spoken of; empty where none is.
    pub resource_version: Box<str>,
}

impl Subject {
    /// An object of kind `K`.
    #[must_use]
    pub fn of<K: Resource>(who: Identity<'_>) -> Self {
        Self {
            api_version: K::api_version(),
            kind: K::KIND,
            key: who.key(),
            uid: who.uid.into(),
            resource_version: who.resource_version.into(),
        }
    }
}

/// Whether a user has to care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Tone {
    /// As it should be.
    Normal,
    /// Something is wrong.
    Warning,
}

/// Something to tell of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Who tells it.
    pub component: &'static str,
    /// Of what.
    pub subject: Subject,
    /// Whether a user has to care.
    pub tone: Tone,
    /// Why, as one word.
    pub reason: String,
    /// What, in words.
    pub message: String,
    /// When.
    pub at: Timestamp,
}

/// A note, and the event it has become.
#[derive(Debug)]
struct Write {
    note: Note,
    told: Told,
    is_new: bool,
}

/// Takes notes for one component; clones share its memory and its line.
#[derive(Debug, Clone)]
pub struct Recorder {
    component: &'static str,
    clock: Clock,
    correlator: Arc<Mutex<Correlator>>,
    line: mpsc::Sender<Write>,
    meters: EventMeters,
}

impl Recorder {
    /// A recorder that tells in the name of `component`, and the writer that must run for
    /// anything to be written.
    #[must_use]
    pub fn new(
        component: &'static str,
        client: &Client,
        seed: u64,
        metrics: &Metrics,
    ) -> (Self, Writer) {
        let (line, writes) = mpsc::channel(LINE_MAX);
        let (clock, meters) = (client.clock().clone(), metrics.events());
        let backoff = Backoff::new(RETRY_MIN, RETRY_MAX, seed_for(seed, &["events", component]));
        let pen =
            Pen { client: client.clone(), backoff: Mutex::new(backoff), meters: meters.clone() };
        let correlator = Arc::new(Mutex::new(Correlator::new(component)));
        (Self { component, clock, correlator, line, meters }, Writer { pen, writes })
    }

    /// Tells what is as it should be.
    pub fn normal(&self, subject: &Subject, reason: &str, message: String) {
        self.note(subject, Tone::Normal, reason, message);
    }

    /// Tells what is wrong.
    pub fn warning(&self, subject: &Subject, reason: &str, message: String) {
        self.note(subject, Tone::Warning, reason, message);
    }

    fn note(&self, subject: &Subject, tone: Tone, reason: &str, message: String) {
        let (component, reason, at) = (self.component, reason.to_owned(), self.clock.now());
        let note = Note { component, subject: subject.clone(), tone, reason, message, at };
        let step = self.correlator.lock().unwrap_or_else(PoisonError::into_inner).take(&note);
        let (told, is_new) = match step {
            Step::Create(told) => (told, true),
            Step::Repeat(told) => (told, false),
            Step::Drop => return self.meters.spared(),
        };
        if self.line.try_send(Write { note, told, is_new }).is_err() {
            self.meters.dropped();
        }
    }
}

/// Writes what a recorder has noted.
pub struct Writer {
    pen: Pen,
    writes: mpsc::Receiver<Write>,
}

impl Writer {
    /// Runs until `stop` is cancelled or all recorders are gone. What waits when `stop` is
    /// cancelled is dropped.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut lanes = Lanes::default();
        let mut under_way = FuturesUnordered::new();
        let mut is_open = true;
        while is_open || !under_way.is_empty() {
            let has_room = under_way.len() < IN_FLIGHT_MAX && lanes.held() < HELD_MAX;
            let next = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(lane) = under_way.next() => lanes.leave(&lane),
                write = self.writes.recv(), if is_open && has_room => match write {
                    Some(write) => lanes.enter(lane_of(&write.note), write),
                    None => {
                        is_open = false;
                        None
                    }
                },
            };
            if let Some(write) = next {
                let pen = &self.pen;
                under_way.push(async move {
                    pen.write(&write).await;
                    lane_of(&write.note)
                });
            }
        }
    }
}

/// What must be told in order: all of one object.
fn lane_of(note: &Note) -> (&'static str, Key) {
    (note.subject.kind, note.subject.key.clone())
}

/// Writes one event after all tries that it takes.
struct Pen {
    client: Client,
    backoff: Mutex<Backoff>,
    meters: EventMeters,
}

impl Pen {
    async fn write(&self, write: &Write) {
        let note = &write.note;
        for tries in 0..TRIES_MAX {
            let error = match self.try_write(write).await {
                Ok(()) => return self.meters.written(),
                Err(error) => error,
            };
            // The server has decided, and would decide the same again; or is too busy for
            // what matters less than the rest.
            if error.refusal().is_some() {
                tracing::debug!(object = %note.subject.key, reason = note.reason, %error, "event refused");
                return self.meters.dropped();
            }
            if tries + 1 < TRIES_MAX {
                let wait = self.backoff.lock().unwrap_or_else(PoisonError::into_inner).wait(tries);
                self.client.clock().sleep(wait).await;
            }
        }
        tracing::debug!(object = %note.subject.key, reason = note.reason, "event given up");
        self.meters.dropped();
    }

    async fn try_write(&self, Write { note, told, is_new }: &Write) -> Result<(), Error> {
        if *is_new {
            return self.create(note, told).await;
        }
        let patch = json!({ "count": told.count, "lastTimestamp": Time::from(note.at),
                            "message": told.message });
        let path = events().object_path(namespace_of(note), &told.name)?;
        let call =
            Call::new(Method::PATCH, path).body("application/merge-patch+json", patch.to_string());
        match self.client.call_bytes(call).await {
            // Events expire, and one may never have been written; it is told anew.
            Err(error) if error.is_not_found() => self.create(note, told).await,
            answer => answer.map(|_| ()),
        }
    }

    async fn create(&self, note: &Note, event: &Told) -> Result<(), Error> {
        let subject = &note.subject;
        let namespace = namespace_of(note);
        let mut involved = json!({ "apiVersion": subject.api_version, "kind": subject.kind,
                                   "name": subject.key.name() });
        for (field, value) in [
            ("namespace", subject.key.namespace()),
            ("uid", &subject.uid),
            ("resourceVersion", &subject.resource_version),
        ] {
            if !value.is_empty() {
                involved[field] = value.into();
            }
        }
        let body = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": { "name": event.name, "namespace": namespace },
            "involvedObject": involved,
            "type": note.tone, "reason": note.reason, "message": event.message,
            "count": event.count,
            "firstTimestamp": Time::from(event.first), "lastTimestamp": Time::from(note.at),
            "source": { "component": note.component },
            "reportingComponent": note.component, "reportingInstance": "",
        });
        let path = events().collection_path(namespace)?;
        match self.client.call_bytes(Call::new(Method::POST, path).json(&body)?).await {
            // The answer to an earlier try was lost.
            Err(error) if error.reason() == Some(&Reason::AlreadyExists) => Ok(()),
            answer => answer.map(|_| ()),
        }
    }
}

fn events() -> ResourceType {
    ResourceType::namespaced("", "v1", "events")
}

fn namespace_of(note: &Note) -> &str {
    match note.subject.key.namespace() {
        "" => DEFAULT_NAMESPACE,
        namespace => namespace,
    }
}

#[cfg(test)]
mod tests;
