//! Columns of tables, in the few forms that strategies need.

use jiff::Timestamp;
use object::table::{Column, date_cell};
use object::time::human_duration;
use serde_json::Value;

/// A column whose cells a strategy computes.
#[must_use]
pub fn column(name: &str, column_type: &str) -> Column {
    Column {
        name: name.to_owned(),
        column_type: column_type.to_owned(),
        format: String::new(),
        description: String::new(),
        priority: 0,
        json_path: None,
    }
}

/// A column that is shown only where there is room.
#[must_use]
pub fn wide(name: &str, column_type: &str) -> Column {
    Column { priority: 1, ..column(name, column_type) }
}

/// The column that identifies the row.
#[must_use]
pub fn name() -> Column {
    Column { format: "name".to_owned(), ..column("Name", "string") }
}

/// How old the object is.
#[must_use]
pub fn age() -> Column {
    column("Age", "string")
}

/// When the object was created, for kinds without a table of their own.
#[must_use]
pub fn created_at() -> Column {
    column("Created At", "date")
}

/// The cell of the age column.
#[must_use]
pub fn age_cell(object: &Value, now: Timestamp) -> Value {
    let created = object["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
    date_cell(created, now, &human_duration).into()
}
