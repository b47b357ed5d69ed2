//! Objects in the form a client asked for: as they are, as a table, or only
//! their metadata; one, many, or as they change.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http::StatusCode;
use jiff::Timestamp;
use object::table::{Include, partial_object_metadata};
use serde_json::{Map, Value, json};

use super::listing::{Element, Fields, Listing};
use super::negotiate::Encoding;
use super::{Answer, Failure, body};
use crate::kinds::{Found, Kind, Version};
use crate::server::Server;
use crate::store::{Change, Revision, Stored};
use crate::write::{Written, materialize};

mod rows;

/// The form of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// The objects as they are.
    Object,
    /// A table, each row with this much of the object.
    Table(Include),
    /// Only the metadata.
    Metadata,
}

/// Where a list stands.
pub struct Page {
    /// The revision it shows.
    pub revision: Revision,
    /// How to get the next page.
    pub next: Option<String>,
    /// How many objects are left.
    pub remaining: Option<usize>,
}

impl Page {
    fn metadata(&self) -> Map<String, Value> {
        let mut metadata = at_revision(self.revision.to_string().into());
        if let Some(next) = &self.next {
            metadata.insert("continue".to_owned(), next.clone().into());
        }
        if let Some(remaining) = self.remaining {
            metadata.insert("remainingItemCount".to_owned(), remaining.into());
        }
        metadata
    }
}

/// The metadata of something that shows this revision.
fn at_revision(revision: Value) -> Map<String, Value> {
    let mut metadata = Map::new();
    if !revision.is_null() {
        metadata.insert("resourceVersion".to_owned(), revision);
    }
    metadata
}

/// The answer to a write.
#[must_use]
pub fn written(
    server: &Server,
    found: &Found,
    form: &Form,
    code: StatusCode,
    written: &Written,
) -> Answer {
    match written {
        Written::Stored(stored) => self::stored(server, found, form, code, stored),
        Written::Rehearsed(value) | Written::Ended(value) => {
            body::value(code, &shown(found, form, value.clone(), server.env().now()))
        }
    }
}

/// The answer that shows one object.
#[must_use]
pub fn stored(
    server: &Server,
    found: &Found,
    form: &Form,
    code: StatusCode,
    stored: &Stored,
) -> Answer {
    if *form == Form::Object {
        return body::pieces(code, whole(&found.kind, found.version(), stored));
    }
    let value = materialize(&found.kind, found.version(), stored);
    body::value(code, &shown(found, form, value, server.env().now()))
}

fn shown(found: &Found, form: &Form, value: Value, now: Timestamp) -> Value {
    match form {
        Form::Object => value,
        Form::Metadata => partial_object_metadata(&value),
        Form::Table(include) => {
            let metadata = at_revision(value["metadata"]["resourceVersion"].clone());
            let rows = vec![rows::row(found, value, now)];
            rows::table(found, metadata, rows, *include)
        }
    }
}

/// The object as it goes over the wire, in pieces that need no copy.
fn whole(kind: &Kind, version: &Version, stored: &Stored) -> Vec<Bytes> {
    if kind.shows_as_stored(version, stored.revision) {
        return vec![version.opening.clone(), stored.body.slice(1..)];
    }
    vec![object::json::encode(&materialize(kind, version, stored)).into()]
}

/// The answer that shows many objects.
#[must_use]
pub fn list(
    server: &Server,
    found: &Found,
    (form, encoding): (&Form, Encoding),
    objects: Vec<Arc<Stored>>,
    page: &Page,
) -> Answer {
    let shown = found.clone();
    let (fields, name, element): (Fields, _, Element) = match *form {
        Form::Object => {
            let element = move |out: &mut BytesMut, stored: &Stored| {
                item(out, &shown.kind, shown.version(), stored);
            };
            (list_fields(found, page), "items", Box::new(element))
        }
        Form::Table(include) => {
            let now = server.env().now();
            let element = move |out: &mut BytesMut, stored: &Stored| {
                let object = materialize(&shown.kind, shown.version(), stored);
                let row = rows::row(&shown, object, now).to_value(include);
                out.put_slice(&object::json::encode(&row));
            };
            (rows::fields(found, page.metadata()), "rows", Box::new(element))
        }
        Form::Metadata => {
            let element = move |out: &mut BytesMut, stored: &Stored| {
                let object = materialize(&shown.kind, shown.version(), stored);
                out.put_slice(&object::json::encode(&partial_object_metadata(&object)));
            };
            let fields = vec![
                ("kind", "PartialObjectMetadataList".into()),
                ("apiVersion", "meta.k8s.io/v1".into()),
                ("metadata", page.metadata().into()),
            ];
            (fields, "items", Box::new(element))
        }
    };
    body::list(Listing::new(fields, name, objects, encoding, element))
}

/// What a list of whole objects says of itself.
fn list_fields(found: &Found, page: &Page) -> Fields {
    let (kind, version) = (&found.kind, found.version());
    let mut metadata = page.metadata();
    if kind.is_custom() {
        // kube-apiserver writes these lists from maps, which leave out no empty text.
        metadata.entry("continue").or_insert("".into());
    }
    vec![
        ("kind", kind.names.list_kind.clone().into()),
        ("apiVersion", version.api_version(kind).into()),
        ("metadata", metadata.into()),
    ]
}

/// An element of a list: those of native kinds do not repeat what the list says of them.
fn item(out: &mut BytesMut, kind: &Kind, version: &Version, stored: &Stored) {
    if !kind.shows_as_stored(version, stored.revision) {
        let mut value = materialize(kind, version, stored);
        if let Some(map) = value.as_object_mut().filter(|_| !kind.is_custom()) {
            map.remove("apiVersion");
            map.remove("kind");
        }
        out.put_slice(&object::json::encode(&value));
    } else if kind.is_custom() {
        out.put_slice(&version.opening);
        out.put_slice(&stored.body[1..]);
    } else {
        out.put_slice(&stored.body);
    }
}

/// Writes the events of one watch.
pub struct Frames {
    found: Found,
    form: Form,
    /// Whether a table's columns have been sent: they come with the first event only.
    columns_sent: bool,
}

impl Frames {
    /// Frames in the given form.
    #[must_use]
    pub fn new(found: &Found, form: &Form) -> Self {
        Self { found: found.clone(), form: form.clone(), columns_sent: false }
    }

    /// Appends one event.
    pub fn event(&mut self, out: &mut BytesMut, change: Change, stored: &Stored, now: Timestamp) {
        let kind = match change {
            Change::Added => "ADDED",
            Change::Modified => "MODIFIED",
            Change::Deleted => "DELETED",
        };
        let (resource, version) = (&self.found.kind, self.found.version());
        out.reserve(stored.body.len() + 128);
        out.put_slice(b"{\"type\":\"");
        out.put_slice(kind.as_bytes());
        out.put_slice(b"\",\"object\":");
        if self.form == Form::Object {
            for piece in whole(resource, version, stored) {
                out.put_slice(&piece);
            }
        } else {
            let value = materialize(resource, version, stored);
            out.put_slice(&object::json::encode(&self.shown(value, now)));
        }
        out.put_slice(b"}\n");
    }

    fn shown(&mut self, value: Value, now: Timestamp) -> Value {
        let mut shown = shown(&self.found, &self.form, value, now);
        let is_table = matches!(self.form, Form::Table(_));
        if is_table && std::mem::replace(&mut self.columns_sent, true) {
            shown["columnDefinitions"] = Value::Null;
        }
        shown
    }

    /// An event that only says how far the watch has come.
    #[must_use]
    pub fn bookmark(&self, revision: Revision, ends_initial: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if ends_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (kind, version) = (&self.found.kind, self.found.version());
        let object = match self.form {
            Form::Object => {
                let mut object = json!({"metadata": metadata});
                if !kind.is_custom() {
                    crate::kinds::native::as_written(&version.schema, &mut object);
                }
                object["kind"] = kind.names.kind.clone().into();
                object["apiVersion"] = version.api_version(kind).into();
                object
            }
            Form::Metadata => partial_object_metadata(&json!({"metadata": metadata})),
            Form::Table(_) => json!({
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "columnDefinitions": null,
                "rows": [],
            }),
        };
        frame("BOOKMARK", &object)
    }

    /// The event that ends a watch.
    #[must_use]
    pub fn failure(&self, failure: &Failure) -> Bytes {
        frame("ERROR", &failure.to_status())
    }
}

fn frame(kind: &str, object: &Value) -> Bytes {
    let mut bytes = object::json::encode(&json!({"type": kind, "object": object}));
    bytes.push(b'\n');
    bytes.into()
}
