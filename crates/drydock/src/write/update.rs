//! A changed object.

use std::sync::Arc;

use object::field::{Error, Path};
use object::schema;
use serde_json::{Map, Value};

use super::expiry;
use super::{ATTEMPTS_MAX, Part, Writer, Written, draft, materialize, meta_text, metadata};
use crate::admission::{self, Attributes, Operation};
use crate::answer::Failure;
use crate::kinds::{Found, Kind, Version};
use crate::server::Server;
use crate::store::{Gate, Stored, Write};

/// A change to one object.
pub struct Attempt<'a> {
    /// The kind, in the version of the request.
    pub found: &'a Found,
    /// The namespace, where the kind has one.
    pub namespace: Option<&'a str>,
    /// The name.
    pub name: &'a str,
    /// Which part of the object changes.
    pub part: Part,
    /// Who writes.
    pub writer: Writer<'a>,
}

/// Applies `change` to the object as it is, again when another writer was faster.
///
/// # Errors
/// When the object is not there, `change` refuses, or the result is refused, or the kind is no
/// longer served in this form.
pub fn update(
    server: &Server,
    attempt: &Attempt<'_>,
    mut change: impl FnMut(&Value) -> Result<Value, Failure>,
) -> Result<Written, Failure> {
    let key = super::key(attempt.namespace, attempt.name);
    let kind = &attempt.found.kind;
    for _ in 0..ATTEMPTS_MAX {
        let Some(current) = kind.table.get(&key) else {
            return Err(Failure::not_found(&kind.resource(), attempt.name));
        };
        if let Some(written) = once(server, attempt, &current, &mut change)? {
            return Ok(written);
        }
        if kind.table.gate() == Gate::Closed {
            return Err(Failure::outdated(&kind.resource(), attempt.name));
        }
    }
    Err(Failure::modified(&kind.resource(), attempt.name))
}

/// One attempt; nothing when another writer was faster.
fn once(
    server: &Server,
    attempt: &Attempt<'_>,
    current: &Arc<Stored>,
    change: &mut impl FnMut(&Value) -> Result<Value, Failure>,
) -> Result<Option<Written>, Failure> {
    let (kind, version) = (&attempt.found.kind, attempt.found.version());
    let old = materialize(kind, version, current);
    let mut object = change(&old)?;
    check_revision(kind, attempt.name, &object, &old)?;
    metadata::carry_over(&mut object, &old);
    fill_in(kind, version, &mut object)?;
    let attributes = Attributes {
        server,
        found: attempt.found,
        namespace: attempt.namespace,
        name: attempt.name,
        given_name: attempt.name,
        part: attempt.part,
        operation: Operation::Update,
        identity: attempt.writer.identity,
        old: Some(&old),
    };
    let _held = admission::hold(server, kind);
    admission::mutate(&attributes, &mut object)?;
    prepare(server, attempt, &mut object, &old);
    if !kind.is_custom() {
        crate::kinds::native::as_written(&version.schema, &mut object);
    }
    // Counted last, so that what was only completed or written otherwise is no change.
    let counts = kind.habits.generation && attempt.part.is_counted();
    if counts && kind.strategy.is_new_generation(&object, &old) {
        metadata::bump_generation(&mut object);
    }
    validate(attempt, &object, &old)?;
    admission::validate(&attributes, &object)?;
    commit(server, attempt, current, object)
}

fn check_revision(kind: &Kind, name: &str, object: &Value, old: &Value) -> Result<(), Failure> {
    let given = meta_text(object, "resourceVersion");
    let revision = if given.is_empty() { Ok(0) } else { given.parse::<u64>() };
    let revision = revision.map_err(|_| {
        Failure::unclassified(format!("strconv.ParseUint: parsing {given:?}: invalid syntax"))
    })?;
    if revision == 0 {
        if kind.habits.unconditional_update {
            return Ok(());
        }
        let at = Path::new("metadata").child("resourceVersion");
        let error = Error::invalid(&at, 0, "must be specified for an update");
        return Err(Failure::invalid(&kind.resource(), name, &[error]));
    }
    if given != meta_text(old, "resourceVersion") {
        return Err(Failure::modified(&kind.resource(), name));
    }
    Ok(())
}

fn prepare(server: &Server, attempt: &Attempt<'_>, object: &mut Value, old: &Value) {
    let (kind, version) = (&attempt.found.kind, attempt.found.version());
    let now = server.env().now();
    match attempt.part {
        Part::Status => {
            take_status(kind, object, old);
            kind.strategy.prepare_status(object, old, now);
        }
        Part::Object => {
            if version.has_status() {
                keep(object, old, "status");
            }
            kind.strategy.prepare_update(object, old, now);
        }
        Part::Named(part) => kind.strategy.prepare_part(part, object, old),
    }
}

/// Fills in defaults.
///
/// # Errors
/// When they would make the object too large.
pub fn fill_in(kind: &Kind, version: &Version, object: &mut Value) -> Result<(), Failure> {
    if kind.is_custom() {
        schema::default(&version.schema, object).map_err(Failure::too_large_by)?;
    }
    kind.strategy.default(object);
    Ok(())
}

fn keep(object: &mut Value, old: &Value, field: &str) {
    let map = object.as_object_mut().expect("metadata was set on it");
    match old.get(field) {
        Some(value) => map.insert(field.to_owned(), value.clone()),
        None => map.remove(field),
    };
}

/// Leaves of `object` the status, and for native kinds labels and annotations; the rest is `old`'s.
fn take_status(kind: &Kind, object: &mut Value, old: &Value) {
    let status = object.get("status").cloned();
    let metadata = object.get("metadata").and_then(Value::as_object).cloned();
    let said = [("apiVersion", object["apiVersion"].take()), ("kind", object["kind"].take())];
    *object = old.clone();
    let map = object.as_object_mut().expect("an object is stored");
    map.extend(said.map(|(field, value)| (field.to_owned(), value)));
    match status {
        Some(status) => map.insert("status".to_owned(), status),
        None => map.remove("status"),
    };
    if kind.is_custom() {
        return;
    }
    let given = metadata.unwrap_or_else(Map::new);
    for field in ["labels", "annotations", "finalizers"] {
        let metadata = metadata::metadata_mut(object);
        match given.get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
}

fn validate(attempt: &Attempt<'_>, object: &Value, old: &Value) -> Result<(), Failure> {
    let (kind, version) = (&attempt.found.kind, attempt.found.version());
    let mut errors = metadata::validate_change_of_any(kind, object, old);
    let type_errors = super::type_errors(kind, version, object);
    if type_errors.is_empty() {
        errors.extend(metadata::validate_change(kind, object, old));
        if kind.is_custom() {
            errors.extend(match attempt.part {
                Part::Status => schema::validate_status(&version.schema, object, old),
                _ => schema::validate(&version.schema, object, Some(old)),
            });
            errors.extend(super::scale_errors(version, object));
        }
        errors.extend(match attempt.part {
            Part::Status => kind.strategy.validate_status(object, old),
            Part::Object => kind.strategy.validate_update(object, old),
            Part::Named(part) => kind.strategy.validate_part(part, object, old),
        });
    }
    errors.extend(type_errors);
    super::refuse_invalid(kind, object, attempt.name, &errors)
}

fn commit(
    server: &Server,
    attempt: &Attempt<'_>,
    current: &Arc<Stored>,
    object: Value,
) -> Result<Option<Written>, Failure> {
    let (kind, version) = (&attempt.found.kind, attempt.found.version());
    if attempt.writer.dry_run {
        return Ok(Some(super::rehearsed(kind, version, object)));
    }
    let commit = |write| super::commit(server, kind, current, write);
    if is_ended(kind, &object) {
        let last = draft(kind, version, object.clone());
        return Ok(commit(Write::Remove(last)).map(|_| Written::Ended(object)));
    }
    let next = super::put(kind, version, object)?;
    if next.same_as(current) {
        return Ok(Some(Written::Stored(Arc::clone(current))));
    }
    let stored = commit(Write::Put(next));
    Ok(stored.inspect(|stored| expiry::note(server, kind, stored)).map(Written::Stored))
}

/// Whether nothing holds a deleted object any more.
pub(super) fn is_ended(kind: &Kind, object: &Value) -> bool {
    let grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
    metadata::is_deleting(object)
        && !metadata::has_finalizers(object)
        && grace.unwrap_or(0) == 0
        && !kind.strategy.holds(object)
}
