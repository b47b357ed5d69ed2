//! Reservations as they are made, as the server shows them, and what they and their users may take: the
//! rules of Koordinator as far as anything here asks for them, written down apart from the engine.

use std::collections::BTreeMap;

use api::reservation::{ALLOCATED, PRIORITY_LABEL};
use serde_json::{Value, json};

use crate::draw::Draw;
use crate::rules::Place;
use crate::shapes::{APPS, HELD_FOR, KOORDINATOR, MEGA, Shape};

/// A reservation as it is made.
#[derive(Debug, Clone)]
pub struct Plan {
    app: &'static str,
    cpu_millis: i64,
    memory_mega: i64,
    policy: Option<&'static str>,
    is_once: bool,
    ttl_seconds: Option<u32>,
    /// Whose pods it takes over, and whether many, where it takes over any.
    takes_over: Option<(&'static str, bool)>,
    is_urgent: bool,
}

impl Plan {
    pub fn drawn(draw: &mut Draw) -> Self {
        let mode = ["Default", "Cluster"][draw.below(2)];
        let takes_over = draw.chance(300).then(|| (mode, draw.chance(500)));
        let policies = [None, Some("Aligned"), Some("Restricted"), Some("Restricted")];
        let drawn = policies[draw.below(policies.len())];
        Self {
            app: APPS[draw.below(APPS.len())],
            cpu_millis: [500, 1000, 2000][draw.below(3)],
            memory_mega: [128, 512][draw.below(2)],
            policy: if takes_over.is_some() { Some("Restricted") } else { drawn },
            is_once: draw.chance(400),
            ttl_seconds: draw.chance(300).then(|| [20, 60, 200][draw.below(3)]),
            takes_over,
            is_urgent: draw.chance(300),
        }
    }

    /// What its template asks for.
    pub fn template(&self) -> Value {
        let requests = json!({ "cpu": format!("{}m", self.cpu_millis),
                               "memory": format!("{}Mi", self.memory_mega) });
        let container = json!({ "name": "main", "resources": { "requests": requests } });
        json!({ "spec": { "schedulerName": KOORDINATOR, "containers": [container] } })
    }

    pub fn object(&self, name: &str) -> Value {
        let owner = json!({ "labelSelector": { "matchLabels": { "app": self.app } } });
        let mut spec = json!({ "allocateOnce": self.is_once, "owners": [owner],
            "ttl": format!("{}s", self.ttl_seconds.unwrap_or(0)), "template": self.template() });
        if let Some(policy) = self.policy {
            spec["allocatePolicy"] = json!(policy);
        }
        if let Some((mode, many)) = self.takes_over {
            spec["preAllocation"] = json!(true);
            spec["preAllocationPolicy"] = json!({ "mode": mode, "enableMultiple": many });
        }
        // Its labels are those of a pod to others: it is none of the app.
        let mut metadata = json!({ "name": name, "labels": { HELD_FOR: self.app } });
        if self.is_urgent {
            metadata["labels"][PRIORITY_LABEL] = json!("5000");
        }
        json!({ "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
                "metadata": metadata, "spec": spec })
    }
}

/// A reservation as the server shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub uid: String,
    pub name: String,
    /// Where it holds something; empty where it does not.
    pub node: String,
    pub phase: String,
    pub cpu_millis: i64,
    pub memory_bytes: i64,
    pub is_restricted: bool,
    pub is_default: bool,
    pub is_once: bool,
    pub takes_over: bool,
    /// It takes over as many as it needs.
    pub takes_many: bool,
    pub is_going: bool,
    pub priority: i32,
    /// Pods that it says use it, and how much of its CPU.
    pub owners: Vec<String>,
    pub allocated_millis: i64,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// An amount of CPU, in thousandths.
pub fn millis(value: &Value) -> i64 {
    let text = value.as_str().unwrap_or_default();
    let whole = |text: &str| text.parse::<i64>().unwrap_or(0);
    text.strip_suffix('m').map_or_else(|| whole(text) * 1000, whole)
}

/// An amount of memory.
pub fn bytes(value: &Value) -> i64 {
    let text = value.as_str().unwrap_or_default();
    let of =
        |suffix: &str, times: i64| Some(text.strip_suffix(suffix)?.parse::<i64>().ok()? * times);
    of("Mi", MEGA).or_else(|| of("Gi", 1024 * MEGA)).unwrap_or_else(|| text.parse().unwrap_or(0))
}

impl Held {
    pub fn read(object: &Value) -> Self {
        let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
        let phase = text(&status["phase"]);
        let is_held = phase == "Available" && !status["nodeName"].is_null();
        let asked = &spec["template"]["spec"]["containers"][0]["resources"]["requests"];
        let amounts = if is_held { &status["allocatable"] } else { asked };
        let owners = status["currentOwners"].as_array().into_iter().flatten();
        let mut owners: Vec<String> = owners.map(|one| text(&one["uid"])).collect();
        owners.sort_unstable();
        let priority = metadata["labels"][PRIORITY_LABEL].as_str();
        Self {
            uid: text(&metadata["uid"]),
            name: text(&metadata["name"]),
            node: if is_held { text(&status["nodeName"]) } else { String::new() },
            cpu_millis: millis(&amounts["cpu"]),
            memory_bytes: bytes(&amounts["memory"]),
            is_restricted: spec["allocatePolicy"] == "Restricted",
            is_default: !matches!(spec["allocatePolicy"].as_str(), Some("Restricted" | "Aligned")),
            is_once: spec["allocateOnce"] != false,
            takes_over: spec["preAllocation"] == true,
            takes_many: spec["preAllocationPolicy"]["enableMultiple"] == true,
            is_going: !metadata["deletionTimestamp"].is_null(),
            // Where it says nothing, nothing goes before it.
            priority: priority.and_then(|one| one.parse().ok()).unwrap_or(i32::MAX),
            allocated_millis: millis(&status["allocated"]["cpu"]),
            owners,
            phase,
        }
    }

    /// Whether it waits for a node.
    pub fn waits(&self) -> bool {
        matches!(&*self.phase, "" | "Pending") && !self.is_going
    }
}

/// The uid of the reservation that annotations say is used; empty where none is.
pub fn used(annotations: &Value) -> String {
    let told = annotations[ALLOCATED].as_str().unwrap_or_default();
    let told: Value = serde_json::from_str(told).unwrap_or_default();
    text(&told["uid"])
}

/// What of a node is held and used by no pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spare {
    pub cpu_millis: i64,
    pub memory_bytes: i64,
    pub pods: i64,
}

/// What pods of one node use of a reservation.
pub fn use_of<'a>(uid: &str, users: impl Iterator<Item = (&'a str, &'a Shape)>) -> Spare {
    let mut sum = Spare::default();
    for (_, shape) in users.filter(|(used, _)| *used == uid) {
        sum.cpu_millis += shape.cpu_millis;
        sum.memory_bytes += shape.memory_mega * MEGA;
        sum.pods += 1;
    }
    sum
}

/// What of each node is held and used by none of these pods, each with its node and what it uses.
pub fn spares<'a>(
    held: impl Iterator<Item = &'a Held>,
    pods: &[(&str, &str, &Shape)],
) -> BTreeMap<String, Spare> {
    let mut spares: BTreeMap<String, Spare> = BTreeMap::new();
    for own in held.filter(|own| !own.node.is_empty()) {
        let there = pods.iter().filter(|(node, _, _)| *node == own.node);
        let used = use_of(&own.uid, there.map(|(_, used, shape)| (*used, *shape)));
        let spare = spares.entry(own.node.clone()).or_default();
        spare.cpu_millis += (own.cpu_millis - used.cpu_millis).max(0);
        spare.memory_bytes += (own.memory_bytes - used.memory_bytes).max(0);
        spare.pods += (1 - used.pods).max(0);
    }
    spares
}

/// What is left of a node for pods where this is held.
pub fn reduced(place: &Place, spare: Spare) -> Place {
    Place {
        cpu_millis: place.cpu_millis - spare.cpu_millis,
        memory_bytes: place.memory_bytes - spare.memory_bytes,
        pods: place.pods - spare.pods,
        ..place.clone()
    }
}

/// What users take of a reservation that may not be, by what it says itself.
pub fn overused(own: &Held, used: Spare) -> Option<String> {
    if own.is_once && used.pods > 1 {
        return Some(format!("{} is for one pod and {} use it", own.name, used.pods));
    }
    let is_too_much = used.cpu_millis > own.cpu_millis || used.memory_bytes > own.memory_bytes;
    (own.is_restricted && !own.node.is_empty() && used.pods > 0 && is_too_much)
        .then(|| format!("{used:?} is used of {own:?}"))
}
