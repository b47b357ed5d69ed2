//! Whether a node is still heard of.

use std::collections::BTreeMap;
use std::time::Duration;

use api::Condition;
use jiff::{SignedDuration, Timestamp};

use crate::facts::NodeFact;

/// The conditions that become unknown with a node. That of the network is not the node's.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// How often the controller shows that it runs.
pub const PULSE: Duration = Duration::from_secs(5);
/// The most that counts of the time between two pulses. A process that was stopped, or got
/// no turn, heard nothing because it did not listen; that says nothing of the nodes.
const PULSE_MAX: SignedDuration = SignedDuration::from_secs(10);

/// When a node was last heard of, by the time that we listened: the node's own clock may
/// differ, and that of the calendar may jump.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Heard {
    at: SignedDuration,
    report: Option<Timestamp>,
    renewed: Option<Timestamp>,
}

/// The time that passed while the controller ran.
#[derive(Debug, Clone, Copy, Default)]
struct Listened {
    /// The last pulse, on the clock that never jumps.
    pulse: Duration,
    /// What was counted until then.
    until: SignedDuration,
}

impl Listened {
    fn at(self, now: Duration) -> SignedDuration {
        let passed = SignedDuration::try_from(now.saturating_sub(self.pulse));
        self.until.saturating_add(passed.unwrap_or(SignedDuration::MAX).min(PULSE_MAX))
    }
}

/// When each node was last heard of. All times but those in objects are on a clock that
/// never jumps.
#[derive(Debug, Clone, Default)]
pub struct Heartbeats {
    nodes: BTreeMap<Box<str>, Heard>,
    listened: Listened,
}

impl Heartbeats {
    /// Nothing was heard yet.
    #[must_use]
    pub fn new(now: Duration) -> Self {
        let listened = Listened { pulse: now, until: SignedDuration::ZERO };
        Self { nodes: BTreeMap::new(), listened }
    }

    /// The controller runs. To be called every [`PULSE`].
    pub fn pulse(&mut self, now: Duration) {
        self.listened = Listened { pulse: now, until: self.listened.at(now) };
    }

    /// The node reported its status, at its own time. A node that never did counts as heard
    /// of when it was made, `age` ago; one that is seen for the first time, now.
    pub fn reported(&mut self, node: &NodeFact, age: SignedDuration, now: Duration) {
        let now = self.listened.at(now);
        let report = ready(&node.conditions)
            .map(|ready| ready.last_heartbeat_time.map_or(Timestamp::MIN, Timestamp::from));
        match self.nodes.get_mut(node.meta.key.name()) {
            Some(heard) if heard.report == report => {}
            Some(heard) => {
                heard.report = report;
                heard.at = now;
            }
            None => {
                let silent = if report.is_some() { SignedDuration::ZERO } else { age };
                let at = now.saturating_sub(silent.max(SignedDuration::ZERO));
                let heard = Heard { at, report, renewed: None };
                self.nodes.insert(node.meta.key.name().into(), heard);
            }
        }
    }

    /// The node renewed its lease, at its own time.
    pub fn renewed(&mut self, node: &str, renewed: Timestamp, now: Duration) {
        let now = self.listened.at(now);
        if let Some(heard) = self.nodes.get_mut(node)
            && heard.renewed.is_none_or(|before| before < renewed)
        {
            heard.renewed = Some(renewed);
            heard.at = now;
        }
    }

    /// It was more likely we who were cut off: what we did not hear then does not count.
    pub fn forgive(&mut self, now: Duration) {
        let now = self.listened.at(now);
        self.nodes.values_mut().for_each(|heard| heard.at = heard.at.max(now));
    }

    /// The node is gone.
    pub fn forget(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// How long the node may still be silent; `None` when it was for too long.
    #[must_use]
    pub fn left(&self, node: &str, grace: Duration, now: Duration) -> Option<Duration> {
        let Some(heard) = self.nodes.get(node) else { return Some(grace) };
        let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
        let silent = self.listened.at(now).saturating_sub(heard.at);
        Duration::try_from(grace.saturating_sub(silent)).ok()
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

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Lets time pass from one second to another while the controller runs.
    fn run(beats: &mut Heartbeats, from: u64, to: u64) {
        (from..=to).step_by(5).for_each(|second| beats.pulse(secs(second)));
    }

    fn left(beats: &Heartbeats, now: u64) -> Option<u64> {
        beats.left("n", GRACE, secs(now)).map(|left| left.as_secs())
    }

    #[test]
    fn a_node_is_silent_when_neither_lease_nor_report_is_new() {
        let mut beats = Heartbeats::new(secs(0));
        let age = SignedDuration::from_hours(1);
        beats.reported(&node(Some(-100), "True"), age, secs(0));
        assert_eq!(left(&beats, 10), Some(40));
        run(&mut beats, 0, 50);
        assert_eq!((left(&beats, 50), left(&beats, 51)), (Some(0), None));
        // The same report again is no news; a lease that goes back in time is none either.
        beats.reported(&node(Some(-100), "True"), age, secs(50));
        assert_eq!(left(&beats, 51), None);
        beats.renewed("n", at(-90), secs(50));
        run(&mut beats, 50, 100);
        assert_eq!(left(&beats, 100), Some(0));
        beats.renewed("n", at(-95), secs(100));
        assert_eq!(left(&beats, 101), None);
        beats.reported(&node(Some(70), "True"), age, secs(100));
        assert_eq!(left(&beats, 100), Some(50));
        beats.forget("n");
        assert_eq!(left(&beats, 9999), Some(50));
    }

    #[test]
    fn a_node_that_never_reported_counts_from_its_creation() {
        let check = |age, now, want| {
            let mut beats = Heartbeats::new(secs(0));
            beats.reported(&node(None, ""), SignedDuration::from_secs(age), secs(0));
            assert_eq!(left(&beats, now), want, "{age}");
        };
        check(30, 5, Some(15));
        check(51, 0, None);
        check(3600, 0, None);
        // Made in the future, by the calendar.
        check(-3600, 0, Some(50));
        check(i64::MIN, 0, Some(50));
        check(i64::MAX, 0, None);
    }

    #[test]
    fn a_controller_that_was_stopped_does_not_think_the_nodes_dead() {
        let mut beats = Heartbeats::new(secs(0));
        beats.reported(&node(Some(0), "True"), SignedDuration::ZERO, secs(0));
        run(&mut beats, 0, 20);
        // Stopped for an hour: whichever comes first then, a look or a pulse, some seconds
        // count at most.
        assert_eq!(left(&beats, 3620), Some(20));
        beats.pulse(secs(3620));
        assert_eq!(left(&beats, 3620), Some(20));
        // One that runs and hears nothing does.
        run(&mut beats, 3620, 3640);
        assert_eq!((left(&beats, 3640), left(&beats, 3641)), (Some(0), None));
        // Nodes that were dead before stay so.
        assert_eq!(left(&beats, 9999), None);
    }

    #[test]
    fn silence_is_forgiven_to_all() {
        let mut beats = Heartbeats::new(secs(0));
        beats.reported(&node(Some(0), "True"), SignedDuration::ZERO, secs(0));
        run(&mut beats, 0, 60);
        assert_eq!(left(&beats, 60), None);
        beats.forgive(secs(60));
        assert_eq!(left(&beats, 60), Some(50));
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
