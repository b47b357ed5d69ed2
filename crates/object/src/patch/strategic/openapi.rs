//! A schema for tests: OpenAPI-like JSON with the patch extensions, of the fields
//! that the cases use.

use std::sync::LazyLock;

use serde_json::Value;

use super::{PatchSchema, Shape, Strategies};

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("openapi.json")).unwrap());

/// A place in the document: the node that was found, and the type it refers to.
#[derive(Clone, Copy)]
pub(in crate::patch) struct OpenApi {
    node: &'static Value,
    resolved: &'static Value,
    name: &'static str,
}

impl OpenApi {
    /// The type of that name.
    pub(in crate::patch) fn of(name: &str) -> Self {
        let (name, node) = DOCUMENT.as_object().unwrap().get_key_value(name).unwrap();
        Self { node, resolved: node, name }
    }

    fn at(node: &'static Value) -> Self {
        match node["$ref"].as_str() {
            Some(name) => Self { node, ..Self::of(name) },
            None => Self { node, resolved: node, name: "" },
        }
    }
}

impl PatchSchema for OpenApi {
    fn shape(&self) -> Shape {
        match self.resolved {
            node if node.get("properties").is_some() => Shape::Struct,
            node if node.get("items").is_some() => Shape::List,
            node if node["type"] == "object" => Shape::Map,
            _ => Shape::Scalar,
        }
    }

    fn type_name(&self) -> &str {
        self.name
    }

    fn field(&self, name: &str) -> Option<Self> {
        self.resolved.get("properties")?.get(name).map(Self::at)
    }

    fn items(&self) -> Option<Self> {
        self.resolved.get("items").map(Self::at)
    }

    fn merge_key(&self) -> Option<&str> {
        self.node.get("x-kubernetes-patch-merge-key")?.as_str()
    }

    fn strategies(&self) -> Strategies {
        let text = self.node["x-kubernetes-patch-strategy"].as_str().unwrap_or_default();
        Strategies::parse(text).unwrap()
    }
}
