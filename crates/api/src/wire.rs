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
