//! The pod template of a workload: read for its labels, otherwise copied whole.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A pod template with every field its user wrote. A controller copies it into pods,
/// and what we do not name must not get lost on the way, so it stays JSON.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct PodTemplate(pub Value);

impl PodTemplate {
    /// The labels that pods made from it get.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        texts(&self.0["metadata"]["labels"])
    }

    /// The annotations that pods made from it get.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<String, String> {
        texts(&self.0["metadata"]["annotations"])
    }

    /// The spec that pods made from it get; an empty object if there is none.
    #[must_use]
    pub fn spec(&self) -> Value {
        match &self.0["spec"] {
            Value::Null => json!({}),
            spec => spec.clone(),
        }
    }

    /// The same template with one label more.
    #[must_use]
    pub fn with_label(&self, key: &str, value: &str) -> Self {
        let mut labels = self.labels();
        labels.insert(key.to_owned(), value.to_owned());
        let mut template = self.0.as_object().cloned().unwrap_or_default();
        let mut metadata = self.0["metadata"].as_object().cloned().unwrap_or_default();
        metadata.insert("labels".to_owned(), json!(labels));
        template.insert("metadata".to_owned(), Value::Object(metadata));
        Self(Value::Object(template))
    }
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_added_and_nothing_lost() {
        let check = |template: Value, expected: Value| {
            assert_eq!(PodTemplate(template).with_label("hash", "x").0, expected);
        };
        check(
            json!({ "metadata": { "labels": { "a": "b" }, "name": "n" }, "spec": { "odd": 1 } }),
            json!({ "metadata": { "labels": { "a": "b", "hash": "x" }, "name": "n" },
                    "spec": { "odd": 1 } }),
        );
        check(json!({}), json!({ "metadata": { "labels": { "hash": "x" } } }));
        check(Value::Null, json!({ "metadata": { "labels": { "hash": "x" } } }));
        check(
            json!({ "metadata": { "labels": null } }),
            json!({ "metadata": { "labels": { "hash": "x" } } }),
        );
        check(
            json!({ "metadata": ["no", "map"] }),
            json!({ "metadata": { "labels": { "hash": "x" } } }),
        );
    }
}
