//! Whether two patches say different things about the same place.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::lists::Elements;
use super::{
    DIRECTIVE, PatchError, PatchSchema, RETAIN_KEYS, Strategies, Strategy, list_field, map_field,
};
use crate::json::printed;

pub(in crate::patch) fn conflicts<S: PatchSchema>(
    left: &Map<String, Value>,
    right: &Map<String, Value>,
    schema: &S,
) -> Result<bool, PatchError> {
    if left.get(DIRECTIVE) != right.get(DIRECTIVE) {
        return Ok(true);
    }
    for (key, left) in left {
        if key == DIRECTIVE || key == RETAIN_KEYS {
            continue;
        }
        let Some(right) = right.get(key) else { continue };
        let conflict = match (left, right) {
            (Value::Object(left), Value::Object(right)) => {
                let field = map_field(schema, key)?;
                let replaced = field.strategies().strategy == Strategy::Replace
                    && left.get(DIRECTIVE) == right.get(DIRECTIVE);
                !replaced && conflicts(left, right, &field)?
            }
            (Value::Array(left), Value::Array(right)) => {
                let (field, items) = list_field(schema, key)?;
                let merge_key = field.merge_key().unwrap_or_default();
                list_conflicts(left, right, &items, field.strategies(), merge_key)?
            }
            (left, right) => left != right,
        };
        if conflict {
            return Ok(true);
        }
    }
    Ok(false)
}

fn list_conflicts<S: PatchSchema>(
    left: &[Value],
    right: &[Value],
    items: &S,
    strategies: Strategies,
    merge_key: &str,
) -> Result<bool, PatchError> {
    let elements = Elements::of(&[left, right])?;
    if strategies.strategy == Strategy::Merge {
        if elements == Elements::Scalars {
            return Ok(false);
        }
        let (left, right) = (by_key(left, merge_key)?, by_key(right, merge_key)?);
        for (key, left) in left {
            if let Some(right) = right.get(&key)
                && conflicts(left, right, items)?
            {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    if left.len() != right.len() {
        return Ok(true);
    }
    if elements == Elements::Scalars {
        // The order of scalars in a replaced list is not held against anyone.
        let set = |list: &[Value]| list.iter().map(Value::to_string).collect::<BTreeSet<_>>();
        return Ok(set(left) != set(right));
    }
    for (left, right) in left.iter().zip(right) {
        if let (Value::Object(left), Value::Object(right)) = (left, right)
            && conflicts(left, right, items)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn by_key<'a>(
    list: &'a [Value],
    merge_key: &str,
) -> Result<BTreeMap<String, &'a Map<String, Value>>, PatchError> {
    let mut keyed = BTreeMap::new();
    for item in list {
        let Value::Object(fields) = item else { continue };
        let key = fields.get(merge_key).ok_or_else(|| {
            PatchError::Unclassified(format!(
                "cannot find merge key `{merge_key}` in merging list element:{}",
                printed(item)
            ))
        })?;
        keyed.insert(printed(key), fields);
    }
    Ok(keyed)
}
