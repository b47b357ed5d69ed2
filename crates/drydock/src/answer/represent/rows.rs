//! Tables: the columns of a kind and the row of an object.

use jiff::Timestamp;
use object::table::{Column, Include, Row, Table};
use object::time::human_duration;
use serde_json::{Map, Value};

use crate::kinds::{Found, Kind, Version, columns};

/// The columns of a kind's table.
fn columns_of(kind: &Kind, version: &Version) -> Vec<Column> {
    if let Some(columns) = kind.strategy.columns() {
        return columns;
    }
    if version.columns.is_empty() {
        let second = if kind.is_custom() { columns::age() } else { columns::created_at() };
        return vec![columns::name(), second];
    }
    version.columns.clone()
}

/// A table of these rows.
pub(super) fn table(
    found: &Found,
    metadata: Map<String, Value>,
    rows: Vec<Row>,
    include: Include,
) -> Value {
    let columns = Some(columns_of(&found.kind, found.version()));
    Table { metadata, columns, rows }.to_value(include)
}

/// The row of an object.
pub(super) fn row(found: &Found, object: Value, now: Timestamp) -> Row {
    let (kind, version) = (&found.kind, found.version());
    let cells = if kind.strategy.columns().is_some() {
        kind.strategy.row(&object, now)
    } else if version.columns.is_empty() {
        let second = if kind.is_custom() {
            columns::age_cell(&object, now)
        } else {
            object["metadata"]["creationTimestamp"].clone()
        };
        vec![object["metadata"]["name"].clone(), second]
    } else {
        let cell = |column: &Column| column.cell(&object, now, &human_duration);
        version.columns.iter().map(cell).collect()
    };
    let conditions = kind.strategy.row_conditions(&object);
    Row { cells, conditions, object }
}
