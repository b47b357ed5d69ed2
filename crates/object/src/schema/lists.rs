//! What must be unique in lists of type set and map, and which elements of two such lists are
//! the same.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::node::{Arena, Data, Id, ListType, Schema};
use super::trail::Trail;
use crate::field::{Error, Errors, Gathered, Path};
use crate::json::ByValue;

/// The duplicates in lists below `schema`.
pub(super) fn errors(schema: &Schema, value: &Value, base: &Path) -> Errors {
    let mut walk = Walk { arena: &schema.arena, base, errors: Gathered::default() };
    walk.node(schema.root, value, &Trail::ROOT);
    walk.errors.into_list()
}

struct Walk<'a> {
    arena: &'a Arena,
    base: &'a Path,
    errors: Gathered,
}

impl Walk<'_> {
    fn node(&mut self, id: Id, value: &Value, trail: &Trail<'_>) {
        let data = self.arena.at(id);
        if !data.below.keyed_lists || trail.too_deep() || self.errors.is_full() {
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
                        for index in repeated(list.iter().map(Identity::Whole)) {
                            if self.errors.is_full() {
                                return;
                            }
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
        for index in repeated(list.iter().map(|item| Identity::Keys(keys, item))) {
            if self.errors.is_full() {
                return;
            }
            let at = trail.index(index).path(self.base);
            self.errors.push(Error::duplicate(&at, shown(keys, &list[index])));
        }
    }
}

/// The keys that identify an element, as the message shows them.
fn shown(keys: &[Box<str>], item: &Value) -> Value {
    let stated = keys.iter().filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())));
    Value::Object(stated.collect::<Map<String, Value>>())
}

/// The index of the second of each element that is there more than once.
fn repeated<'d, 'v>(list: impl Iterator<Item = Identity<'d, 'v>>) -> Vec<usize> {
    let mut times: BTreeMap<Identity<'d, 'v>, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (index, identity) in list.enumerate() {
        let times = times.entry(identity).or_default();
        *times += 1;
        if *times == 2 {
            found.push(index);
        }
    }
    found
}

/// What tells an element of a list from the others.
#[derive(Debug, Clone, Copy)]
enum Identity<'d, 'v> {
    /// In a set: all of it.
    Whole(&'v Value),
    /// In a list of type map: what it has under these keys.
    Keys(&'d [Box<str>], &'v Value),
}

impl Ord for Identity<'_, '_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (keys, left, right) = match (self, other) {
            (Self::Keys(keys, left), Self::Keys(_, right)) => (keys, left, right),
            (
                Self::Whole(left) | Self::Keys(_, left),
                Self::Whole(right) | Self::Keys(_, right),
            ) => {
                return ByValue(left).cmp(&ByValue(right));
            }
        };
        for key in *keys {
            let (left, right) = (left.get(&**key), right.get(&**key));
            let order = left.map(ByValue).cmp(&right.map(ByValue));
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }
}

impl PartialOrd for Identity<'_, '_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Identity<'_, '_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Identity<'_, '_> {}

/// The elements of a list of type set or map by what identifies them, so that the elements of
/// another list find theirs without a search through all.
pub(super) struct Elements<'d, 'v> {
    data: &'d Data,
    list: &'v [Value],
    places: BTreeMap<Identity<'d, 'v>, usize>,
}

impl<'d, 'v> Elements<'d, 'v> {
    /// The elements of `list`, where it is a list and they have an identity.
    pub(super) fn of(data: &'d Data, list: &'v Value) -> Option<Self> {
        if !matches!(data.list_type, Some(ListType::Set | ListType::Map)) {
            return None;
        }
        let list = list.as_array()?;
        let mut elements = Self { data, list, places: BTreeMap::new() };
        for (index, item) in list.iter().enumerate() {
            if let Some(identity) = elements.identity(item) {
                elements.places.entry(identity).or_insert(index);
            }
        }
        Some(elements)
    }

    fn identity<'i>(&self, item: &'i Value) -> Option<Identity<'d, 'i>> {
        match self.data.list_type {
            Some(ListType::Map) => {
                item.is_object().then_some(Identity::Keys(&self.data.list_map_keys, item))
            }
            _ => Some(Identity::Whole(item)),
        }
    }

    /// Where the element stands that is the same as `item`.
    pub(super) fn place(&self, item: &Value) -> Option<usize> {
        self.places.get(&self.identity(item)?).copied()
    }

    /// The element that `item` continues: only lists of type map have elements that can change
    /// and stay the same element.
    pub(super) fn counterpart(&self, item: &Value) -> Option<&'v Value> {
        if self.data.list_type != Some(ListType::Map) {
            return None;
        }
        self.place(item).map(|place| &self.list[place])
    }
}
