//! A node of a schema, as strategic merge patches look at it.

use super::{Kind, Node};
use crate::patch::strategic::{PatchSchema, Shape, Strategies};

impl PatchSchema for Node<'_> {
    fn shape(&self) -> Shape {
        match self.kind() {
            Kind::Object if self.values().is_some() => Shape::Map,
            Kind::Object => Shape::Struct,
            Kind::Array => Shape::List,
            _ => Shape::Scalar,
        }
    }

    fn type_name(&self) -> &str {
        let name = self.name().unwrap_or_default();
        name.rsplit('.').next().unwrap_or_default()
    }

    fn field(&self, name: &str) -> Option<Self> {
        Node::field(*self, name)
    }

    fn items(&self) -> Option<Self> {
        Node::items(*self)
    }

    fn merge_key(&self) -> Option<&str> {
        Node::merge_key(*self)
    }

    fn strategies(&self) -> Strategies {
        let words: Vec<&str> = self.patch_strategies().collect();
        // The generated definitions name no other strategies; an unknown word means the default.
        Strategies::parse(&words.join(",")).unwrap_or_default()
    }
}
