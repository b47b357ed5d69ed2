//! Events: what a component tells users of an object, as `kubectl describe` shows it.
//!
//! A [`Recorder`] takes notes and never waits: what does not fit in its bounded line is
//! dropped, since no event is worth a delay of the work it tells of. A [`Writer`] writes
//! them one after the other as core `v1` Events. What it writes is decided by
//! [`correlate`], so that an object in trouble costs few writes: a note that repeats
//! raises the count of the event that is there, many that differ only in their words
//! become one, and one object's share is bounded.
//!
//! What is worth telling is the component's business.

pub mod correlate;

use std::time::Duration;

use api::Resource;
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
use correlate::{Correlator, Step};

/// How many notes may wait to be written.
const NOTES_MAX: usize = 1000;
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

/// Takes notes for one component; clones share the line.
#[derive(Debug, Clone)]
pub struct Recorder {
    component: &'static str,
    clock: Clock,
    line: mpsc::Sender<Note>,
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
        let (line, notes) = mpsc::channel(NOTES_MAX);
        let (clock, meters) = (client.clock().clone(), metrics.events());
        let writer = Writer {
            client: client.clone(),
            notes,
            correlator: Correlator::default(),
            backoff: Backoff::new(RETRY_MIN, RETRY_MAX, seed_for(seed, &["events", component])),
            meters: meters.clone(),
        };
        (Self { component, clock, line, meters }, writer)
    }

    /// The same in the name of another component.
    #[must_use]
    pub fn of(&self, component: &'static str) -> Self {
        Self { component, ..self.clone() }
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
        if self.line.try_send(note).is_err() {
            self.meters.dropped();
        }
    }
}

/// Writes what recorders have noted.
pub struct Writer {
    client: Client,
    notes: mpsc::Receiver<Note>,
    correlator: Correlator,
    backoff: Backoff,
    meters: EventMeters,
}

impl Writer {
    /// Runs until `stop` is cancelled or all recorders are gone. What waits then is dropped.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let note = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                note = self.notes.recv() => note,
            };
            let Some(note) = note else { return };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.write(&note) => {}
            }
        }
    }

    async fn write(&mut self, note: &Note) {
        let step = self.correlator.take(note);
        for tries in 0..TRIES_MAX {
            let error = match self.try_write(note, &step).await {
                Ok(()) => return self.meters.told(step != Step::Drop),
                Err(error) => error,
            };
            // The server has decided, and would decide the same again; or is too busy for
            // what matters less than the rest.
            if error.refusal().is_some() {
                tracing::debug!(object = %note.subject.key, reason = note.reason, %error, "event refused");
                return self.meters.dropped();
            }
            if tries + 1 < TRIES_MAX {
                let wait = self.backoff.wait(tries);
                self.client.clock().sleep(wait).await;
            }
        }
        tracing::debug!(object = %note.subject.key, reason = note.reason, "event given up");
        self.meters.dropped();
    }

    async fn try_write(&self, note: &Note, step: &Step) -> Result<(), Error> {
        match step {
            Step::Drop => Ok(()),
            Step::Create(event) => self.create(note, event).await,
            Step::Repeat(event) => {
                let last = Time::from(note.at);
                let patch = json!({ "count": event.count, "lastTimestamp": last,
                                    "message": event.message });
                let events = events();
                let path = events.object_path(namespace_of(note), &event.name)?;
                let body = patch.to_string();
                let call =
                    Call::new(Method::PATCH, path).body("application/merge-patch+json", body);
                match self.client.call_bytes(call).await {
                    // Events expire; this one is told anew.
                    Err(error) if error.is_not_found() => self.create(note, event).await,
                    answer => answer.map(|_| ()),
                }
            }
        }
    }

    async fn create(&self, note: &Note, event: &correlate::Told) -> Result<(), Error> {
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
