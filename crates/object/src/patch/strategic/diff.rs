//! The patch between two maps.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::lists::{Elements, sort_like};
use super::merge::same_key;
use super::{
    DELETE_PREFIX, DIRECTIVE, ORDER_PREFIX, PatchError, PatchSchema, RETAIN_KEYS, Strategies,
    Strategy, list_field, map_field, no_merge_key,
};
use crate::json::printed;
use crate::patch::go_type;

/// What of the difference is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::patch) struct Scope {
    changes: bool,
    deletions: bool,
    order: bool,
    /// Whether the map at hand is a union whose keys the patch must list.
    retain_keys: bool,
}

impl Scope {
    /// Everything: the patch makes one into the other.
    pub(in crate::patch) const ALL: Self =
        Self { changes: true, deletions: true, order: true, retain_keys: false };
    /// What the second has that the first lacks or has otherwise.
    pub(in crate::patch) const CHANGES: Self = Self { deletions: false, ..Self::ALL };
    /// What the first has that the second lacks.
    pub(in crate::patch) const DELETIONS: Self = Self { changes: false, ..Self::ALL };
    /// Everything but the order of lists.
    pub(in crate::patch) const CONTENT: Self = Self { order: false, ..Self::ALL };

    /// The same for a field with these strategies.
    fn below(self, strategies: Strategies) -> Self {
        Self { retain_keys: strategies.retain_keys, ..self }
    }
}

pub(in crate::patch) fn diff_maps<S: PatchSchema>(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    schema: &S,
    scope: Scope,
) -> Result<Map<String, Value>, PatchError> {
    let mut patch = Map::new();
    for (key, wanted) in new {
        match (old.get(key), wanted) {
            (None, _) => {
                if scope.changes {
                    patch.insert(key.clone(), wanted.clone());
                }
            }
            (Some(present), _) if key == DIRECTIVE => {
                if !present.is_string() || !wanted.is_string() {
                    let text = "invalid value for special key: $patch";
                    return Err(PatchError::Unclassified(text.to_owned()));
                }
                if present != wanted {
                    patch.insert(key.clone(), wanted.clone());
                }
            }
            (Some(Value::Object(present)), Value::Object(wanted)) => {
                diff_map_field(key, present, wanted, schema, scope, &mut patch)?;
            }
            (Some(Value::Array(present)), Value::Array(wanted)) => {
                diff_list_field(key, present, wanted, schema, scope, &mut patch)?;
            }
            (Some(present), _) => {
                let differs = go_type(present) != go_type(wanted) || present != wanted;
                if scope.changes && differs {
                    patch.insert(key.clone(), wanted.clone());
                }
            }
        }
    }
    if scope.deletions {
        for key in old.keys().filter(|key| !new.contains_key(*key)) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    let kept: Vec<Value> = new
        .iter()
        .filter(|(_, wanted)| scope.retain_keys && !wanted.is_null())
        .map(|(key, _)| Value::from(key.as_str()))
        .collect();
    let drops = || old.iter().any(|(key, value)| !value.is_null() && !new.contains_key(key));
    if !kept.is_empty() && (!patch.is_empty() || drops()) {
        patch.insert(RETAIN_KEYS.to_owned(), Value::Array(kept));
    }
    Ok(patch)
}

fn diff_map_field<S: PatchSchema>(
    key: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    schema: &S,
    scope: Scope,
    patch: &mut Map<String, Value>,
) -> Result<(), PatchError> {
    let field = match map_field(schema, key) {
        Ok(field) => field,
        Err(_) if old == new => return Ok(()),
        Err(error) => return Err(error),
    };
    let strategies = field.strategies();
    if strategies.strategy == Strategy::Replace {
        if scope.changes {
            patch.insert(key.to_owned(), Value::Object(new.clone()));
        }
        return Ok(());
    }
    let nested = diff_maps(old, new, &field, scope.below(strategies))?;
    if !nested.is_empty() {
        patch.insert(key.to_owned(), Value::Object(nested));
    }
    Ok(())
}

fn diff_list_field<S: PatchSchema>(
    key: &str,
    old: &[Value],
    new: &[Value],
    schema: &S,
    scope: Scope,
    patch: &mut Map<String, Value>,
) -> Result<(), PatchError> {
    let (field, items) = match list_field(schema, key) {
        Ok(found) => found,
        Err(_) if old == new => return Ok(()),
        Err(error) => return Err(error),
    };
    let strategies = field.strategies();
    if strategies.strategy != Strategy::Merge {
        if scope.changes && old != new {
            patch.insert(key.to_owned(), Value::Array(new.to_vec()));
        }
        return Ok(());
    }
    let merge_key = field.merge_key().unwrap_or_default();
    let lists = diff_lists(old, new, &items, merge_key, scope.below(strategies))?;
    for (name, list) in [
        (key.to_owned(), lists.patch),
        (format!("{DELETE_PREFIX}/{key}"), lists.deleted),
        (format!("{ORDER_PREFIX}/{key}"), lists.order),
    ] {
        if !list.is_empty() {
            patch.insert(name, Value::Array(list));
        }
    }
    Ok(())
}

/// What a patch says about one list: the list itself and the two directives beside it.
#[derive(Default)]
struct Lists {
    patch: Vec<Value>,
    deleted: Vec<Value>,
    order: Vec<Value>,
}

fn diff_lists<S: PatchSchema>(
    old: &[Value],
    new: &[Value],
    items: &S,
    merge_key: &str,
    scope: Scope,
) -> Result<Lists, PatchError> {
    if old.is_empty() {
        let patch = if scope.changes { new.to_vec() } else { Vec::new() };
        return Ok(Lists { patch, ..Lists::default() });
    }
    let elements = Elements::of(&[old, new])?;
    if elements == Elements::Scalars {
        return diff_scalars(old, new, merge_key, scope);
    }
    let (patch, deletions) = diff_elements(old, new, items, merge_key, scope)?;
    let mut patch = sort_like(patch, new, merge_key, elements)?;
    let same_order = is_same_order(old, new, merge_key)?;
    patch.extend(deletions);
    let mut order = Vec::new();
    let changed = scope.changes && (!patch.is_empty() || !same_order);
    if scope.order && (changed || (scope.deletions && !patch.is_empty())) {
        order = new.iter().map(|item| key_element(merge_key, &item[merge_key])).collect();
    }
    Ok(Lists { patch, deleted: Vec::new(), order })
}

fn key_element(merge_key: &str, key: &Value) -> Value {
    Value::Object(Map::from_iter([(merge_key.to_owned(), key.clone())]))
}

fn is_same_order(old: &[Value], new: &[Value], merge_key: &str) -> Result<bool, PatchError> {
    if old.len() != new.len() {
        return Ok(false);
    }
    for (old, new) in old.iter().zip(new) {
        if !same_key(old, new, merge_key)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Unlike upstream, which sorts the old list in place before it compares the two,
/// the order is told exactly when it differs.
fn diff_scalars(
    old: &[Value],
    new: &[Value],
    merge_key: &str,
    scope: Scope,
) -> Result<Lists, PatchError> {
    let sorted = |list: &[Value]| {
        let mut list: Vec<(String, Value)> =
            list.iter().map(|item| (printed(item), item.clone())).collect();
        list.sort_by(|left, right| left.0.cmp(&right.0));
        list
    };
    let (mut added, mut deleted) = (Vec::new(), Vec::new());
    each_pair(sorted(old), sorted(new), |pair| {
        match pair {
            Pair::Both(..) => {}
            Pair::Old(item) if scope.deletions => deleted.push(item),
            Pair::New(item) if scope.changes => added.push(item),
            Pair::Old(_) | Pair::New(_) => {}
        }
        Ok(())
    })?;
    deleted.dedup();
    let patch = sort_like(added, new, merge_key, Elements::Scalars)?;
    let told = (scope.deletions && !deleted.is_empty()) || (scope.changes && old != new);
    let order = if scope.order && told { new.to_vec() } else { Vec::new() };
    Ok(Lists { patch, deleted, order })
}

fn diff_elements<S: PatchSchema>(
    old: &[Value],
    new: &[Value],
    items: &S,
    merge_key: &str,
    scope: Scope,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let (mut patch, mut deletions) = (Vec::new(), Vec::new());
    each_pair(sorted(old, merge_key)?, sorted(new, merge_key)?, |pair| {
        match pair {
            Pair::Both(Value::Object(old), Value::Object(new)) => {
                let mut change = diff_maps(old, new, items, scope)?;
                if !change.is_empty() {
                    change.insert(merge_key.to_owned(), new[merge_key].clone());
                    patch.push(Value::Object(change));
                }
            }
            Pair::New(item) if scope.changes => patch.push(item.clone()),
            Pair::Old(item) if scope.deletions => {
                let mut deletion = key_element(merge_key, &item[merge_key]);
                deletion[DIRECTIVE] = Value::from("delete");
                deletions.push(deletion);
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok((patch, deletions))
}

/// The elements by the text of their merge key. Among equals the last comes first,
/// as upstream's sort leaves them.
fn sorted<'a>(list: &'a [Value], merge_key: &str) -> Result<Vec<(String, &'a Value)>, PatchError> {
    let mut keyed = Vec::with_capacity(list.len());
    for item in list.iter().rev() {
        let key = item.get(merge_key).ok_or_else(|| no_merge_key(item, merge_key))?;
        keyed.push((printed(key), item));
    }
    keyed.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(keyed)
}

enum Pair<T> {
    Both(T, T),
    Old(T),
    New(T),
}

/// Walks two sorted lists together.
fn each_pair<T>(
    old: Vec<(String, T)>,
    new: Vec<(String, T)>,
    mut visit: impl FnMut(Pair<T>) -> Result<(), PatchError>,
) -> Result<(), PatchError> {
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((old, _)), Some((new, _))) => old.cmp(new),
        };
        let left = if order == Ordering::Greater { None } else { old.next() };
        let right = if order == Ordering::Less { None } else { new.next() };
        match (left, right) {
            (Some((_, old)), Some((_, new))) => visit(Pair::Both(old, new))?,
            (Some((_, old)), None) => visit(Pair::Old(old))?,
            (None, Some((_, new))) => visit(Pair::New(new))?,
            (None, None) => return Ok(()),
        }
    }
}
