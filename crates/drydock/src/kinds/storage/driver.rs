//! Storage classes, and what storage drivers say about themselves and about nodes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use object::field::{Error, Errors, Path};
use object::names;
use serde_json::Value;

use super::super::cells::{AGE, Cell, NAME, cell, flag_or, naming, text_or};
use super::super::fields::{list, map, number, present, set_absent, text, texts};
use super::super::rules::{nonnegative, nonnegative_quantity, one_of, said, selector_errors};
use super::super::strategy::Strategy;
use crate::admission::Plugin;

const PARAMETERS_MAX: usize = 512;
const PARAMETERS_BYTES_MAX: usize = 256 * 1024;
const DRIVER_NAME_BYTES_MAX: usize = 63;
const NODE_ID_BYTES_MAX: usize = 256;
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
const ALLOCATABLE_SECONDS_MIN: i64 = 10;

/// The name of a storage driver.
pub(super) fn driver_name(name: &str, at: &Path) -> Errors {
    if name.is_empty() {
        return vec![Error::required(at, "")];
    }
    let mut errors = Errors::new();
    if name.len() > DRIVER_NAME_BYTES_MAX {
        errors.push(Error::too_long(at, DRIVER_NAME_BYTES_MAX));
    }
    errors.extend(said(names::dns1123_subdomain(&name.to_lowercase()), name, at));
    errors
}

/// A sort of storage that can be asked for by name.
pub(crate) struct StorageClass;

const CLASS: &[Cell] = &[
    naming("Name", 0, |class, _| {
        let name = text(&class["metadata"], "name");
        let annotations = &class["metadata"]["annotations"];
        let is_default = [
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ];
        if is_default.iter().any(|key| annotations[*key] == "true") {
            return format!("{name} (default)").into();
        }
        name.into()
    }),
    cell("Provisioner", "string", |class, _| text_or(&class["provisioner"], "")),
    cell("ReclaimPolicy", "string", |class, _| text_or(&class["reclaimPolicy"], "Delete")),
    cell("VolumeBindingMode", "string", |class, _| {
        text_or(&class["volumeBindingMode"], "Immediate")
    }),
    cell("AllowVolumeExpansion", "string", |class, _| {
        flag_or(&class["allowVolumeExpansion"], false)
    }),
    AGE,
];

impl Strategy for StorageClass {
    fn default(&self, object: &mut Value) {
        set_absent(object, "reclaimPolicy", "Delete");
        set_absent(object, "volumeBindingMode", "Immediate");
    }

    fn validate(&self, object: &Value) -> Errors {
        let at = Path::root();
        let mut errors = provisioner(text(object, "provisioner"), &at.child("provisioner"));
        errors.extend(parameters(object));
        errors.extend(one_of(object, "reclaimPolicy", &["Delete", "Retain"], &at));
        let modes = ["Immediate", "WaitForFirstConsumer"];
        errors.extend(one_of(object, "volumeBindingMode", &modes, &at));
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        for field in ["parameters", "provisioner", "reclaimPolicy"] {
            if object.get(field) != old.get(field) {
                let why = format!("updates to {field} are forbidden.");
                errors.push(Error::forbidden(&Path::new(field), why));
            }
        }
        if object["volumeBindingMode"] != old["volumeBindingMode"] {
            let at = Path::new("volumeBindingMode");
            let shown = object["volumeBindingMode"].clone();
            errors.push(Error::invalid(&at, shown, "field is immutable"));
        }
        errors
    }

    fn cells(&self) -> &'static [Cell] {
        CLASS
    }
}

fn provisioner(name: &str, at: &Path) -> Errors {
    if name.is_empty() {
        return vec![Error::required(at, "")];
    }
    let lower = name.to_lowercase();
    said(names::qualified_name(&lower), &lower, at)
}

fn parameters(object: &Value) -> Errors {
    let at = Path::new("parameters");
    let Some(parameters) = map(object, "parameters") else { return Errors::new() };
    if parameters.len() > PARAMETERS_MAX {
        return vec![Error::too_long(&at, PARAMETERS_MAX)];
    }
    let mut errors = Errors::new();
    let mut bytes = 0;
    for (key, value) in parameters {
        if key.is_empty() {
            errors.push(Error::invalid(&at, "", "field can not be empty."));
        }
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > PARAMETERS_BYTES_MAX {
        errors.push(Error::too_long(&at, PARAMETERS_BYTES_MAX));
    }
    errors
}

/// A sort of treatment that a volume can get.
pub(crate) struct VolumeAttributesClass;

const ATTRIBUTES_CLASS: &[Cell] =
    &[NAME, cell("DriverName", "string", |class, _| text_or(&class["driverName"], "")), AGE];

impl Strategy for VolumeAttributesClass {
    fn validate(&self, object: &Value) -> Errors {
        let mut errors = provisioner(text(object, "driverName"), &Path::new("driverName"));
        errors.extend(parameters(object));
        if map(object, "parameters").is_none_or(serde_json::Map::is_empty) {
            let why = "must contain at least one key/value pair";
            errors.push(Error::required(&Path::new("parameters"), why));
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        for field in ["driverName", "parameters"] {
            if object.get(field) != old.get(field) {
                let why = format!("updates to {field} are forbidden.");
                errors.push(Error::forbidden(&Path::new(field), why));
            }
        }
        errors.extend(self.validate(object));
        errors
    }

    fn admission(&self) -> &'static [Plugin] {
        &[Plugin::Protection("kubernetes.io/vac-protection")]
    }

    fn cells(&self) -> &'static [Cell] {
        ATTRIBUTES_CLASS
    }
}

/// What the drivers on a node say about it.
pub(crate) struct CsiNode;

const NODE: &[Cell] =
    &[NAME, cell("Drivers", "integer", |node, _| list(&node["spec"], "drivers").len().into()), AGE];

impl Strategy for CsiNode {
    fn validate(&self, object: &Value) -> Errors {
        let at = Path::new("spec").child("drivers");
        let mut seen = BTreeSet::new();
        let drivers = list(&object["spec"], "drivers").iter().enumerate();
        drivers
            .flat_map(|(index, driver)| node_driver(driver, &mut seen, &at.index(index)))
            .collect()
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(object);
        for was in list(&old["spec"], "drivers") {
            for new in list(&object["spec"], "drivers") {
                let (mut was, mut new) = (was.clone(), new.clone());
                was["allocatable"] = Value::Null;
                new["allocatable"] = Value::Null;
                if text(&was, "name") == text(&new, "name") && was != new {
                    let at = Path::new("spec").child("drivers");
                    errors.push(Error::invalid(&at, shown_driver(&new), "field is immutable"));
                }
            }
        }
        errors
    }

    fn cells(&self) -> &'static [Cell] {
        NODE
    }
}

/// A driver with the names of kube-apiserver's own struct, which its errors show.
fn shown_driver(driver: &Value) -> Value {
    serde_json::json!({
        "Name": driver["name"],
        "NodeID": driver["nodeID"],
        "TopologyKeys": driver["topologyKeys"],
        "Allocatable": null,
    })
}

fn node_driver<'a>(driver: &'a Value, seen: &mut BTreeSet<&'a str>, at: &Path) -> Errors {
    let name = text(driver, "name");
    let mut errors = driver_name(name, &at.child("name"));
    let id = text(driver, "nodeID");
    let at_id = at.child("nodeID");
    if id.is_empty() {
        errors.push(Error::required(&at_id, ""));
    }
    if id.len() > NODE_ID_BYTES_MAX {
        let why = format!("must be {NODE_ID_BYTES_MAX} characters or less");
        errors.push(Error::invalid(&at_id, id, why));
    }
    errors.extend(nonnegative(&driver["allocatable"], "count", &at.child("allocatable")));
    if !seen.insert(name) {
        errors.push(Error::duplicate(&at.child("name"), name));
    }
    let mut keys = BTreeSet::new();
    for key in texts(driver, "topologyKeys") {
        if key.is_empty() {
            errors.push(Error::required(at, ""));
        }
        if !keys.insert(key) {
            errors.push(Error::duplicate(at, key));
        }
        errors.extend(said(names::qualified_name(key), key, at));
    }
    errors
}

/// What a storage driver says about itself.
pub(crate) struct CsiDriver;

const DRIVER: &[Cell] = &[
    NAME,
    cell("AttachRequired", "boolean", |driver, _| flag_or(&driver["spec"]["attachRequired"], true)),
    cell("PodInfoOnMount", "boolean", |driver, _| {
        flag_or(&driver["spec"]["podInfoOnMount"], false)
    }),
    cell("StorageCapacity", "boolean", |driver, _| {
        flag_or(&driver["spec"]["storageCapacity"], false)
    }),
    cell("TokenRequests", "string", |driver, _| {
        let requests = list(&driver["spec"], "tokenRequests");
        if requests.is_empty() {
            return "<unset>".into();
        }
        let audiences = requests.iter().map(|request| text(request, "audience"));
        audiences.collect::<Vec<_>>().join(",").into()
    }),
    cell("RequiresRepublish", "boolean", |driver, _| {
        flag_or(&driver["spec"]["requiresRepublish"], false)
    }),
    cell("Modes", "string", |driver, _| {
        let modes: Vec<&str> = texts(&driver["spec"], "volumeLifecycleModes").collect();
        if modes.is_empty() { "<none>".into() } else { modes.join(",").into() }
    }),
    AGE,
];

impl Strategy for CsiDriver {
    fn default(&self, object: &mut Value) {
        let spec = &mut object["spec"];
        if spec.is_null() {
            *spec = serde_json::json!({});
        }
        set_absent(spec, "attachRequired", true);
        for flag in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
            set_absent(spec, flag, false);
        }
        set_absent(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        if list(spec, "volumeLifecycleModes").is_empty() {
            spec["volumeLifecycleModes"] = serde_json::json!(["Persistent"]);
        }
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, _now: Timestamp) {
        // Changes are counted, though a new driver has no count.
        if object["spec"] != old["spec"] {
            let count = number(&old["metadata"], "generation").unwrap_or(0);
            object["metadata"]["generation"] = (count + 1).into();
        }
    }

    fn validate(&self, object: &Value) -> Errors {
        let (spec, at) = (&object["spec"], Path::new("spec"));
        let policies = ["File", "None", "ReadWriteOnceWithFSType"];
        let mut errors = one_of(spec, "fsGroupPolicy", &policies, &at);
        errors.extend(token_requests(spec, &at.child("tokenRequests")));
        for mode in texts(spec, "volumeLifecycleModes") {
            let known = ["Persistent", "Ephemeral"];
            if !known.contains(&mode) {
                let at = at.child("volumeLifecycleModes");
                errors.push(Error::not_supported(&at, mode, &known));
            }
        }
        let period = number(spec, "nodeAllocatableUpdatePeriodSeconds");
        if let Some(period) = period.filter(|period| *period < ALLOCATABLE_SECONDS_MIN) {
            let at = at.child("nodeAllocatableUpdatePeriodSeconds");
            let why = "must be greater than or equal to 10 seconds";
            errors.push(Error::invalid(&at, period, why));
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(object);
        let fixed = [
            ("attachRequired", "attachedRequired"),
            ("volumeLifecycleModes", "volumeLifecycleModes"),
        ];
        for (field, shown) in fixed {
            if object["spec"][field] != old["spec"][field] {
                let at = Path::new("spec").child(shown);
                let value = object["spec"][field].clone();
                errors.push(Error::invalid(&at, value, "field is immutable"));
            }
        }
        errors
    }

    fn cells(&self) -> &'static [Cell] {
        DRIVER
    }
}

fn token_requests(spec: &Value, at: &Path) -> Errors {
    let mut errors = Errors::new();
    let mut seen = BTreeSet::new();
    for (index, request) in list(spec, "tokenRequests").iter().enumerate() {
        let at = at.index(index);
        let audience = text(request, "audience");
        if !seen.insert(audience) {
            errors.push(Error::duplicate(&at.child("audience"), audience));
            continue;
        }
        let at = at.child("expirationSeconds");
        match number(request, "expirationSeconds") {
            Some(seconds) if seconds < TOKEN_SECONDS_MIN => {
                let why = "may not specify a duration less than 10 minutes";
                errors.push(Error::invalid(&at, seconds, why));
            }
            Some(seconds) if seconds > TOKEN_SECONDS_MAX => {
                let why = "may not specify a duration larger than 2^32 seconds";
                errors.push(Error::invalid(&at, seconds, why));
            }
            _ => {}
        }
    }
    errors
}

/// How much a driver can still provide somewhere.
pub(crate) struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn validate(&self, object: &Value) -> Errors {
        let at = Path::root();
        let mut errors = selector_errors(object, "nodeTopology", &at);
        let class = text(object, "storageClassName");
        errors.extend(said(names::dns1123_subdomain(class), class, &at.child("storageClassName")));
        if let Some(amount) = present(object, "capacity") {
            errors.extend(nonnegative_quantity(amount, &at.child("capacity")));
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        for field in ["nodeTopology", "storageClassName"] {
            if object.get(field) != old.get(field) {
                let value = object.get(field).cloned().unwrap_or_default();
                errors.push(Error::invalid(&Path::new(field), value, "field is immutable"));
            }
        }
        errors
    }
}

/// That a volume is to be attached to a node.
pub(crate) struct VolumeAttachment;

const ATTACHMENT: &[Cell] = &[
    NAME,
    naming("Attacher", 0, |attachment, _| text_or(&attachment["spec"]["attacher"], "")),
    cell("PV", "string", |attachment, _| {
        text_or(&attachment["spec"]["source"]["persistentVolumeName"], "")
    }),
    cell("Node", "string", |attachment, _| text_or(&attachment["spec"]["nodeName"], "")),
    cell("Attached", "boolean", |attachment, _| flag_or(&attachment["status"]["attached"], false)),
    AGE,
];

impl Strategy for VolumeAttachment {
    fn validate(&self, object: &Value) -> Errors {
        let (spec, at) = (&object["spec"], Path::new("spec"));
        let attacher = text(spec, "attacher");
        let mut errors = attachment(spec, &at);
        errors.extend(driver_name(attacher, &Path::new("spec.attacher")));
        if let Some(volume) = spec["source"]["persistentVolumeName"].as_str() {
            let at = Path::new("spec.source.persistentVolumeName");
            errors.extend(said(names::dns1123_subdomain(volume), volume, &at));
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let mut errors = attachment(&object["spec"], &Path::new("spec"));
        if object["spec"] != old["spec"] {
            let spec = &object["spec"];
            let shown = serde_json::json!({
                "Attacher": spec["attacher"],
                "Source": {
                    "PersistentVolumeName": spec["source"]["persistentVolumeName"],
                    "InlineVolumeSpec": spec["source"]["inlineVolumeSpec"],
                },
                "NodeName": spec["nodeName"],
            });
            errors.push(Error::invalid(&Path::new("spec"), shown, "field is immutable"));
        }
        errors
    }

    fn cells(&self) -> &'static [Cell] {
        ATTACHMENT
    }
}

fn attachment(spec: &Value, at: &Path) -> Errors {
    let mut errors = Errors::new();
    if text(spec, "attacher").is_empty() {
        errors.push(Error::required(&at.child("attacher"), ""));
    }
    let source = &spec["source"];
    let at_source = at.child("source");
    let volume = present(source, "persistentVolumeName").and_then(Value::as_str);
    match (present(source, "inlineVolumeSpec"), volume) {
        (None, None) => {
            let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
            errors.push(Error::required(&at_source, why));
        }
        (Some(_), Some(_)) => {
            let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
            errors.push(Error::forbidden(&at_source, why));
        }
        (None, Some("")) => {
            let why = "must specify non empty persistentVolumeName";
            errors.push(Error::required(&at_source.child("persistentVolumeName"), why));
        }
        _ => {}
    }
    let node = text(spec, "nodeName");
    errors.extend(said(names::dns1123_subdomain(node), node, &at.child("nodeName")));
    errors
}
