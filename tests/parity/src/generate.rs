//! Random clusters, pods to ask about, and changes in between.

mod profile;
mod rivals;
pub mod volumes;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::draw::Draw;

/// What happens in a script.
#[derive(Debug, Clone)]
pub enum Step {
    /// An object is there now, or is now this.
    Put(Value),
    /// An object is gone.
    Delete { kind: String, namespace: String, name: String },
    /// What would happen to this pod?
    Probe(Value),
}

/// A cluster and what happens in it.
#[derive(Debug, Clone)]
pub struct Script {
    /// What is there at first.
    pub objects: Vec<Value>,
    /// What happens then.
    pub steps: Vec<Step>,
    /// Whether it is asked who would make room.
    pub preempts: bool,
    /// What the scheduler is configured with; none for the default.
    pub config: Option<Value>,
}

/// So many seeds after each other have one configuration, so that what the engine keeps is
/// repaired from one cluster to the next.
const SEEDS_PER_CONFIGURATION: u64 = 4;

pub const NAMESPACES: [&str; 3] = ["default", "red", "blue"];
pub const ZONES: [&str; 3] = ["z1", "z2", "z3"];
pub const APPS: [&str; 3] = ["web", "db", "cache"];
/// Kinds by which pods are known to be alike.
const KINDS: [(&str, &str); 4] = [
    ("Service", "v1"),
    ("ReplicationController", "v1"),
    ("ReplicaSet", "apps/v1"),
    ("StatefulSet", "apps/v1"),
];
const HOSTNAME: &str = "kubernetes.io/hostname";
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Images and their sizes in MiB: one size for a name, wherever it is.
const IMAGES: [(&str, u64); 4] =
    [("web:1", 300), ("db:2", 900), ("cache:latest", 40), ("x/y:3", 2500)];

impl Script {
    /// The script of a seed.
    pub fn from_seed(seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let crowded = draw.percent(35);
        let nodes = if crowded { draw.between(1, 6) } else { draw.between(1, 14) };
        let mut objects: Vec<Value> =
            NAMESPACES.iter().map(|name| namespace(&mut draw, name)).collect();
        objects.extend((0..nodes).map(|index| node(&mut draw, index)));
        for namespace in NAMESPACES {
            for kind in KINDS {
                objects.extend(draw.maybe(40, |draw| owner(draw, namespace, kind)));
            }
        }
        let stored = draw.percent(60);
        if stored {
            objects.extend(volumes::objects(&mut draw, nodes));
        }
        let bound = draw.between(0, 40);
        for index in 0..bound {
            let node = draw.below(nodes);
            let mut pod = bound_pod(&mut draw, index, node);
            if stored {
                pod["spec"]["volumes"] = json!(volumes::of_pod(&mut draw));
            }
            objects.push(pod);
        }
        objects.extend(rivals::objects(&mut draw, nodes));
        let mut there = There(objects.iter().map(name_of).collect());
        let mut steps = Vec::new();
        for question in 0..draw.between(2, 8) {
            for _ in 0..draw.below(4) {
                let step = if stored && draw.percent(45) {
                    volumes::change(&mut draw, nodes)
                } else if draw.percent(20) {
                    rivals::change(&mut draw, nodes)
                } else {
                    change(&mut draw, nodes, bound)
                };
                steps.extend(there.allows(&step).then_some(step));
            }
            let mut pod = pod(&mut draw, &format!("asked-{question}"));
            if stored {
                pod["spec"]["volumes"] = json!(volumes::of_pod(&mut draw));
            }
            rivals::make_rival(&mut draw, &mut pod, nodes);
            steps.push(Step::Probe(pod));
        }
        if crowded {
            objects = objects.into_iter().map(|one| rivals::only(&mut draw, one)).collect();
            steps =
                steps.into_iter().map(|one| one.with(|one| rivals::only(&mut draw, one))).collect();
        } else if stored && draw.percent(60) {
            objects = objects.into_iter().map(volumes::only).collect();
            steps = steps.into_iter().map(|one| one.with(volumes::only)).collect();
        }
        let mut script = Self { objects, steps, preempts: draw.percent(85), config: None };
        script.configure(seed);
        script.give_each_port_once();
        if script.preempts {
            script.avoid_known_differences();
        }
        script
    }

    /// Draws a configuration, and of several profiles one for each pod that waits.
    fn configure(&mut self, seed: u64) {
        let group = seed / SEEDS_PER_CONFIGURATION;
        self.config = profile::configuration(&mut Draw::new(!group));
        let draw = &mut Draw::new(!seed);
        let config = self.config.as_ref().map(Value::to_string).unwrap_or_default();
        if config.contains('*') || config.contains("VolumeBinding") {
            // Where nobody else refuses it before, kube-scheduler fails for such a claim.
            self.all().for_each(volumes::own_up);
        }
        let count = self.config.iter().filter_map(|config| config["profiles"].as_array());
        if count.map(Vec::len).sum::<usize>() > 1 {
            let waits =
                |object: &Value| object["kind"] == "Pod" && object["spec"]["nodeName"].is_null();
            for pod in self.all().filter(|object| waits(object)) {
                pod["spec"]["schedulerName"] = json!(draw.one(&profile::NAMES));
            }
        }
    }

    /// What the script puts into the cluster and asks about.
    fn all(&mut self) -> impl Iterator<Item = &mut Value> {
        let put = self.steps.iter_mut().filter_map(|step| match step {
            Step::Put(object) | Step::Probe(object) => Some(object),
            Step::Delete { .. } => None,
        });
        self.objects.iter_mut().chain(put)
    }

    /// Leaves out what preemption is known to judge otherwise than kube-scheduler's, as
    /// docs/COMPATIBILITY.md says.
    fn avoid_known_differences(&mut self) {
        self.all().for_each(volumes::tell_claims_apart);
        for step in &mut self.steps {
            if let Step::Delete { kind, namespace, name } = step
                && kind == "PersistentVolumeClaim"
                && namespace != "default"
            {
                *name = format!("{namespace}-{name}");
            }
        }
        let binds = |one: &Value| one["whenUnsatisfiable"] == "DoNotSchedule";
        let spreads = self.steps.iter().any(|step| match step {
            Step::Probe(pod) => {
                let rules = pod["spec"]["topologySpreadConstraints"].as_array();
                rules.into_iter().flatten().any(binds)
            }
            _ => false,
        });
        let by_default = self.config.as_ref().is_some_and(|config| {
            // A default constraint is one of every pod that says nothing itself.
            config.to_string().contains("DoNotSchedule")
        });
        if spreads || by_default {
            for object in self.all() {
                rivals::stay(object);
            }
        }
    }

    /// Of two pods of a node with the same port, kube-scheduler forgets the port when one goes, and
    /// we do not: no node has two.
    fn give_each_port_once(&mut self) {
        let put = self.steps.iter_mut().filter_map(|step| match step {
            Step::Put(object) => Some(object),
            _ => None,
        });
        let mut taken = BTreeSet::new();
        for object in self.objects.iter_mut().chain(put) {
            let is_pod = object["kind"] == "Pod";
            let spec = object.get_mut("spec").and_then(Value::as_object_mut);
            let Some(spec) = spec.filter(|_| is_pod) else { continue };
            let Some(node) = spec.get("nodeName").map(ToString::to_string) else { continue };
            for list in ["containers", "initContainers"] {
                let containers = spec.get_mut(list).and_then(Value::as_array_mut);
                for container in containers.into_iter().flatten() {
                    let ports = container.get_mut("ports").and_then(Value::as_array_mut);
                    if let Some(ports) = ports {
                        ports.retain(|port| {
                            // Both mean every address.
                            let port = port.to_string().replace("0.0.0.0", "");
                            taken.insert((node.clone(), port))
                        });
                    }
                }
            }
        }
    }

    /// How many questions there are.
    pub fn probes(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, Step::Probe(_))).count()
    }

    /// What the oracle is asked.
    pub fn request(&self) -> Value {
        let step = |step: &Step| match step {
            Step::Put(object) => json!({"upsert": object}),
            Step::Delete { kind, namespace, name } => {
                json!({"delete": {"kind": kind, "namespace": namespace, "name": name}})
            }
            Step::Probe(pod) => json!({"probe": {"pod": pod, "noPreemption": !self.preempts}}),
        };
        let steps: Vec<Value> = self.steps.iter().map(step).collect();
        let mut request = json!({"objects": self.objects, "steps": steps});
        if let Some(config) = &self.config {
            request["config"] = config.clone();
        }
        request
    }
}

impl Step {
    /// The same with another object.
    fn with(self, make: impl FnOnce(Value) -> Value) -> Self {
        match self {
            Self::Put(object) => Self::Put(make(object)),
            Self::Probe(pod) => Self::Probe(make(pod)),
            gone @ Self::Delete { .. } => gone,
        }
    }
}

/// Which objects there are.
struct There(BTreeSet<(String, String, String)>);

impl There {
    /// Whether a step can happen: what is deleted is there, and a pod does not change its node.
    fn allows(&mut self, step: &Step) -> bool {
        match step {
            Step::Put(object) => {
                let name = name_of(object);
                self.0.insert(name.clone()) || name.0 != "Pod"
            }
            Step::Delete { kind, namespace, name } => {
                self.0.remove(&(kind.clone(), namespace.clone(), name.clone()))
            }
            Step::Probe(_) => true,
        }
    }
}

/// Kind, namespace and name.
pub fn name_of(object: &Value) -> (String, String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    (text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
}

fn change(draw: &mut Draw, nodes: usize, bound: usize) -> Step {
    match draw.below(6) {
        0 => {
            let index = draw.below(nodes);
            Step::Put(node(draw, index))
        }
        1 if nodes > 2 => {
            let name = format!("node-{}", draw.below(nodes));
            Step::Delete { kind: "Node".to_owned(), namespace: String::new(), name }
        }
        2 | 3 if bound > 0 => {
            let index = draw.below(bound);
            let namespace = namespace_of(index).to_owned();
            Step::Delete { kind: "Pod".to_owned(), namespace, name: format!("bound-{index}") }
        }
        4 => {
            let name = *draw.one(&NAMESPACES);
            let kind = KINDS[draw.below(4)];
            match draw.below(3) {
                0 => Step::Put(namespace(draw, name)),
                1 => Step::Put(owner(draw, name, kind)),
                _ => Step::Delete {
                    kind: kind.0.to_owned(),
                    namespace: name.to_owned(),
                    name: "own".to_owned(),
                },
            }
        }
        _ => {
            let (index, node) = (bound + draw.below(20), draw.below(nodes));
            Step::Put(bound_pod(draw, index, node))
        }
    }
}

pub fn namespace(draw: &mut Draw, name: &str) -> Value {
    let team = draw.maybe(60, |draw| *draw.one(&["a", "b"]));
    let labels = team.map_or(json!({}), |team| json!({"team": team}));
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

fn owner(draw: &mut Draw, namespace: &str, (kind, version): (&str, &str)) -> Value {
    let labels = json!({"app": draw.one(&APPS)});
    let selector = match kind {
        "Service" | "ReplicationController" => labels.clone(),
        _ => json!({"matchLabels": labels}),
    };
    let mut spec = json!({"selector": selector});
    if kind == "Service" {
        spec["ports"] = json!([{"port": 80}]);
    } else {
        let containers = json!([{"name": "c", "image": "c"}]);
        spec["template"] =
            json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    }
    let metadata = json!({"name": "own", "namespace": namespace});
    json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})
}

pub fn node(draw: &mut Draw, index: usize) -> Value {
    let name = format!("node-{index}");
    let mut labels = Map::new();
    if draw.percent(92) {
        labels.insert(HOSTNAME.to_owned(), json!(name));
    }
    if draw.percent(85) {
        labels.insert(ZONE.to_owned(), json!(draw.one(&ZONES)));
    }
    if draw.percent(50) {
        labels.insert("disk".to_owned(), json!(draw.one(&["ssd", "hdd"])));
    }
    if draw.percent(40) {
        labels.insert("size".to_owned(), json!(draw.one(&["1", "5", "12", "many"])));
    }
    for label in ["topology.ebs.csi.aws.com/zone", "topology.gke.io/zone"] {
        if draw.percent(30) {
            labels.insert(label.to_owned(), json!(draw.one(&ZONES)));
        }
    }
    let count = draw.below(3);
    let taints: Vec<Value> = draw.list(if count == 2 { 2 } else { 0 }, taint);
    let count = draw.below(4);
    let images: Vec<Value> = draw.list(count, |draw| {
        let (name, mebibytes) = *draw.one(&IMAGES);
        json!({"names": [name], "sizeBytes": mebibytes << 20})
    });
    let mut allocatable = json!({
        "cpu": draw.one(&["1", "2", "4", "8", "500m", "3900m"]),
        "memory": draw.one(&["1Gi", "2Gi", "8Gi", "16000M", "500Mi"]),
        "pods": draw.one(&["2", "5", "20", "110"]),
    });
    if draw.percent(40) {
        allocatable["ephemeral-storage"] = json!(draw.one(&["1Gi", "20Gi"]));
    }
    if draw.percent(40) {
        allocatable["example.com/gpu"] = json!(draw.one(&["1", "2", "8"]));
    }
    if draw.percent(20) {
        allocatable["hugepages-2Mi"] = json!("64Mi");
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": draw.percent(8)},
        "status": {"allocatable": allocatable, "capacity": allocatable, "images": unique(images)},
    })
}

/// A node names each image once.
fn unique(images: Vec<Value>) -> Vec<Value> {
    let mut unique: Vec<Value> = Vec::new();
    for image in images {
        if !unique.contains(&image) {
            unique.push(image);
        }
    }
    unique
}

pub fn taint(draw: &mut Draw) -> Value {
    json!({
        "key": draw.one(&["dedicated", "infra"]),
        "value": draw.one(&["", "gpu"]),
        "effect": draw.one(&["NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute"]),
    })
}

pub fn namespace_of(index: usize) -> &'static str {
    NAMESPACES[[0, 0, 0, 1, 2][index % 5]]
}

pub fn bound_pod(draw: &mut Draw, index: usize, node: usize) -> Value {
    let mut pod = pod(draw, &format!("bound-{index}"));
    pod["metadata"]["namespace"] = json!(namespace_of(index));
    pod["spec"]["nodeName"] = json!(format!("node-{node}"));
    pod["spec"]["priority"] = json!(draw.below(3));
    let minute = index % 60;
    pod["status"] =
        json!({"phase": "Running", "startTime": format!("2025-12-01T00:{minute:02}:00Z")});
    if draw.percent(8) {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        rivals::give_way(draw, &mut pod);
    }
    if draw.percent(12) {
        rivals::resize(draw, &mut pod);
    }
    pod
}

pub fn pod(draw: &mut Draw, name: &str) -> Value {
    let mut labels = json!({"app": draw.one(&APPS)});
    if draw.percent(40) {
        labels["tier"] = json!(draw.one(&["front", "back"]));
    }
    let count = if draw.percent(75) { 1 } else { draw.between(2, 3) };
    let mut number = 0;
    let containers: Vec<Value> = draw.list(count, |draw| container(draw, &mut number));
    let count = if draw.percent(80) { 0 } else { draw.between(1, 3) };
    let before: Vec<Value> = draw.list(count, |draw| {
        let mut container = container(draw, &mut number);
        if draw.percent(40) {
            container["restartPolicy"] = json!("Always");
        }
        container
    });
    let mut spec = json!({"containers": containers, "initContainers": before});
    if draw.percent(15) {
        let count = draw.between(1, 2);
        spec["tolerations"] = json!(draw.list(count, toleration));
    }
    if draw.percent(12) {
        spec["nodeSelector"] = json!({"disk": draw.one(&["ssd", "hdd"])});
    }
    if draw.percent(8) {
        spec["overhead"] = json!({"cpu": "150m", "memory": "64Mi"});
    }
    if draw.percent(8) {
        let cpu = draw.one(&["200m", "900m"]);
        spec["resources"] = json!({"requests": {"cpu": cpu, "memory": "256Mi"}});
    }
    let mut affinity = Map::new();
    if draw.percent(20) {
        affinity.insert("nodeAffinity".to_owned(), node_affinity(draw));
    }
    if draw.percent(18) {
        affinity.insert("podAffinity".to_owned(), pod_affinity(draw));
    }
    if draw.percent(22) {
        affinity.insert("podAntiAffinity".to_owned(), pod_affinity(draw));
    }
    if !affinity.is_empty() {
        spec["affinity"] = Value::Object(affinity);
    }
    let owners = draw.maybe(50, |draw| {
        let (kind, version) = KINDS[draw.between(1, 3)];
        json!([{"apiVersion": version, "kind": kind, "name": "own", "uid": "own", "controller": true}])
    });
    if draw.percent(30) {
        let count = draw.between(1, 3);
        spec["topologySpreadConstraints"] = json!(draw.list(count, constraint));
    }
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels},
        "spec": spec,
    });
    if let Some(owners) = owners {
        pod["metadata"]["ownerReferences"] = owners;
    }
    pod
}

fn container(draw: &mut Draw, number: &mut usize) -> Value {
    *number += 1;
    let mut requests = Map::new();
    if draw.percent(70) {
        let cpu = draw.one(&["100m", "250m", "1", "1500m", "0", "10m", "1234m"]);
        requests.insert("cpu".to_owned(), json!(cpu));
    }
    if draw.percent(70) {
        let memory = draw.one(&["64Mi", "200M", "1Gi", "1500Mi", "1000"]);
        requests.insert("memory".to_owned(), json!(memory));
    }
    if draw.percent(12) {
        requests.insert("ephemeral-storage".to_owned(), json!(draw.one(&["100Mi", "5Gi"])));
    }
    if draw.percent(12) {
        requests.insert("example.com/gpu".to_owned(), json!(draw.one(&["1", "2"])));
    }
    let (image, _) = draw.one(&IMAGES);
    let mut container = json!({
        "name": format!("c{number}"),
        "image": image.strip_suffix(":latest").unwrap_or(image),
        "resources": {"requests": requests},
    });
    if draw.percent(10) {
        container["ports"] = json!([{
            "containerPort": 80,
            "hostPort": draw.one(&[80, 81]),
            "hostIP": draw.one(&["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
            "protocol": draw.one(&["TCP", "UDP"]),
        }]);
    }
    container
}

pub fn toleration(draw: &mut Draw) -> Value {
    let effect = draw.one(&["", "NoSchedule", "PreferNoSchedule", "NoExecute"]);
    match draw.below(4) {
        0 => json!({"operator": "Exists", "effect": effect}),
        1 => json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}),
        _ => json!({
            "key": draw.one(&["dedicated", "infra"]),
            "operator": "Equal",
            "value": draw.one(&["", "gpu"]),
            "effect": effect,
        }),
    }
}

fn node_term(draw: &mut Draw) -> Value {
    let count = draw.below(3);
    let expressions = draw.list(count, |draw| match draw.below(4) {
        0 => json!({"key": "size", "operator": draw.one(&["Gt", "Lt"]), "values": ["4"]}),
        1 => json!({"key": "disk", "operator": draw.one(&["Exists", "DoesNotExist"])}),
        _ => {
            let count = draw.between(1, 2);
            let values = draw.list(count, |draw| *draw.one(&ZONES));
            json!({"key": ZONE, "operator": draw.one(&["In", "NotIn"]), "values": values})
        }
    });
    let mut term = json!({"matchExpressions": expressions});
    if draw.percent(10) {
        let operator = draw.one(&["In", "In", "NotIn"]);
        let name = format!("node-{}", draw.below(10));
        term["matchFields"] =
            json!([{"key": "metadata.name", "operator": operator, "values": [name]}]);
    }
    term
}

fn node_affinity(draw: &mut Draw) -> Value {
    let mut affinity = Map::new();
    if draw.percent(60) {
        let count = draw.between(1, 2);
        let terms = draw.list(count, node_term);
        affinity.insert(
            "requiredDuringSchedulingIgnoredDuringExecution".to_owned(),
            json!({"nodeSelectorTerms": terms}),
        );
    }
    if draw.percent(60) {
        let count = draw.between(1, 3);
        let preferred = draw.list(
            count,
            |draw| json!({"weight": draw.between(1, 100), "preference": node_term(draw)}),
        );
        affinity
            .insert("preferredDuringSchedulingIgnoredDuringExecution".to_owned(), json!(preferred));
    }
    Value::Object(affinity)
}

fn selector(draw: &mut Draw) -> Option<Value> {
    match draw.below(12) {
        0 => None,
        1 => Some(json!({})),
        2 => Some(json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]})),
        3 => Some(
            json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}),
        ),
        4 => Some(json!({"matchLabels": {"app": draw.one(&APPS), "tier": "front"}})),
        _ => Some(json!({"matchLabels": {"app": draw.one(&APPS)}})),
    }
}

fn topology_key(draw: &mut Draw) -> &'static str {
    [HOSTNAME, ZONE, ZONE, "disk"][draw.below(4)]
}

fn pod_term(draw: &mut Draw) -> Value {
    let mut term = json!({"topologyKey": topology_key(draw)});
    if let Some(selector) = selector(draw) {
        term["labelSelector"] = selector;
    }
    if draw.percent(20) {
        term["namespaces"] = json!([draw.one(&NAMESPACES)]);
    }
    match draw.below(10) {
        0 => term["namespaceSelector"] = json!({}),
        1 => term["namespaceSelector"] = json!({"matchLabels": {"team": "a"}}),
        2 => {
            // Not `DoesNotExist` or `NotIn`: of the pod that is asked about, kube-scheduler takes
            // such a selector to mean every namespace.
            let some = json!({"key": "team", "operator": "Exists"});
            term["namespaceSelector"] = json!({"matchExpressions": [some]});
        }
        _ => {}
    }
    term
}

fn pod_affinity(draw: &mut Draw) -> Value {
    let mut affinity = Map::new();
    if draw.percent(50) {
        let count = draw.between(1, 2);
        let required = draw.list(count, pod_term);
        affinity
            .insert("requiredDuringSchedulingIgnoredDuringExecution".to_owned(), json!(required));
    }
    if draw.percent(70) {
        let count = draw.between(1, 2);
        let preferred = draw.list(
            count,
            |draw| json!({"weight": draw.between(1, 100), "podAffinityTerm": pod_term(draw)}),
        );
        affinity
            .insert("preferredDuringSchedulingIgnoredDuringExecution".to_owned(), json!(preferred));
    }
    Value::Object(affinity)
}

fn constraint(draw: &mut Draw) -> Value {
    let hard = draw.percent(50);
    let mut constraint = json!({
        "maxSkew": draw.between(1, 3),
        "topologyKey": topology_key(draw),
        "whenUnsatisfiable": if hard { "DoNotSchedule" } else { "ScheduleAnyway" },
    });
    if let Some(selector) = selector(draw) {
        constraint["labelSelector"] = selector;
    }
    if hard && draw.percent(30) {
        constraint["minDomains"] = json!(draw.between(1, 4));
    }
    if draw.percent(25) {
        constraint["nodeAffinityPolicy"] = json!(draw.one(&["Honor", "Ignore"]));
    }
    if draw.percent(25) {
        constraint["nodeTaintsPolicy"] = json!(draw.one(&["Honor", "Ignore"]));
    }
    if draw.percent(15) && constraint["labelSelector"].is_object() {
        constraint["matchLabelKeys"] = json!(["tier"]);
    }
    constraint
}
