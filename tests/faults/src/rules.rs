//! When a pod may be on a node: the rules of Kubernetes as far as the pods here ask for anything,
//! written down from its documentation and apart from the engine.

use std::collections::BTreeMap;

use crate::held::{Spare, reduced};
use crate::shapes::{MEGA, Reach, Shape, TAINT, ZONE};

/// A node, as somebody knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub zone: String,
    pub cpu_millis: i64,
    pub memory_bytes: i64,
    pub pods: i64,
    pub is_cordoned: bool,
    pub is_tainted: bool,
}

impl Place {
    pub fn of(fact: &engine::fact::NodeFact) -> Self {
        Self {
            zone: fact.labels.get(ZONE).map(ToString::to_string).unwrap_or_default(),
            cpu_millis: fact.allocatable.cpu_millis,
            memory_bytes: fact.allocatable.memory_bytes,
            pods: fact.pods_allowed,
            is_cordoned: fact.unschedulable,
            is_tainted: fact.taints.iter().any(|taint| taint.key == TAINT),
        }
    }

    /// Whether the other one carries as much.
    pub fn carries_like(&self, other: &Self) -> bool {
        let amounts = |place: &Self| (place.cpu_millis, place.memory_bytes, place.pods);
        amounts(self) == amounts(other)
    }
}

/// A pod on a node.
#[derive(Debug, Clone)]
pub struct Resident<'a> {
    pub shape: &'a Shape,
    pub node: &'a str,
    pub is_going: bool,
}

/// Nodes and who is there.
pub struct View<'a> {
    pub places: &'a BTreeMap<String, Place>,
    pub residents: Vec<Resident<'a>>,
    /// What of nodes is held and used by no pod.
    pub spares: BTreeMap<String, Spare>,
}

impl View<'_> {
    /// Why a pod may not be on a node, if so.
    pub fn refuses(&self, shape: &Shape, node: &str) -> Option<String> {
        let Some(place) = self.places.get(node) else {
            return Some("there is no such node".into());
        };
        if place.is_cordoned {
            return Some("the node is cordoned".into());
        }
        if place.is_tainted && !shape.tolerates {
            return Some("the node is tainted".into());
        }
        if shape.zone.is_some_and(|zone| zone != place.zone) {
            return Some("the node is in another zone".into());
        }
        let spare = self.spares.get(node).copied().unwrap_or_default();
        crowds(&reduced(place, spare), &self.on(node), shape)
            .or_else(|| self.lacks_distance(shape, node))
            .or_else(|| self.lacks_company(shape, place))
            .or_else(|| self.skews(shape, place))
    }

    fn on(&self, node: &str) -> Vec<&Shape> {
        self.residents.iter().filter(|one| one.node == node).map(|one| one.shape).collect()
    }

    fn zone(&self, node: &str) -> Option<&str> {
        self.places.get(node).map(|place| &*place.zone)
    }

    fn lacks_distance(&self, shape: &Shape, node: &str) -> Option<String> {
        let zone = self.zone(node);
        let within = |reach: Option<Reach>, other: &str| match reach {
            None => false,
            Some(Reach::Host) => other == node && zone.is_some(),
            Some(Reach::Zone) => zone.is_some() && self.zone(other) == zone,
        };
        let like = self.residents.iter().filter(|one| one.shape.app == shape.app);
        let mut near =
            like.filter(|one| within(shape.apart, one.node) || within(one.shape.apart, one.node));
        near.next().map(|one| format!("a pod of app {} is too near, on {}", shape.app, one.node))
    }

    fn lacks_company(&self, shape: &Shape, place: &Place) -> Option<String> {
        let app = shape.near?;
        let known = self.residents.iter().filter(|one| one.shape.app == app);
        let zones: Vec<&str> = known.filter_map(|one| self.zone(one.node)).collect();
        let is_first = zones.is_empty() && app == shape.app;
        let is_near = zones.contains(&&*place.zone);
        (!is_first && !is_near).then(|| format!("no pod of app {app} is in the zone"))
    }

    fn skews(&self, shape: &Shape, place: &Place) -> Option<String> {
        if !shape.spread {
            return None;
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for other in self.places.values() {
            if shape.zone.is_none_or(|zone| zone == other.zone) {
                counts.entry(&other.zone).or_default();
            }
        }
        for one in self.residents.iter().filter(|one| one.shape.app == shape.app && !one.is_going) {
            if let Some(count) = self.zone(one.node).and_then(|zone| counts.get_mut(zone)) {
                *count += 1;
            }
        }
        let least = counts.values().min().copied().unwrap_or(0);
        let own = counts.get(&*place.zone).copied().unwrap_or(0);
        (own + 1 > least + 1)
            .then(|| format!("zone {} would have {}, another {least}", place.zone, own + 1))
    }
}

/// What of a node one more pod takes too much of.
pub fn crowds(place: &Place, others: &[&Shape], shape: &Shape) -> Option<String> {
    if let Some(port) = shape.port.filter(|port| others.iter().any(|one| one.port == Some(*port))) {
        return Some(format!("port {port} is taken"));
    }
    let all: Vec<&Shape> = others.iter().copied().chain([shape]).collect();
    overfills(place, &all)
}

/// What of a node these pods take too much of.
pub fn exceeds(place: &Place, pods: &[&Shape]) -> Option<String> {
    let mut ports: Vec<u16> = pods.iter().filter_map(|pod| pod.port).collect();
    ports.sort_unstable();
    let twice = ports.windows(2).find(|pair| pair[0] == pair[1]);
    overfills(place, pods).or_else(|| twice.map(|twice| format!("port {} twice", twice[0])))
}

/// What of a node's amounts these pods take too much of: ports that some of them have in common are no fault of
/// what else comes there.
pub fn overfills(place: &Place, pods: &[&Shape]) -> Option<String> {
    let cpu: i64 = pods.iter().map(|pod| pod.cpu_millis).sum();
    let memory: i64 = pods.iter().map(|pod| pod.memory_mega * MEGA).sum();
    let count = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    if cpu > place.cpu_millis {
        return Some(format!("{cpu}m of {}m cpu", place.cpu_millis));
    }
    if memory > place.memory_bytes {
        return Some(format!("{memory} of {} bytes", place.memory_bytes));
    }
    (count > place.pods).then(|| format!("{count} of {} pods", place.pods))
}
