//! The one way in: every write of every verb and subresource passes here.
//!
//! decode → default → admit → prepare → validate → commit. What differs between a
//! create, an update and a part of an object is said by data ([`Part`]), not by
//! another path.

mod create;
pub mod decode;
pub mod metadata;
mod remove;
mod update;

use std::sync::Arc;

use serde_json::Value;

pub use create::create;
pub use decode::{Decoded, decode, decode_value, media_type, require_media_type};
pub use remove::{Removed, remove};
pub use update::{Attempt, update};

use crate::kinds::{Kind, Version};
use crate::request::Identity;
use crate::store::{Draft, Stored};

/// Which part of an object a write means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The object, without its status where that is a part of its own.
    Object,
    /// The status alone.
    Status,
    /// A named part that has been worked into the object already, such as a binding.
    Named(&'static str),
}

impl Part {
    /// The subresource this is reached by; empty for the object itself.
    #[must_use]
    pub fn subresource(self) -> &'static str {
        match self {
            Self::Object => "",
            Self::Status => "status",
            Self::Named(name) => name,
        }
    }

    /// Whether a change counts as a new generation: neither a status nor a binding changes
    /// what is wanted.
    #[must_use]
    pub fn is_counted(self) -> bool {
        !matches!(self, Self::Status | Self::Named("binding"))
    }
}

/// Who writes, and how.
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    /// The client.
    pub identity: &'a Identity,
    /// Do everything but the commit.
    pub dry_run: bool,
}

/// The result of a write.
pub enum Written {
    /// It is in the store.
    Stored(Arc<Stored>),
    /// It was the last change of an object that nothing held any more.
    Ended {
        /// What the store kept of it.
        stored: Arc<Stored>,
        /// The object as it is shown: at its revision before.
        last: Value,
    },
    /// It would have been, but for the dry run.
    Rehearsed(Value),
}

/// The object as a version shows it, ready to be changed.
///
/// # Panics
/// Never: what is stored was encoded by us.
#[must_use]
pub fn materialize(kind: &Kind, version: &Version, stored: &Stored) -> Value {
    let mut value: Value =
        serde_json::from_slice(&stored.body).expect("what is stored is valid JSON");
    if let Some(conversion) = version.conversion {
        (conversion.from_stored)(&mut value);
    }
    value["apiVersion"] = version.api_version(kind).into();
    value["kind"] = kind.names.kind.clone().into();
    value
}

/// The object in the form the store keeps.
#[must_use]
pub fn draft(kind: &Kind, version: &Version, mut value: Value) -> Draft {
    if let Some(conversion) = version.conversion {
        (conversion.to_stored)(&mut value);
    }
    let fields = kind.field_values(&value);
    Draft::new(&value, fields)
}

/// The text under a key of the metadata.
#[must_use]
pub fn meta_text<'a>(object: &'a Value, key: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(key))
        .and_then(Value::as_str)
        .unwrap_or("")
}

/// The key of an object.
#[must_use]
pub fn key(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}
