//! Revisions, and the annotations that carry them.

use std::collections::BTreeMap;

use api::{ObjectMeta, ReplicaSet};

use super::Rollout;

/// The revision of a set, and on the deployment that of its newest set.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// Revisions that a set had before it became the newest again.
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The number of replicas that the deployment asked for when the set was last scaled.
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// The same with the surge on top.
const SIZE_MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of the deployment that are not for its sets.
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    SIZE_MAX,
    "deprecated.deployment.rollback.to",
];
/// How long the list of former revisions may become.
const HISTORY_LENGTH_MAX: usize = 2000;

/// The revision of an object; 0 where it has none that can be read.
pub fn of(meta: &ObjectMeta) -> i64 {
    meta.annotations.get(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The number of replicas that was asked for when the set was last scaled.
pub fn desired(set: &ReplicaSet) -> Option<i32> {
    number(set, DESIRED)
}

/// The most replicas there could be when the set was last scaled.
pub fn size_max(set: &ReplicaSet) -> Option<i32> {
    number(set, SIZE_MAX)
}

fn number(set: &ReplicaSet, key: &str) -> Option<i32> {
    set.metadata.annotations.get(key)?.parse().ok().filter(|number| *number >= 0)
}

/// The annotations that the newest set lacks; all that it needs, when it does not exist.
pub fn annotations_for(
    rollout: &Rollout<'_>,
    newest: Option<&ObjectMeta>,
) -> BTreeMap<String, String> {
    let has = |key: &str| newest.and_then(|meta| meta.annotations.get(key));
    let deployment = &rollout.deployment.metadata.annotations;
    let mut wanted: BTreeMap<String, String> = deployment
        .iter()
        .filter(|(key, value)| !OWN.contains(&key.as_str()) && has(key) != Some(value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let next = rollout.old.iter().map(|set| of(&set.metadata)).max().unwrap_or(0).saturating_add(1);
    let present = has(REVISION).map(|text| text.parse::<i64>());
    // A revision that is no number was written by someone who knows better.
    let behind = match present {
        None => true,
        Some(Ok(present)) => present < next,
        Some(Err(_)) => false,
    };
    if behind {
        wanted.insert(REVISION.to_owned(), next.to_string());
        if let Some(former) = has(REVISION) {
            let history = has(HISTORY).map_or("", String::as_str);
            wanted.extend(longer_history(history, former).map(|text| (HISTORY.to_owned(), text)));
        }
    }
    if newest.is_none() {
        wanted.insert(DESIRED.to_owned(), rollout.wanted().to_string());
        wanted.insert(SIZE_MAX.to_owned(), rollout.size_max().to_string());
    }
    wanted
}

/// The list of former revisions with one more, without the first ones where it would be
/// too long; `None` where not even the last one fits.
fn longer_history(history: &str, former: &str) -> Option<String> {
    if history.is_empty() {
        return Some(former.to_owned());
    }
    let mut kept = history;
    while kept.len() + former.len() + 1 > HISTORY_LENGTH_MAX {
        kept = kept.split_once(',')?.1;
    }
    Some(format!("{kept},{former}"))
}

/// The annotations of a size that a set lacks.
pub fn size_annotations(rollout: &Rollout<'_>, set: &ReplicaSet) -> BTreeMap<String, String> {
    let mut wanted = BTreeMap::from([
        (DESIRED.to_owned(), rollout.wanted().to_string()),
        (SIZE_MAX.to_owned(), rollout.size_max().to_string()),
    ]);
    wanted.retain(|key, value| set.metadata.annotations.get(key) != Some(value));
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_keeps_the_last_revisions() {
        let check = |history: &str, former: &str, want: Option<&str>| {
            assert_eq!(longer_history(history, former).as_deref(), want);
        };
        check("", "1", Some("1"));
        check("1,3", "5", Some("1,3,5"));
        let long = format!("1,{}", "9".repeat(1993));
        check(&long, "123456", Some(&format!("{},123456", "9".repeat(1993))));
        check(&"9".repeat(1999), "5", None);
    }
}
