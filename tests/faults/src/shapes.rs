//! Pods and nodes as a seed draws them, and as they are written.

use std::sync::Arc;

use api::elastic_quota::{PREEMPTIBLE_LABEL, QUOTA_NAME_LABEL};
use api::qos::QOS_CLASS_LABEL;
use api::reservation::{AFFINITY, PRE_ALLOCATABLE_LABEL, SPARED_LABEL};
use serde_json::{Value, json};

use crate::draw::Draw;
use crate::gangs::Gang;
use crate::shares::LEAVES;

pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const HOST: &str = "kubernetes.io/hostname";
/// The taint that some pods tolerate.
pub const TAINT: &str = "kept";
pub const MEGA: i64 = 1024 * 1024;

/// How far something reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Host,
    Zone,
}

impl Reach {
    fn key(self) -> &'static str {
        match self {
            Self::Host => HOST,
            Self::Zone => ZONE,
        }
    }
}

/// Whether a pod makes room for gangs, and for others of quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tenure {
    /// It does.
    Movable,
    /// It never does, and uses only what its quota is guaranteed.
    Fixed,
    /// It does not where somebody is more important, and does where its quota uses too much.
    Spared,
}

impl Tenure {
    fn drawn(draw: &mut Draw) -> Self {
        match draw.below(100) {
            0..12 => Self::Fixed,
            12..22 => Self::Spared,
            _ => Self::Movable,
        }
    }
}

/// What a pod asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    pub app: &'static str,
    pub cpu_millis: i64,
    pub memory_mega: i64,
    pub port: Option<u16>,
    pub priority: i32,
    pub tolerates: bool,
    pub zone: Option<&'static str>,
    /// No other pod of the same app within this reach.
    pub apart: Option<Reach>,
    /// A pod of this app in the same zone.
    pub near: Option<&'static str>,
    /// Pods of the same app differ by one between zones at most.
    pub spread: bool,
    /// It has a claim whose volume is made when its node is known.
    pub volume: bool,
    /// It is held back at first.
    pub gated: bool,
    /// Which profile it is for.
    pub scheduler: &'static str,
    /// It has CPUs of its own.
    pub own_cpus: bool,
    /// It must use a reservation.
    pub must_use: bool,
    /// Any reservation may take it over.
    pub may_be_taken_over: bool,
    /// The gang that it is a member of.
    pub gang: Option<Arc<Gang>>,
    /// The quota that it names.
    pub quota: Option<&'static str>,
    pub tenure: Tenure,
}

/// The names of the profiles. The second one fills nodes instead of emptying them.
pub const PROFILES: [&str; 2] = ["default-scheduler", "packer"];
/// The name of the profile that uses reservations.
pub const KOORDINATOR: &str = "koord-scheduler";
/// The profile with gangs and quotas.
pub const BATCH: &str = "batch-scheduler";
/// The app of all members of gangs, which no other pod minds.
const MEMBERS: &str = "members";
/// The label by which a reservation tells whom it is for.
pub const HELD_FOR: &str = "held-for";
/// The priority of pods that have CPUs of their own.
pub const PRIORITY_OF_OWN: i32 = 9500;
/// The class of storage whose volumes are made when a pod needs them.
pub const CLASS: &str = "made";
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// What the schedulers are told.
pub const CONFIGURATION: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: packer
  plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
";

pub const APPS: [&str; 4] = ["web", "db", "cache", "batch"];
pub const ZONES: [&str; 3] = ["a", "b", "c"];

/// Mostly one that there is.
fn a_quota(draw: &mut Draw) -> Option<&'static str> {
    draw.chance(900).then(|| LEAVES[draw.below(LEAVES.len())])
}

/// One of few, so that some are more important than others and many are not.
fn a_priority(draw: &mut Draw) -> i32 {
    [0, 0, 10, 100, 1000][draw.below(5)]
}

impl Shape {
    pub fn drawn(draw: &mut Draw) -> Self {
        let some = |draw: &mut Draw, per_mille| draw.chance(per_mille);
        let app = APPS[draw.below(APPS.len())];
        let sizes = if some(draw, 60) { 6 } else { 5 };
        let cpu_millis = [100, 100, 250, 500, 1000, 9000][draw.below(sizes)];
        Self {
            app,
            cpu_millis,
            memory_mega: [32, 64, 256][draw.below(3)],
            port: some(draw, 150).then(|| [8080, 9090][draw.below(2)]),
            priority: if some(draw, 200) { [10, 100, 1000][draw.below(3)] } else { 0 },
            tolerates: some(draw, 300),
            zone: some(draw, 120).then(|| ZONES[draw.below(ZONES.len())]),
            apart: some(draw, 200).then(|| [Reach::Host, Reach::Host, Reach::Zone][draw.below(3)]),
            near: some(draw, 120).then(|| APPS[draw.below(APPS.len())]),
            spread: some(draw, 200),
            volume: some(draw, 120),
            gated: some(draw, 100),
            scheduler: if some(draw, 250) { PROFILES[1] } else { PROFILES[0] },
            own_cpus: false,
            must_use: false,
            may_be_taken_over: false,
            gang: None,
            quota: None,
            tenure: Tenure::Movable,
        }
    }

    /// The same where there are quotas.
    pub fn among_quotas(mut self, draw: &mut Draw) -> Self {
        if draw.chance(500) {
            self.scheduler = BATCH;
            self.quota = a_quota(draw);
            self.priority = a_priority(draw);
            self.tenure = Tenure::drawn(draw);
            (self.own_cpus, self.must_use) = (false, false);
        }
        self
    }

    /// What all members of a gang ask for. Where one fits, it does not matter which of them it is, so that
    /// it is plain whether all do.
    pub fn of_members(draw: &mut Draw) -> Self {
        Self {
            app: MEMBERS,
            cpu_millis: [250, 500, 1000, 2000][draw.below(4)],
            memory_mega: [32, 64, 256][draw.below(3)],
            port: None,
            priority: a_priority(draw),
            tolerates: draw.chance(300),
            zone: draw.chance(150).then(|| ZONES[draw.below(ZONES.len())]),
            apart: None,
            near: None,
            spread: false,
            volume: draw.chance(150),
            gated: draw.chance(100),
            scheduler: BATCH,
            own_cpus: false,
            must_use: false,
            may_be_taken_over: false,
            gang: None,
            quota: if draw.chance(500) { a_quota(draw) } else { None },
            tenure: Tenure::drawn(draw),
        }
    }

    /// One that asks for much of a quota and minds nothing else, so that quotas and nodes are full of its like.
    pub fn of_claimants(draw: &mut Draw) -> Self {
        Self {
            cpu_millis: [500, 1000][draw.below(2)],
            memory_mega: 64,
            tolerates: true,
            zone: None,
            volume: false,
            gated: false,
            quota: Some(LEAVES[draw.below(LEAVES.len())]),
            ..Self::of_members(draw)
        }
    }

    /// The same where there are reservations, load reports and layouts of CPUs.
    pub fn among_reservations(mut self, draw: &mut Draw) -> Self {
        self.may_be_taken_over = draw.chance(400);
        if draw.chance(600) {
            self.scheduler = KOORDINATOR;
            self.must_use = draw.chance(100);
            if draw.chance(250) {
                self.own_cpus = true;
                (self.cpu_millis, self.priority) = ([1000, 2000][draw.below(2)], PRIORITY_OF_OWN);
            }
        }
        self
    }

    /// The claim of a pod of this name.
    pub fn claim(name: &str) -> Value {
        json!({
            "metadata": { "name": name },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": CLASS,
                "resources": { "requests": { "storage": "1Gi" } },
            },
        })
    }

    /// The pod.
    pub fn pod(&self, name: &str) -> Value {
        let selector = |app: &str| json!({ "matchLabels": { "app": app } });
        let mut container = json!({
            "name": "main",
            "image": "image",
            "resources": { "requests": {
                "cpu": format!("{}m", self.cpu_millis),
                "memory": format!("{}Mi", self.memory_mega),
            } },
        });
        if let Some(port) = self.port {
            container["ports"] = json!([{ "containerPort": port, "hostPort": port }]);
        }
        let mut spec = json!({ "schedulerName": self.scheduler, "containers": [container] });
        if self.volume {
            let claim = json!({ "claimName": name });
            spec["volumes"] = json!([{ "name": "data", "persistentVolumeClaim": claim }]);
        }
        if self.gated {
            spec["schedulingGates"] = json!([{ "name": "example.com/gate" }]);
        }
        if self.priority > 0 {
            spec["priorityClassName"] = json!(format!("p{}", self.priority));
        }
        if self.tolerates {
            spec["tolerations"] = json!([{ "key": TAINT, "operator": "Exists" }]);
        }
        if let Some(zone) = self.zone {
            spec["nodeSelector"] = json!({ ZONE: zone });
        }
        let always = "requiredDuringSchedulingIgnoredDuringExecution";
        if let Some(reach) = self.apart {
            let term = json!({ "labelSelector": selector(self.app), "topologyKey": reach.key() });
            spec["affinity"]["podAntiAffinity"][always] = json!([term]);
        }
        if let Some(app) = self.near {
            let term = json!({ "labelSelector": selector(app), "topologyKey": ZONE });
            spec["affinity"]["podAffinity"][always] = json!([term]);
        }
        if self.spread {
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector(self.app),
            }]);
        }
        json!({ "metadata": self.metadata(name), "spec": spec })
    }

    fn metadata(&self, name: &str) -> Value {
        let mut metadata = json!({ "name": name, "labels": { "app": self.app } });
        if self.own_cpus {
            metadata["labels"][QOS_CLASS_LABEL] = json!("LSR");
        }
        if self.may_be_taken_over {
            metadata["labels"][PRE_ALLOCATABLE_LABEL] = json!("true");
        }
        if self.must_use {
            let wanted = json!({ "reservationSelector": { HELD_FOR: self.app } });
            metadata["annotations"][AFFINITY] = json!(wanted.to_string());
        }
        if let Some(quota) = self.quota {
            metadata["labels"][QUOTA_NAME_LABEL] = json!(quota);
        }
        match self.tenure {
            Tenure::Movable => {}
            Tenure::Fixed => metadata["labels"][PREEMPTIBLE_LABEL] = json!("false"),
            Tenure::Spared => metadata["labels"][SPARED_LABEL] = json!("true"),
        }
        if let Some(gang) = &self.gang {
            gang.sign(&mut metadata);
        }
        metadata
    }
}

/// A node as it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    pub zone: &'static str,
    pub cpu_millis: i64,
    pub memory_mega: i64,
    pub pods: i64,
}

impl Machine {
    pub fn drawn(draw: &mut Draw) -> Self {
        Self {
            zone: ZONES[draw.below(ZONES.len())],
            cpu_millis: [1000, 2000, 4000][draw.below(3)],
            memory_mega: [1024, 4096][draw.below(2)],
            pods: [4, 8, 20][draw.below(3)],
        }
    }

    pub fn node(&self, name: &str) -> Value {
        json!({
            "metadata": { "name": name, "labels": { HOST: name, ZONE: self.zone } },
            "status": self.status(),
        })
    }

    pub fn status(&self) -> Value {
        let amounts = json!({
            "cpu": format!("{}m", self.cpu_millis),
            "memory": format!("{}Mi", self.memory_mega),
            "pods": self.pods.to_string(),
        });
        json!({
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{ "type": "Ready", "status": "True" }],
        })
    }
}
