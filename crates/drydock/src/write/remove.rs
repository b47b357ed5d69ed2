//! The end of an object.

use std::sync::Arc;

use jiff::SignedDuration;
use object::time::Time;
use serde_json::Value;

use super::update::is_ended;
use super::{ATTEMPTS_MAX, Part, Writer, Written, draft, materialize, meta_text, metadata};
use crate::admission::{self, Attributes, Operation};
use crate::answer::Failure;
use crate::kinds::strategy::Ending;
use crate::kinds::{Dependents, Found, Kind};
use crate::request::options::{DeleteOptions, Propagation};
use crate::server::Server;
use crate::store::{Stored, Write};

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
    let key = super::key(namespace, name);
    let mut found = found.clone();
    for _ in 0..ATTEMPTS_MAX {
        let kind = &found.kind;
        let Some(current) = kind.table.get(&key) else {
            return Err(Failure::not_found(&kind.resource(), name));
        };
        let old = materialize(kind, found.version(), &current);
        check_preconditions(kind, name, options, &old)?;
        let attributes = Attributes {
            server,
            found: &found,
            namespace,
            name,
            given_name: name,
            part: Part::Object,
            operation: Operation::Delete,
            identity: writer.identity,
            old: Some(&old),
        };
        admission::validate(&attributes, &Value::Null)?;
        if let Some(removed) = once(server, &found, &current, old, options, writer) {
            return Ok(removed);
        }
        found = super::renewed(server, found)?;
    }
    Err(Failure::modified(&found.kind.resource(), name))
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
    let was_deleting = metadata::is_deleting(&object);
    let marked = mark(server, kind, &mut object, options);
    let only_marked = marked == Mark::Alone && !was_deleting;
    let gone = !only_marked && (is_ended(kind, &object) || !metadata::is_deleting(&object));
    if writer.dry_run {
        return Some(Removed { object: Written::Rehearsed(object), gone });
    }
    let next = draft(kind, version, object.clone());
    let commit = |current: &Arc<Stored>, write: Write| super::commit(server, kind, current, write);
    if !gone && next.same_as(current) {
        return Some(Removed { object: Written::Stored(Arc::clone(current)), gone });
    }
    if !gone {
        let stored = commit(current, Write::Put(next))?;
        return Some(Removed { object: Written::Stored(stored), gone });
    }
    if marked == Mark::New {
        // Who watches sees it marked before it goes.
        let marked = commit(current, Write::Put(next))?;
        let stored = commit(&marked, Write::Remove(draft(kind, version, object)))?;
        return Some(Removed { object: Written::Stored(stored), gone });
    }
    let stored = commit(current, Write::Remove(next))?;
    Some(Removed { object: Written::Stored(stored), gone })
}

/// What a deletion wrote into an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// Nothing.
    None,
    /// That it ends, and when.
    New,
    /// The same, and that is all a first deletion does.
    Alone,
}

/// Writes into the object that it is to end, and when.
fn mark(server: &Server, kind: &Kind, object: &mut Value, options: &DeleteOptions) -> Mark {
    let was_deleting = metadata::is_deleting(object);
    if !was_deleting && kind.strategy.mark_specially(object, server.env().now()) {
        return Mark::Alone;
    }
    set_propagation(kind, object, options.propagation);
    if was_deleting {
        if !kind.strategy.holds(object) {
            // Who was marked specially got none.
            let grace = metadata::metadata_mut(object).entry("deletionGracePeriodSeconds");
            grace.or_insert_with(|| 0.into());
        }
        return hasten(object, options.grace_seconds);
    }
    let held = metadata::has_finalizers(object) || kind.strategy.holds(object);
    let (seconds, mark) = match kind.strategy.ending(object, options.grace_seconds) {
        // What goes at once goes unmarked.
        Ending::Now if !held => return Mark::None,
        Ending::Now => (0, Mark::New),
        Ending::Marked => (0, Mark::Alone),
        Ending::After(seconds) => (seconds, Mark::New),
    };
    let now = server.env().now();
    let end = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
    if object["metadata"]["generation"].as_i64().unwrap_or(0) > 0 {
        metadata::bump_generation(object);
    }
    let metadata = metadata::metadata_mut(object);
    metadata.insert("deletionTimestamp".to_owned(), Time::from(end).to_string().into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), seconds.into());
    kind.strategy.mark_deleted(object);
    mark
}

/// A deletion can be hastened by who says so, never put off.
fn hasten(object: &mut Value, asked_seconds: Option<i64>) -> Mark {
    let before = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let asked = asked_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let (Some(before), Some(seconds)) = (before, asked) else { return Mark::None };
    let end = meta_text(object, "deletionTimestamp").parse::<Time>().ok();
    let Some(end) = end.filter(|_| seconds < before) else { return Mark::None };
    let gain = SignedDuration::from_secs(before.saturating_sub(seconds));
    let end = end.timestamp().checked_sub(gain).unwrap_or(end.timestamp());
    let metadata = metadata::metadata_mut(object);
    metadata.insert("deletionTimestamp".to_owned(), Time::from(end).to_string().into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), seconds.into());
    Mark::New
}

/// Notes in the finalizers what the garbage collector has to do first.
fn set_propagation(kind: &Kind, object: &mut Value, asked: Option<Propagation>) {
    let wanted = match (asked, kind.habits.dependents) {
        (_, Dependents::Ignored) => return,
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
