//! What strict decoding into Go structs says of a document, and what Go's decoder makes of a
//! document in which keys repeat.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::node::{Arena, Data, Id, Schema, Values};
use super::trail::Trail;
use crate::field::Texts;
use crate::json::{Document, quoted};

/// How many complaints are told at most, as upstream's strict decoder does.
const STRAYS_MAX: usize = 100;

/// A document read into the native type that a schema describes.
#[derive(Debug, Clone, PartialEq)]
pub struct Strictly {
    /// The object. Of a key that comes twice, maps and structs are merged, other values replaced.
    pub value: Value,
    /// The unknown and the repeated fields in the order of the document, each once.
    pub strays: Vec<String>,
}

/// Reads a document strictly. What is unknown stays in the value; nothing under it is told.
#[must_use]
pub fn read_strictly(schema: &Schema, document: &Document) -> Strictly {
    let mut walk = Walk { arena: &schema.arena, strays: Texts::at_most(STRAYS_MAX) };
    let mut value = Value::Null;
    walk.node(Some(schema.root), document, &mut value, &Trail::ROOT);
    Strictly { value, strays: walk.strays.into_list() }
}

struct Walk<'a> {
    arena: &'a Arena,
    strays: Texts,
}

impl Walk<'_> {
    fn node(&mut self, id: Option<Id>, document: &Document, into: &mut Value, trail: &Trail<'_>) {
        let data = id.map(|id| self.arena.at(id));
        match document {
            Document::Scalar(value) => into.clone_from(value),
            Document::List(items) => {
                let element = data.and_then(|data| data.items);
                let mut list = vec![Value::Null; items.len()];
                for (index, (item, value)) in items.iter().zip(&mut list).enumerate() {
                    self.node(element, item, value, &trail.index(index));
                }
                *into = Value::Array(list);
            }
            Document::Map(fields) => {
                let known =
                    data.filter(|data| !data.fields.is_empty() || data.value_id().is_some());
                if known.is_none() || !into.is_object() {
                    *into = Value::Object(Map::new());
                }
                let Some(map) = into.as_object_mut() else { return };
                self.map(data, fields, map, trail);
            }
        }
    }

    fn map(
        &mut self,
        data: Option<&Data>,
        fields: &[(String, Document)],
        into: &mut Map<String, Value>,
        trail: &Trail<'_>,
    ) {
        let mut earlier = BTreeSet::new();
        for (key, document) in fields {
            let repeats = !earlier.insert(key.as_str());
            let field = data.and_then(|data| data.field(key));
            let value = data.and_then(Data::value_id);
            let at = if field.is_some() { trail.field(key) } else { trail.key(key) };
            let unknown = data.is_some_and(|data| {
                field.is_none() && data.values == Values::Unstated && !data.preserve
            });
            if unknown {
                self.tell("unknown", &trail.field(key));
                into.insert(key.clone(), Value::Null);
                continue;
            }
            if repeats {
                self.tell("duplicate", &at);
            }
            let place = into.entry(key.clone()).or_insert(Value::Null);
            if field.is_none() {
                // An entry of a map is decoded afresh.
                *place = Value::Null;
            }
            self.node(field.or(value), document, place, &at);
        }
    }

    fn tell(&mut self, what: &str, at: &Trail<'_>) {
        self.strays.add(|| format!("{what} field {}", quoted(&at.strict_path())));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::{Limits, document};
    use crate::schema::Definitions;

    fn schema() -> Schema {
        let text = json!({"type": "string"});
        let document = json!({"components": {"schemas": {"Thing": {"type": "object", "properties": {
            "data": {"type": "object", "additionalProperties": text},
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}, "text": text}},
            "parts": {"type": "array", "items":
                {"type": "object", "properties": {"name": text}}},
        }}}}});
        Definitions::from_openapi([&document]).unwrap().schema("Thing").unwrap()
    }

    fn check(body: &str, strays: &[&str], value: Value) {
        let read = document(body.as_bytes(), Limits::default()).unwrap();
        let strictly = read_strictly(&schema(), &read);
        assert_eq!(strictly.strays, strays, "{body}");
        assert_eq!(strictly.value, value, "{body}");
    }

    #[test]
    fn strays_are_told_once_in_the_order_of_the_document() {
        check(r#"{"spec": {"size": 1}}"#, &[], json!({"spec": {"size": 1}}));
        check(
            r#"{"z": {"a": 1, "a": 2}, "a": 1, "z": 1}"#,
            &["unknown field \"z\"", "unknown field \"a\""],
            json!({"z": null, "a": null}),
        );
        check(
            r#"{"parts": [{"nom": "x"}, {"name": "a", "name": "b"}]}"#,
            &["unknown field \"parts[0].nom\"", "duplicate field \"parts[1].name\""],
            json!({"parts": [{"nom": null}, {"name": "b"}]}),
        );
    }

    #[test]
    fn maps_and_structs_that_come_twice_are_merged_and_other_values_replaced() {
        check(
            r#"{"data": {"a": "b", "c": "1"}, "data": {"c": "d"}}"#,
            &["duplicate field \"data\""],
            json!({"data": {"a": "b", "c": "d"}}),
        );
        check(
            r#"{"spec": {"size": 1, "text": "x"}, "spec": {"size": 2}}"#,
            &["duplicate field \"spec\""],
            json!({"spec": {"size": 2, "text": "x"}}),
        );
        check(
            r#"{"parts": [{"name": "a"}, {}], "parts": [{"name": "b"}]}"#,
            &["duplicate field \"parts\""],
            json!({"parts": [{"name": "b"}]}),
        );
    }
}
