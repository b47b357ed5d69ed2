//! Persistent volumes and the claims to them.

use jiff::Timestamp;
use object::field::{Error, Errors, Path};
use object::names;
use object::quantity::Quantity;
use object::time::Time;
use serde_json::{Map, Value, json};

use super::super::cells::{AGE, Cell, NAME, cell, text_or, wide};
use super::super::fields::{
    copy, list, map, present, present_mut, set_absent, set_empty, text, texts,
};
use super::super::pod_spec::resources::{MILLI, quantity, round_up_resources};
use super::super::pod_spec::warnings::fraction;
use super::super::rules::{one_of, positive_quantity, said, selector_errors};
use super::super::strategy::Strategy;
use crate::admission::Plugin;

const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Where a volume can come from, in the order they are looked at.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// A piece of storage in the cluster.
pub(crate) struct PersistentVolume;

const VOLUME: &[Cell] = &[
    NAME,
    cell("Capacity", "string", |volume, _| text_or(&volume["spec"]["capacity"]["storage"], "0")),
    cell("Access Modes", "string", |volume, _| access_modes(&volume["spec"]).into()),
    cell("Reclaim Policy", "string", |volume, _| {
        text_or(&volume["spec"]["persistentVolumeReclaimPolicy"], "")
    }),
    cell("Status", "string", |volume, _| phase(volume)),
    cell("Claim", "string", |volume, _| {
        present(&volume["spec"], "claimRef")
            .map_or_else(String::new, |claim| {
                format!("{}/{}", text(claim, "namespace"), text(claim, "name"))
            })
            .into()
    }),
    cell("StorageClass", "string", |volume, _| class(volume)),
    cell("VolumeAttributesClass", "string", |volume, _| {
        text_or(&volume["spec"]["volumeAttributesClassName"], "<unset>")
    }),
    cell("Reason", "string", |volume, _| text_or(&volume["status"]["reason"], "")),
    AGE,
    wide("VolumeMode", "string", |volume, _| text_or(&volume["spec"]["volumeMode"], "<unset>")),
];

fn phase(object: &Value) -> Value {
    if present(&object["metadata"], "deletionTimestamp").is_some() {
        return "Terminating".into();
    }
    text_or(&object["status"]["phase"], "")
}

fn class(object: &Value) -> Value {
    match object["metadata"]["annotations"][CLASS_ANNOTATION].as_str() {
        Some(class) => class.into(),
        None => text_or(&object["spec"]["storageClassName"], ""),
    }
}

fn access_modes(holder: &Value) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| texts(holder, "accessModes").any(|known| known == mode);
    let shown = short.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short);
    shown.collect::<Vec<_>>().join(",")
}

impl Strategy for PersistentVolume {
    fn default(&self, object: &mut Value) {
        let spec = &mut object["spec"];
        if spec.is_null() {
            *spec = json!({});
        }
        set_empty(spec, "persistentVolumeReclaimPolicy", "Retain");
        set_absent(spec, "volumeMode", "Filesystem");
        round_up_resources(spec, "capacity");
        if let Some(path) = spec.get_mut("hostPath").filter(|path| path.is_object()) {
            set_absent(path, "type", "");
        }
        for source in ["iscsi", "rbd", "scaleIO", "azureDisk"] {
            if let Some(source_value) = spec.get_mut(source).filter(|value| value.is_object()) {
                default_source(source, source_value);
            }
        }
        if object["status"].is_object() {
            set_empty(&mut object["status"], "phase", "Pending");
        }
    }

    fn prepare_create(&self, object: &mut Value, now: Timestamp) {
        object["status"] = json!({
            "phase": "Pending",
            "lastPhaseTransitionTime": Time::from(now).to_string(),
        });
    }

    fn prepare_status(&self, object: &mut Value, old: &Value, now: Timestamp) {
        set_empty(&mut object["status"], "phase", "Pending");
        let moved = text(&object["status"], "phase") != text(&old["status"], "phase");
        let key = "lastPhaseTransitionTime";
        let given = present(&object["status"], key).cloned();
        if !moved && given.is_none() {
            copy(&mut object["status"], &old["status"], key);
        } else if moved && (given.is_none() || given.as_ref() == old["status"].get(key)) {
            object["status"][key] = Time::from(now).to_string().into();
        }
    }

    fn validate(&self, object: &Value) -> Errors {
        volume_errors(object)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let mut errors = volume_errors(object);
        let source = |volume: &Value| -> Vec<Option<Value>> {
            SOURCES.iter().map(|source| present(&volume["spec"], source).cloned()).collect()
        };
        if source(object) != source(old) {
            let at = Path::new("spec").child("persistentvolumesource");
            let why = "spec.persistentvolumesource is immutable after creation";
            errors.push(Error::forbidden(&at, why));
        }
        if object["spec"]["volumeMode"] != old["spec"]["volumeMode"] {
            let shown = object["spec"]["volumeMode"].clone();
            errors.push(Error::invalid(&Path::new("volumeMode"), shown, "field is immutable"));
        }
        errors
    }

    fn admission(&self) -> &'static [Plugin] {
        &[Plugin::Protection("kubernetes.io/pv-protection")]
    }

    fn cells(&self) -> &'static [Cell] {
        VOLUME
    }
}

fn default_source(source: &str, value: &mut Value) {
    match source {
        "iscsi" => set_empty(value, "iscsiInterface", "default"),
        "rbd" => {
            set_empty(value, "pool", "rbd");
            set_empty(value, "user", "admin");
            set_empty(value, "keyring", "/etc/ceph/keyring");
        }
        "scaleIO" => {
            set_empty(value, "storageMode", "ThinProvisioned");
            set_empty(value, "fsType", "xfs");
        }
        _ => {
            set_absent(value, "cachingMode", "ReadWrite");
            set_absent(value, "kind", "Shared");
            set_absent(value, "fsType", "ext4");
            set_absent(value, "readOnly", false);
        }
    }
}

fn modes_errors(spec: &Value, at: &Path) -> Errors {
    let at = at.child("accessModes");
    let mut errors = Errors::new();
    let modes: Vec<&str> = texts(spec, "accessModes").collect();
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.push(Error::not_supported(&at, *mode, &ACCESS_MODES));
    }
    let alone = modes.contains(&"ReadWriteOncePod");
    let others = modes.iter().any(|mode| ACCESS_MODES[..3].contains(mode));
    if alone && others {
        let why = "may not use ReadWriteOncePod with other access modes";
        errors.push(Error::forbidden(&at, why));
    }
    errors
}

fn volume_errors(object: &Value) -> Errors {
    let (spec, at) = (&object["spec"], Path::new("spec"));
    let mut errors = Errors::new();
    if list(spec, "accessModes").is_empty() {
        errors.push(Error::required(&at.child("accessModes"), ""));
    }
    errors.extend(modes_errors(spec, &at));
    errors.extend(capacity_errors(spec, &at.child("capacity")));
    errors.extend(one_of(spec, "persistentVolumeReclaimPolicy", &RECLAIM_POLICIES, &at));
    errors.extend(source_errors(spec, &at));
    if text(&spec["hostPath"], "path") == "/"
        && text(spec, "persistentVolumeReclaimPolicy") == "Recycle"
    {
        let at = at.child("persistentVolumeReclaimPolicy");
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(Error::forbidden(&at, why));
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        let at = at.child("storageClassName");
        errors.extend(said(names::dns1123_subdomain(class), class, &at));
    }
    errors.extend(one_of(spec, "volumeMode", &VOLUME_MODES, &at));
    errors
}

fn capacity_errors(spec: &Value, at: &Path) -> Errors {
    let empty = Map::new();
    let capacity = map(spec, "capacity").unwrap_or(&empty);
    let mut errors = Errors::new();
    if capacity.is_empty() {
        errors.push(Error::required(at, ""));
    }
    if !capacity.contains_key("storage") || capacity.len() > 1 {
        let shown = if capacity.is_empty() { Value::Null } else { json!(capacity) };
        errors.push(Error::not_supported(at, shown, &["storage"]));
    }
    for (resource, amount) in capacity {
        let at = at.key(resource);
        let parsed = amount.as_str().and_then(|text| text.parse::<Quantity>().ok());
        if let Some(value) = parsed.map(|quantity| quantity.value()).filter(|value| *value < 0) {
            errors.push(Error::invalid(&at, value, "must be a valid resource quantity"));
        }
        errors.extend(positive_quantity(amount, &at));
    }
    errors
}

fn source_errors(spec: &Value, at: &Path) -> Errors {
    let mut errors = Errors::new();
    let mut found = 0;
    if let Some(affinity) = present(spec, "nodeAffinity")
        && present(affinity, "required").is_none()
    {
        let at = at.child("nodeAffinity").child("required");
        errors.push(Error::required(&at, "must specify required node constraints"));
    }
    for source in SOURCES {
        let Some(value) = present(spec, source) else { continue };
        let at_source = at.child(source);
        if found > 0 {
            let why = "may not specify more than 1 volume type";
            errors.push(Error::forbidden(&at_source, why));
            continue;
        }
        found += 1;
        errors.extend(one_source(source, value, &at_source));
        if source == "local" && present(spec, "nodeAffinity").is_none() {
            let why = "Local volume requires node affinity";
            errors.push(Error::required(&at.child("nodeAffinity"), why));
        }
    }
    if found == 0 {
        errors.push(Error::required(at, "must specify a volume type"));
    }
    errors
}

fn one_source(source: &str, value: &Value, at: &Path) -> Errors {
    let missing =
        |field: &str| text(value, field).is_empty().then(|| Error::required(&at.child(field), ""));
    match source {
        "hostPath" | "local" => {
            let path = text(value, "path");
            let steps_back = path.split('/').any(|part| part == "..");
            let error = steps_back
                .then(|| Error::invalid(&at.child("path"), path, "must not contain '..'"));
            missing("path").or(error).into_iter().collect()
        }
        "nfs" => {
            let path = text(value, "path");
            let relative = (!path.starts_with('/'))
                .then(|| Error::invalid(&at.child("path"), path, "must be an absolute path"));
            [missing("server"), missing("path"), relative].into_iter().flatten().collect()
        }
        "csi" => {
            let mut errors = super::driver::driver_name(text(value, "driver"), &at.child("driver"));
            errors.extend(missing("volumeHandle"));
            errors
        }
        _ => Errors::new(),
    }
}

/// A wish for storage.
pub(crate) struct PersistentVolumeClaim;

const CLAIM: &[Cell] = &[
    NAME,
    cell("Status", "string", |claim, _| phase(claim)),
    cell("Volume", "string", |claim, _| text_or(&claim["spec"]["volumeName"], "")),
    cell("Capacity", "string", |claim, _| {
        if text(&claim["spec"], "volumeName").is_empty() {
            return "".into();
        }
        text_or(&claim["status"]["capacity"]["storage"], "0")
    }),
    cell("Access Modes", "string", |claim, _| {
        if text(&claim["spec"], "volumeName").is_empty() {
            return "".into();
        }
        access_modes(&claim["status"]).into()
    }),
    cell("StorageClass", "string", |claim, _| class(claim)),
    cell("VolumeAttributesClass", "string", |claim, _| {
        text_or(&claim["spec"]["volumeAttributesClassName"], "<unset>")
    }),
    AGE,
    wide("VolumeMode", "string", |claim, _| text_or(&claim["spec"]["volumeMode"], "<unset>")),
];

impl Strategy for PersistentVolumeClaim {
    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        let at = Path::new("spec").child("resources");
        for field in ["requests", "limits"] {
            let amounts = object["spec"]["resources"][field].as_object();
            if let Some(amount) = amounts.and_then(|amounts| amounts.get("storage")) {
                let amount = quantity(amount).rounded_up(MILLI);
                fraction(&mut warnings, &amount, &at.child(field).key("storage"));
            }
        }
        warnings
    }

    fn default(&self, object: &mut Value) {
        let spec = &mut object["spec"];
        if spec.is_null() {
            *spec = json!({});
        }
        set_absent(spec, "volumeMode", "Filesystem");
        if let Some(resources) = present_mut(spec, "resources") {
            round_up_resources(resources, "limits");
            round_up_resources(resources, "requests");
        }
        if let Some(status) = present_mut(object, "status") {
            set_empty(status, "phase", "Pending");
            round_up_resources(status, "capacity");
            round_up_resources(status, "allocatedResources");
        }
    }

    fn prepare_create(&self, object: &mut Value, _now: Timestamp) {
        object["status"] = json!({"phase": "Pending"});
        agree_on_source(&mut object["spec"]);
    }

    fn prepare_update(&self, object: &mut Value, _old: &Value, _now: Timestamp) {
        agree_on_source(&mut object["spec"]);
    }

    fn prepare_status(&self, object: &mut Value, _old: &Value, _now: Timestamp) {
        set_empty(&mut object["status"], "phase", "Pending");
    }

    fn validate(&self, object: &Value) -> Errors {
        claim_spec_errors(&object["spec"], &Path::new("spec"))
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(object);
        errors.extend(claim_change_errors(object, old));
        errors
    }

    fn admission(&self) -> &'static [Plugin] {
        &[
            Plugin::ClaimLimits,
            Plugin::DefaultStorageClass,
            Plugin::Protection("kubernetes.io/pvc-protection"),
            Plugin::ClaimResize,
        ]
    }

    fn cells(&self) -> &'static [Cell] {
        CLAIM
    }
}

/// A claim says twice where its data comes from; either place speaks for both.
fn agree_on_source(spec: &mut Value) {
    let group = |source: &Value| text(source, "apiGroup").to_owned();
    let old_form = |source: &Value| {
        let claim = text(source, "kind") == "PersistentVolumeClaim" && group(source).is_empty();
        let snapshot =
            text(source, "kind") == "VolumeSnapshot" && group(source) == "snapshot.storage.k8s.io";
        claim || snapshot
    };
    let has_reference = present(spec, "dataSourceRef").is_some();
    if let Some(source) = present(spec, "dataSource").cloned()
        && !has_reference
        && !old_form(&source)
    {
        spec["dataSource"] = Value::Null;
    }
    match (present(spec, "dataSource").cloned(), present(spec, "dataSourceRef").cloned()) {
        (Some(source), None) => spec["dataSourceRef"] = source,
        (None, Some(reference)) if text(&reference, "namespace").is_empty() => {
            spec["dataSource"] = reference;
        }
        _ => {}
    }
}

/// What is wrong with the spec of a claim, wherever it stands.
pub(crate) fn claim_spec_errors(spec: &Value, at: &Path) -> Errors {
    let mut errors = Errors::new();
    if list(spec, "accessModes").is_empty() {
        errors
            .push(Error::required(&at.child("accessModes"), "at least 1 access mode is required"));
    }
    errors.extend(selector_errors(spec, "selector", at));
    errors.extend(modes_errors(spec, at));
    let at_storage = at.child("resources").key("storage");
    match spec["resources"]["requests"].get("storage") {
        None => errors.push(Error::required(&at_storage, "")),
        Some(amount) => errors.extend(positive_quantity(amount, &at_storage)),
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        let at = at.child("storageClassName");
        errors.extend(said(names::dns1123_subdomain(class), class, &at));
    }
    errors.extend(one_of(spec, "volumeMode", &VOLUME_MODES, at));
    for field in ["dataSource", "dataSourceRef"] {
        if let Some(source) = present(spec, field) {
            errors.extend(data_source_errors(source, &at.child(field)));
        }
    }
    errors
}

fn data_source_errors(source: &Value, at: &Path) -> Errors {
    let mut errors = Errors::new();
    for field in ["name", "kind"] {
        if text(source, field).is_empty() {
            errors.push(Error::required(&at.child(field), ""));
        }
    }
    let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(Error::invalid(at, kind, why));
    }
    if !group.is_empty() {
        errors.extend(said(names::dns1123_subdomain(group), group, &at.child("apiGroup")));
    }
    errors
}

/// A claim stays as it is, but for the volume it is bound to and, once bound, its size.
fn claim_change_errors(object: &Value, old: &Value) -> Errors {
    let at = Path::new("spec");
    let mut errors = Errors::new();
    let (mut new, mut was) = (object["spec"].clone(), old["spec"].clone());
    if text(&was, "volumeName").is_empty() {
        copy(&mut was, &new.clone(), "volumeName");
    }
    if present(&was, "storageClassName").is_none() {
        copy(&mut was, &new.clone(), "storageClassName");
    }
    if text(&object["status"], "phase") == "Bound" {
        new["resources"]["requests"]["storage"] = was["resources"]["requests"]["storage"].clone();
        copy(&mut new, &was, "volumeAttributesClassName");
    }
    if new != was {
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(Error::forbidden(&at, why));
    }
    let size = |holder: &Value| holder["storage"].as_str()?.parse::<Quantity>().ok();
    let new_size = size(&object["spec"]["resources"]["requests"]);
    let old_size = size(&old["spec"]["resources"]["requests"]);
    let real_size = size(&old["status"]["capacity"]);
    if let (Some(new_size), Some(old_size)) = (new_size, old_size)
        && new_size < old_size
        && real_size.is_some_and(|real| new_size <= real)
    {
        let at = at.child("resources").child("requests").child("storage");
        errors.push(Error::forbidden(&at, "field can not be less than status.capacity"));
    }
    if object["spec"]["volumeMode"] != old["spec"]["volumeMode"] {
        let shown = object["spec"]["volumeMode"].clone();
        errors.push(Error::invalid(&Path::new("volumeMode"), shown, "field is immutable"));
    }
    errors
}
