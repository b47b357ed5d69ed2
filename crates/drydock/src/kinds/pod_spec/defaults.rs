//! What a user may leave out of a pod's spec.

use serde_json::{Value, json};

use super::image;
use super::resources::round_up_resources;
use crate::kinds::fields::{list_mut, present_mut, set_absent, set_empty, text};

const GRACE_SECONDS: i64 = 30;
const FILE_MODE: i64 = 0o644;
const TOKEN_SECONDS: i64 = 3600;
const TERMINATION_LOG: &str = "/dev/termination-log";
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Fills in the spec of a pod or of a template.
pub(crate) fn default_pod_spec(spec: &mut Value) {
    if !spec.is_object() {
        *spec = json!({});
    }
    alias_service_account(spec);
    set_empty(spec, "dnsPolicy", "ClusterFirst");
    set_empty(spec, "restartPolicy", "Always");
    set_absent(spec, "securityContext", json!({}));
    set_absent(spec, "terminationGracePeriodSeconds", GRACE_SECONDS);
    set_empty(spec, "schedulerName", "default-scheduler");
    list_mut(spec, "volumes").for_each(default_volume);
    for containers in CONTAINERS {
        list_mut(spec, containers).for_each(default_container);
    }
    round_up_resources(spec, "overhead");
    if let Some(resources) = present_mut(spec, "resources") {
        default_resources(resources);
    }
}

/// The deprecated name of the field and the field itself say the same; the field wins.
fn alias_service_account(spec: &mut Value) {
    let name = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount").to_owned(),
        name => name.to_owned(),
    };
    if !name.is_empty() {
        spec["serviceAccountName"] = name.clone().into();
        spec["serviceAccount"] = name.into();
    }
}

fn default_resources(resources: &mut Value) {
    round_up_resources(resources, "limits");
    round_up_resources(resources, "requests");
}

fn default_container(container: &mut Value) {
    let policy = pull_policy(text(container, "image"));
    set_empty(container, "imagePullPolicy", policy);
    set_empty(container, "terminationMessagePath", TERMINATION_LOG);
    set_empty(container, "terminationMessagePolicy", "File");
    for port in list_mut(container, "ports") {
        set_empty(port, "protocol", "TCP");
    }
    for variable in list_mut(container, "env") {
        let Some(source) = present_mut(variable, "valueFrom") else { continue };
        default_field_ref(source);
        if let Some(file) = present_mut(source, "fileKeyRef") {
            set_absent(file, "optional", false);
        }
    }
    if let Some(resources) = present_mut(container, "resources") {
        default_resources(resources);
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = present_mut(container, probe) {
            default_probe(probe);
        }
    }
    if let Some(lifecycle) = present_mut(container, "lifecycle") {
        for handler in ["postStart", "preStop"] {
            if let Some(handler) = present_mut(lifecycle, handler) {
                default_http_get(handler);
            }
        }
    }
}

/// An image that can change under its name is pulled each time.
fn pull_policy(image: &str) -> &'static str {
    if image::tag(image) == "latest" { "Always" } else { "IfNotPresent" }
}

fn default_field_ref(source: &mut Value) {
    if let Some(field) = present_mut(source, "fieldRef") {
        set_empty(field, "apiVersion", "v1");
    }
}

fn default_probe(probe: &mut Value) {
    set_empty(probe, "timeoutSeconds", 1);
    set_empty(probe, "periodSeconds", 10);
    set_empty(probe, "successThreshold", 1);
    set_empty(probe, "failureThreshold", 3);
    default_http_get(probe);
    if let Some(grpc) = present_mut(probe, "grpc") {
        set_absent(grpc, "service", "");
    }
}

fn default_http_get(handler: &mut Value) {
    if let Some(get) = present_mut(handler, "httpGet") {
        set_empty(get, "path", "/");
        set_empty(get, "scheme", "HTTP");
    }
}

/// Defaults of volume sources that are plain values: source, field, whether an empty one
/// counts as absent, and the value.
const SOURCE_DEFAULTS: [(&str, &str, &str); 11] = [
    ("hostPath", "type", "\"\""),
    ("iscsi", "iscsiInterface", "\"default\""),
    ("rbd", "pool", "\"rbd\""),
    ("rbd", "user", "\"admin\""),
    ("rbd", "keyring", "\"/etc/ceph/keyring\""),
    ("azureDisk", "cachingMode", "\"ReadWrite\""),
    ("azureDisk", "fsType", "\"ext4\""),
    ("azureDisk", "readOnly", "false"),
    ("azureDisk", "kind", "\"Shared\""),
    ("scaleIO", "storageMode", "\"ThinProvisioned\""),
    ("scaleIO", "fsType", "\"xfs\""),
];

fn default_volume(volume: &mut Value) {
    let sourceless = volume
        .as_object()
        .is_some_and(|map| map.iter().all(|(key, value)| key == "name" || value.is_null()));
    if sourceless {
        volume["emptyDir"] = json!({});
    }
    for (source, field, value) in SOURCE_DEFAULTS {
        if let (Some(source), Ok(value)) =
            (present_mut(volume, source), serde_json::from_str::<Value>(value))
        {
            set_absent(source, field, value);
        }
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = present_mut(volume, source) {
            set_absent(source, "defaultMode", FILE_MODE);
        }
    }
    if let Some(source) = present_mut(volume, "downwardAPI") {
        list_mut(source, "items").for_each(default_field_ref);
    }
    if let Some(projected) = present_mut(volume, "projected") {
        list_mut(projected, "sources").for_each(default_projection);
    }
    if let Some(image) = present_mut(volume, "image") {
        let policy = pull_policy(text(image, "reference"));
        set_empty(image, "pullPolicy", policy);
    }
    let claim = volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec");
    if let Some(claim) = claim.filter(|claim| !claim.is_null()) {
        set_absent(claim, "volumeMode", "Filesystem");
        if let Some(resources) = present_mut(claim, "resources") {
            default_resources(resources);
        }
    }
}

fn default_projection(source: &mut Value) {
    if let Some(downward) = present_mut(source, "downwardAPI") {
        list_mut(downward, "items").for_each(default_field_ref);
    }
    if let Some(token) = present_mut(source, "serviceAccountToken") {
        set_absent(token, "expirationSeconds", TOKEN_SECONDS);
    }
}
