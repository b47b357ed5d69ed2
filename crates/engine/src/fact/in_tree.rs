//! How CSI drivers take over the disks that Kubernetes knew itself.
//!
//! Names, handles and topology are those of Kubernetes' own translation. What it cannot translate
//! has no handle here.

use std::collections::BTreeSet;

use api::PersistentVolume;
use api::node_selector::{NodeSelector, NodeSelectorOperator, NodeSelectorRequirement};

use super::InTree;

/// Labels of zones and regions, in the order in which they are looked at.
pub const TOPOLOGY_LABELS: [&str; 4] = [BETA_ZONE, BETA_REGION, ZONE, REGION];
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
/// Between the zones of a label that has several.
const BETWEEN_ZONES: &str = "__";

/// The label that took the place of another one.
#[must_use]
pub fn successor(label: &str) -> &str {
    match label {
        BETA_ZONE => ZONE,
        BETA_REGION => REGION,
        other => other,
    }
}

impl InTree {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Aws, Self::Gce, Self::Azure, Self::Cinder, Self::Portworx];

    /// The name under which classes and nodes know it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aws => "kubernetes.io/aws-ebs",
            Self::Gce => "kubernetes.io/gce-pd",
            Self::Azure => "kubernetes.io/azure-disk",
            Self::Cinder => "kubernetes.io/cinder",
            Self::Portworx => "kubernetes.io/portworx-volume",
        }
    }

    /// The driver that takes it over.
    #[must_use]
    pub fn driver(self) -> &'static str {
        match self {
            Self::Aws => "ebs.csi.aws.com",
            Self::Gce => "pd.csi.storage.gke.io",
            Self::Azure => "disk.csi.azure.com",
            Self::Cinder => "cinder.csi.openstack.org",
            Self::Portworx => "pxd.portworx.com",
        }
    }

    /// The label in which the driver keeps the zone of a node.
    fn zone_label(self) -> Option<&'static str> {
        match self {
            Self::Aws => Some("topology.ebs.csi.aws.com/zone"),
            Self::Gce => Some("topology.gke.io/zone"),
            Self::Cinder => Some("topology.cinder.csi.openstack.org/zone"),
            Self::Azure | Self::Portworx => None,
        }
    }
}

/// The zones that a label names; none where one of them is empty.
pub(super) fn zones(label: &str) -> Option<Box<[Box<str>]>> {
    let zones = label.split(BETWEEN_ZONES).map(str::trim);
    zones.map(|zone| (!zone.is_empty()).then(|| zone.into())).collect()
}

/// What the driver of AWS knows a disk by.
pub(super) fn aws_handle(id: &str) -> Option<Box<str>> {
    let Some(rest) = id.strip_prefix("aws://") else { return Some(id.into()) };
    let (_, path) = rest.split_once('/')?;
    let id = path.trim_matches('/');
    (id.starts_with("vol-") && !id.contains('/')).then(|| id.into())
}

/// What the driver of Azure knows a disk by: only managed disks are taken over.
pub(super) fn azure_handle(disk: &api::volume::AzureDisk) -> Option<Box<str>> {
    let managed = disk.kind.as_deref().is_none_or(|kind| kind.eq_ignore_ascii_case("managed"));
    managed.then(|| disk.disk_uri.clone())
}

/// What the driver of GCE knows the disk of a persistent volume by.
pub(super) fn gce_handle(volume: &PersistentVolume, disk: &str) -> Option<Box<str>> {
    let labels = &volume.metadata.labels;
    let label = [BETA_ZONE, ZONE].into_iter().filter_map(|label| labels.get(label));
    let label = label.map(String::as_str).find(|label| !label.is_empty()).unwrap_or_default();
    let zones: Vec<&str> = label.split(BETWEEN_ZONES).collect();
    let place = match zones[..] {
        [""] => "zones/UNSPECIFIED".to_owned(),
        [zone] => format!("zones/{zone}"),
        _ => {
            let region = |zone: &&str| match zone.split('-').collect::<Vec<_>>()[..] {
                [place, region, _] => Some(format!("{place}-{region}")),
                _ => None,
            };
            let regions: BTreeSet<String> = zones.iter().map(region).collect::<Option<_>>()?;
            let mut regions = regions.into_iter();
            let (region, None) = (regions.next()?, regions.next()) else { return None };
            format!("regions/{region}")
        }
    };
    Some(format!("projects/UNSPECIFIED/{place}/disks/{disk}").into())
}

/// The nodes that reach a persistent volume once a driver has taken it over; none where that makes
/// no difference.
pub(super) fn reach_taken_over(volume: &PersistentVolume, kind: InTree) -> Option<NodeSelector> {
    let own_label = kind.zone_label()?;
    let affinity = volume.spec.node_affinity.as_ref().and_then(|all| all.required.clone());
    let names = |key: &str| {
        let terms = affinity.iter().flat_map(|affinity| &affinity.node_selector_terms);
        terms.flat_map(|term| &term.match_expressions).any(|one| *one.key == *key)
    };
    let labels = &volume.metadata.labels;
    let beta = if names(ZONE) {
        false
    } else if names(BETA_ZONE) {
        true
    } else {
        !labels.contains_key(ZONE) && labels.contains_key(BETA_ZONE)
    };
    let (zone, region) = if beta { (BETA_ZONE, BETA_REGION) } else { (ZONE, REGION) };
    let mut reach = affinity.unwrap_or_default();
    if has_values(&reach, zone) {
        rename(&mut reach, zone, own_label);
    } else if let Some(label) = labels.get(zone) {
        add(&mut reach, own_label, label);
    }
    if beta && has_values(&reach, region) {
        rename(&mut reach, region, REGION);
    }
    (!reach.node_selector_terms.is_empty()).then_some(reach)
}

fn has_values(reach: &NodeSelector, key: &str) -> bool {
    let requirements = reach.node_selector_terms.iter().flat_map(|term| &term.match_expressions);
    requirements.filter(|one| *one.key == *key).any(|one| !one.values.is_empty())
}

fn rename(reach: &mut NodeSelector, from: &str, to: &str) {
    let terms = reach.node_selector_terms.iter_mut();
    for one in terms.flat_map(|term| &mut term.match_expressions) {
        if *one.key == *from {
            one.key = to.into();
        }
    }
}

/// Every term asks for one of the zones of a label as well.
fn add(reach: &mut NodeSelector, key: &str, label: &str) {
    let zones = label.split(BETWEEN_ZONES).map(str::trim).filter(|zone| !zone.is_empty());
    let zones: BTreeSet<&str> = zones.collect();
    if zones.is_empty() {
        return;
    }
    if reach.node_selector_terms.is_empty() {
        reach.node_selector_terms.push(api::node_selector::NodeSelectorTerm::default());
    }
    for term in &mut reach.node_selector_terms {
        term.match_expressions.push(NodeSelectorRequirement {
            key: key.into(),
            operator: NodeSelectorOperator::In,
            values: zones.iter().map(|zone| (*zone).into()).collect(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_of_aws_has_its_bare_id() {
        let check = |id: &str, handle: Option<&str>| assert_eq!(aws_handle(id).as_deref(), handle);
        check("vol-1", Some("vol-1"));
        check("anything", Some("anything"));
        check("aws://zone/vol-1", Some("vol-1"));
        check("aws:///vol-1", Some("vol-1"));
        check("aws://zone/disk-1", None);
        check("aws://zone", None);
    }

    #[test]
    fn a_disk_of_gce_is_in_a_zone_or_in_a_region() {
        let check = |label: &str, handle: Option<&str>| {
            let mut volume = PersistentVolume::default();
            volume.metadata.labels.insert(ZONE.to_owned(), label.to_owned());
            assert_eq!(gce_handle(&volume, "d").as_deref(), handle);
        };
        check("", Some("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"));
        check("us-east1-a", Some("projects/UNSPECIFIED/zones/us-east1-a/disks/d"));
        check("us-east1-a__us-east1-b", Some("projects/UNSPECIFIED/regions/us-east1/disks/d"));
        check("us-east1-a__us-east2-b", None);
        check("a__b", None);
    }

    #[test]
    fn zones_of_a_label_are_told_apart() {
        let check = |label: &str, expected: Option<&[&str]>| {
            let expected = expected.map(|zones| zones.iter().map(|zone| (*zone).into()).collect());
            assert_eq!(zones(label), expected);
        };
        check("a", Some(&["a"]));
        check("a__ b", Some(&["a", "b"]));
        check("a__", None);
        check("", None);
    }
}
