//! Builders of facts for the tests of this crate.

use api::{ObjectMeta, OwnerReference};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::PodFact;

/// A time that tests count from.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

/// The time as objects write it.
pub fn text(seconds: i64) -> String {
    object::time::Time::from(at(seconds)).to_string()
}

/// A pod from words such as `ready@10 node=n1 owner=u1 created@5 going label=a:b`.
pub fn pod(name: &str, words: &str) -> PodFact {
    serde_json::from_value(pod_json(name, words)).unwrap()
}

fn pod_json(name: &str, words: &str) -> Value {
    let mut pod = json!({
        "metadata": { "namespace": "shop", "name": name, "uid": format!("uid-{name}"),
            "resourceVersion": "1", "creationTimestamp": text(0), "labels": {},
            "annotations": {}, "finalizers": [], "ownerReferences": [] },
        "spec": {}, "status": { "phase": "Running", "conditions": [], "containerStatuses": [],
            "initContainerStatuses": [] }
    });
    for word in words.split_whitespace() {
        let (key, value) = word.split_once(['=', '@']).unwrap_or((word, ""));
        let seconds = || text(value.parse().unwrap());
        let push = |list: &mut Value, item: Value| list.as_array_mut().unwrap().push(item);
        match key {
            "pending" => pod["status"]["phase"] = "Pending".into(),
            "unknown" => pod["status"]["phase"] = "Unknown".into(),
            "succeeded" => pod["status"]["phase"] = "Succeeded".into(),
            "failed" => pod["status"]["phase"] = "Failed".into(),
            "evicted" => pod["status"]["reason"] = "Evicted".into(),
            "node" => pod["spec"]["nodeName"] = value.into(),
            "created" => pod["metadata"]["creationTimestamp"] = seconds().into(),
            "going" => pod["metadata"]["deletionTimestamp"] = text(99).into(),
            "index" | "cost" | "failures" | "ignored" => {
                pod["metadata"]["annotations"][annotation(key)] = value.into();
            }
            "tracked" => {
                push(&mut pod["metadata"]["finalizers"], super::TRACKING_FINALIZER.into());
            }
            "restarts" => push(
                &mut pod["status"]["containerStatuses"],
                json!({ "restartCount": value.parse::<i32>().unwrap() }),
            ),
            "ended" => push(
                &mut pod["status"]["containerStatuses"],
                json!({ "state": { "terminated": { "finishedAt": seconds() } } }),
            ),
            "exit" | "init-exit" => {
                // Of a container, as in `exit=main:3`, which ended long ago.
                let (name, code) = value.split_once(':').unwrap();
                let terminated =
                    json!({ "exitCode": code.parse::<i32>().unwrap(), "finishedAt": text(0) });
                let init = key == "init-exit";
                let list = if init { "initContainerStatuses" } else { "containerStatuses" };
                push(
                    &mut pod["status"][list],
                    json!({ "name": name, "state": { "terminated": terminated } }),
                );
            }
            "condition" => {
                let (kind, status) = value.split_once(':').unwrap();
                push(&mut pod["status"]["conditions"], json!({ "type": kind, "status": status }));
            }
            "ready" => push(
                &mut pod["status"]["conditions"],
                json!({ "type": "Ready", "status": "True", "lastTransitionTime": seconds() }),
            ),
            "label" => {
                let (key, value) = value.split_once(':').unwrap();
                pod["metadata"]["labels"][key] = value.into();
            }
            "owner" => push(
                &mut pod["metadata"]["ownerReferences"],
                json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": value,
                    "controller": true }),
            ),
            other => panic!("{other} means nothing"),
        }
    }
    pod
}

/// The annotation that a word stands for.
fn annotation(word: &str) -> &'static str {
    match word {
        "index" => "batch.kubernetes.io/job-completion-index",
        "cost" => "controller.kubernetes.io/pod-deletion-cost",
        "failures" => super::FAILURES,
        _ => super::IGNORED_FAILURES,
    }
}

/// Metadata in the namespace of the tests.
pub fn meta(name: &str, uid: &str) -> ObjectMeta {
    ObjectMeta {
        name: name.to_owned(),
        namespace: "shop".to_owned(),
        uid: uid.to_owned(),
        resource_version: "1".to_owned(),
        generation: 1,
        creation_timestamp: Some(at(0).into()),
        ..ObjectMeta::default()
    }
}

/// A managing owner.
pub fn controller(kind: &str, name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
