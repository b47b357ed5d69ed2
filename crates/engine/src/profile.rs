//! A profile: which plugins judge a pod, in which order, with which weight.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::cache::TOTAL_MAX;
use crate::gangs;
use crate::ledger::{Ledger, LoadSettings};
use crate::plugin::{Filter, Plugin, SCORE_MAX, Score, reserving};
use crate::plugins::dynamic_resources::DynamicResources;
use crate::plugins::image_locality::ImageLocality;
use crate::plugins::inter_pod_affinity::InterPodAffinity;
use crate::plugins::node_affinity::NodeAffinity;
use crate::plugins::node_ports::NodePorts;
use crate::plugins::node_resources::{BalancedAllocation, Fit};
use crate::plugins::node_unschedulable::NodeUnschedulable;
use crate::plugins::node_volume_limits::NodeVolumeLimits;
use crate::plugins::pod_topology_spread::PodTopologySpread;
use crate::plugins::taint_toleration::TaintToleration;
use crate::plugins::volume_binding::VolumeBinding;
use crate::plugins::volume_restrictions::VolumeRestrictions;
use crate::plugins::volume_zone::VolumeZone;
use crate::preemption;
use crate::queue::Arguments;
use crate::quota;

/// What a plugin's score counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight(pub i64);

/// Which plugins judge a pod.
#[derive(Default)]
pub struct Profile {
    /// Say which nodes cannot take a pod; the first to refuse a node names the reason.
    pub filters: Vec<Box<dyn Filter>>,
    /// Places of filters in the order in which they say whether a pod can be tried at all.
    pub admission: Vec<usize>,
    /// Say how good the others are.
    pub scores: Vec<(Box<dyn Score>, Weight)>,
    /// How long the volumes of a pod that has a node may take to be ready; none where nobody makes
    /// them ready.
    pub volume_wait_max: Option<Duration>,
    /// What is tried, in this order, for those that no node can take. For a single pod what is looked for on
    /// one node comes before what is looked for everywhere, wherever it stands here.
    pub last_resorts: Vec<LastResort>,
    /// How pods start together, where they do.
    pub gangs: Option<gangs::Settings>,
    /// How pods are held to their quotas, where they are.
    pub quota: Option<quota::Settings>,
    /// About which pods somebody outside is asked before they get a node.
    pub consulting: Consulting,
    /// About how many percent of the nodes they are asked at a time; 0 where that follows from how
    /// many there are.
    pub consulted_percent: u8,
}

/// About which pods somebody outside is asked before they get a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Consulting {
    /// About none.
    #[default]
    Never,
    /// About those that name one of these resources.
    Naming(BTreeSet<Box<str>>),
    /// About all.
    Always,
}

impl Consulting {
    /// Whether somebody is asked about a pod that names these resources.
    #[must_use]
    pub fn is_about(&self, extended: &[Box<str>]) -> bool {
        match self {
            Self::Never => false,
            Self::Naming(resources) => extended.iter().any(|name| resources.contains(name)),
            Self::Always => true,
        }
    }
}

/// What is tried for a pod that no node can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastResort {
    /// Devices that nobody uses are given back. It has nothing to do for a pod without claims.
    DynamicResources,
    /// It is told why the pod can use none of the reservations that are for it. Pods of lower priority
    /// make room for it, and for reservations, where it is said how.
    Reservation(Option<preemption::Settings>),
    /// Pods of lower priority make room for pods.
    DefaultPreemption(preemption::Settings),
    /// The same for pods and whole gangs, where gangs that would have too few members left go whole.
    Coscheduling,
    /// Pods of lower priority make room for others of their quota, and whoever uses what is only lent for
    /// those who are guaranteed it.
    ElasticQuota,
}

impl LastResort {
    /// Whether it is tried for groups of gangs.
    pub(crate) fn is_for_groups(&self) -> bool {
        matches!(self, Self::Coscheduling | Self::ElasticQuota)
    }
}

/// How long volumes may take to be ready, where nobody says otherwise.
pub const VOLUME_WAIT_MAX: Duration = Duration::from_secs(600);

/// Why the weights of a profile cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WeightError {
    /// A weight is below zero.
    #[error("the weight of {plugin} is {weight}; it must be at least 0")]
    Negative {
        /// The plugin.
        plugin: Plugin,
        /// Its weight.
        weight: i64,
    },
    /// Together they are too much.
    #[error("the weights of all score plugins add up to {sum}; they must add up to at most {most}")]
    TooLarge {
        /// What they add up to.
        sum: i64,
        /// What they may add up to.
        most: i64,
    },
}

impl Profile {
    /// The most that weights may add up to, so that totals stay small integers.
    pub const WEIGHTS_MAX: i64 = TOTAL_MAX / SCORE_MAX;

    /// Whether the weights can be used.
    ///
    /// # Errors
    /// Which cannot, and why.
    pub fn check(&self) -> Result<(), WeightError> {
        let mut sum = 0_i64;
        for (score, Weight(weight)) in &self.scores {
            if *weight < 0 {
                return Err(WeightError::Negative { plugin: score.plugin(), weight: *weight });
            }
            sum = sum.saturating_add(*weight);
        }
        let most = Self::WEIGHTS_MAX;
        if sum > most { Err(WeightError::TooLarge { sum, most }) } else { Ok(()) }
    }

    /// Kubernetes' default plugins in their order.
    #[must_use]
    pub fn kubernetes() -> Self {
        let prepares = Self { volume_wait_max: Some(VOLUME_WAIT_MAX), ..Self::default() };
        prepares
            .filter(NodeUnschedulable)
            .filter(TaintToleration)
            .filter(NodeAffinity::default())
            .filter(NodePorts)
            .filter(Fit::default())
            .filter(VolumeRestrictions)
            .filter(NodeVolumeLimits)
            .filter(VolumeBinding)
            .filter(VolumeZone)
            .filter(PodTopologySpread::default())
            .filter(InterPodAffinity::default())
            .filter(DynamicResources)
            .score(TaintToleration, Weight(3))
            .score(NodeAffinity::default(), Weight(2))
            .score(Fit::default(), Weight(1))
            .score(PodTopologySpread::default(), Weight(2))
            .score(InterPodAffinity::default(), Weight(2))
            .score(BalancedAllocation::default(), Weight(1))
            .score(ImageLocality, Weight(1))
            .last_resort(LastResort::DynamicResources)
            .last_resort(LastResort::DefaultPreemption(preemption::Settings::default()))
    }

    /// With one more filter, after the others.
    #[must_use]
    pub fn filter(mut self, filter: impl Filter + 'static) -> Self {
        self.admission.push(self.filters.len());
        self.filters.push(Box::new(filter));
        self
    }

    /// With filters asked in this order whether a pod can be tried at all; those that are not named
    /// come last.
    #[must_use]
    pub fn admitting_by(mut self, order: &[Plugin]) -> Self {
        let filters = &self.filters;
        let place = |plugin| order.iter().position(|one| *one == plugin).unwrap_or(order.len());
        self.admission.sort_by_key(|own| place(filters[*own].plugin()));
        self
    }

    /// What the queue has to know of it.
    #[must_use]
    pub fn arguments(&self) -> Arguments {
        let mut arguments = Arguments::default();
        self.filters.iter().for_each(|filter| filter.tell(&mut arguments));
        arguments
    }

    /// How the load of nodes is judged, where it is.
    pub fn loads(&self) -> impl Iterator<Item = &Arc<LoadSettings>> {
        let filters = self.filters.iter().filter_map(|filter| filter.loads());
        filters.chain(self.scores.iter().filter_map(|(score, _)| score.loads()))
    }

    /// Has a ledger keep all that the profile looks at. It is to be asked before the first fact.
    pub fn keep(&self, ledger: &mut Ledger) {
        let filters = self.filters.iter().flat_map(|filter| filter.topology_keys());
        let scores = self.scores.iter().flat_map(|(score, _)| score.topology_keys());
        for key in filters.chain(scores) {
            ledger.terms.topologies.hold(key, &ledger.nodes, &ledger.symbols);
        }
        for settings in self.loads() {
            ledger.keep_loads(Arc::clone(settings));
        }
        if self.filters.iter().any(|filter| filter.allots()) {
            ledger.keep_cpus();
        }
        if reserving(&self.filters).is_some() {
            ledger.keep_reservations();
        }
        if let Some(settings) = self.gangs {
            ledger.keep_gangs(settings);
        }
        if let Some(settings) = self.quota {
            ledger.keep_quotas(settings);
            if self.last_resorts.contains(&LastResort::ElasticQuota) {
                ledger.take_back_lent();
            }
        }
    }

    /// With one more thing to try for a pod that no node can take.
    #[must_use]
    pub fn last_resort(mut self, last_resort: LastResort) -> Self {
        self.last_resorts.push(last_resort);
        self
    }

    /// With one more score.
    #[must_use]
    pub fn score(mut self, score: impl Score + 'static, weight: Weight) -> Self {
        self.scores.push((Box::new(score), weight));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_at_least_zero_and_add_up_to_what_totals_hold() {
        let check = |weights: &[i64], expected: Result<(), WeightError>| {
            let with =
                |profile: Profile, weight: &i64| profile.score(TaintToleration, Weight(*weight));
            assert_eq!(weights.iter().fold(Profile::default(), with).check(), expected);
        };
        let most = Profile::WEIGHTS_MAX;
        check(&[], Ok(()));
        check(&[0, 3, most - 3], Ok(()));
        check(&[1, most], Err(WeightError::TooLarge { sum: most + 1, most }));
        check(&[i64::MAX, i64::MAX], Err(WeightError::TooLarge { sum: i64::MAX, most }));
        let plugin = Plugin::TaintToleration;
        check(&[1, -1], Err(WeightError::Negative { plugin, weight: -1 }));
        assert_eq!(Profile::kubernetes().check(), Ok(()));
    }
}
