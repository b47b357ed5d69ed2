//! What is true on the server, and what must not be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chassis::clock::Clock;
use scheduler::bind::Outcome;
use serde_json::Value;

use crate::log::Log;
use crate::rules::{Place, Resident, View, exceeds};
use crate::shapes::{MEGA, Shape, TAINT, ZONE};

/// For how long a change may be unknown to a scheduler that has just begun: longer than any watch
/// lags here.
const KNOWN_WITHIN: Duration = Duration::from_secs(40);

/// A Binding on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    pub who: usize,
    pub name: String,
    pub uid: String,
    pub node: String,
    /// How often that scheduler had decided on a node for the pod.
    pub number: u32,
}

/// A pod on the server.
#[derive(Debug, Clone)]
pub struct Standing {
    pub uid: String,
    pub name: String,
    pub node: String,
    pub nominated: String,
    pub reason: String,
    pub is_going: bool,
    pub is_ended: bool,
}

/// All that the server holds.
#[derive(Debug, Default)]
pub struct Snapshot {
    pub places: BTreeMap<String, Place>,
    pub pods: Vec<Standing>,
}

#[derive(Default)]
struct Truth {
    shapes: BTreeMap<String, Shape>,
    /// Where pods are, by uid.
    bound: BTreeMap<String, String>,
    /// Pods that somebody bound who is not ours.
    taken: BTreeSet<String>,
    /// How often a scheduler decided on a node for a pod.
    asked: BTreeMap<(usize, String), u32>,
    /// Decisions that were said to be over without a Binding.
    over: BTreeSet<(usize, String, u32)>,
    /// Pods that were said to be gone.
    gone: Vec<String>,
    /// Nodes on which something happened that a scheduler may not know.
    disturbed: BTreeMap<String, Duration>,
    /// Who decided last.
    decider: usize,
    landings: Vec<(Duration, usize, String)>,
}

/// One who knows what is true; clones share it.
#[derive(Clone)]
pub struct Judge {
    clock: Clock,
    log: Log,
    truth: Arc<Mutex<Truth>>,
}

impl Judge {
    pub fn new(clock: &Clock, log: &Log) -> Self {
        Self { clock: clock.clone(), log: log.clone(), truth: Arc::default() }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Truth) -> T) -> T {
        act(&mut self.truth.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    /// There will be a pod of this name and shape.
    pub fn expect(&self, name: &str, shape: &Shape) {
        self.with(|truth| truth.shapes.insert(name.to_owned(), shape.clone()));
    }

    pub fn shape(&self, name: &str) -> Option<Shape> {
        self.with(|truth| truth.shapes.get(name).cloned())
    }

    /// A node changed, or somebody else used it.
    pub fn disturbed(&self, node: &str) {
        let now = self.clock.monotonic();
        self.with(|truth| truth.disturbed.insert(node.to_owned(), now));
    }

    /// Somebody who is not ours bound a pod.
    pub fn taken(&self, uid: &str, node: &str) {
        self.disturbed(node);
        self.with(|truth| truth.taken.insert(uid.to_owned()));
        self.bind(uid, node);
    }

    fn bind(&self, uid: &str, node: &str) {
        let old = self.with(|truth| truth.bound.insert(uid.to_owned(), node.to_owned()));
        if let Some(old) = old {
            self.log.violated(&format!("pod {uid} is bound twice: to {old}, then to {node}"));
        }
    }

    /// A scheduler decided on a node.
    pub fn decided(&self, who: usize, uid: &str) {
        let now = self.clock.monotonic();
        self.with(|truth| {
            *truth.asked.entry((who, uid.to_owned())).or_default() += 1;
            if std::mem::replace(&mut truth.decider, who) != who {
                // What the one before did last, the new one may not have heard of.
                for (at, other, node) in &truth.landings {
                    if *other != who && now.saturating_sub(*at) < KNOWN_WITHIN {
                        truth.disturbed.insert(node.clone(), now);
                    }
                }
            }
        });
    }

    /// A Binding was sent.
    pub fn sent(&self, who: usize, (name, uid, node): (String, String, String)) -> Binding {
        let number = self.with(|truth| truth.asked.get(&(who, uid.clone())).copied());
        Binding { who, name, uid, node, number: number.unwrap_or(0) }
    }

    /// A Binding was carried out.
    pub fn landed(&self, binding: &Binding) {
        let Binding { who, name, uid, node, number } = binding;
        let now = self.clock.monotonic();
        let is_over = self.with(|truth| {
            if truth.decider != *who {
                truth.disturbed.insert(node.clone(), now);
            }
            truth.landings.push((now, *who, node.clone()));
            truth.over.contains(&(*who, uid.clone(), *number))
        });
        self.bind(uid, node);
        if is_over {
            let what = format!("{name} is bound to {node} after s{who} took it for not bound");
            self.log.violated(&what);
        }
    }

    /// A scheduler holds this for what became of its Binding.
    pub fn concluded(&self, who: usize, uid: &str, node: Option<&str>, outcome: &Outcome) {
        let bound = self.with(|truth| truth.bound.get(uid).cloned());
        let is_true = match outcome {
            Outcome::Bound => bound.as_deref() == node,
            Outcome::Elsewhere(other) => bound.as_deref() == Some(other),
            // It was so when it was read; others may have been faster than the news of it.
            Outcome::NotBound(_) => bound.is_none() || self.with(|truth| truth.taken.contains(uid)),
            Outcome::Gone => {
                self.with(|truth| truth.gone.push(uid.to_owned()));
                true
            }
        };
        if !is_true {
            let what = format!("s{who} holds {outcome:?} for true of {uid}, which is on {bound:?}");
            self.log.violated(&what);
        }
        if *outcome != Outcome::Bound {
            self.with(|truth| {
                let number = truth.asked.get(&(who, uid.to_owned())).copied().unwrap_or(0);
                truth.over.insert((who, uid.to_owned(), number));
            });
        }
    }

    /// Holds what the server shows against what may be.
    pub fn inspect(&self, snapshot: &Snapshot) {
        let gone = self.with(|truth| std::mem::take(&mut truth.gone));
        for pod in &snapshot.pods {
            if gone.contains(&pod.uid) {
                self.log.violated(&format!("{} was held for gone and is there", pod.name));
            }
            let bound = self.with(|truth| truth.bound.get(&pod.uid).cloned()).unwrap_or_default();
            if bound != pod.node {
                let what = format!("{} was bound to {bound:?} and is on {:?}", pod.name, pod.node);
                self.log.violated(&what);
            }
        }
        for (name, place) in &snapshot.places {
            let shapes = self.with(|truth| truth.shapes.clone());
            let living = snapshot.pods.iter().filter(|pod| pod.node == *name && !pod.is_ended);
            let there: Vec<&Shape> = living.filter_map(|pod| shapes.get(&pod.name)).collect();
            let is_excused = self.with(|truth| truth.disturbed.contains_key(name));
            if let Some(what) = exceeds(place, &there).filter(|_| !is_excused) {
                self.log.violated(&format!("node {name} is exceeded: {what}"));
            }
        }
    }

    /// After the faults have ended and enough time has passed: whoever fits is bound.
    pub fn conclude(&self, snapshot: &Snapshot) {
        let shapes = self.with(|truth| truth.shapes.clone());
        let waits = |pod: &&Standing| pod.node.is_empty() && !pod.is_ended && !pod.is_going;
        for pod in snapshot.pods.iter().filter(waits) {
            let Some(shape) = shapes.get(&pod.name) else { continue };
            let view = |with_nominated: bool| {
                let residents = snapshot.pods.iter().filter(|one| !one.is_ended);
                let residents = residents.filter_map(|one| {
                    let shape = shapes.get(&one.name)?;
                    let is_there = !one.node.is_empty();
                    let node = if is_there { &one.node } else { &one.nominated };
                    let counts = is_there || with_nominated && one.uid != pod.uid;
                    (counts && !node.is_empty()).then_some(Resident {
                        shape,
                        node,
                        is_going: one.is_going,
                    })
                });
                View { places: &snapshot.places, residents: residents.collect() }
            };
            let (plain, nominated) = (view(false), view(true));
            let fits = |node: &&String| {
                plain.refuses(shape, node).is_none() && nominated.refuses(shape, node).is_none()
            };
            if let Some(node) = snapshot.places.keys().find(fits) {
                self.log.violated(&format!("{} fits on {node} and is not bound", pod.name));
            } else if pod.reason != "Unschedulable" {
                let what =
                    format!("{} fits nowhere, and its condition says {:?}", pod.name, pod.reason);
                self.log.violated(&what);
            }
        }
    }
}

impl Standing {
    pub fn read(pod: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let scheduled = conditions.filter(|one| one["type"] == "PodScheduled");
        let reason = scheduled.map(|one| text(&one["reason"])).next().unwrap_or_default();
        Self {
            uid: text(&metadata["uid"]),
            name: text(&metadata["name"]),
            node: text(&spec["nodeName"]),
            nominated: text(&status["nominatedNodeName"]),
            reason,
            is_going: !metadata["deletionTimestamp"].is_null(),
            is_ended: status["phase"] == "Succeeded",
        }
    }
}

impl Place {
    pub fn read(node: &Value) -> Self {
        let allocatable = &node["status"]["allocatable"];
        let number = |value: &Value, suffix: &str| -> i64 {
            let text = value.as_str().unwrap_or_default();
            let whole = |text: &str| text.parse::<i64>().unwrap_or(0);
            text.strip_suffix(suffix).map_or_else(|| whole(text) * 1000, whole)
        };
        let mega = allocatable["memory"].as_str().unwrap_or_default();
        let mega = match mega.strip_suffix("Gi") {
            Some(giga) => giga.parse::<i64>().unwrap_or(0) * 1024,
            None => mega.trim_end_matches("Mi").parse().unwrap_or(0),
        };
        let pods = allocatable["pods"].as_str().unwrap_or_default();
        let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
        Self {
            zone: node["metadata"]["labels"][ZONE].as_str().unwrap_or_default().to_owned(),
            cpu_millis: number(&allocatable["cpu"], "m"),
            memory_bytes: mega * MEGA,
            pods: pods.parse().unwrap_or(0),
            is_cordoned: node["spec"]["unschedulable"] == true,
            is_tainted: taints.any(|taint| taint["key"] == TAINT),
        }
    }
}
