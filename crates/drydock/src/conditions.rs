//! Conditions in the JSON of an object.

use jiff::Timestamp;
use object::condition;
use object::time::Time;
use serde_json::Value;

/// Sets a condition; its transition time moves only when its status changes.
pub(crate) fn set(conditions: &mut Value, new: &Value, now: Timestamp) {
    if !conditions.is_array() {
        *conditions = Value::Array(Vec::new());
    }
    if let Some(new) = new.as_object() {
        // The list is one now and the callers name the type, so nothing can be refused.
        let _ = condition::set_json(conditions, new, Time::from(now));
    }
}
