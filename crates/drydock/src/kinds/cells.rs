//! Tables as data: the columns of a kind beside the functions that fill them.

use jiff::Timestamp;
use object::selector::label::LabelSelector;
use object::table::{Column, date_cell};
use object::time::human_duration;
use serde_json::{Map, Value};

use super::fields::{list, text};

/// What fills a column.
pub(crate) type Fill = fn(&Value, Timestamp) -> Value;

/// A column and what fills it.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    name: &'static str,
    column_type: &'static str,
    format: &'static str,
    priority: i32,
    fill: Fill,
}

/// A column that is always shown.
pub(crate) const fn cell(name: &'static str, column_type: &'static str, fill: Fill) -> Cell {
    Cell { name, column_type, format: "", priority: 0, fill }
}

/// A column that is shown only where there is room.
pub(crate) const fn wide(name: &'static str, column_type: &'static str, fill: Fill) -> Cell {
    Cell { name, column_type, format: "", priority: 1, fill }
}

/// A column whose cells name an object.
pub(crate) const fn naming(name: &'static str, priority: i32, fill: Fill) -> Cell {
    Cell { name, column_type: "string", format: "name", priority, fill }
}

/// The column that identifies the row.
pub(crate) const NAME: Cell = naming("Name", 0, |object, _| name(object));

/// How old the object is.
pub(crate) const AGE: Cell =
    cell("Age", "string", |object, now| since(created(object), now).into());

/// The table of a kind that brings none of its own.
pub(crate) const PLAIN: &[Cell] =
    &[NAME, cell("Created At", "date", |object, _| created(object).clone())];

fn created(object: &Value) -> &Value {
    &object["metadata"]["creationTimestamp"]
}

/// The columns of a table.
pub(crate) fn columns_of(cells: &[Cell]) -> Vec<Column> {
    cells.iter().map(Cell::column).collect()
}

impl Cell {
    /// The column, which takes its cells from elsewhere.
    pub(crate) fn column(&self) -> Column {
        Column {
            name: self.name.to_owned(),
            column_type: self.column_type.to_owned(),
            format: self.format.to_owned(),
            description: String::new(),
            priority: self.priority,
            json_path: None,
        }
    }
}

/// The cells of an object.
pub(crate) fn row_of(cells: &[Cell], object: &Value, now: Timestamp) -> Vec<Value> {
    cells.iter().map(|cell| (cell.fill)(object, now)).collect()
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> Value {
    text(&object["metadata"], "name").into()
}

/// The whole number at a place; nothing counts as zero.
pub(crate) fn int(value: &Value) -> Value {
    value.as_i64().unwrap_or(0).into()
}

/// The text at a place, or what stands for none.
pub(crate) fn text_or(value: &Value, none: &str) -> Value {
    value.as_str().unwrap_or(none).into()
}

/// The flag at a place.
pub(crate) fn flag_or(value: &Value, none: bool) -> Value {
    value.as_bool().unwrap_or(none).into()
}

/// How long ago a time was.
pub(crate) fn since(value: &Value, now: Timestamp) -> String {
    date_cell(value.as_str().unwrap_or_default(), now, &human_duration)
}

/// Labels as `a=b,c=d`.
pub(crate) fn labels(value: &Value) -> String {
    let labels = value.as_object().filter(|labels| !labels.is_empty());
    labels.map_or_else(|| "<none>".to_owned(), pairs)
}

fn pairs(labels: &Map<String, Value>) -> String {
    let pairs =
        labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    pairs.collect::<Vec<_>>().join(",")
}

/// A label selector as people write it.
pub(crate) fn selector(value: &Value) -> String {
    if value.is_null() {
        return "<none>".to_owned();
    }
    let selector = serde_json::from_value::<LabelSelector>(value.clone()).ok();
    let shown = selector.and_then(|selector| selector.to_selector().ok());
    let shown = shown.map(|selector| selector.to_string()).unwrap_or_default();
    if shown.is_empty() { "<none>".to_owned() } else { shown }
}

/// The names of a template's containers.
pub(crate) fn container_names(template: &Value) -> Value {
    joined(&template["spec"], "name")
}

/// The images of a template's containers.
pub(crate) fn container_images(template: &Value) -> Value {
    joined(&template["spec"], "image")
}

fn joined(spec: &Value, key: &str) -> Value {
    let parts = list(spec, "containers").iter().map(|container| text(container, key));
    parts.collect::<Vec<_>>().join(",").into()
}

/// The first three, and how many more there are.
pub(crate) fn first_three(all: &[String], none: &str) -> Value {
    const SHOWN_MAX: usize = 3;
    if all.is_empty() {
        return none.into();
    }
    let shown = all[..all.len().min(SHOWN_MAX)].join(",");
    if all.len() > SHOWN_MAX {
        return format!("{shown} + {} more...", all.len() - SHOWN_MAX).into();
    }
    shown.into()
}
