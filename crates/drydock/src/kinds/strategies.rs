//! Which native kind has which strategy.

use std::sync::Arc;

use super::{Conversion, Plain, Strategy};

/// The strategy of a native kind; plain data where it needs none.
#[must_use]
pub fn of(group: &str, plural: &str) -> Arc<dyn Strategy> {
    match (group, plural) {
        ("apiextensions.k8s.io", "customresourcedefinitions") => Arc::new(super::crd::Definition),
        ("", "pods") => Arc::new(super::pod::Pod),
        ("", "podtemplates") => Arc::new(super::pod_template::PodTemplate),
        ("", "nodes") => Arc::new(super::node::Node),
        ("", "namespaces") => Arc::new(super::namespace::Namespace),
        _ => Arc::new(Plain),
    }
}

/// The table a native kind's objects are kept in: two groups can show the same objects.
#[must_use]
pub fn table_of(group: &str, plural: &str) -> String {
    match (group, plural) {
        ("" | "events.k8s.io", "events") => "events".to_owned(),
        ("", plural) => plural.to_owned(),
        (group, plural) => format!("{plural}.{group}"),
    }
}

/// How a version's objects differ from the stored form, where they do.
#[must_use]
pub fn conversion_of(_group: &str, _version: &str, _plural: &str) -> Option<Conversion> {
    None
}
