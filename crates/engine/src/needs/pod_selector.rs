//! Sets of other pods that a pod cares about, and where.

use object::selector::label::{Operator, Requirement, Selector};

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
        self.spans(namespace, namespace_label) && self.labels.matches(label)
    }

    /// Whether pods of a namespace are meant, as far as that is all that is asked of them.
    pub fn spans<'a>(
        &self,
        namespace: &str,
        namespace_label: impl Fn(&str) -> Option<&'a str>,
    ) -> bool {
        let listed = self.namespaces.binary_search_by(|one| (**one).cmp(namespace)).is_ok();
        listed || self.namespace_labels.matches(namespace_label)
    }
}

/// Where the pods are that a selector means: nowhere else is one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach<'a> {
    /// Among those with this label and value.
    Label(&'a str, &'a str),
    /// Among those with any value of this label.
    Key(&'a str),
    /// In these namespaces.
    Namespaces(&'a [Box<str>]),
}

impl PodSelector {
    /// The pods for which one clause holds.
    #[must_use]
    pub fn one(clause: Clause) -> Self {
        Self(Box::new([clause]))
    }

    /// What is asked of labels of pods. All of it holds for each pod that is meant.
    pub fn requirements(&self) -> impl Iterator<Item = &Requirement> {
        self.0.iter().filter_map(|clause| clause.labels.requirements()).flatten()
    }

    /// Whether no pod can be meant, whatever its labels are.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.0.iter().any(|clause| clause.labels.is_nothing())
    }

    /// Whether pods of a namespace are meant, as far as that is all that is asked of them.
    pub fn spans<'a>(
        &self,
        namespace: &str,
        namespace_label: impl Fn(&str) -> Option<&'a str>,
    ) -> bool {
        self.0.iter().all(|clause| clause.spans(namespace, &namespace_label))
    }

    /// Where the pods are that it means, in each way in which it says so; those that say most come
    /// first. Nothing where they may be anywhere.
    pub fn reaches(&self) -> impl Iterator<Item = Reach<'_>> {
        let nowhere = self.is_nothing().then_some(Reach::Namespaces(&[]));
        let label = self.requirements().find_map(|one| match (one.operator(), one.values()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => {
                Some(Reach::Label(one.key(), value))
            }
            _ => None,
        });
        let is_positive = |one: &&Requirement| match one.operator() {
            Operator::NotIn | Operator::NotEquals | Operator::DoesNotExist => false,
            Operator::In | Operator::Equals | Operator::DoubleEquals => true,
            Operator::Exists | Operator::GreaterThan | Operator::LessThan => true,
        };
        let key = self.requirements().find(is_positive).map(|one| Reach::Key(one.key()));
        let listing = self.0.iter().filter(|clause| clause.namespace_labels.is_nothing());
        let namespaces = listing.map(|clause| &*clause.namespaces).min_by_key(|list| list.len());
        let namespaces = namespaces.map(Reach::Namespaces);
        nowhere.into_iter().chain(label).chain(key).chain(namespaces)
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

#[cfg(test)]
mod tests {
    use object::field::Path;

    use super::*;

    #[test]
    fn a_selector_says_where_its_pods_are() {
        let all = "namespaces";
        let check = |namespaces: &[&str], labels: Option<&str>, expected: &[Reach<'_>]| {
            let mut listed: Vec<Box<str>> = namespaces.iter().map(|name| (*name).into()).collect();
            listed.retain(|name| **name != *all);
            let everywhere = namespaces.contains(&all);
            let selector = PodSelector::one(Clause {
                namespaces: listed.into(),
                namespace_labels: match everywhere {
                    true => Selector::everything(),
                    false => Selector::nothing(),
                },
                labels: match labels {
                    Some(labels) => Selector::parse(labels, &Path::root()).unwrap(),
                    None => Selector::nothing(),
                },
            });
            assert_eq!(selector.reaches().collect::<Vec<_>>(), expected, "{labels:?}");
        };
        let own: &[Box<str>] = &["a".into()];
        let (label, key) = (Reach::Label("x", "1"), Reach::Key("x"));
        let within = Reach::Namespaces(own);
        check(&["a"], Some("x=1"), &[label, key, within]);
        check(&[all], Some("!y,x=1"), &[label, key]);
        check(&[all], Some("x in (1,2),y notin (3)"), &[key]);
        check(&[all, "a"], Some("x"), &[key]);
        check(&["a"], Some("x>4"), &[key, within]);
        check(&["a"], Some("!x"), &[within]);
        check(&["a"], Some(""), &[within]);
        check(&[all], Some("!x,y!=1"), &[]);
        check(&[], Some("!x"), &[Reach::Namespaces(&[])]);
        check(&[all], None, &[Reach::Namespaces(&[])]);
    }
}
