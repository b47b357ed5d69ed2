//! Kinds that only a scheduler reads, and what tells near spellings apart.

use serde_json::{Value, json};

use super::{check, condition, metadata, nulls, selector};
use crate::node_selector::NodeSelectorOperator;
use crate::persistent_volume::{AccessMode, VolumePhase};
use crate::pod::{PreemptionPolicy, RestartPolicy, VolumeSource, WhenUnsatisfiable};
use crate::{
    CsiDriver, CsiNode, CsiStorageCapacity, ElasticQuota, ElasticQuotaProfile, Event,
    PersistentVolume, PersistentVolumeClaim, Pod, PodGroup, ReplicationController, Reservation,
    Service, StatefulSet, StorageClass, VolumeAttachment,
};

macro_rules! check_all {
    ($type:ty, $wire:expr) => {{
        let wire = $wire;
        nulls::check::<$type>(&wire);
        check::<$type>(wire);
    }};
}

fn volume_spec() -> Value {
    json!({
        "capacity": { "storage": "10Gi" },
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"],
        "claimRef": reference(), "storageClassName": "fast", "volumeMode": "Block",
        "nodeAffinity": { "required": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] }] } },
        "volumeAttributesClassName": "gold",
        "csi": { "driver": "csi.example.com", "volumeHandle": "vol-1" },
        "gcePersistentDisk": { "pdName": "disk", "readOnly": true },
        "awsElasticBlockStore": { "volumeID": "vol-1" },
        "azureDisk": { "diskURI": "/disks/disk" },
        "cinder": { "volumeID": "vol-1" }, "portworxVolume": { "volumeID": "vol-1" },
    })
}

fn reference() -> Value {
    json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "shop",
            "name": "data", "uid": "u-2", "resourceVersion": "7", "fieldPath": "spec" })
}

#[test]
fn a_reservation_comes_back_whole() {
    let controller = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                            "uid": "u-3", "controller": true, "namespace": "shop" });
    let condition = json!({ "type": "Ready", "status": "True", "reason": "Available",
                            "lastProbeTime": "2026-01-01T00:00:00Z",
                            "lastTransitionTime": "2026-01-01T00:00:00Z" });
    check_all!(
        Reservation,
        json!({
            "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
            "metadata": metadata(),
            "spec": {
                "template": { "spec": { "containers": [{ "name": "hold" }] } },
                "owners": [
                    { "object": reference() },
                    { "controller": controller, "labelSelector": selector() },
                ],
                "ttl": "2h0m0s", "expires": "2026-01-02T00:00:00Z", "preAllocation": true,
                "allocateOnce": false, "allocatePolicy": "Restricted", "unschedulable": true,
                "taints": [{ "key": "gpu", "value": "yes", "effect": "NoSchedule" }],
            },
            "status": {
                "phase": "Available", "conditions": [condition], "nodeName": "node-1",
                "currentOwners": [{ "namespace": "shop", "name": "web-0", "uid": "u-4" }],
                "allocatable": { "cpu": "4" }, "allocated": { "cpu": "1" },
            },
        })
    );
}

#[test]
fn quotas_and_gangs_come_back_whole() {
    check_all!(
        ElasticQuota,
        json!({
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": metadata(),
            "spec": { "min": { "cpu": "4" }, "max": { "cpu": "8", "memory": "1Gi" } },
            "status": { "used": { "cpu": "500m" }, "conditions": [condition("observedGeneration")] },
        })
    );
    check_all!(
        ElasticQuotaProfile,
        json!({
            "apiVersion": "quota.koordinator.sh/v1alpha1", "kind": "ElasticQuotaProfile",
            "metadata": metadata(),
            "spec": { "quotaName": "pool-a", "quotaLabels": { "team": "a" },
                      "resourceRatio": "0.9", "nodeSelector": selector() },
        })
    );
    check_all!(
        PodGroup,
        json!({
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup",
            "metadata": metadata(),
            "spec": { "minMember": 4, "scheduleTimeoutSeconds": 600 },
            "status": {
                "phase": "Running", "occupiedBy": "shop/web", "scheduled": 4, "running": 3,
                "succeeded": 1, "failed": 1, "scheduleStartTime": "2026-01-01T00:00:00Z",
                "conditions": [condition("observedGeneration")],
            },
        })
    );
}

#[test]
fn volumes_and_claims_come_back_whole() {
    check_all!(
        PersistentVolume,
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata(),
            "spec": volume_spec(), "status": { "phase": "Available" },
        })
    );
    check_all!(
        PersistentVolumeClaim,
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata(),
            "spec": {
                "accessModes": ["ReadWriteOncePod"], "selector": selector(),
                "resources": { "requests": { "storage": "8Gi" }, "limits": { "storage": "9Gi" } },
                "volumeName": "pv-1", "storageClassName": "fast", "volumeMode": "Filesystem",
                "volumeAttributesClassName": "gold",
            },
            "status": { "phase": "Lost" },
        })
    );
    check_all!(
        VolumeAttachment,
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": metadata(),
            "spec": {
                "attacher": "csi.example.com", "nodeName": "node-1",
                "source": { "persistentVolumeName": "pv-1" },
            },
            "status": { "attached": true },
        })
    );
}

#[test]
fn what_drivers_say_comes_back_whole() {
    check_all!(
        StorageClass,
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata(),
            "provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [
                { "matchLabelExpressions": [{ "key": "zone", "values": ["a", "b"] }] }],
        })
    );
    check_all!(
        CsiNode,
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata(),
            "spec": { "drivers": [
                { "name": "csi.example.com", "allocatable": { "count": 16 } }] },
        })
    );
    check_all!(
        CsiDriver,
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": metadata(),
            "spec": { "storageCapacity": true },
        })
    );
    check_all!(
        CsiStorageCapacity,
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
            "metadata": metadata(), "nodeTopology": selector(), "storageClassName": "fast",
            "capacity": "100Gi", "maximumVolumeSize": "10Gi",
        })
    );
}

#[test]
fn groups_and_events_come_back_whole() {
    for (version, kind) in [("v1", "Service"), ("v1", "ReplicationController")] {
        let wire = json!({ "apiVersion": version, "kind": kind, "metadata": metadata(),
                           "spec": { "selector": { "app": "web" } } });
        match kind {
            "Service" => check_all!(Service, wire),
            _ => check_all!(ReplicationController, wire),
        }
    }
    check_all!(
        StatefulSet,
        json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata(),
                "spec": { "selector": selector() } })
    );
    check_all!(
        Event,
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": metadata(),
            "eventTime": "2026-01-01T00:00:00.123456Z",
            "series": { "count": 2, "lastObservedTime": "2026-01-01T00:00:10.000000Z" },
            "reportingController": "default-scheduler", "reportingInstance": "host-1",
            "action": "Scheduling", "reason": "FailedScheduling", "regarding": reference(),
            "related": reference(), "note": "0/1 nodes are available", "type": "Warning",
        })
    );
}

/// A pod of which only the part at `path` of its spec matters.
fn pod(spec: Value) -> Pod {
    serde_json::from_value(json!({ "spec": spec })).expect("a pod")
}

#[test]
fn a_word_of_tomorrow_leaves_the_pod_readable() {
    let pod = pod(json!({
        "preemptionPolicy": "Sometimes", "restartPolicy": "OnMonday",
        "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchExpressions": [
                { "key": "a", "operator": "Near" }, { "key": "b" }] }] } } },
        "topologySpreadConstraints": [{ "whenUnsatisfiable": "Hope" }],
    }));
    assert_eq!(pod.spec.preemption_policy, Some(PreemptionPolicy::Other("Sometimes".into())));
    assert_eq!(pod.spec.restart_policy, Some(RestartPolicy::Other("OnMonday".into())));
    let affinity = pod.spec.affinity.clone().and_then(|affinity| affinity.node_affinity);
    let required = affinity.and_then(|affinity| affinity.required).expect("node affinity");
    let expressions = &required.node_selector_terms[0].match_expressions;
    assert_eq!(expressions[0].operator, NodeSelectorOperator::Other("Near".into()));
    assert_eq!(expressions[1].operator, NodeSelectorOperator::default());
    let spread = &pod.spec.topology_spread_constraints[0].when_unsatisfiable;
    assert_eq!((spread, spread.as_str()), (&WhenUnsatisfiable::Other("Hope".into()), "Hope"));

    let volume: PersistentVolume = serde_json::from_value(json!({
        "spec": { "accessModes": ["ReadWriteSometimes"] }, "status": { "phase": "Resting" },
    }))
    .unwrap();
    assert_eq!(volume.spec.access_modes, [AccessMode::Other("ReadWriteSometimes".into())]);
    assert_eq!(volume.status.phase, VolumePhase::Other("Resting".into()));
}

#[test]
fn an_empty_selector_is_not_an_absent_one() {
    let namespaces = |selector: Value| {
        let pod = pod(json!({ "affinity": { "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                { "namespaceSelector": selector }] } } }));
        let affinity = pod.spec.affinity.and_then(|affinity| affinity.pod_anti_affinity);
        affinity.expect("anti-affinity").required.remove(0).namespace_selector
    };
    assert_eq!(namespaces(Value::Null), None);
    assert_eq!(namespaces(json!({})), Some(Default::default()));
    let class = |name: Value| {
        let wire = json!({ "spec": { "storageClassName": name } });
        let claim: PersistentVolumeClaim = serde_json::from_value(wire).expect("a claim");
        claim.spec.storage_class_name
    };
    assert_eq!(class(Value::Null), None);
    assert_eq!(class(json!("")).as_deref(), Some(""));
}

#[test]
fn volumes_that_every_node_offers_are_passed_over() {
    let check = |wire: &str, expected: &[&str]| {
        let wire = format!(r#"{{"spec":{{"volumes":{wire}}}}}"#);
        let pod: Pod = serde_json::from_str(&wire).expect("a pod");
        let names: Vec<&str> = pod.spec.volumes.iter().map(|volume| &*volume.name).collect();
        assert_eq!(names, expected, "{wire}");
        let value: Value = serde_json::from_str(&wire).expect("JSON");
        assert_eq!(serde_json::from_value::<Pod>(value).expect("a pod"), pod);
    };
    check("null", &[]);
    check(r#"[{"name":"token","projected":{"sources":[{"configMap":{"name":"ca"}}]}}]"#, &[]);
    check(r#"[{"name":"a","emptyDir":{}},{"name":"b","csi":{"driver":"d"}}]"#, &["b"]);
    check(r#"[{"csi":{"driver":"d"},"name":"after"}]"#, &["after"]);
    check(r#"[{"name":"q\"\u00e9","csi":{"driver":"d"}}]"#, &["q\"é"]);
    check(r#"[{"name":"none","persistentVolumeClaim":null}]"#, &[]);
    check(r#"[{"name":"none","ephemeral":null}]"#, &[]);
    check(r#"[{"name":null,"ephemeral":{}}]"#, &[""]);
    let pod = pod(json!({ "volumes": [{ "name": "x", "ephemeral": { "readOnly": 7 } }] }));
    assert_eq!(pod.spec.volumes[0].source, VolumeSource::Ephemeral);
}

#[test]
fn volumes_of_a_wrong_shape_are_refused() {
    for volumes in [json!({}), json!("x"), json!([7]), json!([{ "csi": 7 }]), json!([[]])] {
        let read = serde_json::from_value::<Pod>(json!({ "spec": { "volumes": volumes } }));
        assert!(read.is_err(), "{volumes}");
    }
}
