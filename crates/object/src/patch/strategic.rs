//! Strategic merge patch: a merge patch that knows from the schema which lists are
//! maps in disguise.
//!
//! A list with a merge key (`containers` by `name`) is merged element by element, a
//! list of scalars with the merge strategy (`finalizers`) is a set, any other list is
//! replaced. Directives in the patch say what a partial document cannot:
//! `$patch: replace|delete`, `$retainKeys`, `$setElementOrder/<list>` and
//! `$deleteFromPrimitiveList/<list>`.
//!
//! How a schema is stored is not known here: see [`PatchSchema`].

use serde_json::{Map, Value};

use super::PatchError;
use crate::json::{printed, quoted};

mod conflict;
mod diff;
mod lists;
mod merge;

pub(super) use conflict::conflicts;
pub(super) use diff::{Scope, diff_maps};
pub(super) use merge::{Mode, merge_map};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_PREFIX: &str = "$deleteFromPrimitiveList";
const ORDER_PREFIX: &str = "$setElementOrder";

/// What a place in the schema holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// An object with known fields.
    Struct,
    /// An object whose keys are data, such as labels.
    Map,
    /// A list.
    List,
    /// Anything else.
    Scalar,
}

impl Shape {
    /// The word upstream's messages use.
    fn kind(self) -> &'static str {
        match self {
            Self::Struct => "struct",
            Self::Map => "map",
            Self::List => "slice",
            Self::Scalar => "string",
        }
    }
}

/// How a field is patched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Nothing is said: maps merge, lists are replaced.
    #[default]
    Default,
    /// Lists merge.
    Merge,
    /// Maps are replaced too.
    Replace,
}

/// The `patchStrategy` of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strategies {
    /// The way to patch.
    pub strategy: Strategy,
    /// Whether a patch names all keys that are to stay, as for a union of types.
    pub retain_keys: bool,
}

impl Strategies {
    /// Reads `x-kubernetes-patch-strategy`, such as `merge,retainKeys`.
    ///
    /// # Errors
    /// When the text names something else than `merge`, `replace` and `retainKeys`.
    pub fn parse(text: &str) -> Result<Self, UnknownStrategy> {
        let mut strategies = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            match part {
                "merge" => strategies.strategy = Strategy::Merge,
                "replace" => strategies.strategy = Strategy::Replace,
                "retainKeys" => strategies.retain_keys = true,
                other => return Err(UnknownStrategy(other.to_owned())),
            }
        }
        Ok(strategies)
    }
}

/// A patch strategy that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown patch strategy {0:?}: use merge, replace or retainKeys")]
pub struct UnknownStrategy(pub String);

/// A place in a schema, as far as patches look: cheap to clone, such as a reference.
pub trait PatchSchema: Clone {
    /// What is here.
    fn shape(&self) -> Shape;
    /// The name of the type, such as `PodSpec`, for messages.
    fn type_name(&self) -> &str;
    /// The field of that name, where this is a struct that has it.
    fn field(&self, name: &str) -> Option<Self>;
    /// The element, where this is a list.
    fn items(&self) -> Option<Self>;
    /// The field by which elements of this list are told apart.
    fn merge_key(&self) -> Option<&str>;
    /// How what is here is patched.
    fn strategies(&self) -> Strategies;
}

/// The object with the patch applied, as for a PATCH request.
///
/// # Errors
/// When a directive is misused, an element lacks its merge key, or the patch merges
/// what the schema does not know.
pub fn apply(
    object: Map<String, Value>,
    patch: Map<String, Value>,
    schema: &impl PatchSchema,
) -> Result<Map<String, Value>, PatchError> {
    merge_map(object, patch, schema, Mode::Apply)
}

/// The patch that makes `old` into `new`; empty when they are equal.
///
/// # Errors
/// When an element lacks its merge key or something differs that the schema does not know.
pub fn diff(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    schema: &impl PatchSchema,
) -> Result<Map<String, Value>, PatchError> {
    diff_maps(old, new, schema, Scope::ALL)
}

/// The schema of field `key`, which holds a map on both sides.
fn map_field<S: PatchSchema>(schema: &S, key: &str) -> Result<S, PatchError> {
    if schema.shape() != Shape::Struct {
        return Err(PatchError::Unclassified(format!(
            "merging an object in json but data type is not struct, instead is: {}",
            schema.shape().kind()
        )));
    }
    schema.field(key).ok_or_else(|| {
        PatchError::Unclassified(format!(
            "unable to find api field in struct {} for the json field {}",
            schema.type_name(),
            quoted(key)
        ))
    })
}

/// The schema of field `key`, which holds a list on both sides, and of its elements.
fn list_field<S: PatchSchema>(schema: &S, key: &str) -> Result<(S, S), PatchError> {
    let field = map_field(schema, key)?;
    let Some(items) = field.items() else {
        return Err(PatchError::Unclassified(format!(
            "expected slice or array type, but got: {}",
            schema.shape().kind()
        )));
    };
    if items.shape() == Shape::List {
        return Err(PatchError::Unclassified("unexpected slice of slice".to_owned()));
    }
    Ok((field, items))
}

/// The field that a directive such as `$setElementOrder/containers` is about.
fn directed_field<'a>(key: &'a str, prefix: &str) -> Result<&'a str, PatchError> {
    match key.split_once('/') {
        Some((found, field)) if found == prefix => Ok(field),
        _ if prefix == ORDER_PREFIX => Err(bad_order()),
        _ => Err(PatchError::Malformed("invalid patch format of primitive list".to_owned())),
    }
}

fn bad_order() -> PatchError {
    PatchError::Malformed("invalid patch format of setElementOrder list".to_owned())
}

fn bad_retain_keys() -> PatchError {
    PatchError::Malformed("invalid patch format of retainKeys".to_owned())
}

fn no_merge_key(fields: &Value, merge_key: &str) -> PatchError {
    PatchError::Unclassified(format!(
        "map: {} does not contain declared merge key: {merge_key}",
        printed(fields)
    ))
}

fn bad_type(expected: &str, received: &Value) -> PatchError {
    PatchError::Unclassified(format!(
        "expected a {expected}, but received a {}",
        super::go_type(received)
    ))
}

const MAP_TYPE: &str = "map[string]interface {}";
const LIST_TYPE: &str = "[]interface {}";

#[cfg(test)]
pub(super) mod openapi;
#[cfg(test)]
mod tests;
