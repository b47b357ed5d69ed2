//! How large a value is, by its parts: what a rule selects is not charged for what stands beside
//! it.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use super::super::super::node::{Arena, Id, Kind};
use super::super::super::typing::escape;

/// Bytes of text that cost as much as one value where they are looked at one by one.
const READ_BYTES_PER_STEP: u64 = 10;

/// The same where they are hashed.
const HASHED_BYTES_PER_STEP: u64 = 64;

/// The same where they are copied or counted.
const COPIED_BYTES_PER_STEP: u64 = 256;

/// How large a value is, at most.
#[derive(Clone)]
pub(in super::super) struct Extent {
    /// All values in it, itself included.
    values: u64,
    /// The bytes of all texts in it, and of its keys.
    pub(super) bytes: u64,
    /// The bytes of the text that it is itself.
    text: u64,
    /// How many elements or entries it has itself.
    pub(super) length: u64,
    /// The bytes of the longest key in it.
    key: u64,
    /// Whether it may be a number with a fraction.
    pub(super) fraction: bool,
    parts: Parts,
}

/// What the parts of a value are, at most.
#[derive(Clone)]
enum Parts {
    /// There are none.
    None,
    /// Elements: all are within this.
    List(Rc<Extent>),
    /// Values by keys that are not known: all are within this.
    Map(Rc<Extent>),
    /// Values by the names that rules have for them.
    Fields(Rc<BTreeMap<Box<str>, Extent>>),
    /// Anything, as large as the whole.
    Any,
}

/// How large one value is.
#[derive(Clone, Copy)]
struct Total {
    values: u64,
    bytes: u64,
    key: u64,
}

impl Extent {
    const NONE: Self = Self {
        values: 0,
        bytes: 0,
        text: 0,
        length: 0,
        key: 0,
        fraction: false,
        parts: Parts::None,
    };

    pub(in super::super) const ONE: Self = Self { values: 1, ..Self::NONE };

    pub(super) const FRACTION: Self = Self { fraction: true, ..Self::ONE };

    pub(super) fn text(bytes: u64) -> Self {
        Self { bytes, text: bytes, ..Self::ONE }
    }

    /// The extent of a value that the schema `id` describes.
    pub(in super::super) fn of(arena: &Arena, id: Id, value: &Value) -> Self {
        let mut extent = Self::NONE;
        extent.take_in(arena, id, value);
        extent
    }

    /// What it costs to make a value of this extent into one that rules read. Rules at every
    /// level of a document would else convert it once for each.
    pub(in super::super) fn converted(&self) -> u64 {
        self.read()
    }

    /// What it costs to look at all of it.
    pub(super) fn read(&self) -> u64 {
        self.values.saturating_add(self.bytes / READ_BYTES_PER_STEP)
    }

    /// What it costs to hash it.
    pub(super) fn hashed(&self) -> u64 {
        self.values.saturating_add(self.bytes / HASHED_BYTES_PER_STEP)
    }

    /// What it costs to copy it.
    pub(super) fn copied(&self) -> u64 {
        self.values.saturating_add(self.bytes / COPIED_BYTES_PER_STEP)
    }

    /// What it costs to tell how long it is: the characters of a text are counted.
    pub(super) fn counted(&self) -> u64 {
        self.text / COPIED_BYTES_PER_STEP
    }

    /// What it costs to look for the longest key in it elsewhere.
    pub(super) fn longest_key(&self) -> u64 {
        self.key / HASHED_BYTES_PER_STEP
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.parts, Parts::List(_))
    }

    /// Whether it is looked into by key only.
    pub(super) fn is_map(&self) -> bool {
        matches!(self.parts, Parts::Map(_) | Parts::Fields(_))
    }

    /// The same as a list that has no elements yet.
    pub(super) fn list(self) -> Self {
        Self { parts: Parts::List(Rc::new(Self::NONE)), ..self }
    }

    /// The same as a map that has no entries yet.
    pub(super) fn map(self) -> Self {
        Self { parts: Parts::Map(Rc::new(Self::NONE)), ..self }
    }

    /// A field of it, or the value of a key.
    pub(super) fn field(&self, name: &str) -> Self {
        match &self.parts {
            Parts::Fields(fields) => fields.get(name).cloned().unwrap_or(Self::ONE),
            Parts::Map(value) => Self::clone(value),
            Parts::Any => self.clone(),
            Parts::None | Parts::List(_) => Self::ONE,
        }
    }

    /// What an index yields.
    pub(super) fn element(&self) -> Self {
        match &self.parts {
            Parts::List(part) | Parts::Map(part) => Self::clone(part),
            Parts::Fields(_) | Parts::Any => self.clone().anything(),
            Parts::None => Self::ONE,
        }
    }

    /// What a loop goes over: the elements of a list, the keys of a map.
    pub(super) fn item(&self) -> Self {
        match &self.parts {
            Parts::Map(_) | Parts::Fields(_) => Self::text(self.key),
            Parts::None | Parts::List(_) | Parts::Any => self.element(),
        }
    }

    /// Something within it of which nothing else is known.
    fn anything(self) -> Self {
        Self {
            text: self.bytes,
            length: self.values,
            key: self.bytes,
            fraction: true,
            parts: Parts::Any,
            ..self
        }
    }

    /// Adds one part.
    pub(super) fn hold(&mut self, key: Option<&Self>, part: Self) {
        let bytes = key.map_or(0, |key| key.bytes);
        self.values = self.values.saturating_add(part.values).saturating_add(key.map_or(0, |_| 1));
        self.bytes = self.bytes.saturating_add(part.bytes).saturating_add(bytes);
        self.length = self.length.saturating_add(1);
        self.key = self.key.max(bytes).max(part.key);
        if let Parts::List(kept) | Parts::Map(kept) = &mut self.parts {
            *kept = Rc::new(part.or(kept));
        }
    }

    /// What `length` of them gather.
    pub(super) fn times(self, length: u64) -> Self {
        Self {
            values: self.values.saturating_mul(length.max(1)),
            bytes: self.bytes.saturating_mul(length),
            length: self.length.saturating_mul(length),
            ..self
        }
    }

    /// What is either of two.
    pub(super) fn or(self, other: &Self) -> Self {
        Self {
            values: self.values.max(other.values),
            bytes: self.bytes.max(other.bytes),
            text: self.text.max(other.text),
            length: self.length.max(other.length),
            key: self.key.max(other.key),
            fraction: self.fraction || other.fraction,
            parts: self.parts.or(&other.parts),
        }
        .closed()
    }

    /// What two are together.
    pub(super) fn and(self, other: &Self) -> Self {
        Self {
            values: self.values.saturating_add(other.values),
            bytes: self.bytes.saturating_add(other.bytes),
            text: self.text.saturating_add(other.text),
            length: self.length.saturating_add(other.length),
            key: self.key.max(other.key),
            fraction: self.fraction || other.fraction,
            parts: self.parts.or(&other.parts),
        }
        .closed()
    }

    fn closed(self) -> Self {
        if matches!(self.parts, Parts::Any) { self.anything() } else { self }
    }

    /// How many parts have to be looked at to tell what is either of two.
    pub(super) fn parts_in_common(&self, other: &Self) -> u64 {
        match (&self.parts, &other.parts) {
            (Parts::None | Parts::Any, _) | (_, Parts::None | Parts::Any) => 0,
            _ => self.values.min(other.values),
        }
    }

    /// Widens this so that it holds for `value`, too.
    fn take_in(&mut self, arena: &Arena, id: Id, value: &Value) -> Total {
        let data = arena.at(id);
        let mut total = Total { values: 1, bytes: 0, key: 0 };
        match value {
            Value::String(text) => {
                total.bytes = text.len() as u64;
                self.text = self.text.max(total.bytes);
            }
            Value::Array(list) => {
                let Some(items) = data.items else { return total };
                let mut other = Self::NONE;
                let element = self.parts.element_mut().unwrap_or(&mut other);
                for child in list {
                    total.add(element.take_in(arena, items, child));
                }
                self.length = self.length.max(list.len() as u64);
            }
            Value::Object(map) => {
                let mut other = Self::NONE;
                for (key, child) in map {
                    let (id, part) = match (data.value_id(), data.field(key)) {
                        (Some(id), _) => (id, self.parts.value_mut()),
                        (None, Some(id)) => (id, self.parts.field_mut(escape(key))),
                        (None, None) => continue,
                    };
                    total.add_key(key);
                    total.add(part.unwrap_or(&mut other).take_in(arena, id, child));
                }
                if data.embedded {
                    total.add(self.take_in_resource(value));
                }
                self.length = self.length.max(map.len() as u64);
            }
            Value::Number(_) => self.fraction |= data.kind == Kind::Number,
            Value::Null | Value::Bool(_) => {}
        }
        self.values = self.values.max(total.values);
        self.bytes = self.bytes.max(total.bytes);
        self.key = self.key.max(total.key);
        if matches!(self.parts, Parts::Any) {
            *self = self.clone().anything();
        }
        total
    }

    /// Takes in what rules see of a resource beside what its schema states.
    fn take_in_resource(&mut self, value: &Value) -> Total {
        let mut total = Total { values: 1, bytes: 0, key: 0 };
        let mut take_in = |parts: &mut Parts, name: &str, value: Option<&Value>| {
            let bytes = value.and_then(Value::as_str).map_or(0, str::len) as u64;
            total.add_key(name);
            total.add(Total { values: 1, bytes, key: 0 });
            if let Some(place) = parts.field_mut(Some(name.to_owned())) {
                *place = Self::text(bytes).or(place);
            }
        };
        for name in ["apiVersion", "kind"] {
            take_in(&mut self.parts, name, value.get(name));
        }
        let metadata = value.get("metadata");
        if let Some(place) = self.parts.field_mut(Some("metadata".to_owned())) {
            for name in ["name", "generateName"] {
                take_in(&mut place.parts, name, metadata.and_then(|metadata| metadata.get(name)));
            }
            place.values = place.values.max(5);
            place.bytes = place.bytes.max(total.bytes);
            place.length = place.length.max(2);
        }
        total
    }
}

impl Total {
    fn add(&mut self, part: Self) {
        self.values = self.values.saturating_add(part.values);
        self.bytes = self.bytes.saturating_add(part.bytes);
        self.key = self.key.max(part.key);
    }

    fn add_key(&mut self, key: &str) {
        let bytes = key.len() as u64;
        self.add(Self { values: 1, bytes, key: bytes });
    }
}

impl Parts {
    /// What elements are, if these are elements or may become so.
    fn element_mut(&mut self) -> Option<&mut Extent> {
        if matches!(self, Self::None) {
            *self = Self::List(Rc::new(Extent::NONE));
        }
        match self {
            Self::List(element) => Some(Rc::make_mut(element)),
            _ => self.unknown(),
        }
    }

    fn value_mut(&mut self) -> Option<&mut Extent> {
        if matches!(self, Self::None) {
            *self = Self::Map(Rc::new(Extent::NONE));
        }
        match self {
            Self::Map(value) => Some(Rc::make_mut(value)),
            _ => self.unknown(),
        }
    }

    /// What a field is, if rules have a name for it.
    fn field_mut(&mut self, name: Option<String>) -> Option<&mut Extent> {
        if matches!(self, Self::None) {
            *self = Self::Fields(Rc::new(BTreeMap::new()));
        }
        match self {
            Self::Fields(fields) => {
                let fields = Rc::make_mut(fields);
                name.map(|name| fields.entry(name.into()).or_insert(Extent::NONE))
            }
            _ => self.unknown(),
        }
    }

    fn unknown(&mut self) -> Option<&mut Extent> {
        *self = Self::Any;
        None
    }

    fn or(self, other: &Self) -> Self {
        match (self, other) {
            (one, Self::None) => one,
            (Self::None, other) => other.clone(),
            (Self::List(one), Self::List(other)) => Self::List(either(one, other)),
            (Self::Map(one), Self::Map(other)) => Self::Map(either(one, other)),
            (Self::Fields(mut one), Self::Fields(other)) => {
                if !Rc::ptr_eq(&one, other) {
                    let fields = Rc::make_mut(&mut one);
                    for (name, part) in other.iter() {
                        let known = fields.remove(name).unwrap_or(Extent::NONE);
                        fields.insert(name.clone(), known.or(part));
                    }
                }
                Self::Fields(one)
            }
            _ => Self::Any,
        }
    }
}

fn either(one: Rc<Extent>, other: &Rc<Extent>) -> Rc<Extent> {
    if Rc::ptr_eq(&one, other) { one } else { Rc::new(Extent::clone(&one).or(other)) }
}
