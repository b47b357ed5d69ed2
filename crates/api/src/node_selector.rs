//! Selectors of nodes by label and by field, as pods and persistent volumes have them.
//!
//! They are kept as they are written: what they select is decided where nodes are.

use serde::{Deserialize, Serialize};

use crate::wire::{self, wire_enum};

/// Selects the nodes that match at least one term: without terms, none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelector {
    /// One of them has to match.
    #[serde(deserialize_with = "wire::or_default")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// Matches a node that meets every requirement: without requirements, none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelectorTerm {
    /// Requirements on labels.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// Requirements on fields, of which `metadata.name` is the only one.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub match_fields: Vec<NodeSelectorRequirement>,
}

/// A requirement on one label or field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelectorRequirement {
    /// The label or the field.
    #[serde(deserialize_with = "wire::or_default")]
    pub key: Box<str>,
    /// How it relates to the values.
    #[serde(deserialize_with = "wire::or_default")]
    pub operator: NodeSelectorOperator,
    /// Some for `In` and `NotIn`, one integer for `Gt` and `Lt`, none otherwise.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Box<str>>,
}

wire_enum! {
    /// How a label or field of a node relates to the values of a requirement.
    NodeSelectorOperator {
        /// It is one of them.
        In,
        /// It is absent or none of them.
        NotIn,
        /// It is there.
        Exists,
        /// It is absent.
        DoesNotExist,
        /// It is an integer above the one given.
        Gt,
        /// It is an integer below the one given.
        Lt,
    }
}
