//! What a job asks of its pods beside what every workload does.

use api::pod::ContainerStatus;
use api::{Condition, Job, ObjectMeta, Resource as _};

use super::pod::TRACKING_FINALIZER;

/// How often pods of its index had failed before a pod, by its annotation.
pub const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// How many more had failed in ways that do not count.
pub const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// Failures of an index before one of its pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexFailures {
    /// Those that count.
    pub counted: i32,
    /// Those that the job's policy ignores.
    pub ignored: i32,
}

impl IndexFailures {
    /// All of them.
    #[must_use]
    pub fn all(self) -> i32 {
        self.counted.saturating_add(self.ignored)
    }
}

/// What is kept of a pod because it is a job's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobPod {
    /// The failures of its index before it.
    pub failures: IndexFailures,
    /// The containers that ended without success, with their exit codes; init containers last.
    pub exits: Box<[(Box<str>, i32)]>,
    /// The types of its conditions, with their statuses.
    pub conditions: Box<[(Box<str>, Box<str>)]>,
}

impl JobPod {
    /// Reads it; `None` for a pod that is no job's.
    pub(super) fn of(
        metadata: &ObjectMeta,
        conditions: &[Condition],
        containers: &[ContainerStatus],
        init_containers: &[ContainerStatus],
    ) -> Option<Box<Self>> {
        let is_tracked = metadata.finalizers.iter().any(|own| own == TRACKING_FINALIZER);
        let mut owners = metadata.owner_references.iter();
        if !is_tracked
            && !owners.any(|owner| owner.controller == Some(true) && owner.kind == Job::KIND)
        {
            return None;
        }
        // Anybody can write an annotation: what is no count is none.
        let number = |key: &str| -> i32 {
            let text = metadata.annotations.get(key);
            text.and_then(|text| text.parse().ok()).filter(|count| *count >= 0).unwrap_or(0)
        };
        let exit = |status: &ContainerStatus| {
            let code = status.state.terminated.as_ref()?.exit_code;
            (code != 0).then(|| (status.name.as_str().into(), code))
        };
        let pair = |told: &Condition| (told.r#type.as_str().into(), told.status.as_str().into());
        Some(Box::new(Self {
            failures: IndexFailures {
                counted: number(FAILURES),
                ignored: number(IGNORED_FAILURES),
            },
            exits: containers.iter().chain(init_containers).filter_map(exit).collect(),
            conditions: conditions.iter().map(pair).collect(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::PodFact;
    use super::*;
    use crate::facts::testing::{at, text};

    fn pod(metadata: Value, spec: Value, status: Value) -> PodFact {
        let pod = json!({ "metadata": metadata, "spec": spec, "status": status });
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn counts_of_failures_are_read_and_nonsense_is_none() {
        let check = |counted: &str, ignored: &str, want: (i32, i32)| {
            let annotations = json!({ FAILURES: counted, IGNORED_FAILURES: ignored });
            let metadata =
                json!({ "annotations": annotations, "finalizers": [TRACKING_FINALIZER] });
            let failures = pod(metadata, json!({}), json!({})).job.unwrap().failures;
            assert_eq!((failures.counted, failures.ignored), want, "{counted} {ignored}");
        };
        check("2", "3", (2, 3));
        check("-2", "x", (0, 0));
        check("99999999999", "2147483647", (0, i32::MAX));
        check("", " 1", (0, 0));
        let most = IndexFailures { counted: i32::MAX, ignored: 1 };
        assert_eq!(most.all(), i32::MAX);
    }

    #[test]
    fn exits_and_conditions_are_kept_of_the_pods_of_jobs_only() {
        let ended = |name: &str, code| json!({ "name": name, "state": { "terminated": { "exitCode": code } } });
        let status = json!({
            "conditions": [{ "type": "DisruptionTarget", "status": "True" }],
            "initContainerStatuses": [ended("first", 9)],
            "containerStatuses": [ended("main", 3), ended("fine", 0), { "name": "runs" }],
        });
        let owned =
            |kind: &str| json!({ "ownerReferences": [{ "kind": kind, "controller": true }] });
        let kept = pod(owned("Job"), json!({}), status.clone()).job.unwrap();
        assert_eq!(*kept.exits, [("main".into(), 3), ("first".into(), 9)]);
        assert_eq!(*kept.conditions, [("DisruptionTarget".into(), "True".into())]);
        assert_eq!(pod(owned("ReplicaSet"), json!({}), status).job, None);
    }

    #[test]
    fn a_pod_ended_when_the_best_witness_says() {
        let check = |spec: Value, status: Value, want: i64| {
            let metadata = json!({ "creationTimestamp": text(1), "deletionTimestamp": text(40),
                                   "deletionGracePeriodSeconds": 30 });
            assert_eq!(pod(metadata, spec, status.clone()).ended, at(want), "{status}");
        };
        let ended = |name: &str, seconds| json!({ "name": name, "state": { "terminated": { "finishedAt": text(seconds) } } });
        let runs = || json!({ "name": "runs" });
        let unready =
            json!([{ "type": "Ready", "status": "False", "lastTransitionTime": text(7) }]);
        let sidecar = json!({ "initContainers": [{ "name": "side", "restartPolicy": "Always" }] });
        let both = json!([ended("a", 3), ended("b", 5)]);
        check(json!({}), json!({}), 10);
        check(json!({}), json!({ "conditions": unready }), 7);
        check(json!({}), json!({ "conditions": unready, "containerStatuses": both }), 5);
        let some = json!({ "conditions": unready, "containerStatuses": [ended("a", 3), runs()] });
        check(json!({}), some, 7);
        let init =
            json!({ "containerStatuses": both, "initContainerStatuses": [ended("side", 8)] });
        check(json!({}), init.clone(), 5);
        check(sidecar.clone(), init, 8);
        let beside = json!({ "name": "side" });
        let going_on = json!({ "containerStatuses": both, "initContainerStatuses": [beside] });
        check(sidecar, going_on, 10);
        let plain = json!({ "creationTimestamp": text(1) });
        assert_eq!(pod(plain, json!({}), json!({})).ended, at(1));
    }
}
