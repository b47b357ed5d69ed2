//! What a hollow node says of itself: its object, its lease and its load, as bodies of
//! requests.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use api::{NodeMetric, Resource as _};
use chassis::client::{Identity, Object};
use object::quantity::{Format, Quantity};
use object::time::{MicroTime, Time};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::group::{NodeGroup, Place};
use crate::pod::PodRun;
use crate::seed::{Seed, digest};
use crate::time::{Now, Stamp};
use crate::usage::Usage;

/// The version that the nodes say their kubelet has.
pub const KUBELET_VERSION: &str = "v1.35.4";
/// First of the addresses of nodes; there is room for a million.
const HOSTS: u32 = 0xac10_0000;
/// First of the addresses of pods: 256 for each node.
const PODS: u32 = 0x0a80_0000;

/// The conditions that a hollow node reports, and the status of each.
const REPORTED: [(&str, &str); 4] = [
    ("MemoryPressure", "False"),
    ("DiskPressure", "False"),
    ("PIDPressure", "False"),
    ("Ready", "True"),
];

/// A node as the API server shows it, as far as its kubelet looks.
#[derive(Debug, Deserialize)]
pub struct SeenNode {
    pub(crate) metadata: SeenMeta,
    #[serde(default)]
    pub(crate) status: SeenStatus,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeenMeta {
    pub(crate) name: Box<str>,
    pub(crate) uid: Box<str>,
    #[serde(default)]
    pub(crate) resource_version: Box<str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SeenStatus {
    conditions: Option<Vec<api::Condition>>,
}

impl SeenStatus {
    pub(crate) fn conditions(&self) -> &[api::Condition] {
        self.conditions.as_deref().unwrap_or_default()
    }
}

impl SeenNode {
    /// Whether the node counts as ready.
    pub(crate) fn is_ready(&self) -> bool {
        let ready = api::condition::find(self.status.conditions(), "Ready");
        ready.is_some_and(api::Condition::is_true)
    }

    /// Whether its conditions are those that a hollow node reports.
    pub(crate) fn says_what_nodes_report(&self) -> bool {
        REPORTED.iter().all(|(kind, status)| {
            let told = api::condition::find(self.status.conditions(), kind);
            told.is_some_and(|told| told.status == *status)
        })
    }
}

impl Object for SeenNode {
    fn identity(&self) -> Identity<'_> {
        let SeenMeta { name, uid, resource_version } = &self.metadata;
        Identity { namespace: "", name, uid, resource_version }
    }
}

/// The address of a node.
pub(crate) fn host_address(node: u32) -> Ipv4Addr {
    // The first address of each /24 is left out: it looks like a network.
    Ipv4Addr::from(HOSTS + (node / 254) * 256 + node % 254 + 1)
}

/// An address of a pod.
pub(crate) fn pod_address(node: u32, number: u8) -> Ipv4Addr {
    Ipv4Addr::from(PODS + node * 256 + u32::from(number))
}

/// The number of an address among those of a node.
pub(crate) fn number_of(node: u32, address: &str) -> Option<u8> {
    let address = u32::from(address.parse::<Ipv4Addr>().ok()?);
    u8::try_from(address.checked_sub(PODS + node * 256)?).ok()
}

/// A node as the bodies need it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told<'a> {
    pub(crate) index: u32,
    pub(crate) place: &'a Place,
    pub(crate) group: &'a NodeGroup,
    pub(crate) uid: &'a str,
    pub(crate) ready_since: Stamp,
}

impl Told<'_> {
    fn labels(&self) -> Value {
        let Self { place, group, .. } = self;
        let zone = group.zones.get(place.zone).map_or("", String::as_str);
        let mut labels = json!({
            "kubernetes.io/hostname": place.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": group.arch,
            "beta.kubernetes.io/os": "linux",
            "beta.kubernetes.io/arch": group.arch,
            "node.kubernetes.io/instance-type": group.instance_type,
            "topology.kubernetes.io/region": group.region,
            "topology.kubernetes.io/zone": zone,
        });
        for (key, value) in &group.labels {
            labels[key] = value.as_str().into();
        }
        labels
    }

    /// A new node.
    pub(crate) fn object(&self, seed: Seed, now: Now) -> Vec<u8> {
        bytes(&json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": self.place.name, "labels": self.labels() },
            "spec": { "taints": self.group.taints },
            "status": self.status(seed, now),
        }))
    }

    /// The labels of a node that exists.
    pub(crate) fn label_patch(&self) -> Vec<u8> {
        bytes(&json!({ "metadata": { "labels": self.labels() } }))
    }

    /// The whole status of a node that exists.
    pub(crate) fn status_patch(&self, seed: Seed, now: Now) -> Vec<u8> {
        bytes(&json!({ "status": self.status(seed, now) }))
    }

    /// The conditions alone: what a node reports when nothing else changed.
    pub(crate) fn heartbeat_patch(&self, now: Now) -> Vec<u8> {
        bytes(&json!({ "status": { "conditions": self.conditions(now) } }))
    }

    fn status(&self, seed: Seed, now: Now) -> Value {
        let name = &self.place.name;
        let id = |what: &str| digest(seed.of(what, name));
        let uuid = |what: &str| {
            let hex = id(what);
            let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..32]];
            parts.join("-")
        };
        json!({
            "capacity": self.group.capacity,
            "allocatable": self.group.capacity,
            "conditions": self.conditions(now),
            "addresses": [
                { "type": "InternalIP", "address": host_address(self.index) },
                { "type": "Hostname", "address": name },
            ],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
            "nodeInfo": {
                "machineID": &id("machine")[..32],
                "systemUUID": uuid("system"),
                "bootID": uuid("boot"),
                "kernelVersion": "6.1.0-hollow",
                "osImage": "Hollow Linux",
                "containerRuntimeVersion": "containerd://2.1.4",
                "kubeletVersion": KUBELET_VERSION,
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": self.group.arch,
            },
        })
    }

    fn conditions(&self, now: Now) -> Value {
        let (heartbeat, since) = (Time::from(now.wall), self.ready_since.time());
        let condition = |(kind, status): (&str, &str), reason: &str, message: &str| {
            json!({
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": heartbeat,
                "lastTransitionTime": since,
            })
        };
        let [memory, disk, processes, ready] = REPORTED;
        json!([
            condition(
                memory,
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
            condition(disk, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition(processes, "KubeletHasSufficientPID", "kubelet has sufficient PID available",),
            condition(ready, "KubeletReady", "kubelet is posting ready status"),
        ])
    }

    fn owner(&self) -> Value {
        json!([{ "apiVersion": "v1", "kind": "Node", "name": self.place.name, "uid": self.uid }])
    }

    fn lease_spec(&self, seconds: u64, now: Now) -> Value {
        json!({
            "holderIdentity": self.place.name,
            "leaseDurationSeconds": seconds,
            "renewTime": MicroTime::from(now.wall),
        })
    }

    /// A new lease, which ends with the node.
    pub(crate) fn lease(&self, seconds: u64, now: Now) -> Vec<u8> {
        bytes(&json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self.place.name,
                "namespace": "kube-node-lease",
                "ownerReferences": self.owner(),
            },
            "spec": self.lease_spec(seconds, now),
        }))
    }

    /// Everything of a lease that exists, which may be an old one.
    pub(crate) fn lease_patch(&self, seconds: u64, now: Now) -> Vec<u8> {
        bytes(&json!({
            "metadata": { "ownerReferences": self.owner() },
            "spec": self.lease_spec(seconds, now),
        }))
    }

    /// A new NodeMetric without a report, which ends with the node.
    pub(crate) fn metric(&self, interval_seconds: u64) -> Vec<u8> {
        bytes(&json!({
            "apiVersion": NodeMetric::api_version(),
            "kind": NodeMetric::KIND,
            "metadata": { "name": self.place.name, "ownerReferences": self.owner() },
            "spec": { "metricCollectPolicy": {
                "aggregateDurationSeconds": 300,
                "reportIntervalSeconds": interval_seconds,
            } },
        }))
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// The renewal of a lease: the write of which there are most, so it is as small as can be.
pub(crate) fn renewal(now: Now) -> Vec<u8> {
    format!(r#"{{"spec":{{"renewTime":"{}"}}}}"#, MicroTime::from(now.wall)).into_bytes()
}

/// A report of the load of a node and its pods, which are in the order of their names.
///
/// It is written as text and not through [`NodeMetric`]: a struct would need a map, two
/// names and several strings for each of fifty thousand pods a minute. The tests read every
/// report back through the struct.
pub(crate) fn report(now: Now, system: Usage, pods: &[(&PodRun, Usage)]) -> Vec<u8> {
    let node = pods.iter().fold(system, |sum, (_, usage)| sum.plus(*usage));
    let mut text = String::with_capacity(256 + pods.len() * 160);
    // Writing to a string cannot fail. Names, bands and classes need no escaping: the API
    // server accepts none that would.
    let _ = write!(
        text,
        r#"{{"status":{{"updateTime":"{}","nodeMetric":{{"nodeUsage":{},"systemUsage":{}}},"podsMetric":["#,
        Time::from(now.wall),
        resources(node),
        resources(system),
    );
    for (index, (pod, usage)) in pods.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(
            text,
            r#"{comma}{{"namespace":"{}","name":"{}","podUsage":{},"qos":"{}""#,
            pod.key.namespace(),
            pod.key.name(),
            resources(*usage),
            pod.qos.as_str(),
        );
        if let Some(band) = pod.band {
            let _ = write!(text, r#","priority":"{band}""#);
        }
        text.push('}');
    }
    text.push_str("]}}");
    text.into_bytes()
}

fn resources(usage: Usage) -> String {
    let number = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
    let cpu = Quantity::from_millis(number(usage.cpu_millis), Format::DecimalSi);
    // Whole kibibytes: nobody reads more, and it is shorter.
    let memory = Quantity::from_units(number(usage.memory_bytes) & !1023, Format::BinarySi);
    format!(r#"{{"resources":{{"cpu":"{cpu}","memory":"{memory}"}}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unique_and_found_again() {
        assert_eq!(host_address(0).to_string(), "172.16.0.1");
        assert_eq!(host_address(253).to_string(), "172.16.0.254");
        assert_eq!(host_address(254).to_string(), "172.16.1.1");
        assert_eq!(pod_address(0, 1).to_string(), "10.128.0.1");
        assert_eq!(pod_address(32_767, 250).to_string(), "10.255.255.250");
        assert_eq!(number_of(300, &pod_address(300, 7).to_string()), Some(7));
        for other in ["10.128.0.7", "10.255.0.1", "::1", "", "10.129.45.0.1"] {
            assert_eq!(number_of(300, other), None, "{other}");
        }
    }
}
