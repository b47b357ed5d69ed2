//! Volumes, claims, classes and drivers.

use serde_json::{Value, json};

use crate::trials::{changes, creations, with};

const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/api/v1/namespaces/{ns}/persistentvolumeclaims";

fn volume(change: Value) -> Value {
    let spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/a"},
    });
    json!({"spec": with(spec, change)})
}

fn claim(change: Value) -> Value {
    let spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    });
    json!({"spec": with(spec, change)})
}

#[tokio::test]
async fn a_volume_is_completed_and_checked() {
    let bodies = vec![
        json!({}),
        volume(json!({"hostPath": null})),
        volume(json!({"nfs": {"server": "s", "path": "/p"}})),
        volume(json!({"hostPath": {"path": "/a/../b"}})),
        volume(json!({"hostPath": null, "local": {"path": "/l"}})),
        volume(json!({"hostPath": null, "csi": {"driver": "d.e"}})),
        volume(json!({"hostPath": null, "csi": {"driver": "d.e", "volumeHandle": "h"},
            "storageClassName": "fast", "persistentVolumeReclaimPolicy": "Delete",
            "volumeMode": "Block"})),
        volume(json!({"accessModes": ["Odd", "ReadWriteOncePod", "ReadOnlyMany"]})),
        volume(json!({"capacity": {"storage": "0", "cpu": "1"}})),
        volume(json!({"capacity": null})),
        volume(json!({"persistentVolumeReclaimPolicy": "Odd", "volumeMode": "Odd",
            "storageClassName": "A_"})),
    ];
    creations("a_volume_is_completed_and_checked", VOLUMES, bodies).await;
}

#[tokio::test]
async fn a_volume_keeps_its_source() {
    let patches = vec![
        json!({"spec": {"capacity": {"storage": "2Gi"}}}),
        json!({"spec": {"volumeMode": "Block"}}),
        json!({"status": {"phase": "Available"}}),
        json!({"status": {"phase": "Bound", "message": "m"}}),
        json!({"metadata": {"finalizers": null}}),
    ];
    changes("a_volume_keeps_its_source", VOLUMES, volume(json!({})), patches).await;
}

#[tokio::test]
async fn a_claim_is_completed_and_checked() {
    let bodies = vec![
        json!({}),
        claim(json!({})),
        claim(json!({"storageClassName": "", "selector": {"matchLabels": {"a": "b"}}})),
        claim(json!({"accessModes": ["Odd"], "volumeMode": "Odd", "storageClassName": "A_"})),
        claim(json!({"resources": {"requests": {"storage": "0"}}})),
        claim(json!({"resources": {"requests": {"cpu": "1"}}})),
        claim(json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "c"}})),
        claim(json!({"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "c"}})),
        claim(json!({"dataSource": {"kind": "Odd", "name": "c"}})),
    ];
    creations("a_claim_is_completed_and_checked", CLAIMS, bodies).await;
}

#[tokio::test]
async fn a_claim_is_bound_once() {
    let patches = vec![
        json!({"spec": {"volumeName": "v"}}),
        json!({"status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"}}}),
        json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
        json!({"metadata": {"labels": {"a": "b"}}}),
    ];
    changes("a_claim_is_bound_once", CLAIMS, claim(json!({})), patches).await;
}

#[tokio::test]
async fn a_storage_class_is_completed_and_checked() {
    let path = "/apis/storage.k8s.io/v1/storageclasses";
    let bodies = vec![
        json!({"provisioner": "a.b/c"}),
        json!({}),
        json!({"provisioner": "A b", "reclaimPolicy": "Recycle", "volumeBindingMode": "Odd"}),
        json!({"provisioner": "a.b/c", "allowVolumeExpansion": true, "parameters": {"a": "b"},
            "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Retain",
            "mountOptions": ["ro"]}),
    ];
    creations("a_storage_class_is_completed_and_checked", path, bodies).await;
    let patches = vec![
        json!({"provisioner": "other"}),
        json!({"reclaimPolicy": "Retain"}),
        json!({"volumeBindingMode": "WaitForFirstConsumer"}),
        json!({"parameters": {"a": "b"}}),
        json!({"allowVolumeExpansion": true}),
    ];
    changes("a_storage_class_stays", path, json!({"provisioner": "a.b/c"}), patches).await;
}

#[tokio::test]
async fn drivers_are_completed_and_checked() {
    let bodies = vec![
        json!({"spec": {}}),
        json!({"spec": {"fsGroupPolicy": "Odd", "volumeLifecycleModes": ["Odd"]}}),
        json!({"spec": {"tokenRequests": [{"audience": "a", "expirationSeconds": 5},
            {"audience": "a"}], "nodeAllocatableUpdatePeriodSeconds": 3}}),
    ];
    creations("csi_drivers", "/apis/storage.k8s.io/v1/csidrivers", bodies).await;
    let patches = vec![
        json!({"spec": {"attachRequired": false}}),
        json!({"spec": {"volumeLifecycleModes": ["Ephemeral"]}}),
        json!({"spec": {"podInfoOnMount": true}}),
    ];
    changes("csi_driver", "/apis/storage.k8s.io/v1/csidrivers", json!({"spec": {}}), patches).await;
    let bodies = vec![
        json!({"spec": {"drivers": []}}),
        json!({"spec": {"drivers": [{"name": "d.e", "nodeID": "n", "topologyKeys": ["a/b"],
            "allocatable": {"count": 3}}]}}),
        json!({"spec": {"drivers": [{"name": "", "nodeID": "", "topologyKeys": ["", "a", "a"],
            "allocatable": {"count": -1}}, {"name": "A_", "nodeID": "n"}]}}),
    ];
    creations("csi_nodes", "/apis/storage.k8s.io/v1/csinodes", bodies).await;
    let bodies = vec![
        json!({"spec": {"attacher": "d.e", "nodeName": "n", "source": {}}}),
        json!({"spec": {"attacher": "", "nodeName": "A_", "source": {"persistentVolumeName": ""}}}),
    ];
    creations("attachments", "/apis/storage.k8s.io/v1/volumeattachments", bodies).await;
    let path = "/apis/storage.k8s.io/v1/namespaces/{ns}/csistoragecapacities";
    let bodies = vec![json!({"storageClassName": "A_", "capacity": "-1"}), json!({})];
    creations("capacities", path, bodies).await;
}
