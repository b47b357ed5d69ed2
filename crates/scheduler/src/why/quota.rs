//! Why a quota has no room for a pod, as people and programs are told it.

use std::collections::BTreeMap;
use std::fmt;

use api::elastic_quota::QUOTA_NAME_LABEL;
use engine::fact::PodFact;
use engine::ledger::{Ledger, QuotaHolder, QuotaHolders};
use engine::quota::{Excess, QuotaRefusal, RefusalReason};
use engine::turn::Waiting;
use engine::why::{Ceiling, QuotaExplanation, amount, explain_quota};
use serde::{Deserialize, Serialize};

use super::Answer;
use crate::config::ProfileConfig;

/// How many pods that use a quota are told of.
pub(crate) const HOLDERS_MAX: usize = 10;

/// A quota that has no room for a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaTold {
    /// Which refuses: that of the pod, or one above it.
    pub quota: String,
    /// The quotas from that one down to that of the pod.
    pub path: Vec<String>,
    /// Why, in words, where it is not that there is too little of something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of what there is too little.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortages: Vec<QuotaShortage>,
    /// Ceilings above it that leave it no room either.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ceilings: Vec<QuotaCeiling>,
    /// Who uses it, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<HolderTold>,
    /// How many more use it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub holders_left_out: usize,
    /// Changes that would let the pod in, each by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Too little of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaShortage {
    /// Which.
    pub resource: String,
    /// What the quota is held to: `runtime`, `max`, or `min` for pods that never make room.
    pub bound: String,
    /// How much that is.
    pub limit: String,
    /// How much is used.
    pub used: String,
    /// How much the pod asks for.
    pub asked: String,
    /// How much is missing.
    pub missing: String,
}

/// What a quota never goes beyond.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaCeiling {
    /// The quota.
    pub quota: String,
    /// Of what.
    pub resource: String,
    /// How much.
    pub max: String,
    /// How much would be used with the pod.
    pub needed: String,
}

/// A pod that uses a quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderTold {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// The quota that it is charged to itself.
    pub quota: String,
    /// What of the resources that there is too little of.
    pub requests: BTreeMap<String, String>,
}

impl Answer {
    /// Adds why a quota has no room for the pod, and who uses it; none where there is room.
    pub(crate) fn ask_quota(
        &mut self,
        ledger: &mut Ledger,
        profile: &ProfileConfig,
        pod: &PodFact,
        holders: impl FnOnce(&Ledger, &str) -> QuotaHolders,
    ) -> Option<QuotaRefusal> {
        profile.assemble().profile.quota?;
        let forest = ledger.quotas.forest();
        let missed = pod.quota.as_deref().filter(|named| !forest.is_there(named));
        self.hints.extend(missed.map(|named| {
            let own = forest.belongs(Some(named), &pod.namespace);
            let own = own.map_or("none".to_owned(), |own| format!("quota {}", own.name));
            format!(
                "It names quota {named}, which does not exist, and is charged to {own}: create it, or correct \
                 label {QUOTA_NAME_LABEL}."
            )
        }));
        let told = explain_quota(ledger, &pod.uid)?;
        let holders = holders(ledger, &told.refusal.quota);
        self.quota = Some(QuotaTold::of(&told, &holders));
        Some(told.refusal)
    }

    /// Adds the message of a pod that a quota refuses.
    pub(super) fn refused_by_quota(&mut self, ledger: &Ledger, refusal: QuotaRefusal) {
        self.message = Some(Waiting::refused_by_quota(ledger, refusal).to_string());
    }
}

impl QuotaTold {
    pub(super) fn of(told: &QuotaExplanation, holders: &QuotaHolders) -> Self {
        let QuotaExplanation { refusal, ceilings, cures } = told;
        let (bound, excesses) = match &refusal.reason {
            RefusalReason::Exceeded { bound, excesses } => (bound.name(), &excesses[..]),
            _ => ("", &[][..]),
        };
        let reason = excesses.is_empty().then(|| refusal.to_string());
        let holder = |own: &QuotaHolder| {
            let amounts = excesses.iter().map(|lack| &*lack.resource);
            let amounts = amounts.map(|name| (name.to_owned(), amount(name, own.amounts.of(name))));
            HolderTold {
                namespace: own.pod.namespace.to_string(),
                pod: own.pod.name.to_string(),
                quota: own.quota.to_string(),
                requests: amounts.collect(),
            }
        };
        Self {
            quota: refusal.quota.to_string(),
            path: refusal.path.iter().map(ToString::to_string).collect(),
            reason,
            shortages: excesses.iter().map(|own| QuotaShortage::of(own, bound)).collect(),
            ceilings: ceilings.iter().map(QuotaCeiling::of).collect(),
            holders: holders.first.iter().map(holder).collect(),
            holders_left_out: holders.all.saturating_sub(holders.first.len()),
            changes: cures.iter().map(ToString::to_string).collect(),
        }
    }
}

impl QuotaShortage {
    fn of(own: &Excess, bound: &str) -> Self {
        let told = |own_amount| amount(&own.resource, own_amount);
        let missing = own.used.saturating_add(own.asked).saturating_sub(own.limit);
        Self {
            resource: own.resource.to_string(),
            bound: bound.to_owned(),
            limit: told(own.limit),
            used: told(own.used),
            asked: told(own.asked),
            missing: told(missing),
        }
    }
}

impl QuotaCeiling {
    fn of(own: &Ceiling) -> Self {
        Self {
            quota: own.quota.to_string(),
            resource: own.resource.to_string(),
            max: amount(&own.resource, own.max),
            needed: amount(&own.resource, own.needed),
        }
    }
}

impl fmt::Display for QuotaTold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quota, path, reason, shortages, ceilings, holders, holders_left_out, changes } =
            self;
        match path.last().filter(|own| *own != quota) {
            Some(own) => writeln!(f, "Quota {quota}, which is above {own}, has no room for it.")?,
            None => writeln!(f, "Quota {quota} has no room for it.")?,
        }
        if let Some(reason) = reason {
            writeln!(f, "  {reason}")?;
        }
        for own in shortages {
            let QuotaShortage { resource, bound, limit, used, asked, missing } = own;
            let kind = if bound == "min" { " by pods that never make room" } else { "" };
            writeln!(
                f,
                "  It is short of {resource} by {missing}: {asked} asked, {used} of {bound} {limit} used{kind}"
            )?;
        }
        for QuotaCeiling { quota: above, resource, max, needed } in ceilings {
            writeln!(
                f,
                "  Quota {above} above it never goes beyond its max {max} of {resource}, and {needed} would be used"
            )?;
        }
        if !holders.is_empty() {
            writeln!(f, "\nWho uses it, the largest first:")?;
        }
        let name = |own: &HolderTold| format!("{}/{}", own.namespace, own.pod);
        let width = holders.iter().map(|own| name(own).len()).max().unwrap_or(0);
        for own in holders {
            let requests = own.requests.iter().map(|(resource, own)| format!("{resource} {own}"));
            let requests = requests.collect::<Vec<_>>().join(", ");
            let whose =
                if own.quota == *quota { String::new() } else { format!(" in {}", own.quota) };
            writeln!(f, "  {:width$}  {requests}{whose}", name(own))?;
        }
        if *holders_left_out > 0 {
            writeln!(f, "  and {holders_left_out} more")?;
        }
        if changes.is_empty() {
            return writeln!(f, "\nNo single change of the quota that was tried would let it in.");
        }
        writeln!(f, "\nEach of these changes would let it in by itself:")?;
        changes.iter().try_for_each(|change| writeln!(f, "  {change}"))
    }
}
