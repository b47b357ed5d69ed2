//! Arguments of NodeNUMAResource.

use engine::cpus::{Binding, Strategy as Filling};
use engine::plugins::node_numa_resource::{CpuSettings, NodeNuma};
use engine::plugins::node_resources::Strategy;
use object::field::{Error, Errors, Path};
use serde::Deserialize;

use super::resources::ScoringStrategy;
use super::{Args, Written};

const POLICIES: [&str; 2] = ["FullPCPUs", "SpreadByPCPUs"];
const STRATEGIES: [&str; 2] = ["LeastAllocated", "MostAllocated"];

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeNumaArgs {
    #[serde(rename = "defaultCPUBindPolicy")]
    default_policy: Option<String>,
    #[serde(rename = "scoringStrategy")]
    scoring: Option<ScoringStrategy>,
    #[serde(rename = "numaScoringStrategy")]
    numa_scoring: Option<ScoringStrategy>,
}

impl Args for NodeNuma {
    type Written = NodeNumaArgs;
}

/// One of the two strategies that there are for CPUs.
fn filling(strategy: &Strategy, path: &Path, errors: &mut Errors) -> Filling {
    match strategy {
        Strategy::LeastAllocated => Filling::LeastAllocated,
        Strategy::MostAllocated => Filling::MostAllocated,
        Strategy::RequestedToCapacityRatio(_) => {
            let kind = "RequestedToCapacityRatio";
            errors.push(Error::not_supported(&path.child("type"), kind, &STRATEGIES));
            Filling::LeastAllocated
        }
    }
}

impl Written for NodeNumaArgs {
    type Outcome = NodeNuma;

    fn check(self, path: &Path, errors: &mut Errors) -> NodeNuma {
        let plain = NodeNuma::default();
        let binding = match self.default_policy.as_deref() {
            None => plain.settings.binding,
            Some("") => None,
            Some("FullPCPUs") => Some(Binding::FullCores),
            Some("SpreadByPCPUs") => Some(Binding::SpreadByCores),
            Some(other) => {
                let path = path.child("defaultCPUBindPolicy");
                errors.push(Error::not_supported(&path, other, &POLICIES));
                None
            }
        };
        let at = path.child("scoringStrategy");
        let (score, resources) = match self.scoring {
            Some(scoring) => scoring.check(&at, errors),
            None => (plain.score, plain.resources),
        };
        filling(&score, &at, errors);
        let at = path.child("numaScoringStrategy");
        let (strategy, zone_weights) = match self.numa_scoring {
            Some(scoring) => {
                let (strategy, weights) = scoring.check(&at, errors);
                (filling(&strategy, &at, errors), weights)
            }
            None => (plain.settings.strategy, plain.settings.zone_weights),
        };
        NodeNuma { settings: CpuSettings { binding, strategy, zone_weights }, score, resources }
    }
}
