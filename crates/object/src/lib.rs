//! What is true of every Kubernetes object, and of nothing else.
//!
//! Quantities, names, selectors, taints, structural schemas, patches, paths and
//! table rows, all as pure functions over JSON values: no client, no clock, no
//! randomness. Every part of Gantry that touches an object stands on this crate;
//! it knows no resource by name.

/// The release of Kubernetes whose behaviour this crate has, and whatever stands on it.
pub const KUBERNETES_VERSION: &str = "v1.35.4";

pub mod condition;
pub mod field;
pub mod json;
pub mod jsonpath;
pub mod list;
pub mod names;
pub mod patch;
pub mod quantity;
pub mod schema;
pub mod selector;
pub mod table;
pub mod taint;
pub mod time;
#[cfg(test)]
mod work;
