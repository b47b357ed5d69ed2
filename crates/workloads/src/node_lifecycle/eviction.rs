//! Which pods leave a node for its `NoExecute` taints, and when.

use jiff::{SignedDuration, Timestamp};
use object::taint::{Effect, Stay, Taint, stay};

use crate::facts::{NodeFact, PodFact};

/// What becomes of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It stays.
    Stays,
    /// It goes at this time, which may have come.
    Goes(Timestamp),
}

/// Decides for one pod of a node. A pod bears its taints for as long as the shortest of its
/// tolerations says, counted from when the last of them was added.
#[must_use]
pub fn fate(node: &NodeFact, pod: &PodFact, now: Timestamp) -> Fate {
    if pod.is_going() {
        return Fate::Stays;
    }
    let drives = |taint: &&Taint| taint.effect == Some(Effect::NoExecute);
    let since = node.taints.iter().filter(drives).filter_map(|taint| taint.time_added).max();
    let since = since.map_or(now, Timestamp::from);
    match stay(&node.taints, &pod.tolerations) {
        Stay::Forever => Fate::Stays,
        Stay::None => Fate::Goes(now),
        Stay::Seconds(seconds) => Fate::Goes(
            since.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX),
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::facts::testing::{at, pod, text};

    #[test]
    fn a_pod_stays_as_long_as_its_tolerations_say() {
        let check = |taints: Value, tolerations: Value, want| {
            let node = json!({ "metadata": { "name": "n" }, "spec": { "taints": taints } });
            let node: NodeFact = serde_json::from_value(node).unwrap();
            let mut pod = pod("a", "node=n");
            pod.tolerations = serde_json::from_value(tolerations).unwrap();
            assert_eq!(fate(&node, &pod, at(100)), want);
        };
        let taint = |key: &str, effect: &str, seconds| json!({ "key": key, "effect": effect, "timeAdded": text(seconds) });
        let bears = |key: &str, seconds| {
            json!({ "key": key, "operator": "Exists", "effect": "NoExecute",
                    "tolerationSeconds": seconds })
        };
        let gone = json!([taint("gone", "NoExecute", 50)]);
        check(json!([]), json!([]), Fate::Stays);
        check(json!([taint("gone", "NoSchedule", 50)]), json!([]), Fate::Stays);
        check(gone.clone(), json!([]), Fate::Goes(at(100)));
        check(gone.clone(), json!([bears("gone", json!(300))]), Fate::Goes(at(350)));
        check(gone.clone(), json!([bears("gone", json!(10))]), Fate::Goes(at(60)));
        check(gone.clone(), json!([bears("gone", json!(0))]), Fate::Goes(at(100)));
        check(gone.clone(), json!([bears("gone", json!(null))]), Fate::Stays);
        check(gone, json!([{ "operator": "Exists" }]), Fate::Stays);
        let two = json!([taint("gone", "NoExecute", 50), taint("bad", "NoExecute", 80)]);
        check(two.clone(), json!([bears("gone", json!(5))]), Fate::Goes(at(100)));
        let both = json!([bears("gone", json!(300)), bears("bad", json!(30))]);
        check(two, both, Fate::Goes(at(110)));
    }
}
