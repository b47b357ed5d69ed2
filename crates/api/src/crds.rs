//! The custom resources of Gantry, as the YAML that an API server is given.
//!
//! A CRD is data: `crates/api/crds` holds one file for each kind, with the names,
//! versions, columns, defaults and rules that users of Koordinator and Koord-Queue
//! already have. This module hands out the text and knows nothing of its meaning;
//! whoever serves or installs it brings the parser.
//!
//! ```
//! let quota = api::crds::all().find(|crd| crd.name == "elasticquotas.scheduling.sigs.k8s.io");
//! assert!(quota.is_some_and(|crd| crd.yaml.contains("kind: ElasticQuota")));
//! ```

/// One custom resource definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crd {
    /// `metadata.name`: plural and group, as in `podgroups.scheduling.sigs.k8s.io`.
    pub name: &'static str,
    /// The definition as one YAML document without a separator line.
    pub yaml: &'static str,
}

macro_rules! crd {
    ($name:literal) => {
        Crd { name: $name, yaml: include_str!(concat!("../crds/", $name, ".yaml")) }
    };
}

/// Every custom resource that Gantry serves or reads, by name.
pub const CRDS: &[Crd] = &[
    crd!("admissionchecks.kueue.x-k8s.io"),
    crd!("clustercolocationprofiles.config.koordinator.sh"),
    crd!("clusternetworktopologies.scheduling.koordinator.sh"),
    crd!("devices.scheduling.koordinator.sh"),
    crd!("elasticquotaprofiles.quota.koordinator.sh"),
    crd!("elasticquotas.scheduling.sigs.k8s.io"),
    crd!("nodemetrics.slo.koordinator.sh"),
    crd!("noderesourcetopologies.topology.node.k8s.io"),
    crd!("nodeslos.slo.koordinator.sh"),
    crd!("podgroups.scheduling.sigs.k8s.io"),
    crd!("podmigrationjobs.scheduling.koordinator.sh"),
    crd!("provisioningrequestconfigs.kueue.x-k8s.io"),
    crd!("queues.scheduling.x-k8s.io"),
    crd!("queueunits.scheduling.x-k8s.io"),
    crd!("recommendations.analysis.koordinator.sh"),
    crd!("reservations.scheduling.koordinator.sh"),
    crd!("scheduleexplanations.scheduling.koordinator.sh"),
];

/// Every definition, in the order of their names.
pub fn all() -> impl Iterator<Item = &'static Crd> {
    CRDS.iter()
}

/// All definitions as one stream of YAML documents, ready for `kubectl apply -f -`.
#[must_use]
pub fn to_yaml_stream() -> String {
    let mut text = String::with_capacity(CRDS.iter().map(|crd| crd.yaml.len() + 4).sum());
    for crd in CRDS {
        text.push_str("---\n");
        text.push_str(crd.yaml);
    }
    text
}

#[cfg(test)]
pub(crate) mod facts;
#[cfg(test)]
pub(crate) mod judged;
#[cfg(test)]
mod tests;
