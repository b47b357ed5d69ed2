//! Random scripts for queues.

use anyhow::Result;
use serde_json::{Value, json};

use super::play::{Player, key_of};
use crate::draw::Draw;
use crate::generate::{APPS, NAMESPACES, ZONE, ZONES, bound_pod, namespace, node, pod, taint};
use crate::generate::{Step, name_of, namespace_of, toleration, volumes};

/// What is there at first, and what happens then, in the words of the oracle.
#[derive(Debug, Clone)]
pub struct Script {
    /// What is there at first.
    pub objects: Vec<Value>,
    /// What happens then.
    pub steps: Vec<Value>,
    /// The last step meets pods that were refused for their volumes, of which our queue may wake more
    /// than the real one.
    pub is_coarse: bool,
}

const PLUGINS: [&str; 8] = [
    "NodeResourcesFit",
    "NodeAffinity",
    "TaintToleration",
    "NodePorts",
    "NodeUnschedulable",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeName",
];
const VOLUME_PLUGINS: [&str; 4] =
    ["VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"];
const NODES: usize = 5;
/// How many scripts are about storage.
const STORED_PERCENT: usize = 25;

/// Makes a script step by step; our queue says which steps make sense.
struct Writer {
    draw: Draw,
    player: Player,
    steps: Vec<Value>,
    pods_made: usize,
    bound_made: usize,
    manner: Manner,
}

/// How pods are refused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// By any plugins.
    Any,
    /// By any plugins, of which some wait for something. Nodes change in one way at a time then:
    /// docs/COMPATIBILITY.md says why.
    Mixed,
    /// By those plugins that do refuse it, and a pod that fits is bound.
    Honest,
}

impl Script {
    /// The script of a seed.
    ///
    /// # Errors
    /// When the generator makes a step that nobody can play.
    pub fn from_seed(seed: u64) -> Result<Self> {
        if Draw::new(!seed).percent(STORED_PERCENT) {
            return Self::of_storage(seed);
        }
        let mut draw = Draw::new(seed);
        let mut objects: Vec<Value> =
            NAMESPACES.iter().map(|name| namespace(&mut draw, name)).collect();
        let nodes = draw.between(0, NODES - 1);
        objects.extend((0..nodes).map(|index| node(&mut draw, index)));
        let bound = if nodes == 0 { 0 } else { draw.below(8) };
        for index in 0..bound {
            let node = draw.below(nodes);
            objects.push(bound_pod(&mut draw, index, node));
        }
        let player = Player::start(&objects)?;
        let steps = Vec::new();
        let manner = *draw.one(&[Manner::Any, Manner::Any, Manner::Mixed, Manner::Honest]);
        let mut writer = Writer { draw, player, steps, pods_made: 0, bound_made: bound, manner };
        for _ in 0..writer.draw.between(20, 70) {
            writer.write()?;
        }
        Ok(Self { objects, steps: writer.steps, is_coarse: false })
    }

    /// A script of pods that were refused for their volumes, and of one change then: in most of
    /// them one of storage, in others one of nodes or pods.
    ///
    /// # Errors
    /// When the generator makes a step that nobody can play.
    pub fn of_storage(seed: u64) -> Result<Self> {
        let mut draw = Draw::new(seed);
        let mut objects: Vec<Value> =
            NAMESPACES.iter().map(|name| namespace(&mut draw, name)).collect();
        let nodes = draw.between(1, NODES - 1);
        objects.extend((0..nodes).map(|index| node(&mut draw, index)));
        objects.extend(volumes::objects(&mut draw, nodes));
        let bound = draw.below(6);
        for index in 0..bound {
            let node = draw.below(nodes);
            let mut pod = bound_pod(&mut draw, index, node);
            pod["spec"]["volumes"] = json!(volumes::of_pod(&mut draw));
            objects.push(pod);
        }
        let player = Player::start(&objects)?;
        let (steps, manner) = (Vec::new(), Manner::Any);
        let mut writer = Writer { draw, player, steps, pods_made: 0, bound_made: bound, manner };
        for _ in 0..writer.draw.between(2, 5) {
            writer.refuse_stored_pod()?;
        }
        if writer.draw.percent(50) {
            writer.play(json!({"advance": "12000ms"}))?;
        }
        match writer.draw.below(8) {
            0..=5 => writer.change_storage(&objects, nodes)?,
            6 => writer.change_node()?,
            _ => writer.change_placed()?,
        }
        Ok(Self { objects, steps: writer.steps, is_coarse: true })
    }
}

impl Writer {
    fn write(&mut self) -> Result<()> {
        match self.draw.below(20) {
            0..=2 => self.add_pod(),
            3..=6 => self.play(json!({"pop": {}})),
            7..=10 => self.answer(),
            11 | 12 => self.change_node(),
            13..=15 => self.change_placed(),
            16 => self.change_pending(),
            17 => self.interfere(),
            _ => {
                let most = *self.draw.one(&[400, 1500, 5000, 12_000, 200_000]);
                let millis = self.draw.between(1, most);
                self.play(json!({"advance": format!("{millis}ms")}))
            }
        }
    }

    fn play(&mut self, step: Value) -> Result<()> {
        self.player.step(&step)?;
        self.steps.push(step);
        Ok(())
    }

    /// Pods with equal times have no order.
    fn wait_a_little(&mut self) -> Result<()> {
        self.play(json!({"advance": "3ms"}))
    }

    fn add_pod(&mut self) -> Result<()> {
        self.wait_a_little()?;
        let number = self.pods_made;
        self.pods_made += 1;
        let mut pod = pod(&mut self.draw, &format!("new-{number}"));
        pod["metadata"]["namespace"] = json!(namespace_of(number));
        pod["spec"]["priority"] = json!(self.draw.below(3));
        if self.draw.percent(15) {
            pod["spec"]["schedulingGates"] = json!([{"name": "g/1"}, {"name": "g/2"}]);
        }
        self.play(json!({"upsert": pod}))
    }

    /// A pod with volumes comes, is tried and refused for them.
    fn refuse_stored_pod(&mut self) -> Result<()> {
        self.wait_a_little()?;
        let mut pod = pod(&mut self.draw, &format!("new-{}", self.pods_made));
        pod["metadata"]["namespace"] = json!(self.draw.one(&["default", "red"]));
        pod["spec"]["volumes"] = json!(volumes::of_pod(&mut self.draw));
        self.pods_made += 1;
        self.play(json!({"upsert": pod}))?;
        self.play(json!({"pop": {}}))?;
        self.wait_a_little()?;
        let count = self.draw.between(1, 2);
        let plugins = self.draw.list(count, |draw| *draw.one(&VOLUME_PLUGINS));
        self.play(json!({"reject": {"pod": key_of(&pod), "unschedulable": plugins}}))
    }

    /// Something of storage comes, changes or goes.
    fn change_storage(&mut self, objects: &[Value], nodes: usize) -> Result<()> {
        loop {
            match volumes::change(&mut self.draw, nodes) {
                Step::Put(object) => return self.play(json!({"upsert": object})),
                Step::Delete { kind, namespace, name } => {
                    let key = (kind.clone(), namespace.clone(), name.clone());
                    if objects.iter().any(|object| name_of(object) == key) {
                        let gone = json!({"kind": kind, "namespace": namespace, "name": name});
                        return self.play(json!({"delete": gone}));
                    }
                }
                Step::Probe(_) => {}
            }
        }
    }

    fn answer(&mut self) -> Result<()> {
        let flights = self.player.in_flight.clone();
        if flights.is_empty() {
            return Ok(());
        }
        let pod = self.draw.one(&flights).clone();
        let nodes: Vec<String> = self.player.nodes.keys().cloned().collect();
        if self.draw.percent(12) && !nodes.is_empty() && self.player.pods.contains_key(&pod) {
            let node = self.draw.one(&nodes).clone();
            return self.play(json!({"bind": {"pod": pod, "node": node}}));
        }
        self.wait_a_little()?;
        if self.manner == Manner::Honest {
            return match self.player.verdict(&pod) {
                Ok(node) => self.play(json!({"bind": {"pod": pod, "node": node}})),
                Err(plugins) => {
                    self.play(json!({"reject": {"pod": pod, "unschedulable": plugins}}))
                }
            };
        }
        let count = self.draw.between(1, 2);
        let refused = |draw: &mut Draw, count| draw.list(count, |draw| *draw.one(&PLUGINS));
        let verdict = match self.draw.below(10) {
            0 => json!({"pod": pod}),
            1 => json!({"pod": pod, "pending": refused(&mut self.draw, 1)}),
            2..=5 if self.manner == Manner::Mixed => {
                let (some, others) = (refused(&mut self.draw, count), refused(&mut self.draw, 1));
                json!({"pod": pod, "unschedulable": some, "pending": others})
            }
            _ => json!({"pod": pod, "unschedulable": refused(&mut self.draw, count)}),
        };
        self.play(json!({"reject": verdict}))
    }

    fn change_node(&mut self) -> Result<()> {
        let index = self.draw.below(NODES);
        let name = format!("node-{index}");
        let Some(mut changed) = self.player.nodes.get(&name).cloned() else {
            let node = node(&mut self.draw, index);
            return self.play(json!({"upsert": node}));
        };
        let ways = if self.manner == Manner::Mixed { 7 } else { 9 };
        match self.draw.below(ways) {
            0 => return self.play(json!({"delete": {"kind": "Node", "name": name}})),
            1 => changed["spec"]["unschedulable"] = json!(self.draw.percent(50)),
            2 => changed["metadata"]["labels"][ZONE] = json!(self.draw.one(&ZONES)),
            3 => {
                changed["metadata"]["labels"]["disk"] = json!(self.draw.one(&["ssd", "hdd"]));
            }
            4 => {
                if let Some(labels) = changed["metadata"]["labels"].as_object_mut() {
                    labels.remove(ZONE);
                }
            }
            5 => changed["status"]["allocatable"]["cpu"] = json!(self.draw.one(&["1", "4", "16"])),
            6 => changed["spec"]["taints"] = json!([taint(&mut self.draw)]),
            7 => {
                changed["status"]["allocatable"]["pods"] = json!(self.draw.one(&["3", "50"]));
                changed["spec"]["taints"] = json!([]);
            }
            _ => changed = node(&mut self.draw, index),
        }
        self.play(json!({"upsert": changed}))
    }

    /// A pod with a node comes, goes or changes.
    fn change_placed(&mut self) -> Result<()> {
        let is_bound = |pod: &&Value| !pod["spec"]["nodeName"].is_null();
        let bound: Vec<Value> = self.player.pods.values().filter(is_bound).cloned().collect();
        if bound.is_empty() || self.draw.percent(35) {
            let index = self.bound_made;
            self.bound_made += 1;
            let node = self.draw.below(NODES);
            let pod = bound_pod(&mut self.draw, index, node);
            return self.play(json!({"upsert": pod}));
        }
        let mut pod = self.draw.one(&bound).clone();
        match self.draw.below(5) {
            0 => pod["metadata"]["labels"]["app"] = json!(self.draw.one(&APPS)),
            1 => pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1m"),
            2 => {
                pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
            }
            _ => return self.delete_pod(&pod),
        }
        self.play(json!({"upsert": pod}))
    }

    fn delete_pod(&mut self, pod: &Value) -> Result<()> {
        let metadata = &pod["metadata"];
        let (namespace, name) = (&metadata["namespace"], &metadata["name"]);
        self.play(json!({"delete": {"kind": "Pod", "namespace": namespace, "name": name}}))
    }

    fn pending(&mut self) -> Option<Value> {
        let is_pending = |pod: &&Value| pod["spec"]["nodeName"].is_null();
        let pending: Vec<Value> = self.player.pods.values().filter(is_pending).cloned().collect();
        (!pending.is_empty()).then(|| self.draw.one(&pending).clone())
    }

    fn change_pending(&mut self) -> Result<()> {
        let Some(mut pod) = self.pending() else { return Ok(()) };
        match self.draw.below(6) {
            0 => pod["metadata"]["labels"]["app"] = json!(self.draw.one(&APPS)),
            1 => pod["metadata"]["annotations"] = json!({"note": "read by nobody"}),
            2 => {
                let more = toleration(&mut self.draw);
                match pod["spec"]["tolerations"].as_array_mut() {
                    Some(list) => list.push(more),
                    None => pod["spec"]["tolerations"] = json!([more]),
                }
            }
            3 => pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1m"),
            _ => {
                if let Some(gates) = pod["spec"]["schedulingGates"].as_array_mut() {
                    gates.pop();
                }
            }
        }
        self.play(json!({"upsert": pod}))
    }

    /// A pod without a node is deleted, bound by somebody else, or asked for.
    fn interfere(&mut self) -> Result<()> {
        let Some(pod) = self.pending() else { return Ok(()) };
        match self.draw.below(4) {
            0 => self.delete_pod(&pod),
            1 => {
                let node = format!("node-{}", self.draw.below(NODES));
                self.play(json!({"bind": {"pod": key_of(&pod), "node": node}}))
            }
            _ => self.play(json!({"activate": [key_of(&pod)]})),
        }
    }
}
