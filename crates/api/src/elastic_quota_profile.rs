//! What the root quota of a tree is made of: a group of nodes.

use std::collections::BTreeMap;

use object::selector::label::LabelSelector;
use serde::{Deserialize, Serialize};

use crate::elastic_quota::{KEYS_BOUNDS, KEYS_FIX, TREE_ID_LABEL};
use crate::malformed::{Malformed, UnreadList, names_annotation};
use crate::object_meta::ObjectMeta;
use crate::resource::resource;
use crate::wire;

/// Annotation: the resources that the root quota counts.
pub const RESOURCE_KEYS: &str = "quota.scheduling.koordinator.sh/resource-keys";
/// The resources that it counts where nothing is said.
const RESOURCE_KEYS_UNLESS_TOLD: [&str; 2] = ["cpu", "memory"];

/// A group of nodes that has a tree of quotas of its own.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ElasticQuotaProfile {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// Which nodes, and which quota.
    #[serde(deserialize_with = "wire::or_default")]
    pub spec: ElasticQuotaProfileSpec,
}

resource!(
    ElasticQuotaProfile,
    "quota.koordinator.sh",
    "v1alpha1",
    "ElasticQuotaProfile",
    "elasticquotaprofiles",
    true
);

/// Which nodes have a tree of their own, and which quota is its root.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ElasticQuotaProfileSpec {
    /// The root quota, in the namespace of the profile.
    #[serde(deserialize_with = "wire::or_default")]
    pub quota_name: String,
    /// Labels of the root quota.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub quota_labels: BTreeMap<String, String>,
    /// The part of what the nodes have that the tree gets, as it is written.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub resource_ratio: String,
    /// The nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
}

impl ElasticQuotaProfile {
    /// The tree that is made; none where nobody has named it yet.
    #[must_use]
    pub fn tree_id(&self) -> Option<&str> {
        let id = self.metadata.labels.get(TREE_ID_LABEL)?;
        Some(id.as_str()).filter(|id| !id.is_empty())
    }

    /// The resources that the root quota counts.
    ///
    /// # Errors
    /// When they cannot be read, or are none.
    pub fn resource_keys(&self) -> Result<Vec<Box<str>>, Malformed> {
        let annotations = &self.metadata.annotations;
        let told = annotations.get(RESOURCE_KEYS).map_or("", String::as_str);
        if told.trim().is_empty() {
            return Ok(RESOURCE_KEYS_UNLESS_TOLD.map(Box::from).to_vec());
        }
        let keys = names_annotation(annotations, RESOURCE_KEYS, KEYS_BOUNDS, KEYS_FIX);
        let keys = keys.map_err(UnreadList::malformed)?;
        let keys = keys.filter(|keys| !keys.is_empty() && keys.iter().all(|key| !key.is_empty()));
        keys.ok_or_else(|| Malformed::new(RESOURCE_KEYS, told, KEYS_FIX))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn profile(metadata: Value) -> ElasticQuotaProfile {
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    #[test]
    fn resources_are_cpu_and_memory_unless_others_are_named() {
        let check = |text: &str, expected: Option<&[&str]>| {
            let own = profile(json!({ "annotations": { RESOURCE_KEYS: text } }));
            let keys = own.resource_keys();
            if let Err(error) = &keys {
                assert_eq!((error.key, error.value()), (RESOURCE_KEYS, text));
            }
            let expected = expected.map(|keys| keys.iter().copied().map(Box::from).collect());
            assert_eq!(keys.ok(), expected, "{text}");
        };
        check("", Some(&["cpu", "memory"]));
        check(r#"["cpu","nvidia.com/gpu"]"#, Some(&["cpu", "nvidia.com/gpu"]));
        for wrong in ["[]", "{}", "cpu", "[7]", r#"[""]"#, "null", r#"{"cpu":"1"}"#] {
            check(wrong, None);
        }
        let keys = profile(json!({})).resource_keys().unwrap();
        assert_eq!(keys, RESOURCE_KEYS_UNLESS_TOLD.map(Box::from));
    }

    #[test]
    fn a_tree_has_a_name_once_somebody_gave_it_one() {
        let of = |id: &str| profile(json!({ "labels": { TREE_ID_LABEL: id } }));
        assert_eq!(of("t1").tree_id(), Some("t1"));
        assert_eq!(of("").tree_id(), None);
        assert_eq!(profile(json!({})).tree_id(), None);
    }
}
