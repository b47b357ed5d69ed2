//! Pods and nodes as a seed draws them, and as they are written.

use api::qos::QOS_CLASS_LABEL;
use api::reservation::{AFFINITY, PRE_ALLOCATABLE_LABEL};
use serde_json::{Value, json};

use crate::draw::Draw;

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
}

/// The names of the profiles. The second one fills nodes instead of emptying them.
pub const PROFILES: [&str; 2] = ["default-scheduler", "packer"];
/// The name of the profile that uses reservations.
pub const KOORDINATOR: &str = "koord-scheduler";
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
        json!({ "metadata": metadata, "spec": spec })
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
