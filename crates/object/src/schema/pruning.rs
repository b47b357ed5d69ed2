//! Dropping the fields that a schema does not know.

use serde_json::{Map, Value};

use super::meta;
use super::node::{Arena, Data, Id, Schema, Values};
use super::trail::Trail;
use crate::field::Texts;

/// Drops what `schema` does not know and says what that was: paths such as
/// `spec.foo` and `spec.containers[0].bar`, sorted, as strict decoding names them. Beyond a
/// quarter of a megabyte of text no more are said, but all are dropped.
///
/// The metadata of a custom object, and of each resource embedded in it, keeps the
/// fields that every object's metadata has.
pub fn prune(schema: &Schema, value: &mut Value) -> Vec<String> {
    let mut walk = Walk { arena: &schema.arena, unknown: Texts::at_most(usize::MAX) };
    walk.known(Some(schema.root), value, &Trail::ROOT);
    let mut unknown = walk.unknown.into_list();
    unknown.sort();
    unknown
}

struct Walk<'a> {
    arena: &'a Arena,
    unknown: Texts,
}

impl Walk<'_> {
    fn known(&mut self, id: Option<Id>, value: &mut Value, trail: &Trail<'_>) {
        if trail.too_deep() {
            return;
        }
        let data = id.map(|id| self.arena.at(id));
        if let Some(data) = data.filter(|data| data.preserve) {
            self.preserved(data, value, trail);
            return;
        }
        match value {
            Value::Object(map) => self.object(data, map, trail),
            Value::Array(list) => {
                let items = data.and_then(|data| data.items);
                for (index, value) in list.iter_mut().enumerate() {
                    if matches!(value, Value::Object(_) | Value::Array(_)) {
                        self.known(items, value, &trail.index(index));
                    }
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, data: Option<&Data>, map: &mut Map<String, Value>, trail: &Trail<'_>) {
        let Some(data) = data else {
            for key in std::mem::take(map).keys() {
                self.unknown.add(|| trail.field(key).strict_path());
            }
            return;
        };
        if data.embedded {
            self.metadata(map, trail);
        }
        map.retain(|key, value| {
            if data.embedded && is_meta(key) {
                return true;
            }
            if let Some(id) = data.field(key) {
                if matches!(value, Value::Object(_) | Value::Array(_)) {
                    self.known(Some(id), value, &trail.field(key));
                }
                return true;
            }
            if data.values == Values::Unstated {
                self.unknown.add(|| trail.field(key).strict_path());
                return false;
            }
            if matches!(value, Value::Object(_) | Value::Array(_)) {
                self.known(data.value_id(), value, &trail.key(key));
            }
            true
        });
    }

    /// Below a node that keeps unknown fields, what is declared is pruned again.
    fn preserved(&mut self, data: &Data, value: &mut Value, trail: &Trail<'_>) {
        if trail.too_deep() {
            return;
        }
        match value {
            Value::Object(map) => {
                if data.embedded {
                    self.metadata(map, trail);
                }
                for (key, value) in map.iter_mut() {
                    if data.embedded && is_meta(key) {
                        continue;
                    }
                    if let Some(id) = data.field(key) {
                        self.known(Some(id), value, &trail.field(key));
                    } else if data.values != Values::Unstated {
                        self.known(data.value_id(), value, &trail.key(key));
                    }
                }
            }
            Value::Array(list) => {
                let Some(items) = data.items else { return };
                let items = self.arena.at(items);
                for (index, value) in list.iter_mut().enumerate() {
                    self.preserved(items, value, &trail.index(index));
                }
            }
            _ => {}
        }
    }

    fn metadata(&mut self, map: &mut Map<String, Value>, trail: &Trail<'_>) {
        let Some(metadata) = map.get_mut("metadata") else { return };
        let schema = meta::object_meta();
        let unknown = std::mem::replace(&mut self.unknown, Texts::at_most(0));
        let mut walk = Walk { arena: &schema.arena, unknown };
        walk.known(Some(schema.root), metadata, &trail.field("metadata"));
        self.unknown = walk.unknown;
    }
}

fn is_meta(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}
