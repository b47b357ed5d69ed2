//! Events of the group `events.k8s.io`: what happened to an object, for people to read.

use object::time::MicroTime;
use serde::{Deserialize, Serialize};

use crate::object_meta::ObjectMeta;
use crate::object_reference::ObjectReference;
use crate::resource::resource;
use crate::wire::{self, wire_enum};

/// Something that happened to an object. A server refuses a new one without time,
/// controller, instance, action, reason or type; each has its bound on length.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Event {
    /// Who it is; it lives in the namespace of the object, or in `default`.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// When it happened first.
    #[serde(deserialize_with = "wire::or_default")]
    pub event_time: MicroTime,
    /// How often and until when it happened again; absent for an event that stands alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<EventSeries>,
    /// Name of the program that reports it.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "str::is_empty")]
    pub reporting_controller: Box<str>,
    /// Which instance of the program reports it; at most 128 bytes.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "str::is_empty")]
    pub reporting_instance: Box<str>,
    /// What the program did, as one word; at most 128 bytes.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "str::is_empty")]
    pub action: Box<str>,
    /// Why it did so, as one word; at most 128 bytes.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "str::is_empty")]
    pub reason: Box<str>,
    /// The object it happened to.
    #[serde(deserialize_with = "wire::or_default")]
    pub regarding: ObjectReference,
    /// Another object that had part in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related: Option<ObjectReference>,
    /// What happened, in words; at most 1,024 bytes.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "str::is_empty")]
    pub note: Box<str>,
    /// Whether someone should look at it.
    #[serde(deserialize_with = "wire::or_default")]
    pub r#type: EventType,
}

resource!(Event, "events.k8s.io", "v1", "Event", "events", true);

/// An event that happened again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EventSeries {
    /// How often it happened; the first time counts.
    #[serde(deserialize_with = "wire::or_default")]
    pub count: i32,
    /// When it last happened.
    #[serde(deserialize_with = "wire::or_default")]
    pub last_observed_time: MicroTime,
}

wire_enum! {
    /// Whether someone should look at an event.
    EventType {
        /// All is well.
        Normal,
        /// Something may be wrong.
        Warning,
    }
}
