//! Tables: the columns of a kind and the row of an object.

use jiff::Timestamp;
use object::table::{Column, Include, Row, Table};
use object::time::human_duration;
use serde_json::{Map, Value};

use crate::answer::listing::Fields;
use crate::kinds::cells::{columns_of, row_of};
use crate::kinds::{Found, Kind, Version};

/// The columns of a kind's table: the definition's, or the strategy's.
fn columns(kind: &Kind, version: &Version) -> Vec<Column> {
    if kind.is_custom() { version.columns.clone() } else { columns_of(kind.strategy.cells()) }
}

/// What a table says beside its rows.
pub(super) fn fields(found: &Found, metadata: Map<String, Value>) -> Fields {
    let mut empty = table(found, metadata, Vec::new(), Include::None);
    ["kind", "apiVersion", "metadata", "columnDefinitions"]
        .map(|name| (name, empty[name].take()))
        .into()
}

/// A table of these rows.
pub(super) fn table(
    found: &Found,
    metadata: Map<String, Value>,
    rows: Vec<Row>,
    include: Include,
) -> Value {
    let columns = Some(columns(&found.kind, found.version()));
    Table { metadata, columns, rows }.to_value(include)
}

/// The row of an object.
pub(super) fn row(found: &Found, object: Value, now: Timestamp) -> Row {
    let (kind, version) = (&found.kind, found.version());
    let cells = if kind.is_custom() {
        let cell = |column: &Column| column.cell(&object, now, &human_duration);
        version.columns.iter().map(cell).collect()
    } else if let Some(conversion) = version.conversion {
        let mut stored = object.clone();
        (conversion.to_stored)(&mut stored);
        row_of(kind.strategy.cells(), &stored, now)
    } else {
        row_of(kind.strategy.cells(), &object, now)
    };
    let conditions = kind.strategy.row_conditions(&object);
    Row { cells, conditions, object }
}
