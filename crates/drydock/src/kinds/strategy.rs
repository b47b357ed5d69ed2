//! What is special about a kind, as functions over its JSON.
//!
//! A strategy is pure: it sees the object, the object as it was, and the time.
//! What needs other objects is admission.

use jiff::{SignedDuration, Timestamp};
use object::field::Errors;
use object::table::RowCondition;
use serde_json::Value;

use super::cells::{self, Cell};
use super::reviews::Asker;
use crate::admission::Plugin;
use crate::answer::Failure;

/// A field that selectors can name.
#[derive(Clone, Copy)]
pub struct Selectable {
    /// As in `spec.nodeName`.
    pub name: &'static str,
    /// Its value as text; empty where there is none.
    pub value: fn(&Value) -> String,
}

/// How long an object may take to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It goes at once, unless a finalizer holds it.
    Now,
    /// It is only marked when it is deleted for the first time, and goes when it is deleted
    /// again and nothing holds it.
    Marked,
    /// It stays, marked as deleted, for so many seconds, until whoever runs it is done.
    After(i64),
}

/// What is special about a kind. Every method has a default: a kind that brings
/// nothing of its own is plain data.
pub trait Strategy: Send + Sync {
    /// Fills in what a user may leave out. Runs before admission, on create and on every update.
    fn default(&self, _object: &mut Value) {}

    /// Sets what the server decides at creation. Runs after admission.
    fn prepare_create(&self, _object: &mut Value, _now: Timestamp) {}

    /// Carries over what an update cannot change silently.
    fn prepare_update(&self, _object: &mut Value, _old: &Value, _now: Timestamp) {}

    /// Carries over what an update of the status cannot change silently.
    fn prepare_status(&self, _object: &mut Value, _old: &Value, _now: Timestamp) {}

    /// What is wrong with a new object.
    fn validate(&self, _object: &Value) -> Errors {
        Errors::new()
    }

    /// What is wrong with a changed object.
    fn validate_update(&self, object: &Value, _old: &Value) -> Errors {
        self.validate(object)
    }

    /// What is wrong with a changed status.
    fn validate_status(&self, _object: &Value, _old: &Value) -> Errors {
        Errors::new()
    }

    /// Carries over what a change to a named part, such as `resize`, cannot change silently.
    fn prepare_part(&self, _part: &str, _object: &mut Value, _old: &Value) {}

    /// What is wrong with a change to a named part.
    fn validate_part(&self, _part: &str, _object: &Value, _old: &Value) -> Errors {
        Errors::new()
    }

    /// What the client should know although the object is accepted.
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Whether a change from `old` counts as a new generation.
    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        changed_beyond_status(object, old)
    }

    /// The fields that selectors can name, besides name and namespace.
    fn selectable(&self) -> &'static [Selectable] {
        &[]
    }

    /// What a client is told that selects by another field.
    fn unselectable(&self, name: &str) -> String {
        format!("field label not supported: {name}")
    }

    /// The columns of its table, each with what fills it from the stored form of an object.
    fn cells(&self) -> &'static [Cell] {
        cells::PLAIN
    }

    /// What a printer may show or hide of an object's row.
    fn row_conditions(&self, _object: &Value) -> Vec<RowCondition> {
        Vec::new()
    }

    /// The status of an object that is a question, for a kind whose objects are, or why it is no
    /// question; such an object is answered and not stored.
    fn answer(&self, _asker: &Asker<'_>, _object: &Value) -> Option<Result<Value, Failure>> {
        None
    }

    /// The admission plugins that look at this kind, in order.
    fn admission(&self) -> &'static [Plugin] {
        &[]
    }

    /// How long an object is kept after it was last written, where it goes by itself.
    fn lifetime(&self) -> Option<SignedDuration> {
        None
    }

    /// What a client that deletes without a word about dependents should know.
    fn deletion_warning(&self) -> Option<&'static str> {
        None
    }

    /// Whether an object that says nothing of its name gets one all the same.
    fn gives_names(&self) -> bool {
        false
    }

    /// Whether a new object may bring its status along.
    fn keeps_status_at_creation(&self) -> bool {
        false
    }

    /// Whether something besides `metadata.finalizers` holds a deleted object.
    fn holds(&self, _object: &Value) -> bool {
        false
    }

    /// Marks an object as deleted in a way of its own; false where the usual marks are meant.
    fn mark_specially(&self, _object: &mut Value, _now: Timestamp) -> bool {
        false
    }

    /// Shows in the object that it is being deleted, beyond the metadata.
    fn mark_deleted(&self, _object: &mut Value) {}

    /// How long a deleted object may take to end, given what the client asked for.
    fn ending(&self, _object: &Value, _asked_seconds: Option<i64>) -> Ending {
        Ending::Now
    }
}

/// Whether anything but metadata and status differs.
#[must_use]
pub fn changed_beyond_status(object: &Value, old: &Value) -> bool {
    let content = |value: &Value| {
        let entries = value.as_object().into_iter().flatten();
        let content = entries.filter(|(key, _)| {
            !matches!(key.as_str(), "metadata" | "status" | "apiVersion" | "kind")
        });
        content.map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>()
    };
    content(object) != content(old)
}

/// Nothing special: plain data.
pub struct Plain;

impl Strategy for Plain {}
