//! Conditions: what an object's status says of it, and since when.
//!
//! The time of the last transition moves when the status of a condition does, and
//! only then, so that "not ready for ten minutes" can be told from "not ready, for
//! another reason, since now". That rule is here and nowhere else: for [`Condition`], which
//! has the fields of every native kind, and for JSON where fields of other kinds are kept.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::time::Time;

#[cfg(test)]
mod tests;

/// One condition in the status of any kind. The kinds differ in the times they keep;
/// those that a kind does not have stay `None` and are not written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// What the condition is about, as in `Ready`; unique in a list.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, as one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When `status` last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Pods and jobs: when it was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// Nodes: when the kubelet last reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,
    /// Deployments: when anything but the message last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// Generation of the object that the condition speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// Whether the status is `True`.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

/// The condition of type `name`, if the list has one.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], name: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.r#type == name)
}

/// Removes the condition of a type; says whether there was one.
pub fn remove(conditions: &mut Vec<Condition>, name: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|own| own.r#type != name);
    conditions.len() != before
}

/// Puts `new` in the place of the condition of its type, or at the end, and says whether
/// the list differs from before. Where the status changes, or the condition is new, the
/// transition is at the condition's own time or, where it has none, at `now`; otherwise
/// the time stays what it was.
pub fn set(conditions: &mut Vec<Condition>, mut new: Condition, now: Time) -> bool {
    let Some(own) = conditions.iter_mut().find(|own| own.r#type == new.r#type) else {
        new.last_transition_time = new.last_transition_time.or(Some(now));
        conditions.push(new);
        return true;
    };
    new.last_transition_time = transition(own, &new, now);
    let changed = *own != new;
    *own = new;
    changed
}

/// The same for conditions whose words follow from status and reason, as those of a
/// deployment: one that has both already stays as it is, and another moves to the end.
pub fn set_unless_same_reason(
    conditions: &mut Vec<Condition>,
    mut new: Condition,
    now: Time,
) -> bool {
    match find(conditions, &new.r#type) {
        Some(own) if own.status == new.status && own.reason == new.reason => return false,
        Some(own) => new.last_transition_time = transition(own, &new, now),
        None => new.last_transition_time = new.last_transition_time.or(Some(now)),
    }
    remove(conditions, &new.r#type);
    conditions.push(new);
    true
}

/// When the status of `new`, which takes the place of `own`, last changed.
fn transition(own: &Condition, new: &Condition, now: Time) -> Option<Time> {
    let kept = own.last_transition_time.filter(|_| own.status == new.status);
    kept.or(new.last_transition_time).or(Some(now))
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
