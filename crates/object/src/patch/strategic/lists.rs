//! Lists that merge: elements found by key or value, and the order they end in.
//!
//! Elements are looked up through a sorted index of their keys, so that a long list
//! costs its length times a logarithm, not its square.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::merge::{Mode, merge_map, no_list_key, unknown_directive};
use super::{DIRECTIVE, MAP_TYPE, PatchError, PatchSchema, bad_type, no_merge_key};
use crate::json::printed;
use crate::patch::go_type;

/// What the elements of lists are, all of one sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Elements {
    Maps,
    Scalars,
}

impl Elements {
    /// The sort of all elements of the lists together.
    pub(super) fn of(lists: &[&[Value]]) -> Result<Self, PatchError> {
        let mut elements = lists.iter().copied().flatten();
        let Some(first) = elements.next() else {
            return Err(PatchError::Unclassified(
                "no elements in any of the given slices".to_owned(),
            ));
        };
        match first {
            Value::Array(_) => {
                let text = "lists of lists are not supported";
                return Err(PatchError::Unprocessable(text.to_owned()));
            }
            // Upstream crashes here, and answers 500 as well.
            Value::Null => {
                let text = "an element of a merging list may not be null: leave it out";
                return Err(PatchError::Unclassified(text.to_owned()));
            }
            _ => {}
        }
        if elements.any(|element| go_type(element) != go_type(first)) {
            let lists: Vec<String> =
                lists.iter().map(|list| printed(&Value::Array(list.to_vec()))).collect();
            return Err(PatchError::Unclassified(format!(
                "list element types are not identical: [{}]",
                lists.join(" ")
            )));
        }
        Ok(if first.is_object() { Self::Maps } else { Self::Scalars })
    }
}

/// A list after a merge, and the order that the live elements had before it.
pub(super) struct Merged {
    pub(super) items: Vec<Value>,
    pub(super) live: Vec<Value>,
}

pub(super) fn merge_list<S: PatchSchema>(
    original: Vec<Value>,
    patch: Vec<Value>,
    items: &S,
    merge_key: &str,
    mode: Mode,
) -> Result<Merged, PatchError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(Merged { items: original, live: Vec::new() });
    }
    let elements = Elements::of(&[&original, &patch])?;
    if elements == Elements::Scalars {
        let mut seen = BTreeSet::new();
        let both = original.iter().chain(&patch);
        let merged = both.filter(|item| seen.insert(item.to_string())).cloned().collect();
        let ordering = Ordering { patch: &patch, live: &original, merge_key };
        let items = order_elements(merged, elements, &ordering)?;
        return Ok(Merged { items, live: original });
    }
    if merge_key.is_empty() {
        return Err(no_list_key(items));
    }
    let length_before = original.len();
    let (mut live, patch) = without_special(original, patch, merge_key)?;
    let order = keys_only(&patch, merge_key);
    let mut merged = std::mem::take(&mut live);
    live = keys_only(&merged, merge_key);
    merge_elements(&mut merged, patch, items, merge_key, mode)?;
    let ordering = Ordering { patch: &order, live: &live, merge_key };
    // New elements take the slots that deleted ones left in the live order, as they
    // do in upstream's backing array.
    let added = keys_only(&merged[live.len()..], merge_key);
    let free = length_before.saturating_sub(live.len());
    let mut live_after = live.clone();
    live_after.extend(added.into_iter().take(free));
    let items = order_elements(merged, elements, &ordering)?;
    Ok(Merged { items, live: live_after })
}

/// The elements reduced to their merge keys; an element without one stays as it is,
/// for the message about it.
fn keys_only(items: &[Value], merge_key: &str) -> Vec<Value> {
    let key_only = |item: &Value| match item.get(merge_key) {
        Some(key) => {
            let mut fields = serde_json::Map::new();
            fields.insert(merge_key.to_owned(), key.clone());
            Value::Object(fields)
        }
        None => item.clone(),
    };
    items.iter().map(key_only).collect()
}

/// Carries out the elements of the patch that are directives: what is left to merge,
/// and into what.
fn without_special(
    original: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut deleted = BTreeSet::new();
    let mut replaces = false;
    for item in patch {
        let Some(directive) = item.get(DIRECTIVE) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let key = item.get(merge_key).ok_or_else(|| no_merge_key(&item, merge_key))?;
                deleted.insert(key.to_string());
            }
            Some("replace") => replaces = true,
            Some("merge") => {
                let text = "merging lists cannot yet be specified in the patch";
                return Err(PatchError::Unclassified(text.to_owned()));
            }
            _ => return Err(unknown_directive(directive, &item)),
        }
    }
    if replaces {
        return Ok((plain, Vec::new()));
    }
    let mut original = original;
    original
        .retain(|item| item.get(merge_key).is_none_or(|key| !deleted.contains(&key.to_string())));
    Ok((original, plain))
}

/// Merges each element of the patch into the element with its key, or appends it.
fn merge_elements<S: PatchSchema>(
    merged: &mut Vec<Value>,
    patch: Vec<Value>,
    items: &S,
    merge_key: &str,
    mode: Mode,
) -> Result<(), PatchError> {
    let mut at = BTreeMap::new();
    for (index, item) in merged.iter().enumerate() {
        if let Some(key) = item.get(merge_key) {
            at.entry(key.to_string()).or_insert(index);
        }
    }
    for item in patch {
        let Some(key) = item.get(merge_key) else { return Err(no_merge_key(&item, merge_key)) };
        let key = key.to_string();
        match (at.get(&key).map(|&index| &mut merged[index]), item) {
            (Some(Value::Object(current)), Value::Object(change)) => {
                let current = std::mem::take(current);
                let index = at[&key];
                merged[index] = Value::Object(merge_map(current, change, items, mode)?);
            }
            (_, item) => {
                at.insert(key, merged.len());
                merged.push(item);
            }
        }
    }
    Ok(())
}

/// What decides the order of a merged list.
pub(super) struct Ordering<'a> {
    /// The order the patch gives; it comes first.
    pub(super) patch: &'a [Value],
    /// The order the elements had.
    pub(super) live: &'a [Value],
    /// How elements are told apart; empty for scalars.
    pub(super) merge_key: &'a str,
}

/// Puts the elements the patch names in the patch's order, the others in the live
/// order, and interleaves the two by the live order as far as it says.
pub(super) fn order_elements(
    merged: Vec<Value>,
    elements: Elements,
    ordering: &Ordering<'_>,
) -> Result<Vec<Value>, PatchError> {
    let merge_key = ordering.merge_key;
    let named: BTreeSet<String> =
        ordering.patch.iter().map(|item| identity(item, merge_key)).collect();
    let (mut from_patch, mut live_only) = (Vec::new(), Vec::new());
    for item in merged {
        if !merge_key.is_empty() {
            check_key(&item, merge_key)?;
        }
        let named = named.contains(&identity(&item, merge_key));
        if named { &mut from_patch } else { &mut live_only }.push(item);
    }
    if elements == Elements::Maps {
        for item in ordering.patch.iter().chain(ordering.live) {
            check_key(item, merge_key)?;
        }
    }
    let live = Ranks::of(ordering.live, merge_key);
    let from_patch = arrange(from_patch, &Ranks::of(ordering.patch, merge_key), elements);
    let live_only = arrange(live_only, &live, elements);
    Ok(interleave(live_only, from_patch, &live))
}

fn check_key(item: &Value, merge_key: &str) -> Result<(), PatchError> {
    match item {
        Value::Object(fields) if fields.contains_key(merge_key) => Ok(()),
        Value::Object(_) => Err(no_merge_key(item, merge_key)),
        other => Err(bad_type(MAP_TYPE, other)),
    }
}

/// A text that is the same for two elements exactly when they are the same element.
fn identity(item: &Value, merge_key: &str) -> String {
    if merge_key.is_empty() {
        return item.to_string();
    }
    item.get(merge_key).unwrap_or(&Value::Null).to_string()
}

/// Where each element stands in an order.
struct Ranks<'a> {
    ranks: BTreeMap<String, usize>,
    merge_key: &'a str,
}

impl<'a> Ranks<'a> {
    fn of(order: &[Value], merge_key: &'a str) -> Self {
        let mut ranks = BTreeMap::new();
        for (index, item) in order.iter().enumerate() {
            ranks.entry(identity(item, merge_key)).or_insert(index);
        }
        Self { ranks, merge_key }
    }

    fn rank(&self, item: &Value) -> Option<usize> {
        self.ranks.get(&identity(item, self.merge_key)).copied()
    }
}

/// Up to this length upstream's sort is an insertion sort.
const INSERTION_MAX: usize = 20;

/// Sorts by rank, and puts elements that are to be deleted last.
fn arrange(items: Vec<Value>, order: &Ranks<'_>, elements: Elements) -> Vec<Value> {
    let is_deletion = |item: &Value| {
        elements == Elements::Maps && item.get(DIRECTIVE).and_then(Value::as_str) == Some("delete")
    };
    let (deletions, kept): (Vec<_>, Vec<_>) = items.into_iter().partition(is_deletion);
    let mut ranked: Vec<(Option<usize>, Value)> =
        kept.into_iter().map(|item| (order.rank(&item), item)).collect();
    if ranked.iter().all(|(rank, _)| rank.is_some()) || ranked.len() > INSERTION_MAX {
        ranked.sort_by_key(|(rank, _)| *rank);
    } else {
        // Upstream calls an element without a rank less than any other, and any
        // other less than it: what comes out is what its insertion sort makes of it.
        for end in 1..ranked.len() {
            let mut at = end;
            while at > 0 && comes_before(ranked[at].0, ranked[at - 1].0) {
                ranked.swap(at, at - 1);
                at -= 1;
            }
        }
    }
    ranked.into_iter().map(|(_, item)| item).chain(deletions).collect()
}

fn comes_before(left: Option<usize>, right: Option<usize>) -> bool {
    left.zip(right).is_none_or(|(left, right)| left < right)
}

/// Takes from `live_only` while its next element stood before the next of
/// `from_patch`, else from `from_patch`.
fn interleave(live_only: Vec<Value>, from_patch: Vec<Value>, live: &Ranks<'_>) -> Vec<Value> {
    let mut all = Vec::with_capacity(live_only.len() + from_patch.len());
    let mut left = live_only.into_iter().peekable();
    let mut right = from_patch.into_iter().peekable();
    loop {
        let from_left = match (left.peek(), right.peek()) {
            (None, None) => return all,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(left), Some(right)) => {
                live.rank(left).zip(live.rank(right)).is_some_and(|(left, right)| left < right)
            }
        };
        all.extend(if from_left { left.next() } else { right.next() });
    }
}

/// Sorts the elements of a patch list by the order of the list it was made from.
pub(super) fn sort_like(
    items: Vec<Value>,
    order: &[Value],
    merge_key: &str,
    elements: Elements,
) -> Result<Vec<Value>, PatchError> {
    if elements == Elements::Maps {
        for item in items.iter().chain(order) {
            check_key(item, merge_key)?;
        }
    }
    Ok(arrange(items, &Ranks::of(order, merge_key), elements))
}
