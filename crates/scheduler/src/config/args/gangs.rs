//! Arguments of Coscheduling.

use std::time::Duration;

use api::pod_group::MatchPolicy;
use engine::plugin::Plugin;
use object::field::{Error, Errors, Path};
use object::time;
use serde::Deserialize;

use super::super::file::or_default;
use super::{Args, VainArgument, Written, length};

/// What can be said of which members count.
const POLICIES: [MatchPolicy; 3] =
    [MatchPolicy::OnlyWaiting, MatchPolicy::WaitingAndRunning, MatchPolicy::OnceSatisfied];

/// How gangs start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GangArgs {
    /// How long members wait for each other, where their gang does not say.
    pub wait: Duration,
    /// Whether others make room for a gang as a whole.
    pub preempts: bool,
    /// Which members count, where a gang does not say.
    pub match_policy: MatchPolicy,
    /// Whether all members of a gang hear why it has no nodes, and not only the one that got none.
    pub tells_all: bool,
}

impl Default for GangArgs {
    fn default() -> Self {
        Self {
            wait: Duration::from_mins(10),
            preempts: false,
            match_policy: MatchPolicy::OnceSatisfied,
            tells_all: true,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct CoschedulingArgs {
    default_timeout: Option<time::Duration>,
    controller_workers: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    skip_check_schedule_cycle: bool,
    #[serde(deserialize_with = "or_default")]
    enable_preemption: bool,
    #[serde(deserialize_with = "or_default")]
    aware_network_topology: bool,
    #[serde(deserialize_with = "or_default")]
    default_match_policy: String,
}

impl Args for GangArgs {
    type Written = CoschedulingArgs;
}

impl Written for CoschedulingArgs {
    type Outcome = GangArgs;

    fn check(self, path: &Path, errors: &mut Errors) -> GangArgs {
        let plain = GangArgs::default();
        let wait = length(self.default_timeout, "defaultTimeout", path, errors);
        if let Some(workers) = self.controller_workers.filter(|workers| *workers < 1) {
            let fix = "must be greater than 0";
            errors.push(Error::invalid(&path.child("controllerWorkers"), workers, fix));
        }
        let word = self.default_match_policy.as_str();
        let policy = POLICIES.into_iter().find(|own| own.as_str() == word);
        if policy.is_none() && !word.is_empty() {
            let words = POLICIES.map(MatchPolicy::as_str);
            errors.push(Error::not_supported(&path.child("defaultMatchPolicy"), word, &words));
        }
        GangArgs {
            wait: wait.unwrap_or(plain.wait),
            preempts: self.enable_preemption,
            match_policy: policy.unwrap_or(plain.match_policy),
            tells_all: plain.tells_all,
        }
    }

    fn vain(&self) -> Vec<VainArgument> {
        let told = [
            (
                self.skip_check_schedule_cycle,
                "skipCheckScheduleCycle",
                "members of a gang are placed in one step, and there are no cycles to be checked",
            ),
            (
                self.controller_workers.is_some_and(|workers| workers != 1),
                "controllerWorkers",
                "what is to be written of a group follows from what was last seen, and is written \
                 at most once a second, so that one is enough",
            ),
            (
                self.aware_network_topology,
                "awareNetworkTopology",
                "what a gang says of parts of the network is not read yet, and it starts wherever \
                 there is room",
            ),
        ];
        let told = told.into_iter().filter(|(is_told, ..)| *is_told);
        told.map(|(_, field, why)| VainArgument { plugin: Plugin::Coscheduling, field, why })
            .collect()
    }
}
