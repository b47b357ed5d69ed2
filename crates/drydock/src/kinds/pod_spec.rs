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
mod warnings;

use object::field::{Error, Errors, Path};

pub(crate) use defaults::default_pod_spec;
pub(crate) use network::{ip_faults, is_ipv6};
pub(crate) use validation::{
    Home, tolerations, validate_annotations, validate_images, validate_pod_spec, validate_spec,
};
pub(crate) use warnings::pod_warnings;

/// One error for each message about a value.
fn each(errors: &mut Errors, path: &Path, value: &str, messages: Vec<String>) {
    errors.extend(messages.into_iter().map(|message| Error::invalid(path, value, message)));
}

/// Checks that a text is one of a closed set, listed in the order given.
fn one_of(errors: &mut Errors, path: &Path, value: &str, supported: &[&str]) {
    match value {
        "" => errors.push(Error::required(path, "")),
        value if supported.contains(&value) => {}
        value => errors.push(Error::not_supported(path, value, supported)),
    }
}
