//! Which controllers run.

use std::collections::BTreeSet;
use std::str::FromStr;

/// A controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// Rolls out templates.
    Deployment,
    /// Keeps a number of pods.
    ReplicaSet,
    /// Runs pods to their end.
    Job,
    /// Deletes what has lost its owners.
    GarbageCollector,
    /// Empties namespaces that are going.
    Namespace,
    /// Counts what disruption budgets allow.
    Disruption,
    /// Taints nodes and drives pods off them.
    NodeLifecycle,
    /// Ends pods that have lost their node.
    PodGc,
    /// Makes default service accounts.
    ServiceAccount,
    /// Publishes the root certificate.
    RootCa,
}

impl Name {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Deployment,
        Self::ReplicaSet,
        Self::Job,
        Self::GarbageCollector,
        Self::Namespace,
        Self::Disruption,
        Self::NodeLifecycle,
        Self::PodGc,
        Self::ServiceAccount,
        Self::RootCa,
    ];

    /// The name that users write.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::ReplicaSet => "replica-set",
            Self::Job => "job",
            Self::GarbageCollector => "garbage-collector",
            Self::Namespace => "namespace",
            Self::Disruption => "disruption",
            Self::NodeLifecycle => "node-lifecycle",
            Self::PodGc => "pod-gc",
            Self::ServiceAccount => "service-account",
            Self::RootCa => "root-ca",
        }
    }
}

/// A set of controllers.
///
/// As text it is a list of names in which `*` means all and `-name` takes one away, such as
/// `*,-job`. A list that only takes away takes from all; `none` alone is the empty set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection(BTreeSet<Name>);

/// A word that is no controller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{word:?} is not a controller: use {known}; * means all, -NAME leaves one out, and none \
     alone means no controller",
    known = known_names()
)]
pub struct UnknownName {
    /// The word.
    pub word: String,
}

/// The names that users may write.
#[must_use]
pub fn known_names() -> String {
    Name::ALL.map(Name::as_str).join(", ")
}

impl Selection {
    /// Every controller.
    #[must_use]
    pub fn all() -> Self {
        Self(Name::ALL.into())
    }

    /// These controllers.
    #[must_use]
    pub fn of(names: &[Name]) -> Self {
        Self(names.iter().copied().collect())
    }

    /// The controllers, in a fixed order.
    pub fn names(&self) -> impl Iterator<Item = Name> {
        self.0.iter().copied()
    }
}

impl FromStr for Selection {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        if text.trim() == "none" {
            return Ok(Self(BTreeSet::new()));
        }
        let words = || text.split(',').map(str::trim);
        let mut chosen = BTreeSet::new();
        if words().all(|word| word.starts_with('-')) {
            chosen.extend(Name::ALL);
        }
        for word in words() {
            if word == "*" {
                chosen.extend(Name::ALL);
                continue;
            }
            let (plain, taken) = word.strip_prefix('-').map_or((word, false), |rest| (rest, true));
            let found = Name::ALL.into_iter().find(|name| name.as_str() == plain);
            let name = found.ok_or_else(|| UnknownName { word: word.to_owned() })?;
            if taken {
                chosen.remove(&name);
            } else {
                chosen.insert(name);
            }
        }
        Ok(Self(chosen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_names_choose_controllers() {
        let check = |text: &str, want: &str| {
            let chosen: Vec<&str> =
                text.parse::<Selection>().unwrap().names().map(Name::as_str).collect();
            assert_eq!(chosen.join(" "), want, "{text}");
        };
        check("none", "");
        check("job", "job");
        check("job, deployment,job", "deployment job");
        check(
            "*,-garbage-collector,-job,-root-ca",
            "deployment replica-set namespace disruption node-lifecycle pod-gc service-account",
        );
        check(
            "-garbage-collector,-root-ca,-job",
            "deployment replica-set namespace disruption node-lifecycle pod-gc service-account",
        );
        assert_eq!("*".parse(), Ok(Selection::all()));
        for word in known_names().split(", ") {
            check(word, word);
        }
        for refused in ["", "job,", "job,none", "-", "replicaset"] {
            assert!(refused.parse::<Selection>().is_err(), "{refused:?}");
        }
        let error = "deploy".parse::<Selection>().unwrap_err().to_string();
        assert!(error.starts_with("\"deploy\" is not a controller: use deployment, "), "{error}");
    }
}
