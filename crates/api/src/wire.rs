//! How fields of every kind are read where serde's own way differs from that of an
//! API server.

use serde::{Deserialize, Deserializer};

/// Reads `null` as if the field were absent. Bookmarks carry such fields: an API
/// server sends an object there whose lists were never filled.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Whether a field has the value that it has when it is absent, and need not be written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Defines an enum of words. A word that a newer server knows and we do not is kept as
/// `Other`: the object stays readable, and whoever needs the word can refuse the object
/// by name. The word of a field that is absent is empty, and `Other` as well.
macro_rules! wire_enum {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
            /// None of these: a word of a newer server, or empty where there was none.
            Other(Box<str>),
        }

        impl $name {
            /// The word on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => stringify!($variant),)+
                    Self::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $(stringify!($variant) => Self::$variant,)+
                    _ => Self::Other(word.into()),
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::Other(Box::default())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                d.deserialize_str($crate::wire::Word(std::marker::PhantomData))
            }
        }
    };
}
pub(crate) use wire_enum;

/// Reads a word without a copy of its text, unless the enum keeps it.
pub(crate) struct Word<T>(pub(crate) std::marker::PhantomData<T>);

impl<T: for<'a> From<&'a str>> serde::de::Visitor<'_> for Word<T> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a word")
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<T, E> {
        Ok(T::from(word))
    }
}
