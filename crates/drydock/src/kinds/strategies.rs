//! Which native kind has which strategy.

use std::sync::Arc;

use super::{
    Conversion, Plain, Strategy, apps, autoscaler, batch, config, events, policy, reviews, service,
    storage, tables,
};

/// The strategy of a native kind; plain data where it needs none.
#[must_use]
pub fn of(group: &str, plural: &str) -> Arc<dyn Strategy> {
    match (group, plural) {
        ("apiextensions.k8s.io", "customresourcedefinitions") => Arc::new(super::crd::Definition),
        ("apps", "deployments") => Arc::new(apps::Deployment),
        ("apps", "replicasets") => Arc::new(apps::ReplicaSet),
        ("apps", "statefulsets") => Arc::new(apps::StatefulSet),
        ("apps", "daemonsets") => Arc::new(apps::DaemonSet),
        ("apps", "controllerrevisions") => Arc::new(apps::ControllerRevision),
        ("", "replicationcontrollers") => Arc::new(apps::ReplicationController),
        ("batch", "jobs") => Arc::new(batch::Job),
        ("batch", "cronjobs") => Arc::new(batch::CronJob),
        ("", "configmaps") => Arc::new(config::ConfigMap),
        ("", "secrets") => Arc::new(config::Secret),
        ("", "events") => Arc::new(events::Event),
        ("events.k8s.io", "events") => Arc::new(events::NewEvent),
        ("", "services") => Arc::new(service::Service),
        ("", "persistentvolumes") => Arc::new(storage::PersistentVolume),
        ("", "persistentvolumeclaims") => Arc::new(storage::PersistentVolumeClaim),
        ("storage.k8s.io", "storageclasses") => Arc::new(storage::StorageClass),
        ("storage.k8s.io", "volumeattributesclasses") => Arc::new(storage::VolumeAttributesClass),
        ("storage.k8s.io", "csinodes") => Arc::new(storage::CsiNode),
        ("storage.k8s.io", "csidrivers") => Arc::new(storage::CsiDriver),
        ("storage.k8s.io", "csistoragecapacities") => Arc::new(storage::CsiStorageCapacity),
        ("storage.k8s.io", "volumeattachments") => Arc::new(storage::VolumeAttachment),
        ("scheduling.k8s.io", "priorityclasses") => Arc::new(policy::PriorityClass),
        ("policy", "poddisruptionbudgets") => Arc::new(policy::PodDisruptionBudget),
        ("coordination.k8s.io", "leases") => Arc::new(policy::Lease),
        ("", "pods") => Arc::new(super::pod::Pod),
        ("", "podtemplates") => Arc::new(super::pod_template::PodTemplate),
        ("", "nodes") => Arc::new(super::node::Node),
        ("", "namespaces") => Arc::new(super::namespace::Namespace),
        ("authorization.k8s.io", "selfsubjectrulesreviews") => Arc::new(reviews::Rules),
        ("authorization.k8s.io", "selfsubjectaccessreviews") => Arc::new(reviews::Access::OfClient),
        ("authorization.k8s.io", _) => Arc::new(reviews::Access::OfSubject),
        ("authentication.k8s.io", "selfsubjectreviews") => Arc::new(reviews::Myself),
        ("authentication.k8s.io", "tokenreviews") => Arc::new(reviews::Token),
        (group, plural) => shown(group, plural),
    }
}

/// The strategy of a kind that is little more than data.
fn shown(group: &str, plural: &str) -> Arc<dyn Strategy> {
    match (group, plural) {
        ("", "serviceaccounts")
        | ("resource.k8s.io", "deviceclasses" | "resourceclaimtemplates") => {
            Arc::new(tables::NAME_AND_AGE)
        }
        ("", "endpoints") => Arc::new(tables::ENDPOINTS),
        ("", "limitranges") => Arc::new(super::limit_range::LimitRange),
        ("apiregistration.k8s.io", "apiservices") => Arc::new(tables::API_SERVICE),
        ("", "resourcequotas") => Arc::new(tables::RESOURCE_QUOTA),
        ("discovery.k8s.io", "endpointslices") => Arc::new(tables::EndpointSlice),
        ("autoscaling", "horizontalpodautoscalers") => Arc::new(tables::Autoscaler),
        ("networking.k8s.io", "networkpolicies") => Arc::new(tables::NETWORK_POLICY),
        ("networking.k8s.io", "ingresses") => Arc::new(tables::INGRESS),
        ("networking.k8s.io", "ingressclasses") => Arc::new(tables::INGRESS_CLASS),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            Arc::new(tables::ROLE_BINDING)
        }
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
        ) => Arc::new(tables::WEBHOOKS),
        ("node.k8s.io", "runtimeclasses") => Arc::new(tables::RUNTIME_CLASS),
        ("resource.k8s.io", "resourceclaims") => Arc::new(tables::RESOURCE_CLAIM),
        ("resource.k8s.io", "resourceslices") => Arc::new(tables::RESOURCE_SLICE),
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
pub fn conversion_of(group: &str, version: &str, plural: &str) -> Option<Conversion> {
    match (group, version, plural) {
        ("events.k8s.io", _, "events") => Some(events::CONVERSION),
        ("autoscaling", "v1", "horizontalpodautoscalers") => Some(autoscaler::CONVERSION),
        _ => None,
    }
}

/// What a client that uses a version is warned of.
#[must_use]
pub fn deprecation_of(group: &str, version: &str, plural: &str) -> Option<String> {
    match (group, version, plural) {
        ("", "v1", "endpoints") => Some(
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
                .to_owned(),
        ),
        _ => None,
    }
}
