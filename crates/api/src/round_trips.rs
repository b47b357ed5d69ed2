//! Every struct reads what a server sends and writes what a server takes.

use std::fmt::Debug;

use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::crds;
use crate::crds::facts::{parse, samples};
use crate::crds::judged::{judge, schema_of};
use crate::{
    Deployment, ElasticQuota, ElasticQuotaProfile, Event, Job, Lease, Namespace, Node, NodeMetric,
    NodeResourceTopology, PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget,
    PodGroup, ReplicaSet, Resource, ScheduleExplanation, ServiceAccount, VolumeAttachment,
};

mod nulls;
mod scheduling;

/// Reads `wire`, which names every field of the struct, and expects it back whole;
/// then reads it again among fields that the struct does not name.
fn check<T: Resource + Serialize + DeserializeOwned + Debug + PartialEq>(wire: Value) {
    let read: T = serde_json::from_value(wire.clone()).expect("a struct that reads its own fields");
    assert_eq!(read.to_json(), wire);
    let mut noisy = wire;
    strew(&mut noisy);
    let again: T = serde_json::from_value(noisy).expect("fields we do not name are passed over");
    assert_eq!(again, read);
    // What a bookmark carries: metadata with a revision, and nulls.
    let bookmark: T = serde_json::from_value(json!({
        "metadata": { "resourceVersion": "7", "creationTimestamp": null, "labels": null },
    }))
    .expect("a bookmark");
    assert_eq!(bookmark.meta().resource_version, "7");
    assert_eq!(T::api_version(), read.to_json()["apiVersion"]);
}

/// Adds an unknown field to every object that is not a map of texts or amounts, nor
/// part of a template, which keeps all it has.
fn strew(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let named = fields.iter_mut().filter(|(name, _)| *name != "template");
            named.for_each(|(_, child)| strew(child));
            let is_map = fields.values().all(Value::is_string)
                && fields.keys().all(|key| !matches!(key.as_str(), "name" | "ip" | "type"));
            if !is_map {
                fields.insert("aFieldOfTomorrow".to_owned(), json!([{ "deep": null }]));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(strew),
        _ => {}
    }
}

const TIME: &str = "2026-01-01T00:00:00Z";

fn metadata() -> Value {
    json!({
        "name": "web-0", "generateName": "web-", "namespace": "shop", "uid": "u-1",
        "resourceVersion": "42", "generation": 3,
        "labels": { "app": "web" }, "annotations": { "note": "x" },
        "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                              "uid": "u-0", "controller": true, "blockOwnerDeletion": true }],
        "finalizers": ["example.com/hold"], "creationTimestamp": TIME,
        "deletionTimestamp": TIME, "deletionGracePeriodSeconds": 30,
    })
}

fn condition(extra: &str) -> Value {
    let mut condition = json!({ "type": "Ready", "status": "True", "reason": "Ok",
                                "message": "fine", "lastTransitionTime": TIME });
    condition[extra] = if extra == "observedGeneration" { json!(3) } else { json!(TIME) };
    condition
}

fn container() -> Value {
    json!({
        "name": "main", "image": "registry.example/web:1", "restartPolicy": "Always",
        "resources": { "requests": { "cpu": "500m" }, "limits": { "memory": "1Gi" } },
        "ports": [{ "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "TCP" }],
    })
}

fn container_status() -> Value {
    json!({
        "name": "main", "ready": true, "restartCount": 2,
        "allocatedResources": { "cpu": "500m" },
        "resources": { "requests": { "cpu": "250m" }, "limits": { "memory": "1Gi" } },
        "state": { "running": { "startedAt": TIME } },
        "lastState": { "terminated": { "exitCode": 137, "startedAt": TIME, "finishedAt": TIME } },
    })
}

fn affinity() -> Value {
    let term = json!({
        "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a", "b"] },
                             { "key": "cores", "operator": "Gt", "values": ["8"] },
                             { "key": "old", "operator": "DoesNotExist" }],
        "matchFields": [{ "key": "metadata.name", "operator": "NotIn", "values": ["node-9"] }],
    });
    let near = json!({
        "topologyKey": "zone", "labelSelector": selector(), "namespaces": ["shop"],
        "namespaceSelector": {},
    });
    let pods = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": [near, { "topologyKey": "host" }],
        "preferredDuringSchedulingIgnoredDuringExecution": [
            { "weight": 100, "podAffinityTerm": near }],
    });
    json!({
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term, {}] },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                { "weight": 1, "preference": term }],
        },
        "podAffinity": pods, "podAntiAffinity": pods,
    })
}

fn spread() -> Value {
    json!([
        { "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
          "labelSelector": selector(), "minDomains": 3, "nodeAffinityPolicy": "Ignore",
          "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["pod-template-hash"] },
        { "maxSkew": 2, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway",
          "labelSelector": {} },
    ])
}

fn volumes() -> Value {
    json!([
        { "name": "a", "persistentVolumeClaim": { "claimName": "data", "readOnly": true } },
        { "name": "b", "ephemeral": {} },
        { "name": "c", "csi": { "driver": "csi.example.com" } },
        { "name": "d", "gcePersistentDisk": { "pdName": "disk", "readOnly": true } },
        { "name": "e", "awsElasticBlockStore": { "volumeID": "vol-1" } },
        { "name": "f", "azureDisk": { "diskURI": "/disks/disk" } },
        { "name": "g", "cinder": { "volumeID": "vol-1" } },
        { "name": "h", "portworxVolume": { "volumeID": "vol-1" } },
        { "name": "i", "iscsi": { "iqn": "iqn.2026-01.com.example:disk", "readOnly": true } },
        { "name": "j", "rbd": { "monitors": ["10.0.0.9"], "pool": "rbd", "image": "disk",
                                "readOnly": true } },
    ])
}

#[test]
fn a_pod_comes_back_whole() {
    let wire = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata(),
        "spec": {
            "nodeName": "node-1", "containers": [container()], "initContainers": [container()],
            "resources": { "requests": { "cpu": "1" } }, "overhead": { "cpu": "10m" },
            "tolerations": [{ "key": "k", "operator": "Equal", "value": "v",
                              "effect": "NoExecute", "tolerationSeconds": 300 }],
            "priority": 9500, "schedulerName": "koord-scheduler", "restartPolicy": "OnFailure",
            "activeDeadlineSeconds": 600,
            "schedulingGates": [{ "name": "example.com/wait" }], "hostNetwork": true,
            "readinessGates": [{ "conditionType": "example.com/checked" }],
            "preemptionPolicy": "Never", "nodeSelector": { "disk": "ssd" },
            "affinity": affinity(), "topologySpreadConstraints": spread(),
            "volumes": volumes(), "resourceClaims": [{ "name": "gpu" }],
        },
        "status": {
            "phase": "Running",
            "conditions": [condition("lastProbeTime"), condition("observedGeneration")],
            "nominatedNodeName": "node-2", "podIP": "10.1.0.1", "startTime": TIME,
            "containerStatuses": [container_status()],
            "initContainerStatuses": [container_status()], "qosClass": "Burstable",
        },
    });
    nulls::check::<Pod>(&wire);
    check::<Pod>(wire);
}

#[test]
fn a_phase_of_tomorrow_is_unknown() {
    let read = |phase: Value| {
        let pod: Pod = serde_json::from_value(json!({ "status": { "phase": phase } })).unwrap();
        pod.status.phase
    };
    assert_eq!(read(json!("Resting")), crate::pod::PodPhase::Unknown);
    assert_eq!(read(json!("")), crate::pod::PodPhase::Unknown);
    assert_eq!(read(json!("Failed")), crate::pod::PodPhase::Failed);
    assert!(read(json!("Failed")).is_terminal());
}

#[test]
fn a_node_comes_back_whole() {
    let wire = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": metadata(),
        "spec": {
            "taints": [{ "key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": TIME }],
            "unschedulable": true,
        },
        "status": {
            "capacity": { "cpu": "32" }, "allocatable": { "cpu": "31500m" },
            "conditions": [condition("lastHeartbeatTime")],
            "images": [{ "names": ["registry.example/web:1"], "sizeBytes": 1_048_576 }],
        },
    });
    nulls::check::<Node>(&wire);
    check::<Node>(wire);
}

#[test]
fn small_kinds_come_back_whole() {
    let wire = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": metadata(),
        "spec": { "finalizers": ["kubernetes"] },
        "status": { "phase": "Terminating", "conditions": [condition("lastTransitionTime")] },
    });
    nulls::check::<Namespace>(&wire);
    check::<Namespace>(wire);
    check::<Lease>(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata(),
        "spec": {
            "holderIdentity": "node-1", "leaseDurationSeconds": 40, "leaseTransitions": 1,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:10.123456Z",
        },
    }));
    check::<ServiceAccount>(json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(),
    }));
}

fn selector() -> Value {
    json!({ "matchLabels": { "app": "web" },
            "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["front"] }] })
}

/// A template is JSON to us, so it is kept whole.
fn template() -> Value {
    json!({ "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "main", "env": [{ "name": "A" }] }] } })
}

#[test]
fn workloads_come_back_whole() {
    check::<Deployment>(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(),
        "spec": {
            "replicas": 3, "selector": selector(), "template": template(),
            "strategy": { "type": "RollingUpdate",
                          "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": 1 } },
            "minReadySeconds": 5, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "paused": true,
        },
        "status": {
            "observedGeneration": 3, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 1,
            "availableReplicas": 1, "unavailableReplicas": 2, "collisionCount": 1,
            "terminatingReplicas": 1,
            "conditions": [condition("lastUpdateTime")],
        },
    }));
    let wire = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata(),
        "spec": { "replicas": 3, "minReadySeconds": 5, "selector": selector(),
                  "template": template() },
        "status": { "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 2,
                    "availableReplicas": 1, "observedGeneration": 3, "terminatingReplicas": 1,
                    "conditions": [condition("lastTransitionTime")] },
    });
    nulls::check::<ReplicaSet>(&wire);
    check::<ReplicaSet>(wire);
    check::<Job>(json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(),
        "spec": {
            "parallelism": 2, "completions": 4, "completionMode": "Indexed",
            "activeDeadlineSeconds": 600, "backoffLimit": 6, "ttlSecondsAfterFinished": 60,
            "suspend": true, "podReplacementPolicy": "Failed",
            "backoffLimitPerIndex": 1, "maxFailedIndexes": 2,
            "podFailurePolicy": { "rules": [
                { "action": "FailJob",
                  "onExitCodes": { "containerName": "main", "operator": "In", "values": [3, 4] } },
                { "action": "Ignore",
                  "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] } ] },
            "successPolicy": { "rules": [{ "succeededIndexes": "0-1", "succeededCount": 1 }] },
            "managedBy": "kubernetes.io/job-controller", "selector": selector(),
            "template": template(),
        },
        "status": {
            "conditions": [condition("lastProbeTime")], "startTime": TIME, "completionTime": TIME,
            "active": 1, "succeeded": 2, "failed": 1, "terminating": 1, "ready": 1,
            "completedIndexes": "0-1", "failedIndexes": "2",
            "uncountedTerminatedPods": { "succeeded": ["u-1"], "failed": ["u-2"] },
        },
    }));
    let wire = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(),
        "spec": { "minAvailable": 1, "maxUnavailable": "50%", "selector": selector() },
        "status": { "observedGeneration": 3, "disruptionsAllowed": 1, "currentHealthy": 3,
                    "desiredHealthy": 2, "expectedPods": 3, "disruptedPods": { "web-1": TIME },
                    "conditions": [condition("observedGeneration")] },
    });
    nulls::check::<PodDisruptionBudget>(&wire);
    check::<PodDisruptionBudget>(wire);
}

/// The struct of a custom resource reads the maximal sample; what it writes is part of
/// the sample and passes the schema.
fn check_custom<T: Resource + Serialize + DeserializeOwned>() {
    let samples = samples(T::PLURAL);
    let sample = samples.iter().find(|(name, _, sample)| {
        name.starts_with("maximal") && sample["apiVersion"] == T::api_version()
    });
    let (_, _, sample) = sample.expect("a maximal sample");
    let read: T = serde_json::from_value(sample.clone()).expect("the struct reads its sample");
    let written = read.to_json();
    part_of(&written, sample, T::KIND);

    let name = format!("{}.{}", T::PLURAL, T::GROUP);
    let crd = parse(crds::all().find(|crd| crd.name == name).expect("a CRD"));
    assert_eq!(crd["spec"]["names"]["kind"], T::KIND);
    assert_eq!(crd["spec"]["scope"] == "Namespaced", T::NAMESPACED);
    let (dropped, errors) = judge(&schema_of(&crd, T::VERSION), &written, None);
    assert_eq!((dropped, errors), (Vec::new(), Vec::new()), "{name}");
}

fn part_of(part: &Value, whole: &Value, path: &str) {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            for (name, value) in part {
                let found = whole.get(name).unwrap_or(&Value::Null);
                part_of(value, found, &format!("{path}.{name}"));
            }
        }
        (Value::Array(part), Value::Array(whole)) => {
            assert_eq!(part.len(), whole.len(), "{path}");
            for (part, whole) in part.iter().zip(whole) {
                part_of(part, whole, path);
            }
        }
        _ => assert_eq!(part, whole, "{path}"),
    }
}

#[test]
fn an_explanation_reads_its_sample_and_writes_what_the_schema_has() {
    check_custom::<ScheduleExplanation>();
}

#[test]
fn a_node_metric_reads_its_sample_and_writes_what_the_schema_has() {
    check_custom::<NodeMetric>();
    check::<NodeMetric>(json!({
        "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": metadata(),
        "spec": { "metricCollectPolicy": { "reportIntervalSeconds": 60 } },
        "status": {
            "updateTime": TIME,
            "nodeMetric": {
                "nodeUsage": { "resources": { "cpu": "5" } },
                "systemUsage": { "resources": { "cpu": "1" } },
            },
            "podsMetric": [{ "namespace": "shop", "name": "web-0", "priority": "koord-prod",
                             "podUsage": { "resources": { "cpu": "250m" } } }],
        },
    }));
}

#[test]
fn a_layout_reads_its_sample_and_writes_what_the_schema_has() {
    check_custom::<NodeResourceTopology>();
    check::<NodeResourceTopology>(json!({
        "apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology",
        "metadata": metadata(), "topologyPolicies": ["Restricted"],
        "zones": [{ "name": "node-0", "type": "Node", "resources": [
            { "name": "cpu", "capacity": "32", "allocatable": "31", "available": "30" }] }],
    }));
}

#[test]
fn quotas_and_gangs_read_their_samples_and_write_what_the_schema_has() {
    check_custom::<ElasticQuota>();
    check_custom::<ElasticQuotaProfile>();
    check_custom::<PodGroup>();
}

fn any_json() -> impl Strategy<Value = Value> {
    let names = "metadata|spec|status|labels|containers|conditions|phase|selector|template|name|\
                 affinity|nodeAffinity|volumes|csi|ephemeral|source|capacity|accessModes";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}|[0-9]{1,20}[a-zA-Z%]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_makes_a_struct_panic(value in any_json()) {
        fn read<T: Resource + Serialize + DeserializeOwned>(value: &Value) {
            if let Ok(read) = serde_json::from_value::<T>(value.clone()) {
                assert!(read.to_json().is_object());
            }
        }
        read::<Pod>(&value);
        read::<Node>(&value);
        read::<Deployment>(&value);
        read::<Job>(&value);
        read::<PodDisruptionBudget>(&value);
        read::<NodeMetric>(&value);
        read::<ScheduleExplanation>(&value);
        read::<NodeResourceTopology>(&value);
        read::<Lease>(&value);
        read::<PersistentVolume>(&value);
        read::<PersistentVolumeClaim>(&value);
        read::<VolumeAttachment>(&value);
        read::<Event>(&value);
        read::<ElasticQuota>(&value);
        read::<ElasticQuotaProfile>(&value);
        read::<PodGroup>(&value);
    }
}
