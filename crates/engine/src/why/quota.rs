//! Why a quota has no room for a pod, and which single change of the quota would make some.
//!
//! A change is not guessed: it is made to a copy of the trees, and told only where the pod is let in then.

use std::fmt;

use crate::fact::Uid;
use crate::ledger::{Charged, Ledger, PodRow, Quotas};
use crate::needs::{Amounts, Requests};
use crate::pool::Pool;
use crate::quota::{
    Bound, ByResource, Charge, Entry, Excess, Forest, Preemptible, QuotaRef, QuotaRefusal,
    RefusalReason, View, quantity,
};

/// One change that would let a pod in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuotaCure {
    /// Pods of a quota use so much less.
    Free {
        /// The quota.
        quota: Box<str>,
        /// How much.
        amounts: ByResource,
        /// Whether those are meant that never make room.
        of_non_preemptible: bool,
    },
    /// The ceiling of a quota is so much.
    RaiseMax {
        /// The quota.
        quota: Box<str>,
        /// How much.
        to: ByResource,
    },
    /// The guarantee of a quota is so much.
    RaiseMin {
        /// The quota.
        quota: Box<str>,
        /// How much.
        to: ByResource,
    },
    /// Both are so much.
    RaiseBoth {
        /// The quota.
        quota: Box<str>,
        /// How much.
        to: ByResource,
    },
}

impl fmt::Display for QuotaCure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = |amounts: &ByResource| {
            let own =
                amounts.iter().map(|(name, own)| format!("{} of {name}", quantity(name, *own)));
            own.collect::<Vec<_>>().join(" and ")
        };
        match self {
            Self::Free { quota, amounts, of_non_preemptible: false } => {
                write!(f, "have pods of quota {quota} use {} less", told(amounts))
            }
            Self::Free { quota, amounts, .. } => {
                let amounts = told(amounts);
                write!(f, "have non-preemptible pods of quota {quota} use {amounts} less")
            }
            Self::RaiseMax { quota, to } => write!(f, "raise max of quota {quota} to {}", told(to)),
            Self::RaiseMin { quota, to } => write!(f, "raise min of quota {quota} to {}", told(to)),
            Self::RaiseBoth { quota, to } => {
                write!(f, "raise min and max of quota {quota} to {}", told(to))
            }
        }
    }
}

/// A ceiling that somebody would be beyond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ceiling {
    /// The quota.
    pub quota: Box<str>,
    /// Of what.
    pub resource: Box<str>,
    /// How much.
    pub max: i64,
    /// How much would be used.
    pub needed: i64,
}

/// Why a quota has no room for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaExplanation {
    /// Which quota refuses, and why.
    pub refusal: QuotaRefusal,
    /// Ceilings above it that leave it no room either.
    pub ceilings: Vec<Ceiling>,
    /// Changes that would let the pod in, each by itself.
    pub cures: Vec<QuotaCure>,
}

/// Why no quota has room for a pod; none where all that it is held against have. The ledger is as it was
/// afterwards.
pub fn explain_quota(ledger: &mut Ledger, uid: &Uid) -> Option<QuotaExplanation> {
    let charged = ledger.pod(uid).and_then(PodRow::charged)?;
    explain_charged(ledger, charged, Some(uid))
}

/// The same of one that is charged like this: what is kept for him himself is there for him.
pub(super) fn explain_charged(
    ledger: &mut Ledger,
    charged: Charged,
    whose: Option<&Uid>,
) -> Option<QuotaExplanation> {
    let Ledger { quotas, asks, .. } = ledger;
    match whose {
        Some(uid) => quotas.beside_own(uid, |quotas| explained(quotas, &asks.requests, charged)),
        None => explained(quotas, &asks.requests, charged),
    }
}

fn explained(
    quotas: &mut Quotas,
    requests: &Pool<Requests>,
    charged: Charged,
) -> Option<QuotaExplanation> {
    let refusal = quotas.admit(charged, requests).err()?;
    let Charged { belonging, amounts, preemptible } = charged;
    let own = quotas.quota(belonging)?.clone();
    let request = requests.get(amounts).charged.clone();
    let view = quotas.forest_mut().view(&own.tree);
    let above = view.map_or_else(Vec::new, |view| above(view, &own.name, &refusal));
    let trial = Trial { forest: quotas.forest(), own, request, preemptible };
    let mut cures = Vec::new();
    let further_up = above.iter().flat_map(|own| further_up(own));
    for cure in candidates(&refusal).into_iter().chain(further_up) {
        // Where one is enough, nobody has to do both.
        let is_enough = |own: &QuotaCure| {
            matches!(own, QuotaCure::RaiseMax { .. } | QuotaCure::RaiseMin { .. })
        };
        let is_idle = matches!(cure, QuotaCure::RaiseBoth { .. }) && cures.iter().any(is_enough);
        if !is_idle && trial.admits(&cure) {
            cures.push(cure);
        }
    }
    let ceilings = above.iter().flatten().filter(|own| own.needed > own.max).cloned().collect();
    Some(QuotaExplanation { refusal, ceilings, cures })
}

/// How far the ceilings reach of the quotas above the one that may use no more now: by quota, of what there is too
/// little.
fn above(view: View<'_>, own: &str, refusal: &QuotaRefusal) -> Vec<Vec<Ceiling>> {
    let RefusalReason::Exceeded { bound: Bound::Runtime, excesses } = &refusal.reason else {
        return Vec::new();
    };
    let ceilings = |quota: &str| {
        let (fact, standing) = view.register().get(quota).zip(view.standing(quota))?;
        let ceiling = |lack: &Excess| {
            let (resource, max) = fact.max.get_key_value(&lack.resource)?;
            let used = standing.used.get(resource).copied().unwrap_or(0);
            let (resource, needed) = (resource.clone(), used.saturating_add(lack.asked));
            Some(Ceiling { quota: quota.into(), resource, max: *max, needed })
        };
        Some(excesses.iter().filter_map(ceiling).collect::<Vec<_>>())
    };
    let chain = view.chain(own).skip_while(|name| **name != *refusal.quota).skip(1);
    chain.filter_map(ceilings).filter(|own| !own.is_empty()).collect()
}

/// What of a quota above may help.
fn further_up(ceilings: &[Ceiling]) -> Vec<QuotaCure> {
    let Some(first) = ceilings.first() else { return Vec::new() };
    let quota = || first.quota.clone();
    let list = |is_meant: fn(&Ceiling) -> bool| -> ByResource {
        let own = ceilings.iter().filter(|own| is_meant(own));
        own.map(|own| (own.resource.clone(), own.needed)).collect()
    };
    let (beyond, all) = (list(|own| own.needed > own.max), list(|_| true));
    if beyond.is_empty() {
        return vec![QuotaCure::RaiseMin { quota: quota(), to: all }];
    }
    vec![
        QuotaCure::RaiseMax { quota: quota(), to: beyond.clone() },
        QuotaCure::RaiseBoth { quota: quota(), to: beyond },
    ]
}

/// What may help.
fn candidates(refusal: &QuotaRefusal) -> Vec<QuotaCure> {
    let RefusalReason::Exceeded { bound, excesses } = &refusal.reason else { return Vec::new() };
    let list = |amount: fn(&Excess) -> i64| -> ByResource {
        excesses.iter().map(|own| (own.resource.clone(), amount(own))).collect()
    };
    let needed = list(|own| own.used.saturating_add(own.asked));
    let amounts = list(|own| own.used.saturating_add(own.asked).saturating_sub(own.limit));
    let quota = || refusal.quota.clone();
    let of_non_preemptible = *bound == Bound::Min;
    let mut all = Vec::new();
    // No more can be freed than is used.
    if excesses.iter().all(|own| own.asked <= own.limit) {
        all.push(QuotaCure::Free { quota: quota(), amounts, of_non_preemptible });
    }
    match bound {
        Bound::Max => all.push(QuotaCure::RaiseMax { quota: quota(), to: needed }),
        Bound::Min => {
            all.push(QuotaCure::RaiseMin { quota: quota(), to: needed.clone() });
            all.push(QuotaCure::RaiseBoth { quota: quota(), to: needed });
        }
        Bound::Runtime => {
            all.push(QuotaCure::RaiseMax { quota: quota(), to: needed.clone() });
            all.push(QuotaCure::RaiseMin { quota: quota(), to: needed.clone() });
            all.push(QuotaCure::RaiseBoth { quota: quota(), to: needed });
        }
    }
    all
}

/// A pod that is to be let in after a change.
struct Trial<'a> {
    forest: &'a Forest,
    own: QuotaRef,
    request: Amounts,
    preemptible: Preemptible,
}

impl Trial<'_> {
    fn admits(&self, cure: &QuotaCure) -> bool {
        let mut forest = self.forest.clone();
        if !self.make(&mut forest, cure) {
            return false;
        }
        forest.admit(&self.own, &self.request, self.preemptible).is_ok()
    }

    /// Makes a change; false where it changes nothing, or more than it says.
    fn make(&self, forest: &mut Forest, cure: &QuotaCure) -> bool {
        let (quota, to, raises_min, raises_max) = match cure {
            QuotaCure::Free { quota, amounts, of_non_preemptible } => {
                let mut less = Amounts::default();
                amounts.iter().for_each(|(name, own)| less.put(name, *own));
                let preemptible =
                    if *of_non_preemptible { Preemptible::No } else { Preemptible::Yes };
                let quota = forest.find(quota);
                for charge in [Charge::Request, Charge::Used] {
                    forest.charge(&quota, &less, Entry { charge, preemptible, sign: -1 });
                }
                return true;
            }
            QuotaCure::RaiseMax { quota, to } => (quota, to, false, true),
            QuotaCure::RaiseMin { quota, to } => (quota, to, true, false),
            QuotaCure::RaiseBoth { quota, to } => (quota, to, true, true),
        };
        let Some(mut fact) = forest.register().get(quota).cloned() else { return false };
        for (name, amount) in to {
            let Some(most) = fact.max.get_mut(name) else { return false };
            // A guarantee beyond the ceiling is none, and what is no more than it was helps nobody.
            if raises_max != (*amount > *most) {
                return false;
            }
            *most = (*most).max(*amount);
            if raises_min {
                let least = fact.min.entry(name.clone()).or_default();
                if *least >= *amount {
                    return false;
                }
                *least = *amount;
            }
        }
        forest.put(fact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{Fact, NodeFact, PodFact};
    use crate::quota::{QuotaFact, Settings};

    #[test]
    fn what_is_kept_for_a_pod_itself_keeps_nothing_from_it() {
        let mut ledger = Ledger::default();
        ledger.keep_quotas(Settings::default());
        let allocatable = Amounts { cpu_millis: 9_000, ..Amounts::default() };
        let node = NodeFact { name: "n".into(), allocatable, ..NodeFact::default() };
        ledger.apply(Fact::Node(node));
        let max = [("cpu".into(), 4_000)].into();
        ledger.apply(Fact::Quota(Box::new(QuotaFact::new("a", max))));
        for name in ["own", "other"] {
            let mut pod = PodFact::new(name, "default", name);
            pod.quota = Some("a".into());
            pod.needs.requests.charged.cpu_millis = 3_000;
            pod.needs.taken = pod.needs.requests.clone();
            ledger.apply(Fact::Pod(Box::new(pod)));
        }
        let own = Uid::new("own");
        let charged = ledger.pod(&own).and_then(PodRow::charged).expect("it is charged");
        ledger.quotas.pledge(&own, charged, &ledger.asks.requests);
        let used = |told: Option<QuotaExplanation>| match told?.refusal.reason {
            RefusalReason::Exceeded { excesses, .. } => Some(excesses[0].used),
            _ => None,
        };
        for (name, expected) in [("own", None), ("other", Some(3_000))] {
            assert_eq!(used(explain_quota(&mut ledger, &Uid::new(name))), expected, "{name}");
            assert!(ledger.quotas.keeps_what_was_pledged(), "{name}");
        }
        // The same of one that is charged like it, who may be anybody.
        assert_eq!(used(explain_charged(&mut ledger, charged, Some(&own))), None);
        assert_eq!(used(explain_charged(&mut ledger, charged, None)), Some(3_000));
    }
}
