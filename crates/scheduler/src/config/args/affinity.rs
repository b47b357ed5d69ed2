//! Arguments of NodeAffinity.

use api::Pod;
use api::node_selector::{NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm};
use api::pod::Affinity;
use engine::needs::Needs;
use engine::plugins::node_affinity::NodeAffinity;
use object::field::{Error, Errors, Path};
use object::names::{label_value, qualified_name};
use serde::Deserialize;

use super::{Args, Written};

const OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
const FIELD_OPERATORS: [&str; 2] = ["In", "NotIn"];
const NAME_FIELD: &str = "metadata.name";

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AffinityArgs {
    added_affinity: Option<api::pod::NodeAffinity>,
}

impl Args for NodeAffinity {
    type Written = AffinityArgs;
}

impl Written for AffinityArgs {
    type Outcome = NodeAffinity;

    fn check(self, path: &Path, errors: &mut Errors) -> NodeAffinity {
        let Some(added) = self.added_affinity else { return NodeAffinity::default() };
        let path = path.child("addedAffinity");
        if let Some(required) = &added.required {
            let path = path
                .child("requiredDuringSchedulingIgnoredDuringExecution")
                .child("nodeSelectorTerms");
            for (index, term) in required.node_selector_terms.iter().enumerate() {
                check_term(term, &path.index(index), errors);
            }
        }
        let path = path.child("preferredDuringSchedulingIgnoredDuringExecution");
        for (index, term) in added.preferred.iter().enumerate() {
            // What weighs nothing is not looked at.
            if term.weight != 0 {
                check_term(&term.preference, &path.index(index).child("preference"), errors);
            }
        }
        // The engine reads it as it reads the affinity of a pod.
        let mut pod = Pod::default();
        let affinity = Affinity { node_affinity: Some(added), ..Affinity::default() };
        pod.spec.affinity = Some(Box::new(affinity));
        NodeAffinity { added: Needs::from(&pod).node_affinity }
    }
}

fn check_term(term: &NodeSelectorTerm, path: &Path, errors: &mut Errors) {
    for (index, requirement) in term.match_expressions.iter().enumerate() {
        check_label(requirement, &path.child("matchExpressions").index(index), errors);
    }
    for (index, requirement) in term.match_fields.iter().enumerate() {
        check_field(requirement, &path.child("matchFields").index(index), errors);
    }
}

fn values(requirement: &NodeSelectorRequirement) -> Vec<String> {
    requirement.values.iter().map(ToString::to_string).collect()
}

fn check_label(requirement: &NodeSelectorRequirement, path: &Path, errors: &mut Errors) {
    let faults = qualified_name(&requirement.key);
    if !faults.is_empty() {
        errors.push(Error::invalid(&path.child("key"), &*requirement.key, faults.join("; ")));
    }
    let values_path = path.child("values");
    let count = requirement.values.len();
    let (fits, fix) = match &requirement.operator {
        NodeSelectorOperator::In | NodeSelectorOperator::NotIn => {
            (count > 0, "for 'in', 'notin' operators, values set can't be empty")
        }
        NodeSelectorOperator::Exists | NodeSelectorOperator::DoesNotExist => {
            (count == 0, "values set must be empty for exists and does not exist")
        }
        NodeSelectorOperator::Gt | NodeSelectorOperator::Lt => {
            (count == 1, "for 'Gt', 'Lt' operators, exactly one value is required")
        }
        NodeSelectorOperator::Other(word) => {
            let path = path.child("operator");
            errors.push(Error::not_supported(&path, &**word, &OPERATORS));
            return;
        }
    };
    if !fits {
        errors.push(Error::invalid(&values_path, values(requirement), fix));
    }
    let counts =
        matches!(requirement.operator, NodeSelectorOperator::Gt | NodeSelectorOperator::Lt);
    for (index, value) in requirement.values.iter().enumerate() {
        let path = values_path.index(index);
        if counts && value.parse::<i64>().is_err() {
            let fix = "for 'Gt', 'Lt' operators, the value must be an integer";
            errors.push(Error::invalid(&path, &**value, fix));
        }
        let faults = label_value(value);
        if !faults.is_empty() {
            errors.push(Error::invalid(&path, &**value, faults.join("; ")));
        }
    }
}

fn check_field(requirement: &NodeSelectorRequirement, path: &Path, errors: &mut Errors) {
    match &requirement.operator {
        NodeSelectorOperator::In | NodeSelectorOperator::NotIn => {}
        other => {
            let path = path.child("operator");
            errors.push(Error::not_supported(&path, other.as_str(), &FIELD_OPERATORS));
            return;
        }
    }
    if requirement.values.len() != 1 {
        let path = path.child("values");
        errors.push(Error::invalid(&path, values(requirement), "must have one element"));
    }
    if &*requirement.key != NAME_FIELD {
        let path = path.child("key");
        errors.push(Error::not_supported(&path, &*requirement.key, &[NAME_FIELD]));
    }
}
