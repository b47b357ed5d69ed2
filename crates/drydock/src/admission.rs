//! What a write must meet beyond the object itself: the built-in admission
//! plugins that kube-apiserver enables by default and this product depends on.
//!
//! A plugin is a function, in a file with those that know the same things; the order in which they
//! look at a kind is kube-apiserver's, and stands in the kind's strategy.
//! Webhooks will stand between [`mutate`] and [`validate`].

mod default_tolerations;
mod limit_ranger;
mod namespace_lifecycle;
mod node_taints;
pub(crate) mod pod_topology;
mod priority;
mod service_account;
mod service_addresses;
mod storage;

use serde_json::Value;

pub(crate) use service_addresses::hold;

use crate::answer::Failure;
use crate::kinds::Found;
use crate::request::Identity;
use crate::server::Server;
use crate::write::Part;

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A changed object.
    Update,
    /// An object that goes.
    Delete,
}

/// A write, as plugins see it.
pub struct Attributes<'a> {
    /// The server, for other objects.
    pub server: &'a Server,
    /// The kind, in the version of the request.
    pub found: &'a Found,
    /// The namespace, where the kind has one.
    pub namespace: Option<&'a str>,
    /// The name.
    pub name: &'a str,
    /// What the client said of the name; a new object may only say what it begins with.
    pub given_name: &'a str,
    /// Which part of the object is written.
    pub part: Part,
    /// What the write does.
    pub operation: Operation,
    /// Who writes.
    pub identity: &'a Identity,
    /// The object as it was.
    pub old: Option<&'a Value>,
}

/// A plugin that looks at certain kinds only; each kind's strategy names those that look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// Gives a pod what its namespace says it gets, and holds it against the limits there.
    PodLimits,
    /// Holds a claim against the limits of its namespace.
    ClaimLimits,
    /// Gives a pod its service account and the token to use it.
    ServiceAccount,
    /// Marks a new node as not ready.
    NodeTaints,
    /// Turns the name of a pod's priority class into a number.
    PodPriority,
    /// Keeps the default priority class unique.
    DefaultPriorityClass,
    /// Lets a pod outlive a short failure of its node.
    DefaultTolerations,
    /// Shows on a pod where its node is.
    PodTopology,
    /// Keeps the namespaces that a cluster cannot do without.
    SystemNamespaces,
    /// Gives a service an address and ports that no other has.
    ServiceAddresses,
    /// Names the default storage class in a claim.
    DefaultStorageClass,
    /// Lets a claim grow only where its class allows that.
    ClaimResize,
    /// Keeps an object, by this finalizer, while something uses it.
    Protection(&'static str),
}

impl Attributes<'_> {
    /// A refusal of this write.
    pub(crate) fn forbid(&self, why: impl std::fmt::Display) -> Failure {
        Failure::forbidden(&self.found.kind.resource(), self.given_name, why)
    }

    /// Leaves a note of who was refused what.
    fn report(&self, failure: &Failure) {
        let resource = self.found.kind.qualified_name();
        let (user, name, operation) = (&self.identity.user, self.name, self.operation);
        tracing::debug!(user, ?operation, resource, name, %failure, "admission refused a write");
    }

    /// The object another kind keeps under a key.
    pub(crate) fn lookup(&self, group: &str, plural: &str, key: &str) -> Option<Value> {
        let registry = self.server.registry();
        let stored = registry.resource(group, plural)?.table.get(key)?;
        serde_json::from_slice(&stored.body).ok()
    }
}

/// Lets the plugins complete the object.
///
/// # Errors
/// When one refuses the write.
pub fn mutate(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Failure> {
    complete(attributes, object).inspect_err(|failure| attributes.report(failure))
}

fn complete(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Failure> {
    namespace_lifecycle::admit(attributes)?;
    for plugin in attributes.found.kind.strategy.admission() {
        match plugin {
            Plugin::PodLimits => limit_ranger::mutate(attributes, object),
            Plugin::ServiceAccount => service_account::mutate(attributes, object)?,
            Plugin::NodeTaints => node_taints::mutate(attributes, object),
            Plugin::PodPriority => priority::mutate(attributes, object)?,
            Plugin::DefaultTolerations => default_tolerations::mutate(attributes, object),
            Plugin::PodTopology => pod_topology::mutate(attributes, object),
            Plugin::ServiceAddresses => service_addresses::mutate(attributes, object)?,
            Plugin::DefaultStorageClass => storage::default_class(attributes, object),
            Plugin::Protection(finalizer) => storage::protect(attributes, object, finalizer),
            Plugin::ClaimLimits
            | Plugin::DefaultPriorityClass
            | Plugin::SystemNamespaces
            | Plugin::ClaimResize => {}
        }
    }
    Ok(())
}

/// Lets the plugins judge the completed object, or, where it is to be deleted, the old one.
///
/// # Errors
/// When one refuses the write.
pub fn validate(attributes: &Attributes<'_>, object: &Value) -> Result<(), Failure> {
    judge(attributes, object).inspect_err(|failure| attributes.report(failure))
}

fn judge(attributes: &Attributes<'_>, object: &Value) -> Result<(), Failure> {
    for plugin in attributes.found.kind.strategy.admission() {
        match plugin {
            Plugin::PodLimits | Plugin::ClaimLimits => limit_ranger::validate(attributes, object)?,
            Plugin::DefaultPriorityClass => priority::validate(attributes, object)?,
            Plugin::SystemNamespaces => namespace_lifecycle::protect(attributes)?,
            Plugin::ClaimResize => storage::check_growth(attributes, object)?,
            Plugin::ServiceAccount
            | Plugin::NodeTaints
            | Plugin::PodPriority
            | Plugin::DefaultTolerations
            | Plugin::PodTopology
            | Plugin::ServiceAddresses
            | Plugin::DefaultStorageClass
            | Plugin::Protection(_) => {}
        }
    }
    Ok(())
}
