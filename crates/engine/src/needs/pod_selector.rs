//! Sets of other pods that a pod cares about, and where.

use object::selector::label::{Operator, Selector};

/// A set of pods, told by namespace and labels: those for which every clause holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodSelector(pub Box<[Clause]>);

/// One condition on a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Clause {
    /// Namespaces, sorted and without repeats.
    pub namespaces: Box<[Box<str>]>,
    /// Further namespaces, by their labels.
    pub namespace_labels: Selector,
    /// The labels of the pod.
    pub labels: Selector,
}

impl Clause {
    /// Pods of one namespace.
    #[must_use]
    pub fn within(namespace: &str, labels: Selector) -> Self {
        let namespace_labels = Selector::nothing();
        Self { namespaces: Box::new([namespace.into()]), namespace_labels, labels }
    }

    /// Whether a pod is meant.
    pub fn holds<'a>(
        &self,
        namespace: &str,
        namespace_label: impl Fn(&str) -> Option<&'a str>,
        label: impl Fn(&str) -> Option<&'a str>,
    ) -> bool {
        let listed = self.namespaces.binary_search_by(|one| (**one).cmp(namespace)).is_ok();
        (listed || self.namespace_labels.matches(namespace_label)) && self.labels.matches(label)
    }
}

impl PodSelector {
    /// The pods for which one clause holds.
    #[must_use]
    pub fn one(clause: Clause) -> Self {
        Self(Box::new([clause]))
    }

    /// A label that every selected pod has, where the selector says so: what it is looked up by.
    #[must_use]
    pub fn pair(&self) -> Option<(&str, &str)> {
        let requirements = self.0.iter().filter_map(|clause| clause.labels.requirements());
        requirements.flatten().find_map(|one| match (one.operator(), one.values()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => {
                Some((one.key(), value.as_str()))
            }
            _ => None,
        })
    }

    /// Whether it depends on labels of namespaces.
    #[must_use]
    pub fn reads_namespaces(&self) -> bool {
        self.0.iter().any(|clause| !clause.namespace_labels.is_nothing())
    }
}

/// Pods, and how near is near: nodes that share the value of a label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// The pods.
    pub pods: Clause,
    /// The label.
    pub topology_key: Box<str>,
}

/// Which pods a pod must or would rather be near to or away from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodAffinity {
    /// It must be near a pod that all of these mean.
    pub near: Box<[PodTerm]>,
    /// It must be away from all pods that any of these means.
    pub away: Box<[PodTerm]>,
    /// What being near to each of these pods is worth; below zero for those it would avoid.
    pub preferred: Box<[(i32, PodTerm)]>,
}

/// How a pod and its like are spread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Spread(pub Box<[Constraint]>);

/// One rule of how pods are spread.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Constraint {
    /// Whether the rule binds.
    pub binds: bool,
    /// How many pods one domain may have more than the least filled one.
    pub max_skew: i32,
    /// The label whose values are the domains.
    pub topology_key: Box<str>,
    /// The pods that are counted.
    pub pods: Clause,
    /// With fewer domains than this, the least filled one counts as empty.
    pub min_domains: i32,
    /// Whether nodes count only where the pod's node affinity admits them.
    pub honours_affinity: bool,
    /// Whether nodes count only where the pod puts up with their taints.
    pub honours_taints: bool,
}
