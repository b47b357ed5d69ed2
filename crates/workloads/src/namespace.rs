//! Deletion of namespaces: everything in them first, then their own last finalizer.
//!
//! What is in a namespace is found by discovery, so that objects of CRDs go too. Pods go
//! before everything else, since they may need what else is there to end well. What holds
//! up a deletion is told in conditions ([`conditions`]).

mod shell;

use std::collections::BTreeMap;

use api::Condition;
use jiff::Timestamp;

pub use shell::start;

/// What is left of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remains {
    /// Why not all resources could be found out.
    pub undiscovered: Option<String>,
    /// Deletions that failed.
    pub failures: Vec<String>,
    /// Objects left, by `resource.group`.
    pub objects: BTreeMap<String, usize>,
    /// Objects that a finalizer holds, by finalizer.
    pub finalizers: BTreeMap<String, usize>,
}

impl Remains {
    /// Whether the namespace is empty, as far as it is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What is told when something holds up the deletion: reason and message.
type Trouble = Option<(&'static str, String)>;

/// A condition, what can be wrong, and the words for when all is well.
struct Line {
    kind: &'static str,
    trouble: fn(&Remains) -> Trouble,
    well: (&'static str, &'static str),
}

const LINES: [Line; 5] = [
    Line {
        kind: "NamespaceDeletionDiscoveryFailure",
        trouble: |remains| Some(("DiscoveryFailed", remains.undiscovered.clone()?)),
        well: ("ResourcesDiscovered", "All resources successfully discovered"),
    },
    Line {
        kind: "NamespaceDeletionGroupVersionParsingFailure",
        trouble: |_| None,
        well: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    },
    Line {
        kind: "NamespaceDeletionContentFailure",
        trouble: undeleted,
        well: (
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
    },
    Line {
        kind: "NamespaceContentRemaining",
        trouble: |remains| {
            let list = listed(&remains.objects, (" has ", " resource instances"))?;
            Some(("SomeResourcesRemain", format!("Some resources are remaining: {list}")))
        },
        well: ("ContentRemoved", "All content successfully removed"),
    },
    Line {
        kind: "NamespaceFinalizersRemaining",
        trouble: |remains| {
            let list = listed(&remains.finalizers, (" in ", " resource instances"))?;
            let message = format!("Some content in the namespace has finalizers remaining: {list}");
            Some(("SomeFinalizersRemain", message))
        },
        well: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
    },
];

fn undeleted(remains: &Remains) -> Trouble {
    let mut told = remains.failures.clone();
    told.sort_unstable();
    let (count, told) = (told.len(), told.join(", "));
    let message = format!("Failed to delete all resource types, {count} remaining: {told}");
    (count > 0).then_some(("ContentDeletionFailed", message))
}

/// The counts in words; nothing where there are none.
fn listed(counts: &BTreeMap<String, usize>, words: (&str, &str)) -> Option<String> {
    let line = |(name, count): (&String, &usize)| format!("{name}{}{count}{}", words.0, words.1);
    let lines: Vec<String> = counts.iter().map(line).collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

/// The conditions of a namespace that is going.
#[must_use]
pub fn conditions(old: &[Condition], remains: &Remains, now: Timestamp) -> Vec<Condition> {
    let mut conditions = old.to_vec();
    for line in &LINES {
        let (status, reason, message) = match (line.trouble)(remains) {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", line.well.0, line.well.1.to_owned()),
        };
        let new = Condition {
            r#type: line.kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            ..Condition::default()
        };
        api::condition::set(&mut conditions, new, now.into());
    }
    conditions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::testing::at;

    #[test]
    fn conditions_tell_what_holds_up_the_deletion_and_when_it_no_longer_does() {
        let mut old = Vec::new();
        let mut check = |remains: &Remains, seconds, want: [&str; 5]| {
            old = conditions(&old, remains, at(seconds));
            let told: Vec<&str> = old
                .iter()
                .filter(|told| told.is_true())
                .map(|told| told.message.as_str())
                .collect();
            let want: Vec<&str> = want.into_iter().filter(|line| !line.is_empty()).collect();
            assert_eq!(told, want);
            assert_eq!(old.len(), 5);
        };
        check(&Remains::default(), 0, [""; 5]);
        let held = Remains {
            failures: vec!["b".to_owned(), "a".to_owned()],
            objects: [("configmaps.".to_owned(), 2), ("jobs.batch".to_owned(), 1)].into(),
            finalizers: [("x/y".to_owned(), 1)].into(),
            ..Remains::default()
        };
        let told = [
            "",
            "",
            "Failed to delete all resource types, 2 remaining: a, b",
            "Some resources are remaining: configmaps. has 2 resource instances, jobs.batch has 1 resource instances",
            "Some content in the namespace has finalizers remaining: x/y in 1 resource instances",
        ];
        check(&held, 5, told);
        let since = |kind: &str| api::condition::find(&old, kind).unwrap().last_transition_time;
        assert_eq!(since("NamespaceContentRemaining"), Some(at(5).into()));
        assert_eq!(since("NamespaceDeletionDiscoveryFailure"), Some(at(0).into()));
    }
}
