//! Gangs, how they stand and where their members are.

use std::collections::BTreeMap;
use std::time::Duration;

use api::pod_group::{GangId, GangMode};
use engine::ledger::{Ledger, PodRow};
use engine::moment::Moment;
use serde_json::{Map, Value, json};

use crate::core::Core;
use crate::debug::views::time;

/// What is known of a gang.
struct Gang {
    id: GangId,
    created: Option<Moment>,
    wait: Duration,
    mode: GangMode,
    policy: &'static str,
    min: u32,
    total: u32,
    /// The gangs that it names, itself among them.
    named: Vec<GangId>,
    has_started: bool,
    is_object: bool,
    is_readable: bool,
    /// Its members, as `namespace/name`, and where each is.
    members: Vec<(String, Stage)>,
}

/// Where a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Pending,
    /// It has a node, and is not seen there yet.
    Decided,
    Bound,
}

impl Stage {
    fn of(row: &PodRow) -> Self {
        match (row.is_bound(), row.is_placed()) {
            (true, _) => Self::Bound,
            (false, true) => Self::Decided,
            (false, false) => Self::Pending,
        }
    }
}

/// What is known of one gang, or of all.
pub(super) struct Seen(Vec<Gang>);

impl Seen {
    pub(super) fn of(core: &Core, asked: Option<&GangId>) -> Self {
        let gangs = &core.engine().ledger().gangs;
        let is_asked = |id: &&GangId| asked.is_none_or(|asked| asked == *id);
        Self(gangs.ids().filter(is_asked).map(|id| Gang::of(core, id)).collect())
    }

    /// The gang that was asked for; none where it is not there.
    pub(super) fn one(&self) -> Option<Value> {
        self.0.first().map(Gang::shown)
    }

    /// All of them, by name.
    pub(super) fn all(&self) -> Value {
        let all = self.0.iter().map(|own| (own.id.as_str().to_owned(), own.shown()));
        all.collect::<Map<_, _>>().into()
    }
}

impl Gang {
    fn of(core: &Core, id: &GangId) -> Self {
        let ledger = core.engine().ledger();
        let (gangs, terms) = (&ledger.gangs, ledger.gangs.terms(id).cloned().unwrap_or_default());
        let settings = gangs.settings();
        let min = terms.min_available.unwrap_or_default();
        let group = ledger.group_of(id);
        Self {
            created: core.group_made(id).or_else(|| gangs.first_told(id)),
            wait: terms.waiting_time.unwrap_or(settings.wait),
            mode: terms.mode,
            policy: gangs.policy(&terms).as_str(),
            min,
            total: terms.total_number.unwrap_or(min),
            named: gangs.named(id).into_iter().collect(),
            has_started: group.gangs.iter().any(|gang| gangs.has_started(gang)),
            is_object: gangs.is_object(id),
            is_readable: terms.min_available.is_some(),
            members: members(ledger, id),
            id: id.clone(),
        }
    }

    /// By the names of Koordinator's fields.
    fn shown(&self) -> Value {
        let with = |stage: Option<Stage>| {
            let is_meant = |own: &&(String, Stage)| stage.is_none_or(|stage| own.1 == stage);
            let own = self.members.iter().filter(is_meant);
            own.map(|(name, _)| (name.clone(), json!({}))).collect::<BTreeMap<_, _>>()
        };
        let names: Vec<&str> = self.named.iter().map(GangId::as_str).collect();
        json!({
            "name": self.id.as_str(),
            "waitTime": u64::try_from(self.wait.as_nanos()).unwrap_or(u64::MAX),
            "createTime": time(self.created.unwrap_or_default()),
            "mode": match self.mode {
                GangMode::Strict => "Strict",
                GangMode::NonStrict => "NonStrict",
            },
            "gangMatchPolicy": self.policy,
            "minRequiredNumber": self.min,
            "totalChildrenNum": self.total,
            "gangGroup": names,
            "children": with(None),
            "pendingChildren": with(Some(Stage::Pending)),
            "waitingForBindChildren": with(Some(Stage::Decided)),
            "boundChildren": with(Some(Stage::Bound)),
            "onceResourceSatisfied": self.has_started,
            "gangGroupInfo": {
                "Initialized": self.is_readable,
                "GangGroupId": names.join(","),
                "GangGroup": names,
                "OnceResourceSatisfied": self.has_started,
            },
            "gangFrom": if self.is_object { "GangFromPodGroupCrd" } else { "GangFromPodAnnotation" },
            "hasGangInit": self.is_readable,
        })
    }
}

/// Members of a gang, and where each is.
fn members(ledger: &Ledger, gang: &GangId) -> Vec<(String, Stage)> {
    let rows = ledger.gangs.members(gang).filter_map(|uid| ledger.pod(uid));
    rows.map(|row| (format!("{}/{}", row.namespace, row.name), Stage::of(row))).collect()
}
