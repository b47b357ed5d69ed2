//! The end of an object.

use std::sync::Arc;

use jiff::SignedDuration;
use object::time::Time;
use serde_json::Value;

use super::update::is_ended;
use super::{Part, Writer, Written, draft, materialize, meta_text, metadata};
use crate::admission::{self, Attributes, Operation};
use crate::answer::Failure;
use crate::kinds::strategy::Ending;
use crate::kinds::{Dependents, Found, Kind};
use crate::request::options::{DeleteOptions, Propagation};
use crate::server::Server;
use crate::store::{Expect, Stored, Write};

/// How often a deletion is computed anew because another writer was faster.
const ATTEMPTS_MAX: usize = 100;

/// What became of an object that was to be deleted.
pub struct Removed {
    /// Its last form.
    pub object: Written,
    /// Whether it is gone; otherwise it is marked and something still holds it.
    pub gone: bool,
}

/// Deletes an object, or marks it where something has to happen first.
///
/// # Errors
/// When the object is not there, a precondition is not met, or deletion is not allowed.
pub fn remove(
    server: &Server,
    found: &Found,
    namespace: Option<&str>,
    name: &str,
    options: &DeleteOptions,
    writer: Writer<'_>,
) -> Result<Removed, Failure> {
    let kind = &found.kind;
    let key = super::key(namespace, name);
    for _ in 0..ATTEMPTS_MAX {
        let Some(current) = kind.table.get(&key) else {
            return Err(Failure::not_found(&kind.resource(), name));
        };
        let old = materialize(kind, found.version(), &current);
        check_preconditions(kind, name, options, &old)?;
        let attributes = Attributes {
            server,
            found,
            namespace,
            name,
            part: Part::Object,
            operation: Operation::Delete,
            identity: writer.identity,
            old: Some(&old),
            dry_run: writer.dry_run,
        };
        admission::validate(&attributes, &Value::Null)?;
        if let Some(removed) = once(server, found, &current, old, options, writer) {
            return Ok(removed);
        }
    }
    Err(Failure::modified(&kind.resource(), name))
}

fn check_preconditions(
    kind: &Kind,
    name: &str,
    options: &DeleteOptions,
    object: &Value,
) -> Result<(), Failure> {
    let uid = ("UID", &options.uid, "uid", "deleted and then recreated");
    let revision = ("ResourceVersion", &options.resource_version, "resourceVersion", "modified");
    for (what, wanted, field, suspicion) in [uid, revision] {
        let actual = meta_text(object, field);
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != actual) {
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({actual}). The object might have been {suspicion}"
            );
            return Err(Failure::conflict(&kind.group_kind(), name, why));
        }
    }
    Ok(())
}

fn once(
    server: &Server,
    found: &Found,
    current: &Arc<Stored>,
    old: Value,
    options: &DeleteOptions,
    writer: Writer<'_>,
) -> Option<Removed> {
    let (kind, version) = (&found.kind, found.version());
    let mut object = old;
    mark(server, kind, &mut object, options);
    let gone = is_ended(kind, &object) || !metadata::is_deleting(&object);
    if writer.dry_run {
        return Some(Removed { object: Written::Rehearsed(object), gone });
    }
    let next = draft(kind, version, object);
    if !gone && next.same_as(current) {
        return Some(Removed { object: Written::Stored(Arc::clone(current)), gone });
    }
    let write = if gone { Write::Remove(next) } else { Write::Put(next) };
    let committed =
        server.store().commit(&kind.table, &current.key, Expect::At(current.revision), write);
    committed.ok().map(|stored| Removed { object: Written::Stored(stored), gone })
}

/// Writes into the object that it is to end, and when.
fn mark(server: &Server, kind: &Kind, object: &mut Value, options: &DeleteOptions) {
    let was_deleting = metadata::is_deleting(object);
    if !was_deleting && kind.strategy.mark_specially(object, server.env().now()) {
        return;
    }
    set_propagation(kind, object, options.propagation);
    let before = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let held = metadata::has_finalizers(object) || kind.strategy.holds(object);
    let seconds = match kind.strategy.ending(object, options.grace_seconds) {
        // What goes at once goes unmarked.
        Ending::Now if !held => return,
        Ending::Now => 0,
        Ending::After(seconds) => seconds,
    };
    // A deletion can be hastened, never put off.
    if was_deleting && before.is_none_or(|before| before <= seconds) {
        return;
    }
    let now = server.env().now();
    let end = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
    if !was_deleting && object["metadata"]["generation"].as_i64().unwrap_or(0) > 0 {
        metadata::bump_generation(object);
    }
    let metadata = metadata::metadata_mut(object);
    metadata.insert("deletionTimestamp".to_owned(), Time::from(end).to_string().into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), seconds.into());
    kind.strategy.mark_deleted(object);
}

/// Notes in the finalizers what the garbage collector has to do first.
fn set_propagation(kind: &Kind, object: &mut Value, asked: Option<Propagation>) {
    let wanted = match (asked, kind.habits.dependents) {
        (Some(Propagation::Orphan), _) | (None, Dependents::Orphaned) => Some("orphan"),
        (Some(Propagation::Foreground), _) => Some("foregroundDeletion"),
        (Some(Propagation::Background), _) => None,
        // Without a word from the client, finalizers that are there already speak for it.
        (None, Dependents::Deleted) => return,
    };
    let metadata = metadata::metadata_mut(object);
    let mut finalizers: Vec<Value> =
        metadata.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    finalizers.retain(|name| {
        let name = name.as_str().unwrap_or_default();
        Some(name) == wanted || (name != "orphan" && name != "foregroundDeletion")
    });
    if let Some(wanted) = wanted
        && !finalizers.iter().any(|name| name == wanted)
    {
        finalizers.push(wanted.into());
    }
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), finalizers.into());
    }
}
