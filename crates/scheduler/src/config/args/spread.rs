//! Arguments of PodTopologySpread.

use api::pod::{NodeInclusionPolicy, TopologySpreadConstraint, WhenUnsatisfiable};
use engine::plugins::pod_topology_spread::{DefaultRule, PodTopologySpread};
use object::field::{Error, Errors, Path};
use object::names::validate_label_name;
use serde::Deserialize;

use super::super::file::or_default;
use super::{Args, Written};

const SYSTEM: &str = "System";
const LIST: &str = "List";

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SpreadArgs {
    #[serde(deserialize_with = "or_default")]
    default_constraints: Vec<TopologySpreadConstraint>,
    #[serde(deserialize_with = "or_default")]
    defaulting_type: String,
}

impl Args for PodTopologySpread {
    type Written = SpreadArgs;
}

impl Written for SpreadArgs {
    type Outcome = PodTopologySpread;

    fn check(self, path: &Path, errors: &mut Errors) -> PodTopologySpread {
        let constraints = &self.default_constraints;
        let type_path = path.child("defaultingType");
        let defaulting = match self.defaulting_type.as_str() {
            "" => SYSTEM,
            other => other,
        };
        match defaulting {
            SYSTEM if !constraints.is_empty() => {
                let fix = "when .defaultConstraints are not empty";
                errors.push(Error::invalid(&type_path, defaulting, fix));
            }
            SYSTEM | LIST => {}
            other => errors.push(Error::not_supported(&type_path, other, &[SYSTEM, LIST])),
        }
        let path = path.child("defaultConstraints");
        for (index, constraint) in constraints.iter().enumerate() {
            check_constraint(constraint, &path.index(index), errors);
            let names = |one: &TopologySpreadConstraint| {
                format!("{{{}, {}}}", one.topology_key, one.when_unsatisfiable)
            };
            let name = names(constraint);
            if constraints[..index].iter().any(|other| names(other) == name) {
                errors.push(Error::duplicate(&path.index(index), name));
            }
        }
        if defaulting != LIST {
            return PodTopologySpread::default();
        }
        let rule = |constraint: &TopologySpreadConstraint| DefaultRule {
            binds: constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule,
            max_skew: constraint.max_skew,
            topology_key: constraint.topology_key.clone(),
        };
        PodTopologySpread { defaults: constraints.iter().map(rule).collect(), lenient: false }
    }
}

fn check_constraint(constraint: &TopologySpreadConstraint, path: &Path, errors: &mut Errors) {
    if constraint.max_skew <= 0 {
        let fix = "not in valid range (0, inf)";
        errors.push(Error::invalid(&path.child("maxSkew"), constraint.max_skew, fix));
    }
    let key_path = path.child("topologyKey");
    match &*constraint.topology_key {
        "" => errors.push(Error::required(&key_path, "can not be empty")),
        key => errors.extend(validate_label_name(key, &key_path)),
    }
    let when_path = path.child("whenUnsatisfiable");
    if let WhenUnsatisfiable::Other(word) = &constraint.when_unsatisfiable {
        errors.push(match &**word {
            "" => Error::required(&when_path, "can not be empty"),
            word => Error::not_supported(&when_path, word, &["DoNotSchedule", "ScheduleAnyway"]),
        });
    }
    if constraint.label_selector.is_some() {
        let reason = "constraint must not define a selector, as they deduced for each pod";
        errors.push(Error::forbidden(&path.child("labelSelector"), reason));
    }
    // What the engine has no place for would be lost without a word.
    let unserved = [
        ("minDomains", constraint.min_domains.is_none_or(|domains| domains == 1)),
        (
            "nodeAffinityPolicy",
            constraint
                .node_affinity_policy
                .as_ref()
                .is_none_or(|p| *p == NodeInclusionPolicy::Honor),
        ),
        (
            "nodeTaintsPolicy",
            constraint
                .node_taints_policy
                .as_ref()
                .is_none_or(|p| *p == NodeInclusionPolicy::Ignore),
        ),
        ("matchLabelKeys", constraint.match_label_keys.is_empty()),
    ];
    for (field, _) in unserved.into_iter().filter(|(_, is_default)| !is_default) {
        let reason = "default constraints cannot say this yet; leave it out";
        errors.push(Error::forbidden(&path.child(field), reason));
    }
}
