//! Whether a node is still heard of.

use std::collections::BTreeMap;
use std::time::Duration;

use api::Condition;
use jiff::{SignedDuration, Timestamp};

use crate::facts::NodeFact;

/// The conditions that become unknown with a node. That of the network is not the node's.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// When a node was last heard of, by our own clock: the node's may differ.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Heard {
    at: Timestamp,
    report: Option<Timestamp>,
    renewed: Option<Timestamp>,
}

/// When each node was last heard of.
#[derive(Debug, Clone, Default)]
pub struct Heartbeats(BTreeMap<Box<str>, Heard>);

impl Heartbeats {
    /// The node reported its status, at its own time. A node that never did counts as heard
    /// of when it was made; one that is seen for the first time, now.
    pub fn reported(&mut self, node: &NodeFact, now: Timestamp) {
        let report = ready(&node.conditions)
            .map(|ready| ready.last_heartbeat_time.map_or(Timestamp::MIN, Timestamp::from));
        match self.0.get_mut(node.meta.key.name()) {
            Some(heard) if heard.report == report => {}
            Some(heard) => {
                heard.report = report;
                heard.at = now;
            }
            None => {
                let at = if report.is_some() { now } else { node.meta.created };
                let heard = Heard { at, report, renewed: None };
                self.0.insert(node.meta.key.name().into(), heard);
            }
        }
    }

    /// The node renewed its lease, at its own time.
    pub fn renewed(&mut self, node: &str, renewed: Timestamp, now: Timestamp) {
        if let Some(heard) = self.0.get_mut(node)
            && heard.renewed.is_none_or(|before| before < renewed)
        {
            heard.renewed = Some(renewed);
            heard.at = now;
        }
    }

    /// The node is gone.
    pub fn forget(&mut self, node: &str) {
        self.0.remove(node);
    }

    /// How long the node may still be silent; `None` when it was for too long.
    #[must_use]
    pub fn left(&self, node: &str, grace: Duration, now: Timestamp) -> Option<Duration> {
        let Some(heard) = self.0.get(node) else { return Some(grace) };
        let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
        let due = heard.at.saturating_add(grace).unwrap_or(Timestamp::MAX);
        if now > due {
            return None;
        }
        Duration::try_from(due.duration_since(now)).ok()
    }
}

/// The condition that tells whether a node is ready.
#[must_use]
pub fn ready(conditions: &[Condition]) -> Option<&Condition> {
    api::condition::find(conditions, "Ready")
}

/// The conditions of a node that is no longer heard of; `None` when they say so already.
#[must_use]
pub fn silenced(node: &NodeFact, now: Timestamp) -> Option<Vec<Condition>> {
    let mut conditions = node.conditions.clone();
    for kind in REPORTED {
        match conditions.iter_mut().find(|condition| condition.r#type == kind) {
            Some(told) if told.status == "Unknown" => {}
            Some(told) => {
                "Unknown".clone_into(&mut told.status);
                "NodeStatusUnknown".clone_into(&mut told.reason);
                "Kubelet stopped posting node status.".clone_into(&mut told.message);
                told.last_transition_time = Some(now.into());
            }
            None => conditions.push(Condition {
                r#type: kind.to_owned(),
                status: "Unknown".to_owned(),
                reason: "NodeStatusNeverUpdated".to_owned(),
                message: "Kubelet never posted node status.".to_owned(),
                last_heartbeat_time: Some(node.meta.created.into()),
                last_transition_time: Some(now.into()),
                ..Condition::default()
            }),
        }
    }
    (conditions != node.conditions).then_some(conditions)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::facts::testing::{at, text};

    fn node(heartbeat: Option<i64>, status: &str) -> NodeFact {
        let conditions: Vec<_> = heartbeat
            .map(|seconds| {
                json!({ "type": "Ready", "status": status, "reason": "KubeletReady",
                        "lastHeartbeatTime": text(seconds), "lastTransitionTime": text(0) })
            })
            .into_iter()
            .collect();
        let wire = json!({ "metadata": { "name": "n", "creationTimestamp": text(0) },
                           "status": { "conditions": conditions } });
        serde_json::from_value(wire).unwrap()
    }

    const GRACE: Duration = Duration::from_secs(50);

    #[test]
    fn a_node_is_silent_when_neither_lease_nor_report_is_new() {
        let mut beats = Heartbeats::default();
        beats.reported(&node(Some(-100), "True"), at(0));
        let left = |beats: &Heartbeats, now| beats.left("n", GRACE, at(now));
        assert_eq!(left(&beats, 10), Some(Duration::from_secs(40)));
        assert_eq!((left(&beats, 50), left(&beats, 51)), (Some(Duration::ZERO), None));
        // The same report again is no news; a lease that goes back in time is none either.
        beats.reported(&node(Some(-100), "True"), at(40));
        assert_eq!(left(&beats, 51), None);
        beats.renewed("n", at(-90), at(40));
        assert_eq!(left(&beats, 90), Some(Duration::ZERO));
        beats.renewed("n", at(-95), at(60));
        assert_eq!(left(&beats, 91), None);
        beats.reported(&node(Some(70), "True"), at(100));
        assert_eq!(left(&beats, 100), Some(GRACE));
        beats.forget("n");
        assert_eq!(left(&beats, 9999), Some(GRACE));
    }

    #[test]
    fn a_node_that_never_reported_counts_from_its_creation() {
        let mut beats = Heartbeats::default();
        beats.reported(&node(None, ""), at(30));
        assert_eq!(beats.left("n", GRACE, at(51)), None);
    }

    #[test]
    fn silence_makes_the_conditions_unknown_once() {
        let told = silenced(&node(Some(5), "True"), at(100)).unwrap();
        assert_eq!(told.len(), 4);
        assert!(told.iter().all(|told| told.status == "Unknown"));
        assert_eq!(told[0].reason, "NodeStatusUnknown");
        assert_eq!(told[0].last_heartbeat_time, Some(at(5).into()));
        assert_eq!(told[1].reason, "NodeStatusNeverUpdated");
        let mut silent = node(Some(5), "True");
        silent.conditions = told;
        assert_eq!(silenced(&silent, at(200)), None);
    }
}
