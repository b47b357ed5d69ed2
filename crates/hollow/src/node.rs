//! What a hollow node says of itself: its object, its lease and its load, as bodies of
//! requests.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use api::{NodeMetric, NodeResourceTopology, OwnerReference, Resource as _, ResourceList};
use chassis::client::{Identity, Object};
use object::quantity::{Format, Quantity};
use object::time::{MicroTime, Time};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::address::host_address;
use crate::group::{NodeGroup, Place};
use crate::history::{History, WINDOWS};
use crate::pod::PodRun;
use crate::seed::{Seed, digest};
use crate::time::{Now, Stamp};
use crate::usage::Usage;

/// The version that the nodes say their kubelet has.
pub const KUBELET_VERSION: &str = "v1.35.4";
/// The annotation of a lease that tells which process renews it; empty when it has ended. The
/// holder of a node's lease is the node itself, whoever runs it.
pub(crate) const HELD_BY: &str = "hollow.gantry.dev/held-by";

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
    capacity: Option<ResourceList>,
    allocatable: Option<ResourceList>,
    addresses: Option<Vec<SeenAddress>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SeenAddress {
    address: String,
}

/// What `allocatable` should say of resources that are not the node's own and does not: an
/// amount, or nothing.
pub(crate) type Strays = BTreeMap<String, Option<Quantity>>;

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

    /// Whether its conditions and amounts are those that a node with these amounts reports.
    pub(crate) fn says_what_nodes_report(&self, own: &ResourceList) -> bool {
        let amounts = [&self.status.capacity, &self.status.allocatable];
        let kept = amounts.iter().all(|told| {
            let told = |name: &String| told.as_ref().and_then(|told| told.get(name));
            own.iter().all(|(name, amount)| told(name) == Some(amount))
        });
        kept && REPORTED.iter().all(|(kind, status)| {
            let told = api::condition::find(self.status.conditions(), kind);
            told.is_some_and(|told| told.status == *status)
        })
    }

    /// Where `allocatable` differs from `capacity` in what others added. A kubelet leaves
    /// capacity that others added alone, and derives `allocatable` from it.
    pub(crate) fn strays(&self, own: &ResourceList) -> Strays {
        let none = ResourceList::new();
        let capacity = self.status.capacity.as_ref().unwrap_or(&none);
        let allocatable = self.status.allocatable.as_ref().unwrap_or(&none);
        let names = capacity.keys().chain(allocatable.keys());
        let off = names.filter(|name| {
            !own.contains_key(*name) && capacity.get(*name) != allocatable.get(*name)
        });
        off.map(|name| (name.clone(), capacity.get(name).cloned())).collect()
    }

    /// Its addresses.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &str> {
        let addresses = self.status.addresses.iter().flatten();
        addresses.map(|own| own.address.as_str())
    }
}

/// A lease as far as those look who would run its node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SeenLease {
    pub(crate) metadata: SeenLeaseMeta,
    pub(crate) spec: SeenLeaseSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SeenLeaseMeta {
    pub(crate) name: Box<str>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct SeenLeaseSpec {
    holder_identity: Option<String>,
    pub(crate) lease_duration_seconds: Option<u32>,
    pub(crate) renew_time: Option<MicroTime>,
}

impl SeenLease {
    /// Who renews it; nobody where that one has ended.
    pub(crate) fn holder(&self) -> Option<&str> {
        let run = self.metadata.annotations.as_ref().and_then(|own| own.get(HELD_BY));
        match (run, &self.spec.holder_identity) {
            (Some(run), _) => Some(run.as_str()).filter(|run| !run.is_empty()),
            (None, Some(holder)) => Some(holder.as_str()),
            (None, None) => Some("somebody who gives no name"),
        }
    }
}

/// The end of a hold on a lease, so that whoever comes next need not wait.
pub(crate) fn release() -> Vec<u8> {
    bytes(&json!({ "metadata": { "annotations": { (HELD_BY): "" } } }))
}

impl Object for SeenNode {
    fn identity(&self) -> Identity<'_> {
        let SeenMeta { name, uid, resource_version } = &self.metadata;
        Identity { namespace: "", name, uid, resource_version }
    }
}

/// A node as the bodies need it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told<'a> {
    /// The number that its addresses follow from.
    pub(crate) block: u32,
    pub(crate) place: &'a Place,
    pub(crate) group: &'a NodeGroup,
    pub(crate) uid: &'a str,
    pub(crate) ready_since: Stamp,
    /// What others made of its allocatable amounts.
    pub(crate) strays: &'a Strays,
    /// Who runs it.
    pub(crate) holder: &'a str,
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

    /// The whole status of a node that exists, as a kubelet reports it.
    pub(crate) fn status_patch(&self, seed: Seed, now: Now) -> Vec<u8> {
        bytes(&json!({ "status": self.status(seed, now) }))
    }

    fn status(&self, seed: Seed, now: Now) -> Value {
        let name = &self.place.name;
        let id = |what: &str| digest(seed.of(what, name));
        let uuid = |what: &str| {
            let hex = id(what);
            let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..32]];
            parts.join("-")
        };
        let mut allocatable = json!(self.group.capacity);
        for (name, amount) in self.strays {
            allocatable[name] = json!(amount);
        }
        json!({
            "capacity": self.group.capacity,
            "allocatable": allocatable,
            "conditions": self.conditions(now),
            "addresses": [
                { "type": "InternalIP", "address": host_address(self.block) },
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

    /// Itself, as those name it that end with it.
    fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.place.name.clone(),
            uid: self.uid.to_owned(),
            ..OwnerReference::default()
        }
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
                "ownerReferences": [self.owner()],
                "annotations": { (HELD_BY): self.holder },
            },
            "spec": self.lease_spec(seconds, now),
        }))
    }

    /// Everything of a lease that exists, which may be an old one.
    pub(crate) fn lease_patch(&self, seconds: u64, now: Now) -> Vec<u8> {
        bytes(&json!({
            "metadata": {
                "ownerReferences": [self.owner()],
                "annotations": { (HELD_BY): self.holder },
            },
            "spec": self.lease_spec(seconds, now),
        }))
    }

    /// A new NodeMetric without a report, which ends with the node.
    pub(crate) fn metric(&self, interval_seconds: u64) -> Vec<u8> {
        bytes(&json!({
            "apiVersion": NodeMetric::api_version(),
            "kind": NodeMetric::KIND,
            "metadata": { "name": self.place.name, "ownerReferences": [self.owner()] },
            "spec": { "metricCollectPolicy": {
                "aggregateDurationSeconds": 300,
                "reportIntervalSeconds": interval_seconds,
                "nodeAggregatePolicy": { "durations": WINDOWS.map(length) },
            } },
        }))
    }

    /// Where its CPUs are, which ends with the node; none where it does not report that.
    pub(crate) fn layout(&self) -> Option<NodeResourceTopology> {
        let memory = self.group.capacity.get("memory").cloned().unwrap_or_default();
        self.group.layout.map(|layout| layout.report(self.owner(), &memory))
    }
}

/// A layout as it is written, new or over one that exists.
pub(crate) fn layout_body(layout: &NodeResourceTopology) -> Vec<u8> {
    let mut body = json!(layout);
    body["apiVersion"] = NodeResourceTopology::api_version().into();
    body["kind"] = NodeResourceTopology::KIND.into();
    bytes(&body)
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
pub(crate) fn report(
    now: Now,
    (node, system): (Usage, Usage),
    history: &History,
    pods: &[(&PodRun, Usage)],
) -> Vec<u8> {
    let mut text = String::with_capacity(2048 + pods.len() * 160);
    // Writing to a string cannot fail. Names, bands and classes need no escaping: the API
    // server accepts none that would.
    let _ = write!(
        text,
        r#"{{"status":{{"updateTime":"{}","nodeMetric":{{"nodeUsage":{},"systemUsage":{},"aggregatedNodeUsages":["#,
        Time::from(now.wall),
        resources(node),
        resources(system),
    );
    for (index, window) in history.windows().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, r#"{comma}{{"duration":"{}","usage":{{"#, length(window.seconds));
        for (index, (figure, usage)) in window.figures.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(text, r#"{comma}"{figure}":{}"#, resources(*usage));
        }
        text.push_str("}}");
    }
    text.push_str(r#"]},"podsMetric":["#);
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

/// A length of time as Go writes it, in whole minutes.
fn length(seconds: u32) -> String {
    format!("{}m0s", seconds / 60)
}

fn resources(usage: Usage) -> String {
    let number = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
    let cpu = Quantity::from_millis(number(usage.cpu_millis), Format::DecimalSi);
    // Whole kibibytes: nobody reads more, and it is shorter.
    let memory = Quantity::from_units(number(usage.memory_bytes) & !1023, Format::BinarySi);
    format!(r#"{{"resources":{{"cpu":"{cpu}","memory":"{memory}"}}}}"#)
}
