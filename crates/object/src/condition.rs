//! Conditions: what an object's status says of it, and since when.
//!
//! The time of the last transition moves when the status of a condition does, and
//! only then, so that "not ready for ten minutes" can be told from "not ready, for
//! another reason, since now". The functions work on [`Condition`] as most resources
//! have it, and on JSON for those with further fields, as pods and nodes have.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::time::Time;

#[cfg(test)]
mod tests;

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody can tell.
    #[default]
    Unknown,
}

/// One condition: `metav1.Condition`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What is judged, such as `Ready`; unique in a list.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: Status,
    /// The generation that was judged.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// When the status last changed.
    pub last_transition_time: Time,
    /// Why, in one word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The condition of a type.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Whether the condition of a type is there and true.
#[must_use]
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == Status::True)
}

/// Sets a condition and says whether anything changed. Where the status changes, or
/// the condition is new, the transition is at the condition's own time or, if that is
/// zero, at `now`; otherwise the time stays what it was.
pub fn set(conditions: &mut Vec<Condition>, mut new: Condition, now: Time) -> bool {
    if new.last_transition_time.is_zero() {
        new.last_transition_time = now;
    }
    let Some(own) = conditions.iter_mut().find(|own| own.kind == new.kind) else {
        conditions.push(new);
        return true;
    };
    if own.status == new.status {
        new.last_transition_time = own.last_transition_time;
    }
    let changed = *own != new;
    *own = new;
    changed
}

/// Removes the condition of a type; says whether there was one.
pub fn remove(conditions: &mut Vec<Condition>, kind: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|own| own.kind != kind);
    conditions.len() != before
}

/// The condition of a type in a JSON list of conditions.
#[must_use]
pub fn find_json<'a>(conditions: &'a Value, kind: &str) -> Option<&'a Map<String, Value>> {
    let mut objects = conditions.as_array()?.iter().filter_map(Value::as_object);
    objects.find(|condition| text(condition, "type") == kind)
}

/// The status of the condition of a type in a JSON list of conditions.
#[must_use]
pub fn status_json<'a>(conditions: &'a Value, kind: &str) -> Option<&'a str> {
    find_json(conditions, kind)?.get("status")?.as_str()
}

/// Why a condition cannot be set in a JSON value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// The conditions are not a list.
    #[error("conditions must be a list, not {0}")]
    NotAList(&'static str),
    /// The new condition has no type.
    #[error("a condition needs a type")]
    NoType,
}

/// Sets a condition in a JSON list, which may be `null`, and says whether anything
/// changed. Fields that `new` does not have keep their value; the time of the last
/// transition follows the rule of [`set`].
///
/// # Errors
/// When `conditions` is neither a list nor `null`, or `new` has no `type`.
pub fn set_json(
    conditions: &mut Value,
    new: &Map<String, Value>,
    now: Time,
) -> Result<bool, ConditionError> {
    let kind = text(new, "type");
    if kind.is_empty() {
        return Err(ConditionError::NoType);
    }
    if conditions.is_null() {
        *conditions = Value::Array(Vec::new());
    }
    let name = kind_name(conditions);
    let list = conditions.as_array_mut().ok_or(ConditionError::NotAList(name))?;
    let mut objects = list.iter_mut().filter_map(Value::as_object_mut);
    let given = new.get(TRANSITION).filter(|time| !time.is_null());
    let transition = given.cloned().unwrap_or_else(|| Value::String(now.to_string()));
    let Some(own) = objects.find(|own| text(own, "type") == kind) else {
        let mut added = new.clone();
        added.insert(TRANSITION.to_owned(), transition);
        list.push(Value::Object(added));
        return Ok(true);
    };
    let before = own.clone();
    if text(own, "status") != text(new, "status") {
        own.insert(TRANSITION.to_owned(), transition);
    }
    for (field, value) in new.iter().filter(|(field, _)| *field != TRANSITION) {
        own.insert(field.clone(), value.clone());
    }
    Ok(*own != before)
}

const TRANSITION: &str = "lastTransitionTime";

fn text<'a>(object: &'a Map<String, Value>, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or("")
}

fn kind_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
