//! Which pods go first when there are too many.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use api::pod::PodPhase;
use jiff::Timestamp;

use crate::facts::PodFact;

/// Sorts pods, those first that are missed least: not bound before bound, pending before
/// running, not ready before ready, cheap before dear, on a crowded node before alone,
/// ready for a short time before long, restarted often before seldom, young before old.
/// Times are compared by their magnitude alone, and equal ones by uid, so that pods of
/// nearly the same age do not always go in the order they came.
pub fn rank(pods: &mut [&PodFact], crowding: &BTreeMap<&str, usize>, now: Timestamp) {
    pods.sort_by(|left, right| place(left, crowding, now).cmp(&place(right, crowding, now)));
}

/// What pods are sorted by, in this order.
fn place<'a>(
    pod: &'a PodFact,
    crowding: &BTreeMap<&str, usize>,
    now: Timestamp,
) -> impl Ord + use<'a> {
    let crowd = crowding.get(&*pod.node).copied().unwrap_or(0);
    let worth = (!pod.node.is_empty(), phase_rank(pod.phase), pod.is_ready(), pod.deletion_cost);
    let ready = pod.ready_since.map(|since| magnitude(since, now));
    let age = magnitude(pod.meta.created, now);
    (worth, Reverse(crowd), ready, Reverse(pod.restarts_max), age, &pod.meta.uid)
}

fn phase_rank(phase: PodPhase) -> u8 {
    match phase {
        PodPhase::Pending => 0,
        PodPhase::Unknown => 1,
        PodPhase::Running | PodPhase::Succeeded | PodPhase::Failed => 2,
    }
}

/// The power of two that an age in nanoseconds reaches; `None` below one.
fn magnitude(since: Timestamp, now: Timestamp) -> Option<u32> {
    let age = now.as_nanosecond().saturating_sub(since.as_nanosecond());
    u128::try_from(age).ok().and_then(u128::checked_ilog2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn pod(uid: usize, ready_for: Option<i64>, restarts: i32, age: i64) -> PodFact {
        let time = |ago: i64| Timestamp::from_second(1_000_000 - ago).unwrap().to_string();
        let mut pod = json!({"metadata": {"name": "p", "uid": format!("u{uid}"),
            "creationTimestamp": time(age)}, "spec": {"nodeName": "n"}, "status": {"phase": "Running",
            "containerStatuses": [{"name": "c", "restartCount": restarts, "ready": true, "image": "",
            "imageID": "", "state": {}}]}});
        if let Some(ago) = ready_for {
            pod["status"]["conditions"] =
                json!([{"type": "Ready", "status": "True", "lastTransitionTime": time(ago)}]);
        }
        serde_json::from_value(pod).unwrap()
    }

    proptest! {
        /// Sorting needs a total order, or it panics; and the order of arrival decides nothing.
        #[test]
        fn pods_of_any_age_have_one_order(
            pods in proptest::collection::vec(
                (proptest::option::of(0..200i64), 0..3i32, 0..200i64), 2..60),
        ) {
            let pods: Vec<PodFact> = pods
                .into_iter()
                .enumerate()
                .map(|(uid, (ready, restarts, age))| pod(uid, ready, restarts, age))
                .collect();
            let now = Timestamp::from_second(1_000_000).unwrap();
            let mut forth: Vec<&PodFact> = pods.iter().collect();
            let mut back: Vec<&PodFact> = pods.iter().rev().collect();
            rank(&mut forth, &BTreeMap::new(), now);
            rank(&mut back, &BTreeMap::new(), now);
            let uids = |pods: &[&PodFact]| pods.iter().map(|pod| pod.meta.uid.to_string()).collect::<Vec<_>>();
            prop_assert_eq!(uids(&forth), uids(&back));
        }
    }
}
