//! What a quota says of itself.

use api::elastic_quota::{ElasticQuota, QuotaTerms, ROOT_QUOTA};
use api::malformed::Malformed;
use api::pod::ResourceList;
use object::quantity::Quantity;

use super::placement::{NAMESPACES_MAX, RESOURCE_NAME_MAX, RESOURCES_MAX};
use super::{ByResource, Misplaced};
use crate::moment::Moment;

/// What a quota says of itself, read once. No amount is below zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaFact {
    /// Its name, by which pods and other quotas refer to it.
    pub name: Box<str>,
    /// Where its object lives.
    pub namespace: Box<str>,
    /// When its object was made.
    pub created: Moment,
    /// The quota above.
    pub parent: Box<str>,
    /// Whether quotas may be below it.
    pub is_parent: bool,
    /// Whether others may use what it is guaranteed and does not use.
    pub is_lendable: bool,
    /// What it is guaranteed: of the resources of `max`, and never more than that.
    pub min: ByResource,
    /// What it never goes beyond.
    pub max: ByResource,
    /// Its part of what is idle, in proportion to those beside it: one for each resource of `max`.
    pub weight: ByResource,
    /// The tree that it is of; empty for the tree of the whole cluster.
    pub tree_id: Box<str>,
    /// Whether it is the root of its tree.
    pub is_root: bool,
    /// What its tree has, where it is the root and says so.
    pub total: Option<ByResource>,
    /// What of that is on nodes that take no pods.
    pub unschedulable: ByResource,
    /// Whether what its tree has counts in the tree of the whole cluster as well.
    pub is_counted_twice: bool,
    /// Namespaces whose pods belong to it, unless they name another.
    pub namespaces: Vec<Box<str>>,
}

impl QuotaFact {
    /// A leaf below the root that has this ceiling, is guaranteed nothing and lends everything.
    #[must_use]
    pub fn new(name: &str, max: ByResource) -> Self {
        Self {
            name: name.into(),
            namespace: Box::default(),
            created: Moment::default(),
            parent: ROOT_QUOTA.into(),
            is_parent: false,
            is_lendable: true,
            min: ByResource::new(),
            weight: max.clone(),
            max,
            tree_id: Box::default(),
            is_root: false,
            total: None,
            unschedulable: ByResource::new(),
            is_counted_twice: false,
            namespaces: Vec::new(),
        }
    }

    /// What an object says, and what of it cannot be read. Where something makes no sense, as a guarantee
    /// beyond the ceiling, as much of it counts as does.
    #[must_use]
    pub fn read(wire: &ElasticQuota) -> (Self, Vec<Malformed>) {
        let terms = QuotaTerms::of(wire);
        (Self::said_by(wire, &terms), terms.malformed)
    }

    /// What an object says whose labels and annotations say this.
    #[must_use]
    pub fn said_by(wire: &ElasticQuota, terms: &QuotaTerms) -> Self {
        let max = amounts(&wire.spec.max);
        let weight = terms.shared_weight.as_ref().map(amounts).unwrap_or_default();
        Self {
            name: wire.metadata.name.as_str().into(),
            namespace: wire.metadata.namespace.as_str().into(),
            created: wire.metadata.creation_timestamp.map(Moment::from).unwrap_or_default(),
            parent: terms.parent.clone(),
            is_parent: terms.is_parent,
            is_lendable: terms.is_lendable,
            min: capped(&amounts(&wire.spec.min), &max),
            weight: of_all(&weight, &max),
            max,
            tree_id: terms.tree_id.clone(),
            is_root: terms.is_root,
            total: terms.total_resource.as_ref().map(amounts),
            unschedulable: terms.unschedulable_resource.as_ref().map(amounts).unwrap_or_default(),
            is_counted_twice: terms.ignores_default_tree,
            namespaces: terms.namespaces.clone(),
        }
    }

    /// What it says more of than anybody may; then it counts for nothing.
    #[must_use]
    pub fn excess(&self) -> Option<Misplaced> {
        let lists = || {
            let own = [&self.max, &self.min, &self.weight, &self.unschedulable];
            own.into_iter().chain(&self.total)
        };
        let resources = lists().map(ByResource::len).max().unwrap_or(0);
        if resources > RESOURCES_MAX {
            return Some(Misplaced::TooManyResources(resources));
        }
        let length = lists().flat_map(ByResource::keys).map(|name| name.len()).max().unwrap_or(0);
        if length > RESOURCE_NAME_MAX {
            return Some(Misplaced::ImpossibleResource(length));
        }
        let listed = self.namespaces.len();
        (listed > NAMESPACES_MAX).then_some(Misplaced::TooManyNamespaces(listed))
    }

    /// What it says of one resource: its guarantee, its ceiling where it counts the resource, its weight. Of what it
    /// does not count it says nothing.
    pub(super) fn of(&self, resource: &str) -> (i64, Option<i64>, i64) {
        let amount = |list: &ByResource| list.get(resource).copied();
        match amount(&self.max) {
            None => (0, None, 0),
            max => (amount(&self.min).unwrap_or(0), max, amount(&self.weight).unwrap_or(0)),
        }
    }
}

/// Guarantees of what ceilings name, none of them beyond its ceiling.
fn capped(min: &ByResource, max: &ByResource) -> ByResource {
    let capped = max.iter().filter_map(|(name, most)| Some((name, min.get(name)?.min(most))));
    capped.map(|(name, amount)| (name.clone(), *amount)).collect()
}

/// Weights of all that ceilings name: the ceiling itself where none is told.
fn of_all(weight: &ByResource, max: &ByResource) -> ByResource {
    let all = max.iter().map(|(name, most)| (name, weight.get(name).unwrap_or(most)));
    all.map(|(name, amount)| (name.clone(), *amount)).collect()
}

/// The whole numbers of a list; what is below zero counts as nothing.
#[must_use]
pub fn amounts(list: &ResourceList) -> ByResource {
    list.iter().map(|(name, own)| (name.as_str().into(), value(name, own).max(0))).collect()
}

/// A quantity as a whole number: thousandths of a CPU, or units. Beyond what a number holds it is the most
/// that one holds.
pub(super) fn value(resource: &str, quantity: &Quantity) -> i64 {
    let scale = if resource == "cpu" { -3 } else { 0 };
    let beyond = if quantity.sign() > 0 { i64::MAX } else { i64::MIN };
    quantity.checked_scaled_value(scale).unwrap_or(beyond)
}

#[cfg(test)]
mod tests {
    use api::elastic_quota::{PARENT_LABEL, SHARED_WEIGHT};
    use serde_json::{Value, json};

    use super::*;

    fn read(metadata: Value, min: Value, max: Value) -> (QuotaFact, Vec<Malformed>) {
        let wire = json!({ "metadata": metadata, "spec": { "min": min, "max": max } });
        QuotaFact::read(&serde_json::from_value(wire).unwrap())
    }

    fn list(amounts: &[(&str, i64)]) -> ByResource {
        amounts.iter().map(|(name, amount)| ((*name).into(), *amount)).collect()
    }

    #[test]
    fn what_makes_no_sense_counts_as_far_as_it_does() {
        let check = |min: Value, max: Value, least: &[(&str, i64)], most: &[(&str, i64)]| {
            let (fact, malformed) = read(json!({ "name": "q" }), min, max);
            assert_eq!((fact.min, fact.max, malformed), (list(least), list(most), Vec::new()));
        };
        check(json!({ "cpu": "2" }), json!({ "cpu": 4 }), &[("cpu", 2_000)], &[("cpu", 4_000)]);
        check(json!({ "cpu": "9" }), json!({ "cpu": 4 }), &[("cpu", 4_000)], &[("cpu", 4_000)]);
        check(json!({ "gpu": "2" }), json!({ "cpu": 4 }), &[], &[("cpu", 4_000)]);
        check(json!({ "cpu": "-2" }), json!({ "cpu": "-4" }), &[("cpu", 0)], &[("cpu", 0)]);
        // The ceiling that Koordinator gives the default quota does not fit in thousandths.
        let most = json!({ "cpu": "1844674407370955161", "memory": "1844674407370955161" });
        let expected = [("cpu", i64::MAX), ("memory", 1_844_674_407_370_955_161)];
        check(json!({}), most, &[], &expected);
        check(json!({}), json!({ "a.b/c": "1e100" }), &[], &[("a.b/c", i64::MAX)]);
        check(json!({}), json!({ "a.b/c": "-1e100" }), &[], &[("a.b/c", 0)]);
    }

    #[test]
    fn weights_are_of_the_resources_that_are_counted() {
        let weight = |text: &str| {
            let metadata = json!({ "name": "q", "annotations": { SHARED_WEIGHT: text } });
            read(metadata, json!({}), json!({ "cpu": "1", "memory": "8" })).0.weight
        };
        assert_eq!(weight(""), list(&[("cpu", 1_000), ("memory", 8)]));
        assert_eq!(weight(r#"{"cpu":"3","foo":"2"}"#), list(&[("cpu", 3_000), ("memory", 8)]));
        assert_eq!(weight(r#"{"cpu":"-3","memory":0}"#), list(&[("cpu", 0), ("memory", 0)]));
        assert_eq!(weight("much"), list(&[("cpu", 1_000), ("memory", 8)]));
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let metadata = json!({ "name": "q", "namespace": "n", "labels": { PARENT_LABEL: "org" },
                               "creationTimestamp": "1970-01-01T00:00:01Z",
                               "annotations": { SHARED_WEIGHT: "[" } });
        let (fact, malformed) = read(metadata, json!({}), json!({}));
        assert_eq!((&*fact.name, &*fact.namespace, &*fact.parent), ("q", "n", "org"));
        assert_eq!(fact.created, Moment(1_000_000_000));
        assert_eq!(malformed.iter().map(|error| error.key).collect::<Vec<_>>(), [SHARED_WEIGHT]);
    }
}
