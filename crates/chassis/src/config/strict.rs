//! A deserializer that knows where it is and refuses what the type does not name.
//!
//! Every derived struct tells its deserializer which fields it has; serde's own formats
//! make no use of that. Types that are read through a buffer (`flatten`, untagged and
//! internally tagged enums) do not tell, and must carry `deny_unknown_fields` themselves.

use std::fmt;

use object::field::Path;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde_json::{Map, Value};

/// A name nearer than this, of 1, is probably the one that was meant.
const SIMILARITY_MIN: f64 = 0.8;

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    path: Option<Path>,
    message: String,
}

impl Fault {
    fn new(path: &Path, message: String) -> Self {
        Self { path: Some(path.clone()), message }
    }

    fn at(mut self, path: &Path) -> Self {
        // The innermost place is the one that helps.
        self.path.get_or_insert_with(|| path.clone());
        self
    }

    /// The path of the field, empty for the file as a whole.
    #[must_use]
    pub fn path(&self) -> &str {
        self.path.as_ref().map_or("", Path::as_str)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { path: None, message: message.to_string() }
    }
}

/// The known name that somebody who wrote `name` most likely meant, where one is near enough.
#[must_use]
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let near = known
        .iter()
        .map(|known| (strsim::jaro_winkler(&name.to_lowercase(), &known.to_lowercase()), *known))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    near.filter(|(similarity, _)| *similarity >= SIMILARITY_MIN).map(|(_, known)| known)
}

fn unknown(path: &Path, what: &str, name: &str, known: &[&str]) -> Fault {
    let hint = match nearest(name, known) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => format!("known are {}", known.join(", ")),
    };
    Fault::new(path, format!("unknown {what}; {hint}"))
}

/// A value at a path.
#[derive(Debug, Clone)]
pub(super) struct Strict<'de> {
    value: &'de Value,
    path: Path,
}

impl<'de> Strict<'de> {
    pub(super) fn new(value: &'de Value) -> Self {
        Self { value, path: Path::root() }
    }

    fn check_fields(&self, fields: &'static [&'static str]) -> Result<(), Fault> {
        let Value::Object(map) = self.value else { return Ok(()) };
        let stranger = map.keys().find(|key| !fields.contains(&key.as_str()));
        match stranger {
            Some(key) => Err(unknown(&self.path.child(key), "field", key, fields)),
            None => Ok(()),
        }
    }
}

/// How the entries of an object are named in paths.
#[derive(Clone, Copy)]
enum Entries {
    Fields,
    Keys,
}

impl<'de> Strict<'de> {
    fn visit<V: Visitor<'de>>(self, entries: Entries, visitor: V) -> Result<V::Value, Fault> {
        let Self { value, path } = self;
        let outcome = match value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(value), _, _) => visitor.visit_u64(value),
                (_, Some(value), _) => visitor.visit_i64(value),
                (_, _, Some(value)) => visitor.visit_f64(value),
                _ => visitor.visit_string(number.to_string()),
            },
            Value::Array(items) => visitor.visit_seq(Items { items, next: 0, path: &path }),
            Value::Object(map) => visitor.visit_map(Fields::new(map, entries, &path)),
        };
        outcome.map_err(|fault: Fault| fault.at(&path))
    }
}

impl<'de> Deserializer<'de> for Strict<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit(Entries::Keys, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        // Derived structs would also take a list of their fields' values in order.
        if let Value::Array(_) = self.value {
            let found = serde::de::Unexpected::Seq;
            let fault: Fault = serde::de::Error::invalid_type(found, &visitor);
            return Err(fault.at(&self.path));
        }
        self.check_fields(fields)?;
        self.visit(Entries::Fields, visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let (variant, content) = match self.value {
            Value::String(variant) => (variant, None),
            Value::Object(map) if map.len() == 1 => match map.iter().next() {
                Some((variant, content)) => (variant, Some(content)),
                None => return self.deserialize_any(visitor),
            },
            _ => return self.deserialize_any(visitor),
        };
        if !variants.contains(&variant.as_str()) {
            return Err(unknown(&self.path, "value", variant, variants));
        }
        let outer = self.path.clone();
        let path = self.path.child(variant);
        visitor.visit_enum(Variant { variant, content, path }).map_err(|fault| fault.at(&outer))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map identifier
    }
}

struct Items<'de, 'p> {
    items: &'de [Value],
    next: usize,
    path: &'p Path,
}

impl<'de> SeqAccess<'de> for Items<'de, '_> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Fault> {
        let Some(value) = self.items.get(self.next) else { return Ok(None) };
        let path = self.path.index(self.next);
        self.next += 1;
        seed.deserialize(Strict { value, path }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len() - self.next)
    }
}

struct Fields<'de, 'p> {
    rest: serde_json::map::Iter<'de>,
    value: Option<(&'de String, &'de Value)>,
    entries: Entries,
    path: &'p Path,
}

impl<'de, 'p> Fields<'de, 'p> {
    fn new(map: &'de Map<String, Value>, entries: Entries, path: &'p Path) -> Self {
        Self { rest: map.iter(), value: None, entries, path }
    }
}

impl<'de> MapAccess<'de> for Fields<'de, '_> {
    type Error = Fault;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Fault> {
        self.value = self.rest.next();
        let Some((key, _)) = self.value else { return Ok(None) };
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        let (key, value) = self.value.take().ok_or_else(|| {
            <Fault as serde::de::Error>::custom("a value was asked for before its key")
        })?;
        let path = match self.entries {
            Entries::Fields => self.path.child(key),
            Entries::Keys => self.path.key(key),
        };
        seed.deserialize(Strict { value, path })
    }
}

struct Variant<'de> {
    variant: &'de str,
    content: Option<&'de Value>,
    path: Path,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Fault> {
        let name: BorrowedStrDeserializer<'de, Fault> = BorrowedStrDeserializer::new(self.variant);
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> Variant<'de> {
    fn content(self) -> Result<Strict<'de>, Fault> {
        match self.content {
            Some(value) => Ok(Strict { value, path: self.path }),
            None => Err(Fault::new(&self.path, "needs a value".to_owned())),
        }
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        match self.content {
            None | Some(Value::Null) => Ok(()),
            Some(_) => Err(Fault::new(&self.path, "takes no value".to_owned())),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Fault> {
        seed.deserialize(self.content()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Fault> {
        self.content()?.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.content()?.deserialize_struct("", fields, visitor)
    }
}
