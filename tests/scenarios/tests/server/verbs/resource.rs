//! The three sorts of kinds the table is played on.

use serde_json::{Value, json};

/// A resource and objects of it.
pub struct Resource {
    /// The name of the column.
    pub label: &'static str,
    /// The path of the collection.
    pub collection: &'static str,
    /// The definition, for a custom kind.
    pub definition: Option<Value>,
    /// The JSON pointer of a text that may change.
    pub text: &'static str,
    api_version: &'static str,
    kind: &'static str,
    /// What stands before a name, so that names of different scenarios differ.
    prefix: &'static str,
    /// What an object has beside its metadata.
    content: Value,
}

impl Resource {
    /// The name of the object `stem` in this scenario.
    pub fn name(&self, stem: &str) -> String {
        format!("{}{stem}", self.prefix)
    }

    /// The path of the object `stem`.
    pub fn object(&self, stem: &str) -> String {
        format!("{}/{}", self.collection, self.name(stem))
    }

    /// An object whose text that may change is `text`. Its label selects it.
    pub fn body(&self, stem: &str, text: &str) -> Value {
        let mut body = self.content.clone();
        body["apiVersion"] = json!(self.api_version);
        body["kind"] = json!(self.kind);
        body["metadata"] = json!({"name": self.name(stem), "labels": {"scenario": "{ns}"}});
        self.with_text(body, text)
    }

    /// The object with another text in the place that may change.
    pub fn with_text(&self, mut body: Value, text: &str) -> Value {
        let parts: Vec<&str> = self.text.split('/').skip(1).collect();
        let mut place = &mut body;
        for part in parts {
            place = &mut place[part];
        }
        *place = json!(text);
        body
    }

    /// An object as YAML.
    pub fn yaml(&self, stem: &str) -> String {
        let (api_version, kind, name) = (self.api_version, self.kind, self.name(stem));
        format!(
            "# A comment.\napiVersion: {api_version}\nkind: {kind}\nmetadata:\n  \
             generateName: {name}-\nvalue: 1\nspec:\n  size: 1\n"
        )
    }

    /// An object as JSON in which members come twice.
    pub fn repeating(&self) -> String {
        let (api_version, kind) = (self.api_version, self.kind);
        format!(
            r#"{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{"generateName":"r-"}},
            "spec":{{"size":1,"size":2}},"value":1,"value":2,"data":{{"a":"b"}},"data":{{"c":"d"}}}}"#
        )
    }

    /// A merge patch that sets the text.
    pub fn merge_patch(&self, text: &str) -> Value {
        self.with_text(json!({}), text)
    }

    /// An object whose metadata is changed by `change`.
    pub fn with_metadata(&self, stem: &str, change: &Value) -> Value {
        let mut body = self.body(stem, "one");
        for (key, value) in change.as_object().expect("a change of metadata is an object") {
            body["metadata"][key] = value.clone();
        }
        body
    }

    /// An object that no validation lets pass.
    pub fn invalid(&self, stem: &str) -> Value {
        let mut body = self.body(stem, "one");
        match self.label {
            "namespaced" => body["data"]["not a key!"] = json!("x"),
            "cluster" => body["value"] = json!(2_000_000_000),
            _ => body["spec"]["size"] = json!(11),
        }
        body
    }

    /// A selector of the objects of this scenario.
    pub fn selector(&self) -> &'static str {
        "scenario={ns}"
    }
}

/// `ConfigMap`.
pub fn namespaced() -> Resource {
    Resource {
        label: "namespaced",
        collection: "/api/v1/namespaces/{ns}/configmaps",
        definition: None,
        text: "/data/text",
        api_version: "v1",
        kind: "ConfigMap",
        prefix: "",
        content: json!({"data": {"other": "kept"}}),
    }
}

/// `PriorityClass`.
pub fn cluster() -> Resource {
    Resource {
        label: "cluster",
        collection: "/apis/scheduling.k8s.io/v1/priorityclasses",
        definition: None,
        text: "/description",
        api_version: "scheduling.k8s.io/v1",
        kind: "PriorityClass",
        prefix: "{ns}-",
        content: json!({"value": 100}),
    }
}

/// A kind of a definition with a schema, a status and columns.
pub fn custom() -> Resource {
    Resource {
        label: "custom",
        collection: "/apis/scenarios.gantry.test/v1/namespaces/{ns}/widgets",
        definition: Some(definition()),
        text: "/spec/text",
        api_version: "scenarios.gantry.test/v1",
        kind: "Widget",
        prefix: "",
        content: json!({"spec": {"size": 1}}),
    }
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.scenarios.gantry.test"},
        "spec": {
            "group": "scenarios.gantry.test",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget",
                "shortNames": ["wd"], "categories": ["all"]},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "required": ["spec"],
                    "properties": {
                        "spec": {
                            "type": "object",
                            "required": ["size"],
                            "properties": {
                                "size": {"type": "integer", "minimum": 0, "maximum": 10},
                                "text": {"type": "string", "maxLength": 100},
                                "color": {"type": "string", "enum": ["red", "blue"],
                                    "default": "red"},
                            },
                        },
                        "status": {
                            "type": "object",
                            "properties": {"ready": {"type": "boolean"}},
                        },
                    },
                }},
            }],
        },
    })
}
