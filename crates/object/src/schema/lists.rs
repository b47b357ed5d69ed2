//! What must be unique in lists of type set and map.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::node::{Arena, Id, ListType, Schema};
use super::trail::Trail;
use crate::field::{Error, Errors, Path};

/// Lists up to this length are compared element by element, without a copy.
const PAIRWISE_MAX: usize = 16;

/// The duplicates in lists below `schema`.
pub(super) fn errors(schema: &Schema, value: &Value, base: &Path) -> Errors {
    let mut walk = Walk { arena: &schema.arena, base, errors: Errors::new() };
    walk.node(schema.root, value, &Trail::ROOT);
    walk.errors
}

struct Walk<'a> {
    arena: &'a Arena,
    base: &'a Path,
    errors: Errors,
}

impl Walk<'_> {
    fn node(&mut self, id: Id, value: &Value, trail: &Trail<'_>) {
        let data = self.arena.at(id);
        if !data.below.keyed_lists || trail.too_deep() {
            return;
        }
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    if let Some(id) = data.field(key) {
                        self.node(id, value, &trail.field(key));
                    } else if let Some(id) = data.value_id() {
                        self.node(id, value, &trail.key(key));
                    }
                }
            }
            Value::Array(list) => {
                match data.list_type {
                    Some(ListType::Set) => {
                        for index in repeated(list) {
                            let at = trail.index(index).path(self.base);
                            self.errors.push(Error::duplicate(&at, list[index].clone()));
                        }
                    }
                    Some(ListType::Map) => self.keyed(&data.list_map_keys, list, trail),
                    Some(ListType::Atomic) | None => {}
                }
                if let Some(items) = data.items {
                    for (index, value) in list.iter().enumerate() {
                        self.node(items, value, &trail.index(index));
                    }
                }
            }
            _ => {}
        }
    }

    fn keyed(&mut self, keys: &[Box<str>], list: &[Value], trail: &Trail<'_>) {
        let odd = list.iter().position(|item| !matches!(item, Value::Object(_) | Value::Null));
        if let Some(index) = odd {
            let at = trail.index(index).path(self.base);
            let why = "must be an object for an array of list-type map";
            self.errors.push(Error::invalid(&at, list[index].clone(), why));
            return;
        }
        if list.len() <= 1 {
            return;
        }
        let repeats = if list.len() <= PAIRWISE_MAX {
            second_of_each(list.len(), |a, b| {
                keys.iter().all(|key| list[a].get(&**key) == list[b].get(&**key))
            })
        } else {
            let identities: Vec<Value> = list.iter().map(|item| identity(keys, item)).collect();
            repeated(&identities)
        };
        for index in repeats {
            let at = trail.index(index).path(self.base);
            self.errors.push(Error::duplicate(&at, identity(keys, &list[index])));
        }
    }
}

/// The keys that identify an element, as the message shows them.
fn identity(keys: &[Box<str>], item: &Value) -> Value {
    let stated = keys.iter().filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())));
    Value::Object(stated.collect::<Map<String, Value>>())
}

/// The index of the second of each value that is there more than once.
fn repeated(list: &[Value]) -> Vec<usize> {
    if list.len() <= PAIRWISE_MAX {
        return second_of_each(list.len(), |a, b| list[a] == list[b]);
    }
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let times = times.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            found.push(index);
        }
    }
    found
}

fn second_of_each(count: usize, same: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    (1..count)
        .filter(|&index| (0..index).filter(|&before| same(before, index)).count() == 1)
        .collect()
}
