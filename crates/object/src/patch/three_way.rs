//! Three-way patches: what `apply` sends.
//!
//! From the object as it was last applied, as it is wanted now, and as it is: set
//! what is wanted, delete what was applied before and is wanted no more, and leave
//! alone what nobody named, such as fields that controllers fill in.

use serde_json::{Map, Value};

use super::strategic::{Mode, PatchSchema, Scope, conflicts, diff_maps, merge_map};
use super::{PatchError, merge};

/// What to do where someone else changed a field that the patch changes too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnConflict {
    /// Change it; what `kubectl apply` does.
    Overwrite,
    /// Give up.
    Refuse,
}

/// Why there is no three-way patch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThreeWayError {
    /// One of the documents cannot be compared with another.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// Someone else changed what the patch changes.
    #[error("patch:\n{patch}\nconflicts with changes made from original to current:\n{changed}\n")]
    Conflict {
        /// The patch, as JSON.
        patch: String,
        /// What the other changed, as JSON.
        changed: String,
    },
}

/// The strategic merge patch that takes `current` to where `modified` wants it.
/// `original` is empty where nothing was applied before.
///
/// # Errors
/// When the documents do not fit the schema, or on a conflict that is to be refused.
pub fn strategic(
    original: &Map<String, Value>,
    modified: &Map<String, Value>,
    current: &Map<String, Value>,
    schema: &impl PatchSchema,
    on_conflict: OnConflict,
) -> Result<Map<String, Value>, ThreeWayError> {
    let changes = diff_maps(current, modified, schema, Scope::CHANGES)?;
    let deletions = diff_maps(original, modified, schema, Scope::DELETIONS)?;
    let patch = merge_map(deletions, changes, schema, Mode::Combine)?;
    if on_conflict == OnConflict::Refuse {
        let changed = diff_maps(original, current, schema, Scope::CONTENT)?;
        if conflicts(&patch, &changed, schema)? {
            return Err(conflict(&patch, &changed));
        }
    }
    Ok(patch)
}

/// The JSON merge patch that takes `current` to where `modified` wants it, for
/// kinds without merge keys.
///
/// # Errors
/// When what is to be set and what is to be deleted contradict each other.
pub fn json_merge(
    original: &Map<String, Value>,
    modified: &Map<String, Value>,
    current: &Map<String, Value>,
) -> Result<Map<String, Value>, ThreeWayError> {
    let changes = half(merge::diff_maps(current, modified), Half::Changes);
    let deletions = half(merge::diff_maps(original, modified), Half::Deletions);
    if contradict(&changes, &deletions) {
        return Err(conflict(&changes, &deletions));
    }
    let mut patch = deletions;
    merge::merge(&mut patch, changes);
    Ok(patch)
}

fn conflict(patch: &Map<String, Value>, changed: &Map<String, Value>) -> ThreeWayError {
    let text = |fields: &Map<String, Value>| Value::Object(fields.clone()).to_string();
    ThreeWayError::Conflict { patch: text(patch), changed: text(changed) }
}

/// The half of a merge patch that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    /// What is not null; a map that is wanted empty counts.
    Changes,
    /// The nulls.
    Deletions,
}

/// One half of the patch, without maps that have nothing of it.
fn half(patch: Map<String, Value>, wanted: Half) -> Map<String, Value> {
    let kept = |(key, field): (String, Value)| match field {
        Value::Object(fields) if fields.is_empty() => {
            (wanted == Half::Changes).then_some((key, Value::Object(fields)))
        }
        Value::Object(fields) => {
            let fields = half(fields, wanted);
            (!fields.is_empty()).then_some((key, Value::Object(fields)))
        }
        field => (field.is_null() == (wanted == Half::Deletions)).then_some((key, field)),
    };
    patch.into_iter().filter_map(kept).collect()
}

/// Whether the two say different things about one place.
fn contradict(left: &Map<String, Value>, right: &Map<String, Value>) -> bool {
    left.iter().any(|(key, left)| match (left, right.get(key)) {
        (_, None) => false,
        (Value::Object(left), Some(Value::Object(right))) => contradict(left, right),
        (left, Some(right)) => left != right,
    })
}

#[cfg(test)]
mod tests;
