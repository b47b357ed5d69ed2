//! Tables: how a server shows objects to people, one row each.
//!
//! kubectl prints what the server sends as a `meta.k8s.io/v1` Table. This module
//! knows how a column of a custom resource becomes a cell, and how a table and its
//! rows look on the wire; which columns a kind has is said by the kind. The time is
//! an argument, and so is the function that writes an age.
//!
//! ```
//! use object::table::{Column, Include, Row, Table};
//! let columns = vec![
//!     Column::new("Name", "string", ".metadata.name").unwrap(),
//!     Column::new("Replicas", "integer", ".spec.replicas").unwrap(),
//! ];
//! let object = serde_json::json!({"metadata": {"name": "web"}, "spec": {"replicas": 3}});
//! let row = Row::of(&columns, &object, jiff::Timestamp::UNIX_EPOCH, &|secs| format!("{secs}s"));
//! assert_eq!(row.cells, ["web".into(), serde_json::json!(3)]);
//! let table = Table { columns: Some(columns), rows: vec![row], ..Table::default() };
//! assert_eq!(table.to_value(Include::None)["rows"][0]["object"], serde_json::Value::Null);
//! ```

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::json::quoted;
use crate::jsonpath::{JsonPath, Missing, text_of};

/// A column: its header, and where its value is found in an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The header.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub column_type: String,
    /// A finer type, such as `name` for the column that identifies the row.
    pub format: String,
    /// What the column says.
    pub description: String,
    /// Above 0, the column is shown only where there is room.
    pub priority: i32,
    /// Where the value is; nothing for a column whose cells come otherwise.
    pub json_path: Option<JsonPath>,
}

/// A column whose path cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unrecognized column definition {}", quoted(.path))]
pub struct BadColumn {
    /// The path.
    pub path: String,
    /// What is wrong with it.
    pub source: crate::jsonpath::ParseError,
}

impl Column {
    /// A column of a custom resource, described by its path until told otherwise.
    ///
    /// # Errors
    /// When the path cannot be understood.
    pub fn new(name: &str, column_type: &str, path: &str) -> Result<Self, BadColumn> {
        let json_path =
            JsonPath::column(path).map_err(|source| BadColumn { path: path.to_owned(), source })?;
        Ok(Self {
            name: name.to_owned(),
            column_type: column_type.to_owned(),
            format: String::new(),
            description: format!("Custom resource definition column (in JSONPath format): {path}"),
            priority: 0,
            json_path: Some(json_path),
        })
    }

    /// What the column shows of `object`: null where its path finds nothing or does
    /// not fit.
    #[must_use]
    pub fn cell(&self, object: &Value, now: Timestamp, age: &impl Fn(i64) -> String) -> Value {
        let Some(path) = &self.json_path else { return Value::Null };
        let found = path.find(object, Missing::Skip).unwrap_or_default();
        cell(&self.column_type, &found, now, age)
    }

    fn to_value(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.column_type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

/// The cell of a column of type `column_type` for what its path found. As upstream
/// has it, the first value counts; one that does not fit the type is null. A date
/// becomes what `age` makes of the seconds since.
#[must_use]
pub fn cell(
    column_type: &str,
    found: &[&Value],
    now: Timestamp,
    age: &impl Fn(i64) -> String,
) -> Value {
    let Some(&value) = found.first() else { return Value::Null };
    match (column_type, value) {
        ("string", Value::Null) => Value::from("<no value>"),
        ("string", value) => Value::from(text_of(value)),
        ("integer", Value::Number(number)) => {
            // A float loses its fraction; the cast stops at the ends of the range.
            let truncated = || number.as_f64().map(|float| float as i64);
            number.as_i64().or_else(truncated).map_or(Value::Null, Value::from)
        }
        ("number", Value::Number(number)) => number.as_f64().map_or(Value::Null, Value::from),
        ("boolean", Value::Bool(flag)) => Value::from(*flag),
        ("date", Value::String(text)) => Value::from(date_cell(text, now, age)),
        _ => Value::Null,
    }
}

/// How long ago an RFC 3339 time was, as `age` writes it: `<unknown>` for no time,
/// `<invalid>` for what is not a time.
#[must_use]
pub fn date_cell(text: &str, now: Timestamp, age: &impl Fn(i64) -> String) -> String {
    if text.is_empty() || text == "null" {
        return "<unknown>".to_owned();
    }
    match rfc3339(text) {
        None => "<invalid>".to_owned(),
        Some(time) if time.as_second() == GO_ZERO_TIME && time.subsec_nanosecond() == 0 => {
            "<unknown>".to_owned()
        }
        Some(time) => age(now.duration_since(time).as_secs()),
    }
}

/// The first second of year 1, which Go takes for no time.
const GO_ZERO_TIME: i64 = -62_135_596_800;

/// Reads RFC 3339 as strictly as Go does: jiff alone would take more.
fn rfc3339(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let zoned = match bytes.last()? {
        b'Z' => true,
        _ => {
            bytes.len() > 6
                && matches!(bytes[bytes.len() - 6], b'+' | b'-')
                && bytes[bytes.len() - 3] == b':'
        }
    };
    let shaped = zoned && bytes.len() >= 20 && bytes[4] == b'-' && bytes[10] == b'T';
    shaped.then(|| text.parse().ok())?
}

/// A state of a row, such as that its pod has completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowCondition {
    /// What kind of state, such as `Completed`.
    pub condition_type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
}

/// One object in a table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    /// A value for each column.
    pub cells: Vec<Value>,
    /// States that a printer may show or hide.
    pub conditions: Vec<RowCondition>,
    /// The object the row is about, whole.
    pub object: Value,
}

impl Row {
    /// The row of an object, each cell found by its column's path.
    #[must_use]
    pub fn of(
        columns: &[Column],
        object: &Value,
        now: Timestamp,
        age: &impl Fn(i64) -> String,
    ) -> Self {
        let cells = columns.iter().map(|column| column.cell(object, now, age)).collect();
        Self { cells, conditions: Vec::new(), object: object.clone() }
    }

    /// The row as it goes to a client.
    #[must_use]
    pub fn to_value(&self, include: Include) -> Value {
        let mut row = Map::new();
        row.insert("cells".to_owned(), Value::Array(self.cells.clone()));
        if !self.conditions.is_empty() {
            let conditions = self.conditions.iter().map(condition_value).collect();
            row.insert("conditions".to_owned(), conditions);
        }
        let object = match include {
            Include::Object => self.object.clone(),
            Include::Metadata => partial_object_metadata(&self.object),
            Include::None => Value::Null,
        };
        row.insert("object".to_owned(), object);
        Value::Object(row)
    }
}

fn condition_value(condition: &RowCondition) -> Value {
    let mut value = json!({"type": condition.condition_type, "status": condition.status});
    for (key, text) in [("reason", &condition.reason), ("message", &condition.message)] {
        if !text.is_empty() {
            value[key] = Value::from(text.as_str());
        }
    }
    value
}

/// What of each object goes with its row: the `includeObject` of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Include {
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
    /// Nothing.
    None,
}

impl Include {
    /// Reads the query parameter; empty is the default.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Metadata" => Some(Self::Metadata),
            "Object" => Some(Self::Object),
            "None" => Some(Self::None),
            _ => None,
        }
    }
}

/// The metadata of an object as an object of its own.
#[must_use]
pub fn partial_object_metadata(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": API_VERSION,
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

const API_VERSION: &str = "meta.k8s.io/v1";

/// A table of objects.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// The metadata of the list: revision, continue token, how many remain.
    pub metadata: Map<String, Value>,
    /// The columns; nothing where the client asked for no headers.
    pub columns: Option<Vec<Column>>,
    /// A row for each object.
    pub rows: Vec<Row>,
}

impl Table {
    /// The table as it goes to a client.
    #[must_use]
    pub fn to_value(&self, include: Include) -> Value {
        let columns = match &self.columns {
            Some(columns) => columns.iter().map(Column::to_value).collect(),
            None => Value::Null,
        };
        let rows: Value = self.rows.iter().map(|row| row.to_value(include)).collect();
        json!({
            "kind": "Table",
            "apiVersion": API_VERSION,
            "metadata": self.metadata,
            "columnDefinitions": columns,
            "rows": rows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2024-01-02T00:00:00Z".parse().unwrap()
    }

    fn age(seconds: i64) -> String {
        format!("{seconds}s")
    }

    #[test]
    fn a_cell_has_the_type_of_its_column_or_is_null() {
        let check = |column_type: &str, found: Value, shown: Value| {
            let cell = cell(column_type, &[&found], now(), &age);
            assert_eq!(cell, shown, "{column_type} {found}");
        };
        check("string", json!("a"), json!("a"));
        check("string", json!(3), json!("3"));
        check("string", json!(true), json!("true"));
        check("string", json!(2_000_000.0), json!("2e+06"));
        check("string", json!({"b": [1, "<"]}), json!("{\"b\":[1,\"\\u003c\"]}"));
        check("string", Value::Null, json!("<no value>"));
        check("integer", json!(3), json!(3));
        check("integer", json!(-3.9), json!(-3));
        check("integer", json!("3"), Value::Null);
        check("number", json!(3), json!(3.0));
        check("number", json!(0.5), json!(0.5));
        check("boolean", json!(true), json!(true));
        check("boolean", json!("true"), Value::Null);
        check("date", json!("2024-01-01T23:59:00Z"), json!("60s"));
        check("date", json!("2024-01-02T01:00:00.5+01:00"), json!("0s"));
        check("date", json!("2024-01-02T00:01:00Z"), json!("-60s"));
        check("date", json!(""), json!("<unknown>"));
        check("date", json!("0001-01-01T00:00:00Z"), json!("<unknown>"));
        check("date", json!("2024-01-02 00:00:00Z"), json!("<invalid>"));
        check("date", json!("yesterday"), json!("<invalid>"));
        check("date", json!(5), Value::Null);
        check("date", Value::Null, Value::Null);
        check("other", json!(5), Value::Null);
        assert_eq!(cell("string", &[], now(), &age), Value::Null);
        assert_eq!(cell("string", &[&json!("a"), &json!("b")], now(), &age), json!("a"));
    }

    #[test]
    fn a_column_that_finds_nothing_shows_null() {
        let check = |path: &str, shown: Value| {
            let column = Column::new("X", "string", path).unwrap();
            let object = json!({"spec": {"list": [{"a": 1}]}});
            assert_eq!(column.cell(&object, now(), &age), shown, "{path}");
        };
        check(".spec.gone.deeper", Value::Null);
        check(".spec.list[5]", Value::Null);
        check(".spec.list[*].a", json!("1"));
        check(".spec.list[?(@.a==1)].a", json!("1"));
        assert_eq!(
            Column::new("X", "string", ".spec[").unwrap_err().to_string(),
            "unrecognized column definition \".spec[\""
        );
    }

    #[test]
    fn a_table_looks_on_the_wire_as_upstream_s_does() {
        let column = Column::new("Name", "string", ".metadata.name").unwrap();
        let columns = vec![Column { format: "name".into(), priority: 1, ..column }];
        let object = json!({"kind": "X", "metadata": {"name": "a"}, "spec": {}});
        let mut row = Row::of(&columns, &object, now(), &age);
        row.conditions.push(RowCondition {
            condition_type: "Completed".into(),
            status: "True".into(),
            reason: "Succeeded".into(),
            message: String::new(),
        });
        let mut table = Table { columns: Some(columns), rows: vec![row], ..Table::default() };
        table.metadata.insert("resourceVersion".into(), json!("7"));
        assert_eq!(
            table.to_value(Include::Metadata),
            json!({
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": "7"},
                "columnDefinitions": [{
                    "name": "Name",
                    "type": "string",
                    "format": "name",
                    "description": "Custom resource definition column (in JSONPath format): .metadata.name",
                    "priority": 1,
                }],
                "rows": [{
                    "cells": ["a"],
                    "conditions": [{"type": "Completed", "status": "True", "reason": "Succeeded"}],
                    "object": {
                        "kind": "PartialObjectMetadata",
                        "apiVersion": "meta.k8s.io/v1",
                        "metadata": {"name": "a"},
                    },
                }],
            })
        );
        assert_eq!(table.to_value(Include::Object)["rows"][0]["object"], object);
        table.columns = None;
        assert_eq!(table.to_value(Include::None)["columnDefinitions"], Value::Null);
        assert_eq!(table.to_value(Include::None)["rows"][0]["object"], Value::Null);
    }

    #[test]
    fn what_goes_with_a_row_is_read_from_the_query() {
        let check =
            |text: &str, include: Option<Include>| assert_eq!(Include::parse(text), include);
        check("", Some(Include::Metadata));
        check("Metadata", Some(Include::Metadata));
        check("Object", Some(Include::Object));
        check("None", Some(Include::None));
        check("none", None);
    }
}
