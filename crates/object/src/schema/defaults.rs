//! Filling in defaults.

use serde_json::Value;

use super::node::{Arena, Data, Id, Schema};
use crate::json::text_bytes;

/// How many bytes of text defaults may add to one object. A default in the element of a list
/// counts for each element, so a small object can ask for any amount.
pub const DEFAULTS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The defaults of a schema would make an object too large.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the defaults of the schema would add more than {DEFAULTS_BYTES_MAX} bytes to the object: \
     give it fewer elements, or state the fields that have large defaults"
)]
pub struct DefaultsTooLarge;

/// Fills in the defaults of `schema`. A null where null is no value is dropped or,
/// where there is a default, replaced by it.
///
/// # Errors
/// When they would add more than [`DEFAULTS_BYTES_MAX`]; the object is then half filled in.
pub fn default(schema: &Schema, value: &mut Value) -> Result<(), DefaultsTooLarge> {
    let mut filler = Filler { arena: &schema.arena, left: DEFAULTS_BYTES_MAX };
    filler.node(schema.root, value, 0)
}

fn unwanted_null(data: &Data, value: &Value) -> bool {
    value.is_null() && !data.nullable
}

struct Filler<'a> {
    arena: &'a Arena,
    /// How many bytes may still be added.
    left: usize,
}

impl Filler<'_> {
    /// A copy of a default, if there is room for it.
    fn copy(&mut self, default: &Value) -> Result<Value, DefaultsTooLarge> {
        self.left = self.left.checked_sub(text_bytes(default)).ok_or(DefaultsTooLarge)?;
        Ok(default.clone())
    }

    fn node(&mut self, id: Id, value: &mut Value, depth: usize) -> Result<(), DefaultsTooLarge> {
        if depth >= super::DEPTH_MAX {
            return Ok(());
        }
        let arena = self.arena;
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
                        Some(value) if unwanted_null(child, value) => {
                            *value = self.copy(default)?
                        }
                        Some(_) => {}
                        None => {
                            map.insert(name.to_string(), self.copy(default)?);
                        }
                    }
                }
                for (key, value) in map.iter_mut() {
                    let Some(child) = data.child(key) else { continue };
                    self.replace_null(arena.at(child), value)?;
                    self.node(child, value, depth + 1)?;
                }
            }
            Value::Array(list) => {
                let Some(items) = data.items else { return Ok(()) };
                for value in list {
                    self.replace_null(arena.at(items), value)?;
                    self.node(items, value, depth + 1)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn replace_null(&mut self, data: &Data, value: &mut Value) -> Result<(), DefaultsTooLarge> {
        if unwanted_null(data, value)
            && let Some(default) = &data.default
        {
            *value = self.copy(default)?;
        }
        Ok(())
    }
}
