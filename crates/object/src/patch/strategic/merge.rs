//! Merging a patch into a map: into an object when it is applied, into another
//! patch when two are combined.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::lists::{Elements, Ordering, merge_list, order_elements};
use super::{
    DELETE_PREFIX, DIRECTIVE, LIST_TYPE, ORDER_PREFIX, PatchError, PatchSchema, RETAIN_KEYS,
    Strategy, bad_order, bad_retain_keys, bad_type, directed_field, list_field, map_field,
};
use crate::json::printed;
use crate::patch::go_type;
use crate::patch::merge::without_nulls;

/// What the patch is merged into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::patch) enum Mode {
    /// An object: directives act and vanish.
    Apply,
    /// Another patch: directives and nulls stay.
    Combine,
}

pub(in crate::patch) fn merge_map<S: PatchSchema>(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    schema: &S,
    mode: Mode,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(&directive.clone(), &Value::Object(patch))),
        };
    }
    retain_keys(&mut original, &mut patch, mode)?;
    let directives: Vec<String> =
        patch.keys().filter(|key| key.starts_with(ORDER_PREFIX)).cloned().collect();
    for directive in directives {
        merge_ordered(&mut original, &mut patch, &directive, schema, mode)?;
    }
    for (key, change) in patch {
        merge_field(&mut original, key, change, schema, mode)?;
    }
    Ok(original)
}

pub(super) fn unknown_directive(directive: &Value, patch: &Value) -> PatchError {
    let shown = match directive {
        Value::String(text) => text.clone(),
        Value::Null => go_type(directive).to_owned(),
        other => format!("%!s({}={})", go_type(other), printed(other)),
    };
    PatchError::Unclassified(format!("unknown patch type: {shown} in map: {}", printed(patch)))
}

/// `$retainKeys` lists every key that may stay, those of the patch included.
fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    mode: Mode,
) -> Result<(), PatchError> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    if mode == Mode::Combine {
        return match original.get(RETAIN_KEYS) {
            Some(present) if *present != directive => Err(PatchError::Unclassified(format!(
                "{} and {} are not deep equal: this may happen when calculating the 3-way diff patch",
                printed(present),
                printed(&directive)
            ))),
            _ => {
                original.insert(RETAIN_KEYS.to_owned(), directive);
                Ok(())
            }
        };
    }
    let Value::Array(keys) = &directive else { return Err(bad_retain_keys()) };
    let keys: BTreeSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let unlisted = patch.iter().any(|(key, change)| {
        !change.is_null()
            && !key.starts_with(DELETE_PREFIX)
            && !key.starts_with(ORDER_PREFIX)
            && !keys.contains(key.as_str())
    });
    if unlisted {
        return Err(bad_retain_keys());
    }
    original.retain(|key, _| keys.contains(key.as_str()));
    Ok(())
}

/// Merges the list that a `$setElementOrder` directive is about, together with the
/// directive, and takes both out of the patch.
fn merge_ordered<S: PatchSchema>(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    directive: &str,
    schema: &S,
    mode: Mode,
) -> Result<(), PatchError> {
    let order = patch.remove(directive).unwrap_or_default();
    if mode == Mode::Combine {
        match original.get(directive) {
            Some(present) if *present != order => return Err(bad_order()),
            _ => original.insert(directive.to_owned(), order.clone()),
        };
    }
    let Value::Array(order) = order else { return Err(bad_type(LIST_TYPE, &order)) };
    let key = directed_field(directive, ORDER_PREFIX)?;
    let current = original.get_mut(key).map(take_list).transpose()?;
    let change = patch.remove(key).map(|mut change| take_list(&mut change)).transpose()?;
    let (field, items) = list_field(schema, key)?;
    let merge_key = field.merge_key().unwrap_or_default();
    check_order(change.as_deref().unwrap_or_default(), &order, merge_key)?;
    if current.is_none() && change.is_none() {
        return Ok(());
    }

    let elements = Elements::of(&[
        current.as_deref().unwrap_or_default(),
        change.as_deref().unwrap_or_default(),
    ]);
    let (merged, live) = match (current, change) {
        (current, None) => {
            let current = current.unwrap_or_default();
            let live = current.clone();
            (current, live)
        }
        (None, Some(change)) => (without_directives_in(change), Vec::new()),
        (Some(current), Some(change)) if field.strategies().strategy == Strategy::Merge => {
            let merged = merge_list(current, change, &items, merge_key, mode)?;
            (merged.items, merged.live)
        }
        (Some(current), Some(change)) => (change, current),
    };
    let ordered =
        order_elements(merged, elements?, &Ordering { patch: &order, live: &live, merge_key })?;
    original.insert(key.to_owned(), Value::Array(ordered));
    Ok(())
}

fn take_list(value: &mut Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(items) => Ok(std::mem::take(items)),
        other => Err(bad_type(LIST_TYPE, other)),
    }
}

/// Elements of the patch must appear in the order that the directive gives, and no
/// element that the directive does not list.
fn check_order(patch: &[Value], order: &[Value], merge_key: &str) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut waiting = Vec::with_capacity(patch.len());
    for item in patch {
        if !merge_key.is_empty() && !item.is_object() {
            return Err(bad_type(super::MAP_TYPE, item));
        }
        if merge_key.is_empty() || item.get(DIRECTIVE).and_then(Value::as_str) != Some("delete") {
            waiting.push(item);
        }
    }
    let mut waiting = waiting.into_iter().peekable();
    for listed in order {
        while waiting.next_if(|item| item.get(DIRECTIVE).is_some()).is_some() {}
        let Some(item) = waiting.peek() else { return Ok(()) };
        if same_key(item, listed, merge_key)? {
            waiting.next();
        }
    }
    match waiting.peek() {
        None => Ok(()),
        Some(_) => Err(PatchError::Unclassified(format!(
            "The order in patch list:\n{}\n doesn't match {ORDER_PREFIX} list:\n{}\n",
            printed(&Value::Array(patch.to_vec())),
            printed(&Value::Array(order.to_vec()))
        ))),
    }
}

/// Whether two elements are the same one: by merge key, or by value without one.
pub(super) fn same_key(left: &Value, right: &Value, merge_key: &str) -> Result<bool, PatchError> {
    if merge_key.is_empty() {
        return Ok(left == right);
    }
    if let Some(wrong) = [left, right].into_iter().find(|item| !item.is_object()) {
        return Err(bad_type(super::MAP_TYPE, wrong));
    }
    let key =
        |item| Value::get(item, merge_key).ok_or_else(|| super::no_merge_key(item, merge_key));
    Ok(key(left)? == key(right)?)
}

fn merge_field<S: PatchSchema>(
    original: &mut Map<String, Value>,
    key: String,
    change: Value,
    schema: &S,
    mode: Mode,
) -> Result<(), PatchError> {
    let (mut key, mut deletes) = (key, false);
    if key.starts_with(DELETE_PREFIX) {
        if mode == Mode::Combine {
            original.insert(key, change);
            return Ok(());
        }
        deletes = true;
        let field = directed_field(&key, DELETE_PREFIX)?.to_owned();
        if !field.is_empty() {
            key = field;
        }
    }
    if change.is_null() {
        original.remove(&key);
        if mode == Mode::Apply {
            return Ok(());
        }
    }
    let present = original.get_mut(&key).map(Value::take);
    let merged = match (present, change) {
        (Some(Value::Object(current)), Value::Object(change)) => {
            let field = map_field(schema, &key)?;
            Some(Value::Object(match field.strategies().strategy {
                Strategy::Replace => change,
                _ => merge_map(current, change, &field, mode)?,
            }))
        }
        (Some(Value::Array(current)), Value::Array(change)) => {
            let (field, items) = list_field(schema, &key)?;
            let merge_key = field.merge_key().unwrap_or_default();
            Some(Value::Array(match field.strategies().strategy {
                _ if deletes => delete_listed(current, change, &items, merge_key, mode)?,
                Strategy::Merge => merge_list(current, change, &items, merge_key, mode)?.items,
                _ => change,
            }))
        }
        // A list of what to delete says nothing where there is no such list.
        (present, change)
            if deletes && present.as_ref().is_none_or(|it| go_type(it) != go_type(&change)) =>
        {
            present
        }
        (_, change) => {
            let change = if mode == Mode::Apply { without_nulls(change) } else { change };
            without_directives(change)
        }
    };
    match merged {
        Some(merged) => original.insert(key, merged),
        None => original.remove(&key),
    };
    Ok(())
}

/// `$deleteFromPrimitiveList`: the list without the scalars listed. Upstream merges
/// where the elements turn out to be maps.
fn delete_listed<S: PatchSchema>(
    current: Vec<Value>,
    listed: Vec<Value>,
    items: &S,
    merge_key: &str,
    mode: Mode,
) -> Result<Vec<Value>, PatchError> {
    if current.is_empty() && listed.is_empty() {
        return Ok(current);
    }
    if Elements::of(&[&current, &listed])? == Elements::Maps {
        return Ok(merge_list(current, listed, items, merge_key, mode)?.items);
    }
    let listed: BTreeSet<String> = listed.iter().map(Value::to_string).collect();
    Ok(current.into_iter().filter(|item| !listed.contains(&item.to_string())).collect())
}

/// The value without the maps that carry a `$patch` directive; nothing when it is
/// such a map itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => Some(Value::Object(
            fields
                .into_iter()
                .filter_map(|(key, field)| Some((key, without_directives(field)?)))
                .collect(),
        )),
        Value::Array(items) => Some(Value::Array(without_directives_in(items))),
        scalar => Some(scalar),
    }
}

fn without_directives_in(items: Vec<Value>) -> Vec<Value> {
    items.into_iter().filter_map(without_directives).collect()
}

/// Merging lists of maps needs a key to tell elements apart.
pub(super) fn no_list_key(items: &impl PatchSchema) -> PatchError {
    let kind = items.shape().kind();
    PatchError::Unclassified(format!("cannot merge lists without merge key for {kind}"))
}
