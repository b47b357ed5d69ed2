//! How controllers write: the bodies of their requests, as pure functions.

use std::collections::BTreeMap;

use api::{OwnerReference, PodTemplate};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The longest prefix that a generated name has: the server adds five letters, and a pod's
/// name has to fit a host name.
const PREFIX_MAX: usize = 58;
/// The longest name of an object.
const NAME_MAX: usize = 253;
/// How many objects the first batch of a burst makes.
const BATCH_FIRST: usize = 1;

/// The merge patch that turns `old` into `new` at the top level: what is gone becomes
/// null, what stayed is left out. `None` when nothing changed.
pub fn difference(old: &impl Serialize, new: &impl Serialize) -> Option<Value> {
    let (old, new) = (serde_json::to_value(old).ok()?, serde_json::to_value(new).ok()?);
    let mut patch = Map::new();
    let (old, new) = (old.as_object()?, new.as_object()?);
    for (key, value) in new {
        if old.get(key) != Some(value) {
            // A map is replaced, not merged, when what it had before is said to be gone.
            let gone = old.get(key).and_then(Value::as_object).filter(|_| value.is_object());
            let mut value = value.clone();
            for key in gone.into_iter().flat_map(Map::keys) {
                if value.get(key).is_none() {
                    value[key] = Value::Null;
                }
            }
            patch.insert(key.clone(), value);
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The merge patch that adds an owner to an object and keeps those it has.
pub fn adoption(
    uid: &str,
    resource_version: &str,
    owners: &[OwnerReference],
    owner: &OwnerReference,
) -> Value {
    let mut all = owners.to_vec();
    all.push(owner.clone());
    owners_patch(uid, resource_version, &all)
}

/// Adds to a merge patch of an object that it gets a finalizer, before those it has.
pub fn add_finalizer(patch: &mut Value, finalizers: &[Box<str>], name: &str) {
    if !finalizers.iter().any(|own| **own == *name) {
        let all: Vec<&str> =
            [name].into_iter().chain(finalizers.iter().map(|own| &**own)).collect();
        patch["metadata"]["finalizers"] = json!(all);
    }
}

/// The merge patch that takes owners away from an object.
pub fn release(
    uid: &str,
    resource_version: &str,
    owners: &[OwnerReference],
    goes: impl Fn(&OwnerReference) -> bool,
) -> Value {
    let kept: Vec<OwnerReference> = owners.iter().filter(|own| !goes(own)).cloned().collect();
    owners_patch(uid, resource_version, &kept)
}

/// The merge patch that gives an object these owners.
fn owners_patch(uid: &str, resource_version: &str, owners: &[OwnerReference]) -> Value {
    json!({ "metadata": { "uid": uid, "resourceVersion": resource_version,
                          "ownerReferences": owners } })
}

/// The merge patch that takes a finalizer away from an object.
pub fn without_finalizer<S: AsRef<str>>(
    uid: &str,
    resource_version: &str,
    finalizers: &[S],
    goes: &str,
) -> Value {
    let kept: Vec<&str> = finalizers.iter().map(AsRef::as_ref).filter(|own| *own != goes).collect();
    json!({ "metadata": { "uid": uid, "resourceVersion": resource_version, "finalizers": kept } })
}

/// A pod to be made from a template, for its owner.
#[derive(Debug, Clone, Default)]
pub struct NewPod {
    /// What the server completes to a name.
    pub generate_name: String,
    /// Labels beside those of the template.
    pub labels: BTreeMap<String, String>,
    /// Annotations beside those of the template.
    pub annotations: BTreeMap<String, String>,
    /// A finalizer beside those of the template.
    pub finalizer: Option<&'static str>,
    /// The host name, where it is not the template's.
    pub hostname: Option<String>,
}

impl NewPod {
    /// The pod as the server takes it.
    #[must_use]
    pub fn build(&self, template: &PodTemplate, owner: &OwnerReference) -> Value {
        let (mut labels, mut annotations) = (template.labels(), template.annotations());
        labels.extend(self.labels.clone());
        annotations.extend(self.annotations.clone());
        let mut finalizers: Vec<String> = template.0["metadata"]["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect();
        if let Some(finalizer) = self.finalizer
            && !finalizers.iter().any(|own| own == finalizer)
        {
            finalizers.push(finalizer.to_owned());
        }
        let mut spec = template.spec();
        if let Some(hostname) = &self.hostname {
            spec["hostname"] = hostname.as_str().into();
        }
        let mut metadata =
            json!({ "generateName": self.generate_name, "ownerReferences": [owner] });
        if !labels.is_empty() {
            metadata["labels"] = json!(labels);
        }
        if !annotations.is_empty() {
            metadata["annotations"] = json!(annotations);
        }
        if !finalizers.is_empty() {
            metadata["finalizers"] = json!(finalizers);
        }
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
    }
}

/// The start of the names of a workload's pods. A workload whose own name leaves no room
/// for a suffix gets it cut, as the server does with any prefix.
#[must_use]
pub fn name_prefix(owner: &str) -> String {
    let prefix = format!("{owner}-");
    if prefix.len() <= NAME_MAX { prefix } else { owner.to_owned() }
}

/// A name with a suffix that tells it from its siblings; what is too long is cut.
#[must_use]
pub fn name_with(owner: &str, suffix: &str) -> String {
    let room = NAME_MAX.saturating_sub(suffix.len() + 1);
    format!("{}-{suffix}", cut(owner, room))
}

/// The start of a text, of at most so many bytes.
fn cut(text: &str, room: usize) -> &str {
    let end = text.char_indices().map(|(at, letter)| at + letter.len_utf8());
    let end = end.take_while(|end| *end <= room).last().unwrap_or(0);
    &text[..end]
}

/// The start of the names of a job's pods of one index; the index is never cut.
#[must_use]
pub fn indexed_name_prefix(owner: &str, index: u32) -> String {
    let tail = format!("-{index}-");
    let room = PREFIX_MAX.saturating_sub(tail.len());
    cut(owner, room).to_owned() + &tail
}

/// The sizes of the batches in which `count` objects are made: one, then twice as many
/// each time, so that a burst of creations which the server refuses costs few requests.
pub fn slow_start(count: usize) -> impl Iterator<Item = usize> {
    let (mut left, mut size) = (count, BATCH_FIRST);
    std::iter::from_fn(move || {
        let batch = size.min(left);
        left -= batch;
        size = size.saturating_mul(2);
        (batch > 0).then_some(batch)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn adoption_adds_an_owner_and_a_finalizer_once() {
        let check = |has: &[&str], want: Value| {
            let finalizers: Vec<Box<str>> = has.iter().map(|own| (*own).into()).collect();
            let owner = OwnerReference { uid: "o".to_owned(), ..OwnerReference::default() };
            let mut patch = adoption("u", "7", &[], &owner);
            add_finalizer(&mut patch, &finalizers, "track");
            assert_eq!(patch["metadata"]["ownerReferences"][0]["uid"], "o");
            assert_eq!(patch["metadata"]["resourceVersion"], "7");
            assert_eq!(patch["metadata"]["finalizers"], want, "{has:?}");
        };
        check(&[], json!(["track"]));
        check(&["other"], json!(["track", "other"]));
        check(&["track"], Value::Null);
    }

    #[test]
    fn a_difference_names_what_changed_and_what_is_gone() {
        let check = |old: Value, new: Value, want: Option<Value>| {
            assert_eq!(difference(&old, &new), want);
        };
        check(json!({ "a": 1 }), json!({ "a": 1 }), None);
        check(json!({ "a": 1 }), json!({ "a": 2, "b": [] }), Some(json!({ "a": 2, "b": [] })));
        check(json!({ "a": 1, "b": 2 }), json!({ "b": 2 }), Some(json!({ "a": null })));
        check(
            json!({ "m": { "x": 1, "y": 2 } }),
            json!({ "m": { "y": 3 } }),
            Some(json!({ "m": { "x": null, "y": 3 } })),
        );
    }

    #[test]
    fn a_pod_has_all_of_its_template_and_what_its_owner_adds() {
        let template = PodTemplate(json!({
            "metadata": { "labels": { "app": "web" }, "annotations": { "n": "1" },
                          "finalizers": ["x/y"] },
            "spec": { "containers": [{ "name": "main" }], "odd": true }
        }));
        let new = NewPod {
            generate_name: "web-".to_owned(),
            labels: [("index".to_owned(), "0".to_owned())].into(),
            finalizer: Some("a/b"),
            hostname: Some("web-0".to_owned()),
            ..NewPod::default()
        };
        let owner = OwnerReference { uid: "u".to_owned(), ..OwnerReference::default() };
        assert_eq!(
            new.build(&template, &owner),
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "generateName": "web-", "ownerReferences": [owner],
                    "labels": { "app": "web", "index": "0" }, "annotations": { "n": "1" },
                    "finalizers": ["x/y", "a/b"] },
                "spec": { "containers": [{ "name": "main" }], "odd": true, "hostname": "web-0" }
            })
        );
        let bare = NewPod::default().build(&PodTemplate::default(), &owner);
        assert_eq!(bare["spec"], json!({}));
    }

    #[test]
    fn prefixes_leave_room_for_the_suffix_and_keep_the_index() {
        assert_eq!(name_prefix("web"), "web-");
        assert_eq!(name_prefix(&"w".repeat(253)), "w".repeat(253));
        assert_eq!(indexed_name_prefix("pi", 7), "pi-7-");
        let long = indexed_name_prefix(&"p".repeat(63), 123);
        assert!(long.len() == PREFIX_MAX && long.ends_with("p-123-"), "{long}");
    }

    proptest! {
        #[test]
        fn batches_double_and_add_up(count in 0..5000usize) {
            let batches: Vec<usize> = slow_start(count).collect();
            prop_assert_eq!(batches.iter().sum::<usize>(), count);
            for (turn, batch) in batches.iter().enumerate() {
                prop_assert!(*batch <= 1 << turn);
            }
        }
    }
}
