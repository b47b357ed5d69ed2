//! The one way in: every write of every verb and subresource passes here.
//!
//! decode → default → admit → prepare → validate → commit. What differs between a
//! create, an update and a part of an object is said by data ([`Part`]), not by
//! another path.

pub mod body_type;
mod create;
pub mod decode;
pub(crate) mod expiry;
pub mod metadata;
mod patience;
mod remove;
mod update;

use std::sync::Arc;

use object::field::{Error, Errors, Path};
use serde_json::Value;

pub use create::create;
pub use decode::{Decoded, decode, decode_value, media_type};
pub(crate) use patience::patiently;
pub use remove::{Removed, remove};
pub use update::{Attempt, update};

use crate::answer::Failure;
use crate::answer::failure::GroupResource;
use crate::kinds::{Found, Kind, Version};
use crate::request::Identity;
use crate::server::Server;
use crate::store::{Draft, Expect, Gate, Revision, Stored, Write};

/// Which part of an object a write means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The object, without its status where that is a part of its own.
    Object,
    /// The status alone.
    Status,
    /// A named part that has been worked into the object already, such as a binding.
    Named(&'static str),
}

impl Part {
    /// Whether a change counts as a new generation: neither a status nor a binding changes
    /// what is wanted.
    #[must_use]
    pub fn is_counted(self) -> bool {
        !matches!(self, Self::Status | Self::Named("binding"))
    }
}

/// How often a write is done anew because another writer was faster, or its kind was replaced.
pub(crate) const ATTEMPTS_MAX: usize = 100;

/// Who writes, and how.
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    /// The client.
    pub identity: &'a Identity,
    /// Do everything but the commit.
    pub dry_run: bool,
}

/// The result of a write.
pub enum Written {
    /// It is in the store.
    Stored(Arc<Stored>),
    /// It would have been, but for the dry run.
    Rehearsed(Value),
    /// It let go what last held the object, which is gone; no revision shows this form.
    Ended(Value),
}

/// The object as a version shows it, ready to be changed.
///
/// # Panics
/// Never: what is stored was encoded by us.
#[must_use]
pub fn materialize(kind: &Kind, version: &Version, stored: &Stored) -> Value {
    let mut value: Value =
        serde_json::from_slice(&stored.body).expect("what is stored is valid JSON");
    if let Some(conversion) = version.conversion {
        (conversion.from_stored)(&mut value);
    }
    if let Some(lineage) = kind.lineage() {
        lineage.show(kind, version, stored.revision, &mut value);
    }
    value["apiVersion"] = version.api_version(kind).into();
    value["kind"] = kind.names.kind.clone().into();
    value
}

/// The object in the form the store keeps.
#[must_use]
pub fn draft(kind: &Kind, version: &Version, mut value: Value) -> Draft {
    if let Some(conversion) = version.conversion {
        (conversion.to_stored)(&mut value);
    }
    if let Some(lineage) = kind.lineage() {
        lineage.store(kind, version, &mut value);
    }
    let fields = kind.field_values(&value);
    Draft::new(&value, fields)
}

/// The largest object that is stored, in bytes: what etcd takes by default.
const STORED_BYTES_MAX: usize = 1536 * 1024;

/// A write of the object, unless it has grown too large to be kept.
fn put(kind: &Kind, version: &Version, value: Value) -> Result<Draft, Failure> {
    let draft = draft(kind, version, value);
    if draft.len() > STORED_BYTES_MAX {
        return Err(Failure::too_large_to_store(draft.len(), STORED_BYTES_MAX));
    }
    Ok(draft)
}

/// What a dry run shows: the object as it would be read back.
fn rehearsed(kind: &Kind, version: &Version, mut value: Value) -> Written {
    if let Some(lineage) = kind.lineage() {
        lineage.store(kind, version, &mut value);
        lineage.show(kind, version, Revision::MAX, &mut value);
    }
    value["apiVersion"] = version.api_version(kind).into();
    value["kind"] = kind.names.kind.clone().into();
    Written::Rehearsed(value)
}

/// The kind as it is now, where the one in hand has been replaced.
///
/// # Errors
/// When it is served no more.
fn renewed(server: &Server, found: Found) -> Result<Found, Failure> {
    if found.kind.table.gate() != Gate::Closed {
        return Ok(found);
    }
    server.wait_for_definitions();
    let (kind, version) = (&found.kind, &found.version().name);
    let now = server.registry().find(&kind.group, version, &kind.names.plural);
    now.ok_or_else(Failure::no_such_path)
}

/// Writes in place of what is stored; nothing where somebody else was faster.
fn commit(server: &Server, kind: &Kind, current: &Stored, write: Write) -> Option<Arc<Stored>> {
    let (expect, now) = (Expect::At(current.revision), server.env().now());
    server.store().commit(&kind.table, &current.key, expect, write, now).ok()
}

/// The text under a key of the metadata.
#[must_use]
pub fn meta_text<'a>(object: &'a Value, key: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(key))
        .and_then(Value::as_str)
        .unwrap_or("")
}

/// The key of an object.
#[must_use]
pub fn key(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// What is wrong with the type a custom object says it is of. A native object of another type
/// cannot be read in the first place.
fn type_errors(kind: &Kind, version: &Version, object: &Value) -> Errors {
    let mut errors = Errors::new();
    if !kind.is_custom() {
        return errors;
    }
    let expected = [("kind", kind.names.kind.clone()), ("apiVersion", version.api_version(kind))];
    for (field, expected) in expected {
        let given = object.get(field).and_then(Value::as_str).unwrap_or_default();
        if given != expected {
            let why = format!("must be {expected}");
            errors.push(Error::invalid(&Path::new(field), given, why));
        }
    }
    errors
}

/// Refuses an object with errors, under the type it says it is of.
fn refuse_invalid(
    kind: &Kind,
    object: &Value,
    name: &str,
    errors: &[Error],
) -> Result<(), Failure> {
    if errors.is_empty() {
        return Ok(());
    }
    if !kind.is_custom() {
        return Err(Failure::invalid(&kind.group_kind(), name, errors));
    }
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    let given = GroupResource { group, resource: text("kind") };
    Err(Failure::invalid(&given, name, errors))
}

/// What is wrong with the numbers that the scale of a custom object shows.
fn scale_errors(version: &Version, object: &Value) -> Errors {
    let mut errors = Errors::new();
    let Some(paths) = &version.scale else { return errors };
    for path in [&paths.spec_replicas, &paths.status_replicas] {
        let at = Path::new(path.as_str());
        let parts = path.split('.').filter(|part| !part.is_empty());
        let found = parts.into_iter().try_fold(object, |value, part| value.get(part));
        match found {
            None => {}
            Some(value) => match value.as_i64() {
                None => {
                    let (shown, go_type) =
                        (object::json::printed(value), object::json::go_type(value));
                    let why = format!(
                        "{path} accessor error: {shown} is of the type {go_type}, expected int64"
                    );
                    errors.push(Error::invalid(&at, 0, why));
                }
                Some(count) if count < 0 => {
                    errors.push(Error::invalid(&at, count, "should be a non-negative integer"));
                }
                Some(count) if count > i64::from(i32::MAX) => {
                    let why = format!("should be less than or equal to {}", i32::MAX);
                    errors.push(Error::invalid(&at, count, why));
                }
                Some(_) => {}
            },
        }
    }
    errors
}
