//! Amounts by resource, for objects that hold dozens of such lists of two or three each and come every
//! minute from every node: a list is one piece of memory, and the names that all of them have are none.

use std::borrow::Cow;
use std::fmt;

use object::quantity::Quantity;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The names that almost every list has.
const USUAL: [&str; 2] = ["cpu", "memory"];

type Name = Cow<'static, str>;

/// Amounts by the name of their resource.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usages(Vec<(Name, Quantity)>);

impl Usages {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The amount of this resource.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Quantity> {
        let at = self.0.binary_search_by(|(own, _)| (**own).cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Quantity)> {
        self.0.iter().map(|(name, amount)| (&**name, amount))
    }

    /// In the order of their names; of several with one name the last counts.
    fn new(mut all: Vec<(Name, Quantity)>) -> Self {
        if !all.is_sorted_by(|(one, _), (next, _)| one < next) {
            all.sort_by(|(one, _), (other, _)| one.cmp(other));
            all.dedup_by(|later, kept| {
                let is_same = later.0 == kept.0;
                if is_same {
                    std::mem::swap(later, kept);
                }
                is_same
            });
        }
        Self(all)
    }
}

impl Serialize for Usages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// The name of a resource, which is memory of its own only where it is not a usual one.
struct Read(Name);

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl Visitor<'_> for Words {
            type Value = Read;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a resource")
            }

            fn visit_str<E>(self, name: &str) -> Result<Read, E> {
                let usual = USUAL.into_iter().find(|usual| *usual == name);
                Ok(Read(usual.map_or_else(|| Cow::Owned(name.to_owned()), Cow::Borrowed)))
            }
        }
        deserializer.deserialize_str(Words)
    }
}

impl<'de> Deserialize<'de> for Usages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lists;
        impl<'de> Visitor<'de> for Lists {
            type Value = Usages;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("amounts by the names of resources")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Usages, A::Error> {
                let mut all = Vec::with_capacity(USUAL.len());
                while let Some((Read(name), amount)) = map.next_entry()? {
                    all.push((name, amount));
                }
                Ok(Usages::new(all))
            }
        }
        deserializer.deserialize_map(Lists)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_maps_are() {
        let check = |text: &str, expected: &str| {
            let own: Usages = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&own).unwrap(), expected, "{text}");
        };
        check("{}", "{}");
        check(r#"{"cpu":"1","memory":"2Gi"}"#, r#"{"cpu":"1","memory":"2Gi"}"#);
        check(r#"{"memory":"2Gi","cpu":"1"}"#, r#"{"cpu":"1","memory":"2Gi"}"#);
        check(r#"{"cpu":"1","cpu":"2","a":"3","cpu":"4"}"#, r#"{"a":"3","cpu":"4"}"#);
        check(r#"{"cpu":1.5}"#, r#"{"cpu":"1500m"}"#);
    }

    #[test]
    fn amounts_are_found_by_name() {
        let own: Usages = serde_json::from_str(r#"{"x/gpu":"3","memory":"2","cpu":"1"}"#).unwrap();
        let of = |name: &str| own.get(name).map(ToString::to_string);
        assert_eq!(["cpu", "memory", "x/gpu"].map(of), ["1", "2", "3"].map(|one| Some(one.into())));
        assert_eq!(of("pods"), None);
    }

    #[test]
    fn what_is_no_list_of_amounts_is_refused() {
        for text in ["[]", r#""cpu""#, r#"{"cpu":"x"}"#, r#"{"cpu":{}}"#] {
            assert!(serde_json::from_str::<Usages>(text).is_err(), "{text}");
        }
    }
}
