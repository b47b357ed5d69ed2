//! Figures of a while by name, of which almost every list has the same five: their names are no memory.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ResourceMap, sort_by_name};
use crate::load::AGGREGATION_TYPES;

type Name = Cow<'static, str>;

/// Usages by the name of their figure, such as `p95`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures(Vec<(Name, ResourceMap)>);

impl Figures {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The one of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ResourceMap> {
        let at = self.0.binary_search_by(|(own, _)| (**own).cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ResourceMap)> {
        self.0.iter().map(|(name, own)| (&**name, own))
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

struct Read(Name);

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl Visitor<'_> for Words {
            type Value = Read;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, name: &str) -> Result<Read, E> {
                let usual = AGGREGATION_TYPES.into_iter().find(|usual| *usual == name);
                Ok(Read(usual.map_or_else(|| Cow::Owned(name.to_owned()), Cow::Borrowed)))
            }
        }
        deserializer.deserialize_str(Words)
    }
}

impl<'de> Deserialize<'de> for Figures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lists;
        impl<'de> Visitor<'de> for Lists {
            type Value = Figures;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Figures, A::Error> {
                let mut all = Vec::with_capacity(AGGREGATION_TYPES.len());
                while let Some((Read(name), own)) = map.next_entry()? {
                    all.push((name, own));
                }
                sort_by_name(&mut all);
                Ok(Figures(all))
            }
        }
        deserializer.deserialize_map(Lists)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_as_maps_are() {
        let check = |text: &str, expected: &str| {
            let own: Figures = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&own).unwrap(), expected, "{text}");
        };
        check("{}", "{}");
        check(r#"{"p99":{},"avg":{}}"#, r#"{"avg":{},"p99":{}}"#);
        check(
            r#"{"p99":{},"most":{},"p99":{"resources":{"cpu":"1"}}}"#,
            r#"{"most":{},"p99":{"resources":{"cpu":"1"}}}"#,
        );
        for text in ["[]", r#""avg""#, r#"{"avg":null}"#] {
            assert!(serde_json::from_str::<Figures>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn figures_are_found_by_name() {
        let own: Figures = serde_json::from_str(r#"{"p95":{},"most":{}}"#).unwrap();
        let is_there = ["p95", "most", "avg"].map(|name| own.get(name).is_some());
        assert_eq!((own.len(), is_there), (2, [true, true, false]));
    }
}
