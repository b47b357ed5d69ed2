//! What is filled in where a new quota says nothing.

use api::ElasticQuota;
use api::elastic_quota::{PARENT_LABEL, QuotaTerms, ROOT_QUOTA};
use api::pod::ResourceList;

use super::{Rule, RuleRefusal};
use crate::quota::Register;

/// What a new quota is to say in addition, or instead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    /// The quota above, where it names none.
    pub parent: Option<Box<str>>,
    /// The tree of the one above, where it names none.
    pub tree_id: Option<Box<str>>,
    /// Its weights, where they are not of the resources that its ceiling names.
    pub shared_weight: Option<ResourceList>,
}

/// What a new quota is to say in addition.
///
/// # Errors
/// When the tree is that of a quota that is not there.
pub fn complete(register: &Register, quota: &ElasticQuota) -> Result<Completion, RuleRefusal> {
    let name = quota.metadata.name.as_str();
    if name == ROOT_QUOTA {
        return Ok(Completion::default());
    }
    let terms = QuotaTerms::of(quota);
    let names_parent = quota.metadata.labels.get(PARENT_LABEL).is_some_and(|own| !own.is_empty());
    let tree_id = match register.get(&terms.parent) {
        _ if !terms.tree_id.is_empty() || &*terms.parent == ROOT_QUOTA => None,
        Some(parent) => Some(parent.tree_id.clone()).filter(|id| !id.is_empty()),
        None => {
            let rule = Rule::UnknownParent { parent: terms.parent };
            return Err(RuleRefusal { quota: name.into(), rule });
        }
    };
    let told = terms.shared_weight.unwrap_or_default();
    let weight = quota
        .spec
        .max
        .iter()
        .map(|(key, most)| (key.clone(), told.get(key).unwrap_or(most).clone()));
    let weight: ResourceList = weight.collect();
    Ok(Completion {
        parent: (!names_parent).then_some(terms.parent),
        tree_id,
        shared_weight: (weight != told).then_some(weight),
    })
}
