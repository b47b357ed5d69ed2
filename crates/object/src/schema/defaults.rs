//! Filling in defaults.

use serde_json::Value;

use super::node::{Arena, Data, Id, Schema};

/// Fills in the defaults of `schema`. A null where null is no value is dropped or,
/// where there is a default, replaced by it.
pub fn default(schema: &Schema, value: &mut Value) {
    node(&schema.arena, schema.root, value, 0);
}

fn unwanted_null(data: &Data, value: &Value) -> bool {
    value.is_null() && !data.nullable
}

fn node(arena: &Arena, id: Id, value: &mut Value, depth: usize) {
    if depth >= super::DEPTH_MAX {
        return;
    }
    let data = arena.at(id);
    match value {
        Value::Object(map) => {
            map.retain(|key, value| {
                let Some(child) = data.child(key) else { return true };
                let child = arena.at(child);
                !unwanted_null(child, value) || child.default.is_some()
            });
            for (name, child) in data.fields.iter() {
                let child = arena.at(*child);
                let Some(default) = &child.default else { continue };
                match map.get_mut(&**name) {
                    Some(value) if unwanted_null(child, value) => *value = default.clone(),
                    Some(_) => {}
                    None => {
                        map.insert(name.to_string(), default.clone());
                    }
                }
            }
            for (key, value) in map.iter_mut() {
                let Some(child) = data.child(key) else { continue };
                replace_null(arena.at(child), value);
                node(arena, child, value, depth + 1);
            }
        }
        Value::Array(list) => {
            let Some(items) = data.items else { return };
            for value in list {
                replace_null(arena.at(items), value);
                node(arena, items, value, depth + 1);
            }
        }
        _ => {}
    }
}

fn replace_null(data: &Data, value: &mut Value) {
    if unwanted_null(data, value)
        && let Some(default) = &data.default
    {
        *value = default.clone();
    }
}
