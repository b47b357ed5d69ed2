//! Volumes, claims and what binds them, and pods that use them.

use serde_json::{Value, json};

use super::{Step, ZONE, ZONES};
use crate::draw::Draw;

/// Classes: who makes their volumes, and whether a claim waits for a node.
const CLASSES: [(&str, &str, bool); 5] = [
    ("fast", DRIVER, true),
    ("local", "kubernetes.io/no-provisioner", true),
    ("soon", DRIVER, false),
    ("old", "kubernetes.io/aws-ebs", true),
    ("files", "kubernetes.io/azure-file", true),
];
const DRIVER: &str = "csi.example.com";
const DRIVERS: [&str; 5] = [
    DRIVER,
    "ebs.csi.aws.com",
    "pd.csi.storage.gke.io",
    "cinder.csi.openstack.org",
    "pxd.portworx.com",
];
const IN_TREE: [&str; 5] = [
    "kubernetes.io/aws-ebs",
    "kubernetes.io/gce-pd",
    "kubernetes.io/azure-disk",
    "kubernetes.io/cinder",
    "kubernetes.io/portworx-volume",
];
const VOLUMES: usize = 12;
const CLAIMS: usize = 10;
const OTHERS: usize = 4;
const NAMESPACES: [&str; 2] = ["default", "red"];
/// Labels by which zones of volumes are known.
const ZONE_LABELS: [&str; 3] =
    [ZONE, "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// What there is at first.
pub fn objects(draw: &mut Draw, nodes: usize) -> Vec<Value> {
    let mut objects = Vec::new();
    for index in 0..CLASSES.len() {
        objects.extend(draw.maybe(90, |draw| class(draw, index)));
    }
    for index in 0..VOLUMES {
        objects.extend(draw.maybe(90, |draw| volume(draw, index)));
    }
    for namespace in NAMESPACES {
        for index in 0..CLAIMS {
            objects.extend(draw.maybe(97, |draw| claim(draw, namespace, index, nodes)));
        }
    }
    for index in 0..nodes {
        objects.extend(draw.maybe(75, |draw| csi_node(draw, index)));
    }
    objects.extend(draw.maybe(60, driver));
    for index in 0..OTHERS {
        objects.extend(draw.maybe(50, |draw| capacity(draw, index)));
        objects.extend(draw.maybe(50, |draw| attachment(draw, index, nodes)));
    }
    for question in 0..8 {
        objects.extend(draw.maybe(60, |draw| own_claim(draw, question)));
    }
    objects
}

/// What changes then.
pub fn change(draw: &mut Draw, nodes: usize) -> Step {
    let namespace = *draw.one(&NAMESPACES);
    let object = match draw.below(10) {
        0..=2 => {
            let index = draw.below(VOLUMES);
            volume(draw, index)
        }
        3..=5 => {
            let index = draw.below(CLAIMS);
            claim(draw, namespace, index, nodes)
        }
        6 => {
            let index = draw.below(CLASSES.len());
            class(draw, index)
        }
        7 => {
            let index = draw.below(nodes);
            csi_node(draw, index)
        }
        8 => {
            let index = draw.below(OTHERS);
            attachment(draw, index, nodes)
        }
        _ if draw.percent(50) => driver(draw),
        _ => {
            let index = draw.below(OTHERS);
            capacity(draw, index)
        }
    };
    if draw.percent(65) {
        return Step::Put(object);
    }
    let (kind, namespace, name) = super::name_of(&object);
    Step::Delete { kind, namespace, name }
}

/// Leaves of nodes and pods little but what volumes depend on, so that these decide.
pub fn only(mut object: Value) -> Value {
    match object["kind"].as_str() {
        Some("Node") => {
            object["spec"] = json!({});
            let roomy = json!({"cpu": "64", "memory": "256Gi", "pods": "250"});
            object["status"] = json!({"allocatable": roomy, "capacity": roomy});
        }
        Some("Pod") => {
            let spec = &mut object["spec"];
            let containers = json!([{"name": "c", "image": "c"}]);
            let mut less = json!({"containers": containers, "volumes": spec["volumes"]});
            for kept in ["nodeName", "priority", "preemptionPolicy", "schedulingGates"] {
                if !spec[kept].is_null() {
                    less[kept] = spec[kept].take();
                }
            }
            *spec = less;
        }
        _ => {}
    }
    object
}

/// Gives a claim, and pods that use it, a name that no claim of another namespace has: where
/// kube-scheduler looks for victims, it does not tell them apart.
pub fn tell_claims_apart(object: &mut Value) {
    let (kind, namespace, name) = super::name_of(object);
    let own = |name: &str| format!("{namespace}-{name}");
    if namespace == "default" {
        return;
    }
    if kind == "PersistentVolumeClaim" {
        object["metadata"]["name"] = json!(own(&name));
    } else if kind == "Pod" {
        for volume in object["spec"]["volumes"].as_array_mut().into_iter().flatten() {
            if let Some(claim) = volume.get_mut("persistentVolumeClaim") {
                let name = claim["claimName"].as_str().unwrap_or_default();
                claim["claimName"] = json!(own(name));
            }
        }
    }
}

/// The same with metadata.
fn object(version: &str, kind: &str, namespace: &str, name: &str, mut rest: Value) -> Value {
    rest["apiVersion"] = json!(version);
    rest["kind"] = json!(kind);
    rest["metadata"]["name"] = json!(name);
    if !namespace.is_empty() {
        rest["metadata"]["namespace"] = json!(namespace);
    }
    rest
}

fn class(draw: &mut Draw, index: usize) -> Value {
    let (name, provisioner, waits) = CLASSES[index];
    let mode = if waits { "WaitForFirstConsumer" } else { "Immediate" };
    let mut class = json!({"provisioner": provisioner, "volumeBindingMode": mode});
    if draw.percent(30) {
        let values = draw.list(2, |draw| *draw.one(&ZONES));
        class["allowedTopologies"] =
            json!([{"matchLabelExpressions": [{"key": ZONE, "values": values}]}]);
    }
    object("storage.k8s.io/v1", "StorageClass", "", name, class)
}

fn class_name(draw: &mut Draw) -> &'static str {
    CLASSES[[0, 0, 0, 1, 1, 1, 1, 2, 3, 3, 4, 4][draw.below(12)]].0
}

fn modes(draw: &mut Draw) -> Vec<&'static str> {
    match draw.below(5) {
        0 => vec!["ReadWriteOncePod"],
        1 => vec!["ReadWriteOnce", "ReadOnlyMany"],
        _ => vec!["ReadWriteOnce"],
    }
}

/// A volume; its size is one that no other has.
fn volume(draw: &mut Draw, index: usize) -> Value {
    let mut modes = modes(draw);
    if draw.percent(40) {
        modes = vec!["ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany"];
    }
    let phase = if draw.percent(85) { "Available" } else { "Released" };
    let mut volume = json!({
        "metadata": {"labels": {}},
        "spec": {
            "capacity": {"storage": format!("{}Gi", 2 + (index * 7) % 12)},
            "accessModes": modes,
            "storageClassName": class_name(draw),
        },
        "status": {"phase": phase},
    });
    let (spec, disk) = (&mut volume["spec"], format!("disk-{}", draw.below(6)));
    match draw.below(8) {
        0 => spec["awsElasticBlockStore"] = json!({"volumeID": format!("aws://z1/vol-{disk}")}),
        1 => spec["gcePersistentDisk"] = json!({"pdName": disk}),
        2 => spec["azureDisk"] = json!({"diskName": disk, "diskURI": disk, "kind": "Managed"}),
        3 => spec["cinder"] = json!({"volumeID": disk}),
        4 => spec["portworxVolume"] = json!({"volumeID": disk}),
        5 => spec["hostPath"] = json!({"path": "/data"}),
        _ => spec["csi"] = json!({"driver": draw.one(&DRIVERS), "volumeHandle": disk}),
    }
    if draw.percent(45) {
        let key = draw.one(&[ZONE, ZONE, "failure-domain.beta.kubernetes.io/zone", "disk"]);
        let values: Vec<&str> = match *key {
            "disk" => vec!["ssd"],
            _ => draw.list(2, |draw| *draw.one(&ZONES)),
        };
        let one = json!({"key": key, "operator": "In", "values": values});
        let terms = json!([{"matchExpressions": [one]}]);
        spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
    }
    if draw.percent(15) {
        let claim = draw.one(&["", "wrong"]);
        let name = format!("claim-{}", index % CLAIMS);
        spec["claimRef"] = json!({"namespace": "default", "name": name, "uid": claim});
    }
    if draw.percent(8) {
        spec["volumeMode"] = json!("Block");
    }
    if draw.percent(8) {
        spec["volumeAttributesClassName"] = json!("gold");
    }
    if draw.percent(35) {
        let label = *draw.one(&ZONE_LABELS);
        volume["metadata"]["labels"][label] = json!(draw.one(&ZONES));
    }
    if draw.percent(40) {
        volume["metadata"]["labels"]["tier"] = json!(draw.one(&["gold", "iron"]));
    }
    if draw.percent(5) {
        volume["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    object("v1", "PersistentVolume", "", &format!("pv-{index}"), volume)
}

fn claim(draw: &mut Draw, namespace: &str, index: usize, nodes: usize) -> Value {
    let name = format!("claim-{index}");
    let class = class_name(draw);
    let mut claim = json!({
        "metadata": {"uid": format!("{namespace}-{name}"), "annotations": {}},
        "spec": {"accessModes": modes(draw), "storageClassName": class},
        "status": {"phase": "Pending"},
    });
    let spec = &mut claim["spec"];
    if draw.percent(92) {
        let size = draw.one(&["1Gi", "3Gi", "5Gi", "8Gi", "9500M"]);
        spec["resources"] = json!({"requests": {"storage": size}});
    }
    if draw.percent(12) {
        spec["selector"] = json!({"matchLabels": {"tier": "gold"}});
    }
    if draw.percent(5) {
        spec["volumeMode"] = json!("Block");
    }
    if draw.percent(5) {
        spec["volumeAttributesClassName"] = json!("gold");
    }
    if draw.percent(45) {
        spec["volumeName"] = json!(format!("pv-{}", draw.below(VOLUMES)));
        claim["status"]["phase"] = json!(if draw.percent(95) { "Bound" } else { "Lost" });
        if draw.percent(92) {
            claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
        }
    } else if draw.percent(8) {
        let node = format!("node-{}", draw.below(nodes));
        claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = json!(node);
    }
    if draw.percent(1) {
        claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    object("v1", "PersistentVolumeClaim", namespace, &name, claim)
}

/// The claim of the ephemeral volume of a pod that is asked about.
fn own_claim(draw: &mut Draw, question: usize) -> Value {
    let mut claim = claim(draw, "default", 0, 1);
    let pod = format!("asked-{question}");
    let uid = if draw.percent(85) { &*pod } else { "somebody" };
    claim["metadata"]["name"] = json!(format!("{pod}-own"));
    claim["metadata"]["uid"] = json!(format!("{pod}-own"));
    claim["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": true}]);
    claim
}

/// The claim of an ephemeral volume is one of the pod of that name.
pub fn own_up(object: &mut Value) {
    if object["kind"] == "PersistentVolumeClaim" {
        for owner in object["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
            owner["uid"] = owner["name"].clone();
        }
    }
}

fn csi_node(draw: &mut Draw, index: usize) -> Value {
    let mut drivers = Vec::new();
    for name in DRIVERS {
        if draw.percent(60) {
            let mut driver = json!({"name": name, "nodeID": format!("node-{index}")});
            if draw.percent(80) {
                driver["allocatable"] = json!({"count": draw.below(4)});
            }
            drivers.push(driver);
        }
    }
    let mut node = json!({"spec": {"drivers": drivers}});
    if draw.percent(60) {
        let names: Vec<&str> = IN_TREE.into_iter().filter(|_| draw.percent(60)).collect();
        let key = "storage.alpha.kubernetes.io/migrated-plugins";
        node["metadata"] = json!({"annotations": {key: names.join(",")}});
    }
    object("storage.k8s.io/v1", "CSINode", "", &format!("node-{index}"), node)
}

fn driver(draw: &mut Draw) -> Value {
    let spec = json!({"spec": {"storageCapacity": draw.percent(70)}});
    object("storage.k8s.io/v1", "CSIDriver", "", DRIVER, spec)
}

fn capacity(draw: &mut Draw, index: usize) -> Value {
    let mut capacity = json!({"storageClassName": if draw.percent(80) { "fast" } else { "soon" }});
    match draw.below(4) {
        0 => {}
        1 => capacity["nodeTopology"] = json!({}),
        _ => capacity["nodeTopology"] = json!({"matchLabels": {ZONE: draw.one(&ZONES)}}),
    }
    if draw.percent(80) {
        capacity["capacity"] = json!(draw.one(&["2Gi", "6Gi", "20Gi"]));
    }
    if draw.percent(30) {
        capacity["maximumVolumeSize"] = json!(draw.one(&["2Gi", "6Gi"]));
    }
    let name = format!("room-{index}");
    object("storage.k8s.io/v1", "CSIStorageCapacity", "default", &name, capacity)
}

fn attachment(draw: &mut Draw, index: usize, nodes: usize) -> Value {
    let attacher = if draw.percent(70) { DRIVER } else { *draw.one(&DRIVERS) };
    let source = json!({"persistentVolumeName": format!("pv-{}", draw.below(VOLUMES))});
    let node = format!("node-{}", draw.below(nodes));
    let spec = json!({"spec": {"attacher": attacher, "nodeName": node, "source": source}});
    object("storage.k8s.io/v1", "VolumeAttachment", "", &format!("attached-{index}"), spec)
}

/// Volumes of a pod.
pub fn of_pod(draw: &mut Draw) -> Vec<Value> {
    let count = if draw.percent(45) { 0 } else { draw.between(1, 3) };
    let mut number = 0;
    let mut volumes = draw.list(count, |draw| {
        number += 1;
        let mut volume = source(draw);
        let name = if volume.get("ephemeral").is_some() {
            "own".to_owned()
        } else {
            format!("volume-{number}")
        };
        volume["name"] = json!(name);
        volume
    });
    let own = volumes.iter().position(|volume| volume["name"] == "own");
    let mut place = 0;
    volumes.retain(|volume| {
        place += 1;
        volume["name"] != "own" || Some(place - 1) == own
    });
    volumes
}

fn source(draw: &mut Draw) -> Value {
    let read_only = draw.percent(50);
    let disk = format!("disk-{}", draw.below(3));
    match draw.below(20) {
        0 => json!({"gcePersistentDisk": {"pdName": disk, "readOnly": read_only}}),
        1 => json!({"awsElasticBlockStore": {"volumeID": format!("vol-{disk}")}}),
        2 => json!({"azureDisk": {"diskName": disk, "diskURI": disk, "kind": "Managed"}}),
        3 => json!({"cinder": {"volumeID": disk}}),
        4 => json!({"portworxVolume": {"volumeID": disk}}),
        5 => {
            let target = "10.0.0.1:3260";
            json!({"iscsi": {"targetPortal": target, "iqn": disk, "lun": 0, "readOnly": read_only}})
        }
        6 => {
            let monitors = draw.list(2, |draw| *draw.one(&["m1", "m2", "m3"]));
            let pool = "rbd";
            json!({"rbd": {"monitors": monitors, "pool": pool, "image": disk, "readOnly": read_only}})
        }
        7 => json!({"emptyDir": {}}),
        8 | 9 => json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}),
        _ => {
            let name = format!("claim-{}", draw.below(CLAIMS));
            json!({"persistentVolumeClaim": {"claimName": name}})
        }
    }
}
