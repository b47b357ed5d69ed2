//! Workloads with a pod template, and how templates are compared.

use std::ops::Deref;

use api::{Deployment, Job, OwnerReference, PodTemplate, ReplicaSet, Resource};
use chassis::client::{Identity, Object};
use object::selector::label::{LabelSelector, Selector};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::meta::{Labels, Owned};

/// The label by which the pods of one template are told from those of another.
pub const TEMPLATE_HASH_LABEL: &str = "pod-template-hash";
/// The letters of a hash: no vowels, so that no word comes out, and nothing that looks
/// like something else.
const HASH_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// How many letters a hash has.
const HASH_LENGTH: usize = 10;

/// A pod template as text, with what is asked of it often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: Box<str>,
    labels: Labels,
    restarts_on_failure: bool,
    digest: [u8; 32],
}

impl Template {
    /// Packs a template.
    #[must_use]
    pub fn pack(template: &PodTemplate) -> Self {
        let labels: Labels = template.labels().into_iter().collect();
        let digest = Sha256::digest(essence(&template.0).to_string()).into();
        let restarts_on_failure = template.0["spec"]["restartPolicy"] == "OnFailure";
        Self { text: template.0.to_string().into(), labels, restarts_on_failure, digest }
    }

    /// The template itself.
    #[must_use]
    pub fn unpack(&self) -> PodTemplate {
        PodTemplate(serde_json::from_str(&self.text).unwrap_or_default())
    }

    /// The labels that its pods get.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Whether its pods restart containers that failed, and only those.
    #[must_use]
    pub fn restarts_on_failure(&self) -> bool {
        self.restarts_on_failure
    }

    /// Whether two templates make the same pods: equal but for the hash label, and for
    /// fields that are absent in one and null or an empty list in the other.
    #[must_use]
    pub fn makes_same_pods(&self, other: &Self) -> bool {
        self.digest == other.digest
    }

    /// A short text that tells this template from others, and differs with the number
    /// of collisions that were met.
    #[must_use]
    pub fn hash(&self, collisions: i32) -> String {
        let mut hasher = Sha256::new_with_prefix(self.digest);
        if collisions != 0 {
            hasher.update(collisions.to_le_bytes());
        }
        let letters = hasher.finalize();
        let letter = |byte: &u8| char::from(HASH_LETTERS[usize::from(*byte) % HASH_LETTERS.len()]);
        letters.iter().take(HASH_LENGTH).map(letter).collect()
    }
}

/// The template without what makes no difference to its pods.
fn essence(template: &Value) -> Value {
    let mut essence = template.clone();
    prune(&mut essence);
    if let Some(metadata) = essence.get_mut("metadata").and_then(Value::as_object_mut) {
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove(TEMPLATE_HASH_LABEL);
        }
        metadata.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
    }
    essence
}

/// Removes nulls and empty lists. Recursion ends where the parser's own limit of depth
/// ended it.
fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(prune);
            map.retain(|_, value| {
                !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
            });
        }
        Value::Array(list) => list.iter_mut().for_each(prune),
        _ => {}
    }
}

/// A kind that makes pods from a template.
pub trait Templated: Resource {
    /// Takes the template out.
    fn take_template(&mut self) -> PodTemplate;
    /// The selector of its pods.
    fn label_selector(&self) -> Option<&LabelSelector>;
}

macro_rules! templated {
    ($type:ty, $object:ident => $selector:expr) => {
        impl Templated for $type {
            fn take_template(&mut self) -> PodTemplate {
                std::mem::take(&mut self.spec.template)
            }

            fn label_selector(&self) -> Option<&LabelSelector> {
                let $object = self;
                $selector
            }
        }
    };
}

templated!(Deployment, deployment => Some(&deployment.spec.selector));
templated!(ReplicaSet, set => Some(&set.spec.selector));
templated!(Job, job => job.spec.selector.as_ref());

/// A workload whose template is packed: the one in `object` is empty.
#[derive(Debug, Clone)]
pub struct Packed<T> {
    /// The workload without its template.
    pub object: T,
    /// The template.
    pub template: Template,
    /// The selector of its pods, parsed; nothing where it cannot be.
    pub selector: Selector,
}

impl<T: Templated> Packed<T> {
    /// Packs a workload.
    #[must_use]
    pub fn new(mut object: T) -> Self {
        let template = Template::pack(&object.take_template());
        let selector = object
            .label_selector()
            .and_then(|selector| selector.to_selector().ok())
            .unwrap_or_else(Selector::nothing);
        Self { object, template, selector }
    }
}

impl<T> Deref for Packed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

impl<'de, T: Templated + Deserialize<'de>> Deserialize<'de> for Packed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::new)
    }
}

impl<T: Templated + DeserializeOwned + Send + 'static> Object for Packed<T> {
    fn identity(&self) -> Identity<'_> {
        self.object.meta().into()
    }
}

impl<T: Templated + DeserializeOwned + Send + 'static> Owned for Packed<T> {
    fn owners(&self) -> &[OwnerReference] {
        self.object.owners()
    }

    fn has_finalizer(&self, name: &str) -> bool {
        self.object.has_finalizer(name)
    }

    fn is_going(&self) -> bool {
        self.object.is_going()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn packed(template: Value) -> Template {
        Template::pack(&PodTemplate(template))
    }

    #[test]
    fn templates_are_the_same_when_they_make_the_same_pods() {
        let check = |left: Value, right: Value, same: bool| {
            let told = format!("{left} {right}");
            let (left, right) = (packed(left), packed(right));
            assert_eq!(left.makes_same_pods(&right), same, "{told}");
            assert_eq!(left.hash(0) == right.hash(0), same, "{told}");
        };
        let hashed = json!({ "metadata": { "labels": { "a": "b", "pod-template-hash": "x" } } });
        check(hashed.clone(), json!({ "metadata": { "labels": { "a": "b" } } }), true);
        check(hashed, json!({ "metadata": { "labels": { "a": "c" } } }), false);
        check(
            json!({ "metadata": { "creationTimestamp": null } }),
            json!({ "metadata": {} }),
            true,
        );
        let only_hash = json!({ "metadata": { "labels": { "pod-template-hash": "x" } } });
        check(only_hash, json!({ "metadata": {} }), true);
        check(json!({ "spec": { "env": [] } }), json!({ "spec": {} }), true);
        // A volume from nowhere is not the volume of an empty directory.
        check(json!({ "spec": { "emptyDir": {} } }), json!({ "spec": {} }), false);
    }

    #[test]
    fn a_hash_is_short_safe_and_changes_with_collisions() {
        let template = packed(json!({ "spec": { "containers": [{ "name": "a" }] } }));
        let hashes: Vec<String> = (0..50).map(|n| template.hash(n)).collect();
        assert!(hashes.iter().all(|hash| hash.len() == HASH_LENGTH));
        let distinct: std::collections::BTreeSet<_> = hashes.iter().collect();
        assert_eq!(distinct.len(), hashes.len());
        // A hash is part of object names: it must never change between releases.
        assert_eq!(template.hash(0), "vrcxlh26fj");
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_out_unchanged(name in "\\PC{0,20}", n in any::<i64>()) {
            let template = json!({ "metadata": { "labels": { "app": name } }, "spec": { "n": n } });
            prop_assert_eq!(packed(template.clone()).unpack().0, template);
        }
    }
}
