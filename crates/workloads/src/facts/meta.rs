//! Metadata, kept small.

use api::{ObjectMeta, OwnerReference, Resource};
use chassis::client::{Identity, Object};
use chassis::key::Key;
use jiff::Timestamp;
use object::selector::label::Selector;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Labels in order of their keys: a list costs a fifth of what a map of two does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(Box<[(Box<str>, Box<str>)]>);

impl Labels {
    /// The value of a label.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.binary_search_by(|(own, _)| (**own).cmp(key)).ok()?;
        Some(&self.0[found].1)
    }

    /// All labels, in order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Whether a selector selects an object with these labels.
    #[must_use]
    pub fn match_selector(&self, selector: &Selector) -> bool {
        selector.matches(|key| self.get(key))
    }

    /// Whether every label of `wanted` is here with the same value.
    #[must_use]
    pub fn contain(&self, wanted: &Self) -> bool {
        wanted.iter().all(|(key, value)| self.get(key) == Some(value))
    }
}

impl FromIterator<(String, String)> for Labels {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        let mut pairs: Vec<_> =
            pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        pairs.sort_unstable();
        pairs.dedup_by(|later, earlier| later.0 == earlier.0);
        Self(pairs.into())
    }
}

/// What the garbage collector asks of any object.
pub trait Owned: Object {
    /// Who owns it.
    fn owners(&self) -> &[OwnerReference];
    /// Whether a finalizer holds it.
    fn has_finalizer(&self, name: &str) -> bool;
    /// Whether its deletion has begun.
    fn is_going(&self) -> bool;
}

impl<T: Resource + DeserializeOwned + Send + 'static> Owned for T {
    fn owners(&self) -> &[OwnerReference] {
        &self.meta().owner_references
    }

    fn has_finalizer(&self, name: &str) -> bool {
        self.meta().finalizers.iter().any(|own| own == name)
    }

    fn is_going(&self) -> bool {
        self.meta().is_going()
    }
}

/// Makes an object of a type whose field `meta` is a [`Meta`].
macro_rules! owned {
    ($type:ty) => {
        impl chassis::client::Object for $type {
            fn identity(&self) -> chassis::client::Identity<'_> {
                self.meta.identity()
            }
        }

        impl $crate::facts::Owned for $type {
            fn owners(&self) -> &[api::OwnerReference] {
                &self.meta.owners
            }

            fn has_finalizer(&self, name: &str) -> bool {
                self.meta.has_finalizer(name)
            }

            fn is_going(&self) -> bool {
                self.meta.deleting.is_some()
            }
        }
    };
}

pub(crate) use owned;

/// An object of any kind of which nothing but the metadata is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct MetadataOnly {
    /// Who it is.
    pub metadata: ObjectMeta,
}

impl Object for MetadataOnly {
    fn identity(&self) -> Identity<'_> {
        (&self.metadata).into()
    }
}

/// The metadata of an object, without annotations and with names shared.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "ObjectMeta")]
pub struct Meta {
    /// Namespace and name.
    pub key: Key,
    /// Identity over time.
    pub uid: Box<str>,
    /// The version of this state.
    pub resource_version: Box<str>,
    /// Labels.
    pub labels: Labels,
    /// Who owns the object.
    pub owners: Box<[OwnerReference]>,
    /// Who must agree before it goes.
    pub finalizers: Box<[Box<str>]>,
    /// When it was made.
    pub created: Timestamp,
    /// When a deletion that has begun is due.
    pub deleting: Option<Timestamp>,
}

impl Meta {
    /// The identity of the object.
    #[must_use]
    pub fn identity(&self) -> Identity<'_> {
        Identity {
            namespace: self.key.namespace(),
            name: self.key.name(),
            uid: &self.uid,
            resource_version: &self.resource_version,
        }
    }

    /// The owner that manages the object.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owners.iter().find(|owner| owner.controller == Some(true))
    }

    /// Whether a finalizer holds the object.
    #[must_use]
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|own| **own == *name)
    }
}

impl From<ObjectMeta> for Meta {
    fn from(wire: ObjectMeta) -> Self {
        Self {
            key: Key::new(&wire.namespace, &wire.name),
            uid: wire.uid.into(),
            resource_version: wire.resource_version.into(),
            labels: wire.labels.into_iter().collect(),
            owners: wire.owner_references.into(),
            finalizers: wire.finalizers.into_iter().map(Into::into).collect(),
            created: wire.creation_timestamp.map_or(Timestamp::MIN, Into::into),
            deleting: wire.deletion_timestamp.map(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_compared_and_selected() {
        let labels = |pairs: &[(&str, &str)]| -> Labels {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let own = labels(&[("b", "2"), ("a", "1")]);
        assert_eq!((own.get("a"), own.get("b"), own.get("c")), (Some("1"), Some("2"), None));
        assert!(own.contain(&labels(&[("b", "2")])) && own.contain(&labels(&[])));
        assert!(!own.contain(&labels(&[("b", "3")])) && !own.contain(&labels(&[("c", "")])));
        let check = |selector: &str, want| {
            assert_eq!(own.match_selector(&selector.parse().unwrap()), want, "{selector}");
        };
        check("a=1,b in (2,3)", true);
        check("a=1,!b", false);
        check("", true);
    }
}
