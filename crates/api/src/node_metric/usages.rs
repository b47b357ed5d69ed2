//! Amounts by resource, for objects that hold dozens of such lists of two or three each and come every
//! minute from every node: what almost every list has is no piece of memory of its own.

use std::collections::BTreeMap;
use std::fmt;

use object::quantity::Quantity;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::sort_by_name;

/// The names that almost every list has.
const USUAL: [&str; 2] = ["cpu", "memory"];

/// Amounts by the name of their resource.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usages {
    usual: [Option<Quantity>; USUAL.len()],
    /// The others, by name.
    others: Vec<(Box<str>, Quantity)>,
}

impl Usages {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.others.is_empty() && self.usual.iter().all(Option::is_none)
    }

    /// The amount of this resource.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Quantity> {
        if let Some(at) = USUAL.iter().position(|usual| *usual == name) {
            return self.usual[at].as_ref();
        }
        let at = self.others.binary_search_by(|(own, _)| (**own).cmp(name)).ok()?;
        Some(&self.others[at].1)
    }

    /// How much CPU and memory, where there is nothing else.
    #[must_use]
    pub fn only_usual(&self) -> Option<[Option<&Quantity>; USUAL.len()]> {
        self.others.is_empty().then(|| self.usual.each_ref().map(Option::as_ref))
    }

    /// All of them, those that almost every list has first.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Quantity)> {
        let usual = USUAL.into_iter().zip(&self.usual);
        let usual = usual.filter_map(|(name, amount)| Some((name, amount.as_ref()?)));
        usual.chain(self.others.iter().map(|(name, amount)| (&**name, amount)))
    }
}

impl Serialize for Usages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().collect::<BTreeMap<_, _>>())
    }
}

/// The name of a resource.
enum Name {
    /// A usual one, by its place.
    Usual(usize),
    Other(Box<str>),
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl Visitor<'_> for Words {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a resource")
            }

            fn visit_str<E>(self, name: &str) -> Result<Name, E> {
                let usual = USUAL.iter().position(|usual| *usual == name);
                Ok(usual.map_or_else(|| Name::Other(name.into()), Name::Usual))
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
                let mut all = Usages::default();
                while let Some(name) = map.next_key()? {
                    match name {
                        Name::Usual(at) => all.usual[at] = Some(map.next_value()?),
                        Name::Other(name) => all.others.push((name, map.next_value()?)),
                    }
                }
                sort_by_name(&mut all.others);
                Ok(all)
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
