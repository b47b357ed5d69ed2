//! One schema for every kind: what a `CustomResourceDefinition` declares and what
//! the OpenAPI documents of the native kinds say, in one shareable graph, and the
//! work an API server does with it on plain JSON values.
//!
//! - [`Schema::from_crd`] reads the `openAPIV3Schema` of a CRD version and refuses
//!   what kube-apiserver refuses, with its messages.
//! - [`Definitions::from_openapi`] reads the `components.schemas` of OpenAPI v3
//!   documents; recursion is a cycle in the graph.
//! - [`default()`], [`prune`], [`validate`] act on objects; [`decode_check`] and
//!   [`drop_nulls`] do for native kinds what decoding into Go structs does.
//! - [`Node`] is a cursor for code that walks a value and its schema together, such
//!   as a strategic merge.
//!
//! The module knows no kind by name except the scalar types of apimachinery, no
//! clock and no server. Documents nested deeper than [`DEPTH_MAX`] are not walked
//! further: the decoder in front of this module refuses them.
//!
//! ```
//! use object::{field::Path, schema::{self, Schema}};
//! use serde_json::json;
//!
//! let crd = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
//!     "replicas": {"type": "integer", "minimum": 0, "default": 1}}}}});
//! let schema = Schema::from_crd(&crd, &Path::new("spec.validation.openAPIV3Schema")).unwrap();
//!
//! let mut object = json!({"spec": {"sise": 3}});
//! assert_eq!(schema::prune(&schema, &mut object), ["spec.sise"]);
//! schema::default(&schema, &mut object).unwrap();
//! assert_eq!(object, json!({"spec": {"replicas": 1}}));
//!
//! let errors = schema::validate(&schema, &json!({"spec": {"replicas": "two"}}), None);
//! assert_eq!(
//!     errors[0].to_string(),
//!     "spec.replicas: Invalid value: \"string\": \
//!      spec.replicas in body must be of type integer: \"string\"",
//! );
//! ```

mod crd;
mod decode;
mod defaults;
mod definitions;
mod format;
mod junctors;
mod lists;
mod meta;
mod node;
mod patching;
mod pattern;
mod pruning;
mod rules;
mod standard;
mod strays;
mod structural;
mod trail;
mod typing;
mod validation;

pub use crd::status_root_errors;
pub use decode::{DecodeError, decode_check, drop_nulls};
pub use defaults::{DEFAULTS_BYTES_MAX, DefaultsTooLarge, default};
pub use definitions::{Definitions, UnreadableDefinition};
pub use meta::{metadata_fault, object_meta};
pub use node::{GroupVersionKind, Kind, ListType, MapType, Node, Schema};
pub use pruning::prune;
pub use rules::SUPPORTED_FUNCTIONS;
pub use strays::{Strictly, read_strictly};
pub use validation::{validate, validate_status};

/// How many levels of a document are walked. A decoder in front of this module
/// refuses deeper ones; what lies deeper is left as it is.
pub const DEPTH_MAX: usize = 1_000;

#[cfg(test)]
mod tests;
