//! The spec of a pod, in a pod and in the templates of workloads: what may be left out
//! of it and what must be in it.
//!
//! The texts of the errors are kube-apiserver's, because users and programs read them.
//! It refuses to know anything that only the windows kubelet reads.

mod affinity;
mod containers;
mod defaults;
mod env;
mod image;
mod network;
mod paths;
mod probes;
pub(crate) mod resource_rules;
pub(crate) mod resources;
mod security;
mod spread;
mod validation;
mod volumes;
pub(crate) mod warnings;

use serde_json::Value;

pub(crate) use defaults::default_pod_spec;
pub(crate) use network::{ip_faults, is_ipv6};
pub(crate) use validation::{
    Home, tolerations, validate_annotations, validate_images, validate_pod_spec, validate_spec,
};
pub(crate) use warnings::pod_warnings;

/// An object as upstream shows it in a message: its internal form, whose fields have Go's names
/// and order.
pub(crate) fn go_form(value: &Value, fields: &[(&str, &str)]) -> String {
    let shown = |field: &str| value.get(field).unwrap_or(&Value::Null).to_string();
    let fields = fields.iter().map(|(name, field)| format!("\"{name}\":{}", shown(field)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}
