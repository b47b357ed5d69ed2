//! Storage is not deleted under its users, and claims get the default class.

use object::quantity::Quantity;
use serde_json::Value;

use super::{Attributes, Operation};
use crate::answer::Failure;
use crate::write::Part;

const DEFAULT_CLASS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Adds the finalizer that a controller takes away once nobody uses the object.
pub(super) fn protect(attributes: &Attributes<'_>, object: &mut Value, finalizer: &str) {
    if attributes.operation != Operation::Create || attributes.part != Part::Object {
        return;
    }
    let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|known| known == finalizer) {
        finalizers.push(finalizer.into());
        object["metadata"]["finalizers"] = finalizers.into();
    }
}

/// Names the default class in a claim that names none.
pub(super) fn default_class(attributes: &Attributes<'_>, claim: &mut Value) {
    if attributes.operation != Operation::Create || attributes.part != Part::Object {
        return;
    }
    let annotated = !claim["metadata"]["annotations"][CLASS_ANNOTATION].is_null();
    if annotated || !claim["spec"]["storageClassName"].is_null() {
        return;
    }
    let registry = attributes.server.registry();
    let Some(kind) = registry.resource("storage.k8s.io", "storageclasses") else { return };
    let (classes, _) = kind.table.list("");
    let classes = classes.iter().filter_map(|stored| serde_json::from_slice(&stored.body).ok());
    let defaults = classes.filter(|class: &Value| {
        DEFAULT_CLASS.iter().any(|key| class["metadata"]["annotations"][*key] == "true")
    });
    // The newest is meant; of several from one second, the first by name.
    let class = defaults.max_by(|a, b| {
        let text = |class: &Value, key: &str| {
            class["metadata"][key].as_str().unwrap_or_default().to_owned()
        };
        let by_age = text(a, "creationTimestamp").cmp(&text(b, "creationTimestamp"));
        by_age.then_with(|| text(b, "name").cmp(&text(a, "name")))
    });
    if let Some(class) = class {
        claim["spec"]["storageClassName"] = class["metadata"]["name"].clone();
    }
}

/// Refuses to let a claim grow whose class does not allow it.
pub(super) fn check_growth(attributes: &Attributes<'_>, claim: &Value) -> Result<(), Failure> {
    let (Some(old), Part::Object) = (attributes.old, attributes.part) else { return Ok(()) };
    if attributes.operation != Operation::Update {
        return Ok(());
    }
    let size = |claim: &Value| {
        let storage = claim["spec"]["resources"]["requests"]["storage"].as_str();
        storage.and_then(|text| text.parse::<Quantity>().ok())
    };
    if size(claim) <= size(old) {
        return Ok(());
    }
    if old["status"]["phase"] != "Bound" {
        return Err(attributes.forbid("Only bound persistent volume claims can be expanded"));
    }
    let annotated = &claim["metadata"]["annotations"][CLASS_ANNOTATION];
    let named = annotated.as_str().or_else(|| claim["spec"]["storageClassName"].as_str());
    let class = named.and_then(|name| attributes.lookup("storage.k8s.io", "storageclasses", name));
    if class.is_some_and(|class| class["allowVolumeExpansion"] == true) {
        return Ok(());
    }
    Err(attributes.forbid(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
    ))
}
