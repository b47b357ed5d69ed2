//! How writes treat each native kind, as its strategy in kube-apiserver says.

use super::super::{Dependents, Habits, NameRule};

/// Kinds that count changes in `metadata.generation`.
const GENERATION: [&str; 23] = [
    "pods",
    "podtemplates",
    "replicationcontrollers",
    "daemonsets.apps",
    "deployments.apps",
    "replicasets.apps",
    "statefulsets.apps",
    "cronjobs.batch",
    "jobs.batch",
    "endpointslices.discovery.k8s.io",
    "flowschemas.flowcontrol.apiserver.k8s.io",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
    "ingresses.networking.k8s.io",
    "ingressclasses.networking.k8s.io",
    "networkpolicies.networking.k8s.io",
    "poddisruptionbudgets.policy",
    "deviceclasses.resource.k8s.io",
    "resourceslices.resource.k8s.io",
    "priorityclasses.scheduling.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
];

/// Kinds whose definitions carry a generation, too, but are written by another server.
const GENERATION_ELSEWHERE: [&str; 1] = ["customresourcedefinitions.apiextensions.k8s.io"];

/// Kinds that an update without a resource version cannot overwrite.
const CONDITIONAL: [&str; 16] = [
    "certificatesigningrequests.certificates.k8s.io",
    "runtimeclasses.node.k8s.io",
    "poddisruptionbudgets.policy",
    "csidrivers.storage.k8s.io",
    "csistoragecapacities.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "leases.coordination.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "apiservices.apiregistration.k8s.io",
];

/// Kinds that an update creates.
const CREATED_BY_UPDATE: [&str; 11] = [
    "runtimeclasses.node.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "leases.coordination.k8s.io",
    "limitranges",
    "events",
    "events.events.k8s.io",
    "services",
    "endpoints",
];

/// Kinds whose deletion answers with the object.
const RETURNED: [&str; 17] = [
    "namespaces",
    "persistentvolumes",
    "persistentvolumeclaims",
    "pods",
    "podtemplates",
    "resourcequotas",
    "services",
    "serviceaccounts",
    "deviceclasses.resource.k8s.io",
    "resourceclaims.resource.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    "resourceslices.resource.k8s.io",
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "storageclasses.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "volumeattributesclasses.storage.k8s.io",
];

/// Kinds whose check of a change looks at the metadata once more as if the object were new.
const CHECKED_ANEW: [&str; 3] = ["configmaps", "secrets", "services"];

/// Kinds whose dependents stay unless the client says otherwise.
const ORPHANING: [&str; 2] = ["jobs.batch", "replicationcontrollers"];

/// The habits of a native kind.
pub(super) fn of(group: &str, plural: &str) -> Habits {
    let name = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
    let name = name.as_str();
    Habits {
        generation: GENERATION.contains(&name) || GENERATION_ELSEWHERE.contains(&name),
        unconditional_update: !CONDITIONAL.contains(&name),
        create_on_update: CREATED_BY_UPDATE.contains(&name),
        returns_deleted: RETURNED.contains(&name),
        dependents: match name {
            "events" | "events.events.k8s.io" => Dependents::Ignored,
            name if ORPHANING.contains(&name) => Dependents::Orphaned,
            _ => Dependents::Deleted,
        },
        name_rule: name_rule(name),
        metadata_checked_anew: CHECKED_ANEW.contains(&name),
        known_finalizers: !GENERATION_ELSEWHERE.contains(&name),
    }
}

fn name_rule(name: &str) -> NameRule {
    match name {
        "namespaces" | "statefulsets.apps" => NameRule::Label,
        "events" | "poddisruptionbudgets.policy" | "apiservices.apiregistration.k8s.io" => {
            NameRule::PathSegment
        }
        "services" => NameRule::Label1035,
        _ if name.ends_with(".rbac.authorization.k8s.io") => NameRule::PathSegment,
        _ => NameRule::Subdomain,
    }
}
