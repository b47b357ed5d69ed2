//! Events as requests to the API server.

use http::Method;
use object::time::{MicroTime, Time};
use serde::Serialize;

use super::{Event, Form, Note, Subject, name};
use crate::client::{Call, Error, ResourceType};

/// Where events of objects without a namespace are kept.
const DEFAULT_NAMESPACE: &str = "default";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Where events of one form are written, and how.
pub struct Paths {
    form: Form,
    resource: ResourceType,
}

impl Paths {
    pub fn new(form: Form) -> Self {
        let group = match form {
            Form::Counted => "",
            Form::Series => "events.k8s.io",
        };
        Self { form, resource: ResourceType::namespaced(group, "v1", "events") }
    }

    /// The request that makes the event.
    pub fn create(&self, event: &Event) -> Result<Call, Error> {
        let path = self.resource.collection_path(namespace_of(event))?;
        let call = Call::new(Method::POST, path);
        match self.form {
            Form::Counted => call.json(&Counted::of(event)),
            Form::Series => call.json(&InSeries::of(event)),
        }
    }

    /// The request that raises its count.
    pub fn repeat(&self, event: &Event) -> Result<Call, Error> {
        let name = name::of(&event.note.subject, event.stamp);
        let path = self.resource.object_path(namespace_of(event), &name)?;
        let call = Call::new(Method::PATCH, path);
        let call = match self.form {
            Form::Counted => call.json(&Raised {
                count: event.count,
                last_timestamp: event.last.into(),
                message: &event.note.message,
            }),
            Form::Series => call.json(&Longer { series: Repetition::of(event) }),
        };
        Ok(call?.content_type(MERGE_PATCH))
    }
}

fn namespace_of(event: &Event) -> &str {
    match event.note.subject.key.namespace() {
        "" => DEFAULT_NAMESPACE,
        namespace => namespace,
    }
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: String,
    namespace: &'a str,
}

impl<'a> Metadata<'a> {
    fn of(event: &'a Event) -> Self {
        let name = name::of(&event.note.subject, event.stamp);
        Self { name, namespace: namespace_of(event) }
    }
}

/// A core `v1` ObjectReference.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reference<'a> {
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    api_version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource_version: &'a str,
}

impl<'a> From<&'a Subject> for Reference<'a> {
    fn from(subject: &'a Subject) -> Self {
        let Subject { api_version, kind, key, uid, resource_version } = subject;
        let (namespace, name) = (key.namespace(), key.name());
        Self { kind, namespace, name, uid, api_version, resource_version }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Counted<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    involved_object: Reference<'a>,
    r#type: super::Tone,
    reason: &'a str,
    message: &'a str,
    count: u32,
    first_timestamp: Time,
    last_timestamp: Time,
    source: Source<'a>,
    reporting_component: &'a str,
    reporting_instance: &'a str,
}

#[derive(Serialize)]
struct Source<'a> {
    component: &'a str,
}

impl<'a> Counted<'a> {
    fn of(event: &'a Event) -> Self {
        let (note, reporter) = (&event.note, &event.reporter);
        Self {
            api_version: "v1",
            kind: "Event",
            metadata: Metadata::of(event),
            involved_object: (&note.subject).into(),
            r#type: note.tone,
            reason: &note.reason,
            message: &note.message,
            count: event.count,
            first_timestamp: event.first.into(),
            last_timestamp: event.last.into(),
            source: Source { component: &reporter.component },
            reporting_component: &reporter.component,
            reporting_instance: &reporter.instance,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Raised<'a> {
    count: u32,
    last_timestamp: Time,
    message: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InSeries<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    event_time: MicroTime,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<Repetition>,
    reporting_controller: &'a str,
    reporting_instance: &'a str,
    action: &'a str,
    reason: &'a str,
    regarding: Reference<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    related: Option<Reference<'a>>,
    note: &'a str,
    r#type: super::Tone,
}

impl<'a> InSeries<'a> {
    fn of(event: &'a Event) -> Self {
        let Note { subject, related, tone, reason, action, message, .. } = &event.note;
        Self {
            api_version: "events.k8s.io/v1",
            kind: "Event",
            metadata: Metadata::of(event),
            event_time: event.first.into(),
            series: (event.count > 1).then(|| Repetition::of(event)),
            reporting_controller: &event.reporter.component,
            reporting_instance: &event.reporter.instance,
            action: if action.is_empty() { reason } else { action },
            reason,
            regarding: subject.into(),
            related: related.as_ref().map(Into::into),
            note: message,
            r#type: *tone,
        }
    }
}

#[derive(Serialize)]
struct Longer {
    series: Repetition,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Repetition {
    count: u32,
    last_observed_time: MicroTime,
}

impl Repetition {
    fn of(event: &Event) -> Self {
        Self { count: event.count, last_observed_time: event.last.into() }
    }
}
