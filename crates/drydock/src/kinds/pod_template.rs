//! The template from which a workload makes its pods.

use object::field::{Error, Errors, Path};
use object::names;
use serde_json::{Value, json};

use super::Strategy;
use super::cells::{Cell, NAME, cell, container_images, container_names, labels};
use super::fields::{list, map};
use super::pod_spec;

pub(crate) use super::pod_spec::{default_pod_spec, validate_pod_spec};

/// Fills in what a user may leave out of a template.
pub(crate) fn default_pod_template(template: &mut Value) {
    if !template.is_object() {
        *template = json!({});
    }
    default_pod_spec(&mut template["spec"]);
}

/// What is wrong with a template.
pub(crate) fn validate_pod_template_spec(template: &Value, path: &Path) -> Errors {
    let mut errors = Errors::new();
    let metadata = &template["metadata"];
    let spec = &template["spec"];
    if let Some(labels) = map(metadata, "labels") {
        errors.extend(names::validate_labels(labels, &path.child("labels")));
    }
    let annotations = map(metadata, "annotations");
    let at = path.child("annotations");
    if let Some(annotations) = annotations {
        errors.extend(names::validate_annotations(annotations, &at));
    }
    errors.extend(pod_spec::validate_annotations(annotations, spec, &at));
    errors.extend(validate_pod_spec(spec, &path.child("spec")));
    if !list(spec, "ephemeralContainers").is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        let at = path.child("spec").child("ephemeralContainers");
        errors.push(Error::forbidden(&at, why));
    }
    errors
}

/// What to tell the author of a template.
pub(crate) fn pod_template_warnings(template: &Value, path: &Path) -> Vec<String> {
    pod_spec::pod_warnings(template, path)
}

/// What is special about templates that are objects of their own.
pub struct PodTemplate;

impl Strategy for PodTemplate {
    fn default(&self, object: &mut Value) {
        default_pod_template(&mut object["template"]);
    }

    fn validate(&self, object: &Value) -> Errors {
        validate_pod_template_spec(&object["template"], &Path::new("template"))
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut object = object.clone();
        self.default(&mut object);
        pod_template_warnings(&object["template"], &Path::new("template"))
    }

    fn cells(&self) -> &'static [Cell] {
        TABLE
    }
}

const TABLE: &[Cell] = &[
    NAME,
    cell("Containers", "string", |object, _| container_names(&object["template"])),
    cell("Images", "string", |object, _| container_images(&object["template"])),
    cell("Pod Labels", "string", |object, _| {
        labels(&object["template"]["metadata"]["labels"]).into()
    }),
];
