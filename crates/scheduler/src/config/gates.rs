//! Feature gates of Koordinator's scheduler, as its chart passes them: `A=true,B=false`.
//!
//! Some decide something here. Others switch on what is always so, or what is not there yet: then
//! whoever sets them otherwise is told by name.

use std::fmt;

use engine::quota::{self, DefaultQuota, Trees};

/// What a gate is to us.
#[derive(Clone, Copy)]
enum Sort {
    /// It does what it says, by setting this.
    Heeded(fn(&mut Gates) -> &mut bool),
    /// What it switches on is always so, or makes no difference.
    Always,
    /// What it switches on is not there yet.
    ToCome,
}

use Sort::{Always, Heeded, ToCome};

/// All that Koordinator 1.8 knows: the name, whether it is on unless it is named, and what it is to us.
const GATES: [(&str, bool, Sort); 31] = [
    ("ResizePod", false, ToCome),
    ("DynamicSchedulerCheck", true, Always),
    ("CrossSchedulerNomination", false, Heeded(|gates| &mut gates.cross_scheduler_nomination)),
    ("SkipFilterWithNominatedPods", false, ToCome),
    ("SyncBarrier", false, Always),
    ("EnableInlineBatchSchedule", false, ToCome),
    ("EnableBatchScheduleNodeSnapshot", true, Always),
    ("GangPendingPodsConditionPatch", true, Heeded(|gates| &mut gates.gang_pending_pods)),
    ("LazyReservationRestore", false, Always),
    (
        "OmitNodeLabelsForReservation",
        false,
        Heeded(|gates| &mut gates.omit_node_labels_for_reservation),
    ),
    ("SkipReservationFitsNode", false, Always),
    (
        "CleanExpiredReservationAllocated",
        false,
        Heeded(|gates| &mut gates.clean_expired_reservation_allocated),
    ),
    ("DevicePluginAdaption", false, ToCome),
    ("MultiQuotaTree", false, Heeded(|gates| &mut gates.multi_quota_tree)),
    ("ElasticQuotaIgnorePodOverhead", false, ToCome),
    ("ElasticQuotaIgnoreTerminatingPod", false, ToCome),
    (
        "ElasticQuotaImmediateIgnoreTerminatingPod",
        false,
        Heeded(|gates| &mut gates.forget_deleting_pods),
    ),
    ("ElasticQuotaGuaranteeUsage", false, Heeded(|gates| &mut gates.guarantee_quota_usage)),
    ("DisableDefaultQuota", false, Heeded(|gates| &mut gates.disable_default_quota)),
    ("SupportParentQuotaSubmitPod", false, Always),
    ("PriorityTransformer", false, ToCome),
    ("PreemptionPolicyTransformer", false, ToCome),
    ("ReplaceResourcesTransformer", false, ToCome),
    ("CompatibleCSIStorageCapacity", false, ToCome),
    ("DisableCSIStorageCapacityInformer", false, ToCome),
    ("CompatiblePodDisruptionBudget", false, ToCome),
    ("DisablePodDisruptionBudgetInformer", false, ToCome),
    ("DisableDynamicResourceAllocationInformer", false, Always),
    ("CSIStorageCapacity", true, Always),
    ("GenericEphemeralVolume", true, Always),
    ("PodDisruptionBudget", true, Always),
];

/// What gates decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gates {
    /// Whether room that other schedulers make for pods of higher priority is left to these.
    pub cross_scheduler_nomination: bool,
    /// Whether pods that used a reservation which is gone say so no longer.
    pub clean_expired_reservation_allocated: bool,
    /// Whether pods that want a reservation with certain labels look at its own only.
    pub omit_node_labels_for_reservation: bool,
    /// Whether all members of a gang hear why it has no nodes.
    pub gang_pending_pods: bool,
    /// Whether quotas say which tree they are of.
    pub multi_quota_tree: bool,
    /// Whether a pod that is being deleted is charged to no quota any longer.
    pub forget_deleting_pods: bool,
    /// Whether what quotas use is not taken back when others ask for it.
    pub guarantee_quota_usage: bool,
    /// Whether pods that name no quota are charged to none.
    pub disable_default_quota: bool,
    /// What is asked for in vain.
    pub vain: Vec<Vain>,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            cross_scheduler_nomination: false,
            clean_expired_reservation_allocated: false,
            omit_node_labels_for_reservation: false,
            gang_pending_pods: true,
            multi_quota_tree: false,
            forget_deleting_pods: false,
            guarantee_quota_usage: false,
            disable_default_quota: false,
            vain: Vec::new(),
        }
    }
}

/// A gate that is set otherwise than things are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vain {
    /// It is on, and what it switches on is not there yet.
    ToCome(&'static str),
    /// It is off, and what it would switch off is always so.
    Always(&'static str),
}

impl fmt::Display for Vain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ToCome(gate) => {
                write!(f, "feature gate {gate} is on, and what it switches on is not there yet")
            }
            Self::Always(gate) => {
                write!(f, "feature gate {gate} is off, and what it switches off is always done")
            }
        }
    }
}

/// Why gates cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// Nobody knows the gate.
    #[error("there is no feature gate {0}; leave it out, or name one of {names}", names = names())]
    Unknown(String),
    /// It is neither on nor off.
    #[error("feature gate {0:?} is neither on nor off: write NAME=true or NAME=false")]
    Unset(String),
}

fn names() -> String {
    GATES.map(|(name, ..)| name).join(", ")
}

impl Gates {
    /// Has quotas read and reckoned as gates say.
    pub(crate) fn tell_quotas(&self, settings: &mut quota::Settings) {
        settings.trees = if self.multi_quota_tree { Trees::Many } else { Trees::One };
        settings.default =
            if self.disable_default_quota { DefaultQuota::Off } else { DefaultQuota::On };
        settings.forgets_deleting = self.forget_deleting_pods;
        settings.options.guarantees_usage = self.guarantee_quota_usage;
    }

    /// Reads gates, of which the last word on each counts.
    ///
    /// # Errors
    /// When one is not known, or neither on nor off.
    pub fn parse(text: &str) -> Result<Self, GateError> {
        let mut gates = Self::default();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let unset = || GateError::Unset(pair.to_owned());
            let (name, word) = pair.split_once('=').ok_or_else(unset)?;
            let known = GATES.into_iter().find(|(own, ..)| *own == name.trim());
            let (name, is_on_by_default, sort) =
                known.ok_or_else(|| GateError::Unknown(name.trim().to_owned()))?;
            let is_on = super::truth(word.trim()).ok_or_else(unset)?;
            gates.vain.retain(
                |vain| !matches!(vain, Vain::ToCome(own) | Vain::Always(own) if *own == name),
            );
            match sort {
                Heeded(field) => *field(&mut gates) = is_on,
                ToCome if is_on => gates.vain.push(Vain::ToCome(name)),
                Always if !is_on && is_on_by_default => gates.vain.push(Vain::Always(name)),
                ToCome | Always => {}
            }
        }
        Ok(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_in_vain_is_told_by_name() {
        let check = |text: &str, vain: &[Vain]| {
            let gates = Gates::parse(text).unwrap();
            assert_eq!((gates.cross_scheduler_nomination, &*gates.vain), (false, vain), "{text}");
        };
        check("", &[]);
        check("ResizePod=false,DynamicSchedulerCheck=true, SyncBarrier=true", &[]);
        check("SyncBarrier=false,LazyReservationRestore=0", &[]);
        check("ResizePod=true", &[Vain::ToCome("ResizePod")]);
        check("ResizePod=true,ResizePod=false", &[]);
        check(
            "DevicePluginAdaption=T,DevicePluginAdaption=1",
            &[Vain::ToCome("DevicePluginAdaption")],
        );
        check("DynamicSchedulerCheck=false", &[Vain::Always("DynamicSchedulerCheck")]);
        let all: Vec<String> = GATES.map(|(name, on, _)| format!("{name}={on}")).into();
        check(&all.join(","), &[]);
        let words = "feature gate ResizePod is on, and what it switches on is not there yet";
        assert_eq!(Vain::ToCome("ResizePod").to_string(), words);
    }

    #[test]
    fn a_gate_that_is_heeded_sets_what_it_is_named_for_and_nothing_else() {
        let check = |name: &str, expected: Gates| {
            assert_eq!(Gates::parse(&format!("{name}=true")).unwrap(), expected, "{name}");
            let off = format!("{name}=true,{name}=false");
            assert_eq!(Gates::parse(&off).unwrap(), Gates::default(), "{name}");
        };
        let none = Gates::default;
        check("CrossSchedulerNomination", Gates { cross_scheduler_nomination: true, ..none() });
        check(
            "CleanExpiredReservationAllocated",
            Gates { clean_expired_reservation_allocated: true, ..none() },
        );
        check(
            "OmitNodeLabelsForReservation",
            Gates { omit_node_labels_for_reservation: true, ..none() },
        );
        check("MultiQuotaTree", Gates { multi_quota_tree: true, ..none() });
        let deleting = Gates { forget_deleting_pods: true, ..none() };
        check("ElasticQuotaImmediateIgnoreTerminatingPod", deleting);
        check("ElasticQuotaGuaranteeUsage", Gates { guarantee_quota_usage: true, ..none() });
        assert!(none().gang_pending_pods);
        let off = Gates::parse("GangPendingPodsConditionPatch=false").unwrap();
        assert_eq!(off, Gates { gang_pending_pods: false, ..none() });
        check("DisableDefaultQuota", Gates { disable_default_quota: true, ..none() });
        let heeded = GATES.into_iter().filter(|(.., sort)| matches!(sort, Heeded(_)));
        assert_eq!(heeded.count(), 8);
    }

    #[test]
    fn a_gate_that_nobody_knows_is_refused_with_its_name() {
        let check = |text: &str, begin: &str| {
            let error = Gates::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(begin), "{error}");
        };
        check(
            "Resize=true",
            "there is no feature gate Resize; leave it out, or name one of ResizePod,",
        );
        check("ResizePod", "feature gate \"ResizePod\" is neither on nor off: write NAME=true");
        check("ResizePod=yes", "feature gate \"ResizePod=yes\" is neither on nor off");
    }
}
