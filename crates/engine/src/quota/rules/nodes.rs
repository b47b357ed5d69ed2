//! To which nodes pods of a tree are tied when they are made.
//!
//! Nothing in the product calls this yet: a webhook is to, which comes with the manager.

use api::ElasticQuotaProfile;
use api::node_selector::{
    NodeSelector, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm,
};
use object::selector::label::LabelSelector;

/// What the nodes have to be that a pod of a tree may have, with what it says itself: each of its terms and
/// what the profile of the tree says. Of several profiles the first by namespace and name counts. None
/// where nothing is to be changed.
#[must_use]
pub fn tied_to_tree<'a>(
    profiles: impl IntoIterator<Item = &'a ElasticQuotaProfile>,
    tree_id: &str,
    required: Option<&NodeSelector>,
) -> Option<NodeSelector> {
    let of_tree = |own: &&ElasticQuotaProfile| {
        let id = own.tree_id();
        id.is_some_and(|id| id == tree_id)
    };
    let name =
        |own: &ElasticQuotaProfile| (own.metadata.namespace.clone(), own.metadata.name.clone());
    let first = profiles.into_iter().filter(of_tree).min_by_key(|own| name(own))?;
    let more = requirements(first.spec.node_selector.as_ref()?);
    if more.is_empty() {
        return None;
    }
    let mut tied = required.cloned().unwrap_or_default();
    if required.is_none() {
        tied.node_selector_terms.push(NodeSelectorTerm::default());
    }
    for term in &mut tied.node_selector_terms {
        // A term that says nothing matches no node, and is to match none now.
        let says_nothing = term.match_expressions.is_empty() && term.match_fields.is_empty();
        if says_nothing && required.is_some() {
            continue;
        }
        let missing = more.iter().filter(|own| !term.match_expressions.contains(own));
        let missing: Vec<NodeSelectorRequirement> = missing.cloned().collect();
        term.match_expressions.extend(missing);
    }
    (required != Some(&tied)).then_some(tied)
}

/// The same requirements as those on nodes are written.
fn requirements(selector: &LabelSelector) -> Vec<NodeSelectorRequirement> {
    let labels = selector.match_labels.iter().flatten();
    let equal = labels.map(|(key, value)| NodeSelectorRequirement {
        key: key.as_str().into(),
        operator: NodeSelectorOperator::In,
        values: vec![value.as_str().into()],
    });
    let others = selector.match_expressions.iter().flatten();
    let others = others.map(|own| NodeSelectorRequirement {
        key: own.key.as_str().into(),
        operator: own.operator.as_str().into(),
        values: own.values.iter().flatten().map(|value| value.as_str().into()).collect(),
    });
    equal.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use api::elastic_quota::TREE_ID_LABEL;
    use serde_json::{Value, json};

    use super::*;

    fn profile(name: &str, tree_id: &str, selector: Value) -> ElasticQuotaProfile {
        let metadata = json!({ "name": name, "labels": { TREE_ID_LABEL: tree_id } });
        let spec = json!({ "quotaName": "root", "nodeSelector": selector });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
    }

    fn profiles() -> [ElasticQuotaProfile; 4] {
        let pool = |name: &str| json!({ "matchLabels": { "pool": name } });
        let zones = json!([{ "key": "zone", "operator": "NotIn", "values": ["x"] }]);
        [
            profile("later", "t1", pool("b")),
            profile(
                "first",
                "t1",
                json!({ "matchLabels": { "pool": "a" }, "matchExpressions": zones }),
            ),
            profile("other", "t2", pool("c")),
            profile("all", "t3", json!({})),
        ]
    }

    /// What a pod has to say of nodes that says this, where that is anything else.
    fn tied(tree_id: &str, required: Value) -> Option<Value> {
        let required: Option<NodeSelector> = serde_json::from_value(required).unwrap();
        let tied = tied_to_tree(&profiles(), tree_id, required.as_ref());
        tied.map(|own| serde_json::to_value(own).unwrap())
    }

    #[test]
    fn s12_p4_pods_of_a_tree_are_tied_to_its_nodes() {
        let own = json!([{ "key": "pool", "operator": "In", "values": ["a"] },
                         { "key": "zone", "operator": "NotIn", "values": ["x"] }]);
        let term = |expressions: &Value| json!({ "matchExpressions": expressions });
        let terms = |terms: Value| json!({ "nodeSelectorTerms": terms });
        assert_eq!(tied("t1", json!(null)), Some(terms(json!([term(&own)]))));
        // Each of the terms of a pod is enough for a node, so that each of them is tied.
        let disk = json!({ "key": "disk", "operator": "Exists" });
        let field = json!({ "key": "metadata.name", "operator": "In", "values": ["n"] });
        let said = terms(json!([{ "matchExpressions": [disk] }, { "matchFields": [field] }]));
        let expected = json!([{ "matchExpressions": [disk, own[0], own[1]] },
                              { "matchExpressions": own, "matchFields": [field] }]);
        assert_eq!(tied("t1", said), Some(terms(expected.clone())));
        assert_eq!(tied("t1", terms(expected)), None, "it is already");
    }

    #[test]
    fn who_is_of_no_such_tree_is_not_tied_and_who_matches_no_node_matches_none() {
        assert_eq!(tied("t4", json!(null)), None);
        assert_eq!(tied("", json!(null)), None);
        assert_eq!(tied("t3", json!(null)), None, "a profile of all nodes ties nobody");
        for nothing in [json!([]), json!([{}])] {
            assert_eq!(tied("t2", json!({ "nodeSelectorTerms": nothing })), None);
        }
    }
}
