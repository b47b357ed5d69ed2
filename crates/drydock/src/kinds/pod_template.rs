//! The template from which a workload makes its pods.

use jiff::Timestamp;
use object::field::{Error, Errors, Path};
use object::names;
use object::table::Column;
use serde_json::{Value, json};

use super::Strategy;
use super::columns::{column, name};
use super::fields::{list, map, text};
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

    fn columns(&self) -> Option<Vec<Column>> {
        Some(vec![
            name(),
            column("Containers", "string"),
            column("Images", "string"),
            column("Pod Labels", "string"),
        ])
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Value> {
        let template = &object["template"];
        let joined = |field: &str| {
            let containers = list(&template["spec"], "containers").iter();
            containers.map(|one| text(one, field)).collect::<Vec<_>>().join(",")
        };
        let labels = map(&template["metadata"], "labels").into_iter().flatten();
        let labels: Vec<String> = labels
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        let labels = if labels.is_empty() { "<none>".to_owned() } else { labels.join(",") };
        vec![
            object["metadata"]["name"].clone(),
            joined("name").into(),
            joined("image").into(),
            labels.into(),
        ]
    }
}
